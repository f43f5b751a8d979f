//! What the records of a ring say of stripes: whoever changes a stripe without a record has to know whether one that counts would
//! undo that.

use crate::ring::{Begun, Ring};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::time::Duration;
use units::{ByteCount, StripeIndex};

/// What a record is about to say of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The stripe.
    pub stripe: StripeIndex,
    /// Whatever was said of it before does not count.
    pub revokes: bool,
    /// A host was promised that what it says is durable.
    pub promises: bool,
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

/// A record that counts, and what it is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Speaker {
    sequence: u64,
    stripes: SmallVec<[StripeIndex; 8]>,
}

/// The ring of a shard's records of stripes: a [`Ring`], and what its records say. All that changes the one and the other goes
/// through here; what only looks at the ring goes straight to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StripeRing {
    ring: Ring,
    speakers: VecDeque<Speaker>,
    stripes: BTreeMap<StripeIndex, Said>,
}

impl Deref for StripeRing {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl StripeRing {
    /// An empty one.
    pub fn new(len: ByteCount) -> StripeRing {
        StripeRing { ring: Ring::new(len), speakers: VecDeque::new(), stripes: BTreeMap::new() }
    }

    /// A record is about to be written, with what it says of stripes.
    pub fn begin(&mut self, place: u64, len: u64, stripes: &[About]) -> Begun {
        let begun = self.ring.begin(place, len, stripes.len());
        let (sequence, counts_from) = (begun.sequence, self.ring.counts_from());
        for About { stripe, revokes, promises } in stripes {
            let before = self.stripes.get(stripe).filter(|before| before.sequence >= counts_from);
            // Other columns of it may be in the same record, and not revoked.
            let beside = before.filter(|before| before.sequence == sequence);
            let revoked = *revokes && beside.is_none_or(|beside| beside.revoked);
            let promised = *promises || !revoked && before.is_some_and(|before| before.promised);
            self.stripes.insert(*stripe, Said { sequence, revoked, promised });
        }
        let stripes = stripes.iter().map(|about| about.stripe).collect();
        self.speakers.push_back(Speaker { sequence, stripes });
        begun
    }

    /// A record is durable on as many drives as it has to be.
    pub fn landed(&mut self, begun: &Begun) {
        self.ring.landed(begun);
        self.forget();
    }

    /// A notice is durable.
    pub fn noticed(&mut self, begun: &Begun) {
        self.ring.noticed(begun);
        self.forget();
    }

    /// What records said that do not count any more.
    fn forget(&mut self) {
        while let Some(gone) = self.speakers.pop_front_if(|oldest| oldest.sequence < self.ring.counts_from())
        {
            for stripe in gone.stripes {
                if self.stripes.get(&stripe).is_some_and(|said| said.sequence <= gone.sequence) {
                    self.stripes.remove(&stripe);
                }
            }
        }
    }

    /// A record could not be made durable: see [`Ring::fail`]. What it revokes may count.
    pub fn fail(&mut self, sequence: u64) {
        self.ring.fail(sequence);
        let Some(speaker) = self.speakers.iter().find(|speaker| speaker.sequence == sequence) else { return };
        for stripe in &speaker.stripes {
            if let Some(said) = self.stripes.get_mut(stripe) {
                said.revoked = false;
            }
        }
    }

    /// One of the writes of a record is done.
    pub fn end(&mut self, sequence: u64) {
        self.ring.end(sequence);
    }

    /// All drives were flushed since records before this one were settled.
    pub fn retire(&mut self, before: u64) {
        self.ring.retire(before);
    }

    /// See [`Ring::flushed`].
    pub fn flushed(&mut self, took: Duration, between: Duration) {
        self.ring.flushed(took, between);
    }

    /// Whether a host relies on what they say of a stripe.
    pub fn promises(&self, stripe: StripeIndex) -> bool {
        self.says(stripe) && self.stripes.get(&stripe).is_some_and(|said| said.promised)
    }

    /// Whether records that count say anything of a stripe that is not revoked.
    pub fn says(&self, stripe: StripeIndex) -> bool {
        let counts_from = self.ring.counts_from();
        self.stripes.get(&stripe).is_some_and(|said| said.sequence >= counts_from && !said.revoked)
    }
}
