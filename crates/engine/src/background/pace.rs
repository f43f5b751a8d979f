//! The speed of a task: full speed while the drives are otherwise idle, else a share of their time.
//!
//! Without host I/O, enough batches are in progress to keep all drives busy. Beside host I/O the
//! start of a batch sets the earliest start of the next one:
//!
//! - The upper limit is the task's share of the time, divided among the shards: they work at the
//!   same time, on the same drives. A batch counts with the time that it takes on drives without
//!   hosts, as far as known: time in the hosts' queues is not the task's.
//! - Below it, feedback from the latency of hosts on all shards decides
//!   ([`HostActivity::level`](crate::shard::HostActivity::level)): which part of the limit is used.
//!   Only the rests change. Smaller batches would take more of the drives' time for the same bytes.
//! - The floor is [`FLOOR_PERCENT`] of the drives' speed, whatever the latency. The upper limit has
//!   precedence.
//!
//! Shards share drives: while a task runs here, every shard is asked ten times a second about its
//! host I/O ([`Resources::watch_hosts`](crate::shard::Resources::watch_hosts)). No batch begins in
//! the [quiet](crate::shard::cycle) part of a cycle.

use crate::recovery::Recovery;
use crate::shard::FULL_LEVEL;
use crate::shard::cycle::Cycle;
use crate::task::TaskPace;
use platform::sync::Signal;
use platform::{Env, Instant};
use std::cell::Cell;
use std::time::Duration;

/// The longest sleep before a task checks whether to stop or to speed up.
const DOZE: Duration = Duration::from_millis(100);

/// The most delay that a task makes up for.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The least speed beside hosts, of the drives' speed.
const FLOOR_PERCENT: u64 = 5;

/// The speed of the drives is measured over this time without hosts.
const MEASURED_FOR: Duration = Duration::from_millis(250);

/// Each measurement decreases the highest speeds by one part in this number.
const AGES_BY: u64 = 256;

/// The pace of one task on one shard.
pub(crate) struct Pace {
    pace: Cell<TaskPace>,
    stopped: Cell<bool>,
    changed: Signal,
    /// By the limit of bytes per second: the earliest start of the next batch. A batch counts from
    /// its start, as long as the latest complete one, and exactly once it is complete.
    not_before: Cell<Instant>,
    /// The number of changes of the limit. Batches that began before the latest one do not count.
    limits: Cell<u64>,
    /// The number of batches in progress.
    under_way: Cell<usize>,
    /// The start of the latest batch.
    began: Cell<Instant>,
    /// Its start without delays, from which its rest counts: a task makes up for some delays.
    due: Cell<Instant>,
    /// Beside hosts: the earliest start of the next batch.
    rests_until: Cell<Instant>,
    /// The bytes that the latest complete batch moved.
    bytes: Cell<u64>,
    speed: Cell<Speed>,
}

/// A batch in progress. Dropped without [`Batch::took`], it has moved nothing.
pub(crate) struct Batch<'a> {
    pace: &'a Pace,
    began: Instant,
    /// The limit at its start, by number, and the time that it counts for by it.
    limit: u64,
    counted: Duration,
}

/// What the drives can do, in bytes per second.
#[derive(Clone, Copy, Default)]
struct Speed {
    /// The highest of one batch: hosts' queues do not count.
    of_batch: u64,
    /// The highest of many batches while hosts were idle; zero if they never were.
    idle: u64,
    /// The current measurement of that: its start, the end of its last batch, its bytes.
    measured: Option<(Instant, Instant, u64)>,
}

impl Pace {
    pub(crate) fn new(pace: TaskPace) -> Pace {
        Pace {
            pace: Cell::new(pace),
            stopped: Cell::new(false),
            changed: Signal::default(),
            not_before: Cell::default(),
            limits: Cell::new(0),
            under_way: Cell::new(0),
            began: Cell::default(),
            due: Cell::default(),
            rests_until: Cell::default(),
            bytes: Cell::new(0),
            speed: Cell::default(),
        }
    }

    pub(crate) fn set(&self, env: &Env, pace: TaskPace) {
        let before = self.pace.replace(pace);
        if before.max_bytes_per_s != pace.max_bytes_per_s {
            self.limits.set(self.limits.get() + 1);
            self.not_before.set(env.now());
        }
        self.changed.notify(env);
    }

    pub(crate) fn stop(&self, env: &Env) {
        self.stopped.set(true);
        self.changed.notify(env);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Waits until the next batch may begin: until the last one is complete, unless hosts do not
    /// notice it, or the floor requires another one. `None`: the task is to end.
    pub(crate) async fn turn(&self, volume: &Recovery) -> Option<Batch<'_>> {
        let (shard, env) = (&volume.shard, volume.shard.env());
        loop {
            if self.stopped.get() {
                return None;
            }
            if self.pace.get().paused {
                self.changed
                    .wait_until(env, || !self.pace.get().paused || self.stopped.get())
                    .await;
                continue;
            }
            let now = env.now();
            let mut until = self.earliest_by_limit(now);
            if shard.hosts().are_around(now) {
                until = until.max(self.rests_until.get()).max(cycle(volume).next_work(now));
            }
            if now >= until {
                return Some(self.begin(volume, now));
            }
            env.sleep_until(until.min(now + DOZE)).await;
        }
    }

    /// The earliest start of the next batch by the limit. The first batch is alone: its length is
    /// not known before its end.
    fn earliest_by_limit(&self, now: Instant) -> Instant {
        let is_first = || self.under_way.get() > 0 && self.bytes.get() == 0;
        match self.pace.get().max_bytes_per_s {
            Some(_) if is_first() => now + DOZE,
            _ => self.not_before.get(),
        }
    }

    fn begin(&self, volume: &Recovery, now: Instant) -> Batch<'_> {
        let counted = self.time_by_limit(self.bytes.get());
        self.not_before.set(self.not_before.get().max(now) + counted);
        let earliest = Instant { ns: now.ns.saturating_sub(CATCH_UP.as_nanos() as u64) };
        self.under_way.set(self.under_way.get() + 1);
        self.began.set(now);
        self.due.set(self.rests_until.get().max(earliest).min(now));
        // Several batches are in progress only if hosts do not notice one, or for the floor.
        let is_full = volume.shard.hosts().level() == FULL_LEVEL;
        let level = if is_full { FULL_LEVEL } else { 0 };
        self.rest(volume, self.bytes.get(), level);
        Batch { pace: self, began: now, limit: self.limits.get(), counted }
    }

    /// The shortest time in which the limit allows these bytes.
    fn time_by_limit(&self, bytes: u64) -> Duration {
        self.pace.get().max_bytes_per_s.map_or(Duration::ZERO, |limit| time_of(bytes, limit))
    }

    fn took(&self, volume: &Recovery, began: Instant, bytes: u64) {
        let shard = &volume.shard;
        let (now, pace) = (shard.env().now(), self.pace.get());
        if bytes > 0 {
            let is_full_speed = pace.max_bytes_per_s.is_none() && !shard.hosts().are_around(now);
            self.speed.set(self.speed.get().after((began, now), bytes, is_full_speed));
            self.bytes.set(bytes);
        }
        if began == self.began.get() {
            self.rest(volume, bytes, shard.hosts().level());
        }
    }

    /// Sets the rest after the latest batch, which moves `bytes`. `level`: see [`period`].
    fn rest(&self, volume: &Recovery, bytes: u64, level: u32) {
        let (pace, speed) = (self.pace.get(), self.speed.get());
        let floor = speed.of_drives(volume.members.rotate()) * FLOOR_PERCENT / 100;
        let period = match speed.of_batch {
            0 => DOZE,
            _ => {
                period(bytes, (speed.of_batch, floor), share_of(pace, volume.shard.count()), level)
            }
        };
        self.rests_until.set(cycle(volume).after(self.due.get(), period));
    }
}

impl Batch<'_> {
    /// It is complete and moved `bytes` on drives.
    pub(crate) fn took(self, volume: &Recovery, bytes: u64) {
        let pace = self.pace;
        if self.limit == pace.limits.get() {
            pace.not_before.set(pace.not_before.get() + pace.time_by_limit(bytes));
        }
        pace.took(volume, self.began, bytes);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let pace = self.pace;
        pace.under_way.set(pace.under_way.get() - 1);
        if self.limit != pace.limits.get() {
            return;
        }
        let counted = u64::try_from(self.counted.as_nanos()).unwrap_or(u64::MAX);
        let not_before = pace.not_before.get().ns.saturating_sub(counted);
        pace.not_before.set(Instant { ns: not_before });
    }
}

impl Speed {
    /// After a batch. `is_full_speed`: nothing but the drives limited it.
    fn after(self, (began, now): (Instant, Instant), bytes: u64, is_full_speed: bool) -> Speed {
        let aged = self.of_batch - self.of_batch / AGES_BY;
        let of_batch = per_second(bytes, now.since(began)).max(aged);
        if !is_full_speed {
            return Speed { of_batch, measured: None, ..self };
        }
        let (since, sum) = match self.measured {
            Some((since, last, sum)) if began.since(last) < MEASURED_FOR => (since, sum + bytes),
            _ => (began, bytes),
        };
        let time = now.since(since);
        if time < MEASURED_FOR {
            return Speed { of_batch, measured: Some((since, now, sum)), ..self };
        }
        let idle = per_second(sum, time).max(self.idle - self.idle / AGES_BY);
        Speed { of_batch, idle, measured: Some((now, now, 0)) }
    }

    /// That of the drives, as far as known. Of a batch beside hosts, drives that `rotate` spend
    /// about half of the time on finding it.
    fn of_drives(&self, rotate: bool) -> u64 {
        match self.idle {
            0 if rotate => self.of_batch * 2,
            0 => self.of_batch,
            idle => idle,
        }
    }
}

fn cycle(volume: &Recovery) -> Cycle {
    Cycle::of(volume.members.rotate())
}

/// The share of one of `shards` in the time of the drives, in millionths.
fn share_of(pace: TaskPace, shards: u16) -> u64 {
    u64::from(pace.share_percent.clamp(1, 100)) * 10_000 / u64::from(shards.max(1))
}

/// The time from the start of a batch to that of the next one, beside hosts. `of_batch`, `floor`:
/// bytes per second. `most`: the upper limit, in millionths of the time. `level`: how much of it
/// hosts' latency permits, in thousandths.
fn period(bytes: u64, (of_batch, floor): (u64, u64), most: u64, level: u32) -> Duration {
    let busy = time_of(bytes, of_batch);
    let of_share = |millionths: u64| scaled(busy, 1_000_000, millionths);
    let floor = time_of(bytes, floor);
    of_share(most * u64::from(level) / u64::from(FULL_LEVEL)).min(floor).max(of_share(most))
}

fn scaled(time: Duration, by: u64, of: u64) -> Duration {
    let ns = time.as_nanos() * u128::from(by) / u128::from(of.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn time_of(bytes: u64, per_second: u64) -> Duration {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let speed = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(speed).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn period_ms(share_percent: u8, shards: u16, level: u32, idle: u64) -> u128 {
        let speed = Speed { of_batch: 100 << 20, idle, measured: None };
        let floor = speed.of_drives(false) * FLOOR_PERCENT / 100;
        let pace = TaskPace { share_percent, paused: false, max_bytes_per_s: None };
        period(1 << 20, (speed.of_batch, floor), share_of(pace, shards), level).as_millis()
    }

    /// A batch takes 10 ms by itself.
    #[test]
    fn a_batch_begins_by_share_feedback_and_floor() {
        assert_eq!(period_ms(100, 1, FULL_LEVEL, 0), 10);
        assert_eq!(period_ms(20, 1, FULL_LEVEL, 0), 50);
        assert_eq!(period_ms(20, 2, FULL_LEVEL, 0), 100, "shards divide the share");
        assert_eq!(period_ms(20, 1, FULL_LEVEL / 2, 0), 100, "half of the share");
        assert_eq!(period_ms(20, 1, 0, 0), 200, "a twentieth of the batch's speed");
        assert_eq!(period_ms(20, 1, 0, 200 << 20), 100, "a twentieth of the idle drives' speed");
        assert_eq!(period_ms(2, 1, 0, 200 << 20), 500, "the share has precedence");
    }

    #[test]
    fn the_drives_speed_is_measured_without_hosts() {
        let at = |ms: u32| Instant { ns: 0 } + MS * ms;
        let mut speed = Speed::default().after((at(0), at(10)), 1000, false);
        assert_eq!((speed.of_drives(false), speed.of_drives(true)), (100_000, 200_000));
        speed = speed.after((at(10), at(30)), 1000, false);
        assert_eq!((speed.of_batch, speed.idle), (100_000 - 390, 0));
        // Four batches at a time, of 40 ms each.
        for nth in 0..30 {
            speed = speed.after((at(100 + nth * 10), at(140 + nth * 10)), 1000, true);
        }
        assert!((85_000..=100_000).contains(&speed.idle), "{}", speed.idle);
        let aged = speed.after((at(999), at(1999)), 1, true).idle;
        assert_eq!(aged, speed.idle - speed.idle / AGES_BY);
    }
}
