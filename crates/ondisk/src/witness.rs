//! The witness: a block in SoftROC's region that identifies a drive without a usable copy of its
//! structure.
//!
//! ```text
//!    0  8  "SRoCwitn"                       40  8  generation
//!    8  4  version, 1                       48  4  CRC-32C of the label's text
//!   12  4  CRC-32C of the block,            52     zero
//!          this field as zero
//!   16 16  drive UUID                            numbers are little-endian
//! ```
//! It is written together with the anchor, after both copies. It counts only where another drive
//! carries the label that it names: a drive with an older witness, or one of another history, lacks
//! unknown changes.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::label::Label;
use crate::payload::text_of;
use crate::tail::BLOCK;
use crate::uuid::Uuid;

const MAGIC: [u8; 8] = *b"SRoCwitn";
const VERSION: u32 = 1;
const AT_VERSION: usize = 8;
const AT_CRC: usize = 12;
const AT_DRIVE: usize = 16;
const AT_GENERATION: usize = 40;
const AT_TEXT_CRC: usize = 48;

/// The identity of a drive, and its latest label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The drive.
    pub drive: Uuid,
    /// The label's generation.
    pub generation: u64,
    /// The CRC-32C of its text.
    pub text_crc: u32,
}

impl Witness {
    /// The witness of a drive that carries this text, of a label of that generation.
    pub(crate) fn new(drive: Uuid, generation: u64, text: &[u8]) -> Witness {
        Witness { drive, generation, text_crc: crc32c::crc32c(text) }
    }

    /// Whether it names that label.
    pub(crate) fn names(&self, label: &Label) -> bool {
        let is_text = || text_of(label).is_ok_and(|text| crc32c::crc32c(&text) == self.text_crc);
        self.generation == label.generation && is_text()
    }

    /// Encodes its block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK.as_usize()];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[AT_DRIVE..][..16].copy_from_slice(&self.drive.0);
        bytes[AT_GENERATION..][..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[AT_TEXT_CRC..][..4].copy_from_slice(&self.text_crc.to_le_bytes());
        let crc = crc_without(&bytes, AT_CRC);
        bytes[AT_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes its block; `None` where it is absent or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Witness> {
        let is_whole = bytes.len() == BLOCK.as_usize() && bytes.starts_with(&MAGIC);
        if !is_whole || u32_at(bytes, AT_CRC) != crc_without(bytes, AT_CRC) {
            return None;
        }
        (u32_at(bytes, AT_VERSION) == VERSION).then(|| Witness {
            drive: Uuid(std::array::from_fn(|index| bytes[AT_DRIVE + index])),
            generation: u64_at(bytes, AT_GENERATION),
            text_crc: u32_at(bytes, AT_TEXT_CRC),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_comes_back_and_no_changed_byte_goes_unnoticed() {
        let witness = Witness::new(Uuid([7; 16]), 9, b"text");
        let bytes = witness.encode();
        assert_eq!(Witness::decode(&bytes), Some(witness));
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(Witness::decode(&bytes), None, "byte {at}");
        }
        assert_eq!(Witness::decode(&bytes[..512]), None);
    }
}
