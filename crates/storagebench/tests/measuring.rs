//! Measurements of targets with known results, in virtual time.

// Every test uses its part of it.
#[allow(dead_code)]
mod world;

use platform::{Drive, IoErrorKind};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storagebench::{
    Bench, Ending, Measured, Observer, Phase, Precondition, Profile, Progress, Remaining, Row,
    Settings, Snapshot, SteadyRule, Surroundings, Target,
};
use world::{Fault, Service, TestDrive, TestWorld};

const GIB: u64 = 1 << 30;
const US: u64 = 1000;

fn settings(profile: &str, outstanding: &str) -> Settings {
    Settings {
        profiles: vec![profile.parse().unwrap()],
        outstanding: outstanding.parse().unwrap(),
        runtime: Duration::from_secs(10),
        ramp: Duration::from_secs(1),
        hollow: true,
        destroy_data: true,
        ..Settings::default()
    }
}

fn measure(world: &TestWorld, drive: &Rc<TestDrive>, bench: Bench) -> Measured {
    let env = world.env.clone();
    let target = Target::attached("t", drive.clone() as Rc<dyn Drive>);
    world.run(async move { bench.run(&env, &target).await }).unwrap()
}

/// One point on a drive of that many servers.
fn point(
    servers: usize,
    service: Service,
    profile: &str,
    outstanding: u32,
) -> (Row, Rc<TestDrive>) {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, servers, service));
    let settings = Settings {
        runtime: Duration::from_secs(3),
        ramp: Duration::from_millis(300),
        ..settings(profile, &outstanding.to_string())
    };
    let measured = measure(&world, &drive, Bench::new(settings));
    assert_eq!(measured.ending, Ending::Complete);
    (measured.rows[0].clone(), drive)
}

fn assert_within(value: f64, truth: f64, percent: f64, what: &str) {
    assert!(
        (value - truth).abs() <= truth * percent / 100.0,
        "{what}: {value}, expected {truth} ± {percent} %"
    );
}

#[test]
fn rates_and_latencies_of_fixed_service_times_are_exact() {
    // Up to four outstanding are served at once; more wait for one of the four servers.
    for (outstanding, iops, latency_us) in
        [(1, 10_000.0, 100.0), (4, 40_000.0, 100.0), (8, 40_000.0, 200.0), (64, 40_000.0, 1600.0)]
    {
        let (row, _) = point(4, Service::Fixed(100 * US), "random,read,4K", outstanding);
        let latency = row.latency_us.unwrap();
        assert_within(row.iops, iops, 0.01, "iops");
        assert_within(row.throughput_mib_s, iops / 256.0, 0.01, "throughput");
        for (value, what) in
            [(latency.mean, "mean"), (latency.p50, "p50"), (latency.p999.unwrap(), "p99.9")]
        {
            assert_within(value, latency_us, 0.1, what);
        }
        assert_within(latency.max, latency_us, 0.0001, "max");
        assert_eq!((row.duration_s, row.errors, row.write.ios), (3.0, 0, 0));
        assert_eq!((row.ios, row.read.ios), (row.read.ios, row.ios));
    }
}

#[test]
fn outstanding_ios_are_rate_times_latency() {
    for (servers, outstanding) in [(1, 1), (1, 7), (3, 32), (8, 512)] {
        let (row, _) =
            point(servers, Service::Exponential(50 * US), "random,67%read,8K", outstanding);
        let little = row.iops * row.latency_us.unwrap().mean / 1e6;
        assert_within(little, f64::from(outstanding), 0.5, "Little's law");
    }
}

#[test]
fn exactly_as_many_requests_are_in_flight_as_were_asked_for() {
    for outstanding in [1, 3, 64] {
        let (_, drive) = point(2, Service::Exponential(100 * US), "random,50%read,4K", outstanding);
        let time_at = drive.time_at.borrow();
        let all: u64 = time_at.values().sum();
        assert_eq!(*time_at.last_key_value().unwrap().0, outstanding);
        // Only at the end, while the last requests complete, are fewer outstanding.
        let full = time_at[&outstanding];
        assert!(all - full < 40_000 * US, "{time_at:?}");
    }
}

#[test]
fn workers_share_the_outstanding_ios() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 100, Service::Fixed(100 * US)));
    let settings = Settings { workers: 3, ..settings("sequential,read,64K", "7,2") };
    let measured = measure(&world, &drive, Bench::new(settings));
    assert_eq!(measured.rows.iter().map(|row| row.workers).collect::<Vec<_>>(), [3, 2]);
    assert_within(measured.rows[0].iops, 70_000.0, 0.01, "iops");
    let first: Vec<u64> = drive.seen.borrow()[..7].iter().map(|seen| seen.offset >> 16).collect();
    // Three streams at a distance of a third of the area; the workers have 3, 2 and 2 of the
    // outstanding I/Os.
    let third = (GIB >> 16) / 3;
    assert_eq!(first, [0, third, 2 * third, 1, third + 1, 2 * third + 1, 2]);
}

#[test]
fn sequential_requests_follow_one_another_and_wrap_around() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, (10 << 20) + 4096, 4, Service::Fixed(100 * US)));
    measure(&world, &drive, Bench::new(settings("restore", "1,8")));
    for (at, seen) in drive.seen.borrow().iter().enumerate() {
        // The position also continues from one point to the next.
        assert_eq!(seen.offset, (at as u64 % 160) << 16);
        assert!(seen.write);
    }
}

#[test]
fn the_share_of_reads_is_within_its_statistics() {
    let (row, drive) = point(4, Service::Fixed(100 * US), "database", 16);
    let share = row.read.ios as f64 / row.ios as f64;
    let deviation = (0.67 * 0.33 / row.ios as f64).sqrt();
    assert!((share - 0.67).abs() < 4.0 * deviation, "{share} of {}", row.ios);
    assert_eq!(row.read.ios + row.write.ios, row.ios);
    assert_within(row.read.iops + row.write.iops, row.iops, 0.001, "the split's sum");
    assert!(row.read.latency_us.is_some() && row.write.latency_us.is_some());
    let seen = drive.seen.borrow();
    assert!(seen.iter().all(|seen| seen.offset % 8192 == 0 && seen.offset < GIB));
}

/// Makes its drive ten times as fast after the ramp.
struct Faster(Rc<TestDrive>);

impl Observer for Faster {
    fn progress(&self, progress: &Progress<'_>) {
        if progress.phase == Phase::Run {
            self.0.serve(Service::Fixed(100 * US));
        }
    }
}

#[test]
fn what_happens_in_the_ramp_does_not_count() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, Service::Fixed(1000 * US)));
    let bench =
        Bench::new(settings("random,read,4K", "1")).observed_by(Rc::new(Faster(drive.clone())));
    let row = measure(&world, &drive, bench).rows.remove(0);
    assert_within(row.iops, 10_000.0, 0.02, "iops");
    // The request in flight at the opening of the window completes in it, and counts.
    assert_within(row.latency_us.unwrap().p99.unwrap(), 100.0, 0.1, "p99");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let world = TestWorld::new(seed);
        let drive = Rc::new(TestDrive::new(&world.env, GIB, 2, Service::Exponential(100 * US)));
        let measured = measure(&world, &drive, Bench::new(settings("database", "4")));
        let seen = drive.seen.borrow().clone();
        (measured, seen)
    };
    assert!(run(3) == run(3));
    assert!(run(3).1 != run(4).1);
}

#[test]
fn a_target_that_completes_within_the_call_is_measured_and_leaves_room_for_others() {
    let world = TestWorld::with(1, 50, units::ByteCount(1 << 20));
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, Service::None));
    let settings = Settings { runtime: Duration::from_millis(40), ..settings("database", "4") };
    let bench = Bench::new(Settings { ramp: Duration::from_millis(10), hollow: false, ..settings });
    let measured = measure(&world, &drive, bench);
    // The clock advances 50 ns at each reading: the drive reads it once and the generator once per
    // I/O.
    assert_within(measured.rows[0].iops, 1e7, 3.0, "iops");
    assert_within(measured.rows[0].latency_us.unwrap().p50, 0.1, 1.0, "p50");
}

#[test]
fn medium_errors_are_counted_and_the_first_is_kept() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US));
    let drive = Rc::new(drive.with_fault(Fault::Every(10, IoErrorKind::Medium)));
    let measured = measure(&world, &drive, Bench::new(settings("restore", "1")));
    let row = &measured.rows[0];
    assert_eq!(measured.ending, Ending::Complete);
    assert_within(row.errors as f64, 10_000.0, 0.1, "errors");
    assert_eq!((row.write.errors, row.read.errors), (row.errors, 0));
    assert_within(row.iops, 9000.0, 0.1, "iops without the failed ones");
    assert_eq!(
        row.first_error.as_deref(),
        Some("a write of 64 KiB at byte 589824 failed: medium error")
    );
}

#[test]
fn short_transfers_are_errors() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US));
    let drive = Rc::new(drive.with_fault(Fault::ShortEvery(2)));
    let row = measure(&world, &drive, Bench::new(settings("streaming", "1"))).rows.remove(0);
    assert_within(row.errors as f64, 50_000.0, 0.1, "errors");
    assert_eq!(
        row.first_error.as_deref(),
        Some("a read of 64 KiB at byte 65536 moved only 32768 bytes")
    );
}

#[test]
fn a_target_that_vanishes_ends_the_run_with_what_happened_and_when() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US));
    // One second of ramp, then half a second of the window.
    let drive = Rc::new(drive.with_fault(Fault::After(15_000, IoErrorKind::Gone)));
    let measured = measure(&world, &drive, Bench::new(settings("streaming", "4,8")));
    assert_eq!(measured.rows.len(), 1, "results so far are kept");
    let row = &measured.rows[0];
    assert_within(row.duration_s, 0.5, 0.1, "duration");
    assert_within(row.iops, 10_000.0, 0.1, "iops");
    let Ending::Failed(sentence) = &measured.ending else { panic!("{:?}", measured.ending) };
    assert!(
        sentence.starts_with(
            "the measurement of 't' ended 1.5 s into 'streaming' with 4 outstanding: a read of"
        ) && sentence.ends_with("failed: drive gone"),
        "{sentence}"
    );
    assert_eq!(drive.in_flight.get(), 0);
}

#[test]
fn a_target_that_stops_answering_has_vanished_after_its_time_limit() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US));
    let drive = Rc::new(drive.with_fault(Fault::Silent(15_000)));
    let env = world.env.clone();
    let target = Target::attached("t", drive).with_time_limit(Duration::from_secs(3));
    let measured = world
        .run(async move { Bench::new(settings("streaming", "4")).run(&env, &target).await })
        .unwrap();
    let Ending::Failed(sentence) = &measured.ending else { panic!("{:?}", measured.ending) };
    // Time limits are checked when the world wakes: here, at progress reports.
    assert!(sentence.contains("ended 4.6 s into") && sentence.contains("timed out"), "{sentence}");
    // The wait is not part of the measurement.
    assert_within(measured.rows[0].duration_s, 0.5, 0.1, "duration");
    assert_within(measured.rows[0].iops, 10_000.0, 0.1, "iops");
}

#[test]
fn a_target_that_returns_nothing_but_errors_is_given_up() {
    let world = TestWorld::new(1);
    let drive = TestDrive::new(&world.env, GIB, 1, Service::None);
    let drive = Rc::new(drive.with_fault(Fault::Every(1, IoErrorKind::Medium)));
    let measured = measure(&world, &drive, Bench::new(settings("streaming", "4")));
    assert!(
        matches!(&measured.ending, Ending::Failed(sentence) if sentence.contains("medium error"))
    );
    assert_eq!((measured.rows.len(), drive.requests.get()), (0, 1000));
}

/// Point, outstanding, phase, rate, fraction.
type ProgressReport = (usize, u32, Phase, f64, f64);

/// Records progress, and cancels after this many reports.
struct Watcher {
    told: RefCell<Vec<ProgressReport>>,
    rows: RefCell<Vec<Row>>,
    cancel: Arc<AtomicBool>,
    after: usize,
}

impl Observer for Watcher {
    fn progress(&self, progress: &Progress<'_>) {
        let Progress { point, outstanding, phase, iops, .. } = *progress;
        self.told.borrow_mut().push((point, outstanding, phase, iops, progress.fraction()));
        if self.told.borrow().len() == self.after {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
    fn row(&self, row: &Row) {
        self.rows.borrow_mut().push(row.clone());
    }
}

fn watched(after: usize) -> (Measured, Rc<Watcher>) {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US)));
    let cancel = Arc::new(AtomicBool::new(false));
    let watcher = Rc::new(Watcher {
        told: RefCell::default(),
        rows: RefCell::default(),
        cancel: cancel.clone(),
        after,
    });
    let bench =
        Bench::new(settings("database", "1,2")).observed_by(watcher.clone()).cancelled_by(cancel);
    (measure(&world, &drive, bench), watcher)
}

#[test]
fn progress_is_told_five_times_a_second_and_rows_when_they_are_there() {
    let (measured, watcher) = watched(usize::MAX);
    let told = watcher.told.borrow();
    assert_eq!(told.len(), 2 * (5 + 50));
    assert_eq!((told[0].2, told[4].2, told[5].2), (Phase::Ramp, Phase::Ramp, Phase::Run));
    for (_, _, _, iops, _) in told.iter().filter(|(.., fraction)| fraction * 22.0 % 11.0 > 0.1) {
        assert_within(*iops, 10_000.0, 0.1, "the current rate");
    }
    assert!(told.is_sorted_by(|a, b| a.4 <= b.4) && told.last().unwrap().4 < 1.0);
    assert_eq!((told[0].0, told[55].0, told[55].1), (0, 1, 2));
    assert_eq!(*watcher.rows.borrow(), measured.rows);
}

#[test]
fn cancelling_keeps_what_was_measured_so_far() {
    // In the second point's window, after 20 of its 50 reports.
    let (measured, _) = watched(55 + 5 + 21);
    assert_eq!(measured.rows.len(), 2);
    assert_within(measured.rows[1].duration_s, 4.2, 0.1, "duration");
    assert_within(measured.rows[1].iops, 10_000.0, 0.1, "iops");
    assert!(measured.rows[1].ci95.is_some());
    assert_eq!(
        measured.ending.sentence(),
        Some("the measurement of 't' was stopped 5.2 s into 'database' with 2 outstanding")
    );
    // The second point's ramp has no result.
    assert_eq!(watched(55 + 2).0.rows.len(), 1);
    // Before anything ran.
    assert_eq!(watched(1).0.rows.len(), 0);
}

#[test]
fn the_share_of_the_processor_is_that_of_the_window() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, Service::Fixed(100 * US)));
    /// Idle for the first second (the ramp), then one and a half cores.
    struct Busy(platform::Env);
    impl Surroundings for Busy {
        fn look(&self, _: &str) -> Snapshot {
            let busy_ns = self.0.now().ns.saturating_sub(1_000_000_000) * 3 / 2;
            Snapshot { process_cpu_ns: Some(busy_ns), ..Snapshot::default() }
        }
    }
    let busy = Busy(world.env.clone());
    let bench = Bench::new(settings("streaming", "1")).surrounded_by(Rc::new(busy));
    let row = measure(&world, &drive, bench).rows.remove(0);
    assert_within(row.cpu_percent.unwrap(), 150.0, 0.01, "cpu");
    let row = measure(&world, &drive, Bench::new(settings("streaming", "1"))).rows.remove(0);
    assert_eq!(row.cpu_percent, None);
}

/// A profile with its own run time takes exactly that time, unless extension is requested.
#[test]
fn a_profile_is_measured_for_its_own_time() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, Service::Exponential(1000 * US)));
    let mut load = "random,read,4K".parse::<Profile>().unwrap().load().clone();
    (load.runtime, load.ramp) = (Some(Duration::from_secs(3)), Some(Duration::ZERO));
    let own = Settings {
        profiles: vec![Profile::new("own", load).unwrap()],
        runtime: Duration::from_secs(30),
        ramp: Duration::from_secs(5),
        confidence_percent: Some(0.5),
        ..settings("database", "1")
    };
    let takes = |settings: &Settings| {
        let began = world.env.now();
        let measured = measure(&world, &drive, Bench::new(settings.clone()));
        (measured.rows[0].duration_s, world.env.now().since(began).as_secs_f64())
    };
    assert_eq!(own.duration(), Duration::from_secs(3));
    let (run, all) = takes(&own);
    assert!((run - 3.0).abs() < 0.01 && all < 3.1, "{run} s of {all} s");
    let (run, _) = takes(&Settings { extend_own_runtimes: true, ..own.clone() });
    assert!((11.9..12.1).contains(&run), "{run} s");
    let any = own.profiles[0].clone().for_any_time().after_any_ramp();
    assert_eq!(Settings { profiles: vec![any], ..own }.duration(), Duration::from_secs(35));
}

#[test]
fn the_standard_profiles_up_the_ladder_give_a_row_each() {
    let world = TestWorld::new(1);
    let drive = Rc::new(TestDrive::new(&world.env, GIB, 8, Service::Exponential(1000 * US)));
    let settings = Settings {
        profiles: Profile::standard(),
        runtime: Duration::from_secs(1),
        ..settings("database", "1..512")
    };
    assert_eq!((settings.points(), settings.duration()), (50, Duration::from_secs(100)));
    let measured = measure(&world, &drive, Bench::new(settings));
    assert_eq!(measured.rows.len(), 50);
    assert_eq!(measured.rows[49].profile, "restore");
    assert!(measured.rows.iter().all(|row| row.ios > 500));
}

#[test]
fn a_percentile_that_too_few_requests_show_is_not_a_number() {
    let (few, _) = point(1, Service::Fixed(50_000 * US), "random,read,4K", 1);
    let latency = few.latency_us.unwrap();
    assert!(few.ios < 100, "{}", few.ios);
    assert_eq!((latency.p99, latency.p999), (None, None));
    assert!(serde_json::to_value(latency).unwrap()["p99"].is_null());
    assert!(!storagebench::row_text(&few).contains("p99"), "{}", storagebench::row_text(&few));
    let (some, _) = point(1, Service::Fixed(10_000 * US), "random,read,4K", 1);
    let latency = some.latency_us.unwrap();
    assert!(latency.p99.is_some() && latency.p999.is_none(), "{} requests", some.ios);
    assert!(storagebench::row_text(&some).contains("p99 10"), "{}", storagebench::row_text(&some));
}

/// Records the estimates of remaining time.
struct Estimates {
    env: platform::Env,
    remaining: RefCell<Remaining>,
    /// Completed points, the time, and the estimate.
    told: RefCell<Vec<(usize, f64, f64)>>,
}

impl Estimates {
    fn tell(&self, left: Duration) {
        let done = self.remaining.borrow().points_done();
        self.told.borrow_mut().push((done, self.env.now().ns as f64 / 1e9, left.as_secs_f64()));
    }
}

impl Observer for Estimates {
    fn progress(&self, progress: &Progress<'_>) {
        let left = self.remaining.borrow().left_in(progress);
        self.tell(left);
    }
    fn preconditioned(&self, took: Duration) {
        self.remaining.borrow_mut().preconditioning_took(took);
    }
    fn point_took(&self, took: Duration) {
        self.remaining.borrow_mut().point_took(took);
    }
    fn row(&self, _: &Row) {
        let left = self.remaining.borrow().left();
        self.tell(left);
    }
}

/// Measures two targets in sequence. Returns the estimates and the end time.
fn estimated(settings: Settings, service: Service) -> (Vec<(usize, f64, f64)>, f64) {
    let world = TestWorld::new(1);
    let estimates = Rc::new(Estimates {
        env: world.env.clone(),
        remaining: RefCell::new(Remaining::new(&settings, 2)),
        told: RefCell::default(),
    });
    for _ in 0..2 {
        let drive = Rc::new(TestDrive::new(&world.env, GIB, 1, service));
        measure(&world, &drive, Bench::new(settings.clone()).observed_by(estimates.clone()));
    }
    let told = estimates.told.borrow().clone();
    (told, world.env.now().ns as f64 / 1e9)
}

/// Points that never become steady take the maximum of rounds, five times as long as the settings'
/// minimum. The estimate includes that after the first point. The same applies to the second
/// target's preconditioning.
#[test]
fn what_is_left_is_learned_from_what_was_measured() {
    let never_steady = Service::At(|ns| [100, 170, 400][(ns / 1_700_000_000 % 3) as usize] * US);
    let settings = Settings {
        steady_state: Some(SteadyRule::snia(Duration::from_secs(1))),
        precondition: Precondition::Written(units::ByteCount(4 * GIB)),
        ..settings("random,read,4K", "1,2,4")
    };
    let least = settings.duration().as_secs_f64() * 2.0;
    let (told, end) = estimated(settings, never_steady);
    let truth = |at: f64| end - at;
    let (_, at, left) = *told.iter().find(|(done, ..)| *done == 1).expect("a point is done");
    assert!(
        truth(at) > 3.0 * least,
        "the settings alone promise {least} s, and {} s were left",
        truth(at)
    );
    assert_within(left, truth(at), 3.0, "after the first point");
    for (done, at, left) in told.iter().filter(|(done, ..)| *done >= 1) {
        // In the middle of a point that is not steady yet the outcome is unknown.
        assert!(
            *left <= truth(*at) * 1.03 + 0.5,
            "{done} points are done at {at}: {left} of {}",
            truth(*at)
        );
        assert!(
            *left >= truth(*at) - 25.0,
            "{done} points are done at {at}: {left} of {}",
            truth(*at)
        );
    }
    let (_, _, left) = *told.last().expect("it was told");
    assert_eq!(left, 0.0);
}

/// If points take the settings' time, the estimate stays exact.
#[test]
fn what_is_left_of_points_that_are_sure_at_once_is_what_the_settings_say() {
    let (told, end) = estimated(settings("random,read,4K", "1,2"), Service::Fixed(100 * US));
    for (done, at, left) in told {
        assert!(
            (left - (end - at)).abs() < 0.3,
            "{done} points are done at {at}: {left} of {}",
            end - at
        );
    }
}
