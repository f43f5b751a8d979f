//! `/v1/notifications`.

use super::office;
use super::post::{ChannelInfo, Kept};
use crate::desk::{Desk, refused};
use crate::routes::Who;
use ::notify::Channel;
use access::Action;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The answers about notifications. In JSON an object with its kind under `reply`, as those of the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum NotifyReply {
    /// Channels, by name.
    Channels {
        /// They.
        channels: Vec<ChannelInfo>,
    },
    /// A channel.
    Channel {
        /// It.
        channel: Box<ChannelInfo>,
    },
    /// It is done.
    Done {
        /// What is worth knowing about it, a sentence each.
        notes: Vec<String>,
    },
}

/// A channel as it is to be. Its name is in the address.
#[derive(Deserialize)]
struct Set {
    /// None: it stays as it is.
    #[serde(default)]
    secret: Option<String>,
    #[serde(flatten)]
    channel: serde_json::Map<String, serde_json::Value>,
}

pub(crate) fn router() -> Router<Desk> {
    Router::new()
        .route("/v1/notifications", get(list))
        .route("/v1/notifications/{name}", put(set).delete(remove))
        .route("/v1/notifications/{name}/test", post(test))
}

fn answered(answer: Result<NotifyReply>) -> Response {
    match answer {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}

async fn list(State(desk): State<Desk>, Extension(caller): Who) -> Response {
    let may = caller.may(Action::Notifications);
    answered(may.map(|()| NotifyReply::Channels { channels: desk.office.list() }))
}

async fn set(
    State(desk): State<Desk>,
    Extension(caller): Who,
    Path(name): Path<String>,
    body: std::result::Result<Json<Set>, JsonRejection>,
) -> Response {
    let done = match desk.may(&caller, Action::Notifications, &name).and_then(|()| read(name, body)) {
        Ok(kept) => office::set(&desk, &caller, kept).await,
        Err(error) => Err(error),
    };
    answered(done.map(|channel| NotifyReply::Channel { channel: Box::new(channel) }))
}

fn read(name: String, body: std::result::Result<Json<Set>, JsonRejection>) -> Result<Kept> {
    let wrong = |what: String| {
        // What is wrong, and not what was sent: that may be secret.
        let sentence = format!("that is no channel: {what}; docs/formats/http-api.md lists the fields");
        Error::new(ErrorKind::Invalid, sentence)
    };
    let Json(Set { secret, mut channel }) =
        body.map_err(|_| wrong("it is not an object of JSON, or 'secret' is no text".to_owned()))?;
    if channel.insert("name".to_owned(), name.into()).is_some() {
        return Err(wrong("its name is in the address".to_owned()));
    }
    let channel: Channel =
        serde_json::from_value(channel.into()).map_err(|error| wrong(error.to_string()))?;
    Ok(Kept { channel, secret })
}

async fn remove(State(desk): State<Desk>, Extension(caller): Who, Path(name): Path<String>) -> Response {
    let removed = office::remove(&desk, &caller, &name).await;
    answered(removed.map(|()| NotifyReply::Done { notes: vec![format!("the channel '{name}' is removed")] }))
}

async fn test(State(desk): State<Desk>, Extension(caller): Who, Path(name): Path<String>) -> Response {
    let done = office::test(&desk, &caller, &name).await;
    let notes = vec![format!("a message was sent to '{name}', which took it")];
    answered(done.map(|()| NotifyReply::Done { notes }))
}
