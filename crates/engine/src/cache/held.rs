//! A write in a cache line: its bytes, and the host's waiting request.

use crate::cache::Waiting;
use crate::shard::Stored;
use ::block_cache::Held as HeldOf;
use platform::Slice;
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
    /// In the buffer of the host, which waits for the destage.
    Given(Slice),
    /// In cache blocks.
    InCells(Stored),
}

impl Held {
    /// A write whose host waits for the destage.
    pub(super) fn given(data: Slice, write: Rc<Waiting>) -> Held {
        Held { bytes: Bytes::Given(data), write }
    }

    /// A write that is in cache blocks.
    pub(super) fn in_cells(stored: Stored, write: Rc<Waiting>) -> Held {
        Held { bytes: Bytes::InCells(stored), write }
    }

    /// Its bytes, as consecutive slices.
    pub(super) fn slices(&self) -> SmallVec<[Slice; 2]> {
        match &self.bytes {
            Bytes::Given(data) => SmallVec::from_iter([data.clone()]),
            Bytes::InCells(stored) => stored.slices(),
        }
    }
}

impl HeldOf for Held {
    fn cut(&self, from: ByteCount, len: ByteCount) -> Held {
        let bytes = match &self.bytes {
            Bytes::Given(data) => Bytes::Given(data.cut(from, len)),
            Bytes::InCells(stored) => Bytes::InCells(stored.cut(from, len)),
        };
        Held { bytes, write: self.write.clone() }
    }

    fn settled(&self) {
        match &self.bytes {
            Bytes::Given(_) => {}
            Bytes::InCells(stored) => stored.settle(),
        }
    }

    fn destaged(&self) {
        match &self.bytes {
            Bytes::Given(_) => {}
            Bytes::InCells(stored) => stored.keep_until_flushed(),
        }
    }
}
