//! The meter: completions inside the window, their latencies, and their distribution over time.
//!
//! The window consists of *slices* of equal time. A slice stores its completions and their
//! histogram. The window can therefore start later than planned (until a target is steady), end
//! later (until intervals are narrow enough) or earlier (after an early end). The spread between
//! slices gives the precision of each figure, including percentiles.
//!
//! # Invariants
//! - An I/O counts if it *completes* at or after the window's start and before its end,
//!   independently of its start. On average as many I/Os from before the window count as are cut
//!   off at its end, so long and short latencies have equal chances. Counting only I/Os entirely
//!   inside would favour short ones.
//! - Every completion in the window is in exactly one slice, and in one histogram of it (read or
//!   write).
//! - The window's end moves only while it is in the future, or back to a cancellation or failure,
//!   and then never before the last counted completion.
//! - There are at most [`MOST_SLICES`] slices: beyond that, each two become one of twice the
//!   length.
//!
//! Cost: a completion is recorded once, in the histogram of the current slice (about 10 ns).
//! Closing a slice takes about twenty microseconds, [`SLICES`] times per run, and less with few
//! requests: the first [`FEW`] latencies of a slice are stored individually, which avoids a pass
//! over a histogram of ten thousand empty bins.

use crate::load::profile::Operation;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};

/// The number of slices of the planned run time.
pub(crate) const SLICES: u64 = 120;
/// The maximum number of slices.
const MOST_SLICES: usize = 480;

/// The number of latencies of a slice that are stored individually before its histogram is used.
const FEW: usize = 256;

/// Longer latencies count as one hour: the time limit of a request is far below.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The resolution of latencies is a thousandth.
const DIGITS: u8 = 3;

/// An empty histogram of latencies in nanoseconds; all have the same bounds, so that sums are
/// exact.
pub(crate) fn histogram<T: hdrhistogram::Counter>() -> Histogram<T> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
        .expect("the bounds and digits are constants that a histogram takes")
}

/// Completions of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) errors: u64,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.errors += other.errors;
    }
}

/// Reads or writes of a closed slice: the counts, and the histogram as its non-empty bins (latency
/// and count), in ascending order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) count: Count,
    pub(crate) bins: Vec<(u64, u64)>,
}

impl Part {
    /// Appends a later part.
    fn join(&mut self, later: &Part) {
        self.count.add(&later.count);
        let mut joined = Vec::with_capacity(self.bins.len().max(later.bins.len()));
        let (mut a, mut b) = (self.bins.iter().peekable(), later.bins.iter().peekable());
        loop {
            let bin = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => (x.0, x.1 + y.1),
                (Some(x), Some(y)) if x.0 < y.0 => **x,
                (_, Some(y)) => **y,
                (Some(x), None) => **x,
                (None, None) => break,
            };
            a.next_if(|x| x.0 == bin.0);
            b.next_if(|y| y.0 == bin.0);
            joined.push(bin);
        }
        self.bins = joined;
    }

    /// A percentile as the upper end of its bin, which may exceed the maximum for the last one;
    /// `None` without completions.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let wanted = ((quantile * self.count.ios as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bin = self.bins.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        bin.map(|(value, _)| (*value).min(self.count.latency_max_ns))
    }

    /// The number of requests up to `latency_ns`, to the precision of a bin.
    pub(crate) fn at_most(&self, latency_ns: u64) -> u64 {
        self.bins.iter().take_while(|(value, _)| *value <= latency_ns).map(|(_, count)| count).sum()
    }
}

/// The completions of one slice.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    pub(crate) read: Part,
    pub(crate) write: Part,
}

impl Slice {
    fn join(&mut self, later: &Slice) {
        self.read.join(&later.read);
        self.write.join(&later.write);
    }

    fn keep_errors_alone(&mut self) {
        for part in [&mut self.read, &mut self.write] {
            let count = Count { errors: part.count.errors, ..Count::default() };
            *part = Part { count, bins: Vec::new() };
        }
    }

    /// Reads and writes together.
    pub(crate) fn both(&self) -> Part {
        let mut both = self.read.clone();
        both.join(&self.write);
        both
    }

    /// Completed requests.
    pub(crate) fn ios(&self) -> u64 {
        self.read.count.ios + self.write.count.ios
    }

    /// The sum of their latencies.
    pub(crate) fn latency_sum_ns(&self) -> u64 {
        self.read.count.latency_sum_ns + self.write.count.latency_sum_ns
    }
}

/// Reads, or writes, or both, over the whole window.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Direction {
    pub(crate) latencies_ns: Histogram<u64>,
    pub(crate) count: Count,
}

impl Direction {
    pub(crate) fn new() -> Direction {
        Direction { latencies_ns: histogram(), count: Count::default() }
    }

    pub(crate) fn add(&mut self, part: &Part) {
        self.count.add(&part.count);
        for (value, count) in &part.bins {
            self.latencies_ns.saturating_record_n(*value, *count);
        }
    }

    /// Both together.
    pub(crate) fn sum(&self, other: &Direction) -> Direction {
        let mut both = self.clone();
        both.count.add(&other.count);
        both.latencies_ns
            .add(&other.latencies_ns)
            .expect("all histograms here have the same bounds");
        both
    }

    /// A percentile as the upper end of its bin, which may exceed the maximum for the last one.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        self.latencies_ns.value_at_quantile(quantile).min(self.count.latency_max_ns)
    }
}

/// The current slice. Its histogram is cleared for every slice, so its counters are small (they
/// saturate).
struct Recorder {
    /// The first [`FEW`] latencies.
    few_ns: Vec<u64>,
    /// The later latencies.
    latencies_ns: Histogram<u32>,
    count: Count,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder {
            few_ns: Vec::with_capacity(FEW),
            latencies_ns: histogram(),
            count: Count::default(),
        }
    }

    #[inline]
    fn record(&mut self, latency_ns: u64, bytes: u64) {
        if self.few_ns.len() < FEW {
            self.few_ns.push(latency_ns.min(LONGEST_NS));
        } else {
            self.latencies_ns.saturating_record(latency_ns);
        }
        self.count.ios += 1;
        self.count.bytes += bytes;
        self.count.latency_sum_ns += latency_ns;
        self.count.latency_max_ns = self.count.latency_max_ns.max(latency_ns);
    }

    /// The non-empty bins in ascending order, if all latencies are stored individually.
    fn few_bins(&mut self) -> Vec<(u64, u64)> {
        self.few_ns.sort_unstable();
        let mut bins: Vec<(u64, u64)> = Vec::with_capacity(self.few_ns.len());
        for latency_ns in &self.few_ns {
            let value = self.latencies_ns.highest_equivalent(*latency_ns);
            match bins.last_mut() {
                Some((last, count)) if *last == value => *count += 1,
                _ => bins.push((value, 1)),
            }
        }
        bins
    }

    fn take(&mut self) -> Part {
        let bins = if self.count.ios <= FEW as u64 {
            self.few_bins()
        } else {
            self.few_ns
                .iter()
                .for_each(|latency_ns| self.latencies_ns.saturating_record(*latency_ns));
            let step = self.latencies_ns.iter_recorded();
            let bins = step
                .map(|step| (step.value_iterated_to(), u64::from(step.count_at_value())))
                .collect();
            self.latencies_ns.reset();
            bins
        };
        self.few_ns.clear();
        Part { count: std::mem::take(&mut self.count), bins }
    }

    /// Calls `with` for each latency with its count.
    fn each(&self, mut with: impl FnMut(u64, u64)) {
        self.few_ns.iter().for_each(|latency_ns| with(*latency_ns, 1));
        if self.count.ios > FEW as u64 {
            let steps = self.latencies_ns.iter_recorded();
            steps.for_each(|step| with(step.value_iterated_to(), u64::from(step.count_at_value())));
        }
    }
}

struct Counts {
    read: Recorder,
    write: Recorder,
    /// The closed slices, from the window's start.
    slices: Vec<Slice>,
    slice_ns: u64,
    slice_end_ns: u64,
}

/// The result of a point.
pub(crate) struct Reading {
    pub(crate) read: Direction,
    pub(crate) write: Direction,
    pub(crate) duration_ns: u64,
    /// The whole slices within it.
    pub(crate) slices: Vec<Slice>,
    pub(crate) slice_ns: u64,
}

/// The histogram of latencies by powers of two: `bins[i]` from 2^i ns to below 2^(i+1) ns.
pub type LatencyShape = [u64; 42];

/// A progress reading of a meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    /// Completions since the previous reading, including the ramp.
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_sum_ns: u64,
    /// Failures in the window so far.
    pub(crate) errors: u64,
    /// The latencies of about the last slice.
    pub(crate) shape: LatencyShape,
}

/// The meter of one point. Times are in nanoseconds of the environment's clock.
pub(crate) struct Meter {
    window_start_ns: Cell<u64>,
    window_end_ns: Cell<u64>,
    counts: RefCell<Counts>,
    recent: Cell<Count>,
    last_completion_ns: Cell<u64>,
}

impl Meter {
    /// A meter whose window is open from `window_start_ns` to `window_end_ns`, in slices of
    /// `slice_ns`.
    pub(crate) fn new(window_start_ns: u64, window_end_ns: u64, slice_ns: u64) -> Meter {
        let slice_ns = slice_ns.max(1);
        Meter {
            window_start_ns: Cell::new(window_start_ns),
            window_end_ns: Cell::new(window_end_ns),
            counts: RefCell::new(Counts {
                read: Recorder::new(),
                write: Recorder::new(),
                slices: Vec::new(),
                slice_ns,
                slice_end_ns: window_start_ns.saturating_add(slice_ns),
            }),
            recent: Cell::default(),
            last_completion_ns: Cell::new(0),
        }
    }

    /// The start of the window.
    pub(crate) fn window_start_ns(&self) -> u64 {
        self.window_start_ns.get()
    }

    /// The end of the window.
    pub(crate) fn window_end_ns(&self) -> u64 {
        self.window_end_ns.get()
    }

    /// The current length of a slice.
    pub(crate) fn slice_ns(&self) -> u64 {
        self.counts.borrow().slice_ns
    }

    /// Moves the end, which must be in the future, to a later time.
    pub(crate) fn extend(&self, end_ns: u64) {
        self.window_end_ns.set(self.window_end_ns.get().max(end_ns));
    }

    /// Ends the window now, if it is not over.
    pub(crate) fn stop(&self, now_ns: u64) {
        self.window_end_ns.set(self.window_end_ns.get().min(now_ns));
    }

    /// The time of the last completion, before or in the window.
    pub(crate) fn last_completion_ns(&self) -> u64 {
        self.last_completion_ns.get()
    }

    /// Records a completion.
    #[inline]
    pub(crate) fn complete(&self, now_ns: u64, latency_ns: u64, operation: Operation, bytes: u64) {
        let mut recent = self.recent.get();
        recent.ios += 1;
        recent.bytes += bytes;
        recent.latency_sum_ns += latency_ns;
        self.recent.set(recent);
        self.last_completion_ns.set(now_ns);
        if now_ns < self.window_start_ns.get() || now_ns >= self.window_end_ns.get() {
            return;
        }
        let counts = &mut *self.counts.borrow_mut();
        counts.close_slices(now_ns);
        counts.recorder(operation).record(latency_ns, bytes);
    }

    /// Records a failure.
    pub(crate) fn fail(&self, now_ns: u64, operation: Operation) {
        if (self.window_start_ns.get()..self.window_end_ns.get()).contains(&now_ns) {
            let counts = &mut *self.counts.borrow_mut();
            counts.close_slices(now_ns);
            counts.recorder(operation).count.errors += 1;
        }
    }

    /// Completions since the previous reading, and the state of the window.
    pub(crate) fn look(&self) -> Look {
        let counts = self.counts.borrow();
        let closed = |slice: &Slice| slice.read.count.errors + slice.write.count.errors;
        let errors = counts.slices.iter().map(closed).sum::<u64>();
        let Count { ios, bytes, latency_sum_ns, .. } = self.recent.take();
        let mut shape = [0; 42];
        let mut add = |value: u64, count: u64| {
            shape[(value.max(1).ilog2() as usize).min(41)] += count;
        };
        for recorder in [&counts.read, &counts.write] {
            recorder.each(&mut add);
        }
        for part in counts.slices.last().iter().flat_map(|slice| [&slice.read, &slice.write]) {
            part.bins.iter().for_each(|(value, count)| add(*value, *count));
        }
        let errors = errors + counts.read.count.errors + counts.write.count.errors;
        Look { ios, bytes, latency_sum_ns, errors, shape }
    }

    /// Passes the slices closed by `now_ns` to a function.
    pub(crate) fn with_slices<T>(&self, now_ns: u64, use_them: impl FnOnce(&[Slice]) -> T) -> T {
        let counts = &mut *self.counts.borrow_mut();
        counts.close_slices(now_ns.min(self.window_end_ns.get()));
        use_them(&counts.slices)
    }

    /// Moves the window's start past its first `gone` slices, which are closed.
    pub(crate) fn forget(&self, gone: usize) {
        let counts = &mut *self.counts.borrow_mut();
        let gone = gone.min(counts.slices.len());
        counts.slices.drain(..gone);
        self.window_start_ns.set(self.window_start_ns.get() + gone as u64 * counts.slice_ns);
    }

    /// The result, when no request is in flight.
    pub(crate) fn finish(&self) -> Reading {
        let end_ns = self.window_end_ns.get();
        let counts = &mut *self.counts.borrow_mut();
        counts.close_slices(end_ns);
        let duration_ns = end_ns.saturating_sub(self.window_start_ns.get());
        let mut slices = std::mem::take(&mut counts.slices);
        let (mut read, mut write) = (Direction::new(), Direction::new());
        // After an early end, later completions do not count, but failures do: they caused it.
        let after = slices.split_off(slices.len().min((duration_ns / counts.slice_ns) as usize));
        let mut last = Slice { read: counts.read.take(), write: counts.write.take() };
        let last_start_ns = counts.slice_end_ns - counts.slice_ns;
        if end_ns <= last_start_ns {
            last.keep_errors_alone();
        }
        for slice in slices.iter().chain([&last]) {
            read.add(&slice.read);
            write.add(&slice.write);
        }
        for mut slice in after {
            slice.keep_errors_alone();
            read.add(&slice.read);
            write.add(&slice.write);
        }
        Reading { read, write, duration_ns, slices, slice_ns: counts.slice_ns }
    }
}

impl Counts {
    fn recorder(&mut self, operation: Operation) -> &mut Recorder {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
        }
    }

    #[inline]
    fn close_slices(&mut self, now_ns: u64) {
        while now_ns >= self.slice_end_ns {
            self.close_slice();
        }
    }

    #[cold]
    fn close_slice(&mut self) {
        self.slices.push(Slice { read: self.read.take(), write: self.write.take() });
        if self.slices.len() == MOST_SLICES {
            let mut pairs = std::mem::take(&mut self.slices).into_iter();
            while let (Some(mut first), Some(second)) = (pairs.next(), pairs.next()) {
                first.join(&second);
                self.slices.push(first);
            }
            self.slice_ns *= 2;
        }
        self.slice_end_ns = self.slice_end_ns.saturating_add(self.slice_ns);
    }
}

#[cfg(test)]
mod tests;
