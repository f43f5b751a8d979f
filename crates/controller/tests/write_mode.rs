//! Write modes (`volume set --write-mode`): acknowledged writes survive a restart, flushed writes
//! survive a power cut, and lost writes are reported.

use crate::common::events::{End, at_every_event, end};
use crate::common::{self, Bench, MIB, volume};
use controller::{
    Command, DiscardLog, ErrorKind, Reply, SetPolicy, StartTask, Startable, VolumeState, WriteMode,
};
use engine::Volume;
use platform::{Buf, Durability, IoErrorKind, JoinHandle, KeptSize};
use platform_sim::DriveImage;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 64 << 10;
const DRIVES: [&str; 3] = ["a", "b", "c"];
const OLD: u8 = 5;

fn set(mode: WriteMode) -> Command {
    let (volume, write_mode) = ("data".to_owned(), Some(mode));
    Command::VolumePolicy(SetPolicy { volume, write_mode, ..SetPolicy::default() })
}

/// The configured and the effective mode, and the reason.
fn mode(bench: &mut Bench) -> (String, String, String) {
    let policies = bench.show("data").policies;
    let policy =
        policies.iter().find(|policy| policy.name == "write-mode").expect("the policy is listed");
    (policy.configured.clone(), policy.current.clone(), policy.reason.clone())
}

fn dirty(bench: &mut Bench) -> u64 {
    bench.show("data").cache.dirty_bytes
}

fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
}

fn prepared(seed: u64, shards: usize, mode: WriteMode) -> Bench {
    let mut bench = Bench::in_order(seed, shards, 4);
    bench.cache_size = ByteCount(MIB);
    bench.boot(&[]);
    bench
        .create_with("data", "raid5", &DRIVES, |wanted| wanted.write_mode = Some(mode))
        .expect("created");
    bench.write("data", 0, OLD, 6 * STRIP);
    flush(&mut bench);
    bench.settle("data");
    bench
}

#[test]
fn what_was_answered_is_there_after_a_kill_on_however_many_shards() {
    for (seed, before, after) in [(1, 1, 1), (2, 2, 2), (3, 3, 1), (4, 1, 3)] {
        let mut bench = prepared(seed, 3, WriteMode::WriteBack);
        bench.use_shards(before);
        bench.restart(&DRIVES);
        for number in 0..20 {
            bench.write("data", number * 9000, 10 + number as u8, 5000);
        }
        bench.write("data", 9000, 99, 700);
        assert!(dirty(&mut bench) > 0, "no host has flushed");
        bench.use_shards(after);
        bench.restart(&DRIVES);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
        assert!(dirty(&mut bench) > 0, "hosts do not wait for the destage");
        bench.expect("data", 9000, 99, 700);
        bench.expect("data", 9700, 11, 4300);
        for number in (0..20).filter(|number| *number != 1) {
            bench.expect("data", number * 9000, 10 + number as u8, 5000);
        }
        // An FUA write to a part of the recovered data; and the process ends again.
        let volume = bench.shards[0].volume_named("data").expect("the volume is online");
        let data = Buf::copy_of(&[77; 512]).freeze();
        let range = ByteRange::new(ByteOffset(9216), ByteCount(512));
        let written = async move { volume.write(range, data, Durability::Durable).await };
        bench.sim.run(written).expect("it ends").expect("durable");
        bench.restart(&DRIVES);
        bench.expect("data", 9216, 77, 512);
        bench.expect("data", 9000, 99, 216);
        bench.ask(Command::VolumeFlush { volume: "data".into() }).expect("flushed");
        assert_eq!(dirty(&mut bench), 0);
    }
}

/// A power cut loses unflushed data, and an event says so. Flushed data is there.
#[test]
fn what_was_flushed_outlives_the_power() {
    let mut bench = prepared(5, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    flush(&mut bench);
    bench.write("data", STRIP, 7, STRIP);
    bench.power_cycle(&DRIVES);
    bench.expect("data", 0, 6, STRIP);
    assert!(
        bench.has_event("unflushed writes that the drives did not have"),
        "{:?}",
        bench.events()
    );
    assert_eq!(mode(&mut bench).1, "write-back", "the volume continues");
    bench.shut_down();
    bench.power_cycle(&DRIVES);
    assert_eq!(
        bench.count_events("unflushed writes that the drives did not have"),
        1,
        "a clean stop"
    );
}

/// The mode changes while hosts write, with a kill or power cut at any event.
#[test]
fn a_mode_that_changes_loses_nothing() {
    type Told = Rc<RefCell<Vec<(u64, u8, bool)>>>;
    async fn work(volume: Rc<Volume>, told: Told, at: u64) {
        for round in 0..24 {
            let (value, is_durable) = (20 + round as u8, round % 6 == 5);
            let durability = if is_durable { Durability::Durable } else { Durability::Cached };
            let range = ByteRange::new(ByteOffset(at), ByteCount(3072));
            let data = Buf::copy_of(&[value; 3072]).freeze();
            volume.write(range, data, durability).await.expect("hosts get no errors");
            told.borrow_mut().push((at, value, is_durable));
        }
    }
    let told = Told::default();
    let scene = |bench: &mut Bench| {
        told.borrow_mut().clear();
        let volume = bench.shards[0].volume_named("data").expect("the volume is online");
        let env = volume.shard().env().clone();
        let places = [0, 3072, STRIP + 512, 2 * STRIP];
        let workers: Vec<JoinHandle<()>> =
            places.map(|at| env.spawn("worker", work(volume.clone(), told.clone(), at))).into();
        for mode in [WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::WriteBack] {
            bench.try_ask(set(mode)).ok()?.expect("the policy is set");
        }
        workers.iter().try_for_each(|worker| bench.sim.finish(worker).ok())
    };
    for how in [End::Killed, End::PowerCut] {
        let prepare = || prepared(6, 2, WriteMode::WriteThrough);
        at_every_event(11, how, prepare, scene, |bench, _, event| {
            bench.boot(&DRIVES);
            for at in [0, 3072, STRIP + 512, 2 * STRIP] {
                let got = bench.try_read("data", at, 3072).expect("readable")[0];
                let told = told.borrow();
                let counts = told
                    .iter()
                    .filter(|(of, _, durable)| *of == at && (*durable || how == End::Killed));
                let at_least = counts.map(|(_, value, _)| *value).max().unwrap_or(OLD);
                assert!(
                    got >= at_least,
                    "{how:?} at event {event}: {got} at {at}, acknowledged {at_least}"
                );
            }
        });
    }
}

/// The file with the memory was deleted while the controller was stopped: the volume must not start
/// without acknowledged writes.
#[test]
fn memory_that_is_not_there_is_not_done_without() {
    let mut bench = prepared(7, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    end(&mut bench, End::Killed);
    let env = bench.sim.env();
    bench
        .sim
        .run(async move { env.world().forget_kept_memory("cache").await })
        .expect("ends")
        .expect("deleted");
    bench.boot(&DRIVES);
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    let start =
        Command::VolumeStart { volume: "data".into(), accept_stale_parity: false, degraded: false };
    let why = bench.refused(ErrorKind::WrongState, start.clone());
    assert!(why.contains("softroc log discard data --yes"), "{why}");
    let (_, notes) = volume(bench.ask(Command::LogDiscard(DiscardLog::lacking("data"))));
    assert!(notes[0].contains("unknown"), "{notes:?}");
    bench.ask(start).expect("the volume starts");
    bench.ask(set(WriteMode::WriteThrough)).expect("set");
    bench.refused(ErrorKind::WrongState, Command::LogDiscard(DiscardLog::lacking("data")));
}

/// A volume with `logged-write-back` and no log device acknowledges writes when the drives have
/// them. After a crash that lost the memory it stayed offline until an operator gave up
/// "acknowledged writes" that were all there.
#[test]
fn memory_is_not_waited_for_where_the_drives_have_every_write() {
    let mut bench = prepared(7, 2, WriteMode::LoggedWriteBack);
    bench.write("data", 0, 6, STRIP);
    end(&mut bench, End::Killed);
    let env = bench.sim.env();
    let forgotten = bench.sim.run(async move { env.world().forget_kept_memory("cache").await });
    forgotten.expect("it ends").expect("the memory is deleted");
    bench.boot(&DRIVES);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 6, STRIP);
}

/// The process ends with dirty data in the cache. The drives are moved to another host, which
/// writes newer data, and return. The memory is still present, and its data is older than the
/// drives' data.
#[test]
fn what_an_older_life_left_is_not_laid_over_a_newer() {
    let mut bench = prepared(12, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    bench.forget();
    bench.sim.kill();
    let (here, image) = (bench.sim.kept_image(), drives_of(&bench));
    let mut elsewhere = Bench::in_order(13, 2, 0);
    elsewhere.cache_size = ByteCount(MIB);
    put(&mut elsewhere, &image);
    elsewhere.boot(&DRIVES);
    elsewhere.write("data", 0, 7, STRIP);
    elsewhere.shut_down();
    let image = drives_of(&elsewhere);
    put(&mut bench, &image);
    bench.sim.restart_process();
    bench.sim.restore_kept(&here);
    bench.boot(&DRIVES);
    bench.expect("data", 0, 7, STRIP);
    bench.write("data", 0, 8, 512);
    bench.restart(&DRIVES);
    bench.expect("data", 0, 8, 512);
    bench.expect("data", 512, 7, STRIP - 512);
}

fn drives_of(bench: &Bench) -> Vec<DriveImage> {
    DRIVES.iter().map(|name| bench.sim.drive(name).expect("the drive exists").snapshot()).collect()
}

fn put(bench: &mut Bench, images: &[DriveImage]) {
    for (name, image) in DRIVES.iter().zip(images) {
        bench.sim.add_drive_with(name, common::drive_options(), image);
    }
}

/// Two drives fail: the volume is offline with dirty data in the cache. When they return, the data
/// is there.
#[test]
fn what_a_volume_had_when_it_went_offline_comes_back_with_it() {
    let mut bench = prepared(8, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    for drive in ["a", "b"] {
        bench.sim.drive(drive).expect("the drive exists").vanish();
    }
    let failed = bench.try_write("data", STRIP, 8, 6 * STRIP).expect("it ends");
    assert!(failed.is_err() || bench.ask(Command::VolumeFlush { volume: "data".into() }).is_err());
    bench.wait(120);
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    for drive in ["a", "b"] {
        bench.sim.drive(drive).expect("the drive exists").come_back();
    }
    bench.restart(&DRIVES);
    if bench.show("data").state == VolumeState::Offline {
        let start = Command::VolumeStart {
            volume: "data".into(),
            accept_stale_parity: true,
            degraded: true,
        };
        bench.ask(start).expect("the volume starts");
    }
    bench.expect("data", 0, 6, STRIP);
    assert_ne!(
        bench.try_read("data", STRIP, 1).err().map(|error| error.kind),
        Some(IoErrorKind::Medium)
    );
}

/// A volume is deleted with dirty data in the cache. A new volume with its name does not get that
/// data.
#[test]
fn a_deleted_volume_leaves_nothing() {
    let mut bench = prepared(9, 1, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    bench
        .ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
        .expect("deleted");
    assert!(!has_memory(&mut bench), "no other volume had data in it");
    let again = |wanted: &mut controller::CreateVolume| {
        (wanted.write_mode, wanted.destroy_data) = (Some(WriteMode::WriteBack), true);
    };
    bench.create_with("data", "raid0", &["a", "b"], again).expect("created");
    bench.restart(&["a", "b"]);
    assert_eq!(dirty(&mut bench), 0);
    // The new memory works like the first one.
    bench.write("data", 0, 9, STRIP);
    assert!(dirty(&mut bench) > 0 && has_memory(&mut bench));
    bench.restart(&["a", "b"]);
    bench.expect("data", 0, 9, STRIP);
}

/// Whether the host has memory of this controller's cache.
fn has_memory(bench: &mut Bench) -> bool {
    let env = bench.sim.env();
    let others = bench.sim.run(async move { env.world().other_memories("none of ours").await });
    others.expect("it ends").expect("listed").iter().any(|memory| memory.name == "cache")
}

/// Another controller was killed, and its volume is unknown here: its memory is listed, with the
/// amount of possibly undestaged data, and is deleted by a command that names it.
#[test]
fn memory_of_another_controller_is_listed_and_removed_by_name() {
    let mut bench = prepared(31, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    let uuid = bench.show("data").uuid;
    let env = bench.sim.env();
    let dirty = dirty(&mut bench);
    let copied = bench.sim.run(async move {
        let ours = env.world().other_memories("none of ours").await.expect("listed").remove(0);
        let words = ours.words.expect("readable");
        let size = KeptSize::whole(words.len(), ByteCount(ours.len.0 - 8 * words.len() as u64));
        let other =
            env.world().kept_memory("other", Some(size)).await.expect("made").expect("some");
        words.iter().enumerate().for_each(|(word, value)| other.words.store(word, *value));
        other
    });
    let list = |bench: &mut Bench| match bench.ask(Command::CacheList {}) {
        Ok(Reply::Memories { memories }) => memories,
        other => panic!("{other:?}"),
    };
    let remove = || Command::CacheRemove { memory: "other".into() };
    let used = list(&mut bench).remove(0);
    assert!(used.in_use && used.volumes.is_empty(), "{used:?}");
    bench.refused(ErrorKind::InUse, remove());
    drop(copied);
    let left = list(&mut bench).remove(0);
    let volume = &left.volumes[0];
    assert_eq!(
        (left.in_use, &volume.uuid, volume.title(), volume.dirty_bytes),
        (false, &uuid, "data", dirty)
    );
    assert!(left.lost().contains("64 KiB of dirty data of data"), "{}", left.lost());
    bench.refused(ErrorKind::NotFound, Command::CacheRemove { memory: "cache".into() });
    bench.ask(remove()).expect("removed");
    assert!(list(&mut bench).is_empty() && bench.has_event("was removed; lost: 64 KiB"));
    bench.expect("data", 0, 6, STRIP);
}

#[test]
fn without_memory_a_volume_is_write_through_and_says_why() {
    let mut bench = prepared(10, 2, WriteMode::WriteThrough);
    bench.cache_size = ByteCount::ZERO;
    bench.restart(&DRIVES);
    let (_, notes) = volume(bench.ask(set(WriteMode::WriteBack)));
    assert!(notes[0].contains("--cache SIZE"), "{notes:?}");
    let (configured, current, why) = mode(&mut bench);
    assert_eq!((configured.as_str(), current.as_str()), ("write-back", "write-through"));
    assert!(why.contains("--cache SIZE"), "{why}");
    bench.write("data", 0, 6, STRIP);
    assert_eq!(dirty(&mut bench), 0);
    bench.cache_size = ByteCount(MIB);
    bench.restart(&DRIVES);
    assert_eq!(mode(&mut bench).1, "write-back", "the next process has memory");
    bench.ask(set(WriteMode::WriteThrough)).expect("set");
    assert_eq!(mode(&mut bench).1, "write-through");
}

/// Drives have no space for acknowledged writes, for longer than the volume is detached for
/// zeroing. There is space for the zeros: no older data overwrites them.
#[test]
fn what_was_dirty_does_not_come_over_the_zeroes_of_an_initialisation() {
    for failures in 1..16 {
        let mut bench = prepared(14, 1, WriteMode::WriteBack);
        bench.write("data", 0, 6, 512);
        for drive in DRIVES.map(|drive| bench.sim.drive(drive).expect("the drive exists")) {
            drive.fail_next(failures, Some("write"), IoErrorKind::OutOfSpace);
        }
        let what = Startable::InitFull;
        let init = StartTask { what, volume: Some("data".into()), ..StartTask::default() };
        bench.ask(Command::TaskStart(init)).expect("the task begins");
        bench.wait(300);
        if bench.show("data").state == VolumeState::Optimal {
            bench.expect("data", 0, 0, 2 * STRIP);
            bench.restart(&DRIVES);
            bench.expect("data", 0, 0, 2 * STRIP);
        }
    }
}

/// One of two volumes has dirty data in the cache; the other one does not use the cache. An attach
/// of the second volume took the first one's cache blocks.
#[test]
fn what_the_cache_has_of_a_volume_is_no_other_volumes() {
    let mut bench = prepared(15, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    assert!(dirty(&mut bench) > 0, "no host has flushed");
    bench.create_with("other", "jbod", &["d"], |_| {}).expect("created");
    assert_eq!(bench.show("other").cache.dirty_bytes, 0);
    let before = bench.try_read("other", 0, STRIP).expect("readable");
    assert!(before.iter().all(|byte| *byte != 6), "it read the data of another volume");
    bench.restart(&["a", "b", "c", "d"]);
    assert_eq!(bench.try_read("other", 0, STRIP).expect("readable"), before);
    bench.expect("data", 0, 6, STRIP);
    flush(&mut bench);
    bench.power_cycle(&["a", "b", "c", "d"]);
    bench.expect("data", 0, 6, STRIP);
    assert_eq!(bench.try_read("other", 0, STRIP).expect("readable"), before);
}

/// Always write-back: flushes are acknowledged from the cache. A kill loses nothing, and a change
/// of the mode destages all data.
#[test]
fn always_write_back_answers_flushes() {
    let mut bench = prepared(11, 2, WriteMode::AlwaysWriteBack);
    bench.write("data", 0, 6, STRIP);
    flush(&mut bench);
    assert!(dirty(&mut bench) > 0, "the flush was acknowledged at once");
    bench.restart(&DRIVES);
    bench.expect("data", 0, 6, STRIP);
    bench.write("data", 0, 7, 512);
    bench.ask(set(WriteMode::WriteBack)).expect("set");
    assert_eq!(dirty(&mut bench), 0);
    bench.power_cycle(&DRIVES);
    bench.expect("data", 512, 6, STRIP - 512);
}

/// A volume's drives were missing when a controller was started and cleanly stopped. The memory had
/// none of its data by then, but its label named the memory: the volume was refused when its drives
/// returned.
#[test]
fn memory_that_a_label_names_stays_while_its_drives_are_away() {
    let mut bench = prepared(14, 2, WriteMode::WriteBack);
    flush(&mut bench);
    end(&mut bench, End::Killed);
    DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").vanish());
    bench.boot(&[]);
    bench.shut_down();
    DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").come_back());
    bench.restart(&DRIVES);
    bench.expect("data", 0, OLD, 6 * STRIP);
    assert_eq!(mode(&mut bench).1, "write-back");
}

/// A process without a cache finds the memory of an earlier one: its data is destaged, no later
/// write is acknowledged from it, and an event says so.
#[test]
fn a_process_without_a_cache_destages_what_an_earlier_one_left() {
    let mut bench = prepared(15, 2, WriteMode::WriteBack);
    bench.write("data", 0, 6, STRIP);
    end(&mut bench, End::Killed);
    bench.cache_size = ByteCount::ZERO;
    bench.boot(&DRIVES);
    bench.expect("data", 0, 6, STRIP);
    bench.wait(30);
    let (configured, current, why) = mode(&mut bench);
    assert_eq!((configured.as_str(), current.as_str()), ("write-back", "write-through"));
    assert!(why.contains("--cache SIZE"), "{why}");
    bench.write("data", 0, 7, STRIP);
    assert_eq!(dirty(&mut bench), 0);
    // Its label names no memory any more.
    end(&mut bench, End::Killed);
    let env = bench.sim.env();
    let forgotten = bench.sim.run(async move { env.world().forget_kept_memory("cache").await });
    forgotten.expect("it ends").expect("the memory is deleted");
    bench.boot(&DRIVES);
    bench.expect("data", 0, 7, STRIP);
}

/// Reads through a shard; returns the first byte.
fn read_through(bench: &mut Bench, shard: usize, at: u64) -> u8 {
    let volume = bench.shards[shard].volume_named("data").expect("the volume is online");
    let (range, buf) =
        (ByteRange::new(ByteOffset(at), ByteCount(512)), Buf::unpooled(ByteCount(512)));
    let read =
        volume.shard().env().clone().spawn("read", async move { volume.read(range, buf).await });
    let (result, buf) = bench.sim.finish(&read).expect("it ends");
    result.expect("readable");
    buf.expect("no drive keeps it").bytes()[0]
}

/// Writes through a shard.
fn write_through(bench: &mut Bench, shard: usize, byte: u8) {
    let volume = bench.shards[shard].volume_named("data").expect("the volume is online");
    let (range, data) =
        (ByteRange::new(ByteOffset(0), ByteCount(512)), Buf::copy_of(&[byte; 512]).freeze());
    let env = volume.shard().env().clone();
    let write =
        env.spawn("write", async move { volume.write(range, data, Durability::Cached).await });
    bench.sim.finish(&write).expect("it ends").expect("written");
}

/// An operator ends write-back twice while a destage waits for a drive. The second command took
/// effect at once on a shard without dirty data: it read past the cache, and its writes were
/// overwritten by the older data of the cache.
#[test]
fn write_back_that_is_ended_twice_hides_nothing_that_is_dirty() {
    for shard in 0..2 {
        let mut bench = Bench::in_order(16, 2, 2);
        bench.cache_size = ByteCount(MIB);
        bench.boot(&[]);
        let wished =
            |wanted: &mut controller::CreateVolume| wanted.write_mode = Some(WriteMode::WriteBack);
        bench.create_with("data", "raid0", &["a", "b"], wished).expect("created");
        bench.write("data", 0, OLD, 2 * STRIP);
        flush(&mut bench);
        // Both strips of a stripe are dirty, a host flushes them, and the drive of the second strip
        // is slow.
        bench.write("data", 0, 6, 2 * STRIP);
        bench.sim.drive("b").expect("the drive exists").stall_next(1, Duration::from_secs(20));
        let volume = bench.shards[0].volume_named("data").expect("the volume is online");
        let env = volume.shard().env().clone();
        let _flush = env.spawn("flush", async move { volume.flush().await });
        bench.wait(1);
        let _first = bench.begin_ask(set(WriteMode::WriteThrough));
        let _second = bench.begin_ask(set(WriteMode::WriteThrough));
        // The first command waits ten seconds for its end before the second one runs.
        bench.wait(12);
        assert!(dirty(&mut bench) > 0, "the drive has not taken the write");
        assert_eq!(read_through(&mut bench, shard, STRIP), 6, "shard {shard} reads past the cache");
        write_through(&mut bench, shard, 7);
        bench.wait(60);
        assert_eq!(dirty(&mut bench), 0);
        bench.expect("data", 0, 7, 512);
        bench.expect("data", 512, 6, 2 * STRIP - 512);
        bench.restart(&["a", "b"]);
        bench.expect("data", 0, 7, 512);
    }
}

/// A process without a cache cannot yet destage an earlier one's data. A shard that owned none of
/// that data read past it.
#[test]
fn what_an_earlier_process_left_is_read_from_the_cache_until_it_is_destaged() {
    for shard in 0..2 {
        let mut bench = prepared(17, 2, WriteMode::WriteBack);
        bench.write("data", 0, 6, 2 * STRIP);
        end(&mut bench, End::Killed);
        bench.cache_size = ByteCount::ZERO;
        bench.boot(&DRIVES);
        for drive in DRIVES.map(|name| bench.sim.drive(name).expect("the drive exists")) {
            drive.fail_next(1_000, Some("write"), IoErrorKind::OutOfSpace);
        }
        bench.wait(2);
        assert!(dirty(&mut bench) > 0, "the drives have no space for it");
        assert_eq!(read_through(&mut bench, shard, 0), 6, "shard {shard} reads past the cache");
    }
}
