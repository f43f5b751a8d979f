//! Writes to one stripe without a task, and their faults in each step.

use crate::common::{Bench, Setup, data, drive, envs, parity, pattern, read, write};
use engine::ReportKind;
use layout::Level;
use platform::{Durability, IoErrorKind, IoOutcome, IoRequest, Receiver};
use platform_sim::SimDrive;
use smallvec::smallvec;
use std::time::Duration;
use units::ByteOffset;

const STRIP: u64 = 4096;

const SHAPES: [(Level, u16); 2] = [(Level::Raid5, 4), (Level::Raid6, 6)];

/// Begins a write without a task, and waits for it. `None`: it needs a task.
async fn write_operation(bench: &Bench, at: u64, bytes: &[u8]) -> Option<IoOutcome> {
    let (io, completion) = bench.env.start_operation(None);
    let slices = smallvec![platform::Buf::copy_of(bytes).freeze()];
    let durability = Durability::Cached;
    let request = IoRequest::Write { offset: ByteOffset(at), slices, durability };
    match bench.volume().begin(request, Receiver::Completion(completion)) {
        None => Some(io.await),
        Some(_) => {
            io.abandon();
            None
        }
    }
}

/// Content of some stripes, so that they are initialised and marked.
async fn content(bench: &Bench, seed: u64) -> Vec<u8> {
    let bytes = pattern(seed, 48 * STRIP);
    write(bench.volume(), 0, &bytes).await.expect("writable");
    bytes
}

/// The volume has these bytes, also without each of its drives.
async fn expect(bench: &Bench, setup: &Setup, drives: &[SimDrive], bytes: &[u8], which: &str) {
    let len = bytes.len() as u64;
    assert!(read(bench.volume(), 0, len).await.expect("readable") == bytes, "{which}");
    let skipped = bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }));
    let spare = setup.geometry().parity_strips() as usize;
    for lost in drives.iter().take(spare.saturating_sub(skipped)) {
        lost.fail_now();
        let got = read(bench.volume(), 0, len).await.expect("readable without it");
        assert!(got == bytes, "{which}: without {}", lost.name());
    }
    bench.volume().check_invariants().expect("the result is correct");
}

#[test]
fn a_write_to_a_healthy_stripe_needs_no_task_and_redundancy_follows() {
    for (level, count) in SHAPES {
        let setup = Setup::new(level, count);
        let mut sim = setup.sim(3, 0);
        let drives: Vec<SimDrive> = (0..count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let mut bytes = content(&bench, 1).await;
            let stripe = setup.geometry().stripe_bytes().0;
            // In a strip, over two strips, a whole stripe but its ends.
            let writes = [(512, 1024), (stripe + 2048, STRIP), (3 * stripe + 512, stripe - 1024)];
            for (at, len) in writes {
                let new = pattern(at + 7, len);
                bytes[at as usize..][..len as usize].copy_from_slice(&new);
                let outcome = write_operation(&bench, at, &new).await;
                let outcome = outcome.unwrap_or_else(|| panic!("{level:?}: {len} at {at}"));
                assert_eq!(outcome.result, Ok(len), "{level:?}: {len} at {at}");
            }
            let tasks = bench.env.executor().unfinished_tasks();
            assert!(!tasks.contains(&"unfinished request"), "{level:?}: {tasks:?}");
            // Over the end of a stripe, at its ends, and a part of a sector: these need a task.
            for (at, len) in
                [(stripe - 512, 1024), (0, 512), (stripe - 512, 512), (0, stripe), (600, 300)]
            {
                assert!(write_operation(&bench, at, &pattern(2, len)).await.is_none());
            }
            expect(&bench, &setup, &drives, &bytes, &format!("{level:?}")).await;
        });
        ran.expect("no stall");
    }
}

/// Many writes at once to the same stripes: those that meet a lock take tasks.
#[test]
fn writes_of_different_strips_at_once_leave_redundancy_that_agrees() {
    for (level, count) in SHAPES {
        let setup = Setup::new(level, count);
        let mut sim = setup.sim(4, 0);
        let drives: Vec<SimDrive> = (0..count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let mut bytes = content(&bench, 1).await;
            for turn in 0..4 {
                let hosts: Vec<_> = (0..48_u64)
                    .map(|strip| {
                        let new = pattern(turn * 100 + strip, 1024);
                        let at = strip * STRIP + turn % 3 * 1024;
                        bytes[at as usize..][..1024].copy_from_slice(&new);
                        let volume = bench.volume().clone();
                        bench.env.spawn("host", async move { write(&volume, at, &new).await })
                    })
                    .collect();
                for host in hosts {
                    host.await.expect("writable");
                }
            }
            expect(&bench, &setup, &drives, &bytes, &format!("{level:?}")).await;
        });
        ran.expect("no stall");
    }
}

/// A drive fails an operation of the write: the old data or redundancy cannot be read, or the new
/// one is not written. The write succeeds, and nothing that it promises is lost.
#[test]
fn a_write_survives_what_one_drive_fails_in_each_step() {
    let kinds = [IoErrorKind::Medium, IoErrorKind::Gone, IoErrorKind::Busy];
    let cases = SHAPES.into_iter().flat_map(|shape| {
        kinds.into_iter().flat_map(move |kind| {
            ["read", "write"]
                .into_iter()
                .flat_map(move |step| [false, true].map(|of_parity| (shape, kind, step, of_parity)))
        })
    });
    for ((level, count), kind, step, of_parity) in cases {
        if (kind, step) == (IoErrorKind::Busy, "write") {
            continue; // A drive that is only busy does not fail: the host gets the error.
        }
        let which = format!("{level:?}, {kind:?} at a {step}, of parity: {of_parity}");
        let setup = Setup::new(level, count);
        let mut sim = setup.sim(5, 0);
        let drives: Vec<SimDrive> = (0..count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let mut bytes = content(&bench, 1).await;
            let (bad, _) = if of_parity { parity(&setup, 0) } else { data(&setup, 0, 1) };
            let bad = &drives[usize::from(bad)];
            bad.fail_next(1, Some(step), kind);
            let new = pattern(9, 1024);
            bytes[STRIP as usize + 512..][..1024].copy_from_slice(&new);
            let outcome = write_operation(&bench, STRIP + 512, &new).await;
            let outcome = outcome.unwrap_or_else(|| panic!("{which}: begins without a task"));
            assert_eq!(outcome.result, Ok(1024), "{which}");
            let failed = bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }));
            assert!(failed == 1 || kind != IoErrorKind::Gone, "{which}: the drive is out");
            let others: Vec<SimDrive> =
                drives.iter().filter(|other| other.name() != bad.name()).cloned().collect();
            expect(&bench, &setup, &others, &bytes, &which).await;
        });
        ran.expect("no stall");
    }
}

/// Between the reads and the writes of a write, the state of its stripe changes: its plan would
/// write redundancy for drives that are not all there.
#[test]
fn a_plan_of_an_earlier_state_writes_nothing() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(6, 0);
    let drives: Vec<SimDrive> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let mut bytes = content(&bench, 1).await;
        let (written, _) = data(&setup, 0, 1);
        let slow = drives[usize::from(written)].clone();
        slow.hold();
        let new = pattern(9, 1024);
        bytes[STRIP as usize + 512..][..1024].copy_from_slice(&new);
        let host = {
            let (volume, new) = (bench.volume().clone(), new.clone());
            bench.env.spawn("host", async move { write(&volume, STRIP + 512, &new).await })
        };
        bench.wait(Duration::from_millis(1)).await;
        assert_eq!(slow.in_flight(), 1, "it reads the old data");
        let (other, _) = data(&setup, 0, 0);
        drives[usize::from(other)].fail_now();
        let reader = {
            let volume = bench.volume().clone();
            bench.env.spawn("host", async move { read(&volume, 0, 512).await })
        };
        bench.wait(Duration::from_millis(1)).await;
        let before = slow.stats().writes;
        slow.release();
        host.await.expect("writable");
        assert!(reader.await.expect("redundant") == bytes[..512]);
        assert!(slow.stats().writes > before, "it was written, by another plan");
        assert_eq!(bench.volume().counters().replans, 1, "the write was planned again");
        let got = read(bench.volume(), 0, bytes.len() as u64).await.expect("readable");
        assert!(got == bytes, "the missing drive's data is what parity says");
        bench.volume().check_invariants().expect("the result is correct");
    });
    ran.expect("no stall");
}
