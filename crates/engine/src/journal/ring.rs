//! The ring of one shard's records: what is where, what still counts, and where the next one goes. No I/O.
//!
//! # Invariants
//! - A record is *open* until every write that it is about is done, as far as hosts can tell. It is *retired* when all its writes
//!   are durable: it is not open, and neither is any before it, and all drives were flushed since. It stops to *count* when a
//!   later record or notice, durable itself, has said so (`announced`).
//! - What counts is never overwritten.
//! - No record follows one that failed while that counts.

use ondisk::journal::NOTICES;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use units::{ByteCount, StripeIndex};

const BLOCK: u64 = ondisk::BLOCK.0;

/// Records that are larger than that part of the ring would leave no room for others.
const LARGEST: u64 = 4;

/// A record that counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Live {
    sequence: u64,
    place: u64,
    /// Writes that are about to be done, or are being done.
    open: usize,
    stripes: SmallVec<[StripeIndex; 8]>,
}

/// What a record is about to say of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    pub(crate) stripe: StripeIndex,
    /// Whatever was said of it before does not count.
    pub(crate) revokes: bool,
    /// A host was promised that what it says is durable.
    pub(crate) promises: bool,
}

/// What the records that count say of a stripe, the last word of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Said {
    sequence: u64,
    /// All of it is revoked.
    revoked: bool,
    /// A host relies on it, though its writes may not be durable on their drives.
    promised: bool,
}

/// See the top.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ring {
    len: u64,
    head: u64,
    next: u64,
    tail: u64,
    announced: u64,
    notices: u64,
    /// The last record that could not be made durable: some drive may have it all the same.
    failed: u64,
    live: VecDeque<Live>,
    stripes: BTreeMap<StripeIndex, Said>,
}

impl Ring {
    /// The smallest ring that serves.
    pub(crate) const LEAST: ByteCount = ByteCount(64 << 10);

    /// An empty one.
    pub(crate) fn new(len: ByteCount) -> Ring {
        Ring {
            len: len.0 / BLOCK * BLOCK,
            head: NOTICES * BLOCK,
            next: 1,
            tail: 1,
            announced: 1,
            notices: 0,
            failed: 0,
            live: VecDeque::new(),
            stripes: BTreeMap::new(),
        }
    }

    /// The longest record.
    pub(crate) fn most(&self) -> u64 {
        self.len / LARGEST / BLOCK * BLOCK
    }

    /// Where a record of that length can go now.
    pub(crate) fn place_for(&self, len: u64) -> Option<u64> {
        let first = NOTICES * BLOCK;
        let Some(oldest) = self.live.front() else { return (first + len <= self.len).then_some(first) };
        let free_to_the_end = self.head > oldest.place;
        if free_to_the_end {
            return match self.head + len <= self.len {
                true => Some(self.head),
                false => (first + len <= oldest.place).then_some(first),
            };
        }
        (self.head + len <= oldest.place).then_some(self.head)
    }

    /// A record is about to be written, with what it says of stripes. Its number, and the first that counts with it.
    pub(crate) fn begin(&mut self, place: u64, len: u64, stripes: &[About]) -> (u64, u64) {
        let sequence = self.next;
        self.next += 1;
        self.head = place + len;
        for About { stripe, revokes, promises } in stripes {
            let before = self.stripes.get(stripe).filter(|before| before.sequence >= self.announced);
            // Other columns of it may be in the same record, and not revoked.
            let beside = before.filter(|before| before.sequence == sequence);
            let revoked = *revokes && beside.is_none_or(|beside| beside.revoked);
            let promised = *promises || !revoked && before.is_some_and(|before| before.promised);
            self.stripes.insert(*stripe, Said { sequence, revoked, promised });
        }
        let of_record = stripes.iter().map(|about| about.stripe).collect();
        self.live.push_back(Live { sequence, place, open: stripes.len(), stripes: of_record });
        (sequence, self.tail)
    }

    /// Where the next notice goes, and what it says: the first record that counts from then on.
    pub(crate) fn begin_notice(&mut self) -> (u64, u64) {
        self.notices += 1;
        (self.notices % NOTICES * BLOCK, self.tail)
    }

    /// That only records from `tail` on count is durable.
    pub(crate) fn announced(&mut self, tail: u64) {
        self.announced = self.announced.max(tail);
        while let Some(oldest) = self.live.front()
            && oldest.sequence < self.announced
        {
            let Some(gone) = self.live.pop_front() else { break };
            for stripe in gone.stripes {
                if self.stripes.get(&stripe).is_some_and(|said| said.sequence <= gone.sequence) {
                    self.stripes.remove(&stripe);
                }
            }
        }
    }

    /// A record could not be made durable, and nothing of it is done. Until it does not count any more, no other may follow: a
    /// replay would take it for what was there before the next.
    pub(crate) fn fail(&mut self, sequence: u64) {
        self.failed = sequence;
        let Some(live) = self.live.iter_mut().find(|live| live.sequence == sequence) else { return };
        live.open = 0;
        for stripe in &live.stripes {
            if let Some(said) = self.stripes.get_mut(stripe) {
                said.revoked = false;
            }
        }
    }

    /// Whether a record counts that could not be made durable.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed >= self.announced
    }

    /// One of the writes of a record is done.
    pub(crate) fn end(&mut self, sequence: u64) {
        let first = self.live.front().map_or(0, |live| live.sequence);
        let at = sequence.checked_sub(first).map(|at| at as usize);
        if let Some(live) = at.and_then(|at| self.live.get_mut(at)) {
            live.open -= 1;
        }
    }

    /// The first record that may be retired by no flush that begins now.
    pub(crate) fn settled(&self) -> u64 {
        self.live.iter().find(|live| live.open > 0).map_or(self.next, |live| live.sequence)
    }

    /// All drives were flushed since records before this one were settled.
    pub(crate) fn retire(&mut self, before: u64) {
        self.tail = self.tail.max(before);
    }

    /// Whether a flush now would retire anything.
    pub(crate) fn can_retire(&self) -> bool {
        self.settled() > self.tail
    }

    /// Whether there is something to say in a notice.
    pub(crate) fn can_announce(&self) -> bool {
        self.tail > self.announced
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The first record that counts, as the drives know.
    pub(crate) fn counts_from(&self) -> u64 {
        self.announced
    }

    /// Whether it is time to have records retired, before anybody has to wait for that.
    pub(crate) fn is_half_full(&self) -> bool {
        let first = self.live.front().map_or(self.tail, |live| live.sequence);
        let oldest = self.live.get(self.tail.saturating_sub(first) as usize);
        let used = oldest.map_or(0, |oldest| match self.head > oldest.place {
            true => self.head - oldest.place,
            false => self.len - oldest.place + self.head,
        });
        used > self.len / 2
    }

    /// Whether a host relies on what they say of a stripe.
    pub(crate) fn promises(&self, stripe: StripeIndex) -> bool {
        self.says(stripe) && self.stripes.get(&stripe).is_some_and(|said| said.promised)
    }

    /// Whether records that count say anything of a stripe that is not revoked.
    pub(crate) fn says(&self, stripe: StripeIndex) -> bool {
        self.stripes.get(&stripe).is_some_and(|said| said.sequence >= self.announced && !said.revoked)
    }
}
