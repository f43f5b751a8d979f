//! The drives of a volume on one shard, and what this shard knows of the volume.

use crate::attachment::{Attachment, BesideOwners, Closed};
use crate::members::{Health, Members, Settled, Streams};
use crate::messages::ShardIndex;
use crate::shard::Resources;
use crate::volume::{CounterRow, Counters, FaultPolicy, VolumeSpec, served};
use layout::{Geometry, Located, StripeMap};
use platform::sync::Signal;
use platform::{DriveInfo, IoError, IoErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};
use volume_state::{Change, RegionIndex, Regions, VolumeState};

/// The drives of a volume, as this shard reaches them, and what it knows of the volume: the lowest room, which all
/// others stand on.
pub struct Drives {
    pub(crate) shard: Resources,
    pub(crate) spec: Arc<VolumeSpec>,
    /// What it is called now.
    name: RefCell<Rc<str>>,
    /// How the stripes lie as they are served ([`served`]), and into which regions they fall.
    pub(crate) regions: Regions,
    pub(crate) members: Members,
    /// What is read in order, where copies share that.
    pub(super) streams: Streams,
    pub(super) policy: Cell<FaultPolicy>,
    /// What is recorded of the volume: see `changes`, which alone changes it.
    pub(super) state: RefCell<VolumeState>,
    pub(super) health: Health,
    /// Stripes of forced regions whose redundancy has been made to agree since.
    pub(crate) settled: Settled,
    /// Writes that redundancy did not follow.
    gaps: Cell<u64>,
    /// The unit that every drive writes without reading first: of one that holds a sector it cannot read, it could
    /// not write a part.
    pub(crate) repair_unit: ByteCount,
    counters: CounterRow,
    /// Whether every drive can be read and all redundancy agrees, so that no request needs to look further.
    pub(crate) all_well: Cell<bool>,
    /// Who writes beside the owners of stripes, on all shards.
    pub(crate) beside: BesideOwners,
    /// Keeps them away as long as something is not well here: what one shard knows of drives another may not know yet.
    beside_closed: RefCell<Option<Closed>>,
    pub(crate) closing: Cell<bool>,
    /// The stripes that are in use: all, but for a volume on its way to another layout.
    live: Cell<(u64, u64)>,
    /// Requests and tasks that use the volume; it is detached when none is left.
    pub(crate) users: Cell<usize>,
    /// Counts how often somebody began to wait for those that had entered by then, and how many of these are left.
    era: Cell<u64>,
    users_before: Cell<usize>,
    left: Signal,
}

impl Drives {
    pub(crate) fn attach(shard: &Resources, attachment: &Attachment) -> platform::Result<Rc<Drives>> {
        let members = Members::attach(shard.env(), attachment)?;
        let spec = attachment.spec.clone();
        let sources = attachment.sources.iter().chain(&attachment.replacements).flatten();
        let physical = sources.map(|source| source.info().physical_sector.bytes()).max();
        let drives = Rc::new(Drives {
            shard: shard.clone(),
            regions: Regions::of(&served(&spec.geometry)),
            members,
            streams: Streams::new(attachment.streams),
            policy: Cell::new(spec.policy),
            state: RefCell::new(attachment.state.clone()),
            health: Health::default(),
            settled: Settled::default(),
            gaps: Cell::new(0),
            repair_unit: ByteCount(physical.unwrap_or_default().0.max(spec.sector.bytes().0)),
            counters: attachment.meter.join(),
            all_well: Cell::new(false),
            beside: attachment.beside.clone(),
            beside_closed: RefCell::default(),
            closing: Cell::new(false),
            live: Cell::new((attachment.live.start, attachment.live.end)),
            users: Cell::new(0),
            era: Cell::new(0),
            users_before: Cell::new(0),
            left: Signal::default(),
            name: RefCell::new(spec.name.as_str().into()),
            spec,
        });
        if !drives.is_redundant() {
            // Nobody marks regions there before they are written: all of them may have been.
            drives.apply(&Change::Written(attachment.state.unwritten().clone()));
        }
        drives.geometry().drives().indexes().for_each(|slot| drives.watch_over(slot));
        drives.look_at_health();
        Ok(drives)
    }

    /// What it is.
    pub fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// What it is called now.
    pub fn name(&self) -> Rc<str> {
        self.name.borrow().clone()
    }

    /// It has another name from now on; whoever uses it goes on.
    pub(crate) fn rename(&self, name: &str) {
        *self.name.borrow_mut() = name.into();
    }

    /// What is recorded of it, as far as this shard has been told.
    pub fn recorded_state(&self) -> VolumeState {
        self.state().clone()
    }

    /// How its stripes lie as they are served, and into which regions they fall.
    pub fn layout(&self) -> &Regions {
        &self.regions
    }

    /// What its drives can do for a stripe when a request is planned there, by what is recorded alone.
    pub fn planned_health(&self, stripe: StripeIndex) -> plan::Health {
        self.state().planned_health(&self.regions, stripe)
    }

    /// Whether writes need something kept besides the data.
    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry().parity_strips() > 0 || self.geometry().copies() > 1
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.regions.geometry()
    }

    /// Where the cells of a stripe are now.
    pub(crate) fn map(&self, stripe: StripeIndex) -> StripeMap {
        self.state().map(&self.regions, stripe)
    }

    /// What lies at a byte of a drive now, be it moved there.
    pub(crate) fn locate(&self, drive: DriveIndex, offset: ByteOffset) -> Option<Located> {
        let located = self.geometry().locate(drive, offset)?;
        if self.relocated_in(self.region_of(located.stripe)).is_none() {
            return Some(located);
        }
        let cell_starts = ByteOffset(offset.0 - located.within.0);
        let mut cells = self.map(located.stripe).cells();
        let (_, role) = cells.find(|(cell, _)| cell.drive == drive && cell.offset == cell_starts)?;
        Some(Located { role, ..located })
    }

    /// The drive whose cells in a region are in the distributed spare.
    pub(crate) fn relocated_in(&self, region: RegionIndex) -> Option<DriveIndex> {
        self.state().relocated_in(region)
    }

    pub(crate) fn region_of(&self, stripe: StripeIndex) -> RegionIndex {
        self.regions.region_of(stripe)
    }

    /// Whether this shard owns the stripe.
    pub(crate) fn is_mine(&self, stripe: StripeIndex) -> bool {
        self.shard.count() == 1
            || ShardIndex::owning(self.region_of(stripe), self.shard.count()) == self.shard.index()
    }

    /// What a drive of the volume says of itself.
    pub fn drive_info(&self, drive: DriveIndex) -> Option<DriveInfo> {
        self.members.get(drive).map(|member| member.info().clone())
    }

    /// Where a byte of a drive's data area lies on the raw drive.
    pub(crate) fn raw(&self, offset: ByteOffset) -> ByteOffset {
        self.spec.data_start + ByteCount(offset.0)
    }

    /// What the drives can do for one stripe now. `unreadable`: drives that had a medium error in it.
    pub(crate) fn stripe_health(&self, stripe: StripeIndex, unreadable: &DriveSet) -> plan::Health {
        self.state().stripe_health(&self.regions, stripe, unreadable, self)
    }

    /// Checks what must hold of drives and state between any two steps. An error is a sentence about somebody's mistake.
    ///
    /// # Errors
    /// The sentence.
    pub(crate) fn check_drives(&self) -> Result<(), String> {
        let state = self.state();
        state.check()?;
        if self.all_well.get() && !(state.is_optimal() && self.health.failing().is_empty()) {
            return Err("requests may take the fast path, though not all is well".into());
        }
        if !self.health.failing().minus(&state.in_service()).is_empty() {
            return Err(format!("drives {:?} are out and said to be failing", self.health.failing()));
        }
        let current = |slot: &DriveIndex| {
            let being_filled = self.members.regions_being_filled(*slot);
            being_filled.into_iter().find(|region| !self.stale_regions(*slot).contains(*region))
        };
        match self.geometry().drives().indexes().find_map(|slot| Some((slot, current(&slot)?))) {
            Some((slot, region)) => {
                Err(format!("drive {} is made current in region {}, where it is", slot.0, region.0))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn set_policy(&self, policy: FaultPolicy) {
        self.policy.set(policy);
        for drive in self.geometry().drives().indexes() {
            let replacement = self.members.replacement(drive).map(|replacement| replacement.member.clone());
            for member in self.members.get(drive).into_iter().chain(replacement) {
                member.set_limits(&policy.limits);
            }
        }
    }

    /// Works out anew whether requests may take the fast path, and whether other shards may write beside this one.
    pub(crate) fn look_at_health(&self) {
        let all_well = self.state().is_optimal() && self.health.failing().is_empty();
        self.all_well.set(all_well);
        let mut closed = self.beside_closed.borrow_mut();
        if closed.is_none() != (all_well || self.is_redundant()) {
            *closed = closed.is_none().then(|| self.beside.close());
        }
    }

    /// Counts a request or task in; while any is in, the volume is not detached.
    ///
    /// # Errors
    /// When the volume is being detached.
    pub(crate) fn enter(self: &Rc<Self>) -> Result<User, IoError> {
        if self.closing.get() {
            return Err(IoError::new(IoErrorKind::Gone));
        }
        self.users.set(self.users.get() + 1);
        Ok(User { drives: self.clone(), era: self.era.get() })
    }

    /// Done when everybody has left who has entered before. Only one may wait so at a time.
    pub(crate) async fn others_left(&self) {
        self.users_before.set(self.users.get());
        self.era.set(self.era.get() + 1);
        self.left.wait_until(self.shard.env(), || self.users_before.get() == 0).await;
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.count(change);
    }

    /// What this shard has counted since it was attached.
    pub fn counters(&self) -> Counters {
        self.counters.counters()
    }

    /// Whether a stripe is in use. What lies where another one would be belongs to another layout, and must be left alone. Asked by
    /// whoever holds the stripe: until he lets go, the answer stands.
    pub(crate) fn is_live(&self, stripe: StripeIndex) -> bool {
        self.live().contains(&stripe.0)
    }

    /// The stripes that are in use.
    pub(crate) fn live(&self) -> std::ops::Range<u64> {
        let (start, end) = self.live.get();
        start..end
    }

    /// Only these stripes are in use from now on. The range before.
    pub(crate) fn set_live(&self, live: std::ops::Range<u64>) -> std::ops::Range<u64> {
        let before = self.live();
        self.live.set((live.start, live.end));
        before
    }

    /// The stripes of a region that the volume has, and that are in use.
    pub(crate) fn stripes_of(&self, region: RegionIndex) -> std::ops::Range<u64> {
        let std::ops::Range { start, end } = self.regions.stripes_of(region);
        let (first, last) = self.live.get();
        let start = start.max(first.min(end));
        start..end.min(self.geometry().stripes().0).min(last).max(start)
    }

    /// Whether nothing is wrong in a region, so that a request to an initialised stripe of it does not have to look further.
    pub(crate) fn is_well(&self, region: RegionIndex) -> bool {
        let place = || self.regions.place_of(region);
        self.all_well.get() || self.health.failing().is_empty() && self.state().is_well_in(region, place)
    }

    /// Whether a stripe is initialised. Where this shard does not own it, it may be although it is not known to be.
    pub(crate) fn is_initialised(&self, stripe: StripeIndex) -> bool {
        self.all_well.get() || self.state().is_stripe_initialised(&self.regions, stripe)
    }

    /// How many writes redundancy did not follow so far.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.get()
    }

    /// A write is about to be executed that redundancy may not follow.
    pub(crate) fn count_gap(&self) {
        self.gaps.set(self.gaps.get() + 1);
    }
}

/// Counts itself out when dropped.
pub(crate) struct User {
    drives: Rc<Drives>,
    era: u64,
}

impl Drop for User {
    fn drop(&mut self) {
        if self.era < self.drives.era.get() {
            self.drives.users_before.set(self.drives.users_before.get() - 1);
            self.drives.left.notify(self.drives.shard.env());
        }
        let users = self.drives.users.get() - 1;
        self.drives.users.set(users);
        if users == 0 && self.drives.closing.get() {
            self.drives.shard.changed().notify(self.drives.shard.env());
        }
    }
}
