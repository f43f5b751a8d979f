//! A write in a cache line: its bytes, and the host's waiting request.

use crate::shard::Stored;
use ::block_cache::{Destage, Held as HeldOf};
use platform::sync::Signal;
use platform::{Durability, Env, IoError, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::ByteCount;

/// A waiting write, and messages to its task.
pub(super) struct Waiting {
    pub(super) durability: Durability,
    told: RefCell<Option<Told>>,
    changed: Signal,
    /// A data log record has all dirty data of the write, or will have before any acknowledgement.
    pub(super) is_logged: Cell<bool>,
}

/// Messages to a waiting write.
pub(super) enum Told {
    /// Carry out a destage; this write is its oldest.
    CarryOut(Destage),
    /// The result of the write.
    Done(Result<(), IoError>),
}

impl Waiting {
    pub(super) fn new(durability: Durability) -> Rc<Waiting> {
        Rc::new(Waiting {
            durability,
            told: RefCell::new(None),
            changed: Signal::default(),
            is_logged: Cell::new(false),
        })
    }

    pub(super) fn tell(&self, env: &Env, what: Told) {
        let before = self.told.replace(Some(what));
        assert!(before.is_none(), "a write gets one message at a time");
        self.changed.notify(env);
    }

    pub(super) async fn hear(&self, env: &Env) -> Told {
        self.changed.wait_until(env, || self.told.borrow().is_some()).await;
        match self.told.take() {
            Some(told) => told,
            None => panic!("only the write itself takes its message"),
        }
    }
}

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
