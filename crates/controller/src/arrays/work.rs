//! Reports of shards about an array, until they are handled.

use crate::arrays::failures::FailureReport;
use crate::arrays::initialised::InitReport;
use crate::arrays::reports::ToRecord;
use crate::arrays::silent::Silent;
use crate::arrays::volume::Volume;
use crate::inventory::access::Access;
use engine::{RegionSet, ShardIndex};
use ondisk::Uuid;
use platform::IoError;
use platform::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// The background work of a started array.
#[derive(Default)]
pub(crate) struct Running {
    pub(super) stopped: Cell<bool>,
    /// Whether a task is retrying to record failures for which there was no space.
    pub(super) recording: Cell<bool>,
}

/// Reports of shards, and pending work. Regions are numbered as in the array.
#[derive(Default)]
pub(crate) struct Work {
    pub(super) failures: RefCell<Vec<FailureReport>>,
    /// Drives that do not respond, and whose decision is due.
    pub(super) silent: Silent,
    pub(super) marks: RefCell<Vec<MarkReport>>,
    pub(super) initialised: RefCell<Vec<InitReport>>,
    /// Quiet regions whose marks may be cleared, and those whose marks are about to be cleared.
    pub(super) quiet: RefCell<BTreeSet<u32>>,
    /// The latter with the number of their clearing.
    pub(super) clearing: RefCell<BTreeMap<u32, u64>>,
    /// The number of clearings so far.
    pub(super) clearings: Cell<u64>,
    /// The pending changes for the recorder.
    pub(super) to_record: RefCell<Vec<ToRecord>>,
    /// How many of them concern blocks and regions whose redundancy is less than recorded.
    pub(super) doubts: Rc<Cell<u32>>,
    /// Members that the controller writes to, monitored.
    pub(super) written: RefCell<Vec<(DriveIndex, Access)>>,
    /// Drives that are about to go out: that is being recorded on the others.
    pub(super) going: Cell<DriveSet>,
    /// Replacements of drives that go out, until they take over.
    pub(super) left_replacements: RefCell<BTreeMap<usize, ondisk::Replacement>>,
    /// Slots that are out, and that their replacement is about to take.
    pub(super) taking_over: RefCell<BTreeSet<usize>>,
    /// Replacements that can no longer be written, by slot.
    pub(super) lost_replacements: RefCell<BTreeMap<usize, (Uuid, IoError)>>,
    /// Replacements that a shard could not take, until no label names them: they are not filled,
    /// and take no slot.
    pub(super) unfillable: RefCell<BTreeSet<Uuid>>,
    pub(super) changed: Signal,
}

impl Work {
    /// Whether the failure handler has something to do.
    pub(super) fn is_waiting(&self) -> bool {
        !self.failures.borrow().is_empty()
            || self.silent.is_due()
            || !self.marks.borrow().is_empty()
            || !self.initialised.borrow().is_empty()
    }
}

/// A pending change that reduces redundancy below the recorded one until it is recorded.
pub(super) struct Doubt(Rc<Cell<u32>>);

impl Doubt {
    pub(super) fn of(work: &Work) -> Doubt {
        work.doubts.set(work.doubts.get() + 1);
        Doubt(work.doubts.clone())
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

pub(crate) struct MarkReport {
    pub(crate) from: ShardIndex,
    pub(crate) number: u64,
    pub(crate) volume: Rc<Volume>,
    pub(crate) regions: RegionSet,
}
