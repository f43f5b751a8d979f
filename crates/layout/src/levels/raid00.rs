//! RAID 00: striping over spans of RAID 0: the loss of any drive loses the volume.

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
    formulas: Formulas { usable: "n", survives_at_least: "0", survives_at_most: "0", write_penalty: "1" },
};
