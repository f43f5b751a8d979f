//! Reshapes to less data per drive or to fewer drives: more parity on as many drives, removed
//! drives, a reduced size.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use crate::reshape::{
    STRIP, arrive, byte, expect_content, expect_redundancy, flush, reshape, task,
};
use controller::{
    Command, DriveState, ErrorKind, Explain, Reply, ReshapeVolume, SetTask, TaskState, VolumeState,
    WriteHole,
};
use platform::{Buf, Durability};
use std::cell::Cell;
use units::{ByteCount, ByteOffset, ByteRange};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A reshape from one layout to another; the last drives are the removed ones.
#[derive(Clone, Copy, Debug)]
struct Less {
    from: &'static str,
    drives: usize,
    to: &'static str,
    removed: usize,
    /// Whether the volume's last byte moves first.
    down: bool,
}

const fn less(
    from: &'static str,
    drives: usize,
    to: &'static str,
    removed: usize,
    down: bool,
) -> Less {
    Less { from, drives, to, removed, down }
}

const WAYS: [Less; 10] = [
    less("raid5", 4, "raid6", 0, true),
    less("raid5", 4, "raid5", 1, true),
    less("raid0", 3, "raid5", 0, true),
    less("raid6", 6, "raid6", 2, true),
    less("raid5", 5, "raid6", 1, true),
    less("raid5", 6, "raid50", 0, true),
    less("raid5", 4, "raid10", 0, true),
    less("raid0", 3, "raid0", 1, true),
    less("raid10", 6, "raid10", 2, true),
    // As much data as before in the same part of each drive: the first byte moves first.
    less("raid10", 4, "raid0", 2, false),
];

impl Less {
    fn names(self) -> &'static [&'static str] {
        &NAMES[..self.drives]
    }

    fn removed(self) -> &'static [&'static str] {
        &self.names()[self.drives - self.removed..]
    }

    fn order(self) -> ReshapeVolume {
        ReshapeVolume {
            volume: "data".into(),
            level: (self.to != self.from).then(|| self.to.into()),
            remove: self.removed().iter().map(ToString::to_string).collect(),
            ..ReshapeVolume::default()
        }
    }
}

/// A volume whose strips identify their location, on drives with this much space for data. `size`:
/// its size.
fn prepared(way: Less, shards: usize, room: u64, size: Option<u64>) -> Bench {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(&NAMES, 32 * MIB + room);
    bench.boot(&NAMES);
    let sized = |create: &mut controller::CreateVolume| create.size_bytes = size;
    let info = bench.create_with("data", way.from, way.names(), sized).expect("created");
    for strip in 0..info.capacity_bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    bench
}

/// Removed drives are unused.
fn expect_unused(bench: &mut Bench, way: Less) {
    for name in way.removed() {
        let drive = bench.drive(name);
        assert_eq!(
            (drive.state, drive.volumes),
            (DriveState::Unused, Vec::<String>::new()),
            "{name}: {way:?}"
        );
    }
}

#[test]
fn a_volume_comes_to_less_and_its_drives_are_free() {
    for (way, shards) in WAYS.into_iter().zip([1, 2].into_iter().cycle()) {
        let mut bench = prepared(way, shards, 12 * MIB, Some(5 * MIB));
        let before = bench.show("data");
        let told = reshape(&mut bench, way.order());
        assert_eq!((told.down, &told.removes[..]), (way.down, &way.order().remove[..]), "{way:?}");
        arrive(&mut bench);
        bench.wait(1);
        let after = bench.show("data");
        let is = (after.level.as_str(), after.capacity_bytes, after.drives.len());
        assert_eq!(is, (way.to, told.to.capacity_bytes, way.drives - way.removed), "{way:?}");
        assert_eq!(
            (after.number, &after.uuid),
            (before.number, &before.uuid),
            "the volume has the same identity"
        );
        assert_eq!(task(&mut bench).state, TaskState::Done);
        expect_content(&mut bench, before.capacity_bytes);
        expect_unused(&mut bench, way);
        assert_eq!(bench.count_events("does not use drive"), way.removed, "{way:?}");
        expect_redundancy(&mut bench, before.capacity_bytes);
        bench.restart(&[]);
        bench.settle("data");
        expect_content(&mut bench, before.capacity_bytes);
        expect_unused(&mut bench, way);
        bench.write("data", after.capacity_bytes - STRIP, 7, STRIP);
        bench.expect("data", after.capacity_bytes - STRIP, 7, STRIP);
        if let [first, ..] = way.removed() {
            let made =
                bench.create_with("other", "jbod", &[first], |create| create.destroy_data = true);
            assert!(made.is_ok(), "the drive is free: {made:?}");
        }
    }
}

/// A kill or power cut at any event from the command to the end: the volume is intact, and the
/// reshape continues automatically. All of the space is used, so that a part of the volume is given
/// up.
#[test]
fn a_way_to_less_that_is_interrupted_anywhere_is_gone_to_its_end_or_was_never_begun() {
    for (way, how) in WAYS.into_iter().zip([End::Killed, End::PowerCut].into_iter().cycle()) {
        let (bytes, left) = (Cell::new(0), Cell::new(0));
        let order =
            || ReshapeVolume { size_bytes: Some(left.get()), destroy_data: true, ..way.order() };
        let prepare = || {
            let mut bench = prepared(way, 1, MIB + (128 << 10), None);
            bytes.set(bench.show("data").capacity_bytes);
            left.set(bytes.get() / STRIP / 3 * STRIP);
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(Command::VolumeReshape(order())).ok()?.unwrap();
            for _ in 0..60 {
                let until = bench.sim.now() + std::time::Duration::from_secs(1);
                bench.sim.run_until(until).ok()?;
                let shown = bench.try_ask(Command::VolumeShow { volume: "data".into() }).ok()?;
                if matches!(shown, Ok(Reply::Volume { volume, .. }) if volume.reshape.is_none()) {
                    return Some(());
                }
            }
            None
        };
        at_every_event(17, how, prepare, scene, |bench, _, event| {
            bench.boot(&NAMES);
            arrive(bench);
            let info = bench.show("data");
            if info.drives.len() == way.drives && info.level == way.from {
                // The reshape was never begun: no data is given up.
                expect_content(bench, bytes.get());
                reshape(bench, order());
                arrive(bench);
            }
            bench.wait(1);
            let info = bench.show("data");
            let is = (info.level.as_str(), info.state, info.capacity_bytes, info.drives.len());
            let expected = (way.to, VolumeState::Optimal, left.get(), way.drives - way.removed);
            assert_eq!(is, expected, "{way:?}, {how:?} at event {event}");
            expect_content(bench, left.get());
            expect_unused(bench, way);
            expect_redundancy(bench, left.get());
        });
    }
}

/// A volume that is reshaping for a while.
fn slowly(bench: &mut Bench, order: ReshapeVolume) -> u64 {
    reshape(bench, order);
    let task = task(bench).task;
    let limit_bytes_per_s = Some(8 * MIB);
    bench.ask(Command::TaskSet(SetTask { task, share_percent: None, limit_bytes_per_s })).unwrap();
    bench.wait(4);
    task
}

/// `explain` uses the layout of each side of the cursor; moved data never moves back.
#[test]
fn on_the_way_down_the_last_bytes_lie_by_the_new_layout() {
    let way = WAYS[1];
    let mut bench = prepared(way, 2, 48 * MIB, Some(60 * MIB));
    let bytes = bench.show("data").capacity_bytes;
    let id = slowly(&mut bench, way.order());
    bench.ask(Command::TaskPause { task: id }).unwrap();
    bench.wait(5);
    let moved = bench.show("data").reshape.expect("the volume is reshaping").moved_bytes;
    assert!(moved > 0 && moved < bytes, "{moved} of {bytes}");
    let sentence = bench.refused(ErrorKind::WrongState, Command::TaskStop { task: id });
    assert!(sentence.contains("task pause"), "{sentence}");
    let explained = |bench: &mut Bench, offset_bytes: u64| {
        let volume = Some("data".to_owned());
        let operation = "read".to_owned();
        let explain =
            Explain { volume, operation, offset_bytes, size_bytes: 4096, ..Explain::default() };
        match bench.ask(Command::Explain(explain)) {
            Ok(Reply::Explained { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    };
    let (first, last) = (explained(&mut bench, 0), explained(&mut bench, bytes - 4096));
    assert!(first.contains("4 drives") && last.contains("3 drives"), "{first}\n{last}");
    expect_content(&mut bench, bytes);
    bench.restart(&[]);
    bench.wait(5);
    assert_eq!(bench.show("data").reshape.expect("the reshape is paused").moved_bytes, moved);
    expect_content(&mut bench, bytes);
    bench.ask(Command::TaskResume { task: id }).unwrap();
    arrive(&mut bench);
    expect_content(&mut bench, bytes);
}

/// A drive to be removed and one that stays are lost during the reshape, which continues without
/// them. The removed drive is no member in the end, nor when it returns.
#[test]
fn a_drive_that_is_removed_and_fails_on_the_way_is_done_without() {
    for lost in ["a", "d"] {
        let way = WAYS[1];
        let mut bench = prepared(way, 2, 48 * MIB, Some(60 * MIB));
        let bytes = bench.show("data").capacity_bytes;
        slowly(&mut bench, way.order());
        bench.sim.drive(lost).unwrap().vanish();
        bench.write("data", 0, byte(0), STRIP);
        bench.write("data", bytes - STRIP, byte(bytes / STRIP - 1), STRIP);
        let task = task(&mut bench).task;
        let limit_bytes_per_s = Some(1 << 30);
        bench
            .ask(Command::TaskSet(SetTask { task, share_percent: None, limit_bytes_per_s }))
            .unwrap();
        for _ in 0..100 {
            if bench.show("data").reshape.is_none() {
                break;
            }
            bench.wait(1);
        }
        bench.wait(2);
        let info = bench.show("data");
        let expected = if lost == "a" { VolumeState::Degraded } else { VolumeState::Optimal };
        assert_eq!(
            (info.reshape, info.state, info.drives.len()),
            (None, expected, 3),
            "without {lost}"
        );
        expect_content(&mut bench, bytes);
        bench.sim.drive(lost).unwrap().come_back();
        bench.wait(120);
        bench.restart(&NAMES);
        bench.settle("data");
        bench.wait(5);
        let info = bench.show("data");
        assert_eq!(
            (info.state, info.drives.len()),
            (VolumeState::Optimal, 3),
            "{lost} has returned"
        );
        assert_eq!(bench.drive("d").state, DriveState::Unused, "{lost} has returned");
        expect_content(&mut bench, bytes);
    }
}

/// Without confirmation no data is given up. With it hosts get errors beyond the new size before
/// any data has moved; all data returns if the task is stopped by then.
#[test]
fn room_is_given_up_by_order_alone_and_comes_back_while_nothing_has_moved() {
    for shards in [1, 2] {
        let way = WAYS[1];
        let mut bench = prepared(way, shards, 12 * MIB, None);
        let bytes = bench.show("data").capacity_bytes;
        let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(way.order()));
        let room = bytes / 3 * 2;
        let command =
            format!("run 'softroc volume migrate data --remove d --size {room} --destroy-data'");
        assert!(why.contains(&command), "{why}");
        let smaller = |size| ReshapeVolume { size_bytes: Some(size), ..way.order() };
        let why = bench.refused(ErrorKind::LosesData, Command::VolumeReshape(smaller(room)));
        assert!(why.contains("would be lost") && why.contains(&command), "{why}");
        let too_much = ReshapeVolume { destroy_data: true, ..smaller(room + STRIP) };
        let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(too_much));
        assert!(why.contains(&command), "{why}");
        // A reshape in place keeps the size.
        let in_place = ReshapeVolume { remove: Vec::new(), destroy_data: true, ..smaller(room) };
        bench.refused(ErrorKind::Invalid, Command::VolumeReshape(in_place));
        let order = ReshapeVolume { destroy_data: true, ..smaller(room - STRIP) };
        let told = reshape(&mut bench, ReshapeVolume { dry_run: true, ..order.clone() });
        assert_eq!(
            (told.to.capacity_bytes, bench.show("data").capacity_bytes),
            (room - STRIP, bytes)
        );
        reshape(&mut bench, order.clone());
        assert_eq!(bench.show("data").capacity_bytes, room - STRIP);
        let behind = bench.try_read("data", room - STRIP, 4096).expect_err("it is given up");
        assert_eq!(behind.kind, platform::IoErrorKind::Invalid);
        bench
            .try_write("data", room - STRIP, 1, 4096)
            .expect("no stall")
            .expect_err("it is given up");
        let id = task(&mut bench).task;
        bench.ask(Command::TaskStop { task: id }).unwrap();
        bench.wait(5);
        let info = bench.show("data");
        assert_eq!((info.reshape, info.capacity_bytes, info.drives.len()), (None, bytes, 4));
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
        reshape(&mut bench, order);
        arrive(&mut bench);
        assert_eq!(bench.show("data").capacity_bytes, room - STRIP);
        expect_content(&mut bench, room - STRIP);
    }
}

#[test]
fn drives_that_cannot_be_removed_are_refused_with_the_nearest_way() {
    let mut bench = prepared(WAYS[1], 1, 12 * MIB, Some(5 * MIB));
    let before = bench.show("data");
    let remove = |drives: &[&str]| ReshapeVolume {
        remove: drives.iter().map(ToString::to_string).collect(),
        ..WAYS[1].order()
    };
    let refused = [
        (remove(&["b"]), "'softroc drive replace b --with d'"),
        (remove(&["b", "d"]), "'softroc drive replace b --with c'"),
        (remove(&["e"]), "drive e does not belong to 'data'; 'softroc volume show data'"),
        (
            ReshapeVolume { add: vec!["e".into()], ..remove(&["d"]) },
            "volume migrate data --remove d",
        ),
        (remove(&["c", "d"]), "at least"),
    ];
    for (order, expected) in refused {
        let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order));
        assert!(why.contains(expected), "{why}");
    }
    assert_eq!(bench.show("data"), before);
}

/// A host that rewrites the volume's first strip continuously, with the same content.
fn writer(bench: &Bench) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let env = volume.shard().env().clone();
    env.clone().spawn("host", async move {
        let range = ByteRange::new(ByteOffset(0), ByteCount(STRIP));
        loop {
            let data = Buf::copy_of(&[byte(0); STRIP as usize]).freeze();
            if volume.write(range, data, Durability::Durable).await.is_err() {
                return;
            }
            env.sleep(std::time::Duration::from_micros(200)).await;
        }
    });
}

/// A volume without a journal was reshaped to fewer drives, and the process is killed before the
/// others are removed; one of those fails. The volume lacks no data then. It waited for an operator
/// to accept stale parity, and the drive could be replaced.
#[test]
fn a_drive_that_fails_when_it_is_about_to_go_is_not_missed() {
    let way = WAYS[1];
    let prepare = || {
        let mut bench = prepared(way, 1, MIB + (128 << 10), Some(MIB));
        let write_hole = Some(WriteHole::Resync);
        let policy =
            controller::SetPolicy { volume: "data".into(), write_hole, ..Default::default() };
        bench.ask(Command::VolumePolicy(policy)).expect("without a journal");
        bench.settle("data");
        writer(&bench);
        reshape(&mut bench, way.order());
        bench
    };
    let scene = |bench: &mut Bench| {
        for _ in 0..50_000 {
            let until = bench.sim.now() + std::time::Duration::from_micros(200);
            bench.sim.run_until(until).ok()?;
            let Ok(Reply::Events { events }) =
                bench.try_ask(Command::EventsList { last: None, about: None }).ok()?
            else {
                return None;
            };
            if events.iter().any(|event| event.text.contains("does not use drive")) {
                return Some(());
            }
        }
        None
    };
    let arrived = Cell::new(0);
    at_every_event(1, End::Killed, prepare, scene, |bench, _, event| {
        bench.sim.drive("d").unwrap().vanish();
        bench.boot(&NAMES);
        let info = bench.show("data");
        if info.drives.len() == 4 {
            // During the reshape it may wait for the drive, as any volume without a journal.
            return;
        }
        arrived.set(arrived.get() + 1);
        assert_eq!(info.state, VolumeState::Optimal, "event {event}: {:?}", info.reasons);
        bench.settle("data");
        expect_content(bench, MIB);
    });
    assert!(arrived.get() > 10, "{} reshapes completed", arrived.get());
}
