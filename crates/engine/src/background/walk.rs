//! A walk over the stripes of a region, in ascending order, several in progress at a time. Where
//! the task supports it, consecutive stripes are processed together ([`Held`]): contiguous data on
//! a drive needs one operation, and the cost of lock, plan and acknowledgement is shared. Beside
//! hosts a batch on disks is larger, since each batch costs a seek, and few are in progress.

use crate::attachment::Closed;
use crate::background::Running;
use crate::background::pace::Batch;
use crate::recovery::Recovery;
use platform::IoError;
use platform::locks::{ALL_COLUMNS, Guard, Mode};
use platform::sync::Signal;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use units::StripeIndex;
use volume_state::RegionIndex;

/// Bytes of each drive in progress at a time while the drives are otherwise idle.
const IN_FLIGHT_PER_DRIVE: u64 = 1 << 20;

/// Bytes of each drive processed together while the drives are otherwise idle.
const TOGETHER_IDLE: u64 = IN_FLIGHT_PER_DRIVE / 4;

/// The same beside hosts. A batch disturbs them least for its bytes if a drive transfers them for
/// about as long as it needs to find them.
const TOGETHER_FLASH: u64 = 256 << 10;
const TOGETHER_ROTATING: u64 = 1 << 20;

/// The most stripes processed together.
const MOST_TOGETHER: u64 = 16;

/// The most batches in progress beside hosts: several if hosts do not notice them, or if busy
/// drives do not finish one in time.
const MOST_BESIDE_FLASH: usize = 4;
const MOST_BESIDE_ROTATING: usize = 2;

/// The share of a shard's memory for plans that all batches in progress may use.
const SHARE_OF_SCRATCH: u64 = 2;

/// Drive bytes that processing a whole stripe moves: every strip is read or written.
pub(crate) fn stripe_bytes(volume: &Recovery) -> u64 {
    u64::from(volume.geometry().cells_per_stripe()) * volume.geometry().strip().bytes().0
}

/// Consecutive stripes, each locked by itself.
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

/// Takes the first of these stripes, and the following ones whose locks are free: a task never
/// waits for a stripe lock while it holds another one.
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

/// How many stripes a task processes together.
#[derive(Clone, Copy)]
struct Together {
    /// While the drives are otherwise idle.
    idle: u64,
    beside_hosts: u64,
}

impl Together {
    const ONE: Together = Together { idle: 1, beside_hosts: 1 };

    fn most(volume: &Recovery) -> Together {
        let stripes = |bytes: u64, batches: u64| {
            let scratch = volume.shard.scratch_total().0 / SHARE_OF_SCRATCH / batches;
            let by_memory = scratch / volume.worst_scratch().0.max(1);
            (bytes / bytes_on_drive(volume)).min(by_memory).clamp(1, MOST_TOGETHER)
        };
        let rotates = volume.members.rotate();
        let beside_hosts = if rotates { TOGETHER_ROTATING } else { TOGETHER_FLASH };
        Together {
            idle: stripes(TOGETHER_IDLE, IN_FLIGHT_PER_DRIVE / TOGETHER_IDLE),
            beside_hosts: stripes(beside_hosts, most_beside_hosts(volume) as u64),
        }
    }
}

/// The most batches in progress beside hosts.
fn most_beside_hosts(volume: &Recovery) -> usize {
    if volume.members.rotate() { MOST_BESIDE_ROTATING } else { MOST_BESIDE_FLASH }
}

/// The result of processing one stripe, or several together.
pub(crate) enum Step {
    /// The work is complete.
    Done {
        /// Bytes read and written on drives.
        drive_bytes: u64,
    },
    /// There was no work.
    Skipped,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walked {
    /// Every stripe was processed.
    Whole,
    /// The walk was stopped: the task is to end.
    Stopped,
    /// A stripe failed; later ones were not begun.
    Failed(IoError),
}

struct Region {
    next: Cell<u64>,
    end: u64,
    /// The number of workers, and their limit.
    workers: Cell<usize>,
    most_workers: usize,
    most_beside_hosts: usize,
    together: Together,
    /// Whether it follows the task's pace.
    paced: bool,
    stopped: Cell<bool>,
    failed: Cell<Option<IoError>>,
    changed: Signal,
}

/// Processes every stripe of a region by `step`, which locks the stripe.
pub(crate) async fn walk<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let one = move |task, stripes: Range<u64>| step(task, StripeIndex(stripes.start));
    walk_at(task, region, true, Together::ONE, one).await
}

/// The same with a `step` that takes several consecutive stripes and their locks ([`hold_next`]).
pub(crate) async fn walk_together<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    walk_at(task, region, true, Together::most(&task.volume), step).await
}

/// Stripe by stripe at full speed, to the end of the region: requests wait for it.
pub(crate) async fn walk_unpaced<F, S>(task: &Rc<Running>, region: RegionIndex, step: S) -> Walked
where
    S: Fn(Rc<Running>, StripeIndex) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let one = move |task, stripes: Range<u64>| step(task, StripeIndex(stripes.start));
    walk_at(task, region, false, Together::ONE, one).await
}

/// The bytes of a stripe on a drive.
fn bytes_on_drive(volume: &Recovery) -> u64 {
    volume.geometry().strip().bytes().0 * u64::from(volume.geometry().rows_per_stripe())
}

async fn walk_at<F, S>(
    task: &Rc<Running>,
    region: RegionIndex,
    paced: bool,
    together: Together,
    step: S,
) -> Walked
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let volume = &task.volume;
    let Range { start, end } = volume.stripes_of(region);
    let at_a_time = bytes_on_drive(volume) * together.idle;
    let region = Rc::new(Region {
        next: Cell::new(start),
        end,
        workers: Cell::new(1),
        most_workers: (IN_FLIGHT_PER_DRIVE / at_a_time).clamp(4, 64) as usize,
        most_beside_hosts: most_beside_hosts(volume),
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
    /// Whether the walk of the region is over: no stripes left, a failure, or a stop.
    fn is_over(&self) -> bool {
        self.next.get() >= self.end || self.failed.get().is_some() || self.stopped.get()
    }

    /// The next stripes to process.
    fn take(&self, beside_hosts: bool) -> Range<u64> {
        let Together { idle, beside_hosts: beside } = self.together;
        let start = self.next.get();
        let end = (start + if beside_hosts { beside } else { idle }).min(self.end);
        self.next.set(end);
        start..end
    }

    /// The most workers now.
    fn most_workers(&self, beside_hosts: bool) -> usize {
        if beside_hosts { self.most_beside_hosts } else { self.most_workers }
    }
}

/// Processes stripes until none is left. The `first` worker starts the others; extra ones leave
/// when hosts become active.
async fn work<F, S>(task: Rc<Running>, region: Rc<Region>, first: bool, step: S)
where
    S: Fn(Rc<Running>, Range<u64>) -> F + Clone + 'static,
    F: Future<Output = Result<Step, IoError>> + 'static,
{
    let shard = task.volume.shard.clone();
    let is_beside_hosts = || region.paced && shard.hosts().are_around(shard.env().now());
    while !region.is_over() {
        if !first && region.workers.get() > region.most_workers(is_beside_hosts()) {
            break;
        }
        let batch = match region.paced {
            true => task.pace.turn(&task.volume).await,
            false => None,
        };
        if region.paced && (batch.is_none() || task.must_end()) {
            region.stopped.set(true);
            break;
        }
        if region.is_over() {
            break;
        }
        let beside_hosts = is_beside_hosts();
        let stripes = region.take(beside_hosts);
        if first && region.workers.get() < region.most_workers(beside_hosts) {
            region.workers.set(region.workers.get() + 1);
            let hand: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(work(task.clone(), region.clone(), false, step.clone()));
            shard.env().spawn("task worker", hand);
        }
        let count = stripes.end - stripes.start;
        match step(task.clone(), stripes).await {
            Ok(done) => note(&task, batch, count, &done),
            Err(error) => region.failed.set(Some(region.failed.get().unwrap_or(error))),
        }
        task.report_if_due().await;
    }
    region.workers.set(region.workers.get() - 1);
    region.changed.notify(shard.env());
}

fn note(task: &Running, batch: Option<Batch>, stripes: u64, done: &Step) {
    let bytes = match done {
        Step::Done { drive_bytes } => *drive_bytes,
        Step::Skipped => 0,
    };
    if let Some(batch) = batch {
        batch.took(&task.volume, bytes);
    }
    task.count(|progress| {
        progress.done_stripes += stripes;
        progress.drive_bytes += bytes;
    });
}
