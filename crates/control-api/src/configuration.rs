//! `/v1/configuration`: the configuration as a document (crate `config`), and its restore.
//!
//! A restore compares, executes the steps of the lowest phase, and compares again: a new drive may
//! bring volumes, and a new volume may be the one of a spare. Each step is tried once. Completed
//! steps are durable; repeat an interrupted restore.

use crate::account_routes::made_password;
use crate::desk::{AppState, refuse, refused};
use crate::notify::{StoredChannel, office};
use crate::routes::CallerExtension;
use access::{AccountChange, Action, Caller};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use config::{
    Current, Difference, Document, Finding, Notification, Options, Step, Subscription, compare,
};
use controller::{Command, Error, ErrorKind, Reply, Result};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// Maximum length of a document: 64 arrays of 128 drives need a third of it.
const LONGEST_DOCUMENT: usize = 4 << 20;

/// Maximum number of rounds of a restore. Each phase needs one, and another one if it adds objects.
const MOST_ROUNDS: usize = 32;

/// Replies about the configuration. In JSON, an object with its kind under `reply`, like those of
/// the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ConfigReply {
    /// The current configuration.
    Configuration {
        /// The document.
        document: Box<Document>,
    },
    /// The differences of a document from the current configuration, or from that before the
    /// restore.
    Differences {
        /// Whether nothing was changed.
        dry_run: bool,
        /// The differences.
        differences: Vec<Difference>,
        /// Further steps for the operator, one sentence each.
        notes: Vec<String>,
    },
}

/// A request to restore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    document: Document,
    /// Only compare.
    #[serde(default)]
    dry_run: bool,
    /// Create missing volumes on their former drives, if these are unused.
    #[serde(default)]
    create: bool,
}

pub(crate) fn router() -> Router<AppState> {
    let route = get(save).post(restore).layer(DefaultBodyLimit::max(LONGEST_DOCUMENT));
    Router::new().route("/v1/configuration", route)
}

fn answered(answer: Result<ConfigReply>) -> Response {
    match answer {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}

async fn save(State(desk): State<AppState>, Extension(caller): CallerExtension) -> Response {
    answered(saved(&desk, &caller).await)
}

async fn saved(desk: &AppState, caller: &Caller) -> Result<ConfigReply> {
    caller.may(Action::Configuration)?;
    let now = current(desk).await?;
    let at =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(ConfigReply::Configuration { document: Box::new(Document::of(&now, units::utc(at))) })
}

async fn restore(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    body: std::result::Result<Json<Restore>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(order)) => answered(restored(&desk, &caller, order).await),
        Err(rejection) => {
            let what = rejection.body_text();
            refuse(
                ErrorKind::Invalid,
                &format!("not a saved configuration: {what}; see docs/operate/config.md"),
            )
        }
    }
}

async fn restored(desk: &AppState, caller: &Caller, order: Restore) -> Result<ConfigReply> {
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
        let sentence = "a restore of a configuration is running; wait for its end";
        return Err(Error::new(ErrorKind::Busy, sentence));
    };
    let (done, left) = carried_out(desk, caller, &document, options).await?;
    let applied = done.iter().filter(|finding| finding.difference.applied);
    let notes = notes(applied.filter_map(|finding| finding.step.as_ref()));
    let differences = done.into_iter().chain(left).map(|finding| finding.difference).collect();
    Ok(ConfigReply::Differences { dry_run, differences, notes })
}

/// Executes the steps; returns their results and the remaining differences.
async fn carried_out(
    desk: &AppState,
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
            // Several differences may have the same step.
            let before =
                tried.iter().find(|(one, _)| *one == step).map(|(_, failure)| failure.clone());
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
        "the configuration changed during the restore; repeat it without concurrent changes";
    Err(Error::new(ErrorKind::Busy, sentence))
}

/// Marks completed steps whose difference remains.
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
                Some("the controller accepted the step, but the difference remains".to_owned());
        }
    }
}

/// Executes a step.
async fn take(desk: &AppState, caller: &Caller, step: &Step) -> Result<()> {
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
            let kept = StoredChannel { channel: channel.clone(), secret: None };
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

/// Further steps for the operator, because secrets are not saved.
fn notes<'s>(steps: impl Iterator<Item = &'s Step>) -> Vec<String> {
    let made = |step: &Step| match step {
        Step::Account { name, is_new: true, .. } => Some(format!(
            "passwords are not saved: the account '{name}' has none; generate one with 'softroc \
             account set {name} --new-password'"
        )),
        _ => None,
    };
    steps.filter_map(made).collect()
}

/// The current configuration.
async fn current(desk: &AppState) -> Result<Current> {
    desk.keeper.check()?;
    let unexpected =
        || Error::new(ErrorKind::Failed, "the controller sent an unexpected reply; see its log");
    let Reply::Info { info } = desk.look(Command::Info {}).await? else { return Err(unexpected()) };
    let Reply::Drives { drives } = desk.look(Command::DriveList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Volumes { volumes } = desk.look(Command::VolumeList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Spares { spares, .. } = desk.look(Command::SpareList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Logs { logs, .. } = desk.look(Command::LogList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Schedules { schedules } = desk.look(Command::ScheduleList {}).await? else {
        return Err(unexpected());
    };
    let channels = desk.office.list().into_iter();
    let notifications =
        channels.map(|one| Notification { has_secret: one.has_secret, channel: one.channel });
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
