//! Drives that return, are replaced, learn that they were removed, or are forgotten.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, DRIVE, MIB, drive_options};
use controller::{Command, DriveState, ErrorKind, Reply, VolumeState};
use platform::IoErrorKind;
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset};

const DRIVES: [&str; 3] = ["a", "b", "c"];
const STRIPE: u64 = 2 * 65536;

fn bench(seed: u64, level: &str) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", level, &DRIVES);
    bench.write("data", 0, 1, MIB / 2);
    bench.settle("data");
    bench
}

fn online(drive: &str) -> Command {
    Command::DriveOnline { drive: drive.into() }
}

fn offline(drive: &str) -> Command {
    Command::DriveOffline {
        drive: drive.into(),
        accept_data_loss: false,
        accepted: None,
        dry_run: false,
    }
}

fn replace(drive: &str, with: &str) -> Command {
    Command::DriveReplace { drive: drive.into(), with: with.into(), destroy_data: false }
}

/// The present label of a drive.
fn label(bench: &Bench, drive: &str) -> ondisk::Label {
    let mut glimpse = ondisk::foreign::Glimpse::new(ByteCount(DRIVE));
    let drive = bench.sim.drive(drive).unwrap();
    loop {
        let found = ondisk::find(&glimpse);
        if let ondisk::Found::Carried(carried) = found {
            return carried.label().unwrap().clone();
        }
        let wanted = glimpse.wanted();
        assert!(!wanted.is_empty(), "{found:?}");
        wanted
            .into_iter()
            .for_each(|range| glimpse.put(range, Some(drive.read_true(range.start, range.len))));
    }
}

/// The tail of a drive, from its metadata on.
fn image(bench: &Bench, drive: &str) -> Vec<u8> {
    let tail = ondisk::Tail::of(ByteCount(DRIVE)).unwrap();
    let start = tail.start() + ByteCount(16 * MIB);
    bench.sim.drive(drive).unwrap().read_true(start, ByteCount(DRIVE - start.0))
}

fn restore(bench: &Bench, drive: &str, image: &[u8]) {
    let tail = ondisk::Tail::of(ByteCount(DRIVE)).unwrap();
    bench.sim.drive(drive).unwrap().poke(tail.start() + ByteCount(16 * MIB), image);
}

#[test]
fn a_drive_that_missed_writes_comes_back_stale_in_what_it_missed_and_is_not_believed() {
    for level in ["raid5", "raid1"] {
        let mut bench = bench(1, level);
        bench.ask(offline("b")).unwrap();
        bench.write("data", 0, 2, MIB / 2);
        bench.settle("data");
        assert_eq!(bench.drive("b").state, DriveState::Stale, "{level}");
        let back = common::drive(bench.ask(online("b")));
        assert_eq!((back.state, back.stale_regions), (DriveState::Rebuilding, 1), "{level}");
        let info = bench.show("data");
        assert_eq!(
            (info.state, info.may_lose),
            (VolumeState::Degraded, u16::from(level == "raid1")),
            "{level}"
        );
        // The drive is not read, and no further drive may fail that it would be needed for.
        bench.expect("data", 0, 2, MIB / 2);
        assert_eq!(bench.ask(offline("a")).is_ok(), level == "raid1", "{level}");
        if level == "raid1" {
            bench.ask(online("a")).unwrap();
        }
        bench.write("data", STRIPE, 3, STRIPE);
        wait_until_whole(&mut bench);
        for drive in DRIVES {
            bench.ask(offline(drive)).unwrap();
            bench.expect("data", 0, 2, STRIPE);
            bench.expect("data", STRIPE, 3, STRIPE);
            bench.expect("data", 2 * STRIPE, 2, MIB / 2 - 2 * STRIPE);
            bench.ask(online(drive)).unwrap();
        }
    }
}

/// Advances time until every drive is current.
fn wait_until_whole(bench: &mut Bench) {
    for _ in 0..100 {
        if bench.show("data").state == VolumeState::Optimal {
            return bench.settle("data");
        }
        bench.wait(1);
    }
    panic!("the volume is not optimal again: {:?}", bench.show("data").reasons);
}

/// A drive failed the flush that completes its rebuild, and was removed meanwhile. Its region was
/// written without it, and the label had it as stale there; then the rebuild was recorded all the
/// same: the drive returned, and its old bytes were read (`torture --seed 2021300`).
#[test]
fn a_rebuild_that_ends_after_its_drive_went_out_does_not_count() {
    // Whichever operation of the drive is the last.
    for operation in 1.. {
        let mut bench = bench(17, "raid5");
        bench.ask(offline("b")).unwrap();
        bench.write("data", 0, 2, MIB / 2);
        bench.settle("data");
        bench.ask(online("b")).unwrap();
        let drive = bench.sim.drive("b").unwrap();
        let last = drive.stats().started + operation;
        let end = bench.sim.now() + std::time::Duration::from_secs(2);
        while drive.stats().started < last && bench.sim.now() < end {
            let until = bench.sim.now() + std::time::Duration::from_micros(10);
            bench.sim.run_until(until).unwrap();
        }
        if drive.stats().started < last {
            assert!(operation > 4, "the volume was optimal at once");
            break;
        }
        drive.hold();
        if let Err(error) = bench.ask(offline("b")) {
            assert_eq!(
                error.kind,
                ErrorKind::WrongState,
                "{error}: the drive was removed automatically meanwhile"
            );
        }
        bench.write("data", 0, 3, MIB / 2);
        bench.wait(100);
        drive.release();
        bench.wait(1);
        bench.ask(online("b")).unwrap();
        bench.expect("data", 0, 3, MIB / 2);
        wait_until_whole(&mut bench);
        bench.ask(offline("a")).unwrap();
        bench.expect("data", 0, 3, MIB / 2);
    }
}

/// A rebuild is interrupted at any event; regions recorded as current afterwards are current.
#[test]
fn a_rebuild_that_is_interrupted_goes_on_and_vouches_for_nothing_too_early() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = bench(14, "raid5");
            bench.ask(offline("b")).unwrap();
            bench.write("data", 0, 2, MIB / 2);
            let volume = bench.shards[0].volume_named("data").unwrap();
            bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
            bench.settle("data");
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(online("b")).ok()?.unwrap();
            let until = bench.sim.now() + std::time::Duration::from_secs(8);
            bench.sim.run_until(until).ok()
        };
        at_every_event(7, how, prepare, scene, |bench, _, event| {
            bench.boot(&[]);
            bench.expect("data", 0, 2, MIB / 2);
            if bench.drive("b").state != DriveState::Online
                && bench.drive("b").state != DriveState::Rebuilding
            {
                bench.ask(online("b")).unwrap();
            }
            wait_until_whole(bench);
            for drive in ["a", "c"] {
                bench.ask(offline(drive)).unwrap();
                let bytes = bench.try_read("data", 0, MIB / 2).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 2), "event {event}: without {drive}");
                bench.ask(online(drive)).unwrap();
            }
        });
    }
}

/// An online drive is replaced, interrupted at any event: one of the two drives has the slot and
/// its data.
#[test]
fn a_replacement_in_place_that_is_interrupted_leaves_the_old_drive_or_the_new_one() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = bench(15, "raid5");
            bench.sim.add_drive("d", drive_options());
            let volume = bench.shards[0].volume_named("data").unwrap();
            bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(replace("data:1", "d")).ok()?.unwrap();
            bench.try_write("data", STRIPE, 1, STRIPE).ok()?.unwrap();
            let until = bench.sim.now() + std::time::Duration::from_secs(8);
            bench.sim.run_until(until).ok()
        };
        at_every_event(7, how, prepare, scene, |bench, finished, event| {
            bench.boot(&["d"]);
            bench.expect("data", 0, 1, MIB / 2);
            wait_until_whole(bench);
            bench.wait(10);
            let info = bench.show("data");
            assert_eq!(info.state, VolumeState::Optimal, "event {event}");
            let member = info.drives[1].name.clone();
            assert!(
                member == "d" || finished.is_none() && member == "b",
                "event {event}: {member}"
            );
            for drive in ["a", "c"] {
                bench.ask(offline(drive)).unwrap();
                let bytes = bench.try_read("data", 0, MIB / 2).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 1), "event {event}: without {drive}");
                bench.ask(online(drive)).unwrap();
            }
        });
    }
}

/// A drive was pulled from an online volume, and plugged in again. Its open handle was dead, and
/// was not reopened: the drive was refused, for changing reasons, until the controller was
/// restarted.
#[test]
fn a_drive_that_was_pulled_out_is_used_again_when_it_is_back() {
    for tried_before in [false, true] {
        let mut bench = bench(5, "raid5");
        bench.sim.drive("a").unwrap().vanish();
        bench.write("data", 0, 2, STRIPE);
        assert_eq!(bench.show("data").state, VolumeState::Degraded);
        if tried_before {
            bench.ask(online("a")).unwrap_err();
        }
        bench.sim.drive("a").unwrap().come_back();
        assert_eq!(common::drive(bench.ask(online("a"))).state, DriveState::Rebuilding);
        wait_until_whole(&mut bench);
        bench.ask(offline("b")).unwrap();
        bench.expect("data", 0, 2, STRIPE);
        bench.expect("data", STRIPE, 1, STRIPE);
    }
}

#[test]
fn a_drive_that_was_missing_at_the_start_is_used_again_without_another() {
    for written in [false, true] {
        let mut bench = bench(2, "raid5");
        bench.shut_down();
        bench.sim.drive("a").unwrap().vanish();
        bench.restart(&[]);
        if written {
            bench.write("data", 0, 2, STRIPE);
        }
        bench.sim.drive("a").unwrap().come_back();
        let back = common::drive(bench.ask(online("a")));
        let expected = if written { DriveState::Rebuilding } else { DriveState::Online };
        assert_eq!(back.state, expected);
        bench.expect("data", STRIPE, 1, STRIPE);
        bench.expect("data", 0, if written { 2 } else { 1 }, STRIPE);
        if !written {
            bench.ask(offline("c")).unwrap();
            bench.expect("data", 0, 1, MIB / 2);
        }
    }
}

/// A removed drive was restored from an older image, and was readmitted as current.
#[test]
fn an_earlier_image_of_a_drive_that_is_out_is_not_taken_for_it() {
    let mut bench = bench(3, "raid5");
    bench.shut_down();
    let earlier = image(&bench, "b");
    bench.restart(&[]);
    bench.write("data", 0, 2, STRIPE);
    bench.settle("data");
    bench.ask(offline("b")).unwrap();
    restore(&bench, "b", &earlier);
    let why = bench.refused(ErrorKind::Unavailable, online("b"));
    assert!(why.contains("earlier copy"), "{why}");
    bench.restart(&[]);
    assert_eq!(
        (bench.show("data").state, bench.drive("b").state),
        (VolumeState::Degraded, DriveState::Stale)
    );
    let why = bench.refused(ErrorKind::WrongState, online("b"));
    assert!(why.contains("drive replace data:1 --with b --destroy-data"), "{why}");
    // The same for `drive online`: a copy from before the last start is older than the confirmed
    // generation.
    let mut bench = self::bench(4, "raid5");
    bench.shut_down();
    let earlier = image(&bench, "b");
    bench.restart(&[]);
    bench.write("data", 0, 2, STRIPE);
    bench.settle("data");
    bench.forget();
    bench.sim.kill();
    restore(&bench, "b", &earlier);
    bench.sim.restart_process();
    bench.boot(&[]);
    assert_eq!(
        (bench.show("data").state, bench.drive("b").state),
        (VolumeState::Degraded, DriveState::Stale)
    );
    bench.expect("data", 0, 2, STRIPE);
}

/// An operator took one of two mirrors offline and moved it to another host, where it started as
/// the whole volume.
#[test]
fn a_drive_that_is_taken_out_knows_it() {
    let mut bench = Bench::in_order(5, 1, 2);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(crate::common::fail_drive("b")).unwrap();
    assert_eq!(label(&bench, "b").generation, label(&bench, "a").generation);
    bench.shut_down();
    bench.sim.drive("a").unwrap().vanish();
    bench.sim.remove_stored("drives.toml");
    bench.restart(&["b"]);
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    bench.sim.drive("a").unwrap().come_back();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&["a"]);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
}

/// The file system below the drives filled up during label writes, twice; a drive that had taken
/// neither label counted as an older copy of itself after the next start.
#[test]
fn attempts_for_which_there_was_no_space_make_no_drive_stale() {
    let mut bench = bench(6, "raid5");
    for attempt in 0..3 {
        bench.sim.drive("c").unwrap().fail_next(1, Some("write"), IoErrorKind::OutOfSpace);
        let rename = Command::VolumeSet { volume: "data".into(), name: format!("new{attempt}") };
        bench.refused(ErrorKind::Failed, rename);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
    }
    bench.restart(&[]);
    let names = ["data", "new0", "new1", "new2"];
    let name = names.into_iter().find(|name| bench.shards[0].volume_named(name).is_some()).unwrap();
    assert_eq!(bench.show(name).state, VolumeState::Optimal);
    bench.expect(name, 0, 1, MIB / 2);
}

/// A drive failure could not be recorded for want of space. Only a restart brought the volume back,
/// and meanwhile the region of the write that had skipped the drive was unmarked.
#[test]
fn a_failure_that_could_not_be_recorded_is_recorded_when_there_is_space() {
    let mut bench = bench(7, "raid5");
    bench.write("data", 0, 1, STRIPE);
    for other in ["a", "c"] {
        bench.sim.drive(other).unwrap().fail_next(10_000, Some("write"), IoErrorKind::OutOfSpace);
    }
    bench.sim.drive("b").unwrap().vanish();
    assert!(bench.try_write("data", 0, 2, STRIPE).unwrap().is_err());
    bench.wait(30);
    let info = bench.show("data");
    assert_eq!(info.dirty_regions, 1, "its region is not unmarked before the failure is recorded");
    assert!(bench.has_event("cannot be recorded"));
    for other in ["a", "c"] {
        bench.sim.drive(other).unwrap().cancel_failures();
    }
    bench.wait(10);
    assert_eq!(
        (bench.show("data").state, bench.drive("b").state),
        (VolumeState::Degraded, DriveState::Failed)
    );
    // The failed write left stale parity, which must not be used without the drive.
    bench.start_accepting("data");
    bench.write("data", 0, 3, STRIPE);
    bench.expect("data", 0, 3, STRIPE);
    bench.settle("data");
    bench.sim.drive("b").unwrap().come_back();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.expect("data", 0, 3, STRIPE);
}

#[test]
fn a_drive_that_is_replaced_is_stale_in_all_that_was_written_whenever_the_process_ends() {
    for (how, seed) in [(End::Killed, 8), (End::PowerCut, 9)] {
        let prepare = || {
            let mut bench = bench(seed, "raid5");
            bench.sim.add_drive("d", drive_options());
            bench.ask(crate::common::fail_drive("b")).unwrap();
            bench.write("data", 0, 2, STRIPE);
            let volume = bench.shards[0].volume_named("data").unwrap();
            bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
            bench.settle("data");
            bench
        };
        let scene = |bench: &mut Bench| bench.try_ask(replace("data:1", "d")).ok();
        at_every_event(2, how, prepare, scene, |bench, answered, event| {
            bench.boot(&["d"]);
            let info = bench.show("data");
            assert_eq!(info.state, VolumeState::Degraded, "event {event}: {:?}", info.reasons);
            let member = &info.drives[1];
            match member.name.as_str() {
                "d" => assert_eq!(
                    (member.state, member.stale_regions),
                    (DriveState::Rebuilding, 1),
                    "event {event}"
                ),
                name => {
                    assert_eq!((name, member.state), ("b", DriveState::Failed), "event {event}");
                    assert!(answered.is_none(), "event {event}");
                }
            }
            bench.expect("data", 0, 2, STRIPE);
            bench.expect("data", STRIPE, 1, MIB / 2 - STRIPE);
            bench.write("data", STRIPE, 3, STRIPE);
            bench.expect("data", STRIPE, 3, STRIPE);
        });
    }
}

#[test]
fn a_drive_that_cannot_take_a_place_is_refused_with_a_sentence() {
    let mut bench = bench(10, "raid5");
    bench.sim.add_drive("small", DriveOptions { size: ByteCount(33 * MIB), ..drive_options() });
    let coarse = DriveOptions { logical_sector: units::SectorSize::B4096, ..drive_options() };
    bench.sim.add_drive("coarse", coarse);
    bench.ask(crate::common::fail_drive("b")).unwrap();
    let why = bench.refused(ErrorKind::Invalid, replace("data:1", "small"));
    assert!(why.contains("drive small is too small"), "{why}");
    let why = bench.refused(ErrorKind::Invalid, replace("data:1", "coarse"));
    assert!(why.contains("sectors of 4096 bytes"), "{why}");
    let why = bench.refused(ErrorKind::InUse, replace("data:1", "a"));
    assert!(why.contains("drive a is drive 0 of 'data'"), "{why}");
    bench.refused(ErrorKind::NotFound, replace("data:7", "small"));
    bench.refused(ErrorKind::Unavailable, replace("data:1", "/nowhere"));
    // The failed drive may take its own slot, as a blank one.
    let why = bench.refused(ErrorKind::InUse, replace("data:1", "b"));
    assert!(why.contains("drive b is drive 1"), "{why}");
    let destroy =
        Command::DriveReplace { drive: "data:1".into(), with: "b".into(), destroy_data: true };
    let back = common::drive(bench.ask(destroy));
    assert_eq!((back.name.as_str(), back.state), ("b", DriveState::Rebuilding));
    bench.expect("data", 0, 1, MIB / 2);
}

#[test]
fn a_drive_that_is_filled_to_replace_one_that_serves_is_dropped_when_it_fails() {
    let mut bench = bench(11, "raid5");
    bench.sim.add_drive("d", drive_options());
    let filling = common::drive(bench.ask(replace("data:1", "d")));
    assert_eq!(
        (filling.state, filling.slot, filling.stale_regions),
        (DriveState::Filling, Some(1), 1)
    );
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    let why = bench.refused(ErrorKind::WrongState, replace("data:1", "d"));
    assert!(why.contains("is being replaced already, by d"), "{why}");
    bench.refused(ErrorKind::WrongState, Command::DriveForget { drive: "d".into() });
    bench.restart(&[]);
    assert_eq!(
        (bench.drive("d").state, bench.show("data").state),
        (DriveState::Filling, VolumeState::Optimal)
    );
    bench.sim.drive("d").unwrap().vanish();
    bench.write("data", 0, 2, STRIPE);
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert!(bench.has_event("does not replace drive b"));
    bench.sim.drive("d").unwrap().come_back();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_ne!(bench.drive("d").state, DriveState::Filling);
}

/// The drive being replaced fails: its replacement takes the slot, stale where it is not filled
/// yet.
#[test]
fn a_drive_that_was_being_filled_takes_over_from_one_that_fails() {
    let mut bench = bench(12, "raid5");
    bench.sim.add_drive("d", drive_options());
    bench.ask(replace("data:1", "d")).unwrap();
    bench.sim.drive("b").unwrap().vanish();
    bench.write("data", 0, 2, STRIPE);
    bench.wait(1);
    assert_eq!(bench.show("data").drives[1].name, "d");
    bench.expect("data", 0, 2, STRIPE);
    bench.expect("data", STRIPE, 1, STRIPE);
    wait_until_whole(&mut bench);
    bench.sim.drive("b").unwrap().come_back();
    bench.restart(&[]);
    assert_eq!(bench.show("data").drives[1].name, "d");
    bench.ask(offline("a")).unwrap();
    bench.expect("data", 0, 2, STRIPE);
    bench.expect("data", STRIPE, 1, STRIPE);
}

#[test]
fn a_write_that_is_interrupted_while_a_drive_is_rebuilt_needs_no_operator() {
    let mut bench = bench(16, "raid5");
    bench.ask(offline("b")).unwrap();
    bench.write("data", 0, 2, STRIPE);
    bench.ask(online("b")).unwrap();
    bench.write("data", 0, 3, STRIPE);
    bench.restart(&[]);
    // A drive is stale there. The journal covers the interrupted writes.
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.expect("data", 0, 3, STRIPE);
    bench.expect("data", STRIPE, 1, STRIPE);
}

#[test]
fn a_drive_is_forgotten_if_nobody_needs_it() {
    let mut bench = bench(13, "raid5");
    bench.sim.add_drive("d", drive_options());
    bench.ask(Command::DriveAdd { drive: "d".into(), size_bytes: None }).unwrap();
    bench.sim.drive("d").unwrap().vanish();
    bench.restart(&[]);
    assert_eq!(bench.drive("d").state, DriveState::Missing);
    assert!(matches!(
        bench.ask(Command::DriveForget { drive: "d".into() }),
        Ok(Reply::Done { .. })
    ));
    bench.refused(ErrorKind::NotFound, Command::DriveShow { drive: "d".into() });
    let why = bench.refused(ErrorKind::WrongState, Command::DriveForget { drive: "data:2".into() });
    assert!(why.contains("drive data:2 is drive 2 of 'data'"), "{why}");
    bench.restart(&[]);
    bench.refused(ErrorKind::NotFound, Command::DriveShow { drive: "d".into() });
    assert_eq!(bench.sim.drive("a").unwrap().read_true(ByteOffset::ZERO, ByteCount(1)).len(), 1);
}

/// A used drive took a slot in an unwritten volume. Reads returned its old content or zeros, by
/// turns; and the first write computed redundancy from either.
#[test]
fn what_nobody_wrote_stays_zeroes_when_a_foreign_drive_takes_a_place() {
    for level in ["raid1", "raid5", "raid1e"] {
        let mut bench = Bench::in_order(7, 2, 0);
        bench.boot(&[]);
        for drive in DRIVES {
            let made = Command::DriveAdd { drive: drive.into(), size_bytes: Some(DRIVE) };
            bench.ask(made).unwrap();
        }
        let noise = DriveOptions { unwritten: platform_sim::Unwritten::Noise, ..drive_options() };
        bench.sim.add_drive("x", noise);
        let capacity = bench.create("data", level, &DRIVES).0.capacity_bytes;
        bench.ask(crate::common::fail_drive("b")).unwrap();
        bench.ask(replace("data:1", "x")).unwrap();
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Optimal, "{level}: nothing to rebuild");
        bench.expect("data", 0, 0, capacity);
        bench.write("data", MIB / 4, 5, 5000);
        assert_eq!(
            bench.show("data").state,
            VolumeState::Optimal,
            "{level}: no write happened without it"
        );
        let look = |bench: &mut Bench| {
            bench.expect("data", 0, 0, MIB / 4);
            bench.expect("data", MIB / 4, 5, 5000);
            bench.expect("data", MIB / 4 + 5000, 0, capacity - MIB / 4 - 5000);
        };
        look(&mut bench);
        bench.restart(&["a", "b", "c", "x"]);
        bench.settle("data");
        look(&mut bench);
        for drive in ["a", "c", "x"] {
            bench.ask(offline(drive)).unwrap();
            look(&mut bench);
            bench.ask(online(drive)).unwrap();
            wait_until_whole(&mut bench);
        }
    }
}

/// An operator accepted stale parity for a missing drive, while the failure of a second drive was
/// being recorded: that covered the second drive as well, of which the operator did not know.
#[test]
fn an_operators_word_waits_until_every_failure_is_recorded() {
    let mut bench = Bench::in_order(21, 1, 4);
    bench.boot(&[]);
    bench.create_resyncing("data", "raid6", &["a", "b", "c", "d"]);
    bench.settle("data");
    bench.write("data", 0, 1, STRIPE);
    let accept = || Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity: true,
        degraded: false,
    };
    let fill = |bench: &Bench, drives: &[&str]| {
        for drive in drives {
            bench.sim.drive(drive).unwrap().fail_next(
                10_000,
                Some("write"),
                IoErrorKind::OutOfSpace,
            );
        }
    };
    let free = |bench: &Bench| {
        DRIVES.iter().for_each(|drive| bench.sim.drive(drive).unwrap().cancel_failures())
    };
    // The region of the failed write is unsynced, and a drive is out.
    fill(&bench, &["a", "c", "d"]);
    bench.sim.drive("b").unwrap().vanish();
    assert!(bench.try_write("data", 0, 2, STRIPE).unwrap().is_err());
    bench.wait(30);
    free(&bench);
    bench.sim.drive("d").unwrap().cancel_failures();
    bench.wait(10);
    assert_eq!(bench.drive("b").state, DriveState::Failed);
    // Another drive fails, and that cannot be recorded.
    fill(&bench, &["a", "c"]);
    bench.sim.drive("d").unwrap().vanish();
    assert!(bench.try_write("data", 0, 3, STRIPE).unwrap().is_err());
    let why = bench.refused(ErrorKind::WrongState, accept());
    assert!(why.contains("has just failed, and its failure is not recorded yet"), "{why}");
    bench.wait(30);
    free(&bench);
    bench.wait(10);
    assert_eq!(bench.drive("d").state, DriveState::Failed);
    bench.ask(accept()).unwrap();
    bench.write("data", 0, 4, STRIPE);
    bench.expect("data", 0, 4, STRIPE);
}
