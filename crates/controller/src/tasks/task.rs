//! A task: subject, state and progress.

use super::rate::Rate;
use crate::interface::{Blamed, Found, TaskInfo, TaskKind, TaskState};
use layout::{Geometry, Level};
use ondisk::Uuid;
use platform::sync::Signal;
use platform::{Env, Instant};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The block size in displayed counts.
const BLOCK_BYTES: u64 = 512;

/// A patrol's position on a drive is stored after this many bytes.
const POSITION_BYTES: u64 = 1 << 30;

/// The subject of a task. Open tasks of one kind have different subjects.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// The array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Uuid>,
    /// The volume; `None` if it concerns all volumes of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Uuid>,
    /// The slot whose drive is rebuilt or copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u16>,
    /// The UUID of the drive being filled: another drive is another task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Uuid>,
}

impl About {
    /// A volume as the subject.
    pub(crate) fn of_volume(array: Uuid, volume: Uuid) -> About {
        About { array: Some(array), volume: Some(volume), slot: None, drive: None }
    }

    /// The drive of a slot as the subject.
    pub(crate) fn of_drive(array: Uuid, slot: usize, drive: Uuid) -> About {
        About {
            array: Some(array),
            volume: None,
            slot: u16::try_from(slot).ok(),
            drive: Some(drive),
        }
    }
}

/// The target layout of a reshape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Aim {
    level: Level,
    drives: u16,
    strip_bytes: u64,
    member_bytes: u64,
}

impl Aim {
    /// The target for this layout.
    pub(super) fn of(geometry: &Geometry) -> Aim {
        Aim {
            level: geometry.level(),
            drives: geometry.drives().0,
            strip_bytes: geometry.strip().bytes().0,
            member_bytes: geometry.member_size().0,
        }
    }
}

/// The names for display.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// The subject: a volume's name, a drive.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

/// The pace of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pace {
    pub share_percent: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// The state of a task that an operator asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wish {
    Run,
    Pause,
    Stop,
}

/// Progress, in bytes processed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Progress {
    pub(super) done_bytes: u64,
    pub(super) total_bytes: u64,
    pub found: Found,
}

/// The stored record of a task. Losing it costs only repeated work and history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub task: u64,
    pub kind: TaskKind,
    pub about: About,
    pub names: Names,
    pub cause: String,
    pub(super) pace: Pace,
    /// Whether an operator set the pace; otherwise it follows the array's policy.
    #[serde(default)]
    pub(super) own_pace: bool,
    /// For an initialisation: whether everything is zeroed.
    #[serde(default)]
    pub full: bool,
    /// For a reshape: the target layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) aim: Option<Aim>,
    pub(super) wish: Wish,
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default)]
    pub progress: Progress,
    /// Regions of its volume that are left, half-open; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<[u32; 2]>>,
    /// For a patrol read: its position on each drive, by name, in bytes. Drives without an entry
    /// were not begun.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) positions: BTreeMap<String, u64>,
    /// The number of mismatches attributed to each drive, by slot, where the level can locate them.
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
    /// Notified when its desired state, pace or state changes.
    pub(crate) changed: Signal,
    /// Whether a worker executes it.
    pub(super) in_hand: Cell<bool>,
    /// Whether a step of it runs on shards.
    pub(super) in_step: Cell<bool>,
    /// The desired state before an operator stopped it.
    before_stop: Cell<Wish>,
    /// When its own work failed; it is begun again after a delay.
    pub(super) gave_up: Cell<Option<Instant>>,
    /// The number of such failures.
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

    /// The subject of its events: the name of the volume or the drive.
    pub(super) fn event_subject(&self) -> String {
        let names = &self.record.borrow().names;
        names.volume.as_ref().or(names.drive.as_ref()).unwrap_or(&names.subject).clone()
    }

    /// Its title in sentences: `the rebuild of drive /dev/sdc of 'data'`.
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

    /// Changes the record, and notifies tasks that wait for it.
    pub(crate) fn change(&self, env: &Env, change: impl FnOnce(&mut Record)) {
        let before = self.state();
        change(&mut self.record.borrow_mut());
        if self.state() != before {
            self.rate.borrow_mut().forget();
        }
        self.changed.notify(env);
    }

    /// Records an operator's stop.
    pub(super) fn wish_stop(&self, env: &Env) {
        if self.wish() != Wish::Stop {
            self.before_stop.set(self.wish());
        }
        self.change(env, |record| record.wish = Wish::Stop);
    }

    /// Withdraws a stop that is not possible: restores the earlier desired state.
    pub(super) fn wish_no_stop(&self, env: &Env) {
        if self.wish() == Wish::Stop {
            self.change(env, |record| record.wish = self.before_stop.get());
        }
    }

    /// Sets the state, and its reason.
    pub(super) fn stand(&self, env: &Env, state: TaskState, reason: Option<String>) {
        let ended = state.is_over().then(|| env.unix_time());
        self.change(env, |record| {
            (record.state, record.reason, record.ended_unix_s) = (state, reason, ended);
        });
    }

    /// Sets the progress.
    pub(super) fn advance(&self, now: Instant, progress: Progress) {
        self.record.borrow_mut().progress = progress;
        self.rate.borrow_mut().sample(now, progress.done_bytes);
    }

    /// Sets a patrol's position on a drive. Returns whether it must be stored.
    pub(super) fn keep_position(&self, drive: &str, at: u64) -> bool {
        let mut record = self.record.borrow_mut();
        let before = record.positions.insert(drive.to_owned(), at).unwrap_or(0);
        before / POSITION_BYTES != at / POSITION_BYTES
    }

    /// Records a finding without progress.
    pub(crate) fn note(&self, find: impl FnOnce(&mut Found)) {
        find(&mut self.record.borrow_mut().progress.found);
    }

    pub(crate) fn info(&self, now: Instant) -> TaskInfo {
        let record = self.record.borrow();
        let Progress { done_bytes, total_bytes, found } = record.progress;
        let running = record.state == TaskState::Running;
        let rate = self.rate.borrow().bytes_per_s(now).filter(|_| running);
        let left = total_bytes.saturating_sub(done_bytes);
        // The remaining time is unknown if only the result has to be recorded.
        let known = rate.filter(|rate| *rate > 0.0 && left > 0);
        let eta_s = known.map(|rate| (left as f64 / rate).ceil() as u64);
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
            blamed: record
                .blamed
                .iter()
                .map(|(&slot, &stripes)| Blamed { slot, stripes })
                .collect(),
            share_percent: record.pace.share_percent,
            limit_bytes_per_s: record.pace.limit_bytes_per_s,
            started_unix_s: record.started_unix_s,
            ended_unix_s: record.ended_unix_s,
        }
    }
}

/// The percentage done, rounded down; 100 only when everything is done.
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
            about: About {
                array: Some(Uuid([1; 16])),
                volume: Some(Uuid([2; 16])),
                slot: None,
                drive: None,
            },
            names: Names { subject: "'data'".into(), volume: Some("data".into()), drive: None },
            cause: "an operator started it".into(),
            pace: Pace { share_percent: 30, limit_bytes_per_s: Some(1 << 20) },
            own_pace: true,
            full: false,
            aim: Some(Aim {
                level: Level::Raid6,
                drives: 5,
                strip_bytes: 1 << 16,
                member_bytes: 1 << 30,
            }),
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
