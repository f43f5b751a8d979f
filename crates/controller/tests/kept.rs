//! Journals with full-stripe writes, which have no record, and with drives that take a slot.

use crate::common::Bench;
use crate::common::events::{End, at_every_event, end};
use controller::{Command, DriveState, Reply, VolumeState};
use platform::{Buf, Durability};
use std::collections::BTreeSet;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{LogId, scan};

const STRIP: u64 = 64 << 10;
/// The number of stripes that are written.
const STRIPES: u64 = 5;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A volume with some stripes of fives, flushed and unmarked.
fn filled(mut bench: Bench) -> Bench {
    bench.boot(&[]);
    bench.create("data", "raid5", &NAMES);
    bench.settle("data");
    (0..STRIPES).for_each(|stripe| bench.write("data", stripe * 3 * STRIP, 5, 3 * STRIP));
    bench.settle("data");
    bench
}

/// Each byte is the old one, or a nine where nines were being written.
fn look(bench: &mut Bench, when: &str) {
    let bytes = bench.try_read("data", 0, STRIPES * 3 * STRIP).expect("the volume tolerates it");
    for (at, byte) in bytes.iter().enumerate() {
        let may_be_new = (4096..4096 + 8192).contains(&(at as u64 % (3 * STRIP))) && *byte == 9;
        assert!(*byte == 5 || may_be_new, "{when}: {byte} at {at}");
    }
}

/// A durable write of a few blocks was acknowledged into an unflushed full-stripe write. At a power
/// cut a drive was lost as well. The record restored the blocks and their parity; but that parity
/// included the full stripe on the other drives, whose caches had lost a part of it: the durable
/// blocks on the lost drive read as garbage. An unrecorded full stripe is flushed before a record
/// in it makes a write durable.
#[test]
fn a_durable_write_into_a_whole_stripe_outlives_the_power_and_a_drive() {
    for seed in 0..40 {
        let mut bench = Bench::new(seed, 1, 4);
        bench.boot(&[]);
        bench.create("data", "raid5", &["a", "b", "c", "d"]);
        bench.settle("data");
        bench.write("data", 0, 1, 3 * STRIP);
        bench.settle("data");
        bench.write("data", 0, 2, 3 * STRIP);
        let volume = bench.shards[0].volume_named("data").expect("the volume is online");
        let (range, data) =
            (ByteRange::new(ByteOffset(0), ByteCount(8192)), Buf::copy_of(&[3; 8192]).freeze());
        let written =
            bench.sim.run(async move { volume.write(range, data, Durability::Durable).await });
        written.expect("it ends").expect("acknowledged");
        bench.forget();
        bench.sim.power_cut();
        bench.sim.restart_process();
        // The first strip of the first stripe is there.
        bench.sim.drive("a").expect("the drive exists").vanish();
        bench.boot(&[]);
        bench.expect("data", 0, 3, 8192);
    }
}

/// Ten writes, to a few blocks of each of five stripes, while `b` is copied to `e`, until `e` has
/// taken the slot.
fn write_while_a_drive_takes_the_slot(bench: &mut Bench) -> Option<()> {
    let (drive, with) = ("b".to_owned(), "e".to_owned());
    let replace = Command::DriveReplace { drive, with, destroy_data: true };
    bench.try_ask(replace).ok()?.expect("the replacement begins");
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let env = bench.sim.env();
    let writes = async move {
        for number in 0..10u64 {
            let range = ByteRange::new(ByteOffset(number % 5 * 3 * STRIP + 4096), ByteCount(8192));
            let data = Buf::copy_of(&[9; 8192]).freeze();
            volume.write(range, data, Durability::Cached).await.expect("the volume is online");
            env.sleep(Duration::from_micros(1500)).await;
        }
    };
    bench.sim.run(writes).ok()
}

/// A copied drive took its slot. From then on live records had one copy less, as the old drive had
/// left. With a drive lost in a crash just then, a record had no copy: the operator was asked, or
/// other blocks read wrongly. Drives in a rebuild get records, too.
#[test]
fn a_crash_while_a_copied_drive_takes_the_slot_may_take_another_drive_with_it() {
    let prepare = || filled(Bench::in_order(11, 1, 5));
    let check = |lost: &'static str| {
        move |bench: &mut Bench, _: Option<()>, event: u64| {
            bench.sim.drive(lost).expect("the drive exists").vanish();
            bench.boot(&[]);
            let info = bench.show("data");
            assert_eq!(info.state, VolumeState::Degraded, "event {event}: {:?}", info.reasons);
            look(bench, &format!("event {event}, without {lost}"));
        }
    };
    for (how, lost) in [(End::Killed, "a"), (End::PowerCut, "c")] {
        at_every_event(4, how, prepare, write_while_a_drive_takes_the_slot, check(lost));
    }
}

/// A copy was complete and recorded; the controller stopped before the copy took the slot. After
/// the next start nothing was left to copy, so nothing was recorded, and only a record lets the
/// copy take the slot: the replacement waited without end, and later tasks behind it.
#[test]
fn a_copy_that_is_complete_takes_the_slot_after_a_start_that_came_between() {
    let prepare = || filled(Bench::in_order(12, 1, 5));
    let replace = |bench: &mut Bench| {
        let (drive, with) = ("b".to_owned(), "e".to_owned());
        let replace = Command::DriveReplace { drive, with, destroy_data: true };
        bench.try_ask(replace).ok()?.expect("the replacement begins");
        let env = bench.sim.env();
        bench.sim.run(async move { env.sleep(Duration::from_secs(3)).await }).ok()
    };
    let check = |bench: &mut Bench, _: Option<()>, event: u64| {
        bench.boot(&[]);
        bench.wait(30);
        let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else {
            panic!("tasks are listed")
        };
        let open: Vec<_> = tasks.iter().filter(|task| !task.state.is_over()).collect();
        assert!(open.is_empty(), "event {event}: {open:?}");
        assert!(
            bench.show("data").drives.iter().all(|drive| drive.state == DriveState::Online),
            "event {event}"
        );
    };
    at_every_event(3, End::Killed, prepare, replace, check);
}

/// The number of whole records, of any journal, at the beginning of the journals' space.
fn records_on(bench: &Bench, name: &str) -> usize {
    let drive = bench.sim.drive(name).expect("the drive exists");
    let room = ondisk::Tail::of(drive.size()).expect("the drive is large enough").journals();
    let bytes = drive.peek(room.start, ByteCount(1 << 20)).expect("the journal is readable");
    let heads =
        bytes.chunks(ondisk::BLOCK.as_usize()).filter(|block| block.starts_with(b"SRoCjrnl"));
    let ids: BTreeSet<[u8; 16]> =
        heads.map(|head| head[16..32].try_into().expect("16 bytes")).collect();
    ids.into_iter()
        .map(|id| scan(&bytes, LogId(id)).iter().filter(|record| record.head.sequence > 0).count())
        .sum()
}

/// Writes a few blocks of a stripe until the controller ends.
fn write_a_few_blocks(bench: &mut Bench, stripe: u64) -> Option<()> {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let range = ByteRange::new(ByteOffset(stripe * 3 * STRIP + 4096), ByteCount(8192));
    let data = Buf::copy_of(&[9; 8192]).freeze();
    bench
        .sim
        .run(async move {
            volume.write(range, data, Durability::Cached).await.expect("the volume is online")
        })
        .ok()
}

/// A kill during the write of a record left it on one drive only. The next start replayed it, and
/// was killed during the replay: the blocks were written, their parity was not. Then that drive was
/// lost. No record was left, and the lost drive's blocks in these columns read as garbage. A record
/// gets all its copies before it is replayed.
#[test]
fn a_torn_record_is_carried_out_when_it_cannot_be_lost_any_more() {
    let prepare = |seed| filled(Bench::new(seed, 1, 4));
    let mut tried = 0;
    for (seed, stripe) in (0..3).flat_map(|seed| (0..4).map(move |stripe| (seed, stripe))) {
        let torn_at = |event: u64| {
            let mut bench = prepare(seed);
            let before = NAMES.map(|name| records_on(&bench, name));
            let first = bench.sim.events();
            bench.sim.stop_at_event(Some(first + event));
            let ended = write_a_few_blocks(&mut bench, stripe).is_some();
            end(&mut bench, End::Killed);
            let after = NAMES.map(|name| records_on(&bench, name));
            let holders: Vec<usize> =
                (0..NAMES.len()).filter(|at| after[*at] > before[*at]).collect();
            (bench, holders, ended)
        };
        for event in 12.. {
            let (_, holders, ended) = torn_at(event);
            if ended {
                break;
            }
            if let [holder] = holders[..] {
                tried += 1;
                kill_the_start(|| torn_at(event).0, NAMES[holder]);
                break;
            }
        }
    }
    assert!(tried >= 3, "{tried} records were interrupted");
}

/// Kills a start at every few events of it, and loses a drive.
fn kill_the_start(prepare: impl Fn() -> Bench, lost: &str) {
    for event in (1..).step_by(5) {
        let mut bench = prepare();
        let first = bench.sim.events();
        bench.sim.stop_at_event(Some(first + event));
        let ended = bench.try_boot(&[]).is_ok();
        end(&mut bench, End::Killed);
        bench.sim.drive(lost).expect("the drive exists").vanish();
        bench.boot(&[]);
        look(&mut bench, &format!("event {event}, without {lost}"));
        if ended {
            return;
        }
    }
}

/// A volume on one drive was copied to another one, which took the slot. The power failed before
/// the label of the old drive was erased, and the label stayed. Much later the new drive failed,
/// and the old one was used as the volume, with old data.
#[test]
fn a_drive_that_was_replaced_never_passes_for_the_volume_again() {
    let prepare = || {
        let mut bench = Bench::in_order(13, 1, 2);
        bench.boot(&[]);
        bench.create("data", "jbod", &["a"]);
        bench.write("data", 0, 5, STRIP);
        flush(&mut bench);
        bench
    };
    let replace = |bench: &mut Bench| {
        let (drive, with) = ("data:0".to_owned(), "b".to_owned());
        bench
            .try_ask(Command::DriveReplace { drive, with, destroy_data: true })
            .ok()?
            .expect("the replacement begins");
        let until = bench.sim.now() + Duration::from_secs(8);
        bench.sim.run_until(until).ok()
    };
    let check = |bench: &mut Bench, _: Option<()>, event: u64| {
        bench.boot(&["b"]);
        bench.wait(10);
        let is_replaced = bench.show("data").drives[0].name == "b";
        bench.write("data", 0, 9, STRIP);
        flush(bench);
        end(bench, End::PowerCut);
        bench.sim.drive(if is_replaced { "b" } else { "a" }).expect("the drive exists").vanish();
        bench.boot(&["b"]);
        let read = bench.shards[0].volume_named("data").map(|_| bench.try_read("data", 0, STRIP));
        assert!(!matches!(read, Some(Ok(_))), "event {event}: old data is online");
    };
    at_every_event(1, End::PowerCut, prepare, replace, check);
}

fn flush(bench: &mut Bench) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
}
