//! `softroc reproduce`: published measurements next to predictions.

use super::{catalog_with, on};
use crate::cli::Reproduce;
use crate::failure::{Failure, Outcome};
use crate::{bench, output, progress};
use models::Catalog;
use predict::published::{self, Figure, Missing, Report, Reproduced, Summary, Watch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::counted;

/// The widest line of tables and lists.
const WIDTH: u16 = 100;

/// The columns after `what`: name, width with its gap, and whether it is numeric.
const COLUMNS: [(&str, u16, bool); 4] =
    [("published", 15, true), ("predicted", 11, true), ("error", 10, true), ("", 8, false)];

/// The width of the first column.
const NUMBER: u16 = 9;

/// Runs the command.
pub fn run(command: &Reproduce) -> Outcome {
    let catalog = catalog_with(&command.catalog)?;
    let wanted = published::select(command.doc.as_deref(), command.only.as_deref())?;
    announce(&catalog, &wanted)?;
    let cancel = bench::cancel_on_interrupt()?;
    let bar = progress::bar(wanted.len() as u64);
    let (begun, failed) = (AtomicBool::new(false), Mutex::new(None));
    let print = |found: &[Reproduced]| {
        if command.output.json || found.is_empty() {
            return;
        }
        let header = (!begun.swap(true, Ordering::Relaxed)).then(headers);
        let lines: Vec<String> = header.into_iter().chain(found.iter().map(row)).collect();
        // The bar is hidden meanwhile.
        let printed = bar.suspend(|| output::print(&lines.join("\n")));
        if let (Err(failure), Ok(mut failed)) = (printed, failed.lock()) {
            failed.get_or_insert(failure);
        }
    };
    let watch = Watch { progress: &on(&bar), compared: &print, cancel: cancel.clone() };
    let report = published::compare(&catalog, &wanted, &watch)?;
    bar.finish_and_clear();
    if let Some(failure) = failed.into_inner().ok().flatten() {
        return Err(failure);
    }
    let is_stopped = report.not_compared > 0 && cancel.load(Ordering::Relaxed);
    if !is_stopped {
        write_files(command, &report, &wanted)?;
    }
    match command.output.json {
        true => output::json(&report)?,
        false => output::print(&end(&report, command.missing, &published::figures()?))?,
    }
    if is_stopped { Err(stopped(command, &report, wanted.len())) } else { Ok(()) }
}

/// Says how many figures there are, and how long they take on this machine.
fn announce(catalog: &Catalog, wanted: &[Figure]) -> Outcome {
    let figures = counted(wanted.len(), "figure");
    let simulated = published::simulated(catalog, wanted)?;
    if simulated == 0 {
        output::say(&format!("{figures}, none of them simulated: the results follow at once."));
        return Ok(());
    }
    let start = Instant::now();
    published::probe()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(simulated);
    let estimate = estimate(start.elapsed(), simulated, cores);
    output::say(&format!(
        "{figures}, {simulated} of them simulated: {estimate} on {}. Ctrl-C stops with the results \
            so far.",
        counted(cores, "processor")
    ));
    Ok(())
}

/// The duration of the simulations in words. Figures differ much: it is rough.
fn estimate(probe: Duration, simulated: usize, cores: usize) -> String {
    let each = probe.mul_f64(published::PROBES_PER_FIGURE);
    let all = each.mul_f64(simulated as f64 / cores as f64).as_secs();
    match all {
        0..20 => "some seconds".to_owned(),
        20..60 => "less than a minute".to_owned(),
        60..5400 => format!("about {} min", (all + 30) / 60),
        _ => format!("about {} h", (all + 1800) / 3600),
    }
}

fn write_files(command: &Reproduce, report: &Report, wanted: &[Figure]) -> Outcome {
    if let Some(file) = &command.html {
        output::write_file(file, &report.page(wanted))?;
    }
    if let Some(file) = &command.errors {
        output::write_file(file, &report.errors()?)?;
    }
    Ok(())
}

fn stopped(command: &Reproduce, report: &Report, wanted: usize) -> Failure {
    let files = [&command.html, &command.errors];
    let files: Vec<String> =
        files.into_iter().flatten().map(|file| file.display().to_string()).collect();
    let unwritten = if files.is_empty() {
        String::new()
    } else {
        format!("; {} not written", files.join(" and "))
    };
    Failure::stopped(format!(
        "stopped: {} of {} compared{unwritten}",
        wanted - report.not_compared,
        counted(wanted, "figure")
    ))
}

fn width() -> u16 {
    output::width().map_or(WIDTH, |width| width.clamp(72, WIDTH))
}

/// A line of the table, whose rows are printed one by one.
fn line(number: &str, what: &str, cells: [&str; COLUMNS.len()]) -> String {
    let rest: u16 = COLUMNS.iter().map(|(_, width, _)| width).sum();
    let mut columns = vec![(number, NUMBER, false), (what, width() - NUMBER - rest, false)];
    columns.extend(
        COLUMNS.iter().zip(cells).map(|((_, width, numeric), cell)| (cell, *width, *numeric)),
    );
    output::table_line(&columns)
}

fn headers() -> String {
    line("figure", "what", COLUMNS.map(|(name, ..)| name))
}

/// A compared figure; below it the statement and the reason of a deviation.
fn row(figure: &Reproduced) -> String {
    let error = figure.error_percent.map_or_else(String::new, |error| format!("{error:+.1} %"));
    let mark = match (figure.right, figure.calibrated) {
        (false, true) => "fitted WRONG",
        (false, false) => "WRONG",
        (true, true) => "fitted",
        (true, false) => "",
    };
    let cells = [&figure.published, &figure.predicted.to_string(), &error, mark];
    let mut lines = vec![line(&figure.id, &figure.what, cells)];
    let indent = " ".repeat(usize::from(NUMBER) + 1);
    for words in [&figure.statement, &figure.reason].into_iter().filter(|words| !words.is_empty()) {
        let wrapped = output::wrapped(words, usize::from(width()) - indent.len());
        lines.extend(wrapped.into_iter().map(|line| format!("{indent}{line}")));
    }
    lines.join("\n")
}

/// The overall error, and on request the missing features.
fn end(report: &Report, list_missing: bool, all: &[Figure]) -> String {
    let lines = summary(report);
    let lines = lines.iter().flat_map(|line| output::wrapped(line, usize::from(width())));
    let mut text = format!("\n{}", lines.collect::<Vec<_>>().join("\n"));
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
    let neighbours =
        |pair: &[usize]| pair[0] + 1 == pair[1] && figures[pair[0]].doc == figures[pair[1]].doc;
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

/// Sentences on the accuracy; those about nothing are omitted.
fn summary(report: &Report) -> Vec<String> {
    let Summary { fitted, held_out, reckoned, covered, bounds, statements, missing } =
        report.summary();
    let sentences = [
        (
            fitted.values,
            format!(
                "{}: error at most {:.1} %.",
                counted(fitted.values, "fitted value"),
                fitted.worst
            ),
        ),
        (
            held_out.values,
            format!(
                "{} without fitting: error at most {:.1} % for half of them, {:.1} % for nine of \
                 ten, {:.1} % for all.",
                counted(held_out.values, "value"),
                held_out.median,
                held_out.ninth,
                held_out.worst
            ),
        ),
        (
            covered.all,
            format!(
                "{} of {} of these ({:.0} %) are within the 90 % interval from the errors of other \
                 controllers.",
                covered.kept,
                covered.all,
                covered.percent()
            ),
        ),
        (
            reckoned.values,
            format!(
                "{} of links: error at most {:.1} %.",
                counted(reckoned.values, "calculated value"),
                reckoned.worst
            ),
        ),
        (
            bounds.all,
            format!(
                "{} of {} bounds, statements and facts hold; of {} statements {} hold completely \
                 ({:.0} %).",
                bounds.kept,
                bounds.all,
                statements.all,
                statements.kept,
                statements.percent()
            ),
        ),
        (missing, not_covered(missing)),
    ];
    sentences.into_iter().filter(|(count, _)| *count > 0).map(|(_, sentence)| sentence).collect()
}

fn not_covered(missing: usize) -> String {
    format!("{missing} published figures are not covered; --missing lists them by missing feature.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_by_what_is_missing() {
        let all = published::figures().unwrap();
        let missing =
            |id: &str, reason: &str| Missing { id: id.to_owned(), reason: reason.to_owned() };
        let report = Report {
            reproduced: Vec::new(),
            not_compared: 0,
            missing: vec![
                missing("f13-061", "no cache"),
                missing("f13-188", "no flash"),
                missing("f13-189", "no flash"),
                missing("f13-190", "no flash"),
                missing("f13-196", "no flash"),
            ],
        };
        let text = end(&report, true, &all);
        let (_, list) = text.split_once("by missing feature:\n").unwrap();
        assert_eq!(list, "   4  no flash: f13-188..190 f13-196\n   1  no cache: f13-061\n");
    }
}
