//! `/cN set patrolread ...`, `/cN set cc=...`: schedules of patrol reads and checks.

use super::property::SetResult;
use super::{Refusal, ask};
use crate::Machine;
use crate::codes::WRONG_STATE;
use crate::view::View;
use crate::words::{Numbers, Word};
use controller::{Command, Scheduled, SetSchedule};

/// An interval in hours; whole days only.
fn days(word: &Word) -> Result<u32, Refusal> {
    let hours = word.low().parse::<u32>().ok().filter(|hours| *hours >= 24 && hours % 24 == 0);
    let given = word.value.as_deref().unwrap_or_default();
    let wrong = || {
        Refusal::invalid(format!(
            "delay={given} is not a number of whole days in hours, such as 24, 168 or 720"
        ))
    };
    hours.map(|hours| hours / 24).ok_or_else(wrong)
}

/// `set patrolread[=on|off] [mode=auto|manual] [delay=HOURS] [includessds=on] [uncfgareas=on]
/// [excludevd=none]`.
pub(super) fn patrol(
    view: &View,
    word: &Word,
    rest: &[Word],
    machine: &mut dyn Machine,
) -> SetResult {
    let modes = || {
        Refusal::invalid(
            "give patrolread=on mode=auto, patrolread=on mode=manual, patrolread=off or delay=168",
        )
    };
    let (mut mode, mut every_days) = (None, None);
    for word in rest {
        match (word.key.as_str(), word.low().as_str()) {
            // A manual patrol read is started by 'start patrolread'.
            ("mode", value @ ("auto" | "manual")) => mode = Some(value == "auto"),
            ("mode", _) => return Err(modes()),
            ("delay", _) => every_days = Some(days(word)?),
            // Always the case.
            ("includessds" | "uncfgareas", "on") | ("excludevd", "none") => {}
            _ => return Err(not_of_patrols(word)),
        }
    }
    let on = match (word.low().as_str(), mode) {
        ("on", mode) => Some(mode.unwrap_or(true)),
        ("off", None) => Some(false),
        ("", mode) if word.value.is_none() => mode,
        _ => return Err(modes()),
    };
    if on.is_none() && every_days.is_none() {
        return Err(modes());
    }
    // An interval alone does not enable the schedule.
    let is_on = || crate::show::patrol_schedule(view).is_some_and(|schedule| schedule.on);
    let on = on.unwrap_or_else(is_on);
    let set =
        SetSchedule { what: Scheduled::Patrol, on: Some(on), every_days, ..SetSchedule::default() };
    ask(machine, Command::TaskSchedule(set))?;
    let mut properties = vec![("PR Mode", if on { "Auto" } else { "Manual" }.to_owned())];
    properties.extend(
        every_days.map(|days| ("PR Execution Delay", format!("{} hours", u64::from(days) * 24))),
    );
    Ok(Some(properties))
}

/// Why a word of patrol reads is not supported.
fn not_of_patrols(word: &Word) -> Refusal {
    let given = word
        .value
        .as_ref()
        .map_or_else(|| word.key.clone(), |value| format!("{}={value}", word.key));
    let why = match word.key.as_str() {
        "starttime" => {
            "a patrol read has a time of day but no start date; run 'softroc task schedule patrol \
                --at 03:00'"
        }
        "includessds" | "uncfgareas" => {
            "a patrol read covers all drives completely; give on, or omit it"
        }
        "maxconcurrentpd" => {
            "a patrol read covers all drives concurrently; set prrate to reduce its rate"
        }
        "excludevd" => "a patrol read covers drives, not volumes; give excludevd=none, or omit it",
        _ => "the options of patrol reads are on, off, mode and delay",
    };
    Refusal::invalid(format!("{given}: {why}"))
}

/// The volumes that have a check schedule.
pub(super) fn checked(view: &View) -> Vec<Option<String>> {
    let of_checks =
        view.metrics.schedules.iter().filter(|schedule| schedule.what == Scheduled::Check);
    of_checks.map(|schedule| schedule.volume.clone()).collect()
}

/// The check schedule.
#[derive(Default)]
struct Checks {
    on: bool,
    every_days: Option<u32>,
    at_s: Option<u32>,
    excluded: Vec<u32>,
}

/// `set cc=off|seq|conc [delay=HOURS] [starttime=yyyy/mm/dd hh] [excludevd=x-y,z|none]`.
pub(super) fn check(
    view: &View,
    value: &str,
    rest: &[Word],
    machine: &mut dyn Machine,
) -> SetResult {
    let mut checks = Checks::default();
    let mut words = rest.iter().peekable();
    while let Some(word) = words.next() {
        match word.key.as_str() {
            "delay" => checks.every_days = Some(days(word)?),
            "starttime" => {
                let text = word.low();
                // The hour may be a separate word.
                let apart = words.next_if(|next| next.value.is_none()).map(|next| next.key.clone());
                let hour = text.split_whitespace().nth(1).map(str::to_owned).or(apart);
                let hour = hour.and_then(|hour| hour.parse::<u32>().ok()).filter(|hour| *hour < 24);
                let wrong = || {
                    Refusal::invalid("starttime is yyyy/mm/dd hh; only the hour is used, in UTC")
                };
                checks.at_s = Some(hour.ok_or_else(wrong)? * 3600);
            }
            "excludevd" if word.low() == "none" => {}
            "excludevd" => {
                let wrong = || Refusal::invalid("excludevd names volumes, such as 0-2,5");
                checks.excluded = Numbers::read(&word.low()).ok_or_else(wrong)?.named();
            }
            _ => return Ok(None),
        }
    }
    checks.on = match value {
        "off" => false,
        "conc" => true,
        "seq" => {
            let sentence = "scheduled checks run concurrently: give cc=conc";
            return Err(Refusal::invalid(sentence));
        }
        _ => return Ok(None),
    };
    schedule_checks(view, &checks, machine)?;
    let mut properties =
        vec![("CC Operation Mode", if checks.on { "Concurrent" } else { "Disabled" }.to_owned())];
    properties.extend(
        checks.every_days.map(|days| ("CC Execution Delay", (u64::from(days) * 24).to_string())),
    );
    Ok(Some(properties))
}

fn schedule_checks(view: &View, checks: &Checks, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let names = checked(view);
    if checks.on && names.is_empty() {
        let sentence = "no volume has redundancy to check; set cc after 'add vd'";
        return Err(Refusal::new(WRONG_STATE, sentence));
    }
    for volume in view.volumes() {
        if !names.contains(&Some(volume.volume.name.clone())) {
            continue;
        }
        let on = checks.on && !checks.excluded.contains(&volume.number);
        let set = SetSchedule {
            what: Scheduled::Check,
            volume: Some(volume.volume.uuid.clone()),
            on: Some(on),
            every_days: checks.every_days.filter(|_| on),
            at_s: checks.at_s.filter(|_| on),
            ..SetSchedule::default()
        };
        ask(machine, Command::TaskSchedule(set))?;
    }
    Ok(())
}
