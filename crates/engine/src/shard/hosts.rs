//! Whether hosts are around: tasks stand back for them, on whichever shard they are.

use crate::messages::{ShardIndex, ShardMessage};
use crate::shard::Resources;
use platform::Instant;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Hosts count as around for this long after their last request.
const LINGER: Duration = Duration::from_millis(250);

/// How often shards are asked whether hosts are around.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Whether hosts are around, as one shard knows.
#[derive(Default)]
pub(crate) struct HostActivity {
    /// When hosts were last known to be around, here or on any other shard.
    seen: Cell<Option<Instant>>,
    /// How many host requests there were when last looked, by who asked; this shard itself among them.
    counted: RefCell<Vec<u64>>,
    /// Requests of hosts so far.
    requests: Cell<u64>,
    watching: Cell<bool>,
    /// Tasks that want to know.
    watchers: Cell<usize>,
}

/// A task that wants to know whether hosts are around; as long as it lives, they are looked for.
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
    /// A host has asked for something.
    pub(crate) fn note_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// How many requests there were here.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(crate) fn are_around(&self, now: Instant) -> bool {
        self.seen.get().is_some_and(|seen| now.since(seen) < LINGER)
    }

    /// Whether there were requests since `asker` was last told.
    fn news_for(&self, asker: ShardIndex) -> bool {
        let count = self.requests.get();
        let mut counted = self.counted.borrow_mut();
        let index = usize::from(asker.0);
        if counted.len() <= index {
            counted.resize(index + 1, 0); // Who asks for the first time hears of all there ever were.
        }
        std::mem::replace(&mut counted[index], count) != count
    }
}

impl Resources {
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
