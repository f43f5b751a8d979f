//! One request on one stripe: planned, executed, and planned again while a new plan may succeed.

use crate::stripe::Stripes;
use crate::stripe::execute::Executed;
use crate::stripe::memory::{Host, scratch_need};
use crate::stripe::trouble::Trouble;
use plan::{Method, Mismatch, Plan, Request, Unplannable};
use platform::{IoError, IoErrorKind};
use std::rc::Rc;
use units::{DriveIndex, DriveSet, StripeIndex};

/// How to handle a failed read.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Patience {
    /// Plan without the drive that failed the read.
    #[default]
    PlanAround,
    /// Like `PlanAround`, except where copies may differ. There the caller splits the request, so
    /// that few blocks are read from a copy other than the designated one.
    OneCopy,
    /// Fail at once: the caller repairs the block first.
    Repair,
}

/// Options of an attempt.
#[derive(Clone, Copy, Default)]
pub(crate) struct Attempt {
    /// The caller holds the needed locks: bytes may be computed from other drives.
    pub(crate) held: bool,
    /// How to handle a failed read.
    pub(crate) patience: Patience,
    /// Drives whose part of the stripe is computed instead of read.
    pub(crate) unbelieved: DriveSet,
    /// Drives that are stale in this stripe and that the request makes current.
    pub(crate) filling: DriveSet,
    /// Compute the stripe's redundancy anew; the drives in `filling` are already current.
    pub(crate) settle: bool,
    /// A drive whose strip is computed into its spare strip, and the drive that holds this spare
    /// strip (RAID 5EE).
    pub(crate) moving: Option<(DriveIndex, DriveIndex)>,
}

impl Attempt {
    /// The caller holds no lock.
    pub(crate) const FREE: Attempt = Attempt {
        held: false,
        patience: Patience::OneCopy,
        unbelieved: DriveSet::EMPTY,
        filling: DriveSet::EMPTY,
        settle: false,
        moving: None,
    };
    /// The caller holds the needed locks.
    pub(crate) const HELD: Attempt =
        Attempt { held: true, patience: Patience::PlanAround, ..Attempt::FREE };

    /// The same options with another `patience`.
    pub(crate) const fn with(self, patience: Patience) -> Attempt {
        Attempt { patience, ..self }
    }
}

/// The result of an attempt.
pub(crate) enum Ended {
    /// The request is complete.
    Done {
        /// Drives with a part in the stripe that were not written.
        skipped: DriveSet,
        /// The difference that a comparison found.
        mismatch: Option<Mismatch>,
    },
    /// Needed bytes are unreadable and cannot be reconstructed; `trouble` lists them. The caller
    /// may still succeed block by block.
    Lost,
    /// Bytes must be computed from other drives: the caller must lock the stripe.
    NeedsLock,
    /// The request failed.
    Failed(IoError),
}

/// Whether a request is not planned again after a failed read. Such a read failed at a place that
/// is not in `known`, or on a drive that may be readable later. `differ`: copies may differ.
fn gives_up(
    patience: Patience,
    request: &Request<'_>,
    differ: bool,
    (trouble, known): (&Trouble, usize),
) -> Option<Ended> {
    // Only unreadable blocks may come from another copy, or from parity that may not agree.
    let is_repair = patience == Patience::Repair && !request.is_write();
    if let Some(error) = trouble.unread.filter(|_| differ || is_repair) {
        return Some(Ended::Failed(error));
    }
    let gives_up = match patience {
        Patience::PlanAround => false,
        Patience::OneCopy => differ,
        Patience::Repair => true,
    };
    (gives_up && trouble.places.len() > known).then_some(Ended::Lost)
}

/// Whether a request avoids drives that are slow to read.
fn is_hasty(request: &Request<'_>, how: &Attempt) -> bool {
    let is_host_like = match request {
        Request::Read { .. } => how.patience != Patience::Repair,
        Request::Write { .. } => true,
        _ => false,
    };
    is_host_like && !how.settle && how.filling.is_empty() && how.moving.is_none()
}

impl Stripes {
    /// Plans and executes a request until it completes or fails. `trouble` collects failed reads;
    /// the first plan avoids drives that it contains.
    pub(crate) async fn attempt(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: Request<'_>,
        mut host: Host,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> (Ended, Host) {
        if !self.is_live(stripe) {
            return (Ended::Failed(IoError::new(IoErrorKind::Gone)), host);
        }
        if !self.is_initialised(stripe) {
            return Box::pin(self.attempt_uninitialised(stripe, request, host, trouble, how)).await;
        }
        let _changing = self.changed_by(&request).map(|range| self.begin_change(stripe, range));
        let copies = match (request, &host) {
            (Request::Write { range }, Host::Payload(payload, durability)) => {
                let is_simple = how.held && self.may_go_to_copies(stripe, range);
                payload.only_slice().filter(|_| is_simple).map(|slice| (range, slice, *durability))
            }
            _ => None,
        };
        let written = match copies {
            Some((range, slice, durability)) => {
                Some(self.write_to_copies(stripe, range, slice, durability).await)
            }
            None => None,
        };
        if written == Some(true) {
            return (Ended::Done { skipped: DriveSet::EMPTY, mismatch: None }, host);
        }
        // Boxed here, the future moves once: nested futures of callers stay small.
        let ended =
            Box::pin(self.attempt_by_plans(stripe, &request, &mut host, trouble, how)).await;
        if written.is_some() && !matches!(ended, Ended::Done { .. }) {
            // A partial write may leave copies that differ.
            Box::pin(self.distrust(stripe)).await;
        }
        (ended, host)
    }

    pub(super) async fn attempt_by_plans(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: &Request<'_>,
        host: &mut Host,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> Ended {
        let mut plan = self.take_plan();
        let ended = loop {
            if let Err(lost) = self.plan(&mut plan, stripe, request, trouble, how) {
                if how.held && !matches!(request, Request::Read { .. }) {
                    trouble.places.extend(self.unknown_places(stripe, self.columns_of(request)));
                }
                break match (trouble.unread, self.unplannable(&lost)) {
                    // The drive may be readable later: no block is declared lost.
                    (Some(error), _) => Ended::Failed(error),
                    // Unreadable blocks that block a write are reported as lost; other blocks of
                    // the write continue.
                    (None, Ended::Failed(_)) if request.is_write() && !trouble.is_empty() => {
                        Ended::Lost
                    }
                    (None, ended) => ended,
                };
            }
            if !how.held && plan.method() != Method::Direct {
                break Ended::NeedsLock;
            }
            if !self.may_write(&plan, trouble) {
                break Ended::Lost;
            }
            if request.is_write() {
                self.note_gap(&plan);
            }
            let made_under = self.state().revision();
            let _scratch = self.shard.reserve_scratch(scratch_need(&plan)).await;
            if made_under != self.state().revision() {
                continue; // The plan is for an earlier set of drives or health.
            }
            trouble.is_patient |= !plan.health().parity_trusted || !is_hasty(request, how);
            let known = trouble.places.len();
            let taken = std::mem::replace(host, Host::None);
            match self.execute(&plan, made_under, taken, trouble).await {
                Executed::Done { host: back, skipped, mismatch } => {
                    *host = back;
                    if let Some(mismatch) = mismatch {
                        self.shard.env().trace("mismatch", stripe.0, mismatch.columns.start.0);
                    }
                    let skipped = skipped.union(&self.left_out(&plan));
                    break Ended::Done { skipped, mismatch };
                }
                Executed::Again { host: back } => {
                    *host = back;
                    self.count(|counters| counters.replans += 1);
                    let differ = self.geometry().copies() > 1 && !plan.health().parity_trusted;
                    if let Some(ended) = gives_up(how.patience, request, differ, (trouble, known)) {
                        break ended;
                    }
                }
                Executed::Failed { host: back, error } => {
                    *host = back;
                    break Ended::Failed(error);
                }
            }
        };
        self.put_plan(plan);
        ended
    }

    /// Plans a request without slow drives if possible; otherwise the request waits for them.
    fn plan(
        &self,
        plan: &mut Plan,
        stripe: StripeIndex,
        request: &Request<'_>,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> Result<(), Unplannable> {
        let is_hasty = !trouble.is_patient && is_hasty(request, how);
        trouble.late =
            if is_hasty { trouble.late.union(&self.members.late()) } else { DriveSet::EMPTY };
        if !trouble.late.is_empty() {
            let health = self.health_for(stripe, request, trouble, how);
            // Redundancy that does not agree can neither reconstruct data nor be updated by a
            // write.
            let may_do_without = health.parity_trusted;
            if may_do_without
                && plan::plan_into(plan, self.geometry(), stripe, *request, &health).is_ok()
            {
                return Ok(());
            }
            (trouble.is_patient, trouble.late) = (true, DriveSet::EMPTY);
        }
        let health = self.health_for(stripe, request, trouble, how);
        plan::plan_into(plan, self.geometry(), stripe, *request, &health)
    }

    pub(super) fn health_for(
        &self,
        stripe: StripeIndex,
        request: &Request<'_>,
        trouble: &Trouble,
        how: &Attempt,
    ) -> plan::Health {
        let mut excluded = self.unreadable_for(stripe, request);
        trouble.told.iter().for_each(|told| excluded.remove(told.drive));
        let unreadable =
            trouble.drives.union(&trouble.late).union(&how.unbelieved).union(&excluded);
        let mut health = self.stripe_health(stripe, &unreadable);
        if !how.filling.is_empty() {
            let filling = how.filling.intersection(&self.in_service());
            health.writable = health.writable.union(&filling);
            if how.settle {
                let filled = filling.minus(&unreadable);
                health.readable = health.readable.union(&filled);
            }
        }
        health.parity_trusted &= !how.settle;
        if let Some((slot, spare)) = how.moving {
            health.relocated = Some(slot);
            health.readable.remove(spare);
        }
        health
    }

    /// Records that parity cannot follow a write: parity does not agree with the data, and a
    /// missing drive prevents computing it anew.
    fn note_gap(&self, plan: &Plan) {
        let (health, drives) = (plan.health(), self.geometry().drives());
        let complete =
            health.readable.contains_first(drives) && health.writable.contains_first(drives);
        if self.geometry().parity_strips() > 0 && !health.parity_trusted && !complete {
            self.count_gap();
        }
    }

    /// Drives that the plan omits because they failed; the failure may not be durable yet.
    pub(crate) fn left_out(&self, plan: &Plan) -> DriveSet {
        let all = DriveSet::first(self.geometry().drives());
        match plan.request() {
            Request::Read { .. } | Request::Verify { .. } | Request::Copy { .. } => DriveSet::EMPTY,
            _ => all.minus(&plan.health().writable),
        }
    }

    fn unplannable(&self, lost: &Unplannable) -> Ended {
        tracing::debug!(volume = %self.name(), "{lost}");
        match lost.kind {
            plan::ErrorKind::DataLost | plan::ErrorKind::NothingToCompare => Ended::Lost,
            plan::ErrorKind::NothingWritable => Ended::Failed(IoError::new(IoErrorKind::Gone)),
            plan::ErrorKind::TooScattered
            | plan::ErrorKind::OutOfRange
            | plan::ErrorKind::UnknownRequest => Ended::Failed(IoError::new(IoErrorKind::Invalid)),
        }
    }
}
