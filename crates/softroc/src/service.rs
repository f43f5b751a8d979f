//! Notifications to systemd (sd_notify(3)), if it started this process: ready, stopping, watchdog.
//!
//! Each shard has a task that ticks. The first shard pings the watchdog only if all shards have
//! ticked since the last ping.

use platform::Env;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The ticks of each shard; `None` without a watchdog.
#[derive(Clone, Default)]
pub struct Pulse(Option<Arc<Beats>>);

struct Beats {
    of_shards: Vec<AtomicU64>,
    every: Duration,
}

impl Pulse {
    /// Ticks for a number of shards, if systemd set a watchdog.
    pub fn watched(shards: u16) -> Pulse {
        // A quarter of the limit, so that one missed ping is tolerated.
        Pulse::every(shards, sd_notify::watchdog_enabled().map(|limit| limit / 4))
    }

    fn every(shards: u16, every: Option<Duration>) -> Pulse {
        let of_shards = || (0..shards).map(|_| AtomicU64::new(0)).collect();
        Pulse(every.map(|every| Arc::new(Beats { of_shards: of_shards(), every })))
    }

    /// Ticks on a shard for its lifetime.
    pub async fn beat(self, env: Env, shard: u16) {
        let Some(beats) = self.0 else { return };
        let Some(own) = beats.of_shards.get(usize::from(shard)) else { return };
        loop {
            own.fetch_add(1, Ordering::Relaxed);
            env.sleep(beats.every).await;
        }
    }

    /// Pings the watchdog as long as all shards tick.
    pub async fn report(self, env: Env) {
        let Some(beats) = self.0 else { return };
        let mut before = Vec::new();
        loop {
            let now: Vec<u64> =
                beats.of_shards.iter().map(|beat| beat.load(Ordering::Relaxed)).collect();
            match stands_still(&before, &now) {
                None => {
                    tell(&[NotifyState::Watchdog]);
                    before = now;
                }
                Some(shard) => tracing::warn!("shard {shard} does not respond"),
            }
            // Slightly longer than two ticks, so that each shard has ticked.
            env.sleep(beats.every + beats.every / 4).await;
        }
    }
}

/// The first shard without a tick.
fn stands_still(before: &[u64], now: &[u64]) -> Option<usize> {
    before.iter().zip(now).position(|(before, now)| before == now)
}

/// Reports that the service is ready, with a status.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the service stops: outstanding requests finish, and the cache is destaged.
pub fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping: outstanding requests finish first"),
    ]);
}

/// Without systemd, this does nothing.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_stands_still_is_found() {
        assert_eq!(stands_still(&[], &[1, 1]), None, "no earlier ticks are known");
        assert_eq!(stands_still(&[1, 1], &[2, 2]), None);
        assert_eq!(stands_still(&[2, 2], &[3, 2]), Some(1));
    }

    #[test]
    fn who_is_not_watched_does_not_tick() {
        assert!(Pulse::every(2, None).0.is_none());
        let beats = Pulse::every(2, Some(Duration::from_secs(15))).0.unwrap();
        assert_eq!(beats.of_shards.len(), 2);
    }
}
