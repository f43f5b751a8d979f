//! Detection of host I/O, to which tasks yield on all shards.

use crate::messages::{ShardIndex, ShardMessage};
use crate::shard::Resources;
use platform::Instant;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Hosts count as active for this long after their last request.
const LINGER: Duration = Duration::from_millis(250);

/// The interval at which shards are asked for host activity.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Host activity, as known to one shard.
#[derive(Default)]
pub(crate) struct HostActivity {
    /// The last known host activity, here or on any other shard.
    seen: Cell<Option<Instant>>,
    /// The number of host requests at the last query of each shard, including this one.
    counted: RefCell<Vec<u64>>,
    /// The number of host requests so far.
    requests: Cell<u64>,
    watching: Cell<bool>,
    /// The number of tasks that watch for hosts.
    watchers: Cell<usize>,
}

/// A task's watch for host activity; shards are asked while it exists.
pub(crate) struct Watcher {
    shard: Resources,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let watchers = &self.shard.hosts().watchers;
        watchers.set(watchers.get() - 1);
    }
}

impl HostActivity {
    /// A host request has begun.
    pub(crate) fn note_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// The number of host requests on this shard.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(crate) fn are_around(&self, now: Instant) -> bool {
        self.seen.get().is_some_and(|seen| now.since(seen) < LINGER)
    }

    /// Whether there were requests since the last reply to `asker`.
    fn news_for(&self, asker: ShardIndex) -> bool {
        let count = self.requests.get();
        let mut counted = self.counted.borrow_mut();
        let index = usize::from(asker.0);
        if counted.len() <= index {
            counted.resize(index + 1, 0); // The first query covers all earlier requests.
        }
        std::mem::replace(&mut counted[index], count) != count
    }
}

impl Resources {
    /// Asks every shard for host activity while the watcher exists.
    pub(crate) fn watch_hosts(&self) -> Watcher {
        let hosts = self.hosts();
        hosts.watchers.set(hosts.watchers.get() + 1);
        if !hosts.watching.replace(true) {
            let shard = self.clone();
            self.env().spawn("watching for hosts", async move {
                while shard.hosts().watchers.get() > 0 && !shard.is_stopping() {
                    shard.look_for_hosts(shard.index());
                    for peer in
                        (0..shard.count()).map(ShardIndex).filter(|peer| *peer != shard.index())
                    {
                        shard.tell_peer(peer, ShardMessage::AskHosts { from: shard.index() });
                    }
                    shard.env().sleep(ASK_EVERY).await;
                }
                shard.hosts().watching.set(false);
            });
        }
        Watcher { shard: self.clone() }
    }

    /// Another shard asks for host activity here: replies if there is any.
    pub(crate) fn look_for_hosts(&self, asker: ShardIndex) {
        if !self.hosts().news_for(asker) {
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
