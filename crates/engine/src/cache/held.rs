//! What a line holds of a write: its bytes, and who is told of it.

use crate::cache::Waiting;
use crate::shard::Stored;
use ::cache::Held as HeldOf;
use env::Slice;
use smallvec::SmallVec;
use std::rc::Rc;
use units::ByteCount;

/// A write in its line, or a part of one.
#[derive(Clone)]
pub(super) struct Held {
    bytes: Bytes,
    pub(super) write: Rc<Waiting>,
}

#[derive(Clone)]
enum Bytes {
    /// As its host gave them, who waits.
    Given(Slice),
    /// Of a write in cells: which, from where on and how many.
    InCells { cells: Rc<[Stored]>, at: ByteCount, len: ByteCount },
}

impl Held {
    /// A write whose host waits.
    pub(super) fn given(data: Slice, write: Rc<Waiting>) -> Held {
        Held { bytes: Bytes::Given(data), write }
    }

    /// A write that is in cells.
    pub(super) fn in_cells(cells: Rc<[Stored]>, write: Rc<Waiting>) -> Held {
        let len = ByteCount(cells.iter().map(|stored| stored.slice.len().0).sum());
        Held { bytes: Bytes::InCells { cells, at: ByteCount::ZERO, len }, write }
    }

    /// Its bytes, one slice after the other.
    pub(super) fn slices(&self) -> SmallVec<[Slice; 2]> {
        match &self.bytes {
            Bytes::Given(data) => SmallVec::from_iter([data.clone()]),
            Bytes::InCells { .. } => {
                let parts = self.parts().into_iter();
                parts.map(|(stored, at, len)| stored.slice.cut(at, len)).collect()
            }
        }
    }

    /// The parts of cells that it is: which, from where on and how many bytes.
    fn parts(&self) -> SmallVec<[(&Stored, ByteCount, ByteCount); 2]> {
        let Bytes::InCells { cells, at, len } = &self.bytes else { return SmallVec::new() };
        let (mut before, end) = (0, at.0 + len.0);
        let parts = cells.iter().filter_map(|stored| {
            let (start, until) = (before, before + stored.slice.len().0);
            before = until;
            let (from, to) = (at.0.max(start), end.min(until));
            (from < to).then(|| (stored, ByteCount(from - start), ByteCount(to - from)))
        });
        parts.collect()
    }
}

impl HeldOf for Held {
    fn cut(&self, from: ByteCount, len: ByteCount) -> Held {
        let bytes = match &self.bytes {
            Bytes::Given(data) => Bytes::Given(data.cut(from, len)),
            Bytes::InCells { cells, at, len: of } => {
                assert!(from.0 + len.0 <= of.0, "{len} from {from} on of {of}");
                Bytes::InCells { cells: cells.clone(), at: *at + from, len }
            }
        };
        Held { bytes, write: self.write.clone() }
    }

    fn settled(&self) {
        for (stored, _, len) in self.parts() {
            stored.settle(len);
        }
    }
}
