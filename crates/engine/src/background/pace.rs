//! The speed of a task: full speed while the drives are otherwise idle, else a share of the time.
//!
//! While hosts have I/O in progress, one stripe is processed at a time. After a stripe that took
//! *t*, the task sleeps for *t* · (100 − share) / share: on average it uses the drives for its
//! share of the time. Without host I/O, enough stripes are in progress to keep all drives busy.
//!
//! Shards share drives: while a task runs here, every shard is asked ten times a second whether it
//! has host I/O ([`Resources::watch_hosts`]).

use crate::shard::Resources;
use crate::task::TaskPace;
use platform::sync::Signal;
use platform::{Env, Instant};
use std::cell::Cell;
use std::time::Duration;

/// The longest sleep before a task checks whether to stop or to speed up.
const DOZE: Duration = Duration::from_millis(100);

/// The pace of one task on one shard.
pub(crate) struct Pace {
    pace: Cell<TaskPace>,
    stopped: Cell<bool>,
    changed: Signal,
    /// With a limit of bytes per second: the earliest start of the next stripe.
    not_before: Cell<Instant>,
    /// The end of the sleep that keeps its share.
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

    /// Waits until the next stripe may begin. `false`: the task is to end.
    pub(crate) async fn turn(&self, shard: &Resources) -> bool {
        let env = shard.env();
        loop {
            if self.stopped.get() {
                return false;
            }
            if self.pace.get().paused {
                self.changed
                    .wait_until(env, || !self.pace.get().paused || self.stopped.get())
                    .await;
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

    /// A stripe that began at `began` is complete and moved `bytes` on drives.
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
