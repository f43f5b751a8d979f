//! Drives that do not respond in time, as shards report them: suspended, or waited for.
//!
//! # Invariants
//! - The failure handler decides for all shards and volumes of the array: shards wait for it.
//! - The drives that do not respond are suspended together, and only if no served volume loses data
//!   by that: the suspension is recorded on the others first ([`suspended`](super::suspended)).
//!   Where some data is on these drives alone, none is suspended: the volumes wait, and continue
//!   when the drives respond.
//! - Reports arrive as requests time out: a fault that affects several drives at once is usually
//!   found within [`GATHER`], and decided together.
//! - Pending records of lost redundancy are written first: until then the records may call a needed
//!   drive dispensable.
//! - The controller's own writes to a member are waited for by the same rules, for [`LONGEST`] at
//!   most. While they are outstanding nothing else can be recorded of the array, and no command
//!   about it can run.
//! - While the controller stops, no unresponsive drive is waited for.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::failures::{Failing, FailureReport};
use crate::interface::{DriveLimit, LimitSource};
use crate::inventory::Drive;
use crate::inventory::access::Access;
use ondisk::Cause;
use platform::{DriveClass, IoError, IoErrorKind, LimitsByClass, Overseer, TimeLimits};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// How long the handler collects reports about further unresponsive drives.
const GATHER: Duration = Duration::from_millis(250);

/// How long the controller's own write waits for an unresponsive member that no volume can lose.
const LONGEST: Duration = Duration::from_secs(300);

/// How often the handler checks whether the member has become dispensable.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Monitors the controller's own writes to members.
pub(super) struct OwnWrites {
    arrays: Weak<Arrays>,
    is_looking: Cell<bool>,
}

impl OwnWrites {
    pub(super) fn new(arrays: &Weak<Arrays>) -> Rc<OwnWrites> {
        Rc::new(OwnWrites { arrays: arrays.clone(), is_looking: Cell::new(false) })
    }
}

impl Overseer for OwnWrites {
    fn changed(&self) {
        let Some(arrays) = self.arrays.upgrade().filter(|_| !self.is_looking.replace(true)) else {
            return;
        };
        let env = arrays.env.clone();
        env.spawn("members do not take records", async move { arrays.decide_own_writes().await });
    }
}

/// The members of an array with writes of the controller. Only one such value may exist at a time,
/// under the array's metadata lock.
pub(super) struct Written<'a> {
    arrays: &'a Arrays,
    array: &'a Array,
}

impl Written<'_> {
    pub(super) fn watch(&self, slot: usize, access: Option<&Access>) {
        let Some(access) = access else { return };
        let overseer: Weak<dyn Overseer> =
            Rc::downgrade(&(self.arrays.own_writes.clone() as Rc<dyn Overseer>));
        access.watch_writes(overseer, &self.arrays.limits);
        self.array.work.written.borrow_mut().push((DriveIndex(slot as u16), access.clone()));
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        self.array.work.written.take().iter().for_each(|(_, access)| access.watch_writes_no_more());
    }
}

/// Reports about drives that do not respond.
#[derive(Default)]
pub(crate) struct Silent {
    reports: RefCell<Vec<FailureReport>>,
    is_due: Cell<bool>,
}

impl Silent {
    /// Whether the time to decide has come.
    pub(super) fn is_due(&self) -> bool {
        self.is_due.get()
    }
}

impl Arrays {
    /// The time limits of a drive. One that cannot be opened has the limits of a drive without a
    /// spindle.
    pub(crate) fn limits_of(&self, drive: &Drive) -> TimeLimits {
        drive.access().map_or(self.limits.solid, |access| self.limits.of(access.info()))
    }

    /// The same, with the source of each limit; empty for a drive that cannot be opened.
    pub(crate) fn limit_infos(&self, drive: &Drive) -> Vec<DriveLimit> {
        let class = drive.access().map(|access| DriveClass::of(access.info()));
        class.map_or_else(Vec::new, |class| limit_infos(&self.limits, class))
    }

    /// From now on unresponsive drives are not waited for.
    pub(crate) fn wait_no_longer(&self) {
        self.waits_no_longer.set(true);
    }

    /// Monitors writes to members that are [named](Written::watch), for the lifetime of the result:
    /// until all writes are awaited.
    pub(super) fn watch_writes<'a>(&'a self, array: &'a Array) -> Written<'a> {
        Written { arrays: self, array }
    }

    /// Decides about members that do not complete the controller's writes, until there are none.
    async fn decide_own_writes(self: &Rc<Self>) {
        let begun = self.env.now();
        loop {
            let mut is_waiting = false;
            for array in self.all() {
                let mut overdue = array.work.written.borrow().clone();
                overdue.retain(|(_, access)| access.is_overdue());
                let lost =
                    overdue.iter().fold(array.work.going.get(), |lost, (slot, _)| lost.with(*slot));
                let goes_on = self.waits_no_longer.get()
                    || !array.is_running()
                    || self.env.now().since(begun) > LONGEST
                    || can_spare(&array, &lost);
                is_waiting |= !overdue.is_empty() && !goes_on;
                overdue.iter().filter(|_| goes_on).for_each(|(_, access)| access.give_up_writes());
            }
            if !is_waiting {
                self.own_writes.is_looking.set(false);
                return;
            }
            self.env.sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// A shard reports a drive that does not respond.
    pub(super) fn take_silent(self: &Rc<Self>, array: &Rc<Array>, report: FailureReport) {
        let silent = &array.work.silent;
        let is_first = silent.reports.borrow().is_empty();
        silent.reports.borrow_mut().push(report);
        if is_first {
            let (this, array) = (self.clone(), array.clone());
            self.env.spawn("drives that do not answer", async move {
                this.env.sleep(GATHER).await;
                array.work.silent.is_due.set(true);
                array.work.changed.notify(&this.env);
            });
        }
    }

    /// Decides about the drives that do not respond. The caller holds the metadata lock.
    pub(super) async fn deal_with_silent(self: &Rc<Self>, array: &Rc<Array>) {
        array.work.silent.is_due.set(false);
        let reports = array.work.silent.reports.take();
        let mut slots = DriveSet::EMPTY;
        for report in reports.iter().filter(|report| report.is_about_present() == Some(true)) {
            if array.in_use().contains(&report.drive.as_usize()) {
                slots.insert(report.drive);
            }
        }
        // Other tasks retry changes that cannot be recorded for now.
        let may_decide = array.work.doubts.get() == 0 && array.unrecorded.borrow().is_empty();
        if !slots.is_empty() && may_decide && can_spare(array, &slots) {
            let what_of = |slot| reports.iter().find(|report| report.drive == slot);
            let suspended = |slot: DriveIndex| Failing {
                slot: slot.as_usize(),
                cause: Cause::Suspended,
                what: what_of(slot).map_or(String::new(), |report| report.what.clone()),
                is_lasting: false,
            };
            self.put_out(array, slots.iter().map(suspended).collect()).await;
        }
        for report in reports {
            let goes_on = self.waits_no_longer.get()
                || !array.has(&report.volume)
                || report.is_about_present() != Some(true)
                || array.label().out().contains(report.drive);
            let answer = if goes_on { Ok(()) } else { Err(IoError::new(IoErrorKind::Busy)) };
            self.answer_report(report.from, report.number, answer);
        }
    }
}

/// Whether no served volume loses data without these drives.
fn can_spare(array: &Array, slots: &DriveSet) -> bool {
    let served = array.served();
    served.iter().all(|volume| array.tolerance(volume).costs(slots) == 0)
}

/// The limits of a class of drives, and the source of each.
fn limit_infos(limits: &LimitsByClass, class: DriveClass) -> Vec<DriveLimit> {
    let usual = LimitsByClass::default();
    let info = |operation: &str| {
        let of = |limits: &LimitsByClass, class| limits.of_class(class).named(operation);
        let (limit, of_class) = (of(limits, class)?, of(&usual, class)?);
        let from = match of(&usual, DriveClass::Solid) {
            _ if limit != of_class => LimitSource::Setting,
            of_all if of_all != Some(of_class) => LimitSource::DriveClass,
            _ => LimitSource::Default,
        };
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Some(DriveLimit { operation: operation.to_owned(), limit_ms, from })
    };
    TimeLimits::NAMES.into_iter().filter_map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_comes_from_a_setting_the_class_of_the_drive_or_neither() {
        let mut limits = LimitsByClass::default();
        limits.set("remote.flush", Duration::from_secs(7)).expect("there is one");
        let told = |class| -> Vec<(u64, LimitSource)> {
            limit_infos(&limits, class)
                .into_iter()
                .map(|limit| (limit.limit_ms, limit.from))
                .collect()
        };
        use LimitSource::{Default, DriveClass as OfClass, Setting};
        let local = vec![
            (2_000, Default),
            (30_000, Default),
            (30_000, Default),
            (60_000, Default),
            (60_000, Default),
        ];
        assert_eq!(told(DriveClass::Solid), local);
        assert_eq!(told(DriveClass::Rotating), local);
        let remote = [
            (500, OfClass),
            (30_000, Default),
            (2_000, OfClass),
            (7_000, Setting),
            (60_000, Default),
        ];
        assert_eq!(told(DriveClass::Remote), remote);
    }
}
