//! A volume as a drive: direct requests without a task, and their fallback on failure.

use crate::common::{self, Bench, Setup, drive, envs, pattern, range, write};
use engine::{Attachment, ReadTerms, ReportKind, VolumeService};
use layout::Level;
use platform::{Buf, Durability, IoError, IoErrorKind, Member};
use platform_sim::SimDrive;
use smallvec::smallvec;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset};

const STRIP: u64 = 4096;

/// The volume of a bench as a drive, filled with `bytes`.
async fn as_drive(bench: &Bench, bytes: &[u8]) -> Rc<Member> {
    write(bench.volume(), 0, bytes).await.expect("writable");
    let volume = bench.volume();
    let drive = VolumeService::new(volume.clone()).as_drive();
    // The drives' own time limits apply.
    Rc::new(Member::with_time_limit(
        volume.shard().env(),
        Rc::new(drive),
        Duration::from_secs(3600),
    ))
}

async fn read(member: &Member, at: u64, len: u64) -> Vec<u8> {
    let outcome = member.read(ByteOffset(at), smallvec![Buf::unpooled(ByteCount(len))]).await;
    assert_eq!(outcome.result, Ok(len));
    outcome.buffers[0].bytes().to_vec()
}

/// Reads each strip, one after the other.
async fn expect_strips(member: &Member, bytes: &[u8]) {
    for (at, strip) in (0..).step_by(STRIP as usize).zip(bytes.chunks(STRIP as usize)) {
        assert!(read(member, at, STRIP).await == strip, "at {at}");
    }
}

/// No request to the volume as a drive has needed a task.
fn expect_no_task(bench: &Bench, which: &str) {
    let tasks = bench.env.executor().unfinished_tasks();
    let needed = ["served drive", "unfinished request"];
    assert!(!tasks.iter().any(|task| needed.contains(task)), "{which}: needed a task: {tasks:?}");
}

#[test]
fn direct_reads_need_no_task_and_all_others_come_to_the_same() {
    for (level, drives) in [(Level::Raid0, 3), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(5, 0);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = pattern(3, 16 * STRIP);
            let member = as_drive(&bench, &bytes).await;
            let before = bench.volume().counters().fast_path;
            expect_strips(&member, &bytes).await;
            let quick = bench.volume().counters().fast_path - before;
            assert_eq!(quick, 16, "{level:?}");
            expect_no_task(&bench, &format!("{level:?}, one strip"));
            // Across the end of a strip; all strips.
            for (at, len) in [(2048, STRIP), (0, 16 * STRIP)] {
                assert!(read(&member, at, len).await == bytes[at as usize..][..len as usize]);
            }
            expect_no_task(&bench, &format!("{level:?}, several strips"));
            // Part of a sector; empty; two buffers.
            for (at, len) in [(100, 300), (512, 0)] {
                assert!(read(&member, at, len).await == bytes[at as usize..][..len as usize]);
            }
            let tasks = bench.env.executor().unfinished_tasks();
            assert!(tasks.contains(&"served drive"), "{level:?}: these need one: {tasks:?}");
            let two = [Buf::unpooled(ByteCount(512)), Buf::unpooled(ByteCount(1024))]
                .into_iter()
                .collect();
            let outcome = member.read(ByteOffset(512), two).await;
            assert_eq!(outcome.result, Ok(1536));
            assert!(outcome.buffers[1].bytes() == &bytes[1024..2048]);
            let past =
                member.read(ByteOffset(1 << 50), smallvec![Buf::unpooled(ByteCount(512))]).await;
            assert!(past.result.is_err() && past.buffers.len() == 1, "the buffer comes back");
            assert_eq!(member.outstanding(), 0);
            bench.volume().check_invariants().expect("the result is correct");
        });
        ran.expect("no stall");
    }
}

async fn write_drive(member: &Member, at: u64, bytes: &[u8]) -> Result<u64, IoError> {
    let data = Buf::copy_of(bytes).freeze();
    member.write(ByteOffset(at), smallvec![data], Durability::Cached).await.result
}

#[test]
fn direct_writes_and_reads_that_are_tracked_need_no_task() {
    // A write in a strip, one across strips, and one of all strips. On mirrors: in a strip.
    let cases = [
        (Level::Raid0, 3, &[(STRIP, 1024), (2048, STRIP), (0, 16 * STRIP)][..]),
        (Level::Raid1, 2, &[(STRIP, 1024), (5 * STRIP, STRIP)]),
        (Level::Raid10, 4, &[(STRIP, 1024), (5 * STRIP, STRIP)]),
    ];
    for (level, drives, writes) in cases {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(9, 0);
        let copies: Vec<SimDrive> = (0..drives).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let attachment = setup.attachment(&envs[0]).await;
            let reads = ReadTerms { read_ahead: true, cached: false, most_ahead: None };
            let bench = Bench::attach(envs, Attachment { reads, ..attachment }).await;
            let mut bytes = pattern(3, 16 * STRIP);
            let member = as_drive(&bench, &bytes).await;
            for (at, len) in writes.iter().copied() {
                let new = pattern(at + 4, len);
                bytes[at as usize..][..len as usize].copy_from_slice(&new);
                assert_eq!(write_drive(&member, at, &new).await, Ok(len));
                // Reads over several stripes take tasks: the owner of each stripe tracks its part.
                expect_strips(&member, &bytes).await;
            }
            expect_no_task(&bench, &format!("{level:?}: writes, and reads with read-ahead"));
            for mirror in copies.iter().filter(|_| level == Level::Raid1) {
                let got = mirror.read_true(ByteOffset(0), ByteCount(16 * STRIP));
                assert!(got == bytes, "every copy has it");
            }
            bench.volume().check_invariants().expect("the result is correct");
        });
        ran.expect("no stall");
    }
}

/// A drive that is gone may still carry out a write: without redundancy the write fails, once, and
/// is not repeated. Any other failure is repeated. All free the stripe.
#[test]
fn a_direct_write_that_fails_is_answered_once_and_frees_its_stripe() {
    for ((level, drives), is_gone) in [(Level::Raid0, 3), (Level::Raid1, 2)]
        .into_iter()
        .flat_map(|shape| [false, true].map(|is_gone| (shape, is_gone)))
    {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(10, 0);
        let (bad, envs) = (drive(&sim, 1), envs(&sim, &setup));
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let mut bytes = pattern(5, 16 * STRIP);
            let member = as_drive(&bench, &bytes).await;
            match is_gone {
                true => bad.fail_now(),
                false => bad.fail_next(1, Some("write"), IoErrorKind::Medium),
            }
            // The second strip is on the second drive, whatever the level.
            let new = pattern(6, STRIP);
            let result = write_drive(&member, STRIP, &new).await;
            let is_lost = is_gone && level == Level::Raid0;
            assert_eq!(result.is_err(), is_lost, "{level:?}: {result:?}");
            bench.wait(Duration::from_secs(1)).await;
            let failed = bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }));
            assert!(failed > 0 || !is_gone, "{level:?}: the drive is out");
            if !is_lost {
                bytes[STRIP as usize..][..new.len()].copy_from_slice(&new);
                // A part of a sector is completed under the exclusive lock.
                bytes[STRIP as usize + 100..][..300].fill(7);
                write(bench.volume(), STRIP + 100, &[7; 300]).await.expect("the stripe is free");
                assert!(read(&member, 0, 16 * STRIP).await == bytes, "{level:?}: it is written");
            }
            assert_eq!(member.outstanding(), 0);
            bench.volume().check_invariants().expect("the result is correct");
        });
        ran.expect("no stall");
    }
}

#[test]
fn what_a_drive_cannot_read_comes_from_redundancy_and_is_answered_once() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(6, 0);
        let (bad, envs) = (drive(&sim, 1), envs(&sim, &setup));
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = pattern(4, 16 * STRIP);
            let member = as_drive(&bench, &bytes).await;
            bad.make_unreadable(range(0, 16 * STRIP));
            for _ in 0..3 {
                expect_strips(&member, &bytes).await;
            }
            bench.wait(Duration::from_secs(1)).await;
            assert!(
                bench.count(|kind| matches!(kind, ReportKind::MediumError { healed: true, .. }))
                    > 0
            );
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 0);
            bench.volume().check_invariants().expect("the result is correct");
        });
        ran.expect("no stall");
    }
}

/// A drive holds a read beyond its time limit: the other copy serves it, and the late result is
/// discarded.
#[test]
fn a_read_that_a_drive_does_not_return_is_answered_by_another_one() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(7, 0);
    let (slow, envs) = (drive(&sim, 0), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(5, 16 * STRIP);
        let member = as_drive(&bench, &bytes).await;
        slow.hold();
        let reads: Vec<_> = (0..16)
            .map(|strip| {
                let member = member.clone();
                bench.env.spawn("host", async move { read(&member, strip * STRIP, STRIP).await })
            })
            .collect();
        bench.wait(Duration::from_millis(1)).await;
        assert!(slow.in_flight() > 0, "the drive got some reads");
        for (strip, host) in reads.into_iter().enumerate() {
            assert!(host.await == bytes[strip * 4096..][..4096]);
        }
        let (outstanding, late) = (member.outstanding(), slow.in_flight());
        assert_eq!(outstanding, 0);
        assert!(late > 0, "the drive still holds them");
        SimDrive::release(&slow);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(slow.in_flight(), 0);
        assert!(read(&member, 0, STRIP).await == bytes[..4096]);
        bench.volume().check_invariants().expect("the result is correct");
    });
    ran.expect("no stall");
}

/// A read from an unresponsive drive waited for the full time limit although redundancy had the
/// data. Now it waits for the short limit, later reads do not wait, and the drive is used again
/// when it responds.
#[test]
fn a_silent_drive_costs_reads_that_redundancy_can_serve_the_short_limit_once() {
    for ((level, drives), without_task) in [(Level::Raid5, 4), (Level::Raid1, 2), (Level::Raid6, 5)]
        .into_iter()
        .zip([true, false, true])
    {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(8, 0);
        let (silent, envs) = (drive(&sim, 1), envs(&sim, &setup));
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = pattern(3, 16 * STRIP);
            let member = as_drive(&bench, &bytes).await;
            silent.hold();
            for turn in 0..2 {
                let begun = bench.env.now();
                let reads: Vec<_> = (0..16)
                    .map(|strip| {
                        let (member, volume) = (member.clone(), bench.volume().clone());
                        bench.env.spawn("host", async move {
                            match without_task {
                                true => read(&member, strip * STRIP, STRIP).await,
                                false => common::read(&volume, strip * STRIP, STRIP)
                                    .await
                                    .expect("redundant"),
                            }
                        })
                    })
                    .collect();
                for (strip, host) in reads.into_iter().enumerate() {
                    assert!(host.await == bytes[strip * 4096..][..4096]);
                }
                let (waited, limit) =
                    (bench.env.now() - begun, setup.policy.limits.solid.short_read);
                let limit = if turn == 0 { limit } else { Duration::ZERO };
                assert!(
                    waited < limit + Duration::from_millis(500),
                    "{level:?}, turn {turn}: {waited:?}"
                );
            }
            assert_eq!(
                bench.count(|kind| matches!(kind, ReportKind::DriveSilent { .. })),
                0,
                "not yet"
            );
            SimDrive::release(&silent);
            bench.wait(Duration::from_secs(1)).await;
            expect_strips(&member, &bytes).await;
            silent.hold();
            let (again, whole) = (member.clone(), 16 * STRIP);
            let host = bench.env.spawn("host", async move { read(&again, 0, whole).await });
            bench.wait(Duration::from_millis(1)).await;
            assert!(silent.in_flight() > 0, "{level:?}: the drive is read again");
            SimDrive::release(&silent);
            assert!(host.await == bytes);
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 0);
        });
        ran.expect("no stall");
    }
}
