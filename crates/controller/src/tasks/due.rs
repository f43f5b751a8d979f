//! Scheduled tasks: patrol reads, and checks of volumes.

use crate::events::EventCode;
use crate::interface::{Scheduled, TaskKind};
use crate::tasks::Tasks;
use crate::tasks::schedule::Schedule;
use crate::tasks::task::{Pace, Task};
use std::rc::Rc;
use std::time::Duration;

/// The interval of checks for a corrected clock.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(1800);

impl Tasks {
    /// Begins the tasks that are due.
    pub(crate) fn begin_scheduled(self: &Rc<Self>) {
        let now = self.env.unix_time();
        self.follow_clock(now);
        let due = |schedule: &Schedule| schedule.due(now).is_some_and(|due| due <= now);
        let patrol = self.list.patrol.borrow().clone();
        if due(&patrol.schedule) {
            self.list.patrol.borrow_mut().schedule.last_unix_s = Some(now);
            let pace = Pace {
                share_percent: patrol.share_percent,
                limit_bytes_per_s: patrol.limit_bytes_per_s,
            };
            self.scheduled(
                Scheduled::Patrol,
                "all drives",
                self.new_patrol(&[], pace, "it is due by its schedule"),
            );
        }
        for array in self.arrays.all() {
            for volume in array.known_volumes() {
                let plan = self.list.checks.borrow().get(&volume.uuid()).cloned();
                let Some(plan) = plan.filter(|plan| due(&plan.schedule)) else { continue };
                if let Some(plan) = self.list.checks.borrow_mut().get_mut(&volume.uuid()) {
                    plan.schedule.last_unix_s = Some(now);
                }
                let kind = if plan.repair { TaskKind::Repair } else { TaskKind::Check };
                let usual = array.label().policy.task_share_percent;
                let pace = Pace {
                    share_percent: plan.share_percent.unwrap_or(usual),
                    limit_bytes_per_s: plan.limit_bytes_per_s,
                };
                let own = plan.share_percent.is_some();
                let cause = "it is due by its schedule";
                let task = self.new_check(&array, &volume, kind, pace, own, cause);
                self.scheduled(Scheduled::Check, &volume.name(), task);
            }
        }
    }

    /// Follows a corrected clock: a schedule set by a clock that was ahead is moved back.
    fn follow_clock(&self, now: u64) {
        let mut follows = self.list.patrol.borrow_mut().schedule.follow(now);
        for plan in self.list.checks.borrow_mut().values_mut() {
            follows |= plan.schedule.follow(now);
        }
        if follows {
            self.list.touch();
        }
    }

    fn scheduled(
        self: &Rc<Self>,
        what: Scheduled,
        of: &str,
        task: crate::interface::Result<Rc<Task>>,
    ) {
        match task {
            Ok(task) => self.take_in_hand(&task),
            Err(error) => {
                let text = format!("the scheduled {what} of {of} did not begin: {}", error.message);
                self.events.report(
                    EventCode::ScheduleMissed,
                    of,
                    "its schedule",
                    "it is due again by its schedule",
                    text,
                );
            }
        }
        self.list.touch();
    }

    /// The time until a task is due, or until the clock is checked again.
    pub(crate) fn until_scheduled(&self) -> Duration {
        let now = self.env.unix_time();
        let mut next = self.list.patrol.borrow().schedule.due(now);
        for plan in self.list.checks.borrow().values() {
            next = match (next, plan.schedule.due(now)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        let due =
            next.map_or(Duration::MAX, |due| Duration::from_secs(due.saturating_sub(now).max(1)));
        due.min(LOOK_AT_CLOCK)
    }
}
