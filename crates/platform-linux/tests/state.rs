//! The state directory: survives restarts, one controller at a time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::TestDir;
use platform::ErrorKind;
use platform_linux::{Settings, Shard};
use units::ByteCount;

fn with_state(dir: &TestDir) -> Settings {
    Settings { state: Some(dir.path().join("state")), ..Settings::with_memory(ByteCount::MIB) }
}

#[test]
fn what_is_stored_and_appended_is_there_after_a_restart() {
    let dir = TestDir::new();
    let shard = Shard::new(&with_state(&dir)).unwrap();
    let env = shard.env().clone();
    shard.run(async move {
        let state = env.world().state();
        assert_eq!(state.load("config").await.unwrap(), None);
        state.store("config", b"one".to_vec()).await.unwrap();
        state.store("config", b"two".to_vec()).await.unwrap();
        state.append("events", b"a".to_vec()).await.unwrap();
        state.append("events", b"b".to_vec()).await.unwrap();
    });
    drop(shard);
    let shard = Shard::new(&with_state(&dir)).unwrap();
    let env = shard.env().clone();
    shard.run(async move {
        let state = env.world().state();
        assert_eq!(state.load("config").await.unwrap().unwrap(), b"two");
        assert_eq!(state.load("events").await.unwrap().unwrap(), b"ab");
    });
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir.path().join("state")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_second_controller_on_the_directory_is_refused_by_name() {
    let dir = TestDir::new();
    let first = Shard::new(&with_state(&dir)).unwrap();
    let error = Shard::new(&with_state(&dir)).err().unwrap();
    assert_eq!(error.kind, ErrorKind::InUse);
    let expected = format!(
        "state directory {} is in use by another softroc serve (pid {})",
        dir.path().join("state").display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    drop(first);
    Shard::new(&with_state(&dir)).map(drop).unwrap();
}

#[test]
fn names_that_would_leave_the_directory_are_refused() {
    let dir = TestDir::new();
    for settings in [with_state(&dir), Settings::with_memory(ByteCount::MIB)] {
        let shard = Shard::new(&settings).unwrap();
        let env = shard.env().clone();
        shard.run(async move {
            for name in ["", "..", "../config", "a/b", "lock", ".hidden"] {
                let error = env.world().state().store(name, Vec::new()).await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::BadName, "{name}");
            }
        });
    }
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let dir = TestDir::new();
    std::fs::write(dir.path().join("state"), "").unwrap();
    assert_eq!(Shard::new(&with_state(&dir)).err().unwrap().kind, ErrorKind::WrongKind);
}

/// The previous content is kept under a second name. Any file or folder in the way is renamed to an
/// unused name.
#[test]
fn a_file_that_is_replaced_keeps_its_previous_version() {
    let dir = TestDir::new();
    let folder = dir.path().join("state");
    let shard = Shard::new(&with_state(&dir)).unwrap();
    let env = shard.env().clone();
    let beside = folder.clone();
    shard.run(async move {
        let state = env.world().state();
        let load = async |name: &'static str| state.load(name).await.unwrap().map(|bytes| bytes[0]);
        for (version, before) in [(1, None), (2, Some(1)), (3, Some(2))] {
            state.replace("config", "config.previous", vec![version]).await.unwrap();
            assert_eq!(
                (load("config").await, load("config.previous").await),
                (Some(version), before)
            );
        }
        // Without a current file the previous version stays.
        assert!(state.set_aside("config", "config.unreadable-1").await.unwrap());
        state.replace("config", "config.previous", vec![4]).await.unwrap();
        assert_eq!((load("config").await, load("config.previous").await), (Some(4), Some(2)));
        std::fs::create_dir(beside.join("other")).unwrap();
        assert!(state.load("other").await.is_err());
        assert!(
            !state.set_aside("other", "config.unreadable-1").await.unwrap(),
            "that name is taken"
        );
        assert!(state.set_aside("other", "other.unreadable-1").await.unwrap());
        assert_eq!(state.load("other").await.unwrap(), None);
        assert_eq!(load("config.unreadable-1").await, Some(3));
    });
    let left = std::fs::read_dir(&folder).unwrap().filter_map(Result::ok);
    let hidden = left.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count();
    assert_eq!(hidden, 0, "no temporary file is left");
    assert!(folder.join("other.unreadable-1").is_dir());
}
