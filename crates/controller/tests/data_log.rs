//! The data log of a write-back volume: flushed data is on the log devices before it is on the
//! members. It survives any end of the process, with any missing device or drive.

use crate::common::events::{End, at_every_event, end};
use crate::common::work::{ALL, Log, OLD, STRIP, begin_work, look};
use crate::common::{Bench, MIB};
use controller::{Command, DiscardLog, ErrorKind, SetPolicy, VolumeState, WriteHole, WriteMode};
use platform::{Buf, Durability};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const DRIVES: [&str; 3] = ["a", "b", "c"];
const LOG: [&str; 2] = ["x", "y"];

fn add(devices: &[&str]) -> Command {
    let drives = devices.iter().map(ToString::to_string).collect();
    Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }
}

fn set(mode: WriteMode) -> Command {
    let (volume, write_mode) = ("data".to_owned(), Some(mode));
    Command::VolumePolicy(SetPolicy { volume, write_mode, ..SetPolicy::default() })
}

fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
}

/// A write-back volume with a journal and a data log on these devices.
fn prepared(seed: u64, shards: usize, devices: &[&str]) -> Bench {
    prepared_with(ByteCount(MIB), seed, shards, devices)
}

/// The same, with a cache of that size.
fn prepared_with(cache: ByteCount, seed: u64, shards: usize, devices: &[&str]) -> Bench {
    let mut bench = Bench::in_order(seed, shards, 3);
    bench.cache_size = cache;
    bench.add_drives(&LOG, 8 * MIB);
    bench.boot(&[]);
    let write_back =
        |wanted: &mut controller::CreateVolume| wanted.write_mode = Some(WriteMode::WriteBack);
    bench.create_with("data", "raid5", &DRIVES, write_back).expect("created");
    bench.ask(add(devices)).expect("added");
    bench.write("data", 0, OLD, ALL);
    flush(&mut bench);
    bench.settle("data");
    bench
}

/// The bytes written to each drive.
fn written(bench: &Bench, names: &[&str]) -> u64 {
    names
        .iter()
        .map(|name| bench.sim.drive(name).expect("the drive exists").stats().written_bytes)
        .sum()
}

fn vanish(bench: &Bench, names: &[&str]) {
    names.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").vanish());
}

fn come_back(bench: &Bench, names: &[&str]) {
    names.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").come_back());
}

fn is_answered_by_log(bench: &mut Bench, at: u64, value: u8) -> bool {
    let (members, devices) = (written(bench, &DRIVES), written(bench, &LOG));
    bench.write("data", at, value, 4096);
    flush(bench);
    written(bench, &DRIVES) == members && written(bench, &LOG) > devices
}

#[test]
fn a_flush_is_answered_by_the_log_as_long_as_there_is_one_and_the_mode_is_write_back() {
    let mut bench = prepared(1, 2, &LOG);
    assert!(is_answered_by_log(&mut bench, 4096, 7));
    bench.ask(set(WriteMode::WriteThrough)).expect("set");
    assert!(!is_answered_by_log(&mut bench, 8192, 8));
    bench.ask(set(WriteMode::WriteBack)).expect("set");
    assert!(is_answered_by_log(&mut bench, 4096, 9));
    bench.restart(&[]);
    bench.wait(2);
    assert!(
        is_answered_by_log(&mut bench, 4096, 10),
        "also after a kill, once its data is destaged"
    );
    bench.ask(Command::LogRemove { drive: "x".into() }).expect("removed");
    assert!(!is_answered_by_log(&mut bench, 4096, 11));
    bench.ask(add(&LOG[..1])).expect("added");
    assert!(is_answered_by_log(&mut bench, 4096, 12), "and it returns with a log");
    end(&mut bench, End::PowerCut);
    bench.boot(&[]);
    bench.expect("data", 4096, 12, 4096);
}

/// The devices that are lost or missing at the restart.
const LOST: [&[&str]; 6] = [&[], &["a"], &["x"], &["y"], &["b", "x"], &["c", "y"]];

fn crashed(how: End, shards: usize) {
    let log = Log::default();
    let scene = |bench: &mut Bench| {
        let workers = begin_work(bench, &log);
        for worker in &workers {
            bench.sim.finish(worker).ok()?;
        }
        Some(())
    };
    at_every_event(
        23,
        how,
        || prepared(7, shards, &LOG),
        scene,
        |bench, _, event| {
            let lost = LOST[(event / 115) as usize % LOST.len()];
            vanish(bench, lost);
            bench.boot(&[]);
            let what = format!("{how:?} at event {event}, without {lost:?}");
            let lacks_member = lost.iter().any(|name| DRIVES.contains(name));
            let expected = if lacks_member { VolumeState::Degraded } else { VolumeState::Optimal };
            assert_eq!(
                bench.show("data").state,
                expected,
                "{what}: {:?}",
                bench.show("data").reasons
            );
            look(bench, &log, how, lacks_member, &what);
            // The same holds once everything is destaged, and for flushes after that.
            flush(bench);
            look(bench, &log, how, lacks_member, &what);
            end(bench, End::PowerCut);
            bench.boot(&[]);
            look(bench, &log, how, lacks_member, &what);
        },
    );
}

#[test]
fn what_was_promised_is_there_after_a_power_cut_without_any_one_member_and_any_one_device() {
    crashed(End::PowerCut, 1);
    crashed(End::PowerCut, 2);
}

#[test]
fn what_was_answered_is_there_after_a_kill_without_any_one_member_and_any_one_device() {
    crashed(End::Killed, 2);
}

/// The start that replays the data log is interrupted at any event, with concurrent host writes.
#[test]
fn a_start_that_restores_may_be_interrupted_at_any_event() {
    for how in [End::PowerCut, End::Killed] {
        let prepare = || {
            let mut bench = prepared(9, 2, &LOG);
            for number in 0..10 {
                bench.write("data", number * STRIP, 20 + number as u8, 4096);
            }
            flush(&mut bench);
            end(&mut bench, End::PowerCut);
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_boot(&[]).ok()?;
            let volume = bench.shards[0].volume_named("data")?;
            let write = async move {
                let data = platform::Buf::copy_of(&[99; 4096]).freeze();
                let range = units::ByteRange::new(units::ByteOffset(3 * STRIP), ByteCount(4096));
                volume.write(range, data, platform::Durability::Cached).await.expect("written");
                volume.flush().await.expect("flushed");
            };
            bench.sim.run(write).ok()
        };
        at_every_event(31, how, prepare, scene, |bench, done, event| {
            bench.boot(&[]);
            for number in (0..10).filter(|number| *number != 3) {
                bench.expect("data", number * STRIP, 20 + number as u8, 4096);
            }
            let bytes = bench.try_read("data", 3 * STRIP, 4096).expect("readable");
            let is_new = bytes.iter().all(|byte| *byte == 99);
            let is_old = bytes.iter().all(|byte| *byte == 23);
            assert!(is_new || (is_old && done.is_none()), "{how:?} at event {event}: {}", bytes[0]);
        });
    }
}

/// Flushed data is on missing devices: the volume waits for them, or an operator gives the data up.
#[test]
fn without_its_devices_a_volume_waits_or_goes_on_by_order() {
    for waits in [true, false] {
        let mut bench = prepared(4, 2, &LOG);
        bench.write("data", 2 * STRIP, 66, 4096);
        flush(&mut bench);
        end(&mut bench, End::PowerCut);
        vanish(&bench, &LOG);
        bench.boot(&[]);
        let start = || Command::VolumeStart {
            volume: "data".into(),
            accept_stale_parity: false,
            degraded: false,
        };
        let why = bench.refused(ErrorKind::WrongState, start());
        assert!(why.contains("softroc log discard data --yes"), "{why}");
        match waits {
            true => {
                end(&mut bench, End::PowerCut);
                come_back(&bench, &LOG);
                bench.boot(&[]);
                bench.expect("data", 2 * STRIP, 66, 4096);
            }
            false => {
                bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))).expect("given up");
                bench.ask(start()).expect("started");
                bench.expect("data", 2 * STRIP, OLD, 4096);
                // The old data never overwrites later writes.
                end(&mut bench, End::PowerCut);
                come_back(&bench, &LOG);
                bench.boot(&[]);
                bench.expect("data", 2 * STRIP, OLD, 4096);
            }
        }
    }
}

/// A full stripe in the data log is in no journal. It was being written at a power cut. Then the
/// log failed, the journal moved to the members as complete, and a member was missing. After the
/// log was given up the stripe was read through stale parity, without a question to the operator.
#[test]
fn a_data_log_that_is_given_up_while_a_member_is_gone_wants_a_word_about_parity() {
    let mut bench = prepared(13, 1, &LOG[..1]);
    bench.write("data", 0, 66, 2 * STRIP);
    flush(&mut bench);
    bench.wait(1);
    end(&mut bench, End::PowerCut);
    let log = bench.sim.drive(LOG[0]).expect("the drive exists");
    log.refuse_writes(ByteRange::new(ByteOffset::ZERO, log.size()));
    vanish(&bench, &DRIVES[..1]);
    bench.boot(&[]);
    let start = |accept_stale_parity| Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity,
        degraded: true,
    };
    let why = bench.refused(ErrorKind::WrongState, start(false));
    assert!(why.contains("softroc log discard data --yes"), "{why}");
    bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))).expect("given up");
    let why = bench.refused(ErrorKind::WrongState, start(false));
    assert!(why.contains("--accept-stale-parity"), "{why}");
    bench.ask(start(true)).expect("started with stale parity accepted");
}

/// Data that cannot be destaged is only in the data log: neither the log nor the journal next to it
/// is removed before the drives have that data.
#[test]
fn a_data_log_stays_while_the_drives_lack_what_it_promised() {
    let volume = "data".to_owned();
    let without_journal =
        SetPolicy { volume, write_hole: Some(WriteHole::Resync), ..SetPolicy::default() };
    for goes in [Command::LogRemove { drive: "x".into() }, Command::VolumePolicy(without_journal)] {
        let mut bench = prepared(11, 2, &LOG[..1]);
        bench.write("data", 2 * STRIP, 66, 4096);
        flush(&mut bench);
        let drives = DRIVES.map(|name| bench.sim.drive(name).expect("the drive exists"));
        let data = ByteRange::new(ByteOffset::ZERO, ByteCount(ALL));
        drives.iter().for_each(|drive| drive.refuse_writes(data));
        let why = bench.ask(goes.clone()).expect_err("the drives take nothing");
        assert!(why.message.contains("could be written to its drives"), "{goes:?}: {why}");
        end(&mut bench, End::PowerCut);
        drives.iter().for_each(|drive| drive.clear_write_errors());
        bench.boot(&[]);
        if bench.show("data").state == VolumeState::Offline {
            // The refused writes may have left stale parity.
            bench.start_accepting("data");
        }
        bench.expect("data", 2 * STRIP, 66, 4096);
    }
}

/// A present device cannot read all of its records, and the other device with them is missing: the
/// unreadable records still count, and the volume waits for the other device.
#[test]
fn records_that_cannot_be_read_are_waited_for() {
    let mut bench = prepared(12, 2, &LOG);
    let of_log = |bench: &Bench| {
        let drive = bench.sim.drive("x").expect("the drive exists");
        drive.read_true(ByteOffset::ZERO, drive.size())
    };
    let before = of_log(&bench);
    bench.write("data", 2 * STRIP, 66, 4096);
    flush(&mut bench);
    let after = of_log(&bench);
    let sectors = before.chunks(512).zip(after.chunks(512)).enumerate();
    let written: Vec<usize> =
        sectors.filter(|(_, (before, after))| before != after).map(|(n, _)| n).collect();
    assert!(!written.is_empty(), "the flush was acknowledged from the log");
    end(&mut bench, End::PowerCut);
    for number in written {
        let sector = ByteRange::new(ByteOffset(512 * number as u64), ByteCount(512));
        bench.sim.drive("x").expect("the drive exists").make_unreadable(sector);
    }
    vanish(&bench, &LOG[1..]);
    bench.boot(&[]);
    let start =
        Command::VolumeStart { volume: "data".into(), accept_stale_parity: false, degraded: false };
    let why = bench.refused(ErrorKind::WrongState, start);
    assert!(why.contains("softroc log discard data --yes"), "{why}");
    end(&mut bench, End::PowerCut);
    come_back(&bench, &LOG[1..]);
    bench.boot(&[]);
    bench.expect("data", 2 * STRIP, 66, 4096);
}

/// The last device fails: its live data is in the cache, and is destaged at once.
#[test]
fn when_all_devices_fail_what_they_had_is_destaged() {
    let mut bench = prepared(5, 2, &LOG);
    bench.write("data", 0, 77, 4096);
    flush(&mut bench);
    LOG.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").fail_now());
    bench.write("data", STRIP, 78, 4096);
    flush(&mut bench);
    bench.wait(1);
    assert_eq!(bench.show("data").cache.dirty_bytes, 0);
    end(&mut bench, End::PowerCut);
    vanish(&bench, &LOG);
    bench.boot(&[]);
    bench.expect("data", 0, 77, 4096);
    bench.expect("data", STRIP, 78, 4096);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The last log device does not respond, and the power is cut at any later event. Its flushed data
/// is there: the labels name the log until that data is destaged. No newer flush may be
/// acknowledged meanwhile: a replay would overwrite its data.
#[test]
fn a_silent_log_counts_until_the_drives_have_what_it_promised_and_nothing_else_is_promised_before()
{
    let promised = Rc::new(RefCell::new([77, OLD]));
    let prepare = || {
        *promised.borrow_mut() = [77, OLD];
        let mut bench = prepared(6, 2, &LOG[..1]);
        assert!(is_answered_by_log(&mut bench, 0, 77));
        bench.sim.drive("x").expect("the drive exists").hold();
        bench
    };
    let scene = |bench: &mut Bench| {
        let (volume, promised) =
            (bench.shards[0].volume_named("data").expect("the volume is online"), promised.clone());
        let hosts = async move {
            for (value, at) in [(78, 0), (79, STRIP), (80, 0), (81, STRIP)] {
                let (range, data) =
                    (ByteRange::new(ByteOffset(at), ByteCount(4096)), Buf::copy_of(&[value; 4096]));
                volume.write(range, data.freeze(), Durability::Cached).await.expect("written");
                volume.flush().await.expect("flushed");
                promised.borrow_mut()[(at / STRIP) as usize] = value;
            }
        };
        bench.sim.run(hosts).ok()?;
        bench.sim.run_until(bench.sim.now() + Duration::from_secs(1)).ok()
    };
    at_every_event(1, End::PowerCut, prepare, scene, |bench, _, event| {
        bench.sim.drive("x").expect("the drive exists").release();
        bench.boot(&[]);
        let shown = bench.show("data");
        assert_eq!(shown.state, VolumeState::Optimal, "at event {event}: {:?}", shown.reasons);
        let promised = *promised.borrow();
        for (at, value) in [0, STRIP].into_iter().zip(promised) {
            let found = bench.try_read("data", at, 4096).expect("the data is readable");
            // Later writes have larger numbers.
            assert!(
                found[0] >= value,
                "at event {event}: {} at {at}, and {value} was flushed",
                found[0]
            );
        }
    });
}

/// A log was removed while a volume replayed it after a power cut. After the replay the volume
/// began another data log on the devices being removed: they were reported as free, and after a
/// power cut the volume waited for them (`torture --seed 11604 --write-back`).
#[test]
fn a_log_that_is_removed_while_a_volume_restores_is_not_used_any_more() {
    let mut bench = prepared(11, 1, &LOG);
    bench.write("data", 0, 7, 64 << 10);
    flush(&mut bench);
    // The destage of flushed data takes long.
    DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").slow_down(1000));
    bench.power_cycle(&[]);
    assert!(bench.has_event("were on its log device"), "the replay is in progress");
    bench.ask(Command::LogRemove { drive: "x".into() }).expect("removed");
    DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").slow_down(1));
    bench.wait(30);
    let devices = written(&bench, &LOG);
    bench.write("data", 0, 8, 64 << 10);
    flush(&mut bench);
    assert_eq!(written(&bench, &LOG), devices, "they have other owners");
    vanish(&bench, &LOG);
    bench.power_cycle(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 8, 64 << 10);
}

/// The duration of a write, in virtual time, with and without a log, and whether a power cut right
/// after its acknowledgement loses it.
#[test]
fn a_logged_write_outlives_a_power_cut_without_a_flush_and_waits_for_no_member() {
    for seed in 0..6 {
        let mut bench = prepared(seed, 2, &LOG);
        bench.ask(set(WriteMode::LoggedWriteBack)).expect("set");
        let (members, devices) = (written(&bench, &DRIVES), written(&bench, &LOG));
        bench.write("data", 4096, 7, 4096);
        assert!(written(&bench, &LOG) > devices, "acknowledged from the log");
        assert_eq!(written(&bench, &DRIVES), members, "and only from the log");
        end(&mut bench, End::PowerCut);
        bench.boot(&[]);
        bench.expect("data", 4096, 7, 4096);
        bench.wait(30);
        // Without a log the volume is write-through, and its policy shows that.
        bench.ask(Command::LogRemove { drive: "x".into() }).expect("removed");
        let policies = bench.show("data").policies;
        let policy = policies
            .into_iter()
            .find(|policy| policy.name == "write-mode")
            .expect("the write mode is listed");
        assert_eq!(
            (policy.configured.as_str(), policy.current.as_str()),
            ("logged-write-back", "write-through")
        );
        assert!(policy.reason.contains("no log device"), "{}", policy.reason);
        let members = written(&bench, &DRIVES);
        bench.write("data", 8192, 8, 4096);
        assert!(written(&bench, &DRIVES) > members);
        assert_eq!(bench.show("data").cache.dirty_bytes, 0);
    }
}

/// The same crash with `logged-write-back`: the memory of the cache is lost.
fn crash_without_memory(bench: &mut Bench) {
    end(bench, End::Killed);
    let env = bench.sim.env();
    let forgotten = bench.sim.run(async move { env.world().forget_kept_memory("cache").await });
    forgotten.expect("it ends").expect("the memory is deleted");
    bench.boot(&[]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Optimal, "{:?}", shown.reasons);
}

/// The log or the drives have every write, whether the log is added after the mode is set or
/// removed before the crash: the start never waits for the memory of the cache.
#[test]
fn logged_write_back_is_never_without_its_writes_for_want_of_memory() {
    let mut bench = prepared(12, 2, &LOG);
    bench.ask(set(WriteMode::LoggedWriteBack)).expect("set");
    bench.write("data", 4096, 7, 4096);
    crash_without_memory(&mut bench);
    bench.expect("data", 4096, 7, 4096);
    bench.wait(30);
    bench.ask(Command::LogRemove { drive: "x".into() }).expect("removed");
    bench.write("data", 8192, 8, 4096);
    crash_without_memory(&mut bench);
    bench.expect("data", 8192, 8, 4096);
    bench.ask(add(&LOG)).expect("added");
    bench.wait(30);
    let members = written(&bench, &DRIVES);
    bench.write("data", 16384, 9, 4096);
    assert_eq!(written(&bench, &DRIVES), members, "acknowledged from the log again");
    // The memory is used where it is present: the log has nothing newer.
    end(&mut bench, End::Killed);
    bench.boot(&[]);
    bench.expect("data", 16384, 9, 4096);
    crash_without_memory(&mut bench);
    bench.expect("data", 4096, 7, 4096);
    bench.expect("data", 16384, 9, 4096);
}

/// Advances time by this much.
fn sleep(bench: &mut Bench, milliseconds: u64) {
    let env = bench.sim.env();
    bench
        .sim
        .run(async move { env.sleep(Duration::from_millis(milliseconds)).await })
        .expect("it ends");
}

/// Flushed data was in the log and was destaged because of its age; its cache block was freed once
/// the drives had taken it. The process was killed, and the drives' enclosure lost power. The
/// memory was present, so no record was replayed, and the drives' volatile caches had lost the
/// data.
#[test]
fn what_was_flushed_is_kept_until_the_drives_have_it_durably() {
    for after in (0..40).map(|tick| tick * 250) {
        let mut bench = prepared(21, 2, &LOG);
        bench.write("data", 2 * STRIP, 66, 4096);
        flush(&mut bench);
        sleep(&mut bench, after);
        end(&mut bench, End::Killed);
        DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").power_cut());
        bench.boot(&[]);
        bench.expect("data", 2 * STRIP, 66, 4096);
    }
}

/// A block was destaged and kept until a flush. A write of it bypassed the cache and was
/// acknowledged, and the process was killed: the older block in memory overwrote it.
#[test]
fn what_is_kept_until_a_flush_does_not_come_over_a_write_past_the_cache() {
    for after in (0..40).map(|step| 4800 + step * 20) {
        let mut bench = prepared_with(ByteCount(256 << 10), 22, 1, &LOG);
        bench.write("data", 2 * STRIP, 66, 4096);
        sleep(&mut bench, after);
        // The write needs more than a quarter of all cache blocks.
        let large = 96 << 10;
        bench.write("data", 2 * STRIP + 512, 67, large);
        end(&mut bench, End::Killed);
        bench.boot(&[]);
        bench.expect("data", 2 * STRIP, 66, 512);
        bench.expect("data", 2 * STRIP + 512, 67, large);
    }
}
