//! Drives that do not answer in time: suspended, used again, or failed.
//!
//! # Fault model
//! A drive may stop answering for any time, and then go on as if nothing had happened: a server that was
//! stopped, a path that was gone, a drive that retries its own sectors. Until then it may carry out, at any
//! time, what it was asked before.
//!
//! # Invariants
//! - A drive that exceeds a time limit is *suspended*. It leaves service by the same rules as a failed drive
//!   ([`failures`](super::failures)): no write that skipped it is acknowledged before the suspension is durable
//!   on the other drives. It has missed the marked regions, because a mark is cleared only after a flush in
//!   which every drive in service took part.
//! - It is not used before it has returned all its operations ([`draining`](super::draining)). Then it is used
//!   again automatically, and the regions that it missed are rebuilt (`reconcile::returns`).
//! - No spare takes its slot meanwhile: that would cost a full rebuild.
//! - It fails when it has been suspended for longer than `suspend_limit_s` of the array's policies, or more than
//!   [`MOST`] times within [`MEMORY`]. It then counts as a drive that failed by its own fault.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::failures::Failing;
use crate::interface::SuspensionInfo;
use env::{Env, Instant, IoErrorKind};
use ondisk::{Cause, FailedDrive, Uuid};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// So often a drive may be suspended within [`MEMORY`].
const MOST: usize = 12;

/// Suspensions that are longer ago do not count.
const MEMORY: Duration = Duration::from_secs(3600);

/// When a drive was suspended, and why it was last.
#[derive(Default)]
struct History {
    times: VecDeque<Instant>,
    why: String,
}

/// When drives were suspended since the controller was started, by the UUID of the member.
pub(super) struct Suspensions {
    began: Instant,
    all: RefCell<BTreeMap<Uuid, History>>,
}

impl Suspensions {
    pub(super) fn new(env: &Env) -> Suspensions {
        Suspensions { began: env.now(), all: RefCell::default() }
    }

    fn note(&self, member: Uuid, now: Instant, why: &str) {
        let mut all = self.all.borrow_mut();
        // The last one is kept however long ago it is: a drive may be suspended for longer than that.
        let history = all.entry(member).or_default();
        history.times.retain(|time| now.since(*time) < MEMORY);
        history.times.push_back(now);
        why.clone_into(&mut history.why);
    }

    fn count(&self, member: Uuid, now: Instant) -> usize {
        let is_recent = |time: &&Instant| now.since(**time) < MEMORY;
        self.all.borrow().get(&member).map_or(0, |history| history.times.iter().filter(is_recent).count())
    }

    /// Since when a drive is suspended: since the start of the controller if it was before.
    fn since(&self, member: Uuid) -> Instant {
        let all = self.all.borrow();
        all.get(&member).and_then(|history| history.times.back().copied()).unwrap_or(self.began)
    }

    /// Why it was suspended. Labels do not tell.
    fn why(&self, member: Uuid) -> String {
        let all = self.all.borrow();
        all.get(&member).map_or_else(|| "it did not answer in time".to_owned(), |history| history.why.clone())
    }
}

/// Why an array goes on without a drive that had this error.
pub(super) fn cause_of(error: IoErrorKind) -> Cause {
    if error == IoErrorKind::TimedOut { Cause::Suspended } else { Cause::Error }
}

impl Arrays {
    /// A drive that would be suspended fails instead if it was suspended too often within the last hour.
    pub(super) fn judge_by_policy(&self, array: &Array, failing: &mut [Failing]) {
        let (label, now) = (array.label(), self.env.now());
        for one in failing.iter_mut().filter(|one| one.cause == Cause::Suspended) {
            let Some(member) = label.member.get(one.slot) else { continue };
            if self.suspensions.count(member.uuid, now) >= MOST {
                (one.cause, one.is_lasting) = (Cause::Error, true);
                one.what.push_str(&format!("; it was suspended {MOST} times within an hour"));
            }
        }
    }

    /// Drives that are suspended from now on.
    pub(super) fn note_suspended(&self, array: &Array, failing: &[Failing]) {
        let label = array.label();
        for Failing { slot, what, .. } in failing.iter().filter(|failing| failing.cause == Cause::Suspended) {
            if let Some(member) = label.member.get(*slot) {
                self.suspensions.note(member.uuid, self.env.now(), what);
            }
            if let Some(drive) = array.drive(*slot) {
                drive.count_suspension();
            }
        }
    }

    /// How much longer the drive of a slot may stay suspended. The time counts from the start of the controller
    /// if it was suspended before. `None`: it is not suspended.
    pub(crate) fn suspended_for_another(&self, array: &Array, slot: usize) -> Option<Duration> {
        let label = array.label();
        let member = label.member.get(slot).filter(|member| member.is_suspended())?;
        let limit = Duration::from_secs(label.policy.suspend_limit_s.into());
        Some(limit.saturating_sub(self.env.now().since(self.suspensions.since(member.uuid))))
    }

    /// Why the drive of a slot is suspended, and for how long yet; `None` of one that is not.
    pub(crate) fn suspension_info(&self, array: &Array, slot: usize) -> Option<SuspensionInfo> {
        let member = array.label().member.get(slot)?.uuid;
        let left = self.suspended_for_another(array, slot)?;
        Some(SuspensionInfo { why: self.suspensions.why(member), fails_in_s: Some(left.as_secs()) })
    }

    /// A drive has been suspended for longer than the policy allows: it has failed. Whether that is recorded.
    pub(crate) async fn fail_suspended(self: &Rc<Self>, array: &Rc<Array>, slot: usize) -> bool {
        let _turn = array.metadata_turn().await;
        let mut next = array.label();
        let limit = next.policy.suspend_limit_s;
        let Some(member) = next.member.get_mut(slot).filter(|member| member.is_suspended()) else {
            return true; // It is back, or another one has the slot.
        };
        member.cause = Some(Cause::Error);
        let what = format!("it did not answer for {limit} s");
        let failed = FailedDrive {
            uuid: member.uuid,
            identity: array.drive(slot).and_then(|drive| drive.lasting_identity()),
            name: member.name.clone(),
            why: what.clone(),
            at_unix_s: self.env.unix_time(),
        };
        next.remember_failed(failed);
        if !self.commit(array, next, Vec::new()).await {
            return false;
        }
        self.remember_failed(array);
        self.report_out(array, &Failing { slot, cause: Cause::Error, what, is_lasting: true });
        self.attention.look_after();
        true
    }
}
