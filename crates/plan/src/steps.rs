//! The steps of a plan.
//!
//! # Invariants
//! - Reads precede computes, computes precede the one commit, the commit precedes writes.
//! - Reads are independent of each other, and so are writes; a compute depends on reads and earlier
//!   computes.
//! - No two reads overlap on a drive, nor two writes; adjacent pieces of a cell are one I/O.
//! - A plan for reading delivers every byte of the host's range exactly once.
//! - The input of a step was supplied, read or computed before it.
//! - For one range, at most two steps per cell of the stripe, and four or six (see
//!   [`crate::Plan::step_bound`]).

use layout::Role;
use serde::Serialize;
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};

/// Index of a read of the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadSlot(pub u16);

/// Index of a scratch buffer of the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ScratchSlot(pub u16);

/// Source of bytes: a place in one of the executor's buffers, so that no copy is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// The host's buffer: the payload of a write, or the data delivered by a read.
    Host {
        /// From the buffer's first byte.
        at: ByteOffset,
    },
    /// The result of a read.
    Read {
        /// The read.
        slot: ReadSlot,
        /// From the read's first byte.
        at: ByteOffset,
    },
    /// The result of a computation.
    Scratch {
        /// The scratch buffer.
        slot: ScratchSlot,
        /// From the scratch buffer's first byte.
        at: ByteOffset,
    },
    /// Cached data of a strip, from before the request: see [`crate::Cached`].
    Cached {
        /// The strip.
        role: Role,
        /// Its column.
        at: ByteOffset,
    },
    /// Zeroes.
    Zero,
}

impl Source {
    /// The source advanced by `count` bytes.
    #[must_use]
    pub fn advance(self, count: ByteCount) -> Source {
        match self {
            Source::Host { at } => Source::Host { at: at + count },
            Source::Read { slot, at } => Source::Read { slot, at: at + count },
            Source::Scratch { slot, at } => Source::Scratch { slot, at: at + count },
            Source::Cached { role, at } => Source::Cached { role, at: at + count },
            Source::Zero => Source::Zero,
        }
    }
}

impl Source {
    /// The place in a read's own buffer as a target, for updates in place.
    pub(crate) fn as_own_buffer(self) -> Option<Target> {
        match self {
            Source::Read { slot, at } => Some(Target::Read { slot, at }),
            Source::Host { .. } | Source::Scratch { .. } | Source::Cached { .. } | Source::Zero => {
                None
            }
        }
    }
}

/// Target of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The host's buffer of a read.
    Host {
        /// From the buffer's first byte.
        at: ByteOffset,
    },
    /// A read's own buffer, as long as the read; its part for the host stays unused.
    Read {
        /// The read.
        slot: ReadSlot,
        /// From the read's first byte.
        at: ByteOffset,
    },
    /// A scratch buffer; [`crate::Plan::scratch`] gives its length.
    Scratch {
        /// The scratch buffer.
        slot: ScratchSlot,
        /// From the scratch buffer's first byte.
        at: ByteOffset,
    },
}

impl Target {
    /// The same place as a source.
    pub fn as_source(self) -> Source {
        match self {
            Target::Host { at } => Source::Host { at },
            Target::Read { slot, at } => Source::Read { slot, at },
            Target::Scratch { slot, at } => Source::Scratch { slot, at },
        }
    }
}

/// An index range of a plan's parts or terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Run {
    /// A run of one.
    pub(crate) fn one(at: u16) -> Run {
        Run { start: at.into(), end: u32::from(at) + 1 }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One read from one drive: consecutive bytes, scattered over its parts
/// ([`crate::Plan::read_parts`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// The drive.
    pub drive: DriveIndex,
    /// The first byte, in the drive's data area.
    pub offset: ByteOffset,
    /// The first byte's offset in its strip.
    pub within: ByteCount,
    /// How many bytes.
    pub len: ByteCount,
    /// The strip that the drive holds there.
    pub role: Role,
    pub(crate) parts: Run,
}

/// A piece of a read, in the order of the drive's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadPart {
    /// Its target: the host's buffer, or the read's own.
    pub into: Target,
    /// How many bytes.
    pub len: ByteCount,
}

/// One write to one drive: consecutive bytes, gathered from its parts
/// ([`crate::Plan::write_parts`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The drive.
    pub drive: DriveIndex,
    /// The first byte, in the drive's data area.
    pub offset: ByteOffset,
    /// The first byte's offset in its strip.
    pub within: ByteCount,
    /// How many bytes.
    pub len: ByteCount,
    /// The strip that the drive holds there.
    pub role: Role,
    pub(crate) parts: Run,
}

/// A piece of a write, in the order of the drive's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritePart {
    /// Its source.
    pub from: Source,
    /// How many bytes.
    pub len: ByteCount,
}

/// One computation over memory, in one pass; [`crate::Plan::terms`] gives its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compute {
    /// The operation.
    pub kind: ComputeKind,
    /// How many bytes of each term.
    pub len: ByteCount,
    /// The first byte's offset in each strip.
    pub within: ByteCount,
    pub(crate) terms: Run,
}

/// An input of a [`Compute`]: bytes, and their strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// The bytes.
    pub from: Source,
    /// Their strip.
    pub role: Role,
    /// The exponent of 2 by which Q weighs the strip, unique among data strips; without Q, the
    /// strip's index. 0 for parity and copies.
    pub exponent: u8,
}

/// A strip that a [`Compute`] recovers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The strip.
    pub role: Role,
    /// The exponent of 2 by which Q weighs it; 0 for parity.
    pub exponent: u8,
    /// Target of its content; no term overlaps it.
    pub into: Target,
}

/// Operation of a [`Compute`] on its terms. P = Σ D, Q = Σ 2^exponent · D (in GF(2^8)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputeKind {
    /// P, Q or both from all data strips; missing terms are zero. Targets are scratch, and overlap
    /// no term.
    Generate {
        /// Target of P.
        p: Option<Target>,
        /// Target of Q.
        q: Option<Target>,
    },
    /// P, Q or both after a change. The terms are pairs of old and new content of a strip. Old
    /// parity that was read is updated in place in its read's own buffer. Old parity from the cache
    /// stays unchanged: its target is scratch, and a term of its role precedes the pairs.
    Update {
        /// Target of P.
        p: Option<Target>,
        /// Target of Q.
        q: Option<Target>,
    },
    /// Recovers one or two strips from all other data strips and as many of P and Q as needed.
    Recover {
        /// The strips and their targets; the first is always present.
        lost: [Option<Lost>; 2],
    },
    /// Compares copies of one strip. Of three or more copies, a single differing one is identified.
    Compare,
    /// Checks P and Q, as far as given, against the data strips. With both, a single wrong strip is
    /// identified. Q alone may be overwritten in its read's buffer.
    Check,
}

impl ComputeKind {
    /// Targets of the results.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        let (a, b) = match *self {
            ComputeKind::Generate { p, q } | ComputeKind::Update { p, q } => (p, q),
            ComputeKind::Recover { lost: [a, b] } => {
                (a.map(|lost| lost.into), b.map(|lost| lost.into))
            }
            ComputeKind::Compare | ComputeKind::Check => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// The terms of an update: old parity that is not updated in place, and the data pairs.
    pub fn old_parity_and_pairs<'a>(&self, terms: &'a [Term]) -> (&'a [Term], &'a [Term]) {
        let elsewhere =
            self.targets().filter(|target| matches!(target, Target::Scratch { .. })).count();
        let elsewhere = if matches!(self, ComputeKind::Update { .. }) { elsewhere } else { 0 };
        terms.split_at(elsewhere)
    }
}

/// A mismatch found by [`ComputeKind::Compare`] or [`ComputeKind::Check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Columns of the strip, from the first wrong one to the last.
    pub columns: ByteRange,
    /// The single strip that explains the mismatch; [`crate::Request::Repair`] recomputes it.
    /// `None` if unknown.
    pub culprit: Option<Role>,
}

impl Mismatch {
    /// Joins this mismatch with another one of the same stripe.
    #[must_use]
    pub fn and(self, other: Mismatch) -> Mismatch {
        let start = self.columns.start.min(other.columns.start);
        let end = self.columns.end().max(other.columns.end());
        let culprit = self.culprit.filter(|culprit| other.culprit == Some(*culprit));
        Mismatch { columns: ByteRange::from_to(start, end), culprit }
    }
}

/// One step of a plan, in the order of [`crate::Plan::steps`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// Read from a drive.
    Read(&'a Read),
    /// Compute in memory.
    Compute(&'a Compute),
    /// Before it, a fault causes a new plan for the new health. After it, *this* plan's writes are
    /// finished without the failed drives.
    Commit,
    /// Write to a drive.
    Write(&'a Write),
}

impl Step<'_> {
    /// The step's name in pictures and traces: `read`, `parity`, `update`, `recover`, `compare`,
    /// `check`, `commit` or `write`.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Read(_) => "read",
            Step::Compute(compute) => match compute.kind {
                ComputeKind::Generate { .. } => "parity",
                ComputeKind::Update { .. } => "update",
                ComputeKind::Recover { .. } => "recover",
                ComputeKind::Compare => "compare",
                ComputeKind::Check => "check",
            },
            Step::Commit => "commit",
            Step::Write(_) => "write",
        }
    }
}

/// The cost of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// Reads from drives.
    pub reads: u32,
    /// Writes to drives.
    pub writes: u32,
    /// Bytes read from drives.
    pub bytes_read: u64,
    /// Bytes written to drives.
    pub bytes_written: u64,
    /// Input bytes of parity computations and recoveries.
    pub parity_bytes: u64,
    /// Input bytes of comparisons and checks.
    pub compare_bytes: u64,
}

impl Cost {
    /// Reads and writes.
    pub fn drive_ios(&self) -> u32 {
        self.reads + self.writes
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            parity_bytes: self.parity_bytes + other.parity_bytes,
            compare_bytes: self.compare_bytes + other.compare_bytes,
        }
    }
}
