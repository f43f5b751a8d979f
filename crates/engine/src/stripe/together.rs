//! One request on several stripes at once: each stripe has its own plan, and adjacent parts of
//! these plans on a drive become one operation.
//!
//! Consecutive stripes are adjacent on each drive. Separate operations would pay for locks,
//! completions and drive commands per strip; joined operations pay once.
//!
//! # Invariants
//! - Only requests of tasks and host writes on whole stripes of one healthy region qualify. Before
//!   the commit, an exception ends the attempt without a change: a drive error, a state change, an
//!   impossible plan, a mismatch. Then the caller handles each stripe alone. A write needs no
//!   journal record for its data: no drive is missing, and its stripes contain no other data.
//! - After the commit all writes are finished. A failed drive write counts for each stripe as in
//!   [`execute`](crate::stripe::execute).
//! - No operation is left in flight.

use crate::members::is_gone;
use crate::stripe::Stripes;
use crate::stripe::attempt::Attempt;
use crate::stripe::drive_ops::{DriveOp, DriveOps};
use crate::stripe::journal::Kept;
use crate::stripe::memory::{Host, Memory, scratch_need};
use crate::stripe::trouble::Trouble;
use crate::stripe::write_faults::WriteFaults;
use plan::{Plan, Request};
use platform::{Bufs, Durability, Io, IoError, Member, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};

/// A stripe's plan, and the memory of its execution.
struct Planned {
    plan: Box<Plan>,
    memory: Memory,
}

/// Operations of several plans that are adjacent on a drive.
struct Joined {
    drive: DriveIndex,
    /// In the drive's part of the volume.
    offset: ByteOffset,
    len: ByteCount,
    /// The plan index and operation index of each part, ascending.
    parts: SmallVec<[(usize, usize); 4]>,
}

/// Joins the operations of all plans that are adjacent on a drive.
fn joined(
    places: impl Iterator<Item = ((usize, usize), (DriveIndex, ByteOffset, ByteCount))>,
) -> Vec<Joined> {
    let mut all: Vec<Joined> = Vec::new();
    for (part, (drive, offset, len)) in places {
        let latest = all.iter_mut().rfind(|joined| joined.drive == drive);
        match latest.filter(|joined| joined.offset + joined.len == offset) {
            Some(joined) => {
                joined.len += len;
                joined.parts.push(part);
            }
            None => all.push(Joined { drive, offset, len, parts: SmallVec::from_iter([part]) }),
        }
    }
    all
}

/// The slices of a joined write.
fn slices_of(planned: &[Planned], joined: &Joined) -> Slices {
    let mut slices = Slices::new();
    for (nth, slot) in &joined.parts {
        let Planned { plan, memory } = &planned[*nth];
        memory.add_slices(plan, &plan.writes()[*slot], &mut slices);
    }
    slices
}

impl Stripes {
    /// Performs `request` on all these stripes, which the caller holds. `payload`: the host's data
    /// for the stripes in order. `None`: nothing was changed, and the caller handles each stripe
    /// alone. Otherwise returns the drives with a part in the stripes that were not written.
    ///
    /// # Errors
    /// When the commit has begun and cannot be finished.
    pub(crate) async fn attempt_together(
        self: &Rc<Self>,
        stripes: &[StripeIndex],
        request: Request<'_>,
        payload: Option<(&Slice, Durability)>,
        how: &Attempt,
    ) -> Option<Result<DriveSet, IoError>> {
        let is_plain = |stripe: &StripeIndex| self.is_live(*stripe) && !self.has_excluded(*stripe);
        if stripes.len() < 2 || !stripes.iter().all(is_plain) {
            return None;
        }
        // Only a write handles uninitialised stripes here: it initialises them.
        let fresh = |stripe: &StripeIndex| !self.is_initialised(*stripe);
        let fresh: SmallVec<[StripeIndex; 4]> = stripes.iter().copied().filter(fresh).collect();
        if !fresh.is_empty() && payload.is_none() {
            return None;
        }
        let changed = self.changed_by(&request);
        let changes =
            stripes.iter().filter_map(|stripe| Some(self.begin_change(*stripe, changed?)));
        let _changing: SmallVec<[_; 4]> = changes.collect();
        let mut planned: Vec<Planned> = Vec::with_capacity(stripes.len());
        let made_under = self.state().revision();
        let all = stripes.iter().all(|stripe| self.plan_one(*stripe, request, how, &mut planned));
        if let Some((data, durability)) = payload.filter(|_| all) {
            let len = data.len().0 / stripes.len() as u64;
            for (at, Planned { plan, memory }) in (0..).step_by(len as usize).zip(&mut planned) {
                let own = data.cut(ByteCount(at), ByteCount(len));
                memory.admit(plan, Host::Payload(own.into(), durability));
            }
        }
        let durability = payload.map_or(Durability::Cached, |(_, durability)| durability);
        let done = match all {
            true => self.execute_together(&mut planned, made_under, durability).await,
            false => None,
        };
        for Planned { plan, memory } in planned {
            drop(memory);
            self.put_plan(plan);
        }
        match done? {
            Ok(skipped) if !fresh.is_empty() => {
                Some(Box::pin(self.initialised(&fresh, &skipped)).await.map(|()| skipped))
            }
            done => Some(done),
        }
    }

    /// Adds the plan of a stripe. False: the stripe cannot be planned.
    fn plan_one(
        &self,
        stripe: StripeIndex,
        request: Request<'_>,
        how: &Attempt,
        planned: &mut Vec<Planned>,
    ) -> bool {
        let mut plan = self.take_plan();
        let health = self.health_for(stripe, &request, &Trouble::default(), how);
        let is_planned =
            plan::plan_into(&mut plan, self.geometry(), stripe, request, &health).is_ok();
        planned.push(Planned { plan, memory: Memory::default() });
        is_planned
    }

    async fn execute_together(
        self: &Rc<Self>,
        planned: &mut [Planned],
        made_under: u64,
        durability: Durability,
    ) -> Option<Result<DriveSet, IoError>> {
        let need: u64 = planned.iter().map(|one| scratch_need(&one.plan).0).sum();
        if need > self.shard.scratch_total().0 {
            return None;
        }
        let _scratch = self.shard.reserve_scratch(ByteCount(need)).await;
        if made_under != self.state().revision() || !self.read_together(planned).await {
            return None;
        }
        for Planned { plan, memory } in &mut *planned {
            if !plan.request().is_write() {
                self.let_hosts_pass().await;
            }
            // The check of the single stripe finds the mismatch again, and reports it.
            if self.compute_all(plan, memory).await.is_some() {
                return None;
            }
        }
        let writes = planned.iter().any(|one| !one.plan.writes().is_empty());
        if writes && self.state().revision() != made_under {
            return None;
        }
        let mut kept: SmallVec<[Kept; 4]> = SmallVec::new();
        for Planned { plan, memory } in &*planned {
            kept.extend(self.keep(plan, memory, durability).await.ok()?);
        }
        // Commit.
        let mut written = self.write_together(planned, durability).await;
        if let Err(error) = self.keep_promise(&kept, durability).await {
            written = written.and(Err(error));
        }
        drop(kept);
        let left_out = planned.iter().map(|one| self.left_out(&one.plan));
        Some(written.map(|skipped| left_out.fold(skipped, |skipped, out| skipped.union(&out))))
    }

    /// Performs the reads of all plans. False: a read failed.
    async fn read_together(self: &Rc<Self>, planned: &mut [Planned]) -> bool {
        let places = (0..).zip(&*planned).flat_map(|(nth, one)| {
            let reads = (0..).zip(one.plan.reads());
            reads.map(move |(slot, read)| ((nth, slot), (read.drive, read.offset, read.len)))
        });
        let joined = joined(places);
        let mut started: SmallVec<[(Rc<Member>, Io); 8]> = SmallVec::new();
        for Joined { drive, offset, parts, .. } in &joined {
            let Ok(member) = self.member(*drive) else { break };
            let mut buffers = Bufs::new();
            for (nth, slot) in parts {
                let Planned { plan, memory } = &mut planned[*nth];
                self.add_buffers(plan, &plan.reads()[*slot], memory, &mut buffers);
            }
            let io = member.read(self.raw(*offset), buffers);
            started.push((member, io));
        }
        let mut is_read = started.len() == joined.len();
        for ((member, io), Joined { drive, parts, .. }) in started.into_iter().zip(&joined) {
            let outcome = io.await;
            self.shard.env().trace("read done", u64::from(drive.0), outcome.result.is_ok() as u64);
            let mut buffers = outcome.buffers.into_iter();
            for (nth, slot) in parts {
                let Planned { plan, memory } = &mut planned[*nth];
                memory.take_buffers(plan, *slot, &mut buffers, outcome.result.is_ok());
            }
            if let Err(error) = outcome.result {
                is_read = false;
                if is_gone(&error) && self.members.is_in_slot(*drive, &member) {
                    self.fail_drive(*drive, error, "read");
                }
            }
        }
        is_read
    }

    /// Performs the writes of all plans. Returns the drives that failed and were skipped.
    ///
    /// # Errors
    /// When new content is available nowhere.
    async fn write_together(
        self: &Rc<Self>,
        planned: &[Planned],
        durability: Durability,
    ) -> Result<DriveSet, IoError> {
        let places = (0..).zip(planned).flat_map(|(nth, one)| {
            let writes = (0..).zip(one.plan.writes());
            writes.map(move |(slot, write)| ((nth, slot), (write.drive, write.offset, write.len)))
        });
        let mut ops = DriveOps::default();
        let joined = joined(places);
        for joined in &joined {
            // All are in one region, with the same state of its drives.
            let (first, _) = joined.parts[0];
            let start =
                |member: &Rc<Member>| self.start_joined(planned, joined, member, durability);
            self.ask_to_write(&mut ops, &planned[first].plan, joined.drive, start);
        }
        let mut faults = WriteFaults::default();
        let mut asked = joined.iter();
        let lacking = ops
            .finish(self, |answered| {
                let joined = asked.next();
                let written = || joined.map(|joined| (joined.offset, slices_of(planned, joined)));
                faults.note(self, answered, written);
            })
            .await;
        let settled =
            self.settle_writes(faults, lacking, planned.iter().map(|one| &*one.plan), durability);
        settled.await.map(|(skipped, _)| skipped).map_err(|(error, _)| error)
    }

    fn start_joined(
        &self,
        planned: &[Planned],
        joined: &Joined,
        member: &Rc<Member>,
        durability: Durability,
    ) -> DriveOp {
        self.start_slices(member, joined.offset, slices_of(planned, joined), durability)
    }
}
