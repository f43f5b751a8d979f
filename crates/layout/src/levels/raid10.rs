//! RAID 10: striping over mirrors of 2 or 3 drives: one drive of each mirror must be left.

use crate::{Family, Formulas, Level, LevelRow};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid10,
    name: "raid10",
    title: "RAID 10",
    summary: "striping over mirrors of 2 or 3 drives: one drive of each mirror must be left",
    family: Family::Mirrored,
    min_drives: DriveCount(4),
    max_drives: DriveCount(48),
    spans: 2..=16,
    drives_per_span: 2..=3,
    parity_strips: 0,
    spare_strips: 0,
    parity_arrangements: &[],
    mirror_arrangements: &[],
    formulas: Formulas {
        usable: "s",
        survives_at_least: "w - 1",
        survives_at_most: "n - s",
        write_penalty: "w",
    },
};
