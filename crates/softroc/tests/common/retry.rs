//! nbdkit between a host and a controller: while the controller is away it tries again, so that the host sees a pause.

use super::host::Host;
use super::{Controller, until};
use std::process::{Child, Command, Stdio};

/// Ended when dropped: who still waits for an answer gets an error.
pub struct Retry {
    server: Child,
    pub socket: String,
}

impl Retry {
    /// Returns when it serves.
    pub fn start(controller: &Controller, volume: &str) -> Retry {
        let socket = controller.folder.file("retry.sock");
        let (upstream, export) = (format!("socket={}", controller.nbd_socket()), format!("export={volume}"));
        // An earlier one may have left its socket.
        let _ = std::fs::remove_file(&socket);
        let arguments = ["-f", "-U", &socket, "--filter=retry", "nbd", &upstream, &export];
        let patience = ["retries=200", "retry-delay=1", "retry-exponential=no"];
        let server = Command::new("nbdkit").args(arguments).args(patience).stdin(Stdio::null()).spawn();
        let retry = Retry { server: server.expect("nbdkit starts"), socket };
        until("nbdkit's socket", || std::path::Path::new(&retry.socket).exists());
        // Its file is there a moment before it listens.
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
