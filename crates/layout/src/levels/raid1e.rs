//! RAID 1E: striped mirrors over any number of drives, odd ones too: any one drive may fail.

use crate::{Family, Formulas, Level, LevelRow, MirrorArrangement};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid1e,
    name: "raid1e",
    title: "RAID 1E",
    summary: "striped mirrors over any number of drives, odd ones too: any one drive may fail",
    family: Family::Mirrored,
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    spans: 1..=1,
    drives_per_span: 3..=32,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[MirrorArrangement::Near, MirrorArrangement::Offset, MirrorArrangement::Far],
    formulas: Formulas {
        usable: "n / c",
        survives_at_least: "c - 1",
        survives_at_most: "n - n / c, rounded down",
        write_penalty: "c",
    },
};
