//! The journal: what a stripe's write changes is durable as a whole before its first byte goes to its place, so that no crash
//! leaves a stripe whose redundancy answers for something that nobody wrote (the write hole).
//!
//! # Fault model
//! A kill leaves any part of what was in flight. A power cut takes besides any part, sector by sector, of what no flush has
//! covered since. Drives may be out before the crash, and fail in it or after it, as many in all as the level survives.
//!
//! # The protocol
//! 1. A write is planned and read for, and its redundancy is computed, while it holds its columns of the stripe.
//! 2. What the plan is about to write, data and redundancy, is a *record* ([`write_log`]) on one member more than a span may
//!    lose, or on all devices of a log ([`devices`]). A few records are written at a time; writes that come meanwhile share the next one.
//! 3. Only when it is durable there, the plan's own writes begin. They need not be durable themselves.
//! 4. A record is retired when all its writes are done and the drives were flushed after that. The next record says so.
//! 5. After a crash the records that count are carried out again, in order, before anything is read
//!    (`controller::journal`).
//!
//! # Why that is right
//! - A stripe's columns that a record is about are, after its replay, what they were after the plan: whatever of the plan's writes,
//!   or of earlier ones that are not retired, was done or lost. The plan's result agrees with itself, with or without the
//!   drives that were out. What the record says of other sectors than those a host was writing is what they hold.
//! - The order of records of the same bytes is the order of their plans, which hold a common lock; a stripe has one shard.
//! - Records that are under way at the same time are about different bytes, as each plan holds its columns until its writes are
//!   done. So they may become durable in any order, and a replay may find a later one without an earlier one.
//! - A record that was not durable everywhere may be replayed or not: none of its writes had begun, and no host was answered. One
//!   that could not be made durable may be replayed as well, after its columns were let go: none begins until it does not count.
//! - What a host asked to be durable is so with its record. It is not revoked then: the drives are flushed first. They are also
//!   flushed before a record promises anything of a stripe that was written without one ([`write_log::WholeStripes`]): what the record
//!   says of redundancy stands on that.
//! - A drive that a plan leaves out is durably known to be out before the plan's writes begin: it would be believed otherwise.
//! - Whoever changes a stripe *without* a record, while records that count say something of it, would be undone by a replay. So
//!   there is no such write: it is kept as well, or revokes them first.
//!
//! # What needs no record
//! - A write of one drive only (all others of the stripe's parts are out, or not concerned): each sector is old or new.
//! - A whole stripe of which nothing is missing: nobody else's data is in it. Its redundancy is made to agree by the resync.
//!   A drive that is lost before that pass leaves of *these* sectors what was being written, or anything.
//! - What only makes redundancy anew (resync, rebuild): begun again, it comes to the same.
//!
//! # Invariants
//! - Nobody who writes to the journal holds what a flush waits for: a full ring empties itself.
//! - Records begin one after the other, each with all that waits: whoever begins one, or writes a notice, has the ring's turn. What
//!   is under way needs no turn, and so ends while somebody who has it waits for that.
//!
//! What is pure in this is the crate [`write_log`]: bytes, places, order, what shares a record. Here are the tasks, the memory and the
//! drives.

mod devices;
mod slot;
mod terms;
mod writer;

use crate::attachment::{JournalOn, JournalPlace};
use crate::stripe::Stripes;
use crate::stripe::execute::Memory;
use crate::volume::VolumeSpec;
pub(crate) use devices::Devices;
use ondisk::{TailPlace, Uuid};
use plan::{Explanation, Health, Plan, RequestKind, Unplannable};
use platform::sync::{Answerer, Credits, Signal};
use platform::{Buf, Durability, Env, Instant, IoError, Slice, Slices};
pub(crate) use slot::{ByJournal, JournalSlot};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
pub use terms::JournalTerms;
use terms::{Changes, Need, need};
use units::{ByteCount, ByteOffset, ByteRange, DriveSet, StripeIndex};
pub use write_log::ring_len;
use write_log::{About, Change, ChangeKind, LogId, StripeRing};
pub(crate) use writer::record_slices;

/// What one write asks to be kept.
struct Entry {
    about: About,
    changes: SmallVec<[Change; 4]>,
    /// The bytes of the changes that have some.
    bytes: SmallVec<[Slice; 4]>,
    len: u64,
    /// Tells whoever waits for it; nothing where that is writing it.
    tell: Option<Answerer<Told>>,
}

/// What somebody is told who waits for a record.
enum Told {
    /// To write it.
    Begin,
    /// What it came to: its number.
    Written(Result<u64, IoError>),
}

/// What a journal lies on, as one shard reaches it.
enum Medium {
    /// The members, which may change; see [`JournalOn::Members`].
    Members { at: ByteCount, tail: TailPlace },
    /// From that byte on of each device.
    Devices(ByteOffset, Rc<Devices>),
}

/// The journal of a volume, as one shard has it.
pub(crate) struct Journal {
    id: LogId,
    medium: Medium,
    number: u32,
    /// Where its ring begins, from the journal's beginning.
    start: u64,
    terms: JournalTerms,
    ring: RefCell<StripeRing>,
    waiting: RefCell<VecDeque<Entry>>,
    /// To begin a record or a notice.
    turn: Credits,
    /// Whether somebody has been told to begin a record, and has not.
    is_led: Cell<bool>,
    under_way: Cell<usize>,
    /// How many writes the last record carries.
    last_batch: Cell<usize>,
    retiring: Cell<bool>,
    /// When that was asked for last.
    retired_at: Cell<Instant>,
    /// Heads of records that none uses.
    heads: RefCell<Vec<Buf>>,
    /// The volume has another journal now, or none: nothing is written here any more.
    is_closed: Cell<bool>,
    /// A record has been settled, or retired.
    changed: Signal,
}

impl Journal {
    /// The ring of a shard. `None` where the volume needs none, or the share of each shard is too small.
    ///
    /// # Errors
    /// When this shard cannot take a log device.
    fn new(
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
            JournalOn::Members { at, tail } => Medium::Members { at: *at, tail: *tail },
            JournalOn::Devices { at, devices } => Medium::Devices(*at, Devices::attach(env, spec, devices)?),
        };
        Ok(Some(Rc::new(Journal {
            id: LogId(place.id.0),
            medium,
            number: u32::from(shard),
            start: terms.ring.0 * u64::from(shard),
            ring: RefCell::new(StripeRing::new(terms.ring)),
            terms,
            waiting: RefCell::default(),
            turn: Credits::new(env, 1),
            is_led: Cell::new(false),
            under_way: Cell::new(0),
            last_batch: Cell::new(0),
            retiring: Cell::new(false),
            retired_at: Cell::new(env.now()),
            heads: RefCell::default(),
            is_closed: Cell::new(false),
            changed: Signal::default(),
        })))
    }
}

impl Journal {
    /// Whether what its records say is found after a crash, whatever happens meanwhile.
    fn promises(&self) -> bool {
        let is_held = match &self.medium {
            Medium::Devices(_, devices) => devices.serving() == 0,
            Medium::Members { .. } => false,
        };
        !is_held && !self.is_closed.get()
    }
}

/// What is known of a write while it is being done: which record it relies on, or that it relies on none. It is done when this is
/// dropped.
pub(crate) struct Kept {
    volume: Rc<Stripes>,
    journal: Rc<Journal>,
    sequence: Option<u64>,
    carries: bool,
    /// It writes a stripe that no record carries, into the drives' caches.
    whole: Option<StripeIndex>,
}

impl Kept {
    /// How durable the writes themselves have to be, of which the host asks so much: what a record carries is durable.
    pub(crate) fn durability(kept: Option<&Kept>, asked: Durability) -> Durability {
        match kept {
            Some(kept) if kept.carries => Durability::Cached,
            _ => asked,
        }
    }

    /// Whether the record has the content of the write, and is replayed after a crash.
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
            self.journal.ring.borrow_mut().end(sequence);
            self.journal.changed.notify(self.volume.shard.env());
        }
    }
}

impl Stripes {
    /// Keeps what a plan is about to write, if that is needed. Done when its writes may begin.
    ///
    /// # Errors
    /// When it cannot be kept: then nothing may be written.
    pub(crate) async fn keep(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &Memory,
        asked: Durability,
    ) -> Result<Option<Kept>, IoError> {
        // Until it is initialised, a crash leaves it as it was: zeros.
        if !self.is_initialised(plan.stripe()) {
            return Ok(None);
        }
        loop {
            let Some(journal) = self.journal.now() else { return Ok(None) };
            let kept = self.keep_there(&journal, plan, memory, asked).await;
            // Where its devices failed meanwhile, what it has counts no more: it is another one by now, or none.
            if !journal.is_closed.get() {
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
        // What a drive misses that is not known to be out would be believed after a crash, as nobody is asked.
        let left_out = self.left_out(plan);
        if !left_out.is_empty() {
            Box::pin(self.recorded(&left_out)).await?;
        }
        let parts: DriveSet = self.map(plan.stripe()).drives().collect();
        let said = journal.ring.borrow().says(plan.stripe());
        let stale = self.state().stale_in(self.region_of(plan.stripe()));
        let need = need(plan, &parts, &stale, said, || journal.ring.borrow().promises(plan.stripe()));
        let carries = need == Need::All;
        let whole = (!carries && asked == Durability::Cached && self.is_whole(plan)).then_some(plan.stripe());
        let kept =
            |sequence| Kept { volume: self.clone(), journal: journal.clone(), sequence, carries, whole };
        match need {
            Need::Nothing => return Ok(whole.map(|_| kept(None))),
            Need::Silence => {
                let silent = Box::pin(self.silence(plan.stripe())).await;
                return silent.map(|()| whole.map(|_| kept(None)));
            }
            Need::All | Need::Revoke => {}
        }
        if carries && asked == Durability::Durable && self.journal.whole_stripes.may_lose(plan.stripe()) {
            Box::pin(self.flush_once()).await?;
        }
        let Some(entry) = entry(plan, memory, need == Need::Revoke, asked) else {
            panic!("the plan of {} writes what its memory has not", plan.stripe());
        };
        if entry.len > journal.terms.most {
            // What is given up for lost may be long, and a whole stripe that lost a drive just now. Other writes of hosts were cut
            // up before.
            let whole = (asked == Durability::Cached).then_some(plan.stripe());
            let unkept = Kept {
                volume: self.clone(),
                journal: journal.clone(),
                sequence: None,
                carries: false,
                whole,
            };
            return Box::pin(self.silence(plan.stripe())).await.map(|()| Some(unkept));
        }
        self.record(journal, entry).await.map(|sequence| Some(kept(Some(sequence))))
    }

    fn is_whole(&self, plan: &Plan) -> bool {
        plan.is_whole_stripe_write()
    }

    /// A stripe has been given up as a whole, without a record.
    pub(crate) fn note_whole_stripe(&self, stripe: StripeIndex) {
        if self.journal.now().is_some() {
            self.journal.whole_stripes.note(stripe);
        }
    }

    /// How many bytes of data and redundancy a write may write that can be kept as a whole; `None` if nothing is kept.
    pub(crate) fn most_to_keep(&self) -> Option<ByteCount> {
        self.journal.now().map(|journal| ByteCount(journal.terms.most))
    }

    /// Whether records that count say something of a stripe. Nobody else's will, as long as the caller holds it.
    pub(crate) fn is_said(&self, stripe: StripeIndex) -> bool {
        self.journal.now().is_some_and(|journal| journal.ring.borrow().says(stripe))
    }

    /// The members say that a log device is out: no record goes there any more.
    pub(crate) fn leave_log_device(&self, device: Uuid) {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.medium
        {
            devices.leave(self.shard.env(), device);
        }
    }

    /// Has nothing promised by the journal any more whose last device this is; the drives have what it promised when that is done.
    ///
    /// # Errors
    /// When they cannot make it durable.
    pub(crate) async fn hold_log_device(self: &Rc<Self>, device: Uuid) -> Result<(), IoError> {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.medium
        {
            devices.hold(device);
        }
        self.flush_once().await
    }

    /// The members could not say that a device is out: the journal goes there as before.
    pub(crate) fn take_back_log_device(&self, device: Uuid) {
        if let Some(journal) = self.journal.now()
            && let Medium::Devices(_, devices) = &journal.medium
        {
            devices.take_back(self.shard.env(), device);
        }
    }

    /// Once a write is done on the drives: what its records no longer promise to the host, who asked for so much, the drives do. The journal
    /// was lost in the meantime, or is about to be.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn keep_promise(
        self: &Rc<Self>,
        kept: impl IntoIterator<Item = &Kept>,
        asked: Durability,
    ) -> Result<(), IoError> {
        let is_broken = |kept: &Kept| kept.carries && !kept.journal.promises();
        match asked == Durability::Durable && kept.into_iter().any(is_broken) {
            true => Box::pin(self.flush_once()).await,
            false => Ok(()),
        }
    }

    /// Cuts a write to a stripe into parts of which each can be kept as a whole.
    pub(crate) fn parts_to_keep(&self, stripe: StripeIndex, within: ByteRange) -> SmallVec<[ByteRange; 1]> {
        match self.journal.now().filter(|_| self.is_initialised(stripe)) {
            Some(journal) => journal.terms.parts(within, self.is_well(self.region_of(stripe))),
            None => SmallVec::from_iter([within]),
        }
    }

    /// What a request would do, journal included, in the health that each of its stripes is in.
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
        let terms = journal.as_ref().map(|journal| match &journal.medium {
            Medium::Members { .. } => journal.terms.clone(),
            Medium::Devices(_, devices) => journal.terms.on_devices(devices.serving()),
        });
        let told = terms.as_ref().map(|terms| terms.told(&self.regions, &state, &none));
        let told = told.as_ref().map(|told| told as &dyn plan::Journal);
        plan::explain_kept(self.geometry(), kind, range, health, |stripe| self.is_initialised(stripe), told)
    }
}

/// What is kept of a plan. `None` where the plan does not fit the memory.
fn entry(plan: &Plan, memory: &Memory, revokes: bool, asked: Durability) -> Option<Entry> {
    let mut changes = Changes::default();
    let mut bytes: SmallVec<[Slice; 4]> = SmallVec::new();
    for write in plan.writes() {
        let mut at = write.offset;
        for part in plan.write_parts(write) {
            let mut slices = Slices::new();
            memory.slices(part.from, part.len, &mut slices)?;
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
    Some(Entry { about, changes: changes.0, bytes, len, tell: None })
}
