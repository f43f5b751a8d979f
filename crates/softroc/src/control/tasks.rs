//! `softroc task` and `softroc spare`.

use super::{Control, absolute, named};
use crate::cli::tasks::{
    Follow, Pace, ScheduleCommand, SpareCommand, StartCommand, Switch, TaskCommand, VolumeSet, When,
};
use crate::failure::{Failure, Outcome};
use crate::{output, progress, render, signals};
use controller::{
    AddSpare, Command, Reply, Scheduled, SetPolicy, SetSchedule, SetTask, StartTask, Startable, TaskInfo,
    TaskState,
};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a task that is followed is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Without a terminal, how often a line is printed, counted in looks.
const LINE_EVERY: u32 = 20;

impl Control {
    /// `softroc task`.
    pub fn task(&self, command: &TaskCommand) -> Outcome {
        match command {
            TaskCommand::List(output) => self.show(&Command::TaskList {}, output.json),
            TaskCommand::Show { task, output } => self.show(&Command::TaskShow { task: *task }, output.json),
            TaskCommand::Follow { task, output } => {
                self.follow(self.ask_task(&Command::TaskShow { task: *task })?, output.json)
            }
            TaskCommand::Start(start) => self.start_task(start),
            TaskCommand::Pause { task, output } => {
                self.show(&Command::TaskPause { task: *task }, output.json)
            }
            TaskCommand::Resume { task, output } => {
                self.show(&Command::TaskResume { task: *task }, output.json)
            }
            TaskCommand::Stop { task, output } => self.show(&Command::TaskStop { task: *task }, output.json),
            TaskCommand::Set { task, pace, output } => {
                let set = SetTask {
                    task: *task,
                    share_percent: pace.rate,
                    limit_bytes_per_s: pace.limit.map(|limit| limit.0),
                };
                self.show(&Command::TaskSet(set), output.json)
            }
            TaskCommand::Schedule(schedule) => self.schedule(schedule),
        }
    }

    fn start_task(&self, start: &StartCommand) -> Outcome {
        let with = |what: Startable, volume: Option<&String>, drives: Vec<String>, pace: &Pace| StartTask {
            what,
            volume: volume.cloned(),
            drives,
            share_percent: pace.rate,
            limit_bytes_per_s: pace.limit.map(|limit| limit.0),
        };
        let (start, follow) = match start {
            StartCommand::Check { volume, repair, pace, follow } => {
                let what = if *repair { Startable::Repair } else { Startable::Check };
                (with(what, Some(volume), Vec::new(), pace), follow)
            }
            StartCommand::Patrol { drives, pace, follow } => {
                let drives = drives.iter().map(|drive| named(drive)).collect::<Outcome<_>>()?;
                (with(Startable::Patrol, None, drives, pace), follow)
            }
            StartCommand::Init { volume, full, fast: _, yes, pace, follow } => {
                // First whether there is such a volume: nobody should be asked about one that is not.
                self.ask(&Command::VolumeShow { volume: volume.clone() })?;
                output::confirm(&format!("All data of the volume '{volume}' will be lost. Zero it?"), *yes)?;
                let what = if *full { Startable::InitFull } else { Startable::InitFast };
                (with(what, Some(volume), Vec::new(), pace), follow)
            }
            StartCommand::Rebuild { drive, pace, follow } => {
                (with(Startable::Rebuild, None, vec![named(drive)?], pace), follow)
            }
        };
        self.started(&Command::TaskStart(start), follow)
    }

    fn started(&self, command: &Command, follow: &Follow) -> Outcome {
        match follow.follow {
            true => self.follow(self.ask_task(command)?, follow.output.json),
            false => self.show(command, follow.output.json),
        }
    }

    fn ask_task(&self, command: &Command) -> Outcome<TaskInfo> {
        match self.ask(command)? {
            Reply::Task { task, .. } => Ok(*task),
            _ => Err(Failure::failed("the controller's answer is not a task")),
        }
    }

    /// Shows a task's progress until it ends, or until somebody presses Ctrl-C: then the task goes on.
    fn follow(&self, mut task: TaskInfo, json: bool) -> Outcome {
        let interrupted = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&interrupted)?;
        let on_terminal = std::io::stderr().is_terminal();
        let bar = progress::bar(task.total_blocks.max(1));
        let mut looks = 0_u32;
        let mut told = None;
        while !task.state.is_over() {
            bar.set_length(task.total_blocks.max(1));
            bar.set_position(task.done_blocks);
            bar.set_message(render::tasks::progress(&task));
            let news = told != Some(task.state) || looks.is_multiple_of(LINE_EVERY);
            if !on_terminal && !json && news {
                output::print(&render::tasks::line(&task))?;
            }
            told = Some(task.state);
            looks = looks.wrapping_add(1);
            std::thread::sleep(LOOK);
            if interrupted.load(Ordering::Relaxed) {
                bar.finish_and_clear();
                let id = task.task;
                eprintln!(
                    "Task {id} continues. 'softroc task follow {id}' shows it again, 'softroc task stop {id}' stops it."
                );
                return Ok(());
            }
            task = self.ask_task(&Command::TaskShow { task: task.task })?;
        }
        bar.finish_and_clear();
        match json {
            true => output::json(&task)?,
            false => output::print(&render::tasks::line(&task))?,
        }
        match task.state {
            TaskState::Failed => Err(Failure::failed(format!(
                "task {} failed: {}",
                task.task,
                task.reason.as_deref().unwrap_or("see events")
            ))),
            _ => Ok(()),
        }
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
            ScheduleCommand::List(output) => return self.show(&Command::ScheduleList {}, output.json),
            ScheduleCommand::Check { volume, when, repair, report_only, pace, output } => {
                let repair = (*repair || *report_only).then_some(*repair);
                let set = with(Scheduled::Check, when, pace);
                (SetSchedule { volume: Some(volume.clone()), repair, ..set }, output)
            }
            ScheduleCommand::Patrol { when, pace, output } => (with(Scheduled::Patrol, when, pace), output),
        };
        self.show(&Command::TaskSchedule(set), output.json)
    }

    /// `softroc volume set`.
    pub fn set_policy(&self, set: &VolumeSet) -> Outcome {
        let is_on = |switch: Option<Switch>| switch.map(|switch| switch == Switch::On);
        let policy = SetPolicy {
            volume: set.name.clone(),
            medium_error_limit: set.medium_error_limit,
            copyback: is_on(set.copyback),
            emergency_spare: is_on(set.emergency_spare),
            drive_guard: is_on(set.drive_guard),
            mixed_kinds: is_on(set.mixed_kinds),
            start_degraded: set.start_degraded,
            task_share_percent: set.task_rate,
        };
        self.show(&Command::VolumePolicy(policy), set.output.json)
    }

    /// `softroc spare`.
    pub fn spare(&self, command: &SpareCommand) -> Outcome {
        match command {
            SpareCommand::Add { drives, volumes, same_enclosure, permanent, destroy_data, output } => {
                for drive in drives {
                    let add = AddSpare {
                        drive: absolute(drive)?,
                        volumes: volumes.clone(),
                        same_enclosure: *same_enclosure,
                        revertible: !permanent,
                        destroy_data: *destroy_data,
                    };
                    self.show(&Command::SpareAdd(add), output.json)?;
                }
                Ok(())
            }
            SpareCommand::List(output) => self.show(&Command::SpareList {}, output.json),
            SpareCommand::Remove { drive, output } => {
                self.show(&Command::SpareRemove { drive: named(drive)? }, output.json)
            }
        }
    }
}
