//! Attacks by other users of the computer: links, files and folders of theirs, and renames. They
//! are refused by name, and the target of a link stays unchanged. The other user is the owner of a
//! file that root gives away, or one that root becomes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::TestDir;
use platform::{Address, Env, Error, ErrorKind, KeptSize};
use platform_linux::{Settings, Shard, SocketPermissions, StateFolder, listen_unix};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use units::ByteCount;

/// `nobody`.
const OTHER: u32 = 65_534;

/// Gives a file to another user; `false`, with the reason printed, if only root could.
fn give_away(path: &Path) -> bool {
    let given = lchown(path, Some(OTHER), Some(OTHER)).is_ok();
    if !given {
        println!("skipped: only root can give a file to another user");
    }
    given
}

fn take_back(path: &Path) {
    lchown(path, Some(0), Some(0)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn with_state(folder: &Path) -> Settings {
    Settings { state: Some(folder.to_owned()), ..Settings::with_memory(ByteCount::MIB) }
}

fn refused_state(folder: &Path) -> Error {
    Shard::new(&with_state(folder)).err().expect("it is refused")
}

#[track_caller]
fn says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "'{part}' is missing: {error}");
    }
}

#[test]
fn links_in_the_state_directory_are_not_followed() {
    let dir = TestDir::new();
    let (state, outside) = (dir.path().join("state"), dir.path().join("outside"));
    let shard = Shard::new(&with_state(&state)).unwrap();
    std::fs::write(&outside, "precious").unwrap();
    for name in ["read", "appended", "stored", "replaced", ".stored.new", ".replaced.previous.new"]
    {
        symlink(&outside, state.join(name)).unwrap();
    }
    let env = shard.env().clone();
    let folder = StateFolder::new(&state);
    shard.run(async move {
        let files = env.world().state();
        let link = ["state/", "is a symbolic link, which is not followed", "rm "];
        says(&files.load("read").await.unwrap_err(), ErrorKind::Denied, &link);
        says(&folder.read("read").unwrap_err(), ErrorKind::Denied, &link);
        says(&files.append("appended", vec![1]).await.unwrap_err(), ErrorKind::Denied, &link);
        // The link itself is replaced, and renamed.
        files.store("stored", b"new".to_vec()).await.unwrap();
        folder.write("written", b"new").unwrap();
        files.replace("replaced", "replaced.previous", b"new".to_vec()).await.unwrap();
        assert!(files.set_aside("read", "read.unreadable-1").await.unwrap());
        assert_eq!(files.load("stored").await.unwrap().unwrap(), b"new");
        assert_eq!(files.load("replaced").await.unwrap().unwrap(), b"new");
        says(&files.load("replaced.previous").await.unwrap_err(), ErrorKind::Denied, &link);
    });
    assert_eq!(std::fs::read(&outside).unwrap(), b"precious");
    assert_eq!(std::fs::read_link(state.join("read.unreadable-1")).unwrap(), outside);
    assert_eq!((mode(state.join("stored")), mode(state.join("written"))), (0o600, 0o600));
    drop(shard);
    std::fs::remove_file(state.join("lock")).unwrap();
    symlink(&outside, state.join("lock")).unwrap();
    says(&refused_state(&state), ErrorKind::Denied, &["state/lock", "is a symbolic link"]);
    assert_eq!(std::fs::read(&outside).unwrap(), b"precious");
}

#[test]
fn a_state_directory_that_others_can_change_is_refused() {
    let dir = TestDir::new();
    let state = dir.path().join("made/state");
    drop(Shard::new(&with_state(&state)).unwrap());
    assert_eq!(mode(&state), 0o700);
    for (others, text) in [(0o720, "mode 0720"), (0o702, "mode 0702"), (0o1777, "mode 1777")] {
        set_mode(&state, others);
        let ways =
            ["made/state can be written by other users", text, "chmod go-w", "'--state DIR'"];
        says(&refused_state(&state), ErrorKind::Denied, &ways);
        says(&StateFolder::new(&state).write("x", b"").unwrap_err(), ErrorKind::Denied, &ways);
    }
    set_mode(&state, 0o755);
    let link = dir.path().join("link");
    symlink(&state, &link).unwrap();
    drop(Shard::new(&with_state(&link)).unwrap());
    if !give_away(&link) {
        return;
    }
    says(
        &refused_state(&link),
        ErrorKind::Denied,
        &["link is a symbolic link of another user (uid 65534)"],
    );
    assert!(give_away(&state));
    let theirs = ["belongs to another user (uid 65534; expected uid 0 or root)", "chown -R 0 "];
    says(&refused_state(&state), ErrorKind::Denied, &theirs);
    take_back(&state);
    StateFolder::new(&state).write("file", b"").unwrap();
    assert!(give_away(&state.join("file")));
    let error = StateFolder::new(&state).read("file").unwrap_err();
    says(&error, ErrorKind::Denied, &["state/file: it belongs to another user (uid 65534)"]);
}

/// A folder in memory for one test, removed when dropped.
struct Shm(PathBuf);

impl Shm {
    fn new(name: &str) -> Shm {
        let path =
            PathBuf::from(format!("/dev/shm/platform-linux-others-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Shm(path)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with_kept<T: 'static>(folder: &Path, body: impl AsyncFnOnce(Env) -> T + 'static) -> T {
    let kept = Some(folder.to_owned());
    let shard = Shard::new(&Settings { kept, ..Settings::with_memory(ByteCount::MIB) }).unwrap();
    let env = shard.env().clone();
    shard.run(async move { body(env).await })
}

/// Takes memory in that folder and drops it; returns whether it existed before.
fn take(folder: &Path) -> Result<bool, Error> {
    const SIZE: KeptSize = KeptSize::whole(4, ByteCount(8192));
    with_kept(folder, async |env| {
        let memory = env.world().kept_memory("cache", Some(SIZE)).await?;
        Ok(memory.expect("it is made if it is missing").was_there)
    })
}

fn refused_memory(folder: &Path) -> Error {
    let error = take(folder).expect_err("it is refused");
    let trouble = platform_linux::trouble_with_kept(folder).expect("there is trouble");
    assert_eq!(trouble.to_string(), error.to_string());
    error
}

/// A user with write access to a parent folder may rename a folder in it, and put another one
/// there.
#[test]
fn memory_is_kept_where_no_other_user_can_rename_it() {
    let shm = Shm::new("above");
    let (base, own) = (shm.0.join("base"), shm.0.join("base/own"));
    assert!(!take(&own).unwrap(), "it is new");
    assert_eq!((mode(&base), mode(&own), mode(own.join("cache.kept"))), (0o700, 0o700, 0o600));
    assert!(take(&own).unwrap());
    for open in [0o720, 0o702] {
        set_mode(&base, open);
        let at = format!("{} can be written by other users", base.display());
        says(
            &refused_memory(&own),
            ErrorKind::Denied,
            &["base/own is not used", &at, "'--cache-folder DIR'"],
        );
        // No folder is created there either.
        says(&refused_memory(&base.join("new")), ErrorKind::Denied, &["base/new is not used", &at]);
        assert!(!base.join("new").exists());
    }
    // Like /dev/shm: other users cannot rename this user's folder.
    set_mode(&base, 0o1777);
    assert!(take(&own).unwrap());
    set_mode(&own, 0o1777);
    says(&refused_memory(&own), ErrorKind::Denied, &["mode 1777"]);
    set_mode(&own, 0o700);
    std::fs::set_permissions(own.join("cache.kept"), std::fs::Permissions::from_mode(0o660))
        .unwrap();
    says(
        &take(&own).unwrap_err(),
        ErrorKind::Denied,
        &["cache.kept can be written by other users (mode 0660"],
    );
    set_mode(&own.join("cache.kept"), 0o600);
    assert!(take(&own).unwrap(), "the refused file is unchanged");
}

#[test]
fn memory_is_not_taken_over_from_another_user() {
    let shm = Shm::new("theirs");
    let (base, own) = (shm.0.join("base"), shm.0.join("base/own"));
    assert!(!take(&own).unwrap());
    set_mode(&base, 0o755);
    if !give_away(&base) {
        return;
    }
    // The owner of a folder may rename all folders in it.
    let moved = Command::new("mv").arg(&own).arg(base.join("moved")).uid(OTHER).gid(OTHER).status();
    assert!(moved.unwrap().success());
    let theirs =
        format!("{} belongs to another user (uid 65534; expected uid 0 or root)", base.display());
    says(&refused_memory(&own), ErrorKind::Denied, &[&theirs, "'--cache-folder DIR'"]);
    let listed = with_kept(&own, async |env| env.world().other_memories("cache").await);
    let Err(error) = listed else { panic!("it is refused") };
    says(&error, ErrorKind::Denied, &[&theirs]);
    assert!(!own.exists(), "no folder is created there");
    take_back(&base);
    set_mode(&base, 0o700);
    std::fs::rename(base.join("moved"), &own).unwrap();
    assert!(take(&own).unwrap());
    // In a folder of this user no other user can.
    let mut thief = Command::new("mv");
    let moved = thief.arg(&own).arg(base.join("moved")).uid(OTHER).gid(OTHER).output().unwrap();
    assert!(!moved.status.success() && own.exists());
    // Links of other users are not followed.
    let link = shm.0.join("link");
    symlink(&base, &link).unwrap();
    assert!(take(&link.join("own")).unwrap(), "it is this user's own");
    assert!(give_away(&link));
    let error = refused_memory(&link.join("own"));
    says(&error, ErrorKind::Denied, &["link is a symbolic link of another user (uid 65534)"]);
    // A folder of another user next to this one is not listed.
    assert!(!take(&base.join("other")).unwrap(), "it is new");
    let list =
        || with_kept(&base.join("own"), async |env| env.world().other_memories("cache").await);
    assert_eq!(list().unwrap().len(), 1);
    assert!(give_away(&base.join("other")));
    assert_eq!(list().unwrap().len(), 0);
}

#[test]
fn sockets_are_this_users_alone_unless_others_are_let_in() {
    let dir = TestDir::new();
    let path = dir.file("socket");
    let made = |permissions| {
        let address = Address::Unix(path.clone());
        let shard =
            Shard::new(&Settings { permissions, ..Settings::with_memory(ByteCount::MIB) }).unwrap();
        let env = shard.env().clone();
        shard.run(async move {
            let listener = env.world().listen(&address).await.unwrap();
            let Address::Unix(path) = listener.address() else { panic!("it is a path") };
            std::fs::symlink_metadata(path).unwrap()
        })
    };
    let own = made(SocketPermissions::default());
    assert_eq!(own.mode() & 0o7777, 0o600);
    let group = own.gid();
    let grouped = made(SocketPermissions { mode: 0o660, group: Some(group) });
    assert_eq!((grouped.mode() & 0o7777, grouped.gid()), (0o660, group));
    // A leftover socket of another user: this process must not remove it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    if !give_away(Path::new(&path)) {
        return;
    }
    let error = listen_unix(&path, SocketPermissions::default()).err().unwrap();
    says(
        &error,
        ErrorKind::Denied,
        &["belongs to another user (uid 65534)", &format!("'rm {path}'")],
    );
    assert_eq!(std::fs::symlink_metadata(&path).unwrap().uid(), OTHER);
    chown(&path, Some(0), Some(0)).unwrap();
    let grouped = made(SocketPermissions { mode: 0o660, group: Some(OTHER) });
    assert_eq!((grouped.mode() & 0o7777, grouped.gid()), (0o660, OTHER));
    assert!(!Path::new(&path).exists(), "it goes with its listener");
}
