//! The memory of the cache of `softroc serve`: how much it may be, and in which folder it lies.
//!
//! The folder is on a file system of memory: that of `--cache-folder`; or what systemd gives the service (`RuntimeDirectory=`); or
//! `/run/softroc`, where this user may have it; or `/dev/shm/softroc-UID`. In it each state folder has a folder of its own, so that
//! two controllers do not meet, and the next process with the same state finds what the one before has left.

use crate::failure::{Failure, Outcome};
use crate::machine;
use rustix::fs::{Access, access};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use units::ByteCount;

/// The least that is any use.
const LEAST: ByteCount = ByteCount::MIB;

/// The most that is taken without being asked for.
const MOST_UNASKED: ByteCount = ByteCount(4 << 30);

/// Where services of the system keep what lasts as long as the machine runs.
const OF_THE_SYSTEM: &str = "/run/softroc";

/// How much memory the cache may have: as asked, or an eighth of the machine's.
pub fn size(asked: Option<ByteCount>) -> Outcome<ByteCount> {
    match asked {
        None => Ok(unasked(machine::memory_bytes())),
        Some(size) if size < LEAST && !size.is_zero() => Err(Failure::usage(format!(
            "{size} of memory for the cache is too little; give at least {LEAST} with --cache, or --cache 0 for no cache"
        ))),
        Some(size) => Ok(size),
    }
}

/// How much memory there is for what is kept of reads: as asked, or an eighth of the machine's.
pub fn read_size(asked: Option<ByteCount>) -> Outcome<ByteCount> {
    match asked {
        Some(size) if size < LEAST && !size.is_zero() => Err(Failure::usage(format!(
            "{size} of memory for what is read is too little; give at least {LEAST} with --read-cache, or --read-cache 0 for none"
        ))),
        asked => Ok(asked.unwrap_or_else(|| unasked(machine::memory_bytes()))),
    }
}

/// `memory`: what the machine has, if that can be told.
fn unasked(memory: Option<ByteCount>) -> ByteCount {
    memory.map_or(LEAST, |memory| ByteCount(memory.0 / 8).clamp(LEAST, MOST_UNASKED))
}

/// The folder for the cache's memory of the controller with that state folder. `None`: this machine has none to be had.
///
/// # Errors
/// When the state folder cannot be made: it has no name of its own then.
pub fn folder(asked: Option<&Path>, state: &Path) -> Outcome<Option<PathBuf>> {
    let state = platform_linux::make_state_folder(state)?;
    let given = std::env::var("RUNTIME_DIRECTORY").ok();
    // Where none outlives this process, the first one says why when a volume wants it.
    let lasts = |folder: &Path| is_open(folder) && platform_linux::outlives_process(folder);
    // Another user may have made the folder of this one: it is refused by name when it is used.
    let taken = || platform_linux::is_in_memory(Path::new("/dev/shm")).then(of_this_user);
    let usual = || usual(given.as_deref(), lasts).or_else(|| usual(given.as_deref(), is_open)).or_else(taken);
    let base = asked.map(Path::to_owned).or_else(usual);
    Ok(base.map(|base| base.join(name_of(&state))))
}

/// What the folder of a state folder is called: the same at every start. Two that are called the same do not spoil each other's
/// memory, which is locked.
fn name_of(state: &Path) -> String {
    let bytes = state.as_os_str().as_bytes();
    format!(
        "{:016x}",
        bytes.iter().fold(0, |name, byte| platform::sync::split_mix(name ^ u64::from(*byte)).1)
    )
}

/// The folder that is used where none is asked for. `given`: by systemd, folders with colons between them.
fn usual(given: Option<&str>, is_open: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let given = given.and_then(|folders| folders.split(':').next()).filter(|folder| !folder.is_empty());
    let mut usual = given.into_iter().chain([OF_THE_SYSTEM]).map(PathBuf::from).chain([of_this_user()]);
    usual.find(|folder| is_open(folder))
}

fn of_this_user() -> PathBuf {
    format!("/dev/shm/softroc-{}", rustix::process::geteuid().as_raw()).into()
}

/// Whether a folder is in memory, and this user may write to it, or make it.
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
        for (memory, cache) in [(Some(gib(8)), gib(1)), (Some(gib(32)), gib(4)), (Some(gib(512)), gib(4))] {
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
        let refused = size(Some(ByteCount(4096))).expect_err("too little").to_string();
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
