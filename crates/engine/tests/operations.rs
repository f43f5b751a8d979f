//! Writes to one stripe without a task, and their faults in each step.

use crate::common::{Bench, Setup, data, drive, envs, open, parity, pattern, read, write};
use engine::{Attachment, JournalOn, JournalPlace, LogDevice, ReportKind};
use layout::Level;
use ondisk::{TailPlace, Uuid};
use platform::{Durability, Env, IoError, IoErrorKind, IoOutcome, IoRequest, JoinHandle, Receiver};
use platform_sim::{DriveOptions, Order, Sim, SimDrive, SimOptions};
use smallvec::smallvec;
use std::time::Duration;
use units::{ByteCount, ByteOffset};

const STRIP: u64 = 4096;

const SHAPES: [(Level, u16); 2] = [(Level::Raid5, 4), (Level::Raid6, 6)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Journal {
    None,
    Members,
    /// On the drive after the members.
    Device,
}

/// Each shape without and with a journal.
fn cases() -> impl Iterator<Item = ((Level, u16), Journal)> {
    SHAPES.into_iter().flat_map(|shape| {
        [Journal::None, Journal::Members, Journal::Device].map(|journal| (shape, journal))
    })
}

/// The members with room for a journal, and a log device.
fn sim(setup: &Setup, seed: u64) -> (Sim, Vec<SimDrive>) {
    let mut options = SimOptions::seeded(seed);
    options.order = Order::Shuffled;
    let mut sim = Sim::new(options);
    let size = ByteCount(40 << 20);
    for slot in 0..=setup.drives {
        sim.add_drive(&format!("d{slot}"), DriveOptions::sized(size));
    }
    let drives = (0..=setup.drives).map(|slot| drive(&sim, slot)).collect();
    (sim, drives)
}

async fn start(envs: Vec<Env>, setup: &Setup, journal: Journal) -> Bench {
    let on = match journal {
        Journal::None => None,
        Journal::Members => Some(JournalOn::Members { at: ByteCount(8192), tail: TailPlace::End }),
        Journal::Device => {
            let source = open(&envs[0], setup.drives).await;
            let devices = vec![LogDevice { id: Uuid([4; 16]), source }];
            Some(JournalOn::Devices { at: ByteOffset(1 << 20), devices })
        }
    };
    let len = ByteCount(256 << 10);
    let journal = on.map(|on| JournalPlace { id: Uuid([9; 16]), len, on });
    let attachment = setup.attachment(&envs[0]).await;
    Bench::attach(envs, Attachment { journal, ..attachment }).await
}

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

/// A host writes to the second strip of the first stripe.
fn begin_write(bench: &Bench, new: &[u8]) -> JoinHandle<Result<(), IoError>> {
    let (volume, new) = (bench.volume().clone(), new.to_vec());
    bench.env.spawn("host", async move { write(&volume, STRIP + 512, &new).await })
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
    for ((level, count), journal) in cases() {
        let setup = Setup::new(level, count);
        let (mut sim, drives) = sim(&setup, 3);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = start(envs, &setup, journal).await;
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
            expect(&bench, &setup, &drives, &bytes, &format!("{level:?}, {journal:?}")).await;
        });
        ran.expect("no stall");
    }
}

/// Many writes at once to the same stripes: those that meet a lock take tasks.
#[test]
fn writes_of_different_strips_at_once_leave_redundancy_that_agrees() {
    for ((level, count), journal) in cases() {
        let setup = Setup::new(level, count);
        let (mut sim, drives) = sim(&setup, 4);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = start(envs, &setup, journal).await;
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
            expect(&bench, &setup, &drives, &bytes, &format!("{level:?}, {journal:?}")).await;
        });
        ran.expect("no stall");
    }
}

/// A drive fails an operation of the write: the old data or redundancy cannot be read, or the new
/// one is not written. The write succeeds, and nothing that it promises is lost.
#[test]
fn a_write_survives_what_one_drive_fails_in_each_step() {
    let kinds = [IoErrorKind::Medium, IoErrorKind::Gone, IoErrorKind::Busy];
    let cases = cases().flat_map(|case| {
        kinds.into_iter().flat_map(move |kind| {
            ["read", "write"]
                .into_iter()
                .flat_map(move |step| [false, true].map(|of_parity| (case, kind, step, of_parity)))
        })
    });
    for (((level, count), journal), kind, step, of_parity) in cases {
        if (kind, step) == (IoErrorKind::Busy, "write") {
            continue; // A drive that is only busy does not fail: the host gets the error.
        }
        let which = format!("{level:?}, {journal:?}, {kind:?} at a {step}, of parity: {of_parity}");
        let setup = Setup::new(level, count);
        let (mut sim, drives) = sim(&setup, 5);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = start(envs, &setup, journal).await;
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
    for journal in [Journal::None, Journal::Members, Journal::Device] {
        run_a_plan_of_an_earlier_state(journal);
    }
}

fn run_a_plan_of_an_earlier_state(journal: Journal) {
    let setup = Setup::new(Level::Raid5, 4);
    let (mut sim, drives) = sim(&setup, 6);
    let envs = envs(&sim, &setup);
    let ran = sim.run(async move {
        let bench = start(envs, &setup, journal).await;
        let mut bytes = content(&bench, 1).await;
        let (written, _) = data(&setup, 0, 1);
        let slow = drives[usize::from(written)].clone();
        slow.hold();
        let new = pattern(9, 1024);
        bytes[STRIP as usize + 512..][..1024].copy_from_slice(&new);
        let host = begin_write(&bench, &new);
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

/// A drive fails while the record of a write is being written. The record may be replayed, so the
/// write is done by its plan: a later plan could not know the old data of the missing drive.
#[test]
fn a_write_with_a_record_is_finished_by_its_plan_when_a_drive_fails() {
    // Another drive of the stripe, that of the data, and that of the parity.
    for lost in 0..3 {
        let setup = Setup::new(Level::Raid5, 4);
        let (mut sim, drives) = sim(&setup, 7);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = start(envs, &setup, Journal::Device).await;
            let mut bytes = content(&bench, 1).await;
            let log = drives[4].clone();
            log.hold();
            let new = pattern(9, 1024);
            bytes[STRIP as usize + 512..][..1024].copy_from_slice(&new);
            let host = begin_write(&bench, &new);
            bench.wait(Duration::from_millis(1)).await;
            assert_eq!(log.in_flight(), 1, "its record is being written");
            let before: u64 = drives[..4].iter().map(|member| member.stats().writes).sum();
            let (slot, _) = match lost {
                0 => data(&setup, 0, 0),
                1 => data(&setup, 0, 1),
                _ => parity(&setup, 0),
            };
            drives[usize::from(slot)].fail_now();
            // A request notices the failure; the stripe itself is in use.
            let reader = {
                let (volume, at) = (bench.volume().clone(), first_on(&setup, slot));
                bench.env.spawn("host", async move { read(&volume, at, 512).await })
            };
            bench.wait(Duration::from_millis(1)).await;
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 1);
            let now: u64 = drives[..4].iter().map(|member| member.stats().writes).sum();
            assert_eq!(now, before, "nothing is written before the record");
            log.release();
            host.await.expect("writable");
            assert_eq!(bench.volume().counters().replans, 0, "it is done by its plan");
            reader.await.expect("redundant");
            let got = read(bench.volume(), 0, bytes.len() as u64).await.expect("readable");
            assert!(got == bytes, "without drive {slot}");
            bench.volume().check_invariants().expect("the result is correct");
        });
        ran.expect("no stall");
    }
}

/// The offset of the first data of a drive behind the first stripe.
fn first_on(setup: &Setup, slot: u16) -> u64 {
    let strips = (1..16).flat_map(|stripe| (0..3).map(move |index| (stripe, index)));
    let on_it = |(stripe, index): &(u64, u16)| data(setup, *stripe, *index).0 == slot;
    let (stripe, index) = strips.into_iter().find(on_it).expect("parity rotates");
    (stripe * 3 + u64::from(index)) * STRIP
}

/// A busy log device refuses the record of a write: no member changes. The write is done again with
/// another record, and its host gets an error if that is refused too.
#[test]
fn a_write_whose_record_fails_writes_nothing() {
    let setup = Setup::new(Level::Raid5, 4);
    let (mut sim, drives) = sim(&setup, 8);
    let envs = envs(&sim, &setup);
    let ran = sim.run(async move {
        let bench = start(envs, &setup, Journal::Device).await;
        let bytes = content(&bench, 1).await;
        let writes = || drives[..4].iter().map(|member| member.stats().writes).sum::<u64>();
        let before = writes();
        drives[4].fail_next(1, Some("write"), IoErrorKind::Busy);
        let outcome = write_operation(&bench, STRIP + 512, &pattern(9, 1024)).await;
        let outcome = outcome.expect("begins without a task");
        // A busy device stays in service: the write is done again, with another record.
        assert_eq!(outcome.result, Ok(1024));
        assert_eq!(bench.volume().counters().replans, 1);
        assert_eq!(writes(), before + 2, "data and parity, once");
        let mut expected = bytes.clone();
        expected[STRIP as usize + 512..][..1024].copy_from_slice(&pattern(9, 1024));
        drives[4].fail_next(2, Some("write"), IoErrorKind::Busy);
        let outcome = write_operation(&bench, STRIP + 512, &pattern(8, 1024)).await;
        let outcome = outcome.expect("begins without a task");
        assert!(outcome.result.is_err(), "two records have failed");
        assert_eq!(writes(), before + 2, "nothing was written");
        expect(&bench, &setup, &drives[..4], &expected, "after failed records").await;
    });
    ran.expect("no stall");
}
