//! Coercion: the drive size that a new volume may use, so that a slightly smaller replacement fits.
//!
//! Drives of one nominal capacity differ by some sectors from vendor to vendor. RAID controllers
//! round the size of each drive down ("coercion"); a replacement fits when its rounded size is
//! large enough.

use serde::{Deserialize, Serialize};
use units::ByteCount;

/// The unit to which drive sizes are rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Coercion {
    /// 1 GiB, and 1 MiB for drives below 16 GiB.
    #[default]
    #[serde(rename = "default")]
    BySize,
    /// No rounding.
    #[serde(rename = "none")]
    None,
    /// 128 MiB.
    #[serde(rename = "128M")]
    Mib128,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Gib1,
}

/// Drives below this size are rounded to 1 MiB: 1 GiB of one would be too much to give up.
const SMALL: ByteCount = ByteCount(16 << 30);

impl Coercion {
    /// All values, in the order of the help text.
    pub const ALL: &'static [Coercion] =
        &[Coercion::BySize, Coercion::None, Coercion::Mib128, Coercion::Gib1];

    /// Its name on command lines and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Coercion::BySize => "default",
            Coercion::None => "none",
            Coercion::Mib128 => "128M",
            Coercion::Gib1 => "1G",
        }
    }

    /// The size that is used of a drive of this size.
    pub fn used_of(self, size: ByteCount) -> ByteCount {
        let unit = match self {
            Coercion::None => return size,
            Coercion::BySize if size < SMALL => ByteCount::MIB,
            Coercion::Mib128 => ByteCount(128 << 20),
            Coercion::BySize | Coercion::Gib1 => ByteCount(1 << 30),
        };
        size.align_down(unit)
    }

    /// As [`used_of`](Self::used_of), in bytes.
    pub fn used_bytes(self, size_bytes: u64) -> u64 {
        self.used_of(ByteCount(size_bytes)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_down_as_controllers_do() {
        let vendor = ByteCount(500_107_862_016);
        assert_eq!(Coercion::BySize.used_of(vendor), ByteCount(465 << 30));
        assert_eq!(Coercion::Gib1.used_of(vendor), ByteCount(465 << 30));
        assert_eq!(Coercion::Mib128.used_of(vendor), ByteCount(3726 * (128 << 20)));
        assert_eq!(Coercion::None.used_of(vendor), vendor);
        let small = ByteCount(500_107_776);
        assert_eq!(Coercion::BySize.used_of(small), ByteCount(476 << 20));
        assert_eq!(Coercion::Gib1.used_of(small), ByteCount::ZERO);
        assert_eq!(Coercion::BySize.used_of(SMALL), SMALL);
    }
}
