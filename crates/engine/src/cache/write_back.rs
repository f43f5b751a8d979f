//! Write-back: what is dirty, how much of it there may be, and when it is destaged.
//!
//! | what is dirty is destaged | because |
//! | --- | --- |
//! | as soon as the drives have room for it | its line is full: it needs no reads, and nothing is to be won by waiting |
//! | when a flush asks and there is no data log, or a volume is given back | it must be on the drives |
//! | when the data log is half full | its records are to count no more |
//! | after [`AGE`] | a power cut should not take what is long ago |
//! | when more than the lower of its [marks](crate::Marks) is taken of the room | what comes needs room |
//! | when no host has asked for anything for a while | the drives have nothing else to do |
//!
//! What was destaged stays in its cells until the drives have been flushed ([`CellRoom`]): by a host, when it takes up too much of
//! the memory, when no host asks for anything, or after [`AGE`].
//!
//! Lines are destaged as an elevator comes to them, as many strips at a time as the drives can put in order. More would be of no
//! use to them, and hosts' reads would wait behind all of it.

use crate::cache::{Cache, Waiting, destage};
use crate::memory::{Absorb, CacheCounters, Marks};
use crate::recovery::Recovery;
use crate::shard::{CellRoom, Room};
use ::block_cache::{Destage, Sequence};
use platform::sync::{Credits, Signal};
use platform::{Durability, Instant, IoError, Runners, Slice};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// How long something may be dirty before it is destaged for its age.
const AGE: Duration = Duration::from_secs(5);

/// How often the clock is looked at, while anything is dirty.
const TICK: Duration = Duration::from_millis(250);

/// Strips of data that are being destaged at a time, for each drive: as many as a rotating drive can put in order, and as many as
/// flash needs to be busy.
const DEPTH_ROTATING: usize = 32;
const DEPTH_FLASH: usize = 8;

/// The most strips of data that are being destaged at a time.
const MOST_STRIPS: usize = 512;

/// The largest part of the room that one write of a stripe may take.
const LARGEST_SHARE: usize = 4;

/// How a volume's writes are absorbed on a shard.
pub(super) struct Absorbing {
    marks: Marks,
    destages: Runners<Destage>,
    /// Strips of data that are being destaged.
    under_way: Cell<usize>,
    /// What is as old as that is destaged: somebody waits for it, or it is too old.
    due: Cell<Sequence>,
    /// When writes came: the latest of each tick.
    ages: RefCell<VecDeque<(Instant, Sequence)>>,
    is_ticking: Cell<bool>,
    /// What is as old as that is waited for.
    asked: Cell<Sequence>,
    is_idle: Cell<bool>,
    /// To be the next write that gets room: large ones are not starved by small ones.
    turn: Credits,
    /// Requests that there had been at the last tick.
    requests: Cell<u64>,
    /// Whether anything has been destaged since the last tick: what could not be may be now.
    has_destaged: Cell<bool>,
    last_error: Cell<Option<IoError>>,
    /// The drives are being flushed for what was destaged.
    is_flushing: Cell<bool>,
    /// They could not be, when that was tried last.
    flush_failed: Cell<bool>,
    /// When they were last.
    flushed_at: Cell<Instant>,
    /// A destage has ended.
    changed: Signal,
    counters: Cell<CacheCounters>,
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

    /// Has destages carried out whose oldest write was answered. The tasks hold the cache while they are at it, and no longer.
    pub(super) fn run_destages_of(&self, cache: &Rc<Cache>) {
        let cache = Rc::downgrade(cache);
        self.destages.run(async move |destage| {
            let Some(cache) = cache.upgrade() else { return };
            Box::pin(destage::carry_out(&cache, &destage)).await;
            cache.absorbing.under_way.set(cache.absorbing.under_way.get() - destage.strips);
            cache.pump();
        });
    }

    /// Gives a destage to somebody who carries it out.
    pub(super) fn give(&self, destage: Destage) {
        self.under_way.set(self.under_way.get() + destage.strips);
        self.count(|counters| counters.destages += 1);
        self.destages.give(destage);
    }

    fn count(&self, change: impl FnOnce(&mut CacheCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl Cache {
    /// Whether something may be dirty, on whichever shard.
    pub(crate) fn uses_write_back(&self) -> bool {
        self.absorb.get() > Absorb::Nothing
    }

    /// Whether a flush is answered by what is in cells.
    pub(crate) fn answers_flushes(&self) -> bool {
        self.absorb.get() == Absorb::All
    }

    /// Which writes are answered from now on, and the volume's place in the memory. Where it is fewer, done when nothing is dirty on
    /// this shard.
    ///
    /// # Errors
    /// Why something could not be written.
    pub(crate) async fn set_absorb(self: &Rc<Self>, absorb: Absorb, index: u32) -> Result<(), IoError> {
        let has_less = absorb < self.absorb.get();
        assert!(
            self.index.replace(Some(index)).is_none_or(|before| before == index)
                || self.absorb.get() == Absorb::Nothing,
            "what is in cells is of one volume"
        );
        assert!(
            absorb > Absorb::Nothing || self.absorb.get() <= Absorb::NoMore,
            "every shard goes by the cache until nothing is dirty on any"
        );
        if !has_less {
            self.absorb.set(absorb);
            self.note_part();
            return Ok(());
        }
        let meanwhile = absorb.max(Absorb::NoMore);
        self.absorb.set(meanwhile);
        self.empty_cache().await?;
        // Somebody may have wished for something else in the meantime.
        if self.absorb.get() == meanwhile {
            self.absorb.set(absorb);
            self.note_part();
        }
        Ok(())
    }

    /// A part of the memory is the volume's own as long as its writes may be in there.
    pub(super) fn note_part(&self) {
        let Some(index) = self.index.get() else { return };
        match self.uses_write_back() {
            true => self.shard.cells().join(index),
            false => self.shard.cells().part_from(index),
        }
    }

    /// Whether bytes of the volume may be dirty: here, or on the shard that owns them.
    pub(crate) fn may_be_dirty(&self, range: ByteRange) -> bool {
        if !self.uses_write_back() {
            return false;
        }
        let (stripe, within) = self.geometry().stripe_of(range.start);
        let within = ByteRange::new(ByteOffset(within.0), range.len);
        !self.is_mine(stripe) || self.lines.borrow().within(stripe, within).next().is_some()
    }

    /// Room for a write that is to be answered now, as soon as there is some. `None`: it is to be answered when it is on
    /// the drives.
    pub(crate) async fn room_for(
        self: &Rc<Self>,
        stripe: StripeIndex,
        range: ByteRange,
        data: &Slice,
        durability: Durability,
    ) -> Option<Room> {
        let cells = self.shard.cells();
        let need = CellRoom::cells_for(self.in_volume(stripe, range));
        let is_large = || need > cells.total() / LARGEST_SHARE;
        if !self.answers(durability) || is_large() || self.is_cheap_for_drives(stripe, range, data.is_zero())
        {
            return None;
        }
        let is_pinned = || !self.lines.borrow().pinned().is_empty();
        let index = self.index.get()?;
        let _turn = match self.absorbing.turn.try_take(1) {
            Some(turn) => turn,
            None => Box::pin(self.absorbing.turn.take(1)).await,
        };
        let mut room = None;
        let found = || {
            // While something cannot be written, hosts are to hear of it: there may never be room again.
            if is_pinned() || !self.answers(durability) {
                return true;
            }
            room = cells.try_reserve(index, need);
            let is_flushed_for_room = room.is_none() && self.flushes_for_room();
            // Another volume may have all of it, and never give it back: nothing of this one would make room.
            room.is_some() || (!is_flushed_for_room && self.lines.borrow().oldest_dirty().is_none())
        };
        cells.changed.wait_until(self.shard.env(), found).await;
        room
    }

    /// Whether a write is answered that is in cells.
    pub(super) fn answers(&self, durability: Durability) -> bool {
        match self.absorb.get() {
            Absorb::Nothing | Absorb::NoMore => false,
            Absorb::Logged => self.promises.are_logged(),
            Absorb::Unflushed => durability == Durability::Cached || self.promises.are_logged(),
            Absorb::All => true,
        }
    }

    /// Whether a host is told of a write only when the data log has it, or the drives durably, whatever it asked for.
    pub(super) fn logs_every_write(&self) -> bool {
        self.absorb.get() == Absorb::Logged
    }

    /// Whether a write that is in cells, or on the drives, is as durable as its host asked.
    pub(super) fn is_kept(&self, write: &Waiting) -> bool {
        write.durability == Durability::Cached || self.answers_flushes()
    }

    /// Something was answered.
    pub(super) fn note_absorbed(self: &Rc<Self>) {
        self.absorbing.count(|counters| counters.absorbed += 1);
        self.absorbing.is_idle.set(false);
        self.note_dirty();
    }

    /// Something is dirty.
    pub(super) fn note_dirty(self: &Rc<Self>) {
        if !self.absorbing.is_ticking.replace(true) {
            self.shard.env().spawn("cache clock", tick(Rc::downgrade(self)));
        }
        self.pump();
        self.publish();
    }

    /// A read was answered from the cache, in part at least.
    pub(super) fn note_hit(&self) {
        self.absorbing.count(|counters| counters.hits += 1);
        self.publish();
    }

    /// What came of destaging something that was answered.
    pub(super) fn note_destaged(&self, result: Result<(), IoError>) {
        match result {
            Ok(()) => self.absorbing.has_destaged.set(true),
            Err(error) => self.absorbing.last_error.set(Some(error)),
        }
    }

    /// Whether something was destaged that the drives have not been flushed for.
    fn has_destaged(&self) -> bool {
        self.index.get().is_some_and(|index| self.shard.cells().has_destaged(index))
    }

    /// Whether cells have bytes of a stripe that a write past them was laid over.
    pub(super) fn is_kept_beneath(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        let has_any = |index| self.shard.cells().has_any(index, self.in_volume(stripe, range));
        self.uses_write_back() && self.index.get().is_some_and(has_any)
    }

    /// Flushes every drive in use: of what was destaged before, nothing is in cells after that.
    ///
    /// # Errors
    /// When some drive cannot make durable what it holds.
    pub(crate) async fn flush_destaged(self: &Rc<Self>) -> Result<(), IoError> {
        let (cells, index) = (self.shard.cells(), self.index.get());
        loop {
            let begun = index.and_then(|index| cells.begin_flush(index));
            let until = cells.begun_by_now();
            let flushed = self.flush_once().await;
            self.absorbing.flush_failed.set(flushed.is_err());
            self.absorbing.flushed_at.set(self.shard.env().now());
            match (flushed, begun) {
                (Ok(()), Some(begun)) => begun.flushed(),
                (_, begun) => drop(begun),
            }
            cells.changed.notify(self.shard.env());
            flushed?;
            // Others that began before this clear what they took when it is their turn.
            let is_over = || index.is_none_or(|index| !cells.is_any_open(index, until));
            cells.changed.wait_until(self.shard.env(), is_over).await;
            if !index.is_some_and(|index| cells.has_failed_since(index, until)) {
                return Ok(());
            }
        }
    }

    /// Whether a flush of the drives makes room in the cache, and is under way.
    fn flushes_for_room(self: &Rc<Self>) -> bool {
        let absorbing = &self.absorbing;
        if !absorbing.is_flushing.get() && self.has_destaged() && !absorbing.flush_failed.get() {
            self.flush_soon();
        }
        absorbing.is_flushing.get() || self.is_flushed_by_others()
    }

    fn is_flushed_by_others(&self) -> bool {
        self.index.get().is_some_and(|index| self.shard.cells().is_flushing(index))
    }

    /// Has the drives flushed for what was destaged, in the background.
    fn flush_soon(self: &Rc<Self>) {
        if self.absorbing.is_flushing.get() {
            return;
        }
        let Ok(user) = self.enter() else { return };
        self.absorbing.is_flushing.set(true);
        let cache = self.clone();
        self.shard.env().spawn("flush what was destaged", async move {
            let _user = user;
            if let Err(error) = cache.flush_destaged().await {
                tracing::warn!(volume = %cache.name(), "the cache keeps what was destaged: {error}");
            }
            cache.absorbing.is_flushing.set(false);
            cache.shard.cells().changed.notify(cache.shard.env());
        });
    }

    /// Why something that was answered could not be destaged.
    pub(super) fn last_error(&self) -> IoError {
        self.absorbing.last_error.get().unwrap_or(IoError::new(platform::IoErrorKind::Gone))
    }

    /// A destage has ended.
    pub(super) fn note_ended(self: &Rc<Self>) {
        if self.has_destaged() && self.index.get().is_some_and(|index| self.shard.cells().is_flush_due(index))
        {
            self.flush_soon();
        }
        self.absorbing.changed.notify(self.shard.env());
        self.shard.cells().changed.notify(self.shard.env());
        self.publish();
    }

    /// Tells whoever looks from outside what the cache has.
    pub(super) fn publish(&self) {
        if let Some(gauge) = &self.gauge {
            self.cache_counters().publish(gauge, self.shard.index().0.into());
        }
    }

    /// Begins to destage what is to be, as much at a time as is good for the drives.
    fn pump(&self) {
        while let Some(stripe) = self.next_to_destage() {
            self.begin(stripe);
        }
    }

    /// The line that is destaged next, if there is room for it at the drives: one that is due, one that is full, or, where something has
    /// to go, any.
    fn next_to_destage(&self) -> Option<StripeIndex> {
        let absorbing = &self.absorbing;
        // Asked with every write that is absorbed: mostly there is nothing to do, which costs little to find out.
        let is_pressing = absorbing.is_idle.get() || self.is_destaging_for_room();
        let due = absorbing.due.get();
        let lines = self.lines.borrow();
        let (is_due, has_full) = (lines.waits_since(due), lines.has_full());
        drop(lines);
        if !is_pressing && !is_due && !has_full {
            return None;
        }
        let (under_way, most) = (absorbing.under_way.get(), self.most_strips());
        if under_way >= most {
            return None;
        }
        let has_turn = under_way < self.depth(most);
        let mut lines = self.lines.borrow_mut();
        // What is old goes before what would go at once.
        if is_due && (has_turn || has_full) {
            return lines.choose(Some(due));
        }
        lines.choose_full().or_else(|| if has_turn && is_pressing { lines.choose(None) } else { None })
    }

    /// How many strips of data the drives can put in order, or need to be busy: this shard's part of that.
    fn most_strips(&self) -> usize {
        let in_service = self.in_service();
        let drives = in_service.iter().filter_map(|drive| self.members.get(drive));
        let per_drive =
            drives.map(|member| if member.info().rotational { DEPTH_ROTATING } else { DEPTH_FLASH });
        (per_drive.sum::<usize>().min(MOST_STRIPS) / usize::from(self.shard.count())).max(1)
    }

    /// How many strips of data may be under way: as many as that where nobody else is to be served, or somebody waits for them;
    /// otherwise the more, the less room there is.
    fn depth(&self, most: usize) -> usize {
        let absorbing = &self.absorbing;
        match absorbing.is_idle.get() || self.lines.borrow().oldest_dirty() <= Some(absorbing.asked.get()) {
            true => most,
            false => absorbing.marks.depth(most, self.fill()),
        }
    }

    /// Destages what is dirty now. Done when all of it is on the drives.
    ///
    /// # Errors
    /// Why something could not be written.
    pub(crate) async fn drain_cache(self: &Rc<Self>) -> Result<(), IoError> {
        let latest = self.lines.borrow().latest();
        self.destage_up_to(latest).await
    }

    /// Destages what is dirty now. Done when the drives have all of it durably and nothing is in cells any more.
    ///
    /// # Errors
    /// Why something could not be written, or a drive cannot make durable what it holds.
    pub(crate) async fn empty_cache(self: &Rc<Self>) -> Result<(), IoError> {
        self.drain_cache().await?;
        // One that is under way may fail, and leave what it was to clear.
        while self.has_destaged() || self.is_flushed_by_others() {
            self.flush_destaged().await?;
        }
        Ok(())
    }

    /// Begins to destage what is dirty now, as fast as the drives can.
    pub(super) fn destage_soon(&self) {
        let latest = self.lines.borrow().latest();
        self.ask_for(latest);
    }

    fn ask_for(&self, cut_off: Sequence) {
        let absorbing = &self.absorbing;
        absorbing.due.set(cut_off.max(absorbing.due.get()));
        absorbing.asked.set(cut_off.max(absorbing.asked.get()));
        self.retry(usize::MAX);
        self.pump();
    }

    /// Destages what is as old as that. Done when all of it is on the drives.
    ///
    /// # Errors
    /// Why something could not be written.
    pub(super) async fn destage_up_to(self: &Rc<Self>, cut_off: Sequence) -> Result<(), IoError> {
        if self.lines.borrow().oldest_dirty().is_none_or(|oldest| oldest > cut_off) {
            return Ok(());
        }
        let absorbing = &self.absorbing;
        self.ask_for(cut_off);
        let is_settled = || {
            let lines = self.lines.borrow();
            let is_past = |oldest: Option<Sequence>| oldest.is_none_or(|oldest| oldest > cut_off);
            is_past(lines.oldest_dirty())
                || (!lines.pinned().is_empty() && is_past(lines.oldest_that_moves()))
        };
        absorbing.changed.wait_until(self.shard.env(), is_settled).await;
        let oldest = self.lines.borrow().oldest_dirty();
        match oldest.is_some_and(|oldest| oldest <= cut_off) {
            true => Err(self.last_error()),
            false => Ok(()),
        }
    }

    /// Destages what is dirty of a line now. Done when that is on the drives, or could not be written.
    pub(super) async fn destage_line(self: &Rc<Self>, stripe: StripeIndex) {
        let cut_off = self.lines.borrow().latest();
        if !self.lines.borrow_mut().want_line(stripe) {
            return;
        }
        self.begin(stripe);
        let is_done = || self.lines.borrow().is_line_settled(stripe, cut_off);
        self.absorbing.changed.wait_until(self.shard.env(), is_done).await;
    }

    /// Tries what could not be destaged.
    fn retry(&self, most: usize) {
        let pinned = self.lines.borrow_mut().retry(most);
        pinned.into_iter().for_each(|stripe| self.begin(stripe));
    }

    /// What the cache has, and has done.
    pub fn cache_counters(&self) -> CacheCounters {
        let lines = self.lines.borrow();
        let (dirty, pinned) = (lines.dirty_bytes(), lines.pinned_bytes());
        let clean = self.shard.clean().counters(self.spec.id.0);
        CacheCounters {
            dirty,
            pinned,
            clean: ByteCount(clean.kept),
            ahead_used: ByteCount(clean.ahead_used),
            ahead_wasted: ByteCount(clean.ahead_wasted),
            ..self.absorbing.counters.get()
        }
    }

    /// Whether the shard's cache has so much that some has to go.
    pub fn is_destaging_for_room(&self) -> bool {
        self.uses_write_back() && self.absorbing.marks.are_passed(self.fill())
    }

    /// How much of the memory that it may have the volume has taken, in percent.
    fn fill(&self) -> usize {
        self.index.get().map_or(0, |index| self.shard.cells().fill(index))
    }

    /// Nothing will be destaged any more.
    pub(crate) fn close_cache(&self) {
        self.absorbing.destages.close();
        if self.absorb.replace(Absorb::Nothing) > Absorb::Nothing {
            self.note_part();
        }
    }

    /// The clock has moved on. Whether it is looked at again.
    fn look_at_clock(self: &Rc<Self>) -> bool {
        let absorbing = &self.absorbing;
        // What somebody looked at may be free by now.
        self.shard.cells().changed.notify(self.shard.env());
        self.publish();
        let (now, mut ages) = (self.shard.env().now(), absorbing.ages.borrow_mut());
        let is_dirty = self.lines.borrow().oldest_dirty().is_some();
        if !is_dirty && !self.has_destaged() {
            ages.clear();
            return false;
        }
        ages.push_back((now, self.lines.borrow().latest()));
        while let Some((_, latest)) = ages.front().filter(|(then, _)| now.since(*then) >= AGE).copied() {
            absorbing.due.set(latest.max(absorbing.due.get()));
            ages.pop_front();
        }
        drop(ages);
        let requests = self.shard.hosts().requests() + absorbing.counters.get().absorbed;
        absorbing.is_idle.set(absorbing.requests.replace(requests) == requests);
        let is_old = now.since(absorbing.flushed_at.get()) >= AGE;
        if self.has_destaged() && (is_old || absorbing.is_idle.get()) {
            self.flush_soon();
        }
        self.retry(if absorbing.has_destaged.replace(false) { usize::MAX } else { 1 });
        self.pump();
        true
    }
}

/// Looks at the clock as long as anything is dirty.
async fn tick(cache: Weak<Cache>) {
    loop {
        let Some(env) = cache.upgrade().map(|cache| cache.shard.env().clone()) else { return };
        env.sleep(TICK).await;
        let Some(cache) = cache.upgrade() else { return };
        if !cache.look_at_clock() {
            cache.absorbing.is_ticking.set(false);
            return;
        }
    }
}
