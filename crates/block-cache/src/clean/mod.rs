//! Clean data: copies of data on the drives, for repeated reads and read-ahead.
//!
//! Clean data is never older than the data on the drives, by two rules:
//!
//! 1. A write [announces](Clean::begin_write) its range before the drives change. Cached copies of
//!    the range and running fills are dropped, and no fill begins until the write has
//!    [ended](Clean::end_write).
//! 2. A fill is [announced](Clean::begin_fill) before it reads.
//!
//! Dirty data is in [lines](crate::Lines) and takes precedence. Data is kept in *pages* of [`PAGE`]
//! bytes, partly filled, in three queues:
//!
//! | queue | holds | evicts |
//! | --- | --- | --- |
//! | ahead | read-ahead | after one read; above half of the memory, the oldest |
//! | small | pages read once: a tenth of the memory | the oldest, unless read twice more: to *main* |
//! | main | pages read repeatedly | the oldest, unless read since the last look |
//!
//! *Small* and *main* are S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction",
//! SOSP 2023): a scan passes through *small* only. A page evicted from *small* leaves a
//! fingerprint, and goes to *main* if it is read again.
//!
//! # Invariants ([`Clean::check`])
//! - The cached bytes do not exceed the limit.
//! - No byte is cached while it is written.
//! - The extents of a page are in order, do not overlap, and lie within it.

mod fills;
mod page;
mod queues;

pub use fills::{FillName, WriteName};
pub use page::{Bytes, LineName, PAGE, Piece};

use crate::streams::StreamName;
use fills::UnderWay;
use page::{Page, PageName, QueueKind};
use queues::Queues;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use units::{ByteCount, ByteRange};

/// Cache counters of a volume, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CleanCounters {
    /// Bytes cached now.
    pub kept: u64,
    /// Bytes that were read ahead.
    pub ahead: u64,
    /// Bytes that were read ahead and then requested.
    pub ahead_used: u64,
    /// Bytes that were read ahead and evicted unread.
    pub ahead_wasted: u64,
}

/// The clean data of the volumes of a shard.
#[derive(Debug)]
pub struct Clean<T> {
    room: u64,
    pages: BTreeMap<PageName, Page<T>>,
    queues: Queues,
    under_way: UnderWay,
    /// Read-ahead evicted unread, by volume and stream, until `take_wasted`.
    wasted: BTreeMap<(u32, StreamName), u64>,
    counters: BTreeMap<u32, CleanCounters>,
}

impl<T: Bytes> Clean<T> {
    /// An empty cache with this limit in bytes.
    pub fn new(room: ByteCount) -> Clean<T> {
        Clean {
            room: room.0,
            pages: BTreeMap::new(),
            queues: Queues::default(),
            under_way: UnderWay::default(),
            wasted: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// The limit in bytes.
    pub fn room(&self) -> ByteCount {
        ByteCount(self.room)
    }

    /// Changes the limit.
    pub fn set_room(&mut self, room: ByteCount) {
        self.room = room.0;
        self.make_room();
    }

    /// Bytes cached.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.queues.bytes())
    }

    /// The counters of a volume.
    pub fn counters(&self, volume: u32) -> CleanCounters {
        self.counters.get(&volume).copied().unwrap_or_default()
    }

    /// Whether any of these bytes is cached.
    pub fn has_any(&self, line: LineName, range: ByteRange) -> bool {
        PageName::touched(line, range)
            .any(|name| self.pages.get(&name).is_some_and(|page| page.overlaps(range)))
    }

    /// The cached parts of a range, in order; counts as a read. `keeps`: read-ahead stays cached.
    pub fn ask(
        &mut self,
        line: LineName,
        range: ByteRange,
        keeps: bool,
    ) -> SmallVec<[Piece<T>; 4]> {
        let mut found = SmallVec::new();
        for name in PageName::touched(line, range) {
            let Some(page) = self.pages.get_mut(&name) else { continue };
            let before = found.len();
            page.cut_into(range, &mut found);
            let len: u64 = found[before..].iter().map(|(part, _): &Piece<T>| part.len.0).sum();
            if len == 0 {
                continue;
            }
            match page.place {
                QueueKind::Ahead(_) => {
                    self.counters.entry(line.volume).or_default().ahead_used +=
                        len.min(page.unread());
                    page.read += len;
                    match (page.unread() == 0, keeps) {
                        (true, true) => self.queues.put(name, page, QueueKind::Small),
                        (true, false) => drop(self.remove(name)),
                        (false, _) => {}
                    }
                }
                QueueKind::Small | QueueKind::Main => page.note_asked(),
            }
        }
        found
    }

    /// Parts of a range, in whole pages within `limit`, that are neither cached nor being read.
    pub fn missing(
        &self,
        line: LineName,
        range: ByteRange,
        limit: ByteRange,
    ) -> SmallVec<[ByteRange; 4]> {
        let mut missing: SmallVec<[ByteRange; 4]> = SmallVec::new();
        for name in PageName::touched(line, range) {
            let whole = name.range_within(limit);
            let is_there = self.pages.get(&name).is_some_and(|page| page.covers(whole));
            if whole.is_empty() || is_there || self.under_way.is_coming(line, whole) {
                continue;
            }
            match missing.last_mut() {
                Some(last) if last.end() == whole.start => last.len += whole.len,
                _ => missing.push(whole),
            }
        }
        missing
    }

    /// Whether a running read-ahead overlaps this range: a host read waits for it.
    pub fn is_coming(&self, line: LineName, range: ByteRange) -> bool {
        self.under_way.is_coming(line, range)
    }

    /// Announces a read whose data is to be cached. `None`: do not cache, since a write is running.
    /// `ahead`: the stream, for read-ahead.
    pub fn begin_fill(
        &mut self,
        line: LineName,
        range: ByteRange,
        ahead: Option<StreamName>,
    ) -> Option<FillName> {
        (self.room > 0).then(|| self.under_way.begin_fill(line, range, ahead)).flatten()
    }

    /// Completes a fill and caches its data, if any, unless a write overlapped it.
    ///
    /// # Panics
    /// When it has not begun, or has another length.
    pub fn end_fill(&mut self, fill: FillName, data: Option<&T>) {
        let Some((line, range, ahead)) = self.under_way.end_fill(fill) else { return };
        let Some(data) = data else { return };
        for name in PageName::touched(line, range) {
            let part = name.range_within(range);
            let bytes = data.cut(part.start - range.start, part.len);
            let page = self.pages.entry(name).or_insert_with(Page::empty);
            let added = page.add(part, &bytes);
            if added == 0 {
                continue;
            }
            let place = match (page.is_placed(), ahead) {
                (true, _) => page.place,
                (false, Some(stream)) => QueueKind::Ahead(stream),
                (false, None) => self.queues.place_of(name),
            };
            let counters = self.counters.entry(line.volume).or_default();
            counters.kept += added;
            counters.ahead += if ahead.is_some() { added } else { 0 };
            self.queues.grown(name, page, place, added);
        }
        self.make_room();
    }

    /// Announces a write to the drives, and drops the cached copies of its range.
    pub fn begin_write(&mut self, line: LineName, range: ByteRange) -> WriteName {
        for name in PageName::touched(line, range) {
            let Some(page) = self.pages.get_mut(&name) else { continue };
            let gone = page.forget(range);
            self.queues.shrunk(page, gone);
            self.counters.entry(line.volume).or_default().kept -= gone;
            if page.is_empty() {
                self.remove(name);
            }
        }
        self.under_way.begin_write(line, range)
    }

    /// Completes a write, successful or not.
    ///
    /// # Panics
    /// When it has not begun.
    pub fn end_write(&mut self, write: WriteName) {
        self.under_way.end_write(write);
    }

    /// Drops the data of a volume, and its running fills.
    pub fn forget(&mut self, volume: u32) {
        let names: Vec<PageName> =
            self.pages.range(PageName::all_of(volume)).map(|(name, _)| *name).collect();
        names.into_iter().for_each(|name| drop(self.remove(name)));
        self.under_way.lose(volume);
        self.wasted.retain(|(of, _), _| *of != volume);
        self.counters.remove(&volume);
    }

    /// Bytes of a stream that were evicted unread since the last call.
    pub fn take_wasted(&mut self, volume: u32, stream: StreamName) -> ByteCount {
        ByteCount(self.wasted.remove(&(volume, stream)).unwrap_or(0))
    }

    fn remove(&mut self, name: PageName) -> Option<Page<T>> {
        let page = self.pages.remove(&name)?;
        self.queues.shrunk(&page, page.bytes());
        self.counters.entry(name.line.volume).or_default().kept -= page.bytes();
        Some(page)
    }

    fn make_room(&mut self) {
        while self.queues.bytes() > self.room {
            let Some(name) = self.queues.next_to_go(self.room, &self.pages) else {
                panic!("cached pages are in a queue: {} of {}", self.queues.bytes(), self.room);
            };
            let page = self.pages.get_mut(&name).expect("the queue returns current pages");
            let place = page.place;
            match place {
                QueueKind::Ahead(stream) => {
                    let unread = page.unread();
                    if unread > 0 {
                        *self.wasted.entry((name.line.volume, stream)).or_default() += unread;
                        self.counters.entry(name.line.volume).or_default().ahead_wasted += unread;
                    }
                    self.remove(name);
                }
                // A copy, since the buffer it shares is freed with the other pages.
                QueueKind::Small if page.is_wanted() => {
                    page.stand_alone();
                    self.queues.put(name, page, QueueKind::Main);
                }
                QueueKind::Small => {
                    self.queues.remember(name);
                    self.remove(name);
                }
                QueueKind::Main if page.is_asked_since() => {
                    self.queues.put(name, page, QueueKind::Main)
                }
                QueueKind::Main => drop(self.remove(name)),
            }
        }
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&self) -> Result<(), String> {
        let bytes: u64 = self.pages.values().map(Page::bytes).sum();
        let counted: u64 = self.counters.values().map(|counters| counters.kept).sum();
        if bytes != self.queues.bytes() || bytes != counted || bytes > self.room {
            return Err(format!(
                "{bytes} bytes cached, {} counted of {}",
                self.queues.bytes(),
                self.room
            ));
        }
        for (name, page) in &self.pages {
            page.check(*name)?;
            for (range, _) in page.extents() {
                if self.under_way.is_written(name.line, *range) {
                    return Err(format!("{range:?} of {name:?} is cached while it is written"));
                }
            }
        }
        Ok(())
    }
}
