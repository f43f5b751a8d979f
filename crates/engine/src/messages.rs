//! What shards say to one another, and to the controller.
//!
//! Between shards only messages: no shared mutable state, no lock. A shard takes a credit before it sends a
//! piece away and gets it back with the answer, so that the mailboxes, dimensioned for all credits, cannot
//! overflow.

use crate::attachment::{Attachment, FaultPolicy, HealthView, MemberChange, Relocated};
use crate::regions::RegionSet;
use crate::task::{TaskId, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
use crate::volume::VolumeId;
use env::{Buf, DriveSource, Durability, IoError, Slice, mailbox};
use std::sync::Arc;
use units::{ByteRange, DriveIndex, StripeIndex};

/// Which shard of the controller, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardIndex(pub u16);

/// Pieces that one shard may have away at other shards at a time.
pub const PIECES_AWAY: usize = 1024;

/// Reports that one shard may have open at the controller at a time.
pub const REPORTS_OPEN: usize = 1024;

/// What to do with one piece of a request: bytes of one stripe.
#[derive(Debug)]
pub enum PieceKind {
    /// Read into the buffer.
    Read(Buf),
    /// Write the slice (solid, hollow or zero).
    Write(Slice, Durability),
    /// Give up the content.
    Trim,
}

/// A piece on its way to the shard that owns its stripe.
#[derive(Debug)]
pub struct Piece {
    /// Of which volume.
    pub volume: VolumeId,
    /// Which stripe.
    pub stripe: StripeIndex,
    /// Which bytes of the stripe's data.
    pub within: ByteRange,
    /// What to do.
    pub kind: PieceKind,
}

/// What a piece came to; a read's buffer comes back.
#[derive(Debug)]
pub struct PieceOutcome {
    /// Whether it is done.
    pub result: Result<(), IoError>,
    /// The buffer of a read.
    pub buffer: Option<Buf>,
}

/// Names a request of a shard while its pieces are away.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Which request.
    pub request: u32,
    /// Which of its pieces.
    pub piece: u32,
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
    /// A piece of another shard's request.
    Piece {
        /// Who asks.
        from: ShardIndex,
        /// For which of its requests.
        ticket: Ticket,
        /// What.
        piece: Piece,
    },
    /// A piece of this shard's request came back.
    PieceDone {
        /// Which.
        ticket: Ticket,
        /// What it came to.
        outcome: PieceOutcome,
    },
    /// Begin serving a volume.
    Attach(Box<Attachment>, Done),
    /// Stop serving a volume: new requests fail, those under way finish first. That takes no longer than drives are
    /// given for an operation. Whoever wants to use one of these drives for something else is told when this shard has
    /// everything back that it asked of it, late operations too, however long that takes: from then on nothing can
    /// land there any more.
    Detach(VolumeId, Vec<(Seat, Done)>, Done),
    /// Use a volume's drives so from now on.
    SetHealth(VolumeId, HealthView, Done),
    /// Put another drive, or none, into a slot. Answered when this shard uses it, and the one before has returned
    /// everything this shard had asked of it, late operations too: from then on nothing can land there any more.
    SetMember(VolumeId, Box<MemberChange>, Done),
    /// Fill this drive with what the slot's drive holds: from now on it gets every write that the slot's drive
    /// gets; what that holds already is a task ([`TaskKind::Copy`](crate::TaskKind::Copy)). `None`: leave the one
    /// there is alone. Answered like [`ShardMessage::SetMember`].
    SetReplacement(VolumeId, DriveIndex, Option<Arc<dyn DriveSource>>, Done),
    /// The drive that was being filled takes the slot; in these regions it is not current. While the slot's drive
    /// is in use these are the regions that were not copied; once it is not, every region that is marked dirty
    /// as well. Answered like [`ShardMessage::SetMember`].
    Promote(VolumeId, DriveIndex, RegionSet, Done),
    /// The redundancy of these regions agrees with their data again: their owner has said so.
    Synced(VolumeId, RegionSet),
    /// The redundancy of these regions is not to be trusted: their owner has said so.
    Unsynced(VolumeId, RegionSet),
    /// The drive is current in these regions: their owner has said so, and the drive has been flushed.
    Current(VolumeId, DriveIndex, RegionSet),
    /// The drive is not current in these regions; that is durable.
    Stale(VolumeId, DriveIndex, RegionSet, Done),
    /// These regions have been written, or are about to be: their owner has said so.
    Written(VolumeId, RegionSet),
    /// What is in the distributed spare from now on.
    Relocated(VolumeId, Option<Relocated>, Done),
    /// The content of these blocks of a drive is lost, or (`punctured` is false) was written again.
    Punctured {
        /// Of which volume.
        volume: VolumeId,
        /// Which drive held them.
        drive: DriveIndex,
        /// Which bytes of the drive's part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
        /// Whether they are lost.
        punctured: bool,
        /// Told when this shard knows.
        done: Done,
    },
    /// When drives of a volume go out of use for their errors.
    SetPolicy(VolumeId, FaultPolicy, Done),
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
    /// The operator forces what the redundancy of these regions, as far as they are unsynced, says of the drives that are
    /// missing now.
    Force(VolumeId, RegionSet, Done),
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
    /// A drive failed: make that durable on the others and set the new health on every shard, then answer.
    DriveFailed {
        /// Which.
        drive: DriveIndex,
        /// With what.
        error: IoError,
        /// At what.
        operation: &'static str,
    },
    /// Mark regions dirty in the write-intent map, durably, and take them out of those that were never written;
    /// then answer.
    MarkDirty(RegionSet),
    /// These regions have been quiet: clear their marks some time, after a flush of the drives.
    Quiet(RegionSet),
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
        /// How many swaps the slot had seen since the volume was attached ([`ShardMessage::SetMember`],
        /// [`ShardMessage::Promote`]): it is about the drive that the last of them brought, and no other.
        swaps: u64,
        /// Whether a host waits for it: otherwise it may be recorded together with what follows.
        is_awaited: bool,
    },
    /// What a drive has in these regions was moved into the distributed spare, or back to the drive: flush the drives,
    /// make that durable, tell every shard ([`ShardMessage::Relocated`]), then answer. Hosts wait for it.
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
    /// A drive that was being filled failed and lacks a write: it must never take the slot as it is. Answered when
    /// that is certain; if it has taken the slot in the meantime, when its failure is durable on the others.
    ReplacementFailed {
        /// Whose place it was to take.
        drive: DriveIndex,
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
