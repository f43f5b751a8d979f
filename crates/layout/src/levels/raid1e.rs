//! RAID 1E: striped mirrors over any number of drives, including odd numbers.
//!
//! ```text
//! RAID 1E, 5 drives, near
//! drive    0    1    2    3    4
//! row 0    0   0'    1   1'    2
//! row 1   2'    3   3'    4   4'
//! row 2    5   5'    6   6'    7
//! row 3   7'    8   8'    9   9'
//!
//! RAID 1E, 5 drives, offset
//! drive    0    1    2    3    4
//! row 0    0    1    2    3    4
//! row 1   4'   0'   1'   2'   3'
//! row 2    5    6    7    8    9
//! row 3   9'   5'   6'   7'   8'
//!
//! RAID 1E, 5 drives, far
//! drive    0    1    2    3    4
//! row 0    0    1    2    3    4
//! row 1    5    6    7    8    9
//! row 2   4'   0'   1'   2'   3'
//! row 3   9'   5'   6'   7'   8'
//!
//! RAID 1E, 4 drives, near, 3 copies
//! drive    0    1    2    3
//! row 0    0   0'  0''    1
//! row 1   1'  1''    2   2'
//! row 2  2''    3   3'  3''
//! ```
//!
//! A stripe has as many rows as copies, and as many data strips as drives, so that each layout
//! repeats with each stripe. A drive may store several cells of a stripe in different rows, but
//! never two copies of one strip. Rows at the end of the drives that do not form a whole stripe are
//! unused.
//!
//! The level has two copies; more are supported for imported arrays. The default is `near`: DDF's
//! qualifier 0 ("adjacent") and Linux md's default. `offset` is DDF's qualifier 1. `far` exists
//! only in Linux md, and depends on the member size: the second half of a member has the second
//! copies.

use crate::{Family, Formulas, Level, LevelRow, MirrorArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid1e,
    name: "raid1e",
    title: "RAID 1E",
    summary: "striped mirrors over any number of drives, odd ones too: any one drive may fail",
    family: Family::Mirrored,
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 3..=32,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[
        MirrorArrangement::Near,
        MirrorArrangement::Offset,
        MirrorArrangement::Far,
    ],
    formulas: Formulas {
        usable: "n / c",
        survives_at_least: "c - 1",
        survives_at_most: "n - n / c, rounded down",
        write_penalty: "c",
    },
};
