//! The operations in an interval. Intervals are merged by addition.

use platform::BUCKET_BOUNDS_NS;

/// Kinds of operations: read, write, trim, flush, in the order of [`platform::Operation::ALL`].
pub const OPERATIONS: usize = platform::Operation::ALL.len();

/// Buckets of a histogram: one for each bound, and one for longer latencies.
pub const BUCKETS: usize = BUCKET_BOUNDS_NS.len() + 1;

/// Completed operations of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Failed operations.
    pub failed: u64,
    /// Bytes of the successful operations.
    pub bytes: u64,
    /// Their total latency, in nanoseconds.
    pub time_ns: u64,
    /// Operations per bucket: up to each bound of [`BUCKET_BOUNDS_NS`], and beyond the last.
    pub buckets: [u64; BUCKETS],
}

impl Done {
    /// The number of completed operations.
    pub fn completed(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &Done) {
        add(&mut self.failed, other.failed);
        add(&mut self.bytes, other.bytes);
        add(&mut self.time_ns, other.time_ns);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| add(sum, count));
    }

    /// The difference from `before`. A counter that decreased has restarted at zero.
    pub fn since(&self, before: &Done) -> Done {
        if self.completed() < before.completed() {
            return *self;
        }
        let mut buckets = self.buckets;
        buckets
            .iter_mut()
            .zip(before.buckets)
            .for_each(|(now, then)| *now = now.saturating_sub(then));
        Done {
            failed: self.failed.saturating_sub(before.failed),
            bytes: self.bytes.saturating_sub(before.bytes),
            time_ns: self.time_ns.saturating_sub(before.time_ns),
            buckets,
        }
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The temperatures of a drive in an interval, in degrees Celsius.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Temperatures {
    /// The lowest.
    pub least: i16,
    /// The highest.
    pub most: i16,
}

/// The operations in an interval.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// The recorded time in milliseconds: less than the interval if the controller was not running
    /// all the time.
    pub covered_ms: u64,
    /// Reads of a stripe that hit the cache, at least in part.
    pub cache_hits: u64,
    /// Writes that were acknowledged from the cache.
    pub cache_writes: u64,
    /// The range of the measured temperatures.
    pub temperatures: Option<Temperatures>,
    /// Operations by kind.
    pub done: [Done; OPERATIONS],
}

impl Interval {
    /// Adds another interval.
    pub fn merge(&mut self, other: &Interval) {
        add(&mut self.covered_ms, other.covered_ms);
        add(&mut self.cache_hits, other.cache_hits);
        add(&mut self.cache_writes, other.cache_writes);
        self.temperatures = match (self.temperatures, other.temperatures) {
            (Some(a), Some(b)) => {
                Some(Temperatures { least: a.least.min(b.least), most: a.most.max(b.most) })
            }
            (a, b) => a.or(b),
        };
        self.done.iter_mut().zip(&other.done).for_each(|(sum, done)| sum.merge(done));
    }
}
