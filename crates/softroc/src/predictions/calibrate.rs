//! `softroc calibrate`: a drive's parameters, fitted to its published figures.

use super::{catalog_with, read};
use crate::cli::Calibrate;
use crate::failure::Outcome;
use crate::{output, progress};
use models::Catalog;
use predict::Progress;
use predict::fit::{Fit, FitRequest, FittedFigure, LeftOut, Parameter, fit};
use serde_json::{Value, json};
use std::path::Path;

/// Runs the command.
pub fn run(command: &Calibrate) -> Outcome {
    let catalog = catalog_with(&command.catalog)?;
    let request = FitRequest {
        catalog: &catalog,
        drive: &command.drive,
        rounds: command.rounds,
        leave_one_out: command.leave_one_out,
    };
    let bar = progress::count();
    let fit = fit(&request, &|progress| match progress {
        Progress::Begins(what) => bar.set_message(format!("model runs to fit {what}")),
        Progress::OneDone => bar.inc(1),
    })?;
    bar.finish_and_clear();
    if command.output.json {
        if let Some(path) = &command.to {
            output::write_file(path, &fit.written(&file_of(&fit)?))?;
        }
        return output::json(&as_json(&fit));
    }
    let mut text = format!("{}\n\n{}", figures(&fit.figures), parameters(&fit.parameters));
    if let Some(left_out) = &fit.left_out {
        text.push_str(&format!("\n\n{}", without_each(left_out)));
    }
    if let Some(path) = &command.to {
        output::write_file(path, &fit.written(&file_of(&fit)?))?;
        text.push_str(&format!("\n\nWritten to {}.", path.display()));
    }
    output::print(&text)
}

fn as_json(fit: &Fit) -> Value {
    let figure = |fitted: &FittedFigure| {
        json!({
            "figure": fitted.figure.id,
            "document": fitted.figure.doc,
            "profile": fitted.figure.profile,
            "published": fitted.published,
            "error": fitted.error,
        })
    };
    let parameter = |parameter: &Parameter| {
        json!({
            "key": parameter.key,
            "prior": parameter.prior,
            "catalog": parameter.catalog,
            "fitted": parameter.fitted,
            "bounds": parameter.bounds,
        })
    };
    let left_out = |left: &LeftOut| {
        json!({
            "figure": left.figure.id,
            "profile": left.figure.profile,
            "error": left.error,
        })
    };
    json!({
        "figures": fit.figures.iter().map(figure).collect::<Vec<_>>(),
        "parameters": fit.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "left_out": fit.left_out.as_ref().map(|all| all.iter().map(left_out).collect::<Vec<_>>()),
    })
}

/// The text of the drive's file: from the catalog or from the user.
fn file_of(fit: &Fit) -> Outcome<String> {
    match Catalog::text_of(&fit.drive.file) {
        Some(text) => Ok(text.to_owned()),
        None => read(Path::new(&fit.drive.file)),
    }
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

fn figures(figures: &[FittedFigure]) -> String {
    let row = |fitted: &FittedFigure| {
        let FittedFigure { figure, published, error } = fitted;
        let predicted = published * (1.0 + error);
        let cells = [figure.id.clone(), figure.doc.clone(), figure.profile.clone()];
        let numbers = [published.to_string(), format!("{predicted:.1}"), percent(*error)];
        cells.into_iter().chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    let headers = ["figure", "document", "profile", "published", "predicted", "error"];
    output::table(&headers, &rows, &[false, false, false, true, true, true])
}

/// The parameters of the drive: prior, catalog and fitted values.
fn parameters(parameters: &[Parameter]) -> String {
    let row = |parameter: &Parameter| {
        let Parameter { key, prior, catalog, fitted, bounds: [low, high] } = parameter;
        let values = [prior, catalog, fitted].map(u64::to_string);
        let within = format!("{low:.0}..{high:.0}");
        std::iter::once((*key).to_owned()).chain(values).chain([within]).collect()
    };
    let rows: Vec<Vec<String>> = parameters.iter().map(row).collect();
    let headers = ["parameter", "prior", "catalog", "fitted", "within"];
    output::table(&headers, &rows, &[false, true, true, true, true])
}

/// The error of each profile for a drive that was fitted without it.
fn without_each(left_out: &[LeftOut]) -> String {
    let row = |LeftOut { figure, error }: &LeftOut| {
        vec![figure.profile.clone(), figure.doc.clone(), figure.id.clone(), percent(*error)]
    };
    let rows: Vec<Vec<String>> = left_out.iter().map(row).collect();
    output::table(&["left out", "document", "figure", "error"], &rows, &[false, false, false, true])
}
