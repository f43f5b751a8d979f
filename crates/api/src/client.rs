//! The client's side: one command, one answer.

use crate::Refusal;
use controller::{Command, Error, ErrorKind, Reply, Result};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::path::Path;
use tokio::net::UnixStream;

/// Sends a command to the controller behind `socket` and waits for its reply.
///
/// # Errors
/// Those of the command; `Unavailable` when no controller answers there.
pub fn call(socket: &Path, command: &Command) -> Result<Reply> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Failed, format!("cannot talk to the controller: {error}")))?;
    runtime.block_on(exchange(socket, command))
}

async fn exchange(socket: &Path, command: &Command) -> Result<Reply> {
    let broken = |what: String| {
        let sentence = format!("the controller at {} broke off: {what}; look at its log", socket.display());
        Error::new(ErrorKind::Failed, sentence)
    };
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        let socket = socket.display();
        let sentence = match error.kind() {
            std::io::ErrorKind::PermissionDenied => format!(
                "the control socket {socket} is not open to this user: {error}; use sudo, or have the controller started with --socket-group"
            ),
            _ => format!(
                "no controller answers at {socket}: {error}; start one with 'softroc serve', or say where it is with --state"
            ),
        };
        Error::new(ErrorKind::Unavailable, sentence)
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(error.to_string()))?;
    let driver = tokio::spawn(connection);
    let body = serde_json::to_vec(command).map_err(|error| broken(error.to_string()))?;
    let request = Request::post("/v1/command")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| broken(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
    let good = response.status().is_success();
    let body = response.into_body().collect().await.map_err(|error| broken(error.to_string()))?.to_bytes();
    driver.abort();
    let not_ours = |error: serde_json::Error| broken(format!("its answer cannot be read ({error})"));
    match good {
        true => serde_json::from_slice(&body).map_err(not_ours),
        false => Err(serde_json::from_slice::<Refusal>(&body).map_err(not_ours)?.error),
    }
}
