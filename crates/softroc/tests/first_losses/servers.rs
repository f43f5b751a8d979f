//! Drives that a power cut affects.

use crate::bed::Bed;
use crate::common::host::Host;
use crate::common::{Folder, until};
use std::process::{Child, Command, Stdio};

/// Drives as servers of files.
pub struct Servers(Vec<Child>);

impl Servers {
    /// The names of the drives, in the order of their start.
    pub fn names(folder: &Folder, count: usize) -> Vec<String> {
        (0..count)
            .map(|number| format!("nbd+unix:///?socket={}", socket_of(folder, number)))
            .collect()
    }

    /// Servers of these drives. `with_caches`: some have a cache, which is lost with the server.
    pub fn start(bed: &Bed<'_>, drives: impl Iterator<Item = usize>, with_caches: bool) -> Servers {
        let start = |number: usize| {
            let socket = socket_of(&bed.controller.folder, number);
            // An earlier server may have left it.
            let _ = std::fs::remove_file(&socket);
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-U", &socket]).stdin(Stdio::null());
            let (is_slow, has_cache) =
                (bed.case.is_slow(), with_caches && bed.case.has_cache(number));
            command.args(is_slow.then_some("--filter=delay"));
            command.args(has_cache.then_some("--filter=cache"));
            command.args(["file", &bed.files[number]]);
            command
                .args(is_slow.then_some(["wdelay=10ms", "delay-zero=10ms"]).into_iter().flatten());
            command.args(has_cache.then_some("cache=writeback"));
            let server = command.spawn().expect("nbdkit starts");
            until("nbdkit serves", || Host::connect(&socket, "").is_ok());
            server
        };
        Servers(drives.map(start).collect())
    }

    pub fn kill(&mut self) {
        for server in &mut self.0 {
            // It may have ended.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn socket_of(folder: &Folder, drive: usize) -> String {
    folder.file(&format!("d{drive}.sock"))
}
