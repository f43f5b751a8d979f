//! The expected error of a prediction, from the errors of similar figures that no parameter was
//! fitted to (`catalog/published/errors.csv`, whose held-out rows `softroc reproduce --errors`
//! writes).
//!
//! An interval is the error that nine of ten such figures do not exceed, corrected for small
//! numbers (split conformal prediction: of `n` errors the `⌈0.9 (n + 1)⌉`-th). To validate the
//! intervals, each figure gets the interval of all *other* controllers, or for a drive alone of all
//! other drives: errors of its own device are omitted.

use super::{Report, Reproduced};
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use std::fmt;
use storagebench::{Access, Profile};

const ERRORS: &str = include_str!("../../../../catalog/published/errors.csv");
/// The header of the table.
const HEAD: &str = "figure,how,of,kind,error_percent";
/// The percentage of errors within an interval.
const PERCENT: usize = 90;
/// With fewer figures, an interval for nine of ten is unbounded.
const FEWEST: usize = 9;

/// The device between the host and the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Nothing,
    WithoutCache,
    WithCache,
}

/// The kind of a prediction's server and load: predictions of one kind have similar errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    behind: Behind,
    rotates: bool,
    streams: bool,
}

impl Kind {
    pub(crate) fn of(configuration: &Configuration, profile: &Profile) -> Kind {
        let controller = &configuration.controller;
        let behind = match (controller.host_link, &controller.cache) {
            (None, _) => Behind::Nothing,
            (Some(_), None) => Behind::WithoutCache,
            (Some(_), Some(_)) => Behind::WithCache,
        };
        let streams = profile.access() == Access::Sequential;
        Kind { behind, rotates: configuration.rotates(), streams }
    }

    /// Parses the output of [`fmt::Display`].
    fn parse(text: &str) -> Option<Kind> {
        let all = [Behind::Nothing, Behind::WithoutCache, Behind::WithCache].into_iter().flat_map(
            |behind| {
                [(true, true), (true, false), (false, true), (false, false)]
                    .map(|(rotates, streams)| Kind { behind, rotates, streams })
            },
        );
        all.into_iter().find(|kind| kind.to_string() == text)
    }

    /// Kinds of increasing width: any controller, but never drives alone, which have errors of
    /// their own.
    fn wider(self) -> [(String, impl Fn(Kind) -> bool); 3] {
        let alone = |kind: Kind| kind.behind == Behind::Nothing;
        let holds = move |width: u8| {
            move |other: Kind| match width {
                0 => other == self,
                1 => {
                    alone(other) == alone(self)
                        && (other.rotates, other.streams) == (self.rotates, self.streams)
                }
                _ => alone(other) == alone(self),
            }
        };
        let whose = if alone(self) { "by themselves" } else { "behind any controller" };
        let drives = format!("{}, {whose}, {}", self.drives(), self.load());
        [(self.to_string(), holds(0)), (drives, holds(1)), (format!("drives {whose}"), holds(2))]
    }

    fn drives(self) -> &'static str {
        if self.rotates { "disks" } else { "flash" }
    }

    fn load(self) -> &'static str {
        if self.streams { "in order" } else { "at random" }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = match self.behind {
            Behind::Nothing => "by themselves",
            Behind::WithoutCache => "behind a controller without a cache",
            Behind::WithCache => "behind a controller with a cache",
        };
        write!(f, "{} {behind} {}", self.drives(), self.load())
    }
}

/// A figure's error, measured while nothing was fitted to it.
struct Known {
    id: String,
    /// `held out`: never used in a fit. `left out`: measured with a fit that omitted it.
    held_out: bool,
    /// The controller, or for a drive alone the drive.
    of: String,
    kind: Kind,
    percent: f64,
}

fn known() -> Result<Vec<Known>> {
    let row = |line: &str| {
        let [id, how, of, kind, percent] = line.split(',').collect::<Vec<_>>()[..] else {
            return None;
        };
        let held_out = match how {
            "held out" => true,
            "left out" => false,
            _ => return None,
        };
        let (id, of, percent) = (id.to_owned(), of.to_owned(), percent.parse().ok()?);
        Some(Known { id, held_out, of, kind: Kind::parse(kind)?, percent })
    };
    let torn =
        |line: &str| Error::failed(format!("'{line}' is not a row of the prediction error table"));
    ERRORS.lines().skip(1).map(|line| row(line).ok_or_else(|| torn(line))).collect()
}

/// The error that nine of ten predictions of a kind do not exceed.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedError {
    /// The error, in percent in both directions.
    pub percent: f64,
    /// The number of figures behind it.
    pub figures: usize,
    /// Their kind, in words.
    pub kind: String,
}

/// The expected error of a kind from figures other than `own`; `None`: too few. `own`: the figure,
/// and its device.
fn expected(known: &[Known], kind: Kind, own: Option<(&str, &str)>) -> Option<ExpectedError> {
    kind.wider().into_iter().find_map(|(kind, holds)| {
        // A figure of a relative of its own controller does not count as another figure.
        let is_own = |known: &Known| own.is_some_and(|(id, of)| known.id == id || known.of == of);
        let others = known.iter().filter(|known| holds(known.kind) && !is_own(known));
        let mut errors: Vec<f64> = others.map(|known| known.percent.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let rank = ((errors.len() + 1) * PERCENT).div_ceil(100);
        let percent = *errors.get(rank.checked_sub(1)?).filter(|_| errors.len() >= FEWEST)?;
        Some(ExpectedError { percent, figures: errors.len(), kind })
    })
}

/// The expected error of a prediction for this configuration and load, from similar figures that
/// nothing was fitted to. `None`: too few are published.
///
/// # Errors
/// When the table of errors is malformed: it is part of the program, and a test reads it.
pub fn expected_error(
    configuration: &Configuration,
    profile: &Profile,
) -> Result<Option<ExpectedError>> {
    if configuration.controller.cache.is_none() && configuration.write_back.is_some() {
        // No figures are published for SoftROC's own cache.
        return Ok(None);
    }
    Ok(expected(&known()?, Kind::of(configuration, profile), None))
}

/// Gives each held-out figure the interval of all other figures.
pub(super) fn judge(reproduced: &mut [Reproduced]) -> Result<()> {
    let known = known()?;
    let held_out = |figure: &&mut Reproduced| !figure.calibrated && figure.error_percent.is_some();
    for figure in reproduced.iter_mut().filter(held_out) {
        if let Some(place) = &figure.place {
            figure.expected_percent = expected(&known, place.kind, Some((&figure.id, &place.of)))
                .map(|expected| expected.percent);
        }
    }
    Ok(())
}

impl Report {
    /// The table of errors with these figures' held-out rows replaced. With all figures, this is
    /// the content of `catalog/published/errors.csv`.
    ///
    /// # Errors
    /// When the built-in table is malformed.
    pub fn errors(&self) -> Result<String> {
        table(&self.reproduced)
    }
}

fn table(reproduced: &[Reproduced]) -> Result<String> {
    let mut rows = vec![HEAD.to_owned()];
    let row = |id: &str, how: &str, of: &str, kind: Kind, percent: f64| {
        format!("{id},{how},{of},{kind},{percent}")
    };
    let left_out = known()?.into_iter().filter(|known| !known.held_out);
    rows.extend(
        left_out.map(|known| row(&known.id, "left out", &known.of, known.kind, known.percent)),
    );
    for figure in reproduced.iter().filter(|figure| !figure.calibrated) {
        if let (Some(place), Some(percent)) = (&figure.place, figure.error_percent) {
            // Relatives with no difference relevant to a figure count once.
            let is_told =
                reproduced.iter().take_while(|other| !std::ptr::eq(*other, figure)).any(|other| {
                    other.id == figure.id
                        && !other.calibrated
                        && other.error_percent == figure.error_percent
                });
            if !is_told {
                rows.push(row(&figure.id, "held out", &place.of, place.kind, percent));
            }
        }
    }
    Ok(rows.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::figures;
    use super::*;

    fn kind(text: &str) -> Kind {
        Kind::parse(text).unwrap()
    }

    fn errors(of: &str, kind: Kind, percents: &[f64]) -> Vec<Known> {
        let known = |percent: &f64| Known {
            id: String::new(),
            held_out: true,
            of: of.to_owned(),
            kind,
            percent: *percent,
        };
        percents.iter().map(known).collect()
    }

    #[test]
    fn the_table_is_of_figures_and_of_kinds_that_there_are() {
        let figures = figures().unwrap();
        let known = known().unwrap();
        assert!(known.len() >= 60, "{}", known.len());
        assert!(ERRORS.starts_with(HEAD));
        for known in &known {
            let figure = figures.iter().find(|figure| figure.id == known.id).unwrap();
            assert!(figure.number().is_some(), "{}", known.id);
            assert_eq!(Kind::parse(&known.kind.to_string()), Some(known.kind));
            let used = super::super::is_used(models::Catalog::builtin(), &known.id);
            assert!(!(known.held_out && used), "something was fitted to {}", known.id);
        }
    }

    #[test]
    fn an_interval_is_of_the_kind_and_of_others_than_its_own() {
        let random = kind("disks behind a controller without a cache at random");
        let mut all = errors("A", random, &[1.0, -2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let of = |all: &[Known], own: Option<&str>| {
            let own = own.map(|own| ("f", own));
            expected(all, random, own).map(|found| (found.percent, found.figures))
        };
        assert_eq!(of(&all, None), Some((9.0, 9)), "of nine the worst");
        assert_eq!(of(&all, Some("A")), None, "nothing is known of others");
        all.extend(errors("B", random, &[50.0; 4]));
        assert_eq!(of(&all, Some("B")), Some((9.0, 9)));
        assert_eq!(of(&all, None), Some((50.0, 13)));
        let cached = kind("disks behind a controller with a cache at random");
        let wider = expected(&all, cached, None).unwrap();
        assert_eq!(
            (wider.percent, wider.kind.as_str()),
            (50.0, "disks, behind any controller, at random")
        );
        assert_eq!(
            expected(&all, kind("disks by themselves at random"), None),
            None,
            "a drive is its own matter"
        );
    }
}
