//! RAID 60: striping over spans of RAID 6.
//!
//! ```text
//! RAID 60, 8 drives in 2 spans, ddf-n-continue
//! drive    0    1    2    3  |    4    5    6    7
//! row 0    0    1    Q    P  |    2    3    Q    P
//! row 1    5    Q    P    4  |    7    Q    P    6
//! row 2    Q    P    8    9  |    Q    P   10   11
//! row 3    P   12   13    Q  |    P   14   15    Q
//! ```
//!
//! As RAID 50 with two parity strips: stripe `s` is in span `s mod spans`, in row `s div spans`.
//! Exponents of Q count within the span.

use crate::levels::raid6;
use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid60,
    name: "raid60",
    title: "RAID 60",
    summary: "striping over spans of RAID 6: two drives of each span may fail",
    family: Family::Parity,
    min_drives: DriveCount(8),
    max_drives: DriveCount(256),
    spans: 2..=8,
    drives_per_span: 4..=32,
    parity_strips: 2,
    spare_strips: 0,
    parity_arrangements: raid6::ROW.parity_arrangements,
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 2 s",
        survives_at_least: "2",
        survives_at_most: "2 s",
        write_penalty: "6, at most w",
    },
};
