//! The state directory: kept over restarts, held by one.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the world from outside"
)]

mod common;

use common::TestDir;
use env::ErrorKind;
use units::ByteCount;
use world_real::{Settings, Shard};

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
