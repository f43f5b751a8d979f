//! What shards say to one another, and to the controller.
//!
//! Between shards only messages: no shared mutable state, no lock. A shard takes a credit before it sends a stripe
//! request away and gets it back with the answer, so that the mailboxes, dimensioned for all credits, cannot
//! overflow.

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
    /// The shard that owns a region: a hash, recorded nowhere.
    pub fn owning(region: RegionIndex, shards: u16) -> ShardIndex {
        let hash = platform::sync::split_mix(u64::from(region.0)).1;
        ShardIndex((hash % u64::from(shards.max(1))) as u16)
    }
}

/// Stripe requests that one shard may have away at other shards at a time.
pub const REQUESTS_AWAY: usize = 1024;

/// Reports that one shard may have open at the controller at a time.
pub const REPORTS_OPEN: usize = 1024;

/// What a stripe request asks for.
#[derive(Debug)]
pub enum StripeWork {
    /// Read into the buffer.
    Read(Buf),
    /// Begin to read ahead of a stream that goes on here: it is answered at once.
    ReadAhead {
        /// How far ahead the stream is read.
        window: ByteCount,
        /// Of a model: the bytes are hollow.
        is_hollow: bool,
    },
    /// Write the slice (solid, hollow or zero).
    Write(Slice, Durability),
    /// Write a whole stripe in which nothing is anybody's yet, into the drives' caches. Its redundancy does not agree before, so it is
    /// written at once, whatever is missing and however long a record may be.
    Lay(Slice),
    /// Give up the content.
    Trim,
    /// Say where there is data. The request may be about several stripes of a region.
    Status,
    /// Make durable what hosts were answered for on this shard: all that came before. The request is about no stripe.
    Secure {
        /// Whoever asks has the drives flushed afterwards.
        drives_are_flushed: bool,
    },
}

/// A request on bytes of one stripe, or a write or the status of several whole stripes of a region, on its way to the shard that owns them.
#[derive(Debug)]
pub struct StripeRequest {
    /// Of which volume.
    pub volume: VolumeId,
    /// Which stripe, or the first of them.
    pub stripe: StripeIndex,
    /// Which bytes, from the stripe's first on.
    pub within: ByteRange,
    /// The host's request that it is part of.
    pub of: RequestTag,
    /// What to do.
    pub work: StripeWork,
}

/// What a stripe request came to; a read's buffer comes back.
#[derive(Debug)]
pub struct StripeOutcome {
    /// Whether it is done.
    pub result: Result<(), IoError>,
    /// The buffer of a read.
    pub buffer: Option<Buf>,
    /// Where there is data, if that was asked: all of the request's bytes.
    pub extents: Vec<StatusExtent>,
}

impl StripeOutcome {
    /// Of a request that does not ask where there is data.
    pub fn new(result: Result<(), IoError>, buffer: Option<Buf>) -> StripeOutcome {
        StripeOutcome { result, buffer, extents: Vec::new() }
    }
}

/// Names a stripe request while it is away.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Which request of the shard.
    pub request: u64,
    /// Which of its stripe requests.
    pub number: u32,
}

/// A drive of a volume, by its place: a slot's, or the one that is being filled to take the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// The drive of that slot.
    Slot(DriveIndex),
    /// The one that is being filled for it.
    Replacement(DriveIndex),
}

/// Tells the asker that a control message took effect.
pub type Done = mailbox::Sender<Result<(), String>>;

/// A message to a shard.
pub enum ShardMessage {
    /// How to reach every shard, in order: the first message.
    Peers(Vec<mailbox::Sender<ShardMessage>>),
    /// A stripe request of another shard.
    StripeRequest {
        /// Who asks.
        from: ShardIndex,
        /// For which of its requests.
        ticket: Ticket,
        /// What.
        request: StripeRequest,
    },
    /// A stripe request of this shard came back.
    StripeRequestDone {
        /// Which.
        ticket: Ticket,
        /// What it came to.
        outcome: StripeOutcome,
    },
    /// Whether a volume of that name and layout could be served, by the memory that its stripes need.
    CanServe(Box<(String, Geometry)>, Done),
    /// Begin serving a volume.
    Attach(Box<Attachment>, Done),
    /// Stop serving a volume: new requests fail, those under way finish first. That takes no longer than drives are
    /// given for an operation. Whoever wants to use one of these drives for something else is told when this shard has
    /// everything back that it asked of it, late operations too, however long that takes: from then on nothing can
    /// land there any more.
    Detach(VolumeId, Vec<(Seat, Done)>, Done),
    /// A change of a volume's state, recorded where a start has to know of it. With it comes the drive that it brings
    /// ([`Change::Drive`], [`Change::ReplacementBegan`]). Whoever waits is answered when this shard goes by it; where a
    /// drive leaves its seat, when it has returned everything that this shard had asked of it, late operations too:
    /// from then on nothing can land there any more.
    Apply(VolumeId, Change, Option<Arc<dyn DriveSource>>, Option<Done>),
    /// A volume has another name. Who uses it goes on; who asks for it finds it under that name alone.
    Rename(VolumeId, String, Done),
    /// When drives of a volume go out of use for their errors.
    SetPolicy(VolumeId, FaultPolicy, Done),
    /// Keep the writes to a volume there from now on before they are done, or nowhere. Answered when what was kept does not count
    /// any more, and what was written is on the drives.
    SetJournal(VolumeId, Option<JournalPlace>, Done),
    /// The devices that the journal of that identity lies on have failed: if it is still the volume's, keep the writes to the
    /// volume there from this message on, or nowhere; what waits for a record goes there, too. Answered when what was written by the
    /// journal before is on the drives.
    LoseJournal(VolumeId, Uuid, Option<JournalPlace>, Done),
    /// The labels of a volume say that this log device is out: no record of its journal goes there any more.
    LeaveLogDevice(VolumeId, Uuid, Done),
    /// The last device of the volume's journal failed, or does not answer, and the labels are to say so: nothing is promised by it from
    /// this message on, and whoever writes there waits for [`ShardMessage::LoseJournal`]. Answered when the drives have what it promised.
    HoldLogDevice(VolumeId, Uuid, Done),
    /// The labels could not say so: the journal goes there as before.
    TakeBackLogDevice(VolumeId, Uuid, Done),
    /// How much memory this shard has for what it keeps of reads.
    ReadRoom(ByteCount),
    /// What a volume does with its reads from now on.
    SetReads(VolumeId, ReadTerms, Done),
    /// Memory for the cache of this shard.
    Cells(CellShare),
    /// Which writes the cache of a volume answers from now on. Where these are fewer, answered when nothing is dirty on this shard.
    /// From [`Absorb::Nothing`] and to it the way leads over [`Absorb::NoMore`], on all shards, and where it goes to nothing, with
    /// nothing dirty on any.
    /// The number is the volume's place in the memory, which changes while nothing is answered.
    SetAbsorb(VolumeId, Absorb, u32, Done),
    /// By what the flushes of a volume are answered from now on. Answered when nothing is written any more to what they were
    /// answered by before.
    SetDataLog(VolumeId, DataLogTerms, Done),
    /// Write what this shard has of a volume in its cache to the drives, and flush them.
    Drain(VolumeId, Done),
    /// Forget what is in cells of a volume of the memory that is not served: nobody will want it.
    DiscardCells(u32, Done),
    /// Let go of all cells: no volume has a place in the memory.
    LeaveCells(Done),
    /// A step of a volume on its way to another layout.
    Reshape(VolumeId, ReshapeOrder, Done),
    /// All of a volume is moved. It is not attached any more, and the one by the new layout has its name, all of its stripes, and its hosts:
    /// those that come find it, those that are here are passed on to it. What its drives hold beyond what was moved may be anything. Whoever
    /// takes a drive in again is told of what the drive was asked by the old layout, as with [`ShardMessage::Detach`].
    EndReshape(VolumeId, Vec<(Seat, Done)>, Done),
    /// Begin a background task on this shard's regions. Answered when it has begun.
    StartTask(Box<TaskOrder>, Done),
    /// Change how fast a task may be.
    SetPace(TaskId, TaskPace),
    /// End a task before it is done. Answered when this shard does nothing of it any more.
    StopTask(TaskId, Done),
    /// Another shard has a task and asks whether hosts are around here, so that it may stand back.
    AskHosts {
        /// Who asks.
        from: ShardIndex,
    },
    /// The answer, if they are.
    HostsAround,
    /// The controller has dealt with a report.
    ReportDone {
        /// The report's number.
        report: u64,
        /// Whether what it asked for is durable.
        result: Result<(), IoError>,
    },
}

/// What a shard tells the controller.
#[derive(Debug)]
pub struct Report {
    /// Who reports.
    pub from: ShardIndex,
    /// The number that [`ShardMessage::ReportDone`] names.
    pub number: u64,
    /// Of which volume.
    pub volume: VolumeId,
    /// What.
    pub kind: ReportKind,
}

/// See [`Report`].
#[derive(Debug, Clone)]
pub enum ReportKind {
    /// A drive failed: make that durable on the others and set the new health on every shard, then answer. If another drive has
    /// its slot by then, that one has not failed: answer.
    DriveFailed {
        /// Which.
        drive: DriveIndex,
        /// Which of the drives that had its slot, as in [`ReportKind::Current`].
        swaps: u64,
        /// With what.
        error: IoError,
        /// At what.
        operation: &'static str,
    },
    /// A drive has had operations for longer than their time limit, and whoever waits for them waits on. If no volume of its array needs it, as far
    /// as it answers, suspend it as with [`ReportKind::DriveFailed`], then answer; or answer that nobody is to wait any longer, as the
    /// volume is stopped. `Busy`: it is waited for, and may be asked about again.
    DriveSilent {
        /// Which.
        drive: DriveIndex,
        /// Which of the drives that had its slot, as in [`ReportKind::Current`].
        swaps: u64,
        /// Which limit an operation exceeded, if that is known.
        exceeded: Option<platform::Exceeded>,
    },
    /// Mark regions dirty in the write-intent map, durably, and take them out of those that were never written;
    /// then answer.
    MarkDirty(RegionSet),
    /// These regions have been quiet: clear their marks some time, after a flush of the drives.
    Quiet(RegionSet),
    /// Stripes of a region were written as a whole, and flushed: record on every drive in use that they are initialised, then
    /// answer. `NotSupported`: there is no room in the record for another region that is initialised in part.
    StripesInitialised {
        /// Which region.
        region: RegionIndex,
        /// Which of its stripes.
        stripes: StripeSet,
        /// Whether with them every stripe of the region is: tell every shard.
        completes: bool,
    },
    /// The redundancy of these regions agrees with their data again: tell every shard.
    Synced(RegionSet),
    /// A write to these regions was left unfinished on some drive: until they are synced again, no shard is to
    /// trust their redundancy, nor is the next start. Answered when that is known.
    Unsynced(RegionSet),
    /// The drive has been made current in these regions: flush it, make that durable, tell every shard.
    Current {
        /// Which.
        drive: DriveIndex,
        /// Where.
        regions: RegionSet,
        /// How many swaps the slot had seen since the volume was attached ([`Change::Drive`],
        /// [`Change::Promoted`]): it is about the drive that the last of them brought, and no other.
        swaps: u64,
        /// Whether a host waits for it: otherwise it may be recorded together with what follows.
        is_awaited: bool,
    },
    /// What a drive has in these regions was moved into the distributed spare, or back to the drive: flush the drives,
    /// make that durable, tell every shard ([`Change::Moved`]), then answer. Hosts wait for it.
    Moved {
        /// Whose strips they are.
        drive: DriveIndex,
        /// Where.
        regions: RegionSet,
        /// Whether they are in the spare now; otherwise they are at home.
        to_spare: bool,
    },
    /// A drive could not read some blocks.
    MediumError {
        /// Which.
        drive: DriveIndex,
        /// Where in the drive's part of the volume.
        range: ByteRange,
        /// Whether their content could be had from redundancy.
        recovered: bool,
        /// Whether they were written anew with it, and can be read again.
        healed: bool,
    },
    /// The content of these blocks is lost, or (`punctured` is false) was written again by a host. That they are lost is
    /// answered when it is durable and every shard knows; that they are not may be remembered at leisure.
    PuncturedBlocks {
        /// Which drive held them.
        drive: DriveIndex,
        /// Which bytes of the drive's part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
        /// Whether they are lost.
        punctured: bool,
    },
    /// A drive did not keep these blocks, or (`excluded` is false) has them again and was flushed since. Answered when it is
    /// durable and every shard knows.
    ExcludedBlocks {
        /// Which drive.
        drive: DriveIndex,
        /// Which bytes of the drive's part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
        /// How many swaps the slot had seen ([`ReportKind::Current`]): what another drive has by now is none of this one's.
        swaps: u64,
        /// Whether the drive did not keep them.
        excluded: bool,
    },
    /// A device that the volume's journal lies on failed to take a record: have the members say that it is out, then answer. Where it
    /// was the last one, [`ShardMessage::LoseJournal`] comes before the answer.
    LogFailed {
        /// Which.
        device: Uuid,
        /// With what.
        error: IoError,
    },
    /// A drive that was being filled failed and lacks a write: it must never take the slot as it is. Answered when
    /// that is certain; if it has taken the slot in the meantime, when its failure is durable on the others.
    ReplacementFailed {
        /// Whose place it was to take.
        drive: DriveIndex,
        /// Which of the drives that were to be filled for that place: the first since the volume was attached, or attached
        /// with it, is 1. It is about that one, and no other.
        number: u64,
        /// With what.
        error: IoError,
    },
    /// A check found a stripe whose redundancy does not agree with its data.
    Mismatch {
        /// By which task.
        task: TaskId,
        /// Which stripe.
        stripe: StripeIndex,
        /// The drive that is wrong, where the level can tell.
        wrong: Option<DriveIndex>,
        /// Whether its redundancy was written anew.
        repaired: bool,
    },
    /// How far a task is on this shard; a few times a second at the most.
    TaskProgress {
        /// Which.
        task: TaskId,
        /// How far.
        progress: TaskProgress,
    },
    /// A task has ended on this shard.
    TaskDone {
        /// Which.
        task: TaskId,
        /// How.
        outcome: TaskOutcome,
    },
}

impl ReportKind {
    /// The change of the volume's `state` that follows from a report, if one does.
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

/// The controller counts the answers of all shards; one that cannot be sent means it stopped waiting.
pub(crate) fn answer_control(done: &Done, result: Result<(), String>) {
    if done.send(result).is_err() {
        tracing::warn!("nobody waits for the answer to a control message");
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
