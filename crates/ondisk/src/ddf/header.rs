//! The header: the anchor in the drive's last block, and the primary and the secondary that each
//! begin a copy.
//!
//! ```text
//!   0  4 0xDE11DE11              112  1 kind: 0 anchor, 1 primary, 2 secondary
//!   4  4 CRC                     116  4 workspace, blocks     120 8 its LBA
//!   8 24 GUID of the group       128  2 most PD entries       130 2 most VD entries
//!  32  8 revision, ASCII         132  2 most records a drive  134 2 blocks of a record
//!  40  4 sequence                136  2 most primary elements 138 4 most mapped entries (2.0)
//!  44  4 timestamp               192    for each of eight sections: 4 offset from this
//!  48  1 open  49 1 foreign             header, 4 length, in blocks; absent: all ones, 0
//!  50  1 disks are grouped       rest   0xFF
//!  96  8 LBA of the primary, 104 8 of the secondary, all ones: there is none
//! ```

use super::checksum::Checksum;
use super::fields::{Fields, Order, Writer};
use super::names::{Guid, Time};
use crate::tail::TailPlace;
use crate::{Error, ErrorKind, Result};
use units::{ByteCount, ByteOffset, SectorSize};

/// The first four bytes of every header.
pub const HEADER_SIGNATURE: u32 = 0xDE11_DE11;

const OPEN_ANCHOR: u8 = 0xFF;
const SEQUENCE_ANCHOR: u32 = u32::MAX;
const NO_OFFSET: u32 = u32::MAX;

/// The encoding of a structure: choices that the standard leaves open or that its users vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coding {
    /// The byte order of its numbers.
    pub order: Order,
    /// The variant of its CRCs.
    pub checksum: Checksum,
    /// The unit of its addresses and lengths: the drive's logical block.
    pub block: SectorSize,
}

impl Coding {
    /// The length of `blocks` blocks.
    pub(super) fn bytes(&self, blocks: u64) -> ByteCount {
        ByteCount(blocks.saturating_mul(self.block.bytes().0))
    }

    /// The length of one block.
    pub(super) fn block_bytes(&self) -> usize {
        self.block.bytes().as_usize()
    }
}

/// One of a drive's three headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HeaderKind {
    /// In the drive's last block: has the addresses of the others.
    Anchor,
    /// The header of the copy that is used first.
    Primary,
    /// The header of the copy that is used when the primary is unusable.
    Secondary,
}

impl HeaderKind {
    fn code(self) -> u8 {
        match self {
            HeaderKind::Anchor => 0,
            HeaderKind::Primary => 1,
            HeaderKind::Secondary => 2,
        }
    }

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            HeaderKind::Anchor => "anchor",
            HeaderKind::Primary => "primary",
            HeaderKind::Secondary => "secondary",
        }
    }
}

/// A part of a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    /// The controller that wrote the structure last.
    Controller,
    /// The physical disk records: all drives of the group.
    Disks,
    /// The virtual disk records: all volumes of the group.
    Volumes,
    /// The configuration records: the parts of volumes on this drive.
    Records,
    /// The physical disk data: identifies this drive among the records.
    OwnDisk,
    /// The bad block management log.
    BadBlocks,
    /// Space for diagnostics, without a defined format.
    Diagnostics,
    /// The vendor specific log.
    VendorLog,
}

impl Section {
    /// All sections, in the header's order.
    pub const ALL: [Section; 8] = [
        Section::Controller,
        Section::Disks,
        Section::Volumes,
        Section::Records,
        Section::OwnDisk,
        Section::BadBlocks,
        Section::Diagnostics,
        Section::VendorLog,
    ];

    /// The sections that every usable copy has.
    pub const NEEDED: [Section; 5] =
        [Section::Controller, Section::Disks, Section::Volumes, Section::Records, Section::OwnDisk];

    /// Its index in [`Section::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Its signature; `None` where each of its records has one, or where it has no format.
    pub fn signature(self) -> Option<u32> {
        match self {
            Section::Controller => Some(0xAD11_1111),
            Section::Disks => Some(0x2222_2222),
            Section::Volumes => Some(0xDDDD_DDDD),
            Section::OwnDisk => Some(0x3333_3333),
            Section::BadBlocks => Some(0xABAD_B10C),
            Section::VendorLog => Some(0x01DB_EEF0),
            Section::Records | Section::Diagnostics => None,
        }
    }

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Section::Controller => "controller data",
            Section::Disks => "physical disk records",
            Section::Volumes => "virtual disk records",
            Section::Records => "configuration records",
            Section::OwnDisk => "physical disk data",
            Section::BadBlocks => "bad block log",
            Section::Diagnostics => "diagnostic space",
            Section::VendorLog => "vendor log",
        }
    }

    /// The upper limit of the bytes that are held in memory. The largest sections within the
    /// standard's limits are 256 KiB of entries on 512-byte blocks, and some 3 MiB of configuration
    /// records.
    pub(super) fn most_bytes(self) -> ByteCount {
        match self {
            Section::Controller | Section::OwnDisk => ByteCount(64 << 10),
            Section::Disks | Section::Volumes | Section::BadBlocks => ByteCount(1 << 20),
            Section::Records => ByteCount(8 << 20),
            Section::Diagnostics => ByteCount(0),
            Section::VendorLog => ByteCount(4 << 20),
        }
    }
}

/// The place of a section, relative to its copy's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionPlace {
    /// Offset from the header, in blocks.
    pub offset_blocks: u32,
    /// Length, in blocks.
    pub blocks: u32,
}

impl SectionPlace {
    /// The place of an absent section.
    pub const ABSENT: SectionPlace = SectionPlace { offset_blocks: NO_OFFSET, blocks: 0 };

    /// Whether the section is present.
    pub fn is_there(&self) -> bool {
        self.blocks > 0 && self.offset_blocks != NO_OFFSET
    }
}

/// The content of a header. The three headers of a drive differ only in kind, sequence and open
/// flag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The group, equal on all drives that were configured together.
    pub group: Guid,
    /// The standard's revision, as `01.02.00`.
    pub revision: [u8; 8],
    /// The number of the latest change of the structure. In an anchor: all ones.
    pub sequence: u32,
    /// The time of the latest write.
    pub timestamp: Time,
    /// 0: complete; 1 to 15: being changed; 255 in an anchor.
    pub open: u8,
    /// Whether the configuration came from another controller and has not been imported.
    pub foreign: u8,
    /// Whether the drives may only be used together.
    pub grouping: u8,
    /// Address of the primary header, in blocks.
    pub primary_lba: u64,
    /// Address of the secondary header, in blocks; all ones: none.
    pub secondary_lba: u64,
    /// The length of the controllers' workspace, in blocks.
    pub workspace_blocks: u32,
    /// Address of the workspace, in blocks.
    pub workspace_lba: u64,
    /// The most physical disks in the records.
    pub most_disks: u16,
    /// The most virtual disks in the records.
    pub most_volumes: u16,
    /// The most configuration records on one drive.
    pub most_records: u16,
    /// The length of each, in blocks.
    pub record_blocks: u16,
    /// The most elements of one record; determines the offset of the starting blocks in it.
    pub most_elements: u16,
    /// The most mapped block entries (revision 2.0; otherwise all ones).
    pub most_mapped_entries: u32,
    /// The places of the sections, in the order of [`Section::ALL`].
    pub places: [SectionPlace; 8],
}

impl Header {
    /// The place on the drive of the structure with this header.
    pub fn tail_place(&self, coding: Coding) -> TailPlace {
        let primary = self.primary_lba.checked_mul(coding.block.bytes().0);
        primary.map_or(TailPlace::End, |primary| TailPlace::of_primary(ByteOffset(primary)))
    }

    /// The place of a section.
    pub fn place(&self, section: Section) -> SectionPlace {
        self.places[section.index()]
    }

    /// Whether there is a secondary copy.
    pub fn has_secondary(&self) -> bool {
        self.secondary_lba != u64::MAX
    }

    /// Whether the copy was being updated when the header was written.
    pub fn is_open(&self) -> bool {
        self.open != 0
    }

    /// The revision as text.
    pub fn revision_text(&self) -> String {
        String::from_utf8_lossy(&self.revision).into_owned()
    }

    /// Whether two headers describe the same structure: equal in all fields that the standard wants
    /// equal, except the time, which an interrupted write leaves older in some.
    pub fn agrees_with(&self, other: &Header) -> bool {
        let comparable = |header: &Header| Header {
            sequence: 0,
            open: 0,
            timestamp: Time(0),
            foreign: 0,
            ..header.clone()
        };
        comparable(self) == comparable(other)
    }

    /// Decodes a header of that kind from its block; the length of `block` is the block size.
    ///
    /// # Errors
    /// [`ErrorKind::Blank`] without the signature, [`ErrorKind::Damaged`] where the CRC is wrong in
    /// both variants, [`ErrorKind::Version`] for a revision other than 1.x and 2.x,
    /// [`ErrorKind::Contradiction`] for another kind.
    pub fn decode(block: &[u8], kind: HeaderKind) -> Result<(Header, Coding)> {
        let name = kind.name();
        let damaged =
            |what: &str| Error::new(ErrorKind::Damaged, format!("the DDF {name} header {what}"));
        let Some(size) = SectorSize::from_bytes(block.len() as u64) else {
            return Err(damaged(&format!("has {} bytes; a block has 512 or 4096", block.len())));
        };
        let order = match Fields::new(block, Order::Big).u32(0) {
            HEADER_SIGNATURE => Order::Big,
            other if other.swap_bytes() == HEADER_SIGNATURE => Order::Little,
            _ => {
                return Err(Error::new(ErrorKind::Blank, format!("there is no DDF {name} header")));
            }
        };
        let Some(checksum) = Checksum::carried_by(block, order) else {
            return Err(damaged("is damaged: its checksum is wrong"));
        };
        let fields = Fields::new(block, order);
        let revision: [u8; 8] = fields.array(32);
        if !matches!(revision[..2], [b'0', b'1' | b'2']) {
            let text = String::from_utf8_lossy(&revision).into_owned();
            let context = format!("the DDF {name} header has revision '{text}', not 01 or 02");
            return Err(Error::new(ErrorKind::Version, context));
        }
        if fields.u8(112) != kind.code() {
            let context =
                format!("the DDF {name} header has kind {}, not {}", fields.u8(112), kind.code());
            return Err(Error::new(ErrorKind::Contradiction, context));
        }
        Ok((Header::from_fields(&fields, revision), Coding { order, checksum, block: size }))
    }

    fn from_fields(fields: &Fields, revision: [u8; 8]) -> Header {
        Header {
            group: Guid(fields.array(8)),
            revision,
            sequence: fields.u32(40),
            timestamp: Time(fields.u32(44)),
            open: fields.u8(48),
            foreign: fields.u8(49),
            grouping: fields.u8(50),
            primary_lba: fields.u64(96),
            secondary_lba: fields.u64(104),
            workspace_blocks: fields.u32(116),
            workspace_lba: fields.u64(120),
            most_disks: fields.u16(128),
            most_volumes: fields.u16(130),
            most_records: fields.u16(132),
            record_blocks: fields.u16(134),
            most_elements: fields.u16(136),
            most_mapped_entries: fields.u32(138),
            places: std::array::from_fn(|index| SectionPlace {
                offset_blocks: fields.u32(192 + 8 * index),
                blocks: fields.u32(196 + 8 * index),
            }),
        }
    }

    /// Encodes the block of a header of that kind. An anchor gets an anchor's sequence and open
    /// flag.
    pub fn encode(&self, kind: HeaderKind, coding: Coding) -> Vec<u8> {
        let mut block = Writer::new(coding.block_bytes(), coding.order);
        let is_anchor = kind == HeaderKind::Anchor;
        block.u32(0, HEADER_SIGNATURE);
        block.put(8, &self.group.0);
        block.put(32, &self.revision);
        block.u32(40, if is_anchor { SEQUENCE_ANCHOR } else { self.sequence });
        block.u32(44, self.timestamp.0);
        block.u8(48, if is_anchor { OPEN_ANCHOR } else { self.open });
        block.u8(49, self.foreign);
        block.u8(50, self.grouping);
        block.u64(96, self.primary_lba);
        block.u64(104, self.secondary_lba);
        block.u8(112, kind.code());
        block.u32(116, self.workspace_blocks);
        block.u64(120, self.workspace_lba);
        block.u16(128, self.most_disks);
        block.u16(130, self.most_volumes);
        block.u16(132, self.most_records);
        block.u16(134, self.record_blocks);
        block.u16(136, self.most_elements);
        block.u32(138, self.most_mapped_entries);
        for (index, place) in self.places.iter().enumerate() {
            block.u32(192 + 8 * index, place.offset_blocks);
            block.u32(196 + 8 * index, place.blocks);
        }
        let mut block = block.into_bytes();
        coding.checksum.seal(&mut block, coding.order);
        block
    }
}
