//! The steps of a plan.
//!
//! # Invariants
//! - Reads precede computes, computes precede the one commit, the commit precedes writes.
//! - Reads do not depend on each other, nor do writes; a compute depends on reads and on computes before it.
//! - No two reads overlap on a drive, nor two writes; pieces of a cell that touch are one I/O.
//! - A plan for reading delivers every byte of the host's range exactly once.
//! - Every byte that a step takes was handed over, read or computed before it.
//! - For one range, at most two steps per cell of the stripe, and four or six (see [`crate::Plan::step_bound`]).

use layout::Role;
use serde::Serialize;
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};

/// Which of a plan's reads, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadSlot(pub u16);

/// Which of a plan's scratch buffers, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ScratchSlot(pub u16);

/// Where bytes come from: a place in a buffer that the executor has, so that nothing needs copying.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// The host's buffer: the payload of a write; in a plan for reading, what was delivered into it.
    Host {
        /// From the buffer's first byte.
        at: ByteOffset,
    },
    /// What a read brought.
    Read {
        /// Which read.
        slot: ReadSlot,
        /// From the read's first byte.
        at: ByteOffset,
    },
    /// What a compute made.
    Scratch {
        /// Which scratch buffer.
        slot: ScratchSlot,
        /// From the scratch buffer's first byte.
        at: ByteOffset,
    },
    /// What the caller has in memory of a strip, as it was before the request: see [`crate::Cached`].
    Cached {
        /// Which strip.
        role: Role,
        /// Which of its columns.
        at: ByteOffset,
    },
    /// Zeroes.
    Zero,
}

impl Source {
    /// The source `count` bytes further on.
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
    /// The place in a read's own buffer as a target: what is computed there replaces what was read.
    pub(crate) fn as_own_buffer(self) -> Option<Target> {
        match self {
            Source::Read { slot, at } => Some(Target::Read { slot, at }),
            Source::Host { .. } | Source::Scratch { .. } | Source::Cached { .. } | Source::Zero => None,
        }
    }
}

/// Where bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The host's buffer of a read.
    Host {
        /// From the buffer's first byte.
        at: ByteOffset,
    },
    /// A read's own buffer, as long as the read (its bytes that go to the host are not needed in it).
    Read {
        /// Which read.
        slot: ReadSlot,
        /// From the read's first byte.
        at: ByteOffset,
    },
    /// A scratch buffer of a length that [`crate::Plan::scratch`] says.
    Scratch {
        /// Which scratch buffer.
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

/// A run of a plan's parts or sources: an index range without allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Run {
    /// The run of just one.
    pub(crate) fn one(at: u16) -> Run {
        Run { start: at.into(), end: u32::from(at) + 1 }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One read from one drive: consecutive bytes, scattered over its parts ([`crate::Plan::read_parts`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// The drive.
    pub drive: DriveIndex,
    /// The first byte, in the drive's data area.
    pub offset: ByteOffset,
    /// The first byte's place in its strip.
    pub within: ByteCount,
    /// How many bytes.
    pub len: ByteCount,
    /// What the drive holds there.
    pub role: Role,
    pub(crate) parts: Run,
}

/// A piece of a read, in the order of the drive's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadPart {
    /// Where it goes: the host's buffer, or the read's own.
    pub into: Target,
    /// How many bytes.
    pub len: ByteCount,
}

/// One write to one drive: consecutive bytes, gathered from its parts ([`crate::Plan::write_parts`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The drive.
    pub drive: DriveIndex,
    /// The first byte, in the drive's data area.
    pub offset: ByteOffset,
    /// The first byte's place in its strip.
    pub within: ByteCount,
    /// How many bytes.
    pub len: ByteCount,
    /// What the drive holds there.
    pub role: Role,
    pub(crate) parts: Run,
}

/// A piece of a write, in the order of the drive's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritePart {
    /// Where it comes from.
    pub from: Source,
    /// How many bytes.
    pub len: ByteCount,
}

/// One computation over memory, in one pass; what it takes is in [`crate::Plan::terms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compute {
    /// What is computed.
    pub kind: ComputeKind,
    /// How many bytes of each term.
    pub len: ByteCount,
    /// The first byte's place in every strip concerned.
    pub within: ByteCount,
    pub(crate) terms: Run,
}

/// What a [`Compute`] takes: bytes, and which strip they are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Where the bytes are.
    pub from: Source,
    /// The strip they are of.
    pub role: Role,
    /// The power of 2 that Q weighs that strip with, which no other data strip of the stripe has; where the level
    /// has no Q, the strip's index. 0 for parity and for copies.
    pub exponent: u8,
}

/// A strip that a [`Compute`] brings back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Which strip.
    pub role: Role,
    /// The power of 2 that Q weighs it with; 0 for parity.
    pub exponent: u8,
    /// Where its content goes, which no term overlaps.
    pub into: Target,
}

/// What a [`Compute`] does with its terms. P = Σ D, Q = Σ 2^exponent · D (in GF(2^8)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputeKind {
    /// P, Q or both, of the terms, which stand for all data strips: those that are missing are zero. No
    /// term overlaps the targets, which are scratch.
    Generate {
        /// Where P goes.
        p: Option<Target>,
        /// Where Q goes.
        q: Option<Target>,
    },
    /// P, Q or both after strips have changed. The terms come in pairs: what a strip held, and what it is to hold.
    /// Old parity that was read is changed in place: its target is the own buffer of its read, and holds the new
    /// afterwards. Old parity that is cached must stay as it is: its target is scratch, and before the pairs comes a
    /// term of its role that says where it is.
    Update {
        /// Where P goes.
        p: Option<Target>,
        /// Where Q goes.
        q: Option<Target>,
    },
    /// One or two strips from all other data strips and as many of P and Q as it takes, which are the terms.
    Recover {
        /// Which strips, and where they go; the first is always there.
        lost: [Option<Lost>; 2],
    },
    /// All terms must hold the same bytes: they are copies of one strip. Of three and more, the one that differs
    /// alone is named.
    Compare,
    /// P and Q, those that are among the terms, must agree with the data strips, which are the other terms.
    /// With both, a single wrong strip is named. Q alone may be overwritten in the buffer of its read.
    Check,
}

impl ComputeKind {
    /// Where results go.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        let (a, b) = match *self {
            ComputeKind::Generate { p, q } | ComputeKind::Update { p, q } => (p, q),
            ComputeKind::Recover { lost: [a, b] } => (a.map(|lost| lost.into), b.map(|lost| lost.into)),
            ComputeKind::Compare | ComputeKind::Check => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// The terms of an update: old parity that is not where the new is made, and the pairs of the data.
    pub fn old_parity_and_pairs<'a>(&self, terms: &'a [Term]) -> (&'a [Term], &'a [Term]) {
        let elsewhere = self.targets().filter(|target| matches!(target, Target::Scratch { .. })).count();
        let elsewhere = if matches!(self, ComputeKind::Update { .. }) { elsewhere } else { 0 };
        terms.split_at(elsewhere)
    }
}

/// What a [`ComputeKind::Compare`] or [`ComputeKind::Check`] found wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Columns of the strip, from the first wrong one to the last.
    pub columns: ByteRange,
    /// The one strip whose change explains all that is wrong: [`crate::Request::Repair`] computes it anew. `None` where
    /// nothing tells.
    pub culprit: Option<Role>,
}

impl Mismatch {
    /// This and another one of the same stripe, as one.
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
    /// Before it a fault means planning again with the new health; after it *this* plan's writes are
    /// finished, skipping what has died.
    Commit,
    /// Write to a drive.
    Write(&'a Write),
}

impl Step<'_> {
    /// The step's name in pictures and traces: `read`, `parity`, `update`, `recover`, `compare`, `check`,
    /// `commit` or `write`.
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

/// What a plan costs.
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
    /// Bytes that computing parity, and data from it, takes in.
    pub parity_bytes: u64,
    /// Bytes that comparing and checking take in.
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
