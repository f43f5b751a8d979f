//! The stripes of a volume on one shard: who may change one now, what it costs to plan, and what a crash leaves.

use crate::attachment::Attachment;
use crate::members::Drives;
use crate::messages::ShardIndex;
use crate::stripe::{CleanUse, DirtyRegions, Flush, Initialising, JournalSlot};
use crate::volume::worst_scratch;
use plan::Plan;
use platform::Buf;
use platform::locks::Mode;
use platform::sync::Signal;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};
use volume_state::{Change, RegionIndex};

/// What is done when the redundancy of a region turns out not to be trusted: somebody above has it resynced.
type OnUnsynced = Box<dyn Fn()>;

/// The stripes of a volume on one shard.
pub struct Stripes {
    drives: Rc<Drives>,
    pub(super) dirty: DirtyRegions,
    pub(super) flushing: Flush,
    pub(super) initialising: Initialising,
    pub(super) journal: JournalSlot,
    /// Whether what is read of it is kept.
    pub(crate) clean: CleanUse,
    /// Regions that are changing sides between the distributed spare and home, and how many tasks are at it: writes to
    /// them wait.
    pub(super) gated: RefCell<BTreeMap<RegionIndex, u32>>,
    pub(super) gate_opened: Signal,
    on_unsynced: RefCell<Option<OnUnsynced>>,
    #[expect(
        clippy::vec_box,
        reason = "a plan is hundreds of bytes, and moves in and out of here with every I/O"
    )]
    plans: RefCell<Vec<Box<Plan>>>,
}

impl Deref for Stripes {
    type Target = Rc<Drives>;

    fn deref(&self) -> &Rc<Drives> {
        &self.drives
    }
}

impl Stripes {
    /// # Errors
    /// When this shard cannot take a device that the journal lies on.
    pub(crate) fn new(drives: Rc<Drives>, attachment: &Attachment) -> platform::Result<Rc<Stripes>> {
        let shard = drives.shard.clone();
        let owns = |region| ShardIndex::owning(region, shard.count()) == shard.index();
        Ok(Rc::new(Stripes {
            dirty: DirtyRegions::new(drives.regions.count, attachment.state.marked(), owns),
            flushing: Flush::default(),
            initialising: Initialising::default(),
            clean: CleanUse::default(),
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
            drives,
        }))
    }

    /// Checks what must hold between any two steps: rule (b) of the promises. An error is a sentence about somebody's
    /// mistake.
    ///
    /// # Errors
    /// The sentence.
    pub(crate) fn check_stripes(&self) -> Result<(), String> {
        if let Some(region) = self.dirty.unmarked_write(self.state().marked()) {
            return Err(format!("region {} is written and not marked", region.0));
        }
        match self.gated.borrow().iter().find(|(_, tasks)| **tasks == 0) {
            Some((region, _)) => {
                Err(format!("nobody holds the gate of region {}, and it is closed", region.0))
            }
            None => Ok(()),
        }
    }

    /// What is to be done when a write leaves a stripe whose redundancy cannot be trusted.
    pub(crate) fn when_unsynced(&self, act: impl Fn() + 'static) {
        *self.on_unsynced.borrow_mut() = Some(Box::new(act));
    }

    /// A plan to fill in; give it back with [`Volume::put_plan`] and planning allocates nothing.
    pub(crate) fn take_plan(&self) -> Box<Plan> {
        self.plans.borrow_mut().pop().unwrap_or_else(|| Box::new(Plan::new(self.geometry())))
    }

    pub(crate) fn put_plan(&self, plan: Box<Plan>) {
        self.plans.borrow_mut().push(plan);
    }

    /// The stripe's key in the shard's lock table.
    pub(crate) fn lock_key(&self, stripe: StripeIndex) -> u64 {
        stripe.0.wrapping_add(u64::from(self.spec.id.0).wrapping_mul(0x9E37_79B9))
    }

    /// The columns of its stripe that a range of the stripe's data touches: what its lock covers. Of a stripe that is not
    /// initialised, all: whichever write comes first writes all of it.
    pub(crate) fn columns(&self, stripe: StripeIndex, within: ByteRange) -> std::ops::Range<u32> {
        let strip = self.geometry().strip().bytes().0;
        if !self.is_initialised(stripe) {
            return 0..strip as u32;
        }
        // Repairs look at whole units: they must lie within what is held.
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

    /// The most memory that one stripe of the volume can need.
    pub(crate) fn worst_scratch(&self) -> ByteCount {
        worst_scratch(self.geometry())
    }

    /// Whether nothing was ever written to a region, nor is about to be: its first write waits for the mark while it
    /// holds its stripe.
    pub(crate) fn is_untouched(&self, region: RegionIndex) -> bool {
        self.state().is_unwritten(region) && self.dirty.is_clean(region)
    }

    /// Takes the regions that have been quiet since `before` out of the dirty state, and names them. Those that are
    /// unsynced stay.
    pub(crate) fn take_quiet(&self, before: platform::Instant) -> volume_state::RegionSet {
        self.dirty.take_quiet(before, self.state().unsynced())
    }

    /// Some of the stripe was not written as planned: its region must be resynced before it is trusted, on every
    /// shard, and after the next start as well. Done when the controller knows.
    pub(crate) async fn distrust(self: &Rc<Self>, stripe: StripeIndex) {
        let region = self.region_of(stripe);
        let was_synced = self.state().is_synced(region);
        self.apply(&Change::Unsynced(region.into()));
        self.shard.report_unsynced(self.spec.id, &self.name(), region).await;
        if was_synced {
            self.on_unsynced.borrow().iter().for_each(|act| act());
        }
    }

    /// Tells the controller that a region is resynced.
    pub(crate) fn report_synced(self: &Rc<Self>, region: RegionIndex) {
        let stripes = self.clone();
        self.shard.env().spawn("report what is synced", async move {
            // It may be distrusted by the time there is room for a report: that must not be taken back.
            let still = || stripes.state().is_synced(region);
            let kind = crate::messages::ReportKind::Synced(region.into());
            stripes.shard.report_if(stripes.spec.id, kind, still).await;
        });
    }
}
