//! The data log: durable writes on log devices before they are on the members.
//!
//! A flush covers all earlier acknowledged writes. Without a data log it waits for their destage.
//! With one it waits for records of the dirty data, which are one write to a fast device; the
//! members get the data later.
//!
//! # Fault model
//! A power cut loses the cache blocks, and unflushed data of the drives. The devices keep durable
//! writes. They fail like the devices of a journal ([`Devices`](crate::stripe::Devices)).
//!
//! # Protocol
//! 1. A record has the dirty data of some lines, each line complete and oldest first. It is durable
//!    before the acknowledgement of the flush or durable write that caused it.
//! 2. A record retires when no dirty data is as old as its latest write, and the drives were
//!    flushed since. A newer write over dirty data takes over its [`Sequence`]: so the record stays
//!    live until the newer data is on the drives.
//! 3. Data that is on the drives and in no record is made durable by a drive flush before the next
//!    acknowledgement of durability. Live records with older data of the same stripe are
//!    *overtaken*: a replay would restore that older data. So they are invalidated before this
//!    acknowledgement. The same holds for a record placed after newer data of its lines was
//!    destaged; acknowledgements that precede its placement wait for it.
//! 4. After a power cut, live records are restored as dirty data over the drives' content, oldest
//!    first. After a crash of the process, the cache blocks have all acknowledged data, and records
//!    have nothing newer.
//!
//! # Invariants
//! - Records are written one at a time under the `turn` lock. A destage never waits for that lock,
//!   so its holder may wait for destages.
//! - A line is logged as a whole: of two writes of the same bytes the later one is never in an
//!   earlier record.
//! - While records of an earlier start may be live, no durability is acknowledged:
//!   [`DataLogTerms::Unfenced`].

use crate::attachment::DataLogTerms;
use crate::cache::Cache;
use crate::cache::held::Waiting;
use crate::cache::promises::{DataLog, Speaker};
use ::block_cache::Sequence;
use platform::{IoError, IoErrorKind, Slice};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};
use write_log::{About, Batch, Change, ChangeKind, Part};

/// A flush that would log a larger part of the ring destages everything instead: this is cheaper.
const LARGEST_SHARE: u64 = 4;

/// A data log that the volume no longer uses.
pub(crate) struct Left(Rc<DataLog>);

impl Left {
    /// Waits until no write to it is in progress.
    pub(crate) async fn quiet(self) {
        let _turn = self.0.records.turn.take(1).await;
    }
}

/// Returns the number of the first record to keep.
type Before = fn(&DataLog) -> u64;

/// Bytes of a stripe for a record.
struct Piece {
    stripe: StripeIndex,
    range: ByteRange,
    slice: Slice,
}

/// Dirty, unlogged data of some lines.
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

impl Cache {
    /// Changes the data log; returns the previous one.
    ///
    /// # Errors
    /// When this shard cannot attach it.
    pub(crate) fn set_data_log(
        self: &Rc<Self>,
        terms: &DataLogTerms,
    ) -> Result<Option<Left>, String> {
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
            // It is unknown whether the drives have unflushed writes: assume one.
            promises.written.set(promises.written.get() + 1);
        }
        promises.changed.notify(self.shard.env());
        let Some(before) = before else { return Ok(None) };
        before.records.is_closed.set(true);
        // The previous log's records no longer protect the dirty data, and the next log has none of
        // it.
        self.forget_logged();
        self.destage_soon();
        Ok(Some(Left(before)))
    }

    /// Marks all dirty data as unlogged.
    fn forget_logged(&self) {
        let lines = self.lines.borrow();
        let whole = ByteRange::new(ByteOffset::ZERO, self.geometry().stripe_bytes());
        for stripe in lines.dirty_lines() {
            lines
                .within(stripe, whole)
                .for_each(|(_, write)| write.held.write.is_logged.set(false));
        }
    }

    /// Notes a destage or trim, which changed the drives. `is_logged`: a record has the data.
    pub(crate) fn note_written(&self, stripe: StripeIndex, is_logged: bool) {
        if is_logged {
            return;
        }
        let promises = &self.promises;
        promises.written.set(promises.written.get() + 1);
        if let Some(log) = promises.log() {
            let ring = log.records.ring();
            if ring.says(stripe) {
                log.overtaken.set(ring.next());
            }
            if promises.about_to_be_logged.borrow().contains(&stripe) {
                promises.is_out_of_date.set(true);
            }
        }
    }

    /// Whether records of the data log satisfy a flush.
    pub(crate) fn answers_by_log(&self) -> bool {
        self.promises.are_logged()
    }

    /// Whether records may be live, of this or of an earlier start.
    pub(crate) fn promises_by_log(&self) -> bool {
        self.promises.are_logged() || self.promises.is_unfenced.get()
    }

    /// Whether records of an earlier start may be live.
    pub(crate) fn is_unfenced(&self) -> bool {
        self.promises.is_unfenced.get()
    }

    /// Notes the end of a destage of a line.
    pub(super) fn note_line(&self, stripe: StripeIndex) {
        // Clean lines are removed: the set would grow without limit.
        if self.promises.are_logged() && self.lines.borrow().oldest_of_line(stripe).is_none() {
            self.promises.unlogged.borrow_mut().remove(&stripe);
        }
    }

    /// Makes all earlier acknowledged writes of this shard durable. `drives_are_flushed`: the
    /// caller flushes the drives for all shards.
    ///
    /// # Errors
    /// When dirty data can be neither logged nor destaged, or the drives cannot be flushed.
    pub(crate) async fn secure(self: &Rc<Self>, drives_are_flushed: bool) -> Result<(), IoError> {
        if let Some(log) = self.promises.log() {
            match self.secure_by(&log).await {
                // The closed log's data is still in the cache. Its records do not count, nor do
                // those written meanwhile.
                _ if log.records.is_closed.get() => self.drain_and_flush().await?,
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

    /// Makes unlogged data on the drives durable: flushes them, and invalidates overtaken records.
    async fn secure_what_is_written(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        // A record that is out of date is live as soon as it is placed.
        if log.is_overtaken() || self.promises.is_out_of_date.get() {
            self.forget_records(log, |log| log.overtaken.get()).await?;
        }
        // The flush that retired records may precede the latest writes.
        match self.promises.written.get() > self.promises.flushed.get() {
            true => self.flush_what_is_written().await,
            false => Ok(()),
        }
    }

    /// Makes a cached write durable.
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
                // It was destaged meanwhile, or a newer write covers it.
                Ok(()) => self.secure_what_is_written(&log).await,
                failed => failed,
            };
            // Records of a log that was closed meanwhile do not count.
            if logged.is_ok() && !log.records.is_closed.get() {
                return logged;
            }
        }
        self.drain_and_flush().await?;
        self.fenced().await
    }

    /// Protects a durable drive write of a stripe: no replay restores older data over it.
    ///
    /// # Errors
    /// As [`Cache::secure`].
    pub(super) async fn promise_written(
        self: &Rc<Self>,
        stripe: StripeIndex,
    ) -> Result<(), IoError> {
        let Some(log) = self.promises.log() else { return self.fenced().await };
        let says = log.records.ring().says(stripe);
        match says
            || self.promises.about_to_be_logged.borrow().contains(&stripe)
            || log.records.is_closed.get()
        {
            true => self.revoke_promises().await,
            false => Ok(()),
        }
    }

    /// Invalidates all records of the data log made before the call, of this or of an earlier
    /// start: no replay restores their data. That data is on the drives.
    ///
    /// # Errors
    /// As [`Cache::secure`].
    pub(crate) async fn revoke_promises(self: &Rc<Self>) -> Result<(), IoError> {
        if let Some(log) = self.promises.log() {
            let forgotten = self.forget_records(&log, |log| log.records.ring().next()).await;
            // Records of a lost log do not count.
            if !log.records.is_closed.get() {
                return forgotten;
            }
        }
        self.fenced().await
    }

    /// Destages the dirty data of this shard, and flushes all drives in use.
    ///
    /// # Errors
    /// When data cannot be written, or a drive cannot make its data durable.
    pub(crate) async fn drain_and_flush(self: &Rc<Self>) -> Result<(), IoError> {
        self.drain_cache().await?;
        self.flush_destaged().await
    }

    /// Waits until no record of an earlier start is live.
    pub(super) async fn fenced(&self) -> Result<(), IoError> {
        let promises = &self.promises;
        let is_done = || !promises.is_unfenced.get() || self.closing.get();
        promises.changed.wait_until(self.shard.env(), is_done).await;
        match promises.is_unfenced.get() {
            true => Err(IoError::new(IoErrorKind::Gone)),
            false => Ok(()),
        }
    }

    /// Wakes tasks in `fenced` with an error when the volume is detached.
    pub(crate) fn close_promises(&self) {
        self.promises.changed.notify(self.shard.env());
    }

    async fn flush_what_is_written(self: &Rc<Self>) -> Result<(), IoError> {
        let written = self.promises.written.get();
        self.flush_destaged().await?;
        self.promises.flushed.set(written.max(self.promises.flushed.get()));
        Ok(())
    }

    /// The unlogged dirty data of lines, each line oldest first, in pieces that each fit one
    /// record.
    fn unlogged_of(&self, log: &DataLog, stripes: &BTreeSet<StripeIndex>) -> Unlogged {
        let most = ByteCount(log.records.ring().most());
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

    /// Logs all wanted lines: those of the caller and of other tasks.
    async fn log_wanted(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        let _turn = log.records.turn.take(1).await;
        if log.records.is_closed.get() {
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
                // Parts that reached the drives meanwhile were counted as logged.
                self.promises.written.set(self.promises.written.get() + 1);
                // The next holder of `turn` must log these lines: waiting tasks rely on it.
                self.promises.unlogged.borrow_mut().extend(&lines);
                self.promises.wanted.borrow_mut().extend(lines);
                return Err(error);
            }
        }
        self.promises.none_waits();
        self.make_room_in_time(log);
        Ok(())
    }

    /// Writes one record of the first pieces. The caller holds `turn`.
    async fn log_some(
        self: &Rc<Self>,
        log: &Rc<DataLog>,
        pieces: &mut VecDeque<Piece>,
        latest: Sequence,
    ) -> Result<(), IoError> {
        let part = |piece: &Piece| Part { changes: 1, slices: 1, carried: piece.slice.len() };
        let batch = Batch::of(pieces.iter().map(part), log.records.ring().most());
        let place = loop {
            match log.records.place_for(&batch) {
                Some(place) => break place,
                None if log.records.is_closed.get() => return Err(IoError::new(IoErrorKind::Gone)),
                None => self.make_room(log).await?,
            }
        };
        let pieces: SmallVec<[Piece; 8]> = pieces.drain(..batch.entries).collect();
        let about = |stripe| About { stripe, revokes: false, promises: true };
        let stripes: BTreeSet<StripeIndex> = pieces.iter().map(|piece| piece.stripe).collect();
        let abouts: SmallVec<[About; 8]> = stripes.iter().map(|stripe| about(*stripe)).collect();
        let changes: SmallVec<[Change; 8]> = pieces
            .iter()
            .map(|piece| {
                let range = self.in_volume(piece.stripe, piece.range);
                Change { slot: 0, kind: ChangeKind::Bytes, range }
            })
            .collect();
        let carried = pieces.into_iter().map(|piece| piece.slice);
        let record = log.records.begin(&batch, place, &abouts, &changes, carried);
        if self.promises.is_out_of_date.get() {
            log.overtaken.set(log.records.ring().next());
        }
        let number = record.number();
        log.speakers.borrow_mut().push_back(Speaker { number, stripes: abouts.len(), latest });
        let written = self.write_record(&log.records, record).await;
        if written.is_err() {
            log.speakers.borrow_mut().retain(|speaker| speaker.number != number);
        }
        written.map(drop)
    }

    /// Invalidates records before a number. The number is computed under `turn`: the previous
    /// holder may have written more records.
    async fn forget_records(
        self: &Rc<Self>,
        log: &Rc<DataLog>,
        before: Before,
    ) -> Result<(), IoError> {
        let _turn = log.records.turn.take(1).await;
        let number = before(log);
        while log.records.ring().counts_from() < number {
            if log.records.is_closed.get() {
                return Err(IoError::new(IoErrorKind::Gone));
            }
            self.make_room(log).await?;
        }
        Ok(())
    }

    /// Frees space: retires the older half of the records, or writes a notice of retired ones to
    /// the devices. The caller holds `turn`.
    async fn make_room(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        let has_news = log.records.ring().can_announce();
        if has_news {
            return self.write_notice(&log.records).await;
        }
        self.retire_older_half(log).await
    }

    async fn retire_older_half(self: &Rc<Self>, log: &Rc<DataLog>) -> Result<(), IoError> {
        if let Some(latest) = log.latest_of_older_half() {
            self.destage_up_to(latest).await?;
        }
        log.settle(self.lines.borrow().oldest_dirty());
        let settled = log.records.ring().settled();
        self.flush_what_is_written().await?;
        log.records.ring_mut().retire(settled);
        Ok(())
    }

    /// Frees space in the background, before a write must wait for it.
    fn make_room_in_time(self: &Rc<Self>, log: &Rc<DataLog>) {
        if !log.records.ring().is_due() || self.promises.is_making_room.get() {
            return;
        }
        let Ok(user) = self.enter() else { return };
        self.promises.is_making_room.set(true);
        let (cache, log) = (self.clone(), log.clone());
        self.shard.env().spawn("make room in the data log", async move {
            let _user = user;
            if let Err(error) = cache.retire_older_half(&log).await {
                tracing::warn!(volume = %cache.name(), "data log records cannot retire: {error}");
            }
            cache.promises.is_making_room.set(false);
        });
    }
}
