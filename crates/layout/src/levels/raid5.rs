//! RAID 5: striping with one rotating parity strip per stripe.
//!
//! ```text
//! RAID 5, 4 drives, left-symmetric
//! drive    0    1    2    3
//! row 0    0    1    2    P
//! row 1    4    5    P    3
//! row 2    8    P    6    7
//! row 3    P    9   10   11
//!
//! RAID 5, 4 drives, left-asymmetric
//! drive    0    1    2    3
//! row 0    0    1    2    P
//! row 1    3    4    P    5
//! row 2    6    P    7    8
//! row 3    P    9   10   11
//!
//! RAID 5, 4 drives, right-symmetric
//! drive    0    1    2    3
//! row 0    P    0    1    2
//! row 1    5    P    3    4
//! row 2    7    8    P    6
//! row 3    9   10   11    P
//!
//! RAID 5, 4 drives, right-asymmetric
//! drive    0    1    2    3
//! row 0    P    0    1    2
//! row 1    3    P    4    5
//! row 2    6    7    P    8
//! row 3    9   10   11    P
//! ```
//!
//! The rules are those of Linux md (`raid5_compute_sector`), tested with arrays written by it.
//! `parity-first` and `parity-last` are RAID 4 with the name RAID 5, as Linux md uses them during
//! level changes.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid5,
    name: "raid5",
    title: "RAID 5",
    summary: "striping with one rotating parity strip per stripe: any one drive may fail",
    family: Family::Parity,
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 3..=32,
    parity_strips: 1,
    spare_strips: 0,
    parity_arrangements: &[
        ParityArrangement::LeftSymmetric,
        ParityArrangement::LeftAsymmetric,
        ParityArrangement::RightSymmetric,
        ParityArrangement::RightAsymmetric,
        ParityArrangement::ParityFirst,
        ParityArrangement::ParityLast,
    ],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 1",
        survives_at_least: "1",
        survives_at_most: "1",
        write_penalty: "4, at most n",
    },
};
