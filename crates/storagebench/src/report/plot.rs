//! A single chart as a file for any program: the page's chart, with the style for light paper
//! expanded (drawing programs support neither CSS variables nor colour preferences).

use super::{STYLE, behind, best_bars, best_caption, curves, distribution, legend_entries, lines};
use crate::error::{Error, ErrorKind, Result};
use crate::results::Results;
use std::fmt;
use std::fmt::Write;
use std::str::FromStr;

/// The kind of chart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Plot {
    /// The best of each profile, in requests per second.
    #[default]
    BestIops,
    /// The best of each profile, in MiB per second.
    BestThroughput,
    /// Requests per second over outstanding I/Os; of this profile, or of the first one.
    Throughput(Option<String>),
    /// Latency over outstanding I/Os.
    Latency(Option<String>),
    /// The latencies of the best row by percentile.
    Distribution(Option<String>),
    /// Requests per second over time, of the best row.
    Time(Option<String>),
}

impl Plot {
    fn parts(&self) -> (&'static str, Option<&String>) {
        match self {
            Plot::BestIops => ("best-iops", None),
            Plot::BestThroughput => ("best-throughput", None),
            Plot::Throughput(profile) => ("throughput", profile.as_ref()),
            Plot::Latency(profile) => ("latency", profile.as_ref()),
            Plot::Distribution(profile) => ("distribution", profile.as_ref()),
            Plot::Time(profile) => ("time", profile.as_ref()),
        }
    }
}

impl Plot {
    /// The named profile, if any.
    pub fn profile(&self) -> Option<&str> {
        self.parts().1.map(String::as_str)
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (kind, Some(profile)) => write!(f, "{kind}:{profile}"),
            (kind, None) => f.write_str(kind),
        }
    }
}

impl FromStr for Plot {
    type Err = Error;

    fn from_str(text: &str) -> Result<Plot> {
        let (kind, profile) = match text.split_once(':') {
            Some((kind, profile)) => (kind, Some(profile.to_owned())),
            None => (text, None),
        };
        match (kind, &profile) {
            ("best-iops", None) => Ok(Plot::BestIops),
            ("best-throughput", None) => Ok(Plot::BestThroughput),
            ("throughput", _) => Ok(Plot::Throughput(profile)),
            ("latency", _) => Ok(Plot::Latency(profile)),
            ("distribution", _) => Ok(Plot::Distribution(profile)),
            ("time", _) => Ok(Plot::Time(profile)),
            _ => Err(Error::new(
                ErrorKind::BadSettings,
                format!(
                    "'{text}' is not a plot; expected best-iops, best-throughput, or throughput, \
                        latency, distribution or time, of a profile as in latency:database"
                ),
            )),
        }
    }
}

/// Space for the caption above, the legend below and a margin.
const MARGIN: f64 = 16.0;
const CAPTION: f64 = 30.0;
const LEGEND: f64 = 22.0;

/// A figure as an SVG file.
///
/// # Errors
/// When the results do not have its profile.
pub fn svg_plot(results: &Results, plot: &Plot) -> Result<String> {
    let (_, wanted) = plot.parts();
    let profiles = results.profiles();
    let profile = match wanted {
        Some(wanted) => profiles.iter().copied().find(|profile| profile == wanted),
        None => profiles.first().copied(),
    };
    let Some(profile) = profile else {
        let wanted = wanted.map_or("", String::as_str);
        return Err(Error::new(
            ErrorKind::BadSettings,
            format!(
                "there is no profile '{wanted}' to plot; these were measured: {}",
                profiles.join("; ")
            ),
        ));
    };
    let (caption, figure) = match plot {
        Plot::BestIops => (best_caption(false).0.to_owned(), best_bars(results, "p", false)),
        Plot::BestThroughput => (best_caption(true).0.to_owned(), best_bars(results, "p", true)),
        Plot::Throughput(_) => (
            format!("{profile}: throughput"),
            lines::throughput("p", profile, &curves(results, profile)),
        ),
        Plot::Latency(_) => (
            format!("{profile}: latency, mean and 99 %"),
            lines::latency("p", profile, &curves(results, profile)),
        ),
        Plot::Distribution(_) => (
            format!("{profile}: latency distribution"),
            distribution::distribution("p", profile, &behind(results, profile)),
        ),
        Plot::Time(_) => (
            format!("{profile}: requests per second over time"),
            distribution::rate_over_time("p", profile, &behind(results, profile)),
        ),
    };
    Ok(standalone(&caption, &figure, &legend_entries(results)))
}

/// A self-contained chart with caption and legend.
fn standalone(caption: &str, figure: &str, legend: &[(usize, String)]) -> String {
    let (width, height) = size_of(figure);
    let inner = figure.replacen(
        "<svg ",
        &format!(
            "<svg x=\"{MARGIN}\" y=\"{}\" width=\"{width}\" height=\"{height}\" ",
            MARGIN + CAPTION
        ),
        1,
    );
    let mut entries = String::new();
    for (at, (series, name)) in legend.iter().enumerate() {
        let y = MARGIN + CAPTION + height + LEGEND * (at as f64 + 0.5);
        // Writing to a string cannot fail.
        let _ = write!(
            entries,
            "<rect class=\"bar s{series}\" x=\"{MARGIN}\" y=\"{:.1}\" width=\"12\" height=\"12\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y - 1.0,
            MARGIN + 20.0,
            y + 9.5,
            super::svg::escape(name)
        );
    }
    let (all_width, all_height) =
        (width + 2.0 * MARGIN, height + CAPTION + 2.0 * MARGIN + LEGEND * legend.len() as f64);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" \
         width=\"{all_width}\" height=\"{all_height}\" \
         font-family=\"DejaVu Sans, Liberation Sans, Noto Sans, Arial, sans-serif\">\
         <style>{}</style><rect width=\"{all_width}\" height=\"{all_height}\" fill=\"{}\"/>\
         <text class=\"group\" x=\"{MARGIN}\" y=\"{}\">{}</text>{inner}{entries}</svg>\n",
        plain_style(),
        variable("paper"),
        MARGIN + 14.0,
        super::svg::escape(caption)
    )
}

/// The size of a chart's viewBox.
fn size_of(figure: &str) -> (f64, f64) {
    let inner =
        figure.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("");
    let mut numbers = inner.split(' ').filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(360.0), numbers.next().unwrap_or(248.0))
}

/// The first value of a style variable, which is for light paper.
fn variable(name: &str) -> &'static str {
    let found = STYLE.split(&format!("--{name}: ")).nth(1).and_then(|rest| rest.split(';').next());
    found.unwrap_or("#000")
}

/// The rules between the marks of the style sheet, one per line, with variables expanded; a rule
/// with a series' colour is repeated for each series.
fn plain_style() -> String {
    let figures = STYLE
        .split("/* figures */")
        .nth(1)
        .and_then(|rest| rest.split("/* end of figures */").next());
    let mut style = String::new();
    for rule in figures.unwrap_or_default().lines().map(str::trim).filter(|rule| !rule.is_empty()) {
        let Some((selectors, body)) = rule.split_once('{') else { continue };
        if body.contains("--c:") {
            continue;
        }
        if body.contains("var(--c)") {
            for series in 0..super::COLOURS {
                let own: Vec<String> = selectors
                    .split(',')
                    .map(|selector| format!("{}.s{series}", selector.trim()))
                    .collect();
                let colour = variable(&format!("s{series}"));
                let _ = write!(
                    style,
                    "{}{{{}",
                    own.join(","),
                    written_out(&body.replace("var(--c)", colour))
                );
            }
        } else {
            let _ = write!(style, "{}{{{}", selectors.trim(), written_out(body));
        }
    }
    style
}

fn written_out(body: &str) -> String {
    let mut text = body.to_owned();
    while let Some((before, rest)) = text.split_once("var(--") {
        let Some((name, after)) = rest.split_once(')') else { break };
        text = format!("{before}{}{after}", variable(name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn plots_are_named_as_they_are_read() {
        for text in [
            "best-iops",
            "best-throughput",
            "throughput",
            "latency:random,read,4K",
            "time:a",
            "distribution",
        ] {
            assert_eq!(text.parse::<Plot>().unwrap().to_string(), text);
        }
        for text in ["", "bars", "best-iops:database"] {
            let error = text.parse::<Plot>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{text}' is not a plot; expected best-iops")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_plot_stands_alone() {
        let mut results = sample::results();
        results.add_row(sample::detailed("database", 32));
        for text in [
            "best-iops",
            "best-throughput",
            "throughput:streaming",
            "latency",
            "distribution",
            "time",
        ] {
            let svg = svg_plot(&results, &text.parse().unwrap()).unwrap();
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{text}");
            assert!(
                !svg.contains("var(") && !svg.contains("NaN") && !svg.contains("--"),
                "{text}: {svg}"
            );
            assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count());
        }
        let error =
            svg_plot(&results, &Plot::Latency(Some("x".to_owned()))).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no profile 'x' to plot; these were measured: database; streaming"
        );
    }

    #[test]
    fn a_series_has_its_colour_and_other_targets_a_legend() {
        let mut results = sample::results();
        let mut other = sample::row("database", 8, 25_000.0, 300.0);
        other.target = "<b>".to_owned();
        results.add_row(other);
        let svg = svg_plot(&results, &Plot::BestIops).unwrap();
        assert!(
            svg.contains(".bar.s1{")
                && svg.contains(variable("s1"))
                && svg.contains("&lt;b&gt;</text>")
        );
        assert!(variable("s0").starts_with('#') && variable("paper") == "#ffffff");
    }
}
