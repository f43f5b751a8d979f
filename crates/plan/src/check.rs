//! Assertions that hold for every plan.
//!
//! Debug builds check each plan when it is made, and tests each plan that they execute.
//! [`Plan::steps`] guarantees by construction that reads precede the one commit and writes follow
//! it.

use crate::{ComputeKind, Plan, Read, Request, Source, Target, Term, Write};
use layout::{CopyIndex, DataIndex, Role};
use std::ops::Range;
use units::{ByteCount, ByteOffset, DriveIndex};

/// The buffer of a source, and the source's offset in it.
fn place(source: Source) -> Option<(Source, u64)> {
    let at = match source {
        Source::Host { at }
        | Source::Read { at, .. }
        | Source::Scratch { at, .. }
        | Source::Cached { at, .. } => at.0,
        Source::Zero => return None,
    };
    let start = match source {
        Source::Host { .. } => Source::Host { at: ByteOffset::ZERO },
        Source::Read { slot, .. } => Source::Read { slot, at: ByteOffset::ZERO },
        Source::Scratch { slot, .. } => Source::Scratch { slot, at: ByteOffset::ZERO },
        Source::Cached { role, .. } => Source::Cached { role, at: ByteOffset::ZERO },
        Source::Zero => Source::Zero,
    };
    Some((start, at))
}

/// How many of `len` bytes of a source lie within a target.
fn shared(source: Source, len: ByteCount, target: Target, target_len: ByteCount) -> u64 {
    match (place(source), place(target.as_source())) {
        (Some((one, at)), Some((other, start))) if one == other => {
            (at + len.0).min(start + target_len.0).saturating_sub(at.max(start))
        }
        _ => 0,
    }
}

impl Plan {
    /// Asserts the invariants of a plan: steps stay in range and do not overlap; the input of a
    /// step was supplied, read or computed before it; each byte is written to its place on each
    /// writable drive; parity follows in all its columns.
    ///
    /// # Panics
    /// When an invariant is violated, which is an error of the planner.
    pub fn check(&self) {
        self.reads.iter().for_each(|read| self.check_read(read));
        self.writes.iter().for_each(|write| self.check_write(write));
        let reads = self.reads.iter().map(|it| (it.drive, it.offset, it.len));
        let writes = self.writes.iter().map(|it| (it.drive, it.offset, it.len));
        assert!(are_apart(reads), "reads do not overlap: {self:#?}");
        assert!(are_apart(writes), "writes do not overlap: {self:#?}");
        for n in 0..self.computes.len() {
            self.check_compute(n);
        }
        if self.request.is_write() {
            self.check_all_is_written();
        }
    }

    fn check_read(&self, read: &Read) {
        let cell = self.map.cell_of(read.role);
        assert!(self.health.readable.contains(read.drive), "reads what can be read: {read:?}");
        assert!(cell.is_some_and(
            |cell| (cell.drive, cell.offset + read.within) == (read.drive, read.offset)
        ));
        self.check_columns(read.within, read.len);
        let parts = self.read_parts(read).iter().map(|part| part.len.0);
        assert_eq!(parts.sum::<u64>(), read.len.0, "the parts of a read are all of it: {read:?}");
    }

    fn check_write(&self, write: &Write) {
        let copied = matches!(self.request, Request::Copy { drive, .. } if drive == write.drive);
        assert!(
            copied || self.health.writable.contains(write.drive),
            "writes what can be written: {write:?}"
        );
        self.check_columns(write.within, write.len);
        let parts = self.write_parts(write);
        let sum: u64 = parts.iter().map(|part| part.len.0).sum();
        assert_eq!(sum, write.len.0, "the parts of a write are all of it: {write:?}");
        for part in parts {
            self.check_source(part.from, part.len, self.computes.len());
        }
        if let (Role::Data { index, .. }, true) = (write.role, self.request.is_write()) {
            let strip = self.geometry.strip().bytes().0;
            let mut at = u64::from(index.0) * strip + write.within.0;
            for part in parts {
                match part.from {
                    Source::Host { at: from } => {
                        assert_eq!(
                            self.bands.data_at(from.0),
                            at,
                            "bytes go where they belong: {write:?}"
                        );
                        let last = self.bands.data_at(from.0 + part.len.0 - 1);
                        assert_eq!(
                            last,
                            at + part.len.0 - 1,
                            "bytes go where they belong: {write:?}"
                        );
                    }
                    Source::Zero => assert!(matches!(self.request, Request::WriteZeroes { .. })),
                    other => panic!("data comes from the host, not from {other:?}"),
                }
                at += part.len.0;
            }
        }
    }

    fn check_columns(&self, within: ByteCount, len: ByteCount) {
        let strip = self.geometry.strip().bytes();
        assert!(
            len.0 > 0 && within + len <= strip,
            "{len} from column {within} are in a strip of {strip}"
        );
    }

    fn check_compute(&self, n: usize) {
        let compute = &self.computes[n];
        self.check_columns(compute.within, compute.len);
        let terms = self.terms(compute);
        for term in terms {
            self.check_source(term.from, compute.len, n);
        }
        match compute.kind {
            ComputeKind::Generate { p, q } => {
                assert!(p.is_some() || q.is_some(), "something is generated");
                let scratch = |into: Target| matches!(into, Target::Scratch { .. });
                assert!(compute.kind.targets().all(scratch), "parity is generated into scratch");
            }
            ComputeKind::Update { p, q } => {
                let (elsewhere, pairs) = compute.kind.old_parity_and_pairs(terms);
                assert!(p.is_some() || q.is_some(), "something is updated");
                assert!(elsewhere.iter().all(|term| matches!(term.role, Role::P | Role::Q)));
                let is_pair = |pair: &[Term]| match pair {
                    [old, new] => old.role == new.role && matches!(old.role, Role::Data { .. }),
                    _ => false,
                };
                assert!(pairs.chunks(2).all(is_pair), "old and new come in pairs: {terms:?}");
            }
            ComputeKind::Recover { lost } => assert!(lost[0].is_some(), "something is recovered"),
            ComputeKind::Compare | ComputeKind::Check => {}
        }
        for target in compute.kind.targets() {
            match target {
                Target::Host { at } => assert!(at.0 + compute.len.0 <= self.bands.payload),
                Target::Scratch { slot, at } => {
                    assert!(at.0 + compute.len.0 <= self.scratch[usize::from(slot.0)].0);
                }
                Target::Read { slot, at } => {
                    assert!(at.0 + compute.len.0 <= self.reads[usize::from(slot.0)].len.0);
                }
            }
        }
    }

    /// The bytes were supplied, read, or made by one of the first `computes` computations.
    fn check_source(&self, source: Source, len: ByteCount, computes: usize) {
        let there = match source {
            Source::Zero => true,
            Source::Host { at } if self.request.is_write() => at.0 + len.0 <= self.bands.payload,
            Source::Cached { role, at } => self.is_cached(role, at.0..at.0 + len.0),
            Source::Host { .. } | Source::Read { .. } | Source::Scratch { .. } => {
                let parts = self.reads.iter().flat_map(|read| self.read_parts(read));
                let read: u64 = parts.map(|part| shared(source, len, part.into, part.len)).sum();
                // Data changed in place was read.
                let made = self.computes[..computes].iter().map(|it| {
                    let into =
                        it.kind.targets().filter(|into| !matches!(into, Target::Read { .. }));
                    into.map(|into| shared(source, len, into, it.len)).sum::<u64>()
                });
                read + made.sum::<u64>() == len.0
            }
        };
        assert!(there, "{len} of {source:?} are available: {self:#?}");
    }

    /// Whether some columns of a strip are cached completely.
    fn is_cached(&self, role: Role, columns: Range<u64>) -> bool {
        let mut at = columns.start;
        for cached in self.cached.iter().filter(|cached| cached.role == role) {
            if cached.columns.start.0 <= at && at < cached.columns.end().0 {
                at = cached.columns.end().0;
            }
        }
        at >= columns.end
    }

    fn check_all_is_written(&self) {
        let written = |role: Role| -> u64 {
            self.writes.iter().filter(|write| write.role == role).map(|write| write.len.0).sum()
        };
        let can_write = |role: Role| {
            self.map.cell_of(role).is_some_and(|cell| self.health.writable.contains(cell.drive))
        };
        let mut active = 0;
        for index in (0..self.geometry.data_strips()).map(DataIndex) {
            let mask = self.bands.of_strip(index.0);
            active |= mask;
            for copy in (0..self.geometry.copies()).map(CopyIndex) {
                let role = Role::Data { index, copy };
                let wanted = if can_write(role) { self.bands.columns(mask) } else { 0 };
                assert_eq!(written(role), wanted, "all of {role} is written: {self:#?}");
            }
        }
        let kept = (self.rmw_bands | self.rcw_bands | self.recover_bands) & active;
        for role in [Role::P, Role::Q].into_iter().filter(|role| can_write(*role)) {
            assert_eq!(written(role), self.bands.columns(kept), "{role} is written: {self:#?}");
            assert!(
                kept == active || !self.health.parity_trusted,
                "{role} follows the data: {self:#?}"
            );
        }
    }
}

fn are_apart(ios: impl Iterator<Item = (DriveIndex, ByteOffset, ByteCount)> + Clone) -> bool {
    let mut rest = ios;
    while let Some((drive, offset, len)) = rest.next() {
        let overlaps = |(other, start, more): (DriveIndex, ByteOffset, ByteCount)| {
            drive == other && offset < start + more && start < offset + len
        };
        if rest.clone().any(overlaps) {
            return false;
        }
    }
    true
}
