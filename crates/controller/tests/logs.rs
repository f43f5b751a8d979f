//! Logs: drives that hold journals. Which drives are accepted, what happens to them, and that
//! nothing else uses them.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, DRIVE, MIB, create, drive_options};
use controller::{AddSpare, Command, DriveState, ErrorKind, LogDeviceState, LogInfo, Reply};
use ondisk::{LogLabel, LogMember, LogPlace, Uuid};
use platform::Hardware;
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset};

fn add(drives: &[&str]) -> Command {
    let drives = drives.iter().map(ToString::to_string).collect();
    Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }
}

fn add_over(drives: &[&str]) -> Command {
    let drives = drives.iter().map(ToString::to_string).collect();
    Command::LogAdd { drives, destroy_data: true, same_disk_ok: false }
}

fn remove(drive: &str) -> Command {
    Command::LogRemove { drive: drive.into() }
}

fn spare(drive: &str, destroy_data: bool) -> Command {
    Command::SpareAdd(AddSpare { drive: drive.into(), destroy_data, ..AddSpare::default() })
}

fn logs(reply: Result<Reply, controller::Error>) -> Vec<LogInfo> {
    match reply {
        Ok(Reply::Logs { logs, .. }) => logs,
        other => panic!("{other:?}"),
    }
}

fn list(bench: &mut Bench) -> Vec<LogInfo> {
    logs(bench.ask(Command::LogList {}))
}

/// Its only log: whether it is in use, and its devices.
fn only(logs: &[LogInfo]) -> (bool, Vec<(&str, LogDeviceState)>) {
    assert_eq!(logs.len(), 1, "{logs:?}");
    let devices = logs[0].devices.iter().map(|device| (device.drive.as_str(), device.state));
    (logs[0].in_use, devices.collect())
}

const ONLINE: LogDeviceState = LogDeviceState::Online;

/// A RAID 5 on `a`, `b`, `c`; `d`, `e`, `f` are registered.
fn with_volume(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 1, 6);
    bench.boot(&["d", "e", "f"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench
}

/// The label of a log device of another host, with a journal of `old` on it.
fn label_of_elsewhere(devices: u8) -> LogLabel {
    let member =
        |number: u8| LogMember { uuid: Uuid([number; 16]), name: format!("/there/{number}") };
    LogLabel {
        log: Uuid([7; 16]),
        device: Uuid([1; 16]),
        generation: 5,
        since_unix_s: 1_700_000_000,
        devices: (1..=devices).map(member).collect(),
        place: vec![LogPlace {
            volume: Uuid([9; 16]),
            name: "old".into(),
            start_bytes: MIB,
            len_bytes: 2 * MIB,
        }],
    }
}

/// A sector with this beginning.
fn sector(start: &[u8]) -> Vec<u8> {
    let mut sector = start.to_vec();
    sector.resize(512, 0);
    sector
}

fn put(bench: &Bench, drive: &str, label: &LogLabel) {
    let (drive, bytes) = (bench.sim.drive(drive).unwrap(), label.encode().unwrap());
    LogLabel::copies().iter().for_each(|copy| drive.poke(copy.start, &bytes));
}

#[test]
fn a_drive_becomes_a_log_device_and_is_one_after_a_restart() {
    let mut bench = with_volume(1);
    let before = bench.drive("d");
    assert_eq!(before.state, DriveState::Unused);
    let added = logs(bench.ask(add(&["d"])));
    assert_eq!(only(&added), (true, vec![("d", ONLINE)]));
    assert_eq!(added[0].devices[0].size_bytes, Some(31 * MIB), "{added:?}");
    assert_eq!((bench.drive("d").state, bench.drive("d").free_bytes), (DriveState::Log, None));
    assert!(bench.has_event("journals can use drive d"));
    bench.power_cycle(&[]);
    assert_eq!(list(&mut bench), added, "the label and its in-use flag were durable");
    assert_eq!(bench.drive("d").state, DriveState::Log);
    let Ok(Reply::Done { .. }) = bench.ask(remove("d")) else { panic!("removed") };
    assert_eq!((list(&mut bench), bench.drive("d").state), (Vec::new(), DriveState::Unused));
    bench.power_cycle(&[]);
    assert_eq!((list(&mut bench), bench.drive("d").state), (Vec::new(), DriveState::Unused));
    // No structure on it identifies it any more.
    bench.ask(spare("d", false)).unwrap();
}

#[test]
fn two_devices_hold_the_same_label_and_one_that_vanished_is_listed() {
    let mut bench = with_volume(2);
    let added = logs(bench.ask(add(&["d", "e"])));
    assert_eq!(only(&added), (true, vec![("d", ONLINE), ("e", ONLINE)]));
    let copy = |bench: &Bench, drive: &str, copy: usize| {
        bench
            .sim
            .drive(drive)
            .unwrap()
            .peek(LogLabel::copies()[copy].start, ByteCount(4096))
            .unwrap()
    };
    assert_eq!(copy(&bench, "d", 0), copy(&bench, "d", 1));
    assert_eq!(copy(&bench, "d", 0)[64..], copy(&bench, "e", 0)[64..]);
    assert_ne!(copy(&bench, "d", 0)[..64], copy(&bench, "e", 0)[..64], "each device is found");
    bench.forget();
    bench.sim.drive("e").unwrap().vanish();
    bench.sim.restart_process();
    bench.boot(&[]);
    let listed = list(&mut bench);
    assert_eq!(only(&listed), (true, vec![("d", ONLINE), ("e", LogDeviceState::Missing)]));
    assert!(listed[0].devices[1].why.as_ref().unwrap().contains("softroc drive add e"));
    // The other device vanishes too: the log in use is still listed, and can be removed.
    bench.forget();
    bench.sim.drive("d").unwrap().vanish();
    bench.sim.restart_process();
    bench.boot(&[]);
    let gone = (true, vec![("d", LogDeviceState::Missing), ("e", LogDeviceState::Missing)]);
    assert_eq!(only(&list(&mut bench)), gone);
    let Ok(Reply::Done { notes }) = bench.ask(remove("d")) else { panic!("removed") };
    assert!(notes.iter().any(|note| note.contains("softroc log remove e")), "{notes:?}");
    // They return with their labels, which are obsolete.
    for drive in ["d", "e"] {
        bench.sim.drive(drive).unwrap().come_back();
    }
    bench.restart(&[]);
    assert!(!only(&list(&mut bench)).0);
    bench.ask(remove("e")).unwrap();
    assert_eq!((list(&mut bench), bench.drive("d").state), (Vec::new(), DriveState::Unused));
}

#[test]
fn what_cannot_be_a_log_is_refused_and_nothing_is_written() {
    let mut bench = with_volume(3);
    bench.add_drives(&["small"], 6 * MIB - 4096);
    bench.ask(spare("e", false)).unwrap();
    let writes = |bench: &Bench, drive: &str| bench.sim.drive(drive).unwrap().stats().writes;
    let before = writes(&bench, "d");
    let mut refused = |kind, command: Command, what: &str| {
        let why = bench.refused(kind, command);
        assert!(why.contains(what) && !why.ends_with('.'), "{why}");
    };
    refused(ErrorKind::Invalid, add(&[]), "name one or two");
    refused(ErrorKind::Invalid, add(&["d", "e", "f"]), "name one or two");
    refused(ErrorKind::Invalid, add(&["d", "d"]), "named twice");
    refused(ErrorKind::Invalid, add(&["d", "small"]), "at least 6 MiB");
    refused(ErrorKind::Invalid, add_over(&["d", "null:64M"]), "does not store data itself");
    refused(ErrorKind::Invalid, add(&["mem:64M"]), "lost with the process");
    for command in [add(&["d", "a"]), add_over(&["a"])] {
        refused(ErrorKind::InUse, command, "drive 0 of 'data'");
    }
    refused(ErrorKind::InUse, add(&["e"]), "hot spare");
    refused(ErrorKind::InUse, add_over(&["e"]), "softroc spare remove e");
    refused(ErrorKind::NotFound, remove("x"), "there is no drive 'x'");
    refused(ErrorKind::WrongState, remove("d"), "softroc log list");
    assert_eq!(writes(&bench, "d"), before);
    assert_eq!(list(&mut bench), Vec::new());
    bench.ask(add(&["d"])).unwrap();
    let why = bench.refused(ErrorKind::WrongState, add(&["f"]));
    assert!(why.contains("softroc log remove d"), "{why}");
}

#[test]
fn what_a_drive_holds_is_lost_by_order_alone_and_then_wholly() {
    let mut bench = with_volume(4);
    // A file system's magic number at the start; an md 0.90 superblock at the end, up to 128 KiB
    // from it.
    bench.add_drives(&["odd"], DRIVE + (32 << 10));
    let drive = bench.sim.drive("odd").unwrap();
    drive.poke(ByteOffset(32768), &sector(b"\x01CD001\x01"));
    let superblock = (drive.size().0 & !0xFFFF) - 0x10000;
    drive.poke(ByteOffset(superblock), &sector(&[0xFC, 0x4E, 0x2B, 0xA9, 0, 0, 0, 0, 90, 0, 0, 0]));
    let why = bench.refused(ErrorKind::HoldsData, add(&["odd"]));
    assert!(
        why.contains("ISO 9660") && why.contains("md") && why.contains("--destroy-data"),
        "{why}"
    );
    bench.ask(add_over(&["odd"])).unwrap();
    bench.ask(remove("odd")).unwrap();
    bench.ask(spare("odd", false)).unwrap();
}

#[test]
fn nothing_else_takes_a_log_device() {
    let mut bench = with_volume(5);
    bench.ask(add(&["d"])).unwrap();
    let place = |destroy_data| Command::DriveReplace {
        drive: "data:0".into(),
        with: "d".into(),
        destroy_data,
    };
    for destroy in [false, true] {
        for command in [spare("d", destroy), place(destroy)] {
            let why = bench.refused(ErrorKind::InUse, command);
            assert!(why.contains("softroc log remove d"), "{why}");
        }
    }
    let wanted =
        bench.create_with("more", "raid1", &["d", "e"], |create| create.destroy_data = true);
    assert!(wanted.unwrap_err().message.contains("softroc log remove d"));
    let forget = Command::DriveForget { drive: "d".into() };
    assert!(bench.refused(ErrorKind::InUse, forget).contains("softroc log remove d"));
    let clear = Command::ForeignClear { drives: vec!["d".into()] };
    let Ok(Reply::Foreign { drives, .. }) = bench.ask(Command::ForeignList {}) else {
        panic!("a list")
    };
    assert!(drives.iter().all(|drive| drive.name != "d"), "{drives:?}");
    bench.refused(ErrorKind::InUse, clear);
    // An emergency spare is taken where there is no other spare: not a log device.
    let policy = controller::SetPolicy {
        volume: "data".into(),
        emergency_spare: Some(true),
        ..controller::SetPolicy::default()
    };
    bench.ask(Command::VolumePolicy(policy)).unwrap();
    for drive in ["e", "f"] {
        bench.ask(Command::DriveForget { drive: drive.into() }).unwrap();
    }
    bench.ask(crate::common::fail_drive("a")).unwrap();
    bench.wait(60);
    assert_eq!(
        (bench.drive("d").state, bench.show("data").drives[0].state),
        (DriveState::Log, DriveState::Failed)
    );
}

#[test]
fn two_partitions_of_one_disk_are_taken_on_consent_alone() {
    let mut bench = Bench::new(6, 1, 0);
    for name in ["p1", "p2", "other"] {
        let serial = Some(if name == "other" { "2" } else { "1" }.to_owned());
        let hardware = Hardware { serial, model: Some("X".into()), ..Hardware::default() };
        bench.sim.add_drive(name, DriveOptions { hardware, ..drive_options() });
    }
    bench.boot(&[]);
    let why = bench.refused(ErrorKind::Invalid, add(&["p1", "p2"]));
    assert!(why.contains("one disk") && why.contains("--yes"), "{why}");
    let drives = vec!["p1".to_owned(), "p2".to_owned()];
    bench.ask(Command::LogAdd { drives, destroy_data: false, same_disk_ok: true }).unwrap();
    bench.ask(remove("p2")).unwrap();
    bench.ask(add(&["p1", "other"])).unwrap();
}

#[test]
fn a_log_of_another_machine_is_kept_and_used_as_it_is() {
    let mut bench = with_volume(7);
    bench.forget();
    let label = label_of_elsewhere(2);
    put(&bench, "d", &label);
    put(&bench, "e", &label.for_device(Uuid([2; 16])));
    bench.sim.restart_process();
    bench.boot(&[]);
    let found = list(&mut bench);
    assert_eq!(only(&found), (false, vec![("d", ONLINE), ("e", ONLINE)]));
    let journal = (found[0].places[0].volume.as_str(), found[0].places[0].bytes);
    assert_eq!((journal, found[0].devices[0].used_bytes), (("old", 2 * MIB), 2 * MIB));
    assert_eq!(
        (bench.drive("d").state, bench.drive("d").volumes),
        (DriveState::Log, vec!["old".to_owned()])
    );
    let why = bench.refused(ErrorKind::HoldsData, spare("d", false));
    assert!(why.contains("the journals of old"), "{why}");
    let why = bench.refused(ErrorKind::WrongState, remove("d"));
    assert!(why.contains("softroc log add d") && why.contains("--destroy-data"), "{why}");
    // Together with another drive it would be half of a log.
    let why = bench.refused(ErrorKind::WrongState, add(&["d", "f"]));
    assert!(why.contains("/there/1, /there/2"), "{why}");
    let known = Command::DriveAdd { drive: "d".into(), size_bytes: None };
    let Ok(Reply::Drive { notes, .. }) = bench.ask(known) else {
        panic!("the drive is registered")
    };
    assert!(notes.iter().any(|note| note.contains("softroc log add d")), "{notes:?}");
    let adopted = logs(bench.ask(add(&["d"])));
    assert_eq!(only(&adopted).1.len(), 2, "the other drive is registered");
    let places: Vec<&str> = adopted[0].places.iter().map(|place| place.volume.as_str()).collect();
    assert_eq!((adopted[0].in_use, places), (true, vec!["old", "data"]), "the old content stays");
    assert_eq!(adopted[0].places[0], found[0].places[0]);
}

#[test]
fn half_of_a_log_is_taken_with_its_other_half_or_as_something_new() {
    let mut bench = with_volume(8);
    bench.ask(Command::DriveForget { drive: "d".into() }).unwrap();
    put(&bench, "d", &label_of_elsewhere(2));
    let why = bench.refused(ErrorKind::WrongState, add(&["d"]));
    assert!(why.contains("/there/2") && why.contains("name both"), "{why}");
    let anew = logs(bench.ask(add_over(&["d"])));
    assert_eq!((only(&anew), anew[0].places.len()), ((true, vec![("d", ONLINE)]), 1));
    assert_ne!(anew[0].log, Uuid([7; 16]).to_string());
}

#[test]
fn a_label_of_the_past_does_not_come_back_from_under_a_volume() {
    let mut bench = with_volume(9);
    bench.forget();
    for drive in ["d", "e"] {
        put(&bench, drive, &label_of_elsewhere(1));
    }
    bench.sim.restart_process();
    bench.boot(&[]);
    bench.create_with("more", "raid1", &["d", "e"], |create| create.destroy_data = true).unwrap();
    let (volume, disconnect_hosts) = ("more".into(), false);
    bench.ask(Command::VolumeDelete { volume, disconnect_hosts }).unwrap();
    bench.restart(&[]);
    assert_eq!((list(&mut bench), bench.drive("d").state), (Vec::new(), DriveState::Unused));
}

#[test]
fn damaged_copies_are_told_and_cleared() {
    let mut bench = with_volume(10);
    bench.forget();
    let mut bytes = label_of_elsewhere(1).encode().unwrap();
    bytes[70] ^= 1;
    for copy in LogLabel::copies() {
        bench.sim.drive("d").unwrap().poke(copy.start, &bytes);
    }
    bench.sim.restart_process();
    bench.boot(&[]);
    let drive = bench.drive("d");
    assert_eq!(drive.state, DriveState::Refused);
    assert!(drive.reason.unwrap().contains("both copies of its log label are damaged"));
    bench.ask(Command::ForeignClear { drives: vec!["d".into()] }).unwrap();
    assert_eq!(bench.drive("d").state, DriveState::Unused);
    bench.restart(&[]);
    assert_eq!(bench.drive("d").state, DriveState::Unused);
}

#[test]
fn what_the_controller_is_started_with_becomes_the_log_once() {
    let mut bench = with_volume(11);
    bench.logs = vec!["d".into()];
    bench.restart(&[]);
    let first = list(&mut bench);
    assert_eq!(only(&first), (true, vec![("d", ONLINE)]));
    bench.restart(&[]);
    assert_eq!(list(&mut bench), first, "it is already in use");
    assert_eq!(bench.count_events("cannot be used as a log"), 0);
    bench.ask(remove("d")).unwrap();
    bench.logs = vec!["a".into()];
    bench.restart(&[]);
    assert_eq!(list(&mut bench), Vec::new());
    let events = bench.events();
    let told = events.iter().find(|event| event.code == "log.not-added").expect("an event");
    assert!(told.text.contains("drive 0 of 'data'"), "{}", told.text);
    bench.write("data", 0, 1, 4096);
}

#[test]
fn journals_in_memory_are_for_volumes_in_memory() {
    let mut bench = Bench::new(12, 1, 0);
    bench.boot(&[]);
    bench.create("data", "raid5", &["mem:40M", "mem:40M", "mem:40M"]);
    let Ok(Reply::Logs { logs, notes }) = bench.ask(add(&["mem:64M"])) else {
        panic!("a log reply")
    };
    assert_eq!(only(&logs), (true, vec![("mem:64M", ONLINE)]));
    assert!(notes.iter().any(|note| note.contains("loses its contents")), "{notes:?}");
    bench.restart(&[]);
    assert_eq!(list(&mut bench), Vec::new(), "the command ended with the process");
}

#[test]
fn an_addition_that_is_interrupted_leaves_a_log_or_drives_that_are_free() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = Bench::in_order(13, 1, 3);
            bench.boot(&[]);
            bench
        };
        let scene = |bench: &mut Bench| bench.try_ask(add(&["a", "b"])).ok();
        at_every_event(1, how, prepare, scene, |bench, answer, event| {
            bench.boot(&["a", "b"]);
            let logs = list(bench);
            let in_use = logs.iter().any(|log| log.in_use);
            assert!(in_use || answer.is_none(), "event {event}: acknowledged, {logs:?}");
            for drive in ["a", "b"] {
                let state = bench.drive(drive).state;
                assert!(
                    matches!(state, DriveState::Log | DriveState::Unused),
                    "event {event}: {state}"
                );
            }
            if !in_use {
                bench.ask(add_over(&["a", "b"])).unwrap();
            }
            bench.ask(remove("b")).unwrap();
            bench.create("data", "raid1", &["a", "b"]);
        });
    }
}

#[test]
fn a_removal_that_is_interrupted_leaves_labels_that_can_be_taken_off() {
    let prepare = || {
        let mut bench = Bench::in_order(14, 1, 3);
        bench.boot(&[]);
        bench.ask(add(&["a", "b"])).unwrap();
        bench
    };
    let scene = |bench: &mut Bench| bench.try_ask(remove("a")).ok();
    at_every_event(1, End::PowerCut, prepare, scene, |bench, answer, event| {
        bench.boot(&["a", "b"]);
        let logs = list(bench);
        assert!(answer.is_none() || logs.is_empty(), "event {event}: {logs:?}");
        if let Some(device) =
            logs.first().and_then(|log| log.devices.iter().find(|device| device.state == ONLINE))
        {
            bench.ask(remove(&device.drive)).unwrap();
        }
        assert_eq!(list(bench), Vec::new(), "event {event}");
        bench.ask(create("data", "raid1", &["a", "b"])).unwrap();
    });
}
