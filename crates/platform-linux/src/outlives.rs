//! Whether a file system in memory outlives this process, or ends with the mount namespace that the process is in.
//!
//! A container, a sandbox (`PrivateTmp=`, `TemporaryFileSystem=`) or `unshare -m` may have a tmpfs of its own: it is gone with
//! the last process there. A file system outlives this process if the machine's first process has it mounted. In another PID
//! namespace the first process is that of the container, and outlives nothing, unless it is an init that runs services; a folder
//! that the host gave the container is a part of a file system of which no whole is mounted there.
//!
//! # Fault model
//! What cannot be found out counts as private: a cache that is write-through loses nothing.

use rustix::fs::{Stat, major, minor};
use std::path::Path;

/// The PID namespace in which the machine's first process is (`PROC_PID_INIT_INO` of the kernel).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What the kernel shows of namespaces.
struct Namespaces {
    /// This process and the machine's first one have the same PID namespace.
    is_first: bool,
    /// The first process of the PID namespace is an init that runs services, and outlives them.
    has_init: bool,
    /// `mountinfo` of this process, and of the first one of its PID namespace.
    own_mounts: Option<String>,
    first_mounts: Option<String>,
}

/// A file system ends with this process, or may: why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Private(&'static str);

impl Private {
    const NAMESPACE: Private =
        Private("is private to the mount namespace of this process, and is lost with it");
    const CONTAINER: Private = Private("is the container's own, and is lost with it");
    const UNKNOWN: Private = Private(
        "may be private to this process: /proc/1/mountinfo, which shows the machine's file systems, cannot be read",
    );

    /// The rest of a sentence that begins with the folder.
    pub(crate) fn why(self) -> &'static str {
        self.0
    }
}

/// Whether a file system in memory, of which this is a file, outlives the process.
///
/// # Errors
/// Why not, or why that is not known.
pub(crate) fn outlives_process(stat: &Stat) -> Result<(), Private> {
    let read = |path| std::fs::read_to_string(path).ok();
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let namespaces = Namespaces {
        is_first: namespace.is_ok_and(|link| link == Path::new(FIRST_PID_NAMESPACE)),
        // As sd_booted(3) finds out.
        has_init: Path::new("/run/systemd/system").is_dir() && std::process::id() != 1,
        own_mounts: read("/proc/self/mountinfo"),
        first_mounts: read("/proc/1/mountinfo"),
    };
    judge(&format!("{}:{}", major(stat.st_dev), minor(stat.st_dev)), &namespaces)
}

/// `device`: that of the file system, as `mountinfo` has it.
fn judge(device: &str, namespaces: &Namespaces) -> Result<(), Private> {
    let Namespaces { is_first, has_init, own_mounts, first_mounts } = namespaces;
    let is_mounted = |mounts: &String| roots_of(device, mounts).next().is_some();
    if !is_first {
        let is_given =
            |mounts: &String| is_mounted(mounts) && roots_of(device, mounts).all(|root| root != "/");
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

/// Which parts of a file system are mounted: the fourth field of each line whose third is its device.
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
        assert_eq!(judged("0:2", true, true, HOST, Some(HOST)), Err(Private::NAMESPACE), "not 0:23");
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

    /// `docker run -v /run/softroc:/run/softroc`: the host's folder outlives the container, and its own `/dev/shm` does not.
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
        assert_eq!(judged("0:60", false, true, own, Some(own)), Ok(()), "its init outlives its services");
        let sandboxed = format!("{own}800 790 0:70 / /dev/shm rw - tmpfs tmpfs rw\n");
        assert_eq!(judged("0:70", false, true, &sandboxed, Some(own)), Err(Private::NAMESPACE));
    }
}
