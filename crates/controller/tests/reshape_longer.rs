//! Volumes that grow to all the space of their drives: each byte stays in place.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use crate::reshape::{
    STRIP, arrive, byte, expect_content, expect_redundancy, flush, reshape, task,
};
use controller::{
    Command, CreateVolume, ErrorKind, ReshapeInfo, ReshapeVolume, TaskState, VolumeState,
};
use std::cell::Cell;

/// Labels, maps and journals.
const TAIL: u64 = 32 * MIB;

pub fn order() -> ReshapeVolume {
    ReshapeVolume { volume: "data".into(), ..ReshapeVolume::default() }
}

/// A volume that uses this much of each of its drives, and could use twice as much and a strip
/// more. Its strips identify their location.
pub fn shorter(level: &str, drives: &[&str], shards: usize, used: u64) -> (Bench, u64) {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(drives, TAIL + 2 * used + STRIP);
    bench.boot(drives);
    let (whole, _) = bench.create("probe", level, drives);
    let share = whole.capacity_bytes / (whole.member_bytes / STRIP);
    let delete = Command::VolumeDelete { volume: "probe".into(), disconnect_hosts: false };
    bench.ask(delete).expect("deleted");
    let size_bytes = Some(share * (used / STRIP));
    let info = bench.create_with("data", level, drives, |create| create.size_bytes = size_bytes);
    let bytes = info.expect("created").capacity_bytes;
    for strip in 0..bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    (bench, bytes)
}

/// A volume of that size on the drives of another one.
pub fn beside(other: &'static str, size: u64) -> impl FnOnce(&mut CreateVolume) {
    move |create| {
        (create.array, create.drives) = (Some(other.into()), Vec::new());
        create.size_bytes = Some(size);
    }
}

fn written(bench: &Bench, drives: &[&str]) -> u64 {
    drives
        .iter()
        .map(|name| bench.sim.drive(name).expect("the drive exists").stats().written_bytes)
        .sum()
}

const SHAPES: [(&str, &[&str]); 9] = [
    ("raid0", &["a", "b"]),
    ("raid1", &["a", "b"]),
    ("raid4", &["a", "b", "c"]),
    ("raid5", &["a", "b", "c"]),
    ("raid5ee", &["a", "b", "c", "d"]),
    ("raid6", &["a", "b", "c", "d", "e"]),
    ("raid10", &["a", "b", "c", "d"]),
    ("raid50", &["a", "b", "c", "d", "e", "f"]),
    ("raid60", &["a", "b", "c", "d", "e", "f", "g", "h"]),
];

#[test]
fn a_volume_gets_all_there_is_and_its_bytes_stay_where_they_are() {
    for ((level, drives), shards) in SHAPES.into_iter().zip([1, 2].into_iter().cycle()) {
        let (mut bench, bytes) = shorter(level, drives, shards, 24 * MIB);
        let dry = reshape(&mut bench, ReshapeVolume { dry_run: true, ..order() });
        assert_eq!((dry.estimated_s, dry.from.level), (Some(0), dry.to.level), "{level}");
        let before = (bench.show("data"), written(&bench, drives));
        let told: ReshapeInfo = reshape(&mut bench, order());
        assert!(told.to.capacity_bytes >= 2 * bytes, "{level}: {told:?}");
        for _ in 0..1000 {
            let until = bench.sim.now() + std::time::Duration::from_millis(10);
            bench.sim.run_until(until).expect("no stall");
            if bench.show("data").reshape.is_none() {
                break;
            }
        }
        assert_eq!(bench.show("data").reshape, None, "{level}");
        if level == "raid0" {
            // No resync runs there: only labels were written.
            let written = written(&bench, drives) - before.1;
            assert!(written < bytes / 4, "{level}: {written} bytes were written");
        }
        arrive(&mut bench);
        let after = bench.show("data");
        assert_eq!(
            (after.capacity_bytes, &after.uuid),
            (told.to.capacity_bytes, &before.0.uuid),
            "{level}"
        );
        assert_eq!(
            (after.state, task(&mut bench).state),
            (VolumeState::Optimal, TaskState::Done),
            "{level}"
        );
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
        bench.write("data", after.capacity_bytes - STRIP, 7, STRIP);
        bench.restart(&[]);
        bench.settle("data");
        expect_content(&mut bench, bytes);
        bench.expect("data", after.capacity_bytes - STRIP, 7, STRIP);
        let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order()));
        assert!(why.contains("softroc drive replace"), "{why}");
    }
}

/// First to a size, then to all the space.
#[test]
fn a_volume_grows_to_a_size_and_then_to_all_there_is() {
    let (mut bench, bytes) = shorter("raid5", &["a", "b", "c"], 2, 24 * MIB);
    for size_bytes in [Some(bytes + 4096), Some(bytes + 12 * MIB), None] {
        let told = reshape(&mut bench, ReshapeVolume { size_bytes, ..order() });
        assert!(size_bytes.is_none_or(|size| size == told.to.capacity_bytes));
        arrive(&mut bench);
        assert_eq!(bench.show("data").capacity_bytes, told.to.capacity_bytes);
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
    }
    let smaller = ReshapeVolume { size_bytes: Some(bytes), ..order() };
    bench.refused(ErrorKind::Invalid, Command::VolumeReshape(smaller));
}

/// Several volumes on an array: each grows into the free space behind it, and the others stay in
/// place.
#[test]
fn volumes_beside_each_other_grow_into_what_is_free_behind_them() {
    let drives = ["a", "b", "c"];
    let (mut bench, bytes) = shorter("raid5", &drives, 2, 24 * MIB);
    for name in ["more", "last"] {
        bench.create_with(name, "raid5", &[], beside("data", 8 * MIB)).expect("there is space");
        bench.write(name, 0, 9, 8 * MIB);
        bench.settle(name);
    }
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order()));
    assert!(why.contains("'data' has this layout already"), "{why}");
    let delete = Command::VolumeDelete { volume: "more".into(), disconnect_hosts: false };
    bench.ask(delete).expect("deleted");
    let before = bench.show("last");
    for (volume, least) in [("data", bytes + 8 * MIB), ("last", before.capacity_bytes + 8 * MIB)] {
        reshape(&mut bench, ReshapeVolume { volume: volume.into(), ..order() });
        for _ in 0..100 {
            if bench.show(volume).reshape.is_none() {
                break;
            }
            bench.wait(1);
        }
        bench.settle(volume);
        assert!(bench.show(volume).capacity_bytes >= least, "{volume}: {:?}", bench.show(volume));
        expect_content(&mut bench, bytes);
        bench.expect("last", 0, 9, 8 * MIB);
    }
    let (first, last) = (bench.show("data"), bench.show("last"));
    assert!(first.data_start_bytes + first.member_bytes <= last.data_start_bytes);
    bench.write("data", first.capacity_bytes - STRIP, 5, STRIP);
    bench.write("last", last.capacity_bytes - STRIP, 6, STRIP);
    bench.ask(crate::common::take_offline("b")).unwrap();
    bench.restart(&[]);
    expect_content(&mut bench, bytes);
    bench.expect("last", 0, 9, 8 * MIB);
    bench.expect("data", first.capacity_bytes - STRIP, 5, STRIP);
    bench.expect("last", last.capacity_bytes - STRIP, 6, STRIP);
    let add = ReshapeVolume { add: vec!["x".into()], ..order() };
    bench.refused(ErrorKind::WrongState, Command::VolumeReshape(add));
}

/// Mirrors are used with longer stripes than their label has. The space behind a volume in its last
/// region was zeroed with a wrong factor: over the next volume, while the right space kept the
/// drives' old content.
#[test]
fn mirrors_that_become_longer_fill_their_own_room_and_nothing_of_the_next_volume() {
    let (size, more, drives) = (MIB, 24 * MIB, ["a", "b"]);
    for longer in [MIB / 2, MIB / 2 + STRIP, 3 * STRIP] {
        let mut bench = Bench::in_order(9, 2, 0);
        bench.add_drives(&drives, TAIL + 64 * MIB);
        let noise = vec![0xA5; (2 * MIB) as usize];
        bench.sim.drive("b").expect("the drive exists").poke(units::ByteOffset(0), &noise);
        bench.boot(&drives);
        bench
            .create_with("data", "raid1", &drives, |create| create.size_bytes = Some(size))
            .expect("created");
        for (name, size) in [("gap", 8 * MIB), ("more", more)] {
            bench.create_with(name, "raid1", &[], beside("data", size)).expect("there is space");
        }
        (0..size / STRIP).for_each(|strip| bench.write("data", strip * STRIP, byte(strip), STRIP));
        bench.write("more", 0, 9, more);
        for name in ["data", "more", "gap"] {
            bench.settle(name);
        }
        let delete = Command::VolumeDelete { volume: "gap".into(), disconnect_hosts: false };
        bench.ask(delete).expect("deleted");
        reshape(&mut bench, ReshapeVolume { size_bytes: Some(size + longer), ..order() });
        arrive(&mut bench);
        bench.settle("data");
        for out in drives {
            bench
                .ask(Command::DriveOffline {
                    drive: out.into(),
                    accept_data_loss: false,
                    accepted: None,
                    dry_run: false,
                })
                .expect("the volume tolerates it");
            expect_content(&mut bench, size);
            bench.expect("data", size, 0, longer);
            bench.expect("more", 0, 9, more);
            bench.ask(Command::DriveOnline { drive: out.into() }).expect("the drive returns");
            bench.settle("data");
            bench.wait(5);
        }
    }
}

/// Drives are replaced by larger ones, one after the other. Unwritten sectors are on none of them:
/// they read as zeros, also in the end.
#[test]
fn larger_drives_that_replaced_the_others_are_used_as_a_whole() {
    let mut bench = Bench::in_order(9, 2, 0);
    let drives = ["a", "b", "c"];
    bench.boot(&[]);
    for name in drives {
        let size_bytes = Some(TAIL + 192 * MIB);
        bench.ask(Command::DriveAdd { drive: name.into(), size_bytes }).expect("created");
    }
    let (info, _) = bench.create("data", "raid5", &drives);
    let bytes = info.capacity_bytes;
    bench.write("data", 0, 1, 4 * STRIP);
    bench.settle("data");
    bench.add_drives(&["x", "y", "z"], TAIL + 256 * MIB);
    for (drive, with) in drives.into_iter().zip(["x", "y", "z"]) {
        let replace =
            Command::DriveReplace { drive: drive.into(), with: with.into(), destroy_data: true };
        bench.ask(replace).expect("the drive is replaced");
        for _ in 0..100 {
            bench.wait(1);
            if bench.show("data").drives.iter().all(|other| other.name != drive) {
                break;
            }
        }
        bench.settle("data");
    }
    // In unwritten regions the new drives are not filled yet: that state is kept.
    let dry = reshape(&mut bench, ReshapeVolume { dry_run: true, ..order() });
    assert!(dry.estimated_s.is_some_and(|seconds| seconds > 0), "{dry:?}");
    let told = reshape(&mut bench, order());
    assert_eq!(told.to.capacity_bytes, bytes / 192 * 256);
    arrive(&mut bench);
    let check = |bench: &mut Bench| {
        bench.expect("data", 0, 1, 4 * STRIP);
        for at in [4 * STRIP, bytes / 2, bytes - STRIP] {
            bench.expect("data", at, 0, STRIP);
        }
    };
    check(&mut bench);
    for lost in ["x", "y", "z"] {
        bench
            .ask(Command::DriveOffline {
                drive: lost.into(),
                accept_data_loss: false,
                accepted: None,
                dry_run: false,
            })
            .unwrap();
        check(&mut bench);
        bench.ask(Command::DriveOnline { drive: lost.into() }).unwrap();
        bench.settle("data");
        bench.wait(5);
    }
    assert_eq!(bench.show("data").capacity_bytes, told.to.capacity_bytes);
}

/// A kill or power cut at any event: the volume has the old or the new size.
#[test]
fn a_volume_that_is_interrupted_while_it_becomes_longer_loses_nothing() {
    let ends = [End::Killed, End::PowerCut].into_iter().cycle();
    for ((level, drives), how) in SHAPES.into_iter().zip(ends) {
        let bytes = Cell::new(0);
        let prepare = || {
            let (bench, capacity) = shorter(level, drives, 1, MIB);
            bytes.set(capacity);
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(Command::VolumeReshape(order())).ok()?.unwrap();
            let until = bench.sim.now() + std::time::Duration::from_secs(2);
            bench.sim.run_until(until).ok()
        };
        at_every_event(9, how, prepare, scene, |bench, _, event| {
            bench.boot(drives);
            arrive(bench);
            expect_content(bench, bytes.get());
            if bench.show("data").capacity_bytes == bytes.get() {
                reshape(bench, order());
                arrive(bench);
            }
            let shown = bench.show("data");
            assert_eq!(shown.state, VolumeState::Optimal, "{level}, event {event}");
            assert!(shown.capacity_bytes > bytes.get(), "{level}, event {event}");
            expect_content(bench, bytes.get());
            expect_redundancy(bench, bytes.get());
        });
    }
}

/// A drive is lost at any time of the reshape, and misses writes: incomplete windows are moved like
/// any other, and the drive's missed writes are recorded.
#[test]
fn a_drive_that_is_lost_while_a_volume_becomes_longer_is_done_without() {
    let drives = ["a", "b", "c"];
    for steps in (0..1500).step_by(50) {
        let (mut bench, bytes) = shorter("raid5", &drives, 1 + steps % 2, 2 * MIB);
        let ordered = bench.begin_ask(Command::VolumeReshape(order()));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("b").unwrap().vanish();
        for strip in [0, 1, bytes / STRIP - 1] {
            bench.write("data", strip * STRIP, byte(strip), STRIP);
        }
        let was_refused = bench.sim.run(ordered).expect("no stall").is_err();
        bench.sim.drive("b").unwrap().come_back();
        for _ in 0..200 {
            let shown = bench.show("data");
            if shown.reshape.is_none() && shown.state == VolumeState::Optimal {
                break;
            }
            bench.wait(1);
        }
        bench.settle("data");
        let shown = bench.show("data");
        assert_eq!((shown.reshape, shown.state), (None, VolumeState::Optimal), "{steps} events");
        assert!(was_refused || shown.capacity_bytes > bytes, "{steps} events");
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
    }
}
