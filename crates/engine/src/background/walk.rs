//! A walk over the stripes of a region: ascending, several under way at a time.

use crate::background::Running;
use crate::recovery::Recovery;
use env::sync::Signal;
use env::{Instant, IoError};
use state::RegionIndex;
use std::cell::Cell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use units::StripeIndex;

/// Bytes of each drive that are under way at a time while nobody else wants the drives.
const IN_FLIGHT_PER_DRIVE: u64 = 1 << 20;

/// What dealing with a whole stripe moves on drives: every strip of it is read, or written.
pub(crate) fn stripe_bytes(volume: &Recovery) -> u64 {
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

struct Region {
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

/// Deals with every stripe of a region by `step`, which takes the stripe's lock.
pub(crate) async fn walk<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    walk_at(task, region, true, step).await
}

/// The same at full speed, and to the end of the region: somebody waits for it.
pub(crate) async fn walk_unpaced<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    walk_at(task, region, false, step).await
}

async fn walk_at<F, S>(task: &Rc<Running>, region: RegionIndex, paced: bool, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let volume = &task.volume;
    let Range { start, end } = volume.stripes_of(region);
    let strip = volume.geometry().strip().bytes().0 * u64::from(volume.geometry().rows_per_stripe());
    let region = Rc::new(Region {
        next: Cell::new(start),
        end,
        workers: Cell::new(1),
        most_workers: (IN_FLIGHT_PER_DRIVE / strip).clamp(4, 64) as usize,
        paced,
        stopped: Cell::new(false),
        failed: Cell::new(None),
        changed: Signal::default(),
    });
    work(task.clone(), region.clone(), true, step).await;
    region.changed.wait_until(volume.shard.env(), || region.workers.get() == 0).await;
    match (region.failed.get(), region.stopped.get()) {
        (Some(error), _) => Walked::Failed(error),
        (None, true) => Walked::Stopped,
        (None, false) => Walked::Whole,
    }
}

impl Region {
    /// Whether somebody whose help is not needed any more should leave, or nobody has anything left to do.
    fn is_over(&self) -> bool {
        self.next.get() >= self.end || self.failed.get().is_some() || self.stopped.get()
    }
}

/// Deals with stripes until none is left. The `first` worker calls others in as long as nobody else wants the
/// drives; they leave when somebody does.
async fn work<F, S>(task: Rc<Running>, region: Rc<Region>, first: bool, step: S)
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let shard = task.volume.shard.clone();
    while !region.is_over() {
        let alone = region.paced && shard.hosts().are_around(shard.env().now());
        if alone && !first {
            break;
        }
        if region.paced && (!task.pace.turn(&shard).await || task.must_end()) {
            region.stopped.set(true);
            break;
        }
        if region.is_over() {
            break;
        }
        let stripe = region.next.get();
        region.next.set(stripe + 1);
        if first && !alone && region.workers.get() < region.most_workers {
            region.workers.set(region.workers.get() + 1);
            let hand: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(work(task.clone(), region.clone(), false, step.clone()));
            shard.env().spawn("task worker", hand);
        }
        let began = shard.env().now();
        match step(task.clone(), StripeIndex(stripe)).await {
            Ok(done) => note(&task, &region, began, &done),
            Err(error) => region.failed.set(Some(region.failed.get().unwrap_or(error))),
        }
        task.report_if_due().await;
    }
    region.workers.set(region.workers.get() - 1);
    region.changed.notify(shard.env());
}

fn note(task: &Running, region: &Region, began: Instant, done: &Step) {
    let bytes = match done {
        Step::Done { drive_bytes } => *drive_bytes,
        Step::Skipped => 0,
    };
    if region.paced && bytes > 0 {
        task.pace.took(&task.volume.shard, began, bytes);
    }
    task.count(|progress| {
        progress.done_stripes += 1;
        progress.drive_bytes += bytes;
    });
}
