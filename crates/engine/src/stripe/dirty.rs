//! Which regions may have redundancy that does not agree with their data.
//!
//! A write changes several drives, and a crash may come between: so the *region* of a stripe is marked dirty,
//! durably, before the first write to it (rule (b) of the promises). After a crash the marked regions are
//! *unsynced*: until the resync has passed them, their parity is not used and one designated mirror speaks
//! for all. A region that has been quiet for a while is unmarked again, so that a crash costs a resync of what
//! was being written and of nothing else.
//!
//! # Invariants
//! - A write to a redundant volume runs only while its region is `Dirty` here and marked durably.
//! - Only the shard that owns a region changes its state; the controller keeps the durable map.
//! - A write that parity cannot follow (a drive is missing before the resync is done) is counted (`gaps`): a
//!   resync that was under way meanwhile has not made its region agree, whatever it did before and after.
//! - What nobody ever wrote is zeroes, on every drive that is not stale there ([`first_write`](crate::stripe::first_write)): a
//!   region that was never written is synced.
//! - A region goes from `Dirty` to `Clean` here *before* the controller is asked to unmark it, and the next
//!   write asks to mark it again: both go through one mailbox, in order.

use crate::messages::ShardIndex;
use platform::sync::Signal;
use platform::{Env, Instant, IoError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use volume_state::{Change, RegionIndex, RegionSet};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Clean,
    /// Asked to be marked; not yet durable.
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
    changed: Signal,
}

impl DirtyRegions {
    /// `owns`: whether this shard owns a region. Others' regions are quiet here whatever is written to them, and are
    /// not ours to have unmarked.
    pub(crate) fn new(regions: u32, marked: &RegionSet, owns: impl Fn(RegionIndex) -> bool) -> DirtyRegions {
        let mut marks = vec![Mark::Clean; regions as usize];
        let mine = marked.iter().filter(|region| region.0 < regions && owns(*region));
        let active: BTreeMap<RegionIndex, Activity> =
            mine.map(|region| (region, Activity::default())).collect();
        for region in active.keys() {
            marks[region.0 as usize] = Mark::Dirty;
        }
        DirtyRegions { marks: RefCell::new(marks), active: RefCell::new(active), changed: Signal::default() }
    }

    /// Regions were marked that this shard has not asked for: those that it owns are its to have unmarked.
    pub(crate) fn note_marked(&self, regions: &RegionSet, now: Instant, owns: impl Fn(RegionIndex) -> bool) {
        let mut marks = self.marks.borrow_mut();
        for region in regions.iter().filter(|region| owns(*region)) {
            if let Some(mark @ Mark::Clean) = marks.get_mut(region.0 as usize) {
                *mark = Mark::Dirty;
                self.active.borrow_mut().insert(region, Activity { writes: 0, last: now });
            }
        }
    }

    /// A region that is written while it is not marked, by what is recorded or here.
    pub(super) fn unmarked_write(&self, marked: &RegionSet) -> Option<RegionIndex> {
        let marks = self.marks.borrow();
        let is_marked =
            |region: RegionIndex| marks[region.0 as usize] == Mark::Dirty && marked.contains(region);
        let active = self.active.borrow();
        let mut written = active.iter().filter(|(_, activity)| activity.writes > 0);
        written.find(|(region, _)| !is_marked(**region)).map(|(region, _)| *region)
    }

    /// Whether nobody writes to a region, nor has asked to.
    pub(crate) fn is_clean(&self, region: RegionIndex) -> bool {
        self.marks
            .borrow()
            .get(region.0 as usize)
            .is_some_and(|mark| matches!(mark, Mark::Clean | Mark::Refused(_)))
    }

    /// Counts a write in. `Err(true)`: the region must be marked first, and the caller is to ask for it;
    /// `Err(false)`: somebody has asked already.
    fn try_begin(&self, region: RegionIndex) -> Result<(), bool> {
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

    /// Counts a write in where the region is marked; false: it is not, and nothing was begun.
    fn try_begin_marked(&self, region: RegionIndex) -> bool {
        let is_marked = self.marks.borrow()[region.0 as usize] == Mark::Dirty;
        is_marked && self.try_begin(region).is_ok()
    }

    fn refusal(&self, region: RegionIndex) -> Option<IoError> {
        match self.marks.borrow()[region.0 as usize] {
            Mark::Refused(error) => Some(error),
            _ => None,
        }
    }

    fn is_marking(&self, region: RegionIndex) -> bool {
        self.marks.borrow()[region.0 as usize] == Mark::Marking
    }

    fn marked(&self, env: &Env, region: RegionIndex, result: Result<(), IoError>) {
        self.marks.borrow_mut()[region.0 as usize] = match result {
            Ok(()) => Mark::Dirty,
            Err(error) => Mark::Refused(error),
        };
        if result.is_ok() {
            self.active.borrow_mut().insert(region, Activity { writes: 0, last: env.now() });
        }
        self.changed.notify(env);
    }

    fn end(&self, region: RegionIndex, now: Instant) {
        if let Some(activity) = self.active.borrow_mut().get_mut(&region) {
            activity.writes -= 1;
            activity.last = now;
        }
    }

    /// Takes the regions that have been quiet since `before` out of the dirty state, and names them. Those that are
    /// unsynced stay.
    pub(crate) fn take_quiet(&self, before: Instant, unsynced: &RegionSet) -> RegionSet {
        let mut quiet = RegionSet::EMPTY;
        self.active.borrow_mut().retain(|region, activity| {
            let done = activity.writes == 0 && activity.last <= before && !unsynced.contains(*region);
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

impl crate::stripe::Stripes {
    /// The controller has marked regions that no write here asked for.
    pub(crate) fn note_marked(&self, regions: &RegionSet) {
        let owns = |region| ShardIndex::owning(region, self.shard.count()) == self.shard.index();
        self.dirty.note_marked(regions, self.shard.env().now(), owns);
    }
}

/// A write under way in a dirty region; dropping counts it out.
pub(crate) struct Writing {
    volume: Rc<crate::stripe::Stripes>,
    region: RegionIndex,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.volume.dirty.end(self.region, self.volume.shard.env().executor().tick());
    }
}

/// Counts a write in, if its region is marked; `None`: it is not, and has to be first.
pub(crate) fn begin_marked_write(
    volume: &Rc<crate::stripe::Stripes>,
    region: RegionIndex,
) -> Option<Writing> {
    volume.dirty.try_begin_marked(region).then(|| Writing { volume: volume.clone(), region })
}

/// Makes sure that the region is marked durably, and counts a write in.
///
/// # Errors
/// When the region cannot be marked: then nothing may be written to it.
pub(crate) async fn begin_write(
    volume: &Rc<crate::stripe::Stripes>,
    region: RegionIndex,
) -> Result<Writing, IoError> {
    let regions = &volume.dirty;
    loop {
        match regions.try_begin(region) {
            Ok(()) => return Ok(Writing { volume: volume.clone(), region }),
            Err(true) => {
                Box::pin(volume.blank_before_first_write(region)).await;
                let result = Box::pin(volume.shard.mark_dirty(volume.spec.id, region)).await;
                regions.marked(volume.shard.env(), region, result);
                result?;
                volume.apply(&Change::Marked(region.into()));
            }
            Err(false) => {
                regions.changed.wait_until(volume.shard.env(), || !regions.is_marking(region)).await;
                if let Some(error) = regions.refusal(region) {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mirror was started after a crash with its one region marked. The shard that did not own the region saw it
    /// quiet, had it unmarked under the writes of the owner, and the next crash left mirrors that differed and
    /// nobody who knew.
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

    /// A write that takes longer than a region is left marked without one, because its drive is slow.
    #[test]
    fn a_region_is_not_quiet_while_a_write_to_it_is_under_way() {
        let regions = DirtyRegions::new(1, &RegionSet::first(1), |_| true);
        assert_eq!(regions.try_begin(RegionIndex(0)), Ok(()));
        let quiet = |ns| regions.take_quiet(Instant { ns }, &RegionSet::EMPTY);
        assert_eq!(quiet(60_000_000_000), RegionSet::EMPTY);
        regions.end(RegionIndex(0), Instant { ns: 60_000_000_000 });
        assert_eq!(quiet(59_000_000_000), RegionSet::EMPTY, "it has just ended");
        assert_eq!(quiet(65_000_000_000), RegionSet::first(1));
    }
}
