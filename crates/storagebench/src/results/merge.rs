//! Merges simultaneous measurements: several hosts on one target, or one each. Rates are added,
//! histograms are merged exactly, and percentiles are those of all requests together (never means
//! of percentiles).

use crate::results::{Environment, Method, Results};
use crate::row::detail::{Detail, LatencyHistogram, Trace};
use crate::row::notes::Note;
use crate::row::{Latency, Row, Split};
use crate::statistics::estimate::{self, BATCHES, Estimate};
use crate::statistics::intervals::Interval95;
use crate::statistics::meter::{Count, Direction};
use crate::text::rounded;
use std::fmt;

/// The reason why measurements cannot be merged: a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CannotMerge(String);

impl fmt::Display for CannotMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotMerge {}

/// Merges named measurements (by host name, for example). Rows with the same profile and number of
/// outstanding I/Os are merged; the merged row has their sum of outstanding I/Os.
///
/// # Errors
/// When there are fewer than two measurements or one is repeated, a row has no histograms, or no
/// row is in all of them.
pub fn merge(parts: &[(String, Results)]) -> Result<Results, CannotMerge> {
    let [(_, first), others @ ..] = parts else {
        return Err(CannotMerge(
            "there is nothing to merge; give two measurements or more".to_owned(),
        ));
    };
    if others.is_empty() {
        return Err(CannotMerge(
            "one measurement alone cannot be merged; give two or more".to_owned(),
        ));
    }
    for (at, (name, part)) in parts.iter().enumerate() {
        if let Some((twin, _)) = parts[..at].iter().find(|(_, other)| other.rows == part.rows) {
            return Err(CannotMerge(format!(
                "'{twin}' and '{name}' are the same measurement, which would count twice; name \
                    each once"
            )));
        }
    }
    let mut merged = Results::new(first.method.joined(parts), environment(parts));
    merged.notes = notes(parts);
    for row in &first.rows {
        let mut joined = vec![(parts[0].0.as_str(), row)];
        for (name, other) in others {
            let same =
                |other: &&Row| other.profile == row.profile && other.outstanding == row.outstanding;
            joined.extend(other.rows.iter().find(same).map(|row| (name.as_str(), row)));
        }
        if joined.len() == parts.len() {
            merged.add_row(join(&joined)?);
        } else {
            merged.notes.push(format!(
                "'{}' with {} outstanding is left out: not every part measured it.",
                row.profile, row.outstanding
            ));
        }
    }
    if merged.rows.is_empty() {
        return Err(CannotMerge(
            "no profile was measured with the same number of outstanding I/Os in all of them; \
                measure with the same settings on every host"
                .to_owned(),
        ));
    }
    Ok(merged)
}

fn environment(parts: &[(String, Results)]) -> Environment {
    let facts = |(name, results): &(String, Results)| {
        let prefix = format!("{name}: ");
        let own = |(fact, value): &(String, String)| (format!("{prefix}{fact}"), value.clone());
        let of_the_run = own_facts(&results.method);
        of_the_run.iter().chain(&results.environment.0).map(own).collect::<Vec<_>>()
    };
    Environment(parts.iter().flat_map(facts).collect())
}

/// The run-specific facts of a method, for a joint display.
pub(super) fn own_facts(method: &Method) -> Vec<(String, String)> {
    let command = method.command.clone().map(|command| ("command".to_owned(), command));
    let seed = method.seed.map(|seed| ("seed".to_owned(), seed.to_string()));
    command.into_iter().chain(seed).collect()
}

fn notes(parts: &[(String, Results)]) -> Vec<String> {
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    let mut notes = vec![format!(
        "Merged from {}: the sums hold if these ran at the same time.",
        names.join(", ")
    )];
    for (name, results) in parts {
        notes.extend(results.notes.iter().map(|note| format!("{name}: {note}")));
        let (own, first) = (&results.method, &parts[0].1.method);
        if (own.runtime_s, own.ramp_s) != (first.runtime_s, first.ramp_s) {
            notes.push(format!("{name} has other run times than {}.", names[0]));
        }
    }
    notes
}

/// The details of rows, which a merge needs.
fn details<'a>(parts: &[(&str, &'a Row)]) -> Result<Vec<&'a Detail>, CannotMerge> {
    let detail = |(name, row): &(&str, &'a Row)| {
        row.detail.as_deref().ok_or_else(|| {
            CannotMerge(format!(
                "the rows of '{name}' have no histograms; export that measurement with 'softroc \
                    bench export --json-file' and merge the file"
            ))
        })
    };
    parts.iter().map(detail).collect()
}

/// The sum of all rows' reads, or writes.
fn direction(
    rows: &[&Row],
    details: &[&Detail],
    split: fn(&Row) -> &Split,
    histogram: fn(&Detail) -> &LatencyHistogram,
) -> Result<Direction, CannotMerge> {
    let wrong = |error: crate::NotAHistogram| CannotMerge(error.to_string());
    let mut all = Direction::new();
    for (row, detail) in rows.iter().zip(details) {
        let split = split(row);
        let latency = split.latency_us.as_ref();
        all.count.ios += split.ios;
        all.count.errors += split.errors;
        all.count.latency_sum_ns +=
            latency.map_or(0, |latency| (latency.mean * 1e3 * split.ios as f64).round() as u64);
        let longest = latency.map_or(0, |latency| (latency.max * 1e3).round() as u64);
        all.count.latency_max_ns = all.count.latency_max_ns.max(longest);
        let own = histogram(detail).decode().map_err(wrong)?;
        all.latencies_ns.add(&own).map_err(|error| CannotMerge(error.to_string()))?;
    }
    Ok(all)
}

/// The time series of rows, each with its slice length.
fn traces(details: &[&Detail], trace: impl Fn(&Detail) -> Trace) -> Vec<(f64, Trace)> {
    details.iter().map(|detail| (detail.slice_s, trace(detail))).collect()
}

/// A row's part for reads or writes.
fn split_of(
    direction: &Direction,
    iops: f64,
    throughput_mib_s: f64,
    traces: &[(f64, Trace)],
) -> Split {
    let Count { ios, errors, .. } = direction.count;
    let latency_us = Latency::of(direction);
    Split { ios, iops, throughput_mib_s, latency_us, errors, ci95: interval(traces) }
}

fn join(parts: &[(&str, &Row)]) -> Result<Row, CannotMerge> {
    let details = details(parts)?;
    let rows: Vec<&Row> = parts.iter().map(|(_, row)| *row).collect();
    let read = direction(&rows, &details, |row| &row.read, |detail| &detail.read_latency_ns)?;
    let write = direction(&rows, &details, |row| &row.write, |detail| &detail.write_latency_ns)?;
    let both = read.sum(&write);
    let reads = traces(&details, |detail| detail.read.clone());
    let writes = traces(&details, |detail| detail.write.clone());
    let all = traces(&details, |detail| sum_of(&[&detail.read, &detail.write]));
    let sum = |value: fn(&Row) -> f64| rounded(rows.iter().map(|row| value(row)).sum());
    let first = rows[0];
    Ok(Row {
        target: joined_names(rows.iter().map(|row| row.target.as_str())),
        outstanding: rows.iter().map(|row| row.outstanding).sum(),
        workers: rows.iter().map(|row| row.workers).sum(),
        duration_s: rows.iter().map(|row| row.duration_s).fold(0.0, f64::max),
        ios: both.count.ios,
        iops: sum(|row| row.iops),
        throughput_mib_s: sum(|row| row.throughput_mib_s),
        latency_us: Latency::of(&both),
        // Processes on several machines have no common share.
        cpu_percent: None,
        errors: both.count.errors,
        read: split_of(
            &read,
            sum(|row| row.read.iops),
            sum(|row| row.read.throughput_mib_s),
            &reads,
        ),
        write: split_of(
            &write,
            sum(|row| row.write.iops),
            sum(|row| row.write.throughput_mib_s),
            &writes,
        ),
        ci95: interval(&all),
        resources: None,
        first_error: rows.iter().find_map(|row| row.first_error.clone()),
        steady_state: least_steady(&rows),
        notes: row_notes(parts),
        detail: Some(Box::new(detail(&details, &read, &write))),
        ..first.clone()
    })
}

/// The distinct names, joined with plus signs.
fn joined_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut each: Vec<&str> = Vec::new();
    for name in names {
        if !each.contains(&name) {
            each.push(name);
        }
    }
    each.join(" + ")
}

/// The steadiness of the least steady row.
fn least_steady(rows: &[&Row]) -> Option<crate::SteadyState> {
    let all: Option<Vec<_>> = rows.iter().map(|row| row.steady_state).collect();
    all?.into_iter()
        .reduce(|worst, steady| if worst.reached && !steady.reached { steady } else { worst })
}

fn row_notes(parts: &[(&str, &Row)]) -> Vec<Note> {
    let own = |(name, row): &(&str, &Row)| {
        let note = |note: &Note| Note { kind: note.kind, text: format!("{name}: {}", note.text) };
        row.notes.iter().map(note).collect::<Vec<_>>()
    };
    parts.iter().flat_map(own).collect()
}

/// The elementwise sum, over the slices that all have.
fn sum_of(traces: &[&Trace]) -> Trace {
    let column = |column: fn(&Trace) -> &Vec<u64>| -> Vec<u64> {
        let len = traces.iter().map(|trace| column(trace).len()).min().unwrap_or(0);
        (0..len).map(|at| traces.iter().map(|trace| column(trace)[at]).sum()).collect()
    };
    Trace {
        ios: column(|trace| &trace.ios),
        bytes: column(|trace| &trace.bytes),
        latency_ns_sum: column(|trace| &trace.latency_ns_sum),
    }
}

fn detail(details: &[&Detail], read: &Direction, write: &Direction) -> Detail {
    // Slices of different lengths have no common time series.
    let slice_s = details[0].slice_s;
    let alike = details.iter().all(|detail| detail.slice_s == slice_s);
    let course = |trace: fn(&Detail) -> &Trace| match alike {
        true => sum_of(&details.iter().map(|detail| trace(detail)).collect::<Vec<_>>()),
        false => Trace::default(),
    };
    Detail {
        slice_s,
        read: course(|detail| &detail.read),
        write: course(|detail| &detail.write),
        latency_us_p99: Vec::new(),
        read_latency_ns: LatencyHistogram::of(&read.latencies_ns),
        write_latency_ns: LatencyHistogram::of(&write.latencies_ns),
    }
}

/// A trace's column in batches, each a sum.
fn batches(column: &[u64]) -> Vec<f64> {
    let each = (column.len() / BATCHES).max(1);
    column.chunks_exact(each).map(|batch| batch.iter().sum::<u64>() as f64).collect()
}

/// The intervals of sums over independent parts.
fn interval(traces: &[(f64, Trace)]) -> Option<Interval95> {
    // Per second, for each part.
    let rates = |column: &dyn Fn(&Trace) -> Vec<f64>| -> Option<Estimate> {
        let part = |(slice_s, trace): &(f64, Trace)| {
            let batch_s = slice_s * (trace.ios.len() / BATCHES).max(1) as f64;
            let values: Vec<f64> = column(trace).iter().map(|sum| sum / batch_s).collect();
            estimate::mean(&values)
        };
        Some(total(&traces.iter().map(part).collect::<Option<Vec<_>>>()?))
    };
    let iops = rates(&|trace| batches(&trace.ios))?;
    let bytes = rates(&|trace| batches(&trace.bytes))?;
    let latency = rates(&|trace| batches(&trace.latency_ns_sum))?;
    if iops.value <= 0.0 {
        return None;
    }
    // A ratio of two sums: its error is that of the time in excess of the mean.
    let mean = latency.value / iops.value;
    let beyond = |trace: &Trace| -> Vec<f64> {
        let (times, ios) = (batches(&trace.latency_ns_sum), batches(&trace.ios));
        times.iter().zip(ios).map(|(time, ios)| time - mean * ios).collect()
    };
    let beyond = rates(&beyond)?;
    let latency = Estimate { value: mean, error: beyond.error / iops.value, ..beyond };
    Some(Interval95 {
        iops: iops.interval().map(rounded),
        latency_us_mean: latency.interval().map(|ns| rounded(ns / 1e3)),
        throughput_mib_s: Some(bytes.interval().map(|bytes| rounded(bytes / f64::from(1 << 20)))),
        freedom: iops.freedom,
        correlation: rounded(iops.correlation),
        ..Interval95::default()
    })
}

/// The sum of independent estimates, with Satterthwaite's degrees of freedom.
fn total(parts: &[Estimate]) -> Estimate {
    let variance: f64 = parts.iter().map(|part| part.error.powi(2)).sum();
    let squares: f64 = parts.iter().map(|part| part.error.powi(4) / part.freedom).sum();
    let least = parts.iter().map(|part| part.freedom).fold(f64::INFINITY, f64::min);
    Estimate {
        value: parts.iter().map(|part| part.value).sum(),
        error: variance.sqrt(),
        freedom: if squares > 0.0 { variance * variance / squares } else { least },
        correlation: parts.iter().map(|part| part.correlation).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// A run of one row whose reads took these times (in nanoseconds), this many in each of 60
    /// slices of 0.5 s.
    fn run(
        name: &str,
        outstanding: u32,
        latencies_ns: &[u64],
        per_slice: u64,
    ) -> (String, Results) {
        let mut results = sample::results();
        results.rows.clear();
        results.best.clear();
        let mut read = Direction::new();
        for latency in latencies_ns {
            read.latencies_ns.record_n(*latency, per_slice * 60).unwrap();
        }
        let each = latencies_ns.len() as u64 * per_slice;
        let sum: u64 = latencies_ns.iter().sum::<u64>() * per_slice;
        read.count = Count {
            ios: each * 60,
            bytes: each * 60 * 4096,
            latency_sum_ns: sum * 60,
            latency_max_ns: *latencies_ns.iter().max().unwrap(),
            errors: 1,
        };
        let trace = Trace {
            ios: vec![each; 60],
            bytes: vec![each * 4096; 60],
            latency_ns_sum: vec![sum; 60],
        };
        let nothing = Trace { ios: vec![0; 60], bytes: vec![0; 60], latency_ns_sum: vec![0; 60] };
        let mut row = sample::row("random,read,4K", outstanding, each as f64 * 2.0, 1.0);
        row.target = name.to_owned();
        row.read = Split::of(&read, 30.0, None);
        row.write = Split::of(&Direction::new(), 30.0, None);
        (row.ios, row.latency_us, row.throughput_mib_s) =
            (read.count.ios, row.read.latency_us, row.read.throughput_mib_s);
        row.detail = Some(Box::new(Detail {
            slice_s: 0.5,
            read: trace,
            write: nothing,
            latency_us_p99: Vec::new(),
            read_latency_ns: LatencyHistogram::of(&read.latencies_ns),
            write_latency_ns: LatencyHistogram::of(&Direction::new().latencies_ns),
        }));
        results.add_row(row);
        (name.to_owned(), results)
    }

    #[test]
    fn rates_add_up_and_histograms_merge_exactly() {
        let a = run("a", 4, &[1_000_000, 1_000_000, 1_000_000], 10);
        let b = run("b", 4, &[9_000_000], 10);
        let merged = merge(&[a.clone(), b.clone()]).unwrap();
        let row = &merged.rows[0];
        assert_eq!((row.target.as_str(), row.outstanding, row.workers), ("a + b", 8, 2));
        assert_eq!((row.ios, row.iops, row.errors), (2400, 80.0, 2));
        assert_eq!(row.throughput_mib_s, 0.313);
        let latency = row.latency_us.unwrap();
        assert_eq!((latency.mean, latency.max), (3000.0, 9000.0));
        // Three of four took 1 ms: the median is that of all requests, not a mean of medians.
        assert!(
            (latency.p50 - 1000.0).abs() < 1.0 && (latency.p90 - 9000.0).abs() < 9.0,
            "{latency:?}"
        );
        let interval = row.ci95.unwrap();
        assert_eq!((interval.iops, interval.latency_us_mean), ([80.0, 80.0], [3000.0, 3000.0]));
        // A merged result can be merged again: the order does not matter.
        let c = run("c", 8, &[2_000_000], 5);
        let again = merge(&[("ab".to_owned(), merged), c]).unwrap();
        assert_eq!((again.rows[0].ios, again.rows[0].outstanding), (2700, 16));
        assert_eq!(again.rows[0].detail.as_ref().unwrap().read.ios, vec![45; 60]);
    }

    #[test]
    fn what_cannot_be_merged_is_said() {
        let a = run("a", 4, &[1_000_000], 10);
        let sentence = |parts: &[(String, Results)]| merge(parts).unwrap_err().to_string();
        let twice = [a.clone(), ("file".to_owned(), a.1.clone())];
        assert!(
            sentence(&twice)
                .contains("'a' and 'file' are the same measurement, which would count twice")
        );
        assert!(sentence(&[]).contains("nothing to merge"));
        assert!(sentence(std::slice::from_ref(&a)).contains("one measurement alone"));
        assert!(
            sentence(&[a.clone(), run("b", 8, &[1_000_000], 10)])
                .contains("no profile was measured")
        );
        let mut bare = run("b", 4, &[1_000_000], 10);
        bare.1.rows[0].detail = None;
        assert!(sentence(&[a, bare]).starts_with("the rows of 'b' have no histograms; export"));
    }

    #[test]
    fn rows_that_one_part_lacks_are_left_out_and_named() {
        let (mut a, b) = (run("a", 4, &[1_000_000], 10), run("b", 4, &[1_000_000], 10));
        let extra = run("a", 9, &[1_000_000], 10).1.rows.remove(0);
        a.1.add_row(extra);
        let merged = merge(&[a, b]).unwrap();
        assert_eq!(merged.rows.len(), 1);
        assert!(merged.notes[0].starts_with("Merged from a, b"));
        assert!(merged.notes[1].contains("with 9 outstanding is left out"));
        assert_eq!(merged.environment.0[2].0, "b: processor");
    }
}
