//! The seed determines a run.

mod common;
use common::{flush, open, read, write};
use platform::{Durability, Env};
use platform_sim::{DriveFaults, DriveOptions, Order, Sim, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// Tasks that read, write, sleep and send, on two drives, with a power cut in the middle.
fn busy_run(seed: u64, order: Order, faults: DriveFaults) -> (u64, u64, Vec<String>) {
    let mut sim = Sim::new(SimOptions { order, shards: 2, ..SimOptions::seeded(seed) });
    let lines = Rc::new(RefCell::new(Vec::new()));
    let sink = lines.clone();
    sim.trace_to(move |record| sink.borrow_mut().push(record.to_string()));
    sim.add_drive("a", DriveOptions { faults, ..DriveOptions::sized(ByteCount::MIB) });
    sim.add_drive("b", DriveOptions::sized(ByteCount::MIB));
    start_tasks(&sim.shard(0), "a");
    start_tasks(&sim.shard(1), "b");
    sim.stop_at_event(Some(300));
    sim.run_until_idle().unwrap_err();
    sim.stop_at_event(None);
    sim.power_cut();
    let env = sim.restart_process();
    start_tasks(&env, "a");
    sim.run_until_idle().unwrap();
    let hash = sim.hash();
    let lines = lines.take();
    (hash, sim.events(), lines)
}

fn start_tasks(env: &Env, drive: &'static str) {
    let opener = env.clone();
    env.spawn("opener", async move {
        let drive = open(&opener, drive).await;
        for task in 0..8u64 {
            let (env, drive) = (opener.clone(), drive.clone());
            opener.spawn("worker", async move {
                for round in 0..10 {
                    let at = env.random() % 128 * 4096;
                    // With spontaneous faults some fail; the trace shows which.
                    let written = write(&drive, at, &[task as u8; 4096], Durability::Cached).await;
                    env.trace("written", u64::from(written.is_ok()), at);
                    env.sleep(Duration::from_micros(env.random() % 100)).await;
                    let found = read(&drive, at, 4096).await;
                    env.trace("read", found.map_or(u64::MAX, |bytes| u64::from(bytes[0])), at);
                    if round % 4 == 0 {
                        flush(&drive).await.unwrap();
                    }
                    env.trace("round", task, round);
                }
            });
        }
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for order in [Order::Fifo, Order::Shuffled] {
        for (seed, faults) in
            (0..5).flat_map(|seed| [(seed, DriveFaults::default()), (seed, ailing())])
        {
            let (first, second) = (busy_run(seed, order, faults), busy_run(seed, order, faults));
            assert!(first.2.len() > 500, "{} lines", first.2.len());
            assert_eq!(first, second);
        }
    }
}

/// All kinds of spontaneous faults.
fn ailing() -> DriveFaults {
    DriveFaults {
        within: None,
        unreadable_every: Some(Duration::from_micros(300)),
        rot_every: Some(Duration::from_micros(300)),
        longest_run_sectors: 16,
        unwritable_one_in: 200,
        lost_write_one_in: 10,
        misdirected_write_one_in: 10,
        slow_every: Some(Duration::from_millis(1)),
        slow_for: Duration::from_micros(500),
        slow_times: 5,
    }
}

#[test]
fn every_kind_of_fault_comes_and_no_other_drive_notices() {
    let (plain, ailing) =
        (busy_run(1, Order::Fifo, DriveFaults::default()), busy_run(1, Order::Fifo, ailing()));
    for name in [
        "rots by itself",
        "medium error by itself",
        "loses a write",
        "misdirects a write",
        "Medium",
    ] {
        assert!(ailing.2.iter().any(|line| line.contains(name)), "{name}");
        assert!(!plain.2.iter().any(|line| line.contains(name)), "{name}");
    }
    // Before the power cut, the other drive must behave the same, at the same times.
    let beside = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains(" b: ")).take(50).cloned().collect()
    };
    assert_eq!(beside(&plain.2), beside(&ailing.2));
}

#[test]
fn different_seeds_give_different_runs() {
    let mut hashes: Vec<u64> =
        (0..20).map(|seed| busy_run(seed, Order::Shuffled, DriveFaults::default()).0).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
}

#[test]
fn a_note_more_or_a_draw_more_changes_the_hash_but_not_what_drives_do() {
    let run = |extra: bool| {
        let mut sim = Sim::new(SimOptions::seeded(3));
        let drive = sim.add_drive("a", DriveOptions::sized(ByteCount::MIB));
        let env = sim.env();
        sim.run(async move {
            if extra {
                env.trace("extra", env.random(), 0);
            }
            let drive = open(&env, "a").await;
            for at in 0..20 {
                write(&drive, at * 4096, &[1; 4096], Durability::Cached).await.unwrap();
            }
        })
        .unwrap();
        drive.power_cut();
        (
            sim.now(),
            (0..20)
                .map(|at| drive.peek(units::ByteOffset(at * 4096), ByteCount(4096)))
                .collect::<Vec<_>>(),
            sim.hash(),
        )
    };
    let (plain, extra) = (run(false), run(true));
    assert_eq!((plain.0, &plain.1), (extra.0, &extra.1));
    assert_ne!(plain.2, extra.2);
}
