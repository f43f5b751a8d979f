//! Where things are at the end of a drive that SoftROC gives a structure.
//!
//! ```text
//! drive                          tail: 32 MiB, and what is left over to 4 KiB
//! ┌──────────────────────────────┬───────────┬─────────┬───────────┬──────────────────────────────┬────────┐
//! │ data of volumes              │ workspace │ primary │ secondary │ SoftROC's region             │ anchor │
//! └──────────────────────────────┴───────────┴─────────┴───────────┴──────────────────────────────┴────────┘
//! 0                     tail +   0           16 MiB    18 MiB      20 MiB                          last block
//! ```
//!
//! On drives that were imported with data up to their end, the tail is in front of the data ([`TailPlace`]).
//!
//! The limits are those of Linux md, which takes no others: 1023 physical disks, 255 virtual disks, 64 records a drive
//! with 256 elements. Unlike Linux md's, the secondary copy is not in the workspace, which any controller may use.

use super::header::{Coding, Header, Place, Section};
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
/// Of a record: what comes before its elements, and what each takes.
const RECORD_BYTES: u64 = 512 + 12 * MOST_ELEMENTS as u64;

/// The tail of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    size: ByteCount,
    block: SectorSize,
    tail: Tail,
}

impl Site {
    /// The tail at the end of a drive of that size with those blocks; `None` where there is no room for it and anything
    /// before it, and where the size is not a whole number of blocks.
    pub fn of(size: ByteCount, block: SectorSize) -> Option<Site> {
        Site::at(size, block, TailPlace::End)
    }

    /// The same of a tail at that place.
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

    /// Where on the drive the tail is.
    pub fn place(&self) -> TailPlace {
        self.tail.place()
    }

    /// Where the tail begins.
    pub fn tail(&self) -> ByteOffset {
        self.tail.start()
    }

    /// The workspace: any controller may use it.
    pub fn workspace(&self) -> ByteRange {
        ByteRange::new(self.tail(), ByteCount(WORKSPACE))
    }

    /// Where the primary copy begins.
    pub fn primary(&self) -> ByteOffset {
        self.workspace().end()
    }

    /// Where the secondary copy begins.
    pub fn secondary(&self) -> ByteOffset {
        self.primary() + ByteCount(COPY)
    }

    /// SoftROC's own region: nobody else has a reason to write there.
    pub fn region(&self) -> ByteRange {
        let start = self.secondary() + ByteCount(COPY);
        let end = match self.tail.place() {
            TailPlace::End => self.anchor().align_down(BLOCK),
            TailPlace::Front | TailPlace::FrontWithAnchor => self.tail.range().end(),
        };
        ByteRange::from_to(start, end)
    }

    /// Where the anchor is.
    pub fn anchor(&self) -> ByteOffset {
        anchor(self.size, self.block, self.tail.place())
    }

    /// The length of a drive's data area, in its blocks.
    pub fn configured_blocks(&self) -> u64 {
        self.blocks(self.tail.data().end().0)
    }

    /// How its structure is written.
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
            Place { offset_blocks, blocks }
        };
        let record_blocks = RECORD_BYTES.div_ceil(self.block.bytes().0);
        let records = u64::from(MOST_RECORDS + 1) * record_blocks * self.block.bytes().0;
        let mut places = [Place::ABSENT; 8];
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

/// Where the anchor is of a structure that lies at that place.
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
