//! The report: one self-contained HTML page without scripts, external fonts or images. It opens
//! from a file, in light and dark mode, on a phone and on paper.
//!
//! | module | contents |
//! | --- | --- |
//! | this one | [`html_report`]: the page |
//! | `sections` | its tables: doubts, rows, settings |
//! | `plot` | a single chart, as SVG |
//! | `lines` | curves over queue depths |
//! | `bars` | bars of the best |
//! | `distribution` | latencies by percentile, rates and tails over time |
//! | `frame`, `scale`, `svg` | drawing: axes, scales, elements |
//! | `table` | terminal output: cells for the caller's layout, and sentences |
//! | `iometer` | results in the layout of an Iometer results file |

mod bars;
mod distribution;
mod frame;
pub(crate) mod iometer;
mod lines;
mod plot;
mod scale;
mod sections;
mod svg;
pub(crate) mod table;

pub use plot::{Plot, svg_plot};

use crate::report::table::{profile_line, reached};
use crate::results::Results;
use crate::results::compare::{Change, Comparisons, ProfileChange, Verdict};
use crate::row::Row;
use crate::text::number;
use bars::{Bar, Group, bars};
use distribution::DetailedRow;
use lines::Curve;
use sections::{doubts_section, profiles_section, settings_section, split_section, table_section};
use svg::escape;

const STYLE: &str = include_str!("style.css");

/// The number of colours; further targets repeat them with another mark.
const COLOURS: usize = 5;

/// Additional content of a report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReportOptions {
    /// The heading; `None`: the target's name.
    pub title: Option<String>,
    /// Whether to state that the runs were too short to be quoted.
    pub indicative: bool,
    /// The date of the measurement, as text.
    pub date: Option<String>,
    /// The comparison of its targets.
    pub comparisons: Option<Comparisons>,
}

/// The whole page.
pub fn html_report(results: &Results, options: &ReportOptions) -> String {
    let targets = results.targets();
    let title = options.title.clone().unwrap_or_else(|| match targets[..] {
        [] => "No results".to_owned(),
        [one] => one.to_owned(),
        _ => format!("{} targets compared", targets.len()),
    });
    let mut page = String::new();
    page += &head(&title);
    page += &header(results, &title, options);
    page += &options.comparisons.as_ref().map_or_else(String::new, comparison_section);
    page += &overview(results);
    for (at, profile) in results.profiles().into_iter().enumerate() {
        page += &profile_section(results, profile, at);
    }
    page += &doubts_section(results);
    page += &table_section(results);
    page += &split_section(results);
    page += &profiles_section(results);
    page += &settings_section(results);
    page += "</main></body></html>\n";
    page
}

fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <link rel=\"icon\" href=\"data:,\"><title>{} – StorageBench</title>\n\
         <style>\n{STYLE}</style></head>\n<body><main>\n",
        escape(title)
    )
}

fn header(results: &Results, title: &str, options: &ReportOptions) -> String {
    let indicative = if options.indicative { "Indicative results" } else { "Results" };
    let date = options.date.iter().map(|date| format!(" · {}", escape(date))).collect::<String>();
    let mut text = format!(
        "<header><p class=\"overline\">StorageBench · {indicative}{date}</p><h1>{}</h1>\n\
         <p class=\"lead\">{}</p>\n",
        escape(title),
        escape(&method_sentence(results))
    );
    if options.indicative {
        text += "<p class=\"badge\"><strong>Indicative.</strong> The runs were short: good for a \
                 first look and for comparing large differences, not for quoting. Longer runs \
                 narrow the intervals.</p>\n";
    }
    if !results.notes.is_empty() {
        let notes: String =
            results.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        text += &format!("<ul class=\"notes\">{notes}</ul>\n");
    }
    text + "</header>\n"
}

fn method_sentence(results: &Results) -> String {
    let method = &results.method;
    let workers = match method.workers {
        1 => "one worker".to_owned(),
        count => format!("{count} workers"),
    };
    let ramp = if method.ramp_s > 0.0 {
        format!(" after a ramp of {}", seconds(method.ramp_s))
    } else {
        String::new()
    };
    let time = match (method.steady_round_s, method.max_runtime_s, method.confidence_percent) {
        (Some(round), ..) => format!("in rounds of {} until steady", seconds(round)),
        (None, Some(most), Some(percent)) => format!(
            "for {} to {}, until its 95 % intervals are within ± {percent} %",
            seconds(method.runtime_s),
            seconds(most)
        ),
        _ => format!("for {}", seconds(method.runtime_s)),
    };
    let profiles = match results.profiles().len() {
        1 => "One load profile".to_owned(),
        count => format!("{count} load profiles, each"),
    };
    let preconditioned = match method.precondition.as_str() {
        "none" => String::new(),
        "snia" => " The targets were filled twice before the measurement.".to_owned(),
        size => format!(" {size} were written to each target before the measurement."),
    };
    format!(
        "{profiles} measured {time}{ramp} at {} outstanding I/Os by {workers}.{preconditioned}",
        method.outstanding
    )
}

/// A profile's row in the table of verdicts.
fn verdict_row(other: &str, profile: &ProfileChange) -> String {
    let class = |verdict: Verdict| match verdict {
        Verdict::Faster => "up",
        Verdict::Slower => "down",
        Verdict::NoDifference | Verdict::Inconclusive | Verdict::Unknown => "same",
    };
    let cells = |change: &Change| {
        // The interval is below its figure: in one line the table would exceed a page.
        let text = change.text();
        let (figure, interval) = text.split_once(" (").unwrap_or((&text, ""));
        let interval = match interval {
            "" => String::new(),
            interval => format!("<br><small>({}</small>", escape(interval)),
        };
        format!(
            "<td class=\"{}\">{}</td><td class=\"n\">{}{interval}</td>",
            class(change.verdict),
            change.verdict,
            escape(figure)
        )
    };
    format!(
        "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{}{}</tr>\n",
        escape(other),
        escape(&profile.profile),
        number(profile.best_iops[0]),
        number(profile.best_iops[1]),
        cells(&profile.iops),
        cells(&profile.latency_us_p99)
    )
}

/// The verdicts, as text and as a table.
fn comparison_section(comparisons: &Comparisons) -> String {
    let sentences: String =
        comparisons.sentences().iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    let cautions: String =
        comparisons.cautions.iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    let cautions = if cautions.is_empty() {
        String::new()
    } else {
        format!("<ul class=\"notes\">{cautions}</ul>")
    };
    let rows: String = comparisons
        .comparisons
        .iter()
        .flat_map(|comparison| {
            comparison.profiles.iter().map(move |profile| verdict_row(&comparison.other, profile))
        })
        .collect();
    let baseline =
        comparisons.comparisons.first().map_or("", |comparison| comparison.baseline.as_str());
    format!(
        "<section><h2>Compared with {}</h2><ul class=\"summary plain\">{sentences}</ul>{cautions}\
         <div class=\"scroll\" role=\"region\" aria-label=\"Verdicts\" tabindex=\"0\">\
         <table class=\"verdicts\"><thead><tr>\
         <th>side</th><th>profile</th>\
         <th class=\"n\">first, best IO/s</th><th class=\"n\">side, best IO/s</th>\
         <th>rate</th><th class=\"n\">change</th>\
         <th>p99 latency</th><th class=\"n\">change</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div>\
         <p class=\"fine\">Changes are geometric means over the numbers of outstanding I/Os that \
         both sides were measured \
         at. All {} intervals are valid together at the 95 % level (Welch's t on the means of \
         equal parts of the runs, at levels divided by the number of figures). \
         Faster and slower: the interval excludes zero. No difference: it contains zero and ends \
         within 5 % of it. Inconclusive: it is wider; measure longer.</p></section>\n",
        escape(baseline),
        comparisons.figures
    )
}

/// A time in the settings' form: `30 s`, `2.5 s`, `200 ms`.
fn seconds(value: f64) -> String {
    if value > 0.0 && value < 1.0 { format!("{} ms", value * 1e3) } else { format!("{value} s") }
}

/// The series of a target.
fn series(results: &Results, target: &str) -> usize {
    results.targets().iter().position(|name| *name == target).unwrap_or(0) % COLOURS
}

/// The colour and mark of each target, if there are several.
fn legend_entries(results: &Results) -> Vec<(usize, String)> {
    let targets = results.targets();
    if targets.len() < 2 {
        return Vec::new();
    }
    targets.iter().map(|target| (series(results, target), (*target).to_owned())).collect()
}

fn legend(results: &Results) -> String {
    let entries: String = legend_entries(results)
        .iter()
        .map(|(series, name)| {
            format!("<li><span class=\"swatch s{series}\"></span>{}</li>", escape(name))
        })
        .collect();
    if entries.is_empty() { entries } else { format!("<ul class=\"legend\">{entries}</ul>") }
}

/// Bars of the best row of each profile and target, in requests or data per second.
fn best_bars(results: &Results, id: &str, data: bool) -> String {
    let bar = |row: &Row| Bar {
        value: if data { row.throughput_mib_s } else { row.iops },
        interval: row.ci95.and_then(|ci| if data { ci.throughput_mib_s } else { Some(ci.iops) }),
        series: series(results, &row.target),
        name: if results.targets().len() > 1 {
            format!(" ({})", row.target)
        } else {
            String::new()
        },
    };
    let group = |profile: &&str| Group {
        name: (*profile).to_owned(),
        bars: results
            .targets()
            .iter()
            .filter_map(|target| results.best_of(target, profile))
            .map(bar)
            .collect(),
    };
    let groups: Vec<Group> = results.profiles().iter().map(group).collect();
    let (caption, unit) = best_caption(data);
    bars(id, caption, unit, &groups)
}

fn best_caption(data: bool) -> (&'static str, &'static str) {
    if data { ("Data per second (MiB/s)", "MiB/s") } else { ("Requests per second (IO/s)", "IO/s") }
}

fn overview(results: &Results) -> String {
    let figure = |id: &str, data: bool| {
        let (caption, _) = best_caption(data);
        format!(
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(caption),
            best_bars(results, id, data)
        )
    };
    let sentences: String =
        results.profiles().iter().map(|profile| best_in_words(results, profile)).collect();
    format!(
        "<section><h2>The best of each profile</h2>{}<div class=\"plots\">{}{}</div><ul \
            class=\"summary\">{sentences}</ul></section>\n",
        legend(results),
        figure("best-iops", false),
        figure("best-mib", true),
    )
}

/// Keeps numbers and their units on one line.
fn unbroken(text: &str) -> String {
    [" IO/s", " MiB/s", " µs", " ms", " s "]
        .iter()
        .fold(text.to_owned(), |text, unit| text.replace(unit, &unit.replacen(' ', "\u{A0}", 1)))
}

/// The best result of each target under a profile, as text.
fn best_in_words(results: &Results, profile: &str) -> String {
    let targets = results.targets();
    let words: String = targets
        .iter()
        .filter_map(|target| results.best_of(target, profile))
        .map(|row| {
            let swatch = match targets.len() {
                1 => String::new(),
                _ => format!("<span class=\"swatch s{}\"></span>", series(results, &row.target)),
            };
            format!("<span>{swatch}{}</span>", escape(&unbroken(&reached(row))))
        })
        .collect();
    format!("<li><strong>{}</strong><span>{words}</span></li>", escape(profile))
}

/// The rows of each target under a profile, by outstanding I/Os.
fn curves<'a>(results: &'a Results, profile: &str) -> Vec<Curve<'a>> {
    let several = results.targets().len() > 1;
    results
        .targets()
        .into_iter()
        .map(|target| {
            let own = |row: &&Row| row.profile == profile && row.target == target;
            let mut rows: Vec<&Row> = results.rows.iter().filter(own).collect();
            rows.sort_by_key(|row| row.outstanding);
            Curve { rows, series: series(results, target), name: several.then_some(target) }
        })
        .filter(|curve| !curve.rows.is_empty())
        .collect()
}

fn profile_section(results: &Results, profile: &str, at: usize) -> String {
    let curves = curves(results, profile);
    let Some(first) = curves.first().and_then(|curve| curve.rows.first()) else {
        return String::new();
    };
    let line = profile_line(first);
    // An inline profile's name is its description.
    let about = if profile.contains(',') {
        String::new()
    } else {
        format!(" <small>{}</small>", escape(&line))
    };
    format!(
        "<section class=\"profile\"><h2>{}{about}</h2>{}<div class=\"plots\">\
         <figure><figcaption>Throughput</figcaption>{}</figure>\
         <figure><figcaption>Latency: mean (solid) and 99th percentile (dotted)</figcaption>{}\
         </figure>{}</div></section>\n",
        escape(profile),
        legend(results),
        lines::throughput(&format!("t{at}"), profile, &curves),
        lines::latency(&format!("l{at}"), profile, &curves),
        behind_figures(results, profile, at),
    )
}

/// The best row of each target with details.
fn behind<'a>(results: &'a Results, profile: &str) -> Vec<DetailedRow<'a>> {
    let targets = results.targets();
    let several = targets.len() > 1;
    targets
        .into_iter()
        .filter_map(|target| {
            let row = results.best_of(target, profile).filter(|row| row.detail.is_some())?;
            Some(DetailedRow {
                row,
                series: series(results, target),
                name: several.then_some(target),
            })
        })
        .collect()
}

/// The latency distributions and time series of the best rows.
fn behind_figures(results: &Results, profile: &str, at: usize) -> String {
    let curves = behind(results, profile);
    if curves.is_empty() {
        return String::new();
    }
    let mut depths: Vec<String> =
        curves.iter().map(|curve| curve.row.outstanding.to_string()).collect();
    depths.dedup();
    let depth = match depths.len() {
        1 => format!("{} outstanding", depths[0]),
        _ => format!("the best row of each: {} outstanding", depths.join(", ")),
    };
    format!(
        "<figure><figcaption>Latency distribution, {depth}</figcaption>{}</figure>\
         <figure><figcaption>Requests per second over time, {depth}</figcaption>{}</figure>\
         <figure><figcaption>99th percentile over time, {depth}</figcaption>{}</figure>",
        distribution::distribution(&format!("d{at}"), profile, &curves),
        distribution::rate_over_time(&format!("r{at}"), profile, &curves),
        distribution::tail_over_time(&format!("o{at}"), profile, &curves),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn count(page: &str, part: &str) -> usize {
        page.matches(part).count()
    }

    #[test]
    fn the_page_is_whole_and_fetches_nothing() {
        let page = html_report(&sample::results(), &ReportOptions::default());
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        for part in ["http://", "https://", "<script", "url(", "@import", "NaN", "inf\""] {
            assert!(!page.contains(part), "{part}");
        }
        assert!(page.contains("width=device-width") && page.contains("prefers-color-scheme"));
        // Two bar charts and two charts for each of the two profiles, each with a text for screen
        // readers.
        assert_eq!(count(&page, "<svg "), 6);
        assert_eq!((count(&page, "<desc "), count(&page, "role=\"img\"")), (6, 6));
        // All rows, and the row of the profile that reads and writes again, split.
        assert_eq!(count(&page, "<tr"), (1 + 6) + (1 + 3));
        assert_eq!(count(&page, "<tr class=\"best\">"), 2);
        for tag in [
            "section",
            "figure",
            "figcaption",
            "svg",
            "table",
            "ul",
            "dl",
            "div",
            "main",
            "h2",
            "p",
        ] {
            let opened = count(&page, &format!("<{tag}>")) + count(&page, &format!("<{tag} "));
            assert_eq!(opened, count(&page, &format!("</{tag}>")), "{tag}");
        }
    }

    #[test]
    fn ids_are_unique() {
        let page = html_report(&sample::results(), &ReportOptions::default());
        let mut ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn short_runs_are_called_indicative_and_notes_are_shown() {
        let mut results = sample::results();
        let plain = html_report(&results, &ReportOptions::default());
        assert!(!plain.contains("ndicative"));
        results.notes.push("stopped <early>".to_owned());
        let options = ReportOptions {
            indicative: true,
            date: Some("today".to_owned()),
            ..Default::default()
        };
        let page = html_report(&results, &options);
        assert!(page.contains("StorageBench · Indicative results · today"));
        assert!(page.contains("<li>stopped &lt;early&gt;</li>"));
    }

    #[test]
    fn several_targets_share_the_figures_and_have_a_legend() {
        let mut results = sample::results();
        let mut other = sample::row("database", 8, 25_000.0, 300.0);
        other.target = "<evil>".to_owned();
        results.add_row(other);
        let page = html_report(&results, &ReportOptions::default());
        assert!(
            page.contains("<span class=\"swatch s1\"></span>&lt;evil&gt;")
                && !page.contains("<evil>")
        );
        assert_eq!(count(&page, "<svg "), 6);
        assert!(page.contains("mark s1"));
        assert!(page.contains("<h1>2 targets compared</h1>"));
    }

    #[test]
    fn a_report_of_nothing_is_still_a_page() {
        let mut results = sample::results();
        results.rows.clear();
        results.best.clear();
        let page = html_report(&results, &ReportOptions::default());
        assert!(page.contains("<h1>No results</h1>") && page.ends_with("</html>\n"));
    }
}
