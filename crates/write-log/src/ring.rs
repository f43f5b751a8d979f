//! The ring of one writer's records: their places, which of them count, and the next place. It does
//! not interpret their content.
//!
//! # Invariants
//! - Several records may be *under way* concurrently. They become durable, or fail, in any order.
//! - A record is *open* while it is under way, and until the last of its writes is acknowledged. It
//!   is *retired* when all its writes are durable: neither it nor an earlier record is open, and
//!   all drives were flushed since. It stops to *count* when a later durable record or notice has
//!   announced this.
//! - A counting record is never overwritten.
//! - A record is *firm* when it and all earlier counting records are durable. Each record carries
//!   the first one that was not firm when it began.
//! - No record begins while a failed record counts.

use crate::record::NOTICES;
use std::collections::VecDeque;
use std::time::Duration;
use units::ByteCount;

const BLOCK: u64 = crate::record::BLOCK.0;

/// The longest record takes 1/`LARGEST` of the ring, to leave space for others.
const LARGEST: u64 = 4;

/// The fewest bytes after which a flush is requested.
const LEAST_DUE: u64 = 128 << 10;

/// A flush is cheap if this many of them fit between two requested flushes ...
const LITTLE: u32 = 128;

/// ... and expensive if this many do not.
const MUCH: u32 = 32;

/// A counting record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Live {
    sequence: u64,
    place: u64,
    /// The total length of the records before it.
    before: u64,
    /// The number of its writes that are not acknowledged.
    open: usize,
    durable: bool,
}

/// The ring's state that a record or a notice carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Begun {
    /// Its sequence number; 0: a notice.
    pub sequence: u64,
    /// The first counting record at its begin.
    pub tail: u64,
    /// The first record that was not firm at its begin.
    pub firm: u64,
}

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ring {
    len: u64,
    head: u64,
    next: u64,
    /// The total length of all records so far.
    written: u64,
    /// A flush is due when unretired records have more bytes.
    due: u64,
    tail: u64,
    announced: u64,
    /// The first open record.
    settled: u64,
    /// The first record that is not firm.
    firm: u64,
    /// The place of the next notice.
    notice: u64,
    /// The last record that failed to become durable: some drives may still have it.
    failed: u64,
    live: VecDeque<Live>,
}

impl Ring {
    /// The smallest usable ring.
    pub const LEAST: ByteCount = ByteCount(64 << 10);

    /// An empty ring.
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

    /// The length of the longest record.
    pub fn most(&self) -> u64 {
        self.len / LARGEST / BLOCK * BLOCK
    }

    /// The length of unretired records at which a flush is requested.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The place for a record of that length now.
    pub fn place_for(&self, len: u64) -> Option<u64> {
        let first = NOTICES * BLOCK;
        let Some(oldest) = self.live.front() else {
            return (first + len <= self.len).then_some(first);
        };
        let free_to_the_end = self.head > oldest.place;
        if free_to_the_end {
            // Where few records count at a time, the same places are reused, since they are in
            // caches.
            let is_roomy = first + 2 * self.due.max(len) <= oldest.place;
            return match self.head + len <= self.len && !is_roomy {
                true => Some(self.head),
                false => (first + len <= oldest.place).then_some(first),
            };
        }
        (self.head + len <= oldest.place).then_some(self.head)
    }

    /// Begins a record for that number of writes.
    pub fn begin(&mut self, place: u64, len: u64, writes: usize) -> Begun {
        assert!(
            place >= NOTICES * BLOCK && place + len <= self.len,
            "a record lies within its ring"
        );
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

    /// Reports a record as durable on the required number of drives.
    pub fn landed(&mut self, begun: &Begun) {
        if let Some(live) = self.live_mut(begun.sequence) {
            live.durable = true;
        }
        while self.get(self.firm).is_some_and(|live| live.durable) {
            self.firm += 1;
        }
        self.announced(begun.tail);
    }

    /// The place of the next notice, and its content.
    pub fn begin_notice(&self) -> (u64, Begun) {
        (self.notice * BLOCK, Begun { sequence: 0, tail: self.tail, firm: self.firm })
    }

    /// Reports a notice as durable. A failed notice is written again to its place: the valid one is
    /// in the other place.
    pub fn noticed(&mut self, begun: &Begun) {
        self.notice = (self.notice + 1) % NOTICES;
        self.announced(begun.tail);
    }

    /// A durable record or notice has announced that only records from `tail` on count.
    fn announced(&mut self, tail: u64) {
        self.announced = self.announced.max(tail);
        self.firm = self.firm.max(self.announced);
        while let Some(oldest) = self.live.front()
            && oldest.sequence < self.announced
        {
            self.live.pop_front();
        }
    }

    /// Reports that a record failed to become durable; none of its writes begins. Until it no
    /// longer counts, no other record may begin: a replay would apply it before the next one.
    /// Concurrent records cover other bytes.
    pub fn fail(&mut self, sequence: u64) {
        self.failed = self.failed.max(sequence);
        if let Some(live) = self.live_mut(sequence) {
            live.open = 0;
        }
        self.settle();
    }

    /// Whether a failed record counts.
    pub fn has_failed(&self) -> bool {
        self.failed >= self.announced
    }

    /// Reports one write of a record as done.
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

    /// The first record that a flush which begins now cannot retire.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// The first record that is not firm: all counting records before it are durable.
    pub fn firm(&self) -> u64 {
        self.firm
    }

    /// Reports that all drives were flushed after the records before this one were settled.
    pub fn retire(&mut self, before: u64) {
        self.tail = self.tail.max(before);
    }

    /// Whether a flush now would retire any record.
    pub fn can_retire(&self) -> bool {
        self.settled() > self.tail
    }

    /// Whether a notice would announce retired records.
    pub fn can_announce(&self) -> bool {
        self.tail > self.announced
    }

    /// The sequence number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The first counting record, according to the drives.
    pub fn counts_from(&self) -> u64 {
        self.announced
    }

    /// Whether records should be retired now, before a write has to wait for it.
    pub fn is_due(&self) -> bool {
        self.get(self.tail).is_some_and(|oldest| self.written - oldest.before > self.due)
    }

    /// Adapts the interval of flushes to their share of the time. Where a flush is cheap, as
    /// without volatile caches, flushes come more often, so that less of the ring is used; where it
    /// is expensive, less often.
    pub fn flushed(&mut self, took: Duration, between: Duration) {
        if took * LITTLE < between {
            self.due = (self.due / 2).max(LEAST_DUE.min(self.len / 2));
        } else if took * MUCH > between {
            self.due = (self.due * 2).min(self.len / 2);
        }
    }
}
