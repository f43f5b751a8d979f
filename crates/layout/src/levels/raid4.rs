//! RAID 4: striping with parity on one drive: any one drive may fail.

use crate::{Family, Formulas, Level, LevelRow, ParityArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid4,
    name: "raid4",
    title: "RAID 4",
    summary: "striping with parity on one drive: any one drive may fail",
    family: Family::Parity,
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 3..=32,
    parity_strips: 1,
    spare_strips: 0,
    parity_arrangements: &[ParityArrangement::ParityLast, ParityArrangement::ParityFirst],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "n - 1",
        survives_at_least: "1",
        survives_at_most: "1",
        write_penalty: "4, at most n",
    },
};
