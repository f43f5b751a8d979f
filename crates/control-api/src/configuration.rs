//! `/v1/configuration`: what is configured, as a document (crate `config`), and a document restored.
//!
//! A restore compares, carries out the steps of the lowest phase, and compares again: a drive that is registered may bring volumes
//! with it, and a volume that is created may be the one that a spare is for. Each step is tried once. What was carried out
//! is durable by then; a restore that is cut off is simply given again.

use crate::account_routes::made_password;
use crate::desk::{Desk, refuse, refused};
use crate::notify::{Kept, office};
use crate::routes::Who;
use access::{AccountChange, Action, Caller};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use config::{Current, Difference, Document, Finding, Notification, Options, Step, Subscription, compare};
use controller::{Command, Error, ErrorKind, Reply, Result};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The most bytes of a document: 64 arrays of 128 drives take a third of it.
const LONGEST_DOCUMENT: usize = 4 << 20;

/// Rounds of a restore. Each phase takes one, and one more where it brings something new.
const MOST_ROUNDS: usize = 32;

/// The answers about the configuration. In JSON an object with its kind under `reply`, as those of the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ConfigReply {
    /// What is configured.
    Configuration {
        /// The document.
        document: Box<Document>,
    },
    /// How a document differs from what there is, or differed before it was restored.
    Differences {
        /// Whether nothing was changed.
        dry_run: bool,
        /// One entry for each.
        differences: Vec<Difference>,
        /// What else has to be done, a sentence each.
        notes: Vec<String>,
    },
}

/// An order to restore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    document: Document,
    /// Only compare.
    #[serde(default)]
    dry_run: bool,
    /// Create volumes that are not found, on the drives that they had, if these are unused.
    #[serde(default)]
    create: bool,
}

pub(crate) fn router() -> Router<Desk> {
    let route = get(save).post(restore).layer(DefaultBodyLimit::max(LONGEST_DOCUMENT));
    Router::new().route("/v1/configuration", route)
}

fn answered(answer: Result<ConfigReply>) -> Response {
    match answer {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}

async fn save(State(desk): State<Desk>, Extension(caller): Who) -> Response {
    answered(saved(&desk, &caller).await)
}

async fn saved(desk: &Desk, caller: &Caller) -> Result<ConfigReply> {
    caller.may(Action::Configuration)?;
    let now = current(desk).await?;
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(ConfigReply::Configuration { document: Box::new(Document::of(&now, units::utc(at))) })
}

async fn restore(
    State(desk): State<Desk>,
    Extension(caller): Who,
    body: std::result::Result<Json<Restore>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(order)) => answered(restored(&desk, &caller, order).await),
        Err(rejection) => {
            let what = rejection.body_text();
            refuse(
                ErrorKind::Invalid,
                &format!("that is no saved configuration: {what}; see docs/operate/config.md"),
            )
        }
    }
}

async fn restored(desk: &Desk, caller: &Caller, order: Restore) -> Result<ConfigReply> {
    caller.may(Action::Configuration)?;
    let Restore { document, dry_run, create } = order;
    document.check()?;
    let options = Options { create };
    if dry_run {
        let found = compare(&document, &current(desk).await?, options);
        let notes = notes(found.iter().filter_map(|finding| finding.step.as_ref()));
        let differences = found.into_iter().map(|finding| finding.difference).collect();
        return Ok(ConfigReply::Differences { dry_run, differences, notes });
    }
    let Ok(_one_at_a_time) = desk.restoring.try_acquire() else {
        let sentence = "a configuration is being restored already; wait until that is done";
        return Err(Error::new(ErrorKind::Busy, sentence));
    };
    let (done, left) = carried_out(desk, caller, &document, options).await?;
    let applied = done.iter().filter(|finding| finding.difference.applied);
    let notes = notes(applied.filter_map(|finding| finding.step.as_ref()));
    let differences = done.into_iter().chain(left).map(|finding| finding.difference).collect();
    Ok(ConfigReply::Differences { dry_run, differences, notes })
}

/// Carries out the steps: what was tried, and the differences that stay.
async fn carried_out(
    desk: &Desk,
    caller: &Caller,
    document: &Document,
    options: Options,
) -> Result<(Vec<Finding>, Vec<Finding>)> {
    let mut done: Vec<Finding> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let found = compare(document, &current(desk).await?, options);
        let was_tried = |finding: &Finding| done.iter().any(|tried| tried.step == finding.step);
        let (mut open, rest): (Vec<Finding>, Vec<Finding>) =
            found.into_iter().partition(|finding| finding.step.is_some() && !was_tried(finding));
        let phase = |finding: &Finding| finding.step.as_ref().map(Step::phase);
        let Some(next) = open.iter().filter_map(phase).min() else {
            note_unchanged(&mut done, &rest);
            return Ok((done, rest.into_iter().filter(|finding| finding.step.is_none()).collect()));
        };
        open.retain(|finding| phase(finding) == Some(next));
        let mut tried: Vec<(Step, Option<String>)> = Vec::new();
        for mut finding in open {
            let Some(step) = finding.step.clone() else { continue };
            // Several differences may have one step.
            let before = tried.iter().find(|(one, _)| *one == step).map(|(_, failure)| failure.clone());
            let failure = match before {
                Some(failure) => failure,
                None => take(desk, caller, &step).await.err().map(|error| error.message),
            };
            tried.push((step, failure.clone()));
            (finding.difference.applied, finding.difference.failure) = (failure.is_none(), failure);
            done.push(finding);
        }
    }
    let sentence =
        "the configuration changes while it is restored; give the order again when nobody else changes it";
    Err(Error::new(ErrorKind::Busy, sentence))
}

/// A step that was carried out, and whose difference is still there, has not done what it should.
fn note_unchanged(done: &mut [Finding], left: &[Finding]) {
    for finding in done.iter_mut().filter(|finding| finding.difference.applied) {
        let of = &finding.difference;
        let is_there = |other: &Finding| {
            let there = &other.difference;
            (&there.about, &there.what, &there.file) == (&of.about, &of.what, &of.file)
        };
        if left.iter().any(is_there) {
            finding.difference.applied = false;
            finding.difference.failure =
                Some("the controller took the order, and the difference is still there".to_owned());
        }
    }
}

/// Carries out a step.
async fn take(desk: &Desk, caller: &Caller, step: &Step) -> Result<()> {
    match step {
        Step::Command(command) => desk.ask(caller, command.clone()).await.map(drop),
        Step::Account { name, role, enabled, is_new } => {
            caller.may(Action::Accounts)?;
            let mut change = AccountChange { enabled: Some(*enabled), ..AccountChange::default() };
            if *is_new {
                desk.keeper.add(&caller.named(), name, *role, &made_password()?, true).await?;
            } else {
                change.role = Some(*role);
            }
            if !is_new || !enabled {
                desk.keeper.set(caller, name, change, None).await?;
            }
            Ok(())
        }
        Step::Channel(channel) => {
            caller.may(Action::Notifications)?;
            let kept = Kept { channel: channel.clone(), secret: None };
            office::set(desk, caller, kept).await.map(drop)
        }
        Step::Subscription(Subscription { destination, context, verify_certificate }) => {
            caller.may(Action::Subscriptions)?;
            let made = desk.subscriptions.add(destination, context, *verify_certificate)?;
            crate::events::push(desk, &made);
            Ok(())
        }
    }
}

/// What has to be done after these steps, as secrets are not saved.
fn notes<'s>(steps: impl Iterator<Item = &'s Step>) -> Vec<String> {
    let made = |step: &Step| match step {
        Step::Account { name, is_new: true, .. } => Some(format!(
            "passwords are not saved: nobody knows that of the account '{name}'; make one with 'softroc account set {name} --new-password'"
        )),
        _ => None,
    };
    steps.filter_map(made).collect()
}

/// Everything that is configured.
async fn current(desk: &Desk) -> Result<Current> {
    desk.keeper.check()?;
    let unexpected =
        || Error::new(ErrorKind::Failed, "the controller's answer is another one; look at its log");
    let Reply::Info { info } = desk.look(Command::Info {}).await? else { return Err(unexpected()) };
    let Reply::Drives { drives } = desk.look(Command::DriveList {}).await? else { return Err(unexpected()) };
    let Reply::Volumes { volumes } = desk.look(Command::VolumeList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Spares { spares, .. } = desk.look(Command::SpareList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Logs { logs, .. } = desk.look(Command::LogList {}).await? else { return Err(unexpected()) };
    let Reply::Schedules { schedules } = desk.look(Command::ScheduleList {}).await? else {
        return Err(unexpected());
    };
    let channels = desk.office.list().into_iter();
    let notifications = channels.map(|one| Notification { has_secret: one.has_secret, channel: one.channel });
    let subscriptions = desk.subscriptions.list().into_iter().map(|one| {
        let redfish::Subscription { id: _, destination, context, verify_certificate } = one;
        Subscription { destination, context, verify_certificate }
    });
    Ok(Current {
        info: *info,
        drives,
        volumes,
        spares,
        logs,
        schedules,
        notifications: notifications.collect(),
        subscriptions: subscriptions.collect(),
        accounts: desk.keeper.list(),
    })
}
