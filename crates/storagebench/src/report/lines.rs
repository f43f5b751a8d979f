//! Charts over outstanding I/Os: throughput and latency.

use super::frame::{Frame, LEFT, RIGHT, TOP};
use super::scale::{Linear, Log, Rungs};
use super::svg::{Anchor, Svg};
use super::table::known;
use crate::row::{Latency, Row};
use crate::text::{duration, number};

/// The rows of one target under one profile.
pub(super) struct Curve<'a> {
    pub(super) rows: Vec<&'a Row>,
    /// The index of its colour and mark.
    pub(super) series: usize,
    /// The target's name, if there are several.
    pub(super) name: Option<&'a str>,
}

/// A frame with outstanding I/Os on the horizontal axis.
fn frame(id: &str, title: &str, description: &str, curves: &[Curve<'_>]) -> (Frame, Rungs) {
    let all: Vec<u32> =
        curves.iter().flat_map(|curve| curve.rows.iter().map(|row| row.outstanding)).collect();
    let rungs = Rungs::holding(&all);
    let mut frame = Frame::new(id, title, description, "outstanding I/Os");
    for rung in rungs.labelled(&all, 0.095) {
        frame.x_tick(rungs.share(rung), &rung.to_string());
    }
    (frame, rungs)
}

/// Throughput: requests per second on the left, MiB per second on the right. For a fixed block size
/// both are the same line. Whiskers are 95 % intervals.
pub(super) fn throughput(id: &str, profile: &str, curves: &[Curve<'_>]) -> String {
    let description = describe(curves, |row| Some(format!("{} IO/s", number(row.iops))));
    let title = format!("{profile}: throughput over outstanding I/Os");
    let (mut frame, rungs) = frame(id, &title, &description, curves);
    let rows = || curves.iter().flat_map(|curve| curve.rows.iter().copied());
    let highest = rows()
        .fold(0.0_f64, |high, row| high.max(row.ci95.map_or(0.0, |ci| ci.iops[1])).max(row.iops));
    if highest == 0.0 {
        return frame.empty("nothing completed");
    }
    // Space above the peak for its label.
    let axis = Linear::holding(highest * 1.1);
    for tick in &axis.ticks {
        frame.grid(axis.share(*tick), &short(*tick));
    }
    frame.left_unit("IO/s");
    if let Some(mib_per_io) =
        rows().find(|row| row.iops > 0.0).map(|row| row.throughput_mib_s / row.iops)
    {
        for tick in Linear::holding(axis.top * mib_per_io).ticks {
            let share = tick / (axis.top * mib_per_io);
            if share <= 1.001 {
                frame.svg.line("axis", (RIGHT, Frame::y(share)), (RIGHT + 4.0, Frame::y(share)));
                frame.svg.text(
                    "tick",
                    (RIGHT + 7.0, Frame::y(share) + 4.0),
                    Anchor::Start,
                    &short(tick),
                );
            }
        }
        frame.svg.text("unit", (RIGHT + 7.0, TOP - 16.0), Anchor::Start, "MiB/s");
    }
    for curve in curves {
        let series = curve.series;
        let place =
            |row: &Row| (Frame::x(rungs.share(row.outstanding)), Frame::y(axis.share(row.iops)));
        let points: Vec<_> = curve.rows.iter().map(|row| place(row)).collect();
        frame.svg.polyline(&format!("line s{series}"), &points);
        for (row, at) in curve.rows.iter().zip(&points) {
            if let Some(interval) = row.ci95 {
                whisker(
                    &mut frame.svg,
                    series,
                    at.0,
                    interval.iops.map(|iops| Frame::y(axis.share(iops))),
                );
            }
            let tip = format!(
                "{}{} outstanding: {} IO/s, {} MiB/s{}",
                prefix(curve),
                row.outstanding,
                number(row.iops),
                number(row.throughput_mib_s),
                interval_tip(row)
            );
            frame.svg.mark(&format!("mark s{series}"), series, *at, &tip);
        }
    }
    peak(&mut frame, &rungs, curves, &axis);
    frame.svg.finish()
}

/// Labels the highest value.
fn peak(frame: &mut Frame, rungs: &Rungs, curves: &[Curve<'_>], axis: &Linear) {
    let rows = curves.iter().flat_map(|curve| curve.rows.iter().copied());
    let Some(best) = rows.reduce(|best, row| if row.iops > best.iops { row } else { best }) else {
        return;
    };
    let (x, y) = (Frame::x(rungs.share(best.outstanding)), Frame::y(axis.share(best.iops)));
    // The label stays within the frame.
    let (x, anchor) = match x {
        x if x < LEFT + 45.0 => (x.max(LEFT + 8.0), Anchor::Start),
        x if x > RIGHT - 45.0 => (x.min(RIGHT - 2.0), Anchor::End),
        x => (x, Anchor::Middle),
    };
    frame.svg.text("peak", (x, y - 9.0), anchor, &format!("{} IO/s", number(best.iops)));
}

/// Latency: the mean and the 99th percentile, on a logarithmic axis.
pub(super) fn latency(id: &str, profile: &str, curves: &[Curve<'_>]) -> String {
    let description = describe(curves, |row| {
        let latency = row.latency_us.as_ref()?;
        Some(format!("mean {}, 99th percentile {}", duration(latency.mean), known(latency.p99)))
    });
    let title = format!("{profile}: latency over outstanding I/Os");
    let (mut frame, rungs) = frame(id, &title, &description, curves);
    let latencies =
        || curves.iter().flat_map(|curve| curve.rows.iter().filter_map(|row| row.latency_us));
    let both = || latencies().flat_map(|latency| [Some(latency.mean), latency.p99]).flatten();
    let low = both().fold(f64::INFINITY, f64::min);
    let high = both().fold(0.0, f64::max);
    if high == 0.0 {
        return frame.empty("nothing completed");
    }
    let axis = Log::holding(low, high);
    for tick in &axis.ticks {
        frame.grid(axis.share(*tick), &duration_tick(*tick));
    }
    let mut ends: Vec<(f64, &str)> = Vec::new();
    for curve in curves {
        let series = curve.series;
        let line = |pick: fn(&Latency) -> Option<f64>| -> Vec<(f64, f64)> {
            let point = |row: &&Row| {
                let us = pick(row.latency_us.as_ref()?)?;
                Some((Frame::x(rungs.share(row.outstanding)), Frame::y(axis.share(us))))
            };
            curve.rows.iter().filter_map(point).collect()
        };
        let (mean, p99) = (line(|latency| Some(latency.mean)), line(|latency| latency.p99));
        let band: Vec<(f64, f64)> = p99.iter().chain(mean.iter().rev()).copied().collect();
        frame.svg.polygon(&format!("band s{series}"), &band);
        frame.svg.polyline(&format!("line dashed s{series}"), &p99);
        frame.svg.polyline(&format!("line s{series}"), &mean);
        let rows = curve.rows.iter().filter_map(|row| Some((row, row.latency_us?)));
        for ((row, latency), at) in rows.zip(&mean) {
            if let Some(interval) = row.ci95 {
                let ends = interval.latency_us_mean.map(|us| Frame::y(axis.share(us)));
                whisker(&mut frame.svg, series, at.0, ends);
            }
            let tip = format!(
                "{}{} outstanding: mean {}, median {}, 99 % {}, 99.9 % {}, longest {}",
                prefix(curve),
                row.outstanding,
                duration(latency.mean),
                duration(latency.p50),
                known(latency.p99),
                known(latency.p999),
                duration(latency.max)
            );
            frame.svg.mark(&format!("mark s{series}"), series, *at, &tip);
        }
        ends.extend(p99.last().map(|at| (at.1, "99 %")));
        ends.extend(mean.last().map(|at| (at.1, "mean")));
    }
    if curves.len() == 1 {
        name_ends(&mut frame.svg, ends);
    }
    frame.svg.finish()
}

/// Labels the lines at their right ends, moved apart where they overlap.
fn name_ends(svg: &mut Svg, mut ends: Vec<(f64, &str)>) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut above = f64::NEG_INFINITY;
    for (y, name) in ends {
        let y = y.max(above + 15.0);
        svg.text("name", (RIGHT + 9.0, y + 4.0), Anchor::Start, name);
        above = y;
    }
}

fn whisker(svg: &mut Svg, series: usize, x: f64, ends: [f64; 2]) {
    // The mark would hide a shorter whisker.
    if (ends[0] - ends[1]).abs() < 6.0 {
        return;
    }
    let class = format!("whisker s{series}");
    svg.line(&class, (x, ends[0]), (x, ends[1]));
    for y in ends {
        svg.line(&class, (x - 3.0, y), (x + 3.0, y));
    }
}

fn prefix(curve: &Curve<'_>) -> String {
    curve.name.map_or_else(String::new, |name| format!("{name}, "))
}

fn interval_tip(row: &Row) -> String {
    row.ci95.map_or_else(String::new, |interval| {
        format!(" (95 %: {} to {} IO/s)", number(interval.iops[0]), number(interval.iops[1]))
    })
}

/// The values as text.
fn describe(curves: &[Curve<'_>], value: impl Fn(&Row) -> Option<String>) -> String {
    let curve = |curve: &Curve<'_>| {
        let values = curve
            .rows
            .iter()
            .filter_map(|row| Some(format!("{}: {}", row.outstanding, value(row)?)));
        format!("{}{}", prefix(curve), values.collect::<Vec<_>>().join("; "))
    };
    curves.iter().map(curve).collect::<Vec<_>>().join(". ")
}

/// A short tick label: `500`, `20k`, `1.5M`.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 999_999.5 => (value / 1e6, "M"),
        value if value >= 9_999.5 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = format!("{value:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

pub(super) fn duration_tick(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{} µs", short(us)),
        us if us < 999_500.0 => format!("{} ms", short(us / 1e3)),
        us => format!("{} s", short(us / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (2.5, "2.5"),
            (500.0, "500"),
            (7500.0, "7500"),
            (20_000.0, "20k"),
            (1.5e6, "1.5M"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(
            [duration_tick(200.0), duration_tick(5000.0), duration_tick(2e6)],
            ["200 µs", "5 ms", "2 s"]
        );
    }

    #[test]
    fn a_figure_has_a_mark_for_every_row_and_says_its_values_in_words() {
        let results = sample::results();
        let rows = results.rows.iter().filter(|row| row.profile == "database").collect();
        let curves = [Curve { rows, series: 0, name: None }];
        let figure = throughput("f", "database", &curves);
        assert_eq!(figure.matches("class=\"mark s0\"").count(), 3);
        assert!(
            figure.contains("<desc id=\"f-d\">1: 5000 IO/s; 8: 20\u{202F}000 IO/s; 16:"),
            "{figure}"
        );
        assert!(figure.contains(">20\u{202F}000 IO/s</text>"), "the peak is written");
        let figure = latency("f", "database", &curves);
        assert_eq!(figure.matches("class=\"mark s0\"").count(), 3);
        assert!(figure.contains(">99 %</text>") && figure.contains(">mean</text>"));
    }

    #[test]
    fn rows_in_which_nothing_completed_leave_gaps_and_nothing_at_all_says_so() {
        let mut row = sample::row("database", 4, 0.0, 1.0);
        (row.latency_us, row.ci95) = (None, None);
        let curve = |rows| [Curve { rows, series: 0, name: None }];
        assert!(throughput("f", "p", &curve(vec![&row])).contains("nothing completed"));
        assert!(latency("f", "p", &curve(vec![&row])).contains("nothing completed"));
        assert!(latency("f", "p", &curve(Vec::new())).contains("nothing completed"));
        let other = sample::row("database", 8, 10.0, 1.0);
        let figure = latency("f", "p", &curve(vec![&row, &other]));
        assert_eq!(figure.matches("class=\"mark s0\"").count(), 1);
        assert!(!figure.contains("NaN") && !figure.contains("inf"));
    }
}
