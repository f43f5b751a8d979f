//! RAID 1: mirroring on all drives.
//!
//! ```text
//! RAID 1, 3 drives
//! drive    0    1    2
//! row 0    0   0'  0''
//! row 1    1   1'  1''
//! ```
//!
//! A stripe is one strip; drive `j` stores copy `j`.

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid1,
    name: "raid1",
    title: "RAID 1",
    summary: "mirroring: every drive holds the whole volume",
    family: Family::Mirrored,
    min_drives: DriveCount(2),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 2..=32,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "1",
        survives_at_least: "n - 1",
        survives_at_most: "n - 1",
        write_penalty: "n",
    },
};
