//! Commands of operators for schedules.

use super::asked::{check_share, invalid, wrong};
use super::store::{CheckPlan, PatrolPlan};
use crate::arrays::volume::Volume;
use crate::interface::{Reply, Result, ScheduleInfo, Scheduled, SetSchedule};
use crate::tasks::Tasks;
use crate::tasks::schedule::Schedule;
use ondisk::Uuid;
use std::collections::BTreeMap;

impl Tasks {
    /// `task schedule`.
    pub(crate) async fn set_schedule(&self, set: &SetSchedule) -> Result<Reply> {
        check_share(set.share_percent)?;
        if set.every_days == Some(0) || set.every_days.is_some_and(|days| days > MOST_DAYS) {
            return Err(invalid(format!(
                "a period of {} days is not possible; choose 1 to {MOST_DAYS} days",
                set.every_days.unwrap_or(0)
            )));
        }
        if let Some(at) = set.at_s.filter(|at| *at >= 86_400) {
            return Err(invalid(format!(
                "a day has no second {at}; choose a time from 00:00 to 23:59"
            )));
        }
        let info = match (set.what, &set.volume) {
            (Scheduled::Check, Some(volume)) => self.schedule_check(set, volume).await?,
            (Scheduled::Check, None) => {
                return Err(invalid("the schedule of a check needs a volume; name it"));
            }
            (Scheduled::Patrol, Some(_)) => {
                return Err(invalid("a patrol read is for all drives; leave the volume out"));
            }
            (Scheduled::Patrol, None) => self.schedule_patrol(set).await?,
        };
        self.list.touch();
        self.attention.look_after();
        Ok(Reply::Schedules { schedules: vec![info] })
    }

    async fn schedule_patrol(&self, set: &SetSchedule) -> Result<ScheduleInfo> {
        if set.repair.is_some() {
            return Err(invalid("a patrol read always repairs; leave --repair out"));
        }
        let now = self.env.unix_time();
        let change = |plan: &mut PatrolPlan, _: &mut _| {
            apply(set, &mut plan.schedule, now);
            plan.share_percent = set.share_percent.unwrap_or(plan.share_percent);
            apply_limit(set, &mut plan.limit_bytes_per_s);
        };
        self.list.change_plans(change).await?;
        Ok(self.patrol_schedule())
    }

    async fn schedule_check(&self, set: &SetSchedule, volume: &str) -> Result<ScheduleInfo> {
        let (_, volume) = self.arrays.find_volume(volume)?;
        if !volume.is_redundant() {
            return Err(wrong(format!(
                "'{}' is {}: it has no redundancy to check",
                volume.name(),
                volume.label().level.title()
            )));
        }
        let now = self.env.unix_time();
        let change = |_: &mut PatrolPlan, checks: &mut BTreeMap<Uuid, CheckPlan>| {
            let plan = checks.entry(volume.uuid()).or_insert_with(|| CheckPlan::usual(now));
            apply(set, &mut plan.schedule, now);
            plan.repair = set.repair.unwrap_or(plan.repair);
            plan.share_percent = set.share_percent.or(plan.share_percent);
            apply_limit(set, &mut plan.limit_bytes_per_s);
        };
        self.list.change_plans(change).await?;
        Ok(self.check_schedule(&volume))
    }

    /// Removes the schedules of a deleted volume, and ends its tasks.
    pub(crate) fn forget_volume(&self, volume: Uuid) {
        self.list.checks.borrow_mut().remove(&volume);
        self.list.touch();
        self.attention.look_after();
    }

    fn patrol_schedule(&self) -> ScheduleInfo {
        let plan = self.list.patrol.borrow();
        ScheduleInfo {
            what: Scheduled::Patrol,
            volume: None,
            repair: true,
            share_percent: Some(plan.share_percent),
            limit_bytes_per_s: plan.limit_bytes_per_s,
            ..schedule_info(&plan.schedule, self.env.unix_time())
        }
    }

    fn check_schedule(&self, volume: &Volume) -> ScheduleInfo {
        let now = self.env.unix_time();
        let plan = self.list.checks.borrow().get(&volume.uuid()).cloned();
        let plan = plan.unwrap_or_else(|| CheckPlan::usual(now));
        ScheduleInfo {
            what: Scheduled::Check,
            volume: Some(volume.name()),
            repair: plan.repair,
            share_percent: plan.share_percent,
            limit_bytes_per_s: plan.limit_bytes_per_s,
            ..schedule_info(&plan.schedule, now)
        }
    }

    /// The schedule of the patrol read, and that of each redundant volume.
    pub(crate) fn schedules(&self) -> Vec<ScheduleInfo> {
        let volumes = self.arrays.all().into_iter().flat_map(|array| array.known_volumes());
        let redundant = volumes.filter(|volume| volume.is_redundant());
        let mut schedules = vec![self.patrol_schedule()];
        schedules.extend(redundant.map(|volume| self.check_schedule(&volume)));
        schedules
    }
}

/// Ten years.
const MOST_DAYS: u32 = 3650;

fn apply(set: &SetSchedule, schedule: &mut Schedule, now_unix_s: u64) {
    let asked_for = set.every_days.is_some() || set.at_s.is_some();
    schedule.on = set.on.unwrap_or(schedule.on || asked_for);
    schedule.every_days = set.every_days.unwrap_or(schedule.every_days);
    schedule.at_s = set.at_s.unwrap_or(schedule.at_s);
    if asked_for || set.on == Some(true) {
        (schedule.set_unix_s, schedule.last_unix_s) = (now_unix_s, None);
    }
}

fn apply_limit(set: &SetSchedule, limit: &mut Option<u64>) {
    if let Some(bytes) = set.limit_bytes_per_s {
        *limit = (bytes > 0).then_some(bytes);
    }
}

fn schedule_info(schedule: &Schedule, now_unix_s: u64) -> ScheduleInfo {
    ScheduleInfo {
        what: Scheduled::Patrol,
        volume: None,
        on: schedule.on,
        every_days: schedule.every_days,
        at_s: schedule.at_s,
        repair: false,
        share_percent: None,
        limit_bytes_per_s: None,
        next_unix_s: schedule.due(now_unix_s),
        last_unix_s: schedule.last_unix_s,
    }
}
