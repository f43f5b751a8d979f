//! Drives that return by themselves: a restored path, a reconnected cable, a server that responds
//! again.
//!
//! A slot whose drive vanished or timed out is checked every few seconds. When the drive responds,
//! carries its label and has no outstanding writes, it is brought online as by `drive online`, and
//! stale regions are rebuilt. Drives that an operator took offline or suspended are excluded, and
//! so are drives that failed by their own fault (`inventory::failed`). A drive that repeatedly
//! vanishes is brought back a few times, then left to the operator; a repeatedly suspended drive
//! fails by policy.

use crate::arrays::array::Array;
use crate::events::{EventCode, Subject};
use crate::inventory::Drive;
use crate::reconcile::Reconciler;
use crate::signals::wait_or;
use ondisk::{Cause, Member, Uuid};
use platform::{Instant, Io};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// The interval of checks for missing drives.
const LOOK: Duration = Duration::from_secs(2);

/// The interval of checks when no drive is missing and no change is notified.
const IDLE: Duration = Duration::from_secs(3600);

/// The maximum number of automatic returns within [`MEMORY`].
const MOST_RETURNS: u32 = 3;

/// Earlier returns do not count.
const MEMORY: Duration = Duration::from_secs(3600);

/// The recent automatic returns of a drive.
#[derive(Clone, Copy)]
pub(super) struct Returns {
    count: u32,
    last: Instant,
}

impl Reconciler {
    /// Checks for returning drives until the controller stops.
    pub(crate) async fn watch_returns(self: Rc<Self>) {
        loop {
            let (seen, is_idle) = (self.attention.seen(), self.slots_out().is_empty());
            let until = self.env.now() + if is_idle { IDLE } else { LOOK };
            let news = || self.attention.is_closing() || is_idle && self.attention.seen() != seen;
            wait_or(&self.env, self.attention.changed(), news, until).await;
            if self.attention.is_closing() {
                return;
            }
            if is_idle {
                continue;
            }
            let silent = self.still_silent().await;
            self.look_for_drives(&silent).await;
            let _turn = self.turn.take(1).await;
            for (array, slot, member) in self.slots_out() {
                if self.attention.is_closing() {
                    return;
                }
                if silent.contains(&member.uuid) {
                    continue;
                }
                self.bring_back_if_there(&array, slot, &member).await;
            }
        }
    }

    /// Probes the candidates for slots without a drive, all at the same time; no lock is held.
    async fn look_for_drives(&self, silent: &BTreeSet<Uuid>) {
        let mut drives: Vec<Rc<Drive>> = Vec::new();
        for (array, slot, member) in self.slots_out() {
            if !silent.contains(&member.uuid) && self.may_return(&member) {
                drives.extend(self.candidates(&array, slot, &member));
            }
        }
        drives.dedup_by(|a, b| Rc::ptr_eq(a, b));
        let epochs: Vec<u64> = drives.iter().map(|drive| drive.epoch()).collect();
        self.inventory.look_at(drives.clone()).await;
        // The open handle of a vanished drive is dead: it is opened again.
        let closed = drives.iter().filter(|drive| drive.access().is_none());
        self.inventory.look_at(closed.cloned().collect()).await;
        for drive in self.inventory.changed(drives.clone()).await {
            // Its name no longer refers to the open device: the next probe opens the new one.
            let is_untouched = |(other, epoch): (&Rc<Drive>, &u64)| {
                Rc::ptr_eq(other, &drive) && drive.epoch() == *epoch
            };
            if drives.iter().zip(&epochs).any(is_untouched) {
                drive.close();
            }
        }
    }

    /// Slots of started arrays whose drive vanished, or is suspended.
    fn slots_out(&self) -> Vec<(Rc<Array>, usize, Member)> {
        let mut out = Vec::new();
        for array in self.arrays.all() {
            if !array.is_running() || array.has_lost() || array.has_unrecorded() {
                continue;
            }
            let label = array.label();
            let has_failed =
                |member: &Member| label.failed.iter().any(|failed| failed.uuid == member.uuid);
            for (slot, member) in label.member.iter().enumerate() {
                let vanished =
                    matches!(member.cause, Some(Cause::Error | Cause::Missing | Cause::Suspended));
                if !member.is_online() && vanished && !has_failed(member) {
                    out.push((array.clone(), slot, member.clone()));
                }
            }
        }
        out
    }

    /// Suspended members that do not respond. They are probed without a lock, so nothing waits for
    /// them. Reading the label of a drive that does not respond would close it; it could not be
    /// opened again while shards use it.
    async fn still_silent(&self) -> BTreeSet<Uuid> {
        let asked: Vec<(Uuid, Io)> = self
            .slots_out()
            .into_iter()
            .filter(|(_, _, member)| member.is_suspended())
            .filter_map(|(array, slot, member)| {
                let drive = array.drive(slot).filter(|drive| !drive.holds_writes_back());
                Some((member.uuid, drive?.access()?.begin_to_read()))
            })
            .collect();
        let mut silent = BTreeSet::new();
        for (member, answer) in asked {
            if answer.await.result.is_err() {
                silent.insert(member);
            }
        }
        silent
    }

    /// The recent automatic returns of a slot's drive.
    fn returned(&self, member: &Member) -> Option<Returns> {
        let before = self.returns.borrow().get(&member.uuid).copied();
        // Returns of suspended drives are limited by the policy (`arrays::suspended`).
        before
            .filter(|returns| self.env.now().since(returns.last) < MEMORY && !member.is_suspended())
    }

    /// Whether the drive of a slot may return by itself.
    fn may_return(&self, member: &Member) -> bool {
        let is_unsteady =
            self.returned(member).is_some_and(|returns| returns.count >= MOST_RETURNS);
        !is_unsteady && self.arrays.unsettled(member).is_none()
    }

    /// Brings the drive of a slot online, if the last probe found it.
    async fn bring_back_if_there(self: &Rc<Self>, array: &Rc<Array>, slot: usize, member: &Member) {
        if !self.may_return(member) {
            return;
        }
        let (now, before) = (self.env.now(), self.returned(member));
        let Some(drive) = self.answering(array, slot, member) else { return };
        match self.lifecycle.take_in_again(&drive.name).await {
            Ok(_) if member.is_suspended() => {}
            Ok(_) => {
                let count = before.map_or(0, |returns| returns.count) + 1;
                self.returns.borrow_mut().insert(member.uuid, Returns { count, last: now });
                if count == MOST_RETURNS {
                    self.report_flapping(array, &drive);
                }
            }
            // It is retried soon; an operator's command gets the error.
            Err(error) => tracing::debug!("drive {} is not brought online: {error}", drive.name),
        }
        self.attention.look_after();
    }

    /// The candidates for a slot without a drive: its own drive, drives of that name, and drives
    /// with its label.
    fn candidates(&self, array: &Array, slot: usize, member: &Member) -> Vec<Rc<Drive>> {
        let own = array.drive(slot);
        let others =
            self.inventory.drives().into_iter().filter(|drive| !self.arrays.is_in_use(drive));
        let is_candidate = |drive: &Rc<Drive>| {
            let may_be = drive.name == member.name
                || drive.member_label().is_some_and(|label| label.drive == member.uuid);
            may_be && !drive.holds_writes_back()
        };
        own.into_iter().chain(others).filter(is_candidate).collect()
    }

    /// The original drive of a slot, if it responded.
    fn answering(&self, array: &Array, slot: usize, member: &Member) -> Option<Rc<Drive>> {
        let is_it = |drive: &Rc<Drive>| {
            drive.member_label().is_some_and(|label| label.drive == member.uuid)
                && self.inventory.failure_of(drive).is_none()
                && drive.access().is_some()
                && drive.problem().is_none()
        };
        self.candidates(array, slot, member).into_iter().find(is_it)
    }

    fn report_flapping(&self, array: &Array, drive: &Drive) {
        let text = format!(
            "drive {} of {} disappeared and returned {MOST_RETURNS} times within an hour; the next \
            time it stays out of service until an operator runs 'softroc drive online {}'",
            drive.name,
            array.names(),
            drive.name
        );
        self.events.report(
            EventCode::DriveUnsteady,
            Subject::both(&drive.name, &array.name()),
            &format!("drive {} is unstable", drive.name),
            "the next time it stays out of service",
            text,
        );
    }
}
