//! The network port for management: TLS only, and nothing without an account but to sign in.

use crate::tls::{CertificateFiles, Damage, Identity};
use platform::{Address, Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use tokio_rustls::TlsAcceptor;

/// An address for management: bound, and not served yet.
pub struct ManagePort {
    listener: TcpListener,
    address: SocketAddr,
    identity: Identity,
}

impl ManagePort {
    /// Binds an address, and reads the certificate; one is made in the state folder where there is none that can be used,
    /// and none is given.
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

    /// Why it has another certificate than before.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.identity.damage.as_ref()
    }

    /// What connections are accepted from, and their TLS.
    pub(crate) fn listener(self) -> (TcpListener, TlsAcceptor) {
        (self.listener, TlsAcceptor::from(self.identity.config))
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
