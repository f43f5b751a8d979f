//! `/cN set NAME=VALUE ...`: properties of the controller.

use super::{Refusal, ask, outcome, schedule};
use crate::Machine;
use crate::answer::Answer;
use crate::codes::{INVALID, WRONG_STATE};
use crate::show::controller_properties;
use crate::view::View;
use crate::words::Word;
use controller::{AlarmSetting, Command, Scheduled, SetPolicy, SetSchedule};

/// The properties after the change, by their names in replies; `None`: no such property.
pub(super) type SetResult = Result<Option<Vec<(&'static str, String)>>, Refusal>;

/// One property.
fn one(name: &'static str, value: impl Into<String>) -> SetResult {
    Ok(Some(vec![(name, value.into())]))
}

/// `set NAME=VALUE ...`.
pub(super) fn answer(view: &View, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let Some((word, rest)) = words.split_first() else { return Answer::unsupported() };
    match set(view, word, rest, machine) {
        Ok(Some(properties)) => controller_properties(properties),
        Ok(None) => Answer::unsupported(),
        Err(refusal) => outcome(&word.key, "Set Controller Property", Err(refusal)),
    }
}

fn set(view: &View, word: &Word, rest: &[Word], machine: &mut dyn Machine) -> SetResult {
    let refuse = |sentence: &str| Err(Refusal::new(INVALID, sentence));
    let low = word.low();
    match (word.key.as_str(), low.as_str()) {
        ("rebuildrate", _) if rest.is_empty() => {
            let share = rate(word)?;
            all_arrays(view, word, machine, &|policy| policy.task_share_percent = Some(share))?;
            one("Rebuildrate", format!("{share}%"))
        }
        ("ccrate", _) if rest.is_empty() => {
            schedule_rate("CC Rate", Scheduled::Check, view, word, machine)
        }
        ("prrate", _) if rest.is_empty() => {
            schedule_rate("Patrol Read Rate", Scheduled::Patrol, view, word, machine)
        }
        ("bgirate" | "reconrate", _) => {
            refuse("all background tasks of an array share one rate: set rebuildrate")
        }
        ("copyback", value @ ("on" | "off")) if is_of_all(rest) => {
            all_arrays(view, word, machine, &|policy| policy.copyback = Some(value == "on"))?;
            one("Copyback", value.to_ascii_uppercase())
        }
        ("eghs", "") => emergency_spare(view, word, rest, machine),
        ("autorebuild", "on") if rest.is_empty() => one("AutoRebuild", "ON"),
        ("autorebuild", "off") => {
            refuse("hot spares are always used; to prevent this, set the drive offline")
        }
        ("jbod", "on" | "off") if !is_force(rest) => Ok(None),
        ("jbod", "off") => one("JBOD", "OFF"),
        ("jbod", "on") => refuse(
            "pass-through is not supported; create a RAID 0 per drive with 'add vd each r0 \
                drives=252:0-3'",
        ),
        ("foreignautoimport", "off") if rest.is_empty() => one("ForeignAutoImport", "OFF"),
        ("foreignautoimport", "on") => {
            refuse("automatic import is not supported; import with '/c0/fall import'")
        }
        ("time", _) => refuse("the controller uses the time of this machine"),
        ("alarm", value @ ("on" | "off" | "silence")) if rest.is_empty() => {
            let to = match value {
                "on" => AlarmSetting::On,
                "off" => AlarmSetting::Off,
                _ => AlarmSetting::Silence,
            };
            ask(machine, Command::AlarmSet { to })?;
            one("Alarm", value.to_ascii_uppercase())
        }
        ("patrolread" | "pr", _) => schedule::patrol(view, word, rest, machine),
        ("cc" | "consistencycheck", value) => schedule::check(view, value, rest, machine),
        _ => Ok(None),
    }
}

/// Whether there are no more words, or only `force`.
fn is_force(rest: &[Word]) -> bool {
    super::only_force(rest).is_some()
}

/// Whether the property is set for all kinds of drives: others are not supported.
fn is_of_all(rest: &[Word]) -> bool {
    match rest {
        [] => true,
        [kind] => kind.key == "type" && ["ctrl", "all"].contains(&kind.low().as_str()),
        _ => false,
    }
}

/// A share in percent.
fn rate(word: &Word) -> Result<u8, Refusal> {
    let share =
        word.low().trim_end_matches('%').parse().ok().filter(|share| (1..=100).contains(share));
    let given = word.value.as_deref().unwrap_or_default();
    share.ok_or_else(|| {
        Refusal::invalid(format!("{}={given} is not a share from 1 to 100", word.key))
    })
}

/// `eghs state=on|off`.
fn emergency_spare(
    view: &View,
    word: &Word,
    rest: &[Word],
    machine: &mut dyn Machine,
) -> SetResult {
    match rest {
        [state] if state.key == "state" && ["on", "off"].contains(&state.low().as_str()) => {
            let on = state.low() == "on";
            all_arrays(view, word, machine, &|policy| policy.emergency_spare = Some(on))?;
            one("EmergencyGHS", state.low().to_ascii_uppercase())
        }
        _ => Ok(None),
    }
}

/// Sets a policy of all arrays.
fn all_arrays(
    view: &View,
    word: &Word,
    machine: &mut dyn Machine,
    change: &dyn Fn(&mut SetPolicy),
) -> Result<(), Refusal> {
    let groups = view.groups();
    if groups.is_empty() {
        return Err(Refusal::new(
            WRONG_STATE,
            format!(
                "{} is a property of drive groups, and there is no group; set it after 'add vd'",
                word.key
            ),
        ));
    }
    for first in groups.iter().filter_map(|group| group.first()) {
        let mut policy = SetPolicy { volume: first.volume.uuid.clone(), ..SetPolicy::default() };
        change(&mut policy);
        ask(machine, Command::VolumePolicy(policy))?;
    }
    Ok(())
}

fn schedule_rate(
    name: &'static str,
    what: Scheduled,
    view: &View,
    word: &Word,
    machine: &mut dyn Machine,
) -> SetResult {
    let share = rate(word)?;
    let volumes: Vec<Option<String>> = match what {
        Scheduled::Patrol => vec![None],
        Scheduled::Check => schedule::checked(view),
    };
    if volumes.is_empty() {
        let sentence = "no volume has redundancy to check; set ccrate after 'add vd'";
        return Err(Refusal::new(WRONG_STATE, sentence));
    }
    for volume in volumes {
        let set =
            SetSchedule { what, volume, share_percent: Some(share), ..SetSchedule::default() };
        ask(machine, Command::TaskSchedule(set))?;
    }
    one(name, format!("{share}%"))
}
