//! RAID 0: striping without redundancy.
//!
//! ```text
//! RAID 0, 4 drives
//! drive    0    1    2    3
//! row 0    0    1    2    3
//! row 1    4    5    6    7
//! ```
//!
//! A stripe is one row: data strip `i` is on drive `i`.

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid0,
    name: "raid0",
    title: "RAID 0",
    summary: "striping without redundancy: the loss of any drive loses the volume",
    family: Family::Striped,
    // Striping needs two drives. More than 64 would make the loss of the volume too likely.
    min_drives: DriveCount(2),
    max_drives: DriveCount(64),
    spans: 1..=1,
    drives_per_span: 2..=64,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n",
        survives_at_least: "0",
        survives_at_most: "0",
        write_penalty: "1",
    },
};
