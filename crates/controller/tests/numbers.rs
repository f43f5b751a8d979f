//! Numbers of drives and volumes, revisions, and the account of a command.

use crate::common::{Bench, drive_options, names};
use controller::{
    Caller, Command, DriveNumber, ErrorKind, Event, Numbered, Origin, Reply, SetNumbers, StartTask,
    Startable,
};
use platform::{DriveKind, Hardware, Partition};
use platform_sim::DriveOptions;

fn delete(bench: &mut Bench, name: &str) {
    bench.ask(Command::VolumeDelete { volume: name.into(), disconnect_hosts: false }).unwrap();
}

fn serial(bench: &mut Bench) -> String {
    match bench.ask(Command::Info {}) {
        Ok(Reply::Info { info }) => info.serial,
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_are_kept_over_restarts_and_never_given_again() {
    let mut bench = Bench::new(1, 1, 6);
    bench.boot(&["a", "b", "c", "d"]);
    let (first, second) =
        (bench.create("x", "raid1", &["a", "b"]).0, bench.create("y", "raid1", &["c", "d"]).0);
    assert_eq!((first.number, first.group), (Some(0), Some(0)));
    assert_eq!((second.number, second.group), (Some(1), Some(1)));
    let places: Vec<_> = ["a", "b", "c", "d"].map(|name| bench.drive(name).numbers.unwrap()).into();
    for (at, place) in places.iter().enumerate() {
        assert_eq!((place.enclosure, place.slot, place.device), (252, at as u32, at as u32));
    }
    let serial_before = serial(&mut bench);
    assert_eq!(serial_before.len(), 16);
    delete(&mut bench, "y");
    bench.ask(Command::DriveForget { drive: "d".into() }).unwrap();
    bench.restart(&[]);
    assert_eq!(serial(&mut bench), serial_before);
    assert_eq!((bench.show("x").number, bench.show("x").group), (Some(0), Some(0)));
    assert_eq!(bench.drive("c").numbers, Some(places[2]));
    // New objects get unused numbers; a drive that returns keeps its own.
    bench.ask(Command::DriveAdd { drive: "e".into(), size_bytes: None }).unwrap();
    bench.ask(Command::DriveAdd { drive: "d".into(), size_bytes: None }).unwrap();
    assert_eq!(bench.drive("e").numbers.unwrap().slot, 4);
    assert_eq!(bench.drive("d").numbers, Some(places[3]));
    let third = bench.create("z", "raid1", &["c", "d"]).0;
    assert_eq!((third.number, third.group), (Some(2), Some(2)));
}

/// Partitions of a disk have its serial number and its bay, and some vendors use one serial number
/// for all drives.
#[test]
fn drives_that_share_a_serial_number_have_numbers_of_their_own() {
    let mut bench = Bench::new(11, 1, 0);
    let all = ["p1", "p2", "s", "t"];
    for (name, partition) in [("p1", Some(1)), ("p2", Some(2)), ("s", None), ("t", None)] {
        let is_part = partition.is_some();
        let hardware = Hardware {
            model: Some("X".into()),
            serial: Some(if is_part { "1" } else { "2" }.into()),
            partition: partition.map(|number| Partition { disk: "sda".into(), number }),
            enclosure: is_part.then(|| "shelf".into()),
            slot: is_part.then(|| "5".into()),
            ..Hardware::default()
        };
        bench.sim.add_drive(
            name,
            DriveOptions { kind: DriveKind::BlockDevice, hardware, ..drive_options() },
        );
    }
    bench.boot(&all);
    let numbers = |bench: &mut Bench| {
        all.map(|name| {
            let numbers = bench.drive(name).numbers.unwrap();
            (numbers.enclosure, numbers.slot, numbers.device)
        })
    };
    let before = numbers(&mut bench);
    assert_eq!(before[0], (0, 5, 0), "the first drive has the bay");
    let mut others: Vec<_> = before[1..].to_vec();
    others.sort_unstable();
    assert!(
        others.iter().enumerate().all(|(at, other)| (other.0, other.1) == (252, at as u32)),
        "{before:?}"
    );
    let mut devices = before.map(|(_, _, device)| device);
    devices.sort_unstable();
    assert_eq!(devices, [0, 1, 2, 3]);
    bench.restart(&[]);
    assert_eq!(numbers(&mut bench), before);
}

/// Numbers restored from a saved configuration: exchanged, kept over a restart, and unique.
#[test]
fn numbers_are_given_back_by_order() {
    let mut bench = Bench::new(7, 1, 5);
    bench.boot(&["a", "b", "c", "d"]);
    let (x, y) =
        (bench.create("x", "raid1", &["a", "b"]).0, bench.create("y", "raid1", &["c", "d"]).0);
    let numbered = |uuid: &str, number| Numbered { uuid: uuid.to_owned(), number };
    let drive = |name: &str, number| DriveNumber {
        drive: name.to_owned(),
        enclosure: 252,
        slot: number,
        device: number,
    };
    let set = SetNumbers {
        serial: Some("SR00000000000001".to_owned()),
        drives: vec![drive("a", 3), drive("b", 9)],
        arrays: vec![numbered(&x.array, 1)],
        volumes: vec![numbered(&x.uuid, 1), numbered(&y.uuid, 0)],
    };
    for twice in [
        SetNumbers { drives: vec![drive("a", 3), drive("b", 3)], ..set.clone() },
        SetNumbers { volumes: vec![numbered(&x.uuid, 1), numbered(&y.uuid, 1)], ..set.clone() },
        SetNumbers { serial: Some("no serial!".to_owned()), ..set.clone() },
        SetNumbers { arrays: vec![numbered("no uuid", 1)], ..set.clone() },
    ] {
        bench.refused(ErrorKind::Invalid, Command::NumbersSet(twice));
    }
    bench.refused(
        ErrorKind::NotFound,
        Command::NumbersSet(SetNumbers { drives: vec![drive("nowhere", 3)], ..set.clone() }),
    );
    assert_eq!(bench.show("x").number, Some(0), "the refused command changed nothing");
    bench.ask(Command::NumbersSet(set)).unwrap();
    for restart in [false, true] {
        if restart {
            bench.restart(&[]);
        }
        assert_eq!(serial(&mut bench), "SR00000000000001");
        assert_eq!((bench.show("x").number, bench.show("y").number), (Some(1), Some(0)));
        // The other array had the number 1, and drive d the number 3.
        assert_eq!((bench.show("x").group, bench.show("y").group), (Some(1), Some(2)));
        let devices = ["a", "b", "c", "d"].map(|name| bench.drive(name).numbers.unwrap().device);
        assert_eq!(devices, [3, 9, 2, 10]);
    }
    bench.ask(Command::DriveAdd { drive: "e".into(), size_bytes: None }).unwrap();
    assert_eq!(bench.drive("e").numbers.unwrap().device, 11);
}

#[test]
fn a_revision_rises_with_each_change_and_over_restarts() {
    let mut bench = Bench::new(2, 1, 4);
    bench.boot(&names(4).iter().map(String::as_str).collect::<Vec<_>>());
    let made = bench.create("x", "raid1", &["a", "b"]).0;
    bench.settle("x");
    let before = bench.show("x");
    assert!(before.revision >= made.revision && before.array_revision >= made.array_revision);
    let unused = bench.drive("d").revision;
    assert_eq!(bench.show("x").revision, before.revision, "a query is no change");
    bench.ask(Command::VolumeSet { volume: "x".into(), name: "y".into() }).unwrap();
    let renamed = bench.show("y");
    assert!(renamed.revision > before.revision && renamed.array_revision > before.array_revision);
    bench.ask(crate::common::take_offline("b")).unwrap();
    let degraded = bench.show("y");
    assert!(
        degraded.revision > renamed.revision && degraded.array_revision > renamed.array_revision
    );
    assert!(degraded.drives[1].revision > renamed.drives[1].revision);
    assert_eq!(degraded.drives[0].revision, renamed.drives[0].revision);
    assert_eq!(bench.drive("d").revision, unused, "unrelated");
    bench.restart(&[]);
    assert!(bench.show("y").revision > degraded.revision);
    assert!(bench.drive("d").revision > unused);
}

/// Sends a command for an account; returns the resulting events.
fn ask_as(bench: &mut Bench, caller: &Caller, command: Command) -> (bool, Vec<Event>) {
    let last = |bench: &mut Bench| bench.events().last().map_or(0, |event| event.number);
    let before = last(bench);
    let is_done = bench.ask_as(caller, command).is_ok();
    (is_done, bench.events().into_iter().filter(|event| event.number > before).collect())
}

#[test]
fn the_event_of_a_change_says_who_asked_for_it() {
    let mut bench = Bench::new(3, 1, 4);
    bench.boot(&["a", "b", "c"]);
    let root = Caller { user: "root".into(), origin: Origin::Local { uid: 0, pid: Some(7) } };
    let ann =
        Caller { user: "ann".into(), origin: Origin::Network { address: "10.0.0.7:443".into() } };
    bench.create("x", "raid1", &["a", "b"]);
    assert!(bench.events().iter().all(|event| event.by.is_none()), "no account was named");
    let rename = |to: &str| Command::VolumeSet { volume: "x".into(), name: to.into() };
    let (is_done, events) = ask_as(&mut bench, &ann, rename("y"));
    assert!(is_done && events.len() == 1, "{events:?}");
    assert_eq!((events[0].code.as_str(), events[0].by.as_ref()), ("volume.renamed", Some(&ann)));
    // A command without an event of its own.
    let (is_done, events) =
        ask_as(&mut bench, &root, Command::DriveAdd { drive: "d".into(), size_bytes: None });
    assert!(is_done);
    assert_eq!(
        events.iter().filter(|event| event.by.as_ref() == Some(&root)).count(),
        1,
        "{events:?}"
    );
    assert_eq!((events[0].code.as_str(), events[0].subject.as_str()), ("controller.command", "d"));
    assert!(
        events[0].text.contains("root (uid 0, process 7)") && events[0].text.contains("drive-add")
    );
    // A refused command changes nothing; a query is no change.
    let (is_done, events) = ask_as(&mut bench, &root, rename("z"));
    assert!(!is_done && events.is_empty(), "{events:?}");
    let (is_done, events) = ask_as(&mut bench, &root, Command::DriveList {});
    assert!(is_done && events.is_empty(), "{events:?}");
    // Later actions of the controller have no account.
    let check =
        StartTask { what: Startable::Check, volume: Some("y".into()), ..StartTask::default() };
    let (is_done, _) = ask_as(&mut bench, &ann, Command::TaskStart(check));
    bench.wait(60);
    let by = |code: &str, bench: &mut Bench| {
        bench.events().into_iter().rfind(|event| event.code == code).map(|event| event.by)
    };
    assert!(is_done);
    assert_eq!(by("task.begun", &mut bench), Some(Some(ann.clone())));
    assert_eq!(by("task.done", &mut bench), Some(None));
    // The account is stored with the event.
    bench.restart(&[]);
    let renamed = bench.events().into_iter().find(|event| event.code == "volume.renamed");
    assert_eq!(renamed.and_then(|event| event.by), Some(ann));
}
