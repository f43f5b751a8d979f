//! A walk over the stripes of a region: ascending, several under way at a time, and, where the task can, several that follow one
//! another together ([`Held`]): what lies together on a drive is one operation then, and one lock, one plan and one answer do not
//! each have to pay for their own.

use crate::attachment::Closed;
use crate::background::Running;
use crate::recovery::Recovery;
use platform::locks::{ALL_COLUMNS, Guard, Mode};
use platform::sync::Signal;
use platform::{Instant, IoError};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use units::StripeIndex;
use volume_state::RegionIndex;

/// Bytes of each drive that are under way at a time while nobody else wants the drives.
const IN_FLIGHT_PER_DRIVE: u64 = 1 << 20;

/// Bytes of each drive that are dealt with together while nobody else wants the drives.
const TOGETHER_PER_DRIVE: u64 = IN_FLIGHT_PER_DRIVE / 4;

/// The most stripes that are dealt with together.
const MOST_TOGETHER: u64 = 16;

/// The part of a shard's memory for plans that the stripes which are dealt with together may take.
const SHARE_OF_SCRATCH: u64 = 8;

/// What dealing with a whole stripe moves on drives: every strip of it is read, or written.
pub(crate) fn stripe_bytes(volume: &Recovery) -> u64 {
    u64::from(volume.geometry().cells_per_stripe()) * volume.geometry().strip().bytes().0
}

/// Stripes that follow one another, each held by itself.
pub(crate) struct Held {
    pub(crate) stripes: Range<u64>,
    _guards: SmallVec<[Guard; 4]>,
    _closed: Option<Closed>,
}

impl Held {
    pub(crate) fn each(&self) -> impl Iterator<Item = StripeIndex> + use<> {
        self.stripes.clone().map(StripeIndex)
    }
}

/// Takes the first of these stripes off, and those after it that are to be had at once: nobody waits for a stripe who holds another
/// one.
pub(crate) async fn hold_next(volume: &Recovery, left: &mut Range<u64>, mode: Mode) -> Held {
    let closed = if mode == Mode::Exclusive { volume.close_beside().await } else { None };
    let locks = volume.shard.locks();
    let start = left.start;
    let key = |stripe| volume.lock_key(StripeIndex(stripe));
    let mut guards: SmallVec<[Guard; 4]> = SmallVec::new();
    guards.push(locks.lock_columns(key(start), mode, ALL_COLUMNS).await);
    left.start += 1;
    while !left.is_empty()
        && let Some(guard) = locks.try_lock_columns(key(left.start), mode, ALL_COLUMNS)
    {
        guards.push(guard);
        left.start += 1;
    }
    Held { stripes: start..left.start, _guards: guards, _closed: closed }
}

/// How many stripes a task deals with together while nobody else wants the drives.
fn most_together(volume: &Recovery, strip: u64) -> u64 {
    let by_memory = volume.shard.scratch_total().0 / SHARE_OF_SCRATCH / volume.worst_scratch().0.max(1);
    (TOGETHER_PER_DRIVE / strip).min(by_memory).clamp(1, MOST_TOGETHER)
}

/// What dealing with one stripe, or with several together, came to.
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
    /// How many stripes a worker takes on at a time, while nobody else wants the drives.
    together: u64,
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
    let one = move |task, stripes: Range<u64>| step(task, StripeIndex(stripes.start));
    walk_at(task, region, true, 1, one).await
}

/// The same by a `step` that takes several stripes on which follow one another, and their locks ([`hold_next`]).
pub(crate) async fn walk_together<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let volume = &task.volume;
    let together = most_together(volume, bytes_on_drive(volume));
    walk_at(task, region, true, together, step).await
}

/// Stripe by stripe at full speed, and to the end of the region: somebody waits for it.
pub(crate) async fn walk_unpaced<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let one = move |task, stripes: Range<u64>| step(task, StripeIndex(stripes.start));
    walk_at(task, region, false, 1, one).await
}

/// What a stripe has on a drive.
fn bytes_on_drive(volume: &Recovery) -> u64 {
    volume.geometry().strip().bytes().0 * u64::from(volume.geometry().rows_per_stripe())
}

async fn walk_at<F, S>(task: &Rc<Running>, region: RegionIndex, paced: bool, together: u64, step: S) -> Walked
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let volume = &task.volume;
    let Range { start, end } = volume.stripes_of(region);
    let at_a_time = bytes_on_drive(volume) * together;
    let region = Rc::new(Region {
        next: Cell::new(start),
        end,
        workers: Cell::new(1),
        most_workers: (IN_FLIGHT_PER_DRIVE / at_a_time).clamp(4, 64) as usize,
        together,
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

    /// The next stripes to deal with: one, while somebody else wants the drives.
    fn take(&self, alone: bool) -> Range<u64> {
        let start = self.next.get();
        let end = if alone { start + 1 } else { (start + self.together).min(self.end) };
        self.next.set(end);
        start..end
    }
}

/// Deals with stripes until none is left. The `first` worker calls others in as long as nobody else wants the
/// drives; they leave when somebody does.
async fn work<F, S>(task: Rc<Running>, region: Rc<Region>, first: bool, step: S)
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let shard = task.volume.shard.clone();
    while !region.is_over() {
        let is_alone = || region.paced && shard.hosts().are_around(shard.env().now());
        if !first && is_alone() {
            break;
        }
        if region.paced && (!task.pace.turn(&shard).await || task.must_end()) {
            region.stopped.set(true);
            break;
        }
        if region.is_over() {
            break;
        }
        let alone = is_alone();
        let stripes = region.take(alone);
        if first && !alone && region.workers.get() < region.most_workers {
            region.workers.set(region.workers.get() + 1);
            let hand: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(work(task.clone(), region.clone(), false, step.clone()));
            shard.env().spawn("task worker", hand);
        }
        let began = shard.env().now();
        let count = stripes.end - stripes.start;
        match step(task.clone(), stripes).await {
            Ok(done) => note(&task, &region, began, count, &done),
            Err(error) => region.failed.set(Some(region.failed.get().unwrap_or(error))),
        }
        task.report_if_due().await;
    }
    region.workers.set(region.workers.get() - 1);
    region.changed.notify(shard.env());
}

fn note(task: &Running, region: &Region, began: Instant, stripes: u64, done: &Step) {
    let bytes = match done {
        Step::Done { drive_bytes } => *drive_bytes,
        Step::Skipped => 0,
    };
    if region.paced && bytes > 0 {
        task.pace.took(&task.volume.shard, began, bytes);
    }
    task.count(|progress| {
        progress.done_stripes += stripes;
        progress.drive_bytes += bytes;
    });
}
