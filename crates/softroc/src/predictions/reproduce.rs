//! `softroc reproduce`: published measurements beside predictions.

use super::{catalog_with, on};
use crate::cli::Reproduce;
use crate::failure::Outcome;
use crate::{output, progress};
use predict::published::{self, Figure, Missing, Report, Reproduced, Summary};

/// How wide lists of numbers are.
const WIDTH: usize = 120;

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

/// What was reproduced, how good it is in all, and, if asked for, what is missing.
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
    let mut text = output::table(&headers, &rows, &[false, false, true, true, true, false, false, false]);
    text.push_str("\n\n");
    text.push_str(&summary(report));
    if list_missing && !report.missing.is_empty() {
        text.push_str("\n\nNot covered, by what is missing:\n");
        text.push_str(&missing(&report.missing, all));
    }
    text
}

/// What is missing, most first, each with how many figures lack it and which.
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
                Some(line) if line.len() + 1 + range.len() <= WIDTH => {
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

/// Numbers in the order of the figures, neighbours joined: `f13-188..190, f13-196`.
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
        "{} values that parameters were fitted to: at most {:.1} % off.\n\
         {} values that nothing was fitted to: half of them at most {:.1} % off, nine of ten {:.1} %, all {:.1} %.\n\
         {} of {} of these ({:.0} %) are within the interval for nine of ten that errors of other controllers give.\n\
         {} values that are reckoned, of links: at most {:.1} % off.\n\
         {} of {} bounds, statements and facts are kept; of {} statements {} are right in all that they say ({:.0} %).\n\
         {missing} published figures are not covered; --missing lists them with what is missing.",
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
        let (_, list) = text.split_once("by what is missing:\n").unwrap();
        assert_eq!(list, "   4  no flash: f13-188..190 f13-196\n   1  no cache: f13-061\n");
    }
}
