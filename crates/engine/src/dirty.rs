//! Which lanes may have redundancy that does not agree with their data.
//!
//! A write changes several drives, and a crash may come between: so the *lane* of a stripe is marked dirty,
//! durably, before the first write to it (rule (b) of the promises). After a crash the marked lanes are
//! *unsynced*: until the resync has passed them, their parity is not used and one designated mirror speaks
//! for all. A lane that has been quiet for a while is unmarked again, so that a crash costs a resync of what
//! was being written and of nothing else.
//!
//! # Invariants
//! - A write to a redundant volume runs only while its lane is `Dirty` here and marked durably.
//! - Only the shard that owns a lane changes its state; the controller keeps the durable map.
//! - A write that parity cannot follow (a drive is missing before the resync is done) is counted (`gaps`): a
//!   resync that was under way meanwhile has not made its lane agree, whatever it did before and after.
//! - A lane goes from `Dirty` to `Clean` here *before* the controller is asked to unmark it, and the next
//!   write asks to mark it again: both go through one mailbox, in order.

use crate::messages::{Attachment, LaneIndex, Lanes};
use env::sync::Signal;
use env::{Env, Instant, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Clean,
    /// Asked to be marked; not yet durable.
    Marking,
    Dirty,
    /// The last attempt to mark it failed.
    Refused(IoError),
}

/// Writes under way in a dirty lane, and when the last one ended.
#[derive(Default)]
struct Activity {
    writes: u32,
    last: Instant,
}

pub(crate) struct DirtyLanes {
    marks: RefCell<Vec<Mark>>,
    unsynced: RefCell<Vec<bool>>,
    unsynced_count: Cell<usize>,
    /// Writes that parity did not follow.
    gaps: Cell<u64>,
    active: RefCell<BTreeMap<LaneIndex, Activity>>,
    changed: Signal,
}

impl DirtyLanes {
    /// `owns`: whether this shard owns a lane. Others' lanes are quiet here whatever is written to them, and are
    /// not ours to have unmarked.
    pub(crate) fn new(
        lanes: &Lanes,
        attachment: &Attachment,
        owns: impl Fn(LaneIndex) -> bool,
    ) -> DirtyLanes {
        let mut marks = vec![Mark::Clean; lanes.count as usize];
        let mut active = BTreeMap::new();
        for lane in attachment.dirty.iter().filter(|lane| owns(**lane)) {
            if let Some(mark) = marks.get_mut(lane.0 as usize) {
                *mark = Mark::Dirty;
                active.insert(*lane, Activity::default());
            }
        }
        let mut unsynced = vec![false; lanes.count as usize];
        for lane in &attachment.unsynced {
            if let Some(lane) = unsynced.get_mut(lane.0 as usize) {
                *lane = true;
            }
        }
        let unsynced_count = unsynced.iter().filter(|&&lane| lane).count();
        DirtyLanes {
            marks: RefCell::new(marks),
            unsynced: RefCell::new(unsynced),
            unsynced_count: Cell::new(unsynced_count),
            gaps: Cell::new(0),
            active: RefCell::new(active),
            changed: Signal::default(),
        }
    }

    pub(crate) fn is_synced(&self, lane: LaneIndex) -> bool {
        self.unsynced_count.get() == 0 || !self.unsynced.borrow()[lane.0 as usize]
    }

    pub(crate) fn all_synced(&self) -> bool {
        self.unsynced_count.get() == 0
    }

    /// The unsynced lanes, ascending.
    pub(crate) fn unsynced(&self) -> Vec<LaneIndex> {
        let unsynced = self.unsynced.borrow();
        unsynced.iter().enumerate().filter(|(_, lane)| **lane).map(|(i, _)| LaneIndex(i as u32)).collect()
    }

    /// How many writes parity did not follow so far.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.get()
    }

    /// A write is about to be executed that parity may not follow.
    pub(crate) fn note_gap(&self) {
        self.gaps.set(self.gaps.get() + 1);
    }

    /// The redundancy of a lane agrees with its data again.
    pub(crate) fn set_synced(&self, lane: LaneIndex) {
        if std::mem::replace(&mut self.unsynced.borrow_mut()[lane.0 as usize], false) {
            self.unsynced_count.set(self.unsynced_count.get() - 1);
        }
    }

    /// A write was left unfinished on some drive: the lane's redundancy cannot be trusted any more.
    pub(crate) fn set_unsynced(&self, lane: LaneIndex) {
        if !std::mem::replace(&mut self.unsynced.borrow_mut()[lane.0 as usize], true) {
            self.unsynced_count.set(self.unsynced_count.get() + 1);
        }
    }

    /// Counts a write in. `Err(true)`: the lane must be marked first, and the caller is to ask for it;
    /// `Err(false)`: somebody has asked already.
    fn try_begin(&self, lane: LaneIndex) -> Result<(), bool> {
        let mut marks = self.marks.borrow_mut();
        let mark = &mut marks[lane.0 as usize];
        match mark {
            Mark::Dirty => {
                self.active.borrow_mut().entry(lane).or_default().writes += 1;
                Ok(())
            }
            Mark::Marking => Err(false),
            Mark::Clean | Mark::Refused(_) => {
                *mark = Mark::Marking;
                Err(true)
            }
        }
    }

    fn refusal(&self, lane: LaneIndex) -> Option<IoError> {
        match self.marks.borrow()[lane.0 as usize] {
            Mark::Refused(error) => Some(error),
            _ => None,
        }
    }

    fn is_marking(&self, lane: LaneIndex) -> bool {
        self.marks.borrow()[lane.0 as usize] == Mark::Marking
    }

    fn marked(&self, env: &Env, lane: LaneIndex, result: Result<(), IoError>) {
        self.marks.borrow_mut()[lane.0 as usize] = match result {
            Ok(()) => Mark::Dirty,
            Err(error) => Mark::Refused(error),
        };
        if result.is_ok() {
            self.active.borrow_mut().insert(lane, Activity { writes: 0, last: env.now() });
        }
        self.changed.notify(env);
    }

    fn end(&self, lane: LaneIndex, now: Instant) {
        if let Some(activity) = self.active.borrow_mut().get_mut(&lane) {
            activity.writes -= 1;
            activity.last = now;
        }
    }

    /// Takes the lanes that have been quiet since `before` out of the dirty state, and names them.
    pub(crate) fn take_quiet(&self, before: Instant) -> Vec<LaneIndex> {
        let mut quiet = Vec::new();
        let unsynced = self.unsynced.borrow();
        self.active.borrow_mut().retain(|lane, activity| {
            let done = activity.writes == 0 && activity.last <= before && !unsynced[lane.0 as usize];
            if done {
                quiet.push(*lane);
            }
            !done
        });
        let mut marks = self.marks.borrow_mut();
        for lane in &quiet {
            marks[lane.0 as usize] = Mark::Clean;
        }
        quiet
    }
}

/// A write under way in a dirty lane; dropping counts it out.
pub(crate) struct Writing {
    volume: Rc<crate::volume::Volume>,
    lane: LaneIndex,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.volume.dirty.end(self.lane, self.volume.shard.env().executor().tick());
    }
}

/// Makes sure that the lane is marked durably, and counts a write in.
///
/// # Errors
/// When the lane cannot be marked: then nothing may be written to it.
pub(crate) async fn begin_write(
    volume: &Rc<crate::volume::Volume>,
    lane: LaneIndex,
) -> Result<Writing, IoError> {
    let lanes = &volume.dirty;
    loop {
        match lanes.try_begin(lane) {
            Ok(()) => return Ok(Writing { volume: volume.clone(), lane }),
            Err(true) => {
                let result = volume.shard.mark_dirty(volume.spec.id, lane).await;
                lanes.marked(volume.shard.env(), lane, result);
                result?;
            }
            Err(false) => {
                lanes.changed.wait_until(volume.shard.env(), || !lanes.is_marking(lane)).await;
                if let Some(error) = lanes.refusal(lane) {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::HealthView;
    use crate::volume::{VolumeId, VolumeSpec};
    use layout::{Geometry, Level};
    use std::sync::Arc;
    use units::{ByteCount, ByteOffset, DriveCount, DriveSet, SectorSize, StripSize};

    /// A mirror was started after a crash with its one lane marked. The shard that did not own the lane saw it
    /// quiet, had it unmarked under the writes of the owner, and the next crash left mirrors that differed and
    /// nobody who knew.
    #[test]
    fn a_lane_is_unmarked_only_when_its_owner_finds_it_quiet() {
        let member = ByteCount::MIB;
        let geometry = Geometry::new(Level::Raid1, DriveCount(2), StripSize::MIN, member).expect("a mirror");
        let all = DriveSet::first(geometry.drives());
        let attachment = Attachment {
            spec: Arc::new(VolumeSpec {
                id: VolumeId(0),
                name: "v".into(),
                geometry,
                sector: SectorSize::B512,
                data_start: ByteOffset::ZERO,
                capacity: geometry.capacity(),
            }),
            sources: Vec::new(),
            health: HealthView { readable: all, writable: all },
            unsynced: Vec::new(),
            dirty: vec![LaneIndex(0)],
        };
        let quiet_on = |owns: bool| {
            let lanes = DirtyLanes::new(&Lanes::of(&geometry), &attachment, |_| owns);
            lanes.take_quiet(Instant { ns: 5_000_000_000 })
        };
        assert_eq!(quiet_on(true), [LaneIndex(0)]);
        assert_eq!(quiet_on(false), []);
    }
}
