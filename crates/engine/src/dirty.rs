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
//! - What nobody ever wrote is zeroes, on every drive that is not stale there ([`first_write`](crate::first_write)): a
//!   lane that was never written is synced.
//! - A lane goes from `Dirty` to `Clean` here *before* the controller is asked to unmark it, and the next
//!   write asks to mark it again: both go through one mailbox, in order.

use crate::attachment::Attachment;
use crate::lanes::{LaneIndex, LaneSet, Lanes};
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
    unsynced: RefCell<LaneSet>,
    /// Never written since the volume was made.
    unwritten: RefCell<LaneSet>,
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
        for lane in attachment.dirty.iter().filter(|lane| owns(*lane)) {
            if let Some(mark) = marks.get_mut(lane.0 as usize) {
                *mark = Mark::Dirty;
                active.insert(lane, Activity::default());
            }
        }
        DirtyLanes {
            marks: RefCell::new(marks),
            unsynced: RefCell::new(attachment.unsynced.clone()),
            unwritten: RefCell::new(
                attachment.unwritten.clone().minus(&attachment.dirty).minus(&attachment.unsynced),
            ),
            gaps: Cell::new(0),
            active: RefCell::new(active),
            changed: Signal::default(),
        }
    }

    pub(crate) fn is_synced(&self, lane: LaneIndex) -> bool {
        let unsynced = self.unsynced.borrow();
        unsynced.is_empty() || !unsynced.contains(lane)
    }

    pub(crate) fn all_synced(&self) -> bool {
        self.unsynced.borrow().is_empty()
    }

    /// The unsynced lanes.
    pub(crate) fn unsynced(&self) -> LaneSet {
        self.unsynced.borrow().clone()
    }

    /// The lanes that were never written.
    pub(crate) fn unwritten(&self) -> LaneSet {
        self.unwritten.borrow().clone()
    }

    /// Whether nothing was ever written to a lane.
    pub(crate) fn is_unwritten(&self, lane: LaneIndex) -> bool {
        let unwritten = self.unwritten.borrow();
        !unwritten.is_empty() && unwritten.contains(lane)
    }

    /// Lanes have been written, or are about to be.
    pub(crate) fn set_written(&self, lanes: &LaneSet) {
        self.unwritten.borrow_mut().remove_all(lanes);
    }

    fn is_clean(&self, lane: LaneIndex) -> bool {
        self.marks
            .borrow()
            .get(lane.0 as usize)
            .is_some_and(|mark| matches!(mark, Mark::Clean | Mark::Refused(_)))
    }

    /// Whether nothing was ever written to a lane, nor is about to be: its first write waits for the mark while it
    /// holds its stripe.
    pub(crate) fn is_untouched(&self, lane: LaneIndex) -> bool {
        self.is_unwritten(lane) && self.is_clean(lane)
    }

    /// How many writes parity did not follow so far.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.get()
    }

    /// A write is about to be executed that parity may not follow.
    pub(crate) fn note_gap(&self) {
        self.gaps.set(self.gaps.get() + 1);
    }

    /// The redundancy of lanes agrees with their data again.
    pub(crate) fn set_synced(&self, lanes: &LaneSet) {
        self.unsynced.borrow_mut().remove_all(lanes);
    }

    /// A write was left unfinished on some drive: the redundancy of its lane cannot be trusted any more.
    pub(crate) fn set_unsynced(&self, lanes: &LaneSet) {
        self.unsynced.borrow_mut().insert_all(lanes);
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
    pub(crate) fn take_quiet(&self, before: Instant) -> LaneSet {
        let mut quiet = LaneSet::EMPTY;
        let unsynced = self.unsynced.borrow();
        self.active.borrow_mut().retain(|lane, activity| {
            let done = activity.writes == 0 && activity.last <= before && !unsynced.contains(*lane);
            if done {
                quiet.insert(*lane);
            }
            !done
        });
        let mut marks = self.marks.borrow_mut();
        for lane in quiet.iter() {
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
                Box::pin(volume.blank_before_first_write(lane)).await;
                let result = Box::pin(volume.shard.mark_dirty(volume.spec.id, lane)).await;
                lanes.marked(volume.shard.env(), lane, result);
                result?;
                lanes.set_written(&lane.into());
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
    use crate::attachment::HealthView;
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
        let spec = VolumeSpec {
            id: VolumeId(0),
            name: "v".into(),
            geometry,
            sector: SectorSize::B512,
            data_start: ByteOffset::ZERO,
            capacity: geometry.capacity(),
            policy: crate::FaultPolicy::default(),
        };
        let health = HealthView { readable: all, writable: all };
        let attachment =
            Attachment { dirty: LaneIndex(0).into(), ..Attachment::new(Arc::new(spec), Vec::new(), health) };
        let quiet_on = |owns: bool| {
            let lanes = DirtyLanes::new(&Lanes::of(&geometry), &attachment, |_| owns);
            lanes.take_quiet(Instant { ns: 5_000_000_000 })
        };
        assert_eq!(quiet_on(true), LaneSet::first(1));
        assert_eq!(quiet_on(false), LaneSet::EMPTY);
    }
}
