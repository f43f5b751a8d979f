//! What was asked of volumes or drives, and how long it took.

use super::text::{Kind, Page};
use super::{Named, column};
use controller::WorkInfo;

/// The names of the families, for one kind of thing.
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

/// Writes the families. `of`: what was asked of one of `rows`; `whose`: by whom, of what, for people.
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
    counter(names.reads, "Reads that have ended, also with an error,", "read", |work| work.completed);
    counter(names.read_bytes, "Bytes read,", "read", |work| work.bytes);
    counter(names.writes, "Writes that have ended, also with an error,", "write", |work| work.completed);
    counter(names.written_bytes, "Bytes written, zeroes included,", "write", |work| work.bytes);
    counter(names.trims, "Trims that have ended, also with an error,", "trim", |work| work.completed);
    counter(names.trimmed_bytes, "Bytes given up,", "trim", |work| work.bytes);
    counter(names.flushes, "Flushes that have ended, also with an error,", "flush", |work| work.completed);
    let mut family = page.family(names.errors, Kind::Counter, &format!("Operations that failed, {whose}."));
    for row in rows {
        for work in of(row.what) {
            family.series(&row.labels.clone().with("operation", &work.operation), work.failed);
        }
    }
    let help = format!("Operations that are under way, {whose}.");
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
        let help = format!("How long {what} took, {whose}.");
        let mut family = page.family(name, Kind::Histogram, &help);
        for row in rows {
            if let Some(work) = of(row.what).iter().find(|work| work.operation == operation) {
                family.histogram(&row.labels, &bounds, &work.buckets, seconds(work.time_ns));
            }
        }
    }
}
