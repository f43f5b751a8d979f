//! Drives that come back by themselves: a path that reappears, a cable that is plugged in again, a server that answers.
//!
//! A slot that is out because its drive vanished, or did not answer in time, is looked at every few seconds. When the drive answers, carries its
//! label and holds no write back, it is brought online as by `drive online`, and what it missed is rebuilt. Nothing is
//! done for a drive that an operator took out or suspended, nor for one that failed by its own fault (`inventory::failed`). A drive
//! that comes and goes is brought back a few times, and then left to the operator; one that is suspended again and again fails by policy.

use crate::arrays::array::Array;
use crate::events::{EventCode, Subject};
use crate::inventory::Drive;
use crate::reconcile::Reconciler;
use crate::signals::wait_or;
use env::{Instant, Io};
use ondisk::{Cause, Member, Uuid};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// How often drives that are missing are looked for.
const LOOK: Duration = Duration::from_secs(2);

/// When nothing is missing and nothing tells of a change: look all the same, so often.
const IDLE: Duration = Duration::from_secs(3600);

/// So often a drive is brought back by itself within [`MEMORY`].
const MOST_RETURNS: u32 = 3;

/// Returns that are longer ago do not count.
const MEMORY: Duration = Duration::from_secs(3600);

/// How often a drive came back by itself of late.
#[derive(Clone, Copy)]
pub(super) struct Returns {
    count: u32,
    last: Instant,
}

impl Reconciler {
    /// Looks for drives that come back, until the controller stops.
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
            let _turn = self.turn.take(1).await;
            for (array, slot, member) in self.slots_out() {
                if self.attention.is_closing() {
                    return;
                }
                if silent.contains(&member.uuid) {
                    continue;
                }
                self.look_for(&array, slot, &member).await;
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
            let has_failed = |member: &Member| label.failed.iter().any(|failed| failed.uuid == member.uuid);
            for (slot, member) in label.member.iter().enumerate() {
                let vanished = matches!(member.cause, Some(Cause::Error | Cause::Missing | Cause::Suspended));
                if !member.is_online() && vanished && !has_failed(member) {
                    out.push((array.clone(), slot, member.clone()));
                }
            }
        }
        out
    }

    /// Suspended members that do not answer. They are asked with no turn taken: nobody waits for that. A drive that did not answer when it
    /// is looked at for its label would be closed, and could not be opened again while shards have it.
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

    /// Brings the drive of a slot back, if it is there again.
    async fn look_for(self: &Rc<Self>, array: &Rc<Array>, slot: usize, member: &Member) {
        let now = self.env.now();
        let before = self.returns.borrow().get(&member.uuid).copied();
        // How often one that is suspended comes back is the policy's (`arrays::suspended`).
        let before = before.filter(|returns| now.since(returns.last) < MEMORY && !member.is_suspended());
        if before.is_some_and(|returns| returns.count >= MOST_RETURNS) {
            return;
        }
        if self.arrays.unsettled(member).is_some() {
            return;
        }
        let Some(drive) = self.answering(array, slot, member).await else { return };
        match self.lifecycle.take_in_again(&drive.name).await {
            Ok(_) if member.is_suspended() => {}
            Ok(_) => {
                let count = before.map_or(0, |returns| returns.count) + 1;
                self.returns.borrow_mut().insert(member.uuid, Returns { count, last: now });
                if count == MOST_RETURNS {
                    self.report_flapping(array, &drive);
                }
            }
            // It is looked at again in a moment; an operator who asks is told.
            Err(error) => tracing::debug!("drive {} is not brought back: {error}", drive.name),
        }
        self.attention.look_after();
    }

    /// The drive of a slot that is out, if it answers and is the one that it was.
    async fn answering(&self, array: &Array, slot: usize, member: &Member) -> Option<Rc<Drive>> {
        let own = array.drive(slot);
        let others = self.inventory.drives().into_iter().filter(|drive| !self.arrays.is_in_use(drive));
        for drive in own.into_iter().chain(others) {
            let is_candidate = drive.name == member.name
                || drive.member_label().is_some_and(|label| label.drive == member.uuid);
            if !is_candidate || drive.holds_writes_back() {
                continue;
            }
            drive.look(&self.env).await;
            if drive.access().is_none() {
                // It had vanished, and what was open of it is dead.
                drive.look(&self.env).await;
            }
            if self.inventory.has_changed(&drive).await {
                // What is open is not what its name leads to: the next look opens that.
                drive.close();
                continue;
            }
            let is_it = drive.member_label().is_some_and(|label| label.drive == member.uuid);
            let is_trusted = self.inventory.failure_of(&drive).is_none();
            if is_it && is_trusted && drive.access().is_some() && drive.problem().is_none() {
                return Some(drive);
            }
        }
        None
    }

    fn report_flapping(&self, array: &Array, drive: &Drive) {
        let text = format!(
            "drive {} of {} vanished and came back {MOST_RETURNS} times within an hour; if it vanishes again it stays out until an operator runs 'softroc drive online {}'",
            drive.name,
            array.names(),
            drive.name
        );
        self.events.report(
            EventCode::DriveUnsteady,
            Subject::both(&drive.name, &array.name()),
            &format!("drive {} comes and goes", drive.name),
            "the next time it stays out",
            text,
        );
    }
}
