//! Write-back: dirty data, its limits, and the times of destaging.
//!
//! | dirty data is destaged | reason |
//! | --- | --- |
//! | as soon as the drives have capacity | full line: it needs no reads; waiting gains nothing |
//! | for a flush without a data log, or when a volume is released | it must be on the drives |
//! | when the data log is half full | its records must retire |
//! | after [`AGE`] | a power cut must lose recent writes only |
//! | when usage exceeds the lower of its [marks](crate::Marks) | new writes need space |
//! | after a time without host requests | the drives are idle |
//!
//! Destaged data stays in its cache blocks until the drives are flushed ([`CellRoom`]). The flush
//! comes from a host, from a lack of memory, without host requests, or after [`AGE`].
//!
//! Lines are destaged in elevator order, as many strips at a time as the drives can sort. More
//! would only delay the reads of hosts.

use crate::cache::absorbing::MOST_STRIPS;
use crate::cache::held::Waiting;
use crate::cache::{Cache, destage};
use crate::memory::{Absorb, CacheCounters};
use crate::shard::{CellRoom, Room};
use ::block_cache::Sequence;
use platform::{Durability, IoError, Slice};
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// The age at which dirty data is destaged.
const AGE: Duration = Duration::from_secs(5);

/// The clock interval while any data is dirty.
const TICK: Duration = Duration::from_millis(250);

/// Strips of data in destage per drive: as many as a rotating drive can sort, and as many as flash
/// needs to be busy.
const DEPTH_ROTATING: usize = 32;
const DEPTH_FLASH: usize = 8;

/// The largest part of the memory, as a divisor, that one write of a stripe may take.
const LARGEST_SHARE: usize = 4;

impl Cache {
    /// Starts the tasks that carry out destages whose oldest write is acknowledged. A task holds
    /// the cache only during a destage.
    pub(super) fn run_destages(self: &Rc<Self>) {
        let cache = Rc::downgrade(self);
        self.absorbing.destages.run(async move |destage| {
            let Some(cache) = cache.upgrade() else { return };
            Box::pin(destage::carry_out(&cache, &destage)).await;
            cache.absorbing.under_way.set(cache.absorbing.under_way.get() - destage.strips);
            cache.pump();
        });
    }

    /// Whether data may be dirty, on any shard.
    pub(crate) fn uses_write_back(&self) -> bool {
        self.absorb.get() > Absorb::Nothing
    }

    /// Whether cached data satisfies a flush.
    pub(crate) fn answers_flushes(&self) -> bool {
        self.absorb.get() == Absorb::All
    }

    /// Sets which writes are acknowledged from the cache, and the volume's index in the memory. If
    /// the new setting acknowledges fewer, returns when this shard has no dirty data.
    ///
    /// # Errors
    /// When data could not be destaged.
    pub(crate) async fn set_absorb(
        self: &Rc<Self>,
        absorb: Absorb,
        index: u32,
    ) -> Result<(), IoError> {
        let has_less = absorb < self.absorb.get();
        assert!(
            self.index.replace(Some(index)).is_none_or(|before| before == index)
                || self.absorb.get() == Absorb::Nothing,
            "cached data belongs to one volume index"
        );
        assert!(
            absorb > Absorb::Nothing || self.absorb.get() <= Absorb::NoMore,
            "write-back ends when no shard has dirty data"
        );
        if !has_less {
            self.absorb.set(absorb);
            self.note_part();
            return Ok(());
        }
        let meanwhile = absorb.max(Absorb::NoMore);
        self.absorb.set(meanwhile);
        self.empty_cache().await?;
        // Another call may have changed the setting meanwhile.
        if self.absorb.get() == meanwhile {
            self.absorb.set(absorb);
            self.note_part();
        }
        Ok(())
    }

    /// Reserves a part of the memory for the volume while its writes may be in the cache.
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
        let lines = self.lines.borrow();
        let whole = self.geometry().stripe_bytes();
        let mut rest = range;
        while !rest.is_empty() {
            let (stripe, at) = self.geometry().stripe_of(rest.start);
            let within = ByteRange::new(ByteOffset(at.0), rest.len.min(whole - at));
            if !self.is_mine(stripe) || lines.within(stripe, within).next().is_some() {
                return true;
            }
            rest = ByteRange::from_to(rest.start + within.len, rest.end());
        }
        false
    }

    /// Waits for cache space for a write that may be acknowledged from the cache. `None`: the write
    /// is acknowledged when it is on the drives.
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
        if !self.answers(durability)
            || is_large()
            || self.is_cheap_for_drives(stripe, range, data.is_zero())
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
            // While a destage fails, hosts must get errors: space may never become free.
            if is_pinned() || !self.answers(durability) {
                return true;
            }
            room = cells.try_reserve(index, need);
            let is_flushed_for_room = room.is_none() && self.flushes_for_room();
            // Another volume may use all space for ever: destaging this volume would free none.
            room.is_some() || (!is_flushed_for_room && self.lines.borrow().oldest_dirty().is_none())
        };
        cells.changed.wait_until(self.shard.env(), found).await;
        room
    }

    /// Whether a write is acknowledged when it is in the cache.
    pub(super) fn answers(&self, durability: Durability) -> bool {
        match self.absorb.get() {
            Absorb::Nothing | Absorb::NoMore => false,
            Absorb::Logged => self.promises.are_logged(),
            Absorb::Unflushed => durability == Durability::Cached || self.promises.are_logged(),
            Absorb::All => true,
        }
    }

    /// Whether every write waits for the data log or a durable drive write, even without FUA.
    pub(super) fn logs_every_write(&self) -> bool {
        self.absorb.get() == Absorb::Logged
    }

    /// Whether a write in the cache or on the drives is as durable as requested.
    pub(super) fn is_kept(&self, write: &Waiting) -> bool {
        write.durability == Durability::Cached || self.answers_flushes()
    }

    /// Notes an acknowledged write.
    pub(super) fn note_absorbed(self: &Rc<Self>) {
        self.absorbing.count(|counters| counters.absorbed += 1);
        self.absorbing.is_idle.set(false);
        self.note_dirty();
    }

    /// Notes dirty data.
    pub(super) fn note_dirty(self: &Rc<Self>) {
        if !self.absorbing.is_ticking.replace(true) {
            self.shard.env().spawn("cache clock", tick(Rc::downgrade(self)));
        }
        self.pump();
        self.publish();
    }

    /// Notes a read served from the cache, at least in part.
    pub(super) fn note_hit(&self) {
        self.absorbing.count(|counters| counters.hits += 1);
        self.publish();
    }

    /// Notes the result of a destage of acknowledged data.
    pub(super) fn note_destaged(&self, result: Result<(), IoError>) {
        match result {
            Ok(()) => self.absorbing.has_destaged.set(true),
            Err(error) => self.absorbing.last_error.set(Some(error)),
        }
    }

    /// Whether any destaged data is not flushed yet.
    fn has_destaged(&self) -> bool {
        self.index.get().is_some_and(|index| self.shard.cells().has_destaged(index))
    }

    /// Whether cache blocks contain older bytes of a stripe that a later direct write covers.
    pub(super) fn is_kept_beneath(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        let has_any = |index| self.shard.cells().has_any(index, self.in_volume(stripe, range));
        self.uses_write_back() && self.index.get().is_some_and(has_any)
    }

    /// Flushes all drives in use: then no data destaged before remains in cache blocks.
    ///
    /// # Errors
    /// When a drive cannot make its data durable.
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
            // Concurrent flushes that began earlier clear their own cache blocks.
            let is_over = || index.is_none_or(|index| !cells.is_any_open(index, until));
            cells.changed.wait_until(self.shard.env(), is_over).await;
            if !index.is_some_and(|index| cells.has_failed_since(index, until)) {
                return Ok(());
            }
        }
    }

    /// Whether a flush that frees cache space is in progress; starts one if needed.
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

    /// Flushes destaged data in the background.
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
                tracing::warn!(volume = %cache.name(), "destaged data stays unflushed: {error}");
            }
            cache.absorbing.is_flushing.set(false);
            cache.shard.cells().changed.notify(cache.shard.env());
        });
    }

    /// The error of the last failed destage of acknowledged data.
    pub(super) fn last_error(&self) -> IoError {
        self.absorbing.last_error.get().unwrap_or(IoError::new(platform::IoErrorKind::Gone))
    }

    /// Notes the end of a destage.
    pub(super) fn note_ended(self: &Rc<Self>) {
        if self.has_destaged()
            && self.index.get().is_some_and(|index| self.shard.cells().is_flush_due(index))
        {
            self.flush_soon();
        }
        self.absorbing.changed.notify(self.shard.env());
        self.shard.cells().changed.notify(self.shard.env());
        self.publish();
    }

    /// Publishes the cache counters for outside readers.
    pub(super) fn publish(&self) {
        if let Some(gauge) = &self.gauge {
            self.cache_counters().publish(gauge, self.shard.index().0.into());
        }
    }

    /// Begins destages, up to the depth that suits the drives.
    fn pump(&self) {
        while let Some(stripe) = self.next_to_destage() {
            self.begin(stripe);
        }
    }

    /// The next line to destage, if the drives have capacity: a line that is due, a full line, or
    /// any line if space is needed.
    fn next_to_destage(&self) -> Option<StripeIndex> {
        let absorbing = &self.absorbing;
        // Called for each acknowledged write: the usual answer, no, is cheap.
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
        // Due lines precede full ones.
        if is_due && (has_turn || has_full) {
            return lines.choose(Some(due));
        }
        lines
            .choose_full()
            .or_else(|| if has_turn && is_pressing { lines.choose(None) } else { None })
    }

    /// This shard's share of the strips that the drives can sort, or need to be busy.
    fn most_strips(&self) -> usize {
        let in_service = self.in_service();
        let drives = in_service.iter().filter_map(|drive| self.members.get(drive));
        let per_drive = drives
            .map(|member| if member.info().rotational { DEPTH_ROTATING } else { DEPTH_FLASH });
        (per_drive.sum::<usize>().min(MOST_STRIPS) / usize::from(self.shard.count())).max(1)
    }

    /// The strips of data that may be in destage: `most` if the hosts are idle or a task waits for
    /// the destage. Otherwise more as the cache fills.
    fn depth(&self, most: usize) -> usize {
        let absorbing = &self.absorbing;
        match absorbing.is_idle.get()
            || self.lines.borrow().oldest_dirty() <= Some(absorbing.asked.get())
        {
            true => most,
            false => absorbing.marks.depth(most, self.fill()),
        }
    }

    /// Destages all data that is dirty now. Returns when it is on the drives.
    ///
    /// # Errors
    /// When data could not be written.
    pub(crate) async fn drain_cache(self: &Rc<Self>) -> Result<(), IoError> {
        let latest = self.lines.borrow().latest();
        self.destage_up_to(latest).await
    }

    /// Destages all data that is dirty now. Returns when the drives have it durably and the cache
    /// is empty.
    ///
    /// # Errors
    /// When data could not be written, or a drive cannot make its data durable.
    pub(crate) async fn empty_cache(self: &Rc<Self>) -> Result<(), IoError> {
        self.drain_cache().await?;
        // A running flush may fail, and leave its cache blocks.
        while self.has_destaged() || self.is_flushed_by_others() {
            self.flush_destaged().await?;
        }
        Ok(())
    }

    /// Begins to destage all data that is dirty now, at full speed.
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

    /// Destages writes up to `cut_off`. Returns when they are on the drives.
    ///
    /// # Errors
    /// When data could not be written.
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

    /// Destages a line now. Returns when its data is on the drives, or could not be written.
    pub(super) async fn destage_line(self: &Rc<Self>, stripe: StripeIndex) {
        let cut_off = self.lines.borrow().latest();
        if !self.lines.borrow_mut().want_line(stripe) {
            return;
        }
        self.begin(stripe);
        let is_done = || self.lines.borrow().is_line_settled(stripe, cut_off);
        self.absorbing.changed.wait_until(self.shard.env(), is_done).await;
    }

    /// Retries failed destages.
    fn retry(&self, most: usize) {
        let pinned = self.lines.borrow_mut().retry(most);
        pinned.into_iter().for_each(|stripe| self.begin(stripe));
    }

    /// The cache's content and counters.
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

    /// Whether the shard's cache is so full that it destages for space.
    pub fn is_destaging_for_room(&self) -> bool {
        self.uses_write_back() && self.absorbing.marks.are_passed(self.fill())
    }

    /// The used part of the volume's memory, in percent.
    fn fill(&self) -> usize {
        self.index.get().map_or(0, |index| self.shard.cells().fill(index))
    }

    /// Ends destaging.
    pub(crate) fn close_cache(&self) {
        self.absorbing.destages.close();
        if self.absorb.replace(Absorb::Nothing) > Absorb::Nothing {
            self.note_part();
        }
    }

    /// Handles a clock tick. Returns whether another is needed.
    fn look_at_clock(self: &Rc<Self>) -> bool {
        let absorbing = &self.absorbing;
        // Space may have become free.
        self.shard.cells().changed.notify(self.shard.env());
        self.publish();
        let (now, mut ages) = (self.shard.env().now(), absorbing.ages.borrow_mut());
        let is_dirty = self.lines.borrow().oldest_dirty().is_some();
        if !is_dirty && !self.has_destaged() {
            ages.clear();
            return false;
        }
        ages.push_back((now, self.lines.borrow().latest()));
        while let Some((_, latest)) =
            ages.front().filter(|(then, _)| now.since(*then) >= AGE).copied()
        {
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

/// Runs the clock while any data is dirty.
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
