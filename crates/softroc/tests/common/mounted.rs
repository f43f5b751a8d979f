//! A volume as a file system, without a kernel driver of ours: nbdfuse, a loop device, ext4.

use super::{Controller, have, run, skipped};

/// Whether this machine can do that; says so if not.
pub fn can_mount() -> bool {
    let programs = ["nbdfuse", "losetup", "mkfs.ext4", "fsck.ext4", "fusermount3", "mount"];
    if !programs.iter().all(|program| have(program)) {
        return false;
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let there = devices.iter().all(|device| std::path::Path::new(device).exists());
    if !there {
        skipped("a file system on it", "no /dev/fuse or loop devices here");
    }
    there
}

/// A volume as a block device, through FUSE and a loop device, with a file system on it.
pub struct Mounted {
    fuse: String,
    pub device: String,
    /// Where its files are.
    pub mount: String,
}

impl Mounted {
    pub fn new(controller: &Controller, volume: &str) -> Result<Mounted, String> {
        let (fuse, mount) = (controller.folder.file("fuse"), controller.folder.file("mnt"));
        for folder in [&fuse, &mount] {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        let pid = controller.folder.file("nbdfuse.pid");
        std::process::Command::new("nbdfuse")
            .args(["-P", &pid, &fuse, &controller.uri(volume)])
            .stdin(std::process::Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !std::path::Path::new(&pid).exists() {
            if std::time::Instant::now() > deadline {
                return Err("nbdfuse cannot mount here".into());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut mounted = Mounted { device: String::new(), fuse, mount };
        let loop_device = std::process::Command::new("losetup")
            .args(["-f", "--show", &format!("{}/nbd", mounted.fuse)])
            .output()
            .map_err(|error| error.to_string())?;
        if !loop_device.status.success() {
            return Err(format!("no loop device: {}", String::from_utf8_lossy(&loop_device.stderr).trim()));
        }
        mounted.device = String::from_utf8_lossy(&loop_device.stdout).trim().to_owned();
        run("mkfs.ext4", &["-q", "-F", &mounted.device]);
        run("mount", &[&mounted.device, &mounted.mount]);
        run("mountpoint", &["-q", &mounted.mount]);
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let quietly = |program: &str, arguments: &[&str]| {
            let _ = std::process::Command::new(program)
                .args(arguments)
                .stderr(std::process::Stdio::null())
                .status();
        };
        quietly("umount", &[&self.mount]);
        if !self.device.is_empty() {
            quietly("losetup", &["-d", &self.device]);
        }
        quietly("fusermount3", &["-u", &self.fuse]);
    }
}
