//! The CRC of a section, of which two variants are in the field.
//!
//! Both are the reflected CRC-32 over the polynomial 0x04C11DB7; the section's own four CRC bytes, always those from
//! 4 to 7, count as 0xFF. They differ in what the register starts with and in whether the result is inverted. The
//! standard names the polynomial only. Linux md and the LSI family start from 0 and do not invert (verified over 651
//! sections that Linux md wrote); FreeBSD does as zlib does. A structure is written back as it was read.

use super::fields::Order;

/// Where each section has its CRC.
const FIELD: usize = 4;

/// Which variant of the CRC a structure carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Register from 0, not inverted: Linux md, LSI, PERC; what SoftROC writes.
    #[default]
    Raw,
    /// As in zlib: register from all ones, inverted: FreeBSD.
    Standard,
}

/// How many bytes are taken at a time.
const STEP: usize = 8;

/// For each byte of a step what it adds to the register when so many bytes follow it in the step.
const TABLES: [[u32; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut follow = 1;
    while follow < STEP {
        byte = 0;
        while byte < 256 {
            let before = tables[follow - 1][byte];
            tables[follow][byte] = tables[0][(before & 0xFF) as usize] ^ before >> 8;
            byte += 1;
        }
        follow += 1;
    }
    tables
};

fn add(register: u32, bytes: &[u8]) -> u32 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let register = steps.iter().fold(register, |register, step| {
        let mut step = *step;
        for (byte, of_register) in step.iter_mut().zip(register.to_le_bytes()) {
            *byte ^= of_register;
        }
        let with_table = step.iter().zip(TABLES.iter().rev());
        with_table.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    let one = |register: u32, byte: &u8| TABLES[0][usize::from(register as u8 ^ byte)] ^ register >> 8;
    rest.iter().fold(register, one)
}

impl Checksum {
    /// The CRC of parts that follow one another, as it is.
    pub(super) fn over(self, parts: &[&[u8]]) -> u32 {
        let (start, invert) = match self {
            Checksum::Raw => (0, 0),
            Checksum::Standard => (u32::MAX, u32::MAX),
        };
        parts.iter().fold(start, |register, part| add(register, part)) ^ invert
    }

    /// The CRC that a section must carry.
    pub fn of_section(self, section: &[u8]) -> u32 {
        let (before, rest) = section.split_at(FIELD.min(section.len()));
        self.over(&[before, &[0xFF; 4], rest.get(4..).unwrap_or_default()])
    }

    /// Which variant a section carries; `None` where its CRC is wrong in both.
    pub fn carried_by(section: &[u8], order: Order) -> Option<Checksum> {
        let field: [u8; 4] = section.get(FIELD..FIELD + 4)?.try_into().ok()?;
        let carried = match order {
            Order::Big => u32::from_be_bytes(field),
            Order::Little => u32::from_le_bytes(field),
        };
        [Checksum::Raw, Checksum::Standard].into_iter().find(|kind| kind.of_section(section) == carried)
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
