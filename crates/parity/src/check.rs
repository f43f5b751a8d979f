//! Checks whether P and Q agree with the data, and identifies a single wrong strip.
//!
//! With *p* = P + Σ D and *q* = Q + Σ 2^exponent · D, byte by byte: both are zero if parity agrees.
//! An error *e* in P gives (e, 0), in Q (0, e), in the data strip with exponent *a* (e, 2^a · e): q
//! / p identifies the strip. Two wrong strips in the same byte can look like one; in different
//! bytes they are distinguished.

use crate::error::Error;
use crate::field::{ORDER, logarithm};
use crate::kernels::{Kernel, Start};
use crate::recover::Strip;
use crate::sources::{Data, Exponents, Run, Source, Term, Terms, each_run};
use std::ops::Range;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Parity agrees with the data.
    Consistent,
    /// Parity does not agree, in bytes of this range (from the first to the last wrong byte).
    Wrong {
        /// The one strip that explains every wrong byte; `None` if there is none, or without Q.
        culprit: Option<Strip>,
        /// From the first wrong byte to the last.
        bytes: Range<usize>,
    },
}

/// Bytes per step: P, Q and the calculated parity stay in the L1 cache.
const BLOCK: usize = 4096;

/// The common cause of the wrong bytes so far.
struct Findings<'a> {
    sources: &'a [Source<'a>],
    bytes: Option<Range<usize>>,
    culprit: Option<Strip>,
}

impl Findings<'_> {
    /// Records a byte at `at`, with at least one of `p` and `q` nonzero.
    fn note(&mut self, at: usize, p: u8, q: u8) {
        let culprit = match (logarithm(p), logarithm(q)) {
            (Some(p), Some(q)) => {
                let exponent = (usize::from(q) + ORDER - usize::from(p)) % ORDER;
                let exists =
                    self.sources.iter().any(|source| usize::from(source.exponent) == exponent);
                exists.then_some(Strip::Data(exponent as u8))
            }
            (Some(_), None) => Some(Strip::P),
            (None, _) => Some(Strip::Q),
        };
        match &mut self.bytes {
            None => (self.bytes, self.culprit) = (Some(at..at + 1), culprit),
            Some(bytes) => {
                bytes.end = at + 1;
                if self.culprit != culprit {
                    self.culprit = None;
                }
            }
        }
    }

    fn verdict(self) -> Verdict {
        match self.bytes {
            None => Verdict::Consistent,
            Some(bytes) => Verdict::Wrong { culprit: self.culprit, bytes },
        }
    }
}

impl Kernel {
    /// As [`crate::check_pq`], with this kernel.
    pub fn check_pq(
        &self,
        p: Data<'_>,
        q: Data<'_>,
        sources: &[Source<'_>],
    ) -> Result<Verdict, Error> {
        Exponents::of(sources)?;
        let mut findings = Findings { sources, bytes: None, culprit: None };
        let (mut p_left, mut q_left) = ([0; BLOCK], [0; BLOCK]);
        each_run(
            p.len(),
            sources.len(),
            |i| sources[i].weighted(),
            [&p, &q],
            |run| {
                each_block(run, |at, terms, block| {
                    let (p, q) = (&mut p_left[..block.len], &mut q_left[..block.len]);
                    self.both([&mut *p, &mut *q], block.parity.map(Start::from), terms, None);
                    if self.is_zero(p) && self.is_zero(q) {
                        return;
                    }
                    for (i, (p, q)) in p.iter().zip(q.iter()).enumerate() {
                        if *p | *q != 0 {
                            findings.note(at + i, *p, *q);
                        }
                    }
                });
            },
        )?;
        Ok(findings.verdict())
    }

    /// As [`crate::check_p`], with this kernel.
    pub fn check_p(&self, p: Data<'_>, sources: &[Source<'_>]) -> Result<Verdict, Error> {
        Exponents::of(sources)?;
        let mut wrong: Option<Range<usize>> = None;
        let mut left = [0; BLOCK];
        each_run(
            p.len(),
            sources.len(),
            |i| sources[i].weighted(),
            [&p, &Data::Zero(p.len())],
            |run| {
                each_block(run, |at, terms, block| {
                    let left = &mut left[..block.len];
                    self.sum(left, Start::from(block.parity[0]), terms);
                    let mut bad = left
                        .iter()
                        .enumerate()
                        .filter(|(_, byte)| **byte != 0)
                        .map(|(i, _)| at + i);
                    if !self.is_zero(left)
                        && let Some(first) = bad.next()
                    {
                        let last = bad.next_back().unwrap_or(first);
                        wrong = Some(wrong.take().map_or(first, |wrong| wrong.start)..last + 1);
                    }
                });
            },
        )?;
        Ok(wrong.map_or(Verdict::Consistent, |bytes| Verdict::Wrong { culprit: None, bytes }))
    }
}

/// The parity of one block.
struct Block<'a> {
    len: usize,
    parity: [Option<&'a [u8]>; 2],
}

/// Processes a run block by block: `work` gets the block's offset in the strips, its terms, and its
/// parity.
fn each_block<'a>(run: Run<'a, '_>, mut work: impl FnMut(usize, &mut [Term<'a>], Block<'a>)) {
    for from in (0..run.range.len()).step_by(BLOCK) {
        let range = from..run.range.len().min(from + BLOCK);
        let mut terms = Terms::new();
        for term in run.terms.iter() {
            terms.push(Term { bytes: &term.bytes[range.clone()], ..*term });
        }
        let parity = run.parity.map(|bytes| bytes.map(|bytes| &bytes[range.clone()]));
        work(run.range.start + from, terms.as_mut_slice(), Block { len: range.len(), parity });
    }
}
