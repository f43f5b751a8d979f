//! nbdkit between a host and a controller: it retries while the controller is down, so that the
//! host sees a pause.

use super::host::Host;
use super::{Controller, until};
use std::process::{Child, Command, Stdio};

/// Ended on drop: waiting requests then fail.
pub struct Retry {
    server: Child,
    pub socket: String,
}

impl Retry {
    /// Returns when it serves.
    pub fn start(controller: &Controller, volume: &str) -> Retry {
        let socket = controller.folder.file("retry.sock");
        let (upstream, export) =
            (format!("socket={}", controller.nbd_socket()), format!("export={volume}"));
        // An earlier process may have left its socket.
        let _ = std::fs::remove_file(&socket);
        let arguments = ["-f", "-U", &socket, "--filter=retry", "nbd", &upstream, &export];
        let options = ["retries=200", "retry-delay=1", "retry-exponential=no"];
        let server =
            Command::new("nbdkit").args(arguments).args(options).stdin(Stdio::null()).spawn();
        let retry = Retry { server: server.expect("nbdkit starts"), socket };
        until("nbdkit's socket", || std::path::Path::new(&retry.socket).exists());
        // Its socket file exists a moment before it listens.
        until("nbdkit", || Host::connect(&retry.socket, "").is_ok());
        retry
    }

    /// Its address for NBD clients.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket)
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
