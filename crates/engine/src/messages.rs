//! What shards say to one another, and to the controller.
//!
//! Between shards only messages: no shared mutable state, no lock. A shard takes a credit before it sends a
//! piece away and gets it back with the answer, so that the mailboxes, dimensioned for all credits, cannot
//! overflow.

use crate::volume::{VolumeId, VolumeSpec};
use env::{Buf, DriveSource, Durability, IoError, Slice, mailbox};
use layout::Geometry;
use std::sync::Arc;
use units::{ByteRange, DriveIndex, DriveSet, StripeIndex};

/// Which shard of the controller, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardIndex(pub u16);

/// A run of whole stripes nearest 64 MiB of the volume's data: the unit that is dealt out to shards, and of the
/// write-intent map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LaneIndex(pub u32);

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

/// Which drives of a volume may be read and written, as the controller has made it durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthView {
    /// Drives that hold what they should.
    pub readable: DriveSet,
    /// Drives that are written.
    pub writable: DriveSet,
}

/// Everything a shard needs to serve a volume.
#[derive(Clone)]
pub struct Attachment {
    /// What it is.
    pub spec: Arc<VolumeSpec>,
    /// Its drives by index; `None` where one is missing.
    pub sources: Vec<Option<Arc<dyn DriveSource>>>,
    /// Which of them may be used.
    pub health: HealthView,
    /// Lanes whose redundancy may not agree with their data, ascending.
    pub unsynced: Vec<LaneIndex>,
    /// Lanes that are marked dirty in the durable write-intent map, ascending.
    pub dirty: Vec<LaneIndex>,
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
    /// Stop serving a volume: new requests fail, those under way finish first.
    Detach(VolumeId, Done),
    /// Use a volume's drives so from now on.
    SetHealth(VolumeId, HealthView, Done),
    /// The redundancy of these lanes agrees with their data again: their owner has said so.
    Synced(VolumeId, Vec<LaneIndex>),
    /// The redundancy of these lanes is not to be trusted: their owner has said so.
    Unsynced(VolumeId, Vec<LaneIndex>),
    /// The operator accepts a volume's redundancy as it is: nothing is unsynced any more.
    TrustAll(VolumeId, Done),
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
    /// Mark lanes dirty in the write-intent map, durably, then answer.
    MarkDirty(Vec<LaneIndex>),
    /// These lanes have been quiet: clear their marks some time, after a flush of the drives.
    Quiet(Vec<LaneIndex>),
    /// The redundancy of these lanes agrees with their data again: tell every shard.
    Synced(Vec<LaneIndex>),
    /// A write to these lanes was left unfinished on some drive: until they are synced again, no shard is to
    /// trust their redundancy, nor is the next start. Answered when that is known.
    Unsynced(Vec<LaneIndex>),
    /// A drive could not read some blocks; they were had from redundancy, or not.
    MediumError {
        /// Which.
        drive: DriveIndex,
        /// Where on the drive.
        range: ByteRange,
        /// Whether the host got its data all the same.
        recovered: bool,
    },
}

/// How a volume's stripes are dealt out: lanes, and shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// Stripes per lane, as a power of two's exponent.
    stripes_shift: u32,
    /// How many lanes.
    pub count: u32,
}

/// A lane's data is nearest this size.
const LANE_BYTES: u64 = 64 << 20;

impl Lanes {
    /// The lanes of a volume. Lanes are a power of two of stripes; where the volume would have more lanes than
    /// the write-intent map holds ([`Lanes::MAX`]), they are larger.
    pub fn of(geometry: &Geometry) -> Lanes {
        let stripe = geometry.stripe_bytes().0.max(1);
        let per_lane = (LANE_BYTES / stripe).max(1);
        let mut stripes_shift = per_lane.ilog2();
        // Nearest, not below: 64 MiB / 448 KiB = 146 stripes; 128 are nearer than 256.
        if per_lane - (1 << stripes_shift) > (2 << stripes_shift) - per_lane {
            stripes_shift += 1;
        }
        let stripes = geometry.stripes().0;
        while stripes.div_ceil(1 << stripes_shift) > u64::from(Lanes::MAX) {
            stripes_shift += 1;
        }
        Lanes { stripes_shift, count: stripes.div_ceil(1 << stripes_shift) as u32 }
    }

    /// The most lanes a volume may have.
    pub const MAX: u32 = 1 << 20;

    /// The lane of a stripe.
    pub fn lane_of(&self, stripe: StripeIndex) -> LaneIndex {
        LaneIndex((stripe.0 >> self.stripes_shift) as u32)
    }

    /// The stripes of a lane, those past the end of the volume included.
    pub fn stripes_of(&self, lane: LaneIndex) -> std::ops::Range<u64> {
        let first = u64::from(lane.0) << self.stripes_shift;
        first..first + (1 << self.stripes_shift)
    }

    /// The shard that owns a lane: a hash, recorded nowhere.
    pub fn owner(&self, lane: LaneIndex, shards: u16) -> ShardIndex {
        let hash = env::sync::split_mix(u64::from(lane.0)).1;
        ShardIndex((hash % u64::from(shards.max(1))) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Level;
    use units::{ByteCount, DriveCount, StripSize};

    fn geometry(drives: u16, member: u64) -> Geometry {
        Geometry::new(Level::Raid5, DriveCount(drives), StripSize::KIB_64, ByteCount(member)).unwrap()
    }

    #[test]
    fn lanes_are_whole_stripes_nearest_64_mib_and_cover_the_volume() {
        for drives in 3..=32 {
            let geometry = geometry(drives, 1 << 30);
            let lanes = Lanes::of(&geometry);
            let bytes = (1u64 << lanes.stripes_shift) * geometry.stripe_bytes().0;
            // The nearer of two powers of two is at most a third away.
            assert!((42 << 20..=86 << 20).contains(&bytes), "{drives} drives: {bytes}");
            let last = lanes.lane_of(StripeIndex(geometry.stripes().0 - 1));
            assert_eq!(last.0 + 1, lanes.count);
            assert!(lanes.stripes_of(last).contains(&(geometry.stripes().0 - 1)));
        }
    }

    #[test]
    fn a_volume_of_petabytes_still_fits_the_map() {
        let lanes = Lanes::of(&geometry(32, 64 << 40));
        assert!(lanes.count <= Lanes::MAX);
    }

    #[test]
    fn lanes_are_dealt_to_every_shard() {
        let lanes = Lanes::of(&geometry(8, 64 << 30));
        let mut counts = [0; 4];
        for lane in 0..lanes.count {
            counts[lanes.owner(LaneIndex(lane), 4).0 as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > lanes.count / 8), "{counts:?}");
    }
}
