//! Something that serves one thing after the other, and knows how long it was busy.

use std::cell::Cell;

/// A server of one place: first come, first served.
///
/// Work is *booked*: it begins when all that was booked before is done, not before `earliest`. Who books must do
/// so in the order in which work arrives, or what comes early waits for what comes late.
///
/// ```
/// let link = models::Resource::default();
/// assert_eq!(link.book(100, 50), 150);
/// assert_eq!(link.book(120, 50), 200, "it waits for the first");
/// assert_eq!(link.busy_ns(175), 75);
/// ```
#[derive(Default, Debug)]
pub struct Resource {
    free_at_ns: Cell<u64>,
    booked_ns: Cell<u64>,
}

impl Resource {
    /// Books work of `duration_ns` that can begin at `earliest_ns`; when it will be done.
    pub fn book(&self, earliest_ns: u64, duration_ns: u64) -> u64 {
        let done = self.free_at_ns.get().max(earliest_ns) + duration_ns;
        self.free_at_ns.set(done);
        self.booked_ns.set(self.booked_ns.get() + duration_ns);
        done
    }

    /// When it is done with all that is booked.
    pub fn free_at_ns(&self) -> u64 {
        self.free_at_ns.get()
    }

    /// How long it was busy until `now_ns`.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        self.booked_ns.get().saturating_sub(self.free_at_ns.get().saturating_sub(now_ns))
    }
}

/// Several equal servers that share one queue: lanes of a wide port, processor cores.
#[derive(Debug)]
pub(crate) struct Pool {
    servers: Vec<Resource>,
}

impl Pool {
    pub fn new(servers: u64) -> Pool {
        Pool { servers: (0..servers.max(1)).map(|_| Resource::default()).collect() }
    }

    /// The server that is free first.
    pub fn next(&self) -> &Resource {
        // There is at least one.
        self.servers.iter().min_by_key(|server| server.free_at_ns()).unwrap_or(&self.servers[0])
    }

    pub fn book(&self, earliest_ns: u64, duration_ns: u64) -> u64 {
        self.next().book(earliest_ns, duration_ns)
    }

    /// How long they were busy on average.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        let sum: u64 = self.servers.iter().map(|server| server.busy_ns(now_ns)).sum();
        sum / self.servers.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_serves_as_many_at_once_as_it_has_servers() {
        let pool = Pool::new(2);
        let done: Vec<u64> = (0..4).map(|_| pool.book(0, 10)).collect();
        assert_eq!(done, [10, 10, 20, 20]);
        assert_eq!(pool.busy_ns(15), 15);
    }
}
