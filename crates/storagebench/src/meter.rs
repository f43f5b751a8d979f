//! Counting: what completes inside the window, how long it took, and how evenly it came.
//!
//! # Invariants
//! - An I/O counts if it *completes* at or after the window's start and before its end, wherever it was
//!   started. As many that began before the window are counted as are cut off by its end, so a long latency
//!   is as likely to be seen as a short one; counting only I/Os that lie whole inside would favour the short.
//! - Every completion in the window is in exactly one histogram (read or write) and, once its batch is over,
//!   in exactly one batch.
//! - The window's end only ever moves back, to where a run was cancelled or failed, and never before the last
//!   completion it counted.

use crate::pattern::Operation;
use crate::stats::Batch;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// How many batches the window is cut into.
pub(crate) const BATCHES: u64 = 30;

/// Latencies above an hour count as one: the time limit of a request is far below.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Latencies are kept to a thousandth.
const DIGITS: u8 = 3;

/// Reads, or writes.
pub(crate) struct Direction {
    pub(crate) latencies_ns: Histogram<u64>,
    pub(crate) ios: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) errors: u64,
}

impl Direction {
    pub(crate) fn new() -> Direction {
        Direction {
            latencies_ns: Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
                .expect("the bounds and digits are constants that a histogram takes"),
            ios: 0,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            errors: 0,
        }
    }

    /// Both together.
    pub(crate) fn sum(&self, other: &Direction) -> Direction {
        let mut both = Direction::new();
        for part in [self, other] {
            both.latencies_ns.add(&part.latencies_ns).expect("all histograms here have the same bounds");
            both.ios += part.ios;
            both.latency_sum_ns += part.latency_sum_ns;
            both.latency_max_ns = both.latency_max_ns.max(part.latency_max_ns);
            both.errors += part.errors;
        }
        both
    }
}

struct Counts {
    read: Direction,
    write: Direction,
    batch: Batch,
    batch_end_ns: u64,
    batches: Vec<Batch>,
}

/// What a point came to.
pub(crate) struct Reading {
    pub(crate) read: Direction,
    pub(crate) write: Direction,
    pub(crate) duration_ns: u64,
    /// The whole batches within it.
    pub(crate) batches: Vec<Batch>,
    pub(crate) batch_ns: u64,
}

/// The meter of one point. Times are the world's, in nanoseconds.
pub(crate) struct Meter {
    window_start_ns: u64,
    window_end_ns: Cell<u64>,
    batch_ns: u64,
    counts: RefCell<Counts>,
    /// Completions since the last look, for the progress: those of the ramp too.
    recent: Cell<Batch>,
    last_completion_ns: Cell<u64>,
}

impl Meter {
    pub(crate) fn new(window_start_ns: u64, runtime: Duration) -> Meter {
        let runtime_ns = u64::try_from(runtime.as_nanos()).unwrap_or(u64::MAX);
        let batch_ns = (runtime_ns / BATCHES).max(1);
        Meter {
            window_start_ns,
            window_end_ns: Cell::new(window_start_ns.saturating_add(runtime_ns)),
            batch_ns,
            counts: RefCell::new(Counts {
                read: Direction::new(),
                write: Direction::new(),
                batch: Batch::default(),
                batch_end_ns: window_start_ns.saturating_add(batch_ns),
                batches: Vec::with_capacity(BATCHES as usize + 1),
            }),
            recent: Cell::default(),
            last_completion_ns: Cell::new(0),
        }
    }

    pub(crate) fn window_start_ns(&self) -> u64 {
        self.window_start_ns
    }

    /// When it is over.
    pub(crate) fn window_end_ns(&self) -> u64 {
        self.window_end_ns.get()
    }

    /// Ends the window now, if it is not over yet.
    pub(crate) fn stop(&self, now_ns: u64) {
        self.window_end_ns.set(self.window_end_ns.get().min(now_ns));
    }

    /// When a request last completed, before the window or in it.
    pub(crate) fn last_completion_ns(&self) -> u64 {
        self.last_completion_ns.get()
    }

    /// Takes note of a completion.
    #[inline]
    pub(crate) fn complete(&self, now_ns: u64, latency_ns: u64, operation: Operation) {
        let mut recent = self.recent.get();
        recent.ios += 1;
        recent.latency_ns += latency_ns;
        self.recent.set(recent);
        self.last_completion_ns.set(now_ns);
        if now_ns < self.window_start_ns || now_ns >= self.window_end_ns.get() {
            return;
        }
        let counts = &mut *self.counts.borrow_mut();
        counts.close_batches(now_ns, self.batch_ns);
        counts.batch.ios += 1;
        counts.batch.latency_ns += latency_ns;
        let direction = counts.direction(operation);
        direction.latencies_ns.saturating_record(latency_ns);
        direction.ios += 1;
        direction.latency_sum_ns += latency_ns;
        direction.latency_max_ns = direction.latency_max_ns.max(latency_ns);
    }

    /// Takes note of a failure.
    pub(crate) fn fail(&self, now_ns: u64, operation: Operation) {
        if (self.window_start_ns..self.window_end_ns.get()).contains(&now_ns) {
            self.counts.borrow_mut().direction(operation).errors += 1;
        }
    }

    /// What completed since this was last asked, and how many errors there were so far.
    pub(crate) fn look(&self) -> (Batch, u64) {
        let counts = self.counts.borrow();
        (self.recent.take(), counts.read.errors + counts.write.errors)
    }

    /// The reading, once nothing is in flight any more.
    pub(crate) fn finish(&self) -> Reading {
        let end_ns = self.window_end_ns.get();
        let counts = &mut *self.counts.borrow_mut();
        counts.close_batches(end_ns, self.batch_ns);
        Reading {
            read: std::mem::replace(&mut counts.read, Direction::new()),
            write: std::mem::replace(&mut counts.write, Direction::new()),
            duration_ns: end_ns.saturating_sub(self.window_start_ns),
            batches: std::mem::take(&mut counts.batches),
            batch_ns: self.batch_ns,
        }
    }
}

impl Counts {
    fn direction(&mut self, operation: Operation) -> &mut Direction {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
        }
    }

    #[inline]
    fn close_batches(&mut self, now_ns: u64, batch_ns: u64) {
        while now_ns >= self.batch_end_ns {
            self.batches.push(std::mem::take(&mut self.batch));
            self.batch_end_ns = self.batch_end_ns.saturating_add(batch_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter::new(1000, Duration::from_nanos(3000))
    }

    #[test]
    fn only_what_completes_in_the_window_counts() {
        let meter = meter();
        for now in [0, 999, 1000, 2500, 3999, 4000, 9000] {
            meter.complete(now, now, Operation::Read);
        }
        let reading = meter.finish();
        assert_eq!((reading.read.ios, reading.read.latency_sum_ns), (3, 1000 + 2500 + 3999));
        assert_eq!((reading.read.latencies_ns.len(), reading.read.latency_max_ns), (3, 3999));
        assert_eq!((reading.write.ios, reading.duration_ns), (0, 3000));
    }

    #[test]
    fn every_counted_completion_is_in_one_batch() {
        let meter = meter();
        for now in (1000..4000).step_by(50) {
            meter.complete(now, 7, if now % 100 == 0 { Operation::Read } else { Operation::Write });
        }
        let reading = meter.finish();
        assert_eq!((reading.batch_ns, reading.batches.len()), (100, 30));
        assert!(reading.batches.iter().all(|batch| *batch == Batch { ios: 2, latency_ns: 14 }));
        assert_eq!(reading.read.sum(&reading.write).ios, 60);
    }

    #[test]
    fn silence_gives_empty_batches_and_a_stop_drops_the_broken_one() {
        let meter = meter();
        meter.complete(1050, 1, Operation::Read);
        meter.complete(1450, 1, Operation::Read);
        meter.stop(1620);
        meter.stop(9999);
        meter.complete(1620, 1, Operation::Read);
        let reading = meter.finish();
        assert_eq!((reading.read.ios, reading.duration_ns), (2, 620));
        assert_eq!(reading.batches.iter().map(|batch| batch.ios).collect::<Vec<_>>(), [1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_stop_before_the_window_leaves_nothing() {
        let meter = meter();
        meter.complete(500, 1, Operation::Read);
        assert_eq!(meter.look(), (Batch { ios: 1, latency_ns: 1 }, 0));
        meter.stop(600);
        let reading = meter.finish();
        assert_eq!((reading.duration_ns, reading.read.ios, reading.batches.len()), (0, 0, 0));
    }

    #[test]
    fn errors_count_in_the_window_and_have_no_latency() {
        let meter = meter();
        meter.fail(10, Operation::Write);
        meter.fail(1500, Operation::Write);
        assert_eq!(meter.look().1, 1);
        let reading = meter.finish();
        assert_eq!((reading.write.errors, reading.write.ios, reading.write.latencies_ns.len()), (1, 0, 0));
    }
}
