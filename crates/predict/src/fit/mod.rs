//! Fits a drive's parameters to its published figures, by running the models.
//!
//! The figures are those of the drive by itself, five profiles a paper; what is least is what their relative errors come to
//! (`search`). It begins at the *priors*: what the data sheet says, or what was assumed, so that what comes out
//! depends on nothing that was fitted before, and a profile that is left out has not been seen. It draws nothing by
//! chance beyond the runs' own seed, so that it ends at the same values each time. Parameters stay within bounds that
//! make them plausible ([`Parameter`]).
//!
//! | module | what it holds |
//! | --- | --- |
//! | `parameters` | which parameters are fitted, and within which bounds |
//! | `trials` | a drive's figures, and what they come to with other parameters |
//! | `search` | the search for the least errors |

mod parameters;
mod search;
mod trials;

use crate::error::{Error, Result};
use crate::progress::OnProgress;
use crate::published::Figure;
use models::{Catalog, DriveSpec};
use std::collections::BTreeSet;
use trials::{Target, Trials};

/// What a fit is asked.
#[derive(Clone, Copy, Debug)]
pub struct FitRequest<'a> {
    /// Where the drive is.
    pub catalog: &'a Catalog,
    /// The drive: its model, or an alias.
    pub drive: &'a str,
    /// How many times all parameters are gone through at most.
    pub rounds: u32,
    /// Whether each profile is left out in turn, to see how far it is missed then.
    pub leave_one_out: bool,
}

/// A figure, and what the fitted drive comes to.
#[derive(Clone, Debug)]
pub struct FittedFigure {
    /// As it is published.
    pub figure: Figure,
    /// Its value.
    pub published: f64,
    /// How far the fitted drive is off, as a share of the value.
    pub error: f64,
}

/// A parameter that was fitted.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its key in the drive's file.
    pub key: &'static str,
    /// Where the fit began.
    pub prior: u64,
    /// What the catalog has.
    pub catalog: u64,
    /// Where the fit ended.
    pub fitted: u64,
    /// The least and the most that it might have been.
    pub bounds: [f64; 2],
}

/// A figure of a profile that was left out, and how far the drive that was fitted without it is off.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The figure.
    pub figure: Figure,
    /// The error, as a share of its value.
    pub error: f64,
}

/// A drive that was fitted.
#[derive(Clone, Debug)]
pub struct Fit {
    /// As the catalog has it.
    pub drive: DriveSpec,
    /// Its figures.
    pub figures: Vec<FittedFigure>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// If it was asked: by profile.
    pub left_out: Option<Vec<LeftOut>>,
}

/// Fits a drive. Progress begins each fit by the name of the figures that it uses, and counts the places where all
/// figures were run.
///
/// # Errors
/// When there is no such drive, or nothing is published of it by itself.
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
    let value = |drive: &DriveSpec, key: &str| drive.clone().parameter(key).map_or(0, |value| *value);
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

/// Fits without each profile in turn: how far the models are off where they were not told.
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
    /// The drive's file, whose text is `text`, with the fitted values, their priors, and the figures that they were
    /// fitted to.
    pub fn written(&self, text: &str) -> String {
        let ids: Vec<&str> = self.figures.iter().map(|fitted| fitted.figure.id.as_str()).collect();
        let line = |line: &str| {
            let is = |parameter: &&Parameter| {
                line.strip_prefix(parameter.key).is_some_and(|rest| rest.trim_start().starts_with('='))
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

    /// The fitted keys get new lines, everything else stays, and the catalog reads it again.
    #[test]
    fn a_drive_that_is_written_is_read_with_the_fitted_values() {
        let catalog = Catalog::builtin();
        let drive = catalog.drive("SAS-6G-HDD").unwrap();
        let figure = crate::published::figures().unwrap().remove(0);
        let id = figure.id.clone();
        let parameter =
            Parameter { key: "seek_min_us", prior: 300, catalog: 400, fitted: 517, bounds: [150.0, 1200.0] };
        let fit = Fit {
            drive: drive.clone(),
            figures: vec![FittedFigure { figure, published: 1.0, error: 0.0 }],
            parameters: vec![parameter],
            left_out: None,
        };
        let before = Catalog::text_of(&drive.file).unwrap();
        let after = fit.written(before);
        let changed = before.lines().zip(after.lines()).filter(|(before, after)| before != after).count();
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
