//! Fits a drive's parameters to its published figures, by running the models.
//!
//! The figures are those of the drive alone, five profiles per paper; the search minimises their
//! relative errors (`search`). It begins at the *priors* (data sheet values or assumptions), so
//! that the result is independent of earlier fits, and an omitted profile has not been used. The
//! only randomness is the runs' own seed, so that a fit is reproducible. Bounds keep parameters
//! plausible ([`Parameter`]).
//!
//! | module | contents |
//! | --- | --- |
//! | `parameters` | the fitted parameters and their bounds |
//! | `trials` | a drive's figures, and their predictions with other parameters |
//! | `search` | the search for the smallest errors |

mod parameters;
mod search;
mod trials;

use crate::error::{Error, Result};
use crate::progress::OnProgress;
use crate::published::Figure;
use models::{Catalog, DriveSpec};
use std::collections::BTreeSet;
use trials::{Target, Trials};

/// A request for a fit.
#[derive(Clone, Copy, Debug)]
pub struct FitRequest<'a> {
    /// The catalog with the drive.
    pub catalog: &'a Catalog,
    /// The drive: its model, or an alias.
    pub drive: &'a str,
    /// The maximum number of rounds over all parameters.
    pub rounds: u32,
    /// Whether each profile is omitted in turn, to measure the error of its prediction.
    pub leave_one_out: bool,
}

/// A figure, and the error of the fitted drive.
#[derive(Clone, Debug)]
pub struct FittedFigure {
    /// The published figure.
    pub figure: Figure,
    /// Its value.
    pub published: f64,
    /// The error of the fitted drive, as a share of the value.
    pub error: f64,
}

/// A parameter that was fitted.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its key in the drive's file.
    pub key: &'static str,
    /// The start of the fit.
    pub prior: u64,
    /// The catalog's value.
    pub catalog: u64,
    /// Where the fit ended.
    pub fitted: u64,
    /// The bounds of the search.
    pub bounds: [f64; 2],
}

/// A figure of an omitted profile, and the error of the drive that was fitted without it.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The figure.
    pub figure: Figure,
    /// The error, as a share of its value.
    pub error: f64,
}

/// A fitted drive.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The catalog's drive.
    pub drive: DriveSpec,
    /// Its figures.
    pub figures: Vec<FittedFigure>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// By omitted profile, if requested.
    pub left_out: Option<Vec<LeftOut>>,
}

/// Fits a drive. Progress reports each fit by the name of its figures, and counts the points of the
/// search at which all figures were run.
///
/// # Errors
/// When the catalog lacks the drive, or no figure of the drive alone is published.
pub fn fit(request: &FitRequest<'_>, progress: OnProgress<'_>) -> Result<Fit> {
    let drive = request.catalog.drive(request.drive).map_err(Error::refused)?;
    let mut trials = Trials::new(request.catalog, drive, request.rounds, progress)?;
    let all: BTreeSet<usize> = (0..trials.targets.len()).collect();
    let fitted = trials.fit("all figures", &all)?;
    let left_out = if request.leave_one_out { Some(left_out(&mut trials)?) } else { None };
    let errors = trials.errors(&fitted)?;
    let figure = |(target, error): (&Target, &f64)| FittedFigure {
        figure: target.figure.clone(),
        published: target.value,
        error: *error,
    };
    let best = trials.drive_at(&fitted);
    let value =
        |drive: &DriveSpec, key: &str| drive.clone().parameter(key).map_or(0, |value| *value);
    let parameter = |(key, low, high): &(&'static str, f64, f64)| Parameter {
        key,
        prior: value(&trials.drive, key),
        catalog: value(drive, key),
        fitted: value(&best, key),
        bounds: [*low, *high],
    };
    Ok(Fit {
        drive: drive.clone(),
        figures: trials.targets.iter().zip(&errors).map(figure).collect(),
        parameters: trials.bounds.iter().map(parameter).collect(),
        left_out,
    })
}

/// Fits without each profile in turn: the error for data that the fit did not use.
fn left_out(trials: &mut Trials<'_>) -> Result<Vec<LeftOut>> {
    let profile = |target: &Target| target.figure.profile.clone();
    let profiles: BTreeSet<String> = trials.targets.iter().map(profile).collect();
    let mut left_out = Vec::new();
    for profile in profiles {
        let (out, kept): (BTreeSet<usize>, BTreeSet<usize>) =
            (0..trials.targets.len()).partition(|n| trials.targets[*n].figure.profile == profile);
        let fitted = trials.fit(&format!("all but {profile}"), &kept)?;
        let errors = trials.errors(&fitted)?;
        let of = |n: usize| LeftOut { figure: trials.targets[n].figure.clone(), error: errors[n] };
        left_out.extend(out.into_iter().map(of));
    }
    Ok(left_out)
}

impl Fit {
    /// The drive's file `text` with the fitted values, their priors, and the figures that they were
    /// fitted to.
    pub fn written(&self, text: &str) -> String {
        let ids: Vec<&str> = self.figures.iter().map(|fitted| fitted.figure.id.as_str()).collect();
        let line = |line: &str| {
            let is = |parameter: &&Parameter| {
                line.strip_prefix(parameter.key)
                    .is_some_and(|rest| rest.trim_start().starts_with('='))
            };
            match self.parameters.iter().find(is) {
                Some(Parameter { key, prior, fitted, .. }) => format!(
                    "{key} = {{ value = {fitted}, source = \"calibrated: {}\", prior = {prior} }}",
                    ids.join(" ")
                ),
                None => line.to_owned(),
            }
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::Sourced;

    /// Only the lines of fitted keys change, and the catalog can read the result.
    #[test]
    fn a_drive_that_is_written_is_read_with_the_fitted_values() {
        let catalog = Catalog::builtin();
        let drive = catalog.drive("SAS-6G-HDD").unwrap();
        let figure = crate::published::figures().unwrap().remove(0);
        let id = figure.id.clone();
        let parameter = Parameter {
            key: "seek_min_us",
            prior: 300,
            catalog: 400,
            fitted: 517,
            bounds: [150.0, 1200.0],
        };
        let fit = Fit {
            drive: drive.clone(),
            figures: vec![FittedFigure { figure, published: 1.0, error: 0.0 }],
            parameters: vec![parameter],
            left_out: None,
        };
        let before = Catalog::text_of(&drive.file).unwrap();
        let after = fit.written(before);
        let changed =
            before.lines().zip(after.lines()).filter(|(before, after)| before != after).count();
        assert_eq!((before.lines().count(), changed), (after.lines().count(), 1));
        let mut catalog = catalog.clone();
        catalog.read("my.toml", &after).unwrap();
        let values = &catalog.drive("SAS-6G-HDD").unwrap().values;
        let read: &Sourced = values.iter().find(|value| value.key == "seek_min_us").unwrap();
        let expected = (517, Some(300), format!("calibrated: {id}"));
        assert_eq!((read.value, read.prior, read.source.clone()), expected);
    }

    #[test]
    fn a_drive_that_nothing_is_published_of_is_refused() {
        let catalog = Catalog::builtin();
        let request = FitRequest { catalog, drive: "floppy", rounds: 1, leave_one_out: false };
        let refused = fit(&request, &|_| {}).unwrap_err();
        assert!(refused.sentence.contains("'floppy'"), "{refused}");
    }
}
