//! Lists of tasks and events for several pages.

use crate::words::{Badge, Moment, duration, rendered};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{Event, Severity, TaskInfo, TaskState};

/// Number of ended tasks that are shown.
const ENDED: usize = 3;

#[derive(Template)]
#[template(path = "tasks.html")]
pub(crate) struct TaskList {
    tasks: Vec<TaskRow>,
}

struct TaskRow {
    name: String,
    badge: Badge<TaskState>,
    percent: u8,
    is_over: bool,
    about: String,
    started: Moment,
    deeds: Vec<String>,
}

impl TaskList {
    /// Running tasks, and the last ended ones.
    pub(crate) fn of(
        world: &World,
        viewer: &Viewer,
        back: &str,
        concerns: impl Fn(&TaskInfo) -> bool,
    ) -> TaskList {
        let all = || world.tasks.iter().filter(|task| concerns(task));
        let going = all().filter(|task| !task.state.is_over());
        let ended = all().filter(|task| task.state.is_over()).take(ENDED);
        TaskList {
            tasks: going.chain(ended).map(|task| task_row(world, viewer, back, task)).collect(),
        }
    }
}

fn task_row(world: &World, viewer: &Viewer, back: &str, task: &TaskInfo) -> TaskRow {
    let verbs: &[&str] = match task.state {
        TaskState::Running | TaskState::Waiting => &["task-pause", "task-stop"],
        TaskState::Paused => &["task-resume", "task-stop"],
        TaskState::Stopped | TaskState::Failed => &["task-resume"],
        TaskState::Done | TaskState::Cancelled => &[],
    };
    let left = task.eta_s.map(|left| format!("about {} left", duration(left)));
    let rate = task.rate_mib_s.map(|rate| format!("{rate:.1} MiB/s"));
    let found = (task.found.mismatches > 0).then(|| {
        format!("{} inconsistent stripes, {} repaired", task.found.mismatches, task.found.repaired)
    });
    let about: Vec<String> =
        [left, rate, task.reason.clone(), found].into_iter().flatten().collect();
    TaskRow {
        name: format!("{} of {}", task.kind, task.subject),
        badge: Badge(task.state),
        percent: task.percent,
        is_over: task.state.is_over(),
        about: about.join(", "),
        started: Moment { at_s: task.started_unix_s, now_s: world.now_unix_s },
        deeds: deed::forms(world, viewer, back, &task.task.to_string(), verbs),
    }
}

#[derive(Template)]
#[template(path = "events.html")]
pub(crate) struct EventList {
    events: Vec<EventRow>,
}

struct EventRow {
    number: u64,
    badge: Badge<Severity>,
    at: Moment,
    text: String,
    code: String,
    subject: String,
    cause: String,
    effect: String,
    by: Option<String>,
    /// Number of occurrences, if more than one.
    count: Option<u64>,
}

impl EventList {
    /// At most `most` events, newest first.
    pub(crate) fn of(world: &World, most: usize, concerns: impl Fn(&Event) -> bool) -> EventList {
        let row = |event: &Event| EventRow {
            number: event.number,
            badge: Badge(event.severity),
            at: Moment { at_s: event.time_unix_s, now_s: world.now_unix_s },
            text: event.text.clone(),
            code: event.code.clone(),
            subject: event.subject.clone(),
            cause: event.cause.clone(),
            effect: event.effect.clone(),
            by: event.by.as_ref().map(ToString::to_string),
            count: Some(event.count).filter(|count| *count > 1),
        };
        let events = world.events.iter().rev().filter(|event| concerns(event)).take(most);
        EventList { events: events.map(row).collect() }
    }

    /// The HTML of the list.
    pub(crate) fn html(&self) -> String {
        rendered(self)
    }

    /// The number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}
