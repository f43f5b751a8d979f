//! Transfers that need no task: the target's completion builds the reply.
//!
//! # Invariants
//! - A transfer has a place from its start until its outcome, exactly once.
//! - The outcome may arrive in the middle of a drive's work: nothing starts here; the reply is
//!   queued, and the writer is woken.

use super::Memory;
use super::connection::{Job, Session};
use super::requests::Refused;
use crate::protocol::{Data, Protocol, Transfer};
use platform::{
    BlockTarget, IoError, IoErrorKind, IoOutcome, IoRequest, OnReturn, Receiver, Slices,
};
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;

/// A transfer under way.
struct Started<R> {
    request: R,
    transfer: Transfer,
    memory: Option<Memory>,
}

/// The transfers of a session that no task waits for, by their places.
pub(super) struct Transfers<R>(RefCell<Slab<Started<R>>>);

impl<R> Default for Transfers<R> {
    fn default() -> Transfers<R> {
        Transfers(RefCell::default())
    }
}

impl<R> Transfers<R> {
    fn add(&self, started: Started<R>) -> u32 {
        self.0.borrow_mut().insert(started) as u32
    }

    fn take(&self, place: u32) -> Started<R> {
        self.0.borrow_mut().remove(place as usize)
    }
}

impl<P: Protocol, T: BlockTarget> Session<P, T> {
    /// Starts an admitted request, unless it needs a task: then it is returned.
    pub(super) fn begin(self: &Rc<Self>, job: Job<P::Request>) -> Option<Job<P::Request>> {
        // The time of a model passes in a task.
        let transfer = self.protocol().transfer(&job.request).filter(|_| job.modelled.is_zero());
        let Some(transfer) = transfer else { return Some(job) };
        // A drive in memory answers at once: other tasks have their turn in between.
        if !self.env().executor().take_allowance() {
            return Some(job);
        }
        let wanted = match (transfer, &job.payload) {
            (Transfer::Read(range), None) => {
                let buf = self.env().pool().take_reserved(range.len);
                IoRequest::Read { offset: range.start, buffers: std::iter::once(buf).collect() }
            }
            (Transfer::Write(range, durability), Some(payload)) if !self.limits.read_only => {
                let slices: Slices = std::iter::once(payload.clone()).collect();
                IoRequest::Write { offset: range.start, slices, durability }
            }
            _ => return Some(job),
        };
        let Job { request, payload, memory, modelled } = job;
        let place = self.transfers.add(Started { request, transfer, memory });
        self.target().begin(wanted, Receiver::OnReturn(self.clone(), place))?;
        let Started { request, memory, .. } = self.transfers.take(place);
        Some(Job { request, payload, memory, modelled })
    }

    /// The result of a transfer.
    fn result_of(&self, transfer: Transfer, outcome: IoOutcome) -> Result<Data, Refused> {
        outcome.result.map_err(|error| self.refused(error))?;
        match transfer {
            Transfer::Read(range) => {
                // A drive kept the buffer, and no replacement was available.
                let buf = outcome.buffers.into_iter().next();
                let buf = buf.ok_or(Refused::Failed(IoError::new(IoErrorKind::TimedOut)))?;
                self.note_read(range);
                Ok(Some(buf.freeze()))
            }
            Transfer::Write(range, _) => {
                self.note_written(range);
                Ok(None)
            }
        }
    }
}

impl<P: Protocol, T: BlockTarget> OnReturn for Session<P, T> {
    fn returned(&self, place: u32, outcome: IoOutcome) {
        let Started { request, transfer, memory } = self.transfers.take(place);
        let result = self.result_of(transfer, outcome);
        let reply = self.protocol().answer(&request, result);
        self.answer(reply, memory);
    }

    fn forgotten(&self, place: u32) {
        drop(self.transfers.take(place));
    }
}
