//! Identifiers of DDF: 24-byte GUIDs, 32-bit references of physical disks, 16-byte names,
//! timestamps.

use super::checksum::Checksum;
use std::fmt;

/// A 24-byte identifier: of a group of drives (in its headers), a controller, a physical or a
/// virtual disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 24]);

impl Guid {
    /// The GUID of unused entries.
    pub const UNUSED: Guid = Guid([0xFF; 24]);

    /// Whether it is unused: a valid identifier never begins with 0xFF.
    pub fn is_unused(&self) -> bool {
        self.0[0] == 0xFF
    }

    /// A GUID from `vendor` (8 characters of ASCII), 8 bytes for the kind of object, and 8 unique
    /// bytes: the construction that the standard suggests for groups and virtual disks, with the
    /// controller's type, the time and a random number.
    pub fn new(vendor: [u8; 8], kind: [u8; 8], created: Time, random: u32) -> Guid {
        let mut guid = [0; 24];
        guid[..8].copy_from_slice(&vendor);
        guid[8..16].copy_from_slice(&kind);
        guid[16..20].copy_from_slice(&created.0.to_be_bytes());
        guid[20..].copy_from_slice(&random.to_be_bytes());
        Guid(guid)
    }

    /// A GUID from `vendor` and 16 unique bytes, such as a UUID.
    pub fn of_uuid(vendor: [u8; 8], uuid: [u8; 16]) -> Guid {
        let mut guid = [0; 24];
        guid[..8].copy_from_slice(&vendor);
        guid[8..].copy_from_slice(&uuid);
        Guid(guid)
    }

    /// The UUID in a GUID that [`Guid::of_uuid`] made for that vendor.
    pub fn uuid(&self, vendor: [u8; 8]) -> Option<[u8; 16]> {
        let uuid = self.0.strip_prefix(&vendor)?;
        uuid.try_into().ok()
    }

    /// The vendor: its first eight bytes where they are printable.
    pub fn vendor(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.0[..8]).ok()?.trim_end();
        (!text.is_empty() && text.bytes().all(|byte| (0x20..0x7F).contains(&byte))).then_some(text)
    }
}

impl fmt::Display for Guid {
    /// As `mdadm` shows it: six groups of eight hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.0.chunks(4).enumerate() {
            if index > 0 {
                f.write_str(":")?;
            }
            group.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number by which virtual disks refer to physical disks. [`DiskRef::NONE`] refers to none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskRef(pub u32);

impl DiskRef {
    /// No disk.
    pub const NONE: DiskRef = DiskRef(u32::MAX);

    /// The reference of a disk with that GUID: its CRC, as the standard suggests. Where two disks
    /// of a group get the same, one needs another reference.
    pub fn of(guid: &Guid) -> DiskRef {
        let crc = Checksum::Raw.over(&[&guid.0]);
        DiskRef(if crc == u32::MAX { 0 } else { crc })
    }
}

impl fmt::Display for DiskRef {
    /// As `mdadm` shows it: eight hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for DiskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds since 1980-01-01 00:00:00 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(pub u32);

impl Time {
    /// 1980-01-01 in Unix time.
    const EPOCH_UNIX_S: u64 = 315_532_800;

    /// In seconds since 1970-01-01.
    pub fn unix_s(self) -> u64 {
        u64::from(self.0) + Time::EPOCH_UNIX_S
    }

    /// From seconds since 1970-01-01, limited to the range of the field.
    pub fn from_unix_s(unix_s: u64) -> Time {
        let since = unix_s.saturating_sub(Time::EPOCH_UNIX_S);
        Time(u32::try_from(since).unwrap_or(u32::MAX - 1))
    }
}

/// The name of a virtual disk: 16 bytes, as they are on the drives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(pub [u8; 16]);

impl Name {
    /// The most bytes a name can have.
    pub const MOST_BYTES: usize = 16;

    /// A name padded with NUL, as `mdadm` expects it; `None` where it is longer than 16 bytes.
    pub fn new(text: &str) -> Option<Name> {
        let mut bytes = [0; 16];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Name(bytes))
    }

    /// The text up to the first NUL, without padding; bytes that are not UTF-8 or not printable are
    /// replaced.
    pub fn text(&self) -> String {
        if self.0 == [0xFF; 16] {
            return String::new();
        }
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(&self.0[..end]);
        let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        text.trim_end().chars().map(printable).collect()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_either_padding_and_never_fail() {
        assert_eq!(Name(*b"vol0\0\0\0\0\0\0\0\0\0\0\0\0").text(), "vol0");
        assert_eq!(Name(*b"vol0            ").text(), "vol0");
        assert_eq!(Name([0xFF; 16]).text(), "");
        assert_eq!(Name([0x80; 16]).text(), "\u{FFFD}".repeat(16));
        assert_eq!(
            Name::new("0123456789abcdef").map(|name| name.text()).as_deref(),
            Some("0123456789abcdef")
        );
        assert_eq!(Name::new("0123456789abcdefg"), None);
    }

    #[test]
    fn time_counts_from_1980() {
        assert_eq!(Time(0x5831_7184).unix_s(), 1_795_168_132);
        assert_eq!(Time::from_unix_s(1_795_168_132), Time(0x5831_7184));
        assert_eq!(Time::from_unix_s(0), Time(0));
    }
}
