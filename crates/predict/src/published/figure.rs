//! The published figures: `catalog/published/figures.csv`, a row per figure or statement.

use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const FIGURES: &str = include_str!("../../../../catalog/published/figures.csv");

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its number.
    pub id: String,
    /// The document.
    pub doc: String,
    /// The place in the document.
    pub section: String,
    /// The controller; empty: none or any.
    pub controller: String,
    /// The drive's alias.
    pub drive: String,
    /// The number of drives.
    pub drive_count: String,
    /// The level, as the document writes it.
    pub level: String,
    /// Other settings: `key=value`, separated by semicolons.
    pub settings: String,
    /// The load profiles.
    pub profile: String,
    /// The number of outstanding I/Os.
    pub outstanding: String,
    /// The number of workers.
    pub workers: String,
    /// The quantity of the value.
    pub metric: String,
    /// The value, or the statement.
    pub value: String,
    /// `exact`, `approx`, `upper_bound`, `lower_bound`, `range`, `theoretical`, `axis_max`.
    pub kind: String,
}

impl Figure {
    /// The value as a number.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    /// The figure in words.
    pub fn words(&self) -> String {
        let value = &self.value;
        match (self.setting("quantity"), self.metric.as_str()) {
            (Some(quantity), _) => format!("{quantity}: {value}"),
            (None, "ordinal" | "other") => value.clone(),
            (None, metric) => format!("{metric} {value}"),
        }
    }

    /// A setting.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.split(';').find_map(|setting| setting.strip_prefix(key)?.strip_prefix('='))
    }
}

/// All figures.
///
/// # Errors
/// When the table is malformed: it is part of the program, and a test reads it.
pub fn figures() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (number, line) in FIGURES.lines().enumerate().skip(1) {
        let mut cells = cells(line).into_iter();
        let mut next = || cells.next();
        let figure = (|| {
            let [id, doc, section, controller, drive, drive_count, level, settings, profile] =
                [(); 9].map(|()| next());
            // The profile determines access, read share and block size.
            let (_, _, _) = (next()?, next()?, next()?);
            let [outstanding, workers, metric, value, kind] = [(); 5].map(|()| next());
            Some(Figure {
                id: id?,
                doc: doc?,
                section: section?,
                controller: controller?,
                drive: drive?,
                drive_count: drive_count?,
                level: level?,
                settings: settings?,
                profile: profile?,
                outstanding: outstanding?,
                workers: workers?,
                metric: metric?,
                value: value?,
                kind: kind?,
            })
        })();
        let torn = || {
            Error::failed(format!("line {} of the published figures has too few cells", number + 1))
        };
        figures.push(figure.ok_or_else(torn)?);
    }
    Ok(figures)
}

/// The figures of a document, or with numbers that begin with `only`; without either, all.
///
/// # Errors
/// When there is no such document or number.
pub fn select(doc: Option<&str>, only: Option<&str>) -> Result<Vec<Figure>> {
    let all = figures()?;
    let docs: BTreeSet<&str> = all.iter().map(|figure| figure.doc.as_str()).collect();
    if let Some(doc) = doc.filter(|doc| !docs.contains(doc)) {
        let known: Vec<&str> = docs.into_iter().collect();
        return Err(Error::refused(format!(
            "there is no document '{doc}'; expected one of {}",
            known.join(", ")
        )));
    }
    let is_in = |figure: &&Figure| doc.is_none_or(|doc| figure.doc == doc);
    let begins = |figure: &&Figure| only.is_none_or(|only| figure.id.starts_with(only));
    let selected: Vec<Figure> = all.iter().filter(is_in).filter(begins).cloned().collect();
    match (selected.is_empty(), only) {
        (true, Some(only)) => {
            let known = numbers(all.iter().filter(is_in));
            Err(Error::refused(format!(
                "no figure's number begins with '{only}'; there are {known}"
            )))
        }
        _ => Ok(selected),
    }
}

/// The numbers of figures by document: `f13-001 to f13-280 (fujitsu2013), ...`.
fn numbers<'a>(figures: impl Iterator<Item = &'a Figure>) -> String {
    let mut docs: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for figure in figures {
        let (first, last) = docs.entry(&figure.doc).or_insert((&figure.id, &figure.id));
        (*first, *last) = ((*first).min(&figure.id), (*last).max(&figure.id));
    }
    let one = |(doc, (first, last)): (&str, (&str, &str))| format!("{first} to {last} ({doc})");
    docs.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The cells of a line of comma-separated values; quotes may enclose commas, doubled quotes are one
/// (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_figure_has_is_refused_with_the_numbers_that_exist() {
        let refused = |doc, only| select(doc, Some(only)).unwrap_err().sentence;
        assert!(
            refused(None, "f99").starts_with("no figure's number begins with 'f99'; there are ")
        );
        assert!(refused(None, "f99").contains(" (fujitsu2013), f16-"), "{}", refused(None, "f99"));
        let of_one = refused(Some("intel2014"), "f13-081");
        assert!(of_one.contains("there are in-001 to in-"), "{of_one}");
        assert!(!of_one.contains("fujitsu"), "{of_one}");
        assert_eq!(select(Some("fujitsu2013"), Some("f13-081")).unwrap().len(), 1);
    }

    #[test]
    fn the_table_is_whole() {
        let figures = figures().unwrap();
        assert_eq!(figures.len(), 713);
        let one = figures.iter().find(|figure| figure.id == "f13-076").unwrap();
        assert_eq!(
            (one.drive.as_str(), one.profile.as_str(), one.number()),
            ("SAS-6G-HDD", "Database", Some(594.0))
        );
        assert_eq!(one.setting("model"), Some("Toshiba MK1401GRRB"));
        assert_eq!(cells("a,\"b, \"\"c\"\"\",,d"), ["a", "b, \"c\"", "", "d"]);
    }
}
