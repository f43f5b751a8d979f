//! Block targets: what host ports read, write, trim and flush.
//!
//! The engine uses drives ([`Drive`](crate::Drive)): started operations on whole sectors, with the
//! faults of one drive. Host ports use targets (volumes, cached volumes, foreign volumes): one
//! async call per request, any byte range, drive faults already handled. Ports and engine do not
//! depend on each other. Futures are not boxed; a shard with several kinds of target uses an enum
//! as its [`Targets::Target`].
//!
//! # Invariants
//! - Reserve a payload's memory ([`BlockTarget::reserve_payload`]) before its buffer is taken,
//!   until the buffer is dropped. A holder of one payload must not wait for another; targets take
//!   no payload memory of their own.
//! - [`BlockTarget::flush`] covers all writes and trims acknowledged before it began, of all
//!   sessions.
//! - A call runs to completion, even if the caller no longer needs its result.

use crate::sync::Taken;
use crate::{Buf, BufferPool, Durability, Env, IoError, IoRequest, Receiver, Slice, StatusExtent};
use std::future::Future;
use std::rc::Rc;
use units::{ByteCount, ByteRange, SectorSize};

/// The sector sizes that a target reports to hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSectors {
    /// The logical sector: the unit of addresses.
    pub logical: SectorSize,
    /// The physical sector: a smaller write needs a read first.
    pub physical: SectorSize,
}

/// The longest payload that is advertised to hosts if memory allows.
const LONGEST_TRANSFER: ByteCount = ByteCount(32 << 20);

/// The approximate length of the runs into which zeroing and trim requests are split.
const LONG_RUN: ByteCount = ByteCount(32 << 20);

/// The longest payload of a request: a power of two, at most half of the shard's payload memory
/// (half its pool). One such request does not block all others.
pub fn longest_payload(pool: &BufferPool) -> ByteCount {
    let share = (pool.limit().0 / 4).max(4096);
    ByteCount(1 << share.ilog2()).min(LONGEST_TRANSFER)
}

/// A target's size and preferred requests. Constant while the target is served, with two
/// exceptions. A change of the reported sectors applies to hosts that connect afterwards. The
/// capacity may grow; the new blocks are usable on all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetGeometry {
    /// Bytes that hosts may use.
    pub capacity: ByteCount,
    /// The unit of [`BlockTarget::status`], and of requests whose edges need no read.
    pub sector: SectorSize,
    /// The sector sizes that are reported to hosts.
    pub host_sectors: HostSectors,
    /// The smallest request that is advertised to hosts; smaller ones work as well.
    pub smallest_request: ByteCount,
    /// The smallest request that every drive performs without a read.
    pub minimum_io: ByteCount,
    /// The strip: bytes that are contiguous on one drive.
    pub strip: ByteCount,
    /// The length of a full stripe: aligned writes of a multiple need no read.
    pub optimal_io: ByteCount,
    /// Whether any of its drives rotates.
    pub rotational: bool,
}

impl TargetGeometry {
    /// Splits `range` into runs of about 32 MiB, at full-stripe boundaries. A zeroing or trim
    /// request over terabytes then neither queues millions of stripes at once nor outlives its
    /// connection for long.
    pub fn long_runs(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + use<> {
        let unit = self.optimal_io.max(ByteCount(1));
        let run = unit * (LONG_RUN.0 / unit.0).max(1);
        let mut rest = range;
        std::iter::from_fn(move || {
            let end = (rest.start + ByteCount(1)).align_up(run).min(rest.end());
            let first = ByteRange::from_to(rest.start, end);
            rest = ByteRange::from_to(end, rest.end());
            (!first.is_empty()).then_some(first)
        })
    }
}

/// A block device for host ports. See the [module](self).
pub trait BlockTarget: 'static {
    /// The target's number: unique in this process, never reused, and unaffected by a rename.
    fn number(&self) -> u64;

    /// The name by which hosts open the target. A rename does not affect connected hosts.
    fn name(&self) -> Rc<str>;

    /// A short description for people.
    fn description(&self) -> String;

    /// The target's size and preferred requests.
    fn geometry(&self) -> TargetGeometry;

    /// Whether writes, zeroing and trims always fail.
    fn is_read_only(&self) -> bool;

    /// Whether hosts may still use the target. Otherwise every request fails with `Gone`.
    fn is_served(&self) -> bool;

    /// Begins a request, unless it needs a task: then nothing has happened, and it is returned. The
    /// receiver may get the outcome before this returns.
    fn begin(
        self: &Rc<Self>,
        request: IoRequest,
        receiver: Receiver,
    ) -> Option<(IoRequest, Receiver)>;

    /// Reads `range` into `buf`, which has the same length. Returns the buffer, unless a drive
    /// still uses it after a timeout. Any byte range is allowed; whole sectors are faster.
    fn read(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> impl Future<Output = (Result<(), IoError>, Option<Buf>)>;

    /// Writes `data`, which is as long as `range`. After an error the range holds old data, new
    /// data or both.
    fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>>;

    /// Makes `range` read as zeros; its space stays allocated.
    fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>>;

    /// Discards the content of `range`, where the drives support that.
    fn trim(self: &Rc<Self>, range: ByteRange) -> impl Future<Output = Result<(), IoError>>;

    /// Makes all acknowledged writes durable.
    fn flush(self: &Rc<Self>) -> impl Future<Output = Result<(), IoError>>;

    /// Reports which parts of `range` (whole sectors) hold data, from its start. The result may be
    /// shorter than `range`, but covers at least one sector.
    fn status(
        self: &Rc<Self>,
        range: ByteRange,
    ) -> impl Future<Output = Result<Vec<StatusExtent>, IoError>>;

    /// Waits for memory for a payload of `len` bytes, from the target's share of the shard's
    /// payload memory.
    fn reserve_payload(&self, len: ByteCount) -> impl Future<Output = Taken>;
}

/// The targets that a shard serves. Cheap to clone.
pub trait Targets: Clone + 'static {
    /// The type of the targets.
    type Target: BlockTarget;

    /// The shard's platform.
    fn env(&self) -> &Env;

    /// Every target that hosts may use.
    fn targets(&self) -> Vec<Rc<Self::Target>>;

    /// The target of that name, if hosts may use it.
    fn find(&self, name: &str) -> Option<Rc<Self::Target>>;
}
