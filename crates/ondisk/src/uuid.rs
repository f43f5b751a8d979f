//! UUIDs (RFC 9562), version 4: random.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A UUID, its bytes in the order in which it is printed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A version 4 UUID of 128 random bits, six of which it replaces.
    pub fn from_random(high: u64, low: u64) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Uuid, String> {
        let wrong = || {
            format!(
                "'{text}' is not a UUID; expected 32 hexadecimal digits in groups of 8-4-4-4-12"
            )
        };
        let bytes = text.as_bytes();
        let dashes = [8, 13, 18, 23];
        if bytes.len() != 36 || dashes.iter().any(|&at| bytes[at] != b'-') {
            return Err(wrong());
        }
        let digits: Vec<u8> = bytes
            .iter()
            .enumerate()
            .filter(|(at, _)| !dashes.contains(at))
            .map(|(_, digit)| {
                (*digit as char).to_digit(16).map(|value| value as u8).ok_or_else(wrong)
            })
            .collect::<Result<_, _>>()?;
        Ok(Uuid(std::array::from_fn(|index| digits[2 * index] << 4 | digits[2 * index + 1])))
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_as_it_is_printed() {
        let uuid = Uuid::from_random(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(uuid.to_string(), "01234567-89ab-4def-bedc-ba9876543210");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        for wrong in [
            "",
            "0123",
            "01234567-89ab-4def-bedc-ba987654321g",
            "01234567+89ab-4def-bedc-ba9876543210",
        ] {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
        assert!("é1234567-89ab-4def-bedc-ba987654321".parse::<Uuid>().is_err());
    }
}
