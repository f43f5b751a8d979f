//! RAID 5: striping with one parity strip per stripe, which moves from drive to drive.
//!
//! ```text
//!            left-symmetric     left-asymmetric    right-symmetric    right-asymmetric
//!            drive 0  1  2  3         0  1  2  3         0  1  2  3          0  1  2  3
//! stripe 0        D0 D1 D2  P        D0 D1 D2  P         P D0 D1 D2          P D0 D1 D2
//! stripe 1        D1 D2  P D0        D0 D1  P D2        D2  P D0 D1         D0  P D1 D2
//! stripe 2        D2  P D0 D1        D0  P D1 D2        D1 D2  P D0         D0 D1  P D2
//! stripe 3         P D0 D1 D2         P D0 D1 D2        D0 D1 D2  P         D0 D1 D2  P
//! ```
//!
//! The rules are those of Linux md (`raid5_compute_sector`), and tested against arrays it wrote.

use crate::{CopyIndex, DataIndex, Level, LevelRow, ParityRotation, Role, Survives};
use units::{DriveCount, StripeIndex};

pub(crate) const ROW: LevelRow = LevelRow {
    level: Level::Raid5,
    name: "raid5",
    title: "RAID 5",
    summary: "striping with one rotating parity strip per stripe: any one drive may fail",
    min_drives: DriveCount(3),
    max_drives: DriveCount(32),
    data_strips: |drives| drives.0.saturating_sub(1),
    copies: |_| 1,
    parity_strips: 1,
    survives: |_| Survives::any(1),
    write_penalty: |drives| drives.0.min(4),
};

/// The drive that holds parity of stripe `stripe` on `drives` drives.
pub(crate) fn parity_drive(rotation: ParityRotation, drives: u16, stripe: StripeIndex) -> u16 {
    // Stripe numbers of all but enormous arrays fit 32 bits, in which a division costs a third.
    let turn = match u32::try_from(stripe.0) {
        Ok(small) => (small % u32::from(drives)) as u16,
        Err(_) => (stripe.0 % u64::from(drives)) as u16,
    };
    if rotation.is_left() { drives - 1 - turn } else { turn }
}

/// The drive that holds data strip `index` of the stripe whose parity is on drive `parity`.
pub(crate) fn data_drive(rotation: ParityRotation, drives: u16, parity: u16, index: DataIndex) -> u16 {
    if rotation.is_symmetric() {
        let drive = parity + 1 + index.0;
        if drive >= drives { drive - drives } else { drive }
    } else {
        index.0 + u16::from(index.0 >= parity)
    }
}

/// What `drive` holds of the stripe whose parity is on drive `parity`.
pub(crate) fn role(rotation: ParityRotation, drives: u16, parity: u16, drive: u16) -> Role {
    if drive == parity {
        return Role::P;
    }
    let index = if !rotation.is_symmetric() {
        drive - u16::from(drive > parity)
    } else if drive > parity {
        drive - parity - 1
    } else {
        drive + drives - parity - 1
    };
    Role::Data { index: DataIndex(index), copy: CopyIndex(0) }
}
