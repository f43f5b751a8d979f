//! Regressions of writes, drive replacement and tasks. Each test describes its defect first.

use crate::common::{
    Bench, NewDrive, PACE, Setup, VOLUME, data, drive, envs, open, parity, pattern, range, read,
    regions, slots, write,
};
use engine::{Change, RegionSet, ReportKind, ShardMessage, TaskKind, TaskOutcome, TaskPace};
use layout::{CopyIndex, DataIndex, Level, ParityIndex};
use platform::IoErrorKind;
use std::time::Duration;
use units::{DriveIndex, StripeIndex};

/// A write went to data and parity; both drives failed during it. Each failure was judged as if it
/// were the only one, so the write was acknowledged although it was on neither drive.
#[test]
fn a_write_that_is_on_no_drive_is_not_acknowledged() {
    for (level, drives_count) in
        [(Level::Raid5, 4), (Level::Raid10, 4), (Level::Raid6, 5), (Level::Raid1, 2)]
    {
        let setup = Setup::new(level, drives_count);
        let mut sim = setup.sim(11, 0);
        let all: Vec<_> = (0..drives_count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            write(volume, 0, &pattern(1, volume.spec().capacity.0)).await.expect("writable");
            let map = setup.geometry().stripe_map(StripeIndex(0));
            let homes: Vec<u16> = match level {
                Level::Raid1 | Level::Raid10 => (0..2)
                    .map(|copy| map.data_cell(DataIndex(0), CopyIndex(copy)).drive.0)
                    .collect(),
                Level::Raid6 => {
                    let parity = |i| map.parity_cell(ParityIndex(i)).expect("parity").drive.0;
                    vec![data(&setup, 0, 0).0, parity(0), parity(1)]
                }
                _ => vec![data(&setup, 0, 0).0, parity(&setup, 0).0],
            };
            for home in homes {
                all[usize::from(home)].fail_next(1, Some("write"), IoErrorKind::Gone);
            }
            let result = write(volume, 0, &pattern(2, 512)).await;
            assert!(result.is_err(), "{level}: acknowledged, and on no drive");
        })
        .expect("no stall");
    }
}

/// A volume without redundancy does not mark regions, so that they counted as unwritten: a copy
/// task copied nothing.
#[test]
fn a_copy_of_a_volume_without_redundancy_copies_all_of_it() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(13, 1);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = attachment.state.with_unwritten(&regions(&setup));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let new = open(&bench.env, 2).await;
        bench
            .tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::ReplacementBegan { slot: DriveIndex(0), left: RegionSet::EMPTY },
                    Some(new.clone()),
                    Some(done),
                )
            })
            .await;
        bench.begin(TaskKind::Copy { slot: DriveIndex(0) }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        bench
            .tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::Promoted { slot: DriveIndex(0), stale: RegionSet::EMPTY },
                    None,
                    Some(done),
                )
            })
            .await;
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// The failed drive's strips were in the distributed spare, so that the array tolerated another
/// failure. But the second failure was judged together with the first: writes without the drive
/// failed, their regions became unsynced, and flushes failed from then on.
#[test]
fn a_second_drive_may_fail_once_the_first_is_in_the_distributed_spare() {
    let setup = Setup::new(Level::Raid5ee, 5);
    let mut sim = setup.sim(17, 0);
    let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        let left = slots(&[0, 2, 3, 4]);
        attachment.state.apply(&Change::InService(left));
        attachment.state.apply(&Change::Moved {
            slot: DriveIndex(1),
            regions: regions(&setup),
            to_spare: true,
        });
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let mut bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (home, _) = data(&setup, 0, 1);
        let home = if home == 1 { data(&setup, 0, 0).0 } else { home };
        all[usize::from(home)].fail_now();
        for at in (0..16384).step_by(4096) {
            write(volume, at, &pattern(2, 4096))
                .await
                .expect("writable with a second failed drive");
            bytes[at as usize..][..4096].copy_from_slice(&pattern(2, 4096));
        }
        volume.flush().await.expect("nothing is missing");
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// A trim was in progress on a drive that was replaced meanwhile: its failure was counted against
/// the replacement.
#[test]
fn the_failure_of_a_trim_is_not_put_down_to_the_next_drive() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(20, 1);
    let all: Vec<_> = (0..3).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume().clone();
        write(&volume, 0, &pattern(1, volume.spec().capacity.0)).await.expect("writable");
        all[1].hold();
        let whole = range(0, setup.geometry().capacity().0);
        let trimming = volume.clone();
        bench.env.spawn("trim", async move {
            let _ = trimming.trim(whole).await;
        });
        bench.wait(Duration::from_millis(10)).await;
        let new = open(&bench.env, 2).await;
        let change = NewDrive {
            slot: DriveIndex(1),
            source: Some(new),
            stale: regions(&setup),
            in_service: slots(&[0, 1]),
        };
        let (env, held) = (bench.env.clone(), all[1].clone());
        bench.env.spawn("the old drive leaves", async move {
            env.sleep(Duration::from_millis(10)).await;
            held.fail_now();
            held.release();
        });
        bench.tell(|done| change.message(done)).await;
        bench.wait(Duration::from_secs(1)).await;
        let failed = bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }));
        assert_eq!(failed, 0, "{:?}", bench.reports.borrow());
    })
    .expect("no stall");
}

/// Two drives of RAID 6 had corrupt sectors in one stripe, in different columns. Each could be
/// located and repaired. Judged together no single drive explained them, and redundancy was
/// recomputed from the corrupt data.
#[test]
fn rot_of_two_drives_in_different_columns_of_a_stripe_is_put_right() {
    for (level, drives_count) in [(Level::Raid6, 6), (Level::Raid1, 3)] {
        let setup = Setup::new(level, drives_count);
        let mut sim = setup.sim(22, 0);
        let all: Vec<_> = (0..drives_count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            volume.flush().await.expect("flushed");
            let (first, second) = match level {
                Level::Raid6 => (data(&setup, 1, 0), data(&setup, 1, 1)),
                _ => ((0, 4096), (1, 4096)),
            };
            all[usize::from(first.0)].rot(range(first.1, 512));
            all[usize::from(second.0)].rot(range(second.1 + 1024, 512));
            bench.begin(TaskKind::Check { repair: true }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done]);
            assert!(
                read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes,
                "{level}"
            );
            if level == Level::Raid1 {
                all[2].fail_now();
                all[0].fail_now();
                assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
            }
        })
        .expect("no stall");
    }
}

/// A paused task did not end when its volume was detached: it got no stop message, and its end was
/// never reported.
#[test]
fn a_task_that_stands_still_ends_with_its_volume() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(23, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        bench.begin(TaskKind::Check { repair: false }, TaskPace { paused: true, ..PACE }).await;
        bench.wait(Duration::from_secs(1)).await;
        bench.tell(|done| ShardMessage::Detach(VOLUME, Vec::new(), done)).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(bench.outcomes(), [TaskOutcome::Stopped]);
    })
    .expect("no stall");
}
