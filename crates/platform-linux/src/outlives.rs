//! Whether a memory file system outlives this process, or ends with its mount namespace.
//!
//! A container, a sandbox (`PrivateTmp=`, `TemporaryFileSystem=`) or `unshare -m` may have a
//! private tmpfs, which ends with the last process there. A file system outlives this process if
//! the computer's first process has it mounted. In another PID namespace the first process is that
//! of the container. It does not outlive this process, unless it is an init that runs services. A
//! folder from the host is a part of a file system that is not mounted there as a whole.
//!
//! # Fault model
//! If the answer is unknown, the file system counts as private: a write-through cache loses
//! nothing.

use rustix::fs::{Stat, major, minor};
use std::path::Path;

/// The PID namespace of the computer's first process (`PROC_PID_INIT_INO` of the kernel).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The namespaces, as the kernel reports them.
struct Namespaces {
    /// This process and the computer's first one are in the same PID namespace.
    is_first: bool,
    /// The first process of the PID namespace is an init that runs services and outlives them.
    has_init: bool,
    /// `mountinfo` of this process, and of the first one in its PID namespace.
    own_mounts: Option<String>,
    first_mounts: Option<String>,
}

/// Why a file system ends, or may end, with this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Private(&'static str);

impl Private {
    const NAMESPACE: Private =
        Private("is private to the mount namespace of this process, and is lost with it");
    const CONTAINER: Private = Private("is the container's own, and is lost with it");
    const UNKNOWN: Private = Private(
        "may be private to this process: /proc/1/mountinfo, which shows the machine's file \
            systems, cannot be read",
    );

    /// The end of a sentence that starts with the folder.
    pub(crate) fn why(self) -> &'static str {
        self.0
    }
}

/// Whether the memory file system of a file outlives the process.
///
/// # Errors
/// Why not, or why that is unknown.
pub(crate) fn outlives_process(stat: &Stat) -> Result<(), Private> {
    let read = |path| std::fs::read_to_string(path).ok();
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let namespaces = Namespaces {
        is_first: namespace.is_ok_and(|link| link == Path::new(FIRST_PID_NAMESPACE)),
        // The check of sd_booted(3).
        has_init: Path::new("/run/systemd/system").is_dir() && std::process::id() != 1,
        own_mounts: read("/proc/self/mountinfo"),
        first_mounts: read("/proc/1/mountinfo"),
    };
    judge(&format!("{}:{}", major(stat.st_dev), minor(stat.st_dev)), &namespaces)
}

/// `device`: the file system's device in `mountinfo`.
fn judge(device: &str, namespaces: &Namespaces) -> Result<(), Private> {
    let Namespaces { is_first, has_init, own_mounts, first_mounts } = namespaces;
    let is_mounted = |mounts: &String| roots_of(device, mounts).next().is_some();
    if !is_first {
        let is_given = |mounts: &String| {
            is_mounted(mounts) && roots_of(device, mounts).all(|root| root != "/")
        };
        if own_mounts.as_ref().is_some_and(is_given) {
            return Ok(());
        }
        if !has_init {
            return Err(Private::CONTAINER);
        }
    }
    match first_mounts {
        Some(mounts) if is_mounted(mounts) => Ok(()),
        Some(_) => Err(Private::NAMESPACE),
        None => Err(Private::UNKNOWN),
    }
}

/// The mounted parts of a file system: the fourth field of each line whose third is its device.
fn roots_of<'a>(device: &str, mounts: &'a str) -> impl Iterator<Item = &'a str> {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(2);
        (fields.next()? == device).then(|| fields.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "25 24 0:23 / /dev/shm rw,relatime shared:4 - tmpfs tmpfs rw\n\
                        26 24 0:27 / /run rw shared:5 - tmpfs tmpfs rw,mode=755\n";

    fn judged(
        device: &str,
        is_first: bool,
        has_init: bool,
        own: &str,
        first: Option<&str>,
    ) -> Result<(), Private> {
        let namespaces = Namespaces {
            is_first,
            has_init,
            own_mounts: Some(own.to_owned()),
            first_mounts: first.map(str::to_owned),
        };
        judge(device, &namespaces)
    }

    #[test]
    fn what_the_machines_first_process_has_mounted_outlives_this_one() {
        assert_eq!(judged("0:23", true, true, HOST, Some(HOST)), Ok(()));
        assert_eq!(judged("0:27", true, false, HOST, Some(HOST)), Ok(()));
        assert_eq!(
            judged("0:2", true, true, HOST, Some(HOST)),
            Err(Private::NAMESPACE),
            "not 0:23"
        );
    }

    /// `unshare -m` and a tmpfs over /dev/shm; a unit with `TemporaryFileSystem=/dev/shm`.
    #[test]
    fn a_tmpfs_over_the_machines_is_private() {
        let own = format!("{HOST}63 60 0:39 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=65536k\n");
        assert_eq!(judged("0:39", true, true, &own, Some(HOST)), Err(Private::NAMESPACE));
        assert_eq!(judged("0:23", true, true, &own, Some(HOST)), Ok(()));
    }

    #[test]
    fn what_cannot_be_found_out_is_private() {
        assert_eq!(judged("0:23", true, true, HOST, None), Err(Private::UNKNOWN));
    }

    /// `docker run -v /run/softroc:/run/softroc`: the host's folder outlives the container; the
    /// container's own `/dev/shm` does not.
    #[test]
    fn a_container_outlives_nothing_but_has_folders_of_the_host() {
        let own = "700 690 0:60 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k\n\
                   701 690 0:27 /softroc /run/softroc rw - tmpfs tmpfs rw,mode=755\n\
                   702 690 0:61 / /run rw - tmpfs tmpfs rw\n\
                   703 690 0:61 /softroc /var/run/softroc rw - tmpfs tmpfs rw\n";
        assert_eq!(judged("0:27", false, false, own, Some(own)), Ok(()));
        for of_container in ["0:60", "0:61"] {
            assert_eq!(judged(of_container, false, false, own, Some(own)), Err(Private::CONTAINER));
        }
        assert_eq!(
            judged("0:60", false, true, own, Some(own)),
            Ok(()),
            "its init outlives its services"
        );
        let sandboxed = format!("{own}800 790 0:70 / /dev/shm rw - tmpfs tmpfs rw\n");
        assert_eq!(judged("0:70", false, true, &sandboxed, Some(own)), Err(Private::NAMESPACE));
    }
}
