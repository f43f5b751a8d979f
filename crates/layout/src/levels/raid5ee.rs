//! RAID 5EE: RAID 5 with a distributed spare.
//!
//! ```text
//! RAID 5EE, 5 drives, left-symmetric
//! drive    0    1    2    3    4
//! row 0    0    1    2    P    S
//! row 1    4    5    P    S    3
//! row 2    8    P    S    6    7
//! row 3    P    S    9   10   11
//! row 4    S   12   13   14    P
//!
//! RAID 5EE, 5 drives, left-asymmetric
//! drive    0    1    2    3    4
//! row 0    0    1    2    P    S
//! row 1    3    4    P    S    5
//! row 2    6    P    S    7    8
//! row 3    P    S    9   10   11
//! row 4    S   12   13   14    P
//!
//! RAID 5EE, 5 drives, right-asymmetric
//! drive    0    1    2    3    4
//! row 0    P    S    0    1    2
//! row 1    3    P    S    4    5
//! row 2    6    7    P    S    8
//! row 3    9   10   11    P    S
//! row 4    S   12   13   14    P
//! ```
//!
//! Each stripe has a spare strip (S) next to parity: all drives work, and a failed drive is rebuilt
//! into the spare strips of all others. [`crate::StripeMap::relocated`] returns the stripe after
//! that: the lost strip is at the position of the spare strip. Stripes with their spare strip on
//! the failed drive lose nothing. The volume is then RAID 5 on the remaining drives, and survives
//! another failure. Replacing the failed drive moves the strips back.
//!
//! The spare strip follows parity in the same row, wrapping, as in SNIA DDF (primary level 0x25;
//! qualifiers 0, 2 and 3 are `right-asymmetric`, `left-asymmetric` and `left-symmetric`). In the
//! left layouts the pair moves down, starting at the end of row 0. The default is `left-symmetric`:
//! consecutive strips of the volume are on consecutive drives, as in RAID 5. DDF's RAID 5E (0x15),
//! with its spare at the end of each drive, is RAID 5 on a part of each drive.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid5ee,
    name: "raid5ee",
    title: "RAID 5EE",
    summary: "RAID 5 with a hot spare spread over all drives: any one drive may fail, and another \
        after the rebuild into the spare",
    family: Family::Parity,
    min_drives: DriveCount(4),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 4..=32,
    parity_strips: 1,
    spare_strips: 1,
    parity_arrangements: &[
        ParityArrangement::LeftSymmetric,
        ParityArrangement::LeftAsymmetric,
        ParityArrangement::RightAsymmetric,
    ],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 2",
        survives_at_least: "1",
        survives_at_most: "1",
        write_penalty: "4, at most n - 1",
    },
};
