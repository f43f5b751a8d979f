//! A task as the controller keeps it: what it is about, how it stands, how far it is.

use super::rate::Rate;
use crate::interface::{Blamed, Found, TaskInfo, TaskKind, TaskState};
use layout::{Geometry, Level};
use ondisk::Uuid;
use platform::sync::Signal;
use platform::{Env, Instant};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Blocks, as people count them.
const BLOCK_BYTES: u64 = 512;

/// Where a patrol is on a drive is stored every so many bytes.
const POSITION_BYTES: u64 = 1 << 30;

/// What a task is about. No two tasks that have not ended are of one kind and about the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// The array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Uuid>,
    /// The volume; none where it is about all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Uuid>,
    /// The slot whose drive is made current or copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u16>,
    /// The UUID of the drive that is filled: another drive is another task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Uuid>,
}

impl About {
    /// A volume.
    pub(crate) fn of_volume(array: Uuid, volume: Uuid) -> About {
        About { array: Some(array), volume: Some(volume), slot: None, drive: None }
    }

    /// The drive of a slot.
    pub(crate) fn of_drive(array: Uuid, slot: usize, drive: Uuid) -> About {
        About { array: Some(array), volume: None, slot: u16::try_from(slot).ok(), drive: Some(drive) }
    }
}

/// How a volume is to lie in the end of a move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Aim {
    level: Level,
    drives: u16,
    strip_bytes: u64,
    member_bytes: u64,
}

impl Aim {
    /// A layout.
    pub(super) fn of(geometry: &Geometry) -> Aim {
        Aim {
            level: geometry.level(),
            drives: geometry.drives().0,
            strip_bytes: geometry.strip().bytes().0,
            member_bytes: geometry.member_size().0,
        }
    }
}

/// The names that people know it by.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// On what: a volume's name, a drive.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

/// How fast it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pace {
    pub share_percent: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// What an operator wishes of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wish {
    Run,
    Pause,
    Stop,
}

/// How far it is, in bytes of what it goes through.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Progress {
    pub(super) done_bytes: u64,
    pub(super) total_bytes: u64,
    pub found: Found,
}

/// What is kept of a task over restarts. Losing it costs work that is done again, and history; nothing else.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub task: u64,
    pub kind: TaskKind,
    pub about: About,
    pub names: Names,
    pub cause: String,
    pub(super) pace: Pace,
    /// Whether an operator chose the pace; otherwise it follows the array's policy.
    #[serde(default)]
    pub(super) own_pace: bool,
    /// Of an initialisation: whether everything is zeroed.
    #[serde(default)]
    pub full: bool,
    /// Of a move: what the volume lies by when it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) aim: Option<Aim>,
    pub(super) wish: Wish,
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default)]
    pub progress: Progress,
    /// Regions of its volume that are still to be done, half-open; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<[u32; 2]>>,
    /// Of a patrol: where it is on each drive, by name, in bytes. A drive that is not named was not begun.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) positions: BTreeMap<String, u64>,
    /// How many stripes each drive was found to be wrong in, by slot, where the level can tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blamed: BTreeMap<u16, u64>,
    pub started_unix_s: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_s: Option<u64>,
}

/// A task.
pub(crate) struct Task {
    record: RefCell<Record>,
    rate: RefCell<Rate>,
    /// Notified when its wish or its pace changes, and when its state does.
    pub(crate) changed: Signal,
    /// Whether somebody carries it out now.
    pub(super) in_hand: Cell<bool>,
    /// Whether shards are at it now.
    pub(super) in_step: Cell<bool>,
    /// What was wished before an operator stopped it.
    before_stop: Cell<Wish>,
    /// When it failed at its own work: it is begun again by itself, after a while.
    pub(super) gave_up: Cell<Option<Instant>>,
    /// How often it did.
    pub(crate) failures: Cell<u32>,
}

impl Task {
    pub(crate) fn new(record: Record) -> Task {
        Task {
            record: RefCell::new(record),
            rate: RefCell::default(),
            changed: Signal::default(),
            in_hand: Cell::new(false),
            in_step: Cell::new(false),
            before_stop: Cell::new(Wish::Run),
            gave_up: Cell::new(None),
            failures: Cell::new(0),
        }
    }

    pub(crate) fn record(&self) -> Record {
        self.record.borrow().clone()
    }

    pub(crate) fn id(&self) -> u64 {
        self.record.borrow().task
    }

    pub(crate) fn kind(&self) -> TaskKind {
        self.record.borrow().kind
    }

    pub(crate) fn about(&self) -> About {
        self.record.borrow().about.clone()
    }

    /// The name that its events go under: the volume's, or the drive's.
    pub(super) fn event_subject(&self) -> String {
        let names = &self.record.borrow().names;
        names.volume.as_ref().or(names.drive.as_ref()).unwrap_or(&names.subject).clone()
    }

    /// What it is called in sentences: `the rebuild of drive /dev/sdc of 'data'`.
    pub(crate) fn title(&self) -> String {
        let record = self.record.borrow();
        format!("the {} of {}", record.kind, record.names.subject)
    }

    pub(crate) fn state(&self) -> TaskState {
        self.record.borrow().state
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().is_over()
    }

    pub(super) fn wish(&self) -> Wish {
        self.record.borrow().wish
    }

    pub(super) fn pace(&self) -> Pace {
        self.record.borrow().pace
    }

    pub(crate) fn progress(&self) -> Progress {
        self.record.borrow().progress
    }

    /// Changes what is kept of it; whoever waits for it looks again.
    pub(crate) fn change(&self, env: &Env, change: impl FnOnce(&mut Record)) {
        let before = self.state();
        change(&mut self.record.borrow_mut());
        if self.state() != before {
            self.rate.borrow_mut().forget();
        }
        self.changed.notify(env);
    }

    /// An operator stops it.
    pub(super) fn wish_stop(&self, env: &Env) {
        if self.wish() != Wish::Stop {
            self.before_stop.set(self.wish());
        }
        self.change(env, |record| record.wish = Wish::Stop);
    }

    /// It cannot be stopped: what was wished before that is so again.
    pub(super) fn wish_no_stop(&self, env: &Env) {
        if self.wish() == Wish::Stop {
            self.change(env, |record| record.wish = self.before_stop.get());
        }
    }

    /// How it stands, and why.
    pub(super) fn stand(&self, env: &Env, state: TaskState, reason: Option<String>) {
        let ended = state.is_over().then(|| env.unix_time());
        self.change(env, |record| {
            (record.state, record.reason, record.ended_unix_s) = (state, reason, ended);
        });
    }

    /// How far it is.
    pub(super) fn advance(&self, now: Instant, progress: Progress) {
        self.record.borrow_mut().progress = progress;
        self.rate.borrow_mut().sample(now, progress.done_bytes);
    }

    /// Where a patrol is on a drive. Whether that is worth storing: every so many bytes.
    pub(super) fn keep_position(&self, drive: &str, at: u64) -> bool {
        let mut record = self.record.borrow_mut();
        let before = record.positions.insert(drive.to_owned(), at).unwrap_or(0);
        before / POSITION_BYTES != at / POSITION_BYTES
    }

    /// What is found without getting further.
    pub(crate) fn note(&self, find: impl FnOnce(&mut Found)) {
        find(&mut self.record.borrow_mut().progress.found);
    }

    pub(crate) fn info(&self, now: Instant) -> TaskInfo {
        let record = self.record.borrow();
        let Progress { done_bytes, total_bytes, found } = record.progress;
        let running = record.state == TaskState::Running;
        let rate = self.rate.borrow().bytes_per_s(now).filter(|_| running);
        let left = total_bytes.saturating_sub(done_bytes);
        let eta_s =
            // Where nothing is left to be done but to record it, nobody knows how long that takes.
            rate.filter(|rate| *rate > 0.0 && left > 0).map(|rate| (left as f64 / rate).ceil() as u64);
        TaskInfo {
            task: record.task,
            kind: record.kind,
            subject: record.names.subject.clone(),
            volume: record.names.volume.clone(),
            drive: record.names.drive.clone(),
            state: record.state,
            reason: record.reason.clone(),
            cause: record.cause.clone(),
            done_blocks: done_bytes / BLOCK_BYTES,
            total_blocks: total_bytes / BLOCK_BYTES,
            percent: percent(record.state, done_bytes, total_bytes),
            rate_mib_s: rate.map(|rate| rate / f64::from(1 << 20)),
            eta_s,
            found,
            blamed: record.blamed.iter().map(|(&slot, &stripes)| Blamed { slot, stripes }).collect(),
            share_percent: record.pace.share_percent,
            limit_bytes_per_s: record.pace.limit_bytes_per_s,
            started_unix_s: record.started_unix_s,
            ended_unix_s: record.ended_unix_s,
        }
    }
}

/// The share that is done, rounded down; 100 only when all is.
fn percent(state: TaskState, done: u64, total: u64) -> u8 {
    if state == TaskState::Done {
        return 100;
    }
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    u8::try_from(percent).unwrap_or(99).min(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_percent_is_all_of_it() {
        assert_eq!(percent(TaskState::Running, 0, 0), 0);
        assert_eq!(percent(TaskState::Running, 999, 1000), 99);
        assert_eq!(percent(TaskState::Running, 1000, 1000), 99, "it has still to be made durable");
        assert_eq!(percent(TaskState::Running, u64::MAX, u64::MAX / 2), 99);
        assert_eq!(percent(TaskState::Done, 0, 0), 100);
    }

    #[test]
    fn a_record_comes_back_as_it_was_kept() {
        let record = Record {
            task: 7,
            kind: TaskKind::Repair,
            about: About { array: Some(Uuid([1; 16])), volume: Some(Uuid([2; 16])), slot: None, drive: None },
            names: Names { subject: "'data'".into(), volume: Some("data".into()), drive: None },
            cause: "an operator started it".into(),
            pace: Pace { share_percent: 30, limit_bytes_per_s: Some(1 << 20) },
            own_pace: true,
            full: false,
            aim: Some(Aim { level: Level::Raid6, drives: 5, strip_bytes: 1 << 16, member_bytes: 1 << 30 }),
            wish: Wish::Pause,
            state: TaskState::Paused,
            reason: None,
            progress: Progress {
                done_bytes: 5,
                total_bytes: 10,
                found: Found { mismatches: 1, ..Found::default() },
            },
            left: Some(vec![[3, 9]]),
            positions: BTreeMap::from([("/dev/sda".to_owned(), 4096)]),
            blamed: BTreeMap::from([(2, 1)]),
            started_unix_s: 1_700_000_000,
            ended_unix_s: None,
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
