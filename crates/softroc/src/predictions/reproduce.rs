//! `softroc reproduce`: published measurements next to predictions.

use super::{catalog_with, on};
use crate::cli::Reproduce;
use crate::failure::Outcome;
use crate::{output, progress};
use predict::published::{self, Figure, Missing, Report, Reproduced, Summary};

/// The width of tables and lists.
const WIDTH: u16 = 100;

/// Runs the command.
pub fn run(command: &Reproduce) -> Outcome {
    let catalog = catalog_with(&command.catalog)?;
    let wanted = published::select(command.doc.as_deref(), command.only.as_deref())?;
    let bar = progress::bar(wanted.len() as u64);
    let report = published::compare(&catalog, &wanted, &on(&bar))?;
    bar.finish_and_clear();
    if let Some(file) = &command.html {
        output::write_file(file, &report.page(&wanted))?;
    }
    if let Some(file) = &command.errors {
        output::write_file(file, &report.errors()?)?;
    }
    match command.output.json {
        true => output::json(&report),
        false => output::print(&text(&report, command.missing, &published::figures()?)),
    }
}

/// The reproduced figures, their overall error, and on request the missing features.
fn text(report: &Report, list_missing: bool, all: &[Figure]) -> String {
    let row = |figure: &Reproduced| {
        let words = [figure.statement.as_str(), figure.reason.as_str()];
        let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
        vec![
            figure.id.clone(),
            figure.what.clone(),
            figure.published.clone(),
            figure.predicted.to_string(),
            figure.error_percent.map_or_else(String::new, |error| format!("{error:+.1} %")),
            if figure.calibrated { "fitted" } else { "" }.to_owned(),
            if figure.right { "" } else { "WRONG" }.to_owned(),
            words.join(" - "),
        ]
    };
    let rows: Vec<Vec<String>> = report.reproduced.iter().map(row).collect();
    let headers = ["figure", "what", "published", "predicted", "error", "", "", ""];
    let numeric = [false, false, true, true, true, false, false, false];
    let width = output::width().map_or(WIDTH, |width| width.min(WIDTH));
    let mut text = output::table_within(&headers, &rows, &numeric, Some(width));
    text.push_str("\n\n");
    text.push_str(&summary(report));
    if list_missing && !report.missing.is_empty() {
        text.push_str("\n\nNot covered, by missing feature:\n");
        text.push_str(&missing(&report.missing, all));
    }
    text
}

/// The missing features by number of figures, with the figures of each.
fn missing(missing: &[Missing], all: &[Figure]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in missing {
        match groups.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, ids)) => ids.push(&one.id),
            None => groups.push((&one.reason, vec![&one.id])),
        }
    }
    groups.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    let mut text = String::new();
    for (reason, ids) in groups {
        let mut lines = vec![format!("{:>4}  {reason}:", ids.len())];
        for range in ranges(all, &ids) {
            match lines.last_mut() {
                Some(line) if line.len() + 1 + range.len() <= usize::from(WIDTH) => {
                    line.push(' ');
                    line.push_str(&range);
                }
                _ => lines.push(format!("      {range}")),
            }
        }
        text.push_str(&lines.join("\n"));
        text.push('\n');
    }
    text
}

/// Numbers in the order of the figures, with ranges: `f13-188..190, f13-196`.
fn ranges(figures: &[Figure], ids: &[&str]) -> Vec<String> {
    let mut places: Vec<usize> =
        ids.iter().filter_map(|id| figures.iter().position(|figure| figure.id == *id)).collect();
    places.sort_unstable();
    let neighbours = |pair: &[usize]| pair[0] + 1 == pair[1] && figures[pair[0]].doc == figures[pair[1]].doc;
    places
        .chunk_by(|one, next| neighbours(&[*one, *next]))
        .map(|run| match run {
            [one] => figures[*one].id.clone(),
            [first, .., last] => {
                let number = figures[*last].id.rsplit('-').next().unwrap_or_default();
                format!("{}..{number}", figures[*first].id)
            }
            [] => String::new(),
        })
        .collect()
}

fn summary(report: &Report) -> String {
    let Summary { fitted, held_out, reckoned, covered, bounds, statements, missing } = report.summary();
    format!(
        "{} fitted values: error at most {:.1} %.\n\
         {} values without fitting: error at most {:.1} % for half of them, {:.1} % for nine of ten, \
         {:.1} % for all.\n\
         {} of {} of these ({:.0} %) are within the 90 % interval from the errors of other controllers.\n\
         {} calculated values of links: error at most {:.1} %.\n\
         {} of {} bounds, statements and facts hold; of {} statements {} hold completely ({:.0} %).\n\
         {missing} published figures are not covered; --missing lists them by missing feature.",
        fitted.values,
        fitted.worst,
        held_out.values,
        held_out.median,
        held_out.ninth,
        held_out.worst,
        covered.kept,
        covered.all,
        covered.percent(),
        reckoned.values,
        reckoned.worst,
        bounds.kept,
        bounds.all,
        statements.all,
        statements.kept,
        statements.percent(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_by_what_is_missing() {
        let all = published::figures().unwrap();
        let missing = |id: &str, reason: &str| Missing { id: id.to_owned(), reason: reason.to_owned() };
        let report = Report {
            reproduced: Vec::new(),
            missing: vec![
                missing("f13-061", "no cache"),
                missing("f13-188", "no flash"),
                missing("f13-189", "no flash"),
                missing("f13-190", "no flash"),
                missing("f13-196", "no flash"),
            ],
        };
        let text = text(&report, true, &all);
        let (_, list) = text.split_once("by missing feature:\n").unwrap();
        assert_eq!(list, "   4  no flash: f13-188..190 f13-196\n   1  no cache: f13-061\n");
    }
}
