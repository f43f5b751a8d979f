//! A drive that can hang.

use super::{Folder, have, not_possible, until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A drive that hangs on demand: a server of a file whose filter delays requests.
pub struct Pausable {
    server: Child,
    folder: Folder,
}

impl Pausable {
    /// A drive of that many MiB. `None`, with a printed reason: nbdkit does not support it here.
    pub fn start(mib: u64) -> Option<Pausable> {
        let filters =
            Command::new("nbdkit").arg("--dump-config").output().ok().filter(|_| have("nbdkit"))?;
        let text = String::from_utf8_lossy(&filters.stdout).into_owned();
        let folder_of_filters = text.lines().find_map(|line| line.strip_prefix("filterdir="))?;
        if !Path::new(folder_of_filters).join("nbdkit-pause-filter.so").exists() {
            not_possible("a drive that stands still", "nbdkit has no filter 'pause'");
            return None;
        }
        let folder = Folder::new("pausable");
        let file = std::fs::File::create(folder.0.join("drive.img")).expect("a file");
        file.set_len(mib << 20).expect("it has that length");
        let server = serve(&folder);
        Some(Pausable { server, folder })
    }

    /// Its name as a drive.
    pub fn name(&self) -> String {
        format!("nbd+unix:///?socket={}", self.folder.file("drive.sock"))
    }

    /// Requests hang from now on.
    pub fn stand_still(&self) {
        let mut control =
            UnixStream::connect(self.folder.file("pause")).expect("the filter listens");
        control.write_all(b"p").expect("it hears");
        let mut answer = [0];
        control.read_exact(&mut answer).expect("it answers");
        assert_eq!(answer[0], b'P');
    }

    /// Responds again. Delayed requests are dropped: nbdkit may crash when it continues requests of
    /// a client that has died.
    pub fn start_anew(&mut self) {
        self.end();
        for name in ["drive.sock", "pause"] {
            std::fs::remove_file(self.folder.file(name)).expect("nbdkit has left it");
        }
        self.server = serve(&self.folder);
    }

    fn end(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Returns when it listens.
fn serve(folder: &Folder) -> Child {
    let (socket, control) =
        (folder.file("drive.sock"), format!("pause-control={}", folder.file("pause")));
    let server = Command::new("nbdkit")
        .args(["-f", "-U", &socket, "--filter=pause", "file", &folder.file("drive.img"), &control])
        .stdin(Stdio::null())
        .spawn()
        .expect("nbdkit starts");
    let is_there = |name: &str| UnixStream::connect(folder.file(name)).is_ok();
    until("nbdkit serves", || is_there("drive.sock") && is_there("pause"));
    server
}

impl Drop for Pausable {
    fn drop(&mut self) {
        self.end();
    }
}
