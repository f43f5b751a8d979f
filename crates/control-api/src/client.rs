//! The client side: one request, one reply.

use crate::gate::{TOKEN, user_name};
use crate::tls::{self, Trust};
use crate::{AccessReply, ConfigReply, HistoryReply, NotifyReply, Refusal};
use controller::{Command, Error, ErrorKind, Reply, Result};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// The address of a controller, and the credentials for it.
#[derive(Clone, Debug)]
pub enum Place {
    /// The control socket of a controller on this machine.
    Socket(LocalSocket),
    /// The management port of a controller.
    Server(Remote),
}

/// The control socket of a controller on this machine.
#[derive(Clone, Debug)]
pub struct LocalSocket {
    /// The path of the socket.
    pub path: PathBuf,
    /// Whether the operator named this socket. A default socket must be served by root or by this
    /// user, because another user could read commands and forge replies.
    pub is_named: bool,
}

impl LocalSocket {
    /// Whether a server process of that user is trusted.
    pub fn trusts(&self, uid: u32) -> bool {
        self.is_named || uid == 0 || uid == rustix::process::geteuid().as_raw()
    }

    fn check(&self, uid: u32, verb: &str) -> Result<()> {
        if self.trusts(uid) {
            return Ok(());
        }
        let (socket, own, name) =
            (self.path.display(), rustix::process::geteuid().as_raw(), user_name(uid));
        let name = if name == uid.to_string() { String::new() } else { format!("'{name}', ") };
        let sentence = format!(
            "the control socket {socket} {verb} another user ({name}uid {uid}; expected uid {own} \
                or root), so nothing was sent; if you trust that user, name the socket with \
                '--socket {socket}'"
        );
        Err(Error::new(ErrorKind::Denied, sentence))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Socket(socket) => socket.path.display().fmt(f),
            Place::Server(remote) => write!(f, "{remote:?}"),
        }
    }
}

/// A controller at a network port.
#[derive(Clone)]
pub struct Remote {
    host: String,
    port: u16,
    token: Option<String>,
    trust: Trust,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token must not be printed.
        write!(f, "https://{}:{}", self.host, self.port)
    }
}

impl Remote {
    /// From an address `https://HOST:PORT`, a token, and the trust in the certificate.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn new(address: &str, token: Option<String>, trust: Trust) -> Result<Remote> {
        let wrong = || {
            let sentence =
                format!("'{address}' is not a server address; expected https://HOST:PORT");
            Error::new(ErrorKind::Invalid, sentence)
        };
        let rest = address.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || host.contains(['/', '@', '?']) {
            return Err(wrong());
        }
        Ok(Remote { host: host.to_owned(), port, token, trust })
    }
}

/// Sends a command to the controller at `place` and waits for its reply.
///
/// # Errors
/// Errors of the command; `Unavailable` when no controller responds.
pub fn call(place: &Place, command: &Command) -> Result<Reply> {
    let body = serde_json::to_value(command).map_err(|error| broken(place, &error.to_string()))?;
    request(place, "POST", "/v1/command", Some(&body))
}

/// The events after the event `seen`, as soon as there are any, or none after `wait_s` seconds.
///
/// # Errors
/// Errors of the request; `Unavailable` when no controller responds.
pub fn events_after(place: &Place, seen: u64, wait_s: u64) -> Result<Reply> {
    request(place, "GET", &format!("/v1/events?after={seen}&wait_s={wait_s}"), None)
}

/// A request about accounts: its address below `/v1`, and its body.
///
/// # Errors
/// Errors of the request; `Unavailable` when no controller responds.
pub fn access(
    place: &Place,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<AccessReply> {
    request(place, method, path, body)
}

/// A request about notifications.
///
/// # Errors
/// Errors of the request; `Unavailable` when no controller responds.
pub fn notifications(
    place: &Place,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<NotifyReply> {
    request(place, method, path, body)
}

/// A request about the configuration: to read it, or to restore a document.
///
/// # Errors
/// Errors of the request; `Unavailable` when no controller responds.
pub fn configuration(place: &Place, order: Option<&serde_json::Value>) -> Result<ConfigReply> {
    let method = if order.is_some() { "POST" } else { "GET" };
    request(place, method, "/v1/configuration", order)
}

/// Statistics of volumes and drives: the query of `/v1/history`.
///
/// # Errors
/// Errors of the request; `Unavailable` when no controller responds.
pub fn history(place: &Place, query: &[(&str, String)]) -> Result<HistoryReply> {
    let query: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    request(place, "GET", &format!("/v1/history?{}", query.join("&")), None)
}

/// Percent-encodes a value for a query.
fn escaped(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let text = |byte: u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    value.bytes().map(text).collect()
}

fn request<T: DeserializeOwned>(
    place: &Place,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            Error::new(ErrorKind::Failed, format!("cannot talk to the controller: {error}"))
        })?;
    let failed = |error: String| broken(place, &error);
    let body =
        body.map(serde_json::to_vec).transpose().map_err(|error| failed(error.to_string()))?;
    let mut request = Request::builder().method(method).uri(path).header("host", host_of(place));
    if let Place::Server(Remote { token: Some(token), .. }) = place {
        request = request.header(TOKEN, token);
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| failed(error.to_string()))?;
    let (good, body) = runtime.block_on(async {
        match place {
            Place::Socket(socket) => exchange(place, to_socket(socket).await?, request).await,
            Place::Server(remote) => exchange(place, to_server(remote).await?, request).await,
        }
    })?;
    let not_ours = |error: serde_json::Error| failed(format!("invalid reply ({error})"));
    match good {
        true => serde_json::from_slice(&body).map_err(not_ours),
        false => Err(serde_json::from_slice::<Refusal>(&body).map_err(not_ours)?.error),
    }
}

fn host_of(place: &Place) -> String {
    match place {
        Place::Socket(_) => "localhost".to_owned(),
        Place::Server(Remote { host, port, .. }) if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        Place::Server(Remote { host, port, .. }) => format!("{host}:{port}"),
    }
}

fn broken(place: &Place, what: &str) -> Error {
    Error::new(
        ErrorKind::Failed,
        format!("the connection to the controller at {place} failed: {what}; see its log"),
    )
}

async fn to_socket(socket: &LocalSocket) -> Result<UnixStream> {
    let path = socket.path.display();
    // The client does not even connect to a socket of another user.
    if let Ok(file) = std::fs::metadata(&socket.path) {
        socket.check(file.uid(), "belongs to")?;
    }
    let stream = UnixStream::connect(&socket.path).await.map_err(|error| {
        let sentence = match error.kind() {
            std::io::ErrorKind::PermissionDenied => format!(
                "the control socket {path} is not accessible: {error}; use sudo, or start the \
                 controller with --socket-group"
            ),
            _ => format!(
                "no controller responds at {path}: {error}; start one with 'softroc serve', or \
                 give its folder with --state"
            ),
        };
        Error::new(ErrorKind::Unavailable, sentence)
    })?;
    // The file may have been replaced since the check. The kernel knows the server process.
    let peer = stream.peer_cred().map_err(|error| {
        let sentence = format!(
            "the kernel does not report the server process of the control socket {path}: {error}; \
                try again"
        );
        Error::new(ErrorKind::Unavailable, sentence)
    })?;
    socket.check(peer.uid(), "is served by")?;
    Ok(stream)
}

async fn to_server(remote: &Remote) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
    let Remote { host, port, trust, .. } = remote;
    let config = tls::client(trust).map_err(|why| Error::new(ErrorKind::Invalid, why))?;
    let name = ServerName::try_from(host.clone())
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("'{host}' is not a host name")))?;
    let unavailable = |what: String| Error::new(ErrorKind::Unavailable, what);
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| {
        unavailable(format!(
            "no controller responds at {remote:?}: {error}; start one there with 'softroc serve \
             --manage {host}:{port}'"
        ))
    })?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        unavailable(format!(
            "{remote:?} is not the trusted server: {error}; compare its fingerprint with the \
             output of 'softroc serve --manage', and give --fingerprint or --ca"
        ))
    })
}

async fn exchange(
    place: &Place,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(bool, Bytes)> {
    let failed = |error: hyper::Error| broken(place, &error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(failed)?;
    let good = response.status().is_success();
    let body = response.into_body().collect().await.map_err(failed)?.to_bytes();
    driver.abort();
    Ok((good, body))
}
