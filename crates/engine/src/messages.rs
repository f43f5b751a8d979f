//! Messages between shards, and between shards and the controller.
//!
//! Shards exchange only messages: no shared mutable state, no lock. A shard takes a credit before
//! it sends a stripe request to another shard, and gets it back with the reply. So mailboxes, sized
//! for all credits, cannot overflow.

use crate::attachment::{Attachment, DataLogTerms, JournalPlace, ReadTerms, ReshapeOrder};
use crate::memory::{Absorb, CellShare};
use crate::task::{TaskId, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
use crate::volume::{FaultPolicy, VolumeId};
use ::block_cache::RequestTag;
use layout::Geometry;
use ondisk::Uuid;
use platform::{Buf, DriveSource, Durability, IoError, Slice, StatusExtent, mailbox};
use std::sync::Arc;
use units::{ByteCount, ByteRange, DriveIndex, StripeIndex};
use volume_state::{Change, RegionIndex, RegionSet, StripeSet, VolumeState};

/// Which shard of the controller, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardIndex(pub u16);

impl ShardIndex {
    /// The shard that owns a region, by a hash that is not recorded.
    pub fn owning(region: RegionIndex, shards: u16) -> ShardIndex {
        let hash = platform::sync::split_mix(u64::from(region.0)).1;
        ShardIndex((hash % u64::from(shards.max(1))) as u16)
    }
}

/// The most stripe requests of one shard at other shards at a time.
pub const REQUESTS_AWAY: usize = 1024;

/// The most reports of one shard that the controller has not finished.
pub const REPORTS_OPEN: usize = 1024;

/// The operation of a stripe request.
#[derive(Debug)]
pub enum StripeWork {
    /// Read into the buffer.
    Read(Buf),
    /// Read ahead of a stream that continues here: acknowledged at once.
    ReadAhead {
        /// How far ahead the stream is read.
        window: ByteCount,
        /// For a model: data-less buffers.
        is_hollow: bool,
    },
    /// Write the slice (with data, data-less or zero).
    Write(Slice, Durability),
    /// Initialise a whole stripe without valid content, in the drives' caches. Its redundancy does
    /// not agree before, so it is written at once, without regard to missing drives or the record
    /// size.
    Lay(Slice),
    /// Discard the content.
    Trim,
    /// Return the block status. The request may cover several stripes of a region.
    Status,
    /// Make all earlier acknowledged writes of this shard durable. The request names no stripe.
    Secure {
        /// The requester flushes the drives afterwards.
        drives_are_flushed: bool,
    },
}

/// A request on bytes of one stripe, or a write or block status of several whole stripes of a
/// region, for the shard that owns them.
#[derive(Debug)]
pub struct StripeRequest {
    /// Its volume.
    pub volume: VolumeId,
    /// The stripe, or the first one.
    pub stripe: StripeIndex,
    /// Its bytes, from the stripe's first on.
    pub within: ByteRange,
    /// The host's request that it is part of.
    pub of: RequestTag,
    /// The operation.
    pub work: StripeWork,
}

/// The outcome of a stripe request, with the buffer of a read.
#[derive(Debug)]
pub struct StripeOutcome {
    /// Its result.
    pub result: Result<(), IoError>,
    /// The buffer of a read.
    pub buffer: Option<Buf>,
    /// The block status, if that was requested: of all of the request's bytes.
    pub extents: Vec<StatusExtent>,
}

impl StripeOutcome {
    /// The outcome of a request other than a block status.
    pub fn new(result: Result<(), IoError>, buffer: Option<Buf>) -> StripeOutcome {
        StripeOutcome { result, buffer, extents: Vec::new() }
    }
}

/// Identifies a stripe request at another shard.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The request of the shard.
    pub request: u64,
    /// Its stripe request.
    pub number: u32,
}

/// A drive of a volume by position: that of a slot, or the replacement being filled for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// The drive of that slot.
    Slot(DriveIndex),
    /// The replacement for it.
    Replacement(DriveIndex),
}

/// Reports to the requester that a control message took effect.
pub type Done = mailbox::Sender<Result<(), String>>;

/// A message to a shard.
pub enum ShardMessage {
    /// The mailboxes of all shards, in order: the first message.
    Peers(Vec<mailbox::Sender<ShardMessage>>),
    /// A stripe request of another shard.
    StripeRequest {
        /// The requester.
        from: ShardIndex,
        /// Its stripe request.
        ticket: Ticket,
        /// The request.
        request: StripeRequest,
    },
    /// The outcome of a stripe request of this shard.
    StripeRequestDone {
        /// The stripe request.
        ticket: Ticket,
        /// Its outcome.
        outcome: StripeOutcome,
    },
    /// Check whether a volume of that name and layout can be served, by the memory for its stripes.
    CanServe(Box<(String, Geometry)>, Done),
    /// Begin serving a volume.
    Attach(Box<Attachment>, Done),
    /// Stop serving a volume: new requests fail, those in progress finish first, within the time
    /// limit of drive operations. Each seat's `Done` is sent when its drive has returned all
    /// operations of this shard, including late ones: no write can reach the drive after that, and
    /// it may be reused.
    Detach(VolumeId, Vec<(Seat, Done)>, Done),
    /// A change of a volume's state, already recorded, with the new drive that it names
    /// ([`Change::Drive`], [`Change::ReplacementBegan`]). Acknowledged when this shard uses the new
    /// state. If a drive leaves its seat: when it has returned all operations of this shard,
    /// including late ones, so that no write can reach it any more.
    Apply(VolumeId, Change, Option<Arc<dyn DriveSource>>, Option<Done>),
    /// A volume has a new name. Connected hosts stay connected; new ones find it under that name
    /// only.
    Rename(VolumeId, String, Done),
    /// Set when errors take drives of a volume out of use.
    SetPolicy(VolumeId, FaultPolicy, Done),
    /// Use this journal for writes to a volume from now on, or none. Acknowledged when the records
    /// of the old one are invalid, and their data is on the drives.
    SetJournal(VolumeId, Option<JournalPlace>, Done),
    /// The devices of the journal of that identity have failed: if the volume still uses it, use
    /// this journal from now on, or none, also for queued writes. Acknowledged when the data of the
    /// old journal is on the drives.
    LoseJournal(VolumeId, Uuid, Option<JournalPlace>, Done),
    /// The labels record that this log device failed: no record of its journal goes there any more.
    LeaveLogDevice(VolumeId, Uuid, Done),
    /// The last device of the volume's journal failed or does not respond, and the labels are about
    /// to record that. From now on no write is acknowledged by it; new writes wait for
    /// [`ShardMessage::LoseJournal`]. Acknowledged when the drives have the data that it made
    /// durable.
    HoldLogDevice(VolumeId, Uuid, Done),
    /// The labels could not be updated: the journal uses the device as before.
    TakeBackLogDevice(VolumeId, Uuid, Done),
    /// The memory of this shard's read cache.
    ReadRoom(ByteCount),
    /// The new read settings of a volume.
    SetReads(VolumeId, ReadTerms, Done),
    /// Memory for this shard's write cache.
    Cells(CellShare),
    /// Which writes the cache of a volume acknowledges from now on. If fewer than before,
    /// acknowledged when nothing is dirty on this shard. A change from or to [`Absorb::Nothing`]
    /// passes through [`Absorb::NoMore`] on all shards; before `Nothing` no shard may be dirty. The
    /// number is the volume's index in the memory, which may change while no write is acknowledged
    /// from the cache.
    SetAbsorb(VolumeId, Absorb, u32, Done),
    /// How the flushes of a volume are served from now on. Acknowledged when no write uses the
    /// previous method any more.
    SetDataLog(VolumeId, DataLogTerms, Done),
    /// Destage this shard's dirty data of a volume, and flush its drives.
    Drain(VolumeId, Done),
    /// Discard the cache blocks of a volume that is not served and needs no data.
    DiscardCells(u32, Done),
    /// Release all cache blocks: no volume has an index in the memory.
    LeaveCells(Done),
    /// A step of a volume's reshape.
    Reshape(VolumeId, ReshapeOrder, Done),
    /// All data of a volume has moved. It is detached; the volume by the new layout has its name,
    /// all of its stripes, and its hosts: new hosts find it, connected ones are passed on. The
    /// drives may hold any data outside the moved range. Each seat's `Done` covers operations by
    /// the old layout, as with [`ShardMessage::Detach`].
    EndReshape(VolumeId, Vec<(Seat, Done)>, Done),
    /// Start a background task on this shard's regions. Acknowledged when it has begun.
    StartTask(Box<TaskOrder>, Done),
    /// Change the speed of a task.
    SetPace(TaskId, TaskPace),
    /// Stop a task. Acknowledged when this shard has no work of it in progress.
    StopTask(TaskId, Done),
    /// Another shard has a task and asks whether this shard has host I/O, so that the task may
    /// yield.
    AskHosts {
        /// The requester.
        from: ShardIndex,
    },
    /// The reply, if there is host I/O: requests since the last reply.
    HostsAround(Vec<HostRequests>),
    /// The controller has finished a report.
    ReportDone {
        /// The report's number.
        report: u64,
        /// Whether the change that it requested is durable.
        result: Result<(), IoError>,
    },
}

/// Host requests of a volume that began while tasks worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRequests {
    /// The volume.
    pub volume: VolumeId,
    /// Their number.
    pub all: u64,
    /// How many of them were much slower than requests without tasks.
    pub slow: u64,
}

impl HostRequests {
    /// The difference to the volume's requests in an `earlier` report.
    pub(crate) fn since(&self, earlier: &[HostRequests]) -> HostRequests {
        let before = earlier.iter().find(|before| before.volume == self.volume);
        let (all, slow) = before.map_or((0, 0), |before| (before.all, before.slow));
        HostRequests {
            all: self.all.saturating_sub(all),
            slow: self.slow.saturating_sub(slow),
            ..*self
        }
    }
}

/// A report of a shard to the controller.
#[derive(Debug)]
pub struct Report {
    /// The reporting shard.
    pub from: ShardIndex,
    /// The number that [`ShardMessage::ReportDone`] names.
    pub number: u64,
    /// Its volume.
    pub volume: VolumeId,
    /// The content.
    pub kind: ReportKind,
}

/// See [`Report`].
#[derive(Debug, Clone)]
pub enum ReportKind {
    /// A drive failed: record that on the others, set the new health on every shard, then reply. If
    /// another drive has its slot by then, that one has not failed: reply at once.
    DriveFailed {
        /// The drive.
        drive: DriveIndex,
        /// Its number among the drives that had its slot, as in [`ReportKind::Current`].
        swaps: u64,
        /// The error.
        error: IoError,
        /// The operation.
        operation: &'static str,
    },
    /// Operations of a drive exceed their time limit, and their requests still wait. If the
    /// responding drives suffice for all volumes of its array, suspend it as with
    /// [`ReportKind::DriveFailed`], then reply. If the volume is being stopped, reply that requests
    /// need not wait. `Busy`: the drive is needed; the shard may ask again.
    DriveSilent {
        /// The drive.
        drive: DriveIndex,
        /// Its number among the drives that had its slot, as in [`ReportKind::Current`].
        swaps: u64,
        /// The exceeded limit, if known.
        exceeded: Option<platform::Exceeded>,
    },
    /// Durably mark regions in the write-intent map, and remove them from the never-written ones;
    /// then reply.
    MarkDirty(RegionSet),
    /// These regions have been quiet: clear their marks later, after a flush of the drives.
    Quiet(RegionSet),
    /// Stripes of a region were written completely and flushed: record on every drive in use that
    /// they are initialised, then reply. `NotSupported`: the record has no space for another partly
    /// initialised region.
    StripesInitialised {
        /// The region.
        region: RegionIndex,
        /// Its stripes.
        stripes: StripeSet,
        /// Whether this completes the region: notify every shard.
        completes: bool,
    },
    /// The redundancy of these regions agrees with their data again: notify every shard.
    Synced(RegionSet),
    /// A write to these regions is incomplete on some drive: until they are synced again, no shard
    /// may trust their redundancy, also after a restart. Acknowledged when that is recorded.
    Unsynced(RegionSet),
    /// The drive is current in these regions: flush it, record that, notify every shard.
    Current {
        /// The drive.
        drive: DriveIndex,
        /// The regions.
        regions: RegionSet,
        /// The number of swaps of the slot since the volume was attached ([`Change::Drive`],
        /// [`Change::Promoted`]): the report concerns only the drive of the last swap.
        swaps: u64,
        /// Whether a host waits for it: otherwise it may be recorded together with later reports.
        is_awaited: bool,
    },
    /// The strips of a drive in these regions were moved into the distributed spare, or back: flush
    /// the drives, record that, notify every shard ([`Change::Moved`]), then reply. Hosts wait for
    /// it.
    Moved {
        /// The drive of the strips.
        drive: DriveIndex,
        /// The regions.
        regions: RegionSet,
        /// Whether they are in the spare now; otherwise on the drive.
        to_spare: bool,
    },
    /// A drive could not read some blocks.
    MediumError {
        /// The drive.
        drive: DriveIndex,
        /// The range in the drive's part of the volume.
        range: ByteRange,
        /// Whether redundancy had their content.
        recovered: bool,
        /// Whether they were rewritten, and can be read again.
        healed: bool,
    },
    /// These blocks are lost, or (`punctured` is false) a host wrote them again. A loss is
    /// acknowledged when it is durable and every shard knows; the removal from the list may be
    /// recorded later.
    PuncturedBlocks {
        /// The drive that held them.
        drive: DriveIndex,
        /// The bytes of the drive's part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
        /// Whether they are lost.
        punctured: bool,
    },
    /// A drive did not keep these blocks, or (`excluded` is false) has them again and was flushed
    /// since. Acknowledged when it is durable and every shard knows.
    ExcludedBlocks {
        /// The drive.
        drive: DriveIndex,
        /// The bytes of the drive's part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
        /// The number of swaps of the slot ([`ReportKind::Current`]): the report concerns no later
        /// drive.
        swaps: u64,
        /// Whether the drive did not keep them.
        excluded: bool,
    },
    /// A device of the volume's journal failed to write a record: record its failure on the
    /// members, then reply. If it was the last one, [`ShardMessage::LoseJournal`] comes before the
    /// reply.
    LogFailed {
        /// The device.
        device: Uuid,
        /// The error.
        error: IoError,
    },
    /// A drive being filled failed and lacks a write: it must never take the slot as it is.
    /// Acknowledged when that is certain; if it has taken the slot meanwhile, when its failure is
    /// durable on the others.
    ReplacementFailed {
        /// The slot that it was to take.
        drive: DriveIndex,
        /// Its number among the replacements for that slot: the first since the volume was
        /// attached, or attached with it, is 1. The report concerns no other replacement.
        number: u64,
        /// The error.
        error: IoError,
    },
    /// A check found a stripe whose redundancy does not agree with its data.
    Mismatch {
        /// The task.
        task: TaskId,
        /// The stripe.
        stripe: StripeIndex,
        /// The wrong drive, where the level can identify it.
        wrong: Option<DriveIndex>,
        /// Whether its redundancy was rewritten.
        repaired: bool,
    },
    /// The progress of a task on this shard; at most a few times a second.
    TaskProgress {
        /// The task.
        task: TaskId,
        /// Its progress.
        progress: TaskProgress,
    },
    /// A task has ended on this shard.
    TaskDone {
        /// The task.
        task: TaskId,
        /// Its outcome.
        outcome: TaskOutcome,
    },
}

impl ReportKind {
    /// The change of the volume's `state` that a report causes, if any.
    pub fn change(&self, state: &VolumeState) -> Option<Change> {
        Some(match self.clone() {
            ReportKind::DriveFailed { drive, .. } | ReportKind::DriveSilent { drive, .. } => {
                Change::InService(state.in_service().without(drive))
            }
            ReportKind::MarkDirty(regions) => Change::Marked(regions),
            ReportKind::Quiet(regions) => Change::Unmarked(regions),
            ReportKind::StripesInitialised { region, completes: true, .. } => {
                Change::Initialised(region.into())
            }
            ReportKind::StripesInitialised { region, stripes, .. } => {
                Change::StripesInitialised { region, stripes }
            }
            ReportKind::Synced(regions) => Change::Synced(regions),
            ReportKind::Unsynced(regions) => Change::Unsynced(regions),
            ReportKind::Current { drive, regions, .. } => Change::Current { slot: drive, regions },
            ReportKind::Moved { drive, regions, to_spare } => {
                Change::Moved { slot: drive, regions, to_spare }
            }
            ReportKind::PuncturedBlocks { drive, ranges, punctured: true } => {
                Change::Punctured { slot: drive, ranges }
            }
            ReportKind::PuncturedBlocks { drive, ranges, punctured: false } => {
                Change::Rewritten { slot: drive, ranges }
            }
            ReportKind::ExcludedBlocks { drive, ranges, excluded: true, .. } => {
                Change::Excluded { slot: drive, ranges }
            }
            ReportKind::ExcludedBlocks { drive, ranges, excluded: false, .. } => {
                Change::Included { slot: drive, ranges }
            }
            ReportKind::ReplacementFailed { drive, .. } => Change::ReplacementEnded { slot: drive },
            ReportKind::MediumError { .. }
            | ReportKind::LogFailed { .. }
            | ReportKind::Mismatch { .. }
            | ReportKind::TaskProgress { .. }
            | ReportKind::TaskDone { .. } => return None,
        })
    }
}

/// Replies to a control message. A failed send means that the controller stopped waiting.
pub(crate) fn answer_control(done: &Done, result: Result<(), String>) {
    if done.send(result).is_err() {
        tracing::warn!("the sender of a control message no longer waits for its reply");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_dealt_to_every_shard() {
        let mut counts = [0; 4];
        for region in 0..800 {
            counts[usize::from(ShardIndex::owning(RegionIndex(region), 4).0)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
    }
}
