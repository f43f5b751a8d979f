//! Interrupted operations are complete or undone: a creation cut off by a kill, a write that a
//! drive returns late, a repair that failed.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, create};
use controller::{
    AddSpare, Command, CreateVolume, DriveState, ErrorKind, Reply, SetPolicy, StartTask, Startable,
    VolumeState,
};
use ondisk::{Tail, ddf};
use std::cell::Cell;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

const DRIVES: [&str; 3] = ["a", "b", "c"];
const ALL: u64 = 1 << 20;

fn exists(bench: &mut Bench, name: &str) -> bool {
    bench.ask(Command::VolumeShow { volume: name.into() }).is_ok()
}

fn create_destroying(name: &str) -> Command {
    let Command::VolumeCreate(create) = create(name, "raid5", &DRIVES) else { unreachable!() };
    Command::VolumeCreate(CreateVolume { destroy_data: true, ..create })
}

/// A creation had written all labels, and the power was cut before the controller had recorded its
/// drives. The next controller knew no drives and found no volume. It was asked to create the
/// volume on the same drives, and was killed after the first of them. The next controller was given
/// the drives, and found the first volume with a drive missing and a marked region: it waited for
/// the operator, though no drive had failed. Found by torture (seed 300340). Drives are recorded
/// before they are written.
#[test]
fn a_creation_that_nobody_was_told_of_is_found_again_by_itself() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = Bench::in_order(5, 1, 3);
            bench.boot(&[]);
            bench
        };
        let scene = |bench: &mut Bench| bench.try_ask(create("data", "raid5", &DRIVES)).ok();
        at_every_event(2, how, prepare, scene, |bench, answered, event| {
            bench.boot(&[]);
            let found = exists(bench, "data");
            assert!(found || answered.is_none(), "event {event}");
            bench.restart(&DRIVES);
            assert_eq!(
                exists(bench, "data"),
                found,
                "event {event}: more volumes are found once the drives are known"
            );
        });
    }
}

/// The second part of that defect: drives with an array were overwritten one by one, and a power
/// cut left the array with some of them. When all present drives of an array are taken, it is
/// deleted first: the array is either complete or gone.
#[test]
fn a_creation_over_an_array_that_may_be_lost_leaves_all_of_it_or_nothing() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = Bench::in_order(5, 1, 3);
            bench.boot(&[]);
            bench.create("old", "raid5", &DRIVES);
            bench.write("old", 0, 7, ALL);
            bench.settle("old");
            bench.shut_down();
            bench.forget();
            // Another host, which does not know the array.
            bench.sim.kill();
            bench.sim.restart_process();
            bench.sim.remove_stored("drives.toml");
            bench.boot(&[]);
            bench
        };
        let scene = |bench: &mut Bench| bench.try_ask(create_destroying("new")).ok();
        at_every_event(2, how, prepare, scene, |bench, answered, event| {
            bench.boot(&DRIVES);
            let (old, new) = (exists(bench, "old"), exists(bench, "new"));
            assert!(!(old && new) && (new || answered.is_none()), "event {event}: {old} {new}");
            if old {
                assert_eq!(bench.show("old").state, VolumeState::Optimal, "event {event}");
                bench.expect("old", 0, 7, ALL);
            } else if new {
                assert_eq!(bench.show("new").state, VolumeState::Optimal, "event {event}");
            } else {
                bench.create("new", "raid5", &DRIVES);
            }
        });
    }
}

/// A killed process may leave its last writes in a drive's cache: an FUA write is durable only when
/// it has returned. The next process read the unflushed state and acted on it: the array existed,
/// so kept foreign metadata was dropped; an array was deleted, so the labels of its other drives
/// were erased. A power cut then reverted the state, but not these actions. Drives are flushed
/// before they are read.
#[test]
fn what_is_read_after_a_kill_is_durable() {
    let prepare = |seed: u64| {
        let mut bench = Bench::in_order(seed, 1, 3);
        bench.boot(&DRIVES);
        bench.create("data", "raid5", &DRIVES);
        bench.settle("data");
        bench
    };
    let tail = Tail::of(ByteCount(common::DRIVE)).unwrap();
    let tail = ByteRange::from_to(tail.start(), ByteOffset(common::DRIVE));
    let in_cache = Cell::new(0);
    let scene = |bench: &mut Bench| {
        bench.try_ask(Command::VolumeSet { volume: "data".into(), name: "new".into() }).ok()
    };
    for seed in 0..6 {
        at_every_event(
            1,
            End::Killed,
            || prepare(seed),
            scene,
            |bench, _, event| {
                for name in ["a", "c"] {
                    bench.sim.drive(name).unwrap().vanish();
                }
                let drive = bench.sim.drive("b").unwrap();
                in_cache.set(in_cache.get() + u32::from(drive.is_unflushed(tail)));
                // Alone it makes no volume: it is not written.
                bench.boot(&[]);
                assert!(!drive.is_unflushed(tail), "seed {seed}, event {event}");
            },
        );
    }
    assert!(in_cache.get() > 3, "no write reached the cache");
}

/// A volume whose drives have all returned is started automatically within a time.
fn start_unless_started(bench: &mut Bench, name: &str) {
    if bench.show(name).state == VolumeState::Offline {
        let start = Command::VolumeStart {
            volume: name.into(),
            accept_stale_parity: false,
            degraded: false,
        };
        bench.ask(start).unwrap();
    }
}

/// A drive took minutes for a label write; the volume needs the drive and was offline. Once it was
/// started again, new writes ran concurrently with the late one, which could still land on the
/// valid copy.
#[test]
fn a_drive_is_not_used_again_before_it_has_returned_what_was_written_to_it() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&DRIVES);
    bench.create("data", "raid0", &DRIVES);
    bench.write("data", 0, 1, ALL);
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(400));
    let rename = |name: &str| Command::VolumeSet { volume: "data".into(), name: name.into() };
    bench.refused(ErrorKind::Failed, rename("new"));
    let start = |volume: &str| Command::VolumeStart {
        volume: volume.into(),
        accept_stale_parity: false,
        degraded: false,
    };
    let why = bench.refused(ErrorKind::WrongState, start("data"));
    assert!(why.contains("drive b has outstanding writes"), "{why}");
    bench.wait(120);
    // Some drives had taken the new name.
    let name = if exists(&mut bench, "new") { "new" } else { "data" };
    start_unless_started(&mut bench, name);
    bench.expect(name, 0, 1, ALL);
    bench.shut_down();
    bench.power_cycle(&[]);
    assert_eq!(bench.count_events("metadata of drive"), 0);
    bench.expect(name, 0, 1, ALL);
}

/// The same for host writes: a late write landed on an acknowledged one after a restart of the
/// volume.
#[test]
fn a_late_write_does_not_land_on_what_is_written_after_a_start() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&DRIVES);
    bench.create("data", "raid0", &DRIVES);
    bench.write("data", 0, 1, ALL);
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(90));
    let late = bench.begin_write("data", 65536, 2, 65536);
    bench.wait(1);
    // Another drive is lost meanwhile and returns: the volume restarts, and its start waits for b
    // no longer than its time limit.
    bench.sim.drive("a").unwrap().vanish();
    bench.try_write("data", 0, 2, 65536).unwrap().unwrap_err();
    bench.sim.drive("a").unwrap().come_back();
    bench.wait(1);
    let start = || Command::VolumeStart {
        volume: "data".into(),
        accept_stale_parity: false,
        degraded: false,
    };
    let why = bench.refused(ErrorKind::WrongState, start());
    assert!(why.contains("drive b has outstanding writes"), "{why}");
    bench.refused(ErrorKind::WrongState, start());
    bench.sim.finish(&late).unwrap().unwrap_err();
    bench.wait(70);
    start_unless_started(&mut bench, "data");
    bench.write("data", 65536, 3, 65536);
    bench.expect("data", 65536, 3, 65536);
    bench.wait(120);
    bench.expect("data", 65536, 3, 65536);
}

/// The same for a failed drive that is to be used again: the first attempt was refused, the second
/// was not. By then the shards had dropped the drive, and with it the record of its late writes.
/// The same when the volume had been detached and attached meanwhile.
#[test]
fn a_drive_that_has_not_returned_a_write_comes_back_no_more_easily_when_it_is_said_twice() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&DRIVES);
    bench.create("data", "raid5", &DRIVES);
    bench.settle("data");
    // Its region is marked: the next write is the data.
    bench.write("data", 0, 1, ALL);
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(300));
    // All strips of a stripe: one of them is on b.
    bench.write("data", 0, 2, 2 * 65536);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    let online = || Command::DriveOnline { drive: "b".into() };
    for _ in 0..3 {
        bench.refused(ErrorKind::WrongState, online());
    }
    bench.ask(Command::VolumeSet { volume: "data".into(), name: "new".into() }).unwrap();
    bench.refused(ErrorKind::WrongState, online());
    // Then it returns automatically.
    bench.wait(360);
    assert_eq!(bench.show("new").state, VolumeState::Optimal);
    bench.expect("new", 0, 2, 2 * 65536);
}

/// The same for an unused drive: no label is erased or written while a late write may still land.
#[test]
fn a_drive_that_has_not_returned_a_write_is_not_made_another() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&DRIVES);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    let policy =
        SetPolicy { volume: "data".into(), suspend_limit_s: Some(1), ..SetPolicy::default() };
    bench.ask(Command::VolumePolicy(policy)).unwrap();
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(90));
    bench.ask(Command::VolumeSet { volume: "data".into(), name: "new".into() }).unwrap();
    assert_eq!(bench.show("new").state, VolumeState::Degraded);
    bench.wait(5);
    assert_eq!(bench.drive("b").state, DriveState::Failed, "the drive is permanently removed");
    let replace =
        || Command::DriveReplace { drive: "new:1".into(), with: "b".into(), destroy_data: true };
    let why = bench.refused(ErrorKind::Unavailable, replace());
    assert!(why.contains("has outstanding writes"), "{why}");
    bench.refused(ErrorKind::WrongState, Command::DriveOnline { drive: "b".into() });
    bench.wait(90);
    bench.ask(replace()).unwrap();
    bench.wait(60);
    assert_eq!(bench.show("new").state, VolumeState::Optimal);
}

/// A record of a volume was damaged in both copies of a drive's structure: both copies were
/// rewritten with the damage in them, and the damage was reported at every probe. DDF content is
/// derived from the label; so is this record now.
#[test]
fn a_record_that_is_damaged_in_both_copies_is_derived_from_the_label_once() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&DRIVES);
    bench.create("data", "raid5", &DRIVES);
    bench.write("data", 0, 1, ALL);
    bench.settle("data");
    bench.shut_down();
    let tail = Tail::of(ByteCount(common::DRIVE)).unwrap();
    let site = tail.site(SectorSize::B512).unwrap();
    let header = site.header(ddf::Guid::UNUSED, 1, ddf::Time(0));
    let records = u64::from(header.place(ddf::Section::Records).offset_blocks) * 512;
    let image = |bench: &Bench| {
        let drive = bench.sim.drive("b").unwrap();
        [site.primary(), site.secondary()].map(|at| drive.peek(at, ByteCount(2 << 20)).unwrap())
    };
    let before = image(&bench);
    for copy in [site.primary(), site.secondary()] {
        let (drive, record) = (bench.sim.drive("b").unwrap(), copy + ByteCount(records));
        let mut sector = drive.peek(record, ByteCount(512)).unwrap();
        sector[100] ^= 0x5A;
        drive.poke(record, &sector);
    }
    assert_ne!(image(&bench), before);
    // The drive gets no other write: its array is incomplete.
    for name in ["a", "c"] {
        bench.sim.drive(name).unwrap().vanish();
    }
    for _ in 0..3 {
        bench.restart(&[]);
        assert_eq!(bench.show("data").state, VolumeState::Offline);
        assert_eq!(bench.count_events("and repaired from the label"), 1, "{:?}", bench.events());
        assert_eq!(
            bench.count_events("the metadata of drive b was damaged"),
            1,
            "{:?}",
            bench.events()
        );
        bench.shut_down();
    }
    assert_eq!(image(&bench), before);
    for name in ["a", "c"] {
        bench.sim.drive(name).unwrap().come_back();
    }
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 1, ALL);
}

/// A drive was pulled from a volume that needs it, and policies were set meanwhile: the other drive
/// took two label updates. After its return the pulled drive counted as an older copy, and the
/// volume stayed offline.
#[test]
fn policies_are_not_set_while_a_drive_is_lost_that_nothing_replaces() {
    let mut bench = Bench::new(1, 1, 2);
    bench.boot(&["a", "b"]);
    bench.create("data", "raid0", &["a", "b"]);
    bench.write("data", 0, 1, 4 * 65536);
    bench.sim.drive("a").unwrap().vanish();
    bench.try_write("data", 0, 2, 4 * 65536).unwrap().unwrap_err();
    bench.wait(1);
    for task_share_percent in [Some(40), Some(50)] {
        let set = SetPolicy { volume: "data".into(), task_share_percent, ..SetPolicy::default() };
        bench.refused(ErrorKind::WrongState, Command::VolumePolicy(set));
    }
    bench.sim.drive("a").unwrap().come_back();
    bench.power_cycle(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.show("data").reasons);
}

/// A complete volume with data.
fn whole(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &DRIVES);
    bench.write("data", 0, 1, ALL / 2);
    bench.settle("data");
    bench
}

fn replace_by(drive: &str, with: &str) -> Command {
    Command::DriveReplace { drive: drive.into(), with: with.into(), destroy_data: false }
}

/// A drive was removed with writes still pending in it, and another one took its slot. It was then
/// blank and reused: a late write landed on newer data (`torture --seed 2022417`).
#[test]
fn a_drive_is_not_taken_before_it_has_returned_what_it_was_asked() {
    // First it returns nothing, not even the controller's own requests; then it returns all but one
    // host write.
    for returns_nothing in [true, false] {
        let mut bench = whole(23);
        bench.add_drives(&["d", "e"], common::DRIVE);
        // Its region is marked: the next write is the data.
        bench.write("data", 0, 1, ALL / 2);
        let drive = bench.sim.drive("c").unwrap();
        match returns_nothing {
            true => drive.hold(),
            false => drive.stall_next(1, Duration::from_secs(600)),
        }
        bench.write("data", 0, 2, ALL / 2);
        assert_eq!(bench.drive("c").state, DriveState::Suspended);
        bench.ask(replace_by("c", "d")).unwrap();
        let creation = || {
            let mut wanted = create("more", "raid0", &["c", "e"]);
            if let Command::VolumeCreate(wanted) = &mut wanted {
                wanted.destroy_data = true;
            }
            wanted
        };
        for wanted in [spare("c"), creation(), replace_by("a", "c")] {
            let why = bench.refused(ErrorKind::Unavailable, wanted);
            assert!(why.contains("has outstanding writes"), "{why}");
        }
        drive.release();
        bench.wait(if returns_nothing { 1 } else { 600 });
        bench.ask(spare("c")).unwrap();
        bench.wait(60);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
        bench.expect("data", 0, 2, ALL / 2);
    }
}

/// The same for a drive that is to be rebuilt in its own slot.
#[test]
fn a_drive_does_not_replace_itself_before_it_has_returned_what_it_was_asked() {
    let mut bench = whole(24);
    let drive = bench.sim.drive("c").unwrap();
    drive.hold();
    bench.write("data", 0, 2, ALL / 2);
    let itself =
        || Command::DriveReplace { drive: "c".into(), with: "c".into(), destroy_data: true };
    let why = bench.refused(ErrorKind::Unavailable, itself());
    assert!(why.contains("has outstanding writes"), "{why}");
    drive.release();
    bench.wait(1);
    bench.ask(itself()).unwrap();
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.ask(crate::common::take_offline("a")).unwrap();
    bench.expect("data", 0, 2, ALL / 2);
}

/// A volume with a write in progress that drive b returns after 90 seconds.
fn hanging(mut bench: Bench, level: &str) -> Bench {
    bench.boot(&["a", "b", "c", "d"]);
    bench.create("data", level, &DRIVES);
    // No other operation is in progress, such as the resync of a new volume.
    bench.settle("data");
    bench.write("data", 0, 1, ALL / 2);
    // Its region is marked: the next write is the data.
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(90));
    drop(bench.begin_write("data", 0, 2, ALL / 2));
    bench
}

const LATE: &str = "has outstanding writes";

fn delete(volume: &str) -> Command {
    Command::VolumeDelete { volume: volume.into(), disconnect_hosts: false }
}

fn spare(drive: &str) -> Command {
    let (drive, destroy_data, revertible) = (drive.into(), true, true);
    Command::SpareAdd(AddSpare { drive, destroy_data, revertible, ..AddSpare::default() })
}

/// A volume was deleted while a drive held a late write. The shards forgot that write with the
/// volume. A new volume on the same drives got it later, over newer data. The late writes of drives
/// that leave with their volume were not tracked, unlike those of drives that leave a slot.
#[test]
fn a_late_write_of_a_volume_that_was_deleted_does_not_land_on_the_next_one() {
    for level in ["raid0", "raid5"] {
        let mut bench = hanging(Bench::in_order(25, 2, 4), level);
        let Reply::Done { notes } = bench.ask(delete("data")).unwrap() else { panic!() };
        let told = |note: &String| {
            note.contains("drive b can be used again when all of its outstanding writes")
        };
        assert!(notes.iter().any(told), "{notes:?}");
        let shown = bench.drive("b");
        assert_eq!(shown.state, DriveState::Refused);
        assert!(shown.reason.as_ref().is_some_and(|why| why.contains(LATE)), "{shown:?}");
        let forget = Command::DriveForget { drive: "b".into() };
        for wanted in [create_destroying("new"), spare("b"), forget] {
            let why = bench.refused(ErrorKind::Unavailable, wanted);
            assert!(why.contains("drive b") && why.contains(LATE), "{why}");
        }
        // The other drives have returned everything.
        bench.create("others", "raid0", &["a", "c"]);
        bench.ask(delete("others")).unwrap();
        bench.wait(60);
        assert_eq!(bench.drive("b").state, DriveState::Unused);
        bench.create("new", "raid0", &DRIVES);
        bench.write("new", 0, 3, ALL);
        bench.wait(60);
        bench.expect("new", 0, 3, ALL);
    }
}

/// The same for the drive in a rebuild for another one's slot.
#[test]
fn a_late_write_of_a_copy_does_not_land_on_what_is_made_of_it_next() {
    let mut bench = whole(26);
    bench.add_drives(&["d", "e"], common::DRIVE);
    bench.ask(replace_by("a", "d")).unwrap();
    // Writes go to both.
    let drive = bench.sim.drive("d").unwrap();
    drive.stall_next(1, Duration::from_secs(90));
    drop(bench.begin_write("data", 0, 2, ALL / 2));
    bench.ask(delete("data")).unwrap();
    let why = bench.refused(ErrorKind::Unavailable, create("new", "raid0", &["d", "e"]));
    assert!(why.contains("drive d") && why.contains(LATE), "{why}");
    bench.wait(90);
    bench.create("new", "raid0", &["d", "e"]);
}

/// A drive in a rebuild stopped responding for good. It was recorded as dropped; then the array
/// waited for all its operations to return, and no host could write.
#[test]
fn a_copy_that_never_answers_keeps_nobody_waiting() {
    let mut bench = whole(27);
    bench.add_drives(&["d"], common::DRIVE);
    bench.ask(replace_by("a", "d")).unwrap();
    bench.sim.drive("d").unwrap().hold();
    let written = bench.begin_write("data", 0, 2, ALL / 2);
    bench.wait(300);
    assert!(written.is_finished(), "the write waits for a drive that left the volume");
    bench.expect("data", 0, 2, ALL / 2);
    bench.write("data", 0, 3, ALL);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    let why = bench.refused(ErrorKind::Unavailable, spare("d"));
    assert!(why.contains("drive d") && why.contains(LATE), "{why}");
}

/// Detaches a volume from the shards and attaches it again, as for zeroing a whole volume.
fn serve_anew(bench: &mut Bench) {
    let (what, volume, limit) = (Startable::InitFull, Some("data".to_owned()), Some(1));
    let start = StartTask { what, volume, limit_bytes_per_s: limit, ..StartTask::default() };
    let Reply::Task { task, .. } = bench.ask(Command::TaskStart(start)).unwrap() else { panic!() };
    // A flush has a time limit of a minute.
    bench.wait(70);
    let (state, reasons) = (bench.show("data").state, bench.show("data").reasons.join("; "));
    assert!(state == VolumeState::Offline || reasons.contains("zeroes"), "{state}: {reasons}");
    if let Err(error) = bench.ask(Command::TaskStop { task: task.task }) {
        assert!(error.message.contains("it is failed"), "{error}");
    }
    bench.wait(1);
}

/// The same for a volume that is detached and attached: the drive was removed with the write, and
/// returned before it.
#[test]
fn a_late_write_does_not_land_on_the_same_volume_served_anew() {
    let online = || Command::DriveOnline { drive: "b".into() };
    let mut bench = hanging(Bench::in_order(26, 2, 4), "raid5");
    serve_anew(&mut bench);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.write("data", 0, 3, ALL / 2);
    for _ in 0..2 {
        bench.refused(ErrorKind::WrongState, online());
    }
    // Then it returns automatically.
    bench.wait(150);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.ask(crate::common::take_offline("a")).unwrap();
    bench.expect("data", 0, 3, ALL / 2);
}

/// The same for a level that needs the drive: the volume is not attached with the drive while the
/// write is in progress.
#[test]
fn a_volume_is_not_served_anew_before_its_drives_have_returned_what_they_were_asked() {
    let mut met = 0;
    for seed in 0..12 {
        let mut bench = hanging(Bench::new(seed, 2, 4), "raid0");
        serve_anew(&mut bench);
        if bench.show("data").state != VolumeState::Offline {
            // The volume was detached before the write began: the zeros wait for the drive.
            continue;
        }
        met += 1;
        let mut refused = 0;
        while bench.show("data").state == VolumeState::Offline {
            assert!(refused < 40, "not started: {:?}", bench.show("data"));
            let (volume, accept_stale_parity, degraded) = ("data".to_owned(), false, false);
            if let Err(error) =
                bench.ask(Command::VolumeStart { volume, accept_stale_parity, degraded })
            {
                assert!(
                    error.message.contains("drive b") && error.message.contains(LATE),
                    "{error}"
                );
                refused += 1;
            }
            bench.wait(5);
        }
        assert!(refused > 0, "the drive has not returned the write");
        bench.write("data", 0, 3, ALL / 2);
        bench.wait(120);
        bench.expect("data", 0, 3, ALL / 2);
    }
    assert!(met > 4, "too few cases hit: {met}");
}
