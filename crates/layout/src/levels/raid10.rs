//! RAID 10: striping over mirrors of 2 or 3 drives.
//!
//! ```text
//! RAID 10, 6 drives in 3 spans
//! drive    0    1  |    2    3  |    4    5
//! row 0    0   0'  |    1   1'  |    2   2'
//! row 1    3   3'  |    4   4'  |    5   5'
//!
//! RAID 10, 6 drives in 2 spans
//! drive    0    1    2  |    3    4    5
//! row 0    0   0'  0''  |    1   1'  1''
//! row 1    2   2'  2''  |    3   3'  3''
//! ```
//!
//! A stripe is one row of all spans: data strip `i` is in span `i`, and each drive of that span has
//! a copy. This equals RAID 1E `near` if the number of drives is a multiple of the copies. DDF
//! describes it as RAID 1 with a secondary level of striping, Linux md as "near".

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid10,
    name: "raid10",
    title: "RAID 10",
    summary: "striping over mirrors of 2 or 3 drives: one drive of each mirror must be left",
    family: Family::Mirrored,
    min_drives: DriveCount(4),
    max_drives: DriveCount(48),
    spans: 2..=16,
    drives_per_span: 2..=3,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "s",
        survives_at_least: "w - 1",
        survives_at_most: "n - s",
        write_penalty: "w",
    },
};
