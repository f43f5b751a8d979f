//! RAID 0: striping without redundancy.
//!
//! ```text
//!            drive 0   1   2   3
//! stripe 0        D0  D1  D2  D3
//! stripe 1        D0  D1  D2  D3
//! ```

use crate::{CopyIndex, DataIndex, Level, LevelRow, Role, Survives};
use units::DriveCount;

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid0,
    name: "raid0",
    title: "RAID 0",
    summary: "striping without redundancy: the loss of any drive loses the volume",
    // One drive is nothing to stripe over; and beyond 64 the volume fails with the first of so many drives
    // that nobody should be helped to make it.
    min_drives: DriveCount(2),
    max_drives: DriveCount(64),
    data_strips: |drives| drives.0,
    copies: |_| 1,
    parity_strips: 0,
    survives: |_| Survives::any(0),
    write_penalty: |_| 1,
};

/// The drive that holds data strip `index`.
pub(crate) fn data_drive(index: DataIndex) -> u16 {
    index.0
}

/// What `drive` holds.
pub(crate) fn role(drive: u16) -> Role {
    Role::Data { index: DataIndex(drive), copy: CopyIndex(0) }
}
