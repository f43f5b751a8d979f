//! A resource that serves one item of work at a time, and records its busy time.

use std::cell::Cell;

/// A first-come, first-served resource.
///
/// Work is *booked*: it begins after all earlier bookings, and not before `earliest`. Callers must
/// book in order of arrival, otherwise early work waits for late work.
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
    /// Books work of `duration_ns` from `earliest_ns`. Returns its completion time.
    pub fn book(&self, earliest_ns: u64, duration_ns: u64) -> u64 {
        let done = self.free_at_ns.get().max(earliest_ns) + duration_ns;
        self.free_at_ns.set(done);
        self.booked_ns.set(self.booked_ns.get() + duration_ns);
        done
    }

    /// The completion time of all booked work.
    pub fn free_at_ns(&self) -> u64 {
        self.free_at_ns.get()
    }

    /// The busy time until `now_ns`.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        self.booked_ns.get().saturating_sub(self.free_at_ns.get().saturating_sub(now_ns))
    }
}

/// Several equal resources with one queue: lanes of a wide port, processor cores.
#[derive(Debug)]
pub(crate) struct Pool {
    servers: Vec<Resource>,
}

impl Pool {
    pub fn new(servers: u64) -> Pool {
        Pool { servers: (0..servers.max(1)).map(|_| Resource::default()).collect() }
    }

    /// The resource that is free first.
    pub fn next(&self) -> &Resource {
        // The list is never empty.
        self.servers.iter().min_by_key(|server| server.free_at_ns()).unwrap_or(&self.servers[0])
    }

    pub fn book(&self, earliest_ns: u64, duration_ns: u64) -> u64 {
        self.next().book(earliest_ns, duration_ns)
    }

    /// The mean busy time.
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
