//! What can be done from a page: a command of the controller, its form, and the command line that does the same.

mod bench;
mod create;
mod drive;
mod policy;
mod upkeep;
mod volume;

pub(crate) use policy::{is_of_array, settable};

use crate::words::{Query, rendered, volume_page};
use crate::{Measure, Predict, Viewer, World};
use access::{Action, Role};
use askama::Template;
use controller::{Command, Error, ErrorKind, Result};

/// What somebody wants to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deed {
    /// What is asked, and of whom.
    pub order: Order,
    verb: &'static str,
    of: String,
    /// What the button says.
    label: String,
    /// The command line.
    cli: String,
    /// What is chosen or typed.
    fields: Vec<Field>,
    /// What alone may be typed into the field `word`.
    only: Option<String>,
}

/// Something that is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Of the controller.
    Command(Command),
    /// Send a test to a channel of notifications.
    TestChannel(String),
    /// Remove a channel, and what waits for it.
    RemoveChannel(String),
    /// A new account, whose password is made and told once.
    AddAccount(String, Role),
    /// Whether an account may be used.
    EnableAccount(String, bool),
    /// End a lock.
    UnlockAccount(String),
    /// Another role.
    SetRole(String, Role),
    /// Another password, which is made and told once.
    NewPassword(String),
    /// Remove an account.
    RemoveAccount(String),
    /// Measure a volume.
    Measure(Measure),
    /// Stop the measurement that runs.
    StopMeasuring,
    /// Predict what a server would do.
    Predict(Predict),
    /// Stop the prediction that runs.
    StopPredicting,
}

impl Order {
    /// What it wants to do.
    pub fn action(&self) -> Action {
        match self {
            Order::Command(command) => Action::of(command),
            Order::TestChannel(_) | Order::RemoveChannel(_) => Action::Notifications,
            Order::AddAccount(..)
            | Order::EnableAccount(..)
            | Order::UnlockAccount(_)
            | Order::SetRole(..)
            | Order::NewPassword(_)
            | Order::RemoveAccount(_) => Action::Accounts,
            Order::Measure(Measure { destroy_data: true, .. }) => Action::BenchmarkWrites,
            Order::Measure(_) | Order::StopMeasuring | Order::Predict(_) | Order::StopPredicting => {
                Action::Benchmark
            }
        }
    }
}

/// Something that a form asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    name: &'static str,
    label: String,
    kind: Kind,
}

/// How it is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// It has to be typed.
    Typed,
    /// It may be typed.
    MayType,
    /// A box to be ticked.
    Tick,
    /// It may be changed.
    Filled(String),
    /// One of these, of which one is chosen at first.
    Chosen(Vec<&'static str>, String),
    /// One of these: what is sent, and what is shown. One is chosen at first.
    Named(Vec<(String, String)>, String),
    /// It is not asked: the page says it.
    Said(String),
}

impl Field {
    fn typed(name: &'static str, label: impl Into<String>) -> Field {
        Field { name, label: label.into(), kind: Kind::Typed }
    }

    fn may_type(name: &'static str, label: &str) -> Field {
        Field { name, label: label.to_owned(), kind: Kind::MayType }
    }

    fn named(name: &'static str, label: &str, all: Vec<(String, String)>, first: &str) -> Field {
        Field { name, label: label.to_owned(), kind: Kind::Named(all, first.to_owned()) }
    }

    fn tick(name: &'static str, label: impl Into<String>) -> Field {
        Field { name, label: label.into(), kind: Kind::Tick }
    }

    fn filled(name: &'static str, label: &str, value: impl Into<String>) -> Field {
        Field { name, label: label.to_owned(), kind: Kind::Filled(value.into()) }
    }

    fn chosen(name: &'static str, label: &str, all: Vec<&'static str>, first: impl Into<String>) -> Field {
        Field { name, label: label.to_owned(), kind: Kind::Chosen(all, first.into()) }
    }

    fn said(name: &'static str, value: impl Into<String>) -> Field {
        Field { name, label: String::new(), kind: Kind::Said(value.into()) }
    }
}

/// Everything that can be done from a page.
pub(crate) const VERBS: &[&str] = &[
    "alarm-silence",
    "task-pause",
    "task-resume",
    "task-stop",
    "check",
    "repair",
    "flush",
    "start",
    "rename",
    "delete",
    "locate-on",
    "locate-off",
    "online",
    "resume",
    "clear-failed",
    "forget",
    "spare-add",
    "spare-remove",
    "replace",
    "create",
    "policy",
    "alarm-on",
    "alarm-off",
    "schedule-patrol",
    "schedule-check",
    "notify-test",
    "notify-remove",
    "account-add",
    "account-enable",
    "account-disable",
    "account-unlock",
    "account-role",
    "account-password",
    "account-remove",
    "bench-run",
    "bench-stop",
    "predict-run",
    "predict-stop",
];

/// What a form sent besides the verb, or what a page fills a form with.
struct Asked<'q>(&'q Query);

impl Asked<'_> {
    /// What was typed or chosen; nothing where it was not.
    fn word(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_default().trim()
    }

    /// The same; `None` where the form has no such field.
    fn sent(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(str::trim)
    }

    /// All that was said under a name.
    fn words(&self, name: &str) -> Vec<String> {
        self.0.all(name).into_iter().map(str::to_owned).collect()
    }

    /// Whether a box was ticked.
    fn is_ticked(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }
}

impl Deed {
    /// What a form asks for, in the fields that it sent.
    ///
    /// # Errors
    /// `NotFound` if there is no such verb; `Invalid` if what had to be typed was not.
    pub fn read(sent: &Query, world: &World) -> Result<Deed> {
        let of = |name| sent.get(name).unwrap_or_default();
        let deed = Deed::of(world, of("verb"), of("of"), sent)?;
        match &deed.only {
            Some(only) if only != of("word").trim() => {
                let sentence = format!("type '{only}' for '{}'; nothing was done", deed.label);
                Err(Error::new(ErrorKind::Invalid, sentence))
            }
            _ => Ok(deed),
        }
    }

    /// The address of the page that is shown when it is accepted: the one from which it was asked, unless that goes with it.
    pub fn then(&self, back: &str) -> String {
        let goes = matches!(
            self.order,
            Order::Command(
                Command::VolumeDelete { .. } | Command::DriveForget { .. } | Command::VolumeSet { .. }
            )
        );
        let made = match &self.order {
            Order::Command(Command::VolumeCreate(create)) => Some(volume_page(&create.name)),
            _ => None,
        };
        let back = match &made {
            Some(page) => page,
            None if goes => "/console/",
            None => back,
        };
        let sign = if back.contains('?') { '&' } else { '?' };
        format!("{back}{sign}asked={}", self.verb)
    }

    fn of(world: &World, verb: &str, of: &str, sent: &Query) -> Result<Deed> {
        let asked = Asked(sent);
        let deed = match verb.split('-').next().unwrap_or_default() {
            "alarm" => upkeep::alarm(verb),
            "schedule" => upkeep::schedule(verb, of, &asked)?,
            "notify" => upkeep::channel(verb, of),
            "account" => upkeep::account(verb, of, &asked)?,
            "task" => of_task(verb, of)?,
            "create" => Some(create::create(of, &asked)?),
            "policy" => Some(policy::policy(world, of, &asked)?),
            "replace" => Some(drive::replace(world, of, &asked)),
            "bench" => bench::bench(world, verb, of, &asked)?,
            "predict" => bench::predict(world, verb, of, &asked)?,
            _ => volume::of_volume(verb, of, &asked).or_else(|| drive::of_drive(verb, of)),
        };
        let unknown = || {
            let sentence = format!("there is no '{verb}' in the console; 'softroc help' lists what there is");
            Error::new(ErrorKind::NotFound, sentence)
        };
        deed.ok_or_else(unknown)
    }

    /// Its form, on a page of that address.
    fn form(&self, viewer: &Viewer, back: &str) -> String {
        let refusal = viewer.caller.may(self.order.action()).err();
        let fields = match self.verb {
            "policy" => policy::offered(viewer, &self.of, &self.fields),
            _ => self.fields.clone(),
        };
        rendered(&Form {
            deed: self,
            fields: &fields,
            token: &viewer.token,
            back,
            refusal: refusal.map(|error| error.message),
        })
    }
}

/// The forms of several deeds. A verb that there is not is a mistake of this room, which its tests find.
pub(crate) fn forms(world: &World, viewer: &Viewer, back: &str, of: &str, verbs: &[&str]) -> Vec<String> {
    verbs.iter().filter_map(|verb| form(world, viewer, back, of, verb, &[])).collect()
}

/// The form of one deed, of which the page says a part.
pub(crate) fn form(
    world: &World,
    viewer: &Viewer,
    back: &str,
    of: &str,
    verb: &str,
    said: &[(&str, &str)],
) -> Option<String> {
    let said = said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Deed::of(world, verb, of, &Query(said)).ok().map(|deed| deed.form(viewer, back))
}

#[derive(Template)]
#[template(path = "deed.html")]
struct Form<'d> {
    deed: &'d Deed,
    /// Its fields, as far as they are for whoever looks.
    fields: &'d [Field],
    token: &'d str,
    back: &'d str,
    /// Why whoever looks may not.
    refusal: Option<String>,
}

fn deed(verb: &'static str, of: &str, label: String, command: Command, cli: String) -> Deed {
    let order = Order::Command(command);
    Deed { order, verb, of: of.to_owned(), label, cli, fields: Vec::new(), only: None }
}

fn of_task(verb: &str, of: &str) -> Result<Option<Deed>> {
    let wrong = || {
        let sentence = format!("'{of}' is no number of a task; 'softroc task list' has them");
        Error::new(ErrorKind::Invalid, sentence)
    };
    let task: u64 = of.parse().map_err(|_| wrong())?;
    let (verb, word, label, command) = match verb {
        "task-pause" => ("task-pause", "pause", "Pause", Command::TaskPause { task }),
        "task-resume" => ("task-resume", "resume", "Resume", Command::TaskResume { task }),
        "task-stop" => ("task-stop", "stop", "Stop", Command::TaskStop { task }),
        _ => return Ok(None),
    };
    let cli = format!("softroc task {word} {task}");
    Ok(Some(deed(verb, of, format!("{label} task {task}"), command, cli)))
}
