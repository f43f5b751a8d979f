//! Spontaneous and injected faults: the data that a drive returns, and its true content.

mod common;
use common::{SECTOR, flush, open, range, read, write};
use platform::{DriveHealth, Durability, Env, Hardware, HealthScript, Instant, IoErrorKind};
use platform_sim::{DriveFaults, DriveOptions, FaultKind, Latency, Sim, SimDrive, SimOptions};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const HOUR: Duration = Duration::from_secs(3600);

fn sim_with(seed: u64, faults: DriveFaults) -> (Sim, SimDrive) {
    let mut sim = Sim::new(SimOptions::seeded(seed));
    let drive = sim.add_drive("a", DriveOptions { faults, ..DriveOptions::sized(ByteCount::MIB) });
    (sim, drive)
}

/// Runs `body` on the drive, and returns its result.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    sim: &mut Sim,
    body: impl FnOnce(Env) -> F,
) -> T {
    let future = body(sim.env());
    sim.run(future).expect("it gets done")
}

async fn write_twice(env: Env, durability: Durability) {
    let drive = open(&env, "a").await;
    write(&drive, 4096, &[1; 4096], Durability::Durable).await.unwrap();
    write(&drive, 4096, &[2; 4096], durability).await.unwrap();
}

#[test]
fn sectors_become_unreadable_over_time_where_they_may_and_are_healed_by_writing() {
    let within = range(256 << 10, 512 << 10);
    let faults = DriveFaults {
        within: Some(within),
        unreadable_every: Some(HOUR),
        longest_run_sectors: 4,
        ..DriveFaults::default()
    };
    let (mut sim, drive) = sim_with(1, faults);
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        write(&drive, 0, &[7; 1 << 20], Durability::Durable).await.unwrap();
    });
    assert_eq!(drive.faults(), [], "none at the start");
    sim.run_until(sim.now() + 20 * HOUR).unwrap();
    sim.run_until_idle().expect("ageing keeps no task awake");
    let found = drive.faults();
    assert!((10..=40).contains(&found.len()), "about one in an hour: {}", found.len());
    assert!(
        found.iter().all(|(place, kind)| within.contains(*place) && *kind == FaultKind::Unreadable)
    );
    assert!(found.iter().any(|(place, _)| place.len.0 > SECTOR), "some are runs");
    assert_eq!(
        drive.read_true(ByteOffset(0), ByteCount::MIB),
        [7; 1 << 20],
        "ageing does not change the true content"
    );
    let places: Vec<ByteRange> = found.iter().map(|(place, _)| *place).collect();
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        for place in places {
            let (start, len) = (place.start.0, place.len.0);
            assert_eq!(read(&drive, start, len).await, Err(IoErrorKind::Medium));
            write(&drive, start, &vec![8; len as usize], Durability::Durable).await.unwrap();
            assert_eq!(read(&drive, start, len).await.unwrap(), vec![8; len as usize]);
        }
    });
    assert_eq!(drive.faults(), []);
    drive.set_faults(DriveFaults::default());
    sim.run_until(sim.now() + 1000 * HOUR).unwrap();
    assert_eq!(drive.faults(), [], "no further faults");
}

#[test]
fn what_comes_over_time_does_not_depend_on_who_looks() {
    let faults = DriveFaults {
        unreadable_every: Some(HOUR),
        rot_every: Some(2 * HOUR),
        longest_run_sectors: 9,
        ..DriveFaults::default()
    };
    let run = |seed, looks: u32| {
        let (mut sim, drive) = sim_with(seed, faults);
        for look in 1..=looks {
            sim.run_until(Instant::default() + 50 * HOUR * look / looks).unwrap();
            drive.peek(ByteOffset(0), ByteCount(SECTOR));
        }
        (drive.faults(), drive.peek(ByteOffset(0), ByteCount(SECTOR)))
    };
    assert_eq!(run(5, 1), run(5, 13));
    assert_ne!(run(5, 1), run(6, 1));
    assert!(run(5, 1).0.iter().any(|(_, kind)| *kind == FaultKind::Silent));
}

#[test]
fn a_lost_write_is_acknowledged_and_its_place_reads_as_before() {
    for durability in [Durability::Durable, Durability::Cached] {
        let (mut sim, drive) = sim_with(2, DriveFaults::default());
        on(&mut sim, |env| async move {
            let drive = open(&env, "a").await;
            write(&drive, 4096, &[1; 4096], Durability::Durable).await.unwrap();
        });
        drive.lose_writes(1, Some(range(4096, 512)));
        on(&mut sim, move |env| async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[5; 512], durability).await.unwrap();
            write(&drive, 4096, &[2; 4096], durability).await.unwrap();
            flush(&drive).await.unwrap();
            assert_eq!(read(&drive, 4096, 4096).await.unwrap(), [1; 4096]);
            assert_eq!(
                read(&drive, 0, 512).await.unwrap(),
                [5; 512],
                "another address is not affected"
            );
        });
        assert_eq!(drive.read_true(ByteOffset(4096), ByteCount(4096)), [2; 4096]);
        assert_eq!(
            (drive.faults(), drive.stats().strayed),
            (vec![(range(4096, 4096), FaultKind::Silent)], 1)
        );
        drive.power_cut();
        assert_eq!(
            drive.peek(ByteOffset(4096), ByteCount(4096)).unwrap(),
            [1; 4096],
            "it is lost for good"
        );
        on(&mut sim, |env| async move {
            let drive = open(&env, "a").await;
            write(&drive, 4096, &[3; 512], Durability::Durable).await.unwrap();
            assert_eq!(read(&drive, 4096, 1024).await.unwrap(), [[3; 512], [1; 512]].concat());
        });
        assert_eq!(drive.faults(), [(range(4608, 3584), FaultKind::Silent)]);
        drive.heal(range(0, 1 << 20));
        assert_eq!(drive.peek(ByteOffset(4608), ByteCount(512)).unwrap(), [2; 512]);
    }
}

#[test]
fn a_lost_write_of_what_was_there_already_is_no_fault_and_one_over_an_unreadable_sector_heals_nothing()
 {
    let (mut sim, drive) = sim_with(2, DriveFaults::default());
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        write(&drive, 4096, &[1; 4096], Durability::Durable).await.unwrap();
    });
    drive.make_unreadable(range(4096, 512));
    drive.lose_writes(1, None);
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        write(&drive, 4096, &[1; 4096], Durability::Durable).await.unwrap();
    });
    assert_eq!(drive.faults(), [(range(4096, 512), FaultKind::Unreadable)]);
}

#[test]
fn a_lost_write_that_a_power_cut_takes_as_well_leaves_no_fault() {
    let mut kinds = [0; 2];
    for seed in 0..50 {
        let (mut sim, drive) = sim_with(seed, DriveFaults::default());
        drive.lose_writes(1, Some(range(4096, 4096)));
        on(&mut sim, |env| write_twice(env, Durability::Cached));
        drive.power_cut();
        // The first write was lost: the drive never had it.
        let said = drive.peek(ByteOffset(4096), ByteCount(4096)).unwrap();
        let truth = drive.read_true(ByteOffset(4096), ByteCount(4096));
        let sectors = said.chunks(512).zip(truth.chunks(512));
        for (said, truth) in sectors {
            match (said[0], truth[0]) {
                (2, 2) => kinds[0] += 1,
                (0, 1) => kinds[1] += 1,
                other => panic!("says and should say {other:?}"),
            }
        }
        assert_eq!(drive.faults().is_empty(), said == truth);
    }
    assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
}

#[test]
fn a_misdirected_write_spoils_two_places() {
    let within = range(64 << 10, 128 << 10);
    for seed in 0..50 {
        let faults = DriveFaults { within: Some(within), ..DriveFaults::default() };
        let (mut sim, drive) = sim_with(seed, faults);
        let place = range(100 << 10, 2048);
        on(&mut sim, move |env| async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[9; 256 << 10], Durability::Durable).await.unwrap();
        });
        drive.misdirect_writes(1, Some(place));
        on(&mut sim, move |env| async move {
            let drive = open(&env, "a").await;
            write(&drive, place.start.0, &[4; 2048], Durability::Cached).await.unwrap();
            flush(&drive).await.unwrap();
        });
        drive.power_cut();
        assert_eq!(drive.peek(place.start, place.len).unwrap(), [9; 2048]);
        assert_eq!(drive.read_true(place.start, place.len), [4; 2048]);
        let faults = drive.faults();
        assert!(
            faults
                .iter()
                .all(|(place, kind)| within.contains(*place) && *kind == FaultKind::Silent)
        );
        let bytes: u64 = faults.iter().map(|(place, _)| place.len.0).sum();
        assert_eq!(bytes, 4096, "its range and the misdirected one: {faults:?}");
        let said = drive.peek(ByteOffset(0), ByteCount(256 << 10)).unwrap();
        assert_eq!(said.iter().filter(|byte| **byte == 4).count(), 2048);
        let all = drive.read_true(ByteOffset(0), ByteCount(256 << 10));
        assert_eq!(
            all.iter().filter(|byte| **byte == 4).count(),
            2048,
            "the true content has it once"
        );
    }
}

#[test]
fn one_write_in_so_many_goes_astray() {
    let faults = DriveFaults {
        within: Some(range(0, 512 << 10)),
        lost_write_one_in: 8,
        misdirected_write_one_in: 8,
        ..DriveFaults::default()
    };
    let (mut sim, drive) = sim_with(3, faults);
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        for at in (0..1 << 20).step_by(4096) {
            write(&drive, at, &[at as u8 | 1; 4096], Durability::Durable).await.unwrap();
        }
    });
    assert!((15..60).contains(&drive.stats().strayed), "of 128: {}", drive.stats().strayed);
    assert!(drive.faults().iter().all(|(place, _)| place.end().0 <= 512 << 10));
}

#[test]
fn blocks_that_cannot_be_written_are_always_the_same() {
    let within = range(0, 512 << 10);
    let faults =
        DriveFaults { within: Some(within), unwritable_one_in: 64, ..DriveFaults::default() };
    let (mut sim, drive) = sim_with(4, faults);
    let bad = on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        let mut bad = Vec::new();
        for _ in 0..2 {
            let mut found = Vec::new();
            for sector in 0..2048u64 {
                match write(&drive, sector * 512, &[1; 512], Durability::Durable).await {
                    Ok(_) => {}
                    Err(kind) => {
                        assert_eq!(kind, IoErrorKind::Medium);
                        found.push(sector);
                    }
                }
            }
            bad.push(found);
        }
        // A longer write that touches one of them fails too, and so does zeroing.
        let start = bad[0][0] / 8 * 4096;
        assert_eq!(
            write(&drive, start, &[2; 4096], Durability::Cached).await,
            Err(IoErrorKind::Medium)
        );
        let (range, durability) = (range(start, 4096), Durability::Cached);
        let zeroes = platform::IoRequest::WriteZeroes { range, may_unmap: false, durability };
        assert_eq!(drive.start(zeroes).await.result.unwrap_err().kind, IoErrorKind::Medium);
        bad
    });
    assert_eq!(bad[0], bad[1]);
    assert!((5..40).contains(&bad[0].len()), "one in 64 of 1024: {}", bad[0].len());
    assert!(bad[0].iter().all(|sector| *sector < 1024));
    assert_eq!(drive.peek(ByteOffset(bad[0][0] * 512), ByteCount(512)).unwrap(), [0; 512]);
}

#[test]
fn a_drive_is_slow_for_good_or_for_a_while() {
    let latency = Latency { min_ns: 1000, max_ns: 1000, slow_one_in: 0 };
    let faults = DriveFaults {
        slow_every: Some(HOUR),
        slow_for: Duration::from_secs(60),
        slow_times: 50,
        ..DriveFaults::default()
    };
    let mut sim = Sim::new(SimOptions::seeded(7));
    let options = DriveOptions { latency, ..DriveOptions::sized(ByteCount::MIB) };
    let steady = sim.add_drive("steady", options.clone());
    sim.add_drive("moody", DriveOptions { faults, ..options });
    let mut timed = |name: &'static str, times: u64, pause: Duration| {
        on(&mut sim, move |env| async move {
            let drive = open(&env, name).await;
            let mut taken = Vec::new();
            for _ in 0..times {
                let start = env.now();
                flush(&drive).await.unwrap();
                taken.push(env.now().since(start).as_nanos());
                env.sleep(pause).await;
            }
            taken
        })
    };
    assert_eq!(timed("steady", 2, Duration::ZERO), [1000, 1000]);
    steady.slow_down(7);
    assert_eq!(timed("steady", 2, Duration::ZERO), [7000, 7000]);
    steady.slow_down(1);
    assert_eq!(timed("steady", 2, Duration::ZERO), [1000, 1000]);
    let moody = timed("moody", 2400, Duration::from_secs(20));
    let slow = moody.iter().filter(|taken| **taken == 50_000).count();
    assert!(moody.iter().all(|taken| [1000, 50_000].contains(taken)));
    assert!((15..75).contains(&slow), "three checks in each of about 13 slow periods: {slow}");
}

#[test]
fn a_drive_tells_its_health_by_its_script_and_shows_its_light() {
    let mut sim = Sim::new(SimOptions::seeded(8));
    let hardware =
        Hardware { enclosure: Some("E1".into()), slot: Some("4".into()), ..Hardware::default() };
    let script = HealthScript {
        first: DriveHealth { temperature_c: Some(30), ..DriveHealth::default() },
        bytes_per_wear_percent: Some(ByteCount(4096)),
        ..HealthScript::failing_from(Instant { ns: 60_000_000_000 })
    };
    let options =
        DriveOptions { hardware, health: Some(script), ..DriveOptions::sized(ByteCount::MIB) };
    let shown = sim.add_drive("a", options);
    sim.add_drive("silent", DriveOptions::sized(ByteCount::MIB));
    let (light, told) = (shown.clone(), shown.clone());
    on(&mut sim, |env| async move {
        let drive = open(&env, "a").await;
        assert_eq!(drive.info().hardware.slot.as_deref(), Some("4"));
        let health = drive.health().await.unwrap();
        assert_eq!((health.predicted_failure, health.wear_percent), (Some(false), Some(0)));
        write(&drive, 0, &[0; 3 * 4096], Durability::Cached).await.unwrap();
        env.sleep(Duration::from_secs(60)).await;
        let health = drive.health().await.unwrap();
        assert_eq!((health.predicted_failure, health.wear_percent), (Some(true), Some(3)));
        assert_eq!((health.temperature_c, health.spare_percent), (Some(30), None));
        drive.locate(true).await.result.unwrap();
        assert!(light.is_located());
        drive.locate(false).await.result.unwrap();
        assert!(!light.is_located());
        assert_eq!(open(&env, "silent").await.health().await.unwrap(), DriveHealth::default());
        told.set_health(None);
        assert_eq!(drive.health().await.unwrap(), DriveHealth::default());
        told.fail_now();
        assert_eq!(drive.health().await.unwrap_err().kind, IoErrorKind::Gone);
    });
}
