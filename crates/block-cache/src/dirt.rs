//! Dirty data of a volume: amount, age, and the order of destaging.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use units::{ByteCount, StripeIndex};

/// Numbers the writes of a volume on a shard in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Sequence(pub u64);

/// The dirty data of [`Lines`](crate::Lines), by age and by stripe.
#[derive(Default, Debug)]
pub(crate) struct DirtyData {
    bytes: ByteCount,
    /// Number of dirty extents, by the oldest write that each replaced.
    since: BTreeMap<Sequence, u32>,
    /// Lines with dirty data that is not yet wanted, and its oldest number.
    lazy: BTreeMap<StripeIndex, Sequence>,
    by_age: BTreeSet<(Sequence, StripeIndex)>,
    /// Those of them that are full.
    full: BTreeSet<StripeIndex>,
    /// Lines whose destage failed.
    pinned: BTreeSet<StripeIndex>,
    /// Position of the elevator: after the line chosen last.
    at: StripeIndex,
    /// Old lines, in the elevator's order, when the round began.
    round: VecDeque<StripeIndex>,
}

impl DirtyData {
    /// Adds a dirty extent.
    pub(crate) fn add(&mut self, since: Sequence, len: ByteCount) {
        self.bytes += len;
        *self.since.entry(since).or_default() += 1;
    }

    /// Removes a dirty extent.
    pub(crate) fn remove(&mut self, since: Sequence, len: ByteCount) {
        self.bytes -= len;
        let count = self.since.get_mut(&since).expect("dirty extents are counted");
        *count -= 1;
        if *count == 0 {
            self.since.remove(&since);
        }
    }

    /// Sets the oldest unwanted dirty number of a line, and whether the line is full.
    pub(crate) fn set_lazy(
        &mut self,
        stripe: StripeIndex,
        oldest: Option<Sequence>,
        is_full: bool,
    ) {
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

    /// Whether there are full lines that are not yet wanted.
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Whether a line is full and not yet wanted.
    pub(crate) fn is_full(&self, stripe: StripeIndex) -> bool {
        self.full.contains(&stripe)
    }

    /// The next full line in the elevator's order.
    pub(crate) fn choose_full(&mut self) -> Option<StripeIndex> {
        let after = self.full.range(self.at..).next();
        let chosen = *after.or_else(|| self.full.first())?;
        Some(self.go_past(chosen))
    }

    /// The oldest dirty number that is not yet wanted.
    pub(crate) fn oldest_lazy(&self) -> Option<Sequence> {
        self.by_age.first().map(|(oldest, _)| *oldest)
    }

    /// How many extents are dirty.
    pub(crate) fn count(&self) -> u64 {
        self.since.values().map(|count| u64::from(*count)).sum()
    }

    /// The next line in ascending order, wrapping at the end. `up_to`: only lines with data up to
    /// this number. Such a round is fixed at its start, so that new data does not prolong it.
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

    /// Moves the elevator past a line.
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
