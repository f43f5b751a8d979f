//! `/v1/notifications`.

use super::office;
use super::post::{ChannelInfo, StoredChannel};
use crate::desk::{AppState, refused};
use crate::routes::CallerExtension;
use ::notify::Channel;
use access::Action;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Replies about notifications. In JSON, an object with its kind under `reply`, like those of the
/// controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum NotifyReply {
    /// Channels, by name.
    Channels {
        /// The channels.
        channels: Vec<ChannelInfo>,
    },
    /// A channel.
    Channel {
        /// The channel.
        channel: Box<ChannelInfo>,
    },
    /// The operation is complete.
    Done {
        /// Notes, one sentence each.
        notes: Vec<String>,
    },
}

/// The new settings of a channel. Its name is in the address.
#[derive(Deserialize)]
struct Set {
    /// Without a secret, the old one is kept.
    #[serde(default)]
    secret: Option<String>,
    #[serde(flatten)]
    channel: serde_json::Map<String, serde_json::Value>,
}

pub(crate) fn router() -> Router<AppState> {
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

async fn list(State(desk): State<AppState>, Extension(caller): CallerExtension) -> Response {
    let may = caller.may(Action::Notifications);
    answered(may.map(|()| NotifyReply::Channels { channels: desk.office.list() }))
}

async fn set(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    Path(name): Path<String>,
    body: std::result::Result<Json<Set>, JsonRejection>,
) -> Response {
    let done = match desk.may(&caller, Action::Notifications, &name).and_then(|()| read(name, body))
    {
        Ok(kept) => office::set(&desk, &caller, kept).await,
        Err(error) => Err(error),
    };
    answered(done.map(|channel| NotifyReply::Channel { channel: Box::new(channel) }))
}

fn read(
    name: String,
    body: std::result::Result<Json<Set>, JsonRejection>,
) -> Result<StoredChannel> {
    let wrong = |what: String| {
        // The message must not contain the body, which may have a secret.
        let sentence =
            format!("invalid channel: {what}; docs/formats/http-api.md lists the fields");
        Error::new(ErrorKind::Invalid, sentence)
    };
    let Json(Set { secret, mut channel }) =
        body.map_err(|_| wrong("not a JSON object, or 'secret' is not a string".to_owned()))?;
    if channel.insert("name".to_owned(), name.into()).is_some() {
        return Err(wrong("its name is in the address".to_owned()));
    }
    let channel: Channel =
        serde_json::from_value(channel.into()).map_err(|error| wrong(error.to_string()))?;
    Ok(StoredChannel { channel, secret })
}

async fn remove(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    Path(name): Path<String>,
) -> Response {
    let removed = office::remove(&desk, &caller, &name).await;
    answered(
        removed.map(|()| NotifyReply::Done {
            notes: vec![format!("the channel '{name}' is removed")],
        }),
    )
}

async fn test(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    Path(name): Path<String>,
) -> Response {
    let done = office::test(&desk, &caller, &name).await;
    let notes = vec![format!("a message was sent to '{name}', which accepted it")];
    answered(done.map(|()| NotifyReply::Done { notes }))
}
