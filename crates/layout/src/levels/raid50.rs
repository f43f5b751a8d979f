//! RAID 50: striping over spans of RAID 5: one drive of each span may fail.

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
