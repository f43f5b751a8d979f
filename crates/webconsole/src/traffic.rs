//! Host I/O of a volume: the latest rates, a chart of the last 15 minutes, and a table.

use crate::words::Moment;
use crate::{Rate, Sample, World};
use askama::Template;
use units::{ByteCount, counted};

/// Rows of the table, one per minute.
const MINUTES: u64 = 15;

/// Samples that are older do not count as current. The sample interval is ten seconds.
const FRESH_S: u64 = 30;

/// The size of the chart, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 110.0;

#[derive(Template)]
#[template(path = "traffic.html")]
pub(crate) struct Traffic {
    now: Option<String>,
    /// Time of the last sample, if it is too old to be current.
    old: Option<Moment>,
    charts: Vec<Chart>,
    rows: Vec<Row>,
}

struct Chart {
    title: &'static str,
    most: String,
    reads: String,
    writes: String,
    said: String,
}

struct Row {
    at: Moment,
    cells: [String; 6],
}

impl Traffic {
    /// The traffic of the page's volume.
    pub(crate) fn of(world: &World) -> Traffic {
        let samples = &world.traffic;
        let last = samples.last();
        let is_old = |sample: &&Sample| sample.at_unix_s + FRESH_S < world.now_unix_s;
        let now = last.filter(|last| !is_old(last)).map(|last| {
            format!(
                "{}; {}.",
                sentence_part(&last.reads, "read"),
                sentence_part(&last.writes, "write")
            )
        });
        let old = last
            .filter(is_old)
            .map(|last| Moment { at_s: last.at_unix_s, now_s: world.now_unix_s });
        let charts = match samples.len() {
            0 | 1 => Vec::new(),
            _ => vec![throughput(samples), latencies(samples)],
        };
        Traffic { now, old, charts, rows: rows(world) }
    }
}

fn sentence_part(rate: &Rate, what: &str) -> String {
    let asked = format!("{} a second", counted(rate.per_s, what));
    match rate.mean_us {
        None => asked,
        Some(_) => {
            format!("{asked} ({}/s), {} each", ByteCount(rate.bytes_per_s), latency(rate.mean_us))
        }
    }
}

/// A mean time; empty without a measurement.
fn latency(mean_us: Option<u64>) -> String {
    match mean_us {
        None => "–".to_owned(),
        Some(0) => "under 1 µs".to_owned(),
        Some(us @ ..1000) => format!("{us} µs"),
        Some(us) => format!("{}.{} ms", us / 1000, us / 100 % 10),
    }
}

fn throughput(samples: &[Sample]) -> Chart {
    let of =
        |what: fn(&Sample) -> u64| samples.iter().map(|one| Some(what(one))).collect::<Vec<_>>();
    let (reads, writes) = (of(|one| one.reads.bytes_per_s), of(|one| one.writes.bytes_per_s));
    chart("Throughput", samples, &reads, &writes, |value| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{}/s", ByteCount(value)))
    })
}

fn latencies(samples: &[Sample]) -> Chart {
    let of = |what: fn(&Sample) -> Option<u64>| samples.iter().map(what).collect::<Vec<_>>();
    let (reads, writes) = (of(|one| one.reads.mean_us), of(|one| one.writes.mean_us));
    chart("Mean latency", samples, &reads, &writes, latency)
}

fn chart(
    title: &'static str,
    samples: &[Sample],
    reads: &[Option<u64>],
    writes: &[Option<u64>],
    named: impl Fn(Option<u64>) -> String,
) -> Chart {
    // Without a measurement there is no value; zero is a value.
    let top = |values: &[Option<u64>]| values.iter().copied().flatten().max();
    let most = top(reads).max(top(writes));
    let said = format!(
        "{title} over the last 15 minutes: reads up to {}, writes up to {}",
        named(top(reads)),
        named(top(writes))
    );
    Chart {
        title,
        most: named(most),
        reads: line(samples, reads, most.unwrap_or(0)),
        writes: line(samples, writes, most.unwrap_or(0)),
        said,
    }
}

/// The points of a line: now on the right, 15 minutes ago on the left. Missing values have no
/// point.
fn line(samples: &[Sample], values: &[Option<u64>], most: u64) -> String {
    let end = samples.last().map_or(0, |last| last.at_unix_s);
    let point = |(sample, value): (&Sample, u64)| {
        let ago = end.saturating_sub(sample.at_unix_s).min(MINUTES * 60) as f64;
        let x = WIDTH * (1.0 - ago / (MINUTES * 60) as f64);
        let y = HEIGHT * (1.0 - value as f64 / most.max(1) as f64);
        format!("{x:.1},{y:.1}")
    };
    let measured =
        samples.iter().zip(values).filter_map(|(sample, value)| Some((sample, (*value)?)));
    measured.map(point).collect::<Vec<_>>().join(" ")
}

/// The last sample of each minute, newest first.
fn rows(world: &World) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut minute = None;
    for sample in world.traffic.iter().rev() {
        let of = sample.at_unix_s / 60;
        if minute == Some(of) {
            continue;
        }
        minute = Some(of);
        let (reads, writes) = (&sample.reads, &sample.writes);
        rows.push(Row {
            at: Moment { at_s: sample.at_unix_s, now_s: world.now_unix_s },
            cells: [
                reads.per_s.to_string(),
                format!("{}/s", ByteCount(reads.bytes_per_s)),
                latency(reads.mean_us),
                writes.per_s.to_string(),
                format!("{}/s", ByteCount(writes.bytes_per_s)),
                latency(writes.mean_us),
            ],
        });
    }
    rows
}
