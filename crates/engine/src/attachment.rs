//! What a shard needs to serve a volume: what it is, its drives, and what is known of it.

use crate::memory::CacheTerms;
use crate::volume::{VolumeId, VolumeMeter, VolumeSpec};
use ondisk::{TailPlace, Uuid};
use platform::{DriveSource, HostSectors, Slice};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};
use volume_state::{Moved, Reshape, VolumeState, Window};

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

/// The sectors that hosts of a volume are told of, if they are not those of its drives. Its owner may change it while shards serve the
/// volume: hosts that connect from then on are told so. Clones are the same.
#[derive(Clone, Default, Debug)]
pub struct ToldSectors(Arc<AtomicU8>);

impl ToldSectors {
    const SET: u8 = 1;
    const LARGE_LOGICAL: u8 = 2;
    const LARGE_PHYSICAL: u8 = 4;

    /// Tells hosts of these from now on; `None`: of those that the drives have.
    pub fn set(&self, sectors: Option<HostSectors>) {
        let bit = |size: SectorSize, bit: u8| if size == SectorSize::B4096 { bit } else { 0 };
        let bits = sectors.map_or(0, |HostSectors { logical, physical }| {
            Self::SET | bit(logical, Self::LARGE_LOGICAL) | bit(physical, Self::LARGE_PHYSICAL)
        });
        self.0.store(bits, Ordering::Relaxed);
    }

    /// What hosts are told of, if it is not what the drives have.
    pub(crate) fn get(&self) -> Option<HostSectors> {
        let bits = self.0.load(Ordering::Relaxed);
        let size = |bit: u8| if bits & bit == 0 { SectorSize::B512 } else { SectorSize::B4096 };
        let (logical, physical) = (size(Self::LARGE_LOGICAL), size(Self::LARGE_PHYSICAL));
        (bits & Self::SET != 0).then_some(HostSectors { logical, physical })
    }
}

/// Those who have it closed are counted from this bit on, those who write below it.
const CLOSED: u64 = 1 << 32;

/// Who writes a volume beside the owners of its stripes, on all shards, and who has that closed. Clones are the same.
#[derive(Clone, Default, Debug)]
pub struct BesideOwners(Arc<AtomicU64>);

/// A write beside the owner; dropping ends it.
pub(crate) struct Beside(BesideOwners);

/// Nobody writes beside the owners until this is dropped.
#[derive(Debug)]
pub(crate) struct Closed(BesideOwners);

impl BesideOwners {
    /// Begins a write. `None`: it is closed.
    pub(crate) fn begin(&self) -> Option<Beside> {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        let beside = Beside(self.clone());
        (before < CLOSED).then_some(beside)
    }

    /// Nobody begins from now on; some may still be writing.
    pub(crate) fn close(&self) -> Closed {
        self.0.fetch_add(CLOSED, Ordering::SeqCst);
        Closed(self.clone())
    }

    /// Whether somebody is still writing.
    pub(crate) fn is_written(&self) -> bool {
        !self.0.load(Ordering::SeqCst).is_multiple_of(CLOSED)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.0.fetch_sub(CLOSED, Ordering::SeqCst);
    }
}

/// Where a volume's journal lies, and what its records are called until the next start.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    /// The identity that its records carry.
    pub id: Uuid,
    /// Its length.
    pub len: ByteCount,
    /// What it lies on.
    pub on: JournalOn,
}

/// What a journal lies on.
#[derive(Clone, Debug)]
pub enum JournalOn {
    /// The members of the volume: each has the same room for it, and a record is on one more of them than a span may lose.
    Members {
        /// From the beginning of the room that all journals have on a member.
        at: ByteCount,
        /// Where the tail of each member is, in which that room lies.
        tail: TailPlace,
    },
    /// Devices of their own: a record is on all of them.
    Devices {
        /// From the beginning of each device.
        at: ByteOffset,
        /// The devices: one, or several with the same on each.
        devices: Vec<LogDevice>,
    },
}

/// Where a volume's data log lies: what its hosts were told is durable, before its drives have it.
#[derive(Clone, Debug)]
pub struct DataLogPlace {
    /// The identity that its records carry.
    pub id: Uuid,
    /// From the beginning of each device.
    pub at: ByteOffset,
    /// Its length.
    pub len: ByteCount,
    /// The devices: one, or several with the same on each.
    pub devices: Vec<LogDevice>,
}

/// By what a volume's flushes are answered.
#[derive(Clone, Default, Debug)]
pub enum DataLogTerms {
    /// By destaging what is dirty, and a flush of the drives.
    #[default]
    None,
    /// The same, but not before records of an earlier data log do not count any more.
    Unfenced,
    /// By records there.
    At(DataLogPlace),
}

/// A device that has journals and data logs, and no data of volumes.
#[derive(Clone)]
pub struct LogDevice {
    /// Its identity.
    pub id: Uuid,
    /// The way to it.
    pub source: Arc<dyn DriveSource>,
}

impl fmt::Debug for LogDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogDevice({})", self.id)
    }
}

/// What a volume does with its reads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadTerms {
    /// Streams of reads are read ahead.
    pub read_ahead: bool,
    /// What was read is kept, as long as there is room, for whoever asks for it again.
    pub cached: bool,
    /// How far ahead of a stream is read at most; `None`: as far as keeps the drives busy.
    pub most_ahead: Option<ByteCount>,
}

impl ReadTerms {
    /// Whether anything is kept.
    pub fn keeps_any(&self) -> bool {
        self.read_ahead || self.cached
    }
}

/// How a volume goes to another layout. All three volumes are attached, those beside it hidden: to hosts they are one.
#[derive(Clone, Debug)]
pub struct ReshapePlace {
    /// Which bytes go in which order.
    pub reshape: Reshape,
    /// How far it is by what is recorded.
    pub moved: Moved,
    /// The volume by the new layout, over the same data area of each drive, all of it synced.
    pub to: VolumeId,
    /// Where windows are saved: the new layout once more, in a place of its own on each drive.
    pub save: VolumeId,
}

/// Where a window is read, and where it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyWay {
    /// By the old layout, to where it is saved.
    Save,
    /// By the old layout, to where it lies by the new one.
    Move,
    /// From where it is saved, to where it lies by the new layout.
    MoveSaved,
}

/// A step of a reshape ([`volume_state::Step`]), as shards are told it. Each is answered by every shard before the next one is given.
#[derive(Clone, Debug)]
pub enum ReshapeOrder {
    /// The volume is served by two layouts from now on, and hosts get to see it. What is saved is read where it is saved; who writes it waits
    /// until it is moved. Answered when no request is under way that was begun before.
    Begin(Box<ReshapePlace>),
    /// Take the memory that copying so much needs, and keep it until [`ReshapeOrder::Open`] or [`ReshapeOrder::Leave`]. For the shard that copies, before
    /// anything is closed: hosts that wait for a window hold memory, and it may be all there is.
    Reserve(ByteCount),
    /// Hosts wait that ask for the window. Answered when no request to it is under way here. What caches have of it is to be drained
    /// then ([`ShardMessage::Drain`](crate::ShardMessage::Drain)).
    Close(Window),
    /// The window is about to be written by the new layout: it is saved, or it lies over nothing that is needed. Answered when nobody is at old
    /// stripes any more that it is written over.
    Free {
        /// The window.
        window: Window,
        /// Whether it is read from where it is saved.
        is_saved: bool,
    },
    /// Copy the window, and flush the drives. For one shard: it reads and writes through those that own the stripes.
    Copy(Window, CopyWay),
    /// The window lies where it is to be, and stays as it is: its old stripes go out of use, and the drives are flushed. Refused where anything of it
    /// is not whole.
    Keep(Window),
    /// Hosts may ask for everything; so many bytes are served by the new layout.
    Open(ByteCount),
    /// A step failed, and nobody goes on with what is closed for now: hosts do not wait. They read it where it is whole, and writes fail.
    Leave {
        /// It is whole where it is saved; otherwise by the old layout.
        is_saved: bool,
    },
    /// Nothing has moved, and nothing is to be: the volume is served by the old layout alone from now on, which it is already if it never was
    /// by both. Hosts notice nothing.
    TakeBack,
    /// All is moved, and these stripes of the new layout, as it is recorded, are about to be filled: they are in use from now on.
    Widen(Range<u64>),
    /// Fill stripes of it that nothing was moved to with zeroes, so that their redundancy agrees, and flush the drives. For one shard.
    Fill(Range<u64>),
}

/// Everything a shard needs to serve a volume.
#[derive(Clone)]
pub struct Attachment {
    /// What it is.
    pub spec: Arc<VolumeSpec>,
    /// Its drives by slot; `None` where one is missing.
    pub sources: Vec<Option<Arc<dyn DriveSource>>>,
    /// By slot, drives that are being filled with the content of the slot's drive while that one serves. May be
    /// shorter than the slots are many.
    pub replacements: Vec<Option<Arc<dyn DriveSource>>>,
    /// What is known of it.
    pub state: VolumeState,
    /// Where writes are kept before they are done, if they are.
    pub journal: Option<JournalPlace>,
    /// Whether stripes that are not initialised are, in the background.
    pub initialises: bool,
    /// Whether hosts do not get to see it: it is being initialised as a whole.
    pub hidden: bool,
    /// The sectors that its hosts are told of.
    pub told: ToldSectors,
    /// Its stripes that are in use: all, but on the way to another layout. Nothing is ever read or written where another one would be.
    pub live: Range<u64>,
    /// How copies share a stream.
    pub streams: StreamSharing,
    /// What it has of the cache.
    pub cache: CacheTerms,
    /// What it does with its reads.
    pub reads: ReadTerms,
    /// By what its flushes are answered. A data log is opened once the volume is attached
    /// ([`SetDataLog`](crate::ShardMessage::SetDataLog)), not by this.
    pub data_log: DataLogTerms,
    /// What was found in its data log after a power cut: bytes of the volume that are to be laid over what its drives hold, of whole
    /// sectors, no two of the same. Its cache absorbs nothing then ([`Absorb::NoMore`](crate::Absorb::NoMore)).
    pub restored: Arc<Vec<(ByteRange, Slice)>>,
    /// Where shards count what they do for it.
    pub meter: VolumeMeter,
    /// Which shards write to stripes that others own: the same for all that it is given to.
    pub beside: BesideOwners,
}

impl Attachment {
    /// A volume over these drives, of which this is known.
    pub fn new(
        spec: Arc<VolumeSpec>,
        sources: Vec<Option<Arc<dyn DriveSource>>>,
        state: VolumeState,
    ) -> Attachment {
        let cache = CacheTerms::none(spec.id);
        Attachment {
            spec,
            sources,
            replacements: Vec::new(),
            state,
            journal: None,
            initialises: false,
            hidden: false,
            told: ToldSectors::default(),
            live: 0..u64::MAX,
            streams: StreamSharing::default(),
            cache,
            reads: ReadTerms::default(),
            data_log: DataLogTerms::None,
            restored: Arc::default(),
            meter: VolumeMeter::default(),
            beside: BesideOwners::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_begins_while_it_is_closed_and_who_has_begun_is_seen() {
        let owners = BesideOwners::default();
        let first = owners.begin();
        let (one, other) = (owners.close(), owners.clone().close());
        assert!(first.is_some() && owners.is_written() && owners.begin().is_none());
        drop(first);
        assert!(!owners.is_written());
        drop(one);
        assert!(owners.begin().is_none(), "somebody else has it closed");
        drop(other);
        assert!(owners.begin().is_some());
        assert!(!owners.is_written(), "it ended at once");
    }
}
