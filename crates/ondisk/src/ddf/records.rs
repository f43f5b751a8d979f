//! Configuration records: the parts of volumes on a drive, and the volumes that it protects as a
//! spare.
//!
//! The section is an array of slots of one length; each has a signature and a CRC.
//!
//! ```text
//! of a volume, 0xEEEEEEEE                            of a spare, 0x55555555
//!   4  4 CRC       8 24 GUID of the volume             4  4 CRC     8 4 timestamp
//!  32  4 timestamp 36 4 sequence                      19  1 type
//!  64  2 elements  66 1 strip: 2^n blocks             20  2 entries 22 2 most entries
//!  67  1 primary level  68 1 its qualifier            32    entries of 32 bytes:
//!  69  1 spans     70 1 this one   71 1 secondary            0 24 GUID of the volume
//!  72  8 blocks on each drive  80 8 of the volume           24  2 span
//!  88  2 block size  90 1 rotate (2.0)
//!  96 32 8 references of spares                       of a vendor, 0x88888888
//! 128  8 cache policy 136 1 background rate            4  4 CRC     8 24 GUID of the volume
//! 140  1 parity drives 141 2 polynomial 144 1 how     32    the vendor's
//! 384 128 vendor's, four areas and scratch
//! 512    4 bytes for each of the group's most elements: references, slot by slot
//!        8 bytes for each of them: where its part begins, in blocks
//! ```

use super::checksum::Checksum;
use super::fields::{Fields, Writer};
use super::header::{Coding, Header};
use super::names::{DiskRef, Guid, Time};

const VOLUME: u32 = 0xEEEE_EEEE;
const SPARE: u32 = 0x5555_5555;
const VENDORS: u32 = 0x8888_8888;
const EMPTY: u32 = u32::MAX;

/// The offset of the elements in a volume's record, and the length of each in both lists together.
const ELEMENTS: usize = 512;
const ELEMENT: usize = 12;
/// The offset of the vendor's data in its record.
const VENDORS_HEAD: usize = 32;

/// A slot of the configuration records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Unused, or deleted.
    Empty,
    /// A part of a volume.
    Volume(Box<VolumePart>),
    /// The assignment of a spare.
    Spare(SpareRecord),
    /// A vendor's record, or one that the standard does not define: kept unchanged.
    Other(Vec<u8>),
    /// A record with a wrong CRC or content: the reason, and the original bytes.
    Damaged(String, Vec<u8>),
}

/// One element of a volume's part: a drive, and the address of the part on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// The drive; [`DiskRef::NONE`]: none.
    pub disk: DiskRef,
    /// Its first block.
    pub start_lba: u64,
}

/// A span of a volume (a *basic virtual disk*), as each of its drives records it. A volume without
/// a secondary level is one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumePart {
    /// The volume.
    pub volume: Guid,
    /// When it was configured.
    pub timestamp: Time,
    /// The number of its latest change; 0 follows all ones.
    pub sequence: u32,
    /// The strip has 2 to this power blocks. Linux md writes 0xFF for levels without strips.
    pub strip_shift: u8,
    /// The primary level, such as 5.
    pub primary_level: u8,
    /// Its qualifier: the layout of parity or copies.
    pub qualifier: u8,
    /// The number of spans of the volume.
    pub spans: u8,
    /// The index of this span.
    pub span: u8,
    /// The join of the spans; it has no meaning with one span.
    pub secondary_level: u8,
    /// Blocks used on each drive.
    pub blocks: u64,
    /// Blocks of the whole volume.
    pub volume_blocks: u64,
    /// The volume's block size (revision 2.0; all ones: the drives').
    pub block_bytes: u16,
    /// Parity rotates every 2 to this power stripes (level 0x35).
    pub rotate_shift: u8,
    /// Spares of this volume.
    pub spares: [DiskRef; 8],
    /// Cache policy: bits in the last byte.
    pub cache_policy: [u8; 8],
    /// The share of the drives that background work may take, 0 to 255.
    pub background_rate: u8,
    /// The number of parity strips in a stripe (level 7).
    pub parity_disks: u8,
    /// The generator polynomial (level 7).
    pub polynomial: u16,
    /// The construction of the constants (level 7).
    pub constants: u8,
    /// Vendor data: four areas and the scratch space.
    pub vendor: [u8; 128],
    /// The drives, by slot within the span.
    pub elements: Vec<Element>,
}

/// The assignment of a spare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpareRecord {
    /// The time of the assignment.
    pub timestamp: Time,
    /// Its kind: bits.
    pub kind: u8,
    /// The most entries.
    pub most: u16,
    /// The spans and volumes that a dedicated spare protects.
    pub protects: Vec<(Guid, u16)>,
}

impl SpareRecord {
    /// It protects the volumes that it lists; otherwise all.
    pub const DEDICATED: u8 = 1;
    /// It becomes a spare again when the failed drive has been replaced.
    pub const REVERTIBLE: u8 = 1 << 1;
    /// It is an active hot spare.
    pub const ACTIVE: u8 = 1 << 2;
    /// It protects drives of its enclosure first.
    pub const ENCLOSURE: u8 = 1 << 3;

    fn decode(fields: &Fields, len: usize) -> Result<SpareRecord, String> {
        let count = usize::from(fields.u16(20));
        let room = len.saturating_sub(32) / 32;
        if count > room {
            return Err(format!(
                "a spare's record lists {count} volumes, but has space for {room}"
            ));
        }
        let entry = |index| {
            let entry = fields.from(32 + 32 * index);
            (Guid(entry.array(0)), entry.u16(24))
        };
        Ok(SpareRecord {
            timestamp: Time(fields.u32(8)),
            kind: fields.u8(19),
            most: fields.u16(22),
            protects: (0..count).map(entry).collect(),
        })
    }

    fn encode(&self, record: &mut Writer) {
        record.u32(8, self.timestamp.0);
        record.u8(19, self.kind);
        record.u16(20, self.protects.len() as u16);
        record.u16(22, self.most);
        for (index, (volume, span)) in self.protects.iter().enumerate() {
            record.put(32 + 32 * index, &volume.0);
            record.u16(56 + 32 * index, *span);
        }
    }
}

/// The most elements of a record: by the header, and where that field is unused (Adaptec), by the
/// record's length.
pub(super) fn most_elements(header: &Header, record_bytes: usize) -> usize {
    let fits = record_bytes.saturating_sub(ELEMENTS) / ELEMENT;
    match header.most_elements {
        u16::MAX => fits.min(usize::from(header.most_disks)),
        most => usize::from(most).min(fits),
    }
}

impl VolumePart {
    fn decode(fields: &Fields, most: usize) -> Result<VolumePart, String> {
        let count = usize::from(fields.u16(64));
        if count > most {
            return Err(format!(
                "a volume's record lists {count} drives, but has space for {most}"
            ));
        }
        let element = |index| Element {
            disk: DiskRef(fields.u32(ELEMENTS + 4 * index)),
            start_lba: fields.u64(ELEMENTS + 4 * most + 8 * index),
        };
        Ok(VolumePart {
            volume: Guid(fields.array(8)),
            timestamp: Time(fields.u32(32)),
            sequence: fields.u32(36),
            strip_shift: fields.u8(66),
            primary_level: fields.u8(67),
            qualifier: fields.u8(68),
            spans: fields.u8(69),
            span: fields.u8(70),
            secondary_level: fields.u8(71),
            blocks: fields.u64(72),
            volume_blocks: fields.u64(80),
            block_bytes: fields.u16(88),
            rotate_shift: fields.u8(90),
            spares: std::array::from_fn(|index| DiskRef(fields.u32(96 + 4 * index))),
            cache_policy: fields.array(128),
            background_rate: fields.u8(136),
            parity_disks: fields.u8(140),
            polynomial: fields.u16(141),
            constants: fields.u8(144),
            vendor: fields.array(384),
            elements: (0..count).map(element).collect(),
        })
    }

    fn encode(&self, record: &mut Writer, most: usize) {
        record.put(8, &self.volume.0);
        record.u32(32, self.timestamp.0);
        record.u32(36, self.sequence);
        record.u16(64, self.elements.len() as u16);
        record.put(66, &[self.strip_shift, self.primary_level, self.qualifier]);
        record.put(69, &[self.spans, self.span, self.secondary_level]);
        record.u64(72, self.blocks);
        record.u64(80, self.volume_blocks);
        record.u16(88, self.block_bytes);
        record.u8(90, self.rotate_shift);
        for (index, spare) in self.spares.iter().enumerate() {
            record.u32(96 + 4 * index, spare.0);
        }
        record.put(128, &self.cache_policy);
        record.u8(136, self.background_rate);
        record.u8(140, self.parity_disks);
        record.u16(141, self.polynomial);
        record.u8(144, self.constants);
        record.put(384, &self.vendor);
        for index in 0..most {
            // Unused starting blocks are zero, as Linux md writes them.
            let unused = Element { disk: DiskRef::NONE, start_lba: 0 };
            let element = self.elements.get(index).unwrap_or(&unused);
            record.u32(ELEMENTS + 4 * index, element.disk.0);
            record.u64(ELEMENTS + 4 * most + 8 * index, element.start_lba);
        }
    }
}

impl Slot {
    /// A vendor's record that reserves space for a volume that the standard cannot describe; it
    /// carries a text. `len` is the length of a slot.
    pub(super) fn kept_for(volume: Guid, text: &str, coding: Coding, len: usize) -> Slot {
        let mut record = Writer::new(len, coding.order);
        record.u32(0, VENDORS);
        record.put(8, &volume.0);
        let room = len.saturating_sub(VENDORS_HEAD);
        record.put(VENDORS_HEAD, &text.as_bytes()[..text.len().min(room)]);
        let mut bytes = record.into_bytes();
        coding.checksum.seal(&mut bytes, coding.order);
        Slot::Other(bytes)
    }

    pub(super) fn decode(bytes: &[u8], header: &Header, coding: Coding) -> Slot {
        let fields = Fields::new(bytes, coding.order);
        let signature = fields.u32(0);
        if signature == EMPTY {
            return Slot::Empty;
        }
        if ![VOLUME, SPARE].contains(&signature) {
            return Slot::Other(bytes.to_vec());
        }
        if Checksum::carried_by(bytes, coding.order).is_none() {
            let why = "the checksum of a configuration record is wrong".to_owned();
            return Slot::Damaged(why, bytes.to_vec());
        }
        let slot = match signature {
            VOLUME => VolumePart::decode(&fields, most_elements(header, bytes.len()))
                .map(|part| Slot::Volume(Box::new(part))),
            _ => SpareRecord::decode(&fields, bytes.len()).map(Slot::Spare),
        };
        slot.unwrap_or_else(|why| Slot::Damaged(why, bytes.to_vec()))
    }

    /// Whether it fits a slot of `len` bytes.
    pub(super) fn fits(&self, header: &Header, len: usize) -> bool {
        match self {
            Slot::Empty => true,
            Slot::Volume(part) => {
                part.elements.len() <= most_elements(header, len) && len >= ELEMENTS
            }
            Slot::Spare(spare) => spare.protects.len() <= len.saturating_sub(32) / 32,
            Slot::Other(bytes) | Slot::Damaged(_, bytes) => bytes.len() <= len,
        }
    }

    /// Its bytes; `len` is the length of a slot. A damaged slot keeps its bytes.
    pub(super) fn encode(&self, header: &Header, coding: Coding, len: usize) -> Vec<u8> {
        let mut record = Writer::new(len, coding.order);
        match self {
            Slot::Empty => return record.into_bytes(),
            Slot::Other(bytes) | Slot::Damaged(_, bytes) => {
                record.put(0, bytes.get(..len).unwrap_or(bytes));
                return record.into_bytes();
            }
            Slot::Volume(part) => {
                record.u32(0, VOLUME);
                part.encode(&mut record, most_elements(header, len));
            }
            Slot::Spare(spare) => {
                record.u32(0, SPARE);
                spare.encode(&mut record);
            }
        }
        let mut bytes = record.into_bytes();
        coding.checksum.seal(&mut bytes, coding.order);
        bytes
    }
}
