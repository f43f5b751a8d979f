//! Sectors, strips and stripes.

use crate::{ByteCount, ParseSizeError};
use std::fmt;

/// A logical sector size: the smallest unit of I/O of a drive or a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SectorSize {
    /// 512 bytes (512n, 512e).
    #[default]
    B512,
    /// 4096 bytes (4Kn).
    B4096,
}

impl SectorSize {
    /// The sector size of that many bytes, if drives use it.
    pub fn from_bytes(bytes: u64) -> Option<SectorSize> {
        match bytes {
            512 => Some(SectorSize::B512),
            4096 => Some(SectorSize::B4096),
            _ => None,
        }
    }

    /// Its length.
    pub const fn bytes(self) -> ByteCount {
        match self {
            SectorSize::B512 => ByteCount(512),
            SectorSize::B4096 => ByteCount(4096),
        }
    }
}

/// The length of a strip: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripSize {
    shift: u8,
}

impl StripSize {
    /// The smallest strip, 4 KiB.
    pub const MIN: StripSize = StripSize { shift: 12 };
    /// The largest strip, 1 MiB.
    pub const MAX: StripSize = StripSize { shift: 20 };
    /// 64 KiB, the default on solid-state drives.
    pub const KIB_64: StripSize = StripSize { shift: 16 };
    /// 256 KiB, the default on rotating drives.
    pub const KIB_256: StripSize = StripSize { shift: 18 };

    /// A strip of that many bytes.
    ///
    /// # Errors
    /// When it is not a power of two, or not from 4 KiB to 1 MiB. The error names the reason.
    pub fn new(bytes: ByteCount) -> Result<StripSize, ParseSizeError> {
        if !bytes.0.is_power_of_two() {
            return Err(ParseSizeError::new(format!(
                "a strip of {bytes} ({} bytes) is not a power of two; choose one from 4K to 1M, \
                    such as 64K",
                bytes.0
            )));
        }
        let strip = StripSize { shift: bytes.0.trailing_zeros() as u8 };
        if strip < StripSize::MIN || strip > StripSize::MAX {
            return Err(ParseSizeError::new(format!(
                "a strip of {bytes} is out of range; choose a power of two from 4K to 1M, such as \
                    64K"
            )));
        }
        Ok(strip)
    }

    /// Its length.
    pub const fn bytes(self) -> ByteCount {
        ByteCount(1 << self.shift)
    }

    /// The base-two logarithm of its length, for division by shift.
    pub const fn shift(self) -> u32 {
        self.shift as u32
    }
}

/// The index of a stripe, in the order of the volume's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct StripeIndex(pub u64);

/// A number of stripes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct StripeCount(pub u64);

impl fmt::Debug for StripSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strip of {}", self.bytes())
    }
}

impl fmt::Display for StripSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

impl fmt::Display for StripeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_powers_of_two_from_4k_to_1m() {
        assert_eq!(StripSize::new(ByteCount(65536)).unwrap(), StripSize::KIB_64);
        assert_eq!(StripSize::KIB_64.bytes(), ByteCount(65536));
        for wrong in [0, 1, 2048, 48 << 10, 2 << 20] {
            assert!(StripSize::new(ByteCount(wrong)).is_err(), "{wrong}");
        }
        assert!(StripSize::new(ByteCount(48 << 10)).unwrap_err().to_string().contains("48 KiB"));
    }
}
