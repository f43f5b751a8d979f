//! Detects sequential reads (*streams*) and decides what to read ahead.
//!
//! A read that begins where another request ended starts a stream. Its *window* starts small, since
//! two adjacent reads may be all, and doubles with each read-ahead up to the limit. The next
//! read-ahead starts when a quarter of the window is left: drives work while hosts consume, and
//! serve one stream for long. The window is halved when more than a quarter of the read-ahead was
//! evicted unread. An idle stream costs no I/O, and new streams replace it.
//!
//! Reads of a stream may arrive out of order or by several connections: a read near the stream's
//! position, within the data read or read ahead, belongs to it.

use crate::lines::RequestTag;
use std::collections::VecDeque;
use units::{ByteCount, ByteOffset, ByteRange};

/// Number of streams tracked.
const MOST_STREAMS: usize = 32;

/// Number of recent read ends tracked, to find new streams among random reads.
const MOST_ENDS: usize = 64;

/// The first window of a stream, unless its reads are larger.
const FIRST_WINDOW: ByteCount = ByteCount(64 << 10);

/// Greatest distance of a read from the stream's position: the reach of a deep queue.
const REACH: ByteCount = ByteCount(1 << 20);

/// Identifies a stream of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StreamName(pub u64);

#[derive(Debug)]
struct Stream {
    name: StreamName,
    /// End of the data read by hosts.
    next: ByteOffset,
    /// End of the data read ahead.
    asked: ByteOffset,
    window: ByteCount,
    /// Bytes read ahead since the waste was evaluated.
    since: ByteCount,
    wasted: ByteCount,
}

/// A range to read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// The stream.
    pub stream: StreamName,
    /// Range of the volume.
    pub range: ByteRange,
    /// The read-ahead distance.
    pub window: ByteCount,
}

/// The streams of a volume on one shard.
#[derive(Default, Debug)]
pub struct Streams {
    /// Most recently read last.
    streams: VecDeque<Stream>,
    /// Ends of recent reads outside streams, with their requests.
    ends: VecDeque<(ByteOffset, RequestTag)>,
    begun: u64,
}

impl Streams {
    /// Notes a host read and returns the range to read ahead, if any. `of`: the host's request.
    /// `most`: limit of the window. `end`: end of the volume.
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

    /// Continues a stream for which another shard has read this range ahead.
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

    /// Notes read-ahead of a stream that was evicted unread.
    pub fn note_wasted(&mut self, name: StreamName, bytes: ByteCount) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == name) {
            stream.wasted += bytes;
        }
    }

    /// The most recently read stream.
    pub fn latest(&self) -> Option<StreamName> {
        self.streams.back().map(|stream| stream.name)
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are no streams.
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

    /// Whether a read continues another request and so begins a stream. Otherwise its end is
    /// tracked.
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
    /// Whether a read belongs to the stream: near its position, within the data read or read ahead.
    fn has(&self, range: ByteRange) -> bool {
        let reach = self.window.min(REACH);
        let from = self.next.0.saturating_sub(reach.0);
        from <= range.start.0 && range.start <= self.asked.min(self.next + reach)
    }

    /// The next range, if at most a quarter of the window is left.
    fn read_on(&mut self, most: ByteCount, end: ByteOffset) -> Option<Ahead> {
        self.window = self.window.min(most);
        let left = self.asked - self.next;
        if left.0 > self.window.0 / 4 || self.asked >= end || self.window.is_zero() {
            return None;
        }
        if self.wasted.0 * 4 > self.since.0 {
            self.window = ByteCount(self.window.0 / 2).max(FIRST_WINDOW).min(most);
            (self.since, self.wasted) = (ByteCount::ZERO, ByteCount::ZERO);
            // Half of the smaller window may still be cached.
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
