//! Operations: returned once, possibly late, never forgotten.

mod common;

use common::{HeldOperations, keeper};
use platform::{
    Buf, Env, IoError, IoErrorKind, IoOutcome, IoRequest, LimitsByClass, Member, OnReturn,
    Overseer, TimeLimits,
};
use platform_sim::{Sim, SimOptions};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;
use units::{ByteCount, ByteOffset};

fn return_one(kept: &HeldOperations) {
    let (request, completion) = kept.borrow_mut().pop().expect("an operation in flight");
    let bytes = request.range().len.0;
    match request {
        IoRequest::Read { buffers, .. } => {
            completion.complete(IoOutcome::done(bytes).with_buffers(buffers))
        }
        _ => completion.complete(IoOutcome::done(bytes)),
    }
}

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn operations_run_together_and_are_joined_in_any_order() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let ops: Vec<_> = (1..4)
            .map(|n| drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512 * n))]))
            .collect();
        assert_eq!(
            (kept.borrow().len(), drive.outstanding(), env.executor().operations_in_flight()),
            (3, 3, 3)
        );
        // The operation that started last returns first.
        (0..3).for_each(|_| return_one(&kept));
        assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
        for (index, op) in ops.into_iter().enumerate() {
            let outcome = op.await;
            assert_eq!(outcome.result.unwrap(), 512 * (index as u64 + 1));
            assert_eq!(outcome.buffers[0].len().0, 512 * (index as u64 + 1));
        }
    })
    .unwrap();
}

#[test]
fn a_waiter_is_woken_when_its_operation_returns() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    let waiter = env.spawn("waiter", async move { drive.flush().await.result });
    sim.step();
    assert!(!waiter.is_finished());
    return_one(&kept);
    assert_eq!(sim.finish(&waiter).unwrap().unwrap(), 0);
    assert_eq!(sim.now().ns, 0);
}

#[test]
#[should_panic(expected = "an operation in flight was dropped")]
fn dropping_an_operation_in_flight_panics() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, _kept) = keeper(&env, LIMIT);
    sim.run(async move { drop(drive.flush()) }).unwrap();
}

#[test]
#[should_panic(expected = "an operation in flight was dropped")]
fn dropping_an_operation_that_was_not_looked_at_panics_even_if_it_has_returned() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    sim.run(async move {
        let op = drive.flush();
        return_one(&kept);
        drop(op);
    })
    .unwrap();
}

#[test]
fn an_abandoned_operation_goes_on_and_its_buffer_goes_home_when_it_returns() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let buf = env.pool().take(ByteCount(4096)).unwrap();
        drive.read(ByteOffset(0), smallvec![buf]).abandon();
        assert_eq!((drive.outstanding(), env.pool().used()), (1, ByteCount(4096)));
        return_one(&kept);
        assert_eq!((drive.outstanding(), env.pool().used()), (0, ByteCount::ZERO));
        // And one that had returned already.
        let buf = env.pool().take(ByteCount(4096)).unwrap();
        let op = drive.read(ByteOffset(0), smallvec![buf]);
        return_one(&kept);
        op.abandon();
        assert_eq!(env.pool().used(), ByteCount::ZERO);
    })
    .unwrap();
}

#[test]
fn a_late_return_after_a_time_out_is_counted_and_its_buffer_is_nobody_elses() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let op = drive.read(ByteOffset(0), smallvec![env.pool().take(ByteCount(4096)).unwrap()]);
        let outcome = op.await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert!(outcome.buffers.is_empty(), "the drive still has it");
        assert_eq!((drive.outstanding(), env.pool().used()), (1, ByteCount(4096)));
        // Other operations start and return meanwhile: the late one must not be confused with them.
        let next = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]);
        return_one(&kept);
        assert_eq!(next.await.result.unwrap(), 512);
        return_one(&kept);
        assert_eq!((drive.outstanding(), env.pool().used()), (0, ByteCount::ZERO));
        assert_eq!(env.now().ns, LIMIT.as_nanos() as u64);
    })
    .unwrap();
}

/// After a stop of 40 s a process found all its drives late, and used none of them any more.
#[test]
fn the_time_in_which_the_process_stood_still_counts_for_no_operation() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let (one, other) = (drive.flush(), drive.flush());
        env.sleep(Duration::from_secs(20)).await;
        env.executor().stand_still(Duration::from_secs(40));
        env.sleep(Duration::from_secs(40)).await;
        return_one(&kept);
        return_one(&kept);
        assert!(one.await.result.is_ok() && other.await.result.is_ok(), "only 20 s count");
        // A later operation has its full time limit, and no more.
        let begun = env.now();
        assert_eq!(drive.flush().await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!(env.now() - begun, LIMIT);
        return_one(&kept);
    })
    .unwrap();
}

#[test]
fn a_limit_grows_by_what_the_process_stood_still_meanwhile() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let sleeper = env.clone();
        let limit = env.spawn("limit", async move {
            sleeper.sleep_running(Duration::from_secs(5)).await;
            sleeper.now()
        });
        env.sleep(Duration::from_secs(2)).await;
        env.executor().stand_still(Duration::from_secs(40));
        assert_eq!(limit.await.ns, 45_000_000_000);
    })
    .unwrap();
}

#[test]
fn a_time_out_that_nobody_has_looked_at_stays_one_when_the_drive_returns() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let op = drive.flush();
        env.sleep(LIMIT).await;
        return_one(&kept);
        assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
    })
    .unwrap();
}

/// Receives outcomes, and records them.
#[derive(Default)]
struct Listener {
    heard: RefCell<Vec<(u32, Result<u64, IoErrorKind>)>>,
    forgotten: RefCell<Vec<u32>>,
}

impl OnReturn for Listener {
    fn returned(&self, token: u32, outcome: IoOutcome) {
        self.heard.borrow_mut().push((token, outcome.result.map_err(|error| error.kind)));
    }

    fn forgotten(&self, token: u32) {
        self.forgotten.borrow_mut().push(token);
    }
}

/// When a process is killed, the receiver of each outstanding operation drops its request, once.
#[test]
fn an_operation_without_a_task_is_forgotten_when_its_process_is_killed() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let listener = Rc::new(Listener::default());
    let (of, returned) = (listener.clone(), Rc::new(RefCell::new(None)));
    let kept_by = returned.clone();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        for token in [3, 4] {
            let request = IoRequest::Flush;
            drive.start_for(request, false, of.clone(), token);
        }
        return_one(&kept);
        *kept_by.borrow_mut() = Some((drive, kept));
    })
    .unwrap();
    sim.kill();
    // The drive returned the latest one.
    assert_eq!(*listener.heard.borrow(), [(4, Ok(0))]);
    assert_eq!(*listener.forgotten.borrow(), [3]);
    drop(returned);
    assert_eq!(listener.heard.borrow().len() + listener.forgotten.borrow().len(), 2);
    assert_eq!(Rc::strong_count(&listener), 1, "nothing holds it any more");
}

/// Without a task: notified when the drive returns the operation or its time limit passes, and
/// never twice.
#[test]
fn an_operation_without_a_task_is_told_of_once() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let listener = Rc::new(Listener::default());
        let start = |token| {
            let buf = env.pool().take(ByteCount(4096)).unwrap();
            let request = IoRequest::Read { offset: ByteOffset(0), buffers: smallvec![buf] };
            drive.start_for(request, false, listener.clone(), token);
        };
        start(7);
        assert!(listener.heard.borrow().is_empty() && drive.outstanding() == 1);
        return_one(&kept);
        assert_eq!(*listener.heard.borrow(), [(7, Ok(4096))]);
        // A late operation, and another one that reuses its slot.
        start(8);
        env.sleep(LIMIT).await;
        env.sleep(LIMIT).await;
        assert_eq!(listener.heard.borrow()[1..], [(8, Err(IoErrorKind::TimedOut))]);
        assert_eq!((drive.outstanding(), env.pool().used()), (1, ByteCount(4096)));
        start(9);
        return_one(&kept);
        return_one(&kept);
        assert_eq!(listener.heard.borrow()[2..], [(9, Ok(4096))]);
        // An operation that fails while the drive has it.
        start(10);
        kept.borrow()[0].1.fail_early(IoError::new(IoErrorKind::Gone));
        assert_eq!(listener.heard.borrow()[3..], [(10, Err(IoErrorKind::Gone))]);
        return_one(&kept);
        // An operation that the drive loses.
        start(11);
        kept.borrow_mut().clear();
        assert_eq!(listener.heard.borrow()[4..], [(11, Err(IoErrorKind::Gone))]);
        assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
        assert_eq!((env.pool().used(), Rc::strong_count(&listener)), (ByteCount::ZERO, 1));
    })
    .unwrap();
}

/// The receiver is dropped although the drive still has the operation.
#[test]
fn nobody_hears_of_an_operation_of_a_process_that_was_killed() {
    let sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    let listener = Rc::new(Listener::default());
    drive.start_for(IoRequest::Flush, false, listener.clone(), 1);
    env.executor().kill_all();
    assert_eq!(Rc::strong_count(&listener), 1);
    return_one(&kept);
    assert!(listener.heard.borrow().is_empty());
}

#[test]
fn each_operation_has_its_own_time_limit() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (slow, _slow_kept) = keeper(&env, Duration::from_secs(20));
        let (fast, fast_kept) = keeper(&env, Duration::from_secs(5));
        let (first, second, third) = (slow.flush(), fast.flush(), fast.flush());
        return_one(&fast_kept);
        assert_eq!(second.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!(env.now().ns, 5_000_000_000);
        assert_eq!(third.await.result.unwrap(), 0);
        assert_eq!(first.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!(env.now().ns, 20_000_000_000);
    })
    .unwrap();
}

#[test]
fn the_next_time_limit_is_that_of_an_operation_still_in_flight() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let far = platform::Instant { ns: u64::MAX };
        let next = || env.executor().next_expiry(far).map(|at| at.ns);
        assert_eq!(next(), None);
        let (slow, slow_kept) = keeper(&env, Duration::from_nanos(20));
        let (fast, fast_kept) = keeper(&env, Duration::from_nanos(5));
        let (first, second) = (slow.flush(), fast.flush());
        assert_eq!(next(), Some(5));
        assert_eq!(env.executor().next_expiry(platform::Instant { ns: 4 }), None);
        return_one(&fast_kept);
        assert_eq!(next(), Some(20));
        return_one(&slow_kept);
        assert_eq!(next(), None);
        let (endless, completion) = env.start_operation(None);
        assert_eq!(next(), None, "a receive may take for ever");
        completion.complete(IoOutcome::done(0));
        for op in [first, second, endless] {
            assert!(op.await.result.is_ok());
        }
    })
    .unwrap();
}

#[test]
fn an_operation_that_its_drive_forgets_returns_as_gone() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let op = drive.flush();
        kept.borrow_mut().clear();
        assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::Gone);
        assert_eq!(drive.outstanding(), 0);
    })
    .unwrap();
}

#[test]
fn operations_of_a_killed_executor_end_without_a_panic_and_return_to_nobody() {
    struct FlushOnDrop(Member);
    impl Drop for FlushOnDrop {
        fn drop(&mut self) {
            self.0.flush().abandon();
        }
    }
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    for _ in 0..3 {
        let drive = drive.clone();
        env.spawn("writer", async move {
            // A destructor that starts an operation must not bring the executor back to life.
            let _guard = FlushOnDrop(drive.clone());
            drive.flush().await;
        });
    }
    for _ in 0..3 {
        sim.step();
    }
    sim.kill();
    assert_eq!(kept.borrow().len(), 6);
    while !kept.borrow().is_empty() {
        return_one(&kept);
    }
    assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
}

#[test]
fn a_waiter_may_hand_its_operation_to_another_task() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    let mut op = Box::pin(drive.flush());
    let first = env.spawn("first", async move {
        poll_fn(|context| {
            assert!(op.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        Some(op)
    });
    let op = sim.finish(&first).unwrap().unwrap();
    let second = env.spawn("second", async move { op.await.result });
    sim.step();
    return_one(&kept);
    assert_eq!(sim.finish(&second).unwrap().unwrap(), 0);
}

#[test]
fn a_task_whose_operations_finish_at_once_still_lets_others_run() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let stop = Rc::new(RefCell::new(false));
        let (worker, stopped) = (drive.clone(), stop.clone());
        let busy = env.spawn("busy", async move {
            let mut done = 0;
            while !*stopped.borrow() {
                assert!(done < 10_000, "no other task had a turn");
                let flush = worker.flush();
                return_one(&kept);
                flush.await.result.unwrap();
                done += 1;
            }
            done
        });
        env.yield_now().await;
        *stop.borrow_mut() = true;
        assert!(busy.await > 0);
    })
    .unwrap();
}

#[test]
fn what_fails_early_is_told_at_once_and_stays_outstanding_until_the_drive_returns_it() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let early = |kept: &HeldOperations| {
            let kept = kept.borrow();
            assert!(kept[0].1.is_awaited());
            kept[0].1.fail_early(platform::IoError::new(IoErrorKind::Gone));
            assert!(!kept[0].1.is_awaited());
        };
        // Notified first, returned later.
        let op = drive.flush();
        early(&kept);
        assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::Gone);
        assert_eq!(drive.outstanding(), 1);
        return_one(&kept);
        assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
        // Returned before the waiter polled: the reported error stays, even if the operation
        // succeeded.
        let op = drive.flush();
        early(&kept);
        return_one(&kept);
        assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::Gone);
        // A waiting task is woken.
        let waiter = env.spawn("waiter", {
            let drive = drive.clone();
            async move { drive.flush().await.result }
        });
        env.yield_now().await;
        early(&kept);
        assert_eq!(waiter.await.unwrap_err().kind, IoErrorKind::Gone);
        return_one(&kept);
        assert_eq!((drive.outstanding(), env.now().ns), (0, 0));
    })
    .unwrap();
}

#[test]
fn health_is_asked_for_like_anything_else() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, LIMIT);
        let asking = env.spawn("asking", {
            let drive = drive.clone();
            async move { drive.health().await }
        });
        env.yield_now().await;
        let (request, completion) = kept.borrow_mut().pop().unwrap();
        assert_eq!((request.name(), request.range().len), ("health", ByteCount::ZERO));
        let told =
            platform::DriveHealth { wear_percent: Some(7), ..platform::DriveHealth::default() };
        completion.complete(IoOutcome::with_health(told.clone()));
        assert_eq!(asking.await, Ok(told));
        // A drive that does not respond is not reported as healthy.
        assert_eq!(drive.health().await.unwrap_err().kind, IoErrorKind::TimedOut);
        return_one(&kept);
    })
    .unwrap();
}

/// An overseer that counts its notifications.
#[derive(Default)]
struct Watch(Cell<u32>);

impl Overseer for Watch {
    fn changed(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// A drive with an overseer and a short limit of 2 s for reads.
fn watched(env: &Env) -> (Member, HeldOperations, Rc<Watch>) {
    let (drive, kept) = keeper(env, LIMIT);
    let limits = TimeLimits { short_read: Duration::from_secs(2), ..TimeLimits::uniform(LIMIT) };
    drive.set_limits(&LimitsByClass { solid: limits, ..LimitsByClass::default() });
    let watch = Rc::new(Watch::default());
    let weak: Weak<dyn Overseer> = Rc::downgrade(&(watch.clone() as Rc<dyn Overseer>));
    drive.watch(weak);
    (drive, kept, watch)
}

#[test]
fn what_is_overdue_at_a_drive_that_is_watched_over_is_waited_for_until_it_is_given_up() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept, watch) = watched(&env);
        let (returned, given_up) = (drive.flush(), drive.flush());
        env.sleep(LIMIT - Duration::from_secs(1)).await;
        assert_eq!((drive.is_overdue(), watch.0.get()), (false, 0));
        env.sleep(Duration::from_secs(3600)).await;
        assert_eq!((drive.is_overdue(), watch.0.get()), (true, 1), "notified once");
        return_one(&kept);
        assert!(drive.is_overdue(), "the other one is overdue");
        let (_, completion) = kept.borrow_mut().pop().unwrap();
        drive.give_up();
        assert_eq!((drive.is_overdue(), watch.0.get(), drive.outstanding()), (false, 2, 1));
        completion.complete(IoOutcome::done(0));
        // The drive reports itself which of them it returned.
        let kinds =
            [returned.await.result, given_up.await.result].map(|result| result.map_err(|e| e.kind));
        assert!(kinds.contains(&Ok(0)) && kinds.contains(&Err(IoErrorKind::TimedOut)), "{kinds:?}");
        assert_eq!((drive.outstanding(), env.executor().operations_in_flight()), (0, 0));
    })
    .unwrap();
}

#[test]
fn a_read_with_a_short_limit_is_late_then_overdue_and_is_no_more_when_it_is_returned() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept, watch) = watched(&env);
        let begun = env.now();
        let patient = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]);
        let short = drive.read_or_late(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]);
        assert_eq!(short.await.result.unwrap_err().kind, IoErrorKind::Late);
        assert_eq!(env.now() - begun, Duration::from_secs(2));
        assert_eq!((drive.is_late(), drive.is_overdue(), watch.0.get()), (true, false, 1));
        return_one(&kept);
        assert_eq!((drive.is_late(), watch.0.get()), (false, 2), "it was returned");
        env.sleep(LIMIT).await;
        assert_eq!((drive.is_late(), drive.is_overdue(), watch.0.get()), (false, true, 3));
        return_one(&kept);
        assert_eq!((drive.is_overdue(), watch.0.get()), (false, 4));
        assert!(patient.await.result.is_ok(), "a read without a short limit returns its data");
    })
    .unwrap();
}

#[test]
fn a_drive_over_which_nobody_watches_has_no_short_limit_and_no_mercy() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept, watch) = watched(&env);
        let begun = env.now();
        let short = drive.read_or_late(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]);
        drop(watch);
        let after = drive.read_or_late(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]);
        for read in [short, after] {
            assert_eq!(read.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
            assert_eq!(env.now() - begun, LIMIT);
        }
        return_one(&kept);
        return_one(&kept);
    })
    .unwrap();
}
