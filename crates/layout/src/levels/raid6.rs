//! RAID 6: striping with two rotating parity strips per stripe.
//!
//! ```text
//! RAID 6, 5 drives, ddf-n-continue
//! drive    0    1    2    3    4
//! row 0    0    1    2    Q    P
//! row 1    4    5    Q    P    3
//! row 2    8    Q    P    6    7
//! row 3    Q    P    9   10   11
//! row 4    P   12   13   14    Q
//!
//! RAID 6, 5 drives, ddf-n-restart
//! drive    0    1    2    3    4
//! row 0    0    1    2    P    Q
//! row 1    3    4    P    Q    5
//! row 2    6    P    Q    7    8
//! row 3    P    Q    9   10   11
//! row 4    Q   12   13   14    P
//!
//! RAID 6, 5 drives, ddf-zero-restart
//! drive    0    1    2    3    4
//! row 0    P    Q    0    1    2
//! row 1    3    P    Q    4    5
//! row 2    6    7    P    Q    8
//! row 3    9   10   11    P    Q
//! row 4    Q   12   13   14    P
//!
//! RAID 6, 5 drives, left-symmetric
//! drive    0    1    2    3    4
//! row 0    Q    0    1    2    P
//! row 1    3    4    5    P    Q
//! row 2    7    8    P    Q    6
//! row 3   11    P    Q    9   10
//! row 4    P    Q   12   13   14
//!
//! RAID 6, 5 drives, parity-last
//! drive    0    1    2    3    4
//! row 0    0    1    2    P    Q
//! row 1    3    4    5    P    Q
//! row 2    6    7    8    P    Q
//! row 3    9   10   11    P    Q
//! row 4   12   13   14    P    Q
//!
//! RAID 6, 5 drives, left-symmetric-6
//! drive    0    1    2    3    4
//! row 0    0    1    2    P    Q
//! row 1    4    5    P    3    Q
//! row 2    8    P    6    7    Q
//! row 3    P    9   10   11    Q
//! row 4   12   13   14    P    Q
//! ```
//!
//! Q multiplies each data strip by 2 to the power of an exponent
//! ([`crate::StripeMap::q_exponent`]). The `ddf-` layouts use the drive's number, as Linux md does
//! for the same names. The other layouts count the data strips from the one after Q, wrapping.
//! Positions and exponents are tested with arrays written by Linux md, except for
//! `right-symmetric`, `right-asymmetric-6` and `parity-first-6`.
//!
//! The default is `ddf-n-continue`: DDF can describe it, so other controllers and Linux md can read
//! the array; and consecutive strips of the volume are on consecutive drives, except for parity.
//! The `-6` layouts are RAID 5 with an added drive for Q; Linux md creates them when it converts
//! RAID 5 to RAID 6.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid6,
    name: "raid6",
    title: "RAID 6",
    summary: "striping with two rotating parity strips per stripe: any two drives may fail",
    family: Family::Parity,
    min_drives: DriveCount(4),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 4..=32,
    parity_strips: 2,
    spare_strips: 0,
    parity_arrangements: &[
        ParityArrangement::DdfNContinue,
        ParityArrangement::DdfNRestart,
        ParityArrangement::DdfZeroRestart,
        ParityArrangement::LeftSymmetric,
        ParityArrangement::LeftAsymmetric,
        ParityArrangement::RightSymmetric,
        ParityArrangement::RightAsymmetric,
        ParityArrangement::ParityFirst,
        ParityArrangement::ParityLast,
        ParityArrangement::LeftSymmetric6,
        ParityArrangement::LeftAsymmetric6,
        ParityArrangement::RightSymmetric6,
        ParityArrangement::RightAsymmetric6,
        ParityArrangement::ParityFirst6,
    ],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 2",
        survives_at_least: "2",
        survives_at_most: "2",
        write_penalty: "6, at most n",
    },
};
