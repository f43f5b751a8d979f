//! Charts of a row's details: the distribution of its latencies, and its time series.

use super::frame::Frame;
use super::lines::{duration_tick, short};
use super::scale::{Linear, Log};
use crate::row::Row;
use crate::text::{duration, number};

/// A row with its colour, and the target's name if there are several.
pub(super) struct DetailedRow<'a> {
    pub(super) row: &'a Row,
    pub(super) series: usize,
    pub(super) name: Option<&'a str>,
}

impl DetailedRow<'_> {
    fn prefix(&self) -> String {
        self.name.map_or_else(String::new, |name| format!("{name}, "))
    }
}

/// The number of points of a curve.
const PLACES: usize = 160;
/// The percentiles with one more nine each.
const NINES: [(f64, &str); 6] =
    [(0.0, "0"), (1.0, "90"), (2.0, "99"), (3.0, "99.9"), (4.0, "99.99"), (5.0, "99.999")];

/// The latency that this share of requests does not exceed.
fn quantile(cumulative: &[(f64, u64)], share: f64) -> f64 {
    let all = cumulative.last().map_or(0, |(_, count)| *count);
    let rank = (share * all as f64).ceil().max(1.0) as u64;
    let at = cumulative.partition_point(|(_, count)| *count < rank);
    cumulative.get(at).or(cumulative.last()).map_or(0.0, |(us, _)| *us)
}

/// A row with its cumulative distribution of latencies.
type Drawn<'a> = (&'a DetailedRow<'a>, Vec<(f64, u64)>);

/// The latency of each percentile; each further nine has the same width on the axis.
pub(super) fn distribution(id: &str, profile: &str, curves: &[DetailedRow<'_>]) -> String {
    let drawn: Vec<Drawn<'_>> = curves
        .iter()
        .filter_map(|curve| {
            let cumulative = curve.row.detail.as_ref()?.cumulative_us().ok()?;
            (!cumulative.is_empty()).then_some((curve, cumulative))
        })
        .collect();
    let words: Vec<String> = drawn.iter().map(percentiles_in_words).collect();
    let title = format!("{profile}: latencies by percentile");
    let mut frame = Frame::new(id, &title, &words.join(". "), "percent of requests");
    // Up to the percentile with ten requests beyond it, but at least two nines.
    let most =
        drawn.iter().filter_map(|(_, cumulative)| cumulative.last()).map(|(_, count)| *count).max();
    let Some(most) = most else { return frame.empty("no histogram was stored") };
    let nines = (most as f64 / 10.0).log10().floor().clamp(2.0, 5.0);
    let axis = percentile_axes(&mut frame, &drawn, nines);
    for curve in &drawn {
        percentile_curve(&mut frame, &axis, nines, curve);
    }
    frame.svg.finish()
}

/// A text description of a curve, for screen readers.
fn percentiles_in_words((curve, cumulative): &Drawn<'_>) -> String {
    let at = |share: f64| duration(quantile(cumulative, share));
    format!(
        "{}{} outstanding: 50 %: {}; 90 %: {}; 99 %: {}; 99.9 %: {}",
        curve.prefix(),
        curve.row.outstanding,
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999)
    )
}

/// Draws the axes, and returns the latency axis.
fn percentile_axes(frame: &mut Frame, drawn: &[Drawn<'_>], nines: f64) -> Log {
    let high = drawn
        .iter()
        .map(|(_, cumulative)| quantile(cumulative, 1.0 - 10_f64.powf(-nines)))
        .fold(0.0, f64::max);
    // The shortest latencies would stretch the axis without a benefit.
    let low = drawn
        .iter()
        .map(|(_, cumulative)| quantile(cumulative, 0.01))
        .fold(f64::INFINITY, f64::min);
    let axis = Log::holding(low, high);
    for tick in &axis.ticks {
        frame.grid(axis.share(*tick), &duration_tick(*tick));
    }
    frame.x_tick(0.5_f64.log10().abs() / nines, "50");
    for (place, label) in NINES.iter().filter(|(place, _)| *place <= nines) {
        // The first label would overlap that of the value axis, the next is too close to it.
        if *place > 0.0 {
            frame.x_tick(place / nines, label);
        }
    }
    axis
}

/// Draws a curve with marks at the common percentiles.
fn percentile_curve(frame: &mut Frame, axis: &Log, nines: f64, (curve, cumulative): &Drawn<'_>) {
    let place = |at: usize| {
        let x = at as f64 / PLACES as f64;
        let us = quantile(cumulative, 1.0 - 10_f64.powf(-x * nines));
        (Frame::x(x), Frame::y(axis.share(us)))
    };
    let points: Vec<(f64, f64)> = (0..=PLACES).map(place).collect();
    frame.svg.polyline(&format!("line s{}", curve.series), &points);
    let marks = [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
    for (share, label) in marks {
        let x = -(1.0_f64 - share).log10() / nines;
        if x <= 1.001 {
            let us = quantile(cumulative, share);
            let tip = format!("{}{label} % took no longer than {}", curve.prefix(), duration(us));
            let at = (Frame::x(x.min(1.0)), Frame::y(axis.share(us)));
            frame.svg.mark(&format!("mark s{}", curve.series), curve.series, at, &tip);
        }
    }
}

/// The value of each slice; `None` if it has none.
fn course(row: &Row, value: fn(&crate::Detail, usize) -> Option<f64>) -> Vec<(f64, f64)> {
    let Some(detail) = &row.detail else { return Vec::new() };
    let place = |at: usize| Some(((at as f64 + 0.5) * detail.slice_s, value(detail, at)?));
    (0..detail.read.ios.len().max(detail.write.ios.len())).filter_map(place).collect()
}

fn rate(detail: &crate::Detail, at: usize) -> Option<f64> {
    let ios = detail.read.ios.get(at).unwrap_or(&0) + detail.write.ios.get(at).unwrap_or(&0);
    (detail.slice_s > 0.0).then(|| ios as f64 / detail.slice_s)
}

fn tail(detail: &crate::Detail, at: usize) -> Option<f64> {
    *detail.latency_us_p99.get(at)?
}

/// A time axis long enough for all series.
fn over_time(id: &str, title: &str, words: &str, courses: &[Vec<(f64, f64)>]) -> (Frame, f64) {
    let mut frame = Frame::new(id, title, words, "seconds");
    let longest = courses.iter().flatten().fold(0.0_f64, |longest, (s, _)| longest.max(*s));
    let axis = Linear::holding(longest);
    // The last round value may exceed the end: the axis ends with the series.
    let end = if longest > 0.0 { longest } else { 1.0 };
    for tick in axis.ticks.iter().filter(|tick| **tick <= end * 1.001) {
        frame.x_tick(tick / end, &short(*tick));
    }
    (frame, end)
}

/// Requests per second over time, by slice.
pub(super) fn rate_over_time(id: &str, profile: &str, curves: &[DetailedRow<'_>]) -> String {
    let courses: Vec<Vec<(f64, f64)>> =
        curves.iter().map(|curve| course(curve.row, rate)).collect();
    let ends = |curve: &DetailedRow<'_>, course: &Vec<(f64, f64)>| {
        let low = course.iter().fold(f64::INFINITY, |low, (_, value)| low.min(*value));
        let high = course.iter().fold(0.0_f64, |high, (_, value)| high.max(*value));
        format!("{}between {} and {} IO/s", curve.prefix(), number(low), number(high))
    };
    let words: Vec<String> = curves
        .iter()
        .zip(&courses)
        .filter(|(_, course)| !course.is_empty())
        .map(|(curve, course)| ends(curve, course))
        .collect();
    let title = format!("{profile}: requests per second over time");
    let (mut frame, end) = over_time(id, &title, &words.join("; "), &courses);
    let highest = courses.iter().flatten().fold(0.0_f64, |high, (_, value)| high.max(*value));
    if highest == 0.0 {
        return frame.empty("no time series was stored");
    }
    let axis = Linear::holding(highest);
    for tick in &axis.ticks {
        frame.grid(axis.share(*tick), &short(*tick));
    }
    frame.left_unit("IO/s");
    for (curve, course) in curves.iter().zip(&courses) {
        let points: Vec<(f64, f64)> = course
            .iter()
            .map(|(s, value)| (Frame::x(s / end), Frame::y(axis.share(*value))))
            .collect();
        frame.svg.polyline(&format!("line thin s{}", curve.series), &points);
    }
    frame.svg.finish()
}

/// The 99th percentile of each slice over time.
pub(super) fn tail_over_time(id: &str, profile: &str, curves: &[DetailedRow<'_>]) -> String {
    let courses: Vec<Vec<(f64, f64)>> =
        curves.iter().map(|curve| course(curve.row, tail)).collect();
    let title = format!("{profile}: 99th percentile of the latency over time");
    let low = courses.iter().flatten().fold(f64::INFINITY, |low, (_, us)| low.min(*us));
    let high = courses.iter().flatten().fold(0.0_f64, |high, (_, us)| high.max(*us));
    let words = if high > 0.0 {
        format!("between {} and {}", duration(low), duration(high))
    } else {
        String::new()
    };
    let (mut frame, end) = over_time(id, &title, &words, &courses);
    if high == 0.0 {
        return frame.empty("no time series was stored");
    }
    let axis = Log::holding(low, high);
    for tick in &axis.ticks {
        frame.grid(axis.share(*tick), &duration_tick(*tick));
    }
    for (curve, course) in curves.iter().zip(&courses) {
        let points: Vec<(f64, f64)> =
            course.iter().map(|(s, us)| (Frame::x(s / end), Frame::y(axis.share(*us)))).collect();
        frame.svg.polyline(&format!("line thin s{}", curve.series), &points);
    }
    frame.svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_percentiles_of_a_cumulative_count() {
        let cumulative = [(1.0, 50), (2.0, 90), (5.0, 99), (9.0, 100)];
        for (share, us) in
            [(0.0, 1.0), (0.5, 1.0), (0.51, 2.0), (0.9, 2.0), (0.99, 5.0), (0.999, 9.0), (1.0, 9.0)]
        {
            assert_eq!(quantile(&cumulative, share), us, "{share}");
        }
    }

    #[test]
    fn a_row_with_its_detail_is_drawn_and_one_without_says_so() {
        let row = sample::detailed("database", 8);
        let curves = [DetailedRow { row: &row, series: 0, name: None }];
        let figure = distribution("d", "database", &curves);
        assert!(
            figure.contains("8 outstanding: 50 %: ") && figure.contains("99.9</text>"),
            "{figure}"
        );
        assert_eq!(figure.matches("<polyline").count(), 1);
        assert!(rate_over_time("r", "database", &curves).contains("<desc id=\"r-d\">between "));
        assert!(tail_over_time("t", "database", &curves).matches("<polyline").count() == 1);
        let bare = sample::row("database", 8, 100.0, 1.0);
        let curves = [DetailedRow { row: &bare, series: 0, name: None }];
        for figure in [
            distribution("d", "database", &curves),
            rate_over_time("r", "database", &curves),
            tail_over_time("t", "database", &curves),
        ] {
            assert!(
                figure.contains(" was stored</text>")
                    && !figure.contains("NaN")
                    && !figure.contains("inf")
            );
        }
    }
}
