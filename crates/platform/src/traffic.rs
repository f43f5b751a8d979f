//! Counts and durations of a drive's or volume's operations: updated by its shards, readable by any
//! thread.
//!
//! Times are those of the shard's tick, which is read once per round of its loop: counting reads no
//! clock.
//!
//! Budget: 5 ns for an operation, from its start to its end.

use crate::error::{IoError, IoErrorKind};
use crate::request::IoRequest;
use crate::tally::{Tally, TallyRow};
use crate::time::Instant;
use std::rc::Rc;
use std::time::Duration;

/// Kinds of operations that are counted separately.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes, zeroing included.
    Write,
    /// Trims.
    Trim,
    /// Flushes.
    Flush,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Operation; 4] =
        [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush];

    /// The kind of a request; `None` if it is not counted.
    pub fn of(request: &IoRequest) -> Option<Operation> {
        Some(match request {
            IoRequest::Read { .. } => Operation::Read,
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => Operation::Write,
            IoRequest::Trim { .. } => Operation::Trim,
            IoRequest::Flush => Operation::Flush,
            IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Trim => "trim",
            Operation::Flush => "flush",
        }
    }
}

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const S: u64 = 1000 * MS;

/// The upper bounds of the duration buckets, in nanoseconds: 1, 2 and 5 of each decade from 10 µs
/// to 10 s, then 30 s and 60 s. Every [default time limit](crate::LimitsByClass) is one of them. A
/// last bucket counts all longer operations.
pub const BUCKET_BOUNDS_NS: [u64; 21] = [
    10 * US,
    20 * US,
    50 * US,
    100 * US,
    200 * US,
    500 * US,
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
    30 * S,
    60 * S,
];

const BUCKETS: usize = BUCKET_BOUNDS_NS.len() + 1;

/// For each power of two, the first bucket for durations from there. At most one bound lies between
/// two powers, so that a duration belongs to this bucket or the next.
const FIRST_BUCKET: [u8; 64] = {
    let mut first = [0; 64];
    let mut power = 0;
    while power < 64 {
        let mut bucket = 0;
        while bucket < BUCKET_BOUNDS_NS.len() && BUCKET_BOUNDS_NS[bucket] < 1 << power {
            bucket += 1;
        }
        first[power] = bucket as u8;
        power += 1;
    }
    first
};

/// The bucket of a duration.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let first = usize::from(FIRST_BUCKET[(ns | 1).ilog2() as usize]);
    match BUCKET_BOUNDS_NS.get(first) {
        Some(bound) => first + usize::from(ns > *bound),
        None => first,
    }
}

// The indices of one kind's numbers in a row.
const STARTED: usize = 0;
const FAILED: usize = 1;
const BYTES: usize = 2;
const TIME: usize = 3;
const FIRST: usize = 4;
const NUMBERS: usize = FIRST + BUCKETS;

/// The operations of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Performed {
    /// Operations in progress.
    pub outstanding: u64,
    /// Completed operations, failed ones included.
    pub completed: u64,
    /// Failed operations.
    pub failed: u64,
    /// The bytes of successful operations.
    pub bytes: u64,
    /// The total duration of all operations, in nanoseconds.
    pub time_ns: u64,
    /// The number of operations up to each of [`BUCKET_BOUNDS_NS`] and above the bound before;
    /// last, those above all bounds.
    pub buckets: [u64; BUCKETS],
}

/// The bound for a limit: the smallest that is not below it, or the last.
fn bound_at(limit: Duration) -> usize {
    let ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    BUCKET_BOUNDS_NS.iter().position(|bound| *bound >= ns).unwrap_or(BUCKET_BOUNDS_NS.len() - 1)
}

/// The bound above which [`Performed::slower_than`] counts.
pub fn counted_from(limit: Duration) -> Duration {
    Duration::from_nanos(BUCKET_BOUNDS_NS[bound_at(limit)])
}

impl Performed {
    /// The number of operations that took longer than a limit. If the limit is not a bucket's
    /// bound, the [next bound](counted_from) counts.
    pub fn slower_than(&self, limit: Duration) -> u64 {
        self.buckets[bound_at(limit) + 1..].iter().sum()
    }
}

/// The operations of a drive or a volume, on all shards together. Clones share the counters, and
/// may move to any thread.
#[derive(Clone, Debug)]
pub struct Traffic {
    tally: Tally,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic { tally: Tally::new(Operation::ALL.len() * NUMBERS) }
    }
}

impl Traffic {
    /// A row for a shard that starts to use it.
    pub fn join(&self) -> TrafficRow {
        TrafficRow { row: self.tally.row() }
    }

    /// The counts of each kind, in the order of [`Operation::ALL`].
    pub fn done(&self) -> [Performed; Operation::ALL.len()] {
        let sums = self.tally.sums();
        Operation::ALL.map(|operation| work(&sums[operation as usize * NUMBERS..][..NUMBERS]))
    }
}

fn work(sums: &[u64]) -> Performed {
    let mut buckets = [0; BUCKETS];
    buckets.copy_from_slice(&sums[FIRST..]);
    let completed = buckets.iter().sum();
    Performed {
        // The counters are not read at the same moment.
        outstanding: sums[STARTED].saturating_sub(completed),
        completed,
        failed: sums[FAILED],
        bytes: sums[BYTES],
        time_ns: sums[TIME],
        buckets,
    }
}

/// One shard's row of a [`Traffic`].
pub struct TrafficRow {
    row: TallyRow,
}

impl TrafficRow {
    /// Counts the start of an operation.
    #[inline]
    pub fn start(&self, operation: Operation) {
        self.row.add(operation as usize * NUMBERS + STARTED, 1);
    }

    /// Counts the end of an operation: with its bytes, or as failed.
    #[inline]
    pub fn end(&self, operation: Operation, took: Duration, bytes: Option<u64>) {
        let numbers = operation as usize * NUMBERS;
        let ns = took.as_nanos() as u64;
        self.row.add(numbers + FIRST + bucket_of(ns), 1);
        self.row.add(numbers + TIME, ns);
        match bytes {
            Some(bytes) => self.row.add(numbers + BYTES, bytes),
            None => self.row.add(numbers + FAILED, 1),
        }
    }

    /// Uncounts an operation that the drive does not support.
    pub fn take_back(&self, operation: Operation) {
        self.row.add(operation as usize * NUMBERS + STARTED, u64::MAX);
    }
}

/// A started operation, counted when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Its kind.
    pub operation: Operation,
    /// When it started.
    pub since: Instant,
}

impl Timed {
    /// Starts an operation.
    #[inline]
    pub fn start(row: &TrafficRow, operation: Operation, now: Instant) -> Timed {
        row.start(operation);
        Timed { operation, since: now }
    }

    /// Ends the operation.
    #[inline]
    pub fn end(self, row: &TrafficRow, now: Instant, bytes: Option<u64>) {
        row.end(self.operation, now.since(self.since), bytes);
    }
}

/// An operation of a drive, counted when the drive returns it.
pub(crate) struct Metered {
    row: Rc<TrafficRow>,
    timed: Timed,
    bytes: u64,
}

impl Metered {
    /// Starts measuring a request. Queries of the drive are no traffic.
    pub(crate) fn start(
        row: &Rc<TrafficRow>,
        request: &IoRequest,
        now: Instant,
    ) -> Option<Metered> {
        let operation = Operation::of(request)?;
        let timed = Timed::start(row, operation, now);
        Some(Metered { row: row.clone(), timed, bytes: request.range().len.0 })
    }

    pub(crate) fn end(self, now: Instant, result: &Result<u64, IoError>) {
        match result {
            Ok(_) => self.timed.end(&self.row, now, Some(self.bytes)),
            // Not supported: another operation replaces it.
            Err(error) if error.kind == IoErrorKind::NotSupported => {
                self.row.take_back(self.timed.operation);
            }
            Err(_) => self.timed.end(&self.row, now, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_limits::{DriveClass, LimitsByClass, TimeLimits};

    #[test]
    fn a_time_is_in_the_bucket_whose_bounds_it_lies_between() {
        let slowly = |ns: u64| BUCKET_BOUNDS_NS.iter().position(|bound| ns <= *bound);
        let around = BUCKET_BOUNDS_NS.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
        let powers = (0..64).flat_map(|power| [1_u64 << power, (1 << power) - 1]);
        for ns in around.chain(powers).chain([0, u64::MAX]) {
            assert_eq!(bucket_of(ns), slowly(ns).unwrap_or(BUCKETS - 1), "{ns} ns");
        }
    }

    #[test]
    fn operations_that_took_longer_than_a_limit_are_counted() {
        let traffic = Traffic::default();
        let row = traffic.join();
        for ms in [1, 499, 500, 501, 1999, 2000, 2001, 30_000, 30_001, 60_000, 60_001] {
            row.start(Operation::Read);
            row.end(Operation::Read, Duration::from_millis(ms), Some(512));
        }
        let [read, ..] = traffic.done();
        for (limit_ms, from_ms, count) in [
            (500, 500, 8),
            (2000, 2000, 5),
            (1500, 2000, 5),
            (30_000, 30_000, 3),
            (60_000, 60_000, 1),
            (90_000, 60_000, 1),
        ] {
            let limit = Duration::from_millis(limit_ms);
            assert_eq!(read.slower_than(limit), count, "{limit:?}");
            assert_eq!(counted_from(limit), Duration::from_millis(from_ms));
        }
    }

    #[test]
    fn every_usual_limit_is_a_bound() {
        for class in DriveClass::ALL {
            let TimeLimits { short_read, read, write, flush, discard } =
                LimitsByClass::default().of_class(class);
            for limit in [short_read, read, write, flush, discard] {
                assert_eq!(counted_from(limit), limit, "{}", class.name());
            }
        }
    }

    #[test]
    fn no_two_bounds_lie_between_two_powers_of_two() {
        let powers: Vec<u32> = BUCKET_BOUNDS_NS.iter().map(|bound| bound.ilog2()).collect();
        assert!(powers.windows(2).all(|two| two[0] < two[1]), "{powers:?}");
    }

    #[test]
    fn operations_are_counted_from_their_start_to_their_end() {
        let traffic = Traffic::default();
        let (here, there) = (traffic.join(), traffic.join());
        let begun = Timed::start(&here, Operation::Read, Instant { ns: 1000 });
        there.start(Operation::Write);
        there.end(Operation::Write, Duration::from_millis(3), None);
        there.start(Operation::Flush);
        there.take_back(Operation::Flush);
        let [read, write, trim, flush] = traffic.done();
        assert_eq!((read.outstanding, read.completed), (1, 0));
        assert_eq!((write.completed, write.failed, write.bytes, write.time_ns), (1, 1, 0, 3 * MS));
        assert_eq!((trim, flush), (Performed::default(), Performed::default()));
        begun.end(&here, Instant { ns: 1000 + 60 * US }, Some(4096));
        let [read, ..] = traffic.done();
        assert_eq!((read.outstanding, read.completed, read.failed, read.bytes), (0, 1, 0, 4096));
        assert_eq!(read.buckets.iter().position(|count| *count == 1), Some(3), "from 50 to 100 µs");
    }
}
