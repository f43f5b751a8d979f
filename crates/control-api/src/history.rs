//! Statistics history of volumes and drives (crate `history`): samples of the controller's counters
//! every ten seconds, and their queries at `/v1/history`.
//!
//! The file has its own thread. Neither the controller nor HTTP waits for it: samples that it
//! cannot take are handed over later, and queries have a timeout.

use crate::desk::{AppState, refuse, refused};
use crate::files;
use crate::routes::CallerExtension;
use access::{Action, Caller};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use controller::{
    Command, ControllerHandle, CountersInfo, DriveCounters, Error, ErrorKind, EventCode,
    Occurrence, Reply, Result, VolumeCounters, WorkInfo,
};
use history::{
    Counters, Done, History, Kind, Limits, Notice, OPERATIONS, Question, Reading, Series, Subject,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The file, in the state folder.
pub(crate) const FILE: &str = "history.db";

/// The sampling interval.
const EVERY: Duration = Duration::from_secs(10);

/// The interval until the first sample, so that early I/O is included.
const SOON: Duration = Duration::from_millis(200);

/// Number of samples between writes to the file: a kill loses less than a minute.
const LOOKS_OF_A_STORE: u64 = 3;

/// Time limit of a query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Retention time.
const LONGEST_S: u64 = 30 * 86_400;

/// Maximum number of concurrent queries.
pub(crate) const MOST_READERS: usize = 4;

/// Default number of points per series.
const POINTS: u64 = 60;

/// Maximum number of points per series: for all series, and for a single one.
const MOST_POINTS: [u64; 2] = [100, 1500];

/// The reply about the history. In JSON, an object with its kind under `reply`, like those of the
/// controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum HistoryReply {
    /// Statistics of volumes and drives.
    History {
        /// Start, in seconds since 1970.
        from_unix_s: u64,
        /// End.
        to_unix_s: u64,
        /// The interval of a point, in seconds.
        step_s: u64,
        /// Volumes by name.
        volumes: Vec<Series>,
        /// Drives by name.
        drives: Vec<Series>,
    },
}

/// The query parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// The last seconds until now.
    since_s: Option<u64>,
    /// Only this volume.
    volume: Option<String>,
    /// Only this drive.
    drive: Option<String>,
    /// Only `volumes` or `drives`.
    of: Option<String>,
    /// Maximum number of points per series.
    points: Option<u64>,
}

/// Opens the history file of a state folder.
pub(crate) fn open(state: &Path, controller: &ControllerHandle) -> std::io::Result<History> {
    let controller = controller.clone();
    History::open(&state.join(FILE), Limits::default(), move |notice| tell(&controller, notice))
}

/// Reports problems of the file to the controller.
fn tell(controller: &ControllerHandle, notice: Notice) {
    let note = |code, cause: &str, effect: &str, text: String| {
        let (cause, effect) = (cause.to_owned(), effect.to_owned());
        controller.note(Occurrence {
            code,
            subject: FILE.to_owned(),
            cause,
            effect,
            text,
            by: None,
        });
    };
    match notice {
        Notice::SetAside { why, now_at } => {
            let sentence =
                format!("{FILE} in the state folder cannot be read: {why}; it is kept as {now_at}");
            files::tell_unreadable(
                controller,
                FILE,
                &why,
                "statistics of volumes and drives start over",
                &sentence,
            );
        }
        Notice::NotStored { why } => note(
            EventCode::ControllerStateNotStored,
            &why,
            "statistics of volumes and drives stay in memory only, for two hours",
            format!(
                "statistics of volumes and drives ({FILE}) cannot be stored in the state folder: \
                 {why}; hosts are not affected; free space there"
            ),
        ),
        Notice::StoredAgain => note(
            EventCode::ControllerStateStored,
            "space is available again",
            "statistics survive restarts again",
            format!("statistics of volumes and drives ({FILE}) are stored again"),
        ),
    }
}

/// Samples the counters until the controller has stopped.
pub(crate) async fn watch(desk: AppState) {
    let mut is_told = false;
    while let Err(error) = noted(&desk).await {
        if error.kind == ErrorKind::Stopping {
            return;
        }
        tokio::time::sleep(SOON).await;
    }
    for look in 1_u64.. {
        tokio::time::sleep(EVERY).await;
        match noted(&desk).await {
            Ok(left_out) => {
                if left_out > 0 && !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(
                        "no history for {left_out} volumes and drives: there are too many"
                    );
                }
            }
            Err(error) if error.kind == ErrorKind::Stopping => return,
            // The next sample includes this interval.
            Err(error) => tracing::debug!("a sample of the counters is missing: {error}"),
        }
        if look % LOOKS_OF_A_STORE == 0 {
            desk.history.store(crate::keeper::unix_time());
        }
    }
}

/// Takes a sample. Returns the number of volumes and drives that were left out.
async fn noted(desk: &AppState) -> Result<usize> {
    let Reply::Counters { counters } = desk.look(Command::Counters {}).await? else {
        return Err(Error::new(
            ErrorKind::Failed,
            "the controller sent an unexpected reply; see its log",
        ));
    };
    let (now_ns, readings) = (counters.taken_ns, readings(*counters));
    Ok(desk.history.note(crate::keeper::unix_time(), now_ns, &readings))
}

fn readings(counters: CountersInfo) -> Vec<Reading> {
    let volume = |of: VolumeCounters| Reading {
        subject: Subject { kind: Kind::Volume, key: of.uuid, name: of.name },
        counters: Counters {
            done: done(&of.work),
            cache_hits: of.cache_hits,
            cache_writes: of.cache_writes,
            temperature_c: None,
        },
    };
    let drive = |of: DriveCounters| Reading {
        subject: Subject { kind: Kind::Drive, key: of.identity, name: of.name },
        counters: Counters {
            done: done(&of.work),
            temperature_c: of.temperature_c,
            ..Counters::default()
        },
    };
    counters.volumes.into_iter().map(volume).chain(counters.drives.into_iter().map(drive)).collect()
}

/// In the controller's order of operations.
fn done(work: &[WorkInfo]) -> [Done; OPERATIONS] {
    let mut all = [Done::default(); OPERATIONS];
    for (of, work) in all.iter_mut().zip(work) {
        (of.failed, of.bytes, of.time_ns) = (work.failed, work.bytes, work.time_ns);
        of.buckets.iter_mut().zip(&work.buckets).for_each(|(bucket, count)| *bucket = *count);
    }
    all
}

pub(crate) fn router() -> Router<AppState> {
    Router::new().route("/v1/history", get(ask))
}

async fn ask(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    query: std::result::Result<Query<Asked>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(asked)) => match answer(&desk, &caller, asked).await {
            Ok(reply) => Json(reply).into_response(),
            Err(error) => refused(error),
        },
        Err(_) => refuse(
            ErrorKind::Invalid,
            "invalid query; expected for example ?since_s=86400&volume=data&points=24, see \
             docs/formats/http-api.md",
        ),
    }
}

async fn answer(desk: &AppState, caller: &Caller, asked: Asked) -> Result<HistoryReply> {
    caller.may(Action::Counters)?;
    let question = question(desk, asked).await?;
    // Includes the I/O since the last sample.
    noted(desk).await?;
    let Ok(_turn) = desk.asking.try_acquire() else {
        return Err(Error::new(
            ErrorKind::Busy,
            "too many concurrent history queries; try again in a moment",
        ));
    };
    let (history, asks) = (desk.history.clone(), question.clone());
    let read = tokio::task::spawn_blocking(move || history.ask(&asks));
    let failed =
        |why: String| Error::new(ErrorKind::Failed, format!("reading the history failed: {why}"));
    let late =
        || Error::new(ErrorKind::Busy, "reading the history file timed out; try again later");
    let read = tokio::time::timeout(PATIENCE, read).await.map_err(|_| late())?;
    let (step_s, series) = read.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let is_known = |(kind, name): (Kind, &String)| desk.history.knows(kind, name);
    if let (Some(name), true) = (&question.name, series.is_empty())
        && !question.kind.zip(question.name.as_ref()).is_some_and(is_known)
    {
        let sentence = format!(
            "there is no history of '{name}'; 'softroc volume list' and 'softroc drive list' list \
                the names"
        );
        return Err(Error::new(ErrorKind::NotFound, sentence));
    }
    let (volumes, drives): (Vec<_>, Vec<_>) =
        series.into_iter().partition(|(subject, _)| subject.kind == Kind::Volume);
    let alone = |of: Vec<(Subject, Series)>| of.into_iter().map(|(_, series)| series).collect();
    Ok(HistoryReply::History {
        from_unix_s: question.from_s,
        to_unix_s: question.to_s,
        step_s,
        volumes: alone(volumes),
        drives: alone(drives),
    })
}

async fn question(desk: &AppState, asked: Asked) -> Result<Question> {
    let invalid = |sentence: String| Err(Error::new(ErrorKind::Invalid, sentence));
    let Asked { since_s, volume, drive, of, points } = asked;
    let since_s = since_s.unwrap_or(86_400);
    if !(1..=LONGEST_S).contains(&since_s) {
        return invalid(format!("no history of {since_s} s; request 1 to {LONGEST_S} s (30 days)"));
    }
    let (kind, name) = match (volume, drive, of.as_deref()) {
        (Some(volume), None, None) => (Some(Kind::Volume), Some(uuid_of(desk, volume).await)),
        (None, Some(drive), None) => (Some(Kind::Drive), Some(name_of(desk, drive).await)),
        (None, None, Some("volumes")) => (Some(Kind::Volume), None),
        (None, None, Some("drives")) => (Some(Kind::Drive), None),
        (None, None, None) => (None, None),
        (None, None, Some(of)) => {
            return invalid(format!("'of' must be 'volumes' or 'drives', not '{of}'"));
        }
        _ => return invalid("give only one of 'volume', 'drive' and 'of'".to_owned()),
    };
    let most = MOST_POINTS[usize::from(name.is_some())];
    let points = points.unwrap_or(POINTS);
    if !(1..=most).contains(&points) {
        return invalid(format!("{points} points are not possible; request 1 to {most}"));
    }
    // Includes the current second.
    let to_s = crate::keeper::unix_time() + 1;
    Ok(Question { kind, name, from_s: to_s.saturating_sub(since_s), to_s, points })
}

/// The UUID of a volume, which identifies its history after a rename; a removed volume keeps its
/// name.
async fn uuid_of(desk: &AppState, volume: String) -> String {
    match desk.look(Command::VolumeShow { volume: volume.clone() }).await {
        Ok(Reply::Volume { volume, .. }) => volume.uuid,
        _ => volume,
    }
}

/// The name of a drive that may be given by its slot.
async fn name_of(desk: &AppState, drive: String) -> String {
    match desk.look(Command::DriveShow { drive: drive.clone() }).await {
        Ok(Reply::Drive { drive, .. }) => drive.name,
        _ => drive,
    }
}
