//! A network port for metrics alone: nothing can be changed there, and nothing but figures be read.
//!
//! Clients that connect and say nothing cost a place for a while: so many places there are, and nobody else has to do without files
//! or threads for them.

use env::{Address, Error, ErrorKind, Result};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Connections at a time; more wait until one ends.
const MOST: usize = 32;

/// How long a connection may be without anything being said: longer than collectors usually wait between two scrapes.
const IDLE: Duration = Duration::from_secs(150);

/// How long to rest after an error of accepting, such as too many open files.
const REST: Duration = Duration::from_secs(1);

/// An address at which metrics will be served: bound, and not served yet.
pub struct MetricsPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsPort {
    /// Binds an address; one that other machines can reach only if that is allowed.
    ///
    /// # Errors
    /// When it cannot be bound, or may not be.
    pub fn bind(address: &Address, allow_remote: bool) -> Result<MetricsPort> {
        let Address::Tcp { host, port } = address else {
            let sentence = format!(
                "metrics are served at HOST:PORT, and '{address}' is a path; the control socket answers GET /metrics, too"
            );
            return Err(Error::new(ErrorKind::BadName, sentence));
        };
        if !address.is_local() && !allow_remote {
            let sentence = format!(
                "'{address}' can be reached from other machines, and metrics are served without encryption and passwords; give --metrics 127.0.0.1:{port}, or add --allow-remote"
            );
            return Err(Error::new(ErrorKind::Denied, sentence));
        }
        let failed = |error: std::io::Error| {
            let sentence = format!("metrics cannot be served at '{address}'; give another --metrics");
            Error::new(ErrorKind::System, sentence).caused_by(error)
        };
        let listener = TcpListener::bind((host.as_str(), *port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(MetricsPort { listener, address })
    }

    /// Where it is, with the port that was chosen for it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to listen, on a runtime.
    pub(crate) fn listen(self) -> std::io::Result<Places> {
        Places::of(self.listener, MOST)
    }
}

/// A listener with so many places.
pub(crate) struct Places {
    listener: tokio::net::TcpListener,
    places: Arc<Semaphore>,
}

impl Places {
    /// So many places at a listener that does not block.
    pub(crate) fn of(listener: TcpListener, most: usize) -> std::io::Result<Places> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(Places { listener, places: Arc::new(Semaphore::new(most)) })
    }
}

impl axum::serve::Listener for Places {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Seated, SocketAddr) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else {
                // Nobody closes the semaphore; if somebody did, nobody would be accepted any more.
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let idle = Box::pin(tokio::time::sleep(IDLE));
                    return (Seated { stream, idle, _place: place }, address);
                }
                Err(error) => {
                    tracing::debug!("a client was not accepted: {error}");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection on its place, which ends when nothing is said for long.
pub(crate) struct Seated {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Seated {
    /// Something was said.
    fn stir(&mut self) {
        self.idle.as_mut().reset(Instant::now() + IDLE);
    }

    /// What waits, waits no longer than that.
    fn unless_idle<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if poll.is_ready() {
            self.stir();
            return poll;
        }
        self.idle.as_mut().poll(context).map(|()| Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.unless_idle(context, poll)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_idle(context, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
