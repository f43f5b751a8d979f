//! What a line holds of a write: its bytes, and who is told of it.

use crate::cache::Waiting;
use crate::shard::Stored;
use ::cache::Held as HeldOf;
use env::Slice;
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset};

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
            // Of a model there are no bytes, and one length says as much as one for each cell.
            Bytes::InCells { cells, len, .. } if cells.iter().any(|stored| stored.slice.is_hollow()) => {
                SmallVec::from_iter([Slice::hollow(*len)])
            }
            Bytes::InCells { .. } => {
                self.parts().map(|(stored, at, len)| stored.slice.cut(at, len)).collect()
            }
        }
    }

    /// The parts of cells that it is: which, from where on and how many bytes. The cells of a write follow each other in the volume.
    fn parts(&self) -> impl Iterator<Item = (&Stored, ByteCount, ByteCount)> {
        let (cells, at, len) = match &self.bytes {
            Bytes::Given(_) => (&[][..], ByteCount::ZERO, ByteCount::ZERO),
            Bytes::InCells { cells, at, len } => (&cells[..], *at, *len),
        };
        let from = cells.first().map_or(ByteOffset::ZERO, |stored| stored.range().start) + at;
        let until = from + len;
        let first = cells.partition_point(|stored| stored.range().end() <= from);
        let mine = cells[first..].iter().take_while(move |stored| stored.range().start < until);
        mine.map(move |stored| {
            let (start, end) = (stored.range().start.max(from), stored.range().end().min(until));
            (stored, start - stored.range().start, end - start)
        })
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
