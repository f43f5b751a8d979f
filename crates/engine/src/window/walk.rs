//! A walk over the stripes of a lane: ascending, several under way at a time.

use crate::lanes::LaneIndex;
use crate::volume::Volume;
use crate::window::Running;
use env::sync::Signal;
use env::{Instant, IoError};
use std::cell::Cell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use units::StripeIndex;

/// Bytes of each drive that are under way at a time while nobody else wants the drives.
const IN_FLIGHT_PER_DRIVE: u64 = 1 << 20;

/// The stripes of a lane that the volume has.
pub(crate) fn stripes(volume: &Volume, lane: LaneIndex) -> Range<u64> {
    let Range { start, end } = volume.lanes.stripes_of(lane);
    start..end.min(volume.geometry().stripes().0).max(start)
}

/// What dealing with a whole stripe moves on drives: every strip of it is read, or written.
pub(crate) fn stripe_bytes(volume: &Volume) -> u64 {
    u64::from(volume.geometry().cells_per_stripe()) * volume.geometry().strip().bytes().0
}

/// What dealing with one stripe came to.
pub(crate) enum Step {
    /// It is dealt with; so many bytes were moved on drives.
    Done {
        /// Read and written.
        drive_bytes: u64,
    },
    /// There was nothing to do.
    Skipped,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walked {
    /// Every stripe is dealt with.
    Whole,
    /// It was broken off: the task is to end.
    Stopped,
    /// A stripe could not be dealt with; those after it were not begun.
    Failed(IoError),
}

struct Lane {
    next: Cell<u64>,
    end: u64,
    /// Who works on it now, and how many may.
    workers: Cell<usize>,
    most_workers: usize,
    /// Whether it keeps the task's pace.
    paced: bool,
    stopped: Cell<bool>,
    failed: Cell<Option<IoError>>,
    changed: Signal,
}

/// Deals with every stripe of a lane by `step`, which takes the stripe's lock.
pub(crate) async fn walk<F, S>(task: &Rc<Running>, lane: LaneIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    walk_at(task, lane, true, step).await
}

/// The same at full speed, and to the end of the lane: somebody waits for it.
pub(crate) async fn walk_unpaced<F, S>(task: &Rc<Running>, lane: LaneIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    walk_at(task, lane, false, step).await
}

async fn walk_at<F, S>(task: &Rc<Running>, lane: LaneIndex, paced: bool, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let volume = &task.volume;
    let Range { start, end } = stripes(volume, lane);
    let strip = volume.geometry().strip().bytes().0 * u64::from(volume.geometry().rows_per_stripe());
    let lane = Rc::new(Lane {
        next: Cell::new(start),
        end,
        workers: Cell::new(1),
        most_workers: (IN_FLIGHT_PER_DRIVE / strip).clamp(4, 64) as usize,
        paced,
        stopped: Cell::new(false),
        failed: Cell::new(None),
        changed: Signal::default(),
    });
    work(task.clone(), lane.clone(), true, step).await;
    lane.changed.wait_until(volume.shard.env(), || lane.workers.get() == 0).await;
    match (lane.failed.get(), lane.stopped.get()) {
        (Some(error), _) => Walked::Failed(error),
        (None, true) => Walked::Stopped,
        (None, false) => Walked::Whole,
    }
}

impl Lane {
    /// Whether somebody whose help is not needed any more should leave, or nobody has anything left to do.
    fn is_over(&self) -> bool {
        self.next.get() >= self.end || self.failed.get().is_some() || self.stopped.get()
    }
}

/// Deals with stripes until none is left. The `first` worker calls others in as long as nobody else wants the
/// drives; they leave when somebody does.
async fn work<F, S>(task: Rc<Running>, lane: Rc<Lane>, first: bool, step: S)
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let shard = task.volume.shard.clone();
    while !lane.is_over() {
        let alone = lane.paced && shard.hosts().are_around(shard.env().now());
        if alone && !first {
            break;
        }
        if lane.paced && (!task.pace.turn(&shard).await || task.must_end()) {
            lane.stopped.set(true);
            break;
        }
        if lane.is_over() {
            break;
        }
        let stripe = lane.next.get();
        lane.next.set(stripe + 1);
        if first && !alone && lane.workers.get() < lane.most_workers {
            lane.workers.set(lane.workers.get() + 1);
            let hand: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(work(task.clone(), lane.clone(), false, step.clone()));
            shard.env().spawn("task worker", hand);
        }
        let began = shard.env().now();
        match step(task.clone(), StripeIndex(stripe)).await {
            Ok(done) => note(&task, &lane, began, &done),
            Err(error) => lane.failed.set(Some(lane.failed.get().unwrap_or(error))),
        }
        task.report_if_due().await;
    }
    lane.workers.set(lane.workers.get() - 1);
    lane.changed.notify(shard.env());
}

fn note(task: &Running, lane: &Lane, began: Instant, done: &Step) {
    let bytes = match done {
        Step::Done { drive_bytes } => *drive_bytes,
        Step::Skipped => 0,
    };
    if lane.paced && bytes > 0 {
        task.pace.took(&task.volume.shard, began, bytes);
    }
    task.count(|progress| {
        progress.done_stripes += 1;
        progress.drive_bytes += bytes;
    });
}
