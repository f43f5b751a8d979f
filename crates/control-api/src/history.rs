//! The history of volumes and drives (crate `history`): the controller's counters are looked at every ten seconds, and asked for at
//! `/v1/history`.
//!
//! The file has a thread of its own. Neither the controller nor HTTP waits for it: what it cannot take is handed over later, and a
//! question that it does not answer in time is refused.

use crate::desk::{Desk, refuse, refused};
use crate::files;
use crate::routes::Who;
use access::{Action, Caller};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use controller::{
    Command, ControllerHandle, CountersInfo, DriveCounters, Error, ErrorKind, EventCode, Occurrence, Reply,
    Result, VolumeCounters, WorkInfo,
};
use history::{
    Counters, Done, History, Kind, Limits, Notice, OPERATIONS, Question, Reading, Series, Subject,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The file, in the state folder.
pub(crate) const FILE: &str = "history.db";

/// How often the counters are looked at.
const EVERY: Duration = Duration::from_secs(10);

/// How soon it is looked again while the controller starts: nothing that hosts do is to be missed.
const SOON: Duration = Duration::from_millis(200);

/// After how many looks what is new is stored: a kill loses less than a minute.
const LOOKS_OF_A_STORE: u64 = 3;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// History is kept for so long.
const LONGEST_S: u64 = 30 * 86_400;

/// Questions that are answered at a time.
pub(crate) const MOST_READERS: usize = 4;

/// Points of each series, if nobody says another number.
const POINTS: u64 = 60;

/// The most points of each of all series, and of one.
const MOST_POINTS: [u64; 2] = [100, 1500];

/// The answer about the history. In JSON an object with its kind under `reply`, as those of the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum HistoryReply {
    /// What volumes and drives did.
    History {
        /// From when on, in seconds since 1970.
        from_unix_s: u64,
        /// Until when.
        to_unix_s: u64,
        /// The length of a point, in seconds.
        step_s: u64,
        /// Volumes by name.
        volumes: Vec<Series>,
        /// Drives by name.
        drives: Vec<Series>,
    },
}

/// What may be asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// So many seconds until now.
    since_s: Option<u64>,
    /// Of this volume alone.
    volume: Option<String>,
    /// Of this drive alone.
    drive: Option<String>,
    /// `volumes` or `drives`: of these alone.
    of: Option<String>,
    /// The most points of each series.
    points: Option<u64>,
}

/// Opens the history of a state folder.
pub(crate) fn open(state: &Path, controller: &ControllerHandle) -> std::io::Result<History> {
    let controller = controller.clone();
    History::open(&state.join(FILE), Limits::default(), move |notice| tell(&controller, notice))
}

/// Has the controller take note of what becomes of the file.
fn tell(controller: &ControllerHandle, notice: Notice) {
    let note = |code, cause: &str, effect: &str, text: String| {
        let (cause, effect) = (cause.to_owned(), effect.to_owned());
        controller.note(Occurrence { code, subject: FILE.to_owned(), cause, effect, text, by: None });
    };
    match notice {
        Notice::SetAside { why, now_at } => {
            let sentence =
                format!("{FILE} of the state folder cannot be read: {why}; it is kept as {now_at}");
            files::tell_unreadable(
                controller,
                FILE,
                &why,
                "statistics of volumes and drives begin anew",
                &sentence,
            );
        }
        Notice::NotStored { why } => note(
            EventCode::ControllerStateNotStored,
            &why,
            "statistics of volumes and drives are in memory alone, for two hours",
            format!(
                "statistics of volumes and drives ({FILE}) cannot be stored in the state folder: {why}; hosts are not affected; make room there"
            ),
        ),
        Notice::StoredAgain => note(
            EventCode::ControllerStateStored,
            "there is room again",
            "statistics are kept over restarts again",
            format!("statistics of volumes and drives ({FILE}) are stored again"),
        ),
    }
}

/// Looks at the counters until the controller is gone.
pub(crate) async fn watch(desk: Desk) {
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
                        "there is no history of {left_out} volumes and drives: there are too many"
                    );
                }
            }
            Err(error) if error.kind == ErrorKind::Stopping => return,
            // What is counted meanwhile is of the next look.
            Err(error) => tracing::debug!("the counters were not told this time: {error}"),
        }
        if look % LOOKS_OF_A_STORE == 0 {
            desk.history.store(crate::keeper::unix_time());
        }
    }
}

/// Looks at the counters. How many volumes and drives were left out.
async fn noted(desk: &Desk) -> Result<usize> {
    let Reply::Counters { counters } = desk.look(Command::Counters {}).await? else {
        return Err(Error::new(ErrorKind::Failed, "the controller's answer is no counters; look at its log"));
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
        counters: Counters { done: done(&of.work), temperature_c: of.temperature_c, ..Counters::default() },
    };
    counters.volumes.into_iter().map(volume).chain(counters.drives.into_iter().map(drive)).collect()
}

/// In the order of the operations, which is that of the controller.
fn done(work: &[WorkInfo]) -> [Done; OPERATIONS] {
    let mut all = [Done::default(); OPERATIONS];
    for (of, work) in all.iter_mut().zip(work) {
        (of.failed, of.bytes, of.time_ns) = (work.failed, work.bytes, work.time_ns);
        of.buckets.iter_mut().zip(&work.buckets).for_each(|(bucket, count)| *bucket = *count);
    }
    all
}

pub(crate) fn router() -> Router<Desk> {
    Router::new().route("/v1/history", get(ask))
}

async fn ask(
    State(desk): State<Desk>,
    Extension(caller): Who,
    query: std::result::Result<Query<Asked>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(asked)) => match answer(&desk, &caller, asked).await {
            Ok(reply) => Json(reply).into_response(),
            Err(error) => refused(error),
        },
        Err(_) => refuse(
            ErrorKind::Invalid,
            "that cannot be read; expected such as ?since_s=86400&volume=data&points=24, see docs/formats/http-api.md",
        ),
    }
}

async fn answer(desk: &Desk, caller: &Caller, asked: Asked) -> Result<HistoryReply> {
    caller.may(Action::Counters)?;
    let question = question(desk, asked).await?;
    // What was done since the last look is part of it.
    noted(desk).await?;
    let Ok(_turn) = desk.asking.try_acquire() else {
        return Err(Error::new(ErrorKind::Busy, "others are reading the history; try again in a moment"));
    };
    let (history, asks) = (desk.history.clone(), question.clone());
    let read = tokio::task::spawn_blocking(move || history.ask(&asks));
    let failed = |why: String| Error::new(ErrorKind::Failed, format!("the history cannot be read: {why}"));
    let late = || Error::new(ErrorKind::Busy, "the history's file does not answer in time; try again later");
    let read = tokio::time::timeout(PATIENCE, read).await.map_err(|_| late())?;
    let (step_s, series) = read.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let is_known = |(kind, name): (Kind, &String)| desk.history.knows(kind, name);
    if let (Some(name), true) = (&question.name, series.is_empty())
        && !question.kind.zip(question.name.as_ref()).is_some_and(is_known)
    {
        let sentence = format!(
            "there is no history of '{name}'; 'softroc volume list' and 'softroc drive list' list what there is"
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

async fn question(desk: &Desk, asked: Asked) -> Result<Question> {
    let invalid = |sentence: String| Err(Error::new(ErrorKind::Invalid, sentence));
    let Asked { since_s, volume, drive, of, points } = asked;
    let since_s = since_s.unwrap_or(86_400);
    if !(1..=LONGEST_S).contains(&since_s) {
        return invalid(format!(
            "a history of {since_s} s is not kept; ask for 1 to {LONGEST_S} s (30 days)"
        ));
    }
    let (kind, name) = match (volume, drive, of.as_deref()) {
        (Some(volume), None, None) => (Some(Kind::Volume), Some(uuid_of(desk, volume).await)),
        (None, Some(drive), None) => (Some(Kind::Drive), Some(name_of(desk, drive).await)),
        (None, None, Some("volumes")) => (Some(Kind::Volume), None),
        (None, None, Some("drives")) => (Some(Kind::Drive), None),
        (None, None, None) => (None, None),
        (None, None, Some(of)) => return invalid(format!("'of' is 'volumes' or 'drives', not '{of}'")),
        _ => return invalid("give one of 'volume', 'drive' and 'of'".to_owned()),
    };
    let most = MOST_POINTS[usize::from(name.is_some())];
    let points = points.unwrap_or(POINTS);
    if !(1..=most).contains(&points) {
        return invalid(format!("{points} points are not possible; ask for 1 to {most}"));
    }
    // The second that goes on is part of it.
    let to_s = crate::keeper::unix_time() + 1;
    Ok(Question { kind, name, from_s: to_s.saturating_sub(since_s), to_s, points })
}

/// The UUID of a volume, by which its history goes on under another name; what is gone is known by its name.
async fn uuid_of(desk: &Desk, volume: String) -> String {
    match desk.look(Command::VolumeShow { volume: volume.clone() }).await {
        Ok(Reply::Volume { volume, .. }) => volume.uuid,
        _ => volume,
    }
}

/// The name of a drive that may be named by its slot.
async fn name_of(desk: &Desk, drive: String) -> String {
    match desk.look(Command::DriveShow { drive: drive.clone() }).await {
        Ok(Reply::Drive { drive, .. }) => drive.name,
        _ => drive,
    }
}
