//! Tasks that process several stripes together: contiguous strips of a drive are one operation.
//! Stripes are processed one by one when that is not possible.

use crate::common::{
    self, Bench, PACE, Setup, TASK, VOLUME, envs, pattern, range, read, stale_on, write,
};
use engine::{Change, RegionSet, ReportKind, ShardMessage, TaskKind, TaskOutcome, TaskPace};
use layout::Level;
use platform_sim::{Sim, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex};

const STRIP: u64 = 4096;
/// The number of stripes of every volume here, and of stripes per batch.
const STRIPES: u64 = 64;
const TOGETHER: u64 = 16;

fn setup(level: Level, drives: u16) -> Setup {
    Setup { member: ByteCount(STRIPES * STRIP), ..Setup::new(level, drives) }
}

fn all_drives(sim: &Sim, setup: &Setup) -> Vec<SimDrive> {
    (0..setup.drives).map(|drive| common::drive(sim, drive)).collect()
}

/// The reads and writes that each drive got.
fn ios(drives: &[SimDrive]) -> Vec<(u64, u64)> {
    drives.iter().map(|drive| (drive.stats().reads, drive.stats().writes)).collect()
}

/// Begins a task that assumes no host I/O: it pauses first until earlier requests are long past.
async fn begin_alone(bench: &Bench, kind: TaskKind) {
    bench.begin(kind, TaskPace { paused: true, ..PACE }).await;
    bench.wait(Duration::from_secs(1)).await;
    for shard in &bench.senders {
        assert!(shard.send(ShardMessage::SetPace(TASK, PACE)).is_ok());
    }
}

/// The reads and writes of each drive for a task. `stale`: all of the first drive is stale.
fn cost(setup: Setup, stale: bool, unsynced: bool, kind: TaskKind) -> Vec<(u64, u64)> {
    let setup = Setup { unsynced, ..setup };
    let mut sim = setup.sim(11, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let counted = sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        if stale {
            attachment.state = common::stale(attachment.state, &stale_on(&setup, 0));
        }
        let bench = Bench::attach(envs, attachment).await;
        let before = match unsynced {
            true => vec![(0, 0); drives.len()], // The resync starts automatically.
            false => {
                let bytes = pattern(1, setup.geometry().capacity().0);
                write(bench.volume(), 0, &bytes).await.expect("writable");
                let before = ios(&drives);
                begin_alone(&bench, kind).await;
                assert_eq!(bench.ended().await, vec![TaskOutcome::Done]);
                before
            }
        };
        bench.wait(Duration::from_secs(2)).await;
        let after = ios(&drives);
        before
            .iter()
            .zip(after)
            .map(|(before, after)| (after.0 - before.0, after.1 - before.1))
            .collect()
    });
    counted.expect("no stall")
}

/// Each strip was a separate operation: 64 per drive.
#[test]
fn a_rebuild_asks_each_drive_once_for_stripes_that_follow_one_another() {
    let least = STRIPES / TOGETHER;
    let rebuild = TaskKind::Rebuild { slot: DriveIndex(0) };
    let asked = cost(setup(Level::Raid5, 4), true, false, rebuild);
    assert_eq!(asked, [(0, least), (least, 0), (least, 0), (least, 0)]);
    // One strip of redundancy is enough: the other one is not read, and each read run ends there.
    let asked = cost(setup(Level::Raid6, 5), true, false, rebuild);
    assert_eq!(asked[0], (0, least));
    assert!(asked[1..].iter().all(|asked| asked.0 <= STRIPES / 4 && asked.1 == 0), "{asked:?}");
    let mirror = cost(setup(Level::Raid10, 4), true, false, rebuild);
    assert_eq!(mirror, [(0, least), (least, 0), (0, 0), (0, 0)]);
}

/// The strips of a drive are contiguous, whatever they hold.
#[test]
fn a_check_reads_each_drive_in_as_few_operations_as_there_are_stripes_together() {
    for (level, drives) in [(Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let asked = cost(setup(level, drives), false, false, TaskKind::Check { repair: false });
        assert_eq!(asked, vec![(STRIPES / TOGETHER, 0); usize::from(drives)], "{level}");
    }
}

/// A resync does not read redundancy. It lies between data on each drive, and is written a strip at
/// a time.
#[test]
fn a_resync_reads_data_between_redundancy_in_one_operation() {
    let check = TaskKind::Check { repair: false };
    let asked = cost(setup(Level::Raid5, 4), false, true, check);
    let (reads, writes) =
        asked.iter().fold((0, 0), |sum, asked| (sum.0 + asked.0, sum.1 + asked.1));
    assert_eq!(writes, STRIPES, "each stripe has one strip of parity: {asked:?}");
    assert!(reads <= STRIPES + STRIPES / TOGETHER * 4, "{asked:?}");
}

/// One drive cannot read a sector in the middle of a batch: RAID 6 computes it.
#[test]
fn what_cannot_be_read_has_its_stripe_go_by_itself() {
    let setup = setup(Level::Raid6, 5);
    let mut sim = setup.sim(3, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = common::stale(attachment.state, &stale_on(&setup, 0));
        let bench = Bench::attach(envs, attachment).await;
        let bytes = pattern(4, setup.geometry().capacity().0);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        let places = [common::data(&setup, 21, 0), common::data(&setup, 21, 1)];
        let (bad, at) =
            *places.iter().find(|(drive, _)| *drive != 0).expect("two strips, two drives");
        drives[usize::from(bad)].make_unreadable(range(at + 512, 512));
        begin_alone(&bench, TaskKind::Rebuild { slot: DriveIndex(0) }).await;
        assert_eq!(bench.ended().await, vec![TaskOutcome::Done]);
        let is_found = |kind: &ReportKind| {
            matches!(kind, ReportKind::MediumError { recovered: true, healed: true, .. })
        };
        assert!(bench.count(is_found) > 0, "{:?}", bench.reports.borrow());
        // The drive was computed from the others' redundancy: with two of them missing, its own is
        // needed.
        let others: Vec<usize> =
            (1..5).filter(|drive| *drive != usize::from(bad)).take(2).collect();
        others.iter().for_each(|drive| drives[*drive].fail_now());
        assert!(read(bench.volume(), 0, bytes.len() as u64).await.expect("readable") == bytes);
        assert_eq!(bench.volume().check_invariants(), Ok(()));
    });
    ran.expect("no stall");
}

/// A host writes to a stripe in the middle: the rebuild's batch ends before it, and the rebuild
/// holds no other stripe's lock while it waits for that one.
#[test]
fn a_stripe_that_a_host_holds_is_waited_for_by_itself() {
    let setup = setup(Level::Raid5, 4);
    let mut sim = setup.sim(5, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = common::stale(attachment.state, &stale_on(&setup, 0));
        let bench = Rc::new(Bench::attach(envs, attachment).await);
        let mut bytes = pattern(4, setup.geometry().capacity().0);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        let (home, _) = common::data(&setup, 7, 1);
        drives[usize::from(home)].stall_next(1, Duration::from_secs(3));
        let at = 7 * 3 * STRIP + STRIP;
        let host = common::begin(bench.volume(), at, 0xEE);
        bytes[at as usize..][..512].fill(0xEE);
        begin_alone(&bench, TaskKind::Rebuild { slot: DriveIndex(0) }).await;
        bench.wait(Duration::from_millis(200)).await;
        assert_eq!(host.get(), None, "the host holds its stripe's lock");
        // Stripes of the same batch: before the host's stripe, and behind it.
        for stripe in [3, 12] {
            let beside = stripe * 3 * STRIP;
            write(bench.volume(), beside, &[0xDD; 512]).await.expect("writable");
            bytes[beside as usize..][..512].fill(0xDD);
            assert_eq!(
                host.get(),
                None,
                "stripe {stripe} is not locked while the rebuild waits for the host's stripe"
            );
        }
        assert!(bench.outcomes().is_empty(), "the rebuild waits for the host");
        assert_eq!(bench.ended().await, vec![TaskOutcome::Done]);
        assert_eq!(host.get(), Some(true));
        drives[3].fail_now();
        assert!(read(bench.volume(), 0, bytes.len() as u64).await.expect("readable") == bytes);
        assert_eq!(bench.volume().check_invariants(), Ok(()));
    });
    ran.expect("no stall");
}

/// The writes of several stripes are one operation: when its drive fails it, all of them lack that
/// drive.
#[test]
fn a_drive_that_does_not_take_what_is_rebuilt_is_current_nowhere() {
    let setup = setup(Level::Raid5, 4);
    let mut sim = setup.sim(6, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = common::stale(attachment.state, &stale_on(&setup, 0));
        let bench = Bench::attach(envs, attachment).await;
        let bytes = pattern(4, setup.geometry().capacity().0);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        drives[0].refuse_writes(range(30 * STRIP, 512));
        begin_alone(&bench, TaskKind::Rebuild { slot: DriveIndex(0) }).await;
        assert!(matches!(bench.ended().await[..], [TaskOutcome::Failed(_)]));
        assert!(bench.count(|kind| matches!(kind, ReportKind::Current { .. })) == 0);
        assert!(read(bench.volume(), 0, bytes.len() as u64).await.expect("readable") == bytes);
        assert_eq!(bench.volume().check_invariants(), Ok(()));
    });
    ran.expect("no stall");
}

/// A copy reads and writes contiguous strips at once.
#[test]
fn a_copy_moves_stripes_that_follow_one_another_in_one_operation() {
    for level in [Level::Raid0, Level::Raid5] {
        let setup = setup(level, 3);
        let mut sim = setup.sim(7, 1);
        let (envs, drives, new) =
            (envs(&sim, &setup), all_drives(&sim, &setup), common::drive(&sim, 3));
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = pattern(9, setup.geometry().capacity().0);
            write(bench.volume(), 0, &bytes).await.expect("writable");
            let source = common::open(&bench.env, 3).await;
            let slot = DriveIndex(1);
            let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
            let message =
                |done| ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done));
            bench.tell(message).await;
            let (before, written) = (drives[1].stats(), new.stats().writes);
            begin_alone(&bench, TaskKind::Copy { slot }).await;
            assert_eq!(bench.ended().await, vec![TaskOutcome::Done]);
            let after = drives[1].stats();
            let asked = (after.reads - before.reads, after.writes - before.writes);
            assert_eq!(
                (asked, new.stats().writes - written),
                ((STRIPES / TOGETHER, 0), STRIPES / TOGETHER)
            );
            let len = ByteCount(STRIPES * STRIP);
            assert!(drives[1].peek(ByteOffset(0), len) == new.peek(ByteOffset(0), len));
        });
        ran.expect("no stall");
    }
}
