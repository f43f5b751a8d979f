//! The management port: TLS only, and only sign-in without an account.

use crate::tls::{CertificateFiles, Damage, Identity};
use platform::{Address, Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use tokio_rustls::TlsAcceptor;

/// A bound management address that is not served yet.
pub struct ManagePort {
    listener: TcpListener,
    address: SocketAddr,
    identity: Identity,
}

impl ManagePort {
    /// Binds an address and reads the certificate. Without a given or usable certificate, one is
    /// generated in the state folder.
    ///
    /// # Errors
    /// When the address cannot be bound, or the certificate cannot be read or generated.
    pub fn bind(
        address: &Address,
        given: Option<&CertificateFiles>,
        state: &Path,
    ) -> Result<ManagePort> {
        let Address::Tcp { host, port } = address else {
            let sentence = format!(
                "--manage needs HOST:PORT, but '{address}' is a path; local programs can use the \
                 control socket"
            );
            return Err(Error::new(ErrorKind::BadName, sentence));
        };
        let failed = |error: std::io::Error| {
            let sentence =
                format!("cannot listen at '{address}' for management; give another --manage");
            Error::new(ErrorKind::System, sentence).caused_by(error)
        };
        let listener = TcpListener::bind((host.as_str(), *port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let identity = Identity::load(given, state, &names(host))?;
        Ok(ManagePort { listener, address: bound, identity })
    }

    /// The address, with the port that the system assigned.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of the certificate.
    pub fn fingerprint(&self) -> &str {
        &self.identity.fingerprint
    }

    /// Whether the certificate was generated at this start.
    pub(crate) fn is_new(&self) -> bool {
        self.identity.is_new
    }

    /// Why the previous certificate is not used.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.identity.damage.as_ref()
    }

    /// The listener, and its TLS.
    pub(crate) fn listener(self) -> (TcpListener, TlsAcceptor) {
        (self.listener, TlsAcceptor::from(self.identity.config))
    }
}

/// The known names of the server.
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
