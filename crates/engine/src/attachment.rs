//! What a shard needs to serve a volume: its description, its drives, and its recorded state.

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

/// How rotating drives share a stream of reads that is deeper than one drive needs, when each has a
/// copy of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum StreamSharing {
    /// Each drive reads a long run in turn: together they read at full sequential speed.
    #[default]
    Runs,
    /// Each request goes to the drive with the fewest requests. Each drive skips what the others
    /// read, which takes as long as reading it. Some controllers do this.
    Requests,
}

/// The sector sizes that a volume advertises to hosts, if they differ from those of its drives.
/// They may change while shards serve the volume; hosts that connect later see the new ones. Clones
/// share their state.
#[derive(Clone, Default, Debug)]
pub struct ToldSectors(Arc<AtomicU8>);

impl ToldSectors {
    const SET: u8 = 1;
    const LARGE_LOGICAL: u8 = 2;
    const LARGE_PHYSICAL: u8 = 4;

    /// Advertises these sectors to hosts that connect from now on; `None`: those of the drives.
    pub fn set(&self, sectors: Option<HostSectors>) {
        let bit = |size: SectorSize, bit: u8| if size == SectorSize::B4096 { bit } else { 0 };
        let bits = sectors.map_or(0, |HostSectors { logical, physical }| {
            Self::SET | bit(logical, Self::LARGE_LOGICAL) | bit(physical, Self::LARGE_PHYSICAL)
        });
        self.0.store(bits, Ordering::Relaxed);
    }

    /// The advertised sectors, if they differ from those of the drives.
    pub(crate) fn get(&self) -> Option<HostSectors> {
        let bits = self.0.load(Ordering::Relaxed);
        let size = |bit: u8| if bits & bit == 0 { SectorSize::B512 } else { SectorSize::B4096 };
        let (logical, physical) = (size(Self::LARGE_LOGICAL), size(Self::LARGE_PHYSICAL));
        (bits & Self::SET != 0).then_some(HostSectors { logical, physical })
    }
}

/// Closures are counted from this bit on, writes in progress below it.
const CLOSED: u64 = 1 << 32;

/// Non-owner writes to a volume on all shards, and whether they are closed. Clones share their
/// state.
#[derive(Clone, Default, Debug)]
pub struct BesideOwners(Arc<AtomicU64>);

/// A non-owner write in progress; dropping ends it.
pub(crate) struct Beside(BesideOwners);

/// No non-owner write begins until this is dropped.
#[derive(Debug)]
pub(crate) struct Closed(BesideOwners);

impl BesideOwners {
    /// Begins a write. `None`: non-owner writes are closed.
    pub(crate) fn begin(&self) -> Option<Beside> {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        let beside = Beside(self.clone());
        (before < CLOSED).then_some(beside)
    }

    /// No non-owner write begins from now on; some may still be in progress.
    pub(crate) fn close(&self) -> Closed {
        self.0.fetch_add(CLOSED, Ordering::SeqCst);
        Closed(self.clone())
    }

    /// Whether a non-owner write is in progress.
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

/// The place of a volume's journal, and the identity of its records until the next start.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    /// The identity that its records carry.
    pub id: Uuid,
    /// Its length.
    pub len: ByteCount,
    /// The members or devices that hold it.
    pub on: JournalOn,
}

/// The members or devices that hold a journal.
#[derive(Clone, Debug)]
pub enum JournalOn {
    /// The members of the volume: each reserves the same range, and a record is on one more member
    /// than a span may lose.
    Members {
        /// From the beginning of the range that all journals share on a member.
        at: ByteCount,
        /// The tail of each member, which contains that range.
        tail: TailPlace,
    },
    /// Log devices: a record is on all of them.
    Devices {
        /// From the beginning of each device.
        at: ByteOffset,
        /// The devices: one, or several mirrors.
        devices: Vec<LogDevice>,
    },
}

/// The place of a volume's data log: it holds data that a flush acknowledged and the drives do not
/// have yet.
#[derive(Clone, Debug)]
pub struct DataLogPlace {
    /// The identity that its records carry.
    pub id: Uuid,
    /// From the beginning of each device.
    pub at: ByteOffset,
    /// Its length.
    pub len: ByteCount,
    /// The devices: one, or several mirrors.
    pub devices: Vec<LogDevice>,
}

/// How a volume's flushes are served.
#[derive(Clone, Default, Debug)]
pub enum DataLogTerms {
    /// By destaging dirty data and flushing the drives.
    #[default]
    None,
    /// The same, but only after the records of an earlier data log are invalid.
    Unfenced,
    /// By records in a data log.
    At(DataLogPlace),
}

/// A device with journals and data logs, and no data of volumes.
#[derive(Clone)]
pub struct LogDevice {
    /// Its identity.
    pub id: Uuid,
    /// How to reach it.
    pub source: Arc<dyn DriveSource>,
}

impl fmt::Debug for LogDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogDevice({})", self.id)
    }
}

/// Read-ahead and read-cache settings of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadTerms {
    /// Streams of reads are read ahead.
    pub read_ahead: bool,
    /// Data that was read stays in the cache while there is memory.
    pub cached: bool,
    /// How far ahead of a stream to read at most; `None`: as far as keeps the drives busy.
    pub most_ahead: Option<ByteCount>,
}

impl ReadTerms {
    /// Whether any data is cached.
    pub fn keeps_any(&self) -> bool {
        self.read_ahead || self.cached
    }
}

/// A reshape of a volume. All three volumes are attached; two are hidden, so that hosts see one
/// volume.
#[derive(Clone, Debug)]
pub struct ReshapePlace {
    /// The byte ranges and their order.
    pub reshape: Reshape,
    /// The recorded progress.
    pub moved: Moved,
    /// The volume by the new layout, over the same data area of each drive, fully synced.
    pub to: VolumeId,
    /// The save area: the new layout at a separate place on each drive.
    pub save: VolumeId,
}

/// The source and the target of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyWay {
    /// From the old layout to the save area.
    Save,
    /// From the old layout to the new one.
    Move,
    /// From the save area to the new layout.
    MoveSaved,
}

/// A step of a reshape ([`volume_state::Step`]). Every shard acknowledges it before the next one is
/// given.
#[derive(Clone, Debug)]
pub enum ReshapeOrder {
    /// Serve the volume by both layouts, and show it to hosts. Saved windows are read from the save
    /// area; writes to them wait until they are moved. Acknowledged when all earlier requests have
    /// ended.
    Begin(Box<ReshapePlace>),
    /// Reserve the memory for copying until [`ReshapeOrder::Open`] or [`ReshapeOrder::Leave`]. Sent
    /// to the copying shard before a window closes: hosts that wait for the window hold memory, and
    /// could hold all of it.
    Reserve(ByteCount),
    /// Requests to the window wait. Acknowledged when no request to it is in progress here. Its
    /// cached data is drained next ([`ShardMessage::Drain`](crate::ShardMessage::Drain)).
    Close(Window),
    /// The window is about to be written by the new layout: it is saved, or no needed data is in
    /// its place. Acknowledged when no request uses the old stripes that it overwrites.
    Free {
        /// The window.
        window: Window,
        /// Whether it is read from the save area.
        is_saved: bool,
    },
    /// Copy the window, and flush the drives. For one shard: it reads and writes through the owners
    /// of the stripes.
    Copy(Window, CopyWay),
    /// The window already has the right place: its old stripes go out of use, and the drives are
    /// flushed. Refused if any part of it lacks redundancy.
    Keep(Window),
    /// Open all windows; this many bytes are served by the new layout.
    Open(ByteCount),
    /// A step failed, and the reshape stops for now. Closed windows are read from their intact
    /// place; writes to them fail.
    Leave {
        /// The intact place is the save area; otherwise the old layout.
        is_saved: bool,
    },
    /// Nothing has moved, and the reshape is cancelled: only the old layout serves the volume. No
    /// effect if the reshape never began. Hosts see no change.
    TakeBack,
    /// All data has moved. These stripes of the new layout, as recorded, come into use and are
    /// filled next.
    Widen(Range<u64>),
    /// Fill stripes that received no data with zeroes, so that their redundancy agrees, and flush
    /// the drives. For one shard.
    Fill(Range<u64>),
}

/// Everything a shard needs to serve a volume.
#[derive(Clone)]
pub struct Attachment {
    /// Its description.
    pub spec: Arc<VolumeSpec>,
    /// Its drives by slot; `None` where one is missing.
    pub sources: Vec<Option<Arc<dyn DriveSource>>>,
    /// By slot, drives that are being filled with the content of the slot's drive, which is still
    /// in use. May be shorter than the number of slots.
    pub replacements: Vec<Option<Arc<dyn DriveSource>>>,
    /// Its recorded state.
    pub state: VolumeState,
    /// Its journal, if it has one.
    pub journal: Option<JournalPlace>,
    /// Whether uninitialised stripes are initialised in the background.
    pub initialises: bool,
    /// Whether it is hidden from hosts: it is being fully initialised.
    pub hidden: bool,
    /// The sectors that it advertises to hosts.
    pub told: ToldSectors,
    /// Its stripes in use: all, except during a reshape. No other stripe is ever read or written.
    pub live: Range<u64>,
    /// How copies share a stream of reads.
    pub streams: StreamSharing,
    /// Its part of the cache.
    pub cache: CacheTerms,
    /// Its read settings.
    pub reads: ReadTerms,
    /// How its flushes are served. [`SetDataLog`](crate::ShardMessage::SetDataLog) opens a data log
    /// after the volume is attached, not this.
    pub data_log: DataLogTerms,
    /// Data found in its data log after a power cut. It overrides the content of the drives: byte
    /// ranges of whole sectors, without overlap. The cache then acknowledges no writes
    /// ([`Absorb::NoMore`](crate::Absorb::NoMore)).
    pub restored: Arc<Vec<(ByteRange, Slice)>>,
    /// Its counters.
    pub meter: VolumeMeter,
    /// Non-owner writes: shared by all shards that serve it.
    pub beside: BesideOwners,
}

impl Attachment {
    /// A volume over these drives, with this state.
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
        assert!(owners.begin().is_none(), "another closure is in effect");
        drop(other);
        assert!(owners.begin().is_some());
        assert!(!owners.is_written(), "the write has ended");
    }
}
