//! Journals on log devices: added and removed while hosts write, with failed and missing devices.
//! Every sector always has an allowed content.

use crate::common::events::{End, at_every_event, end};
use crate::common::work::{ALL, Log, OLD, STRIP, begin_work, look};
use crate::common::{Bench, MIB};
use controller::{Command, DiscardLog, ErrorKind, LogDeviceState, Reply, VolumeState};
use platform::{Buf, Durability, IoErrorKind};
use platform_sim::SimDrive;
use std::cell::RefCell;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const DRIVES: [&str; 3] = ["a", "b", "c"];
const LOG: [&str; 2] = ["x", "y"];

fn add(devices: &[&str]) -> Command {
    let drives = devices.iter().map(ToString::to_string).collect();
    Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }
}

/// A volume with a journal; a log with these devices, if any.
fn prepared(seed: u64, shards: usize, devices: &[&str]) -> Bench {
    let mut bench = Bench::in_order(seed, shards, 3);
    bench.add_drives(&LOG, 8 * MIB);
    bench.boot(&[]);
    bench.create_with("data", "raid5", &DRIVES, |_| {}).expect("created");
    if !devices.is_empty() {
        bench.ask(add(devices)).expect("added");
    }
    bench.write("data", 0, OLD, ALL);
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
    bench.settle("data");
    bench
}

/// Whether the journal covers all writes.
fn is_covered(bench: &mut Bench) -> bool {
    let policies = bench.show("data").policies;
    policies.iter().any(|policy| policy.name == "write-hole" && policy.current == "journal")
}

/// The bytes written to each device.
fn written(bench: &Bench, names: &[&str]) -> Vec<u64> {
    names
        .iter()
        .map(|name| bench.sim.drive(name).expect("the drive exists").stats().written_bytes)
        .collect()
}

fn vanish(bench: &Bench, names: &[&str]) {
    names.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").vanish());
}

fn come_back(bench: &Bench, names: &[&str]) {
    names.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").come_back());
}

/// The members get data and redundancy only; the records are on the devices.
#[test]
fn with_a_log_the_members_carry_no_records() {
    let mut bench = prepared(1, 2, &LOG);
    assert!(is_covered(&mut bench));
    bench.write("data", 4096, 7, 8192); // The first write marks its region.
    let (members, devices) = (written(&bench, &DRIVES), written(&bench, &LOG));
    bench.write("data", 4096, 8, 8192);
    let more = |before: Vec<u64>, now: Vec<u64>| -> Vec<u64> {
        now.iter().zip(before).map(|(now, before)| now - before).collect()
    };
    let members: u64 = more(members, written(&bench, &DRIVES)).iter().sum();
    assert_eq!(members, 16384, "data and parity");
    assert_eq!(more(devices, written(&bench, &LOG)), [20480; 2], "a head, data and parity");
    // The same after a restart, and after a clean shutdown.
    for _ in 0..2 {
        bench.restart(&[]);
        assert!(is_covered(&mut bench));
        let devices = written(&bench, &LOG);
        bench.write("data", 4096, 9, 8192);
        assert!(more(devices, written(&bench, &LOG)).iter().all(|bytes| *bytes >= 20480));
        bench.shut_down();
    }
}

/// The devices that are lost or missing at the restart.
const LOST: [&[&str]; 6] = [&[], &["a"], &["x"], &["y"], &["b", "x"], &["c", "y"]];

/// After a crash with a log of two devices, with any member and any one device missing: all data is
/// there without a question to the operator.
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
        11,
        how,
        || prepared(7, shards, &LOG),
        scene,
        |bench, _, event| {
            let lost = LOST[(event / 55) as usize % LOST.len()];
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
        },
    );
}

#[test]
fn a_crash_is_repaired_from_a_log_without_any_one_member_and_any_one_device() {
    crashed(End::Killed, 1);
    crashed(End::PowerCut, 2);
}

/// After a power cut: the record of a write is on one device only, and the other one is missing.
fn with_a_record_on_one_device(seed: u64) -> Bench {
    let mut bench = prepared(seed, 1, &LOG);
    // The first write marks its region. Its record covers other columns.
    bench.write("data", 8 * STRIP + 32768, OLD, 8192);
    bench.sim.drive("x").expect("the drive exists").hold();
    let written = bench.begin_write("data", 2 * STRIP + 4096, 77, 8192);
    // Shorter than the time after which the device is failed.
    let until = bench.sim.now() + Duration::from_millis(20);
    bench.sim.run_until(until).expect("no stall");
    assert!(!written.is_finished(), "one device lacks the record");
    end(&mut bench, End::PowerCut);
    vanish(&bench, &["x"]);
    bench.sim.drive("x").expect("the drive exists").release();
    bench
}

/// Whether a member has the bytes of that write.
fn has_new(bench: &Bench, name: &str) -> bool {
    let drive = bench.sim.drive(name).expect("the drive exists");
    let data = drive.peek(ByteOffset::ZERO, ByteCount(MIB)).expect("readable");
    data.chunks(512).any(|sector| sector.iter().all(|byte| *byte == 77))
}

/// A record was interrupted, and is on one device only. Its replay is interrupted as well; then the
/// other device is present and this one is missing. The other device's records must not count as
/// complete: the stripe may be half written by now.
#[test]
fn a_second_crash_in_the_replay_of_what_one_device_has() {
    let (begun, waited) = (RefCell::new(0), RefCell::new(0));
    for (seed, member) in [(1, "a"), (2, "b"), (3, "c"), (4, "a"), (5, "b"), (6, "c")] {
        let boot = |bench: &mut Bench| bench.try_boot(&[]).ok();
        at_every_event(
            1,
            End::PowerCut,
            || with_a_record_on_one_device(seed),
            boot,
            |bench, _, second| {
                let is_begun = DRIVES.iter().any(|name| has_new(bench, name));
                come_back(bench, &["x"]);
                vanish(bench, &["y", member]);
                bench.boot(&[]);
                let (shown, what) = (bench.show("data"), format!("seed {seed}, again at {second}"));
                assert!(
                    !is_begun || shown.state == VolumeState::Offline,
                    "{what}: the replay was begun"
                );
                *begun.borrow_mut() += u32::from(is_begun);
                match shown.state {
                    VolumeState::Degraded => {
                        let bytes = bench.try_read("data", 0, ALL).expect("the volume is readable");
                        let new = (2 * STRIP + 4096) as usize..(2 * STRIP + 12288) as usize;
                        let is_fine = |(at, byte): (usize, &u8)| {
                            *byte == OLD || new.contains(&at) && *byte == 77
                        };
                        assert!(
                            bytes.iter().enumerate().all(is_fine),
                            "{what}: the stripe is half written"
                        );
                    }
                    // The labels go on without the returned device.
                    VolumeState::Offline => {
                        assert!(
                            shown.reasons.iter().any(|why| why.contains("log device")),
                            "{shown:?}"
                        );
                        *waited.borrow_mut() += 1;
                    }
                    other => panic!("{what}: {other:?}"),
                }
            },
        );
    }
    assert!(
        *waited.borrow() > *begun.borrow() && *begun.borrow() > 0,
        "the replay was begun, and waits"
    );
}

/// A log is added or removed at any event, with concurrent host writes.
fn moved(devices: &'static [&'static str], is_added: bool, how: End, shards: usize) {
    let log = Log::default();
    let ends = RefCell::new((0, 0));
    let scene = |bench: &mut Bench| {
        drop(begin_work(bench, &log));
        let command = match is_added {
            true => add(devices),
            false => Command::LogRemove { drive: devices[0].to_owned() },
        };
        bench.try_ask(command).ok()?.expect("the command succeeds");
        Some(())
    };
    at_every_event(
        2,
        how,
        || prepared(9, shards, if is_added { &[] } else { devices }),
        scene,
        |bench, done, event| {
            let lost = [None, Some("a"), Some("b"), Some("c")][(event / 10) as usize % 4];
            lost.iter().for_each(|name| vanish(bench, &[*name]));
            bench.boot(&[]);
            let (shown, what) = (
                bench.show("data"),
                format!("added {is_added}, {how:?} at event {event}, without {lost:?}"),
            );
            match (lost, shown.state) {
                (None, VolumeState::Optimal) | (Some(_), VolumeState::Degraded) => {
                    look(bench, &log, how, lost.is_some(), &what);
                    ends.borrow_mut().0 += 1;
                }
                (Some(_), VolumeState::Offline) => ends.borrow_mut().1 += 1,
                other => panic!("{what}: {other:?} {:?}", shown.reasons),
            }
            if let (None, Some(())) = (lost, done) {
                bench.settle("data");
                let devices_before = written(bench, devices);
                bench.write("data", 4096, 6, 8192);
                assert_eq!(written(bench, devices) != devices_before, is_added, "{what}");
            }
        },
    );
    assert!(ends.borrow().0 > 0, "{:?}", ends.borrow());
}

#[test]
fn a_log_comes_and_goes_while_hosts_write() {
    moved(&LOG, true, End::Killed, 2);
    moved(&LOG, true, End::PowerCut, 1);
    moved(&LOG[..1], false, End::Killed, 1);
    moved(&LOG, false, End::PowerCut, 2);
}

/// A device fails while hosts write: hosts get no errors, even for the last device, and a later
/// crash is repaired.
fn failing(devices: &'static [&'static str], how: End, shards: usize) {
    let log = Log::default();
    let ends = RefCell::new((0, 0));
    let scene = |bench: &mut Bench| {
        bench.sim.drive("x").expect("the drive exists").fail_now();
        let workers = begin_work(bench, &log);
        for worker in &workers {
            bench.sim.finish(worker).ok()?;
        }
        Some(())
    };
    at_every_event(
        13,
        how,
        || prepared(10, shards, devices),
        scene,
        |bench, _, event| {
            let lost = [&[][..], &["a"], &["b"], &["c"]][(event / 65) as usize % 4];
            vanish(bench, lost);
            // The device responds again: its records must not count as complete.
            come_back(bench, &["x"]);
            bench.boot(&[]);
            let (shown, what) =
                (bench.show("data"), format!("{how:?} at event {event}, without {lost:?}"));
            match (lost.is_empty(), shown.state) {
                (true, VolumeState::Optimal) | (false, VolumeState::Degraded) => {
                    look(bench, &log, how, !lost.is_empty(), &what);
                    ends.borrow_mut().0 += 1;
                }
                // The last device failed just before: a crash is handled as without a journal.
                (false, VolumeState::Offline) if devices.len() == 1 => ends.borrow_mut().1 += 1,
                other => panic!("{what}: {other:?} {:?}", shown.reasons),
            }
        },
    );
    let (told, asked) = ends.into_inner();
    assert!(told > asked, "{told} started, {asked} asked");
}

#[test]
fn hosts_do_not_notice_that_a_log_device_fails() {
    failing(&LOG, End::Killed, 2);
    failing(&LOG, End::PowerCut, 1);
    failing(&LOG[..1], End::Killed, 1);
    failing(&LOG[..1], End::PowerCut, 2);
}

/// The last log device fails in some way while hosts write, and the power is cut at any later
/// event. The device then has its records.
fn last_one(seed: u64, step: u64, fails: impl Fn(&SimDrive) + Copy + 'static) {
    let log = Log::default();
    let scene = |bench: &mut Bench| {
        let workers = begin_work(bench, &log);
        let (env, device) = (bench.sim.env(), bench.sim.drive("x").expect("the drive exists"));
        let failing = env.clone().spawn("it fails", async move {
            env.sleep(Duration::from_millis(3)).await;
            fails(&device);
        });
        bench.sim.finish(&failing).ok()?;
        for worker in &workers {
            bench.sim.finish(worker).ok()?;
        }
        Some(())
    };
    at_every_event(
        step,
        End::PowerCut,
        || prepared(seed, 2, &LOG[..1]),
        scene,
        |bench, _, event| {
            let device = bench.sim.drive("x").expect("the drive exists");
            device.release();
            device.cancel_failures();
            bench.boot(&[]);
            let (shown, what) = (bench.show("data"), format!("at event {event}"));
            assert_eq!(shown.state, VolumeState::Optimal, "{what}: {:?}", shown.reasons);
            look(bench, &log, End::PowerCut, false, &what);
        },
    );
}

/// The last log device did not respond for 30 s, and the volume went on with a journal on its
/// members. The labels recorded that at once, and the power failed. Records on the device did not
/// count any more, and their data was in the drives' caches.
#[test]
fn a_log_device_that_falls_silent_counts_until_the_drives_have_what_it_promised() {
    last_one(31, 3, SimDrive::hold);
}

/// The last log device refused one write of one shard. Writes of the other shard had their records
/// there, and were acknowledged as durable after the drives had been flushed for the device, when
/// its records did not count any more.
#[test]
fn a_record_that_counts_no_more_when_its_write_is_done_promises_nothing() {
    last_one(32, 3, |device| device.fail_next(1, Some("write"), IoErrorKind::Medium));
}

/// A log's only device fails during the addition of the log, at any event: some shards use the
/// journal there already, some find the failure first. Afterwards the label and all shards have the
/// same journal, and it covers all writes.
#[test]
fn a_log_that_fails_while_it_comes_leaves_a_journal_on_the_members() {
    let prepare = || {
        let log = Log::default();
        let bench = prepared(15, 2, &[]);
        drop(begin_work(&bench, &log));
        (bench, log)
    };
    let (mut bench, _) = prepare();
    let first = bench.sim.events();
    let added = bench.begin_ask(add(&LOG[..1]));
    bench.sim.finish(&added).expect("it ends").expect("added");
    let last = bench.sim.events();
    for event in (first..last).step_by(29) {
        let (mut bench, log) = prepare();
        let added = bench.begin_ask(add(&LOG[..1]));
        bench.sim.stop_at_event(Some(event));
        assert!(bench.sim.finish(&added).is_err(), "stopped at event {event}");
        bench.sim.stop_at_event(None);
        bench.sim.drive("x").expect("the drive exists").fail_now();
        bench.wait(60);
        bench.write("data", 4096, 7, 8192);
        bench.wait(60);
        assert!(is_covered(&mut bench), "failed at event {event}");
        let members: u64 = written(&bench, &DRIVES).iter().sum();
        bench.write("data", 4096, OLD, 8192);
        // Data, redundancy and two records; possibly marks.
        let since = written(&bench, &DRIVES).iter().sum::<u64>() - members;
        assert!(since >= 16384 + 2 * 20480, "failed at event {event}: {since}");
        end(&mut bench, End::Killed);
        bench.boot(&[]);
        look(&mut bench, &log, End::Killed, false, &format!("failed at event {event}"));
    }
}

/// When the last device has failed, the journal is on the members again. It covers all writes once
/// the drives have the writes that were in progress.
#[test]
fn without_its_log_a_journal_is_on_the_members() {
    let mut bench = prepared(11, 2, &LOG[..1]);
    bench.sim.drive("x").expect("the drive exists").fail_now();
    bench.write("data", 4096, 7, 8192);
    assert!(bench.has_event("log device x failed"), "{:?}", bench.events());
    bench.wait(1);
    assert!(is_covered(&mut bench));
    let members: u64 = written(&bench, &DRIVES).iter().sum();
    bench.write("data", 4096, 8, 8192);
    assert_eq!(written(&bench, &DRIVES).iter().sum::<u64>() - members, 16384 + 2 * 20480);
    bench.restart(&DRIVES);
    assert!(is_covered(&mut bench));
    bench.expect("data", 4096, 8, 8192);
}

/// A write with its record on a failed log is in no other journal: until the drives have the write,
/// no journal covers all writes.
#[test]
fn the_journal_on_the_members_does_not_tell_of_what_went_by_the_lost_one() {
    let mut bench = prepared(14, 1, &LOG[..1]);
    // Its region is marked; two strips and their redundancy are on all three drives.
    bench.write("data", STRIP - 4096, 6, 8192);
    // The time for its reads and its writes.
    bench.sim.drive("a").expect("the drive exists").stall_next(2, Duration::from_secs(20));
    let slow = bench.begin_write("data", STRIP - 4096, 7, 8192);
    bench.wait(3);
    bench.sim.drive("x").expect("the drive exists").fail_now();
    let next = bench.begin_write("data", 8 * STRIP, 8, 8192);
    bench.wait(5);
    assert!(bench.has_event("log device x failed"), "{:?}", bench.events());
    assert!(
        !slow.is_finished() && !is_covered(&mut bench),
        "a crash would leave a half write without a record"
    );
    bench.wait(30);
    assert!(slow.is_finished() && next.is_finished() && is_covered(&mut bench));
}

/// The names of drives were exchanged between two starts: a log device has the name of a drive that
/// was too small for one. The size of that drive is remembered by its name, and the log device's
/// label does not fit it. Torture seed 2912061635.
#[test]
fn a_log_device_is_found_under_the_name_of_a_smaller_drive() {
    let mut bench = prepared(15, 2, &[]);
    bench.add_drives(&["small"], 4 * MIB);
    let drives = ["x", "small"].map(|name| bench.sim.drive(name).expect("the drive exists"));
    let connect = |bench: &mut Bench, bays: [&str; 2]| {
        drives.iter().zip(bays).for_each(|(drive, bay)| bench.sim.alias_drive(drive, bay));
    };
    connect(&mut bench, ["bay0", "bay1"]);
    bench.ask(add(&["bay0", "y"])).expect("added");
    bench.ask(Command::DriveAdd { drive: "bay1".into(), size_bytes: None }).expect("registered");
    bench.shut_down();
    connect(&mut bench, ["bay1", "bay0"]);
    bench.restart(&[]);
    match bench.ask(Command::LogList {}).expect("listed") {
        Reply::Logs { logs, .. } => {
            let states = logs.iter().flat_map(|log| &log.devices).map(|device| device.state);
            assert_eq!(states.collect::<Vec<_>>(), [LogDeviceState::Online; 2], "{logs:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(is_covered(&mut bench));
}

/// A late record may still land on a log device. After the removal of the log the device stays
/// reserved: the record could overwrite a new owner's data.
#[test]
fn a_device_that_failed_is_given_to_nobody_before_a_restart() {
    let mut bench = prepared(13, 1, &LOG[..1]);
    bench.sim.drive("x").expect("the drive exists").hold();
    bench.write("data", 4096, 7, 8192);
    assert!(bench.has_event("log device x failed"), "{:?}", bench.events());
    bench.sim.drive("x").expect("the drive exists").release();
    bench.wait(1);
    bench.ask(Command::LogRemove { drive: "x".into() }).expect("removed");
    let why = bench.refused(ErrorKind::Unavailable, add(&["x"]));
    assert!(why.contains("has outstanding writes"), "{why}");
    bench.restart(&DRIVES);
    bench.ask(add(&LOG[..1])).expect("the device is usable again");
}

/// A volume with records on a missing device waits for it, or for an operator who discards them.
#[test]
fn a_volume_waits_for_its_log() {
    let mut bench = prepared(12, 2, &LOG);
    bench.write("data", 4096, 7, 8192);
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let data = Buf::copy_of(&[9; 4096]).freeze();
    let range = ByteRange::new(ByteOffset(3 * STRIP), ByteCount(4096));
    let durable = async move { volume.write(range, data, Durability::Durable).await };
    bench.sim.run(durable).expect("it ends").expect("written");
    end(&mut bench, End::PowerCut);
    vanish(&bench, &LOG);
    bench.boot(&[]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Offline);
    assert!(
        shown.reasons.iter().any(|why| why.contains("softroc log discard data --yes")),
        "{shown:?}"
    );
    let start = || Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity: false,
        degraded: false,
    };
    let why = bench.refused(ErrorKind::WrongState, start());
    assert!(why.contains("log device"), "{why}");
    // One of the devices is back.
    come_back(&bench, &["y"]);
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 3 * STRIP, 9, 4096);
    // Both are missing again, and their records are discarded.
    bench.write("data", 4096, 8, 8192);
    end(&mut bench, End::PowerCut);
    vanish(&bench, &LOG);
    bench.boot(&[]);
    bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))).expect("given up");
    bench.ask(start()).expect("the volume is started");
    assert!(bench.has_event("were discarded"), "{:?}", bench.events());
    bench.settle("data");
    bench.expect("data", 3 * STRIP, 9, 4096);
    // Devices that return later have no live records.
    bench.write("data", 3 * STRIP, 11, 4096);
    bench.shut_down();
    come_back(&bench, &LOG);
    bench.restart(&[]);
    bench.expect("data", 3 * STRIP, 11, 4096);
    bench.restart(&[]);
    bench.expect("data", 3 * STRIP, 11, 4096);
}

fn start(name: &str, accept_stale_parity: bool) -> Command {
    Command::VolumeStart { volume: name.into(), accept_stale_parity, degraded: true }
}

/// A log is permanently lost together with a member: its records can still be discarded, and then
/// the volume asks about stale parity.
#[test]
fn a_volume_that_lacks_its_log_and_a_member_is_started_by_order() {
    let mut bench = prepared(14, 1, &LOG);
    bench.write("data", 4096, 7, 8192);
    end(&mut bench, End::Killed);
    vanish(&bench, &LOG);
    vanish(&bench, &["b"]);
    bench.boot(&[]);
    let why = bench.refused(ErrorKind::WrongState, start("data", true));
    assert!(why.contains("softroc log discard data --yes"), "{why}");
    let discard = || Command::LogDiscard(DiscardLog::lacking("data"));
    let Ok(Reply::Volume { notes, .. }) = bench.ask(discard()) else { panic!("discarded") };
    assert!(notes.iter().any(|note| note.contains("run 'softroc volume start data'")), "{notes:?}");
    // Nothing is recorded before the volume is started.
    bench.forget();
    bench.sim.restart_process();
    bench.boot(&[]);
    let why = bench.refused(ErrorKind::WrongState, start("data", true));
    assert!(why.contains("softroc log discard data --yes"), "{why}");
    bench.ask(discard()).expect("discarded");
    let why = bench.refused(ErrorKind::WrongState, start("data", false));
    assert!(why.contains("--accept-stale-parity"), "{why}");
    bench.ask(start("data", true)).expect("the volume is started");
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.expect("data", 8 * STRIP, OLD, 4096);
    bench.write("data", 4096, 8, 8192);
    // Devices that return later have no live records.
    end(&mut bench, End::Killed);
    come_back(&bench, &LOG);
    bench.boot(&[]);
    if bench.show("data").state == VolumeState::Offline {
        bench.ask(start("data", true)).expect("the volume is started");
    }
    bench.expect("data", 4096, 8, 8192);
}

/// `data` has its journal on a log of one device; `more`, on the same drives, has none.
fn with_two_volumes(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.add_drives(&LOG, 8 * MIB);
    bench.boot(&[]);
    let size = |create: &mut controller::CreateVolume| create.size_bytes = Some(256 << 10);
    bench.create_with("data", "raid5", &DRIVES, size).expect("created");
    bench
        .create_with("more", "raid5", &[], |create| {
            size(create);
            create.array = Some("data".into());
            create.write_hole = Some(controller::WriteHole::Resync);
        })
        .expect("created");
    bench.ask(add(&LOG[..1])).expect("added");
    bench.settle("data");
    bench.settle("more");
    bench
}

/// A volume that waits for its log still does after a clean shutdown of the other volumes of the
/// array.
#[test]
fn a_volume_waits_on_when_others_of_its_array_were_stopped() {
    let mut bench = with_two_volumes(17);
    bench.write("data", 4096, 7, 8192);
    bench.write("more", 4096, 7, 8192);
    end(&mut bench, End::Killed);
    vanish(&bench, &LOG);
    bench.boot(&[]);
    for _ in 0..2 {
        let reasons = bench.show("data").reasons;
        assert!(
            reasons.iter().any(|why| why.contains("softroc log discard data --yes")),
            "{reasons:?}"
        );
        bench.settle("more");
        bench.shut_down();
        bench.boot(&[]);
    }
    bench.shut_down();
    come_back(&bench, &LOG);
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 4096, 7, 8192);
}

/// Each of two volumes of an array that are not started gives its own reason.
#[test]
fn each_volume_says_what_itself_waits_for() {
    let mut bench = with_two_volumes(15);
    bench.ask(crate::common::take_offline("data:0")).expect("the drive is out");
    bench.write("data", 4096, 7, 8192);
    bench.write("more", 4096, 7, 8192);
    end(&mut bench, End::Killed);
    vanish(&bench, &LOG);
    bench.boot(&[]);
    for (name, what) in
        [("data", "softroc log discard data --yes"), ("more", "--accept-stale-parity")]
    {
        let reasons = bench.show(name).reasons;
        assert!(reasons.iter().any(|why| why.contains(what)), "{name}: {reasons:?}");
        assert_eq!(
            reasons.iter().filter(|why| why.contains("cannot be started")).count(),
            usize::from(name == "data"),
            "{reasons:?}"
        );
    }
}

/// A volume that was cleanly stopped during its resync needs no log.
#[test]
fn what_was_stopped_in_order_does_not_wait_for_its_log() {
    let mut bench = prepared(16, 1, &LOG[..1]);
    bench.write("data", 4096, 7, 8192);
    end(&mut bench, End::Killed);
    bench
        .sim
        .drive("x")
        .expect("the drive exists")
        .make_unreadable(ByteRange::new(ByteOffset(MIB), ByteCount(4 * MIB)));
    bench.boot(&[]);
    assert!(bench.has_event("the journal of 'data' is incomplete"), "{:?}", bench.events());
    assert!(bench.show("data").resync.is_some(), "its redundancy is unsynced");
    bench.shut_down();
    vanish(&bench, &LOG);
    bench.boot(&[]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Optimal, "{:?}", shown.reasons);
    bench.expect("data", 4096, 7, 8192);
    bench.settle("data");
}
