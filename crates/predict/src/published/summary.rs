//! The overall accuracy of predictions.

use super::{Report, Reproduced};
use serde::Serialize;
use std::collections::BTreeMap;

/// The distribution of errors, in percent in both directions.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Errors {
    /// The number of values.
    pub values: usize,
    /// The median error.
    pub median: f64,
    /// The 90th percentile.
    pub ninth: f64,
    /// The maximum error.
    pub worst: f64,
}

impl Errors {
    fn of<'a>(figures: impl Iterator<Item = &'a Reproduced>) -> Errors {
        let mut errors: Vec<f64> =
            figures.filter_map(|figure| figure.error_percent).map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        // The smallest error that this percentage of values does not exceed.
        let quantile = |percent: usize| {
            let place = (errors.len() * percent).div_ceil(100).saturating_sub(1);
            errors.get(place).copied().unwrap_or(0.0)
        };
        Errors {
            values: errors.len(),
            median: quantile(50),
            ninth: quantile(90),
            worst: quantile(100),
        }
    }
}

/// A count out of a total.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Share {
    /// The count.
    pub kept: usize,
    /// The total.
    pub all: usize,
}

impl Share {
    fn of(each: impl Iterator<Item = bool>) -> Share {
        each.fold(Share::default(), |share, kept| Share {
            kept: share.kept + usize::from(kept),
            all: share.all + 1,
        })
    }

    /// The percentage; 100 for an empty total.
    pub fn percent(self) -> f64 {
        if self.all == 0 { 100.0 } else { self.kept as f64 / self.all as f64 * 100.0 }
    }
}

/// The accuracy of a whole report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Runs with fitted parameters.
    pub fitted: Errors,
    /// Runs that were not used in a fit.
    pub held_out: Errors,
    /// Calculated values: links and facts.
    pub reckoned: Errors,
    /// The held-out values within the interval from errors behind other controllers.
    pub covered: Share,
    /// Bounds: ratios of runs, and values with limits.
    pub bounds: Share,
    /// Statements, each right if all its bounds hold.
    pub statements: Share,
    /// Figures without a prediction.
    pub missing: usize,
}

impl Report {
    /// Summarises the report.
    pub fn summary(&self) -> Summary {
        let run = |calibrated: bool| {
            let wanted = move |figure: &&Reproduced| {
                figure.place.is_some() && figure.calibrated == calibrated
            };
            Errors::of(self.reproduced.iter().filter(wanted))
        };
        let within =
            |figure: &Reproduced| Some(figure.error_percent?.abs() <= figure.expected_percent?);
        let bounds = || self.reproduced.iter().filter(|figure| figure.error_percent.is_none());
        let mut statements: BTreeMap<&str, bool> = BTreeMap::new();
        for figure in bounds() {
            *statements.entry(&figure.id).or_insert(true) &= figure.right;
        }
        Summary {
            fitted: run(true),
            held_out: run(false),
            reckoned: Errors::of(self.reproduced.iter().filter(|figure| figure.place.is_none())),
            covered: Share::of(self.reproduced.iter().filter_map(within)),
            bounds: Share::of(bounds().map(|figure| figure.right)),
            statements: Share::of(statements.into_values()),
            missing: self.missing.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Figure, compared, figures};
    use super::*;

    fn figure(error: f64, expected: Option<f64>, runs: bool) -> Reproduced {
        let figure: Figure = figures().unwrap().remove(0);
        let case = "CP400i / 8xSAS-12G-HDD / raid0 / database / fujitsu2016 / off @ 8";
        let case = super::super::Case::parse(case).unwrap();
        let place = case.place(models::Catalog::builtin(), super::super::Metric::Iops).unwrap();
        let found = compared(&figure, String::new(), 100.0, 100.0 + error);
        Reproduced { place: runs.then_some(place), expected_percent: expected, ..found }
    }

    #[test]
    fn what_was_run_is_not_mixed_with_what_is_reckoned() {
        let reproduced = vec![
            figure(0.0, None, false),
            figure(-4.0, Some(5.0), true),
            figure(6.0, Some(5.0), true),
            Reproduced { calibrated: true, ..figure(1.0, None, true) },
        ];
        let summary = Report { reproduced, missing: Vec::new(), not_compared: 0 }.summary();
        assert_eq!(
            (summary.held_out.values, summary.held_out.median, summary.held_out.worst),
            (2, 4.0, 6.0)
        );
        assert_eq!((summary.fitted.values, summary.reckoned.values), (1, 1));
        assert_eq!(summary.covered, Share { kept: 1, all: 2 });
        assert!((summary.covered.percent() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_statement_is_right_when_all_of_it_is() {
        let bound = |id: &str, right| Reproduced {
            id: id.to_owned(),
            right,
            error_percent: None,
            ..figure(0.0, None, true)
        };
        let reproduced = vec![bound("a", true), bound("a", false), bound("b", true)];
        let summary = Report { reproduced, missing: Vec::new(), not_compared: 0 }.summary();
        assert_eq!(summary.bounds, Share { kept: 2, all: 3 });
        assert_eq!(summary.statements, Share { kept: 1, all: 2 });
    }
}
