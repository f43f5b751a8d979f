//! A stripe operation: a host's write to one stripe by its plan, without a task.
//!
//! The completions of its drives carry it on. It does what [`attempt`](crate::stripe::attempt) does
//! for a stripe without a fault, a log and a wait; in all other cases it ends before its first
//! write, and the caller does the request by that.
//!
//! # Life of an operation
//! [planned](StripeOp::plan) → its [reads](StripeOp::reads) start, and [return](StripeOp::returned)
//! → [computed](StripeOp::compute) → its [writes](StripeOp::writes) start, and return → done, or
//! [settled](StripeOp::settle) by a task if one failed.
//!
//! # Fault model and invariants
//! - From the plan until its faults are settled, the caller holds the stripe's columns exclusively,
//!   has the region marked as dirty, and has announced the change.
//! - No drive has changed before its first write starts: a failed read, a drive that is out of use
//!   or being replaced, or a state that is no longer that of the plan ends it without effect.
//! - After that, it is not planned again. Its faults are settled like those of any plan, after the
//!   last return.
//! - A drive that is gone or does not respond is out of use when its operation returns, not after
//!   the last one: whether another drive is needed depends on it.
//! - It needs no record: there is no journal, and none begins while the caller holds the stripe.
//! - It waits for no lock, memory or request. Without memory for its old data and redundancy, it is
//!   not begun. It returns its memory before its caller waits for anything else.

use crate::members::{Places, is_gone};
use crate::stripe::Stripes;
use crate::stripe::Trouble;
use crate::stripe::drive_ops::{Answered, Lacking};
use crate::stripe::execute::{Host, Memory, scratch_need};
use crate::stripe::write_faults::WriteFaults;
use plan::{Plan, Request};
use platform::sync::Taken;
use platform::{Bufs, Durability, IoError, IoOutcome, IoRequest, Member, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteRange, DriveSet, StripeIndex};
use volume_state::RegionIndex;

/// The most operations on drives under way at a time.
pub(crate) const MOST_OPS: usize = 64;

/// What an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Planned,
    Reading,
    Writing,
}

/// An operation on a drive, and the drive's result.
struct Started {
    member: Rc<Member>,
    result: Result<(), IoError>,
}

/// An operation on a drive that the caller starts.
pub(crate) struct DriveRequest {
    pub(crate) member: Rc<Member>,
    pub(crate) request: IoRequest,
    /// Redundancy has the bytes as well: the drive is to return soon.
    pub(crate) is_short: bool,
}

/// The operations of a step, in the order of their numbers.
pub(crate) type DriveRequests = SmallVec<[DriveRequest; 3]>;

/// See the [module](self).
pub(crate) struct StripeOp {
    plan: Box<Plan>,
    /// The revision of the state that the plan is for.
    made_under: u64,
    memory: Box<Memory>,
    durability: Durability,
    step: Step,
    /// Of this step.
    started: SmallVec<[Started; 3]>,
    /// The number of them that have not returned.
    left: usize,
    _scratch: Taken,
}

impl Stripes {
    /// Whether a write of whole sectors of one stripe may be an operation: there is no fault in its
    /// region, and no record to write.
    pub(crate) fn may_be_operation(&self, stripe: StripeIndex, region: RegionIndex) -> bool {
        self.is_well(region)
            && self.is_initialised(stripe)
            && self.is_live(stripe)
            && self.members.late().is_empty()
            && !self.journal.is_used()
    }
}

impl StripeOp {
    /// Plans a write of `data` to a range of a stripe, which [may](Stripes::may_be_operation) be an
    /// operation. `None`: there is no memory now, or no plan, and nothing was begun.
    pub(crate) fn plan(
        stripes: &Rc<Stripes>,
        stripe: StripeIndex,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Option<StripeOp> {
        let mut plan = stripes.take_plan();
        let made_under = stripes.state().revision();
        let health = stripes.stripe_health(stripe, &DriveSet::EMPTY);
        let request = Request::Write { range };
        let planned =
            plan::plan_into(&mut plan, stripes.geometry(), stripe, request, &health).is_ok();
        let is_plain = planned && plan.reads().len().max(plan.writes().len()) <= MOST_OPS;
        let scratch = is_plain.then(|| stripes.shard.try_reserve_scratch(scratch_need(&plan)));
        let Some(scratch) = scratch.flatten() else {
            stripes.put_plan(plan);
            return None;
        };
        let mut memory = stripes.take_memory();
        memory.admit(&plan, Host::Payload(data.into(), durability));
        let (step, started) = (Step::Planned, SmallVec::new());
        let left = 0;
        Some(StripeOp {
            plan,
            made_under,
            memory,
            durability,
            step,
            started,
            left,
            _scratch: scratch,
        })
    }

    /// The stripe.
    pub(crate) fn stripe(&self) -> StripeIndex {
        self.plan.stripe()
    }

    /// Adds the reads of its plan. `None`: a drive is gone.
    pub(crate) fn reads(
        &mut self,
        stripes: &Rc<Stripes>,
        requests: &mut DriveRequests,
    ) -> Option<()> {
        assert_eq!(self.step, Step::Planned, "an operation reads once");
        self.step = Step::Reading;
        let StripeOp { plan, memory, .. } = self;
        for read in plan.reads() {
            let member = stripes.members.get(read.drive)?;
            let mut buffers = Bufs::new();
            stripes.add_buffers(plan, read, memory, &mut buffers);
            let request = IoRequest::Read { offset: stripes.raw(read.offset), buffers };
            let is_short = stripes.is_had_elsewhere(read.drive);
            requests.push(DriveRequest { member, request, is_short });
        }
        self.start(requests);
        Some(())
    }

    fn start(&mut self, requests: &DriveRequests) {
        assert_eq!(self.left, 0, "all operations of the step before have returned");
        self.left = requests.len();
        let started = requests
            .iter()
            .map(|request| Started { member: request.member.clone(), result: Ok(()) });
        self.started.clear();
        self.started.extend(started);
    }

    /// The operation of this number has returned. True: it was the last one of its step.
    pub(crate) fn returned(
        &mut self,
        stripes: &Rc<Stripes>,
        number: usize,
        outcome: IoOutcome,
    ) -> bool {
        assert!(self.left > 0, "an operation returns once");
        self.left -= 1;
        let result = match self.step {
            Step::Reading => self.memory.take_read(&self.plan, number, outcome),
            Step::Planned | Step::Writing => outcome.result.map(drop),
        };
        self.started[number].result = result;
        if let Err(error) = result {
            self.note_gone(stripes, number, error);
        }
        self.left == 0
    }

    /// An operation has failed: a drive that is gone or does not respond is out of use.
    #[cold]
    fn note_gone(&self, stripes: &Rc<Stripes>, number: usize, error: IoError) {
        let (drive, operation) = match self.step {
            Step::Writing => (self.plan.writes()[number].drive, "write"),
            Step::Planned | Step::Reading => (self.plan.reads()[number].drive, "read"),
        };
        if is_gone(&error) && stripes.members.is_in_slot(drive, &self.started[number].member) {
            stripes.fail_drive(drive, error, operation);
        }
    }

    /// Whether no operation of the step is with its drive.
    pub(crate) fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// Whether its writes have started.
    pub(crate) fn is_committed(&self) -> bool {
        self.step == Step::Writing
    }

    /// Whether every operation of the step was successful. All have returned.
    pub(crate) fn is_good(&self) -> bool {
        assert!(self.is_idle(), "all operations have returned");
        self.started.iter().all(|started| started.result.is_ok())
    }

    /// Computes the redundancy. Returns how long the model of a processor takes for it.
    pub(crate) fn compute(&mut self, stripes: &Rc<Stripes>) -> Duration {
        assert!(self.step == Step::Reading && self.is_good(), "all bytes have been read");
        let (mismatch, time) = stripes.compute_at_once(&self.plan, &mut self.memory);
        assert!(mismatch.is_none(), "a write compares nothing");
        time
    }

    /// Adds the writes of its plan. From their start on, the operation is committed. `None`: the
    /// state has changed, or a drive is out of use or being replaced, and nothing was written.
    pub(crate) fn writes(
        &mut self,
        stripes: &Rc<Stripes>,
        requests: &mut DriveRequests,
    ) -> Option<()> {
        let StripeOp { plan, memory, durability, .. } = self;
        for write in plan.writes() {
            // A replacement receives the same writes. A drive that has failed meanwhile may not
            // respond, and the state does not say so yet.
            let is_only = stripes.members.replacement(write.drive).is_none();
            let is_in_use = stripes.in_service().contains(write.drive);
            let member = stripes.members.get(write.drive).filter(|_| is_only && is_in_use)?;
            let mut slices = Slices::new();
            memory.add_slices(plan, write, &mut slices);
            let (offset, durability) = (stripes.raw(write.offset), *durability);
            let request = IoRequest::Write { offset, slices, durability };
            requests.push(DriveRequest { member, request, is_short: false });
        }
        if self.made_under != stripes.state().revision() {
            return None;
        }
        self.step = Step::Writing;
        self.start(requests);
        Some(())
    }

    /// The blocks that its reads could not read.
    pub(crate) fn unreadable(&self) -> Places {
        assert!(!self.is_committed(), "nothing is written");
        let reads = self.plan.reads().iter().zip(&self.started);
        reads
            .filter(|(_, started)| started.result.is_err_and(|error| error.is_of_blocks()))
            .map(|(read, _)| (read.drive, ByteRange::new(read.offset, read.len)))
            .collect()
    }

    /// Settles the faults of its writes. Returns the drives that were not written.
    ///
    /// # Errors
    /// When new content is available nowhere, with the refused blocks to put back.
    pub(crate) async fn settle(
        &mut self,
        stripes: &Rc<Stripes>,
    ) -> Result<DriveSet, (IoError, Trouble)> {
        assert!(self.is_committed() && self.is_idle(), "all writes have returned");
        let StripeOp { plan, memory, durability, started, .. } = self;
        let mut faults = WriteFaults::default();
        for (write, Started { member, result }) in plan.writes().iter().zip(started.drain(..)) {
            let answered = Answered { slot: write.drive, member: Some(member), result };
            faults.note(stripes, answered, || {
                let mut slices = Slices::new();
                memory.add_slices(plan, write, &mut slices);
                Some((write.offset, slices))
            });
        }
        let plans = std::iter::once(&**plan);
        match stripes.settle_writes(faults, Lacking::default(), plans, *durability).await {
            Ok((skipped, refused)) => {
                Box::pin(stripes.look_at_excluded(plan, &refused)).await;
                Ok(skipped.union(&stripes.left_out(plan)))
            }
            Err((error, unkept)) => Err((error, Trouble { unkept, ..Trouble::default() })),
        }
    }

    /// It has ended: its plan and memory serve the next one.
    pub(crate) fn end(self, stripes: &Stripes) {
        stripes.put_plan(self.plan);
        stripes.put_memory(self.memory);
    }
}
