//! The ring of one writer's records: what is where, what still counts, and where the next one goes. It does not look into them.
//!
//! # Invariants
//! - Several records may be *under way* at a time. They become durable, or fail, in any order.
//! - A record is *open* until every write that it is about is done, as far as hosts can tell: all the while that it is under way,
//!   and then until the last of its writes has ended. It is *retired* when all its writes are durable: it is not open, and neither
//!   is any before it, and all drives were flushed since. It stops to *count* when a later record or notice, durable itself,
//!   has said so (`announced`).
//! - What counts is never overwritten.
//! - A record is *firm* when it and all before it that count are durable. Each says how many were when it began.
//! - None begins while one that failed counts.

use crate::record::NOTICES;
use std::collections::VecDeque;
use std::time::Duration;
use units::ByteCount;

const BLOCK: u64 = crate::record::BLOCK.0;

/// Records that are larger than that part of the ring would leave no room for others.
const LARGEST: u64 = 4;

/// The fewest bytes that a flush is asked for.
const LEAST_DUE: u64 = 128 << 10;

/// A flush takes little if so many of them would take no longer than it takes until the next one is due, ...
const LITTLE: u32 = 128;

/// ... and much if so many would take longer.
const MUCH: u32 = 32;

/// A record that counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Live {
    sequence: u64,
    place: u64,
    /// How many bytes were in records before this one.
    before: u64,
    /// Writes that are about to be done, or are being done.
    open: usize,
    durable: bool,
}

/// What a record or a notice says of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Begun {
    /// Its number; 0 of a notice.
    pub sequence: u64,
    /// The first record that counts with it.
    pub tail: u64,
    /// The first record that was not firm when it began.
    pub firm: u64,
}

/// See the top.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ring {
    len: u64,
    head: u64,
    next: u64,
    /// How many bytes were in all records so far.
    written: u64,
    /// From so many bytes on that are not retired it is time for a flush.
    due: u64,
    tail: u64,
    announced: u64,
    /// The first that is open.
    settled: u64,
    /// The first that is not firm.
    firm: u64,
    /// Which of the places for notices the next one takes.
    notice: u64,
    /// The last record that could not be made durable: some drive may have it all the same.
    failed: u64,
    live: VecDeque<Live>,
}

impl Ring {
    /// The smallest ring that serves.
    pub const LEAST: ByteCount = ByteCount(64 << 10);

    /// An empty one.
    pub fn new(len: ByteCount) -> Ring {
        let len = len.0 / BLOCK * BLOCK;
        Ring {
            len,
            head: NOTICES * BLOCK,
            next: 1,
            written: 0,
            due: len / 2,
            tail: 1,
            announced: 1,
            settled: 1,
            firm: 1,
            notice: 0,
            failed: 0,
            live: VecDeque::new(),
        }
    }

    /// The longest record.
    pub fn most(&self) -> u64 {
        self.len / LARGEST / BLOCK * BLOCK
    }

    /// From so many bytes of records that are not retired on, a flush is asked for.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Where a record of that length can go now.
    pub fn place_for(&self, len: u64) -> Option<u64> {
        let first = NOTICES * BLOCK;
        let Some(oldest) = self.live.front() else { return (first + len <= self.len).then_some(first) };
        let free_to_the_end = self.head > oldest.place;
        if free_to_the_end {
            // Where little counts at a time, the same bytes are used again and again: they are in caches.
            let is_roomy = first + 2 * self.due.max(len) <= oldest.place;
            return match self.head + len <= self.len && !is_roomy {
                true => Some(self.head),
                false => (first + len <= oldest.place).then_some(first),
            };
        }
        (self.head + len <= oldest.place).then_some(self.head)
    }

    /// A record is about to be written, for so many writes.
    pub fn begin(&mut self, place: u64, len: u64, writes: usize) -> Begun {
        assert!(place >= NOTICES * BLOCK && place + len <= self.len, "a record lies within its ring");
        let sequence = self.next;
        let begun = Begun { sequence, tail: self.tail, firm: self.firm };
        self.next += 1;
        self.head = place + len;
        let before = self.written;
        self.written += len;
        self.live.push_back(Live { sequence, place, before, open: writes, durable: false });
        self.settle();
        begun
    }

    /// A record is durable on as many drives as it has to be.
    pub fn landed(&mut self, begun: &Begun) {
        if let Some(live) = self.live_mut(begun.sequence) {
            live.durable = true;
        }
        while self.get(self.firm).is_some_and(|live| live.durable) {
            self.firm += 1;
        }
        self.announced(begun.tail);
    }

    /// Where the next notice goes, and what it says.
    pub fn begin_notice(&self) -> (u64, Begun) {
        (self.notice * BLOCK, Begun { sequence: 0, tail: self.tail, firm: self.firm })
    }

    /// A notice is durable. One that failed is written again where it was: the one before is in the other place, and is relied on.
    pub fn noticed(&mut self, begun: &Begun) {
        self.notice = (self.notice + 1) % NOTICES;
        self.announced(begun.tail);
    }

    /// That only records from `tail` on count is durable.
    fn announced(&mut self, tail: u64) {
        self.announced = self.announced.max(tail);
        self.firm = self.firm.max(self.announced);
        while let Some(oldest) = self.live.front()
            && oldest.sequence < self.announced
        {
            self.live.pop_front();
        }
    }

    /// A record could not be made durable, and nothing of it is done. Until it does not count any more, no other may begin: a
    /// replay would take it for what was there before the next. Those under way beside it are about other bytes.
    pub fn fail(&mut self, sequence: u64) {
        self.failed = self.failed.max(sequence);
        if let Some(live) = self.live_mut(sequence) {
            live.open = 0;
        }
        self.settle();
    }

    /// Whether a record counts that could not be made durable.
    pub fn has_failed(&self) -> bool {
        self.failed >= self.announced
    }

    /// One of the writes of a record is done.
    pub fn end(&mut self, sequence: u64) {
        if let Some(live) = self.live_mut(sequence) {
            assert!(live.open > 0, "more writes of record {sequence} ended than it is about");
            live.open -= 1;
        }
        self.settle();
    }

    fn get(&self, sequence: u64) -> Option<&Live> {
        let first = self.live.front()?.sequence;
        self.live.get(sequence.checked_sub(first)? as usize)
    }

    fn live_mut(&mut self, sequence: u64) -> Option<&mut Live> {
        let first = self.live.front()?.sequence;
        self.live.get_mut(sequence.checked_sub(first)? as usize)
    }

    fn settle(&mut self) {
        while self.get(self.settled).is_some_and(|live| live.open == 0) {
            self.settled += 1;
        }
    }

    /// The first record that may be retired by no flush that begins now.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// The first record that is not firm: all before it that count are durable.
    pub fn firm(&self) -> u64 {
        self.firm
    }

    /// All drives were flushed since records before this one were settled.
    pub fn retire(&mut self, before: u64) {
        self.tail = self.tail.max(before);
    }

    /// Whether a flush now would retire anything.
    pub fn can_retire(&self) -> bool {
        self.settled() > self.tail
    }

    /// Whether there is something to say in a notice.
    pub fn can_announce(&self) -> bool {
        self.tail > self.announced
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The first record that counts, as the drives know.
    pub fn counts_from(&self) -> u64 {
        self.announced
    }

    /// Whether it is time to have records retired, before anybody has to wait for that.
    pub fn is_due(&self) -> bool {
        self.get(self.tail).is_some_and(|oldest| self.written - oldest.before > self.due)
    }

    /// A flush has been asked for because it was time, and took its share of the time between two of them. Where that is little, as
    /// without volatile caches, they are asked for more often, so that less of the ring is used; where it is much, less often.
    pub fn flushed(&mut self, took: Duration, between: Duration) {
        if took * LITTLE < between {
            self.due = (self.due / 2).max(LEAST_DUE.min(self.len / 2));
        } else if took * MUCH > between {
            self.due = (self.due * 2).min(self.len / 2);
        }
    }
}
