//! Stripe locks: exclusion, sharing, fairness, cancellation.

use platform::Env;
use platform::locks::{Mode, StripeLocks};
use platform_sim::{Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Takes the lock for `hold` and records when it was admitted.
fn spawn_locker(
    env: &Env,
    locks: &StripeLocks,
    (key, mode, columns): (u64, Mode, Range<u32>),
    hold: Duration,
) -> platform::JoinHandle<u64> {
    let (env, locks) = (env.clone(), locks.clone());
    env.clone().spawn("locker", async move {
        let _guard = locks.lock_columns(key, mode, columns).await;
        let got = env.now();
        env.sleep(hold).await;
        got.ns / 1_000_000
    })
}

/// Runs lockers in this order, each holding for a millisecond; returns when each was admitted.
fn when_admitted(lockers: &[(u64, Mode, Range<u32>)]) -> Vec<u64> {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let locks = StripeLocks::new(&env, 16);
    let tasks: Vec<_> =
        lockers.iter().map(|locker| spawn_locker(&env, &locks, locker.clone(), MS)).collect();
    tasks.iter().map(|task| sim.finish(task).unwrap()).collect()
}

use Mode::{Exclusive, Shared};
const ALL: Range<u32> = platform::locks::ALL_COLUMNS;

#[test]
fn writers_of_one_stripe_take_turns_and_writers_of_others_do_not_wait() {
    let lockers =
        [(1, Exclusive, ALL), (1, Exclusive, ALL), (2, Exclusive, ALL), (1, Exclusive, ALL)];
    assert_eq!(when_admitted(&lockers), [0, 1, 0, 2]);
}

#[test]
fn readers_share() {
    assert_eq!(when_admitted(&[(1, Shared, ALL), (1, Shared, ALL), (1, Shared, ALL)]), [0, 0, 0]);
}

#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    let lockers = [(1, Shared, ALL), (1, Exclusive, ALL), (1, Shared, ALL), (1, Shared, ALL)];
    assert_eq!(when_admitted(&lockers), [0, 1, 2, 2]);
}

#[test]
fn writers_of_different_columns_do_not_wait_and_overlapping_ones_do() {
    let lockers = [
        (1, Exclusive, 0..10),
        (1, Exclusive, 10..20),
        (1, Exclusive, 5..15),
        (1, Exclusive, 0..5),
        (1, Exclusive, 20..30),
        (1, Exclusive, 14..16),
    ];
    // 0..5 waits for the first only; 14..16 behind the waiter 5..15.
    assert_eq!(when_admitted(&lockers), [0, 0, 1, 1, 0, 2]);
}

#[test]
fn stripes_that_share_a_bucket_do_not_wait_for_one_another() {
    let lockers = [
        (1, Exclusive, ALL),
        (17, Exclusive, ALL),
        (33, Shared, ALL),
        (17, Exclusive, ALL),
        (33, Exclusive, ALL),
    ];
    assert_eq!(when_admitted(&lockers), [0, 0, 0, 1, 1]);
}

#[test]
fn trying_takes_only_what_is_free_and_waited_for_by_nobody() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let locks = StripeLocks::new(&env, 4);
    let reader = locks.try_lock(0, Shared).expect("free");
    assert!(locks.try_lock(0, Exclusive).is_none());
    drop(locks.try_lock(0, Shared).expect("readers share"));
    let writer = spawn_locker(&env, &locks, (0, Exclusive, ALL), MS);
    sim.step();
    assert!(locks.try_lock(0, Shared).is_none(), "a writer waits");
    assert!(locks.try_lock(1, Exclusive).is_some());
    drop(reader);
    sim.finish(&writer).unwrap();
    assert!(locks.try_lock(0, Exclusive).is_some());
}

#[test]
fn a_waiter_that_is_given_up_lets_those_behind_it_pass() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let locks = StripeLocks::new(&env, 4);
    let reader = locks.try_lock(0, Shared).unwrap();
    let (giving_up, waiting) = (locks.clone(), env.clone());
    env.spawn("writer that gives up", async move {
        let mut lock = Box::pin(giving_up.lock(0, Exclusive));
        std::future::poll_fn(|context| {
            assert!(lock.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        waiting.sleep(5 * MS).await;
        drop(lock);
    });
    sim.step();
    let behind = spawn_locker(&env, &locks, (0, Shared, ALL), MS);
    assert_eq!(sim.finish(&behind).unwrap(), 5);
    drop(reader);
    assert!(locks.try_lock(0, Exclusive).is_some(), "no claim is left");
}

#[test]
fn over_many_seeds_no_two_holders_exclude_one_another_and_everybody_gets_through() {
    for seed in 0..50 {
        let mut sim = Sim::new(SimOptions::seeded(seed));
        let env = sim.env();
        let locks = StripeLocks::new(&env, 2);
        // Per column: -1 a writer, otherwise how many readers.
        let holders = Rc::new(RefCell::new(BTreeMap::<(u64, u32), i32>::new()));
        let done = Rc::new(Cell::new(0));
        for _ in 0..60 {
            let (env, locks, holders, done) =
                (env.clone(), locks.clone(), holders.clone(), done.clone());
            env.clone().spawn("locker", async move {
                env.sleep(Duration::from_nanos(env.random() % 1000)).await;
                let key = env.random() % 4;
                let mode = if env.random() % 2 == 0 { Shared } else { Exclusive };
                let start = (env.random() % 8) as u32;
                let columns = start..start + 1 + (env.random() % 4) as u32;
                let guard = locks.lock_columns(key, mode, columns.clone()).await;
                for column in columns.clone() {
                    let mut holders = holders.borrow_mut();
                    let count = holders.entry((key, column)).or_default();
                    match mode {
                        Shared => assert!(*count >= 0),
                        Exclusive => assert_eq!(*count, 0),
                    }
                    *count += if mode == Shared { 1 } else { -1 };
                }
                env.sleep(Duration::from_nanos(env.random() % 300)).await;
                for column in columns {
                    let mut holders = holders.borrow_mut();
                    let count = holders.entry((key, column)).or_default();
                    *count -= if mode == Shared { 1 } else { -1 };
                }
                drop(guard);
                done.set(done.get() + 1);
            });
        }
        sim.run_until_idle().unwrap();
        assert_eq!(done.get(), 60, "seed {seed}");
    }
}
