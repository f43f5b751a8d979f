//! Background tasks.

use crate::World;
use crate::ids::{self, ROOT};
use crate::json::{collection, link, resource};
use crate::{registry, state::Health};
use controller::{TaskInfo, TaskState};
use serde_json::{Value, json};
use units::utc;

/// Addresses below `TaskService`.
pub(crate) fn find(world: &World, segments: &[&str]) -> Option<Value> {
    let uri = format!("{ROOT}/TaskService");
    match segments {
        [] => Some(resource(
            "TaskService",
            &uri,
            "TaskService",
            "Tasks",
            json!({
                "ServiceEnabled": true,
                "CompletedTaskOverWritePolicy": "Oldest",
                "LifeCycleEventOnTaskStateChange": false,
                "DateTime": utc(world.now_unix_s),
                "Status": { "State": "Enabled", "Health": "OK" },
                "Tasks": link(format!("{uri}/Tasks")),
            }),
        )),
        ["Tasks"] => {
            let all = world.tasks.iter().map(|task| ids::task_uri(task.task));
            Some(collection("TaskCollection", &format!("{uri}/Tasks"), "Tasks", all))
        }
        ["Tasks", number] => by_number(world, number).map(task),
        _ => None,
    }
}

/// The task with this number.
pub(crate) fn by_number<'w>(world: &'w World, number: &str) -> Option<&'w TaskInfo> {
    let number: u64 = number.parse().ok()?;
    world.tasks.iter().find(|task| task.task == number)
}

/// The address of a task's monitor.
pub(crate) fn monitor_uri(task: u64) -> String {
    format!("{ROOT}/TaskService/TaskMonitors/{task}")
}

fn found_something(task: &TaskInfo) -> bool {
    task.found.mismatches > task.found.repaired || task.found.unrecoverable_bytes > 0
}

pub(crate) fn task(task: &TaskInfo) -> Value {
    let (state, health) = match task.state {
        TaskState::Running => ("Running", Health::Ok),
        TaskState::Paused => ("Suspended", Health::Ok),
        TaskState::Waiting => ("Pending", Health::Ok),
        TaskState::Stopped => ("Cancelled", Health::Warning),
        TaskState::Cancelled => ("Cancelled", Health::Ok),
        TaskState::Done if found_something(task) => ("Completed", Health::Warning),
        TaskState::Done => ("Completed", Health::Ok),
        TaskState::Failed => ("Exception", Health::Critical),
    };
    let id = task.task.to_string();
    let reasons = task.reason.iter().map(|reason| registry::message(reason, health));
    let name = format!("{} of {}", task.kind, task.subject);
    resource(
        "Task",
        &ids::task_uri(task.task),
        &id,
        &name,
        json!({
            "Description": task.cause,
            "TaskState": state,
            "TaskStatus": health.name(),
            "PercentComplete": task.percent,
            "StartTime": utc(task.started_unix_s),
            "EndTime": task.ended_unix_s.map(utc),
            "EstimatedDuration": task.eta_s.map(|seconds| format!("PT{seconds}S")),
            "TaskMonitor": (!task.state.is_over()).then(|| monitor_uri(task.task)),
            "Messages": reasons.collect::<Vec<Value>>(),
            "HidePayload": true,
        }),
    )
}
