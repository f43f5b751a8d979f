//! How fast a task may be: as fast as the drives while nobody else wants them, a share of the time otherwise.
//!
//! While hosts have I/O under way, one stripe is dealt with at a time, and after each that took *t* the task rests
//! for *t* · (100 − share) / share: over any while, it had the drives for its share of the time. With nobody
//! around, as many stripes are under way as it takes to keep all drives busy.
//!
//! Drives are shared by shards: whether hosts are around is asked of every shard, ten times a second, as long as
//! a task runs here ([`Resources::watch_hosts`]).

use crate::shard::Resources;
use crate::task::TaskPace;
use platform::sync::Signal;
use platform::{Env, Instant};
use std::cell::Cell;
use std::time::Duration;

/// The longest a task sleeps before it looks again whether it is to stop or to go faster.
const DOZE: Duration = Duration::from_millis(100);

/// The pace of one task on one shard.
pub(crate) struct Pace {
    pace: Cell<TaskPace>,
    stopped: Cell<bool>,
    changed: Signal,
    /// Where there is a limit of bytes per second: before this moment nothing more.
    not_before: Cell<Instant>,
    /// Until when it rests to keep its share.
    rests_until: Cell<Instant>,
}

impl Pace {
    pub(crate) fn new(pace: TaskPace) -> Pace {
        Pace {
            pace: Cell::new(pace),
            stopped: Cell::new(false),
            changed: Signal::default(),
            not_before: Cell::default(),
            rests_until: Cell::default(),
        }
    }

    pub(crate) fn set(&self, env: &Env, pace: TaskPace) {
        self.pace.set(pace);
        self.changed.notify(env);
    }

    pub(crate) fn stop(&self, env: &Env) {
        self.stopped.set(true);
        self.changed.notify(env);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Waits until the next stripe may be begun. `false`: the task is to end.
    pub(crate) async fn turn(&self, shard: &Resources) -> bool {
        let env = shard.env();
        loop {
            if self.stopped.get() {
                return false;
            }
            if self.pace.get().paused {
                self.changed.wait_until(env, || !self.pace.get().paused || self.stopped.get()).await;
                continue;
            }
            let now = env.now();
            let mut until = self.not_before.get();
            if shard.hosts().are_around(now) {
                until = until.max(self.rests_until.get());
            }
            if now >= until {
                return true;
            }
            env.sleep_until(until.min(now + DOZE)).await;
        }
    }

    /// A stripe that was begun at `began` is done and moved so many bytes on drives.
    pub(crate) fn took(&self, shard: &Resources, began: Instant, bytes: u64) {
        let (now, pace) = (shard.env().now(), self.pace.get());
        if let Some(limit) = pace.max_bytes_per_s {
            let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(limit.max(1));
            let cost = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.not_before.set(self.not_before.get().max(began) + cost);
        }
        let share = u32::from(pace.share_percent.clamp(1, 100));
        self.rests_until.set(now + now.since(began) * (100 - share) / share);
    }
}
