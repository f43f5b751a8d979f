//! The cache's memory is reserved in steps, as shards need it.

use crate::common::{self, Bench, MIB};
use controller::{Command, SetPolicy, WriteMode};
use platform_sim::{Order, Sim, SimOptions};
use units::ByteCount;

const DRIVES: [&str; 3] = ["a", "b", "c"];

/// A few blocks.
const STEP: ByteCount = ByteCount(16 << 10);

/// A host with space for persistent memory, and a write-back volume.
fn prepared(seed: u64, space: Option<ByteCount>) -> Bench {
    let mut bench = Bench::new(seed, 2, 0);
    let options = SimOptions { order: Order::Fifo, kept_space: space, ..common::options(seed, 2) };
    bench.sim = Sim::new(options);
    for name in DRIVES {
        bench.sim.add_drive(name, common::drive_options());
    }
    (bench.cache_size, bench.cache_step) = (ByteCount(MIB), STEP);
    bench.boot(&[]);
    let write_back =
        |wanted: &mut controller::CreateVolume| wanted.write_mode = Some(WriteMode::WriteBack);
    bench.create_with("data", "raid5", &DRIVES, write_back).expect("created");
    bench.settle("data");
    bench
}

fn dirty(bench: &mut Bench) -> u64 {
    bench.show("data").cache.dirty_bytes
}

/// Writes `count` pieces of 4 KiB, of which no two are contiguous.
fn write_pieces(bench: &mut Bench, count: u64) {
    (0..count).for_each(|number| bench.write("data", number * 8192, piece(number), 4096));
}

fn piece(number: u64) -> u8 {
    1 + (number % 250) as u8
}

fn expect_pieces(bench: &mut Bench, count: u64) {
    (0..count).for_each(|number| bench.expect("data", number * 8192, piece(number), 4096));
}

/// The first volume reserved the whole cache, which took seconds; now shards get more when half of
/// their blocks are in use, and the next process finds all of it.
#[test]
fn the_cache_grows_while_hosts_write() {
    let mut bench = prepared(1, None);
    write_pieces(&mut bench, 48);
    let held = dirty(&mut bench);
    assert!(held > 2 * STEP.0, "{held} bytes are dirty, more than the first steps");
    bench.restart(&DRIVES);
    assert!(dirty(&mut bench) > 2 * STEP.0, "hosts do not wait for the destage");
    expect_pieces(&mut bench, 48);
    write_pieces(&mut bench, 64);
    bench.restart(&DRIVES);
    expect_pieces(&mut bench, 64);
    assert!(!bench.has_event("instead of"), "{:?}", bench.events());
}

/// The host has no more memory: the cache stays as it is, hosts get no errors, and an event says so
/// once. When there is memory, the cache grows.
#[test]
fn a_step_that_fails_makes_the_cache_smaller() {
    // The control words, and three steps.
    let words = 8 * write_log::memory::MemoryHead::words((MIB / 4096) as u32) as u64;
    let mut bench = prepared(2, Some(ByteCount(words + 3 * STEP.0)));
    write_pieces(&mut bench, 64);
    assert_eq!(bench.count_events("the write cache has"), 1, "{:?}", bench.events());
    expect_pieces(&mut bench, 64);
    bench.restart(&DRIVES);
    expect_pieces(&mut bench, 64);
    write_pieces(&mut bench, 64);
    bench.ask(Command::VolumeFlush { volume: "data".into() }).expect("flushed");
    assert_eq!(dirty(&mut bench), 0);
    let end = SetPolicy {
        volume: "data".into(),
        write_mode: Some(WriteMode::WriteThrough),
        ..SetPolicy::default()
    };
    bench.ask(Command::VolumePolicy(end)).expect("set");
    expect_pieces(&mut bench, 64);
}

/// An earlier version reserves all memory and does not record that. The blocks that it used behind
/// the recorded bytes have data: they must be found, and not be given to new writes.
#[test]
fn blocks_that_an_earlier_version_used_are_found() {
    let mut bench = prepared(3, None);
    bench.shut_down();
    bench.cache_step = ByteCount::ZERO;
    bench.restart(&DRIVES);
    write_pieces(&mut bench, 64);
    bench.forget();
    bench.sim.kill();
    let image = bench.sim.kept_image().with_reserved("cache", STEP);
    bench.sim.restart_process();
    bench.sim.restore_kept(&image);
    bench.cache_step = STEP;
    bench.boot(&DRIVES);
    assert!(dirty(&mut bench) > 2 * STEP.0, "the data of the earlier version are in the cache");
    (64..96).for_each(|number| bench.write("data", number * 8192, piece(number), 4096));
    expect_pieces(&mut bench, 96);
    bench.restart(&DRIVES);
    expect_pieces(&mut bench, 96);
}
