//! Execution of a plan: its reads all at once, its computes, the commit, its writes all at once.
//!
//! # Fault model and invariants
//! - Before the commit no drive has changed: after a fault the memory is returned and a new plan
//!   uses the current state. After the commit *this* plan's writes are finished without failed
//!   drives: a new plan would read new data as old.
//! - No operation is left in flight: each that was started is awaited, even after a failure.
//! - Buffers are sliced, never copied; parity is computed from data in place.

use crate::stripe::Stripes;
use crate::stripe::drive_ops::{DriveOp, DriveOps, Lacking};
use crate::stripe::excluded::Ranges;
use crate::stripe::journal::Kept;
use crate::stripe::memory::{Host, HostKind, Memory, segments};
use crate::stripe::read_faults::Fault;
use crate::stripe::trouble::Trouble;
use crate::stripe::write_faults::WriteFaults;
use plan::{Mismatch, Plan, Read, Target};
use platform::{Buf, Bufs, Durability, Io, IoError, IoErrorKind, Member, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};

/// The result of executing a plan.
pub(crate) enum Executed {
    /// Done; writes to the `skipped` drives failed. `mismatch`: the difference that a comparison
    /// found.
    Done { host: Host, skipped: DriveSet, mismatch: Option<Mismatch> },
    /// A fault before the commit; it is now in the health or in the trouble.
    Again { host: Host },
    /// The request failed.
    Failed { host: Host, error: IoError },
}

impl Stripes {
    /// Executes `plan`, which must match the volume's current state. If that state changes before
    /// the commit, the result is `Again`. `trouble` collects failed reads.
    pub(crate) async fn execute(
        self: &Rc<Self>,
        plan: &Plan,
        made_under: u64,
        host: Host,
        trouble: &mut Trouble,
    ) -> Executed {
        let mut memory = Memory::default();
        let host = memory.admit(plan, host);
        match self.read_all(plan, &mut memory, trouble).await {
            Ok(()) => {}
            Err(fault) => {
                let host = self.give_back(memory, host);
                return match fault {
                    Fault::PlanAgain => Executed::Again { host },
                    Fault::Hopeless(error) => Executed::Failed { host, error },
                };
            }
        }
        self.let_hosts_pass_for(&host).await;
        let mismatch = self.compute_all(plan, &mut memory).await;
        self.let_hosts_pass_for(&host).await;
        if !plan.writes().is_empty() && self.state().revision() != made_under {
            return Executed::Again { host: self.give_back(memory, host) };
        }
        // Old content is put back under the record of the refused write, as long as a replay uses
        // that record.
        let of_refused =
            trouble.record.take().filter(|record| record.counts()).map(|record| *record);
        let is_under_record = of_refused.is_some();
        let kept = match of_refused {
            Some(record) => Ok(Some(record)),
            None => self.keep(plan, &memory, host.durability()).await,
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => return Executed::Failed { host: self.give_back(memory, host), error },
        };
        // Commit: from here on this plan is finished.
        let durability = Kept::durability(kept.as_ref(), host.durability());
        let mut written = self.write_all(plan, &memory, durability, trouble).await;
        if let Err(error) = self.keep_promise(&kept, host.durability()).await {
            written = written.and(Err(error));
        }
        // A record that restores one block does not cover the other blocks.
        let is_refused = trouble.told.is_none() && !trouble.unkept.is_empty();
        if is_under_record || is_refused {
            trouble.record = kept.filter(Kept::counts).map(Box::new);
        }
        let host = self.give_back(memory, host);
        match written {
            Ok(skipped) => Executed::Done { host, skipped, mismatch },
            Err(error) => Executed::Failed { host, error },
        }
    }

    async fn let_hosts_pass_for(&self, host: &HostKind) {
        if matches!(host, HostKind::None) {
            self.let_hosts_pass().await;
        }
    }

    /// Yields to hosts: background work proceeds in small pieces while hosts are active.
    pub(super) async fn let_hosts_pass(&self) {
        let env = self.shard.env();
        if self.shard.hosts().are_around(env.now()) {
            env.give_way().await;
        }
    }

    async fn read_all(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &mut Memory,
        trouble: &mut Trouble,
    ) -> Result<(), Fault> {
        let mut started: SmallVec<[(Rc<Member>, Reading); 8]> = SmallVec::new();
        let mut fault = None;
        for read in plan.reads() {
            let member = match self.member(read.drive) {
                Ok(member) => member,
                Err(error) => {
                    fault = Some(self.read_fault(read, None, error, trouble));
                    break;
                }
            };
            let zeros = self.zeros_within(read.drive, ByteRange::new(read.offset, read.len));
            let reading = match zeros.is_empty() {
                _ if trouble.told.as_ref().is_some_and(|told| told.drive == read.drive) => {
                    Reading::Told
                }
                true => Reading::Whole(self.start_read(plan, read, &member, memory, trouble)),
                false => Reading::Around(zeros),
            };
            started.push((member, reading));
        }
        for (slot, (member, reading)) in started.into_iter().enumerate() {
            let read = &plan.reads()[slot];
            let result = match reading {
                Reading::Whole(io) => memory.take_read(plan, slot, io.await),
                Reading::Told => match &trouble.told {
                    Some(told) => self.read_told(plan, slot, memory, told),
                    None => Err(IoError::new(IoErrorKind::Invalid)),
                },
                Reading::Around(zeros) => {
                    Box::pin(self.read_around(plan, slot, &member, memory, &zeros)).await
                }
            };
            self.shard.env().trace("read done", u64::from(read.drive.0), result.is_ok() as u64);
            if let Err(error) = result {
                let new = self.read_fault(read, Some(&member), error, trouble);
                fault = Some(match (fault, new) {
                    (Some(Fault::Hopeless(first)), _) => Fault::Hopeless(first),
                    (_, new) => new,
                });
            }
        }
        fault.map_or(Ok(()), Err)
    }

    fn start_read(
        &self,
        plan: &Plan,
        read: &Read,
        member: &Member,
        memory: &mut Memory,
        trouble: &Trouble,
    ) -> Io {
        let mut buffers = Bufs::new();
        self.add_buffers(plan, read, memory, &mut buffers);
        let offset = self.raw(read.offset);
        match !trouble.is_patient && self.is_had_elsewhere(read.drive) {
            true => member.read_or_late(offset, buffers),
            false => member.read(offset, buffers),
        }
    }

    /// Adds the buffers for a read of a plan.
    pub(super) fn add_buffers(
        &self,
        plan: &Plan,
        read: &Read,
        memory: &mut Memory,
        buffers: &mut Bufs,
    ) {
        for segment in segments(plan, read) {
            let buf = match segment.target {
                Target::Host { at } => memory.part(at.0).and_then(|part| part.buf.take()),
                Target::Read { .. } => {
                    Some(self.take_scratch(ByteCount(segment.len), memory.hollow))
                }
                Target::Scratch { .. } => None,
            };
            let Some(buf) = buf else { panic!("no read buffer for the plan of {}", plan.stripe()) };
            buffers.push(buf);
        }
    }

    /// Performs all writes of the plan. Returns the drives that failed and were skipped.
    ///
    /// # Errors
    /// When new content is available nowhere, not even from redundancy.
    pub(super) async fn write_all(
        self: &Rc<Self>,
        plan: &Plan,
        memory: &Memory,
        durability: Durability,
        trouble: &mut Trouble,
    ) -> Result<DriveSet, IoError> {
        let mut ops = DriveOps::default();
        let is_told = |write: &plan::Write| {
            trouble.told.as_ref().is_some_and(|told| told.drive == write.drive)
        };
        for write in plan.writes() {
            let start =
                |member: &Rc<Member>| self.start_write(plan, write, member, memory, durability);
            match is_told(write) {
                true => ops.ask_replacement(self, write.drive, start),
                false => self.ask_to_write(&mut ops, plan, write.drive, start),
            }
        }
        let mut faults = WriteFaults::default();
        let mut asked = plan.writes().iter().filter(|write| !is_told(write));
        let lacking = ops
            .finish(self, |answered| {
                let slices = |memory: &Memory, write: &plan::Write| {
                    let mut slices: Slices = SmallVec::new();
                    memory.add_slices(plan, write, &mut slices);
                    (write.offset, slices)
                };
                let write = asked.next();
                faults.note(self, answered, || write.map(|write| slices(memory, write)));
            })
            .await;
        self.settle_plan(faults, lacking, plan, durability, trouble).await
    }

    /// Settles the faults of a plan's writes. Returns the drives that failed and were skipped.
    ///
    /// # Errors
    /// When new content is available nowhere, not even from redundancy.
    pub(super) async fn settle_plan(
        self: &Rc<Self>,
        faults: WriteFaults,
        lacking: Lacking,
        plan: &Plan,
        durability: Durability,
        trouble: &mut Trouble,
    ) -> Result<DriveSet, IoError> {
        let settled = self.settle_writes(faults, lacking, std::iter::once(plan), durability);
        let (skipped, refused) = settled.await.map_err(|(error, unkept)| {
            trouble.unkept.extend(unkept);
            error
        })?;
        Box::pin(self.look_at_excluded(plan, &refused)).await;
        Ok(skipped)
    }

    /// Starts a write of a plan on a slot's drive, and on its replacement if any.
    pub(super) fn ask_to_write(
        &self,
        ops: &mut DriveOps,
        plan: &Plan,
        slot: DriveIndex,
        start: impl Fn(&Rc<Member>) -> DriveOp,
    ) {
        if self.is_for_drive_of(plan, slot) {
            ops.ask(self, slot, &start);
        }
        ops.ask_replacement(self, slot, &start);
    }

    fn start_write(
        &self,
        plan: &Plan,
        write: &plan::Write,
        member: &Rc<Member>,
        memory: &Memory,
        durability: Durability,
    ) -> DriveOp {
        let mut slices: Slices = SmallVec::new();
        memory.add_slices(plan, write, &mut slices);
        self.start_slices(member, write.offset, slices, durability)
    }

    /// Starts a write of these slices, in a drive's part of the volume.
    pub(super) fn start_slices(
        &self,
        member: &Rc<Member>,
        offset: ByteOffset,
        slices: Slices,
        durability: Durability,
    ) -> DriveOp {
        let offset = self.raw(offset);
        if slices.iter().all(Slice::is_zero) {
            let len = slices.iter().map(|slice| slice.len().0).sum();
            let range = ByteRange::new(offset, ByteCount(len));
            DriveOp::zeroes(member.write_zeroes(range, false, durability))
        } else {
            DriveOp::Io(member.write(offset, slices, durability))
        }
    }

    /// Reassembles the host's buffer; parts kept by a timed-out drive are replaced.
    fn give_back(&self, memory: Memory, host: HostKind) -> Host {
        match host {
            HostKind::None => Host::None,
            HostKind::Payload(durability) => match memory.payload {
                Some(payload) => Host::Payload(payload, durability),
                None => Host::None,
            },
            HostKind::Buffer(len) => {
                let parts = memory.parts.into_iter().filter_map(|part| part.buf);
                match parts.reduce(Buf::join_or_keep).filter(|buf| buf.len() == len) {
                    Some(buf) => Host::Buffer(buf),
                    None => Host::Buffer(self.take_scratch(len, memory.hollow)),
                }
            }
        }
    }
}

/// A read of a plan in flight.
enum Reading {
    Whole(Io),
    /// Some blocks of the range count as zeros, whatever the drive holds.
    Around(Ranges),
    /// The content is known, and not read.
    Told,
}
