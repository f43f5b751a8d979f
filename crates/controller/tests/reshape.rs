//! Online reshapes: begun, paused, interrupted at any event, with lost drives.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, MIB};
use controller::{
    Command, ErrorKind, Explain, Reply, ReshapeInfo, ReshapeVolume, SetTask, TaskInfo, TaskKind,
    TaskState, VolumeState,
};
use engine::Volume;
use platform::BlockTarget;
use std::rc::Rc;

pub const STRIP: u64 = 65536;

/// A reshape from one layout to another; the last drives are the added ones.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub from: &'static str,
    pub drives: &'static [&'static str],
    pub to: &'static str,
    pub add: &'static [&'static str],
}

pub const WAYS: [Way; 8] = [
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid5", add: &["d"] },
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid6", add: &["d"] },
    Way { from: "raid5", drives: &["a", "b", "c"], to: "raid6", add: &["d", "e"] },
    Way { from: "raid0", drives: &["a", "b"], to: "raid0", add: &["c"] },
    Way { from: "raid0", drives: &["a", "b"], to: "raid5", add: &["c"] },
    Way { from: "raid6", drives: &["a", "b", "c", "d"], to: "raid5", add: &[] },
    Way { from: "raid1", drives: &["a", "b"], to: "raid10", add: &["c", "d"] },
    Way { from: "raid10", drives: &["a", "b", "c", "d"], to: "raid6", add: &[] },
];

pub fn order(way: Way) -> ReshapeVolume {
    ReshapeVolume {
        volume: "data".into(),
        level: (way.to != way.from).then(|| way.to.into()),
        add: way.add.iter().map(ToString::to_string).collect(),
        ..ReshapeVolume::default()
    }
}

pub fn reshape(bench: &mut Bench, order: ReshapeVolume) -> ReshapeInfo {
    match bench.ask(Command::VolumeReshape(order)) {
        Ok(Reply::Reshape { reshape, .. }) => *reshape,
        other => panic!("{other:?}"),
    }
}

/// The content of a strip of the volume.
pub fn byte(strip: u64) -> u8 {
    (strip % 251) as u8 + 1
}

/// A volume whose strips identify their location, on drives with this much space for data.
pub fn prepared(way: Way, shards: usize, room: u64) -> Bench {
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

pub fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").unwrap();
    bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
}

pub fn expect_content(bench: &mut Bench, bytes: u64) {
    for strip in 0..bytes / STRIP {
        bench.expect("data", strip * STRIP, byte(strip), STRIP);
    }
}

pub fn task(bench: &mut Bench) -> TaskInfo {
    let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks") };
    tasks.into_iter().find(|task| task.kind == TaskKind::Reshape).expect("the reshape begins")
}

/// Advances time until the volume is not reshaping any more.
pub fn arrive(bench: &mut Bench) {
    for _ in 0..200 {
        if bench.show("data").reshape.is_none() {
            return bench.settle("data");
        }
        bench.wait(1);
    }
    let events: Vec<String> = bench.events().into_iter().map(|event| event.text).collect();
    let tasks = bench.ask(Command::TaskList {});
    panic!("the reshape does not end: {tasks:?}: {events:#?}");
}

/// Whichever drives fail within the tolerance of the level, it reads the same.
pub fn expect_redundancy(bench: &mut Bench, bytes: u64) {
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Optimal);
    let drives: Vec<String> = info.drives.iter().map(|drive| drive.name.clone()).collect();
    for pair in drives.windows(2).step_by(2) {
        let lost = &pair[..usize::from(info.may_lose).min(2)];
        for drive in lost {
            bench
                .ask(Command::DriveOffline {
                    drive: drive.clone(),
                    accept_data_loss: false,
                    accepted: None,
                    dry_run: false,
                })
                .unwrap();
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
        assert_eq!(
            (after.number, &after.uuid),
            (before.number, &before.uuid),
            "the volume has the same identity"
        );
        assert_eq!(task(&mut bench).state, TaskState::Done);
        assert!(bench.has_event("has its new layout"));
        expect_content(&mut bench, before.capacity_bytes);
        // A host that connected before the reshape continues.
        let slice = platform::Buf::copy_of(&[byte(0); 512]).freeze();
        let range = units::ByteRange::new(units::ByteOffset(0), units::ByteCount(512));
        bench
            .sim
            .run(async move { host.write(range, slice, platform::Durability::Durable).await })
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

/// A host that connected before the end of a reshape stays a host of the volume: the volume is not
/// deleted while it is in use. After a second reshape its requests go to the right location; they
/// once went to the layout that the second reshape had left.
#[test]
fn hosts_of_before_are_hosts_still_and_go_along_when_it_is_moved_again() {
    for shards in [1, 2] {
        let mut bench = prepared(WAYS[0], shards, 48 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        let volume = bench.shards[0].volume_named("data").unwrap();
        let _host = bench.hosts.connect(platform::Connection {
            peer: platform::Peer::at("unix:/run/nbd.sock".to_owned()),
            protocol: "NBD",
            target: volume.number(),
            asked_for: "data".to_owned(),
            since: bench.sim.env().now(),
            since_unix_s: bench.sim.env().unix_time(),
        });
        reshape(&mut bench, order(WAYS[0]));
        arrive(&mut bench);
        assert_eq!(bench.show("data").hosts.len(), 1);
        // Their requests are counted as before: tasks yield to them.
        let (before, host) = (bench.flushes_of_hosts(), volume.clone());
        bench.sim.run(async move { host.flush().await }).expect("no stall").expect("flushed");
        assert_eq!(bench.flushes_of_hosts(), before + 1);
        let delete = Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false };
        bench.refused(ErrorKind::InUse, delete);
        let again = ReshapeVolume {
            volume: "data".into(),
            level: Some("raid6".into()),
            add: vec!["e".into()],
            ..ReshapeVolume::default()
        };
        reshape(&mut bench, again);
        let task = running(&mut bench);
        let limit_bytes_per_s = Some(8 * MIB);
        bench
            .ask(Command::TaskSet(SetTask { task, share_percent: None, limit_bytes_per_s }))
            .unwrap();
        bench.wait(4);
        let moved = bench.show("data").reshape.expect("the volume is reshaping").moved_bytes;
        assert!(moved > 0 && moved < bytes, "{moved} of {bytes}");
        // On both sides of the cursor, and from one to the other once the rest is moved.
        use_all(&mut bench, &volume, bytes, 1);
        let limit_bytes_per_s = Some(1 << 30);
        bench
            .ask(Command::TaskSet(SetTask { task, share_percent: None, limit_bytes_per_s }))
            .unwrap();
        arrive(&mut bench);
        assert_eq!(bench.show("data").level, "raid6");
        for strip in 0..bytes / STRIP {
            bench.expect("data", strip * STRIP, byte(strip + 1), STRIP);
        }
        use_all(&mut bench, &volume, bytes, 0);
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
    }
}

/// The current reshape task of a volume.
fn running(bench: &mut Bench) -> u64 {
    let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks") };
    let moves = |task: &TaskInfo| task.kind == TaskKind::Reshape && !task.state.is_over();
    tasks.into_iter().find(moves).expect("the reshape task exists").task
}

/// A host reads all of a volume and rewrites it, with strip numbers from another start.
fn use_all(bench: &mut Bench, volume: &Rc<Volume>, bytes: u64, shift: u64) {
    let volume = volume.clone();
    let done = bench.sim.run(async move {
        for strip in 0..bytes / STRIP {
            let range =
                units::ByteRange::new(units::ByteOffset(strip * STRIP), units::ByteCount(STRIP));
            let buf = volume.shard().env().pool().take_reserved(range.len);
            let (read, buf) = volume.read(range, buf).await;
            read.expect("readable");
            let buf = buf.expect("the drives respond");
            let expected = byte(strip + 1 - shift);
            assert!(buf.bytes().iter().all(|found| *found == expected), "strip {strip}");
            let data = platform::Buf::copy_of(&[byte(strip + shift); STRIP as usize]).freeze();
            volume.write(range, data, platform::Durability::Cached).await.expect("writable");
            let status = volume.status(range).await.expect("the content is known");
            assert!(
                status.iter().all(|extent| extent.status == platform::BlockStatus::Data),
                "strip {strip}"
            );
        }
        volume.flush().await.expect("flushed");
    });
    done.expect("no stall");
}

/// The old layout counts as present on all members until the end: a drive without space for it was
/// too small for the next start.
#[test]
fn a_drive_that_is_smaller_than_what_is_taken_of_the_others_is_refused() {
    let mut bench = prepared(WAYS[0], 1, 12 * MIB);
    bench.add_drives(&["s"], 32 * MIB + 8 * MIB);
    bench.ask(Command::DriveAdd { drive: "s".into(), size_bytes: None }).unwrap();
    let small = ReshapeVolume { add: vec!["s".into()], ..order(WAYS[0]) };
    let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(small));
    assert!(
        why.contains("drive s is smaller than the space that 'data' uses on each drive"),
        "{why}"
    );
}

/// A kill or power cut at any event from the command to the end: the volume is intact, and the
/// reshape continues automatically.
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
            assert_eq!(
                (info.level.as_str(), info.state),
                (way.to, VolumeState::Optimal),
                "event {event}"
            );
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
        assert!(sentence.contains("is being reshaped"), "{sentence}");
        for _ in 0..100 {
            if bench.show("data").reshape.is_none() {
                break;
            }
            bench.wait(1);
        }
        let info = bench.show("data");
        assert_eq!(
            (info.reshape.is_none(), info.state),
            (true, VolumeState::Degraded),
            "without {lost}"
        );
        expect_content(&mut bench, bytes);
    }
}

/// Killed during a reshape without a journal, with a drive missing: the volume waits for the
/// operator. The confirmation was applied to the old layout only, and the part in the new layout
/// was never started.
#[test]
fn an_operators_word_on_stale_parity_is_about_both_layouts() {
    let way = WAYS[0];
    let mut bench = Bench::in_order(9, 2, 0);
    bench.add_drives(&["a", "b", "c", "d"], 32 * MIB + 48 * MIB);
    bench.boot(&["a", "b", "c", "d"]);
    let resync = |create: &mut controller::CreateVolume| {
        create.write_hole = Some(controller::WriteHole::Resync);
    };
    let info =
        bench.create_with("data", way.from, way.drives, resync).expect("the volume is created");
    for strip in 0..info.capacity_bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    reshape(&mut bench, order(way));
    let id = running(&mut bench);
    let limit_bytes_per_s = Some(8 * MIB);
    bench
        .ask(Command::TaskSet(SetTask { task: id, share_percent: None, limit_bytes_per_s }))
        .unwrap();
    bench.wait(4);
    bench.ask(Command::TaskPause { task: id }).unwrap();
    bench.wait(5);
    let moved = bench.show("data").reshape.expect("the reshape is paused").moved_bytes;
    assert!(moved > STRIP && moved < info.capacity_bytes - STRIP);
    // Writes on both sides mark regions of both layouts.
    for at in [0, info.capacity_bytes - STRIP] {
        bench.write("data", at, byte(at / STRIP), STRIP);
    }
    flush(&mut bench);
    bench.sim.kill();
    bench.forget();
    bench.sim.drive("b").unwrap().fail_now();
    bench.sim.restart_process();
    bench.boot(&["a", "c", "d"]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Offline, "{:?}", shown.reasons);
    let start = |accept_stale_parity| Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity,
        degraded: true,
    };
    let why = bench.refused(ErrorKind::WrongState, start(false));
    assert!(why.contains("softroc volume start data --accept-stale-parity --degraded"), "{why}");
    bench.ask(start(true)).unwrap();
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    expect_content(&mut bench, info.capacity_bytes);
    bench.ask(Command::TaskResume { task: id }).unwrap();
    for _ in 0..100 {
        if bench.show("data").reshape.is_none() {
            break;
        }
        bench.wait(1);
    }
    let shown = bench.show("data");
    assert_eq!((shown.reshape.is_none(), shown.drives.len()), (true, 4));
    expect_content(&mut bench, info.capacity_bytes);
}

/// After the reshape, the missed writes of a drive pulled during it are rebuilt automatically, and
/// so is a spare.
#[test]
fn what_was_lost_on_the_way_is_rebuilt_by_itself_in_the_end() {
    for comes_back in [true, false] {
        let way = WAYS[0];
        let mut bench = prepared(way, 2, 12 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        if !comes_back {
            let spare = controller::AddSpare {
                drive: "e".into(),
                destroy_data: true,
                ..controller::AddSpare::default()
            };
            bench.ask(Command::SpareAdd(spare)).unwrap();
        }
        reshape(&mut bench, order(way));
        bench.sim.drive("b").unwrap().vanish();
        for strip in 0..8 {
            bench.write("data", strip * STRIP, byte(strip + 1), STRIP);
        }
        if comes_back {
            bench.sim.drive("b").unwrap().come_back();
        }
        for _ in 0..200 {
            let shown = bench.show("data");
            if shown.reshape.is_none() && shown.state == VolumeState::Optimal {
                break;
            }
            bench.wait(1);
        }
        let shown = bench.show("data");
        assert_eq!(
            (shown.reshape, shown.state),
            (None, VolumeState::Optimal),
            "comes back: {comes_back}"
        );
        for strip in 0..bytes / STRIP {
            bench.expect("data", strip * STRIP, byte(strip + u64::from(strip < 8)), STRIP);
        }
    }
}

/// The records of both layouts are on the log in use. The part in the new layout had a name that a
/// log's label does not accept, and the log devices were failed for that.
#[test]
fn a_log_has_the_records_of_both_layouts() {
    let way = WAYS[0];
    let mut bench = prepared(way, 2, 12 * MIB);
    bench.add_drives(&["x", "y"], 24 * MIB);
    let drives = vec!["x".to_owned(), "y".to_owned()];
    bench.ask(Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }).unwrap();
    bench.settle("data");
    let bytes = bench.show("data").capacity_bytes;
    for nth in 0..2 {
        reshape(&mut bench, ReshapeVolume { add: vec![["d", "e"][nth].into()], ..order(way) });
        for strip in 0..4 {
            bench.write("data", strip * STRIP, byte(strip), STRIP);
        }
        arrive(&mut bench);
        let Ok(Reply::Logs { logs, .. }) = bench.ask(Command::LogList {}) else { panic!("logs") };
        let devices = logs.into_iter().flat_map(|log| log.devices);
        let out = devices.filter(|device| device.state != controller::LogDeviceState::Online);
        assert_eq!(out.map(|device| device.why).collect::<Vec<_>>(), []);
    }
    bench.write("data", 512, byte(0), 512);
    common::events::end(&mut bench, End::Killed);
    bench.boot(&["a", "b", "c", "d", "e", "x", "y"]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.show("data").reasons);
    expect_content(&mut bench, bytes);
}

/// Blocks unreadable on two drives stopped a reshape permanently. It continues without them, and
/// they stay lost in the new layout, until a host writes them.
#[test]
fn lost_blocks_are_carried_along_as_lost() {
    let way = WAYS[0];
    for how in [None, Some(End::Killed)] {
        let mut bench = prepared(way, 2, 12 * MIB);
        let before = bench.show("data");
        let at = units::ByteOffset(before.data_start_bytes + 5 * STRIP);
        for drive in ["a", "b"] {
            let range = units::ByteRange::new(at, units::ByteCount(4096));
            bench.sim.drive(drive).unwrap().make_unreadable(range);
        }
        reshape(&mut bench, order(way));
        arrive(&mut bench);
        if let Some(how) = how {
            common::events::end(&mut bench, how);
            bench.boot(&["a", "b", "c", "d"]);
            bench.settle("data");
        }
        let lost = bench.show("data").lost_bytes;
        assert!((4096..=2 * 4096).contains(&lost), "{lost} bytes are lost");
        let strips = before.capacity_bytes / STRIP;
        let is_whole =
            |bench: &mut Bench, strip: u64| match bench.try_read("data", strip * STRIP, STRIP) {
                Ok(bytes) => {
                    assert!(bytes.iter().all(|found| *found == byte(strip)), "strip {strip}");
                    true
                }
                Err(error) => {
                    assert_eq!(error.kind, platform::IoErrorKind::Medium);
                    false
                }
            };
        let gone: Vec<u64> = (0..strips).filter(|strip| !is_whole(&mut bench, *strip)).collect();
        assert!(!gone.is_empty() && gone.iter().all(|strip| strip / 2 == 5), "{gone:?}");
        for strip in gone {
            bench.write("data", strip * STRIP, byte(strip), STRIP);
        }
        assert_eq!(bench.show("data").lost_bytes, 0);
        expect_content(&mut bench, before.capacity_bytes);
        expect_redundancy(&mut bench, before.capacity_bytes);
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
    bench
        .ask(Command::TaskSet(SetTask { task: id, share_percent: None, limit_bytes_per_s }))
        .unwrap();
    bench.wait(4);
    bench.ask(Command::TaskPause { task: id }).unwrap();
    bench.wait(5);
    assert_eq!(task(&mut bench).state, TaskState::Paused);
    let moved = bench.show("data").reshape.expect("the volume is reshaping").moved_bytes;
    assert!(moved > 0 && moved < before.capacity_bytes, "{moved} of {}", before.capacity_bytes);
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
    let (below, above) =
        (explained(&mut bench, 0), explained(&mut bench, before.capacity_bytes - 4096));
    assert!(below.contains("4 drives") && above.contains("3 drives"), "{below}\n{above}");
    bench.restart(&[]);
    bench.wait(5);
    assert_eq!(bench.show("data").reshape.expect("the reshape is paused").moved_bytes, moved);
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
    assert_eq!(
        (told.from.level.as_str(), told.to.level.as_str(), told.may_lose),
        ("raid5", "raid6", 1)
    );
    assert_eq!(told.to.may_lose, 2);
    assert!(told.estimated_s.is_some_and(|seconds| seconds > 0));
    assert_eq!(bench.show("data"), before);
    let refused = [
        (ErrorKind::Invalid, ReshapeVolume { add: Vec::new(), ..order(WAYS[1]) }),
        (ErrorKind::Invalid, ReshapeVolume { level: Some("raid1e".into()), ..order(WAYS[1]) }),
        (
            ErrorKind::LosesData,
            ReshapeVolume { size_bytes: Some(before.capacity_bytes - STRIP), ..order(WAYS[0]) },
        ),
        (ErrorKind::Invalid, ReshapeVolume { add: Vec::new(), ..order(WAYS[0]) }),
    ];
    for (kind, order) in refused {
        let sentence = bench.refused(kind, Command::VolumeReshape(order));
        assert!(sentence.contains("; "), "{sentence}");
    }
    assert_eq!(bench.show("data"), before);
}
