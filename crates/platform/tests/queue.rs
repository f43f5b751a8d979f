//! A drive has a bounded number of operations at once. Other operations wait for a place,
//! and their time limit does not run.

mod common;

use common::{HeldOperations, keeper};
use platform::{IoErrorKind, IoOutcome};
use platform_sim::{Sim, SimOptions};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const LIMIT: Duration = Duration::from_secs(30);

/// Completes the oldest operation of the drive.
fn return_first(kept: &HeldOperations) {
    let (request, completion) = kept.borrow_mut().remove(0);
    completion.complete(IoOutcome::done(request.range().len.0));
}

fn place_of(kept: &HeldOperations, nth: usize) -> u64 {
    kept.borrow()[nth].0.range().start.0
}

/// A slow drive with a long queue failed as if it did not answer: the time limit of an operation
/// ran while hundreds of operations were ahead of it.
#[test]
fn a_drive_has_a_bounded_number_of_operations_and_what_waits_does_not_age() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, Duration::from_secs(1));
        let drive = drive.with_queue_depth(2);
        let ops: Vec<_> =
            (0..10).map(|nth| drive.trim(ByteRange::new(ByteOffset(nth), ByteCount(1)))).collect();
        assert_eq!((kept.borrow().len(), drive.outstanding()), (2, 10));
        for nth in 0..10 {
            assert_eq!(place_of(&kept, 0), nth, "they begin in their order");
            env.sleep(Duration::from_millis(450)).await;
            return_first(&kept);
            env.yield_now().await;
            assert_eq!(kept.borrow().len(), (9 - nth as usize).min(2));
        }
        for op in ops {
            assert_eq!(op.await.result, Ok(1));
        }
        assert_eq!(drive.outstanding(), 0);
        // The queue is empty: the drive gets the next operation at once.
        let op = drive.flush();
        return_first(&kept);
        assert!(op.await.result.is_ok());
    })
    .unwrap();
}

/// A drive without an overseer does not answer. Each operation times out after its own limit,
/// which starts when the operation gets a place.
#[test]
fn what_waits_for_a_silent_drive_times_out_in_its_turn() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, Duration::from_secs(1));
        let drive = drive.with_queue_depth(2);
        let began = env.now();
        let ops: Vec<_> = (0..5).map(|_| drive.flush()).collect();
        for op in ops {
            assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        }
        assert_eq!(env.now().since(began), Duration::from_secs(3));
        assert_eq!(drive.outstanding(), 5, "the drive may still perform them");
        (0..5).for_each(|_| return_first(&kept));
        assert_eq!(drive.outstanding(), 0);
    })
    .unwrap();
}

/// A drive that is given up never gets the operations that waited for a place: such a write could
/// land after the array has continued without the drive.
#[test]
fn a_drive_that_is_given_up_is_not_asked_for_what_waits() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (drive, kept) = keeper(&env, Duration::from_secs(1));
        let drive = drive.with_queue_depth(2);
        let ops: Vec<_> = (0..5).map(|_| drive.flush()).collect();
        drive.give_up();
        for op in ops {
            assert_eq!(op.await.result.unwrap_err().kind, IoErrorKind::TimedOut);
        }
        assert_eq!((kept.borrow().len(), drive.outstanding()), (2, 2));
        // The drive has places again, and takes a new operation.
        env.yield_now().await;
        let op = drive.flush();
        assert_eq!(kept.borrow().len(), 3);
        (0..3).for_each(|_| return_first(&kept));
        assert!(op.await.result.is_ok());
        assert_eq!(drive.outstanding(), 0);
    })
    .unwrap();
}

/// A process ends while operations wait for a place: the drive never gets them.
#[test]
fn what_waits_for_a_place_goes_with_its_process() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (drive, kept) = keeper(&env, LIMIT);
    let drive = drive.with_queue_depth(1);
    let waiter = env.spawn("waiter", async move {
        let ops: Vec<_> = (0..3).map(|_| drive.flush()).collect();
        for op in ops {
            drop(op.await);
        }
    });
    sim.step();
    sim.kill();
    assert!(!waiter.is_finished());
    assert_eq!(kept.borrow().len(), 1);
}
