//! The sections without charts: doubts, all rows, settings and environment.

use super::seconds;
use super::svg::escape;
use crate::report::table::{doubts_by_kind, known};
use crate::results::{Definition, Results};
use crate::row::notes::Grade;
use crate::row::{Row, Split};
use crate::text::{count, duration, half_width, number};

/// Every doubt once, with the rows that it concerns.
pub(super) fn doubts_section(results: &Results) -> String {
    let doubts = doubts_by_kind(results);
    if doubts.is_empty() {
        return String::new();
    }
    let item = |(grade, text, places): &(Grade, String, Vec<String>)| {
        let places = escape(&places.join("; "));
        format!("<li><span>{grade}: {}</span> <strong>{places}</strong></li>", escape(text))
    };
    format!(
        "<section><h2>Notes on the figures</h2><ul class=\"summary doubts\">{}</ul></section>\n",
        doubts.iter().map(item).collect::<String>()
    )
}

/// A column: its name, whether it is numeric, and a row's cell.
type Column = (&'static str, bool, fn(&Row) -> String);

const COLUMNS: [Column; 17] = [
    ("target", false, |row| row.target.clone()),
    ("profile", false, |row| row.profile.clone()),
    ("outstanding", true, |row| row.outstanding.to_string()),
    ("IO/s", true, |row| number(row.iops)),
    ("± 95 %", true, |row| half_width(row.ci95.map(|ci| ci.iops), row.iops)),
    ("MiB/s", true, |row| number(row.throughput_mib_s)),
    ("mean", true, |row| latency(row, |latency| Some(latency.mean))),
    ("± 95 %", true, |row| {
        let mean = row.latency_us.map_or(0.0, |latency| latency.mean);
        half_width(row.ci95.map(|ci| ci.latency_us_mean), mean)
    }),
    ("median", true, |row| latency(row, |latency| Some(latency.p50))),
    ("p99", true, |row| latency(row, |latency| latency.p99)),
    ("± 95 %", true, |row| {
        let p99 = row.latency_us.and_then(|latency| latency.p99).unwrap_or(0.0);
        half_width(row.ci95.and_then(|ci| ci.latency_us_p99), p99)
    }),
    ("p99.9", true, |row| latency(row, |latency| latency.p999)),
    ("longest", true, |row| latency(row, |latency| Some(latency.max))),
    ("time", true, |row| duration(row.duration_s * 1e6)),
    ("CPU", true, |row| row.cpu_percent.map_or_else(String::new, |share| format!("{share:.0} %"))),
    ("steady", false, |row| match row.steady_state {
        Some(steady) if steady.reached => "yes".to_owned(),
        Some(_) => "no".to_owned(),
        None => String::new(),
    }),
    ("failed", true, |row| count(row.errors)),
];

fn latency(row: &Row, pick: fn(&crate::Latency) -> Option<f64>) -> String {
    known(row.latency_us.as_ref().and_then(pick))
}

/// All rows, with the columns that have content.
pub(super) fn table_section(results: &Results) -> String {
    let wanted = |(name, _, cell): &&Column| match *name {
        "target" => results.targets().len() > 1,
        "failed" => results.rows.iter().any(|row| row.errors > 0),
        "steady" | "CPU" | "± 95 %" => results.rows.iter().any(|row| !cell(row).is_empty()),
        _ => true,
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(wanted).collect();
    let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
    let head: String = columns
        .iter()
        .map(|(name, numeric, _)| format!("<th{}>{name}</th>", class(*numeric)))
        .collect();
    let line = |row: &Row| -> String {
        let cell = |(_, numeric, cell): &&Column| {
            format!("<td{}>{}</td>", class(*numeric), escape(&cell(row)))
        };
        let best = results.best_of(&row.target, &row.profile) == Some(row);
        let class = if best { " class=\"best\"" } else { "" };
        format!("<tr{class}>{}</tr>\n", columns.iter().map(cell).collect::<String>())
    };
    let rows: String = results.rows.iter().map(line).collect();
    format!(
        "<section><h2>All rows</h2>\
         <div class=\"scroll wide\" role=\"region\" aria-label=\"All rows\" tabindex=\"0\">\
         <table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\
         <p class=\"fine\">The best row of each profile is set in bold. Sizes are binary: 1 MiB = \
         2<sup>20</sup> bytes. ± 95 %: half the width of the interval that holds the true figure \
         in 95 of 100 measurements, estimated from the spread between at least 30 equal parts of \
         the run and widened where neighbouring parts resemble one another; figures show it as \
         whiskers where it is larger than the mark. Steady: the fifths of the run (or the last \
         five rounds) differ by at most 20 % and drift by at most 10 %. An I/O counts when it \
         completes within the run, from its start to its completion.</p></section>\n"
    )
}

/// The columns of a row's reads, or writes.
type SplitColumn = (&'static str, fn(&Split) -> String);

const SPLIT_COLUMNS: [SplitColumn; 5] = [
    ("IO/s", |split| number(split.iops)),
    ("MiB/s", |split| number(split.throughput_mib_s)),
    ("mean", |split| known(split.latency_us.map(|latency| latency.mean))),
    ("p99", |split| known(split.latency_us.and_then(|latency| latency.p99))),
    ("longest", |split| known(split.latency_us.map(|latency| latency.max))),
];

/// Reads and writes separately, for rows that have both.
pub(super) fn split_section(results: &Results) -> String {
    let mixed: Vec<&Row> =
        results.rows.iter().filter(|row| row.read.ios > 0 && row.write.ios > 0).collect();
    if mixed.is_empty() {
        return String::new();
    }
    let several = results.targets().len() > 1;
    let target = if several { "<th>target</th>" } else { "" };
    let head: String = ["read", "write"]
        .iter()
        .flat_map(|way| {
            SPLIT_COLUMNS.iter().map(move |(name, _)| format!("<th class=\"n\">{way} {name}</th>"))
        })
        .collect();
    let line = |row: &&Row| {
        let target =
            if several { format!("<td>{}</td>", escape(&row.target)) } else { String::new() };
        let cells: String = [&row.read, &row.write]
            .iter()
            .flat_map(|split| {
                SPLIT_COLUMNS
                    .iter()
                    .map(|(_, cell)| format!("<td class=\"n\">{}</td>", cell(split)))
            })
            .collect();
        format!(
            "<tr>{target}<td>{}</td><td class=\"n\">{}</td>{cells}</tr>\n",
            escape(&row.profile),
            row.outstanding
        )
    };
    let rows: String = mixed.iter().map(line).collect();
    format!(
        "<section><h2>Reads and writes apart</h2>\
         <div class=\"scroll wide\" role=\"region\" aria-label=\"Reads and writes\" tabindex=\"0\">\
         <table><thead>\
         <tr>{target}<th>profile</th><th class=\"n\">outstanding</th>{head}</tr></thead>\
         <tbody>\n{rows}</tbody></table></div></section>\n"
    )
}

/// The definitions of the profiles, in input form.
pub(super) fn profiles_section(results: &Results) -> String {
    let profiles = &results.method.profiles;
    if profiles.is_empty() {
        return String::new();
    }
    let item = |profile: &Definition| {
        format!(
            "<li><strong>{}</strong><span>{}<pre>{}</pre></span></li>",
            escape(&profile.name),
            escape(&profile.load),
            escape(profile.text.trim_end())
        )
    };
    format!(
        "<section><h2>Load profiles</h2><ul class=\"summary\">{}</ul>\
         <p class=\"fine\">As a file for <code>softroc bench \
             --workload-file</code>.</p></section>\n",
        profiles.iter().map(item).collect::<String>()
    )
}

/// The settings and the environment.
pub(super) fn settings_section(results: &Results) -> String {
    let method = &results.method;
    let mut settings = vec![("Ramp", seconds(method.ramp_s))];
    match (method.steady_round_s, method.max_runtime_s, method.confidence_percent) {
        (Some(round), ..) => {
            settings.push(("Steady state", format!("rounds of {}, five alike", seconds(round))));
        }
        (None, Some(most), Some(percent)) => {
            settings.push((
                "Run time per point",
                format!("{} to {}", seconds(method.runtime_s), seconds(most)),
            ));
            settings.push(("Until within", format!("± {percent} %")));
        }
        _ => settings.push(("Run time per point", seconds(method.runtime_s))),
    }
    settings.extend([
        ("Preconditioning", method.precondition.clone()),
        ("Outstanding I/Os", method.outstanding.clone()),
        ("Workers", method.workers.to_string()),
    ]);
    settings.push(("Area", method.area.clone().unwrap_or_else(|| "the whole target".to_owned())));
    settings.extend(method.seed.map(|seed| ("Seed", seed.to_string())));
    settings.extend(method.command.clone().map(|command| ("Command", command)));
    let errors: u64 = results.rows.iter().map(|row| row.errors).sum();
    settings.push(("Failed requests", count(errors)));
    let list = |pairs: &mut dyn Iterator<Item = (&str, &str)>| -> String {
        pairs
            .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
            .collect()
    };
    let settings = list(&mut settings.iter().map(|(name, value)| (*name, value.as_str())));
    let environment = &results.environment.0;
    let environment =
        list(&mut environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let environment = if environment.is_empty() {
        String::new()
    } else {
        format!("<div><h2>Environment</h2><dl>{environment}</dl></div>")
    };
    format!(
        "<section class=\"about\"><div><h2>Settings</h2><dl>{settings}</dl></div>\
         {environment}</section>\n"
    )
}
