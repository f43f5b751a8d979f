//! Updates parity in place for changed strips, without the others: P += Σ (old + new), Q += Σ
//! 2^exponent · (old + new).

use crate::error::Error;
use crate::kernels::{Kernel, Start};
use crate::sources::{Data, Exponents, each_run, wrong_length};

/// The change of one data strip. If the difference is known, pass it as `new`, and zeroes as `old`:
/// zeroes cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The exponent of its weight in Q; P ignores it.
    pub exponent: u8,
    /// The content that the old parity includes.
    pub old: Data<'a>,
    /// The new content.
    pub new: Data<'a>,
}

impl<'a> Change<'a> {
    /// A change of the strip with weight `2^exponent` in Q.
    pub fn new(exponent: u8, old: impl Into<Data<'a>>, new: impl Into<Data<'a>>) -> Change<'a> {
        Change { exponent, old: old.into(), new: new.into() }
    }
}

impl Kernel {
    /// As [`crate::update`], with this kernel.
    pub fn update(
        &self,
        mut p: Option<&mut [u8]>,
        mut q: Option<&mut [u8]>,
        changes: &[Change<'_>],
    ) -> Result<(), Error> {
        let Some(len) = p.as_deref().or(q.as_deref()).map(<[u8]>::len) else {
            return Ok(());
        };
        if let Some(other) = q.as_deref().filter(|q| q.len() != len) {
            return Err(wrong_length(other.len(), len, "Q"));
        }
        let mut taken = Exponents::default();
        for change in changes {
            taken.claim(change.exponent)?;
        }
        // Old and new of each strip are adjacent terms with the same weight.
        let term = |i: usize| {
            let change = &changes[i / 2];
            (change.exponent, if i & 1 == 0 { &change.old } else { &change.new })
        };
        each_run(len, 2 * changes.len(), term, [&Data::Zero(len); 2], |run| {
            if run.terms.is_empty() {
                return;
            }
            match (p.as_deref_mut(), q.as_deref_mut()) {
                (Some(p), Some(q)) => {
                    let out = [&mut p[run.range.clone()], &mut q[run.range]];
                    self.both(out, [Start::Kept; 2], run.terms, None);
                }
                (Some(p), None) => self.sum(&mut p[run.range], Start::Kept, run.terms),
                (None, Some(q)) => self.weigh(&mut q[run.range], Start::Kept, run.terms),
                (None, None) => {}
            }
        })
    }
}
