//! Offsets in the area at the end of a drive, where SoftROC writes its structure.
//!
//! ```text
//! drive                  tail: 32 MiB, plus the remainder to 4 KiB
//! ┌──────────────────────┬───────────┬─────────┬───────────┬────────────────────┬────────┐
//! │ data of volumes      │ workspace │ primary │ secondary │ SoftROC's region   │ anchor │
//! └──────────────────────┴───────────┴─────────┴───────────┴────────────────────┴────────┘
//! 0             tail +   0           16 MiB    18 MiB      20 MiB               last block
//! ```
//!
//! On drives that were imported with data up to their end, the tail lies before the data
//! ([`TailPlace`]).
//!
//! The limits are Linux md's, which accepts no others: 1023 physical disks, 255 virtual disks, 64
//! records on each drive with 256 elements. Unlike in Linux md, the secondary copy is not in the
//! workspace, which any controller may use.

use super::header::{Coding, Header, Section, SectionPlace};
use super::logs::Extras;
use super::names::{Guid, Time};
use crate::tail::{BLOCK, FRONT_ANCHOR, Tail, TailPlace};
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

pub(crate) const WORKSPACE: u64 = 16 << 20;
const COPY: u64 = 2 << 20;

const MOST_DISKS: u16 = 1023;
const MOST_VOLUMES: u16 = 255;
const MOST_RECORDS: u16 = 64;
const MOST_ELEMENTS: u16 = 256;
/// A record: the fields before its elements, and the bytes of each element.
const RECORD_BYTES: u64 = 512 + 12 * MOST_ELEMENTS as u64;

/// The tail of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    size: ByteCount,
    block: SectorSize,
    tail: Tail,
}

impl Site {
    /// The tail at the end of a drive of that size and block size. `None` where the drive has no
    /// space for it and some data, or where the size is not a whole number of blocks.
    pub fn of(size: ByteCount, block: SectorSize) -> Option<Site> {
        Site::at(size, block, TailPlace::End)
    }

    /// The same for a tail at `place`.
    pub fn at(size: ByteCount, block: SectorSize, place: TailPlace) -> Option<Site> {
        let tail = Tail::at(size, place)?;
        size.is_aligned(block.bytes()).then_some(Site { size, block, tail })
    }

    /// The drive's size.
    pub fn size(&self) -> ByteCount {
        self.size
    }

    /// The drive's block.
    pub fn block(&self) -> SectorSize {
        self.block
    }

    /// The place of the tail on the drive.
    pub fn place(&self) -> TailPlace {
        self.tail.place()
    }

    /// The start of the tail.
    pub fn tail(&self) -> ByteOffset {
        self.tail.start()
    }

    /// The workspace: any controller may use it.
    pub fn workspace(&self) -> ByteRange {
        ByteRange::new(self.tail(), ByteCount(WORKSPACE))
    }

    /// The start of the primary copy.
    pub fn primary(&self) -> ByteOffset {
        self.workspace().end()
    }

    /// The start of the secondary copy.
    pub fn secondary(&self) -> ByteOffset {
        self.primary() + ByteCount(COPY)
    }

    /// SoftROC's own region: other software has no reason to write there.
    pub fn region(&self) -> ByteRange {
        let start = self.secondary() + ByteCount(COPY);
        let end = match self.tail.place() {
            TailPlace::End => self.anchor().align_down(BLOCK),
            TailPlace::Front | TailPlace::FrontWithAnchor => self.tail.range().end(),
        };
        ByteRange::from_to(start, end)
    }

    /// The offset of the anchor.
    pub fn anchor(&self) -> ByteOffset {
        anchor(self.size, self.block, self.tail.place())
    }

    /// The length of a drive's data area, in its blocks.
    pub fn configured_blocks(&self) -> u64 {
        self.blocks(self.tail.data().end().0)
    }

    /// The encoding of its structure.
    pub fn coding(&self) -> Coding {
        Coding { block: self.block, ..Coding::default() }
    }

    fn blocks(&self, bytes: u64) -> u64 {
        bytes / self.block.bytes().0
    }

    /// The header of a structure on this drive.
    pub fn header(&self, group: Guid, sequence: u32, timestamp: Time) -> Header {
        let mut next = 1;
        let mut place = |bytes: u64| {
            let blocks = bytes.div_ceil(self.block.bytes().0) as u32;
            let offset_blocks = next;
            next += blocks;
            SectionPlace { offset_blocks, blocks }
        };
        let record_blocks = RECORD_BYTES.div_ceil(self.block.bytes().0);
        let records = u64::from(MOST_RECORDS + 1) * record_blocks * self.block.bytes().0;
        let mut places = [SectionPlace::ABSENT; 8];
        places[Section::Controller.index()] = place(512);
        places[Section::Disks.index()] = place(64 * (1 + u64::from(MOST_DISKS)));
        places[Section::Volumes.index()] = place(64 * (1 + u64::from(MOST_VOLUMES)));
        places[Section::Records.index()] = place(records);
        places[Section::OwnDisk.index()] = place(512);
        places[Section::VendorLog.index()] = place(Extras::MOST.0 + BLOCK.0);
        Header {
            group,
            revision: *b"01.02.00",
            sequence,
            timestamp,
            open: 0,
            foreign: 0,
            grouping: 0,
            primary_lba: self.blocks(self.primary().0),
            secondary_lba: self.blocks(self.secondary().0),
            workspace_blocks: self.blocks(WORKSPACE) as u32,
            workspace_lba: self.blocks(self.tail().0),
            most_disks: MOST_DISKS,
            most_volumes: MOST_VOLUMES,
            most_records: MOST_RECORDS,
            record_blocks: record_blocks as u16,
            most_elements: MOST_ELEMENTS,
            most_mapped_entries: u32::MAX,
            places,
        }
    }
}

/// The offset of the anchor of a structure at that place.
pub(super) fn anchor(size: ByteCount, block: SectorSize, place: TailPlace) -> ByteOffset {
    match place {
        TailPlace::End | TailPlace::Front => ByteOffset(size.0.saturating_sub(block.bytes().0)),
        TailPlace::FrontWithAnchor => FRONT_ANCHOR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::TAIL;

    #[test]
    fn nothing_overlaps_and_a_copy_fits_its_room() {
        for (size, block) in [
            (TAIL.0 + BLOCK.0, SectorSize::B512),
            (TAIL.0 + BLOCK.0 + 512 * 7, SectorSize::B512),
            (TAIL.0 + BLOCK.0, SectorSize::B4096),
            (20 << 40, SectorSize::B4096),
        ] {
            let site = Site::of(ByteCount(size), block).unwrap();
            assert!(site.region().len >= ByteCount(11 << 20), "{size}");
            assert!(site.region().end() <= site.anchor(), "{size}");
            assert_eq!(site.region().start, site.secondary() + ByteCount(COPY));
            let header = site.header(Guid::UNUSED, 1, Time(0));
            let end = header.places.iter().filter(|place| place.is_there());
            let end = end.map(|place| u64::from(place.offset_blocks + place.blocks)).max().unwrap();
            assert!(end * block.bytes().0 <= COPY, "{end} blocks");
            assert!(header.places.iter().all(|place| place.blocks <= 1024));
        }
        assert_eq!(Site::of(TAIL, SectorSize::B512), None);
        assert_eq!(Site::of(ByteCount(TAIL.0 + BLOCK.0 + 512), SectorSize::B4096), None);
    }
}
