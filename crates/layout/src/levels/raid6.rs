//! RAID 6: striping with two rotating parity strips per stripe: any two drives may fail.

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
