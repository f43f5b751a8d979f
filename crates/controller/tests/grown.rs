//! Drives that grow: files and block devices that are enlarged.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, MIB};
use crate::reshape::{STRIP, arrive, byte, expect_content, expect_redundancy, flush, reshape};
use crate::reshape_longer::order;
use controller::{Command, DriveState, ErrorKind, Reply, VolumeState};
use platform::IoErrorKind;
use units::{ByteCount, ByteOffset, ByteRange};

/// The initial drive size, with 32 MiB for the label; and the size after the growth.
const SMALL: u64 = 40 * MIB;
const LARGE: u64 = 96 * MIB;

const THREE: [&str; 3] = ["a", "b", "c"];

fn set_length(bench: &Bench, drives: &[&str], len: u64) {
    for drive in drives {
        bench.sim.drive(drive).expect("the drive exists").set_length(ByteCount(len));
    }
}

/// A volume on small drives that may grow. Its strips identify their location.
fn small(level: &str, shards: usize) -> (Bench, u64) {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(&THREE, LARGE);
    set_length(&bench, &THREE, SMALL);
    bench.boot(&THREE);
    let bytes = bench.create("data", level, &THREE).0.capacity_bytes;
    for strip in 0..bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    (bench, bytes)
}

fn rescan(drive: &str) -> Command {
    Command::DriveRescan { drive: drive.into(), was_bytes: None }
}

/// The notes of a rescan.
fn rescanned(bench: &mut Bench, drive: &str) -> String {
    match bench.ask(rescan(drive)) {
        Ok(Reply::Drive { notes, .. }) => notes.join("; "),
        other => panic!("{other:?}"),
    }
}

fn sizes(bench: &mut Bench) -> Vec<(Option<u64>, Option<u64>)> {
    let shown = THREE.map(|name| bench.drive(name));
    shown.iter().map(|drive| (drive.size_bytes, drive.grown_to_bytes)).collect()
}

/// All of the drives is used, and the volume can be extended.
fn expect_room(bench: &mut Bench, bytes: u64) {
    assert_eq!(sizes(bench), [(Some(LARGE), None); 3]);
    expect_content(bench, bytes);
    let told = reshape(bench, order());
    assert!(told.to.capacity_bytes > 4 * bytes, "{told:?}");
    arrive(bench);
    expect_content(bench, bytes);
    let last = bench.show("data").capacity_bytes - STRIP;
    bench.write("data", last, 7, STRIP);
    bench.expect("data", last, 7, STRIP);
}

#[test]
fn drives_that_became_larger_serve_as_large_as_they_were_until_they_are_rescanned() {
    for (level, shards) in [("raid0", 1), ("raid5", 2)] {
        let (mut bench, bytes) = small(level, shards);
        set_length(&bench, &THREE, LARGE);
        for _ in 0..2 {
            bench.restart(&[]);
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{level}");
            assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(LARGE)); 3], "{level}");
            bench.settle("data");
            expect_content(&mut bench, bytes);
            let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(order()));
            assert!(why.contains("softroc drive rescan"), "{why}");
        }
        for drive in THREE {
            let note = rescanned(&mut bench, drive);
            assert!(note.contains("from the next start"), "{note}");
        }
        assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(LARGE)); 3], "{level}");
        bench.restart(&[]);
        assert_eq!(bench.count_events("its label was moved to its new end"), 3);
        expect_room(&mut bench, bytes);
        if level == "raid5" {
            expect_redundancy(&mut bench, bytes);
        }
        bench.restart(&[]);
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
}

/// A complete array was started while the metadata of its drives moved to their new end: label
/// writes of the start conflicted with writes of the move, and the volume was offline. Torture seed
/// 910031.
#[test]
fn an_array_starts_when_the_metadata_of_its_drives_has_moved() {
    for times in [20, 60] {
        let (mut bench, bytes) = small("raid5", 2);
        set_length(&bench, &THREE, LARGE);
        for (number, drive) in THREE.into_iter().enumerate() {
            rescanned(&mut bench, drive);
            bench
                .sim
                .drive(drive)
                .expect("the drive exists")
                .slow_down(times * (number as u32 + 1));
        }
        bench.restart(&[]);
        for drive in THREE {
            bench.sim.drive(drive).expect("the drive exists").slow_down(1);
        }
        let is_served = |bench: &mut Bench| bench.show("data").state == VolumeState::Optimal;
        for _ in 0..60 {
            if is_served(&mut bench) {
                break;
            }
            bench.wait(1);
        }
        expect_room(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
    }
}

#[test]
fn a_volume_that_can_do_without_a_drive_has_all_of_it_without_a_restart() {
    for shards in [1, 2] {
        let (mut bench, bytes) = small("raid5", shards);
        set_length(&bench, &THREE, LARGE);
        for (number, drive) in THREE.into_iter().enumerate() {
            bench
                .ask(Command::DriveOffline {
                    drive: drive.into(),
                    accept_data_loss: false,
                    accepted: None,
                    dry_run: false,
                })
                .expect("the volume tolerates it");
            bench.write("data", 0, 200 + number as u8, STRIP);
            let note = rescanned(&mut bench, drive);
            assert!(note.contains("96 MiB now") && note.contains("softroc drive online"), "{note}");
            bench.ask(Command::DriveOnline { drive: drive.into() }).expect("the drive returns");
            bench.settle("data");
            for _ in 0..60 {
                if bench.show("data").state == VolumeState::Optimal {
                    break;
                }
                bench.wait(1);
            }
            bench.expect("data", 0, 200 + number as u8, STRIP);
        }
        bench.write("data", 0, byte(0), STRIP);
        expect_room(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
        bench.power_cycle(&[]);
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
}

/// A kill or power cut at any event of a start that moves the structures at the end of drives.
#[test]
fn whenever_a_start_ends_that_gives_drives_their_room_the_next_one_finds_them() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let (mut bench, _) = small("raid5", 1);
            set_length(&bench, &THREE, LARGE);
            bench.restart(&[]);
            THREE.into_iter().for_each(|drive| drop(rescanned(&mut bench, drive)));
            bench.settle("data");
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.forget();
            bench.sim.restart_process();
            bench.try_boot(&[]).ok()
        };
        at_every_event(11, how, prepare, scene, |bench, _, event| {
            bench.boot(&[]);
            let bytes = bench.show("data").capacity_bytes;
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{how:?} at {event}");
            assert_eq!(sizes(bench), [(Some(LARGE), None); 3], "{how:?} at {event}");
            bench.settle("data");
            expect_content(bench, bytes);
        });
    }
}

/// It is unknown which of two labels is valid: one from before the drive had that size, or one that
/// another controller wrote later.
#[test]
fn what_lay_at_the_end_before_a_drive_had_it_is_not_taken_for_its_label() {
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&THREE, LARGE);
    bench.boot(&THREE);
    bench.create("old", "raid5", &THREE);
    bench.shut_down();
    bench.forget();
    set_length(&bench, &THREE, SMALL);
    bench.sim.restart_process();
    bench.boot(&THREE);
    let bytes = bench.create("data", "raid5", &THREE).0.capacity_bytes;
    (0..bytes / STRIP).for_each(|strip| bench.write("data", strip * STRIP, byte(strip), STRIP));
    bench.settle("data");
    set_length(&bench, &THREE, LARGE);
    for _ in 0..2 {
        bench.restart(&[]);
        assert!(!bench.has("data") && !bench.has("old"));
        let shown = bench.drive("a");
        assert_eq!(shown.state, DriveState::Refused);
        let why = shown.reason.expect("the reason is given");
        assert!(why.contains(&format!("softroc drive rescan a --was {SMALL}")), "{why}");
        // A wrong size is refused, and the known size stays. Once it was forgotten, and the label
        // at the end became valid.
        let wrong = Command::DriveRescan { drive: "a".into(), was_bytes: Some(SMALL + MIB) };
        let why = bench.refused(ErrorKind::WrongState, wrong);
        assert!(why.contains("no SoftROC label is found"), "{why}");
        let why = bench.drive("a").reason.expect("the reason is given");
        assert!(why.contains(&format!("--was {SMALL}")), "{why}");
    }
    for drive in THREE {
        common::drive(
            bench.ask(Command::DriveRescan { drive: drive.into(), was_bytes: Some(SMALL) }),
        );
    }
    bench.settle("data");
    expect_room(&mut bench, bytes);
    bench.restart(&[]);
    assert!(bench.has("data") && !bench.has("old"));
}

/// The first probe fails. The earlier size was forgotten after that, and the drive counted as
/// blank.
#[test]
fn a_drive_that_cannot_be_read_at_a_start_is_found_at_the_next_one() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    for operation in ["read", "flush"] {
        bench.forget();
        bench.sim.restart_process();
        bench.sim.drive("b").expect("the drive exists").fail_next(
            1000,
            Some(operation),
            IoErrorKind::Medium,
        );
        bench.boot(&[]);
        assert_ne!(bench.drive("b").state, DriveState::Unused, "{operation}");
        bench.sim.drive("b").expect("the drive exists").cancel_failures();
        bench.restart(&[]);
        let shown = bench.drive("b");
        assert_eq!(
            (shown.size_bytes, shown.grown_to_bytes),
            (Some(SMALL), Some(LARGE)),
            "{operation}: {shown:?}"
        );
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
}

/// A file that had become larger was cut off, and a start remembered the length that was left. When
/// the rest was back, the label was searched at that length and at the end, and found at neither.
/// Torture seed 3733000479.
#[test]
fn a_drive_that_was_cut_off_after_it_became_larger_is_found_once_it_is_whole() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    bench.restart(&[]);
    bench.sim.drive("b").expect("the drive exists").truncate_file(ByteCount(SMALL / 2));
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.sim.drive("b").expect("the drive exists").come_back();
    bench.restart(&[]);
    let shown = bench.drive("b");
    assert_eq!((shown.size_bytes, shown.grown_to_bytes), (Some(SMALL), Some(LARGE)), "{shown:?}");
    bench.settle("data");
    expect_content(&mut bench, bytes);
}

/// A grown drive has nothing at its end, and is searched for labels of other systems where it has
/// data. An unreadable block there was taken for an unreadable label, and the drive counted as
/// missing.
#[test]
fn a_drive_that_became_larger_is_found_though_blocks_of_its_data_cannot_be_read() {
    for at in [4096, 65536, 524_288] {
        let (mut bench, bytes) = small("raid5", 1);
        set_length(&bench, &THREE, LARGE);
        let block = ByteRange::new(ByteOffset(at), ByteCount(4096));
        bench.sim.drive("b").expect("the drive exists").make_unreadable(block);
        bench.restart(&[]);
        assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(LARGE)); 3], "{at}");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{at}");
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
    // A drive with its label at its end, under the name of a smaller drive, of which no structure
    // is present.
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&THREE, LARGE);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.shut_down();
    bench.forget();
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    // Without the checksum line, as after an edit by hand.
    let remembered = String::from_utf8(controller::document(&remembered).to_vec()).expect("UTF-8");
    let smaller = remembered.replace(&LARGE.to_string(), &SMALL.to_string());
    assert_ne!(remembered, smaller, "sizes are remembered");
    bench.sim.put_stored("drives.toml", Some(smaller.into_bytes()));
    let block = ByteRange::new(ByteOffset(65536), ByteCount(4096));
    bench.sim.drive("b").expect("the drive exists").make_unreadable(block);
    bench.sim.restart_process();
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_eq!(sizes(&mut bench), [(Some(LARGE), None); 3]);
    // The place of its label at the end is unreadable.
    let (mut bench, _) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let end = ByteRange::new(ByteOffset(LARGE - 4096), ByteCount(4096));
    bench.sim.drive("b").expect("the drive exists").make_unreadable(end);
    bench.restart(&[]);
    assert_eq!(bench.drive("b").size_bytes, None);
}

/// A drive of the size that its label says, under the name of a smaller drive. A block in the
/// middle of its data, at the smaller drive's end, was unreadable and hid the label at its end: the
/// drive was missing.
#[test]
fn a_label_at_the_end_that_was_made_for_all_of_the_drive_counts_though_an_earlier_end_cannot_be_read()
 {
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&THREE, LARGE);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.shut_down();
    bench.forget();
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    // Without the checksum line, as after an edit by hand.
    let remembered = String::from_utf8(controller::document(&remembered).to_vec()).expect("UTF-8");
    let smaller = remembered.replace(&LARGE.to_string(), &SMALL.to_string());
    bench.sim.put_stored("drives.toml", Some(smaller.into_bytes()));
    let tail = ByteRange::new(ByteOffset(SMALL - 32 * MIB), ByteCount(32 * MIB));
    bench.sim.drive("b").expect("the drive exists").make_unreadable(tail);
    bench.sim.restart_process();
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.drive("b").reason);
    assert_eq!(sizes(&mut bench), [(Some(LARGE), None); 3]);
    // Its old end is probed again: a later readable label there has priority.
    bench.restart(&[]);
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    let remembered = String::from_utf8(remembered).expect("UTF-8");
    assert_eq!(remembered.matches(&SMALL.to_string()).count(), 1, "{remembered}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// An unused block at the new end was unreadable, and hid the label at the old end, without a
/// workaround.
#[test]
fn a_drive_whose_new_end_cannot_be_read_goes_on_when_an_operator_says_how_large_it_was() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let end = ByteRange::new(ByteOffset(LARGE - 4096), ByteCount(4096));
    bench.sim.drive("b").expect("the drive exists").make_unreadable(end);
    bench.restart(&[]);
    assert_eq!(bench.drive("b").size_bytes, None);
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains(&format!("softroc drive rescan b --was {SMALL}")), "{why}");
    let was = |was| Command::DriveRescan { drive: "b".into(), was_bytes: Some(was) };
    // A wrong size is refused, and the known size is kept.
    bench.refused(ErrorKind::Unavailable, was(SMALL + MIB));
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains(&format!("--was {SMALL}")), "{why}");
    common::drive(bench.ask(was(SMALL)));
    // The structures of the old end are at the new end now: the unreadable block was rewritten.
    let as_it_was = (Some(SMALL), Some(LARGE));
    assert_eq!(sizes(&mut bench), [as_it_was, (Some(LARGE), None), as_it_was]);
    bench.settle("data");
    for _ in 0..60 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(1);
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    expect_content(&mut bench, bytes);
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.drive("b").reason);
    expect_content(&mut bench, bytes);
}

#[test]
fn a_drive_that_is_only_a_little_larger_is_used_as_large_as_it_was() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, SMALL + 31 * MIB);
    bench.ask(crate::common::take_offline("b")).expect("the volume tolerates it");
    let why = bench.refused(ErrorKind::WrongState, rescan("b"));
    assert!(why.contains("needs more space to move"), "{why}");
    bench.ask(Command::DriveOnline { drive: "b".into() }).expect("the drive is as before");
    bench.settle("data");
    expect_content(&mut bench, bytes);
    THREE.into_iter().for_each(|drive| drop(rescanned(&mut bench, drive)));
    bench.restart(&[]);
    assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(SMALL + 31 * MIB)); 3]);
    bench.settle("data");
    expect_content(&mut bench, bytes);
}

/// A write fails at any event of a move, and the drive keeps its old size: the copy at the new end
/// is then older than the one at the old end, and does not count.
#[test]
fn a_drive_whose_end_cannot_be_written_goes_on_as_it_was() {
    let (mut failed, mut done) = (0, 0);
    for events in (0..).step_by(9) {
        let (mut bench, bytes) = small("raid5", 1);
        set_length(&bench, &THREE, LARGE);
        bench.ask(crate::common::take_offline("b")).expect("the volume tolerates it");
        let rescanned = bench.begin_ask(rescan("b"));
        for _ in 0..events {
            bench.sim.step();
        }
        bench.sim.drive("b").expect("the drive exists").fail_next(
            1,
            Some("write"),
            IoErrorKind::Medium,
        );
        let outcome = bench.sim.finish(&rescanned).expect("no stall");
        bench.sim.drive("b").expect("the drive exists").cancel_failures();
        if let Err(error) = &outcome {
            failed += 1;
            assert!(error.message.contains("with its previous size"), "{events}: {error}");
            let shown = bench.drive("b");
            assert_eq!(
                (shown.size_bytes, shown.grown_to_bytes),
                (Some(SMALL), Some(LARGE)),
                "{events}"
            );
        } else {
            done += 1;
        }
        bench.write("data", 0, byte(0), STRIP);
        bench
            .ask(Command::DriveOnline { drive: "b".into() })
            .unwrap_or_else(|error| panic!("{events}: {error}"));
        bench.settle("data");
        bench.restart(&[]);
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{events} events, {outcome:?}");
        bench.settle("data");
        expect_content(&mut bench, bytes);
        if done > 1 {
            break;
        }
    }
    assert!(failed > 10 && done > 0, "{failed} moves failed, and {done} succeeded");
}

/// A controller that never saw the drives is told their earlier size by the operator.
#[test]
fn a_controller_that_does_not_know_a_drive_is_told_how_large_it_was() {
    let (mut bench, bytes) = small("raid5", 1);
    bench.shut_down();
    bench.forget();
    for drive in THREE {
        // As in a new state folder: no drive is remembered by that name.
        let cell = bench.sim.drive(drive).expect("the drive exists");
        let held = cell.read_true(ByteOffset(0), ByteCount(LARGE));
        let moved = format!("moved-{drive}");
        bench.add_drives(&[&moved], LARGE);
        bench.sim.drive(&moved).expect("the drive is created").poke(ByteOffset(0), &held);
        cell.vanish();
    }
    let moved = ["moved-a", "moved-b", "moved-c"];
    bench.sim.restart_process();
    bench.boot(&moved);
    assert_eq!(bench.drive("moved-a").state, DriveState::Unused, "no label is found at its end");
    let was =
        |drive: &str, was: u64| Command::DriveRescan { drive: drive.into(), was_bytes: Some(was) };
    let why = bench.refused(ErrorKind::WrongState, was("moved-a", SMALL + MIB));
    assert!(why.contains("no SoftROC label is found"), "{why}");
    for drive in moved {
        common::drive(bench.ask(was(drive, SMALL)));
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.settle("data");
    expect_content(&mut bench, bytes);
    assert!(reshape(&mut bench, order()).to.capacity_bytes > 4 * bytes);
}

/// A write that a drive has not returned may land on the structures being moved, or on their
/// destination: nothing moves before it returned.
#[test]
fn a_drive_that_has_writes_under_way_is_not_moved() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let drive = bench.sim.drive("b").expect("the drive exists");
    drive.hold();
    let written = bench.begin_write("data", STRIP, byte(1), STRIP);
    // The volume runs without the unresponsive drive.
    bench.sim.finish(&written).expect("no stall").expect("written without the drive");
    assert_eq!(bench.drive("b").state, DriveState::Suspended);
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains("outstanding writes"), "{why}");
    drive.release();
    bench.wait(5);
    let Ok(Reply::Drive { .. }) = bench.ask(rescan("b")) else {
        panic!("the drive has no operation left")
    };
    bench.settle("data");
    expect_content(&mut bench, bytes);
}
