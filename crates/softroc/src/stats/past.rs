//! The history of volumes and drives: `volume stats --since`, `drive stats --since`.

use crate::cli::StatsSpan;
use crate::control::Control;
use crate::failure::Outcome;
use crate::output::{self, table};
use crate::render;
use control_api::HistoryReply;
use history::{Figures, Series};
use std::time::Duration;
use storagebench::duration_text;

/// The default number of intervals of a history.
const POINTS: u64 = 24;

/// `volume stats --since`.
pub fn volumes(control: &Control, names: &[String], since: Duration, stats: &StatsSpan) -> Outcome {
    show(control, ("volume", "volumes"), names, since, stats)
}

/// `drive stats --since`.
pub fn drives(control: &Control, names: &[String], since: Duration, stats: &StatsSpan) -> Outcome {
    show(control, ("drive", "drives"), names, since, stats)
}

fn show(
    control: &Control,
    (one, several): (&str, &str),
    names: &[String],
    since: Duration,
    stats: &StatsSpan,
) -> Outcome {
    let asked = |name: Option<&String>| {
        let mut query = vec![("since_s", since.as_secs().max(1).to_string())];
        query.push(match name {
            Some(name) => (if one == "volume" { "volume" } else { "drive" }, name.clone()),
            None => ("of", several.to_owned()),
        });
        let usual = if name.is_some() { POINTS } else { 1 };
        query.push(("points", stats.points.unwrap_or(usual).to_string()));
        control_api::client::history(control.place(), &query)
    };
    let mut replies = Vec::new();
    match names {
        [] => replies.push(asked(None)?),
        names => {
            for name in names {
                replies.push(asked(Some(name))?);
            }
        }
    }
    let reply = joined(replies);
    if stats.sampling.output.json {
        return output::json(&reply);
    }
    output::print(&text(one, &reply, names.len() == 1 || stats.points.is_some()))
}

/// Several replies about one object each, merged into one.
fn joined(replies: Vec<HistoryReply>) -> Option<HistoryReply> {
    replies.into_iter().reduce(|all, more| {
        let HistoryReply::History { from_unix_s, to_unix_s, step_s, mut volumes, mut drives } = all;
        let HistoryReply::History { volumes: more_volumes, drives: more_drives, .. } = more;
        volumes.extend(more_volumes);
        drives.extend(more_drives);
        HistoryReply::History { from_unix_s, to_unix_s, step_s, volumes, drives }
    })
}

const HEADERS: [&str; 9] =
    ["IOPS", "MiB/s", "mean", "p50", "p99", "queue", "hits/s", "temperature", "covered"];

/// A row for each object; for one object, also its intervals.
fn text(one: &str, reply: &Option<HistoryReply>, with_points: bool) -> String {
    let Some(HistoryReply::History { from_unix_s, to_unix_s, step_s, volumes, drives }) = reply
    else {
        return format!("No {one} has a history yet.");
    };
    let all: Vec<&Series> = volumes.iter().chain(drives).collect();
    if all.is_empty() {
        return format!("No {one} has a history yet.");
    }
    let mut text = format!("From {} to {}", render::date(*from_unix_s), render::date(*to_unix_s));
    if with_points {
        text.push_str(&format!(", in intervals of {}", span(*step_s as f64)));
    }
    text.push_str(":\n");
    if with_points {
        for series in &all {
            let rows: Vec<Vec<String>> = series
                .points
                .iter()
                .map(|point| row(render::date(point.at_unix_s), &point.figures))
                .collect();
            text.push_str(&format!("\n{}\n", lines(&series.name, &rows)));
        }
    }
    let rows: Vec<Vec<String>> =
        all.iter().map(|series| row(series.name.clone(), &series.total)).collect();
    text.push_str(&format!("\n{}", lines(one, &rows)));
    text
}

fn lines(first: &str, rows: &[Vec<String>]) -> String {
    let headers: Vec<&str> = std::iter::once(first).chain(HEADERS).collect();
    let numeric: Vec<bool> = (0..headers.len()).map(|at| at > 0).collect();
    table(&headers, rows, &numeric)
}

fn row(first: String, figures: &Figures) -> Vec<String> {
    let of = &figures.all;
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), duration_text);
    let temperature = match (figures.temperature_least_c, figures.temperature_most_c) {
        (Some(least), Some(most)) if least == most => format!("{most} °C"),
        (Some(least), Some(most)) => format!("{least} to {most} °C"),
        _ => "-".to_owned(),
    };
    vec![
        first,
        format!("{:.1}", of.iops),
        format!("{:.1}", of.throughput_mib_s),
        time(of.mean_us),
        time(of.p50_us),
        time(of.p99_us),
        format!("{:.2}", figures.queue),
        format!("{:.1}", figures.cache_hits_per_s),
        temperature,
        span(figures.covered_s),
    ]
}

/// A long time in a suitable unit.
fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 600.0 => format!("{seconds:.0} s"),
        seconds if seconds < 36_000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}
