//! The drives of a volume on one shard, and the volume's state there.

use crate::attachment::{Attachment, BesideOwners, Closed};
use crate::members::streams::Streams;
use crate::members::{Health, Members, Settled};
use crate::messages::ShardIndex;
use crate::shard::Resources;
use crate::volume::{CounterRow, Counters, FaultPolicy, VolumeSpec, served};
use layout::{Geometry, Located, StripeMap};
use platform::sync::Signal;
use platform::{DriveInfo, IoError, IoErrorKind, Member};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};
use volume_state::{Change, RegionIndex, Regions, VolumeState};

/// The drives of a volume and the volume's state on this shard: the lowest layer.
pub struct Drives {
    pub(crate) shard: Resources,
    pub(crate) spec: Arc<VolumeSpec>,
    /// Its current name.
    name: RefCell<Rc<str>>,
    /// The layout of the stripes as served ([`served`]), and their regions.
    pub(crate) regions: Regions,
    pub(crate) members: Members,
    /// Sequential streams, for copies that share them.
    pub(super) streams: Streams,
    pub(super) policy: Cell<FaultPolicy>,
    /// The recorded state of the volume; only `changes` changes it.
    pub(super) state: RefCell<VolumeState>,
    pub(super) health: Health,
    /// Stripes of stale-parity regions whose redundancy agrees again.
    pub(crate) settled: Settled,
    /// The number of writes without an update of redundancy.
    gaps: Cell<u64>,
    /// The unit that every drive writes without a read first: a drive could not write a part of a
    /// unit that contains an unreadable sector.
    pub(crate) repair_unit: ByteCount,
    counters: CounterRow,
    /// Whether every drive can be read and all redundancy agrees, so that requests need no further
    /// check.
    pub(crate) all_well: Cell<bool>,
    /// Non-owner writes, on all shards.
    pub(crate) beside: BesideOwners,
    /// Closes them while there is a fault here: other shards may not know of it yet.
    beside_closed: RefCell<Option<Closed>>,
    pub(crate) closing: Cell<bool>,
    /// The stripes in use: all, except during a reshape.
    live: Cell<(u64, u64)>,
    /// Requests and tasks that use the volume; it is detached when there are none.
    pub(crate) users: Cell<usize>,
    /// The epoch, which rises when a caller waits for earlier users, and the number of these left.
    era: Cell<u64>,
    users_before: Cell<usize>,
    left: Signal,
}

impl Drives {
    pub(crate) fn attach(
        shard: &Resources,
        attachment: &Attachment,
    ) -> platform::Result<Rc<Drives>> {
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
            // Regions there are not marked before writes: all of them may have been written.
            drives.apply(&Change::Written(attachment.state.unwritten().clone()));
        }
        drives.geometry().drives().indexes().for_each(|slot| drives.watch_over(slot));
        drives.look_at_health();
        Ok(drives)
    }

    /// Its description.
    pub fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// Its current name.
    pub fn name(&self) -> Rc<str> {
        self.name.borrow().clone()
    }

    /// Renames it; its users continue.
    pub(crate) fn rename(&self, name: &str) {
        *self.name.borrow_mut() = name.into();
    }

    /// Its recorded state, as last reported to this shard.
    pub fn recorded_state(&self) -> VolumeState {
        self.state().clone()
    }

    /// The layout of its stripes as served, and their regions.
    pub fn layout(&self) -> &Regions {
        &self.regions
    }

    /// The drives' health for a plan in a stripe, by the recorded state alone.
    pub fn planned_health(&self, stripe: StripeIndex) -> plan::Health {
        self.state().planned_health(&self.regions, stripe)
    }

    /// Whether writes must update parity or copies.
    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry().parity_strips() > 0 || self.geometry().copies() > 1
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.regions.geometry()
    }

    /// The current place of a stripe's strips.
    pub(crate) fn map(&self, stripe: StripeIndex) -> StripeMap {
        self.state().map(&self.regions, stripe)
    }

    /// The data at a byte of a drive, including data moved there.
    pub(crate) fn locate(&self, drive: DriveIndex, offset: ByteOffset) -> Option<Located> {
        let located = self.geometry().locate(drive, offset)?;
        if self.relocated_in(self.region_of(located.stripe)).is_none() {
            return Some(located);
        }
        let cell_starts = ByteOffset(offset.0 - located.within.0);
        let mut cells = self.map(located.stripe).cells();
        let (_, role) =
            cells.find(|(cell, _)| cell.drive == drive && cell.offset == cell_starts)?;
        Some(Located { role, ..located })
    }

    /// The drive whose strips of a region are in the distributed spare.
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

    /// The drive in a slot, for an operation that starts now.
    pub(crate) fn member(&self, drive: DriveIndex) -> Result<Rc<Member>, IoError> {
        self.members.get(drive).ok_or(IoError::new(IoErrorKind::Gone))
    }

    /// Properties that a drive of the volume reports.
    pub fn drive_info(&self, drive: DriveIndex) -> Option<DriveInfo> {
        self.members.get(drive).map(|member| member.info().clone())
    }

    /// The offset on the raw drive of a byte in a drive's data area.
    pub(crate) fn raw(&self, offset: ByteOffset) -> ByteOffset {
        self.spec.data_start + ByteCount(offset.0)
    }

    /// The current health of one stripe. `unreadable`: drives with a medium error in it.
    pub(crate) fn stripe_health(&self, stripe: StripeIndex, unreadable: &DriveSet) -> plan::Health {
        self.state().stripe_health(&self.regions, stripe, unreadable, self)
    }

    /// Checks the invariants of drives and state. An error describes a defect of the engine.
    ///
    /// # Errors
    /// The message.
    pub(crate) fn check_drives(&self) -> Result<(), String> {
        let state = self.state();
        state.check()?;
        if self.all_well.get() && !(state.is_optimal() && self.health.failing().is_empty()) {
            return Err("requests may take the fast path, although there is a fault".into());
        }
        if !self.health.failing().minus(&state.in_service()).is_empty() {
            return Err(format!(
                "drives {:?} are out of service and marked as failing",
                self.health.failing()
            ));
        }
        let current = |slot: &DriveIndex| {
            let being_filled = self.members.regions_being_filled(*slot);
            being_filled.into_iter().find(|region| !self.stale_regions(*slot).contains(*region))
        };
        match self.geometry().drives().indexes().find_map(|slot| Some((slot, current(&slot)?))) {
            Some((slot, region)) => Err(format!(
                "drive {} has a window in region {}, where it is current",
                slot.0, region.0
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn set_policy(&self, policy: FaultPolicy) {
        self.policy.set(policy);
        for drive in self.geometry().drives().indexes() {
            let replacement =
                self.members.replacement(drive).map(|replacement| replacement.member.clone());
            for member in self.members.get(drive).into_iter().chain(replacement) {
                member.set_limits(&policy.limits);
            }
        }
    }

    /// Updates whether requests may take the fast path, and whether other shards may do non-owner
    /// writes.
    pub(crate) fn look_at_health(&self) {
        let all_well = self.state().is_optimal() && self.health.failing().is_empty();
        self.all_well.set(all_well);
        let mut closed = self.beside_closed.borrow_mut();
        if closed.is_none() != (all_well || self.is_redundant()) {
            *closed = closed.is_none().then(|| self.beside.close());
        }
    }

    /// Counts a request or task as a user; the volume is not detached while it has users.
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

    /// Done when all earlier users have left. Only one caller may wait at a time.
    pub(crate) async fn others_left(&self) {
        self.users_before.set(self.users.get());
        self.era.set(self.era.get() + 1);
        self.left.wait_until(self.shard.env(), || self.users_before.get() == 0).await;
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.count(change);
    }

    /// The counters of this shard since the volume was attached.
    pub fn counters(&self) -> Counters {
        self.counters.counters()
    }

    /// Whether a stripe is in use. The place of another stripe belongs to another layout, and must
    /// not be touched. The result is valid while the caller holds the stripe.
    pub(crate) fn is_live(&self, stripe: StripeIndex) -> bool {
        self.live().contains(&stripe.0)
    }

    /// The stripes in use.
    pub(crate) fn live(&self) -> std::ops::Range<u64> {
        let (start, end) = self.live.get();
        start..end
    }

    /// Sets the stripes in use. Returns the previous range.
    pub(crate) fn set_live(&self, live: std::ops::Range<u64>) -> std::ops::Range<u64> {
        let before = self.live();
        self.live.set((live.start, live.end));
        before
    }

    /// The stripes of a region that exist and are in use.
    pub(crate) fn stripes_of(&self, region: RegionIndex) -> std::ops::Range<u64> {
        let std::ops::Range { start, end } = self.regions.stripes_of(region);
        let (first, last) = self.live.get();
        let start = start.max(first.min(end));
        start..end.min(self.geometry().stripes().0).min(last).max(start)
    }

    /// Whether a region has no fault, so that a request to an initialised stripe of it needs no
    /// further check.
    pub(crate) fn is_well(&self, region: RegionIndex) -> bool {
        let place = || self.regions.place_of(region);
        self.all_well.get()
            || self.health.failing().is_empty() && self.state().is_well_in(region, place)
    }

    /// Whether a stripe is known to be initialised. A stripe of another shard may be initialised
    /// without that being known here.
    pub(crate) fn is_initialised(&self, stripe: StripeIndex) -> bool {
        self.all_well.get() || self.state().is_stripe_initialised(&self.regions, stripe)
    }

    /// The number of writes so far without an update of redundancy.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.get()
    }

    /// Counts a write whose redundancy may not be updated.
    pub(crate) fn count_gap(&self) {
        self.gaps.set(self.gaps.get() + 1);
    }
}

/// A user; dropping ends its count.
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
