//! Operations on volumes or drives, and their latencies.

use super::text::{Kind, Page};
use super::{Named, column};
use controller::WorkInfo;

/// The names of the families, for volumes or drives.
pub(super) struct Names {
    pub(super) reads: &'static str,
    pub(super) read_bytes: &'static str,
    pub(super) read_time: &'static str,
    pub(super) writes: &'static str,
    pub(super) written_bytes: &'static str,
    pub(super) write_time: &'static str,
    pub(super) trims: &'static str,
    pub(super) trimmed_bytes: &'static str,
    pub(super) flushes: &'static str,
    pub(super) flush_time: &'static str,
    pub(super) trim_time: &'static str,
    pub(super) errors: &'static str,
    pub(super) inflight: &'static str,
}

/// Nanoseconds in seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes the families. `of`: the operations of a row; `whose`: the source of the operations, for
/// the help text.
pub(super) fn write<T>(
    page: &mut Page,
    names: &Names,
    whose: &str,
    bounds_ns: &[u64],
    rows: &[Named<'_, T>],
    of: impl Fn(&T) -> &[WorkInfo],
) {
    let number_of = |row: &T, operation: &str, number: fn(&WorkInfo) -> u64| {
        of(row).iter().find(|work| work.operation == operation).map(number)
    };
    let mut counter = |name, what: &str, operation: &'static str, number: fn(&WorkInfo) -> u64| {
        let help = format!("{what} {whose}.");
        column(page, name, Kind::Counter, &help, rows, |row| number_of(row, operation, number));
    };
    counter(names.reads, "Completed reads, including failed ones,", "read", |work| work.completed);
    counter(names.read_bytes, "Bytes read,", "read", |work| work.bytes);
    counter(names.writes, "Completed writes, including failed ones,", "write", |work| {
        work.completed
    });
    counter(names.written_bytes, "Bytes written, zeroes included,", "write", |work| work.bytes);
    counter(names.trims, "Completed trims, including failed ones,", "trim", |work| work.completed);
    counter(names.trimmed_bytes, "Bytes trimmed,", "trim", |work| work.bytes);
    counter(names.flushes, "Completed flushes, including failed ones,", "flush", |work| {
        work.completed
    });
    let mut family =
        page.family(names.errors, Kind::Counter, &format!("Failed operations {whose}."));
    for row in rows {
        for work in of(row.what) {
            family.series(&row.labels.clone().with("operation", &work.operation), work.failed);
        }
    }
    let help = format!("Outstanding operations {whose}.");
    column(page, names.inflight, Kind::Gauge, &help, rows, |row| {
        let work = of(row);
        (!work.is_empty()).then(|| work.iter().map(|work| work.outstanding).sum::<u64>())
    });
    let bounds: Vec<String> = bounds_ns.iter().map(|ns| seconds(*ns).to_string()).collect();
    let times = [
        (names.read_time, "read", "reads"),
        (names.write_time, "write", "writes"),
        (names.flush_time, "flush", "flushes"),
        (names.trim_time, "trim", "trims"),
    ];
    for (name, operation, what) in times {
        let help = format!("Latency of {what} {whose}.");
        let mut family = page.family(name, Kind::Histogram, &help);
        for row in rows {
            if let Some(work) = of(row.what).iter().find(|work| work.operation == operation) {
                family.histogram(&row.labels, &bounds, &work.buckets, seconds(work.time_ns));
            }
        }
    }
}
