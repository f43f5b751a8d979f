//! Offsets in the reserved tail of a drive: the DDF structure, and SoftROC's region behind it.

use crate::ddf::Site;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// The least bytes reserved at the end of every drive, where DDF keeps its data.
pub const TAIL: ByteCount = ByteCount(32 << 20);

/// The alignment of everything in the tail: the largest sector.
pub const BLOCK: ByteCount = ByteCount(4096);

/// The offset of the record of initialised regions from the start of the tail, and the length of
/// each copy.
const INITIALISED_AT: ByteCount = ByteCount((22 << 20) + (64 << 10));
const INITIALISED_COPY: ByteCount = ByteCount(192 << 10);

/// The same for the record of partially initialised regions.
const PARTLY_AT: ByteCount = ByteCount((22 << 20) + (512 << 10));
const PARTLY_COPY: ByteCount = ByteCount(512 << 10);

/// The length of one copy of the write-intent map.
const MAP_COPY: ByteCount = ByteCount(1 << 20);

/// The offset of the region from the start of the tail: behind the workspace and both copies of the
/// structure.
const REGION: ByteCount = ByteCount(20 << 20);

/// The offset of the undo log of an import from the start of the tail.
const UNDO_AT: ByteCount = ByteCount(24 << 20);

/// The offset of the journals: in the workspace, which DDF leaves to the software that wrote the
/// structure, behind the places of earlier labels.
const JOURNALS_AT: ByteCount = ByteCount(2 << 20);

/// The magic number of the labels of versions 1 and 2, which predate DDF in SoftROC.
pub(crate) const EARLIER_MAGIC: [u8; 8] = *b"SoftROC\0";

/// The areas of a tail whose blocks alternate between two copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The write-intent map.
    WriteIntent,
    /// Initialised regions.
    Initialised,
    /// Partially initialised regions.
    PartlyInitialised,
}

/// The place of the tail on the drives of an array. Only imported drives have it elsewhere than at
/// the end: where the data reach to the end, and the foreign system left space before them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailPlace {
    /// The last 32 MiB; data before them.
    #[default]
    End,
    /// The 32 MiB from 1 MiB on; data behind them, and the anchor in the last block, behind the
    /// data.
    Front,
    /// The 32 MiB that end 4 KiB earlier, and the anchor 4 KiB from the drive's beginning; data
    /// behind them, to the drive's end.
    FrontWithAnchor,
}

/// The place of an anchor that is not in the last block.
pub(crate) const FRONT_ANCHOR: ByteOffset = ByteOffset(BLOCK.0);

/// The start of a tail that lies in front.
const FRONT: ByteOffset = ByteOffset(1 << 20);

impl TailPlace {
    /// All places, in the order in which an import tries them.
    pub const ALL: [TailPlace; 3] = [TailPlace::End, TailPlace::Front, TailPlace::FrontWithAnchor];

    /// The place of the tail with that primary copy: the offsets of all places differ.
    pub fn of_primary(primary: ByteOffset) -> TailPlace {
        let in_front = [TailPlace::Front, TailPlace::FrontWithAnchor];
        let start = primary.0.checked_sub(crate::ddf::WORKSPACE);
        in_front
            .into_iter()
            .find(|place| place.front().map(|at| at.0) == start)
            .unwrap_or(TailPlace::End)
    }

    /// The first byte that volumes may use.
    pub fn data_start(self) -> ByteOffset {
        self.front().map_or(ByteOffset::ZERO, |start| start + TAIL)
    }

    /// Whether the tail is at the end.
    pub fn is_end(&self) -> bool {
        *self == TailPlace::End
    }

    /// Its start, where it is in front.
    fn front(self) -> Option<ByteOffset> {
        match self {
            TailPlace::End => None,
            TailPlace::Front => Some(FRONT),
            TailPlace::FrontWithAnchor => Some(ByteOffset(FRONT.0 - BLOCK.0)),
        }
    }
}

/// The tail of a drive of a certain size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    start: ByteOffset,
    size: ByteCount,
    place: TailPlace,
}

impl Tail {
    /// The length of the undo log of an import.
    pub const UNDO: ByteCount = ByteCount(6 << 20);

    /// The length of the journals of all volumes.
    pub const JOURNALS: ByteCount = ByteCount(14 << 20);

    /// The ranges of a tail without the structure, from its start on: the workspace with the
    /// journals; maps, the witness and the undo log.
    pub const BESIDE_STRUCTURE: [Range<u64>; 2] =
        [0..crate::ddf::WORKSPACE, REGION.0..UNDO_AT.0 + Tail::UNDO.0];

    /// The tail at the end of a drive of `size`; `None` where there is no space for it and some
    /// data.
    pub fn of(size: ByteCount) -> Option<Tail> {
        Tail::at(size, TailPlace::End)
    }

    /// The tail at that place of a drive of `size`; `None` where there is no space for it and some
    /// data.
    pub fn at(size: ByteCount, place: TailPlace) -> Option<Tail> {
        let start = match place.front() {
            Some(start) => start,
            None => ByteOffset(size.0.checked_sub(TAIL.0)?).align_down(BLOCK),
        };
        let tail = Tail { start, size, place };
        (!tail.data().is_empty()).then_some(tail)
    }

    /// Its first byte.
    pub fn start(&self) -> ByteOffset {
        self.start
    }

    /// Its place on the drive.
    pub fn place(&self) -> TailPlace {
        self.place
    }

    /// All of it, except an anchor that lies elsewhere.
    pub fn range(&self) -> ByteRange {
        match self.place {
            TailPlace::End => ByteRange::from_to(self.start, ByteOffset(self.size.0)),
            TailPlace::Front | TailPlace::FrontWithAnchor => ByteRange::new(self.start, TAIL),
        }
    }

    /// The range for the drive's data.
    pub fn data(&self) -> ByteRange {
        let start = self.place.data_start();
        let end = match self.place {
            TailPlace::End => self.start.0,
            TailPlace::Front => self.size.0.saturating_sub(BLOCK.0),
            TailPlace::FrontWithAnchor => self.size.0,
        };
        ByteRange::new(start, ByteCount(end.saturating_sub(start.0)))
    }

    /// The place of the structure on a drive with that block size; `None` where the drive's size is
    /// not a whole number of blocks.
    pub fn site(&self, block: SectorSize) -> Option<Site> {
        Site::at(self.size, block, self.place)
    }

    /// Blocks `first` to `first + count` of a copy (0 or 1) of an area.
    pub fn blocks(&self, area: Area, copy: usize, first: u32, count: u32) -> ByteRange {
        let (start, room) = match area {
            Area::WriteIntent => (REGION, MAP_COPY),
            Area::Initialised => (INITIALISED_AT, INITIALISED_COPY),
            Area::PartlyInitialised => (PARTLY_AT, PARTLY_COPY),
        };
        let at = start + room * copy as u64 + BLOCK * u64::from(first);
        ByteRange::new(self.start + at, BLOCK * u64::from(count))
    }

    /// The block of the witness.
    pub fn witness(&self) -> ByteRange {
        ByteRange::new(self.start + REGION + MAP_COPY * 2, BLOCK)
    }

    /// The range of the journals of all volumes.
    pub fn journals(&self) -> ByteRange {
        ByteRange::new(self.start + JOURNALS_AT, Tail::JOURNALS)
    }

    /// The range of the undo log of an import.
    pub fn undo(&self) -> ByteRange {
        ByteRange::new(self.start + UNDO_AT, Tail::UNDO)
    }

    /// The first block of the undo log, which every log has.
    pub fn undo_head(&self) -> ByteRange {
        ByteRange::new(self.undo().start, BLOCK)
    }

    /// The ranges that may identify a drive as SoftROC's, now or in earlier versions. To release a
    /// drive, they are overwritten in this order.
    pub fn marks(&self) -> [ByteRange; 6] {
        let anchor = match self.place {
            TailPlace::End => {
                let last = ByteOffset(self.size.0).align_down(BLOCK);
                let last = if last.0 == self.size.0 { ByteOffset(last.0 - BLOCK.0) } else { last };
                ByteRange::from_to(last, ByteOffset(self.size.0))
            }
            // Data may extend into the last 4 KiB of the drive.
            TailPlace::Front => ByteRange::from_to(self.data().end(), ByteOffset(self.size.0)),
            TailPlace::FrontWithAnchor => ByteRange::new(FRONT_ANCHOR, BLOCK),
        };
        let copy = |at: u64| ByteRange::new(self.start + ByteCount(at), BLOCK);
        let [a, b] = self.earlier_labels();
        [anchor, copy(16 << 20), copy(18 << 20), self.witness(), a, b]
    }

    /// The first blocks of the two labels of versions 1 and 2.
    pub(crate) fn earlier_labels(&self) -> [ByteRange; 2] {
        [0, 1 << 20].map(|at| ByteRange::new(self.start + ByteCount(at), BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place_and_nothing_overlaps() {
        for (size, block) in [((64 << 20) + 512, SectorSize::B512), (64 << 20, SectorSize::B4096)] {
            let tail = Tail::of(ByteCount(size)).unwrap();
            let site = tail.site(block).unwrap();
            assert_eq!((tail.start(), site.tail()), (ByteOffset(32 << 20), tail.start()));
            let most = crate::intent::MAX_BLOCKS;
            let (first, second) = (
                tail.blocks(Area::WriteIntent, 0, 0, most),
                tail.blocks(Area::WriteIntent, 1, 0, most),
            );
            assert_eq!(first.start, site.region().start);
            assert!(first.len <= MAP_COPY && first.end() <= second.start);
            assert!(
                second.end() <= tail.witness().start && tail.witness().end() <= tail.undo().start
            );
            let partly = crate::initialised::MAX_BLOCKS;
            let records = [
                tail.witness(),
                tail.blocks(Area::Initialised, 0, 0, most),
                tail.blocks(Area::Initialised, 1, 0, most),
                tail.blocks(Area::PartlyInitialised, 0, 0, partly),
                tail.blocks(Area::PartlyInitialised, 1, 0, partly),
                tail.undo(),
            ];
            assert!(records.windows(2).all(|pair| pair[0].end() <= pair[1].start));
            assert!(site.region().contains(tail.undo()) && tail.undo().contains(tail.undo_head()));
            let marks = tail.marks();
            assert!(marks[0].contains(ByteRange::new(site.anchor(), block.bytes())));
            assert_eq!((marks[1].start, marks[2].start), (site.primary(), site.secondary()));
            assert!(site.workspace().contains(tail.journals()));
            assert!(marks.iter().all(|mark| mark.intersection(tail.journals()).is_empty()));
            assert!(marks[4..].iter().all(|mark| site.workspace().contains(*mark)));
        }
    }

    #[test]
    fn a_tail_in_front_is_beside_the_data_and_its_primary_copy_says_where_it_is() {
        for place in TailPlace::ALL {
            for block in [SectorSize::B512, SectorSize::B4096] {
                let tail = Tail::at(ByteCount(100 << 20), place).unwrap();
                let site = tail.site(block).unwrap();
                assert_eq!((TailPlace::of_primary(site.primary()), site.place()), (place, place));
                assert!(tail.range().intersection(tail.data()).is_empty(), "{place:?}");
                let anchor = ByteRange::new(site.anchor(), block.bytes());
                let [mark, others @ ..] = tail.marks();
                assert!(
                    mark.contains(anchor) && mark.intersection(tail.data()).is_empty(),
                    "{place:?}"
                );
                assert!(others.iter().all(|mark| tail.range().contains(*mark)), "{place:?}");
                assert!(
                    tail.range().contains(site.region()) && site.region().contains(tail.undo())
                );
                assert!(
                    tail.range().contains(tail.journals()) && tail.range().contains(tail.witness())
                );
            }
        }
        let least = TailPlace::Front.data_start().0 + BLOCK.0;
        assert_eq!(Tail::at(ByteCount(least), TailPlace::Front), None, "no room for data");
        assert!(Tail::at(ByteCount(least + 1), TailPlace::Front).is_some());
    }

    #[test]
    fn a_drive_without_room_for_data_has_no_tail() {
        for size in [0, 512, TAIL.0, TAIL.0 + 4095] {
            assert_eq!(Tail::of(ByteCount(size)), None, "{size}");
        }
        assert!(Tail::of(ByteCount(TAIL.0 + 4096)).is_some());
    }
}
