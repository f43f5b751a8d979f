//! The maintenance page: schedules, spares and their coverage, the alarm, notifications, accounts,
//! the certificate, and support data.

use crate::page::Part;
use crate::words::{Badge, Moment, drive_page, sentence, volume_page};
use crate::{Upkeep, Viewer, World, deed};
use access::{AccountInfo, Action};
use askama::Template;
use controller::{Command, Reply, ScheduleInfo, Scheduled, WellBeing};
use units::{ByteCount, both_capacities};

#[derive(Template)]
#[template(path = "schedules.html")]
struct Schedules {
    schedules: Vec<Schedule>,
    refusal: Option<String>,
}

struct Schedule {
    name: String,
    when: String,
    next: Option<Moment>,
    last: Option<Moment>,
    form: Option<String>,
}

#[derive(Template)]
#[template(path = "spares.html")]
struct Spares {
    spares: Vec<Spare>,
    arrays: Vec<Covered>,
}

struct Spare {
    name: String,
    link: String,
    badge: Badge<WellBeing>,
    about: String,
    form: Vec<String>,
}

struct Covered {
    volumes: Vec<(String, String)>,
    badge: Badge<WellBeing>,
    about: String,
}

#[derive(Template)]
#[template(path = "alarm.html")]
struct Alarm {
    said: String,
    forms: Vec<String>,
}

#[derive(Template)]
#[template(path = "channels.html")]
struct Channels {
    refusal: Option<String>,
    channels: Vec<Channel>,
}

struct Channel {
    name: String,
    target: String,
    about: String,
    problem: Option<String>,
    forms: Vec<String>,
}

#[derive(Template)]
#[template(path = "accounts.html")]
struct Accounts {
    refusal: Option<String>,
    accounts: Vec<Account>,
    add: Vec<String>,
}

struct Account {
    name: String,
    about: String,
    forms: Vec<String>,
}

#[derive(Template)]
#[template(path = "machine.html")]
struct Machine {
    certificate: Option<String>,
    started: Moment,
    serial: String,
}

/// Additional queries of the page.
pub(crate) fn questions() -> Vec<Command> {
    vec![Command::ScheduleList {}]
}

pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str) -> Vec<Part> {
    let upkeep = world.upkeep.clone().unwrap_or_default();
    let machine = Machine {
        certificate: upkeep.certificate.clone(),
        started: Moment { at_s: world.info.started_unix_s, now_s: world.now_unix_s },
        serial: world.info.serial.clone(),
    };
    vec![
        Part::new("schedules", &schedules(world, viewer, back)),
        Part::new("spares", &spares(world, viewer, back)),
        Part::new("alarm", &alarm(world, viewer, back)),
        Part::new("channels", &channels(world, viewer, back, &upkeep)),
        Part::new("accounts", &accounts(world, viewer, back, &upkeep)),
        Part::new("machine", &machine),
    ]
}

fn schedules(world: &World, viewer: &Viewer, back: &str) -> Schedules {
    match world.answer(&Command::ScheduleList {}) {
        Some(Ok(Reply::Schedules { schedules })) => Schedules {
            schedules: schedules.iter().map(|one| schedule(world, viewer, back, one)).collect(),
            refusal: None,
        },
        Some(Err(error)) => {
            Schedules { schedules: Vec::new(), refusal: Some(sentence(&error.message)) }
        }
        _ => Schedules { schedules: Vec::new(), refusal: Some("Not available.".to_owned()) },
    }
}

fn schedule(world: &World, viewer: &Viewer, back: &str, schedule: &ScheduleInfo) -> Schedule {
    let moment = |at_s| Moment { at_s, now_s: world.now_unix_s };
    let (days, at) = (schedule.every_days.to_string(), time_of_day(schedule.at_s));
    let on = if schedule.on { "on" } else { "off" };
    let said = [("on", on), ("every", days.as_str()), ("at", at.as_str())];
    let (name, verb, of) = match (&schedule.what, &schedule.volume) {
        (Scheduled::Check, Some(volume)) => {
            (format!("Check of {volume}"), "schedule-check", volume.as_str())
        }
        (Scheduled::Check, None) => ("Check".to_owned(), "schedule-check", ""),
        (Scheduled::Patrol, _) => ("Patrol read of all drives".to_owned(), "schedule-patrol", ""),
    };
    let when = match schedule.on {
        false => "off".to_owned(),
        true => format!("every {}, at {at} UTC", units::counted(schedule.every_days, "day")),
    };
    Schedule {
        name,
        when,
        next: schedule.next_unix_s.map(moment),
        last: schedule.last_unix_s.map(moment),
        form: deed::form(world, viewer, back, of, verb, &said),
    }
}

/// Seconds of the day as `HH:MM`.
fn time_of_day(seconds: u32) -> String {
    format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

fn spares(world: &World, viewer: &Viewer, back: &str) -> Spares {
    let spare = |spare: &controller::SpareInfo| {
        let size = spare.size_bytes.map(|size| both_capacities(ByteCount(size)));
        let covers = match spare.covers.is_empty() {
            true => "covers no array".to_owned(),
            false => format!("covers {}", spare.covers.join(", ")),
        };
        let stays = (!spare.revertible).then(|| "becomes a permanent member".to_owned());
        let about: Vec<String> =
            [Some(spare.kind.to_string()), size, Some(covers), stays, spare.reason.clone()]
                .into_iter()
                .flatten()
                .collect();
        Spare {
            name: spare.drive.clone(),
            link: drive_page(&spare.drive),
            badge: Badge(if spare.ready { WellBeing::Ok } else { WellBeing::Warning }),
            about: about.join(", "),
            form: deed::forms(world, viewer, back, &spare.drive, &["spare-remove"]),
        }
    };
    let covered = |array: &controller::CoverageInfo| Covered {
        volumes: array.volumes.iter().map(|name| (name.clone(), volume_page(name))).collect(),
        badge: Badge(if array.covered_by.is_empty() { WellBeing::Warning } else { WellBeing::Ok }),
        about: match array.covered_by.first() {
            Some(first) => format!("covered, first by {first}."),
            None => format!(
                "not covered; a spare needs at least {}.{}",
                both_capacities(ByteCount(array.needs_bytes)),
                array
                    .reasons
                    .iter()
                    .map(|reason| format!(" {}", sentence(reason)))
                    .collect::<String>()
            ),
        },
    };
    Spares {
        spares: world.spares.iter().map(spare).collect(),
        arrays: world.coverage.iter().map(covered).collect(),
    }
}

fn alarm(world: &World, viewer: &Viewer, back: &str) -> Alarm {
    let alarm = &world.info.alarm;
    let because = alarm.because.as_deref().unwrap_or("a component failed");
    let said = match (alarm.on, alarm.sounds) {
        (_, true) => format!("▲ Sounding. {}", sentence(because)),
        (true, false) => "On and silent: no new failure.".to_owned(),
        (false, false) => "▲ Off: silent on any failure.".to_owned(),
    };
    let verbs: &[&str] = match (alarm.on, alarm.sounds) {
        (_, true) => &["alarm-silence", "alarm-off"],
        (true, false) => &["alarm-off"],
        (false, false) => &["alarm-on"],
    };
    Alarm { said, forms: deed::forms(world, viewer, back, "", verbs) }
}

/// Why the viewer cannot see this part.
fn refusal(viewer: &Viewer, action: Action) -> Option<String> {
    viewer.caller.may(action).err().map(|error| sentence(&error.message))
}

fn channels(world: &World, viewer: &Viewer, back: &str, upkeep: &Upkeep) -> Channels {
    let channel = |channel: &crate::Channel| Channel {
        name: channel.name.clone(),
        target: channel.target.clone(),
        about: format!(
            "{} and worse; {} queued",
            channel.severity,
            units::counted(channel.waiting, "message")
        ),
        problem: channel.problem.as_deref().map(sentence),
        forms: deed::forms(world, viewer, back, &channel.name, &["notify-test", "notify-remove"]),
    };
    Channels {
        refusal: refusal(viewer, Action::Notifications),
        channels: upkeep.channels.iter().map(channel).collect(),
    }
}

fn accounts(world: &World, viewer: &Viewer, back: &str, upkeep: &Upkeep) -> Accounts {
    let refusal = refusal(viewer, Action::Accounts);
    let add = match refusal {
        Some(_) => Vec::new(),
        None => deed::forms(world, viewer, back, "", &["account-add"]),
    };
    Accounts {
        refusal,
        accounts: upkeep.accounts.iter().map(|one| account(world, viewer, back, one)).collect(),
        add,
    }
}

fn account(world: &World, viewer: &Viewer, back: &str, account: &AccountInfo) -> Account {
    let mut about = vec![account.role.to_string()];
    about.push(if account.enabled { "enabled" } else { "▲ disabled" }.to_owned());
    about.extend(account.must_change.then(|| "password change required".to_owned()));
    about.extend(account.locked_s.map(|left| {
        let from = account.locked_from.join(", ");
        format!("▲ locked for {} for {from}", crate::words::duration(left))
    }));
    let mut verbs = vec![if account.enabled { "account-disable" } else { "account-enable" }];
    verbs.extend(account.locked_s.map(|_| "account-unlock"));
    verbs.extend(["account-password", "account-remove"]);
    let mut forms = deed::forms(world, viewer, back, &account.name, &verbs);
    let role = [("role", account.role.name())];
    forms.extend(deed::form(world, viewer, back, &account.name, "account-role", &role));
    Account { name: account.name.clone(), about: about.join(", "), forms }
}
