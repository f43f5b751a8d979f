//! `/cN set|start|stop|pause|resume|add|delete|get|flushcache ...`.

use super::{Refusal, ask, config, create, outcome};
use crate::answer::Answer;
use crate::codes::{INVALID, NOT_IN_PROGRESS};
use crate::view::View;
use crate::words::{Numbers, Word};
use crate::{Machine, Surroundings};
use controller::{AlarmSetting, Command, Scheduled, SetPolicy, SetSchedule, StartTask, Startable, TaskKind};

/// Any verb of controllers but `show`.
pub(super) fn answer(
    view: &View,
    words: &[Word],
    around: &Surroundings,
    machine: &mut dyn Machine,
) -> Answer {
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
        ["get", "config", ""] | ["get", "config", "", _] if words[2].key == "file" => {
            config::get(view, &words[2], &words[3..], around, machine)
        }
        ["set", "config", ""] if words[2].key == "file" => config::set(&words[2], machine),
        ["delete" | "del", "config"] => {
            let force = Refusal::new(255, "all volumes would be deleted, use 'force' option");
            outcome("-", "Delete Config", Err(force))
        }
        ["delete" | "del", "config", "force"] => outcome("-", "Delete Config", delete_all(view, machine)),
        ["set", ..] if words.len() > 1 => set(view, &words[1..], machine),
        _ => Answer::unsupported(),
    }
}

/// Everything that is dirty goes to the drives.
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
        let command = Command::VolumeDelete { volume: volume.volume.uuid.clone(), disconnect_hosts: false };
        ask(machine, command)?;
    }
    Ok(())
}

/// `set NAME=VALUE ...`.
fn set(view: &View, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let (word, rest) = (&words[0], &words[1..]);
    let name = word.key.as_str();
    let done = match (name, word.low().as_str()) {
        ("rebuildrate", _) => rate(word)
            .and_then(|share| all_arrays(view, machine, &|policy| policy.task_share_percent = Some(share))),
        ("ccrate", _) => rate(word).and_then(|share| schedule_rate(Scheduled::Check, view, share, machine)),
        ("prrate", _) => rate(word).and_then(|share| schedule_rate(Scheduled::Patrol, view, share, machine)),
        ("bgirate" | "reconrate", _) => {
            Err(Refusal::new(INVALID, "one rate is for all background tasks of an array: set rebuildrate"))
        }
        ("copyback", value @ ("on" | "off")) if is_of_all(rest) => {
            all_arrays(view, machine, &|policy| policy.copyback = Some(value == "on"))
        }
        ("eghs", "") => match rest {
            [state] if state.key == "state" && ["on", "off"].contains(&state.low().as_str()) => {
                let on = state.low() == "on";
                all_arrays(view, machine, &|policy| policy.emergency_spare = Some(on))
            }
            _ => return Answer::unsupported(),
        },
        ("autorebuild", "on") | ("jbod", "off") | ("foreignautoimport", "off") if rest.is_empty() => Ok(()),
        ("autorebuild", "off") => {
            Err(Refusal::new(INVALID, "spares always take over; set a drive offline where none should"))
        }
        ("jbod", _) => Err(Refusal::new(INVALID, "drives are not passed through")),
        ("foreignautoimport", _) => Err(Refusal::new(INVALID, "nothing foreign is imported by itself")),
        ("time", _) => Err(Refusal::new(INVALID, "the controller has the time of this machine")),
        ("alarm", "on") if rest.is_empty() => alarm(AlarmSetting::On, machine),
        ("alarm", "off") if rest.is_empty() => alarm(AlarmSetting::Off, machine),
        ("alarm", "silence") if rest.is_empty() => alarm(AlarmSetting::Silence, machine),
        ("patrolread" | "pr", value) => patrol(value, rest, machine),
        ("cc" | "consistencycheck", value) => match check(view, value, rest, machine) {
            Some(done) => done,
            None => return Answer::unsupported(),
        },
        _ => return Answer::unsupported(),
    };
    outcome(name, "Set Controller Property", done)
}

/// Switches the alarm, or silences it.
fn alarm(to: AlarmSetting, machine: &mut dyn Machine) -> Result<(), Refusal> {
    ask(machine, Command::AlarmSet { to }).map(|_| ())
}

/// Whether a property is set for all kinds of drives: there is no other one.
fn is_of_all(rest: &[Word]) -> bool {
    match rest {
        [] => true,
        [kind] => kind.key == "type" && ["ctrl", "all"].contains(&kind.low().as_str()),
        _ => false,
    }
}

/// A share in percent.
fn rate(word: &Word) -> Result<u8, Refusal> {
    let share = word.low().trim_end_matches('%').parse().ok().filter(|share| (1..=100).contains(share));
    share.ok_or_else(|| Refusal::invalid(format!("{} is a share from 1 to 100", word.key)))
}

/// Sets a policy of every array.
fn all_arrays(
    view: &View,
    machine: &mut dyn Machine,
    change: &dyn Fn(&mut SetPolicy),
) -> Result<(), Refusal> {
    for group in view.groups() {
        let Some(first) = group.first() else { continue };
        let mut policy = SetPolicy { volume: first.volume.uuid.clone(), ..SetPolicy::default() };
        change(&mut policy);
        ask(machine, Command::VolumePolicy(policy))?;
    }
    Ok(())
}

fn schedule_rate(what: Scheduled, view: &View, share: u8, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let volumes: Vec<Option<String>> = match what {
        Scheduled::Patrol => vec![None],
        Scheduled::Check => checked(view),
    };
    for volume in volumes {
        let set = SetSchedule { what, volume, share_percent: Some(share), ..SetSchedule::default() };
        ask(machine, Command::TaskSchedule(set))?;
    }
    Ok(())
}

/// The volumes that have a schedule for checks.
fn checked(view: &View) -> Vec<Option<String>> {
    let of_checks = view.metrics.schedules.iter().filter(|schedule| schedule.what == Scheduled::Check);
    of_checks.map(|schedule| schedule.volume.clone()).collect()
}

/// `set patrolread=on [mode=auto|manual]`, `=off`.
fn patrol(value: &str, rest: &[Word], machine: &mut dyn Machine) -> Result<(), Refusal> {
    let mode = match rest {
        [] => "auto".to_owned(),
        [mode] if mode.key == "mode" => mode.low(),
        _ => return Err(Refusal::invalid("the patrol is set by on, off and mode alone")),
    };
    let on = match (value, mode.as_str()) {
        ("on", "auto") => true,
        // It is begun by 'start patrolread'.
        ("on", "manual") | ("off", "auto") => false,
        _ => {
            return Err(Refusal::invalid(
                "give patrolread=on mode=auto, patrolread=on mode=manual or patrolread=off",
            ));
        }
    };
    let set = SetSchedule { what: Scheduled::Patrol, on: Some(on), ..SetSchedule::default() };
    ask(machine, Command::TaskSchedule(set)).map(|_| ())
}

/// `set cc=off|seq|conc [delay=HOURS] [starttime=yyyy/mm/dd hh] [excludevd=x-y,z|none]`; `None`: other words.
fn check(view: &View, value: &str, rest: &[Word], machine: &mut dyn Machine) -> Option<Result<(), Refusal>> {
    let (mut every_days, mut at_s, mut excluded) = (None, None, Vec::new());
    let mut words = rest.iter().peekable();
    while let Some(word) = words.next() {
        match word.key.as_str() {
            "delay" => match word.low().parse::<u32>().ok().filter(|hours| *hours >= 24 && hours % 24 == 0) {
                Some(hours) => every_days = Some(hours / 24),
                None => return Some(Err(Refusal::invalid("delay is whole days in hours: 24, 48, 168"))),
            },
            "starttime" => {
                let text = word.low();
                // The hour may be a word of its own.
                let apart = words.next_if(|next| next.value.is_none()).map(|next| next.key.clone());
                let hour = text.split_whitespace().nth(1).map(str::to_owned).or(apart);
                let hour = hour.and_then(|hour| hour.parse::<u32>().ok()).filter(|hour| *hour < 24);
                match hour {
                    Some(hour) => at_s = Some(hour * 3600),
                    None => {
                        return Some(Err(Refusal::invalid(
                            "starttime is yyyy/mm/dd hh; the hour counts, in UTC",
                        )));
                    }
                }
            }
            "excludevd" if word.low() == "none" => {}
            "excludevd" => match Numbers::read(&word.low()) {
                Some(numbers) => excluded = numbers.named(),
                None => return Some(Err(Refusal::invalid("excludevd names volumes, such as 0-2,5"))),
            },
            _ => return None,
        }
    }
    let on = match value {
        "off" => false,
        "conc" => true,
        "seq" => {
            let sentence = "checks that are due at the same time run at the same time: give cc=conc";
            return Some(Err(Refusal::invalid(sentence)));
        }
        _ => return None,
    };
    Some(schedule_checks(view, on, every_days, at_s, &excluded, machine))
}

fn schedule_checks(
    view: &View,
    on: bool,
    every_days: Option<u32>,
    at_s: Option<u32>,
    excluded: &[u32],
    machine: &mut dyn Machine,
) -> Result<(), Refusal> {
    let names = checked(view);
    for volume in view.volumes() {
        if !names.contains(&Some(volume.volume.name.clone())) {
            continue;
        }
        let on = on && !excluded.contains(&volume.number);
        let set = SetSchedule {
            what: Scheduled::Check,
            volume: Some(volume.volume.uuid.clone()),
            on: Some(on),
            every_days: every_days.filter(|_| on),
            at_s: at_s.filter(|_| on),
            ..SetSchedule::default()
        };
        ask(machine, Command::TaskSchedule(set))?;
    }
    Ok(())
}
