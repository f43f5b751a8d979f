//! Dirty regions: regions whose redundancy may disagree with their data.
//!
//! A crash may interrupt a write that changes several drives. So the *region* of a stripe is marked
//! dirty, durably, before its first write (rule (b) of `ARCHITECTURE.md`). After a crash marked
//! regions are *unsynced*: until a resync their parity is not used, and one designated mirror is
//! read. A region that has been quiet for some time is unmarked, so that a crash causes a resync of
//! recent writes only.
//!
//! # Invariants
//! - A write to a redundant volume runs only while its region is `Dirty` here and marked durably.
//! - Only the owner shard changes a region's state; the controller keeps the durable map.
//! - A write that parity cannot follow (a drive is missing before the resync is done) is counted
//!   (`gaps`). A resync that runs at that time does not make its region agree.
//! - A region that was never written is synced: each drive that is not stale there holds zeros
//!   ([`first_write`](crate::stripe::first_write)).
//! - A region becomes `Clean` here *before* the unmark request, and the next write requests a mark:
//!   both use one mailbox, in order.

use platform::sync::Signal;
use platform::{Env, Instant, IoError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use volume_state::{RegionIndex, RegionSet};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Clean,
    /// A mark is requested, but not durable yet.
    Marking,
    Dirty,
    /// The last attempt to mark it failed.
    Refused(IoError),
}

/// Writes under way in a dirty region, and when the last one ended.
#[derive(Default)]
struct Activity {
    writes: u32,
    last: Instant,
}

pub(crate) struct DirtyRegions {
    marks: RefCell<Vec<Mark>>,
    active: RefCell<BTreeMap<RegionIndex, Activity>>,
    pub(super) changed: Signal,
}

impl DirtyRegions {
    /// `owns`: whether this shard owns a region. Regions of other shards look quiet here even
    /// during writes; this shard does not unmark them.
    pub(crate) fn new(
        regions: u32,
        marked: &RegionSet,
        owns: impl Fn(RegionIndex) -> bool,
    ) -> DirtyRegions {
        let mut marks = vec![Mark::Clean; regions as usize];
        let mine = marked.iter().filter(|region| region.0 < regions && owns(*region));
        let active: BTreeMap<RegionIndex, Activity> =
            mine.map(|region| (region, Activity::default())).collect();
        for region in active.keys() {
            marks[region.0 as usize] = Mark::Dirty;
        }
        DirtyRegions {
            marks: RefCell::new(marks),
            active: RefCell::new(active),
            changed: Signal::default(),
        }
    }

    /// Notes regions marked without a request of this shard, so that it unmarks those that it owns.
    pub(crate) fn note_marked(
        &self,
        regions: &RegionSet,
        now: Instant,
        owns: impl Fn(RegionIndex) -> bool,
    ) {
        let mut marks = self.marks.borrow_mut();
        for region in regions.iter().filter(|region| owns(*region)) {
            if let Some(mark @ Mark::Clean) = marks.get_mut(region.0 as usize) {
                *mark = Mark::Dirty;
                self.active.borrow_mut().insert(region, Activity { writes: 0, last: now });
            }
        }
    }

    /// A region that is being written without a durable mark.
    pub(super) fn unmarked_write(&self, marked: &RegionSet) -> Option<RegionIndex> {
        let marks = self.marks.borrow();
        let is_marked = |region: RegionIndex| {
            marks[region.0 as usize] == Mark::Dirty && marked.contains(region)
        };
        let active = self.active.borrow();
        let mut written = active.iter().filter(|(_, activity)| activity.writes > 0);
        written.find(|(region, _)| !is_marked(**region)).map(|(region, _)| *region)
    }

    /// Whether a region has no write, and none waits for its mark.
    pub(crate) fn is_clean(&self, region: RegionIndex) -> bool {
        self.marks
            .borrow()
            .get(region.0 as usize)
            .is_some_and(|mark| matches!(mark, Mark::Clean | Mark::Refused(_)))
    }

    /// Counts a write. `Err(true)`: the region is not marked, and the caller must request it.
    /// `Err(false)`: the mark is already requested.
    pub(super) fn try_begin(&self, region: RegionIndex) -> Result<(), bool> {
        let mut marks = self.marks.borrow_mut();
        let mark = &mut marks[region.0 as usize];
        match mark {
            Mark::Dirty => {
                self.active.borrow_mut().entry(region).or_default().writes += 1;
                Ok(())
            }
            Mark::Marking => Err(false),
            Mark::Clean | Mark::Refused(_) => {
                *mark = Mark::Marking;
                Err(true)
            }
        }
    }

    /// Counts a write if the region is marked; otherwise returns false.
    pub(super) fn try_begin_marked(&self, region: RegionIndex) -> bool {
        let is_marked = self.marks.borrow()[region.0 as usize] == Mark::Dirty;
        is_marked && self.try_begin(region).is_ok()
    }

    pub(super) fn refusal(&self, region: RegionIndex) -> Option<IoError> {
        match self.marks.borrow()[region.0 as usize] {
            Mark::Refused(error) => Some(error),
            _ => None,
        }
    }

    pub(super) fn is_marking(&self, region: RegionIndex) -> bool {
        self.marks.borrow()[region.0 as usize] == Mark::Marking
    }

    pub(super) fn marked(&self, env: &Env, region: RegionIndex, result: Result<(), IoError>) {
        self.marks.borrow_mut()[region.0 as usize] = match result {
            Ok(()) => Mark::Dirty,
            Err(error) => Mark::Refused(error),
        };
        if result.is_ok() {
            self.active.borrow_mut().insert(region, Activity { writes: 0, last: env.now() });
        }
        self.changed.notify(env);
    }

    pub(super) fn end(&self, region: RegionIndex, now: Instant) {
        if let Some(activity) = self.active.borrow_mut().get_mut(&region) {
            activity.writes -= 1;
            activity.last = now;
        }
    }

    /// Marks regions as clean that have been quiet since `before`, and returns them. Unsynced
    /// regions stay dirty.
    pub(crate) fn take_quiet(&self, before: Instant, unsynced: &RegionSet) -> RegionSet {
        let mut quiet = RegionSet::EMPTY;
        self.active.borrow_mut().retain(|region, activity| {
            let done =
                activity.writes == 0 && activity.last <= before && !unsynced.contains(*region);
            if done {
                quiet.insert(*region);
            }
            !done
        });
        let mut marks = self.marks.borrow_mut();
        for region in quiet.iter() {
            marks[region.0 as usize] = Mark::Clean;
        }
        quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: after a crash a mirror started with one marked region. A shard that did not own
    /// it saw it quiet and unmarked it during writes of the owner. The next crash left different
    /// copies, unmarked.
    #[test]
    fn a_region_is_unmarked_only_when_its_owner_finds_it_quiet() {
        let marked = RegionSet::first(1);
        let quiet_on = |owns: bool| {
            let regions = DirtyRegions::new(1, &marked, |_| owns);
            regions.take_quiet(Instant { ns: 5_000_000_000 }, &RegionSet::EMPTY)
        };
        assert_eq!(quiet_on(true), RegionSet::first(1));
        assert_eq!(quiet_on(false), RegionSet::EMPTY);
    }

    /// A write on a slow drive may take longer than the time after which a quiet region is
    /// unmarked.
    #[test]
    fn a_region_is_not_quiet_while_a_write_to_it_is_under_way() {
        let regions = DirtyRegions::new(1, &RegionSet::first(1), |_| true);
        assert_eq!(regions.try_begin(RegionIndex(0)), Ok(()));
        let quiet = |ns| regions.take_quiet(Instant { ns }, &RegionSet::EMPTY);
        assert_eq!(quiet(60_000_000_000), RegionSet::EMPTY);
        regions.end(RegionIndex(0), Instant { ns: 60_000_000_000 });
        assert_eq!(quiet(59_000_000_000), RegionSet::EMPTY, "the write has just ended");
        assert_eq!(quiet(65_000_000_000), RegionSet::first(1));
    }
}
