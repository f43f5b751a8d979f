//! Streams: reads that follow one another, and what they will ask for next.
//!
//! A read that begins where another one ended begins a *stream*. From then on the stream's *window* is read ahead of it: what it
//! will ask for next is there when it does, or on its way. The window begins small, since two neighbouring reads may be all there is,
//! and doubles each time it is read on, up to what keeps the drives busy. More is asked for when a quarter of the window is left: so
//! the drives work while hosts take what is there, and stay with a stream for as long as they can. Where more than a quarter of what was read ahead was forgotten unread, the window
//! is halved. A stream that nobody reads any more costs nothing, and is forgotten when others come.
//!
//! Reads of a stream may come out of order, as a deep queue's do, or be answered by several connections: whatever lies between
//! what was read already and what was read ahead belongs to it.

use crate::lines::RequestTag;
use std::collections::VecDeque;
use units::{ByteCount, ByteOffset, ByteRange};

/// Streams that are known at a time.
const MOST_STREAMS: usize = 32;

/// Where so many of the latest reads ended is known: streams that begin, and random reads among them.
const MOST_ENDS: usize = 64;

/// The first window of a stream, unless its reads are larger.
const FIRST_WINDOW: ByteCount = ByteCount(64 << 10);

/// How far from where a stream is a read of it may begin: what a deep queue has outstanding.
const REACH: ByteCount = ByteCount(1 << 20);

/// Names a stream of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StreamName(pub u64);

#[derive(Debug)]
struct Stream {
    name: StreamName,
    /// Where what was read ends.
    next: ByteOffset,
    /// Where what was asked for ahead of it ends.
    asked: ByteOffset,
    window: ByteCount,
    /// What was asked for since its waste was looked at.
    since: ByteCount,
    wasted: ByteCount,
}

/// What is to be read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// For which stream.
    pub stream: StreamName,
    /// Which bytes of the volume.
    pub range: ByteRange,
    /// How far ahead of its reads it is to be read.
    pub window: ByteCount,
}

/// The streams of a volume, as a shard sees them.
#[derive(Default, Debug)]
pub struct Streams {
    /// What was read last, last.
    streams: VecDeque<Stream>,
    /// Where the latest reads ended that belong to no stream, and which request they were of.
    ends: VecDeque<(ByteOffset, RequestTag)>,
    begun: u64,
}

impl Streams {
    /// Bytes of a volume are read. `of`: the host's request that they are a part of. `most`: how far ahead of a stream is to be
    /// read at most. `end`: where the volume ends. What is to be read ahead, if anything.
    pub fn read(
        &mut self,
        range: ByteRange,
        of: RequestTag,
        most: ByteCount,
        end: ByteOffset,
    ) -> Option<Ahead> {
        if let Some(place) = self.streams.iter().rposition(|stream| stream.has(range)) {
            let stream = self.streams.remove(place).expect("it was found there");
            self.streams.push_back(stream);
        } else if !self.begins(range, of) {
            return None;
        } else {
            let window = FIRST_WINDOW.max(ByteCount(2 * range.len.0));
            self.add(range.start, window);
        }
        let stream = self.streams.back_mut().expect("it was put there");
        stream.next = stream.next.max(range.end());
        stream.asked = stream.asked.max(stream.next);
        stream.read_on(most, end)
    }

    /// Another shard has read ahead to here for a stream of its own, which goes on here.
    pub fn expect(&mut self, range: ByteRange, window: ByteCount) -> StreamName {
        let goes_on = self.streams.iter().rposition(|stream| stream.asked == range.start);
        let place = goes_on.unwrap_or_else(|| {
            self.add(range.start, window);
            self.streams.len() - 1
        });
        let stream = &mut self.streams[place];
        stream.asked = range.end();
        stream.since += range.len;
        stream.name
    }

    /// So much of what was read ahead for a stream was forgotten unread.
    pub fn note_wasted(&mut self, name: StreamName, bytes: ByteCount) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == name) {
            stream.wasted += bytes;
        }
    }

    /// The stream that was read last.
    pub fn latest(&self) -> Option<StreamName> {
        self.streams.back().map(|stream| stream.name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    fn add(&mut self, at: ByteOffset, window: ByteCount) {
        if self.streams.len() == MOST_STREAMS {
            self.streams.pop_front();
        }
        self.begun += 1;
        let (since, wasted) = (ByteCount::ZERO, ByteCount::ZERO);
        let name = StreamName(self.begun);
        self.streams.push_back(Stream { name, next: at, asked: at, window, since, wasted });
    }

    /// Whether a read begins a stream: it goes on where another request's ended. Where it ends is known from now on if not.
    fn begins(&mut self, range: ByteRange, of: RequestTag) -> bool {
        let before = self.ends.iter().rposition(|(end, _)| *end == range.start);
        if let Some((_, request)) = before.and_then(|place| self.ends.remove(place)) {
            if request != of {
                return true;
            }
        } else if self.ends.len() == MOST_ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back((range.end(), of));
        false
    }
}

impl Stream {
    /// Whether a read belongs to it: it begins near where the stream is, among what was read or asked for.
    fn has(&self, range: ByteRange) -> bool {
        let reach = self.window.min(REACH);
        let from = self.next.0.saturating_sub(reach.0);
        from <= range.start.0 && range.start <= self.asked.min(self.next + reach)
    }

    /// More of it is to be read if no more than a quarter of its window is left.
    fn read_on(&mut self, most: ByteCount, end: ByteOffset) -> Option<Ahead> {
        self.window = self.window.min(most);
        let left = self.asked - self.next;
        if left.0 > self.window.0 / 4 || self.asked >= end || self.window.is_zero() {
            return None;
        }
        if self.wasted.0 * 4 > self.since.0 {
            self.window = ByteCount(self.window.0 / 2).max(FIRST_WINDOW).min(most);
            (self.since, self.wasted) = (ByteCount::ZERO, ByteCount::ZERO);
            // Half of the smaller window may still be there.
            return None;
        }
        let until = (self.next + self.window).min(end);
        let range = ByteRange::from_to(self.asked, until.max(self.asked));
        self.window = ByteCount(self.window.0 * 2).min(most);
        self.asked = range.end();
        self.since += range.len;
        (!range.is_empty()).then_some(Ahead { stream: self.name, range, window: self.window })
    }
}
