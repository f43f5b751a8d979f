//! Actions of pages: a controller command, its form, and the equivalent command line.

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

/// A requested action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsoleAction {
    /// The requested operation.
    pub order: Order,
    verb: &'static str,
    of: String,
    /// The label of the button.
    label: String,
    /// The command line.
    cli: String,
    /// The form fields.
    fields: Vec<Field>,
    /// The only accepted value of the field `word`.
    only: Option<String>,
}

/// The operation of an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// A controller command.
    Command(Command),
    /// Send a test to a notification channel.
    TestChannel(String),
    /// Remove a channel and its queued messages.
    RemoveChannel(String),
    /// Add an account. Its generated password is shown once.
    AddAccount(String, Role),
    /// Enable or disable an account.
    EnableAccount(String, bool),
    /// Unlock an account.
    UnlockAccount(String),
    /// Change the role.
    SetRole(String, Role),
    /// Set a generated password, which is shown once.
    NewPassword(String),
    /// Remove an account.
    RemoveAccount(String),
    /// Measure a volume.
    Measure(Measure),
    /// Stop the measurement that runs.
    StopMeasuring,
    /// Predict a controller's performance.
    Predict(Predict),
    /// Stop the prediction that runs.
    StopPredicting,
}

impl Order {
    /// The permission that the operation needs.
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
            Order::Measure(_)
            | Order::StopMeasuring
            | Order::Predict(_)
            | Order::StopPredicting => Action::Benchmark,
        }
    }
}

/// A field of a form.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    name: &'static str,
    label: String,
    kind: Kind,
}

/// The kind of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// Text, required.
    Typed,
    /// Text, optional.
    MayType,
    /// A checkbox.
    Tick,
    /// Text with an initial value.
    Filled(String),
    /// A selection, with the initial value.
    Chosen(Vec<&'static str>, String),
    /// A selection of values with labels, with the initial value.
    Named(Vec<(String, String)>, String),
    /// A hidden value of the page.
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

    fn chosen(
        name: &'static str,
        label: &str,
        all: Vec<&'static str>,
        first: impl Into<String>,
    ) -> Field {
        Field { name, label: label.to_owned(), kind: Kind::Chosen(all, first.into()) }
    }

    fn said(name: &'static str, value: impl Into<String>) -> Field {
        Field { name, label: String::new(), kind: Kind::Said(value.into()) }
    }
}

/// All actions of pages.
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

/// The submitted fields of a form, or the initial ones of a page.
struct FormValues<'q>(&'q Query);

impl FormValues<'_> {
    /// The value of a field; empty if it is absent.
    fn word(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_default().trim()
    }

    /// The value of a field; `None` if it is absent.
    fn sent(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(str::trim)
    }

    /// All values of a field.
    fn words(&self, name: &str) -> Vec<String> {
        self.0.all(name).into_iter().map(str::to_owned).collect()
    }

    /// Whether a checkbox is set.
    fn is_ticked(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }
}

impl ConsoleAction {
    /// Parses the submitted fields of a form.
    ///
    /// # Errors
    /// `NotFound` for an unknown action; `Invalid` if the confirmation does not match.
    pub fn read(sent: &Query, world: &World) -> Result<ConsoleAction> {
        let of = |name| sent.get(name).unwrap_or_default();
        let deed = ConsoleAction::of(world, of("verb"), of("of"), sent)?;
        match &deed.only {
            Some(only) if only != of("word").trim() => {
                let sentence =
                    format!("type '{only}' to confirm '{}'; nothing was changed", deed.label);
                Err(Error::new(ErrorKind::Invalid, sentence))
            }
            _ => Ok(deed),
        }
    }

    /// The page to show after success: the current one, unless the action removes its subject.
    pub fn then(&self, back: &str) -> String {
        let goes = matches!(
            self.order,
            Order::Command(
                Command::VolumeDelete { .. }
                    | Command::DriveForget { .. }
                    | Command::VolumeSet { .. }
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

    fn of(world: &World, verb: &str, of: &str, sent: &Query) -> Result<ConsoleAction> {
        let asked = FormValues(sent);
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
            let sentence =
                format!("the console has no action '{verb}'; 'softroc help' lists the commands");
            Error::new(ErrorKind::NotFound, sentence)
        };
        deed.ok_or_else(unknown)
    }

    /// The form, on the page `back`.
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

/// The forms of several actions. An unknown action is a defect in this crate; tests find it.
pub(crate) fn forms(
    world: &World,
    viewer: &Viewer,
    back: &str,
    of: &str,
    verbs: &[&str],
) -> Vec<String> {
    verbs.iter().filter_map(|verb| form(world, viewer, back, of, verb, &[])).collect()
}

/// The form of one action with values of the page.
pub(crate) fn form(
    world: &World,
    viewer: &Viewer,
    back: &str,
    of: &str,
    verb: &str,
    said: &[(&str, &str)],
) -> Option<String> {
    let said = said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ConsoleAction::of(world, verb, of, &Query(said)).ok().map(|deed| deed.form(viewer, back))
}

#[derive(Template)]
#[template(path = "deed.html")]
struct Form<'d> {
    deed: &'d ConsoleAction,
    /// The fields that the viewer may use.
    fields: &'d [Field],
    token: &'d str,
    back: &'d str,
    /// Why the viewer may not use the form.
    refusal: Option<String>,
}

fn deed(
    verb: &'static str,
    of: &str,
    label: String,
    command: Command,
    cli: String,
) -> ConsoleAction {
    let order = Order::Command(command);
    ConsoleAction { order, verb, of: of.to_owned(), label, cli, fields: Vec::new(), only: None }
}

fn of_task(verb: &str, of: &str) -> Result<Option<ConsoleAction>> {
    let wrong = || {
        let sentence = format!("'{of}' is not a task number; 'softroc task list' shows them");
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
