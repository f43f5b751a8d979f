//! RAID 1: every drive holds the same.
//!
//! ```text
//!            drive 0   1   2
//! stripe 0        D0  D0' D0"
//! stripe 1        D0  D0' D0"
//! ```
//!
//! A stripe is one strip, of which drive `c` holds copy `c`.

use crate::{CopyIndex, DataIndex, Level, LevelRow, Role, Survives};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid1,
    name: "raid1",
    title: "RAID 1",
    summary: "mirroring: every drive holds the whole volume",
    min_drives: DriveCount(2),
    max_drives: DriveCount(32),
    data_strips: |_| 1,
    copies: |drives| drives.0,
    parity_strips: 0,
    survives: |drives| Survives::any(drives.0.saturating_sub(1)),
    write_penalty: |drives| drives.0,
};

/// The drive that holds copy `copy` of the stripe's one data strip.
pub(crate) fn data_drive(copy: CopyIndex) -> u16 {
    copy.0
}

/// What `drive` holds.
pub(crate) fn role(drive: u16) -> Role {
    Role::Data { index: DataIndex(0), copy: CopyIndex(drive) }
}
