//! Blocks that a drive cannot read and that a write does not repair, always or at first: only these
//! blocks are affected.

use crate::common::{
    Bench, NewDrive, PACE, Setup, VOLUME, data, drive, envs, open, parity, pattern, range, read,
    regions, slots, stale, stale_on, write,
};
use engine::{Change, RegionSet, ReportKind, ShardMessage, TaskKind, TaskOutcome};
use layout::{CopyIndex, DataIndex, Level};
use platform::IoErrorKind;
use platform_sim::SimDrive;
use std::rc::Rc;
use std::time::Duration;
use units::{DriveIndex, StripeIndex};

const SECOND: Duration = Duration::from_secs(1);

/// How a drive loses written blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unkept {
    /// It acknowledges writes, and still cannot read the block.
    Taken,
    /// The same for the first writes, up to this number.
    TakenAtFirst(u32),
    /// It refuses writes.
    Refused,
}

const ALL: [Unkept; 4] =
    [Unkept::Taken, Unkept::TakenAtFirst(1), Unkept::TakenAtFirst(3), Unkept::Refused];

fn break_sectors(drive: &SimDrive, at: u64, len: u64, how: Unkept) {
    match how {
        Unkept::Taken => drive.make_stuck(range(at, len), None),
        Unkept::TakenAtFirst(writes) => drive.make_stuck(range(at, len), Some(writes)),
        Unkept::Refused => {
            drive.make_stuck(range(at, len), None);
            drive.refuse_writes(range(at, len));
        }
    }
}

/// The sectors that hosts cannot read; the others must hold the written data.
async fn unreadable(volume: &Rc<engine::Volume>, bytes: &[u8], when: &str) -> Vec<u64> {
    let mut lost = Vec::new();
    for at in (0..bytes.len() as u64).step_by(512) {
        match read(volume, at, 512).await {
            Ok(got) => assert!(got == bytes[at as usize..][..512], "{when}: wrong data at {at}"),
            Err(error) => {
                assert_eq!(error.kind, IoErrorKind::Medium, "{when}: at {at}");
                lost.push(at);
            }
        }
    }
    lost
}

/// Replaces the drive of a slot by `d{new}`.
async fn replace(bench: &Bench, slot: u16, new: u16) -> Vec<TaskOutcome> {
    let (slot, source) = (DriveIndex(slot), open(&bench.env, new).await);
    let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
    bench
        .tell(|done| ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done)))
        .await;
    bench.reports.borrow_mut().clear();
    bench.begin(TaskKind::Copy { slot }, PACE).await;
    let outcomes = bench.ended().await;
    let promoted = Change::Promoted { slot, stale: RegionSet::EMPTY };
    bench.tell(|done| ShardMessage::Apply(VOLUME, promoted.clone(), None, Some(done))).await;
    outcomes
}

/// A RAID 5 lost a drive, and one block of another drive stayed unreadable after every write. The
/// rebuild gave the block up, filled it with zeros, could not read these, and always failed at 99
/// %. A host's write of the block was acknowledged, and then unreadable; the drive could not be
/// replaced either.
#[test]
fn a_rebuild_beside_a_block_that_no_write_repairs_costs_that_block_alone() {
    for how in ALL {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(31, 1);
        let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            let missing = data(&setup, 3, 0).0;
            attachment.state = stale(attachment.state, &stale_on(&setup, missing));
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            let mut bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let (bad, offset) = data(&setup, 3, 1);
            break_sectors(&all[usize::from(bad)], offset + 512, 512, how);
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(missing) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{how:?}");
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::Unsynced(_))), 0, "{how:?}");
            assert_eq!(
                bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })),
                0,
                "{how:?}"
            );
            let start = setup.geometry().stripe_start(StripeIndex(3)).0;
            let lost = [start + 512, start + 4096 + 512];
            assert_eq!(unreadable(volume, &bytes, "rebuilt").await, lost, "{how:?}");
            // A host rewrites both blocks.
            for at in lost {
                write(volume, at, &[9; 512]).await.expect("there is redundancy");
                bytes[at as usize..][..512].fill(9);
                assert_eq!(read(volume, at, 512).await.expect("acknowledged"), [9; 512], "{how:?}");
            }
            assert_eq!(unreadable(volume, &bytes, "rewritten").await, [0; 0], "{how:?}");
            // The old content is readable again: it is not the written data.
            all[usize::from(bad)].heal(range(offset + 512, 512));
            assert_eq!(unreadable(volume, &bytes, "healed").await, [0; 0], "{how:?}");
            // The drive with the block can be replaced, and then any other drive may fail.
            assert_eq!(replace(&bench, bad, 4).await, [TaskOutcome::Done], "{how:?}");
            assert!(volume.recorded_state().is_optimal(), "{how:?}");
            all[usize::from(data(&setup, 3, 2).0)].fail_now();
            assert_eq!(unreadable(volume, &bytes, "replaced").await, [0; 0], "{how:?}");
        })
        .expect("no stall");
    }
}

/// The same for a drive that is replaced while the block is still punctured: parity counts the
/// refused zeros, so that another lost drive is computed rightly.
#[test]
fn zeros_that_a_drive_refused_count_for_redundancy() {
    for how in ALL {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(32, 1);
        let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            let missing = data(&setup, 3, 0).0;
            attachment.state = stale(attachment.state, &stale_on(&setup, missing));
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            let mut bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let (bad, offset) = data(&setup, 3, 1);
            break_sectors(&all[usize::from(bad)], offset + 512, 512, how);
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(missing) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{how:?}");
            let start = setup.geometry().stripe_start(StripeIndex(3)).0;
            let lost = [start + 512, start + 4096 + 512];
            // Another strip of these columns is written in the cheapest way.
            write(volume, start + 8192 + 512, &[7; 512]).await.expect("writable");
            bytes[start as usize + 8192 + 512..][..512].fill(7);
            // The old content of the drive is readable again: redundancy counts zeros instead.
            all[usize::from(bad)].heal(range(offset + 512, 512));
            all[usize::from(data(&setup, 3, 2).0)].fail_now();
            assert_eq!(unreadable(volume, &bytes, "another drive is lost").await, lost, "{how:?}");
        })
        .expect("no stall");
    }
}

/// A mirror of two: one drive is lost, and one block of the other one stays unreadable. The same
/// for three copies with one more loss, and for RAID 6 with two drives that are rebuilt one after
/// the other.
#[test]
fn copies_and_raid_6_lose_no_more_than_the_blocks_either() {
    for how in ALL {
        for (level, drives, losses) in
            [(Level::Raid1, 2, 1), (Level::Raid1, 3, 2), (Level::Raid6, 5, 2)]
        {
            let setup = Setup::new(level, drives);
            let mut sim = setup.sim(33, 2);
            let all: Vec<_> = (0..drives + 2).map(|index| drive(&sim, index)).collect();
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let what = format!("{how:?} {level} {drives}");
                let map = setup.geometry().stripe_map(StripeIndex(3));
                let bad = map.data_cell(DataIndex(0), CopyIndex(0));
                let mut rest = (0..drives).filter(|slot| *slot != bad.drive.0);
                let missing: Vec<u16> = rest.by_ref().take(losses).collect();
                let mut attachment = setup.attachment(&envs[0]).await;
                for slot in &missing {
                    attachment.state =
                        attachment.state.with_stale(DriveIndex(*slot), &regions(&setup));
                }
                let bench = Bench::attach(envs, attachment).await;
                let volume = bench.volume();
                let mut bytes = pattern(1, volume.spec().capacity.0);
                write(volume, 0, &bytes).await.expect("writable");
                break_sectors(&all[bad.drive.as_usize()], bad.offset.0 + 512, 512, how);
                for slot in &missing {
                    bench.reports.borrow_mut().clear();
                    bench.begin(TaskKind::Rebuild { slot: DriveIndex(*slot) }, PACE).await;
                    assert_eq!(bench.ended().await, [TaskOutcome::Done], "{what}: {slot}");
                }
                let start = setup.geometry().stripe_start(StripeIndex(3)).0;
                let lost = unreadable(volume, &bytes, &what).await;
                assert!(lost.contains(&(start + 512)), "{what}: {lost:?}");
                let of_column = |at: &u64| (at - start) % 4096 == 512 && at - start < 3 * 4096;
                assert!(lost.iter().all(of_column), "{what}: {lost:?}");
                for at in lost {
                    write(volume, at, &[9; 512]).await.expect("there is redundancy");
                    bytes[at as usize..][..512].fill(9);
                }
                assert_eq!(unreadable(volume, &bytes, "rewritten").await, [0; 0], "{what}");
                assert_eq!(
                    replace(&bench, bad.drive.0, drives).await,
                    [TaskOutcome::Done],
                    "{what}"
                );
                for slot in &missing {
                    all[usize::from(*slot)].fail_now();
                }
                assert_eq!(unreadable(volume, &bytes, "replaced").await, [0; 0], "{what}");
            })
            .expect("no stall");
        }
    }
}

/// One block of an unsynced region stayed unreadable after every write: the region stayed unsynced,
/// and the resync began again without end.
#[test]
fn a_resync_ends_though_a_block_is_never_repaired() {
    for how in ALL {
        for is_parity in [false, true] {
            let setup = Setup { unsynced: true, ..Setup::new(Level::Raid5, 4) };
            let mut sim = setup.sim(34, 0);
            let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
            let envs = envs(&sim, &setup);
            let (bad, offset) = if is_parity { parity(&setup, 5) } else { data(&setup, 5, 1) };
            break_sectors(&all[usize::from(bad)], offset + 1024, 1024, how);
            sim.run(async move {
                let bench = Bench::start(envs, &setup).await;
                let volume = bench.volume();
                bench.wait(30 * SECOND).await;
                let what = format!("{how:?}, parity {is_parity}");
                assert!(volume.recorded_state().unsynced().is_empty(), "{what}");
                let start = setup.geometry().stripe_start(StripeIndex(5)).0 + 4096;
                for at in (0..4096).step_by(512) {
                    let got = read(volume, start + at, 512).await;
                    assert_eq!(
                        got.is_err(),
                        !is_parity && (1024..2048).contains(&at),
                        "{what}: at {at}"
                    );
                }
            })
            .expect("no stall");
        }
    }
}

/// A drive was missing, and another one refused a host's write of one block. The other drives had
/// the write by then, so that redundancy could not give the missing drive's block in that column.
/// The whole region became unsynced, and all blocks of the missing drive there were unreadable.
#[test]
fn a_refused_write_of_a_degraded_stripe_costs_no_other_block() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        for is_readable in [true, false] {
            let setup = Setup::new(level, drives);
            let mut sim = setup.sim(35, 0);
            let all: Vec<_> = (0..drives).map(|index| drive(&sim, index)).collect();
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let map = setup.geometry().stripe_map(StripeIndex(3));
                let bad = map.data_cell(DataIndex(u16::from(level == Level::Raid5)), CopyIndex(0));
                let missing = (0..drives).find(|slot| *slot != bad.drive.0).expect("another one");
                let mut attachment = setup.attachment(&envs[0]).await;
                let left: Vec<u16> = (0..drives).filter(|slot| *slot != missing).collect();
                attachment.state.apply(&Change::InService(slots(&left)));
                let bench = Bench::attach(envs, attachment).await;
                let volume = bench.volume();
                let bytes = pattern(1, volume.spec().capacity.0);
                write(volume, 0, &bytes).await.expect("writable");
                let of = &all[bad.drive.as_usize()];
                of.refuse_writes(range(bad.offset.0 + 512, 512));
                let start = setup.geometry().stripe_start(StripeIndex(3)).0;
                let at = if level == Level::Raid5 { start + 4096 } else { start };
                if !is_readable {
                    of.make_stuck(range(bad.offset.0 + 512, 512), None);
                }
                assert!(write(volume, at, &[5; 2048]).await.is_err(), "no drive has the block");
                bench.wait(SECOND).await;
                let what = format!("{level}, readable {is_readable}");
                assert_eq!(
                    bench.count(|kind| matches!(kind, ReportKind::Unsynced(_))),
                    0,
                    "{what}"
                );
                for sector in (0..bytes.len() as u64).step_by(512) {
                    let old = &bytes[sector as usize..][..512];
                    let is_written = (at..at + 2048).contains(&sector);
                    match read(volume, sector, 512).await {
                        Ok(got) => {
                            assert!(
                                got == old || is_written && got == [5; 512],
                                "{what}: at {sector}"
                            )
                        }
                        Err(_) => {
                            // A block that was neither readable nor writable before is lost with
                            // the blocks that depend on it.
                            let in_column =
                                (sector - start) % 4096 == 512 && sector - start < 12288;
                            assert!(!is_readable && in_column, "{what}: at {sector}");
                        }
                    }
                }
            })
            .expect("no stall");
        }
    }
}

/// A drive was being repaired, block by block, when its replacement took the slot. The old drive's
/// unreadable blocks were then listed as excluded in the slot: with other drives missing, hosts
/// could not read the new drive's blocks.
#[test]
fn what_a_drive_did_not_keep_is_no_matter_of_the_one_that_took_its_slot() {
    let mut were_caught = 0;
    for delay in (0..80_000).step_by(1000) {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(37, 1);
        let (slot, offset) = data(&setup, 3, 1);
        let old = drive(&sim, slot);
        let envs = envs(&sim, &setup);
        let is_caught = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let (slot, source) = (DriveIndex(slot), open(&bench.env, 4).await);
            let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
            bench
                .tell(|done| {
                    ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done))
                })
                .await;
            bench.begin(TaskKind::Copy { slot }, PACE).await;
            bench.ended().await;
            break_sectors(&old, offset, 512, Unkept::Taken);
            // The repair runs concurrently.
            let at = setup.geometry().stripe_start(StripeIndex(3)).0 + 4096;
            assert!(read(volume, at, 512).await.expect("redundant") == bytes[at as usize..][..512]);
            bench.env.sleep(Duration::from_micros(delay)).await;
            let is_excluded = || volume.recorded_state().is_excluded(slot, range(offset, 512));
            let is_before = is_excluded();
            let promoted = Change::Promoted { slot, stale: RegionSet::EMPTY };
            bench
                .tell(|done| ShardMessage::Apply(VOLUME, promoted.clone(), None, Some(done)))
                .await;
            bench.env.sleep(SECOND).await;
            assert!(!is_excluded(), "blocks of the old drive, {delay} us after the read");
            !is_before
        });
        were_caught += u32::from(is_caught.expect("no stall"));
    }
    assert!(
        (1..80).contains(&were_caught),
        "the switch hit a running repair {were_caught} times of 80"
    );
}

/// A drive of a RAID 5EE lost a block, and then failed. Its strips were copied back from the
/// distributed spare to the replacement. The block stayed excluded there: hosts could not read
/// blocks in the same columns that another drive had lost.
#[test]
fn what_a_drive_did_not_keep_is_kept_by_the_one_that_gets_it_from_the_distributed_spare() {
    let setup = Setup::new(Level::Raid5ee, 5);
    let mut sim = setup.sim(41, 1);
    let (slot, offset) = data(&setup, 3, 1);
    let (other, beside) = data(&setup, 3, 0);
    let (victim, other) = (drive(&sim, slot), drive(&sim, other));
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let (volume, slot) = (bench.volume().clone(), DriveIndex(slot));
        let bytes = pattern(1, volume.spec().capacity.0);
        write(&volume, 0, &bytes).await.expect("writable");
        break_sectors(&victim, offset, 512, Unkept::Taken);
        let is_excluded = || volume.recorded_state().is_excluded(slot, range(offset, 512));
        assert_eq!(unreadable(&volume, &bytes, "broken").await, [0; 0]);
        bench.env.sleep(SECOND).await;
        assert!(is_excluded(), "the repair failed");
        victim.fail_now();
        assert_eq!(unreadable(&volume, &bytes, "lost").await, [0; 0]);
        bench.begin(TaskKind::Relocate { slot }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        let moved = |to_spare| Change::Moved { slot, regions: regions(&setup), to_spare };
        bench.tell(|done| ShardMessage::Apply(VOLUME, moved(true), None, Some(done))).await;
        let source = Some(open(&bench.env, 5).await);
        let change =
            NewDrive { slot, source, stale: RegionSet::EMPTY, in_service: slots(&[0, 1, 2, 3, 4]) };
        bench.tell(|done| change.message(done)).await;
        bench.reports.borrow_mut().clear();
        bench.begin(TaskKind::Restore { slot }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        bench.tell(|done| ShardMessage::Apply(VOLUME, moved(false), None, Some(done))).await;
        assert!(!is_excluded(), "the new drive has the block");
        break_sectors(&other, beside, 512, Unkept::Taken);
        assert_eq!(unreadable(&volume, &bytes, "restored").await, [0; 0]);
    })
    .expect("no stall");
}
