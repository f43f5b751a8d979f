//! The journal of a volume on one shard, and the writes that wait for a record.

use super::Devices;
use super::terms::JournalTerms;
use crate::attachment::{JournalOn, JournalPlace};
use crate::stripe::records::{Medium, RecordRing};
use crate::volume::VolumeSpec;
use platform::sync::Signal;
use platform::{Env, Instant, IoError, IoOutcome, Receiver, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use write_log::{About, Change, LogId, WholeStripes};

/// The record content of one write.
pub(super) struct Entry {
    pub(super) about: About,
    pub(super) changes: SmallVec<[Change; 4]>,
    /// The bytes of the changes that carry bytes.
    pub(super) bytes: SmallVec<[Slice; 4]>,
    pub(super) len: u64,
    /// The write that waits for the record: it gets the record's number.
    pub(super) tell: Option<Receiver>,
}

impl Entry {
    /// Notifies the waiting write.
    pub(super) fn tell(&mut self, result: Result<u64, IoError>) {
        if let Some(tell) = self.tell.take() {
            tell.complete(IoOutcome { result, ..IoOutcome::done(0) });
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(Receiver::OnReturn(whom, token)) = self.tell.take() {
            whom.forgotten(token);
        }
    }
}

/// The journal of a volume on one shard.
pub(super) struct Journal {
    pub(super) records: RecordRing,
    pub(super) terms: JournalTerms,
    pub(super) waiting: RefCell<VecDeque<Entry>>,
    /// A task has been started to write a record, and has not begun it yet.
    pub(super) is_beginning: Cell<bool>,
    pub(super) under_way: Cell<usize>,
    /// The number of writes in the last record.
    pub(super) last_batch: Cell<usize>,
    pub(super) retiring: Cell<bool>,
    /// The time of the last retirement.
    pub(super) retired_at: Cell<Instant>,
    /// Notifies that a record is complete or retired.
    pub(super) changed: Signal,
}

impl Journal {
    /// Creates the ring of a shard. `None` if the volume needs no journal, or a shard's share is
    /// too small.
    ///
    /// # Errors
    /// When this shard cannot attach a log device.
    pub(super) fn new(
        env: &Env,
        place: Option<&JournalPlace>,
        spec: &VolumeSpec,
        shard: u16,
        shards: u16,
    ) -> platform::Result<Option<Rc<Journal>>> {
        let Some(place) = place else { return Ok(None) };
        let terms = JournalTerms::new(&crate::served(&spec.geometry), spec.sector, place, shards);
        let Some(terms) = terms else { return Ok(None) };
        let medium = match &place.on {
            JournalOn::Members { at, tail } => {
                Medium::Members { at: *at, tail: *tail, copies: terms.copies }
            }
            JournalOn::Devices { at, devices } => {
                Medium::Devices(*at, Devices::attach(env, spec, devices)?)
            }
        };
        Ok(Some(Rc::new(Journal {
            records: RecordRing::new(env, LogId(place.id.0), medium, shard, terms.ring),
            terms,
            waiting: RefCell::default(),
            is_beginning: Cell::new(false),
            under_way: Cell::new(0),
            last_batch: Cell::new(0),
            retiring: Cell::new(false),
            retired_at: Cell::new(env.now()),
            changed: Signal::default(),
        })))
    }

    /// Whether a replay is certain to find its records after a crash.
    pub(super) fn promises(&self) -> bool {
        let is_held = match &self.records.medium {
            Medium::Devices(_, devices) => devices.serving() == 0,
            Medium::Members { .. } => false,
        };
        !is_held && !self.records.is_closed.get()
    }
}

/// The current journal of a volume, and its replacement during a change.
pub(in crate::stripe) struct JournalSlot {
    pub(super) now: RefCell<Option<Rc<Journal>>>,
    /// The next journal. It becomes current when no record of the present one is live. Its devices
    /// may fail before that.
    pub(super) coming: RefCell<Option<Rc<Journal>>>,
    /// The number of writes that use the current journal.
    pub(super) writes: Cell<usize>,
    pub(super) is_changing: Cell<bool>,
    pub(super) changed: Signal,
    /// Whole-stripe writes of the drives, independent of the journal.
    pub(super) whole_stripes: WholeStripes,
}

impl JournalSlot {
    pub(in crate::stripe) fn new(
        env: &Env,
        place: Option<&JournalPlace>,
        spec: &VolumeSpec,
        shard: u16,
        shards: u16,
    ) -> platform::Result<JournalSlot> {
        Ok(JournalSlot {
            now: RefCell::new(Journal::new(env, place, spec, shard, shards)?),
            coming: RefCell::default(),
            writes: Cell::new(0),
            is_changing: Cell::new(false),
            changed: Signal::default(),
            whole_stripes: WholeStripes::new(),
        })
    }

    /// The current journal, if any.
    pub(super) fn now(&self) -> Option<Rc<Journal>> {
        self.now.borrow().clone()
    }

    /// Whether writes wait for a change of the journal.
    pub(in crate::stripe) fn is_changing(&self) -> bool {
        self.is_changing.get()
    }
}
