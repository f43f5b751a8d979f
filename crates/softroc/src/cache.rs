//! The size and the folder of the cache memory of `softroc serve`.
//!
//! The folder is on tmpfs: `--cache-folder`, or `RuntimeDirectory=` of systemd, or `/run/softroc`
//! if it is writable, or `/dev/shm/softroc-UID`. Each state folder has its own folder in it: two
//! controllers do not share memory, and the next process with the same state finds the memory of
//! the previous one.

use crate::failure::{Failure, Outcome};
use crate::machine;
use rustix::fs::{Access, access};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use units::ByteCount;

/// The smallest useful size.
const LEAST: ByteCount = ByteCount::MIB;

/// The largest default size.
const MOST_UNASKED: ByteCount = ByteCount(4 << 30);

/// The folder of runtime data of system services, cleared by a reboot.
const OF_THE_SYSTEM: &str = "/run/softroc";

/// The size of the write cache: as given, or an eighth of the machine's memory.
pub fn size(asked: Option<ByteCount>) -> Outcome<ByteCount> {
    match asked {
        None => Ok(unasked(machine::memory_bytes())),
        Some(size) if size < LEAST && !size.is_zero() => Err(Failure::usage(format!(
            "{size} is too small for the cache; give at least {LEAST} with --cache, or --cache 0 \
             for no cache"
        ))),
        Some(size) => Ok(size),
    }
}

/// The size of the read cache: as given, or an eighth of the machine's memory.
pub fn read_size(asked: Option<ByteCount>) -> Outcome<ByteCount> {
    match asked {
        Some(size) if size < LEAST && !size.is_zero() => Err(Failure::usage(format!(
            "{size} is too small for the read cache; give at least {LEAST} with --read-cache, or \
             --read-cache 0 for none"
        ))),
        asked => Ok(asked.unwrap_or_else(|| unasked(machine::memory_bytes()))),
    }
}

/// The default size. `memory`: the machine's memory, if it is known.
fn unasked(memory: Option<ByteCount>) -> ByteCount {
    memory.map_or(LEAST, |memory| ByteCount(memory.0 / 8).clamp(LEAST, MOST_UNASKED))
}

/// The folder of the cache memory of the controller with that state folder. `None`: no folder is
/// usable.
///
/// # Errors
/// If the state folder cannot be created: it has no unique name then.
pub fn folder(asked: Option<&Path>, state: &Path) -> Outcome<Option<PathBuf>> {
    let state = platform_linux::make_state_folder(state)?;
    let given = std::env::var("RUNTIME_DIRECTORY").ok();
    // Without a persistent folder, the first one is used; its error is reported with the first
    // write-back volume.
    let lasts = |folder: &Path| is_open(folder) && platform_linux::outlives_process(folder);
    // Another user may have created this folder: its use is refused with its name later.
    let taken = || platform_linux::is_in_memory(Path::new("/dev/shm")).then(of_this_user);
    let usual = || {
        usual(given.as_deref(), lasts).or_else(|| usual(given.as_deref(), is_open)).or_else(taken)
    };
    let base = asked.map(Path::to_owned).or_else(usual);
    Ok(base.map(|base| base.join(name_of(&state))))
}

/// The name of the folder for a state folder: the same at every start. After a checksum collision,
/// locks protect the memory of both controllers.
fn name_of(state: &Path) -> String {
    let bytes = state.as_os_str().as_bytes();
    format!(
        "{:016x}",
        bytes.iter().fold(0, |name, byte| platform::sync::split_mix(name ^ u64::from(*byte)).1)
    )
}

/// The default folder. `given`: by systemd, folders separated by colons.
fn usual(given: Option<&str>, is_open: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let given =
        given.and_then(|folders| folders.split(':').next()).filter(|folder| !folder.is_empty());
    let mut usual =
        given.into_iter().chain([OF_THE_SYSTEM]).map(PathBuf::from).chain([of_this_user()]);
    usual.find(|folder| is_open(folder))
}

fn of_this_user() -> PathBuf {
    format!("/dev/shm/softroc-{}", rustix::process::geteuid().as_raw()).into()
}

/// Whether a folder is on tmpfs, and this user may write to it or create it.
fn is_open(folder: &Path) -> bool {
    let nearest = folder.ancestors().find(|path| path.exists());
    let may = |path| access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    platform_linux::is_in_memory(folder) && nearest.is_some_and(may)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_memory_and_no_more_than_four_gib() {
        let gib = |gib: u64| ByteCount(gib << 30);
        for (memory, cache) in
            [(Some(gib(8)), gib(1)), (Some(gib(32)), gib(4)), (Some(gib(512)), gib(4))]
        {
            assert_eq!(unasked(memory), cache);
        }
        for (memory, cache) in [(Some(ByteCount::MIB), LEAST), (None, LEAST)] {
            assert_eq!(unasked(memory), cache);
        }
    }

    #[test]
    fn no_cache_may_be_asked_for_and_a_tiny_one_may_not() {
        assert_eq!(size(Some(ByteCount::ZERO)).expect("no cache"), ByteCount::ZERO);
        assert_eq!(size(Some(ByteCount::MIB)).expect("a small one"), ByteCount::MIB);
        let refused = size(Some(ByteCount(4096))).expect_err("too small").to_string();
        assert!(refused.contains("4 KiB") && refused.contains("--cache 0"), "{refused}");
    }

    #[test]
    fn the_first_folder_that_is_open_is_used() {
        let usual = |given: Option<&str>, open: &[&str]| {
            let found = usual(given, |path| open.iter().any(|open| path.starts_with(open)));
            found.map(|path| path.display().to_string())
        };
        let given = Some("/run/ours:/run/more");
        assert_eq!(usual(given, &["/run", "/dev/shm"]).as_deref(), Some("/run/ours"));
        for none in [None, Some("")] {
            assert_eq!(usual(none, &["/run", "/dev/shm"]).as_deref(), Some(OF_THE_SYSTEM));
        }
        let of_user = usual(given, &["/dev/shm"]).expect("that one is open");
        assert!(of_user.starts_with("/dev/shm/softroc-"), "{of_user}");
        assert_eq!(usual(given, &[]), None);
    }

    #[test]
    fn each_state_folder_has_a_name_that_stays() {
        let name = |state: &str| name_of(Path::new(state));
        assert_eq!(name("/var/lib/softroc"), "3d12e0d45b118a58");
        assert_ne!(name("/var/lib/softroc"), name("/var/lib/softrod"));
        assert_ne!(name("/a/b"), name("/b/a"));
    }
}
