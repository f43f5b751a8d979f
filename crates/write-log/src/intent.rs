//! What a column of a stripe holds after a crash, where partial stripes are written with their redundancy first and the log has
//! their data alone.
//!
//! A log that carries no redundancy closes the write hole because it can tell, of each redundancy strip by itself, which plan wrote
//! it last. An *intent* says so beforehand: which data records a plan is about to write, and a checksum of each redundancy strip as
//! it will be. The plan writes redundancy, has it flushed, and only then writes data. So whatever a redundancy strip holds, it is
//! either what some live plan made it, and all data that makes up the difference is in the log; or no plan that counts has touched
//! it, and then no plan that counts has written data either.
//!
//! # Fault model
//! Kills (drives and their volatile caches go on) and power cuts (of each sector any value that it was sent since its last flush, or
//! the one before), any number of them, in the replay too; and at any time the loss of as many drives as the level survives. A
//! sector is written whole or not at all. What drives hold without an error is what was written there. The checksum is not linear,
//! and keyed with what no host knows: under read-modify-write a host controls the difference of old and new redundancy.
//!
//! # Invariants
//! - A plan counts in a column, is *live*, as long as all data records that it takes there count. Records stop to count in the order
//!   of the log, so a plan's first data record ends it; [`crate::Destages`] sees that it is complete and flushed by then.
//! - The plans of a column are in the order of their intents, and one begins when all writes of the one before are complete.
//! - A whole stripe of which all is in the log has no intent: until its records retire nothing of that column is solved for.
//!
//! What this decides is tried by `tests/destage`. Bytes, checksums and solving are the caller's.

use smallvec::SmallVec;

/// Where the content of a strip is to be had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// In the data record of that number.
    Log(u64),
    /// On its drive; if that is lost, it has to be solved for.
    Drive,
}

/// What a data record that counts says of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Logged {
    /// The data strip, by its place among the stripe's data.
    pub strip: u16,
    /// The record.
    pub record: u64,
}

/// What a plan said of a column before it wrote there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Intent<S> {
    /// The data that it writes: each strip once.
    pub data: SmallVec<[Logged; 4]>,
    /// A checksum of each redundancy strip as it leaves it, whether or not its drive is there.
    pub sums: SmallVec<[S; 2]>,
}

/// What the records that count say of a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Column<S> {
    logged: Vec<Logged>,
    live: Vec<Intent<S>>,
}

impl<S: PartialEq> Column<S> {
    /// From all data records that count and all intents that can be read, each in the order of the log. Intents of which any data
    /// record does not count any more are left out: their plans are complete and flushed.
    #[must_use]
    pub fn new(logged: Vec<Logged>, mut intents: Vec<Intent<S>>) -> Column<S> {
        intents.retain(|intent| intent.data.iter().all(|data| logged.contains(data)));
        Column { logged, live: intents }
    }

    /// The live plans, from the oldest on.
    pub fn live(&self) -> &[Intent<S>] {
        &self.live
    }

    /// Which live plan made a redundancy strip what it is now, by its place in [`Column::live`]: the newest whose checksum it has.
    /// `None`: none of them has written it. Each redundancy strip is judged by itself: a crash leaves P of one plan and Q of another.
    pub fn plan_of(&self, redundancy: usize, sum: &S) -> Option<usize> {
        self.live.iter().rposition(|intent| intent.sums.get(redundancy) == Some(sum))
    }

    /// What a data strip counts as in the equation of a redundancy strip that plan made: the newest data of all live plans up to
    /// that one, for the drive may have lost any of it. Other strips are as their drives hold them.
    pub fn under(&self, plan: Option<usize>, strip: u16) -> Source {
        let plans = plan.map_or(&self.live[..0], |newest| &self.live[..=newest]);
        let of = plans.iter().rev().find_map(|intent| intent.data.iter().find(|data| data.strip == strip));
        of.map_or(Source::Drive, |data| Source::Log(data.record))
    }

    /// What a data strip is, planned or not: the newest data that was logged, or what the equations come to.
    pub fn newest(&self, strip: u16) -> Source {
        let of = self.logged.iter().rev().find(|data| data.strip == strip);
        of.map_or(Source::Drive, |data| Source::Log(data.record))
    }

    /// Whether nothing in the log is about this column.
    pub fn is_settled(&self) -> bool {
        self.logged.is_empty()
    }

    /// What a replay that is about to write the newest data, and redundancy of these checksums, has to say before; `None` where the
    /// last live plan said the same. Without that, a crash in the replay would leave redundancy that no intent knows.
    pub fn replay(&self, sums: SmallVec<[S; 2]>) -> Option<Intent<S>> {
        let mut data: SmallVec<[Logged; 4]> = SmallVec::new();
        for logged in self.logged.iter().rev() {
            if data.iter().all(|newer| newer.strip != logged.strip) {
                data.push(*logged);
            }
        }
        data.sort_by_key(|logged| logged.strip);
        let newest = self.live.len().checked_sub(1);
        let has_all =
            data.iter().all(|logged| self.under(newest, logged.strip) == Source::Log(logged.record));
        let is_said = has_all && self.live.last().is_some_and(|last| last.sums == sums);
        (!is_said).then_some(Intent { data, sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn logged(strip: u16, record: u64) -> Logged {
        Logged { strip, record }
    }

    #[test]
    fn each_redundancy_strip_stands_for_the_newest_plan_that_it_matches() {
        let first = Intent { data: smallvec![logged(0, 1)], sums: smallvec![10, 20] };
        let second = Intent { data: smallvec![logged(1, 3)], sums: smallvec![11, 20] };
        let column = Column::new(vec![logged(0, 1), logged(1, 3), logged(0, 5)], vec![first, second]);
        assert_eq!([column.plan_of(0, &10), column.plan_of(1, &20)], [Some(0), Some(1)]);
        assert_eq!(column.plan_of(0, &9), None, "no plan has written it");
        assert_eq!([column.under(Some(1), 0), column.under(Some(1), 1)], [Source::Log(1), Source::Log(3)]);
        assert_eq!([column.under(Some(0), 1), column.under(None, 0)], [Source::Drive; 2]);
        assert_eq!([column.newest(0), column.newest(2)], [Source::Log(5), Source::Drive]);
    }

    #[test]
    fn a_plan_ends_with_the_first_of_its_records() {
        let plan = Intent { data: smallvec![logged(0, 1), logged(1, 3)], sums: smallvec![10] };
        let column = Column::new(vec![logged(1, 3)], vec![plan]);
        assert_eq!((column.live().len(), column.plan_of(0, &10)), (0, None));
        assert_eq!(column.newest(1), Source::Log(3), "what is left of it is written again");
    }

    #[test]
    fn a_replay_says_what_it_does_once() {
        let plan = Intent { data: smallvec![logged(0, 1)], sums: smallvec![10] };
        let column = Column::new(vec![logged(0, 1)], vec![plan.clone()]);
        assert_eq!(column.replay(smallvec![10]), None);
        assert_eq!(column.replay(smallvec![11]).map(|intent| intent.data), Some(plan.data.clone()));
        let column = Column::new(vec![logged(0, 1), logged(0, 2)], vec![plan]);
        let intent = column.replay(smallvec![10]);
        assert_eq!(intent.map(|intent| intent.data.to_vec()), Some(vec![logged(0, 2)]), "newer data");
    }
}
