//! Drives that become larger: files that are made longer, block devices that somebody enlarges.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, MIB};
use crate::reshape::{STRIP, arrive, byte, expect_content, expect_redundancy, flush, reshape};
use crate::reshape_longer::order;
use controller::{Command, DriveState, ErrorKind, Reply, VolumeState};
use platform::IoErrorKind;
use units::{ByteCount, ByteOffset, ByteRange};

/// How large drives are at first: 32 MiB for the label. And how large they become.
const SMALL: u64 = 40 * MIB;
const LARGE: u64 = 96 * MIB;

const THREE: [&str; 3] = ["a", "b", "c"];

fn set_length(bench: &Bench, drives: &[&str], len: u64) {
    for drive in drives {
        bench.sim.drive(drive).expect("it is there").set_length(ByteCount(len));
    }
}

/// A volume on drives that are small, and may become large. Its strips tell where they belong.
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

/// All of the drives is used, and the volume can become larger.
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
        assert_eq!(bench.count_events("what lies at its end was moved there"), 3);
        expect_room(&mut bench, bytes);
        if level == "raid5" {
            expect_redundancy(&mut bench, bytes);
        }
        bench.restart(&[]);
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
}

/// A complete array was started while metadata of its drives moved to their new end: labels of the
/// start met writes of the move, and the volume was offline. Torture seed 910031.
#[test]
fn an_array_starts_when_the_metadata_of_its_drives_has_moved() {
    for times in [20, 60] {
        let (mut bench, bytes) = small("raid5", 2);
        set_length(&bench, &THREE, LARGE);
        for (number, drive) in THREE.into_iter().enumerate() {
            rescanned(&mut bench, drive);
            bench.sim.drive(drive).expect("it is there").slow_down(times * (number as u32 + 1));
        }
        bench.restart(&[]);
        for drive in THREE {
            bench.sim.drive(drive).expect("it is there").slow_down(1);
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
                .expect("it can be spared");
            bench.write("data", 0, 200 + number as u8, STRIP);
            let note = rescanned(&mut bench, drive);
            assert!(note.contains("96 MiB now") && note.contains("softroc drive online"), "{note}");
            bench.ask(Command::DriveOnline { drive: drive.into() }).expect("it comes back");
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

/// Killed, or its power cut, at any moment of a start that moves what lies at the ends.
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

/// Nobody can tell which of two labels counts: one that lay there before the drive ended there, or what another controller made of all of it.
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
        let why = shown.reason.expect("it says why");
        assert!(why.contains(&format!("softroc drive rescan a --was {SMALL}")), "{why}");
        // A wrong word is refused, and what was known before counts as before. It was forgotten once, and what lies at the end counted.
        let wrong = Command::DriveRescan { drive: "a".into(), was_bytes: Some(SMALL + MIB) };
        let why = bench.refused(ErrorKind::WrongState, wrong);
        assert!(why.contains("nothing of SoftROC's is found"), "{why}");
        let why = bench.drive("a").reason.expect("it says why");
        assert!(why.contains(&format!("--was {SMALL}")), "{why}");
    }
    for drive in THREE {
        common::drive(bench.ask(Command::DriveRescan { drive: drive.into(), was_bytes: Some(SMALL) }));
    }
    bench.settle("data");
    expect_room(&mut bench, bytes);
    bench.restart(&[]);
    assert!(bench.has("data") && !bench.has("old"));
}

/// The first look fails. The size that the drive had was forgotten by that, and it was blank from then on.
#[test]
fn a_drive_that_cannot_be_read_at_a_start_is_found_at_the_next_one() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    for operation in ["read", "flush"] {
        bench.forget();
        bench.sim.restart_process();
        bench.sim.drive("b").expect("it is there").fail_next(1000, Some(operation), IoErrorKind::Medium);
        bench.boot(&[]);
        assert_ne!(bench.drive("b").state, DriveState::Unused, "{operation}");
        bench.sim.drive("b").expect("it is there").cancel_failures();
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

/// Nothing is at the end of a drive that became larger, and the labels of other systems are looked for where it has data. A block that cannot be read there was taken for a
/// label that nobody can read, and the drive for one that is missing.
#[test]
fn a_drive_that_became_larger_is_found_though_blocks_of_its_data_cannot_be_read() {
    for at in [4096, 65536, 524_288] {
        let (mut bench, bytes) = small("raid5", 1);
        set_length(&bench, &THREE, LARGE);
        let block = ByteRange::new(ByteOffset(at), ByteCount(4096));
        bench.sim.drive("b").expect("it is there").make_unreadable(block);
        bench.restart(&[]);
        assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(LARGE)); 3], "{at}");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{at}");
        bench.settle("data");
        expect_content(&mut bench, bytes);
    }
    // One that has its label at its end, under the name of one that was smaller, which nothing of is there.
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&THREE, LARGE);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.shut_down();
    bench.forget();
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    // Without the line of its checksum, as whoever changes it by hand leaves it.
    let remembered = String::from_utf8(controller::document(&remembered).to_vec()).expect("it is text");
    let smaller = remembered.replace(&LARGE.to_string(), &SMALL.to_string());
    assert_ne!(remembered, smaller, "sizes are remembered");
    bench.sim.put_stored("drives.toml", Some(smaller.into_bytes()));
    let block = ByteRange::new(ByteOffset(65536), ByteCount(4096));
    bench.sim.drive("b").expect("it is there").make_unreadable(block);
    bench.sim.restart_process();
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_eq!(sizes(&mut bench), [(Some(LARGE), None); 3]);
    // Where its label would be at its end nobody can tell what is there.
    let (mut bench, _) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let end = ByteRange::new(ByteOffset(LARGE - 4096), ByteCount(4096));
    bench.sim.drive("b").expect("it is there").make_unreadable(end);
    bench.restart(&[]);
    assert_eq!(bench.drive("b").size_bytes, None);
}

/// A drive that is as large as its label says, under the name of one that was smaller. A block in the middle of its data, where the smaller one ended, could not be read, and hid the
/// label at its end: the drive was missing.
#[test]
fn a_label_at_the_end_that_was_made_for_all_of_the_drive_counts_though_an_earlier_end_cannot_be_read() {
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&THREE, LARGE);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.shut_down();
    bench.forget();
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    // Without the line of its checksum, as whoever changes it by hand leaves it.
    let remembered = String::from_utf8(controller::document(&remembered).to_vec()).expect("it is text");
    let smaller = remembered.replace(&LARGE.to_string(), &SMALL.to_string());
    bench.sim.put_stored("drives.toml", Some(smaller.into_bytes()));
    let tail = ByteRange::new(ByteOffset(SMALL - 32 * MIB), ByteCount(32 * MIB));
    bench.sim.drive("b").expect("it is there").make_unreadable(tail);
    bench.sim.restart_process();
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.drive("b").reason);
    assert_eq!(sizes(&mut bench), [(Some(LARGE), None); 3]);
    // Where it ended is looked at again: what can be read there one day counts more.
    bench.restart(&[]);
    let remembered = bench.sim.stored("drives.toml").expect("drives are remembered");
    let remembered = String::from_utf8(remembered).expect("it is text");
    assert_eq!(remembered.matches(&SMALL.to_string()).count(), 1, "{remembered}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// A block of the new end that nobody ever used could not be read, and hid the label at the end that the drive had, with no way out.
#[test]
fn a_drive_whose_new_end_cannot_be_read_goes_on_when_an_operator_says_how_large_it_was() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let end = ByteRange::new(ByteOffset(LARGE - 4096), ByteCount(4096));
    bench.sim.drive("b").expect("it is there").make_unreadable(end);
    bench.restart(&[]);
    assert_eq!(bench.drive("b").size_bytes, None);
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains(&format!("softroc drive rescan b --was {SMALL}")), "{why}");
    let was = |was| Command::DriveRescan { drive: "b".into(), was_bytes: Some(was) };
    // A size that it did not have is refused, and the one that is known is not forgotten by that.
    bench.refused(ErrorKind::Unavailable, was(SMALL + MIB));
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains(&format!("--was {SMALL}")), "{why}");
    common::drive(bench.ask(was(SMALL)));
    // What lay where it ended lies at its end now: what nobody could read there was written.
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
    bench.ask(crate::common::take_offline("b")).expect("it can be spared");
    let why = bench.refused(ErrorKind::WrongState, rescan("b"));
    assert!(why.contains("moves only where all of it has room"), "{why}");
    bench.ask(Command::DriveOnline { drive: "b".into() }).expect("it is as it was");
    bench.settle("data");
    expect_content(&mut bench, bytes);
    THREE.into_iter().for_each(|drive| drop(rescanned(&mut bench, drive)));
    bench.restart(&[]);
    assert_eq!(sizes(&mut bench), [(Some(SMALL), Some(SMALL + 31 * MIB)); 3]);
    bench.settle("data");
    expect_content(&mut bench, bytes);
}

/// A write fails at any moment of a move, and the drive goes on as large as it was: what was written to its end in vain is older then than what it has
/// where it was, and does not count.
#[test]
fn a_drive_whose_end_cannot_be_written_goes_on_as_it_was() {
    let (mut failed, mut done) = (0, 0);
    for events in (0..).step_by(9) {
        let (mut bench, bytes) = small("raid5", 1);
        set_length(&bench, &THREE, LARGE);
        bench.ask(crate::common::take_offline("b")).expect("it can be spared");
        let rescanned = bench.begin_ask(rescan("b"));
        for _ in 0..events {
            bench.sim.step();
        }
        bench.sim.drive("b").expect("it is there").fail_next(1, Some("write"), IoErrorKind::Medium);
        let outcome = bench.sim.finish(&rescanned).expect("no stall");
        bench.sim.drive("b").expect("it is there").cancel_failures();
        if let Err(error) = &outcome {
            failed += 1;
            assert!(error.message.contains("as large as it was"), "{events}: {error}");
            let shown = bench.drive("b");
            assert_eq!((shown.size_bytes, shown.grown_to_bytes), (Some(SMALL), Some(LARGE)), "{events}");
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
    assert!(failed > 10 && done > 0, "{failed} moves failed, and {done} were done");
}

/// A controller that never saw the drives is told how large they were.
#[test]
fn a_controller_that_does_not_know_a_drive_is_told_how_large_it_was() {
    let (mut bench, bytes) = small("raid5", 1);
    bench.shut_down();
    bench.forget();
    for drive in THREE {
        // What a new state folder is: nothing is remembered of a drive by that name.
        let cell = bench.sim.drive(drive).expect("it is there");
        let held = cell.read_true(ByteOffset(0), ByteCount(LARGE));
        let moved = format!("moved-{drive}");
        bench.add_drives(&[&moved], LARGE);
        bench.sim.drive(&moved).expect("it was made").poke(ByteOffset(0), &held);
        cell.vanish();
    }
    let moved = ["moved-a", "moved-b", "moved-c"];
    bench.sim.restart_process();
    bench.boot(&moved);
    assert_eq!(bench.drive("moved-a").state, DriveState::Unused, "nothing is found at its end");
    let was = |drive: &str, was: u64| Command::DriveRescan { drive: drive.into(), was_bytes: Some(was) };
    let why = bench.refused(ErrorKind::WrongState, was("moved-a", SMALL + MIB));
    assert!(why.contains("nothing of SoftROC's is found"), "{why}");
    for drive in moved {
        common::drive(bench.ask(was(drive, SMALL)));
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.settle("data");
    expect_content(&mut bench, bytes);
    assert!(reshape(&mut bench, order()).to.capacity_bytes > 4 * bytes);
}

/// A write that a drive has not returned may land on what is moved, or where that goes: nothing moves before.
#[test]
fn a_drive_that_has_writes_under_way_is_not_moved() {
    let (mut bench, bytes) = small("raid5", 1);
    set_length(&bench, &THREE, LARGE);
    let drive = bench.sim.drive("b").expect("it is there");
    drive.hold();
    let written = bench.begin_write("data", STRIP, byte(1), STRIP);
    // A drive that does not answer is done without.
    bench.sim.finish(&written).expect("no stall").expect("written without the drive");
    assert_eq!(bench.drive("b").state, DriveState::Suspended);
    let why = bench.refused(ErrorKind::Unavailable, rescan("b"));
    assert!(why.contains("outstanding writes"), "{why}");
    drive.release();
    bench.wait(5);
    let Ok(Reply::Drive { .. }) = bench.ask(rescan("b")) else { panic!("it is quiet") };
    bench.settle("data");
    expect_content(&mut bench, bytes);
}
