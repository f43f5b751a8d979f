//! `/cN/vN set|start|stop|pause|resume|del ...`.

use super::{OF_VOLUMES, Outcomes, Refusal, ask, only_force};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::codes::{INVALID, NOT_IN_PROGRESS};
use crate::show::operation_kinds;
use crate::tree::number;
use crate::view::{Vd, View};
use crate::words::{Numbers, Word};
use controller::{
    CacheMode, Command, DiscardLog, Discarded, DriveCache, ReadMode, SectorFormat, SetPolicy, StartTask,
    Startable, WriteMode,
};

/// Any verb of volumes but `show`.
pub(super) fn answer(view: &View, numbers: &Numbers, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let verbs: Vec<&str> = words.iter().map(Word::bare).collect();
    // The words are judged before anything is done.
    let change = match (verbs[0], &words[1..]) {
        ("set", rest) => match set(rest) {
            Ok(change) => change,
            Err(Some(refusal)) => {
                return Answer::refused("-", refusal.message, refusal.code).described("Set VD Failed.");
            }
            Err(None) => return Answer::unsupported(),
        },
        ("del", rest) => match delete(rest) {
            Some(change) => change,
            None => return Answer::unsupported(),
        },
        ("delete", rest) if rest.first().map(Word::bare) == Some("preservedcache") => {
            match only_force(&rest[1..]) {
                Some(_) => Change::DeletePreserved,
                None => return Answer::unsupported(),
            }
        }
        ("start", rest) => match start(rest) {
            Some(change) => change,
            None => return Answer::unsupported(),
        },
        ("stop" | "pause" | "resume", [operation]) => match task(verbs[0], operation.bare()) {
            Some(change) => change,
            None => return Answer::unsupported(),
        },
        _ => return Answer::unsupported(),
    };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let outcome = |volume: &Vd<'_>| (number(volume.number), change.carry_out(view, volume, machine));
    let rows = volumes.iter().map(outcome).collect();
    let (what, operation) = change.names();
    Outcomes { columns: OF_VOLUMES, rows }.answer(what, operation)
}

/// What is to be done to volumes.
enum Change {
    /// Commands that set something, each made for a volume.
    Set(Vec<Setting>),
    Delete {
        force: bool,
        discard: bool,
    },
    DeletePreserved,
    StartInit {
        full: bool,
        force: bool,
    },
    StartCheck,
    Task {
        verb: &'static str,
        operation: &'static str,
    },
}

/// A setting.
#[derive(Clone)]
enum Setting {
    Name(String),
    Policy(SetPolicy),
    /// What is so in any case.
    AsItIs,
}

/// `on`, `off`, `default`.
pub(super) fn drive_cache(low: &str) -> Option<DriveCache> {
    match low {
        "default" => Some(DriveCache::Unchanged),
        word => DriveCache::named(word),
    }
}

/// `0`: as the drives are, `1`: 512 bytes whatever they are, `2`: 512 bytes on 4 KiB.
pub(super) fn emulation_type(low: &str) -> Option<SectorFormat> {
    match low {
        "0" | "default" => Some(SectorFormat::Default),
        "1" | "disable" => Some(SectorFormat::Native512),
        "2" | "force" => Some(SectorFormat::Emulated512),
        _ => None,
    }
}

/// `set wrcache=... name=...`; `None`: no such property.
fn set(words: &[Word]) -> Result<Change, Option<Refusal>> {
    let refuse = |sentence: &str| Err(Some(Refusal::new(INVALID, sentence)));
    let mut settings = Vec::new();
    let set = SetPolicy::default;
    let writes = |mode| Setting::Policy(SetPolicy { write_mode: Some(mode), ..set() });
    let reads = |mode| Setting::Policy(SetPolicy { read_mode: Some(mode), ..set() });
    let kept = |mode| Setting::Policy(SetPolicy { cache_mode: Some(mode), ..set() });
    for word in words {
        settings.push(match (word.key.as_str(), word.low().as_str()) {
            ("wrcache", "wt") => writes(WriteMode::WriteThrough),
            ("wrcache", "wb") => writes(WriteMode::WriteBack),
            ("wrcache", "awb" | "fwb") => writes(WriteMode::AlwaysWriteBack),
            ("rdcache", "nora") => reads(ReadMode::NoReadAhead),
            ("rdcache", "ra") => reads(ReadMode::ReadAhead),
            ("iopolicy", "direct") => kept(CacheMode::Direct),
            ("iopolicy", "cached") => kept(CacheMode::Cached),
            ("accesspolicy", "rw") => Setting::AsItIs,
            ("autobgi", "on") => Setting::AsItIs,
            ("pdcache", value) if drive_cache(value).is_some() => {
                Setting::Policy(SetPolicy { drive_cache: drive_cache(value), ..set() })
            }
            ("emulationtype", value) if emulation_type(value).is_some() => {
                Setting::Policy(SetPolicy { sector_format: emulation_type(value), ..set() })
            }
            ("accesspolicy", _) => {
                return refuse(
                    "a volume can be read and written, or is not served; there is no other access",
                );
            }
            ("autobgi", "off") => {
                return refuse("redundancy is always made to agree; 'stop bgi' stops it once");
            }
            ("name", name) if !name.is_empty() => Setting::Name(word.value.clone().unwrap_or_default()),
            _ => return Err(None),
        });
    }
    if settings.is_empty() { Err(None) } else { Ok(Change::Set(settings)) }
}

/// What the cache has of a volume is given up.
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
    let (operation, kinds) = operation_kinds(operation)?;
    let verb = ["stop", "pause", "resume"].into_iter().find(|known| *known == verb)?;
    let is_known = !kinds.is_empty() && (operation != "INIT" || verb == "stop");
    is_known.then_some(Change::Task { verb, operation })
}

impl Change {
    /// What is said of it: as a whole, and in a row.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Change::Set(_) => ("Set VD", "Set"),
            Change::Delete { .. } => ("Delete VD", "Delete"),
            Change::DeletePreserved => ("Delete Preserved Cache", "Delete"),
            Change::StartInit { .. } => ("Start INIT Operation", "INIT"),
            Change::StartCheck => ("Start CC Operation", "CC"),
            Change::Task { verb: "stop", operation } => ("Stop Operation", operation),
            Change::Task { verb: "pause", operation } => ("Pause Operation", operation),
            Change::Task { operation, .. } => ("Resume Operation", operation),
        }
    }

    fn carry_out(&self, view: &View, vd: &Vd<'_>, machine: &mut dyn Machine) -> Result<(), Refusal> {
        // By UUID: another one may have its name.
        let volume = || vd.volume.uuid.clone();
        match self {
            Change::Set(settings) => {
                for setting in settings {
                    let command = match setting {
                        Setting::AsItIs => continue,
                        Setting::Name(name) => Command::VolumeSet { volume: volume(), name: name.clone() },
                        Setting::Policy(set) => {
                            Command::VolumePolicy(SetPolicy { volume: volume(), ..set.clone() })
                        }
                    };
                    ask(machine, command)?;
                }
            }
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
                let start =
                    StartTask { what: Startable::Check, volume: Some(volume()), ..StartTask::default() };
                ask(machine, Command::TaskStart(start))?;
            }
            Change::Task { verb, operation } => {
                let kinds =
                    operation_kinds(&operation.to_ascii_lowercase()).map_or(&[][..], |(_, kinds)| kinds);
                let task = view.volume_task(kinds, vd.volume);
                let none = || Refusal::new(NOT_IN_PROGRESS, format!("{operation} is not in progress"));
                ask(machine, super::drive::of_task(verb, task.ok_or_else(none)?.task))?;
            }
        }
        Ok(())
    }
}
