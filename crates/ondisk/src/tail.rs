//! Where SoftROC's things lie in the reserved tail of a drive: the structure in DDF, and the region behind it.

use crate::ddf::Site;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// What is reserved at the end of every drive, at least: where DDF keeps its data.
pub const TAIL: ByteCount = ByteCount(32 << 20);

/// The unit in which everything in the tail is placed: the strictest sector.
pub const BLOCK: ByteCount = ByteCount(4096);

/// Where the record of initialised regions lies, from the tail's beginning on, and how much room each copy of it has.
const INITIALISED_AT: ByteCount = ByteCount((22 << 20) + (64 << 10));
const INITIALISED_COPY: ByteCount = ByteCount(192 << 10);

/// The same of the record of regions that are initialised in part.
const PARTLY_AT: ByteCount = ByteCount((22 << 20) + (512 << 10));
const PARTLY_COPY: ByteCount = ByteCount(512 << 10);

/// The room of one copy of the write-intent map.
const MAP_COPY: ByteCount = ByteCount(1 << 20);

/// Where the region begins, from the tail's beginning on: behind the workspace and both copies of the structure.
const REGION: ByteCount = ByteCount(20 << 20);

/// Where the undo log of an import lies, from the tail's beginning on.
const UNDO_AT: ByteCount = ByteCount(24 << 20);

/// Where the journals lie: in the workspace, which DDF leaves to whoever wrote the structure, behind the places of earlier labels.
const JOURNALS_AT: ByteCount = ByteCount(2 << 20);

/// How the labels of versions 1 and 2 began, which SoftROC wrote before it wrote DDF.
pub(crate) const EARLIER_MAGIC: [u8; 8] = *b"SoftROC\0";

/// What of a tail consists of blocks that are written in turn to two copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The write-intent map.
    WriteIntent,
    /// Regions that are initialised.
    Initialised,
    /// Regions that are initialised in part.
    PartlyInitialised,
}

/// Where the tail of the drives of an array is. Only drives that were imported have it elsewhere than at the end: where the
/// data reach to the end, and their system left room before them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailPlace {
    /// The last 32 MiB; data before them.
    #[default]
    End,
    /// The 32 MiB from 1 MiB on; data behind them, and the anchor in the last block, behind the data.
    Front,
    /// The 32 MiB that end 4 KiB earlier, and the anchor 4 KiB from the drive's beginning; data behind them, to the drive's end.
    FrontWithAnchor,
}

/// Where the anchor is that is not in the last block.
pub(crate) const FRONT_ANCHOR: ByteOffset = ByteOffset(BLOCK.0);

/// Where the tail of drives begins that have it in front.
const FRONT: ByteOffset = ByteOffset(1 << 20);

impl TailPlace {
    /// All of them, in the order in which an import takes them.
    pub const ALL: [TailPlace; 3] = [TailPlace::End, TailPlace::Front, TailPlace::FrontWithAnchor];

    /// The place of the tail whose primary copy begins there: that says it, for no two begin alike.
    pub fn of_primary(primary: ByteOffset) -> TailPlace {
        let in_front = [TailPlace::Front, TailPlace::FrontWithAnchor];
        let start = primary.0.checked_sub(crate::ddf::WORKSPACE);
        in_front.into_iter().find(|place| place.front().map(|at| at.0) == start).unwrap_or(TailPlace::End)
    }

    /// Where the data of volumes may begin.
    pub fn data_start(self) -> ByteOffset {
        self.front().map_or(ByteOffset::ZERO, |start| start + TAIL)
    }

    /// Whether it is at the end.
    pub fn is_end(&self) -> bool {
        *self == TailPlace::End
    }

    /// Where it begins, of one that is in front.
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
    /// The room of the undo log of an import.
    pub const UNDO: ByteCount = ByteCount(6 << 20);

    /// The room of the journals of all volumes.
    pub const JOURNALS: ByteCount = ByteCount(14 << 20);

    /// What lies in it beside the structure, at its end, from its beginning on: the workspace with the journals; maps, the witness and the undo log.
    pub const BESIDE_STRUCTURE: [Range<u64>; 2] =
        [0..crate::ddf::WORKSPACE, REGION.0..UNDO_AT.0 + Tail::UNDO.0];

    /// The tail at the end of a drive of `size`; `None` where there is no room for it and anything before it.
    pub fn of(size: ByteCount) -> Option<Tail> {
        Tail::at(size, TailPlace::End)
    }

    /// The tail at that place of a drive of `size`; `None` where there is no room for it and for data.
    pub fn at(size: ByteCount, place: TailPlace) -> Option<Tail> {
        let start = match place.front() {
            Some(start) => start,
            None => ByteOffset(size.0.checked_sub(TAIL.0)?).align_down(BLOCK),
        };
        let tail = Tail { start, size, place };
        (!tail.data().is_empty()).then_some(tail)
    }

    /// Where it begins.
    pub fn start(&self) -> ByteOffset {
        self.start
    }

    /// Where on the drive it is.
    pub fn place(&self) -> TailPlace {
        self.place
    }

    /// All of it, but for an anchor that lies elsewhere.
    pub fn range(&self) -> ByteRange {
        match self.place {
            TailPlace::End => ByteRange::from_to(self.start, ByteOffset(self.size.0)),
            TailPlace::Front | TailPlace::FrontWithAnchor => ByteRange::new(self.start, TAIL),
        }
    }

    /// Where the drive's data may be.
    pub fn data(&self) -> ByteRange {
        let start = self.place.data_start();
        let end = match self.place {
            TailPlace::End => self.start.0,
            TailPlace::Front => self.size.0.saturating_sub(BLOCK.0),
            TailPlace::FrontWithAnchor => self.size.0,
        };
        ByteRange::new(start, ByteCount(end.saturating_sub(start.0)))
    }

    /// Where the structure lies on a drive with blocks of that length; `None` where its size is not a whole number of
    /// them.
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

    /// Where the journals of all volumes are.
    pub fn journals(&self) -> ByteRange {
        ByteRange::new(self.start + JOURNALS_AT, Tail::JOURNALS)
    }

    /// The room of the undo log of an import.
    pub fn undo(&self) -> ByteRange {
        ByteRange::new(self.start + UNDO_AT, Tail::UNDO)
    }

    /// The first block of the undo log: without it there is none.
    pub fn undo_head(&self) -> ByteRange {
        ByteRange::new(self.undo().start, BLOCK)
    }

    /// Where something may lie by which a drive is known as one of SoftROC's, or of an earlier SoftROC's: to be
    /// overwritten, in this order, when a drive is to be nobody's.
    pub fn marks(&self) -> [ByteRange; 6] {
        let anchor = match self.place {
            TailPlace::End => {
                let last = ByteOffset(self.size.0).align_down(BLOCK);
                let last = if last.0 == self.size.0 { ByteOffset(last.0 - BLOCK.0) } else { last };
                ByteRange::from_to(last, ByteOffset(self.size.0))
            }
            // Data may end in the block of 4 KiB that the drive ends with.
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
            let (first, second) =
                (tail.blocks(Area::WriteIntent, 0, 0, most), tail.blocks(Area::WriteIntent, 1, 0, most));
            assert_eq!(first.start, site.region().start);
            assert!(first.len <= MAP_COPY && first.end() <= second.start);
            assert!(second.end() <= tail.witness().start && tail.witness().end() <= tail.undo().start);
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
                assert!(mark.contains(anchor) && mark.intersection(tail.data()).is_empty(), "{place:?}");
                assert!(others.iter().all(|mark| tail.range().contains(*mark)), "{place:?}");
                assert!(tail.range().contains(site.region()) && site.region().contains(tail.undo()));
                assert!(tail.range().contains(tail.journals()) && tail.range().contains(tail.witness()));
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
