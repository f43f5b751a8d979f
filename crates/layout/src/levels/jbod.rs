//! One drive passed through: JBOD.
//!
//! ```text
//! JBOD, 1 drive
//! drive    0
//! row 0    0
//! row 1    1
//! ```
//!
//! The volume is the drive's data area, byte by byte. DDF calls it a single disk. Several drives
//! are several volumes.

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Jbod,
    name: "jbod",
    title: "JBOD",
    summary: "one drive as it is: its loss is the loss of the volume",
    family: Family::Striped,
    min_drives: DriveCount(1),
    max_drives: DriveCount(1),
    spans: 1..=1,
    drives_per_span: 1..=1,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "1",
        survives_at_least: "0",
        survives_at_most: "0",
        write_penalty: "1",
    },
};
