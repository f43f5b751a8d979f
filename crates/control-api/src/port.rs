//! A network port for metrics alone: nothing can be changed there, and nothing but figures be read.

use platform::{Address, Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};

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

    /// What connections are accepted from.
    pub(crate) fn listener(self) -> TcpListener {
        self.listener
    }
}
