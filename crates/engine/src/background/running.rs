//! A task on one shard: its work, its progress and its end.

use crate::background::pace::Pace;
use crate::messages::ReportKind;
use crate::recovery::Recovery;
use crate::task::{TaskId, TaskOutcome, TaskPace, TaskProgress};
use platform::sync::Signal;
use platform::{Env, Instant, IoError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume_state::{RegionIndex, RegionSet};

/// The interval of progress reports to the controller.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// A task on this shard.
pub(crate) struct Running {
    pub(crate) id: TaskId,
    pub(crate) volume: Rc<Recovery>,
    pub(crate) pace: Pace,
    /// The regions to which its order restricts it.
    only: Option<RegionSet>,
    progress: RefCell<TaskProgress>,
    reported: Cell<Instant>,
    /// The first error of a task that continues after errors.
    error: Cell<Option<IoError>>,
    has_ended: Cell<bool>,
    /// Outstanding reports to the controller.
    background: Cell<usize>,
    changed: Signal,
}

/// The most reports of a task that may be outstanding at a time.
const MOST_IN_BACKGROUND: usize = 64;

impl Running {
    /// `only`: the regions to which its order restricts it.
    pub(crate) fn new(
        volume: &Rc<Recovery>,
        task: TaskId,
        only: Option<RegionSet>,
        pace: TaskPace,
    ) -> Rc<Running> {
        Rc::new(Running {
            id: task,
            volume: volume.clone(),
            pace: Pace::new(pace),
            only,
            progress: RefCell::default(),
            reported: Cell::default(),
            error: Cell::new(None),
            has_ended: Cell::new(false),
            background: Cell::new(0),
            changed: Signal::default(),
        })
    }

    /// The outcome of a task whose work has ended like this.
    pub(super) fn outcome(&self, outcome: TaskOutcome) -> TaskOutcome {
        match (outcome, self.error.get()) {
            (TaskOutcome::Done, Some(error)) => TaskOutcome::Failed(error),
            (outcome, _) => outcome,
        }
    }

    /// The regions that this shard owns. Adds their stripes to the total.
    pub(crate) fn take_on(&self, regions: RegionSet) -> RegionSet {
        let volume = &self.volume;
        let mine = |region: &RegionIndex| {
            let wanted = self.only.as_ref().is_none_or(|only| only.contains(*region));
            wanted
                && crate::ShardIndex::owning(*region, volume.shard.count()) == volume.shard.index()
        };
        let regions: RegionSet = regions.iter().filter(mine).collect();
        let stripes: u64 =
            regions.iter().map(|region| volume.stripes_of(region).count() as u64).sum();
        self.progress.borrow_mut().total_stripes += stripes;
        regions
    }

    /// Whether it must stop before it is complete.
    pub(crate) fn must_end(&self) -> bool {
        self.pace.is_stopped() || self.volume.closing.get()
    }

    /// A region is finished.
    pub(crate) fn finished(&self, region: RegionIndex) {
        self.count(|progress| {
            progress.finished.insert(region);
        });
    }

    /// An error occurred, and the task continues with the rest.
    pub(crate) fn note_error(&self, error: IoError) {
        self.error.set(Some(self.error.get().unwrap_or(error)));
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut TaskProgress)) {
        change(&mut self.progress.borrow_mut());
    }

    /// Reports its progress, if the last report is old enough.
    pub(crate) async fn report_if_due(&self) {
        let now = self.volume.shard.env().now();
        if now.since(self.reported.get()) >= REPORT_EVERY {
            self.reported.set(now);
            self.report_progress().await;
        }
    }

    pub(crate) async fn report_progress(&self) {
        let progress = self.progress.borrow().clone();
        let finished = progress.finished.clone();
        let kind = ReportKind::TaskProgress { task: self.id, progress };
        match self.volume.shard.report(self.volume.spec.id, kind).await {
            Ok(()) => self.progress.borrow_mut().finished.remove_all(&finished),
            Err(error) => tracing::debug!(task = self.id.0, "progress was not recorded: {error}"),
        }
    }

    /// Runs work concurrently with the walk, once a slot for it is free.
    pub(crate) async fn in_background(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let env = self.volume.shard.env().clone();
        self.changed.wait_until(&env, || self.background.get() < MOST_IN_BACKGROUND).await;
        self.background.set(self.background.get() + 1);
        let task = self.clone();
        env.spawn("behind a task", async move {
            work.await;
            task.background.set(task.background.get() - 1);
            task.changed.notify(task.volume.shard.env());
        });
    }

    /// Waits for all background work.
    pub(crate) async fn background_done(&self) {
        self.changed.wait_until(self.volume.shard.env(), || self.background.get() == 0).await;
    }

    pub(crate) fn ended(&self, env: &Env) {
        self.has_ended.set(true);
        self.changed.notify(env);
    }

    pub(crate) async fn wait_ended(&self, env: &Env) {
        self.changed.wait_until(env, || self.has_ended.get()).await;
    }
}
