//! What the journal must not lose sight of: stripes that were written without a record, and drives that take a slot.

mod common;

use common::Bench;
use common::events::{End, at_every_event};
use controller::{Command, DriveState, Reply, VolumeState};
use env::{Buf, Durability};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 64 << 10;

/// A durable write of a few blocks was acknowledged into a stripe that had been written as a whole, which nobody had flushed. The
/// power was cut, and a drive died with it. The record gave back the blocks and their parity; but that parity stood for what the
/// whole stripe had been given on the other drives, of which their caches had lost a part: the durable blocks, on the drive
/// that died, read as garbage. What is in a stripe without a record is flushed before a record in it promises anything.
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
        let volume = bench.shards[0].volume_named("data").expect("the volume is served");
        let (range, data) =
            (ByteRange::new(ByteOffset(0), ByteCount(8192)), Buf::copy_of(&[3; 8192]).freeze());
        let written = bench.sim.run(async move { volume.write(range, data, Durability::Durable).await });
        written.expect("it ends").expect("it is acknowledged");
        bench.forget();
        bench.sim.power_cut();
        bench.sim.restart_process();
        // The first strip of the first stripe lies there.
        bench.sim.drive("a").expect("it is there").vanish();
        bench.boot(&[]);
        bench.expect("data", 0, 3, 8192);
    }
}

/// Ten writes, to a few blocks of each of five stripes, while `b` is copied to `e` and until that has taken the slot.
fn write_while_a_drive_takes_the_slot(bench: &mut Bench) -> Option<()> {
    let (drive, with) = ("b".to_owned(), "e".to_owned());
    let replace = Command::DriveReplace { drive, with, destroy_data: true };
    bench.try_ask(replace).ok()?.expect("it can be replaced");
    let volume = bench.shards[0].volume_named("data").expect("the volume is served");
    let env = bench.sim.env();
    let writes = async move {
        for number in 0..10u64 {
            let range = ByteRange::new(ByteOffset(number % 5 * 3 * STRIP + 4096), ByteCount(8192));
            let data = Buf::copy_of(&[9; 8192]).freeze();
            volume.write(range, data, Durability::Cached).await.expect("it is served");
            env.sleep(Duration::from_micros(1500)).await;
        }
    };
    bench.sim.run(writes).ok()
}

/// A drive that had been copied took its slot. The records that counted lay on one drive less from then on, as the drive that had been
/// there was nobody's now; with a drive that died in a crash just then, a record was on none, and an operator was asked for his
/// word, or blocks that nobody was writing read as something else. Drives that are being filled get records, too.
#[test]
fn a_crash_while_a_copied_drive_takes_the_slot_may_take_another_drive_with_it() {
    let prepare = || {
        let mut bench = Bench::in_order(11, 1, 5);
        bench.boot(&[]);
        bench.create("data", "raid5", &["a", "b", "c", "d"]);
        bench.settle("data");
        (0..5).for_each(|stripe| bench.write("data", stripe * 3 * STRIP, 5, 3 * STRIP));
        bench.settle("data");
        bench
    };
    let check = |lost: &'static str| {
        move |bench: &mut Bench, _: Option<()>, event: u64| {
            bench.sim.drive(lost).expect("it is there").vanish();
            bench.boot(&[]);
            let info = bench.show("data");
            assert_eq!(info.state, VolumeState::Degraded, "event {event}: {:?}", info.reasons);
            let bytes = bench.try_read("data", 0, 15 * STRIP).expect("it survives that");
            for (at, byte) in bytes.iter().enumerate() {
                let within = at as u64 % (3 * STRIP);
                let may_be_new = (4096..4096 + 8192).contains(&within) && *byte == 9;
                assert!(*byte == 5 || may_be_new, "event {event}, without {lost}: {byte} at {at}");
            }
        }
    };
    for (how, lost) in [(End::Killed, "a"), (End::PowerCut, "c")] {
        at_every_event(4, how, prepare, write_while_a_drive_takes_the_slot, check(lost));
    }
}

/// All of a drive had been copied and that was recorded; the controller was stopped before the copy took the slot. After the next
/// start nothing was left to copy, so nothing was recorded any more, and only what is recorded let the copy take the slot: the
/// replacement waited for ever, and whatever comes after it.
#[test]
fn a_copy_that_is_complete_takes_the_slot_after_a_start_that_came_between() {
    let prepare = || {
        let mut bench = Bench::in_order(12, 1, 5);
        bench.boot(&[]);
        bench.create("data", "raid5", &["a", "b", "c", "d"]);
        bench.settle("data");
        (0..5).for_each(|stripe| bench.write("data", stripe * 3 * STRIP, 5, 3 * STRIP));
        bench.settle("data");
        bench
    };
    let replace = |bench: &mut Bench| {
        let (drive, with) = ("b".to_owned(), "e".to_owned());
        let replace = Command::DriveReplace { drive, with, destroy_data: true };
        bench.try_ask(replace).ok()?.expect("it can be replaced");
        let env = bench.sim.env();
        bench.sim.run(async move { env.sleep(Duration::from_secs(3)).await }).ok()
    };
    let check = |bench: &mut Bench, _: Option<()>, event: u64| {
        bench.boot(&[]);
        bench.wait(30);
        let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks are listed") };
        let open: Vec<_> = tasks.iter().filter(|task| !task.state.is_over()).collect();
        assert!(open.is_empty(), "event {event}: {open:?}");
        assert!(
            bench.show("data").drives.iter().all(|drive| drive.state == DriveState::Online),
            "event {event}"
        );
    };
    at_every_event(3, End::Killed, prepare, replace, check);
}
