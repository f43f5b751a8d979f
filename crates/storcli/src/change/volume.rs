//! `/cN/vN set|start|stop|pause|resume|del|expand ...`.

use super::{OF_VOLUMES, Outcomes, Refusal, ask, only_force, reshape, settings};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::codes::NOT_IN_PROGRESS;
use crate::show::operation_kinds;
use crate::tree::number;
use crate::view::{Vd, View};
use crate::words::{Numbers, Word};
use controller::{Command, DiscardLog, Discarded, DriveCache, SectorFormat, StartTask, Startable};

/// All verbs for volumes except `show`.
pub(super) fn answer(
    view: &View,
    numbers: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    let verbs: Vec<&str> = words.iter().map(Word::bare).collect();
    // All words are checked before the first change.
    let change = match verbs[..] {
        ["set", ..] => return settings::answer(view, numbers, &words[1..], machine),
        ["expand", ..] => return reshape::expand(view, numbers, &words[1..], machine),
        ["start", "migrate", ..] => return reshape::migrate(view, numbers, &words[2..], machine),
        ["del" | "delete", "preservedcache", ..] => {
            only_force(&words[2..]).map(|_| Change::DeletePreserved)
        }
        ["del" | "delete", ..] => delete(&words[1..]),
        ["start", ..] => start(&words[1..]),
        [verb @ ("stop" | "pause" | "resume"), operation] => task(verb, operation),
        _ => None,
    };
    let Some(change) = change else { return Answer::unsupported() };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let outcome =
        |volume: &Vd<'_>| (number(volume.number), change.carry_out(view, volume, machine));
    let rows = volumes.iter().map(outcome).collect();
    let (what, operation) = change.names();
    Outcomes { columns: OF_VOLUMES, rows }.answer(what, operation)
}

/// A change of volumes.
enum Change {
    Delete { force: bool, discard: bool },
    DeletePreserved,
    StartInit { full: bool, force: bool },
    StartCheck,
    Task { verb: &'static str, operation: &'static str },
}

/// `on`, `off`, `default`.
pub(super) fn drive_cache(low: &str) -> Option<DriveCache> {
    match low {
        "default" => Some(DriveCache::Unchanged),
        word => DriveCache::named(word),
    }
}

/// `0`: default, `1`: always 512 bytes, `2`: 512 bytes emulated on 4 KiB.
pub(super) fn emulation_type(low: &str) -> Option<SectorFormat> {
    match low {
        "0" | "default" => Some(SectorFormat::Default),
        "1" | "disable" => Some(SectorFormat::Native512),
        "2" | "force" => Some(SectorFormat::Emulated512),
        _ => None,
    }
}

/// Discards the dirty data of a volume.
fn discard_cache(volume: String) -> Command {
    Command::LogDiscard(DiscardLog { volume, what: Some(Discarded::Cache), dry_run: false })
}

/// `del [force] [discardcache]`.
fn delete(words: &[Word]) -> Option<Change> {
    let (mut force, mut discard) = (false, false);
    for word in words {
        match word.bare() {
            "force" => force = true,
            "discardcache" => discard = true,
            _ => return None,
        }
    }
    Some(Change::Delete { force, discard })
}

/// `start init [full] [force]`, `start cc [force]`.
fn start(words: &[Word]) -> Option<Change> {
    let (what, rest) = words.split_first()?;
    let (mut full, mut force) = (false, false);
    for word in rest {
        match word.bare() {
            "full" => full = true,
            "force" => force = true,
            _ => return None,
        }
    }
    match what.bare() {
        "init" => Some(Change::StartInit { full, force }),
        "cc" | "consistencycheck" if !full => Some(Change::StartCheck),
        _ => None,
    }
}

/// `stop|pause|resume init|cc|bgi`.
fn task(verb: &str, operation: &str) -> Option<Change> {
    let (operation, _) = operation_kinds(operation)?;
    let verb = ["stop", "pause", "resume"].into_iter().find(|known| *known == verb)?;
    let is_known = matches!(operation, "CC" | "BGI") || operation == "INIT" && verb == "stop";
    is_known.then_some(Change::Task { verb, operation })
}

impl Change {
    /// The names of the change: in the description, and in a row.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Change::Delete { .. } => ("Delete VD", "Delete"),
            Change::DeletePreserved => ("Delete Preserved Cache", "Delete"),
            Change::StartInit { .. } => ("Start INIT Operation", "INIT"),
            Change::StartCheck => ("Start CC Operation", "CC"),
            Change::Task { verb: "stop", operation } => ("Stop Operation", operation),
            Change::Task { verb: "pause", operation } => ("Pause Operation", operation),
            Change::Task { operation, .. } => ("Resume Operation", operation),
        }
    }

    fn carry_out(
        &self,
        view: &View,
        vd: &Vd<'_>,
        machine: &mut dyn Machine,
    ) -> Result<(), Refusal> {
        // By UUID: another volume may have this name.
        let volume = || vd.volume.uuid.clone();
        match self {
            Change::Delete { force: false, .. } => {
                return Err(Refusal::new(OTHER, "VD may hold data, use 'force' option"));
            }
            Change::Delete { discard, .. } => {
                if *discard {
                    ask(machine, discard_cache(volume()))?;
                }
                ask(machine, Command::VolumeDelete { volume: volume(), disconnect_hosts: false })?;
            }
            Change::DeletePreserved => {
                ask(machine, discard_cache(volume()))?;
            }
            Change::StartInit { force: false, .. } => {
                return Err(Refusal::new(OTHER, "VD may hold data, use 'force' option"));
            }
            Change::StartInit { full, .. } => {
                let what = if *full { Startable::InitFull } else { Startable::InitFast };
                let start = StartTask { what, volume: Some(volume()), ..StartTask::default() };
                ask(machine, Command::TaskStart(start))?;
            }
            Change::StartCheck => {
                let start = StartTask {
                    what: Startable::Check,
                    volume: Some(volume()),
                    ..StartTask::default()
                };
                ask(machine, Command::TaskStart(start))?;
            }
            Change::Task { verb, operation } => {
                let kinds = operation_kinds(&operation.to_ascii_lowercase())
                    .map_or(&[][..], |(_, kinds)| kinds);
                let task = view.volume_task(kinds, vd.volume);
                let none =
                    || Refusal::new(NOT_IN_PROGRESS, format!("{operation} is not in progress"));
                ask(machine, super::drive::of_task(verb, task.ok_or_else(none)?.task))?;
            }
        }
        Ok(())
    }
}
