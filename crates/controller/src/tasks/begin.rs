//! Automatic tasks, begun where labels require them.

use super::list::NewTask;
use super::reshape::wants_somebody;
use super::task::Wish;
use super::task::{About, Names, Pace};
use crate::arrays::array::Array;
use crate::interface::{TaskKind, TaskState};
use crate::tasks::Tasks;
use std::rc::Rc;
use std::time::Duration;

/// The delay before a failed task is begun again; doubled after each failure.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// The maximum number of doublings: up to about an hour.
const MOST_DOUBLINGS: u32 = 6;

impl Tasks {
    /// Applies the array's new share to the tasks that follow it.
    pub(crate) fn follow_policy(&self, array: &Array) {
        let share = array.label().policy.task_share_percent;
        for task in self.list.open() {
            let record = task.record();
            if record.about.array == Some(array.uuid)
                && !record.own_pace
                && record.wish != Wish::Stop
            {
                task.change(&self.env, |record| record.pace.share_percent = share);
            }
        }
        self.list.touch();
    }

    /// Begins a task, unless it exists or was stopped. A failed task continues after a delay, since
    /// the cause may be temporary.
    pub(crate) fn ensure(
        self: &Rc<Self>,
        array: &Array,
        kind: TaskKind,
        about: About,
        total_bytes: u64,
        cause: &str,
    ) {
        if let Some(task) = self.list.newest(kind, &about) {
            if !task.is_over() || task.state() == TaskState::Stopped {
                return;
            }
            if let Some(gave_up) = task.gave_up.get() {
                let hosts_wait = about.volume.and_then(|uuid| array.volume(uuid));
                let doublings = match hosts_wait.is_some_and(|volume| wants_somebody(&volume)) {
                    true => 0,
                    false => (task.failures.get().max(1) - 1).min(MOST_DOUBLINGS),
                };
                let again = gave_up + TRY_AGAIN * (1 << doublings);
                let now = self.env.now();
                if now < again {
                    return self.attention.look_again_in(TRY_AGAIN.min(again.since(now)));
                }
                match self.reopen(&task) {
                    Ok(()) => self.take_in_hand(&task),
                    Err(error) => tracing::warn!("{} does not continue: {error}", task.title()),
                }
                return;
            }
        }
        let names = self.names_for(array, &about);
        let pace = Pace {
            share_percent: array.label().policy.task_share_percent,
            limit_bytes_per_s: None,
        };
        let new = NewTask { kind, about, names, cause: cause.to_owned(), pace, own_pace: false };
        let task = self.list.add(new);
        task.change(&self.env, |record| record.progress.total_bytes = total_bytes);
        if kind != TaskKind::Resync {
            self.report_begun(&task);
        }
        self.take_in_hand(&task);
    }

    /// The progress of a rebuild, as a clause; `None` if it has not begun.
    pub(crate) fn rebuild_of(&self, about: &About) -> Option<String> {
        let task = self.list.newest(TaskKind::Rebuild, about)?;
        let (title, id) = (task.title(), task.id());
        let why = task.record().reason.map_or_else(String::new, |why| format!(" ({why})"));
        Some(match task.state() {
            TaskState::Running => format!("{title} is running{why}"),
            TaskState::Waiting => format!("{title} waits{why}"),
            TaskState::Paused => {
                format!("{title} is paused{why}; to continue, run 'softroc task resume {id}'")
            }
            TaskState::Stopped => {
                format!("{title} was stopped{why}; to continue, run 'softroc task resume {id}'")
            }
            TaskState::Failed => format!("{title} failed{why}; it is retried automatically"),
            // Regions became stale after that task.
            TaskState::Done | TaskState::Cancelled => return None,
        })
    }

    fn names_for(&self, array: &Array, about: &About) -> Names {
        let volume = about.volume.and_then(|uuid| array.volume(uuid)).map(|volume| volume.name());
        let of = volume.as_ref().map_or_else(|| array.names(), |name| format!("'{name}'"));
        let volume = volume.unwrap_or_else(|| array.name());
        let Some(slot) = about.slot.map(usize::from) else {
            return Names { subject: of, volume: Some(volume), drive: None };
        };
        let label = array.label();
        let replacement = label.member.get(slot).and_then(|member| member.replacement.as_ref());
        let of_slot = self.arrays.member_name(array, slot);
        let (subject, drive) =
            match replacement.filter(|replacement| Some(replacement.uuid) == about.drive) {
                Some(replacement) => (
                    format!("drive {of_slot} of {of} by drive {}", replacement.name),
                    replacement.name.clone(),
                ),
                None => (format!("drive {of_slot} of {of}"), of_slot),
            };
        Names { subject, volume: Some(volume), drive: Some(drive) }
    }
}
