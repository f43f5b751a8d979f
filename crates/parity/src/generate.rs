//! P, Q, or both in one pass, from all data strips.

use crate::error::Error;
use crate::kernels::{Kernel, Start};
use crate::sources::{Data, Exponents, Source, each_run, wrong_length};

impl Kernel {
    /// As [`crate::generate_p`], with this kernel.
    pub fn generate_p(&self, p: &mut [u8], sources: &[Source<'_>]) -> Result<(), Error> {
        Exponents::check(sources)?;
        let nothing = Data::Zero(p.len());
        each_run(
            p.len(),
            sources.len(),
            |i| (0, &sources[i].data), // P needs no weights.
            [&nothing; 2],
            |run| {
                self.sum(&mut p[run.range], Start::Zero, run.terms);
            },
        )
    }

    /// As [`crate::generate_q`], with this kernel.
    pub fn generate_q(&self, q: &mut [u8], sources: &[Source<'_>]) -> Result<(), Error> {
        Exponents::check(sources)?;
        let nothing = Data::Zero(q.len());
        each_run(
            q.len(),
            sources.len(),
            |i| sources[i].weighted(),
            [&nothing; 2],
            |run| {
                self.weigh(&mut q[run.range], Start::Zero, run.terms);
            },
        )
    }

    /// As [`crate::generate_pq`], with this kernel.
    pub fn generate_pq(
        &self,
        p: &mut [u8],
        q: &mut [u8],
        sources: &[Source<'_>],
    ) -> Result<(), Error> {
        if q.len() != p.len() {
            return Err(wrong_length(q.len(), p.len(), "Q"));
        }
        Exponents::check(sources)?;
        let nothing = Data::Zero(p.len());
        each_run(
            p.len(),
            sources.len(),
            |i| sources[i].weighted(),
            [&nothing; 2],
            |run| {
                let out = [&mut p[run.range.clone()], &mut q[run.range]];
                self.both(out, [Start::Zero; 2], run.terms, None);
            },
        )
    }
}
