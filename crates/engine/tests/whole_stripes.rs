//! Several full stripes of one host write go to the drives together: a drive failure during it,
//! more failures than tolerated, and power cuts at any event.

use crate::common::{self, Bench, PACE, Setup, envs, pattern, read, regions, write};
use engine::{RegionSet, ReportKind, TaskKind, TaskOutcome};
use layout::Level;
use platform::IoError;
use platform_sim::{Sim, SimDrive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

const STRIP: u64 = 4096;
const STRIPES: u64 = 16;

fn setup(level: Level, drives: u16) -> Setup {
    Setup { member: ByteCount(STRIPES * STRIP), ..Setup::new(level, drives) }
}

fn shapes() -> [Setup; 3] {
    [setup(Level::Raid10, 4), setup(Level::Raid5, 4), setup(Level::Raid6, 5)]
}

fn all_drives(sim: &Sim, setup: &Setup) -> Vec<SimDrive> {
    (0..setup.drives).map(|drive| common::drive(sim, drive)).collect()
}

/// Writes all of the volume in the background. Returns the result.
fn begin(bench: &Bench, bytes: &[u8]) -> Rc<Cell<Option<Result<(), IoError>>>> {
    let (told, volume, bytes) = (Rc::new(Cell::new(None)), bench.volume().clone(), bytes.to_vec());
    let ended = told.clone();
    bench.env.spawn("write", async move { told.set(Some(write(&volume, 0, &bytes).await)) });
    ended
}

fn is_out(kind: &ReportKind) -> bool {
    matches!(kind, ReportKind::DriveFailed { .. })
}

fn is_in_doubt(kind: &ReportKind) -> bool {
    matches!(kind, ReportKind::Unsynced(_))
}

/// The content of the drives when `failing` fail while all stripes are being written together, each
/// drive with its part of all stripes.
fn fails_in_the_middle(
    setup: &Setup,
    failing: &[usize],
    check: impl AsyncFn(Bench, Vec<SimDrive>) + 'static,
) {
    let mut sim = setup.sim(21, 0);
    let (envs, drives) = (envs(&sim, setup), all_drives(&sim, setup));
    let (setup, failing) = (setup.clone(), failing.to_vec());
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let len = setup.geometry().capacity().0;
        write(bench.volume(), 0, &pattern(1, len)).await.expect("writable");
        failing.iter().for_each(|drive| drives[*drive].hold());
        let before: Vec<u64> = drives.iter().map(|drive| drive.stats().writes).collect();
        let ended = begin(&bench, &pattern(2, len));
        bench.wait(Duration::from_millis(100)).await;
        for (drive, before) in drives.iter().zip(before) {
            let asked = drive.stats().writes + drive.in_flight() as u64 - before;
            assert_eq!(
                asked,
                1,
                "{}: the part of {} in all stripes is one operation",
                setup.level,
                drive.name()
            );
        }
        assert!(
            failing.iter().all(|drive| drives[*drive].in_flight() > 0),
            "the drives have their writes"
        );
        assert_eq!(ended.get(), None);
        failing.iter().for_each(|drive| drives[*drive].fail_now());
        while ended.get().is_none() {
            bench.wait(Duration::from_millis(1)).await;
        }
        assert_eq!(ended.get().map(|result| result.is_ok()), Some(bench.count(is_in_doubt) == 0));
        assert_eq!(
            bench.count(is_out),
            failing.len(),
            "{}: recorded before the acknowledgement",
            setup.level
        );
        check(bench, drives).await;
    });
    ran.expect("no stall");
}

/// The strips of all stripes on a drive are one operation: when it fails, each stripe is written
/// without the drive, and the write is acknowledged when that is recorded.
#[test]
fn a_drive_that_fails_in_the_middle_is_out_and_costs_no_stripe() {
    for setup in shapes() {
        let len = setup.geometry().capacity().0;
        fails_in_the_middle(&setup, &[1], async move |bench, _| {
            assert_eq!(bench.count(is_in_doubt), 0, "all regions are synced");
            assert!(read(bench.volume(), 0, len).await.expect("readable") == pattern(2, len));
            assert_eq!(bench.volume().check_invariants(), Ok(()));
        });
    }
}

/// Two drives of RAID 5 fail the write: the host gets an error, and parity of these stripes is
/// unsynced.
#[test]
fn stripes_that_more_drives_fail_than_may_are_in_doubt() {
    fails_in_the_middle(&setup(Level::Raid5, 4), &[1, 2], async |bench, _| {
        assert!(bench.count(is_in_doubt) > 0, "{:?}", bench.reports.borrow());
        assert_eq!(bench.volume().check_invariants(), Ok(()));
    });
}

/// The controller's knowledge after a crash: the reports that were replied to.
type Known = Rc<RefCell<RegionSet>>;

/// Writes all stripes together over durable data. Returns the result, unless the power cut came
/// first.
fn write_over(
    sim: &mut Sim,
    setup: &Setup,
    marked: &Known,
    stop: Option<u64>,
) -> (u64, Option<bool>) {
    let (envs, of_life, known) = (envs(sim, setup), setup.clone(), marked.clone());
    let bench = sim.run(async move {
        let bench = Bench::start(envs, &of_life).await;
        let len = of_life.geometry().capacity().0;
        write(bench.volume(), 0, &pattern(1, len)).await.expect("writable");
        bench.volume().flush().await.expect("flushed");
        // The region was idle for long: it is unmarked.
        bench.wait(Duration::from_secs(60)).await;
        let is_quiet = |kind: &ReportKind| matches!(kind, ReportKind::Quiet(_));
        assert!(bench.count(is_quiet) > 0, "the region is unmarked");
        bench.reports.borrow_mut().clear();
        bench
    });
    let bench = bench.expect("no stall");
    let (first, reports) = (sim.events(), bench.reports.clone());
    sim.stop_at_event(stop);
    let bytes = pattern(2, setup.geometry().capacity().0);
    let wrote = sim.run(async move {
        let wrote = write(bench.volume(), 0, &bytes).await.is_ok();
        let flushed = bench.volume().flush().await.is_ok();
        (bench, wrote && flushed)
    });
    sim.stop_at_event(None);
    for report in reports.borrow().iter() {
        if let ReportKind::MarkDirty(marked) = report {
            *known.borrow_mut() = marked.clone();
        }
    }
    (first, wrote.ok().map(|(_bench, is_durable)| is_durable))
}

/// Whether each sector is old or new; all are new if the write was acknowledged.
fn is_old_or_new(bytes: &[u8], is_durable: bool) -> bool {
    let (old, new) = (pattern(1, bytes.len() as u64), pattern(2, bytes.len() as u64));
    let mut sectors = bytes.chunks(512).zip(old.chunks(512).zip(new.chunks(512)));
    sectors.all(|(sector, (old, new))| sector == new || (!is_durable && sector == old))
}

/// The content after the crash. It must stay when a drive is lost once redundancy counts as synced.
fn look(sim: &mut Sim, setup: &Setup, marked: &RegionSet, is_durable: bool, why: &str) {
    let again = Setup { unsynced: !marked.is_empty(), ..setup.clone() };
    let (envs, drives, why) = (envs(sim, setup), all_drives(sim, setup), why.to_owned());
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &again).await;
        let len = again.geometry().capacity().0;
        let before = read(bench.volume(), 0, len).await.expect("readable");
        assert!(is_old_or_new(&before, is_durable), "{why}");
        bench.wait(Duration::from_secs(5)).await;
        bench.begin(TaskKind::Check { repair: false }, PACE).await;
        assert_eq!(bench.ended().await, vec![TaskOutcome::Done], "{why}");
        let is_mismatch = |kind: &ReportKind| matches!(kind, ReportKind::Mismatch { .. });
        assert_eq!(bench.count(is_mismatch), 0, "{why}: {:?}", bench.reports.borrow());
        drives[1].fail_now();
        assert!(read(bench.volume(), 0, len).await.expect("redundant") == before, "{why}");
    });
    ran.expect("no stall");
}

/// A power cut before every event of such a write. Its stripes need not be atomic; but they are
/// unsynced afterwards, as their region was marked before the first of them was written.
#[test]
fn power_that_goes_at_any_event_leaves_each_sector_old_or_new_and_no_redundancy_that_lies() {
    for setup in shapes() {
        let prepare = || setup.sim(22, 0);
        let known = Known::default();
        let mut sim = prepare();
        let (first, answered) = write_over(&mut sim, &setup, &known, None);
        assert_eq!(answered, Some(true));
        assert_eq!(*known.borrow(), regions(&setup), "the region is marked");
        let last = sim.events();
        assert!(last > first + 10, "{} events", last - first);
        for event in first..last {
            let (mut sim, known) = (prepare(), Known::default());
            let (_, answered) = write_over(&mut sim, &setup, &known, Some(event));
            sim.power_cut();
            sim.restart_process();
            let why =
                format!("{}, the power goes at event {event} of {first} to {last}", setup.level);
            look(&mut sim, &setup, &known.borrow(), answered == Some(true), &why);
        }
    }
}
