//! RAID 4: striping with parity on one drive.
//!
//! ```text
//! RAID 4, 4 drives, parity-last
//! drive    0    1    2    3
//! row 0    0    1    2    P
//! row 1    3    4    5    P
//!
//! RAID 4, 4 drives, parity-first
//! drive    0    1    2    3
//! row 0    P    0    1    2
//! row 1    P    3    4    5
//! ```
//!
//! The default has parity on the last drive: Linux md level 4, DDF qualifier 1.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid4,
    name: "raid4",
    title: "RAID 4",
    summary: "striping with parity on one drive: any one drive may fail",
    family: Family::Parity,
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 3..=32,
    parity_strips: 1,
    spare_strips: 0,
    parity_arrangements: &[ParityArrangement::ParityLast, ParityArrangement::ParityFirst],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 1",
        survives_at_least: "1",
        survives_at_most: "1",
        write_penalty: "4, at most n",
    },
};
