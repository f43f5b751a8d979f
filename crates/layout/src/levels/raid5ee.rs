//! RAID 5EE: RAID 5 with a hot spare spread over all drives.
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
//! Each stripe has a spare strip (S) beside parity, so that all drives work, and a drive that fails is
//! rebuilt into strips on all others. [`crate::StripeMap::relocated`] is the stripe afterwards: the lost
//! strip lies where the spare strip was. Stripes whose spare strip was on the failed drive lose nothing. Then
//! the volume is RAID 5 on the drives that are left, and survives another loss, until the failed drive is
//! replaced and the strips are moved back.
//!
//! The spare strip follows parity, wrapping, in the same row, as SNIA DDF has it (primary level 0x25;
//! qualifiers 0, 2 and 3 are `right-asymmetric`, `left-asymmetric` and `left-symmetric`). In the left ones
//! the pair moves down and ends row 0. The default is `left-symmetric`: consecutive strips of the volume are
//! on consecutive drives, as in RAID 5. DDF's RAID 5E (0x15), which has its spare at the end of each drive,
//! is RAID 5 that uses less of each drive.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid5ee,
    name: "raid5ee",
    title: "RAID 5EE",
    summary: "RAID 5 with a hot spare spread over all drives: any one drive may fail, and another after the rebuild into the spare",
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
