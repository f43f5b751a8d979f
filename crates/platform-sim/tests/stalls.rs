//! A simulation that is stuck, or runs without time passing, reports it and names the waiting
//! tasks.

mod common;
use common::{flush, open};
use platform::{Instant, IoErrorKind, Member};
use platform_sim::{DriveOptions, Sim, SimOptions, StallKind, Step};
use std::future::pending;
use std::time::Duration;

#[test]
fn a_task_that_nobody_will_wake_is_a_deadlock_and_is_named() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    env.spawn("sleeper", pending::<()>());
    let stall = sim.run(pending::<()>()).unwrap_err();
    assert_eq!(stall.kind, StallKind::Deadlock);
    assert_eq!(stall.tasks, ["sleeper", "main"]);
    assert!(stall.to_string().contains("unfinished: main sleeper"), "{stall}");
}

#[test]
fn a_task_that_wakes_for_ever_is_found_and_named() {
    let mut sim = Sim::new(SimOptions { steps_per_instant: 1000, ..SimOptions::default() });
    let env = sim.env();
    let spinner = env.clone();
    env.spawn("spinner", async move {
        loop {
            spinner.yield_now().await;
        }
    });
    let stall = sim.run(pending::<()>()).unwrap_err();
    assert_eq!((stall.kind, stall.tasks), (StallKind::Spinning, vec!["spinner"]));
}

#[test]
fn a_task_that_wakes_often_while_time_passes_is_not_spinning() {
    let mut sim = Sim::new(SimOptions { steps_per_instant: 100, ..SimOptions::default() });
    let env = sim.env();
    sim.run(async move {
        for _ in 0..10_000 {
            env.sleep(Duration::from_nanos(1)).await;
        }
    })
    .unwrap();
    assert_eq!(sim.now(), Instant { ns: 10_000 });
}

/// Each round of the loop takes a microsecond: the limit of virtual time is billions of rounds
/// away.
#[test]
fn a_loop_without_progress_is_found_though_time_passes() {
    let options = SimOptions { events_without_progress: 1000, ..SimOptions::default() };
    let mut sim = Sim::new(options);
    let (env, handle) = (sim.env(), sim.handle());
    let wakes = async move {
        for round in 0.. {
            env.sleep(Duration::from_micros(1)).await;
            if round < 5000 {
                handle.progress();
            }
        }
    };
    let stall = sim.run(wakes).unwrap_err();
    assert_eq!(stall.kind, StallKind::NoProgress);
    assert!(stall.at > Instant { ns: 5_000_000 }, "{stall}");
}

#[test]
fn a_loop_that_never_ends_meets_the_limit_of_virtual_time() {
    let mut sim =
        Sim::new(SimOptions { time_limit: Duration::from_secs(60), ..SimOptions::default() });
    let env = sim.env();
    env.clone().spawn("heart", async move {
        loop {
            env.sleep(Duration::from_secs(1)).await;
        }
    });
    assert_eq!(sim.run(pending::<()>()).unwrap_err().kind, StallKind::TimeLimit);
}

#[test]
fn running_until_an_instant_ends_there_and_sleepers_wake_on_time() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let sleeper = env.clone();
    let woke = env.spawn("sleeper", async move {
        sleeper.sleep(Duration::from_secs(3)).await;
        sleeper.now()
    });
    sim.run_until(Instant { ns: 2_999_999_999 }).unwrap();
    assert!(!woke.is_finished());
    sim.run_until(Instant { ns: 5_000_000_000 }).unwrap();
    assert_eq!(woke.try_take(), Some(Instant { ns: 3_000_000_000 }));
    assert_eq!(sim.now(), Instant { ns: 5_000_000_000 });
    assert_eq!(sim.step(), Step::Idle);
}

#[test]
fn stopping_at_an_event_stops_there_and_can_go_on() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let yielder = env.clone();
    let task = env.spawn("yielder", async move {
        for _ in 0..50 {
            yielder.yield_now().await;
        }
    });
    sim.stop_at_event(Some(20));
    let stall = sim.finish(&task).unwrap_err();
    assert_eq!((stall.kind, stall.events), (StallKind::Stopped, 20));
    sim.stop_at_event(None);
    sim.finish(&task).unwrap();
    assert_eq!(sim.events(), 51);
}

#[test]
fn time_runs_to_the_limit_of_an_operation_that_its_drive_holds() {
    let mut sim = Sim::new(SimOptions::default());
    let held = sim.add_drive("a", DriveOptions::default());
    held.hold();
    let env = sim.env();
    let member = sim
        .run(async move {
            let source = env.world().open_drive("a").await.unwrap();
            let limit = Duration::from_secs(7);
            let drive = Member::with_time_limit(&env, source.attach(&env).unwrap(), limit);
            assert_eq!(flush(&drive).await, Err(IoErrorKind::TimedOut));
            drive
        })
        .unwrap();
    assert_eq!(sim.now(), Instant { ns: 7_000_000_000 });
    assert_eq!((member.outstanding(), held.in_flight()), (1, 1), "the drive still has it");
    held.release();
    sim.run_until_idle().unwrap();
    assert_eq!((member.outstanding(), held.in_flight()), (0, 0));
    assert_eq!(held.stats().flushes, 1);
}

#[test]
fn a_passed_time_limit_of_an_operation_long_returned_moves_no_clock() {
    let mut sim = Sim::new(SimOptions::default());
    sim.add_drive("a", DriveOptions::default());
    let env = sim.env();
    sim.run(async move {
        let drive = open(&env, "a").await;
        flush(&drive).await.unwrap();
    })
    .unwrap();
    let then = sim.now();
    assert_eq!(sim.run(pending::<()>()).unwrap_err().kind, StallKind::Deadlock);
    assert_eq!(sim.now(), then);
}
