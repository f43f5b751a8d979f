//! `softroc task` and `softroc spare`.

use super::create::confirm_write_mode;
use super::{Control, absolute, each, named, of_each, well};
use crate::cli::tasks::{
    Pace, ScheduleCommand, SpareCommand, StartCommand, Switch, TaskCommand, VolumeSet, When,
};
use crate::failure::{Failure, Outcome};
use crate::{output, progress, render, signals};
use controller::{
    AddSpare, Command, Reply, Scheduled, SetPolicy, SetSchedule, SetTask, StartTask, Startable,
    TaskInfo, TaskState,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The polling interval of a followed task.
const LOOK: Duration = Duration::from_millis(500);

/// Without a terminal, the interval between printed lines, in polls.
const LINE_EVERY: u32 = 20;

/// The lines of a followed task without a terminal: one at each new state, and every ten seconds if
/// anything has changed.
#[derive(Default)]
struct News {
    looks: u32,
    state: Option<TaskState>,
    line: String,
}

impl News {
    /// The line of a poll, if it has one.
    fn line(&mut self, task: &TaskInfo) -> Option<&str> {
        let is_due = self.state != Some(task.state) || self.looks.is_multiple_of(LINE_EVERY);
        self.state = Some(task.state);
        self.looks = self.looks.wrapping_add(1);
        let line = render::tasks::line(task);
        if !is_due || line == self.line {
            return None;
        }
        self.line = line;
        Some(&self.line)
    }
}

impl Control {
    /// `softroc task`.
    pub fn task(&self, command: &TaskCommand) -> Outcome {
        match command {
            TaskCommand::List(output) => self.show(&Command::TaskList {}, output.json),
            TaskCommand::Show { tasks, output } => self.show_each(
                of_each(tasks, |task| Ok(Command::TaskShow { task: *task }))?,
                output.json,
            ),
            TaskCommand::Follow { tasks, output } => self.follow_each(
                of_each(tasks, |task| Ok(Command::TaskShow { task: *task }))?,
                output.json,
            ),
            TaskCommand::Start(start) => self.start_task(start),
            TaskCommand::Pause { tasks, output } => self.show_each(
                of_each(tasks, |task| Ok(Command::TaskPause { task: *task }))?,
                output.json,
            ),
            TaskCommand::Resume { tasks, output } => self.show_each(
                of_each(tasks, |task| Ok(Command::TaskResume { task: *task }))?,
                output.json,
            ),
            TaskCommand::Stop { tasks, output } => self.show_each(
                of_each(tasks, |task| Ok(Command::TaskStop { task: *task }))?,
                output.json,
            ),
            TaskCommand::Set { tasks, pace, output } => {
                let set = |task: &u64| {
                    Ok(Command::TaskSet(SetTask {
                        task: *task,
                        share_percent: pace.rate,
                        limit_bytes_per_s: pace.limit.map(|limit| limit.0),
                    }))
                };
                self.show_each(of_each(tasks, set)?, output.json)
            }
            TaskCommand::Schedule(schedule) => self.schedule(schedule),
        }
    }

    fn start_task(&self, start: &StartCommand) -> Outcome {
        let with = |what: Startable, volume: Option<&String>, drives: Vec<String>, pace: &Pace| {
            Command::TaskStart(StartTask {
                what,
                volume: volume.cloned(),
                drives,
                share_percent: pace.rate,
                limit_bytes_per_s: pace.limit.map(|limit| limit.0),
                disconnect_hosts: matches!(
                    start,
                    StartCommand::Init { disconnect_hosts: true, .. }
                ),
            })
        };
        let (starts, follow) = match start {
            StartCommand::Check { volumes, repair, pace, follow } => {
                let what = if *repair { Startable::Repair } else { Startable::Check };
                let check = |volume: &String| Ok(with(what, Some(volume), Vec::new(), pace));
                (of_each(volumes, check)?, follow)
            }
            StartCommand::Patrol { drives, pace, follow } => {
                let drives = drives.iter().map(|drive| named(drive)).collect::<Outcome<_>>()?;
                (vec![with(Startable::Patrol, None, drives, pace)], follow)
            }
            StartCommand::Init {
                volume,
                full,
                fast: _,
                disconnect_hosts: _,
                yes,
                pace,
                follow,
            } => {
                // Check that the volume exists before the confirmation.
                self.ask(&Command::VolumeShow { volume: volume.clone() })?;
                output::confirm(
                    &format!("All data of the volume '{volume}' will be lost. Zero it?"),
                    *yes,
                )?;
                let what = if *full { Startable::InitFull } else { Startable::InitFast };
                (vec![with(what, Some(volume), Vec::new(), pace)], follow)
            }
            StartCommand::Rebuild { drives, pace, follow } => {
                let rebuild =
                    |drive: &String| Ok(with(Startable::Rebuild, None, vec![named(drive)?], pace));
                (of_each(drives, rebuild)?, follow)
            }
        };
        match follow.follow {
            true => self.follow_each(starts, follow.output.json),
            false => self.show_each(starts, follow.output.json),
        }
    }

    fn ask_task(&self, command: &Command) -> Outcome<TaskInfo> {
        match self.ask(command)? {
            Reply::Task { task, .. } => Ok(*task),
            _ => Err(Failure::failed("the controller's answer is not a task")),
        }
    }

    /// Starts or looks up all tasks, then shows the progress of one after the other. The exit code
    /// reports problems of any task.
    fn follow_each(&self, commands: Vec<Command>, json: bool) -> Outcome {
        let interrupted = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&interrupted)?;
        let begun: Vec<Outcome<TaskInfo>> =
            commands.iter().map(|command| self.ask_task(command)).collect();
        let of = begun.len();
        let mut ends = begun.into_iter().map(|task| self.follow(task?, json, &interrupted));
        let ended = match (of, ends.next()) {
            (1, Some(only)) => {
                let task = only?;
                match json {
                    true => output::json(&task)?,
                    false => output::print(&render::tasks::line(&task))?,
                }
                vec![task]
            }
            (_, first) => each(first.into_iter().chain(ends), of, json, render::tasks::line)?,
        };
        match interrupted.load(Ordering::Relaxed) {
            true => Ok(()),
            false => ended.iter().try_for_each(well::judge_task),
        }
    }

    /// Shows a task until it ends, or until Ctrl-C; then it names the commands for the task.
    fn follow(&self, task: TaskInfo, json: bool, interrupted: &AtomicBool) -> Outcome<TaskInfo> {
        let print = |line: &str| if json { Ok(()) } else { output::print(line) };
        let task = self.watch_task(task, &print, interrupted)?;
        if !task.state.is_over() {
            let id = task.task;
            output::say(&format!(
                "Task {id} continues. 'softroc task follow {id}' shows it again, 'softroc task \
                    stop {id}' stops it."
            ));
        }
        Ok(task)
    }

    /// Shows a task's progress until it ends, or until Ctrl-C. On a terminal: a bar. Elsewhere
    /// `print` gets the lines of [`News`].
    pub fn watch_task(
        &self,
        mut task: TaskInfo,
        print: &dyn Fn(&str) -> Outcome,
        interrupted: &AtomicBool,
    ) -> Outcome<TaskInfo> {
        let bar = progress::bar(task.total_blocks.max(1));
        let mut news = News::default();
        while !task.state.is_over() && !interrupted.load(Ordering::Relaxed) {
            bar.set_length(task.total_blocks.max(1));
            bar.set_position(task.done_blocks);
            bar.set_message(render::tasks::beside_bar(&task));
            if bar.is_hidden()
                && let Some(line) = news.line(&task)
            {
                print(line)?;
            }
            std::thread::sleep(LOOK);
            task = self.ask_task(&Command::TaskShow { task: task.task })?;
        }
        bar.finish_and_clear();
        Ok(task)
    }

    fn schedule(&self, command: &ScheduleCommand) -> Outcome {
        let with = |what: Scheduled, when: &When, pace: &Pace| SetSchedule {
            what,
            volume: None,
            on: (when.on || when.off).then_some(when.on),
            every_days: when.every,
            at_s: when.at,
            repair: None,
            share_percent: pace.rate,
            limit_bytes_per_s: pace.limit.map(|limit| limit.0),
        };
        let (set, output) = match command {
            ScheduleCommand::List(output) => {
                return self.show(&Command::ScheduleList {}, output.json);
            }
            ScheduleCommand::Check { volume, when, repair, report_only, pace, output } => {
                let repair = (*repair || *report_only).then_some(*repair);
                let set = with(Scheduled::Check, when, pace);
                (SetSchedule { volume: Some(volume.clone()), repair, ..set }, output)
            }
            ScheduleCommand::Patrol { when, pace, output } => {
                (with(Scheduled::Patrol, when, pace), output)
            }
        };
        self.show(&Command::TaskSchedule(set), output.json)
    }

    /// `softroc volume set`.
    pub fn set_policy(&self, set: &VolumeSet) -> Outcome {
        let is_on = |switch: Option<Switch>| switch.map(|switch| switch == Switch::On);
        let settings = set.preset.map(controller::Preset::settings);
        let policy = SetPolicy {
            volume: set.name.clone(),
            medium_error_limit: set.medium_error_limit,
            suspend_limit_s: set.drive_suspend_limit,
            copyback: is_on(set.copyback),
            emergency_spare: is_on(set.emergency_spare),
            drive_guard: is_on(set.drive_guard),
            mixed_kinds: is_on(set.mixed_kinds),
            start_degraded: set.start_degraded,
            task_share_percent: set.task_rate,
            write_hole: set.write_hole.map(Into::into),
            write_mode: set.write_mode.or(settings.map(|settings| settings.write_mode)),
            read_mode: set.read_mode.or(settings.map(|settings| settings.read_mode)),
            cache_mode: set.cache_mode.or(settings.map(|settings| settings.cache_mode)),
            drive_cache: set.drive_cache.or(settings.map(|settings| settings.drive_cache)),
            sector_format: set.sector_format,
            attach: set.attach.map(Into::into),
        };
        // Check that the volume exists before the confirmation.
        self.ask(&Command::VolumeShow { volume: set.name.clone() })?;
        confirm_write_mode(&set.name, set.write_mode, set.yes)?;
        self.show(&Command::VolumePolicy(policy), set.output.json)
    }

    /// `softroc spare`.
    pub fn spare(&self, command: &SpareCommand) -> Outcome {
        match command {
            SpareCommand::Add {
                drives,
                volumes,
                same_enclosure,
                permanent,
                destroy_data,
                output,
            } => {
                let add = |drive: &String| {
                    Ok(Command::SpareAdd(AddSpare {
                        drive: absolute(drive)?,
                        volumes: volumes.clone(),
                        same_enclosure: *same_enclosure,
                        revertible: !permanent,
                        destroy_data: *destroy_data,
                    }))
                };
                self.show_each(of_each(drives, add)?, output.json)
            }
            SpareCommand::List(checked) => self.show_checked(&Command::SpareList {}, *checked),
            SpareCommand::Remove { drives, output } => {
                let remove = |drive: &String| Ok(Command::SpareRemove { drive: named(drive)? });
                self.show_each(of_each(drives, remove)?, output.json)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: &str, percent: u8) -> TaskInfo {
        serde_json::from_value(serde_json::json!({
            "task": 1, "kind": "check", "subject": "'v'", "volume": "v", "drive": null,
            "state": state, "reason": null, "cause": "an operator", "done_blocks": 0,
            "total_blocks": 100,
            "percent": percent, "rate_mib_s": null, "eta_s": null, "blamed": [],
            "share_percent": 30, "limit_bytes_per_s": null, "started_unix_s": 0,
            "ended_unix_s": null,
            "found": {
                "mismatches": 0, "repaired": 0, "unreadable": 0,
                "unrecoverable_bytes": 0, "uncompared": 0
            }
        }))
        .expect("a task")
    }

    #[test]
    fn a_line_of_a_followed_task_is_printed_once() {
        let mut news = News::default();
        let mut lines = |of: &TaskInfo, polls: u32| -> Vec<String> {
            (0..polls).filter_map(|_| news.line(of).map(str::to_owned)).collect()
        };
        assert_eq!(
            lines(&task("running", 3), 2 * LINE_EVERY),
            ["task 1: check of 'v': running 3 %"]
        );
        assert_eq!(lines(&task("paused", 3), 5), ["task 1: check of 'v': paused 3 %"], "at once");
        assert_eq!(lines(&task("paused", 4), LINE_EVERY), ["task 1: check of 'v': paused 4 %"]);
    }
}
