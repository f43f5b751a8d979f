//! The stripes that the records of a ring cover. A stripe write without a record must know whether
//! a replay would overwrite it with a counting record.

use crate::ring::{Begun, Ring};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::time::Duration;
use units::{ByteCount, StripeIndex};

/// The effect of a new record on a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The stripe.
    pub stripe: StripeIndex,
    /// Earlier records of it do not count.
    pub revokes: bool,
    /// A host has a durability token that relies on this record.
    pub promises: bool,
}

/// The newest effect of the counting records on a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Effect {
    sequence: u64,
    /// The whole stripe is revoked.
    revoked: bool,
    /// A host relies on it, though its writes may not be durable on their drives.
    promised: bool,
}

/// A counting record, with its stripes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LogEntry {
    sequence: u64,
    stripes: SmallVec<[StripeIndex; 8]>,
}

/// The ring of a shard's stripe records: a [`Ring`], and the stripes that its records cover. All
/// changes go through this type; reads of the ring go to it directly.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StripeRing {
    ring: Ring,
    entries: VecDeque<LogEntry>,
    stripes: BTreeMap<StripeIndex, Effect>,
}

impl Deref for StripeRing {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl StripeRing {
    /// An empty ring.
    pub fn new(len: ByteCount) -> StripeRing {
        StripeRing { ring: Ring::new(len), entries: VecDeque::new(), stripes: BTreeMap::new() }
    }

    /// Begins a record with its effects on stripes.
    pub fn begin(&mut self, place: u64, len: u64, stripes: &[About]) -> Begun {
        let begun = self.ring.begin(place, len, stripes.len());
        let (sequence, counts_from) = (begun.sequence, self.ring.counts_from());
        for About { stripe, revokes, promises } in stripes {
            let before = self.stripes.get(stripe).filter(|before| before.sequence >= counts_from);
            // The same record may cover other columns of the stripe without revoking them.
            let beside = before.filter(|before| before.sequence == sequence);
            let revoked = *revokes && beside.is_none_or(|beside| beside.revoked);
            let promised = *promises || !revoked && before.is_some_and(|before| before.promised);
            self.stripes.insert(*stripe, Effect { sequence, revoked, promised });
        }
        let stripes = stripes.iter().map(|about| about.stripe).collect();
        self.entries.push_back(LogEntry { sequence, stripes });
        begun
    }

    /// Reports a record as durable on the required number of drives.
    pub fn landed(&mut self, begun: &Begun) {
        self.ring.landed(begun);
        self.forget();
    }

    /// Reports a notice as durable.
    pub fn noticed(&mut self, begun: &Begun) {
        self.ring.noticed(begun);
        self.forget();
    }

    /// Drops records that no longer count.
    fn forget(&mut self) {
        while let Some(gone) =
            self.entries.pop_front_if(|oldest| oldest.sequence < self.ring.counts_from())
        {
            for stripe in gone.stripes {
                if self.stripes.get(&stripe).is_some_and(|effect| effect.sequence <= gone.sequence)
                {
                    self.stripes.remove(&stripe);
                }
            }
        }
    }

    /// Reports that a record failed to become durable: see [`Ring::fail`]. The records that it
    /// revokes may count.
    pub fn fail(&mut self, sequence: u64) {
        self.ring.fail(sequence);
        let Some(entry) = self.entries.iter().find(|entry| entry.sequence == sequence) else {
            return;
        };
        for stripe in &entry.stripes {
            if let Some(effect) = self.stripes.get_mut(stripe) {
                effect.revoked = false;
            }
        }
    }

    /// Reports one write of a record as done.
    pub fn end(&mut self, sequence: u64) {
        self.ring.end(sequence);
    }

    /// Reports that all drives were flushed after the records before this one were settled.
    pub fn retire(&mut self, before: u64) {
        self.ring.retire(before);
    }

    /// See [`Ring::flushed`].
    pub fn flushed(&mut self, took: Duration, between: Duration) {
        self.ring.flushed(took, between);
    }

    /// Whether a host relies on the records of a stripe.
    pub fn promises(&self, stripe: StripeIndex) -> bool {
        self.says(stripe) && self.stripes.get(&stripe).is_some_and(|effect| effect.promised)
    }

    /// Whether a counting record covers a stripe that is not revoked.
    pub fn says(&self, stripe: StripeIndex) -> bool {
        let counts_from = self.ring.counts_from();
        self.stripes
            .get(&stripe)
            .is_some_and(|effect| effect.sequence >= counts_from && !effect.revoked)
    }
}
