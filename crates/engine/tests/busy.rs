//! Errors that are not the fault of a drive or its blocks: the system was busy, or returned an
//! error number without a known meaning.

use crate::common::{
    Bench, NewDrive, PACE, Setup, data, drive, envs, open, parity, pattern, read, regions, write,
};
use engine::{FaultPolicy, ReportKind, TaskKind, TaskOutcome};
use layout::Level;
use platform::IoErrorKind;
use std::time::Duration;
use units::{DriveIndex, DriveSet, StripeIndex};

const SECOND: Duration = Duration::from_secs(1);
const NO_BLOCKS: [IoErrorKind; 2] = [IoErrorKind::Busy, IoErrorKind::Unknown];

fn shapes() -> [Setup; 3] {
    // One failed repair fails the drive.
    let policy = FaultPolicy { unrepaired_limit: 1, ..FaultPolicy::default() };
    [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5)]
        .map(|(level, drives)| Setup { policy, ..Setup::new(level, drives) })
}

/// The errors that are counted against a drive or one of its blocks.
fn charged(bench: &Bench) -> Vec<String> {
    let is_charge = |kind: &&ReportKind| {
        matches!(
            kind,
            ReportKind::DriveFailed { .. }
                | ReportKind::MediumError { .. }
                | ReportKind::PuncturedBlocks { .. }
                | ReportKind::ExcludedBlocks { .. }
        )
    };
    bench.reports.borrow().iter().filter(is_charge).map(|kind| format!("{kind:?}")).collect()
}

/// ENOMEM of a read counted as a medium error: a sound block was rewritten, and the error was
/// counted against its drive.
#[test]
fn a_read_that_says_nothing_of_blocks_is_served_by_redundancy_and_repairs_nothing() {
    for setup in shapes() {
        for kind in NO_BLOCKS {
            let mut sim = setup.sim(3, 0);
            let (victim, envs, level) = (drive(&sim, 1), envs(&sim, &setup), setup.level);
            let setup = setup.clone();
            sim.run(async move {
                let bench = Bench::start(envs, &setup).await;
                let volume = bench.volume();
                let bytes = pattern(1, volume.spec().capacity.0);
                write(volume, 0, &bytes).await.expect("writable");
                for refusals in [1, 3, 20] {
                    victim.fail_next(refusals, Some("read"), kind);
                    assert!(
                        read(volume, 0, bytes.len() as u64).await.expect("served from redundancy")
                            == bytes
                    );
                    bench.wait(SECOND).await;
                }
                assert_eq!(charged(&bench), [""; 0], "{level:?}, {kind:?}");
                assert_eq!(volume.counters().repaired, 0, "{level:?}, {kind:?}");
            })
            .expect("no stall");
        }
    }
}

/// Without redundancy the read fails, and no block is listed as unreadable.
#[test]
fn a_read_that_nothing_else_can_serve_fails_for_now() {
    let setup = Setup::new(Level::Raid5, 4);
    for kind in NO_BLOCKS {
        let mut sim = setup.sim(4, 0);
        let (home, other) = (data(&setup, 0, 0).0, data(&setup, 0, 1).0);
        let (home, other, envs) = (drive(&sim, home), drive(&sim, other), envs(&sim, &setup));
        let setup = setup.clone();
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            [&home, &other].iter().for_each(|drive| drive.fail_next(1000, Some("read"), kind));
            assert_eq!(read(volume, 0, 512).await.expect_err("nothing has it now").kind, kind);
            // A write that depends on the failed read gives no block up.
            write(volume, 512, &[7; 512]).await.expect_err("parity cannot follow");
            [&home, &other].iter().for_each(|drive| drive.cancel_failures());
            bench.wait(SECOND).await;
            assert!(read(volume, 0, bytes.len() as u64).await.expect("readable again") == bytes);
            assert_eq!(charged(&bench), [""; 0], "{kind:?}");
        })
        .expect("no stall");
    }
}

/// A write that the system refused temporarily failed its drive.
#[test]
fn a_write_that_is_refused_for_now_fails_and_no_drive_does() {
    for setup in shapes() {
        let mut sim = setup.sim(5, 0);
        let (victim, envs, level) = (drive(&sim, 1), envs(&sim, &setup), setup.level);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let len = volume.spec().capacity.0;
            write(volume, 0, &pattern(1, len)).await.expect("writable");
            for (at, bytes) in
                [(0, pattern(2, len)), (1024, pattern(3, 512)), (8192, vec![0; 65536])]
            {
                ["write", "write-zeroes"].iter().for_each(|op| {
                    victim.fail_next(10_000, Some(op), IoErrorKind::Busy);
                });
                let result = write(volume, at, &bytes).await;
                victim.cancel_failures();
                if let Err(error) = result {
                    assert_eq!(error.kind, IoErrorKind::Busy, "{level:?}");
                }
                bench.wait(SECOND).await;
                write(volume, at, &bytes).await.expect("the write succeeds now");
                let got = read(volume, at, bytes.len() as u64).await.expect("readable");
                assert!(got == bytes, "{level:?}");
            }
            assert_eq!(charged(&bench), [""; 0], "{level:?}");
        })
        .expect("no stall");
    }
}

/// A flush that the system refused temporarily failed its drive, also a drive in a rebuild.
#[test]
fn a_flush_that_is_refused_for_now_fails_and_no_drive_does() {
    for setup in shapes() {
        let mut sim = setup.sim(6, 1);
        let (victim, envs, level) = (drive(&sim, 1), envs(&sim, &setup), setup.level);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            write(volume, 0, &pattern(1, 65536)).await.expect("writable");
            victim.fail_next(1, Some("flush"), IoErrorKind::Busy);
            assert_eq!(
                volume.flush().await.expect_err("it is not flushed").kind,
                IoErrorKind::Busy
            );
            volume.flush().await.expect("the flush succeeds now");
            bench.wait(SECOND).await;
            assert_eq!(charged(&bench), [""; 0], "{level:?}");
        })
        .expect("no stall");
    }
}

/// A rebuild got an unknown error number from the remaining drives and took it for a medium error.
/// It listed sound blocks as punctured, and hosts got errors for them from then on.
#[test]
fn a_rebuild_beside_an_unknown_error_punctures_nothing() {
    for kind in NO_BLOCKS {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(7, 1);
        let (slot, survivor) = (DriveIndex(data(&setup, 1, 0).0), parity(&setup, 1).0);
        let (survivor, envs) = (drive(&sim, survivor), envs(&sim, &setup));
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(3, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let all = DriveSet::first(setup.geometry().drives());
            let new = open(&bench.env, 4).await;
            for (source, current) in [(None, all.without(slot)), (Some(new), all)] {
                let change = NewDrive { slot, source, stale: regions(&setup), in_service: current };
                bench.tell(|done| change.message(done)).await;
            }
            survivor.fail_next(1000, Some("read"), kind);
            bench.begin(TaskKind::Rebuild { slot }, PACE).await;
            bench.ended().await;
            assert_eq!(charged(&bench), [""; 0], "{kind:?}");
            survivor.cancel_failures();
            bench.reports.borrow_mut().clear();
            bench.begin(TaskKind::Rebuild { slot }, PACE).await;
            assert_eq!(bench.ended().await, [TaskOutcome::Done]);
            assert!(read(volume, 0, bytes.len() as u64).await.expect("nothing is lost") == bytes);
            assert_eq!(charged(&bench), [""; 0], "{kind:?}");
            let start = setup.geometry().stripe_start(StripeIndex(1)).0;
            assert!(read(volume, start, 512).await.is_ok());
        })
        .expect("no stall");
    }
}

/// A write that ends with an unknown error number may or may not be on the drive: the drive
/// fails, and is not read there.
#[test]
fn a_write_with_an_unknown_error_counts_as_refused() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(8, 0);
    let victim = data(&setup, 0, 0).0;
    let (refusing, envs) = (drive(&sim, victim), envs(&sim, &setup));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        write(volume, 0, &pattern(1, 65536)).await.expect("writable");
        refusing.fail_next(1, Some("write"), IoErrorKind::Unknown);
        write(volume, 0, &[9; 4096]).await.expect("the other drives take it");
        assert_eq!(read(volume, 0, 4096).await.expect("readable"), [9; 4096]);
        let failed = |kind: &ReportKind| {
            matches!(kind, ReportKind::DriveFailed { drive, .. } if drive.0 == victim)
        };
        assert_eq!(bench.count(failed), 1, "the drive fails");
    })
    .expect("no stall");
}
