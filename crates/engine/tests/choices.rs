//! Choice of the drive to read and the number of operations; behaviour when failures cannot be
//! recorded.

use crate::common::{Bench, Setup, VOLUME, drive, envs, pattern, read, slots, write};
use engine::{Change, Report, ReportKind, ShardMessage, ShardSeed};
use layout::Level;
use platform::{IoError, IoErrorKind, mailbox};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, StripSize};

/// A request to a mirror was cut at every strip, so that each drive got sixteen operations for a
/// megabyte; later at every stripe.
#[test]
fn a_large_request_to_mirrors_is_not_cut_at_strips() {
    let setup = Setup {
        strip: StripSize::KIB_64,
        member: ByteCount(8 << 20),
        ..Setup::new(Level::Raid1, 2)
    };
    let mut sim = setup.sim(3, 0);
    let drives = [drive(&sim, 0), drive(&sim, 1)];
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(1, 1 << 20);
        write(bench.volume(), 1 << 20, &bytes).await.expect("writable");
        assert_eq!(drives.each_ref().map(|drive| drive.stats().writes), [1, 1]);
        assert!(read(bench.volume(), 1 << 20, 1 << 20).await.expect("readable") == bytes);
        let reads = drives.each_ref().map(|drive| drive.stats().reads);
        assert_eq!(reads, [1, 1]);
        let read_bytes = drives.each_ref().map(|drive| drive.stats().read_bytes);
        assert_eq!(read_bytes, [512 << 10, 512 << 10], "both mirrors serve a large read");
    })
    .expect("no stall");
}

#[test]
fn mirrors_share_what_is_outstanding_and_streams_stay_where_they_are() {
    let setup = Setup { member: ByteCount(8 << 20), ..Setup::new(Level::Raid1, 2) };
    let mut sim = setup.sim(3, 0);
    let drives = [drive(&sim, 0), drive(&sim, 1)];
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let reads = || drives.each_ref().map(|drive| drive.stats().reads);
        // One sequential stream of small reads, queue depth 1: one drive.
        for block in 0..64 {
            read(bench.volume(), block * 4096, 4096).await.expect("readable");
        }
        let after_stream = reads();
        assert!(after_stream.contains(&64) && after_stream.contains(&0), "{after_stream:?}");
        // Queue depth sixteen: both drives.
        let mut tasks = Vec::new();
        for block in 0..64 {
            let volume = bench.volume().clone();
            tasks.push(
                bench.env.spawn("read", async move { read(&volume, block * 8192, 4096).await }),
            );
        }
        for task in tasks {
            task.await.expect("readable");
        }
        let both: Vec<u64> =
            reads().iter().zip(after_stream).map(|(now, then)| now - then).collect();
        assert!(both.iter().all(|reads| *reads >= 24), "{both:?}");
    })
    .expect("no stall");
}

/// A drive failure could not be recorded, for want of space. The record was not retried, and every
/// write failed until the next start.
#[test]
fn a_failure_that_could_not_be_recorded_is_recorded_later() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(3, 0);
    let victim = drive(&sim, 1);
    let env = envs(&sim, &setup).remove(0);
    sim.run(async move {
        let (reports, mut receiver) = mailbox::mailbox::<Report>(&env, engine::REPORTS_OPEN);
        let seed = ShardSeed::new(&env, 1);
        let sender = seed.sender();
        let shard = seed.start(engine::ShardIndex(0), 1, reports);
        assert!(sender.send(ShardMessage::Peers(vec![sender.clone()])).is_ok());
        let (done, mut answers) = mailbox::mailbox(&env, 1);
        let attachment = setup.attachment(&env).await;
        assert!(sender.send(ShardMessage::Attach(Box::new(attachment), done)).is_ok());
        answers.receive().await.expect("an answer").expect("attached");
        let full = Rc::new(Cell::new(true));
        let is_full = full.clone();
        let keeper = env.clone();
        env.spawn("keeper", async move {
            while let Some(report) = receiver.receive().await {
                let mut result = Ok(());
                if matches!(report.kind, ReportKind::DriveFailed { .. }) {
                    if is_full.get() {
                        result = Err(IoError::new(IoErrorKind::OutOfSpace));
                    } else {
                        let health = slots(&[0]);
                        let (done, mut answers) = mailbox::mailbox(&keeper, 1);
                        assert!(
                            sender
                                .send(ShardMessage::Apply(
                                    VOLUME,
                                    Change::InService(health),
                                    None,
                                    Some(done)
                                ))
                                .is_ok()
                        );
                        answers.receive().await.expect("an answer").expect("set");
                    }
                }
                let answer = ShardMessage::ReportDone { report: report.number, result };
                assert!(sender.send(answer).is_ok());
            }
        });
        let volume = shard.volume(VOLUME).expect("attached");
        victim.fail_now();
        assert!(
            write(&volume, 0, &[1; 4096]).await.is_err(),
            "without the record, the current mirror is unknown"
        );
        assert!(write(&volume, 0, &[1; 4096]).await.is_err());
        full.set(false);
        env.sleep(Duration::from_secs(2)).await;
        write(&volume, 0, &[2; 4096]).await.expect("there is space again");
        assert!(read(&volume, 0, 4096).await.expect("readable") == [2; 4096]);
    })
    .expect("no stall");
}

/// A crash left mirrors that differ. Small reads of a pair took the less busy copy, as if it had
/// been synced: a host read its last write, then older data, then its last write again.
#[test]
fn of_mirrors_that_may_differ_one_speaks_for_all_in_small_reads_too() {
    for (level, drives_count) in [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4)] {
        let member = ByteCount(8 << 20);
        let setup = Setup { unsynced: true, member, ..Setup::new(level, drives_count) };
        let mut sim = setup.sim(5, 0);
        let ones = vec![1; member.0 as usize];
        for index in 0..drives_count {
            // The first copy has ones, all others twos.
            let is_first = index == 0 || level == Level::Raid10 && index.is_multiple_of(2);
            let held: Vec<u8> = ones.iter().map(|one| if is_first { *one } else { 2 }).collect();
            drive(&sim, index).poke(ByteOffset::ZERO, &held);
        }
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let last = bench.volume().spec().capacity.0 - (64 << 10);
            let mut tasks = Vec::new();
            for block in 0..16 {
                let volume = bench.volume().clone();
                let at = last + block * 4096;
                tasks.push(bench.env.spawn("read", async move { read(&volume, at, 4096).await }));
            }
            for task in tasks {
                assert!(
                    task.await.expect("readable") == [1; 4096],
                    "{level}: another copy is read"
                );
            }
            let synced = bench.count(|kind| matches!(kind, ReportKind::Synced(_)));
            assert_eq!(synced, 0, "{level}: the resync had not passed the stripe yet");
        })
        .expect("no stall");
    }
}
