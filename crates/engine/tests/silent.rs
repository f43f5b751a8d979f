//! Drives that do not respond in time: the requests that wait for them, and how long.

use crate::common::{Bench, Setup, VOLUME, drive, envs, pattern, read, write};
use engine::{ReportKind, ShardMessage};
use layout::Level;
use platform_sim::SimDrive;
use std::time::Duration;

const STRIP: u64 = 4096;
const HOUR: Duration = Duration::from_secs(3600);

fn asked(bench: &Bench) -> usize {
    bench.count(|kind| matches!(kind, ReportKind::DriveSilent { .. }))
}

/// Whether both drives still hold their operations.
fn silent_still(first: &SimDrive, second: &SimDrive) -> bool {
    first.in_flight() > 0 && second.in_flight() > 0
}

fn failed(bench: &Bench) -> usize {
    bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. }))
}

/// A drive without redundancy did not respond for half a minute: its volume went offline, and
/// stayed so when the drive responded again.
#[test]
fn a_drive_that_nobody_can_spare_is_waited_for_and_its_volume_goes_on() {
    let setup = Setup::new(Level::Raid0, 3);
    let mut sim = setup.sim(31, 0);
    let (silent, envs) = (drive(&sim, 1), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let (bytes, changed) = (pattern(3, 12 * STRIP), pattern(4, 12 * STRIP));
        write(bench.volume(), 0, &bytes).await.unwrap();
        silent.hold();
        let (volume, new) = (bench.volume().clone(), changed.clone());
        let writer = bench.env.spawn("write", async move { write(&volume, 0, &new).await });
        let volume = bench.volume().clone();
        let flusher = bench.env.spawn("flush", async move { volume.flush().await });
        bench.wait(HOUR).await;
        assert!(silent.in_flight() > 0, "both wait");
        SimDrive::release(&silent);
        assert!(writer.await.is_ok() && flusher.await.is_ok());
        assert!(read(bench.volume(), 0, 12 * STRIP).await.unwrap() == changed);
        assert_eq!((asked(&bench), failed(&bench)), (0, 0));
    });
    ran.expect("no stall");
}

/// Two drives of a RAID 5 stopped responding at once, like a failed switch: both were failed, and
/// the volume was lost. Now the volume waits for one of them.
#[test]
fn of_two_silent_drives_the_second_is_waited_for() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(32, 0);
    let (first, second, envs) = (drive(&sim, 1), drive(&sim, 2), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let changed = pattern(4, 24 * STRIP);
        write(bench.volume(), 0, &pattern(3, 24 * STRIP)).await.unwrap();
        [&first, &second].iter().for_each(|drive| drive.hold());
        let (volume, new) = (bench.volume().clone(), changed.clone());
        let writer = bench.env.spawn("write", async move { write(&volume, 0, &new).await });
        bench.wait(HOUR).await;
        assert_eq!(failed(&bench), 0);
        assert!(silent_still(&first, &second), "the volume waits for one of them");
        [&first, &second].iter().for_each(|drive| SimDrive::release(drive));
        assert!(writer.await.is_ok());
        assert!(read(bench.volume(), 0, 24 * STRIP).await.unwrap() == changed);
        assert_eq!(failed(&bench), 0);
    });
    ran.expect("no stall");
}

/// The controller keeps a needed drive in use: all requests wait, and the report is repeated.
#[test]
fn a_drive_that_the_controller_does_not_let_go_is_waited_for() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(33, 0);
    let (silent, envs) = (drive(&sim, 1), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        bench.refuse(|kind| {
            matches!(kind, ReportKind::DriveSilent { .. }).then_some(platform::IoErrorKind::Busy)
        });
        silent.hold();
        let (volume, new) = (bench.volume().clone(), pattern(4, STRIP));
        let writer = bench.env.spawn("write", async move { write(&volume, 0, &new).await });
        bench.wait(Duration::from_secs(60)).await;
        assert!(asked(&bench) > 10, "the report is repeated");
        bench.refuse(|_| None);
        bench.wait(Duration::from_secs(1)).await;
        assert!(writer.await.is_ok(), "the other copy has the data");
        assert_eq!(failed(&bench), 0);
        SimDrive::release(&silent);
        bench.wait(Duration::from_secs(1)).await;
    });
    ran.expect("no stall");
}

#[test]
fn a_volume_is_detached_though_a_drive_that_nobody_can_spare_is_silent() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(34, 0);
    let (silent, envs) = (drive(&sim, 1), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        silent.hold();
        let (volume, new) = (bench.volume().clone(), pattern(4, 4 * STRIP));
        let writer = bench.env.spawn("write", async move { write(&volume, 0, &new).await });
        bench.wait(Duration::from_secs(1)).await;
        bench.ask(|done| ShardMessage::Detach(VOLUME, Vec::new(), done)).await.unwrap();
        assert!(writer.await.is_err(), "the write did not happen");
        assert!(bench.env.now().ns < 40_000_000_000, "at the time limit");
        SimDrive::release(&silent);
        bench.wait(Duration::from_secs(1)).await;
    });
    ran.expect("no stall");
}
