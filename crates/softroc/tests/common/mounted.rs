//! A volume as a file system, without our kernel driver: nbdfuse, a loop device, ext4.

use super::{Controller, Folder, have, not_possible, run};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Whether this computer supports it; prints a note if not.
pub fn can_mount() -> bool {
    let programs = ["nbdfuse", "losetup", "mkfs.ext4", "fsck.ext4", "fusermount3", "mount"];
    if !programs.iter().all(|program| have(program)) {
        return false;
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let there = devices.iter().all(|device| Path::new(device).exists());
    if !there {
        not_possible("a file system on it", "no /dev/fuse or loop devices here");
    }
    there
}

/// An NBD export as a block device, through FUSE and a loop device, with its file system. Detached
/// on drop.
pub struct Mounted {
    nbdfuse: Child,
    fuse: String,
    pub device: String,
    /// Its mount point.
    pub mount: String,
}

impl Mounted {
    /// A volume with a new, mounted file system.
    pub fn new(controller: &Controller, volume: &str) -> Result<Mounted, String> {
        let mounted = Mounted::attach(&controller.folder, &controller.uri(volume))?;
        mounted.format();
        mounted.mount();
        Ok(mounted)
    }

    /// An export as a block device, in a folder that has no other. It is not mounted yet.
    pub fn attach(folder: &Folder, uri: &str) -> Result<Mounted, String> {
        let (fuse, mount) = (folder.file("fuse"), folder.file("mnt"));
        for folder in [&fuse, &mount] {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        let pid = folder.file("nbdfuse.pid");
        // A failed earlier run has left it.
        let _ = std::fs::remove_file(&pid);
        let nbdfuse = Command::new("nbdfuse")
            .args(["-P", &pid, &fuse, uri])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut mounted = Mounted { nbdfuse, device: String::new(), fuse, mount };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !Path::new(&pid).exists() {
            if Instant::now() > deadline {
                return Err("nbdfuse cannot mount here".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let loop_device = Command::new("losetup")
            .args(["-f", "--show", &format!("{}/nbd", mounted.fuse)])
            .output()
            .map_err(|error| error.to_string())?;
        if !loop_device.status.success() {
            return Err(format!(
                "no loop device: {}",
                String::from_utf8_lossy(&loop_device.stderr).trim()
            ));
        }
        mounted.device = String::from_utf8_lossy(&loop_device.stdout).trim().to_owned();
        Ok(mounted)
    }

    /// Creates the file system.
    pub fn format(&self) {
        run("mkfs.ext4", &["-q", "-F", &self.device]);
    }

    pub fn mount(&self) {
        run("mount", &[&self.device, &self.mount]);
        run("mountpoint", &["-q", &self.mount]);
    }

    /// Unmounts it, and checks the file system with its own program.
    pub fn unmount_and_check(&self) {
        run("umount", &[&self.mount]);
        run("fsck.ext4", &["-f", "-n", &self.device]);
    }
}

/// Runs a program, and retries while its target is busy. Returns whether it succeeded.
fn done_at_last(program: &str, arguments: &[&str]) -> bool {
    let once = || {
        let status = Command::new(program).args(arguments).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    (0..100).any(|_| {
        once() || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    })
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let is_mounted = |folder: &str| {
            Command::new("mountpoint").args(["-q", folder]).status().is_ok_and(|s| s.success())
        };
        if is_mounted(&self.mount) {
            done_at_last("umount", &[&self.mount]);
        }
        if !self.device.is_empty() {
            done_at_last("losetup", &["-d", &self.device]);
        }
        // If this succeeds, the requested work is done, and the server ends by itself.
        if !done_at_last("fusermount3", &["-u", &self.fuse]) {
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", &self.fuse])
                .stderr(Stdio::null())
                .status();
            let _ = self.nbdfuse.kill();
        }
        let _ = self.nbdfuse.wait();
    }
}
