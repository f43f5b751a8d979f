//! A network port for metrics only: read-only figures.

use platform::{Address, Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};

/// A bound metrics address that is not served yet.
pub struct MetricsPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsPort {
    /// Binds an address; one that other machines can reach only with permission.
    ///
    /// # Errors
    /// When it cannot be bound, or is not permitted.
    pub fn bind(address: &Address, allow_remote: bool) -> Result<MetricsPort> {
        let Address::Tcp { host, port } = address else {
            let sentence = format!(
                "--metrics needs HOST:PORT, but '{address}' is a path; the control socket also \
                 serves GET /metrics"
            );
            return Err(Error::new(ErrorKind::BadName, sentence));
        };
        if !address.is_local() && !allow_remote {
            let sentence = format!(
                "'{address}' can be reached from other machines, and metrics have neither \
                 encryption nor passwords; give --metrics 127.0.0.1:{port}, or add --allow-remote"
            );
            return Err(Error::new(ErrorKind::Denied, sentence));
        }
        let failed = |error: std::io::Error| {
            let sentence =
                format!("cannot listen at '{address}' for metrics; give another --metrics");
            Error::new(ErrorKind::System, sentence).caused_by(error)
        };
        let listener = TcpListener::bind((host.as_str(), *port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(MetricsPort { listener, address })
    }

    /// The address, with the port that the system assigned.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listener.
    pub(crate) fn listener(self) -> TcpListener {
        self.listener
    }
}
