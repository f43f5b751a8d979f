//! The network port for management: TLS only, and nothing without an account but to sign in.

use crate::port::{Places, Seated};
use crate::tls::{CertificateFiles, Identity};
use env::{Address, Error, ErrorKind, Result};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// Connections at a time; more wait until one ends.
const MOST: usize = 64;

/// An address for management: bound, and not served yet.
pub struct ManagePort {
    listener: TcpListener,
    address: SocketAddr,
    identity: Identity,
}

impl ManagePort {
    /// Binds an address, and reads the certificate; one is made in the state folder where there is none and none is given.
    ///
    /// # Errors
    /// When the address cannot be bound, or the certificate cannot be read or made.
    pub fn bind(address: &Address, given: Option<&CertificateFiles>, state: &Path) -> Result<ManagePort> {
        let Address::Tcp { host, port } = address else {
            let sentence = format!(
                "management is served at HOST:PORT, and '{address}' is a path; the control socket is there in any case"
            );
            return Err(Error::new(ErrorKind::BadName, sentence));
        };
        let failed = |error: std::io::Error| {
            let sentence = format!("management cannot be served at '{address}'; give another --manage");
            Error::new(ErrorKind::System, sentence).caused_by(error)
        };
        let listener = TcpListener::bind((host.as_str(), *port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let identity = Identity::load(given, state, &names(host))?;
        Ok(ManagePort { listener, address: bound, identity })
    }

    /// Where it is, with the port that was chosen for it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of its certificate.
    pub fn fingerprint(&self) -> &str {
        &self.identity.fingerprint
    }

    /// Whether its certificate was made just now.
    pub(crate) fn is_new(&self) -> bool {
        self.identity.is_new
    }

    /// Begins to listen, on a runtime.
    pub(crate) fn listen(self) -> std::io::Result<ManageListener> {
        let places = Places::of(self.listener, MOST)?;
        Ok(ManageListener { places, tls: TlsAcceptor::from(self.identity.config) })
    }
}

/// What the server is called, as far as it knows.
fn names(host: &str) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for name in [node, host.to_owned()] {
        let is_any = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified());
        if !name.is_empty() && !is_any && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// See [`ManagePort`].
pub(crate) struct ManageListener {
    places: Places,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for ManageListener {
    type Io = Secured;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Secured, SocketAddr) {
        let (seated, address) = self.places.accept().await;
        (Secured::Greeting(Box::new(self.tls.accept(seated))), address)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.places.local_addr()
    }
}

/// A connection: the handshake of TLS is made by whoever reads or writes first, so that nobody else waits for it.
pub(crate) enum Secured {
    /// The handshake.
    Greeting(Box<Accept<Seated>>),
    /// What follows.
    Open(Box<TlsStream<Seated>>),
}

impl Secured {
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<&mut TlsStream<Seated>>> {
        if let Secured::Greeting(greeting) = self {
            let stream = ready!(Pin::new(&mut **greeting).poll(context))?;
            *self = Secured::Open(Box::new(stream));
        }
        match self {
            Secured::Open(stream) => Poll::Ready(Ok(stream)),
            Secured::Greeting(_) => Poll::Pending,
        }
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let stream = ready!(self.poll_open(context))?;
        Pin::new(stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let stream = ready!(self.poll_open(context))?;
        Pin::new(stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let stream = ready!(self.poll_open(context))?;
        Pin::new(stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Secured::Open(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            // Nothing was said that could be ended.
            Secured::Greeting(_) => Poll::Ready(Ok(())),
        }
    }
}
