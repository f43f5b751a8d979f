//! Sends JSON by POST to another machine: events for subscribers and webhooks.

use crate::tls;
use axum::body::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time limit of one attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message to send.
pub(crate) struct Delivery<'a> {
    /// The address.
    pub(crate) destination: &'a str,
    /// JSON.
    pub(crate) body: String,
    /// Headers besides the usual ones.
    pub(crate) headers: &'a [(&'static str, String)],
    /// How to verify the server's certificate, if the address uses TLS.
    pub(crate) tls: tls::MakeConfig,
    /// The file for that.
    pub(crate) trust: &'a str,
}

/// Sends one message.
///
/// # Errors
/// Why the delivery failed.
pub(crate) async fn deliver(parcel: Delivery<'_>) -> Result<(), String> {
    let sent = tokio::time::timeout(PATIENCE, attempt(parcel)).await;
    sent.unwrap_or_else(|_| Err(format!("no response within {} s", PATIENCE.as_secs())))
}

async fn attempt(parcel: Delivery<'_>) -> Result<(), String> {
    let Delivery { destination, body, headers, tls, trust } = parcel;
    let uri: hyper::Uri = destination.parse().map_err(|_| "invalid address".to_owned())?;
    let host = uri.host().ok_or("the address has no host")?.trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let mut request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header("host", authority)
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(told)?;
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(told)?;
    if !is_tls {
        return exchange(stream, request).await;
    }
    let name = ServerName::try_from(host).map_err(told)?;
    let connector = TlsConnector::from(Arc::new(tls(trust)?));
    exchange(connector.connect(name, stream).await.map_err(told)?, request).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(), String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(told);
    driver.abort();
    match response?.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("the server returned {status}")),
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
