//! The alarm, spares, log device, notifications, subscriptions and accounts.

use super::drives::DriveMatches;
use super::{Findings, Step, Subject};
use crate::current::{self, Current, is_lasting};
use crate::document::{Account, Document, Notification, Spare, Subscription};
use access::AccountInfo;
use controller::{AddSpare, AlarmSetting, Command, SpareKind};
use notify::{Channel, Target};
use std::collections::BTreeSet;

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

pub(super) fn controller(document: &Document, now: &Current, found: &mut Findings) {
    let wanted = document.controller.as_ref().and_then(|controller| controller.alarm);
    let Some(wanted) = wanted.filter(|wanted| *wanted != now.info.alarm.on) else { return };
    let of = Subject::new("controller", "alarm").file(switch(wanted)).now(switch(!wanted));
    let to = if wanted { AlarmSetting::On } else { AlarmSetting::Off };
    found.changes(of, Step::Command(Command::AlarmSet { to }));
}

pub(super) fn spares(
    document: &Document,
    now: &Current,
    places: &DriveMatches<'_>,
    found: &mut Findings,
) {
    let Some(spares) = &document.spares else { return };
    for spare in spares {
        let about = format!("spare {}", spare.drive);
        let Some(drive) = places.get(&spare.drive) else {
            let of = Subject::new(about, "existence").file(of_spare(spare));
            found.stays(of, "the drive is missing; connect it first");
            continue;
        };
        match now.spares.iter().find(|there| there.drive == drive.name).map(current::spare) {
            Some(there) if same_spare(spare, &there) => {}
            there => {
                let mut of = Subject::new(about, "existence").file(of_spare(spare));
                of.now = there.as_ref().map(of_spare);
                let dedicated = spare.kind == SpareKind::Dedicated;
                let add = AddSpare {
                    drive: drive.name.clone(),
                    volumes: if dedicated { spare.dedicated_to.clone() } else { Vec::new() },
                    same_enclosure: spare.kind == SpareKind::Enclosure,
                    revertible: spare.revertible,
                    destroy_data: false,
                };
                match (there, dedicated && spare.dedicated_to.is_empty()) {
                    (_, true) => found.stays(of, "the file does not list its volumes"),
                    (Some(_), _) => {
                        let why =
                            format!("remove it first with 'softroc spare remove {}'", drive.name);
                        found.stays(of, why);
                    }
                    (None, _) => found.changes(of, Step::Command(Command::SpareAdd(add))),
                }
            }
        }
    }
    let is_of_file = |name: &str| {
        spares.iter().any(|spare| places.get(&spare.drive).is_some_and(|drive| drive.name == name))
    };
    for there in
        now.spares.iter().filter(|there| is_lasting(&there.drive) && !is_of_file(&there.drive))
    {
        let of = Subject::new(format!("spare {}", there.drive), "existence")
            .now(of_spare(&current::spare(there)));
        found.stays(of, format!("'softroc spare remove {}' removes it", there.drive));
    }
}

fn same_spare(a: &Spare, b: &Spare) -> bool {
    let set = |spare: &Spare| spare.dedicated_to.iter().cloned().collect::<BTreeSet<String>>();
    a.kind == b.kind && a.revertible == b.revertible && set(a) == set(b)
}

fn of_spare(spare: &Spare) -> String {
    let mut text = match spare.kind {
        SpareKind::Dedicated => format!("for {}", spare.dedicated_to.join(", ")),
        kind => kind.to_string(),
    };
    if !spare.revertible {
        text.push_str(", not revertible");
    }
    text
}

pub(super) fn log(
    document: &Document,
    now: &Current,
    places: &DriveMatches<'_>,
    found: &mut Findings,
) {
    let Some(log) = &document.log else {
        // A full document lists volumes: without a log entry, it requires that there is no log
        // device.
        if let (Some(_), Some(there)) = (&document.arrays, now.log()) {
            let drives: Vec<&str> =
                there.devices.iter().map(|device| device.drive.as_str()).collect();
            let of = Subject::new("log", "drives").now(drives.join(", "));
            found.stays(of, format!("'softroc log remove {}' removes it", drives.join(" ")));
        }
        return;
    };
    let of = Subject::new("log", "drives").file(log.drives.join(", "));
    let resolved: Option<Vec<String>> =
        log.drives.iter().map(|name| places.get(name).map(|drive| drive.name.clone())).collect();
    let there: Option<Vec<String>> =
        now.log().map(|log| log.devices.iter().map(|device| device.drive.clone()).collect());
    let sorted = |drives: &[String]| drives.iter().cloned().collect::<BTreeSet<String>>();
    match (resolved, there) {
        (Some(wanted), Some(there)) if sorted(&wanted) == sorted(&there) => {}
        (_, Some(there)) => {
            found.stays(
                of.now(there.join(", ")),
                format!("remove the other one first: 'softroc log remove {}'", there.join(" ")),
            );
        }
        (None, None) => found.stays(of, "some of its drives are missing; connect them first"),
        (Some(drives), None) => {
            let add = Command::LogAdd { drives, destroy_data: false, same_disk_ok: true };
            found.changes(of, Step::Command(add));
        }
    }
}

pub(super) fn notifications(document: &Document, now: &Current, found: &mut Findings) {
    let Some(wanted) = &document.notifications else { return };
    for file in wanted {
        let there = now.notifications.iter().find(|there| there.channel.name == file.channel.name);
        notification(file, there, found);
    }
    let is_of_file =
        |there: &&Notification| wanted.iter().any(|file| file.channel.name == there.channel.name);
    for there in now.notifications.iter().filter(|there| !is_of_file(there)) {
        let name = &there.channel.name;
        let of = Subject::new(format!("notification {name}"), "channel").now(&there.channel.target);
        found.stays(of, format!("'softroc notify remove {name}' removes it"));
    }
}

fn notification(file: &Notification, there: Option<&Notification>, found: &mut Findings) {
    let about = format!("notification {}", file.channel.name);
    let has_secret = there.is_some_and(|there| there.has_secret);
    let is_same = there.is_some_and(|there| there.channel == file.channel);
    if !is_same {
        let mut of = Subject::new(&about, "channel").file(summary(&file.channel));
        of.now = there.map(|there| summary(&there.channel));
        match file.channel.check(has_secret) {
            Ok(_) => found.changes(of, Step::Channel(file.channel.clone())),
            // Its password for the mail server is not saved.
            Err(_) if file.has_secret && !has_secret => found.stays(of, set_again(&file.channel)),
            Err(error) => found.stays(of, error.message),
        }
    }
    // A channel that requires a secret is reported above.
    let can_be_without = file.channel.check(false).is_ok();
    match (file.has_secret, has_secret) {
        (true, false) if can_be_without => {
            let of = Subject::new(&about, "secret").file("set").now("none");
            found.stays(of, set_again(&file.channel));
        }
        (false, true) => {
            let of = Subject::new(&about, "secret").file("none").now("set");
            let why =
                format!("remove the channel, then set it again: {}", command(&file.channel, false));
            found.stays(of, why);
        }
        _ => {}
    }
}

fn summary(channel: &Channel) -> String {
    let command = command(channel, false);
    let given = command.strip_prefix("softroc notify set ").unwrap_or(&command).to_owned();
    given.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or(given)
}

fn set_again(channel: &Channel) -> String {
    format!(
        "secrets are not saved; set the channel again: echo SECRET | {}",
        command(channel, true)
    )
}

/// The command line that sets a channel.
fn command(channel: &Channel, with_secret: bool) -> String {
    let Channel { name, target, to, from, user, trust, severity, codes, quiet, fold_s } = channel;
    let mut line =
        format!("softroc notify set {name} {target} --severity {severity} --fold {fold_s}");
    let mut add = |flag: &str, value: &str| line.push_str(&format!(" --{flag} {value}"));
    to.iter().for_each(|to| add("to", to));
    codes.iter().for_each(|code| add("code", &format!("'{code}'")));
    for (flag, value) in [("from", from), ("user", user), ("trust", trust)] {
        value.iter().for_each(|value| add(flag, value));
    }
    quiet.iter().for_each(|quiet| add("quiet", &quiet.to_string()));
    if with_secret {
        line.push_str(" --secret-stdin");
    }
    line
}

pub(super) fn subscriptions(document: &Document, now: &Current, found: &mut Findings) {
    let Some(wanted) = &document.subscriptions else { return };
    // Subscriptions may be identical.
    let mut left: Vec<&Subscription> = now.subscriptions.iter().collect();
    for file in wanted {
        match left.iter().position(|there| *there == file) {
            Some(at) => {
                left.remove(at);
            }
            None => {
                let of = Subject::new(format!("subscription {}", file.destination), "existence")
                    .file("subscribed");
                match Target::read(&file.destination) {
                    Ok(Target::Webhook { .. }) => {
                        found.changes(of, Step::Subscription(file.clone()))
                    }
                    _ => {
                        found.stays(of, "not an address for events; expected http://… or https://…")
                    }
                }
            }
        }
    }
    for there in left {
        let of = Subject::new(format!("subscription {}", there.destination), "existence")
            .now("subscribed");
        found.stays(of, "its subscriber deletes it by Redfish");
    }
}

pub(super) fn accounts(document: &Document, now: &Current, found: &mut Findings) {
    let Some(wanted) = &document.accounts else { return };
    let text = |role: access::Role, enabled: bool| {
        if enabled { role.to_string() } else { format!("{role}, disabled") }
    };
    for Account { name, role, enabled } in wanted {
        let there = now.accounts.iter().find(|there| there.name == *name);
        if there.is_some_and(|there| there.role == *role && there.enabled == *enabled) {
            continue;
        }
        let mut of = Subject::new(format!("account {name}"), "role").file(text(*role, *enabled));
        of.now = there.map(|there| text(there.role, there.enabled));
        let (name, role, enabled, is_new) = (name.clone(), *role, *enabled, there.is_none());
        found.changes(of, Step::Account { name, role, enabled, is_new });
    }
    let is_extra = |there: &&AccountInfo| !wanted.iter().any(|file| file.name == there.name);
    for there in now.accounts.iter().filter(is_extra) {
        let of = Subject::new(format!("account {}", there.name), "role")
            .now(text(there.role, there.enabled));
        found.stays(of, format!("'softroc account remove {}' removes it", there.name));
    }
}
