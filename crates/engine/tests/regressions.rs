//! Defects that were found by reading: each test begins with the story of its own.

mod common;

use common::{Bench, MEMBER, Setup, VOLUME, drive, envs, open, pattern, range, read, slots, write};
use engine::{
    FaultPolicy, HealthView, LaneSet, Lanes, MemberChange, Relocated, ReportKind, ShardMessage, TaskId,
    TaskKind, TaskOrder, TaskOutcome, TaskPace,
};
use env::IoErrorKind;
use layout::{CopyIndex, DataIndex, Level, ParityIndex};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, StripSize, StripeIndex};

const TASK: TaskId = TaskId(3);
const PACE: TaskPace = TaskPace { share_percent: 30, paused: false, max_bytes_per_s: None };

fn data(setup: &Setup, stripe: u64, index: u16) -> (u16, u64) {
    let cell = setup.geometry().data_cell(StripeIndex(stripe), DataIndex(index), CopyIndex(0));
    (cell.drive.0, cell.offset.0)
}

fn parity(setup: &Setup, stripe: u64) -> (u16, u64) {
    let cell = setup.geometry().parity_cell(StripeIndex(stripe), ParityIndex(0)).expect("parity");
    (cell.drive.0, cell.offset.0)
}

fn lanes(setup: &Setup) -> LaneSet {
    LaneSet::first(Lanes::of(&setup.geometry()).count)
}

/// Only this slot's lanes are stale.
fn stale_on(setup: &Setup, slot: u16) -> Vec<LaneSet> {
    let mut stale = vec![LaneSet::EMPTY; usize::from(setup.drives)];
    stale[usize::from(slot)] = lanes(setup);
    stale
}

impl Bench {
    async fn begin(&self, kind: TaskKind, pace: TaskPace) {
        let order = TaskOrder { volume: VOLUME, task: TASK, kind, lanes: None, pace };
        self.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
    }

    fn outcomes(&self) -> Vec<TaskOutcome> {
        let outcome = |kind: &ReportKind| match kind {
            ReportKind::TaskDone { outcome, .. } => Some(*outcome),
            _ => None,
        };
        self.reports.borrow().iter().filter_map(outcome).collect()
    }

    async fn ended(&self) -> Vec<TaskOutcome> {
        while self.outcomes().len() < self.shards.len() {
            self.wait(Duration::from_millis(1)).await;
        }
        self.outcomes()
    }
}

/// A write went to data and parity; both drives went away under it. Each was weighed as if it were the only one, so
/// the write was acknowledged although it was on neither.
#[test]
fn a_write_that_is_on_no_drive_is_not_acknowledged() {
    for (level, drives_count) in [(Level::Raid5, 4), (Level::Raid10, 4), (Level::Raid6, 5), (Level::Raid1, 2)]
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
                Level::Raid1 | Level::Raid10 => {
                    (0..2).map(|copy| map.data_cell(DataIndex(0), CopyIndex(copy)).drive.0).collect()
                }
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

/// A block was lost: listed, and zeroes in its place. A write of some bytes of its sector read the rest of the
/// sector, found zeroes, and took the block off the list: the zeroes passed for what a host had written.
#[test]
fn a_part_of_a_sector_does_not_heal_the_rest_of_it() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(12, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.stale = stale_on(&setup, 1);
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
        assert_eq!(write(volume, at + 100, &[7; 50]).await.expect_err("unknown").kind, IoErrorKind::Medium);
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        let extents = volume.status(range(at, 512)).await.expect("known");
        assert!(extents.iter().all(|extent| extent.status == env::BlockStatus::Data), "{extents:?}");
        write(volume, at, &[7; 512]).await.expect("writable");
        assert_eq!(read(volume, at, 512).await.expect("written"), vec![7; 512]);
    })
    .expect("no stall");
}

/// A host read a block that was being given up by a rebuild: the read had found that it was not listed, waited for
/// the stripe, and then read the zeroes that had been put in its place.
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
            attachment.stale = stale_on(&setup, 1);
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
            assert_eq!(zeroes.get(), 0, "zeroes passed for data");
            assert!(read(&volume, at, 512).await.is_err());
        })
        .expect("no stall");
    }
}

/// A volume without redundancy does not mark lanes, so nothing ever said that they were written: a copy took them
/// for never written, and copied nothing.
#[test]
fn a_copy_of_a_volume_without_redundancy_copies_all_of_it() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(13, 1);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.unwritten = lanes(&setup);
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let new = open(&bench.env, 2).await;
        bench.tell(|done| ShardMessage::SetShadow(VOLUME, DriveIndex(0), Some(new.clone()), done)).await;
        bench.begin(TaskKind::Copy { slot: DriveIndex(0) }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        bench.tell(|done| ShardMessage::Promote(VOLUME, DriveIndex(0), LaneSet::EMPTY, done)).await;
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// A volume was made without initialisation, and a drive replaced before anything was written: the rebuild found
/// nothing to compute lanes from, as their redundancy had never agreed, and failed each time it was tried; what was
/// written later could never be made redundant.
#[test]
fn lanes_that_were_never_written_need_no_rebuild() {
    for (level, drives_count) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let setup = Setup { unsynced: true, ..Setup::new(level, drives_count) };
        let mut sim = setup.sim(14, 0);
        let all: Vec<_> = (0..drives_count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        for (index, drive) in all.iter().enumerate() {
            drive.poke(ByteOffset(0), &pattern(40 + index as u64, MEMBER.0));
        }
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.unwritten = lanes(&setup);
            attachment.dirty = LaneSet::EMPTY;
            attachment.stale = stale_on(&setup, 1);
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{level}");
            let bytes = pattern(1, 20_000);
            write(volume, 3000, &bytes).await.expect("writable");
            bench.wait(Duration::from_secs(30)).await;
            assert!(read(volume, 3000, 20_000).await.expect("readable") == bytes);
            all[0].fail_now();
            assert!(read(volume, 3000, 20_000).await.expect("redundant") == bytes, "{level}");
        })
        .expect("no stall");
    }
}

/// The lane had never been written, and a drive was put into the array that held something else. Redundancy that had
/// agreed when all drives were zeroed was still trusted, and the first write carried the difference on.
#[test]
fn another_drive_in_a_lane_that_was_never_written_makes_its_redundancy_doubtful() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(15, 1);
    let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    all[4].poke(ByteOffset(0), &pattern(9, MEMBER.0));
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.unwritten = lanes(&setup);
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let new = open(&bench.env, 4).await;
        let change = MemberChange {
            slot: DriveIndex(1),
            source: Some(new),
            stale: LaneSet::EMPTY,
            bad: engine::BadBlocks::NONE,
            health: HealthView { readable: slots(&[0, 1, 2, 3]), writable: slots(&[0, 1, 2, 3]) },
        };
        bench.tell(|done| ShardMessage::SetMember(VOLUME, Box::new(change.clone()), done)).await;
        let bytes = pattern(1, 512);
        let at = setup.geometry().stripe_start(StripeIndex(0)).0;
        let home = (0..3).find(|index| data(&setup, 0, *index).0 == 0).expect("drive 0 holds data");
        let at = at + u64::from(home) * StripSize::MIN.bytes().0;
        write(volume, at, &bytes).await.expect("writable");
        bench.wait(Duration::from_secs(30)).await;
        all[0].fail_now();
        assert!(read(volume, at, 512).await.expect("redundant") == bytes);
    })
    .expect("no stall");
}

/// What a failed drive held lies in the distributed spare. A sector of that could not be read: it was looked up as
/// the spare strip that it is no more, never written anew, and counted against its drive.
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
        attachment.health = HealthView { readable: left, writable: left };
        attachment.relocated = Some(Relocated { slot, lanes: lanes(&setup) });
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
        // Now it is lost for good: two of one column.
        let (other, offset) = data(&setup, stripe, 1);
        refuge.make_unreadable(range(spare.offset.0, 512));
        all[usize::from(other)].make_unreadable(range(offset, 512));
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        bench.wait(Duration::from_secs(1)).await;
        // A write to the same columns of another strip has to give them up, and puts zeroes there.
        let (p, p_offset) = parity(&setup, stripe);
        all[usize::from(p)].make_unreadable(range(p_offset, 512));
        let _ = write(volume, at + 2 * 4096, &[3; 512]).await;
        assert_eq!(read(volume, at, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        assert_eq!(read(volume, at + 4096, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
    })
    .expect("no stall");
}

/// The failed drive's strips were in the distributed spare, so the array could do without another drive. But that
/// one was weighed together with the one before: writes that skipped it failed, their lanes were distrusted, and
/// flushes failed for ever.
#[test]
fn a_second_drive_may_fail_once_the_first_is_in_the_distributed_spare() {
    let setup = Setup::new(Level::Raid5ee, 5);
    let mut sim = setup.sim(17, 0);
    let all: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        let left = slots(&[0, 2, 3, 4]);
        attachment.health = HealthView { readable: left, writable: left };
        attachment.relocated = Some(Relocated { slot: DriveIndex(1), lanes: lanes(&setup) });
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let mut bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (home, _) = data(&setup, 0, 1);
        let home = if home == 1 { data(&setup, 0, 0).0 } else { home };
        all[usize::from(home)].fail_now();
        for at in (0..16384).step_by(4096) {
            write(volume, at, &pattern(2, 4096)).await.expect("writable with one more drive out");
            bytes[at as usize..][..4096].copy_from_slice(&pattern(2, 4096));
        }
        volume.flush().await.expect("nothing is missing");
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// A rebuild of RAID 6 met two sectors of one column that could not be read. They and the one being rebuilt were
/// lost, as they had to be; but redundancy could not be computed over the zeroes without the drive that was missing,
/// and the whole lane was distrusted: a rebuild that never ended, and errors for blocks that could be had.
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
        attachment.stale = stale_on(&setup, missing);
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
                Ok(got) => assert!(!lost.contains(&at) && got == bytes[at as usize..][..512], "at {at}"),
                Err(_) => assert!(lost.contains(&at), "at {at}"),
            }
        }
    })
    .expect("no stall");
}

/// A drive was stale, another one could not read a sector. A write to the strip of the first in the column of the
/// second had to give that sector up, but was refused as if no drive could be written.
#[test]
fn an_unreadable_sector_does_not_keep_a_strip_of_a_stale_drive_from_being_written() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(24, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.stale = stale_on(&setup, data(&setup, 3, 0).0);
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let (other, offset) = data(&setup, 3, 1);
        all[usize::from(other)].make_unreadable(range(offset + 512, 512));
        let at = setup.geometry().stripe_start(StripeIndex(3)).0;
        write(volume, at, &[4; 1024]).await.expect("writable");
        assert_eq!(read(volume, at, 1024).await.expect("written"), [4; 1024]);
        assert_eq!(read(volume, at + 4096 + 512, 512).await.expect_err("lost").kind, IoErrorKind::Medium);
        assert!(read(volume, at + 4096, 512).await.expect("not lost") == bytes[at as usize + 4096..][..512]);
    })
    .expect("no stall");
}

/// In one column of a stripe of RAID 10 a strip was lost, both copies of it; of another strip one copy could not be
/// read. That copy was filled with zeroes too, and read as such from then on.
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
        attachment.stale = stale_on(&setup, cell(0, 1).drive.0);
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
                read(volume, at + 4096, 512).await.expect("a copy") == bytes[at as usize + 4096..][..512]
            );
            bench.wait(Duration::from_millis(100)).await;
        }
        all[cell(1, 1).drive.as_usize()].fail_now();
        // Nobody may have met the copy that could not be read: an error is an answer, zeroes are none.
        if let Ok(got) = read(volume, at + 4096, 512).await {
            assert!(got == bytes[at as usize + 4096..][..512]);
        }
    })
    .expect("no stall");
}

/// A drive that could not read a strip stopped answering while it was searched for the sectors concerned: every one
/// was tried, for the whole time limit each, with the stripe held. A write to it hung for more than two hours.
#[test]
fn a_drive_that_stops_answering_is_not_searched_for_bad_sectors() {
    let policy = FaultPolicy { time_limit: Duration::from_secs(10), ..FaultPolicy::default() };
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
        write(volume, 4096, &[5; 512]).await.expect("writable without it");
        let took = bench.env.now().since(began);
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::BadBlocks { .. })), 0, "nothing is lost");
    })
    .expect("no stall");
}

/// A trim was under way on a drive that was swapped meanwhile: its failure was put down to the drive that had the
/// slot by then.
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
        let change = MemberChange {
            slot: DriveIndex(1),
            source: Some(new),
            stale: lanes(&setup),
            bad: engine::BadBlocks::NONE,
            health: HealthView { readable: slots(&[0, 1]), writable: slots(&[0, 1]) },
        };
        let (env, held) = (bench.env.clone(), all[1].clone());
        bench.env.spawn("the old drive leaves", async move {
            env.sleep(Duration::from_millis(10)).await;
            held.fail_now();
            held.release();
        });
        bench.tell(|done| ShardMessage::SetMember(VOLUME, Box::new(change.clone()), done)).await;
        bench.wait(Duration::from_secs(1)).await;
        let failed = bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }));
        assert_eq!(failed, 0, "{:?}", bench.reports.borrow());
    })
    .expect("no stall");
}

/// A drive was copied that had a sector it could not read, on a level that could not give it back: the whole copy
/// was given up, and the drive could never be replaced.
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
                .tell(|done| ShardMessage::SetShadow(VOLUME, DriveIndex(slot), Some(new.clone()), done))
                .await;
            bench.begin(TaskKind::Copy { slot: DriveIndex(slot) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{level}");
            bench.tell(|done| ShardMessage::Promote(VOLUME, DriveIndex(slot), LaneSet::EMPTY, done)).await;
            let start = setup.geometry().stripe_start(StripeIndex(1)).0;
            let lost = [start + 512, start + 4096 + 512];
            for at in (0..bytes.len() as u64).step_by(512) {
                match read(volume, at, 512).await {
                    Ok(got) => assert!(!lost.contains(&at) && got == bytes[at as usize..][..512], "at {at}"),
                    Err(_) => assert!(lost.contains(&at), "{level}: at {at}"),
                }
            }
            if level == Level::Raid5 {
                // Redundancy agrees with what is there now, on the new drive too.
                all[usize::from(data(&setup, 1, 2).0)].fail_now();
                let at = start + 2 * 4096 + 512;
                assert!(read(volume, at, 512).await.expect("redundant") == bytes[at as usize..][..512]);
            }
        })
        .expect("no stall");
    }
}

/// Two drives of RAID 6 had rotten sectors in one stripe, in different columns. Each could be named and put right;
/// taken together nothing explained them, and redundancy was made to follow the rot.
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
            assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes, "{level}");
            if level == Level::Raid1 {
                all[2].fail_now();
                all[0].fail_now();
                assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
            }
        })
        .expect("no stall");
    }
}

/// A task stood still while its volume was detached: it was never told to end, and nobody was ever told that it had.
#[test]
fn a_task_that_stands_still_ends_with_its_volume() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(23, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        bench.begin(TaskKind::Check { repair: false }, TaskPace { paused: true, ..PACE }).await;
        bench.wait(Duration::from_secs(1)).await;
        bench.tell(|done| ShardMessage::Detach(VOLUME, done)).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(bench.outcomes(), [TaskOutcome::Stopped]);
    })
    .expect("no stall");
}
