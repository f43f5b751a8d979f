//! The optional sections of a copy: the bad block log, and the vendor log, where SoftROC stores
//! data that DDF has no field for.
//!
//! ```text
//! bad block log                          vendor log
//!  0 4 0xABADB10C   4 4 CRC               0  4 0x01DBEEF0   4 4 CRC
//!  8 2 entries (2.0: 4)                   8  8 owner
//! 10 4 spare blocks (2.0: at 12)         32    the owner's
//! 24 8 first spare LBA
//! 32   entries of 16 bytes:              of the owner "SoftROC ", from 32 on; numbers big-endian
//!      0 8 first defective LBA            0  8 "SRoCext\0"
//!      8 4 its offset in the spares       8  4 version of the payload
//!     12 2 blocks                        12  4 sequence of the header that it was written with
//!                                        16  4 length of the payload
//!                                        20  4 CRC-32C of the bytes 0 to 19 and of the payload
//!                                        32    payload
//! ```

use super::fields::{Fields, Order, Writer};
use crate::{Error, ErrorKind, Result};
use units::ByteCount;

/// A run of defective blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlocks {
    /// The first block.
    pub lba: u64,
    /// The index of its replacement among the spare blocks.
    pub spare_offset: u32,
    /// The number of blocks.
    pub blocks: u16,
}

/// Defective blocks of a drive, and the places of their replacements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlockLog {
    /// The number of blocks that replace defective ones.
    pub spare_blocks: u32,
    /// The first of them.
    pub first_spare_lba: u64,
    /// The defective blocks.
    pub entries: Vec<BadBlocks>,
}

const HEAD: usize = 32;
const ENTRY: usize = 16;

/// Revision 2.0 has wider counts.
fn is_second(revision: &[u8; 8]) -> bool {
    revision.starts_with(b"02")
}

impl BadBlockLog {
    pub(super) fn decode(fields: Fields, len: usize, revision: &[u8; 8]) -> Result<BadBlockLog> {
        let (count, spare_blocks) = match is_second(revision) {
            true => (fields.u32(8) as usize, fields.u32(12)),
            false => (usize::from(fields.u16(8)), fields.u32(10)),
        };
        let room = len.saturating_sub(HEAD) / ENTRY;
        if count > room {
            let context = format!("the DDF bad block log has {count} entries, more than {room}");
            return Err(Error::new(ErrorKind::Damaged, context));
        }
        let entry = |index| {
            let entry = fields.from(HEAD + ENTRY * index);
            BadBlocks { lba: entry.u64(0), spare_offset: entry.u32(8), blocks: entry.u16(12) }
        };
        Ok(BadBlockLog {
            spare_blocks,
            first_spare_lba: fields.u64(24),
            entries: (0..count).map(entry).collect(),
        })
    }

    /// Its encoded length.
    pub(super) fn len(&self) -> usize {
        HEAD + ENTRY * self.entries.len()
    }

    pub(super) fn encode(&self, section: &mut Writer, revision: &[u8; 8]) {
        if is_second(revision) {
            section.u32(8, self.entries.len() as u32);
            section.u32(12, self.spare_blocks);
        } else {
            section.u16(8, self.entries.len() as u16);
            section.u32(10, self.spare_blocks);
        }
        section.u64(24, self.first_spare_lba);
        for (index, entry) in self.entries.iter().enumerate() {
            let at = HEAD + ENTRY * index;
            section.u64(at, entry.lba);
            section.u32(at + 8, entry.spare_offset);
            section.u16(at + 12, entry.blocks);
        }
    }
}

/// The data of a vendor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VendorLog {
    /// The vendor.
    pub owner: [u8; 8],
    /// The vendor's data, to the end of the section.
    pub data: Vec<u8>,
}

impl VendorLog {
    /// The length of the fields before the owner's data.
    pub(super) const HEAD: usize = 32;

    pub(super) fn decode(fields: Fields, len: usize) -> VendorLog {
        VendorLog { owner: fields.array(8), data: fields.vec(VendorLog::HEAD..len) }
    }

    pub(super) fn encode(&self, section: &mut Writer) {
        section.put(8, &self.owner);
        section.put(VendorLog::HEAD, &self.data);
    }
}

/// SoftROC's data in the vendor log of the drives of its arrays: bytes for other modules to decode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extras {
    /// The version of the payload.
    pub version: u32,
    /// The sequence of the header that it was written with. A different sequence in the header
    /// means that other software has changed the structure since: Linux md keeps the log without
    /// interpreting it.
    pub sequence: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Extras {
    /// The largest payload.
    pub const MOST: ByteCount = ByteCount(128 << 10);
    /// The owner of SoftROC's logs.
    pub const OWNER: [u8; 8] = *b"SoftROC ";
    const MAGIC: [u8; 8] = *b"SRoCext\0";
    const HEAD: usize = 32;

    fn crc(head: &[u8], payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(head), payload)
    }

    /// Decodes a log; `None` where it is another vendor's.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] where SoftROC's log has a wrong magic number, length or CRC.
    pub fn of(log: &VendorLog) -> Result<Option<Extras>> {
        if log.owner != Extras::OWNER {
            return Ok(None);
        }
        let damaged =
            |what: &str| Error::new(ErrorKind::Damaged, format!("SoftROC's log in DDF {what}"));
        let fields = Fields::new(&log.data, Order::Big);
        if fields.array(0) != Extras::MAGIC {
            return Err(damaged("has a wrong magic number"));
        }
        let len = fields.u32(16) as usize;
        let payload = Extras::HEAD.checked_add(len).and_then(|end| log.data.get(Extras::HEAD..end));
        let (Some(payload), Some(head)) = (payload, log.data.get(..20)) else {
            return Err(damaged(&format!("is shorter than its {len} bytes")));
        };
        if Extras::crc(head, payload) != fields.u32(20) {
            return Err(damaged("has a wrong checksum"));
        }
        Ok(Some(Extras {
            version: fields.u32(8),
            sequence: fields.u32(12),
            payload: payload.to_vec(),
        }))
    }

    /// Encodes the log.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where the payload has more than [`Extras::MOST`] bytes.
    pub fn log(&self) -> Result<VendorLog> {
        if ByteCount::of(&self.payload) > Extras::MOST {
            let context = format!(
                "{} bytes do not fit the vendor log, which has space for {}",
                self.payload.len(),
                Extras::MOST.0
            );
            return Err(Error::new(ErrorKind::TooLarge, context));
        }
        let mut data = Writer::new(Extras::HEAD + self.payload.len(), Order::Big);
        data.put(0, &Extras::MAGIC);
        data.u32(8, self.version);
        data.u32(12, self.sequence);
        data.u32(16, self.payload.len() as u32);
        data.put(Extras::HEAD, &self.payload);
        let mut data = data.into_bytes();
        let crc = Extras::crc(&data[..20], &self.payload);
        data[20..24].copy_from_slice(&crc.to_be_bytes());
        Ok(VendorLog { owner: Extras::OWNER, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_come_back_and_no_changed_byte_goes_unnoticed() {
        let extras = Extras { version: 3, sequence: 9, payload: b"policies".to_vec() };
        let log = extras.log().unwrap();
        assert_eq!(Extras::of(&log).unwrap(), Some(extras));
        for at in (0..24).chain(32..40) {
            let mut log = log.clone();
            log.data[at] ^= 1;
            assert_eq!(Extras::of(&log).unwrap_err().kind, ErrorKind::Damaged, "byte {at}");
        }
        let other = VendorLog { owner: *b"LSI     ", ..log };
        assert_eq!(Extras::of(&other), Ok(None));
        let most = Extras { version: 1, sequence: 1, payload: vec![7; Extras::MOST.as_usize()] };
        assert_eq!(Extras::of(&most.log().unwrap()).unwrap().as_ref(), Some(&most));
        let over = Extras { payload: vec![7; Extras::MOST.as_usize() + 1], ..most };
        assert_eq!(over.log().unwrap_err().kind, ErrorKind::TooLarge);
    }

    #[test]
    fn a_bad_block_log_that_counts_more_than_it_holds_is_damaged() {
        let log = BadBlockLog {
            spare_blocks: 64,
            first_spare_lba: 1000,
            entries: vec![BadBlocks { lba: 77, spare_offset: 3, blocks: 8 }],
        };
        for revision in [b"01.02.00", b"02.00.00"] {
            let mut section = Writer::new(512, Order::Big);
            log.encode(&mut section, revision);
            let mut bytes = section.into_bytes();
            let decode =
                |bytes: &[u8]| BadBlockLog::decode(Fields::new(bytes, Order::Big), 512, revision);
            assert_eq!(decode(&bytes), Ok(log.clone()));
            bytes[8..10].copy_from_slice(&[0xFF; 2]);
            assert_eq!(decode(&bytes).unwrap_err().kind, ErrorKind::Damaged);
        }
    }
}
