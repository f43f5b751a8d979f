//! Where things lie in the reserved tail of a drive.

use units::{ByteCount, ByteOffset, ByteRange};

/// What is reserved at the end of every drive, at least: where DDF keeps its data.
pub const TAIL: ByteCount = ByteCount(32 << 20);

/// The unit in which everything in the tail is placed: the strictest sector.
pub const BLOCK: ByteCount = ByteCount(4096);

/// The room of one label slot.
pub const SLOT: ByteCount = ByteCount(1 << 20);

/// The room of one copy of the write-intent map.
const MAP_COPY: ByteCount = ByteCount(1 << 20);

/// One of the two places of a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// Both.
    pub const BOTH: [Slot; 2] = [Slot::A, Slot::B];

    /// The other one.
    #[must_use]
    pub fn other(self) -> Slot {
        match self {
            Slot::A => Slot::B,
            Slot::B => Slot::A,
        }
    }
}

/// The tail of a drive of a certain size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    start: ByteOffset,
    end: ByteOffset,
}

impl Tail {
    /// The tail of a drive of `size`; `None` where there is no room for it and anything before it.
    pub fn of(size: ByteCount) -> Option<Tail> {
        let start = ByteOffset(size.0.checked_sub(TAIL.0)?).align_down(BLOCK);
        (start > ByteOffset::ZERO).then_some(Tail { start, end: ByteOffset(size.0) })
    }

    /// Where it begins: the end of the drive's data.
    pub fn start(&self) -> ByteOffset {
        self.start
    }

    /// All of a label slot.
    pub fn slot(&self, slot: Slot) -> ByteRange {
        let at = match slot {
            Slot::A => ByteCount::ZERO,
            Slot::B => SLOT,
        };
        ByteRange::new(self.start + at, SLOT)
    }

    /// Blocks `first` to `first + count` of a copy (0 or 1) of the write-intent map.
    pub fn map_blocks(&self, copy: usize, first: u32, count: u32) -> ByteRange {
        let at = SLOT * 2 + MAP_COPY * copy as u64 + BLOCK * u64::from(first);
        ByteRange::new(self.start + at, BLOCK * u64::from(count))
    }

    /// The last 4 KiB of the drive: its mark (see [`MARK`](crate::MARK)).
    pub fn mark(&self) -> ByteRange {
        ByteRange::new(ByteOffset(self.end.0 - BLOCK.0), BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place_and_nothing_overlaps() {
        let tail = Tail::of(ByteCount((64 << 20) + 512)).unwrap();
        assert_eq!(tail.start(), ByteOffset(32 << 20));
        let places = [
            tail.slot(Slot::A),
            tail.slot(Slot::B),
            tail.map_blocks(0, 0, crate::intent::MAX_BLOCKS),
            tail.map_blocks(1, 0, crate::intent::MAX_BLOCKS),
            tail.mark(),
        ];
        for pair in places.windows(2) {
            assert!(pair[0].end() <= pair[1].start, "{pair:?}");
        }
        assert!(places[2].len <= MAP_COPY);
        assert_eq!(places[4].end(), ByteOffset((64 << 20) + 512));
    }

    #[test]
    fn a_drive_without_room_for_data_has_no_tail() {
        for size in [0, 512, TAIL.0, TAIL.0 + 4095] {
            assert_eq!(Tail::of(ByteCount(size)), None, "{size}");
        }
        assert!(Tail::of(ByteCount(TAIL.0 + 4096)).is_some());
    }
}
