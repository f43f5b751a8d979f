//! How far off a prediction may be: by how much figures of its kind were missed that nothing was fitted to
//! (`catalog/published/errors.csv`, whose held-out rows `softroc reproduce --errors` writes).
//!
//! An interval is the error that nine of ten such figures do not exceed, with the correction for how few there are (split conformal
//! prediction: of `n` errors the `⌈0.9 (n + 1)⌉`-th). To see whether intervals hold, each figure gets that of all *other*
//! controllers, or, of a drive by itself, of all other drives: what is known of its own is left out.

use super::{Report, Reproduced};
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use std::fmt;
use storagebench::{Access, Profile};

const ERRORS: &str = include_str!("../../../../catalog/published/errors.csv");
/// What the table begins with.
const HEAD: &str = "figure,how,of,kind,error_percent";
/// How many of a hundred errors an interval holds.
const PERCENT: usize = 90;
/// With fewer than these an interval for nine of ten would have no end.
const FEWEST: usize = 9;

/// What is between the host and the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Nothing,
    WithoutCache,
    WithCache,
}

/// What sort of server a prediction is of, and of load: those of one kind are off by about as much.
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

    /// Reads what [`fmt::Display`] writes.
    fn parse(text: &str) -> Option<Kind> {
        let all = [Behind::Nothing, Behind::WithoutCache, Behind::WithCache].into_iter().flat_map(|behind| {
            [(true, true), (true, false), (false, true), (false, false)].map(|(rotates, streams)| Kind {
                behind,
                rotates,
                streams,
            })
        });
        all.into_iter().find(|kind| kind.to_string() == text)
    }

    /// Kinds that take in more and more: of a controller all that are not a drive by itself, which is a matter of its own.
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

/// By how much a figure was missed that nothing was fitted to, or not when it was missed.
struct Known {
    id: String,
    /// `held out`: nothing was ever fitted to it. `left out`: a drive was fitted without it.
    held_out: bool,
    /// The controller, or of a drive by itself the drive.
    of: String,
    kind: Kind,
    percent: f64,
}

fn known() -> Result<Vec<Known>> {
    let row = |line: &str| {
        let [id, how, of, kind, percent] = line.split(',').collect::<Vec<_>>()[..] else { return None };
        let held_out = match how {
            "held out" => true,
            "left out" => false,
            _ => return None,
        };
        let (id, of, percent) = (id.to_owned(), of.to_owned(), percent.parse().ok()?);
        Some(Known { id, held_out, of, kind: Kind::parse(kind)?, percent })
    };
    let torn = |line: &str| Error::failed(format!("'{line}' is no row of the errors of predictions"));
    ERRORS.lines().skip(1).map(|line| row(line).ok_or_else(|| torn(line))).collect()
}

/// What nine of ten predictions of a kind are off by at most.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedError {
    /// That much, in percent either way.
    pub percent: f64,
    /// How many figures say so.
    pub figures: usize,
    /// Of which kind they are, in words.
    pub kind: String,
}

/// What predictions of a kind are off by, as far as figures of others than `own` tell; `None`: too few do.
/// `own`: the figure and whose it is.
fn expected(known: &[Known], kind: Kind, own: Option<(&str, &str)>) -> Option<ExpectedError> {
    kind.wider().into_iter().find_map(|(kind, holds)| {
        // What a figure says of a relative of its controller is no other figure.
        let is_own = |known: &Known| own.is_some_and(|(id, of)| known.id == id || known.of == of);
        let others = known.iter().filter(|known| holds(known.kind) && !is_own(known));
        let mut errors: Vec<f64> = others.map(|known| known.percent.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let rank = ((errors.len() + 1) * PERCENT).div_ceil(100);
        let percent = *errors.get(rank.checked_sub(1)?).filter(|_| errors.len() >= FEWEST)?;
        Some(ExpectedError { percent, figures: errors.len(), kind })
    })
}

/// How far off a prediction of that configuration under that load may be, by what figures of its kind were missed by that nothing was
/// fitted to. `None`: too few are published.
///
/// # Errors
/// When the table of errors is torn: it is part of the program, and a test reads it.
pub fn expected_error(configuration: &Configuration, profile: &Profile) -> Result<Option<ExpectedError>> {
    if configuration.controller.cache.is_none() && configuration.write_back.is_some() {
        // A cache of SoftROC's own: nobody published any figure of that.
        return Ok(None);
    }
    Ok(expected(&known()?, Kind::of(configuration, profile), None))
}

/// Gives each figure that nothing was fitted to the interval that all others give.
pub(super) fn judge(reproduced: &mut [Reproduced]) -> Result<()> {
    let known = known()?;
    let held_out = |figure: &&mut Reproduced| !figure.calibrated && figure.error_percent.is_some();
    for figure in reproduced.iter_mut().filter(held_out) {
        if let Some(place) = &figure.place {
            figure.expected_percent =
                expected(&known, place.kind, Some((&figure.id, &place.of))).map(|expected| expected.percent);
        }
    }
    Ok(())
}

impl Report {
    /// The table of errors with those of these figures in place of what it has of figures held out: what `catalog/published/errors.csv`
    /// is made of when all figures were gone through.
    ///
    /// # Errors
    /// When the table that is built in is torn.
    pub fn errors(&self) -> Result<String> {
        table(&self.reproduced)
    }
}

fn table(reproduced: &[Reproduced]) -> Result<String> {
    let mut rows = vec![HEAD.to_owned()];
    let row =
        |id: &str, how: &str, of: &str, kind: Kind, percent: f64| format!("{id},{how},{of},{kind},{percent}");
    let left_out = known()?.into_iter().filter(|known| !known.held_out);
    rows.extend(left_out.map(|known| row(&known.id, "left out", &known.of, known.kind, known.percent)));
    for figure in reproduced.iter().filter(|figure| !figure.calibrated) {
        if let (Some(place), Some(percent)) = (&figure.place, figure.error_percent) {
            // Relatives that differ in nothing that matters to a figure are one.
            let is_told = reproduced.iter().take_while(|other| !std::ptr::eq(*other, figure)).any(|other| {
                other.id == figure.id && !other.calibrated && other.error_percent == figure.error_percent
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
        assert_eq!((wider.percent, wider.kind.as_str()), (50.0, "disks, behind any controller, at random"));
        assert_eq!(
            expected(&all, kind("disks by themselves at random"), None),
            None,
            "a drive is its own matter"
        );
    }
}
