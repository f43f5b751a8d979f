//! The state of write-back: see [`write_back`](crate::cache::write_back).

use crate::memory::{CacheCounters, Marks};
use crate::recovery::Recovery;
use ::block_cache::{Destage, Sequence};
use platform::sync::{Credits, Signal};
use platform::{Instant, IoError, Runners};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The most strips of data in destage at a time.
pub(super) const MOST_STRIPS: usize = 512;

/// The write-back state of a volume on a shard.
pub(super) struct Absorbing {
    pub(super) marks: Marks,
    pub(super) destages: Runners<Destage>,
    /// Strips of data in destage.
    pub(super) under_way: Cell<usize>,
    /// Writes up to this one are destaged: they are too old, or a task waits for them.
    pub(super) due: Cell<Sequence>,
    /// The latest write of each tick, with its time.
    pub(super) ages: RefCell<VecDeque<(Instant, Sequence)>>,
    pub(super) is_ticking: Cell<bool>,
    /// A task waits for the destage of writes up to this one.
    pub(super) asked: Cell<Sequence>,
    pub(super) is_idle: Cell<bool>,
    /// The lock to be the next write that gets space: small writes cannot starve large ones.
    pub(super) turn: Credits,
    /// The number of requests at the last tick.
    pub(super) requests: Cell<u64>,
    /// Whether a destage succeeded since the last tick: then failed destages are retried.
    pub(super) has_destaged: Cell<bool>,
    pub(super) last_error: Cell<Option<IoError>>,
    /// A flush for destaged data is in progress.
    pub(super) is_flushing: Cell<bool>,
    /// The last such flush failed.
    pub(super) flush_failed: Cell<bool>,
    /// The time of the last such flush.
    pub(super) flushed_at: Cell<Instant>,
    /// A destage has ended.
    pub(super) changed: Signal,
    pub(super) counters: Cell<CacheCounters>,
}

impl Absorbing {
    pub(super) fn new(volume: &Rc<Recovery>, marks: Marks) -> Absorbing {
        let env = volume.shard.env();
        Absorbing {
            marks,
            destages: Runners::new(env, "destage", MOST_STRIPS),
            under_way: Cell::new(0),
            due: Cell::default(),
            ages: RefCell::default(),
            is_ticking: Cell::new(false),
            asked: Cell::default(),
            is_idle: Cell::new(false),
            turn: Credits::new(env, 1),
            requests: Cell::new(0),
            has_destaged: Cell::new(false),
            last_error: Cell::new(None),
            is_flushing: Cell::new(false),
            flush_failed: Cell::new(false),
            flushed_at: Cell::new(env.now()),
            changed: Signal::default(),
            counters: Cell::default(),
        }
    }

    /// Passes a destage to a task.
    pub(super) fn give(&self, destage: Destage) {
        self.under_way.set(self.under_way.get() + destage.strips);
        self.count(|counters| counters.destages += 1);
        self.destages.give(destage);
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut CacheCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}
