//! The report as text.

use super::uncovered::ranges;
use super::{Figure, Missing, Report, Reproduced};
use crate::output;

/// How wide lists of numbers are.
const WIDTH: usize = 120;

/// What was reproduced, how good it is in all, and, if asked for, what is missing.
pub fn text(report: &Report, list_missing: bool, all: &[Figure]) -> String {
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

fn summary(report: &Report) -> String {
    let worst = |calibrated: bool| {
        let errors = report
            .reproduced
            .iter()
            .filter(|figure| figure.calibrated == calibrated)
            .filter_map(|figure| figure.error_percent);
        let errors: Vec<f64> = errors.map(f64::abs).collect();
        (errors.len(), errors.iter().copied().fold(0.0, f64::max))
    };
    let (fitted, fitted_worst) = worst(true);
    let (free, free_worst) = worst(false);
    let bounds = report.reproduced.iter().filter(|figure| figure.error_percent.is_none());
    let (kept, all) = bounds.fold((0, 0), |(kept, all), figure| (kept + usize::from(figure.right), all + 1));
    format!(
        "{fitted} values that parameters were fitted to: at most {fitted_worst:.1} % off.\n\
         {free} values that nothing was fitted to: at most {free_worst:.1} % off.\n\
         {kept} of {all} bounds, statements and facts are kept.\n\
         {} published figures are not covered; --missing lists them with what is missing.",
        report.missing.len()
    )
}
