//! The computations of a plan: performed in memory between its reads and its commit.
//!
//! # Invariants
//! - Parity is computed from the data in place, even in several slices: sources are borrowed, never
//!   copied. The exception is cached old parity, which must not change.
//! - One step is one pass over memory, P and Q together.
//! - A target is taken out of the memory while it is written, so that no source overlaps it.
//! - Data-less buffers are not computed, only charged for: models use lengths. They always agree.

use crate::stripe::Stripes;
use crate::stripe::memory::{Lying, Memory, OwnBuf};
use layout::{DataIndex, Role, StripeMap};
use parity::{Change, Data, Lost, Parity, Piece, Strip, Verdict};
use plan::{Compute, ComputeKind, Mismatch, Plan, Source, Target, Term};
use platform::{Buf, IoError, IoErrorKind, Slice, Work};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// A target during a computation.
struct Taken {
    home: Home,
    buf: Buf,
    skip: usize,
}

/// The place from which a target's buffer was taken, and to which it returns.
enum Home {
    Host(u64),
    Scratch(usize),
    Brought(usize),
}

impl Taken {
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.buf.bytes_mut()[self.skip..self.skip + len]
    }
}

/// The bytes of a comparison that differ, and the single strip that explains the difference.
type Difference = (Range<usize>, Option<Role>);

/// Source pieces of a computation that lie in several slices; most computations have none.
#[derive(Default)]
struct Scattered<'a> {
    pieces: SmallVec<[Piece<'a>; 4]>,
    sources: SmallVec<[(Source, Range<usize>); 2]>,
}

impl<'a> Scattered<'a> {
    fn add(&mut self, source: Source, parts: impl Iterator<Item = (&'a Slice, usize, usize)>) {
        let first = self.pieces.len();
        self.pieces.extend(parts.map(|(slice, skip, len)| match slice.solid() {
            Some(bytes) => Piece::Bytes(&bytes[skip..skip + len]),
            None if slice.is_zero() => Piece::Zero(len),
            None => Piece::Hollow(len),
        }));
        self.sources.push((source, first..self.pieces.len()));
    }

    fn of(&self, source: Source) -> Option<&[Piece<'a>]> {
        let (_, pieces) = self.sources.iter().find(|(other, _)| *other == source)?;
        Some(&self.pieces[pieces.clone()])
    }
}

type Sources<'a> = SmallVec<[parity::Source<'a>; 32]>;

/// A plan that does not fit its memory: a programming error, which [`Stripes::compute_all`] turns
/// into a panic.
fn missing() -> IoError {
    IoError::new(IoErrorKind::Invalid)
}

fn refused(error: parity::Error) -> IoError {
    tracing::error!("parity refused a plan: {error}");
    missing()
}

/// Updates P or Q after bytes of a data strip have been replaced by zeros.
///
/// # Errors
/// When the lengths differ, or the role is not parity.
pub fn count_as_zeros(
    map: &StripeMap,
    index: DataIndex,
    bytes: &Slice,
    (role, parity): (Role, &mut [u8]),
) -> Result<(), IoError> {
    let mut zeros = platform::Buf::unpooled(bytes.len());
    let mut held = platform::Buf::unpooled(bytes.len());
    zeros.bytes_mut().fill(0);
    bytes.copy_to(held.bytes_mut());
    let exponent = if role == Role::Q { map.q_exponent(index) } else { 0 };
    let changes = [Change::new(exponent, held.bytes(), zeros.bytes())];
    let (p, q) = match role {
        Role::P => (Some(parity), None),
        Role::Q => (None, Some(parity)),
        Role::Data { .. } | Role::Spare => return Err(missing()),
    };
    parity::update(p, q, &changes).map_err(refused)
}

impl Stripes {
    /// Performs all computations of a plan. Returns the mismatch that a comparison found.
    ///
    /// # Panics
    /// When a source of the plan is not in its memory.
    pub(crate) async fn compute_all(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Option<Mismatch> {
        self.take_targets(plan, memory);
        let mut mismatch: Option<Mismatch> = None;
        for compute in plan.computes() {
            let (found, bytes) = memory.perform(plan, compute);
            mismatch = both(mismatch, found);
            self.shard.env().compute(Work::Xor(bytes)).await;
        }
        memory.seal();
        mismatch
    }

    /// The same at once. Returns as well the time after which the last of them is done in a model.
    ///
    /// # Panics
    /// When a source of the plan is not in its memory.
    pub(super) fn compute_at_once(
        &self,
        plan: &Plan,
        memory: &mut Memory,
    ) -> (Option<Mismatch>, Duration) {
        self.take_targets(plan, memory);
        let (mut mismatch, mut time) = (None, Duration::ZERO);
        for compute in plan.computes() {
            let (found, bytes) = memory.perform(plan, compute);
            mismatch = both(mismatch, found);
            time = time.max(self.shard.env().charge(Work::Xor(bytes)));
        }
        memory.seal();
        (mismatch, time)
    }

    /// Takes the buffers that computations write.
    fn take_targets(&self, plan: &Plan, memory: &mut Memory) {
        let targets =
            plan.scratch().iter().map(|len| OwnBuf::Open(self.take_scratch(*len, memory.hollow)));
        memory.scratch.extend(targets);
    }
}

/// What two comparisons found.
fn both(earlier: Option<Mismatch>, found: Option<Mismatch>) -> Option<Mismatch> {
    match (earlier, found) {
        (Some(earlier), Some(found)) => Some(earlier.and(found)),
        (earlier, found) => earlier.or(found),
    }
}

impl Memory {
    /// Performs one computation of a plan. Returns the bytes that it touches as well.
    ///
    /// # Panics
    /// When a source of the plan is not in this memory.
    fn perform(&mut self, plan: &Plan, compute: &Compute) -> (Option<Mismatch>, ByteCount) {
        let terms = plan.terms(compute);
        let found = self.compute(compute, terms).unwrap_or_else(|error| {
            panic!("the plan of {} uses data not in memory: {error}", plan.stripe());
        });
        let strips = terms.len() + compute.kind.targets().count();
        (found, compute.len * strips as u64)
    }

    /// Performs one computation; returns the mismatch that a comparison found.
    fn compute(&mut self, compute: &Compute, terms: &[Term]) -> Result<Option<Mismatch>, IoError> {
        if self.hollow {
            return Ok(None);
        }
        let len = compute.len.as_usize();
        let found = match compute.kind {
            ComputeKind::Generate { p, q } => {
                self.generate([p, q], terms, len)?;
                None
            }
            ComputeKind::Update { p, q } => {
                self.update(compute.kind, [p, q], terms, len)?;
                None
            }
            ComputeKind::Recover { lost } => {
                self.recover(lost, terms, len)?;
                None
            }
            ComputeKind::Compare => self.compare(terms, len)?,
            ComputeKind::Check => self.check(terms, len)?,
        };
        Ok(found.map(|(bytes, culprit)| {
            let start = ByteOffset(compute.within.0 + bytes.start as u64);
            Mismatch { columns: ByteRange::new(start, ByteCount(bytes.len() as u64)), culprit }
        }))
    }

    /// Seals all buffers of the plan: writes can use them.
    fn seal(&mut self) {
        self.scratch.iter_mut().for_each(OwnBuf::seal);
        self.brought.iter_mut().for_each(|brought| brought.bytes.seal());
    }

    fn generate(
        &mut self,
        into: [Option<Target>; 2],
        terms: &[Term],
        len: usize,
    ) -> Result<(), IoError> {
        self.write_into(into, len, |memory, into| {
            let scattered = memory.scattered(terms, len)?;
            let sources = memory.data_strips(terms, len, &scattered)?;
            match into {
                [Some(p), Some(q)] => parity::generate_pq(p, q, &sources),
                [Some(p), None] => parity::generate_p(p, &sources),
                [None, Some(q)] => parity::generate_q(q, &sources),
                [None, None] => Ok(()),
            }
            .map_err(refused)
        })
    }

    /// In place: the targets hold old parity, or get it from the cache.
    fn update(
        &mut self,
        kind: ComputeKind,
        into: [Option<Target>; 2],
        terms: &[Term],
        len: usize,
    ) -> Result<(), IoError> {
        let (elsewhere, pairs) = kind.old_parity_and_pairs(terms);
        self.write_into(into, len, |memory, [mut p, mut q]| {
            for old in elsewhere {
                let target = if old.role == Role::P { p.as_deref_mut() } else { q.as_deref_mut() };
                memory.copy_cached(old.from, target.ok_or_else(missing)?)?;
            }
            let scattered = memory.scattered(pairs, len)?;
            let mut changes: SmallVec<[Change<'_>; 32]> = SmallVec::new();
            for pair in pairs.chunks_exact(2) {
                let old = memory.data(pair[0].from, len, &scattered)?;
                let new = memory.data(pair[1].from, len, &scattered)?;
                changes.push(Change::new(pair[0].exponent, old, new));
            }
            parity::update(p, q, &changes).map_err(refused)
        })
    }

    fn recover(
        &mut self,
        lost: [Option<plan::Lost>; 2],
        terms: &[Term],
        len: usize,
    ) -> Result<(), IoError> {
        let into = lost.map(|lost| lost.map(|lost| lost.into));
        self.write_into(into, len, |memory, into| {
            let scattered = memory.scattered(terms, len)?;
            let sources = memory.data_strips(terms, len, &scattered)?;
            let left = memory.parity_strips(terms, len, &scattered)?;
            let strips = lost.into_iter().flatten().zip(into.into_iter().flatten());
            let mut strips: SmallVec<[Lost<'_>; 2]> = strips
                .map(|(lost, into)| {
                    let strip = match lost.role {
                        Role::P => Strip::P,
                        Role::Q => Strip::Q,
                        Role::Data { .. } | Role::Spare => Strip::Data(lost.exponent),
                    };
                    Lost::new(strip, into)
                })
                .collect();
            parity::recover(&mut strips, &sources, left).map_err(refused)
        })
    }

    /// The bytes in which copies differ, and the copy that differs from all others.
    fn compare(&self, terms: &[Term], len: usize) -> Result<Option<Difference>, IoError> {
        let zeroes = platform::buffers::zero_bytes();
        let mut copies: SmallVec<[&[u8]; 4]> = SmallVec::new();
        for term in terms {
            copies.push(match self.lying(term.from, len)? {
                Lying::Bytes(bytes) => bytes,
                Lying::Zero => zeroes.get(..len).ok_or_else(missing)?,
                Lying::Scattered => return Err(missing()), // Compared bytes come from reads.
            });
        }
        let Some((first, others)) = copies.split_first() else { return Ok(None) };
        if others.iter().all(|copy| copy == first) {
            return Ok(None);
        }
        let differs = |i: &usize| others.iter().any(|copy| copy[*i] != first[*i]);
        let start = (0..len).find(differs).unwrap_or(0);
        let end = (start..len).rev().find(differs).map_or(len, |last| last + 1);
        let is_odd = |odd: &usize| {
            let others: SmallVec<[&[u8]; 4]> =
                (0..copies.len()).filter(|i| i != odd).map(|i| copies[i]).collect();
            others.len() > 1 && others.windows(2).all(|pair| pair[0] == pair[1])
        };
        let culprit = (0..copies.len()).find(is_odd).map(|odd| terms[odd].role);
        Ok(Some((start..end, culprit)))
    }

    /// The bytes in which parity and data disagree, and the strip that explains this.
    fn check(&mut self, terms: &[Term], len: usize) -> Result<Option<Difference>, IoError> {
        let scattered = self.scattered(terms, len)?;
        let sources = self.data_strips(terms, len, &scattered)?;
        let verdict = match self.parity_strips(terms, len, &scattered)? {
            Parity { p: Some(p), q: Some(q) } => {
                parity::check_pq(p, q, &sources).map_err(refused)?
            }
            Parity { p: Some(p), q: None } => parity::check_p(p, &sources).map_err(refused)?,
            Parity { p: None, q: Some(_) } => {
                drop(sources);
                drop(scattered);
                return self.check_q(terms, len);
            }
            Parity { p: None, q: None } => Verdict::Consistent,
        };
        Ok(match verdict {
            Verdict::Consistent => None,
            Verdict::Wrong { culprit, bytes } => {
                let is_it = |term: &&Term| match culprit {
                    Some(Strip::P) => term.role == Role::P,
                    Some(Strip::Q) => term.role == Role::Q,
                    Some(Strip::Data(exponent)) => is_data(term) && term.exponent == exponent,
                    None => false,
                };
                Some((bytes, terms.iter().find(is_it).map(|term| term.role)))
            }
        })
    }

    /// Q alone: subtracts the data from Q in its read buffer. The result should be zero.
    fn check_q(&mut self, terms: &[Term], len: usize) -> Result<Option<Difference>, IoError> {
        let q = terms.iter().find(|term| term.role == Role::Q).ok_or_else(missing)?;
        let Source::Read { slot, at } = q.from else { return Err(missing()) };
        let mut wrong = None;
        self.write_into([None, Some(Target::Read { slot, at })], len, |memory, [_, q]| {
            let Some(q) = q else { return Err(missing()) };
            let scattered = memory.scattered(terms, len)?;
            let sources = memory.data_strips(terms, len, &scattered)?;
            let changes: SmallVec<[Change<'_>; 32]> = sources
                .iter()
                .map(|source| Change::new(source.exponent, source.data, Data::Zero(len)))
                .collect();
            parity::update(None, Some(&mut *q), &changes).map_err(refused)?;
            if !parity::is_zero(q) {
                let is_wrong = |byte: &u8| *byte != 0;
                let start = q.iter().position(is_wrong).unwrap_or(0);
                let end = q.iter().rposition(is_wrong).map_or(len, |last| last + 1);
                wrong = Some((start..end, None));
            }
            Ok(())
        })?;
        Ok(wrong)
    }

    /// The data strips among the terms, in place.
    fn data_strips<'a>(
        &'a self,
        terms: &[Term],
        len: usize,
        scattered: &'a Scattered<'_>,
    ) -> Result<Sources<'a>, IoError> {
        let strip = |term: &Term| {
            Ok(parity::Source::new(term.exponent, self.data(term.from, len, scattered)?))
        };
        terms.iter().filter(|term| is_data(term)).map(strip).collect()
    }

    /// P and Q among the terms.
    fn parity_strips<'a>(
        &'a self,
        terms: &[Term],
        len: usize,
        scattered: &'a Scattered<'_>,
    ) -> Result<Parity<'a>, IoError> {
        let find = |role| {
            let term = terms.iter().find(|term| term.role == role);
            term.map(|term| self.data(term.from, len, scattered)).transpose()
        };
        Ok(Parity { p: find(Role::P)?, q: find(Role::Q)? })
    }

    fn data<'a>(
        &'a self,
        source: Source,
        len: usize,
        scattered: &'a Scattered<'_>,
    ) -> Result<Data<'a>, IoError> {
        Ok(match self.lying(source, len)? {
            Lying::Zero => Data::Zero(len),
            Lying::Bytes(bytes) => Data::Bytes(bytes),
            Lying::Scattered => Data::Scattered(scattered.of(source).ok_or_else(missing)?),
        })
    }

    /// The pieces of terms that lie in several slices.
    fn scattered(&self, terms: &[Term], len: usize) -> Result<Scattered<'_>, IoError> {
        let mut scattered = Scattered::default();
        let Some(payload) = self.payload.as_ref().filter(|payload| !payload.is_one_slice()) else {
            return Ok(scattered);
        };
        for term in terms {
            if let Lying::Scattered = self.lying(term.from, len)? {
                match term.from {
                    Source::Host { at } => {
                        scattered.add(term.from, payload.parts(at.0, len as u64))
                    }
                    Source::Cached { role, at } => {
                        scattered.add(term.from, payload.cached_parts(role, at.0, len as u64));
                    }
                    Source::Read { .. } | Source::Scratch { .. } | Source::Zero => {}
                }
            }
        }
        Ok(scattered)
    }

    /// Copies cached bytes.
    fn copy_cached(&self, source: Source, into: &mut [u8]) -> Result<(), IoError> {
        let (Source::Cached { role, at }, Some(payload)) = (source, &self.payload) else {
            return Err(missing());
        };
        let mut done = 0;
        for (slice, skip, len) in payload.cached_parts(role, at.0, into.len() as u64) {
            slice
                .cut(ByteCount(skip as u64), ByteCount(len as u64))
                .copy_to(&mut into[done..done + len]);
            done += len;
        }
        if done == into.len() { Ok(()) } else { Err(missing()) }
    }

    /// Calls `work` to write `len` bytes of each target while the rest of the memory is borrowed.
    fn write_into(
        &mut self,
        targets: [Option<Target>; 2],
        len: usize,
        work: impl FnOnce(&Memory, [Option<&mut [u8]>; 2]) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let mut taken: [Option<Taken>; 2] = [None, None];
        let mut result = Ok(());
        for (taken, target) in taken.iter_mut().zip(targets) {
            let Some(target) = target else { continue };
            match self.take_target(target) {
                Some(it) if it.skip + len <= it.buf.bytes().len() => *taken = Some(it),
                it => {
                    *taken = it;
                    result = Err(missing());
                }
            }
        }
        if result.is_ok() {
            result = work(
                self,
                taken.each_mut().map(|taken| taken.as_mut().map(|taken| taken.bytes(len))),
            );
        }
        for taken in taken.into_iter().flatten() {
            self.put_target(taken);
        }
        result
    }

    fn take_target(&mut self, target: Target) -> Option<Taken> {
        let (home, buf, skip) = match target {
            Target::Host { at } => (Home::Host(at.0), self.part(at.0)?.buf.take()?, 0),
            Target::Scratch { slot, at } => {
                let index = usize::from(slot.0);
                (Home::Scratch(index), self.scratch.get_mut(index)?.take()?, at.0)
            }
            Target::Read { slot, at } => {
                let (index, skip) = self.own_buffer(slot, at.0)?;
                (Home::Brought(index), self.brought.get_mut(index)?.bytes.take()?, skip)
            }
        };
        Some(Taken { home, buf, skip: skip as usize })
    }

    fn put_target(&mut self, taken: Taken) {
        match taken.home {
            Home::Host(at) => {
                if let Some(part) = self.part(at) {
                    part.buf = Some(taken.buf);
                }
            }
            Home::Scratch(index) => self.scratch[index] = OwnBuf::Open(taken.buf),
            Home::Brought(index) => self.brought[index].bytes = OwnBuf::Open(taken.buf),
        }
    }
}

fn is_data(term: &Term) -> bool {
    matches!(term.role, Role::Data { .. })
}

#[cfg(test)]
mod tests;
