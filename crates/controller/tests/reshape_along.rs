//! Several volumes on one array, to which drives are added or from which some are removed: all
//! volumes are reshaped to the new drive count, one after the other.

use crate::common::events::{End, at_every_event, end};
use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, byte, reshape};
use controller::{
    Command, CreateVolume, DriveState, ErrorKind, Reply, ReshapeVolume, TaskInfo, TaskKind,
    TaskState, VolumeState,
};

const ALL: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Volumes on the first drives, the named one first, and the command.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub drives: usize,
    pub volumes: &'static [(&'static str, &'static str)],
    pub to: Option<&'static str>,
    pub add: &'static [&'static str],
    pub remove: &'static [&'static str],
}

pub const ADDS: Scene = Scene {
    drives: 3,
    volumes: &[("data", "raid5"), ("more", "raid0"), ("last", "raid5")],
    to: None,
    add: &["d"],
    remove: &[],
};

pub const REMOVES: Scene = Scene {
    drives: 4,
    volumes: &[("data", "raid5"), ("more", "raid5"), ("last", "raid0")],
    to: None,
    add: &[],
    remove: &["d"],
};

const SCENES: [Scene; 6] = [
    ADDS,
    REMOVES,
    Scene { to: Some("raid6"), add: &["d", "e"], ..ADDS },
    Scene {
        volumes: &[("data", "raid10"), ("more", "raid6")],
        add: &["e", "f"],
        drives: 4,
        ..ADDS
    },
    // Its new size takes more of each drive, and so do the volumes that follow.
    Scene {
        to: Some("raid0"),
        volumes: &[("data", "raid5"), ("more", "raid10")],
        drives: 6,
        remove: &["e", "f"],
        ..REMOVES
    },
    Scene {
        volumes: &[("data", "raid6"), ("more", "raid5")],
        drives: 5,
        remove: &["e"],
        ..REMOVES
    },
];

impl Scene {
    pub fn order(self) -> ReshapeVolume {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        ReshapeVolume {
            volume: "data".into(),
            level: self.to.map(str::to_owned),
            add: names(self.add),
            remove: names(self.remove),
            ..ReshapeVolume::default()
        }
    }

    pub fn in_the_end(self) -> usize {
        self.drives + self.add.len() - self.remove.len()
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.volumes.iter().map(|(name, _)| *name)
    }
}

/// The content of an unwritten strip of the volume at this position.
pub fn holds(place: usize, strip: u64) -> u8 {
    byte(strip + 40 * place as u64)
}

pub fn beside(size: u64) -> impl FnOnce(&mut CreateVolume) {
    move |create| {
        (create.array, create.drives) = (Some("data".into()), Vec::new());
        create.size_bytes = Some(size);
    }
}

pub fn delete(bench: &mut Bench, volume: &str) {
    let delete = Command::VolumeDelete { volume: volume.into(), disconnect_hosts: false };
    bench.ask(delete).expect("deleted");
}

/// Volumes of that size, each with a gap behind it, whose strips identify their location.
pub fn prepared(scene: Scene, shards: usize, size: u64) -> Bench {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(&ALL, 32 * MIB + 4 * size * scene.volumes.len() as u64);
    bench.boot(&ALL);
    for (place, (name, level)) in scene.volumes.iter().enumerate() {
        match place {
            0 => {
                let sized = |create: &mut CreateVolume| create.size_bytes = Some(size);
                bench.create_with(name, level, &ALL[..scene.drives], sized).expect("created");
            }
            _ => drop(bench.create_with(name, level, &[], beside(size)).expect("created")),
        }
        bench
            .create_with(&format!("gap{place}"), "raid0", &[], beside(2 * size))
            .expect("there is space");
        for strip in 0..size / STRIP {
            bench.write(name, strip * STRIP, holds(place, strip), STRIP);
        }
        let volume = bench.shards[0].volume_named(name).unwrap();
        bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
    }
    for place in 0..scene.volumes.len() {
        delete(&mut bench, &format!("gap{place}"));
    }
    scene.names().for_each(|name| bench.settle(name));
    bench
}

pub fn expect_content(bench: &mut Bench, scene: Scene, size: u64) {
    for (place, name) in scene.names().enumerate() {
        for strip in 0..size / STRIP {
            bench.expect(name, strip * STRIP, holds(place, strip), STRIP);
        }
    }
}

/// The number of drives of a volume: the drives of an array are listed alike for all of its
/// volumes.
pub fn lies_on(bench: &Bench, name: &str) -> usize {
    bench.shards[0]
        .volume_named(name)
        .expect("the volume is online")
        .spec()
        .geometry
        .drives()
        .as_usize()
}

/// The newest reshape task of a volume.
pub fn task_of(bench: &mut Bench, volume: &str) -> TaskInfo {
    find_task(bench, volume).expect("the reshape task exists")
}

fn find_task(bench: &mut Bench, volume: &str) -> Option<TaskInfo> {
    let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks") };
    let moves =
        |task: &TaskInfo| task.kind == TaskKind::Reshape && task.volume.as_deref() == Some(volume);
    tasks.into_iter().rev().find(moves)
}

/// Sends the command, and waits until there is a task for that volume. A command is acknowledged
/// when it is recorded: some data has moved by then.
fn begun(bench: &mut Bench, scene: Scene, volume: &str) -> u64 {
    let asked = bench.begin_ask(Command::VolumeReshape(scene.order()));
    loop {
        if let Some(task) = find_task(bench, volume) {
            return task.task;
        }
        assert!(!asked.is_finished(), "its task is listed before the acknowledgement");
        let until = bench.sim.now() + std::time::Duration::from_micros(2);
        bench.sim.run_until(until).unwrap();
    }
}

fn is_there(bench: &mut Bench, scene: Scene) -> bool {
    scene.names().all(|name| bench.show(name).reshape.is_none())
}

/// Advances time until no volume is reshaping or queued.
pub fn arrive(bench: &mut Bench, scene: Scene) {
    for _ in 0..200 {
        if is_there(bench, scene) {
            scene.names().for_each(|name| bench.settle(name));
            return bench.wait(1);
        }
        bench.wait(1);
    }
    let events: Vec<String> = bench.events().into_iter().map(|event| event.text).collect();
    panic!(
        "{scene:?}: the reshapes do not end: {:?}: {events:#?}",
        bench.ask(Command::TaskList {})
    );
}

/// All volumes have the same number of drives, and with any tolerated failure they read the same.
fn expect_end(bench: &mut Bench, scene: Scene, size: u64) {
    for (name, level) in scene.volumes {
        let shown = bench.show(name);
        let level = if *name == "data" { scene.to.unwrap_or(level) } else { level };
        let is = (shown.level.as_str(), shown.state, shown.drives.len(), lies_on(bench, name));
        let all = scene.in_the_end();
        assert_eq!(is, (level, VolumeState::Optimal, all, all), "{name}: {scene:?}");
        assert!(*name == "data" || shown.capacity_bytes == size, "{name} keeps its size");
    }
    expect_content(bench, scene, size);
    for name in scene.remove {
        let drive = bench.drive(name);
        assert_eq!(
            (drive.state, drive.volumes),
            (DriveState::Unused, Vec::<String>::new()),
            "{name}"
        );
    }
    let may_lose = |bench: &mut Bench| scene.names().all(|name| bench.show(name).may_lose > 0);
    if may_lose(bench) {
        for drive in ["a", ALL[scene.in_the_end() - 1]] {
            bench
                .ask(Command::DriveOffline {
                    drive: drive.into(),
                    accept_data_loss: false,
                    accepted: None,
                    dry_run: false,
                })
                .unwrap();
            expect_content(bench, scene, size);
            bench.ask(Command::DriveOnline { drive: drive.into() }).unwrap();
            scene.names().for_each(|name| bench.settle(name));
        }
    }
}

#[test]
fn volumes_of_one_array_come_to_its_drives_one_after_the_other_and_hosts_write_meanwhile() {
    let size = 6 * MIB;
    for (scene, shards) in SCENES.into_iter().zip([1, 2].into_iter().cycle()) {
        let mut bench = prepared(scene, shards, size);
        let before: Vec<_> = scene.names().map(|name| bench.show(name)).collect();
        let told = reshape(&mut bench, scene.order());
        let along: Vec<&str> = told.along.iter().map(|other| other.volume.as_str()).collect();
        assert_eq!(along, scene.names().skip(1).collect::<Vec<_>>());
        // Each strip gets its neighbour's content, and the content after that.
        for shift in [1, 0] {
            for strip in 0..size / STRIP {
                for (place, name) in scene.names().enumerate() {
                    bench.write(name, strip * STRIP, holds(place, strip + shift), STRIP);
                }
            }
        }
        arrive(&mut bench, scene);
        for before in before {
            let after = bench.show(&before.name);
            assert_eq!(
                (after.number, &after.uuid),
                (before.number, &before.uuid),
                "the volume has the same identity"
            );
            assert_eq!(
                after.data_start_bytes, before.data_start_bytes,
                "its range on each drive is unchanged"
            );
            assert_eq!(task_of(&mut bench, &before.name).state, TaskState::Done);
        }
        assert_eq!(bench.count_events("has its new layout"), scene.volumes.len());
        assert_eq!(bench.count_events("does not use drive"), scene.remove.len());
        expect_end(&mut bench, scene, size);
        bench.restart(&[]);
        scene.names().for_each(|name| bench.settle(name));
        expect_content(&mut bench, scene, size);
    }
}

/// A kill or power cut at any event from the command to the end: the volumes are intact and the
/// reshapes continue automatically, or none was begun.
#[test]
fn an_order_that_is_interrupted_anywhere_is_carried_out_or_was_never_begun() {
    let two = |scene: Scene| Scene { volumes: &scene.volumes[..2], ..scene };
    let scenes =
        [two(ADDS), two(REMOVES), Scene { to: Some("raid6"), add: &["d", "e"], ..two(ADDS) }];
    for (scene, how) in scenes.into_iter().zip([End::Killed, End::PowerCut].into_iter().cycle()) {
        let size = 12 * STRIP;
        let play = |bench: &mut Bench| {
            bench.try_ask(Command::VolumeReshape(scene.order())).ok()?.unwrap();
            for _ in 0..60 {
                let until = bench.sim.now() + std::time::Duration::from_secs(1);
                bench.sim.run_until(until).ok()?;
                let shown = |name: &str| Command::VolumeShow { volume: name.into() };
                let mut is_there = true;
                for name in scene.names() {
                    let shown = bench.try_ask(shown(name)).ok()?;
                    is_there &= matches!(
                        shown,
                        Ok(Reply::Volume { volume, .. }) if volume.reshape.is_none()
                    );
                }
                if is_there {
                    return Some(());
                }
            }
            None
        };
        at_every_event(
            19,
            how,
            || prepared(scene, 1, size),
            play,
            |bench, _, event| {
                bench.boot(&ALL);
                expect_content(bench, scene, size);
                arrive(bench, scene);
                let counts: Vec<usize> = scene.names().map(|name| lies_on(bench, name)).collect();
                assert!(
                    counts.windows(2).all(|pair| pair[0] == pair[1]),
                    "event {event}: {counts:?}"
                );
                if counts[0] == scene.drives {
                    reshape(bench, ReshapeVolume { destroy_data: true, ..scene.order() });
                    arrive(bench, scene);
                }
                expect_end(bench, scene, size);
            },
        );
    }
}

/// A kill or power cut at any event of the second volume's start of reshape: the first one keeps
/// its new drives.
#[test]
fn a_beginning_after_another_volumes_end_that_is_interrupted_takes_nothing_of_that_back() {
    for (scene, how) in [(ADDS, End::Killed), (ADDS, End::PowerCut), (REMOVES, End::Killed)] {
        let (scene, size) = (Scene { volumes: &scene.volumes[..2], ..scene }, 12 * STRIP);
        let number = std::cell::Cell::new(0);
        let play = |bench: &mut Bench| {
            bench.try_ask(Command::TaskResume { task: number.get() }).ok()?.unwrap();
            for _ in 0..400 {
                let until = bench.sim.now() + std::time::Duration::from_millis(1);
                bench.sim.run_until(until).ok()?;
                let shown = bench.try_ask(Command::VolumeShow { volume: "more".into() }).ok()?;
                let Ok(Reply::Volume { volume, .. }) = shown else { return None };
                if volume.reshape.is_none_or(|way| !way.waits) {
                    return Some(());
                }
            }
            None
        };
        let prepare = || {
            let mut bench = between(scene, size);
            number.set(task_of(&mut bench, "more").task);
            bench
        };
        at_every_event(2, how, prepare, play, |bench, _, event| {
            bench.boot(&ALL);
            expect_content(bench, scene, size);
            let task = task_of(bench, "more");
            if task.state == TaskState::Paused {
                bench.ask(Command::TaskResume { task: task.task }).unwrap();
            }
            arrive(bench, scene);
            let counts: Vec<usize> = scene.names().map(|name| lies_on(bench, name)).collect();
            assert_eq!(counts, [scene.in_the_end(); 2], "event {event}");
            expect_content(bench, scene, size);
        });
    }
}

/// The first volume's reshape is complete, and the second one is paused before it begins.
pub fn between(scene: Scene, size: u64) -> Bench {
    let mut bench = prepared(scene, 2, size);
    reshape(&mut bench, scene.order());
    for name in scene.names().skip(1) {
        let waits = task_of(&mut bench, name);
        assert_eq!(
            (waits.state, waits.reason.is_some()),
            (TaskState::Waiting, true),
            "{name}: {waits:?}"
        );
        bench.ask(Command::TaskPause { task: waits.task }).unwrap();
    }
    for _ in 0..100 {
        if bench.show("data").reshape.is_none() {
            break;
        }
        bench.wait(1);
    }
    assert_eq!(bench.show("data").reshape, None, "the first reshape is complete");
    bench.wait(5);
    bench
}

pub fn resume(bench: &mut Bench, scene: Scene) {
    for name in scene.names().skip(1) {
        let task = task_of(bench, name).task;
        bench.ask(Command::TaskResume { task }).unwrap();
    }
}

/// Between two reshapes no volume is reshaping, and all are online over restarts; but the volumes
/// use different drives.
#[test]
fn a_volume_that_waits_is_served_by_the_layout_that_it_has() {
    let size = 3 * MIB;
    for scene in [ADDS, REMOVES] {
        let mut bench = between(scene, size);
        for restarts in 0..2 {
            let way = bench.show("last").reshape.expect("the volume is queued");
            assert!(
                way.waits && way.moved_bytes == 0 && way.to.drives as usize == scene.in_the_end()
            );
            expect_content(&mut bench, scene, size);
            let rename = Command::VolumeSet { volume: "data".into(), name: "other".into() };
            let refused = bench.refused(ErrorKind::WrongState, rename);
            assert!(refused.contains("softroc task list"), "{refused}");
            let refused = bench.create_with("new", "raid0", &[], beside(STRIP)).map(|_| ());
            assert_eq!(
                refused.expect_err("it would lie on other drives").kind,
                ErrorKind::WrongState
            );
            let again = ReshapeVolume { volume: "data".into(), ..ReshapeVolume::default() };
            bench.refused(ErrorKind::WrongState, Command::VolumeReshape(again));
            let id = task_of(&mut bench, "more").task;
            let refused = bench.refused(ErrorKind::WrongState, Command::TaskStop { task: id });
            assert!(refused.contains(&format!("softroc task pause {id}")), "{refused}");
            if restarts == 0 {
                bench.restart(&[]);
                bench.wait(5);
            }
        }
        resume(&mut bench, scene);
        arrive(&mut bench, scene);
        expect_end(&mut bench, scene, size);
    }
}

/// All of a command is rolled back while no data has moved, whichever of its tasks is stopped.
#[test]
fn an_order_of_which_nothing_has_moved_is_taken_back_as_a_whole() {
    let size = 3 * MIB;
    for (scene, stopped) in [(ADDS, "data"), (ADDS, "last"), (REMOVES, "more"), (REMOVES, "data")] {
        let mut bench = prepared(scene, 2, size);
        let id = begun(&mut bench, scene, stopped);
        bench.ask(Command::TaskStop { task: id }).expect("no data has moved");
        bench.wait(5);
        for name in scene.names() {
            let shown = bench.show(name);
            let is = (shown.reshape, shown.drives.len(), lies_on(&bench, name));
            assert_eq!(is, (None, scene.drives, scene.drives), "{name}: {scene:?}");
            assert_eq!(task_of(&mut bench, name).state, TaskState::Stopped, "{name}");
        }
        expect_content(&mut bench, scene, size);
        bench.restart(&[]);
        expect_content(&mut bench, scene, size);
        // Its drives are free again.
        reshape(&mut bench, scene.order());
        arrive(&mut bench, scene);
        expect_end(&mut bench, scene, size);
    }
}

/// Stopped at any event: the command is rolled back for all volumes, or continues for all.
#[test]
fn an_order_that_is_stopped_at_any_moment_is_taken_back_or_goes_on_as_a_whole() {
    let (scene, size) = (Scene { volumes: &ADDS.volumes[..2], ..ADDS }, MIB);
    let mut stopped = 0;
    for steps in (0..800).step_by(40) {
        let mut bench = prepared(scene, 2, size);
        let id = begun(&mut bench, scene, ["data", "more"][steps / 40 % 2]);
        for _ in 0..steps {
            bench.sim.step();
        }
        let _ = bench.ask(Command::TaskStop { task: id });
        arrive(&mut bench, scene);
        let counts: Vec<usize> = scene.names().map(|name| lies_on(&bench, name)).collect();
        assert!(counts == [3, 3] || counts == [4, 4], "{steps} events: {counts:?}");
        stopped += usize::from(counts == [3, 3]);
        expect_content(&mut bench, scene, size);
        let states: Vec<TaskState> =
            scene.names().map(|name| task_of(&mut bench, name).state).collect();
        let expected = if counts == [3, 3] { TaskState::Stopped } else { TaskState::Done };
        assert_eq!(states, [expected; 2], "{steps} events");
    }
    assert!((3..20).contains(&stopped), "{stopped} of 20 were stopped");
}

/// Any of the volumes can be deleted during the reshapes: the others complete theirs.
#[test]
fn a_volume_that_is_deleted_on_the_way_keeps_none_of_the_others() {
    let size = 3 * MIB;
    for (scene, gone) in [(ADDS, "data"), (ADDS, "more"), (REMOVES, "data"), (REMOVES, "last")] {
        for has_moved in [false, true] {
            let mut bench = if has_moved { between(scene, size) } else { prepared(scene, 1, size) };
            if !has_moved {
                reshape(&mut bench, scene.order());
            }
            delete(&mut bench, gone);
            // An observer sees no reshaping volume, only queued ones.
            bench.wait(if has_moved { 2 } else { 0 });
            let left = || scene.names().filter(|name| *name != gone);
            if has_moved {
                for name in left().filter(|name| *name != "data") {
                    let task = task_of(&mut bench, name).task;
                    bench.ask(Command::TaskResume { task }).unwrap();
                }
            }
            for _ in 0..100 {
                if left().all(|name| bench.show(name).reshape.is_none()) {
                    break;
                }
                bench.wait(1);
            }
            left().for_each(|name| bench.settle(name));
            bench.wait(2);
            for name in left() {
                let shown = bench.show(name);
                let is = (shown.reshape, shown.state, lies_on(&bench, name));
                let expected = (None, VolumeState::Optimal, scene.in_the_end());
                assert_eq!(is, expected, "{name} without {gone}: {scene:?}");
            }
            bench.restart(&[]);
            for (place, name) in scene.names().enumerate().filter(|(_, name)| *name != gone) {
                (0..size / STRIP).for_each(|strip| {
                    bench.expect(name, strip * STRIP, holds(place, strip), STRIP);
                });
            }
        }
    }
}

/// All volumes run without a lost drive, also the queued ones; its replacement is rebuilt when all
/// reshapes are complete.
#[test]
fn a_drive_that_is_lost_on_the_way_is_done_without_by_all_and_a_spare_follows() {
    let size = 3 * MIB;
    let adds = Scene { volumes: &[("data", "raid5"), ("more", "raid5")], ..ADDS };
    let removes = Scene { volumes: adds.volumes, ..REMOVES };
    for (scene, lost) in [(adds, "a"), (adds, "d"), (removes, "b"), (removes, "d")] {
        for is_between in [false, true] {
            let mut bench =
                if is_between { between(scene, size) } else { prepared(scene, 2, size) };
            let spare = controller::AddSpare {
                drive: "f".into(),
                destroy_data: true,
                ..controller::AddSpare::default()
            };
            bench.ask(Command::SpareAdd(spare)).expect("the spare is added");
            if !is_between {
                reshape(&mut bench, scene.order());
            }
            bench.sim.drive(lost).unwrap().fail_now();
            for (place, name) in scene.names().enumerate() {
                bench.write(name, 0, holds(place, 0), STRIP);
            }
            if is_between {
                resume(&mut bench, scene);
            }
            for _ in 0..100 {
                if is_there(&mut bench, scene) {
                    break;
                }
                bench.wait(1);
            }
            expect_content(&mut bench, scene, size);
            let what = format!("{scene:?} without {lost}, between: {is_between}");
            for _ in 0..60 {
                if scene.names().all(|name| bench.show(name).state == VolumeState::Optimal) {
                    break;
                }
                bench.wait(2);
            }
            scene.names().for_each(|name| bench.settle(name));
            for name in scene.names() {
                let shown = bench.show(name);
                let is = (shown.reshape, shown.state, lies_on(&bench, name));
                assert_eq!(is, (None, VolumeState::Optimal, scene.in_the_end()), "{name}: {what}");
            }
            expect_content(&mut bench, scene, size);
        }
    }
}

/// A volume that is offline for a lost drive does not block the queued ones, and the array is idle
/// when it is deleted.
#[test]
fn a_volume_that_cannot_be_served_is_passed_over() {
    let (scene, size) = (ADDS, 3 * MIB);
    let mut bench = between(scene, size);
    bench.sim.drive("b").unwrap().vanish();
    bench.wait(5);
    let _ = bench.try_write("data", 0, holds(0, 0), STRIP).expect("no stall");
    resume(&mut bench, scene);
    for _ in 0..100 {
        if bench.show("last").reshape.is_none() {
            break;
        }
        bench.wait(1);
    }
    let (more, last) = (bench.show("more"), bench.show("last"));
    assert_eq!((more.state, more.reshape.is_some()), (VolumeState::Offline, true));
    assert_eq!(
        (last.state, last.reshape, lies_on(&bench, "last")),
        (VolumeState::Degraded, None, 4)
    );
    delete(&mut bench, "more");
    bench.wait(2);
    let added = bench.create_with("new", "raid0", &[], beside(STRIP)).map(|_| ());
    assert!(
        added.is_err_and(|why| !why.message.contains("being reshaped")),
        "only a drive is missing"
    );
    for (place, name) in [(0, "data"), (2, "last")] {
        for strip in 0..size / STRIP {
            bench.expect(name, strip * STRIP, holds(place, strip), STRIP);
        }
    }
}

/// Without added or removed drives the other volumes need no reshape.
#[test]
fn another_level_on_the_same_drives_moves_one_volume_alone() {
    let (size, scene) = (3 * MIB, REMOVES);
    let mut bench = prepared(scene, 2, size);
    let before = bench.show("more");
    let order = ReshapeVolume {
        volume: "data".into(),
        level: Some("raid6".into()),
        ..ReshapeVolume::default()
    };
    let told = reshape(&mut bench, order);
    assert!(told.along.is_empty());
    assert_eq!(bench.show("more").reshape, None);
    arrive(&mut bench, scene);
    let (data, more) = (bench.show("data"), bench.show("more"));
    assert_eq!(
        (data.level.as_str(), more.level, more.member_bytes),
        ("raid6", before.level, before.member_bytes)
    );
    expect_content(&mut bench, scene, size);
    end(&mut bench, End::Killed);
    bench.boot(&ALL);
    expect_content(&mut bench, scene, size);
}
