//! Regressions with unreadable or lost blocks. Each test describes its defect first.

use crate::common::{
    Bench, PACE, Setup, VOLUME, data, drive, envs, open, parity, pattern, range, read, regions,
    slots, stale, stale_on, write,
};
use engine::{Change, FaultPolicy, RegionSet, ReportKind, ShardMessage, TaskKind, TaskOutcome};
use layout::{CopyIndex, DataIndex, Level};
use platform::{IoErrorKind, LimitsByClass};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, DriveIndex, StripSize, StripeIndex};

/// A block was lost: listed, with zeros in its place. A write of a part of its sector read the rest
/// of the sector, found zeros, and removed the block from the list: the zeros counted as host data.
#[test]
fn a_part_of_a_sector_does_not_heal_the_rest_of_it() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(12, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = stale(attachment.state, &stale_on(&setup, 1));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        write(volume, 0, &pattern(1, volume.spec().capacity.0)).await.expect("writable");
        let stripe = (0..).find(|stripe| data(&setup, *stripe, 0).0 == 0).expect("one");
        let (home, offset) = data(&setup, stripe, 0);
        all[usize::from(home)].make_unreadable(range(offset, 512));
        bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
        bench.ended().await;
        let at = setup.geometry().stripe_start(StripeIndex(stripe)).0;
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        assert_eq!(
            write(volume, at + 100, &[7; 50]).await.expect_err("unknown").kind,
            IoErrorKind::Medium
        );
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        let extents = volume.status(range(at, 512)).await.expect("known");
        assert!(
            extents.iter().all(|extent| extent.status == platform::BlockStatus::Data),
            "{extents:?}"
        );
        write(volume, at, &[7; 512]).await.expect("writable");
        assert_eq!(read(volume, at, 512).await.expect("written"), vec![7; 512]);
    })
    .expect("no stall");
}

/// A host read a block that a rebuild was giving up: the read had found it not listed, waited for
/// the stripe, and then read the zeros in its place.
#[test]
fn a_read_that_waits_while_a_block_is_given_up_gets_no_zeroes() {
    let setup = Setup { member: ByteCount(1 << 20), ..Setup::new(Level::Raid5, 4) };
    for seed in 0..4 {
        let setup = setup.clone();
        let mut sim = setup.sim(seed, 0);
        let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.state = stale(attachment.state, &stale_on(&setup, 1));
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume().clone();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(&volume, 0, &bytes).await.expect("writable");
            let stripe = (10..).find(|stripe| data(&setup, *stripe, 0).0 == 0).expect("one");
            let (home, offset) = data(&setup, stripe, 0);
            let at = setup.geometry().stripe_start(StripeIndex(stripe)).0;
            all[usize::from(home)].make_unreadable(range(offset, 512));
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
            let zeroes = Rc::new(Cell::new(0));
            while bench.outcomes().is_empty() {
                let (volume, zeroes) = (volume.clone(), zeroes.clone());
                bench.env.spawn("reader", async move {
                    if let Ok(got) = read(&volume, at, 512).await {
                        zeroes.set(zeroes.get() + u32::from(got.iter().all(|byte| *byte == 0)));
                    }
                });
                bench.wait(Duration::from_micros(97)).await;
            }
            bench.wait(Duration::from_secs(1)).await;
            assert_eq!(zeroes.get(), 0, "zeros returned as data");
            assert!(read(&volume, at, 512).await.is_err());
        })
        .expect("no stall");
    }
}

/// A failed drive's strips are in the distributed spare. An unreadable sector there was looked up
/// as a spare strip, never rewritten, and counted against its drive.
#[test]
fn what_lies_in_the_distributed_spare_is_repaired_and_listed_like_all_else() {
    let setup = Setup::new(Level::Raid5ee, 5);
    let mut sim = setup.sim(16, 0);
    let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let slot = DriveIndex(1);
        let mut attachment = setup.attachment(&envs[0]).await;
        let left = slots(&[0, 2, 3, 4]);
        attachment.state.apply(&Change::InService(left));
        attachment.state.apply(&Change::Moved { slot, regions: regions(&setup), to_spare: true });
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        // A stripe whose first strip was on the failed drive.
        let stripe = (0..).find(|stripe| data(&setup, *stripe, 0).0 == 1).expect("one");
        let map = setup.geometry().stripe_map(StripeIndex(stripe));
        let spare = map.spare_cell().expect("a spare strip");
        let refuge = &all[usize::from(spare.drive.0)];
        refuge.make_unreadable(range(spare.offset.0, 512));
        let at = setup.geometry().stripe_start(StripeIndex(stripe)).0;
        assert!(read(volume, at, 512).await.expect("redundant") == bytes[at as usize..][..512]);
        bench.wait(Duration::from_secs(1)).await;
        assert!(refuge.peek(spare.offset, ByteCount(512)).is_some(), "written anew");
        // Now the sector is lost: two of one column are unreadable.
        let (other, offset) = data(&setup, stripe, 1);
        refuge.make_unreadable(range(spare.offset.0, 512));
        all[usize::from(other)].make_unreadable(range(offset, 512));
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        bench.wait(Duration::from_secs(1)).await;
        // A write to the same columns of another strip has to give the sectors up, and puts zeros
        // there.
        let (p, p_offset) = parity(&setup, stripe);
        all[usize::from(p)].make_unreadable(range(p_offset, 512));
        let _ = write(volume, at + 2 * 4096, &[3; 512]).await;
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        assert_eq!(read(volume, at + 4096, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
    })
    .expect("no stall");
}

/// A rebuild of RAID 6 met two unreadable sectors in one column. They and the sector being rebuilt
/// were lost, as expected. But redundancy over the zeros could not be computed without the missing
/// drive, and the whole region became unsynced: the rebuild never ended, and readable blocks gave
/// errors.
#[test]
fn three_lost_sectors_of_a_column_of_raid_6_are_no_more_than_three() {
    let setup = Setup::new(Level::Raid6, 6);
    let mut sim = setup.sim(18, 0);
    let all: Vec<_> = (0..6).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        let stripe = 3;
        let missing = data(&setup, stripe, 0).0;
        attachment.state = stale(attachment.state, &stale_on(&setup, missing));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        for index in 1..3 {
            let (home, offset) = data(&setup, stripe, index);
            all[usize::from(home)].make_unreadable(range(offset + 512, 512));
        }
        bench.begin(TaskKind::Rebuild { slot: DriveIndex(missing) }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::Unsynced(_))), 0);
        let start = setup.geometry().stripe_start(StripeIndex(stripe)).0;
        let lost: Vec<u64> = (0..3).map(|index| start + index * 4096 + 512).collect();
        all[usize::from(data(&setup, stripe, 3).0)].fail_now();
        for at in (0..bytes.len() as u64).step_by(512) {
            match read(volume, at, 512).await {
                Ok(got) => {
                    assert!(!lost.contains(&at) && got == bytes[at as usize..][..512], "at {at}")
                }
                Err(_) => assert!(lost.contains(&at), "at {at}"),
            }
        }
    })
    .expect("no stall");
}

/// A drive was stale, and another one had an unreadable sector. A write to the stale drive's strip
/// in that column had to give the sector up, but was refused as if no drive was writable.
#[test]
fn an_unreadable_sector_does_not_keep_a_strip_of_a_stale_drive_from_being_written() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(24, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = stale(attachment.state, &stale_on(&setup, data(&setup, 3, 0).0));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (other, offset) = data(&setup, 3, 1);
        all[usize::from(other)].make_unreadable(range(offset + 512, 512));
        let at = setup.geometry().stripe_start(StripeIndex(3)).0;
        write(volume, at, &[4; 1024]).await.expect("writable");
        assert_eq!(read(volume, at, 1024).await.expect("written"), [4; 1024]);
        assert_eq!(
            read(volume, at + 4096 + 512, 512).await.expect_err("lost").kind,
            IoErrorKind::Medium
        );
        assert!(
            read(volume, at + 4096, 512).await.expect("not lost")
                == bytes[at as usize + 4096..][..512]
        );
    })
    .expect("no stall");
}

/// A lost sector was listed. Later it was unreadable again, together with its neighbours, in one
/// run. The neighbours were given up with it; each must be listed, or the zeros in its place count
/// as data.
#[test]
fn sectors_that_are_lost_beside_a_listed_one_are_listed_too() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(26, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = stale(attachment.state, &stale_on(&setup, data(&setup, 3, 0).0));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (other, offset) = data(&setup, 3, 1);
        let (stale_strip, strip) = (3 * setup.geometry().stripe_bytes().0, 4096);
        // A write to the stale drive's strip does without the unreadable blocks in these columns.
        let give_up = async |first: u64, count: u64| {
            all[usize::from(other)].make_unreadable(range(offset + 512 * first, 512 * count));
            let written = vec![4; 512 * count as usize];
            write(volume, stale_strip + 512 * first, &written).await.expect("writable");
        };
        let is_lost = async |sector: u64| {
            let at = stale_strip + strip + 512 * sector;
            match read(volume, at, 512).await {
                Ok(got) => {
                    assert!(
                        got == bytes[at as usize..][..512],
                        "sector {sector} differs from the written data"
                    );
                    false
                }
                Err(error) => {
                    assert_eq!(error.kind, IoErrorKind::Medium, "sector {sector}");
                    true
                }
            }
        };
        give_up(2, 1).await;
        for (sector, lost) in [(1, false), (2, true), (3, false)] {
            assert_eq!(is_lost(sector).await, lost, "sector {sector}");
        }
        give_up(1, 3).await;
        for (sector, lost) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
            assert_eq!(is_lost(sector).await, lost, "sector {sector}");
        }
        let reports = bench.reports.borrow();
        let listed = reports.iter().filter_map(|kind| match kind {
            ReportKind::PuncturedBlocks { drive, ranges, punctured: true } if drive.0 == other => {
                Some(ranges)
            }
            _ => None,
        });
        let listed: Vec<_> =
            listed.flatten().map(|listed| (listed.start.0 - offset, listed.len.0)).collect();
        assert_eq!(listed, [(1024, 512), (512, 512), (1536, 512)], "each sector listed once");
    })
    .expect("no stall");
}

/// In one column of a RAID 10 stripe both copies of a strip were lost, and one copy of another
/// strip was unreadable. That copy was filled with zeros too, and later read.
#[test]
fn a_copy_beside_a_lost_strip_is_not_filled_with_zeroes() {
    let setup = Setup::new(Level::Raid10, 4);
    let mut sim = setup.sim(25, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let map = setup.geometry().stripe_map(StripeIndex(3));
        let cell = |index, copy| map.data_cell(DataIndex(index), CopyIndex(copy));
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = stale(attachment.state, &stale_on(&setup, cell(0, 1).drive.0));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        for cell in [cell(0, 0), cell(1, 0)] {
            all[cell.drive.as_usize()].make_unreadable(range(cell.offset.0, 512));
        }
        bench.begin(TaskKind::Rebuild { slot: cell(0, 1).drive }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        let at = setup.geometry().stripe_start(StripeIndex(3)).0;
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        for _ in 0..4 {
            assert!(
                read(volume, at + 4096, 512).await.expect("a copy")
                    == bytes[at as usize + 4096..][..512]
            );
            bench.wait(Duration::from_millis(100)).await;
        }
        all[cell(1, 1).drive.as_usize()].fail_now();
        // The unreadable copy may be undetected: an error is allowed, zeros are not.
        if let Ok(got) = read(volume, at + 4096, 512).await {
            assert!(got == bytes[at as usize + 4096..][..512]);
        }
    })
    .expect("no stall");
}

/// A drive with an unreadable strip stopped responding during the search for its bad sectors: every
/// sector was tried, each for the whole time limit, with the stripe locked. A write to it hung for
/// more than two hours.
#[test]
fn a_drive_that_stops_answering_is_not_searched_for_bad_sectors() {
    let policy = FaultPolicy {
        limits: LimitsByClass::uniform(Duration::from_secs(10)),
        ..FaultPolicy::default()
    };
    let member = ByteCount(1 << 20);
    let setup = Setup { strip: StripSize::KIB_64, member, policy, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(19, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (home, offset) = data(&setup, 0, 0);
        all[usize::from(home)].make_unreadable(range(offset, 65536));
        assert!(read(volume, 0, 65536).await.expect("redundant") == bytes[..65536]);
        bench.wait(Duration::from_micros(300)).await;
        all[usize::from(home)].hold();
        let began = bench.env.now();
        write(volume, 4096, &[5; 512]).await.expect("writable without the drive");
        let took = bench.env.now().since(began);
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert_eq!(
            bench.count(|kind| matches!(kind, ReportKind::PuncturedBlocks { .. })),
            0,
            "nothing is lost"
        );
    })
    .expect("no stall");
}

/// A copied drive had an unreadable sector that the level could not recompute: the whole copy was
/// given up, and the drive could never be replaced.
#[test]
fn a_sector_that_is_lost_does_not_end_a_copy() {
    for level in [Level::Raid0, Level::Raid5] {
        let setup = Setup::new(level, 4);
        let mut sim = setup.sim(21, 1);
        let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let (slot, offset) = data(&setup, 1, 0);
            let (other, other_offset) = data(&setup, 1, 1);
            all[usize::from(slot)].make_unreadable(range(offset + 512, 512));
            all[usize::from(other)].make_unreadable(range(other_offset + 512, 512));
            let new = open(&bench.env, 4).await;
            bench
                .tell(|done| {
                    ShardMessage::Apply(
                        VOLUME,
                        Change::ReplacementBegan { slot: DriveIndex(slot), left: RegionSet::EMPTY },
                        Some(new.clone()),
                        Some(done),
                    )
                })
                .await;
            bench.begin(TaskKind::Copy { slot: DriveIndex(slot) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{level}");
            bench
                .tell(|done| {
                    ShardMessage::Apply(
                        VOLUME,
                        Change::Promoted { slot: DriveIndex(slot), stale: RegionSet::EMPTY },
                        None,
                        Some(done),
                    )
                })
                .await;
            let start = setup.geometry().stripe_start(StripeIndex(1)).0;
            let lost = [start + 512, start + 4096 + 512];
            for at in (0..bytes.len() as u64).step_by(512) {
                match read(volume, at, 512).await {
                    Ok(got) => assert!(
                        !lost.contains(&at) && got == bytes[at as usize..][..512],
                        "at {at}"
                    ),
                    Err(_) => assert!(lost.contains(&at), "{level}: at {at}"),
                }
            }
            if level == Level::Raid5 {
                // Redundancy agrees with the present data, on the new drive too.
                all[usize::from(data(&setup, 1, 2).0)].fail_now();
                let at = start + 2 * 4096 + 512;
                assert!(
                    read(volume, at, 512).await.expect("redundant") == bytes[at as usize..][..512]
                );
            }
        })
        .expect("no stall");
    }
}
