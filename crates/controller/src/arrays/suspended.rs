//! Suspended drives, which do not respond in time or were suspended by an operator: used again, or
//! failed.
//!
//! # States
//! ```text
//!                                                  it responds, and has returned all operations
//! online ── a time limit is exceeded ──► suspended ───────────────────────────► online, rebuilding
//!   │                                      │    └── for too long, or too often ───► failed
//!   │                              drive suspend
//!   │                                      ▼
//!   └──────── drive suspend ──────► suspended by an operator ── drive resume ─► online, rebuilding
//! ```
//! `drive suspend`, under the array's metadata lock:
//! 1. It is refused where any served volume would lose data or go offline, and while the drive is
//!    being replaced.
//! 2. A label that records it is durable on every other member in use. After an earlier crash: the
//!    drive is in service, or the start finds that label.
//! 3. The shards are notified. Only from here on are requests planned without the drive, and
//!    acknowledged.
//! 4. The drive's own label records that it is out.
//! 5. The command completes.
//!
//! `drive resume`:
//! 1. The controller has run for [`SETTLE`]; the drive has returned all its operations, and still
//!    carries its label.
//! 2. The map and the record of initialised stripes are written to the drive. Then a label that
//!    calls it online, with its stale regions, is durable on all members. After an earlier crash:
//!    it is suspended.
//! 3. The shards are notified, and the stale regions are rebuilt. Until then the drive counts as
//!    lost in these regions.
//!
//! # Fault model
//! A drive may stop responding for any time, and then continue as if nothing had happened: a
//! stopped server, an interrupted path, a drive that retries its own sectors. Until then it may
//! carry out earlier requests at any time.
//!
//! # Invariants
//! - A drive that exceeds a time limit is *suspended*. It leaves service by the same rules as a
//!   failed drive ([`failures`](super::failures)): no write that skipped it is acknowledged before
//!   the suspension is durable on the other drives. It has missed the marked regions, because a
//!   mark is cleared only after a flush in which every drive in service took part.
//! - It is not used before it has returned all its operations ([`draining`](super::draining)). Then
//!   it is used again automatically, and its stale regions are rebuilt (`reconcile::returns`).
//! - No spare takes its slot meanwhile: that would cost a full rebuild.
//! - It fails when it has been suspended for longer than `suspend_limit_s` of the array's policies,
//!   or more than [`MOST`] times within [`MEMORY`]. It then counts as a drive that is itself at
//!   fault.
//! - A drive that an operator suspended does not fail by policy, and comes back only by `drive
//!   resume`: not automatically, not after a start, not with `drive online` or `drive add`.
//! - After a start no suspended drive is used before the controller has run for [`SETTLE`], even on
//!   command.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::failures::Failing;
use crate::interface::{SuspendedBy, SuspensionInfo};
use ondisk::{Cause, FailedDrive, Member, Uuid};
use platform::{Env, Instant, IoErrorKind};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The reason for an operator's suspension, as part of a sentence.
pub(crate) const BY_OPERATOR: &str = "suspended by an operator";

/// The maximum number of suspensions within [`MEMORY`].
const MOST: usize = 12;

/// Older suspensions do not count.
const MEMORY: Duration = Duration::from_secs(3600);

/// The time for which the controller must run before it uses a suspended drive: after a crash, the
/// server of a remote drive may still carry out requests of the previous process. Twice the time
/// limit of a broken connection.
const SETTLE: Duration = Duration::from_secs(10);

/// When a drive was suspended, and the latest reason.
#[derive(Default)]
struct History {
    times: VecDeque<Instant>,
    why: String,
}

/// Times of suspensions since the start of the controller, by the UUID of the member.
pub(super) struct Suspensions {
    began: Instant,
    all: RefCell<BTreeMap<Uuid, History>>,
    /// Members that were suspended since then, for any reason.
    since_start: RefCell<BTreeSet<Uuid>>,
}

impl Suspensions {
    pub(super) fn new(env: &Env) -> Suspensions {
        Suspensions { began: env.now(), all: RefCell::default(), since_start: RefCell::default() }
    }

    fn note(&self, member: Uuid, now: Instant, why: &str) {
        let mut all = self.all.borrow_mut();
        // The last one is kept whatever its age: a drive may be suspended for longer than that.
        let history = all.entry(member).or_default();
        history.times.retain(|time| now.since(*time) < MEMORY);
        history.times.push_back(now);
        why.clone_into(&mut history.why);
    }

    fn count(&self, member: Uuid, now: Instant) -> usize {
        let is_recent = |time: &&Instant| now.since(**time) < MEMORY;
        self.all
            .borrow()
            .get(&member)
            .map_or(0, |history| history.times.iter().filter(is_recent).count())
    }

    /// The start of a drive's suspension: the start of the controller if it was suspended before.
    fn since(&self, member: Uuid) -> Instant {
        let all = self.all.borrow();
        all.get(&member).and_then(|history| history.times.back().copied()).unwrap_or(self.began)
    }

    /// Why it was suspended. Labels do not hold the reason.
    fn why(&self, member: Uuid) -> String {
        let all = self.all.borrow();
        all.get(&member)
            .map_or_else(|| "it did not respond in time".to_owned(), |history| history.why.clone())
    }
}

/// The cause to record for a drive that had this error.
pub(super) fn cause_of(error: IoErrorKind) -> Cause {
    if error == IoErrorKind::TimedOut { Cause::Suspended } else { Cause::Error }
}

impl Arrays {
    /// A drive that would be suspended fails instead if it was suspended too often within the last
    /// hour.
    pub(super) fn judge_by_policy(&self, array: &Array, failing: &mut [Failing]) {
        let (label, now) = (array.label(), self.env.now());
        for one in failing.iter_mut().filter(|one| one.cause == Cause::Suspended) {
            let Some(member) = label.member.get(one.slot) else { continue };
            if self.suspensions.count(member.uuid, now) >= MOST {
                (one.cause, one.is_lasting) = (Cause::Error, true);
                one.what
                    .push_str(&format!("; the drive was suspended {MOST} times within an hour"));
            }
        }
    }

    /// Records the suspension of drives.
    pub(super) fn note_suspended(&self, array: &Array, failing: &[Failing]) {
        let label = array.label();
        for Failing { slot, cause, .. } in failing {
            let is_suspended = matches!(cause, Cause::Suspended | Cause::OperatorSuspended);
            let member = label.member.get(*slot).filter(|_| is_suspended);
            self.suspensions.since_start.borrow_mut().extend(member.map(|member| member.uuid));
        }
        for Failing { slot, what, .. } in
            failing.iter().filter(|failing| failing.cause == Cause::Suspended)
        {
            if let Some(member) = label.member.get(*slot) {
                self.suspensions.note(member.uuid, self.env.now(), what);
            }
            if let Some(drive) = array.drive(*slot) {
                drive.count_suspension();
            }
        }
    }

    /// How much longer the drive of a slot may stay suspended. The time counts from the start of
    /// the controller if it was suspended before. `None`: it is not suspended.
    pub(crate) fn suspended_for_another(&self, array: &Array, slot: usize) -> Option<Duration> {
        let label = array.label();
        let member = label.member.get(slot).filter(|member| member.is_suspended())?;
        let limit = Duration::from_secs(label.policy.suspend_limit_s.into());
        Some(limit.saturating_sub(self.env.now().since(self.suspensions.since(member.uuid))))
    }

    /// The reason and remaining time of a slot's suspension; `None` if the drive is not suspended.
    pub(crate) fn suspension_info(&self, array: &Array, slot: usize) -> Option<SuspensionInfo> {
        let label = array.label();
        let member = label.member.get(slot)?;
        if member.is_suspended_by_operator() {
            let (by, why) = (SuspendedBy::Operator, ondisk::why(member).to_owned());
            return Some(SuspensionInfo { by, why, fails_in_s: None });
        }
        let (by, left) = (SuspendedBy::TimeLimit, self.suspended_for_another(array, slot)?);
        Some(SuspensionInfo {
            by,
            why: self.suspensions.why(member.uuid),
            fails_in_s: Some(left.as_secs()),
        })
    }

    /// How much longer a drive that was suspended before a recent start must not be used. `None`:
    /// it may be. Outstanding operations of this process are tracked elsewhere.
    pub(crate) fn unsettled(&self, member: &Member) -> Option<Duration> {
        let has_run = self.env.now().since(self.suspensions.began);
        let is_suspended = member.is_suspended() || member.is_suspended_by_operator();
        let was_before =
            is_suspended && !self.suspensions.since_start.borrow().contains(&member.uuid);
        (was_before && has_run < SETTLE).then(|| SETTLE - has_run)
    }

    /// An operator suspends a drive that exceeded a time limit: it stays out, and does not fail by
    /// policy. Returns whether that is recorded. The caller holds the metadata lock.
    pub(crate) async fn keep_suspended(self: &Rc<Self>, array: &Rc<Array>, slot: usize) -> bool {
        let mut next = array.label();
        next.member[slot].cause = Some(Cause::OperatorSuspended);
        if !self.commit(array, next, Vec::new()).await {
            return false;
        }
        let (cause, what) = (Cause::OperatorSuspended, BY_OPERATOR.to_owned());
        self.report_out(array, &Failing { slot, cause, what, is_lasting: false });
        true
    }

    /// A drive has been suspended for longer than the policy allows: it has failed. Returns whether
    /// that is recorded.
    pub(crate) async fn fail_suspended(self: &Rc<Self>, array: &Rc<Array>, slot: usize) -> bool {
        let _turn = array.metadata_turn().await;
        let mut next = array.label();
        let limit = next.policy.suspend_limit_s;
        let Some(member) = next.member.get_mut(slot).filter(|member| member.is_suspended()) else {
            return true; // It is back, or another drive has the slot.
        };
        member.cause = Some(Cause::Error);
        let what = format!("it did not respond for {limit} s");
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
