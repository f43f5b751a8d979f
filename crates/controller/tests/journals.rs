//! Edge cases of journals at starts: which records are live, the journal's identity, questions to
//! the operator, and drives that fail meanwhile.

use crate::common::events::{End, at_every_event, end};
use crate::common::{self, Bench, MIB};
use controller::{Command, CreateVolume, DriveState, ErrorKind, VolumeState};
use platform::{Buf, Durability, IoErrorKind};
use platform_sim::{DriveOptions, SimDrive, Unwritten};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 64 << 10;
const DRIVES: [&str; 3] = ["a", "b", "c"];
/// FUA writes of this value to a number of stripes, one after the other, in the first strip of
/// each.
const STRIPES: u64 = 5;
const AT: u64 = 4096;
const LEN: u64 = 8192;

fn start(volume: &str) -> Command {
    Command::VolumeStart { volume: volume.into(), accept_stale_parity: false, degraded: false }
}

/// FUA writes of some blocks of each of some stripes. Counts the acknowledged ones.
fn write_durably(
    bench: &mut Bench,
    name: &str,
    byte: u8,
    acknowledged: &Rc<Cell<u64>>,
) -> Option<()> {
    acknowledged.set(0);
    let (volume, told) = (bench.shards[0].volume_named(name)?, acknowledged.clone());
    let writes = async move {
        for stripe in 0..STRIPES {
            let range = ByteRange::new(ByteOffset(stripe * 2 * STRIP + AT), ByteCount(LEN));
            let data = Buf::copy_of(&[byte; LEN as usize]).freeze();
            volume.write(range, data, Durability::Durable).await.expect("the volume is online");
            told.set(told.get() + 1);
        }
    };
    bench.sim.run(writes).ok()
}

/// This many blocks are `new`, the next ones may be, and the rest is `old`.
fn look(bench: &mut Bench, name: &str, old: u8, new: u8, certain: u64, what: &str) {
    let bytes = bench.try_read(name, 0, STRIPES * 2 * STRIP).expect("the blocks are readable");
    for (at, byte) in bytes.iter().enumerate() {
        let (stripe, within) = (at as u64 / (2 * STRIP), at as u64 % (2 * STRIP));
        let is_block = (AT..AT + LEN).contains(&within);
        let fits = match is_block {
            true if stripe < certain => *byte == new,
            true => *byte == new || *byte == old,
            false => *byte == old,
        };
        assert!(fits, "{what}: {byte} at {at}, after {certain} writes of {new} over {old}");
    }
}

/// Drives with old content.
fn add_noisy_drives(bench: &mut Bench, size: u64) {
    for name in DRIVES {
        let (size, unwritten) = (ByteCount(size), Unwritten::Noise);
        bench.sim.add_drive(name, DriveOptions { size, unwritten, ..common::drive_options() });
    }
}

/// A volume with a journal was started by a controller with more processors. Each shard's part of
/// the journal was too small, and none used it; but the label still said that the journal covers
/// all writes. A degraded volume was then started after a crash without a question to the operator.
#[test]
fn a_journal_that_is_too_small_for_all_shards_tells_nothing() {
    for (first, then, is_asked) in [(1, 1, false), (1, 17, true), (17, 17, true), (17, 1, false)] {
        let mut bench = Bench::new(1, 17, 0);
        add_noisy_drives(&mut bench, common::DRIVE);
        bench.use_shards(first);
        bench.boot(&[]);
        // It is not covered before all redundancy agrees.
        bench
            .create_with("data", "raid5", &DRIVES, |wanted| wanted.destroy_data = true)
            .expect("the drives are free");
        bench.write("data", 0, 1, STRIPES * 2 * STRIP);
        bench.settle("data");
        if then != first {
            bench.use_shards(then);
            bench.restart(&[]);
            bench.settle("data");
        }
        let policies = bench.show("data").policies;
        let hole = policies
            .iter()
            .find(|policy| policy.name == "write-hole")
            .expect("the policy is listed");
        assert_eq!(hole.current == "journal", !is_asked, "{first} shards, then {then}: {hole:?}");
        bench.sim.drive("c").expect("the drive exists").vanish();
        bench.write("data", AT, 2, LEN);
        assert_eq!(bench.show("data").state, VolumeState::Degraded);
        bench.restart(&[]);
        let state = bench.show("data").state;
        let what = format!("{first} shards, then {then}: {:?}", bench.show("data").reasons);
        match is_asked {
            true => {
                let why = bench.refused(ErrorKind::WrongState, start("data"));
                assert!(why.contains("--accept-stale-parity"), "{what}: {why}");
            }
            false => assert_eq!(state, VolumeState::Degraded, "{what}"),
        }
    }
}

/// Records carry the journal identity of the label. After a volume was attached again, its first
/// record could be on the drives before the label with its identity. After a power cut the next
/// start searched for records of the old identity, and lost a durable write.
#[test]
fn the_first_records_are_found_after_a_power_cut_whenever_that_comes() {
    let acknowledged: Rc<Cell<u64>> = Rc::default();
    let prepare = || {
        let mut bench = Bench::in_order(3, 1, 3);
        bench.boot(&[]);
        bench.create("data", "raid5", &DRIVES);
        bench.write("data", 0, 5, STRIPES * 2 * STRIP);
        bench.settle("data");
        bench
    };
    let renamed = |bench: &mut Bench| {
        acknowledged.set(0);
        let rename = Command::VolumeSet { volume: "data".into(), name: "new".into() };
        bench.try_ask(rename).ok()?.expect("renamed");
        write_durably(bench, "new", 9, &acknowledged)
    };
    let restarted = |bench: &mut Bench| {
        acknowledged.set(0);
        bench.forget();
        bench.sim.restart_process();
        bench.try_boot(&[]).ok()?;
        write_durably(bench, "data", 9, &acknowledged)
    };
    let check = |bench: &mut Bench, _: Option<()>, event: u64| {
        bench.boot(&[]);
        let names: Vec<String> = ["data", "new"].map(str::to_owned).into();
        let is_there = |name: &String| bench.shards[0].volume_named(name).is_some();
        let name = names.into_iter().find(is_there).expect("started");
        look(bench, &name, 5, 9, acknowledged.get(), &format!("event {event}"));
    };
    at_every_event(1, End::PowerCut, prepare, renamed, check);
    at_every_event(1, End::PowerCut, prepare, restarted, check);
}

/// Two volumes on three drives: `data` does not tolerate the loss of two drives, `copy` does.
fn beside(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 0);
    bench.add_drives(&DRIVES, 36 * MIB);
    bench.boot(&[]);
    let sized = |wanted: &mut CreateVolume| wanted.size_bytes = Some(2 * MIB);
    bench.create_with("data", "raid5", &DRIVES, sized).expect("there is space");
    bench
        .create_with("copy", "raid1", &DRIVES, |wanted| wanted.size_bytes = Some(MIB))
        .expect("there is space");
    bench.write("data", 0, 5, STRIPES * 2 * STRIP);
    bench.write("copy", 0, 6, MIB);
    bench.settle("data");
    bench.settle("copy");
    bench
}

fn cut_power(bench: &mut Bench) {
    bench.forget();
    bench.sim.power_cut();
    bench.sim.restart_process();
}

/// Two drives were missing at the start of an array, and one volume tolerated that. The other one
/// was started when they returned, and its journal was not replayed: it had a new identity, and
/// durable writes were in records of the old one. A replay that is impossible at the start of the
/// array is done when the volume is started.
#[test]
fn a_replay_that_had_to_wait_for_drives_is_done_when_they_are_back() {
    for seed in 0..8 {
        let mut bench = beside(seed);
        let acknowledged = Rc::default();
        write_durably(&mut bench, "data", 9, &acknowledged).expect("it ends");
        cut_power(&mut bench);
        for name in ["b", "c"] {
            bench.sim.drive(name).expect("the drive exists").vanish();
        }
        bench.boot(&[]);
        bench.start_degraded("copy");
        bench.expect("copy", 0, 6, MIB);
        assert_eq!(bench.show("data").state, VolumeState::Offline);
        for name in ["b", "c"] {
            bench.sim.drive(name).expect("the drive exists").come_back();
            bench.ask(Command::DriveOnline { drive: name.into() }).expect("it is back");
        }
        look(&mut bench, "data", 5, 9, STRIPES, &format!("seed {seed}"));
        bench.settle("data");
        bench.settle("copy");
        bench.ask(crate::common::fail_drive("a")).expect("both volumes tolerate it");
        look(&mut bench, "data", 5, 9, STRIPES, &format!("seed {seed}, without a"));
    }
}

/// The fault of a drive during a start.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Trouble {
    Vanishes,
    /// Its next operation takes a minute and a half: three times the time limit.
    Stalls,
    /// It does not respond any more.
    Hangs,
    /// The storage below it has no space for its next write.
    IsFull,
}

impl Trouble {
    fn begin(self, drive: &SimDrive) {
        match self {
            Trouble::Vanishes => drive.vanish(),
            Trouble::Stalls => drive.stall_next(1, Duration::from_secs(90)),
            Trouble::Hangs => drive.hold(),
            Trouble::IsFull => drive.fail_next(1, Some("write"), IoErrorKind::OutOfSpace),
        }
    }
}

/// The number of tested events of a start.
const TRIES: u32 = 60;

/// The duration of a start without faults.
fn start_takes(prepare: &impl Fn(u64) -> Bench) -> Duration {
    let mut bench = prepare(0);
    let began = bench.sim.now();
    bench.boot(&[]);
    bench.sim.now().since(began)
}

/// Repeats starts, each with another seed; the drive's fault happens a bit later each time.
fn with_trouble_in_a_start(
    trouble: Trouble,
    drive: &str,
    prepare: impl Fn(u64) -> Bench,
    check: impl Fn(&mut Bench, Duration),
) {
    let takes = start_takes(&prepare);
    for number in 0..TRIES {
        let (mut bench, after) = (prepare(u64::from(number)), takes * number / TRIES);
        let victim = bench.sim.drive(drive).expect("the drive exists");
        bench.sim.handle().after(after, move || trouble.begin(&victim));
        let began = bench.sim.now();
        bench.boot(&[]);
        let took = bench.sim.now().since(began);
        assert!(
            took < Duration::from_secs(900),
            "{trouble:?} {after:?} after: a start of {took:?}"
        );
        bench.wait(1);
        check(&mut bench, after);
    }
}

/// Repairs the faulty drive, and starts a volume that waits for it.
fn bring_back(bench: &mut Bench, name: &str, volume: &str) {
    let drive = bench.sim.drive(name).expect("the drive exists");
    drive.come_back();
    drive.release();
    bench.wait(120);
    let (mut told, online) = (Vec::new(), || Command::DriveOnline { drive: name.into() });
    for command in [online(), start(volume), online()] {
        let is_well = bench.show(volume).state != VolumeState::Offline;
        let is_needed = match command {
            Command::VolumeStart { .. } => !is_well,
            _ => bench.drive(name).state != DriveState::Online || !is_well,
        };
        if is_needed && let Err(why) = bench.ask(command) {
            told.push(why.message);
        }
    }
    let state = bench.drive(name).state;
    let is_back = [DriveState::Online, DriveState::Rebuilding].contains(&state);
    assert!(
        is_back && bench.show(volume).state != VolumeState::Offline,
        "drive {name} is {state:?}: {told:?}"
    );
}

/// A volume that was being written at a power cut.
fn interrupted(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &DRIVES);
    bench.write("data", 0, 5, STRIPES * 2 * STRIP);
    bench.settle("data");
    write_durably(&mut bench, "data", 9, &Rc::default()).expect("it ends");
    cut_power(&mut bench);
    bench
}

/// A replay found no space below a drive. That is no failure of the drive, but failed it, and
/// another one would have lost the volume. The volume starts when there is space.
#[test]
fn no_drive_is_put_out_where_there_is_no_space_for_what_a_replay_writes() {
    let refused = Cell::new(0);
    with_trouble_in_a_start(Trouble::IsFull, "a", interrupted, |bench, after| {
        if bench.show("data").state == VolumeState::Offline {
            refused
                .set(refused.get() + u32::from(bench.has_event("its journal cannot be replayed")));
            bench.ask(start("data")).expect("there is space now");
        }
        let what = format!("{after:?} after");
        assert_eq!(bench.drive("a").state, DriveState::Online, "{what}");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{what}");
        look(bench, "data", 5, 9, STRIPES, &what);
    });
    assert!(refused.get() > 2, "no replay met the lack of space");
}

/// A drive vanished, or responded late, while a start read the journals. Its journal was read block
/// by block, each up to the time limit, for hours. Or the drive was used without the replay: a
/// durable write was lost. Such a drive is removed.
#[test]
fn a_drive_may_fail_at_any_moment_of_a_start_that_replays() {
    for trouble in [Trouble::Vanishes, Trouble::Stalls, Trouble::Hangs] {
        with_trouble_in_a_start(trouble, "a", interrupted, |bench, after| {
            let what = format!("{trouble:?} {after:?} after");
            if bench.show("data").state == VolumeState::Offline {
                // Its content was unknown when it went missing: an operator has to confirm that it
                // was not used alone.
                bench
                    .ask(start("data"))
                    .or_else(|_| {
                        let (volume, accept_stale_parity, degraded) = ("data".into(), false, true);
                        bench.ask(Command::VolumeStart { volume, accept_stale_parity, degraded })
                    })
                    .unwrap_or_else(|why| panic!("{what}: {why}"));
            }
            look(bench, "data", 5, 9, STRIPES, &what);
            bring_back(bench, "a", "data");
            bench.settle("data");
            bench.wait(60);
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{what}");
            bench.ask(crate::common::fail_drive("b")).expect("the volume tolerates it");
            look(bench, "data", 5, 9, STRIPES, &format!("{what}, then without b"));
        });
    }
}

/// A drive failed during the replay of a start, and the volume needs it; another volume of its
/// array was started without it. That gave the first volume's journal a new identity: its records
/// were lost when the drive returned. The same where the journal of that drive was unreadable. The
/// records of a volume that cannot be started now wait for its drive.
#[test]
fn the_records_of_a_volume_that_loses_a_drive_in_its_replay_wait_for_it() {
    for trouble in [Trouble::Vanishes, Trouble::Stalls] {
        let prepare = |seed| {
            let mut bench = beside(seed);
            bench.ask(crate::common::fail_drive("b")).expect("both volumes tolerate it");
            write_durably(&mut bench, "data", 9, &Rc::default()).expect("it ends");
            cut_power(&mut bench);
            bench.sim.drive("b").expect("the drive exists").vanish();
            bench
        };
        let waited = Rc::new(Cell::new(0));
        with_trouble_in_a_start(trouble, "c", prepare, |bench, after| {
            let what = format!("{trouble:?} {after:?} after");
            let started = |bench: &mut Bench, name| bench.show(name).state != VolumeState::Offline;
            if started(bench, "copy") && !started(bench, "data") {
                waited.set(waited.get() + 1);
            }
            bring_back(bench, "c", "data");
            look(bench, "data", 5, 9, STRIPES, &what);
            write_durably(bench, "data", 7, &Rc::default()).expect("it ends");
            bench.wait(120);
            look(bench, "data", 5, 7, STRIPES, &format!("{what}, and written since"));
        });
        assert!(waited.get() > 3, "{trouble:?}: data waited for its drive {} times", waited.get());
    }
}

/// A drive was late with a write of a replay, and the volume needs it. The volume was started
/// again, and the late write overwrote newer host data. A drive is not used before it has returned
/// such a write.
#[test]
fn a_late_write_of_a_replay_does_not_land_on_what_is_written_after_a_start() {
    let prepare = |seed| {
        let mut bench = Bench::in_order(seed, 1, 3);
        bench.boot(&[]);
        bench.create("data", "raid5", &DRIVES);
        bench.write("data", 0, 5, STRIPES * 2 * STRIP);
        bench.settle("data");
        bench.ask(crate::common::fail_drive("b")).expect("the volume tolerates it");
        write_durably(&mut bench, "data", 9, &Rc::default()).expect("it ends");
        cut_power(&mut bench);
        bench.sim.drive("b").expect("the drive exists").vanish();
        bench
    };
    with_trouble_in_a_start(Trouble::Stalls, "c", prepare, |bench, after| {
        // If the start asks this drive last, the drive stalls at the first read, and takes the
        // volume offline.
        let mut tries = 0;
        while bench.show("data").state == VolumeState::Offline
            || bench.try_read("data", 0, STRIPES * 2 * STRIP).is_err()
        {
            let started = bench.ask(start("data"));
            assert!(started.is_ok() || tries < 200, "{after:?} after: {started:?}");
            bench.wait(1);
            tries += 1;
        }
        look(bench, "data", 5, 9, STRIPES, &format!("{after:?} after"));
        write_durably(bench, "data", 7, &Rc::default()).expect("it ends");
        bench.wait(120);
        look(bench, "data", 5, 7, STRIPES, &format!("{after:?} after, and written since"));
    });
}

/// An operator accepted stale parity for a missing drive, in unsynced regions. After the volume was
/// attached again these regions counted as synced, as its journal covered all writes. After a crash
/// the operator was not asked, and the missing drive's blocks were computed from stale parity.
#[test]
fn a_word_does_not_make_the_journal_tell_all_while_regions_are_unsynced() {
    let mut bench = Bench::new(6, 1, 0);
    // Large enough that the resync does not end before the test. Q must be recomputed from P:
    // without Q nothing has to be written, and the resync ends at once.
    let drives = ["a", "b", "c", "d"];
    add_noisy_drives(&mut bench, 96 * MIB);
    let (size, unwritten) = (ByteCount(96 * MIB), Unwritten::Noise);
    bench.sim.add_drive("d", DriveOptions { size, unwritten, ..common::drive_options() });
    bench.boot(&[]);
    let destroying = |wanted: &mut CreateVolume| {
        (wanted.destroy_data, wanted.write_hole) = (true, Some(controller::WriteHole::Resync));
    };
    bench.create_with("data", "raid6", &drives, destroying).expect("the drives are free");
    bench.ask(crate::common::fail_drive("c")).expect("the volume tolerates it");
    bench.sim.drive("c").expect("the drive exists").vanish();
    bench.write("data", 0, 1, 48 * MIB);
    bench.restart(&[]);
    let is_asked = |bench: &mut Bench, name: &str, what: &str| {
        let why = bench.refused(ErrorKind::WrongState, start(name));
        assert!(why.contains("--accept-stale-parity"), "{what}: {why}");
    };
    is_asked(&mut bench, "data", "it was never covered");
    bench.start_accepting("data");
    assert!(bench.show("data").resync.is_some(), "the resync takes its time");
    let write_hole = Some(controller::WriteHole::Journal);
    let journal = controller::SetPolicy {
        volume: "data".into(),
        write_hole,
        ..controller::SetPolicy::default()
    };
    bench.ask(Command::VolumePolicy(journal)).expect("the journal is added");
    bench.ask(Command::VolumeSet { volume: "data".into(), name: "new".into() }).expect("renamed");
    assert!(bench.show("new").resync.is_some(), "the resync takes its time");
    bench.restart(&[]);
    is_asked(&mut bench, "new", "the word was for the time until then");
}

/// Records of an earlier run follow this run's records in the ring, with consecutive numbers. They
/// are not live.
#[test]
fn what_an_earlier_life_recorded_is_not_carried_out_after_the_next_one() {
    for how in [End::Killed, End::PowerCut] {
        let mut bench = Bench::in_order(31, 1, 3);
        bench.boot(&DRIVES);
        bench.create("data", "raid5", &DRIVES);
        bench.settle("data");
        let acknowledged = Rc::default();
        for byte in [7, 7, 7, 8] {
            if byte == 8 {
                end(&mut bench, how);
                bench.boot(&DRIVES);
            }
            write_durably(&mut bench, "data", byte, &acknowledged)
                .expect("the start is not interrupted");
        }
        end(&mut bench, how);
        bench.boot(&DRIVES);
        (0..STRIPES).for_each(|stripe| bench.expect("data", stripe * 2 * STRIP + AT, 8, LEN));
    }
}
