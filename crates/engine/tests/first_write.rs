//! Unwritten sectors read as zeros, whichever drives fail and whatever a replacement drive held
//! before.

use crate::common::{
    Bench, NewDrive, PACE, Setup, drive, envs, open, pattern, read, redundant_shapes, regions,
    slots, stale, stale_on, write,
};
use engine::{Change, RegionSet, ReportKind, TaskKind, TaskOutcome};
use layout::Level;
use platform::IoErrorKind;
use platform_sim::SimDrive;
use std::time::Duration;
use units::{ByteOffset, DriveIndex, DriveSet};

/// The slot whose drive is replaced.
const REPLACED: u16 = 1;

/// An unwritten volume with a replacement drive that held other data.
async fn with_a_foreign_drive(envs: Vec<platform::Env>, setup: &Setup) -> Bench {
    let mut attachment = setup.attachment(&envs[0]).await;
    attachment.state = attachment.state.with_unwritten(&regions(setup));
    let bench = Bench::attach(envs, attachment).await;
    let new = open(&bench.env, setup.drives).await;
    let all = DriveSet::first(setup.geometry().drives());
    let change = NewDrive {
        slot: DriveIndex(REPLACED),
        source: Some(new),
        stale: regions(setup),
        in_service: all,
    };
    bench.tell(|done| change.message(done)).await;
    bench
}

fn spoil(drives: &[SimDrive], setup: &Setup) {
    drives[usize::from(setup.drives)].poke(ByteOffset(0), &pattern(9, setup.member.0));
}

/// Six drives were striped with three copies, and four of them were replaced, one by one, by used
/// drives. The second region was unwritten, so nothing was rebuilt there, and reads took any copy:
/// hosts got zeros, then old data of a replacement, then zeros again. After the first write to the
/// region, its redundancy was computed from one of these copies.
#[test]
fn what_nobody_wrote_is_zeroes_whichever_drives_are_out() {
    for setup in redundant_shapes() {
        for lost in 0..setup.drives {
            let setup = setup.clone();
            let mut sim = setup.sim(40, 1);
            let all: Vec<SimDrive> = (0..=setup.drives).map(|index| drive(&sim, index)).collect();
            spoil(&all, &setup);
            if lost.is_multiple_of(2) {
                // The drive cannot write zeros by itself, and must be sent some.
                let refused = Some("write-zeroes");
                all[usize::from(setup.drives)].fail_next(1000, refused, IoErrorKind::NotSupported);
            }
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let bench = with_a_foreign_drive(envs, &setup).await;
                let (volume, why) = (bench.volume(), format!("{} without {lost}", setup.level));
                let capacity = volume.spec().capacity.0;
                let nothing = |bytes: Vec<u8>| bytes.iter().all(|byte| *byte == 0);
                assert!(nothing(read(volume, 0, capacity).await.expect("readable")), "{why}");
                let (at, bytes) = (capacity / 2 + 700, pattern(1, 9000));
                let end = at + bytes.len() as u64;
                write(volume, at, &bytes).await.expect("writable");
                let current = bench.count(|kind| matches!(kind, ReportKind::Current { .. }));
                assert_eq!(
                    current, 1,
                    "{why}: the new drive is current before the region is marked"
                );
                let look = async |what: &str| {
                    let mut all = read(volume, 0, capacity).await.expect("readable");
                    assert!(all[at as usize..end as usize] == bytes, "{why}, {what}");
                    all[at as usize..end as usize].fill(0);
                    assert!(nothing(all), "{why}, {what}");
                };
                look("with all drives").await;
                if lost != REPLACED {
                    all[usize::from(lost)].fail_now();
                    look("without that one").await;
                }
            })
            .expect("no stall");
        }
    }
}

/// More drives fail, or hold old data, than the level tolerates: unwritten sectors still read as
/// zeros.
#[test]
fn what_was_never_written_can_be_read_without_any_drive_that_knows() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(41, 1);
    let all: Vec<SimDrive> = (0..=4).map(|index| drive(&sim, index)).collect();
    spoil(&all, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = with_a_foreign_drive(envs, &setup).await;
        all[0].fail_now();
        let got = read(bench.volume(), 0, bench.volume().spec().capacity.0).await;
        assert!(got.expect("the sector is unwritten").iter().all(|byte| *byte == 0));
    })
    .expect("no stall");
}

/// A drive was replaced before the first write: the rebuild has nothing to do, and later writes are
/// redundant.
#[test]
fn regions_that_were_never_written_need_no_rebuild() {
    for (level, drives_count) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let setup = Setup::new(level, drives_count);
        let mut sim = setup.sim(14, 0);
        let all: Vec<SimDrive> = (0..drives_count).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        all[1].poke(ByteOffset(0), &pattern(41, setup.member.0));
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.state = attachment.state.with_unwritten(&regions(&setup));
            attachment.state = stale(attachment.state, &stale_on(&setup, 1));
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done], "{level}");
            assert_eq!((all[1].stats().reads, all[1].stats().writes), (0, 0), "{level}");
            let bytes = pattern(1, 20_000);
            write(volume, 3000, &bytes).await.expect("writable");
            assert!(read(volume, 3000, 20_000).await.expect("readable") == bytes);
            all[0].fail_now();
            assert!(read(volume, 3000, 20_000).await.expect("redundant") == bytes, "{level}");
        })
        .expect("no stall");
    }
}

/// A degraded volume was written in an unwritten region. The write was acknowledged, but the
/// missing drive's block was stored nowhere: reading it was an error. Found by torture (raid6, seed
/// 101052).
#[test]
fn what_is_first_written_without_a_drive_is_redundant_at_once() {
    for (level, drives) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for next in 1..drives {
            let setup = Setup::new(level, drives);
            let mut sim = setup.sim(33, 0);
            let all: Vec<SimDrive> = (0..drives).map(|index| drive(&sim, index)).collect();
            all[usize::from(next)].poke(ByteOffset(0), &pattern(40, setup.member.0));
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let left: Vec<u16> = (1..setup.drives).collect();
                let mut attachment = setup.attachment(&envs[0]).await;
                attachment.sources[0] = None;
                attachment.state.apply(&Change::InService(slots(&left)));
                attachment.state = attachment.state.with_unwritten(&regions(&setup));
                attachment.state = stale(attachment.state, &stale_on(&setup, next));
                let bench = Bench::attach(envs, attachment).await;
                let why = format!("{} without 0 and {next}", setup.level);
                let bytes = pattern(1, 3 * setup.geometry().stripe_bytes().0 + 5000);
                let at = 3000;
                write(bench.volume(), at, &bytes).await.expect("writable");
                let got = read(bench.volume(), at, bytes.len() as u64).await;
                assert!(got.expect("acknowledged") == bytes, "{why}");
                if !setup.geometry().survives_set(&slots(&[0, next])) {
                    return;
                }
                all[usize::from(next)].fail_now();
                let got = read(bench.volume(), at, bytes.len() as u64).await;
                assert!(got.expect("acknowledged") == bytes, "{why}");
            })
            .expect("no stall");
        }
    }
}

/// A drive that cannot be zeroed is left out; writes are redundant on the other drives as far as
/// possible.
#[test]
fn a_drive_that_cannot_be_blanked_is_written_without() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(42, 1);
    let all: Vec<SimDrive> = (0..=4).map(|index| drive(&sim, index)).collect();
    spoil(&all, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = with_a_foreign_drive(envs, &setup).await;
        all[4].fail_next(1, Some("write-zeroes"), IoErrorKind::Gone);
        let (volume, bytes) = (bench.volume(), pattern(1, 30_000));
        write(volume, 5000, &bytes).await.expect("writable");
        assert!(read(volume, 5000, 30_000).await.expect("readable") == bytes);
        assert!(
            read(volume, 40_000, 20_000).await.expect("readable").iter().all(|byte| *byte == 0)
        );
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 1);
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::Current { .. })), 0);
        assert_eq!(regions(&setup), RegionSet::first(1), "the volume has one region");
    })
    .expect("no stall");
}
