//! Hosts that are connected to targets: their identity, connection time and load.
//!
//! Connections live on shards; readers may be on other threads and must not wait for a shard. So
//! each connection has a [`Host`] here. Only its shard updates it; any thread may read it.
//! [`Hosts`] is the list of all: created before the ports start, and shared by ports and readers.

use crate::stream::Peer;
use crate::time::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The period over which "lately" averages.
const LATELY: Duration = Duration::from_secs(5);

/// A host's connection to a target.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other end of the connection.
    pub peer: Peer,
    /// The protocol.
    pub protocol: &'static str,
    /// The target's number ([`BlockTarget::number`](crate::BlockTarget::number)).
    pub target: u64,
    /// The name by which the host opened the target; the target may have been renamed since.
    pub asked_for: String,
    /// When the host connected.
    pub since: Instant,
    /// The same, as seconds since 1970.
    pub since_unix_s: u64,
}

/// The requests of a host since it connected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostWork {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests that change data: writes, zeroing, trims.
    pub writes: u64,
    /// Bytes written; zeroing and trims do not count.
    pub written_bytes: u64,
}

impl HostWork {
    fn since(self, earlier: HostWork) -> HostWork {
        HostWork {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }

    fn per_second(self, time: Duration) -> HostWork {
        // Rates of a connection younger than a second are not extrapolated.
        let ms = time.as_millis().max(1000);
        let rate = |count: u64| u64::try_from(u128::from(count) * 1000 / ms).unwrap_or(u64::MAX);
        HostWork {
            reads: rate(self.reads),
            read_bytes: rate(self.read_bytes),
            writes: rate(self.writes),
            written_bytes: rate(self.written_bytes),
        }
    }
}

/// One connected host. Only its shard counts; any thread may read.
pub struct Host {
    connection: Connection,
    outstanding: AtomicU32,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    /// Samples of its recent work, the oldest first.
    looks: Mutex<VecDeque<(Instant, HostWork)>>,
}

/// Only one thread counts, so that no locked instruction is needed.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Host {
    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sets the number of outstanding requests. Only its shard calls this and the other counting
    /// functions.
    pub fn set_outstanding(&self, requests: u32) {
        self.outstanding.store(requests, Ordering::Relaxed);
    }

    /// Counts a read of that many bytes.
    pub fn count_read(&self, bytes: u64) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes);
    }

    /// Counts a request that changes data, with that many bytes of data.
    pub fn count_write(&self, bytes: u64) {
        add(&self.writes, 1);
        add(&self.written_bytes, bytes);
    }

    /// Takes a sample of the work so far. Called about once a second.
    pub fn look(&self, now: Instant) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        while looks.len() > 1 && looks.get(1).is_some_and(|(at, _)| now.since(*at) >= LATELY) {
            looks.pop_front();
        }
        looks.push_back((now, self.work()));
    }

    /// The number of outstanding requests.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// The work since it connected.
    pub fn work(&self) -> HostWork {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HostWork {
            reads: of(&self.reads),
            read_bytes: of(&self.read_bytes),
            writes: of(&self.writes),
            written_bytes: of(&self.written_bytes),
        }
    }

    /// The work per second, averaged over the last seconds.
    pub fn lately(&self, now: Instant) -> HostWork {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.since(*at) <= LATELY;
        // The latest sample that is older than the period, or the oldest one.
        let old = looks.iter().take_while(|(at, _)| !is_recent(at)).last().or(looks.front());
        let (at, before) = old.copied().unwrap_or((self.connection.since, HostWork::default()));
        self.work().since(before).per_second(now.since(at))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("connection", &self.connection)
            .field("work", &self.work())
            .finish()
    }
}

#[derive(Default)]
struct All {
    next: u64,
    connected: BTreeMap<u64, Arc<Host>>,
}

/// All connected hosts. Clones share the list, and may move to any thread.
#[derive(Clone, Default)]
pub struct Hosts {
    all: Arc<Mutex<All>>,
}

impl Hosts {
    /// Adds a host, which counts as connected until the returned value is dropped.
    pub fn connect(&self, connection: Connection) -> Connected {
        let host = Arc::new(Host {
            looks: Mutex::new(VecDeque::from([(connection.since, HostWork::default())])),
            connection,
            outstanding: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.next;
        all.next += 1;
        all.connected.insert(number, host.clone());
        Connected { hosts: self.clone(), number, host }
    }

    /// The hosts of a target, in the order in which they connected.
    pub fn of(&self, target: u64) -> Vec<Arc<Host>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.connected.values().filter(|host| host.connection.target == target).cloned().collect()
    }

    /// The number of hosts.
    pub fn count(&self) -> usize {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).connected.len()
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("connected", &self.count()).finish()
    }
}

/// Keeps a host in the list until it is dropped.
pub struct Connected {
    hosts: Hosts,
    number: u64,
    host: Arc<Host>,
}

impl Connected {
    /// The host.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }
}

impl Deref for Connected {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.hosts
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .connected
            .remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant { ns: seconds * 1_000_000_000 }
    }

    fn connection(target: u64) -> Connection {
        Connection {
            peer: Peer::at("somewhere"),
            protocol: "test",
            target,
            asked_for: "data".to_owned(),
            since: at(100),
            since_unix_s: 1_700_000_000,
        }
    }

    #[test]
    fn a_host_is_known_from_its_first_byte_to_its_last() {
        let hosts = Hosts::default();
        let (first, other) = (hosts.connect(connection(1)), hosts.connect(connection(2)));
        let second = hosts.connect(connection(1));
        assert_eq!(
            (hosts.of(1).len(), hosts.of(2).len(), hosts.of(3).len(), hosts.count()),
            (2, 1, 0, 3)
        );
        assert!(Arc::ptr_eq(&hosts.of(1)[0], first.host()));
        drop(first);
        assert!(Arc::ptr_eq(&hosts.of(1)[0], second.host()));
        drop((second, other));
        assert_eq!(hosts.count(), 0);
    }

    #[test]
    fn what_a_host_does_is_told_for_good_and_for_the_last_seconds() {
        let host = Hosts::default().connect(connection(1));
        assert_eq!(host.lately(at(100)), HostWork::default());
        host.count_read(1000);
        assert_eq!(host.lately(at(100)).read_bytes, 1000, "nothing is extrapolated");
        // A thousand bytes in each second, until the 20th.
        for second in 101..=130 {
            host.look(at(second));
            if second < 120 {
                host.count_write(1000);
            }
        }
        assert_eq!(
            host.work(),
            HostWork { reads: 1, read_bytes: 1000, writes: 19, written_bytes: 19_000 }
        );
        assert_eq!(host.lately(at(130)), HostWork::default());
        assert!(host.looks.lock().unwrap().len() <= 7, "old samples are dropped");
        let host = Hosts::default().connect(connection(1));
        for second in 101..=109 {
            host.count_write(1000);
            host.look(at(second));
        }
        assert_eq!(
            host.lately(at(109)),
            HostWork { writes: 1, written_bytes: 1000, ..HostWork::default() }
        );
    }
}
