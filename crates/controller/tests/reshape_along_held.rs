//! Queued volumes of a reshape, with lost drives without which their new layout would be offline.

use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, reshape};
use crate::reshape_along::{
    ADDS, REMOVES, Scene, arrive, beside, between, delete, expect_content, holds, lies_on, resume,
    task_of,
};
use crate::reshape_lost::moved;
use controller::{AddSpare, Command, DriveState, ErrorKind, TaskState, VolumeState};
use units::{ByteCount, ByteOffset, ByteRange};

const SIZE: u64 = 3 * MIB;

/// Hosts make durable writes.
fn use_all(bench: &mut Bench, scene: Scene) {
    for (place, name) in scene.names().enumerate() {
        bench.write(name, 0, holds(place, 0), STRIP);
        let volume = bench.shards[0].volume_named(name).expect("the volume is online");
        bench
            .sim
            .run(async move { volume.flush().await })
            .expect("no stall")
            .expect("the write is durable");
    }
}

fn fail(bench: &mut Bench, scene: Scene, lost: &[&str]) {
    for drive in lost {
        bench.sim.drive(drive).expect("the drive exists").fail_now();
    }
    use_all(bench, scene);
    bench.wait(5);
    lost.iter()
        .for_each(|drive| assert_ne!(bench.drive(drive).state, DriveState::Online, "{drive}"));
}

/// A drive fails with an error: it does not return automatically.
fn put_out(bench: &mut Bench, drive: &str) {
    let failing = bench.sim.drive(drive).expect("the drive exists");
    failing.refuse_writes(ByteRange::new(ByteOffset(0), ByteCount(1 << 30)));
    for strip in 0..16 {
        let _ = bench.try_write("more", strip * STRIP, holds(1, strip), STRIP).expect("no stall");
    }
    bench.wait(5);
    failing.clear_write_errors();
}

/// Drives to be added failed before the second volume began. It began all the same, could make
/// nothing durable on them, and the next start refused it, though its old drives had all of its
/// data.
#[test]
fn a_volume_does_not_begin_onto_drives_that_are_out_and_that_it_cannot_do_without() {
    let scenes: [(Scene, &[&str]); 4] = [
        (Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..ADDS }, &["d"]),
        (
            Scene {
                drives: 4,
                volumes: &[("data", "raid6"), ("more", "raid10")],
                add: &["e", "f"],
                ..ADDS
            },
            &["e", "f"],
        ),
        (
            Scene {
                drives: 4,
                volumes: &[("data", "raid6"), ("more", "raid5")],
                add: &["e"],
                ..ADDS
            },
            &["a", "e"],
        ),
        (
            Scene { volumes: &[("data", "raid5"), ("more", "raid0"), ("last", "raid0")], ..ADDS },
            &["d"],
        ),
    ];
    for (scene, lost) in scenes {
        let mut bench = between(scene, SIZE);
        fail(&mut bench, scene, lost);
        resume(&mut bench, scene);
        for restarts in 0..2 {
            bench.wait(20);
            let task = task_of(&mut bench, "more");
            let why = task.reason.unwrap_or_default();
            assert_eq!(task.state, TaskState::Waiting, "{scene:?}: {why}");
            assert!(why.contains("'more'") && why.contains("softroc drive replace "), "{why}");
            let drive = lost.last().expect("some");
            assert!(why.contains(drive), "{why}");
            assert_eq!(lies_on(&bench, "more"), scene.drives);
            use_all(&mut bench, scene);
            expect_content(&mut bench, scene, SIZE);
            if restarts == 0 {
                bench.restart(&[]);
                if !bench.show("data").state.serves() {
                    bench.start_degraded("data");
                }
            }
        }
    }
}

/// This has a solution: a replacement drive in such a slot, from an operator or a spare, lets the
/// reshapes complete.
#[test]
fn a_volume_begins_when_a_drive_has_taken_the_slot_that_it_waits_for() {
    let first = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..ADDS };
    let both =
        Scene { drives: 4, volumes: &[("data", "raid6"), ("more", "raid5")], add: &["e"], ..ADDS };
    for (scene, lost, is_spare) in [
        (first, &["d"][..], false),
        (first, &["d"], true),
        (both, &["a", "e"], true),
        (both, &["a", "e"], false),
    ] {
        let mut bench = between(scene, SIZE);
        let slot = scene.in_the_end() - 1;
        let replace =
            |drive: String| Command::DriveReplace { drive, with: "f".into(), destroy_data: true };
        bench.refused(ErrorKind::WrongState, replace("b".into()));
        fail(&mut bench, scene, lost);
        resume(&mut bench, scene);
        bench.wait(5);
        bench.refused(ErrorKind::WrongState, replace("b".into()));
        match is_spare {
            true => {
                let spare =
                    AddSpare { drive: "f".into(), destroy_data: true, ..AddSpare::default() };
                bench.ask(Command::SpareAdd(spare)).expect("the spare is added");
            }
            false => drop(
                bench
                    .ask(replace(format!("data:{slot}")))
                    .expect("the slot is empty, and waited for"),
            ),
        }
        arrive(&mut bench, scene);
        for _ in 0..30 {
            bench.wait(2);
        }
        for name in scene.names() {
            assert_eq!(lies_on(&bench, name), scene.in_the_end(), "{name}: {scene:?}");
            let shown = bench.show(name);
            let expected =
                if lost.len() == 1 { VolumeState::Optimal } else { VolumeState::Degraded };
            assert_eq!(
                (shown.state, shown.reshape),
                (expected, None),
                "{name}: {scene:?}, spare: {is_spare}"
            );
        }
        use_all(&mut bench, scene);
        expect_content(&mut bench, scene, SIZE);
        assert_eq!(
            bench.drive("f").state,
            DriveState::Online,
            "no part of it remains to be rebuilt"
        );
        bench.restart(&[]);
    }
}

/// A volume with a lost drive was reported to lack every drive lost later, also those that it does
/// not use. And the advice to bring a drive back was refused, since volumes were queued.
#[test]
fn a_volume_that_was_passed_over_is_started_again_and_follows() {
    let scene =
        Scene { drives: 4, volumes: &[("data", "raid6"), ("more", "raid0")], add: &["e"], ..ADDS };
    for is_out in [false, true] {
        let mut bench = between(scene, SIZE);
        put_out(&mut bench, "b");
        assert_eq!(bench.show("more").state, VolumeState::Offline);
        resume(&mut bench, scene);
        if is_out {
            bench.ask(crate::common::take_offline("e")).expect("'data' tolerates it");
        }
        bench.wait(10);
        let said = bench.show("more").reasons.join("; ");
        assert!(said.contains("softroc drive online b"), "{said}");
        bench.ask(Command::DriveOnline { drive: "b".into() }).expect("as the message says");
        bench.wait(2);
        assert!(bench.show("more").state.serves(), "{:?}", bench.show("more").reasons);
        if is_out {
            bench.wait(10);
            assert_eq!(lies_on(&bench, "more"), 4, "the volume waits for drive e");
            bench.ask(Command::DriveOnline { drive: "e".into() }).expect("as its task says");
        }
        arrive(&mut bench, scene);
        bench.wait(5);
        for name in scene.names() {
            bench.settle(name);
            assert_eq!(
                (bench.show(name).state, lies_on(&bench, name)),
                (VolumeState::Optimal, 5),
                "{name}"
            );
        }
        expect_content(&mut bench, scene, SIZE);
    }
}

/// A volume had begun its reshape, and lost a drive that the queued one did not use yet: the array
/// went on without that drive, and the advised `drive online` was refused, as a volume was
/// reshaping. Neither volume completed.
#[test]
fn a_volume_that_lost_a_new_drive_after_it_had_begun_gets_it_back() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid0")], ..ADDS };
    for restarts in [false, true] {
        // As long as no data has moved it tolerates the loss of the drive, in its old layout.
        let mut bench = moved(scene, SIZE, 0);
        let failing = bench.sim.drive("d").expect("the drive exists");
        failing.refuse_writes(ByteRange::new(ByteOffset(0), ByteCount(1 << 30)));
        bench.wait(20);
        assert_eq!(bench.show("data").state, VolumeState::Offline, "the volume needs drive d");
        failing.clear_write_errors();
        if restarts {
            bench.restart(&[]);
        }
        assert!(bench.show("more").state.serves() && lies_on(&bench, "more") == 3);
        let said = bench.show("data").reasons.join("; ");
        assert!(said.contains("softroc drive online d"), "{said}");
        // Any other drive keeps its state.
        bench.refused(ErrorKind::WrongState, Command::DriveOnline { drive: "a".into() });
        bench.ask(Command::DriveOnline { drive: "d".into() }).expect("as the message says");
        bench.wait(2);
        assert!(bench.show("data").state.serves(), "{:?}", bench.show("data").reasons);
        arrive(&mut bench, scene);
        for name in scene.names() {
            assert_eq!(
                (bench.show(name).state, lies_on(&bench, name)),
                (VolumeState::Optimal, 4),
                "{name}"
            );
        }
        expect_content(&mut bench, scene, SIZE);
    }
}

/// A drive to be removed is lost: a volume that does not use it any more is complete, and reported
/// so.
#[test]
fn a_volume_says_nothing_of_drives_that_it_does_not_lie_on() {
    for (scene, whole) in [(ADDS, "last"), (REMOVES, "data")] {
        let mut bench = between(scene, SIZE);
        bench.sim.drive("d").expect("the drive exists").fail_now();
        bench.write("data", 0, holds(0, 0), STRIP);
        bench.wait(5);
        let shown = bench.show(whole);
        assert_eq!(
            (shown.state, shown.reasons),
            (VolumeState::Optimal, Vec::<String>::new()),
            "{scene:?}"
        );
        let told = format!("'{whole}' is complete");
        assert!(bench.events().iter().any(|event| event.text.contains(&told)), "{scene:?}");
    }
}

/// A replacement for a waited-for slot had space for the volume's present size per drive, and not
/// for the larger part that fewer drives need: the volume could not be reshaped, and neither could
/// the queued ones.
#[test]
fn a_drive_that_takes_a_slot_has_room_for_what_volumes_take_that_follow() {
    const WIDE: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (gap, size) = ("gap", 6 * MIB);
    let mut bench = Bench::in_order(9, 1, 0);
    // The volume takes 4 MiB of each drive, and half a MiB more of six drives.
    bench.add_drives(&WIDE, 32 * MIB + 6 * MIB);
    bench.add_drives(&["large"], 32 * MIB + 6 * MIB);
    bench.add_drives(&["small"], 32 * MIB + 4 * MIB);
    bench.boot(&[&WIDE[..], &["small", "large"]].concat());
    bench
        .create_with("data", "raid6", &WIDE, |create| create.size_bytes = Some(size))
        .expect("created");
    bench.create_with(gap, "raid0", &[], beside(16 * MIB)).expect("there is space");
    bench.create_with("more", "raid50", &[], beside(size)).expect("there is space");
    delete(&mut bench, gap);
    for (place, name) in ["data", "more"].into_iter().enumerate() {
        (0..size / STRIP)
            .for_each(|strip| bench.write(name, strip * STRIP, holds(place, strip), STRIP));
        bench.settle(name);
    }
    let scene = Scene {
        drives: 8,
        volumes: &[("data", "raid6"), ("more", "raid50")],
        remove: &["g", "h"],
        ..ADDS
    };
    reshape(&mut bench, Scene { add: &[], ..scene }.order());
    let task = task_of(&mut bench, "more").task;
    bench.ask(Command::TaskPause { task }).expect("the task is paused");
    bench.wait(60);
    assert_eq!(bench.show("data").reshape, None);
    // Of eight drives each is in another span, and of six both are in one.
    fail(&mut bench, scene, &["d", "e"]);
    bench.ask(Command::TaskResume { task }).expect("the reshape is paused");
    bench.wait(5);
    let why = task_of(&mut bench, "more").reason.unwrap_or_default();
    assert!(why.contains("needs drives that are out of service"), "{why}");
    let replace = |with: &str| Command::DriveReplace {
        drive: "data:3".into(),
        with: with.into(),
        destroy_data: true,
    };
    let why = bench.refused(ErrorKind::Invalid, replace("small"));
    assert!(why.contains("is too small"), "{why}");
    let spare = AddSpare { drive: "small".into(), destroy_data: true, ..AddSpare::default() };
    bench.ask(Command::SpareAdd(spare)).expect("the spare is added");
    bench.wait(120);
    assert_eq!(lies_on(&bench, "more"), 8, "the drive is no spare for this array");
    bench.ask(replace("large")).expect("the drive has space");
    arrive(&mut bench, scene);
    assert_eq!(lies_on(&bench, "more"), 6);
    expect_content(&mut bench, scene, size);
}
