//! The stripes of a volume on one shard: locks, planning state, state after a crash, and the small
//! states of flushes, first writes and the use of the read cache.

use crate::attachment::{Attachment, Closed};
use crate::members::Drives;
use crate::messages::ShardIndex;
use crate::stripe::dirty::DirtyRegions;
use crate::stripe::journal::JournalSlot;
use crate::stripe::memory::Memory;
use crate::volume::worst_scratch;
use plan::Plan;
use platform::locks::Mode;
use platform::sync::Signal;
use platform::{Buf, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};
use volume_state::{Change, RegionIndex};

/// Called when the redundancy of a region becomes untrusted: the owner of this object resyncs it.
type OnUnsynced = Box<dyn Fn()>;

/// Whether the read cache holds data of a volume.
#[derive(Default)]
pub(crate) struct CleanUse {
    pub(super) keeps: Cell<bool>,
    /// Excludes non-owner writes while the read cache holds data.
    pub(super) closed: RefCell<Option<Closed>>,
    /// Writes in progress that began while the read cache held no data of the volume.
    pub(super) unseen: Cell<u32>,
}

impl CleanUse {
    /// Whether the read cache holds data of the volume, or will soon.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.get()
    }
}

/// The flushes of a volume on one shard.
#[derive(Default)]
pub(super) struct Flush {
    pub(super) running: Cell<bool>,
    pub(super) started: Cell<u64>,
    pub(super) finished: Cell<u64>,
    /// The latest failed flush. Waiters for that flush or an earlier one get the error: a failure
    /// may be reported twice, but is never missed.
    pub(super) last_failure: Cell<Option<(u64, IoError)>>,
    pub(super) changed: Signal,
}

/// Written whole stripes that wait to be recorded as initialised, as one batch.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) stripes: RefCell<Vec<StripeIndex>>,
    pub(super) outcome: Cell<Option<Result<(), IoError>>>,
}

/// The stripes of a volume on one shard that are being initialised.
#[derive(Default)]
pub(super) struct Initialising {
    pub(super) next: RefCell<Rc<Batch>>,
    pub(super) running: Cell<bool>,
    pub(super) changed: Signal,
}

/// The stripes of a volume on one shard.
pub struct Stripes {
    drives: Rc<Drives>,
    pub(super) dirty: DirtyRegions,
    pub(super) flushing: Flush,
    pub(super) initialising: Initialising,
    pub(super) journal: JournalSlot,
    /// Whether the read cache keeps data of the volume.
    pub(crate) clean: Rc<CleanUse>,
    /// Regions that move between the distributed spare and their home drives, with the number of
    /// tasks; writes to them wait.
    pub(super) gated: RefCell<BTreeMap<RegionIndex, u32>>,
    pub(super) gate_opened: Signal,
    on_unsynced: RefCell<Option<OnUnsynced>>,
    #[expect(
        clippy::vec_box,
        reason = "a plan is hundreds of bytes, and moves in and out of here with every I/O"
    )]
    plans: RefCell<Vec<Box<Plan>>>,
    #[expect(clippy::vec_box, reason = "the same, for the memory of a plan's execution")]
    memories: RefCell<Vec<Box<Memory>>>,
}

impl Deref for Stripes {
    type Target = Rc<Drives>;

    fn deref(&self) -> &Rc<Drives> {
        &self.drives
    }
}

impl Stripes {
    /// # Errors
    /// When this shard cannot attach a log device of the journal.
    pub(crate) fn new(
        drives: Rc<Drives>,
        attachment: &Attachment,
    ) -> platform::Result<Rc<Stripes>> {
        let shard = drives.shard.clone();
        let owns = |region| ShardIndex::owning(region, shard.count()) == shard.index();
        Ok(Rc::new(Stripes {
            dirty: DirtyRegions::new(drives.regions.count, attachment.state.marked(), owns),
            flushing: Flush::default(),
            initialising: Initialising::default(),
            clean: Rc::default(),
            journal: JournalSlot::new(
                shard.env(),
                attachment.journal.as_ref(),
                &attachment.spec,
                shard.index().0,
                shard.count(),
            )?,
            gated: RefCell::default(),
            gate_opened: Signal::default(),
            on_unsynced: RefCell::default(),
            plans: RefCell::default(),
            memories: RefCell::default(),
            drives,
        }))
    }

    /// Checks invariants that hold between any two steps: rule (b) of `ARCHITECTURE.md`. An error
    /// describes a programming error.
    ///
    /// # Errors
    /// A description of the error.
    pub(crate) fn check_stripes(&self) -> Result<(), String> {
        if let Some(region) = self.dirty.unmarked_write(self.state().marked()) {
            return Err(format!("region {} has a write in progress, but no mark", region.0));
        }
        match self.gated.borrow().iter().find(|(_, tasks)| **tasks == 0) {
            Some((region, _)) => Err(format!("no task closed the gate of region {}", region.0)),
            None => Ok(()),
        }
    }

    /// Sets the action after a write that leaves a stripe with untrusted redundancy.
    pub(crate) fn when_unsynced(&self, act: impl Fn() + 'static) {
        *self.on_unsynced.borrow_mut() = Some(Box::new(act));
    }

    /// A plan to fill in; return it with [`Volume::put_plan`], so that planning allocates nothing.
    pub(crate) fn take_plan(&self) -> Box<Plan> {
        self.plans.borrow_mut().pop().unwrap_or_else(|| Box::new(Plan::new(self.geometry())))
    }

    pub(crate) fn put_plan(&self, plan: Box<Plan>) {
        self.plans.borrow_mut().push(plan);
    }

    /// Empty memory of an execution; return it with [`Stripes::put_memory`].
    pub(super) fn take_memory(&self) -> Box<Memory> {
        self.memories.borrow_mut().pop().unwrap_or_default()
    }

    pub(super) fn put_memory(&self, mut memory: Box<Memory>) {
        memory.clear();
        self.memories.borrow_mut().push(memory);
    }

    /// The stripe's key in the shard's lock table.
    pub(crate) fn lock_key(&self, stripe: StripeIndex) -> u64 {
        stripe.0.wrapping_add(u64::from(self.spec.id.0).wrapping_mul(0x9E37_79B9))
    }

    /// The columns that a range of the stripe's data touches: a lock covers these. All columns if
    /// the stripe is not initialised: its first write covers the whole stripe.
    pub(crate) fn columns(&self, stripe: StripeIndex, within: ByteRange) -> std::ops::Range<u32> {
        let strip = self.geometry().strip().bytes().0;
        if !self.is_initialised(stripe) {
            return 0..strip as u32;
        }
        // Repairs cover whole repair units; these must lie within the lock.
        let within = within.align_out(self.repair_unit);
        let (first, last) = (within.start.0 / strip, (within.end().0 - 1) / strip);
        if first == last {
            let base = first * strip;
            (within.start.0 - base) as u32..(within.end().0 - base) as u32
        } else {
            0..strip as u32
        }
    }

    pub(crate) async fn lock(
        &self,
        stripe: StripeIndex,
        mode: Mode,
        within: ByteRange,
    ) -> platform::locks::Guard {
        let columns = self.columns(stripe, within);
        self.shard.locks().lock_columns(self.lock_key(stripe), mode, columns).await
    }

    pub(crate) fn take_scratch(&self, len: ByteCount, hollow: bool) -> Buf {
        self.shard.scratch_buffer(len, hollow)
    }

    /// The most memory that a request on one stripe can need.
    pub(crate) fn worst_scratch(&self) -> ByteCount {
        worst_scratch(self.geometry())
    }

    /// Whether a region was never written and no write is about to begin. The first write waits for
    /// the mark while it holds its stripe.
    pub(crate) fn is_untouched(&self, region: RegionIndex) -> bool {
        self.state().is_unwritten(region) && self.dirty.is_clean(region)
    }

    /// Marks regions as clean that have been quiet since `before`, and returns them. Unsynced
    /// regions stay dirty.
    pub(crate) fn take_quiet(&self, before: platform::Instant) -> volume_state::RegionSet {
        self.dirty.take_quiet(before, self.state().unsynced())
    }

    /// Marks the region of a partially written stripe as untrusted until a resync, on every shard
    /// and across restarts. Returns when the controller has recorded it.
    pub(crate) async fn distrust(self: &Rc<Self>, stripe: StripeIndex) {
        let region = self.region_of(stripe);
        let was_synced = self.state().is_synced(region);
        self.apply(&Change::Unsynced(region.into()));
        self.shard.report_unsynced(self.spec.id, &self.name(), region).await;
        if was_synced {
            self.on_unsynced.borrow().iter().for_each(|act| act());
        }
    }

    /// Reports a resynced region to the controller.
    pub(crate) fn report_synced(self: &Rc<Self>, region: RegionIndex) {
        let stripes = self.clone();
        self.shard.env().spawn("report what is synced", async move {
            // The region may be distrusted again before the report is sent: then it must not be
            // reported.
            let still = || stripes.state().is_synced(region);
            let kind = crate::messages::ReportKind::Synced(region.into());
            stripes.shard.report_if(stripes.spec.id, kind, still).await;
        });
    }
}
