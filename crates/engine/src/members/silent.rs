//! Drives that do not respond in time: reads from redundancy, and the controller's decision to give
//! up a drive.
//!
//! # Fault model and invariants
//! - A drive may stop responding for any time, and then continue. It may execute an operation at
//!   any time until it has returned it.
//! - A read of data that redundancy also has uses a short limit. After that, redundancy serves it,
//!   and the drive stays in use. While a drive has such late reads, other reads are planned without
//!   it where possible. A request uses the short limit once: without redundancy it waits.
//! - An overdue operation waits until the controller has decided about the drive for all shards and
//!   volumes. The controller either suspends the drive and records that, or it needs the drive, and
//!   all requests wait. If each shard decided alone, two shards could continue without different
//!   drives.
//! - Operations time out on a volume that is being detached, and on a drive that has failed or left
//!   its slot.

use crate::members::Drives;
use crate::messages::ReportKind;
use platform::{Exceeded, Member, Overseer};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::DriveIndex;

/// How long to wait for a needed drive before the controller is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Monitors the operations of a slot's drive.
struct Watch {
    drives: Weak<Drives>,
    slot: DriveIndex,
    member: Weak<Member>,
    /// Whether a query to the controller is in progress.
    is_asking: Rc<Cell<bool>>,
}

impl Overseer for Watch {
    fn changed(&self) {
        let (Some(drives), Some(member)) = (self.drives.upgrade(), self.member.upgrade()) else {
            return;
        };
        if drives.members.is_in_slot(self.slot, &member) {
            drives.members.set_late(self.slot, member.is_late());
        }
        if member.is_overdue() && !self.is_asking.replace(true) {
            let (slot, is_asking) = (self.slot, self.is_asking.clone());
            let env = drives.shard.env().clone();
            env.spawn("a drive does not answer", async move {
                drives.decide(slot, &member, &is_asking).await
            });
        }
    }
}

/// A drive has left its slot: its operations time out at their limit.
pub(super) fn leave(before: Option<&Rc<Member>>) {
    if let Some(member) = before.filter(|member| member.is_overdue()) {
        member.give_up();
    }
}

impl Drives {
    /// Monitors the drive that has the slot now.
    pub(super) fn watch_over(self: &Rc<Self>, slot: DriveIndex) {
        let Some(of) = self.members.slot(slot) else { return };
        let watch = self.members.get(slot).map(|member| {
            let (drives, watched) = (Rc::downgrade(self), Rc::downgrade(&member));
            let watch: Rc<dyn Overseer> =
                Rc::new(Watch { drives, slot, member: watched, is_asking: Rc::default() });
            member.watch(Rc::downgrade(&watch));
            watch
        });
        self.members.set_late(slot, false);
        *of.watch.borrow_mut() = watch;
    }

    /// Whether redundancy can serve reads of this drive, by the health of the other drives.
    pub(crate) fn is_had_elsewhere(&self, drive: DriveIndex) -> bool {
        self.is_redundant() && (self.all_well.get() || self.may_lose(drive))
    }

    /// Asks the controller about a drive with overdue operations, until it has none.
    async fn decide(
        self: &Rc<Self>,
        slot: DriveIndex,
        member: &Rc<Member>,
        is_asking: &Cell<bool>,
    ) {
        let swaps = self.members.drives_of(slot);
        while member.is_overdue() {
            let is_used = self.members.is_in_slot(slot, member)
                && self.in_service().contains(slot)
                && !self.health.failing().contains(slot);
            let is_left = !is_used || self.closing.get() || self.shard.is_stopping();
            let may_go = is_left
                || self.may_lose(slot)
                    && self.may_go_on_without(slot, swaps, member.exceeded()).await;
            if may_go {
                self.shard.env().trace("drive given up", u64::from(slot.0), 0);
                member.give_up();
            } else {
                self.shard.env().sleep(ASK_AGAIN_AFTER).await;
            }
        }
        is_asking.set(false);
    }

    /// Whether the controller decides that no request waits for a drive any longer.
    async fn may_go_on_without(
        &self,
        drive: DriveIndex,
        swaps: u64,
        exceeded: Option<Exceeded>,
    ) -> bool {
        let report = ReportKind::DriveSilent { drive, swaps, exceeded };
        self.shard.report(self.spec.id, report).await.is_ok()
    }
}
