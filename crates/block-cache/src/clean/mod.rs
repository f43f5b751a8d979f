//! Clean data: what the drives hold too, kept in memory because somebody may ask for it again, or is about to ask for it.
//!
//! # What may be kept
//! Clean data is never older than what the drives would give. That is held by two rules, and nothing else is needed:
//!
//! 1. Before a write changes what the drives hold of some bytes, it is [announced](Clean::begin_write): what is kept of them is
//!    forgotten, and what is on its way from the drives loses. Nothing of them is kept, nor fetched to be kept, until the write has
//!    [ended](Clean::end_write).
//! 2. What is fetched is [announced](Clean::begin_fill) before it is read.
//!
//! So a read finds data here only if no write of these bytes has begun since they were read. What hosts wrote and the drives do
//! not have yet is in [lines](crate::Lines), and lies over this.
//!
//! # What is kept, and for how long
//! Data is kept in *pages* of [`PAGE`] bytes of a stripe, of which parts may be missing. Three queues:
//!
//! | queue | holds | gives way |
//! | --- | --- | --- |
//! | ahead | what was read before anybody asked for it | when it was read once; the oldest first, when it is more than half of the room |
//! | small | what was asked for once: a tenth of the room | the oldest first, unless it was asked for again twice: that goes to *main* |
//! | main | what is asked for again and again | the oldest first, unless it was asked for since it was looked at last |
//!
//! *Small* and *main* are S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): what is asked for once,
//! as a scan does, passes through *small* and leaves *main* as it is. What has left *small* leaves a fingerprint; if it is asked for
//! again while that is known, it goes to *main* at once.
//!
//! # Invariants ([`Clean::check`])
//! - No more bytes are kept than there is room for.
//! - Nothing is kept of bytes that are being written.
//! - The extents of a page are in order, do not overlap, and lie within it.

mod fills;
mod page;
mod queues;

pub use fills::{FillName, WriteName};
pub use page::{LineName, PAGE};

use crate::streams::StreamName;
use fills::UnderWay;
use page::{Page, PageName, Place};
use queues::Queues;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use units::{ByteCount, ByteRange};

/// What a caller keeps as bytes.
pub trait Bytes: Clone {
    /// A part of them: `len` from `at` on.
    #[must_use]
    fn cut(&self, at: ByteCount, len: ByteCount) -> Self;

    /// The same bytes in memory of their own: what they were cut from may go.
    #[must_use]
    fn alone(&self) -> Self;
}

/// Bytes of a stripe that are kept, and which.
pub type Piece<T> = (ByteRange, T);

/// What is kept of a volume, and what came of that, counted from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CleanCounters {
    /// Bytes that are kept now.
    pub kept: u64,
    /// Bytes that were read ahead.
    pub ahead: u64,
    /// Bytes that were read ahead, and asked for then.
    pub ahead_used: u64,
    /// Bytes that were read ahead and forgotten before anybody asked for them.
    pub ahead_wasted: u64,
}

/// The clean data of the volumes of a shard.
#[derive(Debug)]
pub struct Clean<T> {
    room: u64,
    pages: BTreeMap<PageName, Page<T>>,
    queues: Queues,
    under_way: UnderWay,
    /// What streams were served that nobody asked for, until somebody takes note of it.
    wasted: BTreeMap<(u32, StreamName), u64>,
    counters: BTreeMap<u32, CleanCounters>,
}

impl<T: Bytes> Clean<T> {
    /// Nothing is kept, and there is room for so many bytes.
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

    /// How many bytes may be kept.
    pub fn room(&self) -> ByteCount {
        ByteCount(self.room)
    }

    /// How many bytes may be kept from now on.
    pub fn set_room(&mut self, room: ByteCount) {
        self.room = room.0;
        self.make_room();
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.queues.bytes())
    }

    /// What is kept of a volume, and what came of that.
    pub fn counters(&self, volume: u32) -> CleanCounters {
        self.counters.get(&volume).copied().unwrap_or_default()
    }

    /// Whether anything of these bytes is kept.
    pub fn has_any(&self, line: LineName, range: ByteRange) -> bool {
        PageName::touched(line, range)
            .any(|name| self.pages.get(&name).is_some_and(|page| page.overlaps(range)))
    }

    /// What is kept of bytes of a stripe, in order. It was asked for: that counts. `keeps`: what was read ahead stays after that.
    pub fn ask(&mut self, line: LineName, range: ByteRange, keeps: bool) -> SmallVec<[Piece<T>; 4]> {
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
                Place::Ahead(_) => {
                    self.counters.entry(line.volume).or_default().ahead_used += len.min(page.unread());
                    page.read += len;
                    match (page.unread() == 0, keeps) {
                        (true, true) => self.queues.put(name, page, Place::Small),
                        (true, false) => drop(self.remove(name)),
                        (false, _) => {}
                    }
                }
                Place::Small | Place::Main => page.note_asked(),
            }
        }
        found
    }

    /// What of bytes of a stripe is neither kept nor on its way, as whole pages as far as `limit` goes: what is worth reading ahead.
    pub fn missing(&self, line: LineName, range: ByteRange, limit: ByteRange) -> SmallVec<[ByteRange; 4]> {
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

    /// Whether bytes that were not asked for are being read, and touch these: whoever asks for them waits.
    pub fn is_coming(&self, line: LineName, range: ByteRange) -> bool {
        self.under_way.is_coming(line, range)
    }

    /// Bytes are about to be read from the drives, to be kept. `None`: they must not be kept, since some of them are being written.
    /// `ahead`: nobody has asked for them; the stream for which they are read.
    pub fn begin_fill(
        &mut self,
        line: LineName,
        range: ByteRange,
        ahead: Option<StreamName>,
    ) -> Option<FillName> {
        (self.room > 0).then(|| self.under_way.begin_fill(line, range, ahead)).flatten()
    }

    /// They were read, if there is any data. It is kept, unless it lost to a write.
    ///
    /// # Panics
    /// When it has not begun, or is not as long as it was said to be.
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
                (false, Some(stream)) => Place::Ahead(stream),
                (false, None) => self.queues.place_of(name),
            };
            let counters = self.counters.entry(line.volume).or_default();
            counters.kept += added;
            counters.ahead += if ahead.is_some() { added } else { 0 };
            self.queues.grown(name, page, place, added);
        }
        self.make_room();
    }

    /// Bytes of a stripe are about to be changed on the drives. What is kept of them is forgotten.
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

    /// The drives have them, or not; nobody changes them any more for that.
    ///
    /// # Panics
    /// When it has not begun.
    pub fn end_write(&mut self, write: WriteName) {
        self.under_way.end_write(write);
    }

    /// Forgets what is kept of a volume. What is on its way loses.
    pub fn forget(&mut self, volume: u32) {
        let names: Vec<PageName> =
            self.pages.range(PageName::all_of(volume)).map(|(name, _)| *name).collect();
        names.into_iter().for_each(|name| drop(self.remove(name)));
        self.under_way.lose(volume);
        self.wasted.retain(|(of, _), _| *of != volume);
        self.counters.remove(&volume);
    }

    /// How many bytes that were read ahead for a stream have been forgotten unread since somebody asked.
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
                panic!("what is kept is in a queue: {} of {}", self.queues.bytes(), self.room);
            };
            let page = self.pages.get_mut(&name).expect("a page is looked up before it is named");
            let place = page.place;
            match place {
                Place::Ahead(stream) => {
                    let unread = page.unread();
                    if unread > 0 {
                        *self.wasted.entry((name.line.volume, stream)).or_default() += unread;
                        self.counters.entry(name.line.volume).or_default().ahead_wasted += unread;
                    }
                    self.remove(name);
                }
                // The bytes it was cut from go with the others, and it stays.
                Place::Small if page.is_wanted() => {
                    page.stand_alone();
                    self.queues.put(name, page, Place::Main);
                }
                Place::Small => {
                    self.queues.remember(name);
                    self.remove(name);
                }
                Place::Main if page.is_asked_since() => self.queues.put(name, page, Place::Main),
                Place::Main => drop(self.remove(name)),
            }
        }
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence about somebody's mistake.
    pub fn check(&self) -> Result<(), String> {
        let bytes: u64 = self.pages.values().map(Page::bytes).sum();
        let counted: u64 = self.counters.values().map(|counters| counters.kept).sum();
        if bytes != self.queues.bytes() || bytes != counted || bytes > self.room {
            return Err(format!("{bytes} bytes are kept, {} counted, of {}", self.queues.bytes(), self.room));
        }
        for (name, page) in &self.pages {
            page.check(*name)?;
            for (range, _) in page.extents() {
                if self.under_way.is_written(name.line, *range) {
                    return Err(format!("{range:?} of {name:?} is kept while it is written"));
                }
            }
        }
        Ok(())
    }
}
