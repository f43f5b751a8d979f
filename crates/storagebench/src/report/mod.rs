//! The report: one HTML page with everything in it. No script, no font, no picture from elsewhere; it opens
//! from a file, in light and dark, on a phone and on paper.

mod bars;
mod lines;
mod scale;
mod svg;

use crate::results::Results;
use crate::row::Row;
use crate::table::{Table, number, profile_line, reached};
use bars::{Bar, Group, bars};
use lines::Curve;
use svg::escape;

const STYLE: &str = include_str!("style.css");

/// How many targets have a colour of their own; further ones begin anew, with another mark.
const COLOURS: usize = 5;

/// What a report says beside its results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportOptions {
    /// The heading; `None`: the target's name.
    pub title: Option<String>,
    /// Whether to say that the runs were too short to be quoted.
    pub indicative: bool,
    /// When it was measured, as it shall be read.
    pub date: Option<String>,
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
    page += &overview(results);
    for (at, profile) in results.profiles().into_iter().enumerate() {
        page += &profile_section(results, profile, at);
    }
    page += &table_section(results);
    page += &settings_section(results);
    page += "</main></body></html>\n";
    page
}

fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <link rel=\"icon\" href=\"data:,\"><title>{} – StorageBench</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n",
        escape(title)
    )
}

fn header(results: &Results, title: &str, options: &ReportOptions) -> String {
    let indicative = if options.indicative { "Indicative results" } else { "Results" };
    let date = options.date.iter().map(|date| format!(" · {}", escape(date))).collect::<String>();
    let mut text = format!(
        "<header><p class=\"overline\">StorageBench · {indicative}{date}</p><h1>{}</h1>\n<p class=\"lead\">{}</p>\n",
        escape(title),
        escape(&method_sentence(results))
    );
    if options.indicative {
        text += "<p class=\"badge\"><strong>Indicative.</strong> The runs were short: good for a first look and for \
                 comparing large differences, not for quoting. Longer runs narrow the intervals.</p>\n";
    }
    if !results.notes.is_empty() {
        let notes: String = results.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
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
    format!(
        "{} load profiles, each measured for {}{ramp} at {} outstanding I/Os by {workers}.",
        results.profiles().len(),
        seconds(method.runtime_s),
        method.outstanding.replace("..", " to ").replace(',', ", "),
    )
}

/// A time that somebody asked for: `30 s`, `2.5 s`, `200 ms`.
fn seconds(value: f64) -> String {
    if value > 0.0 && value < 1.0 { format!("{} ms", value * 1e3) } else { format!("{value} s") }
}

/// Which series a target is.
fn series(results: &Results, target: &str) -> usize {
    results.targets().iter().position(|name| *name == target).unwrap_or(0) % COLOURS
}

/// Which colour and mark is which target, where there are several.
fn legend(results: &Results) -> String {
    let targets = results.targets();
    if targets.len() < 2 {
        return String::new();
    }
    let entries: String = targets
        .iter()
        .map(|target| {
            format!("<li><span class=\"swatch s{}\"></span>{}</li>", series(results, target), escape(target))
        })
        .collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

fn overview(results: &Results) -> String {
    let figure = |id: &str, caption: &str, unit: &str, value: fn(&Row) -> f64, interval: bool| {
        let group = |profile: &&str| Group {
            name: (*profile).to_owned(),
            bars: results
                .targets()
                .iter()
                .filter_map(|target| results.best_of(target, profile))
                .map(|row| Bar {
                    value: value(row),
                    interval: row.ci95.filter(|_| interval).map(|interval| interval.iops),
                    series: series(results, &row.target),
                    name: if results.targets().len() > 1 {
                        format!(" ({})", row.target)
                    } else {
                        String::new()
                    },
                })
                .collect(),
        };
        let groups: Vec<Group> = results.profiles().iter().map(group).collect();
        format!(
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(caption),
            bars(id, caption, unit, &groups)
        )
    };
    let sentences: String =
        results.profiles().iter().map(|profile| best_in_words(results, profile)).collect();
    format!(
        "<section><h2>The best of each profile</h2>{}<div class=\"plots\">{}{}</div><ul class=\"summary\">{sentences}</ul></section>\n",
        legend(results),
        figure("best-iops", "Requests per second (IO/s)", "IO/s", |row| row.iops, true),
        figure("best-mib", "Data per second (MiB/s)", "MiB/s", |row| row.throughput_mib_s, false),
    )
}

/// Numbers stay on one line with their units.
fn unbroken(text: &str) -> String {
    [" IO/s", " MiB/s", " µs", " ms", " s "]
        .iter()
        .fold(text.to_owned(), |text, unit| text.replace(unit, &unit.replacen(' ', "\u{A0}", 1)))
}

/// What each target reached under a profile.
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

fn profile_section(results: &Results, profile: &str, at: usize) -> String {
    let several = results.targets().len() > 1;
    let curves: Vec<Curve<'_>> = results
        .targets()
        .into_iter()
        .map(|target| {
            let own = |row: &&Row| row.profile == profile && row.target == target;
            let mut rows: Vec<&Row> = results.rows.iter().filter(own).collect();
            rows.sort_by_key(|row| row.outstanding);
            Curve { rows, series: series(results, target), name: several.then_some(target) }
        })
        .filter(|curve| !curve.rows.is_empty())
        .collect();
    let Some(first) = curves.first().and_then(|curve| curve.rows.first()) else { return String::new() };
    let line = profile_line(first);
    // An inline profile's name says all of it.
    let about =
        if profile.contains(',') { String::new() } else { format!(" <small>{}</small>", escape(&line)) };
    format!(
        "<section><h2>{}{about}</h2>{}<div class=\"plots\">\
         <figure><figcaption>Throughput</figcaption>{}</figure>\
         <figure><figcaption>Latency: mean (solid) and 99th percentile (dotted)</figcaption>{}</figure></div></section>\n",
        escape(profile),
        legend(results),
        lines::throughput(&format!("t{at}"), profile, &curves),
        lines::latency(&format!("l{at}"), profile, &curves),
    )
}

fn table_section(results: &Results) -> String {
    let table = Table::of(results);
    let class = |column: usize| if table.numeric[column] { " class=\"n\"" } else { "" };
    let cells = |tag: &str, cells: &[String]| -> String {
        let cell = |(at, text): (usize, &String)| format!("<{tag}{}>{}</{tag}>", class(at), escape(text));
        cells.iter().enumerate().map(cell).collect()
    };
    let rows: String = results
        .rows
        .iter()
        .zip(&table.rows)
        .map(|(row, texts)| {
            let best = results.best_of(&row.target, &row.profile) == Some(row);
            let class = if best { " class=\"best\"" } else { "" };
            format!("<tr{class}>{}</tr>\n", cells("td", texts))
        })
        .collect();
    format!(
        "<section><h2>All rows</h2><div class=\"scroll\" role=\"region\" aria-label=\"All rows\" tabindex=\"0\">\
         <table><thead><tr>{}</tr></thead><tbody>\n{rows}</tbody></table></div>\
         <p class=\"fine\">The best row of each profile is set in bold. Sizes are binary: 1 MiB = 2<sup>20</sup> bytes. \
         ± 95 %: half the width of the interval that holds the true rate in 95 of 100 measurements, estimated from the \
         spread between 30 equal parts of the run; figures show it as whiskers where it is larger than the mark. \
         An I/O counts when it completes within the run, from its start to its completion.</p></section>\n",
        cells("th", &table.headers)
    )
}

fn settings_section(results: &Results) -> String {
    let method = &results.method;
    let mut settings = vec![
        ("Run time per point", seconds(method.runtime_s)),
        ("Ramp", seconds(method.ramp_s)),
        ("Outstanding I/Os", method.outstanding.clone()),
        ("Workers", method.workers.to_string()),
    ];
    settings.push(("Area", method.area.clone().unwrap_or_else(|| "the whole target".to_owned())));
    let errors: u64 = results.rows.iter().map(|row| row.errors).sum();
    settings.push(("Failed requests", number(errors as f64)));
    let list = |pairs: &mut dyn Iterator<Item = (&str, &str)>| -> String {
        pairs.map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))).collect()
    };
    let settings = list(&mut settings.iter().map(|(name, value)| (*name, value.as_str())));
    let environment = &results.environment.0;
    let environment = list(&mut environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let environment = if environment.is_empty() {
        String::new()
    } else {
        format!("<div><h2>Environment</h2><dl>{environment}</dl></div>")
    };
    format!(
        "<section class=\"about\"><div><h2>Settings</h2><dl>{settings}</dl></div>{environment}</section>\n"
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
        // Two figures of bars and two for each of the two profiles, each with words for who cannot see them.
        assert_eq!(count(&page, "<svg "), 6);
        assert_eq!((count(&page, "<desc "), count(&page, "role=\"img\"")), (6, 6));
        assert_eq!(count(&page, "<tr"), 1 + 6);
        assert_eq!(count(&page, "<tr class=\"best\">"), 2);
        for tag in ["section", "figure", "figcaption", "svg", "table", "ul", "dl", "div", "main", "h2", "p"] {
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
        let options =
            ReportOptions { indicative: true, date: Some("today".to_owned()), ..Default::default() };
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
        assert!(page.contains("<span class=\"swatch s1\"></span>&lt;evil&gt;") && !page.contains("<evil>"));
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
