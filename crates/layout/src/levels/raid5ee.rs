//! RAID 5EE: RAID 5 with a hot spare spread over all drives: any one drive may fail, and another after the rebuild into the spare.

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
