//! The end of a reshape, and the remains of the old layout.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB, drive_options};
use crate::reshape::{STRIP, WAYS, Way, arrive, byte, expect_content, order, prepared, task};
use controller::{Command, DiscardLog, ErrorKind, Reply, SetTask, TaskState, VolumeState};
use platform_sim::{DriveOptions, Latency};
use units::ByteCount;

/// Advances time until the condition holds.
fn until(bench: &mut Bench, what: &str, is_so: impl Fn(&controller::VolumeInfo) -> bool) {
    for _ in 0..300 {
        if is_so(&bench.show("data")) {
            return;
        }
        bench.wait(1);
    }
    panic!("{what}: {:?}", bench.show("data"));
}

/// A removed drive held late writes of the old layout. After the reshape these were not tracked any
/// more: the drive was used again, and a late write could land on newer data.
#[test]
fn a_drive_that_owes_a_write_of_the_old_layout_is_not_taken_in_again() {
    const LATE_S: u64 = 900;
    let (mut bench, bytes, _, id) = halfway(WAYS[0], &[]);
    let (at, last) = (bytes - 2 * STRIP, bytes / STRIP - 1);
    // This marks their region, so that a shard sends the late write: the controller itself waits
    // for none.
    for strip in [last - 1, last] {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    bench.sim.drive("b").unwrap().stall_next(1, std::time::Duration::from_secs(LATE_S));
    bench.write("data", at, 200, 2 * STRIP);
    bench.wait(5);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    let limit_bytes_per_s = Some(1 << 30);
    bench
        .ask(Command::TaskSet(SetTask { task: id, share_percent: None, limit_bytes_per_s }))
        .unwrap();
    bench.ask(Command::TaskResume { task: id }).unwrap();
    until(&mut bench, "it arrives", |shown| shown.reshape.is_none());
    let online = Command::DriveOnline { drive: "b".into() };
    let why = bench.refused(ErrorKind::WrongState, online.clone());
    assert!(why.contains("outstanding"), "{why}");
    bench.wait(LATE_S);
    bench.ask(online).unwrap();
    until(&mut bench, "it is whole", |shown| shown.state == VolumeState::Optimal);
    bench.expect("data", at, 200, 2 * STRIP);
    expect_content(&mut bench, bytes - 2 * STRIP);
}

/// A spare takes a slot as soon as the label names one volume again. For a moment the map still had
/// its old length, with marks of regions that do not exist any more. Found by torture.
#[test]
fn a_spare_takes_a_slot_at_once_when_a_volume_has_come_to_its_layout() {
    for shards in 1..=3 {
        let way = WAYS[0];
        let mut bench = prepared(way, shards, 12 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        bench.ask(Command::VolumeReshape(order(way))).unwrap();
        bench.sim.drive("b").unwrap().fail_now();
        bench.write("data", 0, byte(0), STRIP);
        let spare = controller::AddSpare {
            drive: "e".into(),
            destroy_data: true,
            ..controller::AddSpare::default()
        };
        bench.ask(Command::SpareAdd(spare)).unwrap();
        until(&mut bench, "it is whole", |shown| {
            shown.reshape.is_none() && shown.state == VolumeState::Optimal
        });
        expect_content(&mut bench, bytes);
    }
}

/// Shards redirected hosts before they knew the uninitialised part of the new space: a write there
/// relied on redundancy that agrees with nothing.
#[test]
fn shards_know_what_is_not_initialised_before_any_host_gets_there() {
    let way = WAYS[0];
    let mut bench = prepared(way, 2, 48 * MIB);
    let named = |bench: &Bench, shard: usize| bench.shards[shard].volume_named("data");
    let before = named(&bench, 0).expect("the volume is online").spec().id;
    let mut knows = [false; 2];
    let _ordered = bench.begin_ask(Command::VolumeReshape(order(way)));
    let deadline = bench.sim.now() + std::time::Duration::from_secs(600);
    loop {
        bench.sim.step();
        assert!(bench.sim.now() < deadline, "the reshape does not end");
        for (shard, knows) in bench.shards.iter().zip(&mut knows) {
            // Its parts have the next numbers.
            let parts = (1..=2).filter_map(|next| shard.volume(engine::VolumeId(before.0 + next)));
            *knows |= parts.into_iter().any(|part| !part.recorded_state().is_initialised());
        }
        let served = (0..2).filter_map(|shard| named(&bench, shard)).map(|volume| volume.spec().id);
        if served.into_iter().any(|id| id != before) {
            break;
        }
    }
    assert_eq!(knows, [true; 2], "shards that know");
    arrive(&mut bench);
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// A volume with a reshape paused halfway; returns the position of its cursor.
fn halfway(way: Way, log: &[&str]) -> (Bench, u64, u64, u64) {
    let mut bench = prepared(way, 2, 48 * MIB);
    if !log.is_empty() {
        bench.add_drives(log, 24 * MIB);
        let drives = log.iter().map(ToString::to_string).collect();
        bench.ask(Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }).unwrap();
        bench.settle("data");
    }
    let bytes = bench.show("data").capacity_bytes;
    bench.ask(Command::VolumeReshape(order(way))).unwrap();
    let id = task(&mut bench).task;
    let limit_bytes_per_s = Some(8 * MIB);
    bench
        .ask(Command::TaskSet(SetTask { task: id, share_percent: None, limit_bytes_per_s }))
        .unwrap();
    bench.wait(4);
    bench.ask(Command::TaskPause { task: id }).unwrap();
    bench.wait(5);
    let moved = bench.show("data").reshape.expect("the reshape is paused").moved_bytes;
    assert!(moved > STRIP && moved < bytes - STRIP, "{moved} of {bytes}");
    (bench, bytes, moved, id)
}

/// Records of both layouts are on a log that is permanently lost: one command discards both, or the
/// part in the new layout would wait without end.
#[test]
fn what_a_log_has_of_both_layouts_is_given_up_by_one_order() {
    let (mut bench, bytes, _, id) = halfway(WAYS[0], &["x", "y"]);
    for strip in [0, bytes / STRIP - 1] {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    end(&mut bench, End::Killed);
    ["x", "y"].iter().for_each(|name| bench.sim.drive(name).unwrap().vanish());
    bench.boot(&[]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Offline);
    assert!(
        shown.reasons.iter().any(|why| why.contains("softroc log discard data --yes")),
        "{shown:?}"
    );
    bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))).expect("given up");
    if bench.show("data").state == VolumeState::Offline {
        let start = Command::VolumeStart {
            volume: "data".into(),
            accept_stale_parity: false,
            degraded: false,
        };
        bench.ask(start).expect("the volume is started");
    }
    bench.ask(Command::TaskResume { task: id }).unwrap();
    arrive(&mut bench);
    expect_content(&mut bench, bytes);
    // Devices that return have no live records.
    bench.write("data", 0, 200, STRIP);
    bench.shut_down();
    ["x", "y"].iter().for_each(|name| bench.sim.drive(name).unwrap().come_back());
    bench.restart(&[]);
    bench.expect("data", 0, 200, STRIP);
}

/// A write covers both sides of the cursor, and a drive fails during it: each layout knows the
/// drive's missed part, and both record it before the acknowledgement.
#[test]
fn a_write_over_the_cursor_without_a_drive_is_known_to_both_layouts() {
    let (mut bench, bytes, moved, id) = halfway(WAYS[0], &[]);
    bench.sim.drive("b").unwrap().vanish();
    bench.write("data", moved - 2 * STRIP, 200, 4 * STRIP);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    end(&mut bench, End::Killed);
    bench.boot(&[]);
    bench.expect("data", moved - 2 * STRIP, 200, 4 * STRIP);
    bench.sim.drive("b").unwrap().come_back();
    bench.restart(&[]);
    bench.ask(Command::TaskResume { task: id }).unwrap();
    until(&mut bench, "it arrives", |shown| shown.reshape.is_none());
    if bench.show("data").state == VolumeState::Degraded {
        // A vanished drive returns automatically, unless the restart reverted that.
        bench.wait(60);
        let _ = bench.ask(Command::DriveOnline { drive: "b".into() });
    }
    until(&mut bench, "it is whole", |shown| shown.state == VolumeState::Optimal);
    bench.settle("data");
    bench.ask(crate::common::take_offline("c")).unwrap();
    for strip in 0..bytes / STRIP {
        let is_written = (moved - 2 * STRIP..moved + 2 * STRIP).contains(&(strip * STRIP));
        bench.expect("data", strip * STRIP, if is_written { 200 } else { byte(strip) }, STRIP);
    }
}

/// When the rest of the new space is resynced, the journal covers all writes: after a crash with a
/// missing drive no operator is needed.
#[test]
fn after_the_end_a_crash_without_a_drive_is_nobodys_question() {
    let way = WAYS[0];
    let mut bench = prepared(way, 2, 12 * MIB);
    let bytes = bench.show("data").capacity_bytes;
    bench.ask(Command::VolumeReshape(order(way))).unwrap();
    arrive(&mut bench);
    for strip in [0, 7] {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    end(&mut bench, End::Killed);
    bench.sim.drive("b").unwrap().fail_now();
    bench.boot(&[]);
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Degraded, "{:?}", shown.reasons);
    expect_content(&mut bench, bytes);
}

/// A sector is unreadable while the drive that may have its data is away: the task says so and
/// fails, hosts continue, and when a host has written the sector, the reshape continues
/// automatically.
#[test]
fn a_lost_sector_and_a_drive_that_is_away_stop_the_way_and_no_host() {
    let way = WAYS[0];
    let mut bench = prepared(way, 1, 12 * MIB);
    let shown = bench.show("data");
    let at = units::ByteOffset(shown.data_start_bytes + 40 * STRIP);
    bench
        .sim
        .drive("a")
        .unwrap()
        .make_unreadable(units::ByteRange::new(at, units::ByteCount(4096)));
    bench.ask(Command::VolumeReshape(order(way))).unwrap();
    bench.sim.drive("b").unwrap().vanish();
    for _ in 0..60 {
        bench.wait(1);
        if task(&mut bench).state == TaskState::Failed {
            break;
        }
    }
    let failed = task(&mut bench);
    assert_eq!(failed.state, TaskState::Failed, "{:?}", failed.reason);
    assert!(bench.show("data").reshape.is_some());
    assert_eq!(bench.show("data").lost_bytes, 0, "the drive that is away may have the data");
    let strips = shown.capacity_bytes / STRIP;
    let unreadable: Vec<u64> =
        (0..strips).filter(|strip| bench.try_read("data", strip * STRIP, STRIP).is_err()).collect();
    assert!(
        !unreadable.is_empty() && unreadable.iter().all(|strip| strip / 2 == 40),
        "{unreadable:?}"
    );
    for strip in unreadable {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    until(&mut bench, "it arrives", |shown| shown.reshape.is_none());
    expect_content(&mut bench, shown.capacity_bytes);
}

/// A power cut while the start of a reshape was being recorded, and the drive to be added was
/// missing at the next start: while the volume waited, it was shown with a drive that it does not
/// have.
#[test]
fn a_drive_that_a_volume_was_about_to_get_is_not_shown_as_its_own() {
    let mut waited = 0;
    for steps in (0..1200).step_by(20) {
        let mut bench = prepared(WAYS[0], 1, MIB);
        let _ordered = bench.begin_ask(Command::VolumeReshape(order(WAYS[0])));
        for _ in 0..steps {
            bench.sim.step();
        }
        end(&mut bench, End::PowerCut);
        for name in ["a", "d"] {
            bench.sim.drive(name).unwrap().vanish();
        }
        bench.boot(&[]);
        let shown = bench.show("data");
        waited += usize::from(shown.reshape.is_none());
        if shown.reshape.is_none() {
            assert_eq!(shown.drives.len(), 3, "{steps} events: {:?}", shown.reasons);
        }
    }
    assert!(waited > 5 && waited < 60, "{waited}");
}

/// A volume of three drives with its records on a log.
fn logged() -> Bench {
    logged_on(drive_options().latency)
}

/// The same, on devices with this latency.
fn logged_on(latency: Latency) -> Bench {
    let mut bench = prepared(WAYS[0], 1, MIB + (128 << 10));
    for device in ["x", "y"] {
        bench.sim.add_drive(
            device,
            DriveOptions { latency, ..DriveOptions::sized(ByteCount(24 * MIB)) },
        );
    }
    let drives = vec!["x".to_owned(), "y".to_owned()];
    bench.ask(Command::LogAdd { drives, destroy_data: false, same_disk_ok: false }).unwrap();
    bench.settle("data");
    bench
}

/// The owners of the slots on the log.
fn places(bench: &mut Bench) -> Vec<String> {
    let Ok(Reply::Logs { logs, .. }) = bench.ask(Command::LogList {}) else { panic!("logs") };
    logs.into_iter().flat_map(|log| log.places).map(|place| place.volume).collect()
}

/// The part in the new layout has its own slot on the log. After a rollback that slot had no owner,
/// and was never freed.
#[test]
fn a_move_that_is_taken_back_leaves_nothing_on_the_log() {
    let mut bench = logged();
    assert_eq!(places(&mut bench), ["data"]);
    bench.ask(Command::VolumeReshape(order(WAYS[0]))).unwrap();
    let id = task(&mut bench).task;
    bench.ask(Command::TaskStop { task: id }).unwrap();
    until(&mut bench, "it is taken back", |shown| shown.reshape.is_none());
    bench.settle("data");
    assert_eq!((places(&mut bench), bench.show("data").drives.len()), (vec!["data".to_owned()], 3));
}

/// The same when a crash came between the label with one volume again and those of the log's
/// devices.
#[test]
fn an_end_that_is_interrupted_leaves_nothing_on_the_log() {
    let begun = || {
        let mut bench = logged();
        let bytes = bench.show("data").capacity_bytes;
        let ordered = bench.begin_ask(Command::VolumeReshape(order(WAYS[0])));
        (bench, bytes, ordered)
    };
    let has_come = |bench: &Bench| {
        let volume = bench.shards[0].volume_named("data");
        volume.is_some_and(|volume| volume.spec().geometry.drives().0 == 4)
    };
    let (mut bench, _, _ordered) = begun();
    let mut events = 0u64;
    while !has_come(&bench) {
        bench.sim.step();
        events += 1;
    }
    let mut ended = 0;
    for before in (0..120).step_by(3) {
        let (mut bench, bytes, _ordered) = begun();
        for _ in 0..events - before {
            bench.sim.step();
        }
        end(&mut bench, End::Killed);
        bench.boot(&[]);
        ended += usize::from(bench.show("data").reshape.is_none());
        arrive(&mut bench);
        assert_eq!(places(&mut bench), ["data"], "{before} events before the end");
        expect_content(&mut bench, bytes);
    }
    assert!(ended > 2, "some are interrupted in between: {ended}");
}

/// A reshape is rolled back while an operator removes the log; the journals have left it, the slots
/// have not. The task that frees the new layout's slot had read a device's label, waited for the
/// erase of that label, and wrote it again: the log was present again.
#[test]
fn a_log_that_is_removed_while_a_move_is_taken_back_stays_removed() {
    let begun = || {
        // The erase of their labels takes longer than the rollback up to that point.
        let mut bench = logged_on(Latency::range_us(500, 900));
        bench.ask(Command::VolumeReshape(order(WAYS[0]))).unwrap();
        let id = task(&mut bench).task;
        bench.ask(Command::TaskPause { task: id }).unwrap();
        bench.wait(1);
        assert_eq!(bench.show("data").reshape.map(|at| at.moved_bytes), Some(0));
        (bench, id)
    };
    for event in (250..600).step_by(50) {
        let (mut bench, task) = begun();
        let removed = bench.begin_ask(Command::LogRemove { drive: "x".into() });
        for _ in 0..event {
            bench.sim.step();
        }
        bench.ask(Command::TaskStop { task }).unwrap();
        let removed = bench.sim.finish(&removed).unwrap();
        until(&mut bench, "it is taken back", |shown| shown.reshape.is_none());
        let when = format!("stopped at event {event}: {removed:?}");
        let Ok(Reply::Done { notes }) = &removed else { panic!("{when}") };
        assert!(notes.is_empty(), "{when}");
        for _ in 0..2 {
            let Ok(Reply::Logs { logs, .. }) = bench.ask(Command::LogList {}) else {
                panic!("logs")
            };
            assert!(logs.is_empty(), "{when}: {logs:?}");
            bench.restart(&[]);
        }
    }
}

/// A volume was half-way from RAID 5 to RAID 0 when a drive failed: it is lost, and the labels
/// still have it in service. `drive rescan` took it from the shards. The half in RAID 5 then
/// acknowledged writes without it, which no label recorded, and after a crash they were gone
/// (`torture --seed 968437021`).
#[test]
fn a_lost_drive_is_not_taken_from_a_volume_by_a_rescan() {
    let way = Way { from: "raid5", drives: &["a", "b", "c"], to: "raid0", add: &[] };
    let (mut bench, bytes, moved, _) = halfway(way, &[]);
    let still_old = moved / STRIP + 8..bytes / STRIP;
    bench.sim.drive("b").unwrap().vanish();
    for strip in still_old.clone() {
        drop(bench.try_write("data", strip * STRIP, byte(strip), STRIP));
    }
    bench.wait(5);
    bench.sim.drive("b").unwrap().come_back();
    let rescan = Command::DriveRescan { drive: "b".into(), was_bytes: None };
    let rescanned = bench.ask(rescan);
    let is_acknowledged =
        |strip: &u64| matches!(bench.try_write("data", strip * STRIP, 200, STRIP), Ok(Ok(())));
    let acknowledged: Vec<u64> = still_old.filter(is_acknowledged).collect();
    end(&mut bench, End::Killed);
    bench.boot(&[]);
    if !bench.show("data").state.serves() {
        bench.start_accepting("data");
    }
    for strip in acknowledged {
        bench.expect("data", strip * STRIP, 200, STRIP);
    }
    let why = rescanned.expect_err("it is in service by the labels").message;
    assert!(why.contains("softroc volume start data"), "{why}");
}
