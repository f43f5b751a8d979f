//! RAID 00: striping over spans of RAID 0.
//!
//! ```text
//! RAID 00, 6 drives in 2 spans
//! drive    0    1    2  |    3    4    5
//! row 0    0    1    2  |    3    4    5
//! row 1    6    7    8  |    9   10   11
//! ```
//!
//! Consecutive strips fill the row of one span, then of the next. The strip positions are those of
//! RAID 0 on all drives; a stripe is one row of all spans. Spans only affect how a controller
//! creates and describes the volume.

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid00,
    name: "raid00",
    title: "RAID 00",
    summary: "striping over spans of RAID 0: the loss of any drive loses the volume",
    family: Family::Striped,
    min_drives: DriveCount(4),
    max_drives: DriveCount(64),
    spans: 2..=8,
    drives_per_span: 2..=32,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n",
        survives_at_least: "0",
        survives_at_most: "0",
        write_penalty: "1",
    },
};
