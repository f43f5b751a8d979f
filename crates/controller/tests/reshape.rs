//! Volumes that go to another layout while they are used: begun, paused, interrupted at any event, without drives.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use controller::{
    Command, ErrorKind, Explain, Reply, ReshapeInfo, ReshapeVolume, SetTask, TaskInfo, TaskKind, TaskState,
    VolumeState,
};
use env::BlockTarget;

const STRIP: u64 = 65536;

/// A way from one layout to another, on drives of which the last ones are added.
#[derive(Clone, Copy, Debug)]
struct Way {
    from: &'static str,
    drives: &'static [&'static str],
    to: &'static str,
    add: &'static [&'static str],
}

const WAYS: [Way; 6] = [
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid5", add: &["d"] },
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid6", add: &["d"] },
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid6", add: &["d", "e"] },
    Way { from: "raid0", drives: &["a", "b"], to: "raid0", add: &["c"] },
    Way { from: "raid0", drives: &["a", "b"], to: "raid5", add: &["c"] },
    Way { from: "raid6", drives: &["a", "b", "c", "d"], to: "raid5", add: &[] },
];

fn order(way: Way) -> ReshapeVolume {
    ReshapeVolume {
        volume: "data".into(),
        level: (way.to != way.from).then(|| way.to.into()),
        add: way.add.iter().map(ToString::to_string).collect(),
        ..ReshapeVolume::default()
    }
}

fn reshape(bench: &mut Bench, order: ReshapeVolume) -> ReshapeInfo {
    match bench.ask(Command::VolumeReshape(order)) {
        Ok(Reply::Reshape { reshape, .. }) => *reshape,
        other => panic!("{other:?}"),
    }
}

/// What a strip of the volume holds.
fn byte(strip: u64) -> u8 {
    (strip % 251) as u8 + 1
}

/// A volume whose strips tell where they belong, on drives with so much room for data.
fn prepared(way: Way, shards: usize, room: u64) -> Bench {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(&["a", "b", "c", "d", "e"], 32 * MIB + room);
    bench.boot(&["a", "b", "c", "d", "e"]);
    let (info, _) = bench.create("data", way.from, way.drives);
    for strip in 0..info.capacity_bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    bench
}

fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").unwrap();
    bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
}

fn expect_content(bench: &mut Bench, bytes: u64) {
    for strip in 0..bytes / STRIP {
        bench.expect("data", strip * STRIP, byte(strip), STRIP);
    }
}

fn task(bench: &mut Bench) -> TaskInfo {
    let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks") };
    tasks.into_iter().find(|task| task.kind == TaskKind::Reshape).expect("it is moved")
}

/// Lets time pass until the volume is not on its way any more.
fn arrive(bench: &mut Bench) {
    for _ in 0..200 {
        if bench.show("data").reshape.is_none() {
            return bench.settle("data");
        }
        bench.wait(1);
    }
    let events: Vec<String> = bench.events().into_iter().map(|event| event.text).collect();
    panic!("it does not arrive: {:?}: {events:#?}", task(bench).reason);
}

/// Whichever drives go that the level may lose, it reads the same.
fn expect_redundancy(bench: &mut Bench, bytes: u64) {
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Optimal);
    let drives: Vec<String> = info.drives.iter().map(|drive| drive.name.clone()).collect();
    for pair in drives.windows(2).step_by(2) {
        let lost = &pair[..usize::from(info.may_lose).min(2)];
        for drive in lost {
            bench.ask(Command::DriveOffline { drive: drive.clone() }).unwrap();
        }
        expect_content(bench, bytes);
        for drive in lost {
            bench.ask(Command::DriveOnline { drive: drive.clone() }).unwrap();
        }
        bench.settle("data");
        for _ in 0..60 {
            if bench.show("data").state == VolumeState::Optimal {
                break;
            }
            bench.wait(1);
        }
    }
}

#[test]
fn a_volume_comes_to_another_layout_and_its_hosts_stay() {
    for (way, shards) in WAYS.into_iter().zip([1, 2].into_iter().cycle()) {
        let mut bench = prepared(way, shards, 12 * MIB);
        let before = bench.show("data");
        let host = bench.shards[0].volume_named("data").unwrap();
        let told = reshape(&mut bench, order(way));
        assert_eq!(told.from.capacity_bytes, before.capacity_bytes, "{way:?}");
        arrive(&mut bench);
        let after = bench.show("data");
        assert_eq!(after.level, way.to, "{way:?}");
        assert_eq!(after.capacity_bytes, told.to.capacity_bytes, "{way:?}");
        assert_eq!(after.drives.len(), way.drives.len() + way.add.len());
        assert_eq!(after.number, before.number, "it is known by the same number");
        assert_eq!(task(&mut bench).state, TaskState::Done);
        assert!(bench.has_event("has come to its new layout"));
        expect_content(&mut bench, before.capacity_bytes);
        // A host that was there before goes on.
        let slice = env::Buf::copy_of(&[byte(0); 512]).freeze();
        let range = units::ByteRange::new(units::ByteOffset(0), units::ByteCount(512));
        bench
            .sim
            .run(async move { host.write(range, slice, env::Durability::Durable).await })
            .unwrap()
            .unwrap();
        expect_redundancy(&mut bench, before.capacity_bytes);
        bench.restart(&[]);
        bench.settle("data");
        expect_content(&mut bench, before.capacity_bytes);
        bench.write("data", after.capacity_bytes - STRIP, 7, STRIP);
        bench.expect("data", after.capacity_bytes - STRIP, 7, STRIP);
    }
}

/// A host that was connected before the volume came to its layout is one of its hosts still: the volume is not deleted below it, and not moved
/// once more, which that host would not notice.
#[test]
fn hosts_of_before_are_hosts_still_and_it_is_not_moved_again_below_them() {
    let mut bench = prepared(WAYS[0], 1, 12 * MIB);
    let target = bench.shards[0].volume_named("data").unwrap().number();
    let host = bench.hosts.connect(env::Connection {
        peer: env::Peer::at("unix:/run/nbd.sock".to_owned()),
        protocol: "NBD",
        target,
        asked_for: "data".to_owned(),
        since: bench.sim.env().now(),
        since_unix_s: bench.sim.env().unix_time(),
    });
    reshape(&mut bench, order(WAYS[0]));
    arrive(&mut bench);
    assert_eq!(bench.show("data").hosts.len(), 1);
    let delete = Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false };
    bench.refused(ErrorKind::InUse, delete);
    let again = ReshapeVolume {
        volume: "data".into(),
        level: Some("raid6".into()),
        add: vec!["e".into()],
        ..ReshapeVolume::default()
    };
    let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(again.clone()));
    assert!(why.contains("have them connect again first"), "{why}");
    drop(host);
    reshape(&mut bench, again);
    arrive(&mut bench);
    assert_eq!(bench.show("data").level, "raid6");
}

/// The old layout counts as lying on all members until the end: a drive that has no room for it was found too small by the next start.
#[test]
fn a_drive_that_is_smaller_than_what_is_taken_of_the_others_is_refused() {
    let mut bench = prepared(WAYS[0], 1, 12 * MIB);
    bench.add_drives(&["s"], 32 * MIB + 8 * MIB);
    bench.ask(Command::DriveAdd { drive: "s".into(), size_bytes: None }).unwrap();
    let small = ReshapeVolume { add: vec!["s".into()], ..order(WAYS[0]) };
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(small));
    assert!(why.contains("drive s is smaller than what 'data' takes of each drive"), "{why}");
}

/// Killed, or without power, at any event from the command to the end: what is there is whole, and goes on by itself.
#[test]
fn a_way_that_is_interrupted_anywhere_is_gone_to_its_end_or_was_never_begun() {
    for (way, how) in WAYS.into_iter().zip([End::Killed, End::PowerCut].into_iter().cycle()) {
        let bytes = std::cell::Cell::new(0);
        let prepare = || {
            let mut bench = prepared(way, 1, MIB + (128 << 10));
            bytes.set(bench.show("data").capacity_bytes);
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(Command::VolumeReshape(order(way))).ok()?.unwrap();
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
            bench.boot(&["a", "b", "c", "d", "e"]);
            arrive(bench);
            expect_content(bench, bytes.get());
            let info = bench.show("data");
            if info.drives.len() == way.drives.len() && info.level == way.from {
                reshape(bench, ReshapeVolume { destroy_data: true, ..order(way) });
                arrive(bench);
            }
            let info = bench.show("data");
            assert_eq!((info.level.as_str(), info.state), (way.to, VolumeState::Optimal), "event {event}");
            expect_content(bench, bytes.get());
            expect_redundancy(bench, bytes.get());
        });
    }
}

#[test]
fn a_drive_that_is_lost_on_the_way_is_done_without() {
    let way = WAYS[0];
    for lost in ["a", "d"] {
        let mut bench = prepared(way, 2, 12 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        reshape(&mut bench, order(way));
        bench.sim.drive(lost).unwrap().fail_now();
        let sentence = bench.refused(
            ErrorKind::WrongState,
            Command::VolumeSet { volume: "data".into(), name: "other".into() },
        );
        assert!(sentence.contains("on its way to another layout"), "{sentence}");
        for _ in 0..100 {
            if bench.show("data").reshape.is_none() {
                break;
            }
            bench.wait(1);
        }
        let info = bench.show("data");
        assert_eq!((info.reshape.is_none(), info.state), (true, VolumeState::Degraded), "without {lost}");
        expect_content(&mut bench, bytes);
    }
}

#[test]
fn it_is_paused_and_resumed_and_explained_on_both_sides() {
    let way = WAYS[0];
    let mut bench = prepared(way, 1, 48 * MIB);
    let before = bench.show("data");
    reshape(&mut bench, order(way));
    let id = task(&mut bench).task;
    let limit_bytes_per_s = Some(8 * MIB);
    bench.ask(Command::TaskSet(SetTask { task: id, share_percent: None, limit_bytes_per_s })).unwrap();
    bench.wait(4);
    bench.ask(Command::TaskPause { task: id }).unwrap();
    bench.wait(5);
    assert_eq!(task(&mut bench).state, TaskState::Paused);
    let moved = bench.show("data").reshape.expect("it is on its way").moved_bytes;
    assert!(moved > 0 && moved < before.capacity_bytes, "{moved} of {}", before.capacity_bytes);
    let sentence = bench.refused(ErrorKind::WrongState, Command::TaskStop { task: id });
    assert!(sentence.contains("task pause"), "{sentence}");
    let explained = |bench: &mut Bench, offset_bytes: u64| {
        let volume = Some("data".to_owned());
        let operation = "read".to_owned();
        let explain = Explain { volume, operation, offset_bytes, size_bytes: 4096, ..Explain::default() };
        match bench.ask(Command::Explain(explain)) {
            Ok(Reply::Explained { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    };
    let (below, above) = (explained(&mut bench, 0), explained(&mut bench, before.capacity_bytes - 4096));
    assert!(below.contains("4 drives") && above.contains("3 drives"), "{below}\n{above}");
    bench.restart(&[]);
    bench.wait(5);
    assert_eq!(bench.show("data").reshape.expect("it stands still").moved_bytes, moved);
    bench.ask(Command::TaskResume { task: id }).unwrap();
    arrive(&mut bench);
    expect_content(&mut bench, before.capacity_bytes);
}

#[test]
fn what_has_not_moved_yet_is_taken_back() {
    let way = WAYS[0];
    let mut bench = prepared(way, 1, 12 * MIB);
    let before = bench.show("data");
    reshape(&mut bench, order(way));
    let id = task(&mut bench).task;
    bench.ask(Command::TaskStop { task: id }).unwrap();
    bench.wait(5);
    let after = bench.show("data");
    assert_eq!((after.reshape, after.drives.len()), (None, before.drives.len()));
    assert_eq!((task(&mut bench).state, after.state), (TaskState::Stopped, VolumeState::Optimal));
    expect_content(&mut bench, before.capacity_bytes);
    // Its drive is free again.
    reshape(&mut bench, order(way));
    arrive(&mut bench);
    expect_content(&mut bench, before.capacity_bytes);
}

#[test]
fn a_dry_run_tells_what_would_be_and_changes_nothing() {
    let mut bench = prepared(WAYS[1], 1, 12 * MIB);
    let before = bench.show("data");
    let told = reshape(&mut bench, ReshapeVolume { dry_run: true, ..order(WAYS[1]) });
    assert_eq!((told.from.level.as_str(), told.to.level.as_str(), told.may_lose), ("raid5", "raid6", 1));
    assert_eq!(told.to.may_lose, 2);
    assert!(told.estimated_s.is_some_and(|seconds| seconds > 0));
    assert_eq!(bench.show("data"), before);
    let refused = [
        ReshapeVolume { add: Vec::new(), ..order(WAYS[1]) },
        ReshapeVolume { level: Some("raid10".into()), ..order(WAYS[1]) },
        ReshapeVolume { size_bytes: Some(before.capacity_bytes - STRIP), ..order(WAYS[0]) },
        ReshapeVolume { add: Vec::new(), ..order(WAYS[0]) },
    ];
    for order in refused {
        let sentence = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order));
        assert!(sentence.contains("; "), "{sentence}");
    }
    assert_eq!(bench.show("data"), before);
}
