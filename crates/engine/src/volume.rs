//! A volume as one shard sees it.

use crate::attachment::{Attachment, FaultPolicy};
use crate::members::Health;
use crate::members::Members;
use crate::members::Streams;
use crate::messages::ShardIndex;
use crate::recovery::Settled;
use crate::shard::Shard;
use crate::stripe::DirtyRegions;
use crate::stripe::Flush;
use crate::stripe::Journal;
use env::locks::Mode;
use env::sync::Signal;
use env::{DriveInfo, IoError, IoErrorKind};
use layout::{Geometry, Level, Located, StripeMap};
use plan::Plan;
use state::{Change, Nothing, RegionIndex, Regions, VolumeState};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, SectorSize, StripSize, StripeIndex};

/// Names a volume among those that a controller serves; never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeId(pub u32);

/// What a volume is: the same on every shard, and never changed while it is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its number.
    pub id: VolumeId,
    /// Its name, for people.
    pub name: String,
    /// How it lies over its drives.
    pub geometry: Geometry,
    /// Its sector: the largest logical sector among its drives.
    pub sector: SectorSize,
    /// Where its data begins on every drive.
    pub data_start: ByteOffset,
    /// Bytes that hosts may use; no more than the geometry's capacity.
    pub capacity: ByteCount,
    /// When its drives go out of use for their errors, until told otherwise.
    pub policy: FaultPolicy,
}

/// What a shard has counted of a volume since it was attached.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Host requests for reading.
    pub reads: u64,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Host requests for writing, zeroes included.
    pub writes: u64,
    /// Bytes written by hosts.
    pub written_bytes: u64,
    /// Flushes asked for by hosts.
    pub flushes: u64,
    /// Requests that took the fast path.
    pub fast_path: u64,
    /// Times that a fault before the commit made a piece be planned again.
    pub replans: u64,
    /// Host requests that failed.
    pub errors: u64,
    /// Stripes that the resync has passed.
    pub resynced_stripes: u64,
    /// Runs of blocks that a drive could not read and that were written anew.
    pub repaired: u64,
    /// Runs of blocks whose content was lost.
    pub lost_blocks: u64,
}

/// The layout as it is served. Mirrors hold the volume as it is, so that their strip does not matter to where a
/// byte lives: a larger one makes for fewer and larger operations. It is as large as its drives, the memory that
/// one stripe may take, and whole strips allow. Regions stay what they are, as they are counted in bytes.
pub fn served(geometry: &Geometry) -> Geometry {
    if geometry.level() != Level::Raid1 {
        return *geometry;
    }
    let share = (ByteCount::MIB.0 / u64::from(geometry.drives().0.max(1))).max(1);
    let shift = share.ilog2().min(geometry.member_size().0.trailing_zeros());
    let wide = StripSize::new(ByteCount(1 << shift)).unwrap_or(geometry.strip());
    if wide.bytes() <= geometry.strip().bytes() {
        return *geometry;
    }
    geometry.shape().geometry(wide, geometry.member_size()).unwrap_or(*geometry)
}

/// A volume on one shard: its drives as this shard reaches them, and what this shard knows of its state.
pub struct Volume {
    pub(crate) shard: Shard,
    pub(crate) spec: Arc<VolumeSpec>,
    pub(crate) regions: Regions,
    pub(crate) members: Members,
    /// What is read in order, where copies share that.
    pub(crate) streams: Streams,
    pub(crate) policy: Cell<FaultPolicy>,
    /// What is recorded of it: see `changes`, which alone changes it.
    pub(crate) state: RefCell<VolumeState>,
    /// The unit that every drive writes without reading first: of one that holds a sector it cannot read, it could
    /// not write a part.
    pub(crate) repair_unit: ByteCount,
    /// Stripes that wait to be repaired.
    pub(crate) repairing: RefCell<BTreeSet<StripeIndex>>,
    /// Regions that are changing sides between the distributed spare and home, and how many tasks are at it: writes to them wait.
    pub(crate) gated: RefCell<BTreeMap<RegionIndex, u32>>,
    pub(crate) gate_opened: Signal,
    /// Whether a task resyncs unsynced regions.
    pub(crate) resyncing: Cell<bool>,
    /// How the stripes lie, for this crate: see [`served`].
    geometry: Geometry,
    pub(crate) health: Health,
    pub(crate) dirty: DirtyRegions,
    pub(crate) settled: Settled,
    pub(crate) flushing: Flush,
    pub(crate) journal: Option<Journal>,
    pub(crate) counters: Cell<Counters>,
    /// Whether every drive can be read and all redundancy agrees, so that no request needs to look further.
    pub(crate) all_well: Cell<bool>,
    pub(crate) closing: Cell<bool>,
    /// Whether hosts do not get to see it.
    pub(crate) hidden: bool,
    /// Requests and tasks that use the volume; it is detached when none is left.
    pub(crate) users: Cell<usize>,
    #[expect(
        clippy::vec_box,
        reason = "a plan is hundreds of bytes, and moves in and out of here with every I/O"
    )]
    plans: RefCell<Vec<Box<Plan>>>,
}

impl Volume {
    pub(crate) fn attach(shard: &Shard, attachment: &Attachment) -> env::Result<Rc<Volume>> {
        let env = shard.env();
        let members = Members::attach(env, attachment)?;
        let spec = attachment.spec.clone();
        let geometry = served(&spec.geometry);
        let sources = attachment.sources.iter().chain(&attachment.replacements).flatten();
        let physical = sources.map(|source| source.info().physical_sector.bytes()).max();
        let repair_unit = ByteCount(physical.unwrap_or_default().0.max(spec.sector.bytes().0));
        let regions = Regions::of(&geometry);
        let volume = Rc::new(Volume {
            shard: shard.clone(),
            regions,
            members,
            streams: Streams::new(attachment.streams),
            policy: Cell::new(spec.policy),
            state: RefCell::new(attachment.state.clone()),
            hidden: attachment.hidden,
            repair_unit,
            repairing: RefCell::default(),
            gated: RefCell::default(),
            gate_opened: Signal::default(),
            resyncing: Cell::new(false),
            geometry,
            health: Health::default(),
            dirty: DirtyRegions::new(regions.count, attachment.state.marked(), |region| {
                ShardIndex::owning(region, shard.count()) == shard.index()
            }),
            settled: Settled::default(),
            flushing: Flush::default(),
            journal: Journal::new(shard.env(), attachment.journal, &geometry, shard.index().0, shard.count()),
            counters: Cell::default(),
            all_well: Cell::new(false),
            closing: Cell::new(false),
            users: Cell::new(0),
            plans: RefCell::default(),
            spec,
        });
        if !volume.is_redundant() {
            // Nobody marks regions there before they are written: all of them may have been.
            volume.apply(&Change::Written(attachment.state.unwritten().clone()));
        }
        volume.look_at_health();
        Ok(volume)
    }

    /// What it is.
    pub fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// The shard it was looked up on.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// What this shard has counted.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// What is recorded of it, as far as this shard has been told.
    pub fn recorded_state(&self) -> VolumeState {
        self.state().clone()
    }

    /// How its stripes lie as they are served, and into which regions they fall.
    pub fn layout(&self) -> &Regions {
        &self.regions
    }

    /// What its drives can do for a stripe, by what is recorded alone.
    pub fn recorded_health(&self, stripe: StripeIndex) -> plan::Health {
        self.state().stripe_health(&self.regions, stripe, &DriveSet::EMPTY, &Nothing)
    }

    /// Whether writes need something kept besides the data.
    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry.parity_strips() > 0 || self.geometry.copies() > 1
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where the cells of a stripe are now.
    pub(crate) fn map(&self, stripe: StripeIndex) -> StripeMap {
        self.state().map(&self.regions, stripe)
    }

    /// What lies at a byte of a drive now, be it moved there.
    pub(crate) fn locate(&self, drive: DriveIndex, offset: ByteOffset) -> Option<Located> {
        let located = self.geometry.locate(drive, offset)?;
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

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
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

    /// The columns of its stripe that a range of the stripe's data touches: what its lock covers.
    pub(crate) fn columns(&self, within: ByteRange) -> std::ops::Range<u32> {
        // Repairs look at whole units: they must lie within what is held.
        let within = within.align_out(self.repair_unit);
        let strip = self.geometry().strip().bytes().0;
        let (first, last) = (within.start.0 / strip, (within.end().0 - 1) / strip);
        if first == last {
            let base = first * strip;
            (within.start.0 - base) as u32..(within.end().0 - base) as u32
        } else {
            0..strip as u32
        }
    }

    pub(crate) async fn lock(&self, stripe: StripeIndex, mode: Mode, within: ByteRange) -> env::locks::Guard {
        let columns = self.columns(within);
        self.shard.locks().lock_columns(self.lock_key(stripe), mode, columns).await
    }

    pub(crate) fn set_policy(&self, policy: FaultPolicy) {
        self.policy.set(policy);
        for drive in self.geometry().drives().indexes() {
            if let Some(member) = self.members.get(drive) {
                member.set_time_limit(policy.time_limit);
            }
        }
    }

    /// Works out anew whether requests may take the fast path.
    pub(crate) fn look_at_health(&self) {
        self.all_well.set(self.state().is_optimal() && self.health.failing().is_empty());
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
        Ok(User { volume: self.clone() })
    }
}

/// Counts itself out when dropped.
pub(crate) struct User {
    volume: Rc<Volume>,
}

impl Drop for User {
    fn drop(&mut self) {
        let users = self.volume.users.get() - 1;
        self.volume.users.set(users);
        if users == 0 && self.volume.closing.get() {
            self.volume.shard.changed().notify(self.volume.shard.env());
        }
    }
}
