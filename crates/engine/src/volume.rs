//! What a volume is, and what a shard counts of it.

use layout::{Geometry, Level};
use platform::{LimitsByClass, Tally, TallyRow, Traffic};
use units::{ByteCount, ByteOffset, SectorSize, StripSize};

/// Names a volume among those that a controller serves; never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeId(pub u32);

/// When a drive goes out of use for its errors. A drive that is gone goes out at once; one that does not answer in time, or cannot write, if
/// the level can spare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPolicy {
    /// How long drives may take for one operation.
    pub limits: LimitsByClass,
    /// A drive goes out, if the level can spare it, when one shard has met this many unreadable places on it that
    /// could not be repaired by writing them anew; zero: never.
    pub unrepaired_limit: u32,
}

impl Default for FaultPolicy {
    fn default() -> FaultPolicy {
        FaultPolicy { limits: LimitsByClass::default(), unrepaired_limit: 100 }
    }
}

/// What a volume is: the same on every shard, and never changed while it is served (but for its name).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its number.
    pub id: VolumeId,
    /// Its name when it was attached: it may get another one ([`Volume::name`](crate::Volume)).
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

/// What is counted of a volume besides what hosts ask of it ([`VolumeMeter::traffic`]).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Writes to a stripe that went to its drives together with others, by one plan.
    pub joined_writes: u64,
    /// Requests that took the fast path.
    pub fast_path: u64,
    /// Times that a fault before the commit made a stripe request be planned again.
    pub replans: u64,
    /// Stripes that the resync has passed.
    pub resynced_stripes: u64,
    /// Runs of blocks that a drive could not read and that were written anew.
    pub repaired: u64,
    /// Runs of blocks whose content was lost.
    pub lost_blocks: u64,
    /// Writes of hosts that did not begin and end at whole multiples of [`ALIGNMENT`].
    pub unaligned_writes: u64,
}

/// What writes of hosts should begin and end at multiples of: the largest sector that drives have.
pub const ALIGNMENT: ByteCount = ByteCount(4096);

impl Counters {
    const NUMBERS: usize = 7;

    fn numbers(self) -> [u64; Counters::NUMBERS] {
        let Counters { joined_writes, fast_path, replans, resynced_stripes, .. } = self;
        let Counters { repaired, lost_blocks, unaligned_writes, .. } = self;
        [joined_writes, fast_path, replans, resynced_stripes, repaired, lost_blocks, unaligned_writes]
    }

    /// From as many numbers; those that are not there are zero.
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

/// What all shards count of a volume for as long as its owner keeps this: it goes on when the volume is attached anew. Anybody may
/// read it, and no shard is asked for it. Clones are the same.
#[derive(Clone, Debug)]
pub struct VolumeMeter {
    /// What hosts ask of it.
    pub traffic: Traffic,
    counters: Tally,
}

impl Default for VolumeMeter {
    fn default() -> VolumeMeter {
        VolumeMeter { traffic: Traffic::default(), counters: Tally::new(Counters::NUMBERS) }
    }
}

impl VolumeMeter {
    /// What else is counted of it.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.counters.sums())
    }

    /// For a shard that begins to serve it.
    pub(crate) fn join(&self) -> CounterRow {
        CounterRow { row: self.counters.row() }
    }
}

/// What one shard has counted of a volume.
pub(crate) struct CounterRow {
    row: TallyRow,
}

impl CounterRow {
    /// Counts up by what `more` makes of zeroes.
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

/// The most memory that one stripe of a layout can need.
pub(crate) fn worst_scratch(geometry: &Geometry) -> ByteCount {
    let cells = u64::from(geometry.drives().0) + u64::from(geometry.parity_strips()) + 1;
    geometry.strip().bytes() * cells
}
