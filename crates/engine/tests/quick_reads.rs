//! A volume as a drive: reads without a task, and their fallback on failure.

use crate::common::{self, Bench, Setup, drive, envs, pattern, range, write};
use engine::{ReportKind, VolumeService};
use layout::Level;
use platform::{Buf, Member};
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

#[test]
fn reads_inside_a_strip_go_the_fast_path_and_all_others_come_to_the_same() {
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
            let tasks = bench.env.executor().unfinished_tasks();
            assert!(!tasks.contains(&"served drive"), "{level:?}: reads needed a task: {tasks:?}");
            // Across the end of a strip; part of a sector; two buffers; empty.
            for (at, len) in [(2048, STRIP), (100, 300), (0, 16 * STRIP), (512, 0)] {
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
