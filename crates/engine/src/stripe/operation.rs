//! A stripe operation: a host's write to one stripe by its plan, without a task.
//!
//! The completions of its drives carry it on. It does what [`attempt`](crate::stripe::attempt) does
//! for a stripe without a fault and a wait; in all other cases it ends before its record and its
//! first write, and the caller does the request by that.
//!
//! # Life of an operation
//! [planned](StripeOp::plan) → its [reads](StripeOp::reads) start, and [return](StripeOp::returned)
//! → [computed](StripeOp::compute) → its [record](StripeOp::record), if it needs one, becomes
//! durable → its [writes](StripeOp::writes) start, and return → done, or
//! [settled](StripeOp::settle) by a task if one failed.
//!
//! # Fault model and invariants
//! - From the plan until its faults are settled, the caller holds the stripe's columns exclusively,
//!   has the region marked as dirty, and has announced the change.
//! - It is committed by its record, or by the start of its writes without one. Before that no drive
//!   has changed: a failed read, a drive that is out of use or being replaced, or a state that is
//!   no longer that of the plan ends it without effect. So does a record that could not be written.
//! - After that, it is not planned again, since a crash replays the record. Its faults are settled
//!   like those of any plan, after the last return.
//! - A drive that is gone or does not respond is out of use when its operation returns, not after
//!   the last one: whether another drive is needed depends on it.
//! - The caller keeps the journal from changing.
//! - It waits for no lock, memory or request. Without memory for its old data and redundancy, it is
//!   not begun. It returns its memory before its caller waits for anything else.

use crate::members::{Places, is_gone};
use crate::stripe::Stripes;
use crate::stripe::Trouble;
use crate::stripe::drive_ops::{Answered, Lacking};
use crate::stripe::journal::{Begun, Kept, Recording};
use crate::stripe::memory::{Host, Memory, scratch_need};
use crate::stripe::write_faults::WriteFaults;
use plan::{Plan, Request};
use platform::sync::Taken;
use platform::{Bufs, Durability, IoError, IoOutcome, IoRequest, Member, Receiver, Slice, Slices};
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
    Recording,
    Writing,
}

/// How an operation goes on after its computation.
pub(crate) enum Recorded {
    /// Its writes start.
    Kept,
    /// When its record is written.
    Later,
    /// It ends without effect.
    Not,
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
    recording: Option<Recording>,
    kept: Option<Kept>,
    _scratch: Taken,
}

impl Stripes {
    /// Whether a write of whole sectors of one stripe may be an operation: there is no fault in its
    /// region.
    pub(crate) fn may_be_operation(&self, stripe: StripeIndex, region: RegionIndex) -> bool {
        self.is_well(region)
            && self.is_initialised(stripe)
            && self.is_live(stripe)
            && self.members.late().is_empty()
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
        let is_plain = planned
            && plan.reads().len().max(plan.writes().len()) <= MOST_OPS
            && stripes.may_begin_to_keep(&plan, range, durability);
        let scratch = is_plain.then(|| stripes.shard.try_reserve_scratch(scratch_need(&plan)));
        let Some(scratch) = scratch.flatten() else {
            stripes.put_plan(plan);
            return None;
        };
        let mut memory = stripes.take_memory();
        memory.admit(&plan, Host::Payload(data.into(), durability));
        let (step, started, left) = (Step::Planned, SmallVec::new(), 0);
        Some(StripeOp {
            plan,
            made_under,
            memory,
            durability,
            step,
            started,
            left,
            recording: None,
            kept: None,
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
            Step::Recording => {
                self.recorded(stripes, outcome.result);
                return true;
            }
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
            Step::Planned | Step::Reading | Step::Recording => {
                (self.plan.reads()[number].drive, "read")
            }
        };
        if is_gone(&error) && stripes.members.is_in_slot(drive, &self.started[number].member) {
            stripes.fail_drive(drive, error, operation);
        }
    }

    /// Whether no operation of the step is with its drive.
    pub(crate) fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// Whether its record is durable, or its writes have started: it is finished by its plan.
    pub(crate) fn is_committed(&self) -> bool {
        self.is_writing() || self.is_recorded()
    }

    /// Whether its writes have started.
    pub(crate) fn is_writing(&self) -> bool {
        self.step == Step::Writing
    }

    /// Whether its record is durable.
    pub(crate) fn is_recorded(&self) -> bool {
        self.kept.as_ref().is_some_and(Kept::is_recorded)
    }

    /// Whether everything that it needs for the next step has been read. All reads have returned.
    pub(crate) fn has_read(&self) -> bool {
        self.step == Step::Reading && self.is_good()
    }

    /// Whether it is done: every write was successful, and a durable one is kept. All have
    /// returned.
    pub(crate) fn is_done(&self) -> bool {
        let is_broken = || self.kept.as_ref().is_some_and(Kept::is_broken);
        let is_kept = || self.durability == Durability::Cached || !is_broken();
        self.is_writing() && self.is_good() && is_kept()
    }

    fn is_good(&self) -> bool {
        assert!(self.is_idle(), "all operations have returned");
        self.started.iter().all(|started| started.result.is_ok())
    }

    /// Computes the redundancy. Returns how long the model of a processor takes for it.
    pub(crate) fn compute(&mut self, stripes: &Rc<Stripes>) -> Duration {
        assert!(self.has_read(), "all bytes have been read");
        let (mismatch, time) = stripes.compute_at_once(&self.plan, &mut self.memory);
        assert!(mismatch.is_none(), "a write compares nothing");
        time
    }

    /// Begins its record, if it needs one; `tell` gets it like an operation with a drive. Once the
    /// record is written, the operation is committed.
    pub(crate) fn record(
        &mut self,
        stripes: &Rc<Stripes>,
        tell: impl FnOnce() -> Receiver,
    ) -> Recorded {
        if self.made_under != stripes.state().revision() {
            return Recorded::Not;
        }
        match stripes.begin_to_keep(&self.plan, &self.memory, self.durability, tell) {
            Begun::Kept(kept) => {
                self.kept = kept;
                Recorded::Kept
            }
            Begun::Recording(recording) => {
                (self.step, self.recording, self.left) = (Step::Recording, Some(recording), 1);
                Recorded::Later
            }
            Begun::ByTask => Recorded::Not,
        }
    }

    /// Its record is written, and has this number.
    fn recorded(&mut self, stripes: &Rc<Stripes>, number: Result<u64, IoError>) {
        let Some(recording) = self.recording.take() else {
            unreachable!("a record is written once");
        };
        let done = |number| recording.done(stripes, &self.plan, self.durability, number);
        self.kept = number.ok().and_then(done);
    }

    /// Adds the writes of its plan. From their start on, the operation is committed in any case.
    /// `None`: the state has changed, or a drive is out of use or being replaced, and nothing was
    /// written.
    pub(crate) fn writes(
        &mut self,
        stripes: &Rc<Stripes>,
        requests: &mut DriveRequests,
    ) -> Option<()> {
        let StripeOp { plan, memory, kept, .. } = self;
        let durability = Kept::durability(kept.as_ref(), self.durability);
        for write in plan.writes() {
            // A replacement receives the same writes. A drive that has failed meanwhile may not
            // respond, and the state does not say so yet.
            let is_only = stripes.members.replacement(write.drive).is_none();
            let is_in_use = stripes.in_service().contains(write.drive);
            let member = stripes.members.get(write.drive).filter(|_| is_only && is_in_use)?;
            let mut slices = Slices::new();
            memory.add_slices(plan, write, &mut slices);
            let request =
                IoRequest::Write { offset: stripes.raw(write.offset), slices, durability };
            requests.push(DriveRequest { member, request, is_short: false });
        }
        if !self.is_recorded() && self.made_under != stripes.state().revision() {
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

    /// Settles the faults of its writes, or writes by its plan if it is recorded and none has
    /// started. Returns the drives that were not written.
    ///
    /// # Errors
    /// When new content is available nowhere, with the refused blocks to put back.
    pub(crate) async fn settle(
        &mut self,
        stripes: &Rc<Stripes>,
    ) -> Result<DriveSet, (IoError, Trouble)> {
        assert!(self.is_committed() && self.is_idle(), "all writes have returned");
        let mut trouble = Trouble::default();
        let mut written = match self.step {
            Step::Writing => self.settle_started(stripes, &mut trouble).await,
            Step::Planned | Step::Reading | Step::Recording => {
                let durability = Kept::durability(self.kept.as_ref(), self.durability);
                stripes.write_all(&self.plan, &self.memory, durability, &mut trouble).await
            }
        };
        if let Err(error) = stripes.keep_promise(&self.kept, self.durability).await {
            written = written.and(Err(error));
        }
        if !trouble.unkept.is_empty() {
            trouble.record = self.kept.take().filter(Kept::counts).map(Box::new);
        }
        match written {
            Ok(skipped) => Ok(skipped.union(&stripes.left_out(&self.plan))),
            Err(error) => Err((error, trouble)),
        }
    }

    async fn settle_started(
        &mut self,
        stripes: &Rc<Stripes>,
        trouble: &mut Trouble,
    ) -> Result<DriveSet, IoError> {
        let StripeOp { plan, memory, started, kept, .. } = self;
        let mut faults = WriteFaults::default();
        for (write, Started { member, result }) in plan.writes().iter().zip(started.drain(..)) {
            let answered = Answered { slot: write.drive, member: Some(member), result };
            faults.note(stripes, answered, || {
                let mut slices = Slices::new();
                memory.add_slices(plan, write, &mut slices);
                Some((write.offset, slices))
            });
        }
        let durability = Kept::durability(kept.as_ref(), self.durability);
        let none = Lacking::default();
        stripes.settle_plan(faults, none, plan, durability, trouble).await
    }

    /// It has ended: its plan and memory serve the next one.
    pub(crate) fn end(self, stripes: &Stripes) {
        stripes.put_plan(self.plan);
        stripes.put_memory(self.memory);
    }
}
