//! Detection of host I/O, to which tasks yield on all shards.

use crate::messages::{HostRequests, ShardIndex, ShardMessage};
use crate::shard::Resources;
use crate::shard::cycle::Cycle;
use crate::shard::levels::Levels;
use crate::shard::meter::HostMeter;
use crate::volume::VolumeId;
use platform::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Hosts count as active for this long after their last request.
const LINGER: Duration = Duration::from_millis(250);

/// The interval at which shards are asked for host activity.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// For this long after a query a shard measures durations, and keeps its last reply.
const ASKED_FOR: Duration = Duration::from_secs(1);

/// Host activity, as known to one shard.
#[derive(Default)]
pub(crate) struct HostActivity {
    /// The last known host activity, here or on any other shard.
    seen: Cell<Option<Instant>>,
    /// How much tasks may use beside the hosts of all shards.
    levels: RefCell<Levels>,
    /// What each shard knows of this one.
    askers: RefCell<Vec<Asker>>,
    /// The number of host requests so far.
    requests: Cell<u64>,
    /// What the volumes' hosts notice of tasks, here.
    meters: RefCell<Vec<Weak<HostMeter>>>,
    measured_until: Cell<Instant>,
    watching: Cell<bool>,
    /// The number of tasks that watch for hosts.
    watchers: Cell<usize>,
}

/// A shard that asks, and the last reply to it.
#[derive(Default)]
struct Asker {
    asked: Instant,
    requests: u64,
    told: Vec<HostRequests>,
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

    /// How much of their upper limit tasks may use beside hosts, in thousandths.
    pub(crate) fn level(&self) -> u32 {
        self.levels.borrow().level()
    }

    /// A volume for whose hosts tasks are to leave time.
    pub(crate) fn join(&self, volume: VolumeId) -> Rc<HostMeter> {
        let meter = Rc::new(HostMeter::new(volume));
        let mut meters = self.meters.borrow_mut();
        meters.retain(|meter| meter.strong_count() > 0);
        meters.push(Rc::downgrade(&meter));
        meter
    }

    /// A host request has ended. `rotate`: its volume's drives do.
    #[inline]
    pub(crate) fn note_end(&self, meter: &HostMeter, rotate: bool, began: Instant, now: Instant) {
        if now < self.measured_until.get() {
            meter.note(Cycle::of(rotate), began, now);
        }
    }

    /// What happened since the last reply to `asker`. `None`: no requests.
    fn news_for(&self, asker: ShardIndex, now: Instant) -> Option<Vec<HostRequests>> {
        self.measured_until.set(now + ASKED_FOR);
        let mut askers = self.askers.borrow_mut();
        let index = usize::from(asker.0);
        if askers.len() <= index {
            // The first query covers all earlier requests.
            askers.resize_with(index + 1, Asker::default);
        }
        let asker = &mut askers[index];
        let is_new = now.since(std::mem::replace(&mut asker.asked, now)) > ASKED_FOR;
        let has_news =
            std::mem::replace(&mut asker.requests, self.requests.get()) != self.requests.get();
        if !has_news && !is_new {
            return None;
        }
        let meters = self.meters.borrow();
        let counted = meters.iter().filter_map(Weak::upgrade).map(|meter| meter.requests());
        let before = std::mem::replace(&mut asker.told, counted.collect());
        // Requests before this shard asked do not concern its tasks.
        let before = if is_new { &asker.told } else { &before };
        has_news.then(|| asker.told.iter().map(|requests| requests.since(before)).collect())
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
        let Some(requests) = self.hosts().news_for(asker, self.env().now()) else { return };
        if asker == self.index() {
            self.hosts_seen(&requests);
        } else {
            self.tell_peer(asker, ShardMessage::HostsAround(requests));
        }
    }

    pub(crate) fn hosts_seen(&self, requests: &[HostRequests]) {
        let now = self.env().now();
        self.hosts().seen.set(Some(now));
        self.hosts().levels.borrow_mut().hear(requests, now);
    }
}
