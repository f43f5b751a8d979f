//! Drives that do not answer in time: who looks elsewhere, and who decides that nobody waits any longer.
//!
//! # Fault model and invariants
//! - A drive may stop answering for any time, and then go on. What it was asked it may carry out at any time until it has returned that.
//! - A read of what redundancy has as well has a short limit; when that has passed, redundancy is asked, and the drive stays. While it has
//!   such reads, others are planned without it where they can be. A request hastens so once: what cannot be had elsewhere is waited for.
//! - When an operation is overdue, its waiter waits on until the controller has decided about the drive, for all shards and volumes:
//!   it is suspended, and that is recorded, or it is the last one that has something, and everybody waits for it. A shard that decided by itself
//!   could go on without one drive while another shard goes on without another.
//! - A volume that is being detached, and a drive that is out or has left its slot, are not waited for: what is overdue there times out.

use crate::members::Drives;
use crate::messages::ReportKind;
use platform::{Exceeded, Member, Overseer};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::DriveIndex;

/// How long a drive that nobody can do without is waited for before the controller is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Watches over the operations of the drive of a slot.
pub(crate) struct Watch {
    drives: Weak<Drives>,
    slot: DriveIndex,
    member: Weak<Member>,
    /// Whether the controller is being asked.
    is_asking: Cell<bool>,
}

impl Overseer for Watch {
    fn changed(&self) {
        let (Some(drives), Some(member)) = (self.drives.upgrade(), self.member.upgrade()) else { return };
        if drives.members.is_in_slot(self.slot, &member) {
            drives.members.set_late(self.slot, member.is_late());
        }
        if member.is_overdue() && !self.is_asking.replace(true) {
            let slot = self.slot;
            let env = drives.shard.env().clone();
            env.spawn("a drive does not answer", async move { drives.decide(slot, &member).await });
        }
    }
}

/// A drive has left its slot: what it was asked is not waited for any longer than the time limit.
pub(super) fn leave(before: Option<&Rc<Member>>) {
    if let Some(member) = before.filter(|member| member.is_overdue()) {
        member.give_up();
    }
}

impl Drives {
    /// Watches over the drive that has the slot now.
    pub(super) fn watch_over(self: &Rc<Self>, slot: DriveIndex) {
        let Some(of) = self.members.slot(slot) else { return };
        let watch = self.members.get(slot).map(|member| {
            let (drives, watched) = (Rc::downgrade(self), Rc::downgrade(&member));
            let watch = Rc::new(Watch { drives, slot, member: watched, is_asking: Cell::new(false) });
            let overseer: Weak<dyn Overseer> = Rc::downgrade(&(watch.clone() as Rc<dyn Overseer>));
            member.watch(overseer);
            watch
        });
        self.members.set_late(slot, false);
        *of.watch.borrow_mut() = watch;
    }

    /// Whether a read of this drive need not wait for it: redundancy has the same, as far as drives are concerned.
    pub(crate) fn is_had_elsewhere(&self, drive: DriveIndex) -> bool {
        self.is_redundant() && (self.all_well.get() || self.may_lose(drive))
    }

    /// Asks the controller about a drive with operations that are overdue, until it has none.
    async fn decide(self: &Rc<Self>, slot: DriveIndex, member: &Rc<Member>) {
        let swaps = self.members.drives_of(slot);
        while member.is_overdue() {
            let is_used = self.members.is_in_slot(slot, member)
                && self.in_service().contains(slot)
                && !self.health.failing().contains(slot);
            let is_left = !is_used || self.closing.get() || self.shard.is_stopping();
            let may_go = is_left
                || self.may_lose(slot) && self.may_go_on_without(slot, swaps, member.exceeded()).await;
            if may_go {
                self.shard.env().trace("drive given up", u64::from(slot.0), 0);
                member.give_up();
            } else {
                self.shard.env().sleep(ASK_AGAIN_AFTER).await;
            }
        }
        self.asked(slot, member);
    }

    /// Whether the controller says that nobody is to wait for a drive any longer.
    async fn may_go_on_without(&self, drive: DriveIndex, swaps: u64, exceeded: Option<Exceeded>) -> bool {
        let report = ReportKind::DriveSilent { drive, swaps, exceeded };
        self.shard.report(self.spec.id, report).await.is_ok()
    }

    /// Nobody asks about a drive any more.
    fn asked(&self, slot: DriveIndex, member: &Rc<Member>) {
        let watch = self.members.slot(slot).and_then(|slot| slot.watch.borrow().clone());
        if let Some(watch) = watch.filter(|watch| watch.member.as_ptr() == Rc::as_ptr(member)) {
            watch.is_asking.set(false);
        }
    }
}
