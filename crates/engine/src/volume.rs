//! What a volume is, and what a shard counts of it.

use layout::{Geometry, Level};
use std::time::Duration;
use units::{ByteCount, ByteOffset, SectorSize, StripSize};

/// Names a volume among those that a controller serves; never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeId(pub u32);

/// When a drive goes out of use for its errors. A drive that is gone or does not answer in time goes out at
/// once, and so does one that cannot write, if the level can spare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPolicy {
    /// How long a drive may take for one operation.
    pub time_limit: Duration,
    /// A drive goes out, if the level can spare it, when one shard has met this many unreadable places on it that
    /// could not be repaired by writing them anew; zero: never.
    pub unrepaired_limit: u32,
}

impl Default for FaultPolicy {
    fn default() -> FaultPolicy {
        FaultPolicy { time_limit: env::DEFAULT_TIME_LIMIT, unrepaired_limit: 100 }
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
    /// Writes to a stripe that went to its drives together with others, by one plan.
    pub joined_writes: u64,
    /// Flushes asked for by hosts.
    pub flushes: u64,
    /// Requests that took the fast path.
    pub fast_path: u64,
    /// Times that a fault before the commit made a stripe request be planned again.
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
