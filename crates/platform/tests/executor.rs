//! The executor: order of tasks and timers, wakes, crash.

use platform::{Executor, Instant, Schedule, Unpark};
use platform_sim::{Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

#[derive(Default)]
struct CountUnparks(AtomicU32);
impl Unpark for CountUnparks {
    fn unpark(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn executor(schedule: Schedule) -> Rc<Executor> {
    Executor::new(schedule, Arc::new(CountUnparks::default()))
}

/// Runs ten tasks of three turns each and returns the order of turns.
fn order_of_turns(schedule: Schedule) -> Vec<u32> {
    let executor = executor(schedule);
    let order = Rc::new(RefCell::new(Vec::new()));
    for task in 0..10 {
        let (order, runner) = (order.clone(), executor.clone());
        executor.spawn("task", async move {
            for _ in 0..3 {
                order.borrow_mut().push(task);
                yield_once(&runner).await;
            }
        });
    }
    while executor.run_ready(4) {}
    assert!(executor.unfinished_tasks().is_empty());
    order.take()
}

fn yield_once(executor: &Rc<Executor>) -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |_| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        executor.wake(executor.current());
        Poll::Pending
    })
}

#[test]
fn ready_tasks_run_in_the_order_of_their_wakes() {
    let in_turn: Vec<u32> = (0..3).flat_map(|_| 0..10).collect();
    assert_eq!(order_of_turns(Schedule::Fifo), in_turn);
}

#[test]
fn shuffled_tasks_run_in_an_order_that_their_seed_decides() {
    let first = order_of_turns(Schedule::Shuffled { seed: 1 });
    assert_eq!(first, order_of_turns(Schedule::Shuffled { seed: 1 }));
    assert_ne!(first, order_of_turns(Schedule::Shuffled { seed: 2 }));
    assert_ne!(first, order_of_turns(Schedule::Fifo));
}

#[test]
fn a_task_woken_twice_before_it_runs_is_polled_once() {
    let executor = executor(Schedule::Fifo);
    let id = Rc::new(Cell::new(None));
    let (slot, runner) = (id.clone(), executor.clone());
    executor.spawn("sleeper", async move {
        slot.set(Some(runner.current()));
        pending::<()>().await;
    });
    executor.run_ready(10);
    let task = id.get().unwrap();
    let before = executor.polls();
    executor.wake(task);
    executor.wake(task);
    executor.remote().wake(task);
    assert!(executor.run_ready(10));
    assert_eq!(executor.polls(), before + 1);
    assert!(!executor.run_ready(10));
}

#[test]
fn waking_a_task_that_has_ended_does_not_touch_the_next_one_in_its_place() {
    let executor = executor(Schedule::Fifo);
    let id = Rc::new(Cell::new(None));
    let (slot, runner) = (id.clone(), executor.clone());
    executor.spawn("short", async move { slot.set(Some(runner.current())) });
    executor.run_ready(10);
    let polls = Rc::new(Cell::new(0));
    let counter = polls.clone();
    executor.spawn(
        "next",
        poll_fn(move |_| -> Poll<()> {
            counter.set(counter.get() + 1);
            Poll::Pending
        }),
    );
    executor.run_ready(10);
    executor.wake(id.get().unwrap());
    executor.run_ready(10);
    assert_eq!(polls.get(), 1);
}

#[test]
fn a_budget_bounds_how_many_polls_one_run_makes() {
    let executor = executor(Schedule::Fifo);
    let runner = executor.clone();
    executor.spawn("for ever", async move {
        loop {
            yield_once(&runner).await;
        }
    });
    assert!(executor.run_ready(7));
    assert_eq!(executor.polls(), 7);
    assert_eq!(executor.ready_tasks(), ["for ever"]);
    executor.kill_all();
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_wake_from_another_thread_unparks_the_world_and_reaches_the_task() {
    let unparks = Arc::new(CountUnparks::default());
    let executor = Executor::new(Schedule::Fifo, unparks.clone());
    let (flag, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
    let (seen, waker) = (flag.clone(), done.clone());
    let task = executor.spawn(
        "waiter",
        poll_fn(move |context| {
            waker.set(Some(context.waker().clone()));
            if seen.get() { Poll::Ready(7) } else { Poll::Pending }
        }),
    );
    executor.run_ready(10);
    flag.set(true);
    assert!(!executor.has_ready());
    let waker = done.take().unwrap();
    std::thread::spawn(move || waker.wake()).join().unwrap();
    assert_eq!(unparks.0.load(Ordering::Relaxed), 1);
    assert!(executor.has_ready());
    executor.run_ready(10);
    assert_eq!(task.try_take(), Some(7));
}

#[test]
fn timers_fire_in_the_order_of_deadline_and_then_of_creation() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let order = Rc::new(RefCell::new(Vec::new()));
    for (task, delay_ms) in [3u64, 1, 2, 1, 3, 0].into_iter().enumerate() {
        let (env, order) = (env.clone(), order.clone());
        env.clone().spawn("sleeper", async move {
            env.sleep(Duration::from_millis(delay_ms)).await;
            assert_eq!(env.now(), Instant { ns: delay_ms * 1_000_000 });
            order.borrow_mut().push(task);
        });
    }
    sim.run_until_idle().unwrap();
    assert_eq!(order.take(), [5, 1, 3, 2, 0, 4]);
}

#[test]
fn a_sleep_given_up_leaves_no_timer_behind() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let mut sleep = Box::pin(env.sleep(Duration::from_secs(100)));
        poll_fn(|context| {
            assert!(sleep.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(env.executor().next_deadline().is_some());
        drop(sleep);
        assert!(env.executor().next_deadline().is_none());
    })
    .unwrap();
}

#[test]
fn joining_a_task_gives_its_result_and_dropping_the_handle_lets_it_run() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    sim.run(async move {
        let sleeper = env.clone();
        let task = env.spawn("slow", async move {
            sleeper.sleep(Duration::from_secs(1)).await;
            42
        });
        assert!(!task.is_finished());
        assert_eq!(task.await, 42);
        drop(env.spawn("detached", async move { flag.set(true) }));
        env.yield_now().await;
    })
    .unwrap();
    assert!(ran.get());
}

#[test]
fn killing_drops_every_task_where_it_stands_even_those_that_destructors_start() {
    struct OnDrop(Rc<Executor>, Rc<Cell<u32>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            self.0.spawn("late", pending::<()>());
        }
    }
    let executor = executor(Schedule::Fifo);
    let drops = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let guard = OnDrop(executor.clone(), drops.clone());
        executor.spawn("holder", async move {
            let _guard = guard;
            pending::<()>().await;
        });
    }
    executor.run_ready(10);
    assert_eq!(executor.unfinished_tasks().len(), 3);
    executor.kill_all();
    assert_eq!((drops.get(), executor.unfinished_tasks().len()), (3, 0));
    assert!(!executor.run_ready(10));
}

/// One task waits for wakes, another wakes it three times; returns the steps of both, in order.
fn told_at_once(schedule: Schedule) -> Vec<&'static str> {
    let executor = executor(schedule);
    let (log, told) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
    let (waits, seen) = (log.clone(), told.clone());
    let waiting = Rc::new(Cell::new(None));
    let (place, runner) = (waiting.clone(), executor.clone());
    executor.spawn("waits", async move {
        for turn in 1..=3 {
            poll_fn(|_| {
                place.set(Some(runner.current()));
                if seen.get() >= turn { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            waits.borrow_mut().push("goes on");
        }
    });
    while executor.run_ready(1) {}
    let (tells, runner) = (log.clone(), executor.clone());
    executor.spawn("tells", async move {
        for _ in 0..3 {
            told.set(told.get() + 1);
            tells.borrow_mut().push("tells");
            runner.go_on(waiting.get().expect("it waits"));
        }
        // A task cannot continue itself: it is queued, and the wake is not lost.
        let mut again = false;
        poll_fn(|_| {
            if std::mem::replace(&mut again, true) {
                return Poll::Ready(());
            }
            runner.go_on(runner.current());
            Poll::Pending
        })
        .await;
        tells.borrow_mut().push("ends");
    });
    while executor.run_ready(1) {}
    assert!(executor.unfinished_tasks().is_empty());
    log.take()
}

#[test]
fn a_task_that_waits_goes_on_inside_the_one_that_tells_it() {
    let at_once = ["tells", "goes on", "tells", "goes on", "tells", "goes on", "ends"];
    assert_eq!(told_at_once(Schedule::Fifo), at_once);
    // If orders are explored, it may be queued instead.
    let orders = (0..64).map(|seed| told_at_once(Schedule::Shuffled { seed }));
    let orders: std::collections::BTreeSet<_> = orders.collect();
    assert!(orders.iter().any(|order| order[..] == at_once));
    assert!(orders.iter().any(|order| order[..3] == ["tells", "tells", "tells"]));
}

/// Tasks that continue each other endlessly do not recurse endlessly.
#[test]
fn tasks_go_on_inside_one_another_only_so_deep() {
    let executor = executor(Schedule::Fifo);
    let (tasks, deepest, depth) =
        (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for number in 0..20 {
        let (runner, tasks) = (executor.clone(), tasks.clone());
        let (deepest, depth) = (deepest.clone(), depth.clone());
        executor.spawn("link", async move {
            let mut waited = false;
            poll_fn(|_| {
                if std::mem::replace(&mut waited, true) {
                    return Poll::Ready(());
                }
                tasks.borrow_mut().push(runner.current());
                Poll::Pending
            })
            .await;
            depth.set(depth.get() + 1);
            deepest.set(deepest.get().max(depth.get()));
            let next = tasks.borrow().get(number + 1).copied();
            next.into_iter().for_each(|next| runner.go_on(next));
            depth.set(depth.get() - 1);
        });
    }
    while executor.run_ready(1) {}
    let first = tasks.borrow()[0];
    executor.wake(first);
    while executor.run_ready(1) {}
    assert!(executor.unfinished_tasks().is_empty(), "every task was woken");
    assert_eq!(deepest.get(), 5, "one that is polled, and four inside");
}

/// Requests of another shard came after all ready tasks here, each of which may take dozens of
/// requests per turn: two shards waited for each other most of the time.
#[test]
fn what_another_thread_woke_comes_before_what_is_ready_here() {
    let executor = executor(Schedule::Fifo);
    let (order, remote) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(None)));
    let (here, place, runner) = (order.clone(), remote.clone(), executor.clone());
    executor.spawn("remote", async move {
        let mut waited = false;
        poll_fn(|_| {
            place.set(Some(runner.current()));
            if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        here.borrow_mut().push("woken from elsewhere");
    });
    while executor.run_ready(1) {}
    for _ in 0..2 {
        let here = order.clone();
        executor.spawn("ready", async move { here.borrow_mut().push("ready") });
    }
    executor.remote().wake(remote.get().expect("it waits"));
    while executor.run_ready(8) {}
    assert_eq!(*order.borrow(), ["woken from elsewhere", "ready", "ready"]);
}
