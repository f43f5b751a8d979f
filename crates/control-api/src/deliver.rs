//! A POST with JSON to another machine: an event for whoever subscribed to events, or for a webhook.

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

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is sent.
pub(crate) struct Parcel<'a> {
    /// The address.
    pub(crate) destination: &'a str,
    /// JSON.
    pub(crate) body: String,
    /// Headers besides the usual ones.
    pub(crate) headers: &'a [(&'static str, String)],
    /// By what the other side is known, where the address asks for TLS.
    pub(crate) tls: tls::Making,
    /// What it takes for that.
    pub(crate) trust: &'a str,
}

/// Sends one.
///
/// # Errors
/// Why it did not arrive.
pub(crate) async fn deliver(parcel: Parcel<'_>) -> Result<(), String> {
    let sent = tokio::time::timeout(PATIENCE, attempt(parcel)).await;
    sent.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn attempt(parcel: Parcel<'_>) -> Result<(), String> {
    let Parcel { destination, body, headers, tls, trust } = parcel;
    let uri: hyper::Uri = destination.parse().map_err(|_| "that is no address".to_owned())?;
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
        status => Err(format!("it answered {status}")),
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
