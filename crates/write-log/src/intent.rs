//! The content of a stripe's column after a crash, where partial-stripe writes write redundancy
//! first and the log has data alone.
//!
//! Such a log closes the write hole because it identifies the plan that wrote each redundancy strip
//! last. A plan's *intent* records, in advance, the data records that the plan writes, and the new
//! checksum of each redundancy strip. The plan writes redundancy, flushes it, and only then writes
//! data. So a redundancy strip either belongs to a live plan, and the log has all data that differ;
//! or no counting plan has written it, and then no counting plan has written data either.
//!
//! # Fault model
//! Kills and power cuts (a sector keeps any value that it was sent since its last flush, or the
//! previous one), also in the replay; at any time the loss of as many drives as the level survives.
//! Sectors are written atomically, and reads without an error are correct. The checksum is not
//! linear, and keyed with a secret: under read-modify-write a host controls the difference of old
//! and new redundancy.
//!
//! # Invariants
//! - A plan is *live* in a column as long as all its data records there count. Records stop to
//!   count in log order, so its first data record ends it; by then [`crate::Destages`] has it
//!   complete and flushed.
//! - Plans of a column are in the order of their intents; one begins after all writes of the
//!   previous.
//! - A stripe that is completely in the log has no intent: until its records retire nothing of that
//!   column is reconstructed.
//!
//! `tests/destage` checks these decisions. The caller handles bytes, checksums and reconstruction.

use smallvec::SmallVec;

/// The source of a strip's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The data record of that number.
    Log(u64),
    /// Its drive; on a missing drive it must be reconstructed.
    Drive,
}

/// A strip of a column in a counting data record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Logged {
    /// The data strip, by its index among the stripe's data strips.
    pub strip: u16,
    /// The record.
    pub record: u64,
}

/// The record of a plan before it writes to a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Intent<S> {
    /// The data of the plan: each strip once.
    pub data: SmallVec<[Logged; 4]>,
    /// The new checksum of each redundancy strip, also of a missing drive.
    pub sums: SmallVec<[S; 2]>,
}

/// The counting records of a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Column<S> {
    logged: Vec<Logged>,
    live: Vec<Intent<S>>,
}

impl<S: PartialEq> Column<S> {
    /// From all counting data records and all readable intents, each in log order. Intents with a
    /// data record that no longer counts are dropped: their plans are complete and flushed.
    #[must_use]
    pub fn new(logged: Vec<Logged>, mut intents: Vec<Intent<S>>) -> Column<S> {
        intents.retain(|intent| intent.data.iter().all(|data| logged.contains(data)));
        Column { logged, live: intents }
    }

    /// The live plans, oldest first.
    pub fn live(&self) -> &[Intent<S>] {
        &self.live
    }

    /// The live plan that wrote the present content of a redundancy strip, as an index into
    /// [`Column::live`]: the newest with its checksum. `None`: no live plan has written it. Each
    /// redundancy strip is checked separately: a crash may leave P of one plan and Q of another.
    pub fn plan_of(&self, redundancy: usize, sum: &S) -> Option<usize> {
        self.live.iter().rposition(|intent| intent.sums.get(redundancy) == Some(sum))
    }

    /// The source of a data strip in the equation of a redundancy strip that `plan` wrote: the
    /// newest data of all live plans up to that one, since the drive may have lost any of it. Other
    /// strips come from their drives.
    pub fn under(&self, plan: Option<usize>, strip: u16) -> Source {
        let plans = plan.map_or(&self.live[..0], |newest| &self.live[..=newest]);
        let of = plans.iter().rev().find_map(|intent| intent.data.iter().find(|data| data.strip == strip));
        of.map_or(Source::Drive, |data| Source::Log(data.record))
    }

    /// The current source of a data strip, planned or not: the newest logged data, or the drive.
    pub fn newest(&self, strip: u16) -> Source {
        let of = self.logged.iter().rev().find(|data| data.strip == strip);
        of.map_or(Source::Drive, |data| Source::Log(data.record))
    }

    /// Whether the log has no record of this column.
    pub fn is_settled(&self) -> bool {
        self.logged.is_empty()
    }

    /// The intent that a replay must log before it writes the newest data and redundancy with these
    /// checksums; `None` where the last live plan has the same. Without it, a crash in the replay
    /// would leave redundancy without an intent.
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
        assert_eq!(column.newest(1), Source::Log(3), "its remaining data are written again");
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
