//! The description of a volume, and a shard's counters for it.

use layout::{Geometry, Level};
use platform::{LimitsByClass, Tally, TallyRow, Traffic};
use units::{ByteCount, ByteOffset, SectorSize, StripSize};

/// Identifies a volume of a controller; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeId(pub u32);

/// When errors take a drive out of use. A drive that is gone fails at once; one that does not
/// respond in time, or cannot write, fails if the level tolerates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPolicy {
    /// Time limits for drive operations.
    pub limits: LimitsByClass,
    /// A drive fails, if the level tolerates it, when one shard has met this many unreadable places
    /// on it that rewriting did not repair; zero: never.
    pub unrepaired_limit: u32,
}

impl Default for FaultPolicy {
    fn default() -> FaultPolicy {
        FaultPolicy { limits: LimitsByClass::default(), unrepaired_limit: 100 }
    }
}

/// The description of a volume: the same on every shard, and constant while it is served (except
/// for its name).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its number.
    pub id: VolumeId,
    /// Its name when it was attached; it may be renamed ([`Volume::name`](crate::Volume)).
    pub name: String,
    /// Its layout on the drives.
    pub geometry: Geometry,
    /// Its sector: the largest logical sector among its drives.
    pub sector: SectorSize,
    /// The offset of its data on every drive.
    pub data_start: ByteOffset,
    /// Its capacity for hosts; no more than the geometry's capacity.
    pub capacity: ByteCount,
    /// Its initial fault policy.
    pub policy: FaultPolicy,
}

/// Counters of a volume, except host requests ([`VolumeMeter::traffic`]).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Stripe writes that shared a plan with others.
    pub joined_writes: u64,
    /// Requests that took the fast path.
    pub fast_path: u64,
    /// New plans for a stripe request after a fault before the commit.
    pub replans: u64,
    /// Stripes that the resync has processed.
    pub resynced_stripes: u64,
    /// Runs of unreadable blocks that were rewritten.
    pub repaired: u64,
    /// Runs of blocks with lost content.
    pub lost_blocks: u64,
    /// Host writes that did not begin and end at multiples of [`ALIGNMENT`].
    pub unaligned_writes: u64,
}

/// Host writes should begin and end at multiples of this: the largest sector size of drives.
pub const ALIGNMENT: ByteCount = ByteCount(4096);

impl Counters {
    const NUMBERS: usize = 7;

    fn numbers(self) -> [u64; Counters::NUMBERS] {
        let Counters { joined_writes, fast_path, replans, resynced_stripes, .. } = self;
        let Counters { repaired, lost_blocks, unaligned_writes, .. } = self;
        [
            joined_writes,
            fast_path,
            replans,
            resynced_stripes,
            repaired,
            lost_blocks,
            unaligned_writes,
        ]
    }

    /// From a list of numbers; missing ones are zero.
    fn of(numbers: &[u64]) -> Counters {
        let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
        Counters {
            joined_writes: at(0),
            fast_path: at(1),
            replans: at(2),
            resynced_stripes: at(3),
            repaired: at(4),
            lost_blocks: at(5),
            unaligned_writes: at(6),
        }
    }
}

/// The counters of all shards for a volume while its owner keeps this: they continue when the
/// volume is attached anew. Reads need no shard. Clones share their state.
#[derive(Clone, Debug)]
pub struct VolumeMeter {
    /// Counters of host requests.
    pub traffic: Traffic,
    counters: Tally,
}

impl Default for VolumeMeter {
    fn default() -> VolumeMeter {
        VolumeMeter { traffic: Traffic::default(), counters: Tally::new(Counters::NUMBERS) }
    }
}

impl VolumeMeter {
    /// The other counters.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.counters.sums())
    }

    /// For a shard that begins to serve it.
    pub(crate) fn join(&self) -> CounterRow {
        CounterRow { row: self.counters.row() }
    }
}

/// One shard's counters for a volume.
pub(crate) struct CounterRow {
    row: TallyRow,
}

impl CounterRow {
    /// Adds the result of `more` on zero counters.
    #[inline]
    pub(crate) fn count(&self, more: impl FnOnce(&mut Counters)) {
        let mut counters = Counters::default();
        more(&mut counters);
        for (index, more) in counters.numbers().into_iter().enumerate() {
            if more > 0 {
                self.row.add(index, more);
            }
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters::of(&self.row.counted())
    }
}

/// The layout as served. The strip of a mirror does not affect the place of a byte; a larger one
/// allows fewer and larger operations. It is as large as the drives, the memory limit per stripe,
/// and whole strips allow. Regions stay the same, as they are counted in bytes.
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

/// The most memory for one stripe of a layout.
pub(crate) fn worst_scratch(geometry: &Geometry) -> ByteCount {
    let cells = u64::from(geometry.drives().0) + u64::from(geometry.parity_strips()) + 1;
    geometry.strip().bytes() * cells
}
