//! Flushes are durable when they are acknowledged, also with concurrent flushes. A drive that
//! missed a write or flush is recorded as out before the acknowledgement.

use crate::common::{Bench, Setup, VOLUME, drive, envs, open, pattern, range, read, slots, write};
use engine::{Change, RegionSet, Report, ReportKind, ShardMessage, ShardSeed, Volume};
use layout::Level;
use platform::{Env, IoErrorKind, mailbox};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

const SECOND: Duration = Duration::from_secs(1);

/// A second flush arrived while the first was in progress and had passed drive 1. A write to drive
/// 1 had been acknowledged in between. The second flush was taken as served by the first, and a
/// power cut lost the write.
#[test]
fn a_flush_covers_what_was_written_since_the_one_before_began() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(3, 0);
    let all = [drive(&sim, 0), drive(&sim, 1)];
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume().clone();
        all[1].hold();
        let flushing = volume.clone();
        let first = bench.env.spawn("flush", async move { flushing.flush().await });
        bench.wait(SECOND).await;
        let bytes = pattern(4, 4096);
        write(&volume, 0, &bytes).await.expect("the first drive takes the write");
        let flushing = volume.clone();
        let second = bench.env.spawn("flush", async move { flushing.flush().await });
        bench.wait(SECOND).await;
        all[1].release();
        first.await.expect("flushed");
        second.await.expect("flushed");
        let durable = all[0].read_durable(ByteOffset::ZERO, ByteCount(4096));
        assert!(durable == bytes, "written before the flush, but only in the cache");
    })
    .expect("no stall");
}

/// More drives failed than the level tolerates, and their caches were lost. A flush asked the
/// remaining drives only, and reported success.
#[test]
fn a_flush_fails_while_more_drives_are_out_than_can_be_spared() {
    for (level, drives, left) in [(Level::Raid5, 4, &[0, 2][..]), (Level::Raid1, 2, &[])] {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(3, 0);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.state.apply(&Change::InService(slots(left)));
            let bench = Bench::attach(envs, attachment).await;
            assert!(
                bench.volume().flush().await.is_err(),
                "{level}: writes in the caches of the failed drives are lost"
            );
        })
        .expect("no stall");
    }
}

/// A volume whose drive failures are recorded only when the test says so.
struct SlowRecords {
    volume: Rc<Volume>,
    may_record: Rc<Cell<bool>>,
    sender: mailbox::Sender<ShardMessage>,
}

impl SlowRecords {
    /// Sends the shard a message, and waits until it is processed.
    async fn tell(&self, env: &Env, message: impl Fn(engine::Done) -> ShardMessage) {
        let (done, mut answers) = mailbox::mailbox(env, 1);
        assert!(self.sender.send(message(done)).is_ok());
        answers.receive().await.expect("an answer").expect("the shard succeeds");
    }
}

/// Starts a write or flush.
async fn with_slow_records(env: &Env, setup: &Setup) -> SlowRecords {
    let (reports, mut receiver) = mailbox::mailbox::<Report>(env, engine::REPORTS_OPEN);
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let shard = seed.start(engine::ShardIndex(0), 1, reports);
    assert!(sender.send(ShardMessage::Peers(vec![sender.clone()])).is_ok());
    let (done, mut answers) = mailbox::mailbox(env, 1);
    let attachment = setup.attachment(env).await;
    assert!(sender.send(ShardMessage::Attach(Box::new(attachment), done)).is_ok());
    answers.receive().await.expect("an answer").expect("attached");
    let may_record = Rc::new(Cell::new(false));
    let (records, keeper, answers_to) = (may_record.clone(), env.clone(), sender.clone());
    let all = DriveSet::first(setup.geometry().drives());
    env.spawn("keeper", async move {
        while let Some(report) = receiver.receive().await {
            let (sender, env, records) = (answers_to.clone(), keeper.clone(), records.clone());
            keeper.spawn("answer", async move {
                let is_failure = |kind: &ReportKind| {
                    matches!(
                        kind,
                        ReportKind::DriveFailed { .. } | ReportKind::ReplacementFailed { .. }
                    )
                };
                while is_failure(&report.kind) && !records.get() {
                    env.sleep(SECOND / 100).await;
                }
                if let ReportKind::DriveFailed { drive, .. } = report.kind {
                    let left = all.without(drive);
                    let health = left;
                    let (done, mut answers) = mailbox::mailbox(&env, 1);
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
                let answer = ShardMessage::ReportDone { report: report.number, result: Ok(()) };
                assert!(sender.send(answer).is_ok());
            });
        }
    });
    SlowRecords { volume: shard.volume(VOLUME).expect("attached"), may_record, sender }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Asked {
    Write,
    LaterWrite,
    Flush,
    Trim,
}

/// A drive failed during a request, and the request was acknowledged. Power failed before the
/// controller had recorded the failure. After the restart the stale drive was read.
#[test]
fn nothing_is_answered_before_it_is_durable_who_missed_it() {
    let levels = [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];
    let asked = [Asked::Write, Asked::LaterWrite, Asked::Flush, Asked::Trim];
    for ((level, drives), asked) in
        levels.into_iter().flat_map(|level| asked.map(|asked| (level, asked)))
    {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(3, 0);
        let victim = drive(&sim, 0);
        let env = envs(&sim, &setup).remove(0);
        sim.run(async move {
            let SlowRecords { volume, may_record, .. } = with_slow_records(&env, &setup).await;
            let len = setup.geometry().stripe_bytes().0;
            write(&volume, 0, &pattern(1, 2 * len)).await.expect("writable");
            let operation = match asked {
                Asked::Flush => "flush",
                Asked::Trim => "write-zeroes",
                Asked::Write | Asked::LaterWrite => "write",
            };
            victim.fail_next(1, Some(operation), IoErrorKind::Gone);
            let later = u64::from(asked == Asked::LaterWrite) * len;
            if later > 0 {
                // The plan of the next request leaves the drive out.
                let first = volume.clone();
                env.spawn("write", async move {
                    write(&first, 0, &pattern(2, len)).await.expect("acknowledged in the end");
                });
                env.sleep(SECOND).await;
            }
            let answered = Rc::new(Cell::new(false));
            let (of_volume, told) = (volume.clone(), answered.clone());
            let request = env.spawn("request", async move {
                match asked {
                    Asked::Write | Asked::LaterWrite => {
                        write(&of_volume, later, &pattern(3, len)).await
                    }
                    Asked::Flush => of_volume.flush().await,
                    Asked::Trim => of_volume.trim(range(0, of_volume.spec().capacity.0)).await,
                }
                .expect("the level tolerates the failure");
                told.set(true);
            });
            env.sleep(10 * SECOND).await;
            assert!(
                !answered.get(),
                "{level}, {asked:?}: acknowledged before the stale drive is recorded"
            );
            may_record.set(true);
            request.await;
        })
        .expect("no stall");
    }
}

/// A drive in a rebuild failed a write. The controller gave it the slot before it had processed
/// that report, and the missed block was read from it.
#[test]
fn a_drive_that_lacks_a_write_does_not_serve_in_its_slot() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(3, 1);
    let filled = drive(&sim, 2);
    let env = envs(&sim, &setup).remove(0);
    sim.run(async move {
        let records = with_slow_records(&env, &setup).await;
        let (volume, slot) = (records.volume.clone(), DriveIndex(0));
        let new = open(&env, 2).await;
        records
            .tell(&env, |done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::ReplacementBegan { slot, left: RegionSet::EMPTY },
                    Some(new.clone()),
                    Some(done),
                )
            })
            .await;
        write(&volume, 0, &pattern(1, 4096)).await.expect("writable");
        filled.fail_next(1, Some("write"), IoErrorKind::Medium);
        let writing = volume.clone();
        let second = env.spawn("write", async move { write(&writing, 0, &pattern(2, 4096)).await });
        env.sleep(SECOND).await;
        records
            .tell(&env, |done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::Promoted { slot, stale: RegionSet::EMPTY },
                    None,
                    Some(done),
                )
            })
            .await;
        let mut reads = Vec::new();
        for _ in 0..8 {
            let reading = volume.clone();
            reads.push(env.spawn("read", async move { read(&reading, 0, 4096).await }));
        }
        for one in reads {
            assert!(one.await.expect("readable") == pattern(2, 4096), "the drive lacks that write");
        }
        records.may_record.set(true);
        second.await.expect("the other mirror has it");
    })
    .expect("no stall");
}
