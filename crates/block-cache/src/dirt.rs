//! What of a volume is dirty: how much, since when, and what of it is destaged next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use units::{ByteCount, StripeIndex};

/// Counts the writes of a volume on a shard, in the order in which they came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Sequence(pub u64);

/// The dirty data of [`Lines`](crate::Lines), by age and by place.
#[derive(Default, Debug)]
pub(crate) struct Dirt {
    bytes: ByteCount,
    /// How many extents there are, by the oldest write that each stands for.
    since: BTreeMap<Sequence, u32>,
    /// Lines of which something waits that nobody wants yet, and the oldest of it.
    lazy: BTreeMap<StripeIndex, Sequence>,
    by_age: BTreeSet<(Sequence, StripeIndex)>,
    /// Those of them that are full: nothing is to be won by waiting.
    full: BTreeSet<StripeIndex>,
    /// Lines that could not be destaged.
    pinned: BTreeSet<StripeIndex>,
    /// Where the elevator is: past the line that was chosen last.
    at: StripeIndex,
    /// Lines that were old when somebody asked, as the elevator comes to them.
    round: VecDeque<StripeIndex>,
}

impl Dirt {
    /// An extent is dirty.
    pub(crate) fn add(&mut self, since: Sequence, len: ByteCount) {
        self.bytes += len;
        *self.since.entry(since).or_default() += 1;
    }

    /// An extent is dirty no more.
    pub(crate) fn remove(&mut self, since: Sequence, len: ByteCount) {
        self.bytes -= len;
        let count = self.since.get_mut(&since).expect("what is dirty is counted");
        *count -= 1;
        if *count == 0 {
            self.since.remove(&since);
        }
    }

    /// What waits of a line that nobody wants yet: the oldest of it, and whether the line is full.
    pub(crate) fn set_lazy(&mut self, stripe: StripeIndex, oldest: Option<Sequence>, is_full: bool) {
        match is_full && oldest.is_some() {
            true => self.full.insert(stripe),
            false => self.full.remove(&stripe),
        };
        let before = match oldest {
            Some(oldest) => self.lazy.insert(stripe, oldest),
            None => self.lazy.remove(&stripe),
        };
        if before != oldest {
            before.map(|before| self.by_age.remove(&(before, stripe)));
            oldest.map(|oldest| self.by_age.insert((oldest, stripe)));
        }
    }

    pub(crate) fn set_pinned(&mut self, stripe: StripeIndex, is_pinned: bool) {
        match is_pinned {
            true => self.pinned.insert(stripe),
            false => self.pinned.remove(&stripe),
        };
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    pub(crate) fn pinned(&self) -> &BTreeSet<StripeIndex> {
        &self.pinned
    }

    pub(crate) fn oldest(&self) -> Option<Sequence> {
        self.since.keys().next().copied()
    }

    pub(crate) fn lazy(&self, stripe: StripeIndex) -> Option<Sequence> {
        self.lazy.get(&stripe).copied()
    }

    /// Whether lines are full that nobody wants yet.
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Whether a line is one of these.
    pub(crate) fn is_full(&self, stripe: StripeIndex) -> bool {
        self.full.contains(&stripe)
    }

    /// The full line that the elevator comes to next.
    pub(crate) fn choose_full(&mut self) -> Option<StripeIndex> {
        let after = self.full.range(self.at..).next();
        let chosen = *after.or_else(|| self.full.first())?;
        Some(self.go_past(chosen))
    }

    /// The oldest of what waits that nobody wants yet.
    pub(crate) fn oldest_lazy(&self) -> Option<Sequence> {
        self.by_age.first().map(|(oldest, _)| *oldest)
    }

    /// How many extents are dirty.
    pub(crate) fn count(&self) -> u64 {
        self.since.values().map(|count| u64::from(*count)).sum()
    }

    /// The line that the elevator comes to next: it ascends, and begins anew at the end. `up_to`: only lines of which
    /// something that old waits. Such a round is decided when it begins, so that what comes meanwhile does not delay it.
    pub(crate) fn choose(&mut self, up_to: Option<Sequence>) -> Option<StripeIndex> {
        let chosen = match up_to {
            Some(up_to) => self.next_of_round(up_to),
            None => {
                let after = self.lazy.range((Bound::Included(self.at), Bound::Unbounded)).next();
                after.or_else(|| self.lazy.iter().next()).map(|(stripe, _)| *stripe)
            }
        }?;
        Some(self.go_past(chosen))
    }

    /// The elevator goes on behind a line.
    fn go_past(&mut self, chosen: StripeIndex) -> StripeIndex {
        self.at = StripeIndex(chosen.0 + 1);
        chosen
    }

    fn next_of_round(&mut self, up_to: Sequence) -> Option<StripeIndex> {
        if self.oldest_lazy().is_none_or(|oldest| oldest > up_to) {
            return None;
        }
        loop {
            while let Some(stripe) = self.round.pop_front() {
                if self.lazy(stripe).is_some_and(|oldest| oldest <= up_to) {
                    return Some(stripe);
                }
            }
            let old = self.by_age.iter().take_while(|(oldest, _)| *oldest <= up_to);
            let mut old: Vec<StripeIndex> = old.map(|(_, stripe)| *stripe).collect();
            old.sort_unstable();
            let before = old.partition_point(|stripe| *stripe < self.at);
            old.rotate_left(before);
            self.round = old.into();
        }
    }
}
