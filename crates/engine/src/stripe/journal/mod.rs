//! The journal: a stripe write is durable in a record before its first byte goes to its place. So a
//! crash leaves no stripe whose redundancy yields data that no host wrote (the write hole).
//!
//! # Fault model
//! A kill loses any part of the writes in flight. A power cut also loses any sectors not yet
//! flushed. Drives may fail before, during and after the crash, as many in total as the level
//! tolerates.
//!
//! # Protocol
//! 1. A write holds its columns of the stripe while it is planned, reads, and computes redundancy.
//! 2. The data and redundancy to be written form a *record* ([`write_log`]). It goes to one member
//!    more than a span may lose, or to all log devices ([`devices`]). Few records are written at a
//!    time; new writes share the next one.
//! 3. The plan's own writes begin when the record is durable. They need not be durable themselves.
//! 4. A record retires when its writes are complete and the drives were flushed afterwards. The
//!    next record's header states this.
//! 5. After a crash, live records are replayed in order before any read (`controller::journal`).
//!
//! # Correctness
//! - A replay gives the columns of a record their content after the plan, whatever part of the
//!   plan's or earlier unretired writes was done or lost. That content is consistent with and
//!   without failed drives. For sectors that no host wrote, the record has their current content.
//! - Records of the same bytes are in the order of their plans, which hold a common lock; a stripe
//!   belongs to one shard.
//! - Concurrent records cover different bytes, because each plan holds its columns until its writes
//!   are done. So they may become durable in any order, and a replay may find a later one without
//!   an earlier one.
//! - A record that is not durable everywhere may be replayed or not: none of its writes has begun,
//!   and none is acknowledged. A record whose write failed may be replayed after its columns are
//!   unlocked. So no new record begins until the failed one is invalidated.
//! - A durable (FUA) write is durable with its record. Such a record is not revoked until the
//!   drives are flushed. The drives are also flushed before a FUA record of a stripe that was
//!   written without a record ([`write_log::WholeStripes`]): the record's redundancy depends on
//!   that write.
//! - The failure of a drive that a plan omits is durable before the plan's writes begin. Otherwise
//!   its old content would count as current after a crash.
//! - A replay would undo a change of a stripe made *without* a record while live records cover it.
//!   So such a change is logged as well, or first invalidates these records.
//!
//! # Writes without a record
//! - A write to one drive only (all others of the stripe have failed or are not concerned): each
//!   sector is old or new.
//! - A write of a complete stripe without a missing drive: it touches no other data. The resync
//!   makes its redundancy agree. If a drive fails before that resync, *these* sectors hold new data
//!   or anything.
//! - A computation of redundancy only (resync, rebuild): it is repeated with the same result.
//!
//! # Invariants
//! - A writer to the journal holds no lock that a flush needs: a full ring empties itself.
//! - A record has all entries that wait when it begins.
//! - A task writes each record ([`writer`]), not the writes that wait for it: these need no task.
//!   While entries wait, there is such a task. If it ends before them, a kill has dropped it, and
//!   they are dropped too.
//!
//! The crate [`write_log`] has the pure part: formats, positions, order, batches. This module has
//! the tasks, buffers and drives.

mod change;
mod devices;
mod record_writes;
mod slot;
mod terms;
mod writer;

use crate::stripe::Stripes;
use crate::stripe::memory::Memory;
use crate::stripe::records::Medium;
pub(crate) use change::ByJournal;
pub(crate) use devices::Devices;
use ondisk::Uuid;
use plan::{Explanation, Health, Plan, RequestKind, Unplannable};
use platform::{Durability, IoError, Receiver, Slice, Slices};
pub(in crate::stripe) use slot::JournalSlot;
use slot::{Entry, Journal};
use smallvec::SmallVec;
use std::rc::Rc;
pub use terms::JournalTerms;
use terms::{Changes, Need, need};
use units::{ByteCount, ByteRange, DriveSet, StripeIndex};
pub use write_log::ring_len;
use write_log::{About, ChangeKind};

/// The record of a write in progress, or the fact that it needs none. Dropping this value ends the
/// write.
pub(crate) struct Kept {
    volume: Rc<Stripes>,
    journal: Rc<Journal>,
    sequence: Option<u64>,
    carries: bool,
    /// The stripe, if the write is a cached whole-stripe write without a record.
    whole: Option<StripeIndex>,
}

/// A record that is being written, for a write without a task.
pub(in crate::stripe) struct Recording {
    journal: Rc<Journal>,
    need: Need,
}

impl Recording {
    /// The record is durable, and has this number. `None`: the journal was lost meanwhile, and its
    /// records do not count.
    pub(in crate::stripe) fn done(
        self,
        volume: &Rc<Stripes>,
        plan: &Plan,
        asked: Durability,
        number: u64,
    ) -> Option<Kept> {
        let kept = Kept::new((volume, &self.journal), plan, (self.need, asked), Some(number));
        Some(kept).filter(|_| !self.journal.records.is_closed.get())
    }
}

/// What the record of a plan takes.
pub(in crate::stripe) enum Begun {
    /// There is none to write: the plan's writes may begin.
    Kept(Option<Kept>),
    /// It is being written.
    Recording(Recording),
    /// A task must do other things first. Nothing was begun.
    ByTask,
}

impl Kept {
    /// `sequence`: of its record, if it has one.
    fn new(
        (volume, journal): (&Rc<Stripes>, &Rc<Journal>),
        plan: &Plan,
        (need, asked): (Need, Durability),
        sequence: Option<u64>,
    ) -> Kept {
        let carries = need == Need::All;
        let is_whole = !carries && asked == Durability::Cached && plan.is_whole_stripe_write();
        let whole = is_whole.then_some(plan.stripe());
        Kept { volume: volume.clone(), journal: journal.clone(), sequence, carries, whole }
    }

    /// Whether it has a record.
    pub(in crate::stripe) fn is_recorded(&self) -> bool {
        self.sequence.is_some()
    }

    /// Whether a durable write relied on a record that is lost or about to be.
    pub(in crate::stripe) fn is_broken(&self) -> bool {
        self.carries && !self.journal.promises()
    }

    /// The durability that the plan's writes need: `Cached` if the record carries the data,
    /// otherwise as requested.
    pub(crate) fn durability(kept: Option<&Kept>, asked: Durability) -> Durability {
        match kept {
            Some(kept) if kept.carries => Durability::Cached,
            _ => asked,
        }
    }

    /// Whether the record carries the write's content and a crash replays it.
    pub(crate) fn counts(&self) -> bool {
        self.carries && self.journal.promises()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(stripe) = self.whole {
            self.volume.journal.whole_stripes.note(stripe);
        }
        if let Some(sequence) = self.sequence {
            self.journal.records.ring_mut().end(sequence);
            self.journal.changed.notify(self.volume.shard.env());
        }
    }
}

impl Stripes {
    /// Writes the record of a plan, if it needs one. Returns when the plan's writes may begin.
    ///
    /// # Errors
    /// When the record cannot be written: then the plan must not write.
    pub(crate) async fn keep(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &Memory,
        asked: Durability,
    ) -> Result<Option<Kept>, IoError> {
        // After a crash, a stripe that is not initialised still reads as zeros.
        if !self.is_initialised(plan.stripe()) {
            return Ok(None);
        }
        loop {
            let Some(journal) = self.journal.now() else { return Ok(None) };
            let kept = self.keep_there(&journal, plan, memory, asked).await;
            // The journal's devices failed meanwhile: its records do not count, and another
            // journal or none replaces it.
            if !journal.records.is_closed.get() {
                return kept;
            }
        }
    }

    async fn keep_there(
        self: &Rc<Self>,
        journal: &Rc<Journal>,
        plan: &Plan,
        memory: &Memory,
        asked: Durability,
    ) -> Result<Option<Kept>, IoError> {
        // A skipped drive must be recorded as failed: after a crash its old content would count as
        // current.
        let left_out = self.left_out(plan);
        if !left_out.is_empty() {
            Box::pin(self.recorded(&left_out)).await?;
        }
        let need = self.need_of(journal, plan);
        let kept = |number| Ok(Some(Kept::new((self, journal), plan, (need, asked), number)));
        match need {
            Need::Nothing => return kept(None),
            Need::Silence => {
                Box::pin(self.silence(plan.stripe())).await?;
                return kept(None);
            }
            Need::All | Need::Revoke => {}
        }
        if self.must_flush_before(plan, need, asked) {
            Box::pin(self.flush_once()).await?;
        }
        let mut entry = entry(plan, memory, need == Need::Revoke, asked);
        if entry.len > journal.terms.most {
            // Only a range declared lost, or a whole stripe that just lost a drive, may exceed a
            // record. All other host writes were split before.
            let whole = (asked == Durability::Cached).then_some(plan.stripe());
            let (volume, journal) = (self.clone(), journal.clone());
            let unkept = Kept { volume, journal, sequence: None, carries: false, whole };
            return Box::pin(self.silence(plan.stripe())).await.map(|()| Some(unkept));
        }
        let (io, completion) = self.shard.env().start_operation(None);
        entry.tell = Some(Receiver::Completion(completion));
        self.record(journal, entry);
        io.await.result.and_then(|number| kept(Some(number)))
    }

    /// The same without a task. `tell`: to get the number of the record that is being written.
    pub(in crate::stripe) fn begin_to_keep(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &Memory,
        asked: Durability,
        tell: impl FnOnce() -> Receiver,
    ) -> Begun {
        let Some(journal) = self.journal.now() else { return Begun::Kept(None) };
        if !self.left_out(plan).is_empty() {
            return Begun::ByTask;
        }
        let need = self.need_of(&journal, plan);
        match need {
            Need::Nothing => {
                Begun::Kept(Some(Kept::new((self, &journal), plan, (need, asked), None)))
            }
            Need::All | Need::Revoke if !self.must_flush_before(plan, need, asked) => {
                let mut entry = entry(plan, memory, need == Need::Revoke, asked);
                if entry.len > journal.terms.most {
                    return Begun::ByTask;
                }
                entry.tell = Some(tell());
                self.record(&journal, entry);
                Begun::Recording(Recording { journal, need })
            }
            Need::All | Need::Revoke | Need::Silence => Begun::ByTask,
        }
    }

    /// Whether [`Stripes::begin_to_keep`] needs no task, as far as is known before the plan's
    /// reads.
    pub(in crate::stripe) fn may_begin_to_keep(
        &self,
        plan: &Plan,
        within: ByteRange,
        asked: Durability,
    ) -> bool {
        self.journal.now().is_none_or(|journal| {
            let need = self.need_of(&journal, plan);
            need != Need::Silence
                && !self.must_flush_before(plan, need, asked)
                && self.parts_to_keep(plan.stripe(), within).len() == 1
        })
    }

    fn need_of(&self, journal: &Journal, plan: &Plan) -> Need {
        let stripe = plan.stripe();
        let parts: DriveSet = self.map(stripe).drives().collect();
        let stale = self.state().stale_in(self.region_of(stripe));
        let ring = journal.records.ring();
        need(plan, &parts, &stale, ring.says(stripe), || ring.promises(stripe))
    }

    /// Whether a durable record of a plan would rely on a write of its stripe that had no record
    /// and may not be durable.
    fn must_flush_before(&self, plan: &Plan, need: Need, asked: Durability) -> bool {
        need == Need::All
            && asked == Durability::Durable
            && self.journal.whole_stripes.may_lose(plan.stripe())
    }

    /// Notes that a whole stripe was trimmed without a record.
    pub(crate) fn note_whole_stripe(&self, stripe: StripeIndex) {
        if self.journal.now().is_some() {
            self.journal.whole_stripes.note(stripe);
        }
    }

    /// The most data and redundancy that one record carries; `None` without a journal.
    pub(crate) fn most_to_keep(&self) -> Option<ByteCount> {
        self.journal.now().map(|journal| ByteCount(journal.terms.most))
    }

    /// Whether live records cover a stripe. While the caller holds it, no other task adds one.
    pub(crate) fn is_said(&self, stripe: StripeIndex) -> bool {
        self.journal.now().is_some_and(|journal| journal.records.ring().says(stripe))
    }

    /// Stops writing records to a log device: the members record its failure.
    pub(crate) fn leave_log_device(&self, device: Uuid) {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.records.medium
        {
            devices.leave(self.shard.env(), device);
        }
    }

    /// Stops relying on records if this is the journal's last device, and flushes the drives.
    ///
    /// # Errors
    /// When the drives cannot be flushed.
    pub(crate) async fn hold_log_device(self: &Rc<Self>, device: Uuid) -> Result<(), IoError> {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.records.medium
        {
            devices.hold(device);
        }
        self.flush_once().await
    }

    /// Returns a log device to service: its failure could not be recorded.
    pub(crate) fn take_back_log_device(&self, device: Uuid) {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.records.medium
        {
            devices.take_back(self.shard.env(), device);
        }
    }

    /// Flushes the drives if a durable write relied on records of a journal that is now lost or
    /// about to be. Called when the write is complete on the drives.
    ///
    /// # Errors
    /// When the drives cannot be flushed.
    pub(crate) async fn keep_promise(
        self: &Rc<Self>,
        kept: impl IntoIterator<Item = &Kept>,
        asked: Durability,
    ) -> Result<(), IoError> {
        match asked == Durability::Durable && kept.into_iter().any(Kept::is_broken) {
            true => Box::pin(self.flush_once()).await,
            false => Ok(()),
        }
    }

    /// Splits a write to a stripe into parts that each fit one record.
    pub(crate) fn parts_to_keep(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
    ) -> SmallVec<[ByteRange; 1]> {
        match self.journal.now().filter(|_| self.is_initialised(stripe)) {
            Some(journal) => journal.terms.parts(within, self.is_well(self.region_of(stripe))),
            None => SmallVec::from_iter([within]),
        }
    }

    /// Explains a request, with its journal records, for the given health of each stripe.
    ///
    /// # Errors
    /// Those of [`plan::explain_kept`].
    pub fn explain(
        &self,
        kind: RequestKind,
        range: ByteRange,
        health: impl Fn(StripeIndex) -> Health,
    ) -> Result<Explanation, Unplannable> {
        let (journal, state, none) = (self.journal.now(), self.state(), DriveSet::EMPTY);
        let terms = journal.as_ref().map(|journal| match &journal.records.medium {
            Medium::Members { .. } => journal.terms.clone(),
            Medium::Devices(_, devices) => journal.terms.on_devices(devices.serving()),
        });
        let told = terms.as_ref().map(|terms| terms.told(&self.regions, &state, &none));
        let told = told.as_ref().map(|told| told as &dyn plan::Journal);
        plan::explain_kept(
            self.geometry(),
            kind,
            range,
            health,
            |stripe| self.is_initialised(stripe),
            told,
        )
    }
}

/// The record content of a plan.
///
/// # Panics
/// When the memory lacks what the plan writes: a programming error.
fn entry(plan: &Plan, memory: &Memory, revokes: bool, asked: Durability) -> Entry {
    let mut changes = Changes::default();
    let mut bytes: SmallVec<[Slice; 4]> = SmallVec::new();
    for write in plan.writes() {
        let mut at = write.offset;
        for part in plan.write_parts(write) {
            let mut slices = Slices::new();
            let found = memory.slices(part.from, part.len, &mut slices);
            assert!(found.is_some(), "the plan of {} writes data not in memory", plan.stripe());
            for slice in slices {
                let kind = match revokes {
                    true => ChangeKind::Revoked,
                    false if slice.is_zero() => ChangeKind::Zeroes,
                    false => ChangeKind::Bytes,
                };
                let range = ByteRange::new(at, slice.len());
                at = range.end();
                changes.add(write.drive, kind, range);
                if kind == ChangeKind::Bytes {
                    bytes.push(slice);
                }
            }
        }
    }
    let len = bytes.iter().map(|slice| slice.len().0).sum();
    let promises = !revokes && asked == Durability::Durable;
    let about = About { stripe: plan.stripe(), revokes, promises };
    Entry { about, changes: changes.0, bytes, len, tell: None }
}
