//! The computing half of executing a plan: what it makes in memory between its reads and its commit.
//!
//! # Invariants
//! - Parity is computed from where data lies: sources are borrowed, never copied.
//! - A target is taken out of the memory while it is written, so that no source overlaps it.
//! - Hollow memory is not computed, only charged for: models run on lengths.

use crate::execute::Memory;
use crate::volume::Volume;
use env::{Buf, IoError, IoErrorKind, Slice, Work};
use plan::{ComputeKind, Plan, Source, Target};
use smallvec::SmallVec;
use std::rc::Rc;
use units::ByteCount;

/// Memory that computations of the plan fill.
pub(crate) enum ScratchBuf {
    Filling(Buf),
    Done(Slice),
}

impl Volume {
    /// Makes everything that the plan makes in memory.
    ///
    /// # Errors
    /// `Medium` when what is compared differs, `Invalid` when the plan does not fit the memory.
    pub(crate) async fn compute_all(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<(), IoError> {
        for len in plan.scratch() {
            memory.scratch.push(ScratchBuf::Filling(self.take_scratch(*len, memory.hollow)));
        }
        for compute in plan.computes() {
            let sources = plan.sources(compute);
            match compute.kind {
                ComputeKind::Xor { into, .. } => memory.xor(into, sources, compute.len.as_usize())?,
                ComputeKind::Compare => {
                    if !memory.all_equal(sources, compute.len.as_usize())? {
                        return Err(IoError::new(IoErrorKind::Medium));
                    }
                }
            }
            self.shard.env().compute(Work::Xor(compute.len * sources.len() as u64)).await;
        }
        for scratch in &mut memory.scratch {
            if let ScratchBuf::Filling(buf) = scratch {
                let filled = std::mem::replace(buf, Buf::hollow(ByteCount::ZERO));
                *scratch = ScratchBuf::Done(filled.freeze());
            }
        }
        Ok(())
    }
}

impl Memory {
    /// The XOR of all sources into its target.
    fn xor(&mut self, into: Target, sources: &[Source], len: usize) -> Result<(), IoError> {
        if self.hollow {
            return Ok(());
        }
        let missing = IoError::new(IoErrorKind::Invalid);
        let (mut target, skip) = self.take_target(into).ok_or(missing)?;
        {
            let mut slices: SmallVec<[&[u8]; 32]> = SmallVec::new();
            for source in sources {
                slices.extend(self.bytes(*source, len)?);
            }
            let skip = skip as usize;
            parity::xor_many(&mut target.bytes_mut()[skip..skip + len], &slices);
        }
        self.put_target(into, target);
        Ok(())
    }

    fn take_target(&mut self, into: Target) -> Option<(Buf, u64)> {
        match into {
            Target::Host { at } => self.part(at.0)?.buf.take().map(|buf| (buf, 0)),
            Target::Scratch { slot, at } => match self.scratch.get_mut(usize::from(slot.0))? {
                ScratchBuf::Filling(buf) => {
                    Some((std::mem::replace(buf, Buf::hollow(ByteCount::ZERO)), at.0))
                }
                ScratchBuf::Done(_) => None,
            },
            Target::Read { .. } => None,
        }
    }

    fn put_target(&mut self, into: Target, buf: Buf) {
        match into {
            Target::Host { at } => {
                if let Some(part) = self.part(at.0) {
                    part.buf = Some(buf);
                }
            }
            Target::Scratch { slot, .. } => {
                self.scratch[usize::from(slot.0)] = ScratchBuf::Filling(buf);
            }
            Target::Read { .. } => {}
        }
    }

    fn all_equal(&self, sources: &[Source], len: usize) -> Result<bool, IoError> {
        if self.hollow {
            return Ok(true);
        }
        let mut first: Option<&[u8]> = None;
        for source in sources {
            let bytes = self.bytes(*source, len)?.unwrap_or(&env::buffers::zero_bytes()[..len]);
            if *first.get_or_insert(bytes) != bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
