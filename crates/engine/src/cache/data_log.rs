//! The data log: what hosts were told is durable, on log devices before it is on the members.
//!
//! A flush covers everything that was answered before. Without a data log it waits until all of that is destaged. With one it waits
//! until what is dirty is in records there, which is one write of a fast device; the members get it when it is good for them.
//!
//! # Fault model
//! A power cut takes the cells, and of the drives what no flush has covered. The devices keep what was written durably. Devices fail
//! as those of a journal do ([`Devices`]).
//!
//! # The protocol
//! 1. A record carries what is dirty of some lines, each line as a whole and oldest first. It is durable before the flush, or the
//!    durable write, that asked for it is answered.
//! 2. It stops to count when nothing is dirty any more that is as old as the latest write of it, and the drives were flushed since.
//!    What lies over dirty data stands for it ([`Sequence`]): so the record stays until the newer data is on the drives.
//! 3. What got to the drives and is in no record is made durable by a flush of the drives, before the next promise. Where records
//!    that count say something older of the same stripe, these are *overtaken*: a replay would lay them over it. So none of them
//!    counts any more when that promise is made. So is a record that gets room only after newer data of its lines got to the drives, and
//!    is waited for by promises that are made before it has room.
//! 4. After a power cut, records that count are laid over what the drives hold, oldest first, as dirty data. After a kill the cells
//!    have everything that was answered, and records say nothing newer.
//!
//! # Invariants
//! - Records are written one after the other, by whoever has the turn. Nobody who destages waits for the turn, so whoever has it may
//!   wait for destages.
//! - A line is logged as a whole: of two writes of the same bytes the later one is never in an earlier record.
//! - While records of an earlier start may count, nothing is promised: [`DataLogTerms::Unfenced`].

use crate::attachment::{DataLogPlace, DataLogTerms};
use crate::cache::{Cache, Waiting};
use crate::stripe::{Devices, record_slices};
use ::block_cache::Sequence;
use platform::sync::{Credits, Signal};
use platform::{Buf, IoError, IoErrorKind, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};
use write_log::{About, Batch, Begun, Change, ChangeKind, Head, LogId, Part, StripeRing};

/// A flush that would log a larger part of the ring has everything destaged: much is written best to where it belongs.
const LARGEST_SHARE: u64 = 4;

/// What a volume has promised on a shard, and by what.
#[derive(Default)]
pub(super) struct Promises {
    log: RefCell<Option<Rc<DataLog>>>,
    /// Records of an earlier start may count.
    is_unfenced: Cell<bool>,
    /// Lines of which something may be dirty that is in no record.
    unlogged: RefCell<BTreeSet<StripeIndex>>,
    /// Lines that are to be logged by whoever has the turn next.
    wanted: RefCell<BTreeSet<StripeIndex>>,
    /// Counts writes that got to the drives and are in no record, and those of them that a flush has covered.
    written: Cell<u64>,
    flushed: Cell<u64>,
    /// Stripes of which something is about to be in a record, as it was when somebody looked: it may take a while until there is room.
    about_to_be_logged: RefCell<BTreeSet<StripeIndex>>,
    /// Newer data of such a stripe got to the drives meanwhile.
    is_out_of_date: Cell<bool>,
    is_making_room: Cell<bool>,
    changed: Signal,
}

/// A record that counts.
struct Speaker {
    number: u64,
    /// Of how many stripes it says something.
    stripes: usize,
    /// The latest write that may be in it.
    latest: Sequence,
}

/// The ring of this shard.
struct DataLog {
    id: LogId,
    at: ByteOffset,
    devices: Rc<Devices>,
    number: u32,
    /// Where its ring begins, from the log's beginning.
    start: u64,
    len: ByteCount,
    ring: RefCell<StripeRing>,
    speakers: RefCell<VecDeque<Speaker>>,
    /// Records before this one say something of stripes where the drives have newer data that is in no record.
    overtaken: Cell<u64>,
    /// To write records and notices.
    turn: Credits,
    is_closed: Cell<bool>,
}

/// A data log that is not the volume's any more.
pub(crate) struct Left(Rc<DataLog>);

impl Left {
    /// Done when nothing is written to it any more.
    pub(crate) async fn quiet(self) {
        let _turn = self.0.turn.take(1).await;
    }
}

/// Before which record.
type Before = fn(&DataLog) -> u64;

/// Bytes of a stripe that go to a record.
struct Piece {
    stripe: StripeIndex,
    range: ByteRange,
    slice: Slice,
}

/// What is dirty of some lines and in no record.
#[derive(Default)]
struct Unlogged {
    lines: BTreeSet<StripeIndex>,
    pieces: VecDeque<Piece>,
    writes: Vec<Rc<Waiting>>,
}

impl Unlogged {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.slice.len().0).sum()
    }
}

impl DataLog {
    fn new(cache: &Cache, place: &DataLogPlace) -> Result<DataLog, String> {
        let shard = &cache.shard;
        let len = write_log::ring_len(place.len, shard.count()).ok_or_else(|| {
            format!("a data log of {} is too short for {} shards", place.len, shard.count())
        })?;
        let devices = Devices::attach(shard.env(), &cache.spec, &place.devices);
        Ok(DataLog {
            id: LogId(place.id.0),
            at: place.at,
            devices: devices.map_err(|error| error.to_string())?,
            number: u32::from(shard.index().0),
            start: len.0 * u64::from(shard.index().0),
            len,
            ring: RefCell::new(StripeRing::new(len)),
            speakers: RefCell::default(),
            overtaken: Cell::new(0),
            turn: Credits::new(shard.env(), 1),
            is_closed: Cell::new(false),
        })
    }

    fn head(&self, begun: &Begun, place: u64) -> Head {
        let Begun { sequence, tail, firm } = *begun;
        Head { id: self.id, ring: self.number, sequence, tail, firm, place: self.start + place }
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.get() > self.ring.borrow().counts_from()
    }

    /// Records of which nothing is dirty any more need not count when the drives have been flushed. `oldest`: what is dirty still.
    fn settle(&self, oldest: Option<Sequence>) {
        let mut speakers = self.speakers.borrow_mut();
        while let Some(done) =
            speakers.pop_front_if(|speaker| oldest.is_none_or(|oldest| oldest > speaker.latest))
        {
            for _ in 0..done.stripes {
                self.ring.borrow_mut().end(done.number);
            }
        }
    }

    /// What must be destaged for the older half of the records to count no more.
    fn latest_of_older_half(&self) -> Option<Sequence> {
        let speakers = self.speakers.borrow();
        speakers.get(speakers.len() / 2).map(|speaker| speaker.latest)
    }
}

impl Promises {
    /// As a volume is attached.
    pub(super) fn new(terms: &DataLogTerms) -> Promises {
        assert!(!matches!(terms, DataLogTerms::At(_)), "a data log is opened once its volume is attached");
        let promises = Promises::default();
        promises.is_unfenced.set(matches!(terms, DataLogTerms::Unfenced));
        promises
    }

    /// Whether durable writes are answered by records.
    pub(super) fn are_logged(&self) -> bool {
        self.log.borrow().is_some()
    }

    fn log(&self) -> Option<Rc<DataLog>> {
        self.log.borrow().clone()
    }

    /// Nothing waits.
    fn none_waits(&self) {
        self.about_to_be_logged.take();
        self.is_out_of_date.set(false);
    }

    /// Something of a line is dirty that is in no record.
    pub(super) fn note_dirty(&self, stripe: StripeIndex) {
        if self.are_logged() {
            self.unlogged.borrow_mut().insert(stripe);
        }
    }
}

impl Cache {
    /// By what promises are kept from now on; by what they were before.
    ///
    /// # Errors
    /// When this shard cannot have it.
    pub(crate) fn set_data_log(self: &Rc<Self>, terms: &DataLogTerms) -> Result<Option<Left>, String> {
        let promises = &self.promises;
        let next = match terms {
            DataLogTerms::None | DataLogTerms::Unfenced => None,
            DataLogTerms::At(place) => Some(Rc::new(DataLog::new(self, place)?)),
        };
        let is_open = next.is_some();
        let before = promises.log.replace(next);
        promises.is_unfenced.set(matches!(terms, DataLogTerms::Unfenced));
        promises.unlogged.take();
        if is_open {
            promises.unlogged.borrow_mut().extend(self.lines.borrow().dirty_lines());
            // Who knows what the drives have been given, and by whom.
            promises.written.set(promises.written.get() + 1);
        }
        promises.changed.notify(self.shard.env());
        let Some(before) = before else { return Ok(None) };
        before.is_closed.set(true);
        // What it had promised is nowhere else than here: the next one has none of it.
        self.forget_logged();
        self.destage_soon();
        Ok(Some(Left(before)))
    }

    /// What is dirty is in no record that counts.
    fn forget_logged(&self) {
        let lines = self.lines.borrow();
        let whole = ByteRange::new(ByteOffset::ZERO, self.geometry().stripe_bytes());
        for stripe in lines.dirty_lines() {
            lines.within(stripe, whole).for_each(|(_, write)| write.held.write.is_logged.set(false));
        }
    }

    /// What was destaged, or given up, has changed the drives. `is_logged`: a record has it.
    pub(crate) fn note_written(&self, stripe: StripeIndex, is_logged: bool) {
        if is_logged {
            return;
        }
        let promises = &self.promises;
        promises.written.set(promises.written.get() + 1);
        if let Some(log) = promises.log() {
            let ring = log.ring.borrow();
            if ring.says(stripe) {
                log.overtaken.set(ring.next());
            }
            if promises.about_to_be_logged.borrow().contains(&stripe) {
                promises.is_out_of_date.set(true);
            }
        }
    }

    /// Whether a flush is answered by records of the data log.
    pub(crate) fn answers_by_log(&self) -> bool {
        self.promises.are_logged()
    }

    /// Whether there are records that may count, of now or of an earlier start.
    pub(crate) fn promises_by_log(&self) -> bool {
        self.promises.are_logged() || self.promises.is_unfenced.get()
    }

    /// Whether records of an earlier start may count.
    pub(super) fn is_unfenced(&self) -> bool {
        self.promises.is_unfenced.get()
    }

    /// A destage of a line is done.
    pub(super) fn note_line(&self, stripe: StripeIndex) {
        // A line of which nothing is dirty is not remembered: there would be ever more.
        if self.promises.are_logged() && self.lines.borrow().oldest_of_line(stripe).is_none() {
            self.promises.unlogged.borrow_mut().remove(&stripe);
        }
    }

    /// Makes durable what hosts were answered for on this shard before. `drives_are_flushed`: whoever asks will have the drives
    /// flushed, for all shards.
    ///
    /// # Errors
    /// When something that is dirty can be neither logged nor destaged, or the drives cannot be flushed.
    pub(crate) async fn secure(self: &Rc<Self>, drives_are_flushed: bool) -> Result<(), IoError> {
        if let Some(log) = self.promises.log() {
            match self.secure_by(&log).await {
                // What it had lies in the cache still, and no record of it counts: those neither that were written meanwhile.
                _ if log.is_closed.get() => self.drain_and_flush().await?,
                done => return done,
            }
            return self.fenced().await;
        }
        self.drain_cache().await?;
        if !drives_are_flushed {
            self.flush_destaged().await?;
        }
        self.fenced().await
    }

    async fn secure_by(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        let unlogged = self.unlogged_of(log, &self.promises.unlogged.borrow());
        match unlogged.bytes() > log.len.0 / LARGEST_SHARE {
            true => {
                drop(unlogged);
                self.drain_cache().await?;
            }
            false => {
                self.promises.wanted.borrow_mut().extend(&unlogged.lines);
                drop(unlogged);
                self.log_wanted(log).await?;
            }
        }
        self.secure_what_is_written(log).await
    }

    /// What is on the drives and in no record stays there: they are flushed, and nothing older is laid over it.
    async fn secure_what_is_written(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        // What is out of date already counts as soon as it has room.
        if log.is_overtaken() || self.promises.is_out_of_date.get() {
            self.forget_records(log, |log| log.overtaken.get()).await?;
        }
        // Records may have been retired by a flush that came before what was written last.
        match self.promises.written.get() > self.promises.flushed.get() {
            true => self.flush_what_is_written().await,
            false => Ok(()),
        }
    }

    /// Makes a write durable that was absorbed.
    ///
    /// # Errors
    /// As [`Cache::secure`].
    pub(super) async fn promise_absorbed(
        self: &Rc<Self>,
        stripe: StripeIndex,
        write: &Waiting,
    ) -> Result<(), IoError> {
        if let Some(log) = self.promises.log() {
            self.promises.wanted.borrow_mut().insert(stripe);
            let logged = match self.log_wanted(&log).await {
                Ok(()) if write.is_logged.get() => Ok(()),
                // It was destaged meanwhile, or lies under newer data.
                Ok(()) => self.secure_what_is_written(&log).await,
                failed => failed,
            };
            // No record of a log that was closed meanwhile counts.
            if logged.is_ok() && !log.is_closed.get() {
                return logged;
            }
        }
        self.drain_and_flush().await?;
        self.fenced().await
    }

    /// A write of a stripe is durable on the drives: nothing older is laid over it by a replay from now on.
    ///
    /// # Errors
    /// As [`Cache::secure`].
    pub(super) async fn promise_written(self: &Rc<Self>, stripe: StripeIndex) -> Result<(), IoError> {
        let Some(log) = self.promises.log() else { return self.fenced().await };
        let says = log.ring.borrow().says(stripe);
        match says || self.promises.about_to_be_logged.borrow().contains(&stripe) || log.is_closed.get() {
            true => self.revoke_promises().await,
            false => Ok(()),
        }
    }

    /// Done when no record of the data log counts any more that there was before the call, of now or of an earlier start: a replay lays
    /// nothing of them over what the drives hold. What they promised is on the drives.
    ///
    /// # Errors
    /// As [`Cache::secure`].
    pub(crate) async fn revoke_promises(self: &Rc<Self>) -> Result<(), IoError> {
        if let Some(log) = self.promises.log() {
            let forgotten = self.forget_records(&log, |log| log.ring.borrow().next()).await;
            // Those of a log that was lost count no more.
            if !log.is_closed.get() {
                return forgotten;
            }
        }
        self.fenced().await
    }

    /// Destages what is dirty on this shard, and flushes every drive in use.
    ///
    /// # Errors
    /// When something cannot be written, or a drive cannot make durable what it holds.
    pub(crate) async fn drain_and_flush(self: &Rc<Self>) -> Result<(), IoError> {
        self.drain_cache().await?;
        self.flush_destaged().await
    }

    /// Done when no record of an earlier start counts.
    pub(super) async fn fenced(&self) -> Result<(), IoError> {
        let promises = &self.promises;
        let is_done = || !promises.is_unfenced.get() || self.closing.get();
        promises.changed.wait_until(self.shard.env(), is_done).await;
        match promises.is_unfenced.get() {
            true => Err(IoError::new(IoErrorKind::Gone)),
            false => Ok(()),
        }
    }

    /// The volume goes away: whoever waits to be fenced is not.
    pub(crate) fn close_promises(&self) {
        self.promises.changed.notify(self.shard.env());
    }

    async fn flush_what_is_written(self: &Rc<Self>) -> Result<(), IoError> {
        let written = self.promises.written.get();
        self.flush_destaged().await?;
        self.promises.flushed.set(written.max(self.promises.flushed.get()));
        Ok(())
    }

    /// What is dirty of lines and in no record, each line oldest first, in pieces of which each fits a record of the ring.
    fn unlogged_of(&self, log: &DataLog, stripes: &BTreeSet<StripeIndex>) -> Unlogged {
        let most = ByteCount(log.ring.borrow().most());
        let (lines, mut unlogged) = (self.lines.borrow(), Unlogged::default());
        let whole = ByteRange::new(ByteOffset::ZERO, self.geometry().stripe_bytes());
        for stripe in stripes {
            let dirty = lines.within(*stripe, whole).map(|(_, write)| write);
            for write in dirty.filter(|write| write.answered && !write.held.write.is_logged.get()) {
                let mut at = write.range.start;
                for slice in write.held.slices() {
                    let mut from = ByteCount::ZERO;
                    while from < slice.len() {
                        let len = most.min(slice.len() - from);
                        let (range, slice) = (ByteRange::new(at, len), slice.cut(from, len));
                        unlogged.pieces.push_back(Piece { stripe: *stripe, range, slice });
                        (at, from) = (at + len, from + len);
                    }
                }
                unlogged.writes.push(write.held.write.clone());
                unlogged.lines.insert(*stripe);
            }
        }
        unlogged
    }

    /// Logs the lines that are wanted: those of the caller, and whatever others have asked for meanwhile.
    async fn log_wanted(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        let _turn = log.turn.take(1).await;
        if log.is_closed.get() {
            return Err(IoError::new(IoErrorKind::Gone));
        }
        let wanted = self.promises.wanted.take();
        let Unlogged { lines, mut pieces, writes } = self.unlogged_of(log, &wanted);
        {
            let mut unlogged = self.promises.unlogged.borrow_mut();
            for stripe in &wanted {
                unlogged.remove(stripe);
            }
        }
        writes.iter().for_each(|write| write.is_logged.set(true));
        self.promises.about_to_be_logged.borrow_mut().clone_from(&lines);
        self.promises.is_out_of_date.set(false);
        let latest = self.lines.borrow().latest();
        while !pieces.is_empty() {
            if let Err(error) = Box::pin(self.log_some(log, &mut pieces, latest)).await {
                writes.iter().for_each(|write| write.is_logged.set(false));
                self.promises.none_waits();
                // What of them got to the drives meanwhile passed for logged.
                self.promises.written.set(self.promises.written.get() + 1);
                // Whoever waits for the turn relies on it that somebody has logged them, or does it then.
                self.promises.unlogged.borrow_mut().extend(&lines);
                self.promises.wanted.borrow_mut().extend(lines);
                return Err(error);
            }
        }
        self.promises.none_waits();
        self.make_room_in_time(log);
        Ok(())
    }

    /// Writes one record, of what there is first. The caller has the turn.
    async fn log_some(
        self: &Rc<Self>,
        log: &Rc<DataLog>,
        pieces: &mut VecDeque<Piece>,
        latest: Sequence,
    ) -> Result<(), IoError> {
        let part = |piece: &Piece| Part { changes: 1, slices: 1, carried: piece.slice.len() };
        let batch = Batch::of(pieces.iter().map(part), log.ring.borrow().most());
        let place = loop {
            let place = log.ring.borrow().place_for(batch.len().0);
            match place.filter(|_| !log.ring.borrow().has_failed()) {
                Some(place) => break place,
                None if log.is_closed.get() => return Err(IoError::new(IoErrorKind::Gone)),
                None => self.make_room(log).await?,
            }
        };
        let pieces: SmallVec<[Piece; 8]> = pieces.drain(..batch.entries).collect();
        let about = |stripe| About { stripe, revokes: false, promises: true };
        let stripes: BTreeSet<StripeIndex> = pieces.iter().map(|piece| piece.stripe).collect();
        let abouts: SmallVec<[About; 8]> = stripes.iter().map(|stripe| about(*stripe)).collect();
        let begun = log.ring.borrow_mut().begin(place, batch.len().0, &abouts);
        if self.promises.is_out_of_date.get() {
            log.overtaken.set(log.ring.borrow().next());
        }
        log.speakers.borrow_mut().push_back(Speaker {
            number: begun.sequence,
            stripes: abouts.len(),
            latest,
        });
        let changes: SmallVec<[Change; 8]> = pieces
            .iter()
            .map(|piece| {
                let range = self.in_volume(piece.stripe, piece.range);
                Change { slot: 0, kind: ChangeKind::Bytes, range }
            })
            .collect();
        let buf = Buf::unpooled(Head::len(batch.changes));
        let carried = pieces.into_iter().map(|piece| piece.slice);
        let slices = record_slices(&log.head(&begun, place), &batch, &changes, carried, buf);
        let at = log.at + ByteCount(log.start + place);
        match self.write_to_devices(&log.devices, at, &slices).await {
            Ok(()) => {
                log.ring.borrow_mut().landed(&begun);
                Ok(())
            }
            Err(error) => {
                log.speakers.borrow_mut().retain(|speaker| speaker.number != begun.sequence);
                log.ring.borrow_mut().fail(begun.sequence);
                Err(error)
            }
        }
    }

    /// Has records before a number count no more, which is asked for in turn: whoever had it may have written some that had waited.
    async fn forget_records(self: &Rc<Self>, log: &Rc<DataLog>, before: Before) -> Result<(), IoError> {
        let _turn = log.turn.take(1).await;
        let number = before(log);
        while log.ring.borrow().counts_from() < number {
            if log.is_closed.get() {
                return Err(IoError::new(IoErrorKind::Gone));
            }
            self.make_room(log).await?;
        }
        Ok(())
    }

    /// Has the older half of the records count no more, or says so on the devices where they need not. The caller has the turn.
    async fn make_room(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        if log.ring.borrow().can_announce() {
            let (place, begun) = log.ring.borrow().begin_notice();
            let buf = Buf::unpooled(Head::len(0));
            let slices = record_slices(&log.head(&begun, place), &Batch::default(), &[], [], buf);
            let at = log.at + ByteCount(log.start + place);
            self.write_to_devices(&log.devices, at, &slices).await?;
            log.ring.borrow_mut().noticed(&begun);
            return Ok(());
        }
        self.retire_older_half(log).await
    }

    async fn retire_older_half(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        if let Some(latest) = log.latest_of_older_half() {
            self.destage_up_to(latest).await?;
        }
        log.settle(self.lines.borrow().oldest_dirty());
        let settled = log.ring.borrow().settled();
        self.flush_what_is_written().await?;
        log.ring.borrow_mut().retire(settled);
        Ok(())
    }

    /// Makes room in the background, before anybody has to wait for that.
    fn make_room_in_time(self: &Rc<Self>, log: &Rc<DataLog>) {
        if !log.ring.borrow().is_due() || self.promises.is_making_room.get() {
            return;
        }
        let Ok(user) = self.enter() else { return };
        self.promises.is_making_room.set(true);
        let (cache, log) = (self.clone(), log.clone());
        self.shard.env().spawn("make room in the data log", async move {
            let _user = user;
            if let Err(error) = cache.retire_older_half(&log).await {
                tracing::warn!(volume = %cache.name(), "records stay in the data log: {error}");
            }
            cache.promises.is_making_room.set(false);
        });
    }
}
