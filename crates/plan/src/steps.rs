//! A plan: the steps that serve one request on one stripe.
//!
//! # Invariants
//! - Reads precede computes, computes precede the one commit, the commit precedes writes.
//! - Reads do not depend on each other, nor do writes; a compute depends on reads only.
//! - No two reads overlap on a drive, nor two writes; pieces that touch on a drive are one I/O.
//! - A plan for reading delivers every byte of the host's range exactly once.
//! - At most 2 × drives + 4 steps (see [`Plan::step_bound`]).

use crate::bands::Mask;
use crate::{Bands, Health, Method, Request, Verdict};
use layout::{Geometry, Role};
use serde::Serialize;
use std::ops::Range;
use units::{ByteCount, ByteOffset, DriveIndex, StripeIndex};

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
            Source::Zero => Source::Zero,
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
    /// A scratch buffer of a length that [`Plan::scratch`] says.
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

/// One read from one drive: consecutive bytes, scattered over its parts ([`Plan::read_parts`]).
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

/// One write to one drive: consecutive bytes, gathered from its parts ([`Plan::write_parts`]).
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

/// One computation over memory; what it takes is in [`Plan::sources`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compute {
    /// What is computed.
    pub kind: ComputeKind,
    /// How many bytes of each source.
    pub len: ByteCount,
    /// The first byte's place in every strip concerned.
    pub within: ByteCount,
    pub(crate) sources: Run,
}

/// What a [`Compute`] does with its sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputeKind {
    /// The XOR of all sources, into a place that none of them overlaps: the host's buffer in a plan for
    /// reading, otherwise scratch.
    Xor {
        /// Where the result goes.
        into: Target,
        /// What the result is.
        role: Role,
    },
    /// All sources must hold the same bytes; where they differ, the stripe is inconsistent.
    Compare,
}

/// One step of a plan, in the order of [`Plan::steps`].
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
    /// The step's name in pictures and traces: `read`, `xor`, `compare`, `commit` or `write`.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Read(_) => "read",
            Step::Compute(Compute { kind: ComputeKind::Xor { .. }, .. }) => "xor",
            Step::Compute(Compute { kind: ComputeKind::Compare, .. }) => "compare",
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
    /// Bytes that XOR takes in.
    pub xor_bytes: u64,
    /// Bytes that comparing takes in.
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
            xor_bytes: self.xor_bytes + other.xor_bytes,
            compare_bytes: self.compare_bytes + other.compare_bytes,
        }
    }
}

/// The steps that serve one request on one stripe; made by [`crate::plan_into`], and reusable: it keeps
/// its memory, so that planning again into it allocates nothing.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) stripe: StripeIndex,
    pub(crate) request: Request,
    pub(crate) health: Health,
    pub(crate) method: Method,
    pub(crate) verdict: Verdict,
    pub(crate) bands: Bands,
    /// Bands whose parity is kept by RMW.
    pub(crate) rmw_bands: Mask,
    /// Bands whose parity is kept by RCW, full stripes among them.
    pub(crate) rcw_bands: Mask,
    pub(crate) reads: Vec<Read>,
    pub(crate) read_parts: Vec<ReadPart>,
    pub(crate) computes: Vec<Compute>,
    pub(crate) sources: Vec<Source>,
    pub(crate) writes: Vec<Write>,
    pub(crate) write_parts: Vec<WritePart>,
    pub(crate) scratch: Vec<ByteCount>,
    /// While planning: which read brings band `b` of strip `i`, at `3 * i + b`; P comes after the data.
    pub(crate) brought_by: Vec<u16>,
}

impl Plan {
    /// A plan without steps, with memory for any request on this geometry.
    pub fn new(geometry: &Geometry) -> Plan {
        let drives = usize::from(geometry.cells_per_stripe());
        Plan {
            geometry: *geometry,
            stripe: StripeIndex(0),
            request: Request::Resync,
            health: Health::optimal(geometry),
            method: Method::Nothing,
            verdict: Verdict::Only,
            bands: Bands::default(),
            rmw_bands: 0,
            rcw_bands: 0,
            reads: Vec::with_capacity(2 * drives),
            read_parts: Vec::with_capacity(3 * drives),
            computes: Vec::with_capacity(usize::from(geometry.data_strips().max(3))),
            sources: Vec::with_capacity(6 * drives),
            writes: Vec::with_capacity(2 * drives),
            write_parts: Vec::with_capacity(3 * drives),
            scratch: Vec::with_capacity(1),
            brought_by: Vec::with_capacity(3 * (drives + 1)),
        }
    }

    /// The most steps a plan on this geometry may have: two per drive (its old bytes read, its new bytes
    /// written) and four (a computation for each of at most three bands of columns, and the commit).
    ///
    /// A drive can have two pieces to read where a request over two strips ends before the column it starts
    /// in, so that its two bands do not touch. But then only two strips, and parity in two pieces, are
    /// written and two computations made: RCW in both bands takes 2 × (drives − 3) + 2 reads, 4 writes,
    /// 2 computations and the commit, one step less than the bound. Where all three bands are active, RMW of
    /// all of k = drives − 1 data strips takes k + 1 reads, as many writes, and four: the bound itself.
    pub fn step_bound(geometry: &Geometry) -> usize {
        2 * usize::from(geometry.cells_per_stripe()) + 4
    }

    /// The layout it was made for.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The stripe it was made for.
    pub fn stripe(&self) -> StripeIndex {
        self.stripe
    }

    /// What was asked.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The health it was made for.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// How the request is served.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Why that way: what else was possible, and at what cost.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The reads, in the order of their slots.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// What a read's bytes are for, in the order of the drive's bytes; their lengths add up to the read's.
    pub fn read_parts(&self, read: &Read) -> &[ReadPart] {
        &self.read_parts[read.parts.range()]
    }

    /// The computations.
    pub fn computes(&self) -> &[Compute] {
        &self.computes
    }

    /// What a computation takes.
    pub fn sources(&self, compute: &Compute) -> &[Source] {
        &self.sources[compute.sources.range()]
    }

    /// The writes.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// What a write's bytes are, in the order of the drive's bytes; their lengths add up to the write's.
    pub fn write_parts(&self, write: &Write) -> &[WritePart] {
        &self.write_parts[write.parts.range()]
    }

    /// The lengths of the scratch buffers, in the order of their slots.
    pub fn scratch(&self) -> &[ByteCount] {
        &self.scratch
    }

    /// All steps in order: reads, computes, the commit, writes.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let reads = self.reads.iter().map(Step::Read);
        let computes = self.computes.iter().map(Step::Compute);
        reads.chain(computes).chain([Step::Commit]).chain(self.writes.iter().map(Step::Write))
    }

    /// What it costs.
    pub fn cost(&self) -> Cost {
        self.cost_where(|_| true)
    }

    /// What it costs one drive; computing is not charged to any.
    pub fn cost_of(&self, drive: DriveIndex) -> Cost {
        Cost { xor_bytes: 0, compare_bytes: 0, ..self.cost_where(|other| other == drive) }
    }

    fn cost_where(&self, counts: impl Fn(DriveIndex) -> bool) -> Cost {
        let mut cost = Cost::default();
        for read in self.reads.iter().filter(|read| counts(read.drive)) {
            cost.reads += 1;
            cost.bytes_read += read.len.0;
        }
        for write in self.writes.iter().filter(|write| counts(write.drive)) {
            cost.writes += 1;
            cost.bytes_written += write.len.0;
        }
        for compute in &self.computes {
            let bytes = compute.len.0 * compute.sources.range().len() as u64;
            match compute.kind {
                ComputeKind::Xor { .. } => cost.xor_bytes += bytes,
                ComputeKind::Compare => cost.compare_bytes += bytes,
            }
        }
        cost
    }

    /// Empties it for the next request; memory is kept.
    pub(crate) fn start(
        &mut self,
        geometry: &Geometry,
        stripe: StripeIndex,
        request: Request,
        health: &Health,
    ) {
        self.geometry = *geometry;
        self.stripe = stripe;
        self.request = request;
        self.health = *health;
        self.method = Method::Nothing;
        self.verdict = Verdict::Only;
        self.rmw_bands = 0;
        self.rcw_bands = 0;
        self.reads.clear();
        self.read_parts.clear();
        self.computes.clear();
        self.sources.clear();
        self.writes.clear();
        self.write_parts.clear();
        self.scratch.clear();
        let cells = 3 * (usize::from(geometry.data_strips()) + 1);
        if self.brought_by.len() < cells {
            self.brought_by.resize(cells, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_into;
    use layout::{CopyIndex, Level};
    use units::{ByteRange, DriveCount, StripSize};

    fn capacities(plan: &Plan) -> [usize; 8] {
        [
            plan.reads.capacity(),
            plan.read_parts.capacity(),
            plan.computes.capacity(),
            plan.sources.capacity(),
            plan.writes.capacity(),
            plan.write_parts.capacity(),
            plan.scratch.capacity(),
            plan.brought_by.capacity(),
        ]
    }

    #[test]
    fn planning_never_needs_more_memory_than_a_new_plan_has() {
        for (level, drives) in
            Level::ALL.into_iter().flat_map(|l| [1, 2, 3, 4, 6, 7, 32].map(|n| (l, DriveCount(n))))
        {
            let Ok(geometry) = Geometry::new(level, drives, StripSize::MIN, ByteCount::MIB) else { continue };
            if geometry.parity_strips() > 1 {
                continue; // Not planned yet.
            }
            let mut plan = Plan::new(&geometry);
            let before = capacities(&plan);
            let optimal = Health::optimal(&geometry);
            let failed = optimal.without(DriveIndex(1));
            let points: Vec<u64> = (0..=geometry.stripe_bytes().0).step_by(1024).collect();
            for (i, start) in points.iter().enumerate() {
                for end in &points[i + 1..] {
                    let range = ByteRange::from_to(ByteOffset(*start), ByteOffset(*end));
                    for health in [optimal, failed, optimal.untrusted()] {
                        for request in
                            [Request::Read { range, prefer: CopyIndex(0) }, Request::Write { range }]
                        {
                            // A level without redundancy refuses some; that is planning too.
                            let _ = plan_into(&mut plan, &geometry, StripeIndex(1), request, &health);
                            assert!(plan.steps().count() <= Plan::step_bound(&geometry), "{plan:#?}");
                        }
                    }
                }
            }
            for request in [Request::Resync, Request::Verify] {
                plan_into(&mut plan, &geometry, StripeIndex(1), request, &optimal).unwrap();
            }
            assert_eq!(capacities(&plan), before, "{geometry}");
        }
    }
}
