//! The controller's side of a storm test.

use crate::common::{NewDrive, Setup, VOLUME, open};
use crate::storms::SPARES;
use engine::{
    Change, RegionSet, Regions, Relocated, Report, ReportKind, ShardIndex, ShardMessage, TaskId,
    TaskKind, TaskOrder, TaskOutcome, TaskPace,
};
use layout::Level;
use platform::mailbox::{Receiver, Sender, mailbox};
use platform::{DriveSource, Env, IoErrorKind};
use platform_sim::Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// The controller's side: its state, and the reports.
pub struct Kept {
    pub env: Env,
    pub shards: Vec<Sender<ShardMessage>>,
    pub health: Cell<DriveSet>,
    pub relocated: RefCell<Option<Relocated>>,
    /// The drive of each slot, and the drive being rebuilt for it.
    pub places: RefCell<Vec<u16>>,
    pub replacement: Cell<Option<(u16, u16)>>,
    pub next_spare: Cell<u16>,
    pub next_task: Cell<u64>,
    pub running: Cell<Option<TaskId>>,
    pub outcomes: RefCell<Vec<(TaskId, TaskOutcome)>>,
    pub mismatches: Cell<u32>,
    pub failed: RefCell<Vec<String>>,
    pub stale: Cell<DriveSet>,
    pub regions: RegionSet,
    pub level: Level,
}

impl Kept {
    /// For a new volume with all its drives.
    pub fn new(
        env: &Env,
        shards: Vec<Sender<ShardMessage>>,
        setup: &Setup,
        in_service: DriveSet,
    ) -> Kept {
        Kept {
            env: env.clone(),
            shards,
            health: Cell::new(in_service),
            relocated: RefCell::default(),
            places: RefCell::new((0..setup.drives).collect()),
            replacement: Cell::default(),
            next_spare: Cell::new(setup.drives),
            next_task: Cell::new(1),
            running: Cell::default(),
            outcomes: RefCell::default(),
            mismatches: Cell::default(),
            failed: RefCell::default(),
            stale: Cell::default(),
            level: setup.level,
            regions: RegionSet::first(Regions::of(&setup.geometry()).count),
        }
    }

    pub async fn tell(&self, message: impl Fn(engine::Done) -> ShardMessage) {
        let (done, mut answers) = mailbox(&self.env, self.shards.len());
        self.shards.iter().for_each(|shard| assert!(shard.send(message(done.clone())).is_ok()));
        drop(done);
        while let Some(answer) = answers.receive().await {
            if let Err(why) = answer {
                self.failed.borrow_mut().push(why);
            }
        }
    }

    fn change_others(&self, from: ShardIndex, change: &Change) {
        for (_, shard) in
            self.shards.iter().enumerate().filter(|(index, _)| *index != usize::from(from.0))
        {
            assert!(shard.send(ShardMessage::Apply(VOLUME, change.clone(), None, None)).is_ok());
        }
    }

    /// A change that every shard confirms; `source` where it adds a drive.
    pub async fn apply(&self, change: Change, source: Option<Arc<dyn DriveSource>>) {
        self.tell(|done| ShardMessage::Apply(VOLUME, change.clone(), source.clone(), Some(done)))
            .await;
    }

    /// Replies to reports, with delays, until every shard has ended.
    pub async fn keep(self: Rc<Self>, mut reports: Receiver<Report>, mut rng: Rng) {
        while let Some(Report { from, number, kind, .. }) = reports.receive().await {
            if rng.chance(1, 3) {
                self.env.sleep(Duration::from_micros(rng.below(4000))).await;
            }
            let result = match kind {
                ReportKind::DriveFailed { .. }
                | ReportKind::Current { .. }
                | ReportKind::ReplacementFailed { .. } => self.keep_of_drive(kind).await,
                _ => {
                    self.keep_of_regions(from, kind).await;
                    Ok(())
                }
            };
            let done = ShardMessage::ReportDone { report: number, result };
            assert!(self.shards[usize::from(from.0)].send(done).is_ok());
        }
    }

    /// A report about a drive or its replacement.
    async fn keep_of_drive(&self, kind: ReportKind) -> Result<(), platform::IoError> {
        match kind {
            ReportKind::DriveFailed { drive, .. } => {
                let view = self.health.get().without(drive);
                self.health.set(view);
                self.stale.set(self.stale.get().with(drive));
                self.apply(Change::InService(view), None).await;
            }
            ReportKind::Current { drive, regions, .. } => {
                if !self.health.get().contains(drive) {
                    return Err(platform::IoError::new(IoErrorKind::Gone));
                }
                self.stale.set(self.stale.get().without(drive));
                let current = || Change::Current { slot: drive, regions: regions.clone() };
                for shard in &self.shards {
                    assert!(shard.send(ShardMessage::Apply(VOLUME, current(), None, None)).is_ok());
                }
            }
            ReportKind::ReplacementFailed { drive, .. } => {
                let is_replacement =
                    self.replacement.get().is_some_and(|(slot, _)| slot == drive.0);
                self.replacement.set(self.replacement.get().filter(|_| !is_replacement));
                if is_replacement {
                    self.apply(Change::ReplacementEnded { slot: drive }, None).await;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A report about regions, blocks and tasks.
    async fn keep_of_regions(&self, from: ShardIndex, kind: ReportKind) {
        match kind {
            ReportKind::Synced(regions) => self.change_others(from, &Change::Synced(regions)),
            ReportKind::Unsynced(regions) => self.change_others(from, &Change::Unsynced(regions)),
            ReportKind::MarkDirty(regions) => self.change_others(from, &Change::Marked(regions)),
            ReportKind::PuncturedBlocks { drive, ranges, punctured } => {
                let change = match punctured {
                    true => Change::Punctured { slot: drive, ranges },
                    false => Change::Rewritten { slot: drive, ranges },
                };
                self.apply(change, None).await;
            }
            ReportKind::Moved { drive, regions, to_spare } => {
                let before =
                    self.relocated.take().map(|relocated| relocated.regions).unwrap_or_default();
                let after = if to_spare { before.union(&regions) } else { before.minus(&regions) };
                let now = (!after.is_empty()).then_some(Relocated { slot: drive, regions: after });
                *self.relocated.borrow_mut() = now;
                self.apply(Change::Moved { slot: drive, regions, to_spare }, None).await;
            }
            ReportKind::Mismatch { .. } => self.mismatches.set(self.mismatches.get() + 1),
            ReportKind::TaskDone { task, outcome } => {
                self.outcomes.borrow_mut().push((task, outcome))
            }
            _ => {}
        }
    }

    pub async fn begin(&self, kind: TaskKind) {
        let task = TaskId(self.next_task.get());
        self.next_task.set(task.0 + 1);
        self.running.set(Some(task));
        let pace = TaskPace { share_percent: 50, paused: false, max_bytes_per_s: None };
        let order = TaskOrder { volume: VOLUME, task, kind, regions: None, pace };
        self.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
    }

    pub async fn stop(&self) {
        if let Some(task) = self.running.take() {
            self.tell(|done| ShardMessage::StopTask(task, done)).await;
        }
    }

    pub fn ended(&self) -> Option<bool> {
        let task = self.running.get()?;
        let outcomes = self.outcomes.borrow();
        let of_task: Vec<_> = outcomes.iter().filter(|(of, _)| *of == task).collect();
        (of_task.len() == self.shards.len())
            .then(|| of_task.iter().all(|(_, outcome)| *outcome == TaskOutcome::Done))
    }

    pub async fn wait_ended(&self) -> bool {
        while self.ended().is_none() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        self.ended() == Some(true)
    }

    pub fn spare(&self) -> Option<u16> {
        let spare = self.next_spare.get();
        self.next_spare.set(spare + 1);
        (spare < self.places.borrow().len() as u16 + SPARES).then_some(spare)
    }

    /// Another drive in a slot, stale everywhere, and rebuilt.
    pub async fn replace(&self, slot: u16) {
        let Some(spare) = self.spare() else { return };
        self.stop().await;
        let source = open(&self.env, spare).await;
        self.places.borrow_mut()[usize::from(slot)] = spare;
        let index = DriveIndex(slot);
        let mut view = self.health.get();
        view = view.with(index);
        self.health.set(view);
        self.stale.set(self.stale.get().with(index));
        let change = NewDrive {
            slot: index,
            source: Some(source),
            stale: self.regions.clone(),
            in_service: view,
        };
        self.tell(|done| change.message(done)).await;
        self.begin(TaskKind::Rebuild { slot: index }).await;
    }
}
