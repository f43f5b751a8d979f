//! Maintenance actions: schedules, the alarm, channels, accounts.

use super::{ConsoleAction, Field, FormValues, Order, deed};
use crate::words::shell_word;
use access::Role;
use controller::{AlarmSetting, Command, Error, ErrorKind, Result, Scheduled, SetSchedule};

pub(super) fn alarm(verb: &str) -> Option<ConsoleAction> {
    let (verb, label, to) = match verb {
        "alarm-silence" => ("alarm-silence", "Silence the alarm", AlarmSetting::Silence),
        "alarm-on" => ("alarm-on", "Switch the alarm on", AlarmSetting::On),
        "alarm-off" => ("alarm-off", "Switch the alarm off", AlarmSetting::Off),
        _ => return None,
    };
    let cli = format!("softroc alarm {to}");
    Some(deed(verb, "", label.to_owned(), Command::AlarmSet { to }, cli))
}

/// Sets a schedule of patrol reads or checks. The form also submits its initial values: unchanged
/// values are not set, because a change restarts the schedule and forgets its last run.
///
/// # Errors
/// `Invalid` if a number of days or a time cannot be parsed, or nothing differs from the initial
/// values.
pub(super) fn schedule(
    verb: &str,
    of: &str,
    asked: &FormValues<'_>,
) -> Result<Option<ConsoleAction>> {
    let (verb, what, volume) = match verb {
        "schedule-patrol" => ("schedule-patrol", Scheduled::Patrol, None),
        "schedule-check" => ("schedule-check", Scheduled::Check, Some(of.to_owned())),
        _ => return Ok(None),
    };
    let (on, every, at) = (asked.word("on"), asked.word("every"), asked.word("at"));
    let (was_on, was_every, was_at) =
        (asked.word("was-on"), asked.word("was-every"), asked.word("was-at"));
    let set = SetSchedule {
        what,
        volume,
        on: switch(on)?.filter(|_| on != was_on),
        every_days: days(every)?.filter(|_| every != was_every),
        at_s: time_of_day(at)?.filter(|_| at != was_at),
        ..SetSchedule::default()
    };
    let name =
        if what == Scheduled::Check { format!("check of {of}") } else { "patrol read".to_owned() };
    let is_nothing = set.on.is_none() && set.every_days.is_none() && set.at_s.is_none();
    if is_nothing && !was_on.is_empty() {
        let sentence =
            format!("the schedule of the {name} already has these values; nothing was changed");
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    let cli = schedule_cli(&set, of, (on, every, at));
    let fields = vec![
        Field::said("was-on", on),
        Field::said("was-every", every),
        Field::said("was-at", at),
        Field::chosen("on", &format!("Automatic {name}"), vec!["on", "off"], on),
        Field::filled("every", "Interval (days)", every),
        Field::filled("at", "Time (UTC, HH:MM)", at),
    ];
    let made = deed(verb, of, format!("Set the {name}"), Command::TaskSchedule(set), cli);
    Ok(Some(ConsoleAction { fields, ..made }))
}

fn schedule_cli(set: &SetSchedule, of: &str, (on, every, at): (&str, &str, &str)) -> String {
    let of_what =
        if set.what == Scheduled::Check { format!(" {}", shell_word(of)) } else { String::new() };
    let mut cli = format!("softroc task schedule {}{of_what}", set.what);
    for (flag, value) in [("every", every), ("at", at)] {
        if !value.is_empty() {
            let unit = if flag == "every" { "d" } else { "" };
            cli.push_str(&format!(" --{flag} {}", shell_word(&format!("{value}{unit}"))));
        }
    }
    if !on.is_empty() {
        cli.push_str(if on == "on" { " --on" } else { " --off" });
    }
    cli
}

fn switch(text: &str) -> Result<Option<bool>> {
    match text {
        "" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => {
            let sentence = format!("'{text}' is neither on nor off; nothing was changed");
            Err(Error::new(ErrorKind::Invalid, sentence))
        }
    }
}

fn days(text: &str) -> Result<Option<u32>> {
    let wrong = || {
        let sentence = format!("'{text}' is not a number of days; give one such as 7");
        Error::new(ErrorKind::Invalid, sentence)
    };
    match text {
        "" => Ok(None),
        text => text.parse().ok().filter(|days| *days > 0).map(Some).ok_or_else(wrong),
    }
}

/// `HH:MM` in seconds of the day.
fn time_of_day(text: &str) -> Result<Option<u32>> {
    let wrong = || {
        let sentence = format!("'{text}' is not a time; give 00:00 to 23:59, in UTC");
        Error::new(ErrorKind::Invalid, sentence)
    };
    if text.is_empty() {
        return Ok(None);
    }
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, most: u32| text.parse::<u32>().ok().filter(|number| *number < most);
    let (hours, minutes) = number(hours, 24).zip(number(minutes, 60)).ok_or_else(wrong)?;
    Ok(Some(hours * 3600 + minutes * 60))
}

fn ordered(
    verb: &'static str,
    of: &str,
    label: String,
    order: Order,
    cli: String,
) -> ConsoleAction {
    ConsoleAction { order, verb, of: of.to_owned(), label, cli, fields: Vec::new(), only: None }
}

pub(super) fn channel(verb: &str, of: &str) -> Option<ConsoleAction> {
    let (name, word) = (of.to_owned(), shell_word(of));
    Some(match verb {
        "notify-test" => ordered(
            "notify-test",
            of,
            format!("Send a test to {of}"),
            Order::TestChannel(name),
            format!("softroc notify test {word}"),
        ),
        "notify-remove" => ordered(
            "notify-remove",
            of,
            format!("Remove the channel {of}"),
            Order::RemoveChannel(name),
            format!("softroc notify remove {word}"),
        ),
        _ => return None,
    })
}

/// Actions for an account.
///
/// # Errors
/// `Invalid` for an unknown role.
pub(super) fn account(
    verb: &str,
    of: &str,
    asked: &FormValues<'_>,
) -> Result<Option<ConsoleAction>> {
    let (name, word) = (of.to_owned(), shell_word(of));
    let set = |verb, label: &str, order, flag: &str| {
        ordered(
            verb,
            of,
            format!("{label} {of}"),
            order,
            format!("softroc account set {word} {flag}"),
        )
    };
    let deed = match verb {
        "account-enable" => {
            set("account-enable", "Enable", Order::EnableAccount(name, true), "--enable")
        }
        "account-disable" => {
            set("account-disable", "Disable", Order::EnableAccount(name, false), "--disable")
        }
        "account-unlock" => set("account-unlock", "Unlock", Order::UnlockAccount(name), "--unlock"),
        "account-password" => set(
            "account-password",
            "Generate a new password for",
            Order::NewPassword(name),
            "--new-password",
        ),
        "account-role" => {
            let role = role(asked.word("role"))?;
            let fields = vec![Field::chosen("role", "Role", ROLES.to_vec(), role.name())];
            let order = Order::SetRole(name, role);
            let flag = format!("--role {role}");
            ConsoleAction { fields, ..set("account-role", "Set the role of", order, &flag) }
        }
        "account-remove" => {
            let question = format!("To confirm, type the account's name, {of}");
            let cli = format!("softroc account remove {word}");
            let made = ordered(
                "account-remove",
                of,
                format!("Remove {of}"),
                Order::RemoveAccount(name),
                cli,
            );
            ConsoleAction {
                fields: vec![Field::typed("word", question)],
                only: Some(of.to_owned()),
                ..made
            }
        }
        "account-add" => new_account(asked.word("name"), role(asked.word("role"))?),
        _ => return Ok(None),
    };
    Ok(Some(deed))
}

/// The names of the roles. A test checks that the list is complete.
const ROLES: &[&str] = &["read-only", "operator", "administrator"];

fn new_account(name: &str, role: Role) -> ConsoleAction {
    let shown = if name.is_empty() { "NAME".to_owned() } else { shell_word(name) };
    let cli = format!("softroc account add {shown} --role {role}");
    let order = Order::AddAccount(name.to_owned(), role);
    let fields = vec![
        Field::typed("name", "Name of the new account"),
        Field::chosen("role", "Role", ROLES.to_vec(), role.name()),
    ];
    ConsoleAction { fields, ..ordered("account-add", "", "Add the account".to_owned(), order, cli) }
}

/// A role by its name; by default the one with the fewest permissions.
fn role(name: &str) -> Result<Role> {
    match name {
        "" => Ok(Role::ReadOnly),
        name => name.parse().map_err(|why: String| Error::new(ErrorKind::Invalid, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_days_are_read_as_they_are_typed() {
        assert_eq!(time_of_day("02:30").expect("a time"), Some(9000));
        assert_eq!(time_of_day("").expect("nothing"), None);
        assert_eq!(days("28").expect("a number"), Some(28));
        for wrong in ["24:00", "2", "aa:bb", "12:60", "-1:00"] {
            assert!(time_of_day(wrong).is_err(), "{wrong}");
        }
        assert!(days("0").is_err() && days("4w").is_err());
    }

    #[test]
    fn every_role_can_be_chosen() {
        assert_eq!(Role::ALL.map(Role::name), ROLES);
    }
}
