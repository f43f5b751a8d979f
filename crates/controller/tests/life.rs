//! The life of volumes: created, used, degraded, stopped, started again.

use crate::common::{self, Bench, DRIVE, MIB, create, drive_options, volume};
use controller::{Command, DriveInfo, DriveState, ErrorKind, Reply, Severity, VolumeState};
use platform::IoErrorKind;
use platform_sim::Unwritten;
use units::{ByteCount, ByteOffset, ByteRange};

#[test]
fn a_volume_is_created_served_and_found_again_after_a_restart() {
    for (shards, level, drives) in
        [(1, "raid0", 2), (2, "raid1", 2), (1, "raid5", 3), (2, "raid5", 4)]
    {
        let mut bench = Bench::new(7, shards, drives);
        let names = common::names(drives);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        bench.boot(&[]);
        let (info, _) = bench.create("data", level, &names);
        assert_eq!((info.state, info.level.as_str()), (VolumeState::Optimal, level));
        assert_eq!(info.drives.len(), drives);
        for at in 0..16 {
            bench.write("data", at * 65536, at as u8 + 1, 65536);
        }
        bench.settle("data");
        assert_eq!(bench.shut_down(), Vec::<String>::new());
        bench.restart(&[]);
        let again = bench.show("data");
        assert_eq!((again.state, &again.uuid), (VolumeState::Optimal, &info.uuid));
        assert!(bench.has_event("it was cleanly shut down"), "{:?}", bench.events());
        for at in 0..16 {
            bench.expect("data", at * 65536, at as u8 + 1, 65536);
        }
    }
}

#[test]
fn created_on_drives_of_unknown_content_it_is_redundant_at_once_and_initialised_in_the_background()
{
    let mut bench = Bench::new(3, 1, 0);
    for name in ["a", "b", "c"] {
        // Large enough that the initialisation is not complete when the command is acknowledged.
        let size = ByteCount(DRIVE + 64 * MIB);
        let noise =
            platform_sim::DriveOptions { unwritten: Unwritten::Noise, size, ..drive_options() };
        bench.sim.add_drive(name, noise);
    }
    bench.boot(&[]);
    let (info, notes) = bench.create("data", "raid5", &["a", "b", "c"]);
    assert!(info.resync.is_none() && info.initialisation.is_some(), "{info:?}");
    assert_eq!((info.state, info.may_lose), (VolumeState::Optimal, 1));
    assert!(notes.iter().any(|note| note.contains("initialising")), "{notes:?}");
    let mut expected = vec![0; 2 * MIB as usize];
    assert_eq!(bench.try_read("data", 0, 2 * MIB).unwrap(), expected, "the stripe is unwritten");
    bench.write("data", 4096, 9, 8192);
    expected[4096..4096 + 8192].fill(9);
    bench.settle("data");
    assert!(bench.has_event("the initialisation of 'data' is complete"));
    bench.ask(common::fail_drive("b")).unwrap();
    assert_eq!(bench.try_read("data", 0, 2 * MIB).unwrap(), expected);
}

#[test]
fn file_drives_that_were_just_made_need_no_resync() {
    let mut bench = Bench::new(3, 1, 0);
    bench.boot(&[]);
    for name in ["/x/a", "/x/b", "/x/c"] {
        bench.ask(Command::DriveAdd { drive: name.into(), size_bytes: Some(DRIVE) }).unwrap();
    }
    let (info, notes) = bench.create("data", "raid5", &["/x/a", "/x/b", "/x/c"]);
    assert_eq!((info.resync, info.dirty_regions), (None, 0));
    assert!(notes.is_empty(), "{notes:?}");
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "its drives are remembered");
}

#[test]
fn memory_drives_of_one_name_are_drives_of_their_own() {
    let mut bench = Bench::new(3, 1, 0);
    bench.boot(&[]);
    bench.ask(Command::DriveAdd { drive: "mem:40M".into(), size_bytes: None }).unwrap();
    let (info, notes) = bench.create("data", "raid5", &["mem:40M", "mem:40M", "mem:40M"]);
    let names: Vec<&str> = info.drives.iter().map(|drive| drive.name.as_str()).collect();
    assert_eq!(names, ["mem:40M", "mem:40M#2", "mem:40M#3"]);
    assert!(notes[0].contains("lose their contents when the controller stops"), "{notes:?}");
    assert_eq!(info.resync, None);
    bench.write("data", 0, 5, 65536);
    bench.ask(common::fail_drive("data:0")).unwrap();
    bench.expect("data", 0, 5, 65536);
    bench.ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false }).unwrap();
    bench.create("more", "raid0", &["null:40M", "mem:40M"]);
}

#[test]
fn drives_in_another_order_and_under_other_paths_come_up_as_the_same_volume() {
    let mut bench = Bench::new(5, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    for at in 0..8 {
        bench.write("data", at * 65536, at as u8 + 1, 65536);
    }
    bench.shut_down();
    for (drive, alias) in [("a", "z1"), ("b", "y2"), ("c", "x3")] {
        let drive = bench.sim.drive(drive).unwrap();
        bench.sim.alias_drive(&drive, alias);
    }
    bench.sim.remove_stored("drives.toml");
    bench.restart(&["x3", "z1", "y2"]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Optimal);
    let names: Vec<&str> = info.drives.iter().map(|drive| drive.name.as_str()).collect();
    assert_eq!(names, ["z1", "y2", "x3"]);
    for at in 0..8 {
        bench.expect("data", at * 65536, at as u8 + 1, 65536);
    }
}

#[test]
fn a_failed_drive_is_recorded_and_recognised_as_stale_after_a_restart() {
    let mut bench = Bench::new(11, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 1, 4 * 65536);
    bench.sim.drive("b").unwrap().fail_next(1, Some("write"), IoErrorKind::Medium);
    bench.write("data", 0, 2, 4 * 65536);
    let info = bench.show("data");
    assert_eq!((info.state, info.may_lose), (VolumeState::Degraded, 0));
    assert_eq!(info.drives[1].state, DriveState::Failed);
    assert!(info.reasons[0].contains("drive b failed"), "{:?}", info.reasons);
    bench.expect("data", 0, 2, 4 * 65536);
    bench.settle("data");
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!((info.state, info.drives[1].state), (VolumeState::Degraded, DriveState::Failed));
    assert!(
        info.drives[1].reason.as_ref().unwrap().contains("b is not in use"),
        "{:?}",
        info.drives[1]
    );
    assert_eq!(info.drives[1].stale_regions, 1);
    bench.expect("data", 0, 2, 4 * 65536);
}

#[test]
fn a_drive_that_was_absent_while_writes_went_on_is_not_used() {
    for level in ["raid1", "raid5"] {
        let mut bench = Bench::new(13, 1, 3);
        bench.boot(&[]);
        bench.create("data", level, &["a", "b", "c"]);
        bench.settle("data");
        bench.write("data", 0, 1, 65536);
        bench.shut_down();
        bench.sim.drive("a").unwrap().vanish();
        bench.restart(&[]);
        let info = bench.show("data");
        assert_eq!(
            (info.state, info.drives[0].state),
            (VolumeState::Degraded, DriveState::Missing),
            "{level}"
        );
        bench.write("data", 0, 2, 65536);
        bench.settle("data");
        bench.shut_down();
        bench.sim.drive("a").unwrap().come_back();
        bench.restart(&[]);
        let info = bench.show("data");
        assert_eq!(
            (info.state, info.drives[0].state),
            (VolumeState::Degraded, DriveState::Stale),
            "{level}"
        );
        bench.expect("data", 0, 2, 65536);
        bench.wait(60);
        assert_eq!(
            bench.show("data").state,
            VolumeState::Optimal,
            "{level}: the resync starts automatically"
        );
    }
}

#[test]
fn a_drive_that_was_absent_while_nothing_was_written_is_used_again() {
    let mut bench = Bench::new(13, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.shut_down();
    bench.sim.drive("a").unwrap().vanish();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.sim.drive("a").unwrap().come_back();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert!(bench.has_event("nothing was written while it was out"));
}

#[test]
fn mirrors_used_without_one_another_are_not_started() {
    let mut bench = Bench::new(13, 1, 2);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.shut_down();
    for (gone, there, byte) in [("a", "b", 1), ("b", "a", 2)] {
        bench.sim.drive(gone).unwrap().vanish();
        bench.restart(&[there]);
        bench.write("data", 0, byte, 4096);
        bench.settle("data");
        bench.shut_down();
        bench.sim.drive(gone).unwrap().come_back();
    }
    bench.restart(&["a", "b"]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Offline);
    let why = info.reasons.join("; ");
    assert!(why.contains("were used separately"), "{why}");
    assert!(why.contains("a made change") && why.contains("without b"), "{why}");
    assert!(why.contains("b made change") && why.contains("without a"), "{why}");
}

#[test]
fn an_operator_takes_a_drive_out_and_back_in_while_nothing_is_written() {
    let mut bench = Bench::new(17, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.ask(common::take_offline("data:1")).unwrap();
    assert_eq!(bench.drive("b").state, DriveState::Offline);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    let why = bench.refused(ErrorKind::WrongState, common::take_offline("c"));
    assert!(why.contains("needs drive c"), "{why}");
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.write("data", 0, 3, MIB);
    bench.ask(common::fail_drive("a")).unwrap();
    bench.expect("data", 0, 3, MIB);
}

#[test]
fn raid_0_goes_offline_with_a_drive_and_is_whole_again_when_it_is_back() {
    let mut bench = Bench::new(19, 2, 2);
    bench.boot(&[]);
    bench.create("data", "raid0", &["a", "b"]);
    bench.write("data", 0, 7, 4 * 65536);
    bench.sim.drive("b").unwrap().vanish();
    assert!(bench.try_write("data", 0, 8, 4 * 65536).unwrap().is_err());
    // The host gets the error at once; the failure of the drive is being recorded.
    bench.wait(1);
    let info = bench.show("data");
    assert_eq!((info.state, info.drives[1].state), (VolumeState::Offline, DriveState::Failed));
    assert!(info.reasons[0].contains("volume start data"), "{:?}", info.reasons);
    bench.refused(
        ErrorKind::WrongState,
        Command::VolumeStart { volume: "data".into(), accept_stale_parity: true, degraded: false },
    );
    bench.sim.drive("b").unwrap().come_back();
    let started = bench.ask(Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity: false,
        degraded: false,
    });
    assert_eq!(volume(started).0.state, VolumeState::Optimal);
    bench.write("data", 0, 9, 4 * 65536);
    bench.expect("data", 0, 9, 4 * 65536);
}

/// RAID 5 over three drives, full of 8, of which two vanished while the first `len` bytes of each
/// strip were written with 9; one is back, and the controller was restarted.
fn that_lost_two_drives(len: u64, create: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::new(19, 1, 3);
    bench.boot(&[]);
    create(&mut bench);
    bench.settle("data");
    bench.write("data", 0, 7, 4 * 65536);
    bench.settle("data");
    bench.sim.drive("a").unwrap().vanish();
    bench.write("data", 0, 8, 4 * 65536);
    bench.settle("data");
    bench.sim.drive("b").unwrap().vanish();
    for at in 0..4 {
        assert!(bench.try_write("data", at * 65536, 9, len).unwrap().is_err());
    }
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    bench.sim.drive("b").unwrap().come_back();
    bench.restart(&[]);
    bench
}

#[test]
fn raid_5_that_loses_a_second_drive_acknowledges_nothing_and_is_whole_when_it_is_back() {
    let mut bench = that_lost_two_drives(65536, |bench| {
        bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    });
    // Degraded, with interrupted writes: the operator decides.
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Offline);
    assert!(
        info.reasons.iter().any(|reason| reason.contains("--accept-stale-parity")),
        "{:?}",
        info.reasons
    );
    bench.refused(
        ErrorKind::WrongState,
        Command::VolumeStart { volume: "data".into(), accept_stale_parity: false, degraded: false },
    );
    let started = bench.ask(Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity: true,
        degraded: false,
    });
    assert_eq!(volume(started).0.state, VolumeState::Degraded);
    assert!(bench.has_event("accepted in"));
    bench.try_read("data", 0, 4 * 65536).unwrap();
    bench.settle("data");
}

/// The same with a journal: no operator is needed, and bytes outside the interrupted writes are
/// unchanged.
#[test]
fn raid_5_with_a_journal_that_loses_a_second_drive_starts_without_an_operator() {
    let mut bench = that_lost_two_drives(4096, |bench| {
        bench.create("data", "raid5", &["a", "b", "c"]);
    });
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    for at in 0..4 {
        bench.expect("data", at * 65536 + 4096, 8, 65536 - 4096);
    }
    bench.settle("data");
}

#[test]
fn the_second_controller_is_locked_out() {
    let mut bench = Bench::new(23, 1, 2);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    // Another process on the same host holds the drives of a third controller.
    let next_door = bench.sim.add_process();
    bench.sim.add_drive("c", drive_options());
    bench.sim.add_drive("d", drive_options());
    let other = bench.sim.env_of(next_door, 0);
    let held = other.clone();
    let opening = other.spawn("open", async move { held.world().open_drive("c").await });
    let source = bench.sim.finish(&opening).unwrap().unwrap();
    let why = bench.refused(ErrorKind::InUse, create("more", "raid0", &["c", "d"]));
    assert!(why.contains("another controller"), "{why}");
    drop(source);
    bench.create("more", "raid0", &["c", "d"]);
    let held = other.clone();
    let opening = other.spawn("open", async move { held.world().open_drive("a").await.map(drop) });
    assert_eq!(bench.sim.finish(&opening).unwrap().unwrap_err().kind, platform::ErrorKind::InUse);
}

#[test]
fn a_drive_that_does_not_answer_goes_out_and_what_it_still_holds_does_no_harm() {
    let mut bench = Bench::new(53, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 1, 4 * 65536);
    bench.sim.drive("b").unwrap().hold();
    bench.write("data", 0, 2, 4 * 65536);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.write("data", 0, 3, 4 * 65536);
    bench.sim.drive("b").unwrap().release();
    bench.settle("data");
    bench.restart(&[]);
    bench.expect("data", 0, 3, 4 * 65536);
    bench.wait(20);
    bench.settle("data");
    assert_eq!(bench.drive("b").state, DriveState::Online, "the drive has its missed writes");
    bench.ask(crate::common::take_offline("a")).unwrap();
    bench.expect("data", 0, 3, 4 * 65536);
}

#[test]
fn a_volume_that_no_shard_can_serve_is_not_created() {
    let mut bench = Bench::new(59, 2, 8);
    bench.boot(&[]);
    let names = common::names(8);
    let Command::VolumeCreate(mut wanted) = create("data", "raid5", &[]) else { unreachable!() };
    wanted.drives.clone_from(&names);
    wanted.strip_bytes = Some(MIB);
    let why = bench.refused(ErrorKind::Failed, Command::VolumeCreate(wanted.clone()));
    assert!(why.contains("--memory"), "{why}");
    assert!(bench.shards.iter().all(|shard| shard.volumes().is_empty()));
    wanted.strip_bytes = None;
    assert_eq!(volume(bench.ask(Command::VolumeCreate(wanted))).0.state, VolumeState::Optimal);
}

#[test]
fn two_volumes_of_one_name_are_told_apart_by_uuid() {
    let mut bench = Bench::new(61, 1, 4);
    bench.boot(&[]);
    let (first, _) = bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.shut_down();
    bench.sim.remove_stored("drives.toml");
    bench.restart(&["c", "d"]);
    bench.create("data", "raid1", &["c", "d"]);
    bench.settle("data");
    bench.shut_down();
    bench.sim.remove_stored("drives.toml");
    bench.restart(&["c", "d"]);
    bench.ask(Command::DriveAdd { drive: "a".into(), size_bytes: None }).unwrap();
    bench.ask(Command::DriveAdd { drive: "b".into(), size_bytes: None }).unwrap();
    let why = bench.refused(ErrorKind::NameTaken, Command::VolumeShow { volume: "data".into() });
    assert!(why.contains(&first.uuid), "{why}");
    let renamed =
        bench.ask(Command::VolumeSet { volume: first.uuid.clone(), name: "first".into() });
    assert!(volume(renamed).1[0].contains("volume start first"));
    let start = Command::VolumeStart {
        volume: "first".into(),
        accept_stale_parity: false,
        degraded: false,
    };
    assert_eq!(volume(bench.ask(start)).0.uuid, first.uuid);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

#[test]
fn a_missing_drive_is_listed_once_with_its_place() {
    let mut bench = Bench::new(67, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    let drives = match bench.ask(Command::DriveList {}) {
        Ok(Reply::Drives { drives }) => drives,
        other => panic!("{other:?}"),
    };
    assert_eq!(drives.len(), 3);
    assert_eq!(
        (drives[1].name.as_str(), drives[1].state, drives[1].slot),
        ("b", DriveState::Missing, Some(1))
    );
    assert_eq!(DriveInfo { work: None, ..bench.drive("b") }, drives[1]);
}

#[test]
fn medium_errors_are_counted_and_reported_without_flooding() {
    let mut bench = Bench::new(29, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 4, 2 * MIB);
    bench.settle("data");
    bench.sim.drive("a").unwrap().make_unreadable(ByteRange::new(ByteOffset::ZERO, ByteCount(MIB)));
    for at in 0..32 {
        bench.expect("data", at * 65536, 4, 65536);
    }
    // The blocks are repaired and counted in the background.
    bench.wait(3);
    let count = bench.drive("a").medium_errors;
    assert!(count >= 10, "{count}");
    let events = bench.events();
    let told = events.iter().filter(|event| event.cause == "medium error").count();
    assert!((1..=3).contains(&told), "{told} events for {count} errors");
}

#[test]
fn blocks_whose_content_is_lost_are_listed_until_a_host_writes_them() {
    let mut bench = Bench::new(30, 1, 0);
    for name in ["a", "b", "c"] {
        let noise = platform_sim::DriveOptions { unwritten: Unwritten::Noise, ..drive_options() };
        bench.sim.add_drive(name, noise);
    }
    let unreadable = ByteRange::new(ByteOffset(8192), ByteCount(4096));
    bench.boot(&[]);
    bench
        .create_with("data", "raid5", &["a", "b", "c"], |create| create.destroy_data = true)
        .unwrap();
    bench.write("data", 0, 3, 128 << 10);
    bench.settle("data");
    // A block and the parity from which it could be computed.
    ["a", "c"].iter().for_each(|drive| bench.sim.drive(drive).unwrap().make_unreadable(unreadable));
    assert!(bench.try_read("data", 8192, 4096).is_err());
    bench.wait(3);
    let lost = bench.show("data").lost_bytes;
    assert_eq!(lost, 4096);
    bench.sim.drive("a").unwrap().heal(unreadable);
    bench.shut_down();
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!((info.lost_bytes, info.state), (lost, VolumeState::Optimal));
    assert!(bench.try_read("data", 0, 64 << 10).is_err());
    for at in [0, 8192 + 4096] {
        bench.try_read("data", at, 8192).unwrap();
    }
    bench.write("data", 8192, 5, 4096);
    bench.expect("data", 8192, 5, 4096);
    bench.wait(3);
    assert_eq!(bench.show("data").lost_bytes, 0);
    bench.restart(&[]);
    assert_eq!(bench.show("data").lost_bytes, 0);
    bench.expect("data", 8192, 5, 4096);
}

#[test]
fn events_are_kept_over_restarts_even_with_a_torn_line() {
    let mut bench = Bench::new(31, 1, 2);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.ask(common::fail_drive("a")).unwrap();
    bench.wait(1);
    let mut stored = bench.sim.stored("events.jsonl").unwrap();
    stored.extend_from_slice(b"{\"time_un");
    bench.sim.put_stored("events.jsonl", Some(stored));
    bench.restart(&[]);
    bench.wait(1);
    assert!(bench.has_event("'data' was created"));
    let events = bench.events();
    let failed = events.iter().find(|event| event.text.contains("declared failed")).unwrap();
    assert_eq!((failed.severity, failed.subject.as_str()), (Severity::Warning, "a"));
    assert!(failed.effect.contains("degraded"));
    let times: Vec<u64> = events.iter().map(|event| event.time_unix_s).collect();
    assert!(times.is_sorted());
    let text = String::from_utf8(bench.sim.stored("events.jsonl").unwrap()).unwrap();
    let whole =
        text.lines().filter(|line| serde_json::from_str::<controller::Event>(line).is_ok()).count();
    assert_eq!(whole + 1, text.lines().count());
    match bench.ask(Command::EventsList { last: Some(1), about: None }) {
        Ok(Reply::Events { events }) => assert_eq!(events.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_is_renamed_and_deleted() {
    let mut bench = Bench::new(37, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 4, 65536);
    let renamed = bench.ask(Command::VolumeSet { volume: "data".into(), name: "new".into() });
    assert_eq!(volume(renamed).0.state, VolumeState::Optimal);
    bench.expect("new", 0, 4, 65536);
    bench.restart(&[]);
    bench.expect("new", 0, 4, 65536);
    bench.ask(Command::VolumeDelete { volume: "new".into(), disconnect_hosts: false }).unwrap();
    assert!(bench.shards.iter().all(|shard| shard.volumes().is_empty()));
    assert_eq!(bench.drive("a").state, DriveState::Unused);
    bench.restart(&[]);
    assert_eq!(bench.drive("a").state, DriveState::Unused);
    bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "new".into() });
    bench.create("again", "raid5", &["a", "b", "c"]);
}

#[test]
fn shutting_down_clears_the_marks_and_says_clean() {
    let mut bench = Bench::new(41, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 4, 65536);
    assert_eq!(bench.show("data").dirty_regions, 1);
    bench.shut_down();
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!((info.dirty_regions, info.resync), (0, None));
}

#[test]
fn explain_speaks_of_a_live_volume_in_its_present_health() {
    let mut bench = Bench::new(43, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    let ask = |volume: Option<&str>| {
        Command::Explain(controller::Explain {
            volume: volume.map(Into::into),
            level: volume.is_none().then(|| "raid5".into()),
            drives: volume.is_none().then_some(3),
            operation: "read".into(),
            size_bytes: 8192,
            ..controller::Explain::default()
        })
    };
    let text = |reply| match reply {
        Ok(Reply::Explained { text, explanation }) => {
            assert!(explanation["stripes"].is_array());
            text
        }
        other => panic!("{other:?}"),
    };
    let optimal = text(bench.ask(ask(None)));
    let way = "Carried out directly: one operation for each contiguous range of a drive (a read: \
        inside one strip).";
    assert!(optimal.lines().nth(1) == Some(way), "{optimal}");
    assert_eq!(text(bench.ask(ask(Some("data")))), optimal);
    bench.ask(common::fail_drive("a")).unwrap();
    let degraded = text(bench.ask(ask(Some("data"))));
    let way = "Carried out by stripes, each with its plan (a read that mapping alone does not \
        serve).";
    assert!(degraded.lines().nth(1) == Some(way), "{degraded}");
}

/// One half of a mirror was pulled, and started and written on another host. Returned to the array,
/// which had been online all the time, it counted as a drive with missed writes: two histories were
/// mixed.
#[test]
fn a_drive_that_was_used_elsewhere_is_not_taken_back_into_a_running_array() {
    let mut bench = Bench::new(29, 1, 2);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.write("data", 0, 1, 4 * 65536);
    bench.sim.drive("b").unwrap().vanish();
    bench.write("data", 0, 2, 4096);
    bench.settle("data");
    bench.shut_down();
    // On the other host.
    bench.sim.drive("a").unwrap().vanish();
    bench.sim.drive("b").unwrap().come_back();
    bench.restart(&["b"]);
    bench.start_degraded("data");
    bench.write("data", 2 * 65536, 3, 4096);
    bench.settle("data");
    bench.shut_down();
    // Back on this host.
    bench.sim.drive("b").unwrap().vanish();
    bench.sim.drive("a").unwrap().come_back();
    bench.restart(&["a"]);
    assert_eq!(bench.show("data").state, VolumeState::Degraded, "drive b is recorded as out");
    bench.sim.drive("b").unwrap().come_back();
    let added = common::drive(bench.ask(Command::DriveAdd { drive: "b".into(), size_bytes: None }));
    assert_eq!(added.state, DriveState::Stale);
    let why = added.reason.unwrap();
    assert!(why.contains("were used separately") && why.contains("drive replace"), "{why}");
    let online = Command::DriveOnline { drive: "b".into() };
    bench.ask(online).unwrap_err();
    bench.expect("data", 2 * 65536, 1, 4096);
    // The drive can still be used: with force, as a blank one.
    let replace =
        Command::DriveReplace { drive: "data:1".into(), with: "b".into(), destroy_data: true };
    bench.ask(replace).unwrap();
    bench.settle("data");
    bench.expect("data", 2 * 65536, 1, 4096);
}
