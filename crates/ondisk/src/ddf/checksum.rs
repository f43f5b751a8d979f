//! The CRC of a section. Two variants exist in the field.
//!
//! Both are the reflected CRC-32 over the polynomial 0x04C11DB7; the section's own four CRC bytes,
//! always bytes 4 to 7, count as 0xFF. They differ in the initial value of the register and in the
//! final inversion. The standard names the polynomial only. Linux md and the LSI family start from
//! 0 and do not invert (verified over 651 sections that Linux md wrote); FreeBSD does as zlib does.
//! The controller writes a structure back with the variant that it was read with.

use super::fields::Order;

/// Where each section has its CRC.
const FIELD: usize = 4;

/// Which variant of the CRC a structure carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Register from 0, not inverted: Linux md, LSI, PERC and SoftROC.
    #[default]
    Raw,
    /// As in zlib: register from all ones, inverted: FreeBSD.
    Standard,
}

impl Checksum {
    /// The CRC of consecutive parts, without any change.
    pub(super) fn over(self, parts: &[&[u8]]) -> u32 {
        // The library inverts the initial and the final value.
        let start = match self {
            Checksum::Raw => u32::MAX,
            Checksum::Standard => 0,
        };
        let mut hasher = crc32fast::Hasher::new_with_initial(start);
        parts.iter().for_each(|part| hasher.update(part));
        match self {
            Checksum::Raw => !hasher.finalize(),
            Checksum::Standard => hasher.finalize(),
        }
    }

    /// The CRC that a section must carry.
    pub fn of_section(self, section: &[u8]) -> u32 {
        let (before, rest) = section.split_at(FIELD.min(section.len()));
        self.over(&[before, &[0xFF; 4], rest.get(4..).unwrap_or_default()])
    }

    /// The variant of a section's CRC; `None` where the CRC is wrong in both.
    pub fn carried_by(section: &[u8], order: Order) -> Option<Checksum> {
        let field: [u8; 4] = section.get(FIELD..FIELD + 4)?.try_into().ok()?;
        let carried = match order {
            Order::Big => u32::from_be_bytes(field),
            Order::Little => u32::from_le_bytes(field),
        };
        [Checksum::Raw, Checksum::Standard]
            .into_iter()
            .find(|kind| kind.of_section(section) == carried)
    }

    /// Writes the CRC of a finished section into it.
    pub(super) fn seal(self, section: &mut [u8], order: Order) {
        let crc = self.of_section(section);
        let field = match order {
            Order::Big => crc.to_be_bytes(),
            Order::Little => crc.to_le_bytes(),
        };
        if let Some(place) = section.get_mut(FIELD..FIELD + 4) {
            place.copy_from_slice(&field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_variants_have_their_known_check_values() {
        assert_eq!(Checksum::Raw.over(&[b"123456789"]), 0x2DFD_2D88);
        assert_eq!(Checksum::Standard.over(&[b"1234", b"56789"]), 0xCBF4_3926);
    }

    #[test]
    fn a_sealed_section_is_recognised_with_its_variant_until_a_bit_changes() {
        for kind in [Checksum::Raw, Checksum::Standard] {
            for order in [Order::Big, Order::Little] {
                let mut section = vec![0x5A; 512];
                kind.seal(&mut section, order);
                assert_eq!(Checksum::carried_by(&section, order), Some(kind));
                section[300] ^= 4;
                assert_eq!(Checksum::carried_by(&section, order), None);
            }
        }
        assert_eq!(Checksum::carried_by(&[1, 2, 3], Order::Big), None);
    }
}
