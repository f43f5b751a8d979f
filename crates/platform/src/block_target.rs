//! What a host port sees: a named run of blocks that can be read, written, given up and flushed.
//!
//! The seam has two ends. At the bottom the engine meets drives ([`Drive`](crate::Drive)): operations that are started and
//! awaited, whole sectors, one drive's faults. At the top hosts' ports meet targets: one async call a request, any byte
//! range, faults already dealt with. Both ends are described here, so that neither side imports the other: ports know no
//! engine, and what answers them may be anything.
//!
//! # What can stand behind it
//! A volume is a target; a cached volume, which asks an uncached one; a foreign volume that is only read. The calls are
//! generic and their futures are not boxed: a request costs what the target's own function costs. Where one shard serves
//! targets of several kinds, its [`Targets::Target`] is an enum of them, which costs a branch per request.
//!
//! # Rules
//! - A payload's memory is reserved ([`BlockTarget::reserve_payload`]) before its buffer is taken, and held until that is
//!   dropped. A target takes no payload memory of its own: whoever holds a payload must not wait for another one's.
//! - [`BlockTarget::flush`] covers every write and trim that was answered before it began, whichever session asked for it.
//! - A call runs to its end, even if nobody wants its outcome any more.

use crate::sync::Taken;
use crate::{Buf, BufferPool, Durability, Env, IoError, Slice, StatusExtent};
use std::future::Future;
use std::rc::Rc;
use units::{ByteCount, ByteRange, SectorSize};

/// The sectors that a disk has for its hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSectors {
    /// The unit in which hosts address it.
    pub logical: SectorSize,
    /// What a host should not write a part of.
    pub physical: SectorSize,
}

/// The longest payload that is offered to hosts where memory allows.
const LONGEST_TRANSFER: ByteCount = ByteCount(32 << 20);

/// Zeroes and trims are handed to a target in runs of about this length.
const LONG_RUN: ByteCount = ByteCount(32 << 20);

/// The longest payload of a request: a power of two of which a shard's memory for payloads (half its pool) holds two, so
/// that one such request does not stop all others.
pub fn longest_payload(pool: &BufferPool) -> ByteCount {
    let share = (pool.limit().0 / 4).max(4096);
    ByteCount(1 << share.ilog2()).min(LONGEST_TRANSFER)
}

/// How large a target is, and which requests suit it. It does not change while the target is served, but for
/// what hosts are told of sectors, which holds for those that connect from then on, and for the capacity, which may grow: requests for
/// what is new are carried out, whenever a host has connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetGeometry {
    /// Bytes that hosts may use.
    pub capacity: ByteCount,
    /// The unit of [`BlockTarget::status`], and of requests that need nothing read first because of their edges.
    pub sector: SectorSize,
    /// The sectors that hosts are told of.
    pub host_sectors: HostSectors,
    /// The smallest request that hosts are told to send; one that is smaller is carried out all the same.
    pub smallest_request: ByteCount,
    /// The smallest request that every drive carries out without reading first.
    pub minimum_io: ByteCount,
    /// The run of bytes that lies on one drive: a request within it moves one arm.
    pub strip: ByteCount,
    /// A multiple of this, aligned to it, is written without reading anything: a whole stripe.
    pub optimal_io: ByteCount,
    /// Whether any of it rotates.
    pub rotational: bool,
}

impl TargetGeometry {
    /// `range` in runs of about 32 MiB, cut between what the target writes best: how ports hand over zeroes and trims, so that one
    /// request over terabytes neither queues millions of stripes at once nor outlives its connection for long.
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

/// What a host port reads and writes. See the [module](self).
pub trait BlockTarget: 'static {
    /// Its number: no other target of this process has it, then or later. A target that is renamed keeps it.
    fn number(&self) -> u64;

    /// Its name, by which hosts ask for it. It may get another one while it is served; who uses it goes on.
    fn name(&self) -> Rc<str>;

    /// A few words on what it is, for people.
    fn description(&self) -> String;

    /// Its size, and which requests suit it.
    fn geometry(&self) -> TargetGeometry;

    /// Whether nothing of it can be changed: writes, zeroes and trims would all fail.
    fn is_read_only(&self) -> bool;

    /// Whether hosts may still use it. One that is no longer served fails every request with `Gone`.
    fn is_served(&self) -> bool;

    /// Reads `range` into `buf`, which has its length. The buffer comes back, but for a drive that holds on to it after a
    /// timeout. Any byte range will do; whole sectors are faster.
    fn read(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> impl Future<Output = (Result<(), IoError>, Option<Buf>)>;

    /// Writes `data`, as long as `range`. After an error the range holds old data, new data or both.
    fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>>;

    /// Makes `range` read as zeroes; its space stays allocated.
    fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>>;

    /// Gives up the content of `range`, where that can be done.
    fn trim(self: &Rc<Self>, range: ByteRange) -> impl Future<Output = Result<(), IoError>>;

    /// Makes durable what was answered before.
    fn flush(self: &Rc<Self>) -> impl Future<Output = Result<(), IoError>>;

    /// Which parts of `range`, which is whole sectors, hold data, from its start on; the answer may cover less than was
    /// asked, but covers at least one sector.
    fn status(self: &Rc<Self>, range: ByteRange) -> impl Future<Output = Result<Vec<StatusExtent>, IoError>>;

    /// Waits for memory for a payload of `len` bytes: the target's own part of what the shard has for all.
    fn reserve_payload(&self, len: ByteCount) -> impl Future<Output = Taken>;
}

/// The targets that a shard serves now. A handle: cheap to clone.
pub trait Targets: Clone + 'static {
    /// What they are.
    type Target: BlockTarget;

    /// The shard's world.
    fn env(&self) -> &Env;

    /// Every target that hosts may use.
    fn targets(&self) -> Vec<Rc<Self::Target>>;

    /// The one of that name, if hosts may use it.
    fn find(&self, name: &str) -> Option<Rc<Self::Target>>;
}
