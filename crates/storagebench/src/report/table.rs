//! Terminal output: cells for the caller's layout, and sentences.

use crate::results::Results;
use crate::row::Row;
use crate::row::notes::{Grade, NoteKind};
use crate::text::{duration, half_width, number};
use std::collections::BTreeMap;
use units::ByteCount;

/// A table of texts, without lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The names of the columns.
    pub headers: Vec<String>,
    /// The cells, one per header in each row.
    pub rows: Vec<Vec<String>>,
    /// Which columns are numeric, and thus right-aligned.
    pub numeric: Vec<bool>,
}

/// The columns, and whether each is numeric.
const COLUMNS: [(&str, bool); 10] = [
    ("target", false),
    ("profile", false),
    ("outstanding", true),
    ("IO/s", true),
    ("± 95 %", true),
    ("MiB/s", true),
    ("mean", true),
    ("p99", true),
    ("CPU", true),
    ("errors", true),
];

impl Table {
    /// All rows. The target column is omitted for a single target, the error column without errors.
    pub fn of(results: &Results) -> Table {
        let rows: Vec<&Row> = results.rows.iter().collect();
        Table::of_rows(&rows, results)
    }

    /// The best row of each profile of each target.
    pub fn of_best(results: &Results) -> Table {
        let mut rows = Vec::new();
        for profile in results.profiles() {
            rows.extend(
                results.targets().into_iter().filter_map(|target| results.best_of(target, profile)),
            );
        }
        Table::of_rows(&rows, results)
    }

    fn of_rows(rows: &[&Row], results: &Results) -> Table {
        let wanted = |column: &str| match column {
            "target" => results.targets().len() > 1,
            "errors" => results.rows.iter().any(|row| row.errors > 0),
            "CPU" => results.rows.iter().any(|row| row.cpu_percent.is_some()),
            "± 95 %" => results.rows.iter().any(|row| row.ci95.is_some()),
            _ => true,
        };
        let columns: Vec<(usize, &str, bool)> = COLUMNS
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| wanted(name))
            .map(|(at, (name, numeric))| (at, *name, *numeric))
            .collect();
        let cells = |row: &&Row| {
            let all = cells(row);
            columns.iter().map(|(at, ..)| all[*at].clone()).collect()
        };
        Table {
            headers: columns.iter().map(|(_, name, _)| (*name).to_owned()).collect(),
            rows: rows.iter().map(cells).collect(),
            numeric: columns.iter().map(|(_, _, numeric)| *numeric).collect(),
        }
    }
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let latency =
        |pick: fn(&crate::Latency) -> Option<f64>| known(row.latency_us.as_ref().and_then(pick));
    let spread = half_width(row.ci95.map(|ci| ci.iops), row.iops);
    [
        row.target.clone(),
        row.profile.clone(),
        row.outstanding.to_string(),
        number(row.iops),
        spread,
        number(row.throughput_mib_s),
        latency(|latency| Some(latency.mean)),
        latency(|latency| latency.p99),
        row.cpu_percent.map_or_else(String::new, |share| format!("{share:.0} %")),
        row.errors.to_string(),
    ]
}

/// A row in a line: `database, 8 outstanding: 20 000 IO/s ± 2.00 %, 156 MiB/s, mean 400 µs, p99
/// 1.20 ms`.
pub fn row_text(row: &Row) -> String {
    let half = half_width(row.ci95.map(|ci| ci.iops), row.iops);
    let half = if half.is_empty() { half } else { format!(" ± {half}") };
    let latency = row.latency_us.map_or_else(String::new, |latency| {
        format!(", mean {}{}", duration(latency.mean), tail(&latency))
    });
    let is_invalid = row.notes.iter().any(|note| note.kind.grade() == Grade::Invalid);
    let invalid = if is_invalid { " (invalid: see the notes)" } else { "" };
    format!(
        "{}: {}, {} outstanding: {} IO/s{half}, {} MiB/s{latency}{invalid}",
        row.target,
        row.profile,
        row.outstanding,
        number(row.iops),
        number(row.throughput_mib_s)
    )
}

/// The results, as a sentence per profile and target; then the notes.
pub fn summary(results: &Results) -> Vec<String> {
    let several = results.targets().len() > 1;
    let mut sentences = Vec::new();
    for profile in results.profiles() {
        for target in results.targets() {
            let Some(row) = results.best_of(target, profile) else { continue };
            let subject = if several { format!("{target}, {profile}") } else { profile.to_owned() };
            sentences.push(format!("{subject}: {}.", reached(row)));
        }
    }
    sentences.extend(results.notes.iter().map(|note| format!("{}.", note.trim_end_matches('.'))));
    sentences
}

/// Each kind of note once, with its grade and the rows that it concerns, the gravest first.
pub fn doubts(results: &Results) -> Vec<String> {
    let doubts = doubts_by_kind(results);
    let line = |(grade, text, places): &(Grade, String, Vec<String>)| {
        format!("{grade}: {}: {text}", places.join("; "))
    };
    doubts.iter().map(line).collect()
}

/// Each kind of doubt once, with the text of the first row, and the rows that it concerns:
/// `database, 8`, or `database, 1, 2, 4` for several, or `all rows`.
pub(crate) fn doubts_by_kind(results: &Results) -> Vec<(Grade, String, Vec<String>)> {
    let several = results.targets().len() > 1;
    let mut kinds: BTreeMap<NoteKind, (String, Vec<&Row>)> = BTreeMap::new();
    for row in &results.rows {
        for note in &row.notes {
            let (_, rows) =
                kinds.entry(note.kind).or_insert_with(|| (note.text.clone(), Vec::new()));
            if !rows.last().is_some_and(|last| std::ptr::eq(*last, row)) {
                rows.push(row);
            }
        }
    }
    let said = |(kind, (text, rows)): (NoteKind, (String, Vec<&Row>))| {
        let places = match rows.len() {
            all if all == results.rows.len() && all > 1 => vec!["all rows".to_owned()],
            _ => places(&rows, several),
        };
        match rows.len() {
            1 => (kind.grade(), text, places),
            _ => (kind.grade(), format!("{text} (Figures of the first row.)"), places),
        }
    };
    let mut doubts: Vec<(Grade, String, Vec<String>)> = kinds.into_iter().map(said).collect();
    doubts.sort_by_key(|(grade, ..)| *grade);
    doubts
}

/// The names of these rows, grouped by target and profile: `database, 1, 2, 4`.
fn places(rows: &[&Row], several_targets: bool) -> Vec<String> {
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let target = if several_targets { format!("{}, ", row.target) } else { String::new() };
        let whose = format!("{target}{}", row.profile);
        match places.iter_mut().find(|(known, _)| *known == whose) {
            Some((_, depths)) => depths.push(row.outstanding.to_string()),
            None => places.push((whose, vec![row.outstanding.to_string()])),
        }
    }
    places.into_iter().map(|(whose, depths)| format!("{whose}, {}", depths.join(", "))).collect()
}

/// A time, or a dash if unknown.
pub(crate) fn known(us: Option<f64>) -> String {
    us.map_or_else(|| "–".to_owned(), duration)
}

/// The 99th percentile as a suffix to the mean; empty if too few requests completed.
fn tail(latency: &crate::Latency) -> String {
    latency.p99.map_or_else(String::new, |p99| format!(", p99 {}", duration(p99)))
}

/// The result of a row, as text.
pub(crate) fn reached(row: &Row) -> String {
    match &row.latency_us {
        Some(latency) => format!(
            "up to {} IO/s ({} MiB/s) with {} outstanding, mean latency {}{}",
            number(row.iops),
            number(row.throughput_mib_s),
            row.outstanding,
            duration(latency.mean),
            tail(latency),
        ),
        None => "nothing completed".to_owned(),
    }
}

/// The profile of a row, for captions: `random, 67% read, 8 KiB`.
pub(crate) fn profile_line(row: &Row) -> String {
    let share = match row.read_percent {
        100 => "read".to_owned(),
        0 => "write".to_owned(),
        percent => format!("{percent} % read"),
    };
    let block = match (row.block_bytes, &row.blocks) {
        (Some(bytes), _) => ByteCount(bytes).to_string(),
        (None, Some(blocks)) => format!("{} block sizes", blocks.len()),
        (None, None) => "mixed blocks".to_owned(),
    };
    format!("{}, {share}, {block}", row.access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_row_has_a_cell_for_every_column_that_says_something() {
        let mut results = sample::results();
        let table = Table::of(&results);
        assert_eq!(
            table.headers,
            ["profile", "outstanding", "IO/s", "± 95 %", "MiB/s", "mean", "p99", "CPU"]
        );
        assert_eq!(
            table.rows[1],
            ["database", "8", "20\u{202F}000", "2.00 %", "156", "400 µs", "1.20 ms", "42 %"]
        );
        assert!(table.rows.iter().all(|row| row.len() == table.headers.len()));
        assert_eq!(table.numeric.len(), table.headers.len());
        assert_eq!(Table::of_best(&results).rows.len(), 2);
        let mut other = sample::row("database", 8, 10.0, 100.0);
        (other.target, other.errors, other.latency_us, other.ci95) =
            ("b".to_owned(), 3, None, None);
        results.add_row(other);
        let table = Table::of(&results);
        assert_eq!(table.headers.first().unwrap(), "target");
        assert_eq!(
            table.rows.last().unwrap()[1..],
            ["database", "8", "10.0", "", "0.08", "–", "–", "42 %", "3"]
        );
        assert_eq!(Table::of_best(&results).rows.len(), 3);
    }

    #[test]
    fn a_doubt_is_said_once_with_the_rows_that_it_is_about() {
        let mut results = sample::results();
        let note = |kind, text: &str| crate::row::notes::Note { kind, text: text.to_owned() };
        for row in &mut results.rows {
            row.notes = vec![note(NoteKind::CpuSaturated, "busy.")];
        }
        results.rows[0].notes.push(note(NoteKind::Thermal, "hot."));
        results.rows[2].notes.push(note(NoteKind::Thermal, "hotter."));
        results.rows[3].notes.push(note(NoteKind::StolenTime, "stolen."));
        let depth = |at: usize| results.rows[at].outstanding;
        let said = doubts(&results);
        assert!(
            said.contains(&"warning: all rows: busy. (Figures of the first row.)".to_owned()),
            "{said:?}"
        );
        let both = format!(
            "warning: database, {}, {}: hot. (Figures of the first row.)",
            depth(0),
            depth(2)
        );
        assert!(
            said.contains(&both)
                && said.contains(&format!("warning: streaming, {}: stolen.", depth(3))),
            "{said:?}"
        );
    }

    #[test]
    fn the_summary_says_what_each_profile_reached_and_what_went_wrong() {
        let mut results = sample::results();
        results.notes.push("the measurement of 'mem:1G' was stopped".to_owned());
        let sentences = summary(&results);
        assert_eq!(
            sentences[0],
            "database: up to 20\u{202F}000 IO/s (156 MiB/s) with 8 outstanding, mean latency 400 \
                µs, p99 1.20 ms."
        );
        assert_eq!(sentences.last().unwrap(), "the measurement of 'mem:1G' was stopped.");
        assert_eq!(sentences.len(), 3);
    }
}
