//! `/cN set|start|stop|pause|resume|add|delete|get|flushcache ...`.

use super::{Refusal, ask, config, create, outcome, property};
use crate::Machine;
use crate::answer::Answer;
use crate::codes::NOT_IN_PROGRESS;
use crate::view::View;
use crate::words::Word;
use controller::{Command, StartTask, Startable, TaskKind};

/// All verbs for controllers except `show`.
pub(super) fn answer(view: &View, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let bare: Vec<&str> = words.iter().map(Word::bare).collect();
    match bare[..] {
        ["add", "vd", ..] => create::answer(view, &words[2..], machine),
        ["flushcache" | "fc"] => outcome("-", "Flush Cache", flush(view, machine)),
        ["start", "patrolread"] => {
            let start = StartTask { what: Startable::Patrol, ..StartTask::default() };
            outcome("-", "Start PatrolRead", ask(machine, Command::TaskStart(start)).map(|_| ()))
        }
        [verb @ ("stop" | "pause" | "resume"), "patrolread"] => {
            let what = format!("{}{} PatrolRead", verb[..1].to_ascii_uppercase(), &verb[1..]);
            outcome("-", &what, patrol_task(view, verb, machine))
        }
        ["get", "config", ""] => config::get(&words[2], machine),
        ["set", "config", ""] => config::set(&words[2], machine),
        ["delete" | "del", "config"] => {
            let force = Refusal::new(255, "all volumes would be deleted, use 'force' option");
            outcome("-", "Delete Config", Err(force))
        }
        ["delete" | "del", "config", "force"] => {
            outcome("-", "Delete Config", delete_all(view, machine))
        }
        ["set", ..] => property::answer(view, &words[1..], machine),
        _ => Answer::unsupported(),
    }
}

/// Destages all dirty data.
fn flush(view: &View, machine: &mut dyn Machine) -> Result<(), Refusal> {
    for volume in view.volumes().iter().filter(|volume| volume.volume.state.serves()) {
        ask(machine, Command::VolumeFlush { volume: volume.volume.uuid.clone() })?;
    }
    Ok(())
}

fn patrol_task(view: &View, verb: &str, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let none = || Refusal::new(NOT_IN_PROGRESS, "PatrolRead is not in progress");
    let task = view.task(&[TaskKind::Patrol], |_| true).ok_or_else(none)?;
    ask(machine, super::drive::of_task(verb, task.task)).map(|_| ())
}

fn delete_all(view: &View, machine: &mut dyn Machine) -> Result<(), Refusal> {
    for volume in view.volumes() {
        let command =
            Command::VolumeDelete { volume: volume.volume.uuid.clone(), disconnect_hosts: false };
        ask(machine, command)?;
    }
    Ok(())
}
