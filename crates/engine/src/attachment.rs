//! What a shard is told of a volume's drives: which there are, which may be used, what is wrong with them.

use crate::journal::JournalPlace;
use crate::punctured::PuncturedBlocks;
use crate::regions::RegionSet;
use crate::volume::VolumeSpec;
use env::DriveSource;
use std::sync::Arc;
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// Which drives of a volume may be read and written, as the controller has made it durable. In regions that are
/// stale on a drive it is neither, whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthView {
    /// Drives that hold what they should.
    pub readable: DriveSet,
    /// Drives that are written.
    pub writable: DriveSet,
}

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

/// How drives that rotate share a stream of reads that all of them have a copy of, and that is deeper than one of them
/// needs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum StreamSharing {
    /// Each has a long run of it in turn: together they read it as fast as they can.
    #[default]
    Runs,
    /// Request by request, to whoever has the fewest: each passes over what the others read, which takes as long as
    /// reading it. Some controllers do so.
    Requests,
}

/// Where a failed drive's cells live in the distributed spare (RAID 5EE).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// The drive that failed.
    pub slot: DriveIndex,
    /// Regions in which its cells have been moved into the spare cells.
    pub regions: RegionSet,
}

/// Everything a shard needs to serve a volume.
#[derive(Clone)]
pub struct Attachment {
    /// What it is.
    pub spec: Arc<VolumeSpec>,
    /// Its drives by slot; `None` where one is missing.
    pub sources: Vec<Option<Arc<dyn DriveSource>>>,
    /// Which of them may be used.
    pub health: HealthView,
    /// By slot, drives that are being filled with the content of the slot's drive while that one serves. May be
    /// shorter than the slots are many.
    pub replacements: Vec<Option<Arc<dyn DriveSource>>>,
    /// By slot, regions in which the drive's content is not current; where it is not among `health.writable`,
    /// that goes without saying. May be shorter than the slots are many.
    pub stale: Vec<RegionSet>,
    /// By slot, blocks whose content is lost. May be shorter than the slots are many.
    pub punctured: Vec<PuncturedBlocks>,
    /// Regions whose redundancy may not agree with their data.
    pub unsynced: RegionSet,
    /// Those among them of which an operator forces what it says of the drives that are missing now (out, or stale
    /// there). What is left of it is made to agree by the resync.
    pub forced: RegionSet,
    /// Whether what is forced is so because the journal was replayed: then it is about every drive, whichever goes out.
    pub covered: bool,
    /// Where writes are kept before they are done, if they are.
    pub journal: Option<JournalPlace>,
    /// Regions that are marked dirty in the durable write-intent map.
    pub dirty: RegionSet,
    /// Regions that were never written since the volume was made: they hold zeroes on every drive that is not stale
    /// there, and need no resync, no rebuild, no check.
    pub unwritten: RegionSet,
    /// What is in the distributed spare.
    pub relocated: Option<Relocated>,
    /// Whether hosts do not get to see it: it is being initialised as a whole.
    pub hidden: bool,
    /// How copies share a stream.
    pub streams: StreamSharing,
}

impl Attachment {
    /// A volume over these drives with which nothing is wrong but what `health` says: no region is marked, none
    /// is unsynced.
    pub fn new(
        spec: Arc<VolumeSpec>,
        sources: Vec<Option<Arc<dyn DriveSource>>>,
        health: HealthView,
    ) -> Attachment {
        Attachment {
            spec,
            sources,
            health,
            replacements: Vec::new(),
            stale: Vec::new(),
            punctured: Vec::new(),
            unsynced: RegionSet::EMPTY,
            forced: RegionSet::EMPTY,
            covered: false,
            journal: None,
            dirty: RegionSet::EMPTY,
            unwritten: RegionSet::EMPTY,
            relocated: None,
            hidden: false,
            streams: StreamSharing::default(),
        }
    }
}

/// Another drive, or none, in a slot of a volume that is served.
///
/// Writes may be under way that were planned without the new drive. So `stale` must hold at least every region
/// that is marked dirty or may be marked until every shard has answered, and of a drive that is new every region there
/// is: what it holds is anything, where nobody wrote too. That has to be durable before.
///
/// Blocks of the slot that are lost stay so, whoever has it: no drive brings back what was given up.
#[derive(Clone)]
pub struct MemberChange {
    /// Which slot.
    pub slot: DriveIndex,
    /// Its drive from now on.
    pub source: Option<Arc<dyn DriveSource>>,
    /// Regions in which it is not current.
    pub stale: RegionSet,
    /// Which drives may be used from now on.
    pub health: HealthView,
}
