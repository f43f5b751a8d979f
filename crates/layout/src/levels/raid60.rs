//! RAID 60: striping over spans of RAID 6: two drives of each span may fail.

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
