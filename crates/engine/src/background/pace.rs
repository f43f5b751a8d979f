//! How fast a task may be: as fast as the drives while nobody else wants them, a share of the time otherwise.
//!
//! While hosts have I/O under way, one stripe is dealt with at a time, and after each that took *t* the task rests
//! for *t* · (100 − share) / share: over any while, it had the drives for its share of the time. With nobody
//! around, as many stripes are under way as it takes to keep all drives busy.
//!
//! Drives are shared by shards: whether hosts are around is asked of every shard, ten times a second, as long as
//! a task runs here ([`Shard::watch_hosts`]).

use crate::messages::{ShardIndex, ShardMessage};
use crate::shard::Shard;
use crate::task::TaskPace;
use env::sync::Signal;
use env::{Env, Instant};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Hosts count as around for this long after their last request.
const LINGER: Duration = Duration::from_millis(250);

/// How often shards are asked whether hosts are around.
const ASK_EVERY: Duration = Duration::from_millis(100);

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
    pub(crate) async fn turn(&self, shard: &Shard) -> bool {
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
    pub(crate) fn took(&self, shard: &Shard, began: Instant, bytes: u64) {
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

/// Whether hosts are around, as one shard knows.
#[derive(Default)]
pub(crate) struct HostActivity {
    /// When hosts were last known to be around, here or on any other shard.
    seen: Cell<Option<Instant>>,
    /// How many host requests there were when last looked, by who asked; this shard itself among them.
    counted: RefCell<Vec<u64>>,
    watching: Cell<bool>,
    /// Tasks that want to know.
    watchers: Cell<usize>,
}

/// A task that wants to know whether hosts are around; as long as it lives, they are looked for.
pub(crate) struct Watcher {
    shard: Shard,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let watchers = &self.shard.hosts().watchers;
        watchers.set(watchers.get() - 1);
    }
}

impl HostActivity {
    pub(crate) fn are_around(&self, now: Instant) -> bool {
        self.seen.get().is_some_and(|seen| now.since(seen) < LINGER)
    }

    /// Whether there were requests since `asker` was last told.
    fn news_for(&self, asker: ShardIndex, count: u64) -> bool {
        let mut counted = self.counted.borrow_mut();
        let index = usize::from(asker.0);
        if counted.len() <= index {
            counted.resize(index + 1, 0); // Who asks for the first time hears of all there ever were.
        }
        std::mem::replace(&mut counted[index], count) != count
    }
}

impl Shard {
    fn host_requests(&self) -> u64 {
        self.volumes().iter().map(|volume| volume.counters()).map(|c| c.reads + c.writes + c.flushes).sum()
    }

    /// Asks every shard whether hosts are around, for as long as the watcher lives.
    pub(crate) fn watch_hosts(&self) -> Watcher {
        let hosts = self.hosts();
        hosts.watchers.set(hosts.watchers.get() + 1);
        if !hosts.watching.replace(true) {
            let shard = self.clone();
            self.env().spawn("watching for hosts", async move {
                while shard.hosts().watchers.get() > 0 && !shard.is_stopping() {
                    shard.look_for_hosts(shard.index());
                    for peer in (0..shard.count()).map(ShardIndex).filter(|peer| *peer != shard.index()) {
                        shard.tell_peer(peer, ShardMessage::AskHosts { from: shard.index() });
                    }
                    shard.env().sleep(ASK_EVERY).await;
                }
                shard.hosts().watching.set(false);
            });
        }
        Watcher { shard: self.clone() }
    }

    /// Another shard asks whether hosts are around here: it is told if they are.
    pub(crate) fn look_for_hosts(&self, asker: ShardIndex) {
        if !self.hosts().news_for(asker, self.host_requests()) {
            return;
        }
        if asker == self.index() {
            self.hosts_seen();
        } else {
            self.tell_peer(asker, ShardMessage::HostsAround);
        }
    }

    pub(crate) fn hosts_seen(&self) {
        self.hosts().seen.set(Some(self.env().now()));
    }
}
