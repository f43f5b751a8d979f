//! RAID 50: striping over spans of RAID 5.
//!
//! ```text
//! RAID 50, 6 drives in 2 spans, left-symmetric
//! drive    0    1    2  |    3    4    5
//! row 0    0    1    P  |    2    3    P
//! row 1    5    P    4  |    7    P    6
//! row 2    P    8    9  |    P   10   11
//! ```
//!
//! A stripe is one row of *one* span: stripe `s` is in span `s mod spans`, in row `s div spans`.
//! Consecutive stripes alternate between spans; within a span, the layout is RAID 5. MegaRAID also
//! fills one row of a span before the next span.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid50,
    name: "raid50",
    title: "RAID 50",
    summary: "striping over spans of RAID 5: one drive of each span may fail",
    family: Family::Parity,
    min_drives: DriveCount(6),
    max_drives: DriveCount(256),
    spans: 2..=8,
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
        usable: "n - s",
        survives_at_least: "1",
        survives_at_most: "s",
        write_penalty: "4, at most w",
    },
};
