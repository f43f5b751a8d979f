//! A network port: accepts connections, and serves HTTP within deadlines and limits.
//!
//! Invariants: a slow, silent or hostile client occupies one of its source's slots for a limited
//! time. [`ConnectionLimits`], [`LONGEST_HEADERS`] and the largest permitted body limit memory. A
//! signed-in client keeps its connection. Fault model: any peer may send any bytes at any rate,
//! open any number of connections, and vanish.
//!
//! `link`: the state of a connection and its deadlines; `seats`: which connection is closed for a
//! new one.

mod link;
mod seats;
#[cfg(test)]
mod tests;

pub(crate) use link::{Deadlines, Link};
pub(crate) use seats::ConnectionLimits;

use crate::gate::{Client, Peer};
use access::Source;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use link::Watched;
use seats::ConnectionSlots;
use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// Maximum length of the request line and headers, in bytes; longer ones get status 431.
const LONGEST_HEADERS: usize = 32 << 10;

/// The pause after a failed accept, such as too many open files.
const REST: Duration = Duration::from_secs(1);

/// Browsers use only HTTPS with this host, for a year.
const STRICT_TRANSPORT: &str = "max-age=31536000";

/// The configuration of a port.
pub(crate) struct Port {
    pub(crate) router: Router,
    /// `None`: without TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) deadlines: Deadlines,
    pub(crate) most: ConnectionLimits,
}

/// Serves a port until the runtime ends.
///
/// # Errors
/// When the listener cannot be used.
pub(crate) async fn serve(listener: TcpListener, port: Port) -> std::io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let seats = ConnectionSlots::new(port.most);
    let port = Arc::new(port);
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("accepting a connection failed: {error}");
                // A client that disconnected before the accept delays no other.
                if !is_of_client(error.kind()) {
                    tokio::time::sleep(REST).await;
                }
                continue;
            }
        };
        let link = Link::new(port.deadlines, port.tls.is_some());
        let Some(seat) = seats.take(Source::of(address.ip()), &link) else {
            tracing::debug!("{address} is refused: signed-in clients use all connections");
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("responses to {address} may be delayed: {error}");
        }
        let port = port.clone();
        tokio::spawn(async move {
            attend(stream, Client { address, link }, &port).await;
            drop(seat);
        });
    }
}

fn is_of_client(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind;
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// Serves a connection until it ends or must end.
async fn attend<S>(stream: S, client: Client, port: &Port)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (link, address) = (client.link.clone(), client.address);
    let ended = tokio::select! {
        ended = greet(stream, client, port) => ended.err(),
        () = link.ended() => Some("deadline exceeded, or closed for another connection".into()),
    };
    if let Some(why) = ended {
        tracing::debug!("the connection of {address} ended: {why}");
    }
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn greet<S>(stream: S, client: Client, port: &Port) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = &port.tls else { return converse(stream, client, port).await };
    let stream = tls.accept(stream).await?;
    client.link.greeted();
    converse(stream, client, port).await
}

async fn converse<S>(stream: S, client: Client, port: &Port) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (router, has_tls) = (TowerToHyperService::new(port.router.clone()), port.tls.is_some());
    let stream = Watched { stream, link: client.link.clone() };
    let service = service_fn(move |mut request: Request<Incoming>| {
        let link = client.link.clone();
        link.asked();
        request.extensions_mut().insert(ConnectInfo(Peer::Network(client.clone())));
        let answer = router.call(request.map(|body| RequestBody::new(body, link.clone())));
        async move {
            let Ok(mut response) = answer.await;
            if has_tls {
                let strict = HeaderValue::from_static(STRICT_TRANSPORT);
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, strict);
            }
            Ok::<_, Infallible>(response.map(|body| ResponseBody { body, link }))
        }
    });
    let mut http = http1::Builder::new();
    // The link enforces the deadlines.
    http.max_buf_size(LONGEST_HEADERS).header_read_timeout(None::<Duration>);
    Ok(http.serve_connection(TokioIo::new(stream), service).await?)
}

/// The body of a request, which reports to its link when it is complete or dropped.
struct RequestBody {
    body: Incoming,
    link: Arc<Link>,
}

impl RequestBody {
    fn new(body: Incoming, link: Arc<Link>) -> RequestBody {
        if body.is_end_stream() {
            link.heard();
        }
        RequestBody { body, link }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let poll = Pin::new(&mut self.body).poll_frame(context);
        if matches!(poll, Poll::Ready(None)) || self.body.is_end_stream() {
            self.link.heard();
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.link.heard();
    }
}

/// The body of a response, which reports to its link when it is complete.
struct ResponseBody {
    body: axum::body::Body,
    link: Arc<Link>,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.link.answered();
    }
}
