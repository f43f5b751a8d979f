//! What nobody ever wrote is zeroes, for ever, whichever drives are out, and whatever a drive held that took a place.

use crate::common::{
    Bench, NewDrive, PACE, Setup, drive, envs, open, pattern, read, redundant_shapes, regions, slots, stale,
    stale_on, write,
};
use engine::{Change, RegionSet, ReportKind, TaskKind, TaskOutcome};
use layout::Level;
use platform::IoErrorKind;
use platform_sim::SimDrive;
use std::time::Duration;
use units::{ByteOffset, DriveIndex, DriveSet};

/// The slot whose drive is replaced.
const REPLACED: u16 = 1;

/// A volume that was never written, into which a drive came that held something else.
async fn with_a_foreign_drive(envs: Vec<platform::Env>, setup: &Setup) -> Bench {
    let mut attachment = setup.attachment(&envs[0]).await;
    attachment.state = attachment.state.with_unwritten(&regions(setup));
    let bench = Bench::attach(envs, attachment).await;
    let new = open(&bench.env, setup.drives).await;
    let all = DriveSet::first(setup.geometry().drives());
    let change =
        NewDrive { slot: DriveIndex(REPLACED), source: Some(new), stale: regions(setup), in_service: all };
    bench.tell(|done| change.message(done)).await;
    bench
}

fn spoil(drives: &[SimDrive], setup: &Setup) {
    drives[usize::from(setup.drives)].poke(ByteOffset(0), &pattern(9, setup.member.0));
}

/// Six drives were striped with three copies, and four of them replaced, one by one, by drives that held something else.
/// The second region had never been written, so nothing was rebuilt there, and whichever copy was read spoke: hosts got
/// zeroes, then what a drive had held in its life before, then zeroes again; and once the region was written, its
/// redundancy was made to follow one of them.
#[test]
fn what_nobody_wrote_is_zeroes_whichever_drives_are_out() {
    for setup in redundant_shapes() {
        for lost in 0..setup.drives {
            let setup = setup.clone();
            let mut sim = setup.sim(40, 1);
            let all: Vec<SimDrive> = (0..=setup.drives).map(|index| drive(&sim, index)).collect();
            spoil(&all, &setup);
            if lost.is_multiple_of(2) {
                // It cannot write zeroes by itself, and is to be sent some.
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
                assert_eq!(current, 1, "{why}: the new drive is current before the region is marked");
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

/// More drives are out, or hold anything, than the level survives: still nobody ever wrote anything there.
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
        assert!(got.expect("nobody wrote anything").iter().all(|byte| *byte == 0));
    })
    .expect("no stall");
}

/// A drive was replaced before anything was written: the rebuild has nothing to do, and what is written later is
/// redundant all the same.
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

/// A volume lost a drive, and was written where nothing had ever been written. That was acknowledged, but what belonged on
/// the missing drive was nowhere: reading it was an error. Torture found it (raid6, seed 101052).
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

/// A drive that cannot be blanked is done without; what is written is redundant by the others as far as it goes.
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
        assert!(read(volume, 40_000, 20_000).await.expect("readable").iter().all(|byte| *byte == 0));
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 1);
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::Current { .. })), 0);
        assert_eq!(regions(&setup), RegionSet::first(1), "all of it in one region");
    })
    .expect("no stall");
}
