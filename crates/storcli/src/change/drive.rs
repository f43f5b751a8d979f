//! `/cN/eN/sN set|start|stop|pause|resume|add|delete|insert ...`.

use super::{OF_DRIVES, Outcomes, Refusal, ask};
use crate::Machine;
use crate::answer::Answer;
use crate::codes::{INVALID, NOT_FOUND, NOT_IN_PROGRESS, WRONG_STATE};
use crate::show::{drive_path, missing_places};
use crate::tree::text;
use crate::view::{Pd, View};
use crate::words::{Numbers, Word, read_places};
use controller::{AddSpare, Command, DriveInfo, DriveState, StartTask, Startable, TaskKind};

/// All verbs for drives except `show`.
pub(super) fn answer(
    view: &View,
    enclosures: Option<&Numbers>,
    slots: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    let change = match Change::read(words) {
        Ok(Some(change)) => change,
        Ok(None) => return Answer::unsupported(),
        Err(refusal) => return Answer::refused("-", refusal.message, refusal.code),
    };
    let what = change.name();
    let drives = view.drives_of(enclosures, slots);
    let missing = missing_places(view, enclosures, slots);
    if drives.is_empty() || missing.is_some() {
        // A missing drive in the command is an error: nothing is changed.
        let code = crate::answer::exit_code(NOT_FOUND);
        return Answer {
            detailed: missing,
            code,
            ..Answer::failed(format!("{what} Failed. No drive found!"))
        };
    }
    let outcome = |pd: &Pd<'_>| (text(drive_path(pd)), change.carry_out(view, pd, machine));
    let rows = drives.iter().map(outcome).collect();
    Outcomes { columns: OF_DRIVES, rows }.answer(&what, "")
}

/// A change of drives.
enum Change {
    Online,
    Offline,
    Missing,
    Good { force: bool },
    StartRebuild,
    StartCopyback { target: (Option<u32>, u32) },
    Task { verb: &'static str, operation: &'static str, kinds: &'static [TaskKind] },
    Locate(bool),
    AddSpare { groups: Option<Numbers>, enclosure: bool, revertible: bool },
    DeleteSpare,
    Insert { group: u32, array: u32, row: u32 },
}

impl Change {
    /// Parses the words; `None`: unknown words.
    fn read(words: &[Word]) -> Result<Option<Change>, Refusal> {
        let bare: Vec<&str> = words.iter().map(Word::bare).collect();
        Ok(Some(match bare[..] {
            ["set", "online"] => Change::Online,
            ["set", "offline"] => Change::Offline,
            ["set", "missing"] => Change::Missing,
            ["set", "good"] => Change::Good { force: false },
            ["set", "good", "force"] => Change::Good { force: true },
            ["set", "jbod"] => {
                return Err(Refusal::new(
                    INVALID,
                    "pass-through is not supported; create a RAID 0 per drive with 'add vd each \
                        r0'",
                ));
            }
            ["start", "rebuild"] => Change::StartRebuild,
            ["start", "locate"] => Change::Locate(true),
            ["stop", "locate"] => Change::Locate(false),
            ["start", "copyback", ""] => return Change::copyback(&words[2]).map(Some),
            [verb @ ("stop" | "pause" | "resume"), "rebuild"] => {
                Change::task(verb, "Rebuild", &[TaskKind::Rebuild])
            }
            [verb @ ("stop" | "pause" | "resume"), "copyback"] => {
                Change::task(verb, "Copyback", &[TaskKind::Copyback, TaskKind::Replace])
            }
            ["add", "hotsparedrive", ..] => return Change::add_spare(&words[2..]),
            ["delete" | "del", "hotsparedrive"] => Change::DeleteSpare,
            ["insert", "", "", ""] => return Change::insert(&words[1..]),
            _ => return Ok(None),
        }))
    }

    fn task(verb: &str, operation: &'static str, kinds: &'static [TaskKind]) -> Change {
        let verb =
            ["stop", "pause", "resume"].into_iter().find(|known| *known == verb).unwrap_or("stop");
        Change::Task { verb, operation, kinds }
    }

    fn copyback(word: &Word) -> Result<Change, Refusal> {
        let wrong = || Refusal::invalid("give the target drive: start copyback target=252:4");
        let places = Some(word)
            .filter(|word| word.key == "target")
            .and_then(|word| read_places(&word.low()));
        match places.ok_or_else(wrong)?[..] {
            [target] => Ok(Change::StartCopyback { target }),
            _ => Err(wrong()),
        }
    }

    fn add_spare(words: &[Word]) -> Result<Option<Change>, Refusal> {
        let (mut groups, mut enclosure, mut revertible) = (None, false, true);
        for word in words {
            match (word.key.as_str(), word.value.as_deref()) {
                ("dgs", Some(value)) => {
                    let wrong = || {
                        Refusal::invalid(format!(
                            "dgs={value} does not name drive groups, such as 0,2"
                        ))
                    };
                    groups = Some(Numbers::read(&word.low()).ok_or_else(wrong)?);
                }
                ("enclaffinity", None) => enclosure = true,
                ("nonrevertible", None) => revertible = false,
                _ => return Ok(None),
            }
        }
        Ok(Some(Change::AddSpare { groups, enclosure, revertible }))
    }

    fn insert(words: &[Word]) -> Result<Option<Change>, Refusal> {
        let value = |key: &str| {
            let word = words.iter().find(|word| word.key == key)?;
            word.low().parse::<u32>().ok()
        };
        match (value("dg"), value("array"), value("row")) {
            (Some(group), Some(array), Some(row)) => Ok(Some(Change::Insert { group, array, row })),
            _ => Err(Refusal::invalid("give the position: insert dg=0 array=0 row=2")),
        }
    }

    fn name(&self) -> String {
        match self {
            Change::Online => "Set Drive Online".into(),
            Change::Offline => "Set Drive Offline".into(),
            Change::Missing => "Set Drive Missing".into(),
            Change::Good { .. } => "Set Drive Good".into(),
            Change::StartRebuild => "Start Rebuild Drive".into(),
            Change::StartCopyback { .. } => "Start Copyback".into(),
            Change::Task { verb, operation, .. } => {
                format!("{}{} {operation} Drive", verb[..1].to_ascii_uppercase(), &verb[1..])
            }
            Change::Locate(true) => "Start Drive Locate".into(),
            Change::Locate(false) => "Stop Drive Locate".into(),
            Change::AddSpare { .. } => "Add Hot Spare".into(),
            Change::DeleteSpare => "Delete Hot Spare".into(),
            Change::Insert { .. } => "Insert Drive".into(),
        }
    }

    fn carry_out(
        &self,
        view: &View,
        pd: &Pd<'_>,
        machine: &mut dyn Machine,
    ) -> Result<(), Refusal> {
        let drive = || pd.drive.name.clone();
        let command = match self {
            Change::Online => back(pd.drive),
            Change::Offline => Command::DriveOffline {
                drive: drive(),
                accept_data_loss: false,
                accepted: None,
                dry_run: false,
            },
            Change::Missing => return missing(pd, machine),
            Change::Good { force } => return good(pd, *force, machine),
            Change::StartRebuild => Command::TaskStart(StartTask {
                what: Startable::Rebuild,
                drives: vec![drive()],
                ..StartTask::default()
            }),
            Change::StartCopyback { target } => {
                let target = view.at(*target).map_err(|why| Refusal::new(NOT_FOUND, why))?;
                Command::DriveReplace {
                    drive: drive(),
                    with: target.drive.name.clone(),
                    destroy_data: false,
                }
            }
            Change::Task { verb, operation, kinds } => {
                let none =
                    || Refusal::new(NOT_IN_PROGRESS, format!("{operation} is not in progress"));
                of_task(verb, view.drive_task(kinds, pd.drive).ok_or_else(none)?.task)
            }
            Change::Locate(on) => Command::DriveLocate { drive: drive(), on: *on },
            Change::AddSpare { groups, enclosure, revertible } => Command::SpareAdd(AddSpare {
                drive: drive(),
                volumes: groups
                    .as_ref()
                    .map_or_else(|| Ok(Vec::new()), |groups| volumes_of(view, groups))?,
                same_enclosure: *enclosure,
                revertible: *revertible,
                destroy_data: false,
            }),
            Change::DeleteSpare => Command::SpareRemove { drive: drive() },
            Change::Insert { group, array, row } => {
                let replaced = member(view, *group, *array, *row)?;
                Command::DriveReplace { drive: replaced, with: drive(), destroy_data: false }
            }
        };
        ask(machine, command).map(|_| ())
    }
}

/// The command for a task.
pub(super) fn of_task(verb: &str, task: u64) -> Command {
    match verb {
        "pause" => Command::TaskPause { task },
        "resume" => Command::TaskResume { task },
        _ => Command::TaskStop { task },
    }
}

/// Brings a drive back.
fn back(info: &DriveInfo) -> Command {
    let drive = info.name.clone();
    match info.state {
        DriveState::Suspended => Command::DriveResume { drive },
        _ => Command::DriveOnline { drive },
    }
}

/// Gives up an offline drive, so that a spare may replace it.
fn missing(pd: &Pd<'_>, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let drive = || pd.drive.name.clone();
    match pd.drive.state {
        DriveState::Offline | DriveState::Stale | DriveState::Suspended => {
            // An offline drive cannot be failed: it is brought back first. Its volumes ran without
            // it, so no data is at risk.
            ask(machine, back(pd.drive))?;
            ask(
                machine,
                Command::DriveFail {
                    drive: drive(),
                    accept_data_loss: true,
                    accepted: None,
                    dry_run: false,
                },
            )
            .map(|_| ())
        }
        DriveState::Failed | DriveState::Missing if pd.drive.slot.is_some() => Ok(()),
        _ => Err(Refusal::new(
            WRONG_STATE,
            "the drive is online or has no slot; set it offline first",
        )),
    }
}

/// Clears the failed state of a drive, or foreign metadata with `force`.
fn good(pd: &Pd<'_>, force: bool, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let drive = pd.drive.name.clone();
    match pd.drive.state {
        DriveState::Unused => Ok(()),
        DriveState::Failed => ask(machine, Command::DriveClearFailed { drive }).map(|_| ()),
        DriveState::Foreign if force => {
            ask(machine, Command::ForeignClear { drives: vec![drive] }).map(|_| ())
        }
        DriveState::Foreign => {
            Err(Refusal::new(255, "the drive carries a foreign configuration, use 'force' option"))
        }
        _ => Err(Refusal::new(WRONG_STATE, "the drive is in use or unusable")),
    }
}

/// One volume of each group.
fn volumes_of(view: &View, groups: &Numbers) -> Result<Vec<String>, Refusal> {
    let mut volumes = Vec::new();
    for group in view.groups() {
        volumes.extend(
            group
                .first()
                .filter(|first| groups.has(first.group))
                .map(|first| first.volume.uuid.clone()),
        );
    }
    let known: Vec<u32> = view.volumes().iter().map(|volume| volume.group).collect();
    match groups.named().into_iter().find(|group| !known.contains(group)) {
        Some(group) => Err(Refusal::new(NOT_FOUND, format!("there is no drive group {group}"))),
        None if volumes.is_empty() => Err(Refusal::new(NOT_FOUND, "there is no drive group")),
        None => Ok(volumes),
    }
}

/// The drive at a position of a group, as commands name it.
fn member(view: &View, group: u32, array: u32, row: u32) -> Result<String, Refusal> {
    let none = || {
        Refusal::new(NOT_FOUND, format!("there is no position dg={group} array={array} row={row}"))
    };
    let volume =
        view.volumes().into_iter().find(|volume| volume.group == group).ok_or_else(none)?.volume;
    let spans = usize::from(volume.spans.max(1));
    let of_span = volume.drives.len().div_ceil(spans).max(1);
    let (array, row) =
        (usize::try_from(array).map_err(|_| none())?, usize::try_from(row).map_err(|_| none())?);
    let is_there = array < spans && row < of_span && array * of_span + row < volume.drives.len();
    is_there.then(|| format!("{}:{}", volume.uuid, array * of_span + row)).ok_or_else(none)
}
