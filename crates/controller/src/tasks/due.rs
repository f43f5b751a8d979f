//! What is due by its schedule: patrols, and checks of volumes.

use crate::events::EventCode;
use crate::interface::{Scheduled, TaskKind};
use crate::tasks::Tasks;
use crate::tasks::schedule::Schedule;
use crate::tasks::task::{Pace, Task};
use std::rc::Rc;
use std::time::Duration;

impl Tasks {
    /// Begins what is due by its schedule.
    pub(crate) fn begin_scheduled(self: &Rc<Self>) {
        let now = self.env.unix_time();
        let due = |schedule: &Schedule| schedule.due(now).is_some_and(|due| due <= now);
        let patrol = self.list.patrol.borrow().clone();
        if due(&patrol.schedule) {
            self.list.patrol.borrow_mut().schedule.last_unix_s = Some(now);
            let pace =
                Pace { share_percent: patrol.share_percent, limit_bytes_per_s: patrol.limit_bytes_per_s };
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

    fn scheduled(self: &Rc<Self>, what: Scheduled, of: &str, task: crate::interface::Result<Rc<Task>>) {
        match task {
            Ok(task) => self.take_in_hand(&task),
            Err(error) => {
                let text = format!("the {what} of {of} that was due did not begin: {}", error.message);
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

    /// How long until something is due.
    pub(crate) fn until_scheduled(&self) -> Duration {
        let now = self.env.unix_time();
        let mut next = self.list.patrol.borrow().schedule.due(now);
        for plan in self.list.checks.borrow().values() {
            next = match (next, plan.schedule.due(now)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        next.map_or(Duration::MAX, |due| Duration::from_secs(due.saturating_sub(now).max(1)))
    }
}
