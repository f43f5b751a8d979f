//! Compares measurements: per load profile, whether one side is faster, slower, or equal, at the 95
//! % level.
//!
//! Two figures of each profile are compared: the rate, and the 99th percentile of the latency. For
//! each number of outstanding I/Os that both sides measured, the logarithm of the ratio is taken,
//! with the standard error of the two intervals. A profile's change is the mean of these
//! logarithms, the geometric mean of the ratios. Its degrees of freedom are Welch's (Welch,
//! *Biometrika* 34, 1947; Satterthwaite's formula), since the sides' errors differ.
//!
//! With many comparisons some difference appears by chance. The intervals are therefore valid
//! *together* at 95 %: each has the level 1 − 0.05/m for m comparisons (Bonferroni, Dunn). A
//! verdict means that such an interval excludes zero.

use crate::results::Results;
use crate::results::sides::side_name;
use crate::row::Row;
use crate::row::notes::Grade;
use crate::statistics::estimate::{student_p, student_t, student_t_95};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use units::counted;

/// The joint level of all verdicts.
const LEVEL: f64 = 0.05;

/// Smaller changes are irrelevant.
const NEGLIGIBLE: f64 = 0.05;

/// The result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The other side is faster: more requests per second, or shorter latencies.
    Faster,
    /// The other side is slower.
    Slower,
    /// No relevant difference: the interval contains zero and ends within 5 % of it.
    NoDifference,
    /// The interval contains zero, but is too wide for a verdict: measure longer.
    Inconclusive,
    /// No intervals, or no points that both sides measured.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifference => "no difference",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Unknown => "unknown",
        })
    }
}

/// The change of a figure from the first side to the other, in percent of the first.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The change.
    pub percent: f64,
    /// The interval of the true change, valid together with all others of this comparison at 95 %.
    pub ci95_percent: Option<[f64; 2]>,
    /// The p-value of this figure alone: the probability of such a difference by chance.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Change {
    /// As text: `+10.0 % (+8.1 to +11.9 %)`.
    pub fn text(&self) -> String {
        let signed = |value: f64| format!("{value:+.1}").replace('-', "\u{2212}");
        match self.ci95_percent {
            Some([low, high]) => {
                format!("{} % ({} to {} %)", signed(self.percent), signed(low), signed(high))
            }
            None => format!("{} %", signed(self.percent)),
        }
    }
}

/// One number of outstanding I/Os.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PointChange {
    /// Outstanding I/Os.
    pub outstanding: u32,
    /// Requests per second of the first side and of the other.
    pub iops: [f64; 2],
    /// The change of the rate, in percent.
    pub iops_percent: f64,
    /// The 99th percentiles in microseconds, if both are known.
    pub latency_us_p99: Option<[f64; 2]>,
}

/// One load profile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProfileChange {
    /// Its name.
    pub profile: String,
    /// The best rate of each side, in requests per second.
    pub best_iops: [f64; 2],
    /// The change of the rate over all common points.
    pub iops: Change,
    /// The change of the 99th percentile over all common points; a negative change is faster.
    pub latency_us_p99: Change,
    /// Each common number of outstanding I/Os.
    pub points: Vec<PointChange>,
}

/// One side compared with the first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The baseline side.
    pub baseline: String,
    /// The other side.
    pub other: String,
    /// In the order of the first side.
    pub profiles: Vec<ProfileChange>,
}

/// All comparisons, with cautions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparisons {
    /// Each other side compared with the first.
    pub comparisons: Vec<Comparison>,
    /// The number of compared figures, over which the intervals are jointly valid.
    pub figures: usize,
    /// Other differences between the sides, and doubts about rows.
    pub cautions: Vec<String>,
}

/// A side: a target of a run.
struct Side<'a> {
    name: String,
    target: &'a str,
    results: &'a Results,
}

impl<'a> Side<'a> {
    fn rows(&self, profile: &str) -> BTreeMap<u32, &'a Row> {
        let own = |row: &&Row| row.target == self.target && row.profile == profile;
        self.results.rows.iter().filter(own).map(|row| (row.outstanding, row)).collect()
    }
}

/// The logarithm of a ratio, its standard error, and the parts of its variance with their degrees
/// of freedom.
#[derive(Clone, Default)]
struct LogRatio {
    value: f64,
    parts: Option<Vec<(f64, f64)>>,
}

impl LogRatio {
    fn of(values: [f64; 2], errors: Option<[(f64, f64); 2]>) -> Option<LogRatio> {
        let [a, b] = values;
        (a > 0.0 && b > 0.0).then(|| LogRatio {
            value: (b / a).ln(),
            parts: errors.map(|errors| {
                errors.iter().map(|(error, freedom)| (error * error, *freedom)).collect()
            }),
        })
    }

    fn mean(all: &[LogRatio]) -> Option<LogRatio> {
        let count = all.len() as f64;
        let value = all.iter().map(|one| one.value).sum::<f64>() / count;
        let parts: Option<Vec<_>> = all.iter().map(|one| one.parts.clone()).collect();
        let scaled = |(variance, freedom): (f64, f64)| (variance / count / count, freedom);
        let parts = parts.map(|parts| parts.into_iter().flatten().map(scaled).collect());
        (!all.is_empty()).then_some(LogRatio { value, parts })
    }

    /// `sign` is 1 if more is faster, −1 if less is.
    fn judge(&self, comparisons: usize, sign: f64) -> Change {
        let percent = |log: f64| round((log.exp() - 1.0) * 100.0);
        let change = Change {
            percent: percent(self.value),
            ci95_percent: None,
            p: None,
            verdict: Verdict::Unknown,
        };
        let Some(parts) = &self.parts else { return change };
        let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
        let squares: f64 =
            parts.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
        let freedom =
            if squares > 0.0 { variance * variance / squares } else { f64::from(u16::MAX) };
        let error = variance.sqrt();
        let half = student_t(LEVEL / comparisons.max(1) as f64, freedom) * error;
        let (low, high) = (self.value - half, self.value + half);
        let verdict = match (low * sign, high * sign) {
            (a, b) if a > 0.0 && b > 0.0 => Verdict::Faster,
            (a, b) if a < 0.0 && b < 0.0 => Verdict::Slower,
            _ if low.exp() >= 1.0 - NEGLIGIBLE && high.exp() <= 1.0 + NEGLIGIBLE => {
                Verdict::NoDifference
            }
            _ => Verdict::Inconclusive,
        };
        // Two figures without any spread are either equal or different.
        let p = if self.value == 0.0 { 1.0 } else { student_p(self.value / error, freedom) };
        Change { ci95_percent: Some([percent(low), percent(high)]), p: Some(p), verdict, ..change }
    }
}

fn round(percent: f64) -> f64 {
    (percent * 1e3).round() / 1e3
}

/// The standard error of ln(iops), with its degrees of freedom.
fn rate_error(row: &Row) -> Option<(f64, f64)> {
    let interval = row.ci95.filter(|_| row.iops > 0.0)?;
    let half = interval.iops[1] - row.iops;
    Some((half.max(0.0) / student_t_95(interval.freedom) / row.iops, interval.freedom))
}

/// The standard error of ln(p99), with its degrees of freedom.
fn p99_error(row: &Row) -> Option<(f64, f64)> {
    let interval = row.ci95?;
    let [low, high] = interval.latency_us_p99?;
    (low > 0.0)
        .then(|| ((high / low).ln() / 2.0 / student_t_95(interval.freedom), interval.freedom))
}

fn p99(row: &Row) -> Option<f64> {
    row.latency_us.and_then(|latency| latency.p99)
}

/// The sides of named runs: each run, or each of its targets if it has several.
fn sides<'a>(runs: &'a [(String, &'a Results)]) -> Vec<Side<'a>> {
    let mut sides = Vec::new();
    for (run, results) in runs {
        let targets = results.targets();
        for target in &targets {
            let name = side_name(runs.len(), run, targets.len(), target);
            sides.push(Side { name, target, results });
        }
    }
    sides
}

/// The baseline of each other side: the same target of the first run, otherwise the first side.
fn pairs<'a, 'b>(sides: &'b [Side<'a>]) -> Vec<(&'b Side<'a>, &'b Side<'a>)> {
    let Some(first) = sides.first() else { return Vec::new() };
    let of_first_run: Vec<&Side<'_>> =
        sides.iter().filter(|side| std::ptr::eq(side.results, first.results)).collect();
    let one_run = of_first_run.len() == sides.len();
    let others = sides.iter().skip(if one_run { 1 } else { of_first_run.len() });
    others
        .map(|other| {
            let same = of_first_run.iter().find(|side| !one_run && side.target == other.target);
            (same.copied().unwrap_or(first), other)
        })
        .collect()
}

/// Compares named runs with the first of them; the targets of one run with its first target.
pub fn compare(runs: &[(String, &Results)]) -> Comparisons {
    let sides = sides(runs);
    let pairs = pairs(&sides);
    let shared = |(base, other): &(&Side<'_>, &Side<'_>)| -> Vec<String> {
        let both = |profile: &&str| {
            let theirs = other.rows(profile);
            base.rows(profile).keys().any(|outstanding| theirs.contains_key(outstanding))
        };
        base.results.profiles().into_iter().filter(both).map(str::to_owned).collect()
    };
    // Two figures per profile.
    let figures = 2 * pairs.iter().map(|pair| shared(pair).len()).sum::<usize>();
    let comparisons = pairs
        .iter()
        .map(|pair| Comparison {
            baseline: pair.0.name.clone(),
            other: pair.1.name.clone(),
            profiles: shared(pair)
                .iter()
                .map(|profile| compare_profile(profile, pair, figures))
                .collect(),
        })
        .collect();
    Comparisons { comparisons, figures, cautions: cautions(runs, &pairs) }
}

fn compare_profile(
    profile: &str,
    (base, other): &(&Side<'_>, &Side<'_>),
    figures: usize,
) -> ProfileChange {
    let (ours, theirs) = (base.rows(profile), other.rows(profile));
    let matched: Vec<[&Row; 2]> = ours
        .iter()
        .filter_map(|(outstanding, row)| Some([*row, *theirs.get(outstanding)?]))
        .collect();
    let both =
        |pick: fn(&Row) -> Option<(f64, f64)>, [a, b]: &[&Row; 2]| Some([pick(a)?, pick(b)?]);
    let rates: Vec<LogRatio> = matched
        .iter()
        .filter_map(|pair| LogRatio::of(pair.map(|row| row.iops), both(rate_error, pair)))
        .collect();
    let tails: Vec<LogRatio> = matched
        .iter()
        .filter_map(|pair| {
            let [a, b] = pair.map(p99);
            LogRatio::of([a?, b?], both(p99_error, pair))
        })
        .collect();
    let judge = |all: &[LogRatio], sign| {
        let none = Change { percent: 0.0, ci95_percent: None, p: None, verdict: Verdict::Unknown };
        LogRatio::mean(all).map_or(none, |mean| mean.judge(figures, sign))
    };
    let best =
        |rows: &BTreeMap<u32, &Row>| rows.values().fold(0.0_f64, |best, row| best.max(row.iops));
    let point = |pair: &[&Row; 2]| PointChange {
        outstanding: pair[0].outstanding,
        iops: pair.map(|row| row.iops),
        iops_percent: if pair[0].iops > 0.0 {
            round((pair[1].iops / pair[0].iops - 1.0) * 100.0)
        } else {
            0.0
        },
        latency_us_p99: p99(pair[0]).zip(p99(pair[1])).map(|(a, b)| [a, b]),
    };
    ProfileChange {
        profile: profile.to_owned(),
        best_iops: [best(&ours), best(&theirs)],
        iops: judge(&rates, 1.0),
        latency_us_p99: judge(&tails, -1.0),
        points: matched.iter().map(point).collect(),
    }
}

fn cautions(runs: &[(String, &Results)], pairs: &[(&Side<'_>, &Side<'_>)]) -> Vec<String> {
    let mut cautions = Vec::new();
    if runs.len() > 1 {
        cautions.push(
            "Each side is a single run: its intervals do not include the variation between runs. \
             To measure that, run both sides in turn (first, other, first, other)."
                .to_owned(),
        );
    }
    if let Some((name, first)) = runs.first() {
        for (other_name, other) in &runs[1..] {
            let differ = differences(first, other);
            if !differ.is_empty() {
                cautions.push(format!(
                    "'{other_name}' differs from '{name}' in {}.",
                    differ.join(", ")
                ));
            }
        }
    }
    let mut named: Vec<&str> = Vec::new();
    for side in pairs.iter().flat_map(|(base, other)| [base, other]) {
        let rows = side.results.rows.iter().filter(|row| row.target == side.target);
        let noted =
            |row: &&Row| row.notes.iter().any(|note| note.kind.grade() != Grade::Information);
        let noted = rows.filter(noted).count();
        if noted > 0 && !named.contains(&side.name.as_str()) {
            named.push(&side.name);
            cautions.push(format!(
                "{} of '{}' with warnings about the figures: softroc bench show lists them.",
                counted(noted, "row"),
                side.name
            ));
        }
    }
    cautions
}

/// The differences of two runs other than their rows.
fn differences(first: &Results, other: &Results) -> Vec<String> {
    let mut differ = Vec::new();
    let (a, b) = (&first.method, &other.method);
    let mut add = |what: &str, [a, b]: [String; 2]| {
        if a != b {
            differ.push(format!("{what} ({a} and {b})"));
        }
    };
    add("run time", [a, b].map(|method| format!("{} s", method.runtime_s)));
    add("ramp", [a, b].map(|method| format!("{} s", method.ramp_s)));
    add("workers", [a, b].map(|method| method.workers.to_string()));
    add("preconditioning", [a, b].map(|method| method.precondition.clone()));
    add("area", [a, b].map(|method| method.area.clone().unwrap_or_else(|| "all".to_owned())));
    for name in ["kernel", "processor", "cores", "memory", "softroc"] {
        let value = |results: &Results| {
            let fact = results.environment.0.iter().find(|(fact, _)| fact == name);
            fact.map_or_else(|| "unknown".to_owned(), |(_, value)| value.clone())
        };
        add(name, [value(first), value(other)]);
    }
    differ
}

impl Comparisons {
    /// The verdicts, as a sentence per profile and side.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |comparison: &Comparison, profile: &ProfileChange| {
            let rate = match profile.iops.verdict {
                Verdict::Faster => format!("faster than '{}'", comparison.baseline),
                Verdict::Slower => format!("slower than '{}'", comparison.baseline),
                Verdict::NoDifference => format!("as fast as '{}'", comparison.baseline),
                Verdict::Inconclusive => {
                    format!(
                        "not clearly faster or slower than '{}' (measure longer)",
                        comparison.baseline
                    )
                }
                Verdict::Unknown => "not compared: intervals are missing".to_owned(),
            };
            let tail = match profile.latency_us_p99.verdict {
                Verdict::Unknown => String::new(),
                Verdict::NoDifference => "; 99th percentiles no different".to_owned(),
                Verdict::Inconclusive => "; 99th percentiles inconclusive".to_owned(),
                _ => format!("; 99th percentile {}", profile.latency_us_p99.text()),
            };
            format!(
                "{}: '{}' is {rate}, {} in requests per second{tail}.",
                profile.profile,
                comparison.other,
                profile.iops.text()
            )
        };
        self.comparisons
            .iter()
            .flat_map(|comparison| {
                comparison.profiles.iter().map(move |profile| sentence(comparison, profile))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::random::Random;
    use crate::sample;

    /// A run of rows (profile, outstanding, rate, half width in percent).
    fn run(target: &str, rows: &[(&str, u32, f64, f64)]) -> Results {
        let mut results = sample::results();
        results.rows.clear();
        results.best.clear();
        for (profile, outstanding, iops, half) in rows {
            let mut row = sample::row(profile, *outstanding, *iops, 1e6 / iops);
            row.target = target.to_owned();
            let p99 = row.latency_us.unwrap().p99.unwrap();
            let interval = row.ci95.as_mut().unwrap();
            interval.iops = [iops * (1.0 - half / 100.0), iops * (1.0 + half / 100.0)];
            interval.latency_us_p99 =
                Some([p99 * (1.0 - half / 100.0), p99 * (1.0 + half / 100.0)]);
            results.add_row(row);
        }
        results
    }

    fn verdicts(first: &Results, other: &Results) -> Vec<(Verdict, Verdict)> {
        let comparisons = compare(&[("a".to_owned(), first), ("b".to_owned(), other)]);
        comparisons.comparisons[0]
            .profiles
            .iter()
            .map(|profile| (profile.iops.verdict, profile.latency_us_p99.verdict))
            .collect()
    }

    #[test]
    fn each_profile_has_its_verdict() {
        use Verdict::{Faster, Inconclusive, NoDifference, Slower};
        let first = run(
            "x",
            &[
                ("database", 1, 100.0, 1.0),
                ("database", 8, 800.0, 1.0),
                ("streaming", 1, 50.0, 1.0),
                ("restore", 1, 70.0, 5.0),
                ("file-copy", 1, 70.0, 1.0),
            ],
        );
        let other = run(
            "y",
            &[
                ("database", 1, 110.0, 1.0),
                ("database", 8, 880.0, 1.0),
                ("streaming", 1, 40.0, 1.0),
                ("restore", 1, 71.0, 5.0),
                ("file-copy", 1, 71.0, 1.0),
            ],
        );
        assert_eq!(
            verdicts(&first, &other),
            [
                (Faster, Faster),
                (Slower, Slower),
                (Inconclusive, Inconclusive),
                (NoDifference, NoDifference)
            ]
        );
        let comparisons = compare(&[("a".to_owned(), &first), ("b".to_owned(), &other)]);
        let database = &comparisons.comparisons[0].profiles[0];
        assert_eq!((database.iops.percent, database.points.len()), (10.0, 2));
        assert_eq!((database.best_iops, comparisons.figures), ([800.0, 880.0], 8));
        let [low, high] = database.iops.ci95_percent.unwrap();
        assert!(8.0 < low && low < 10.0 && 10.0 < high && high < 12.0, "{low} {high}");
        let sentences = comparisons.sentences();
        assert!(
            sentences[0].starts_with("database: 'b' is faster than 'a', +10.0 % ("),
            "{}",
            sentences[0]
        );
        let inconclusive = "'b' is not clearly faster or slower than 'a' (measure longer), +1.4 % \
                            (";
        assert!(sentences[2].contains(inconclusive), "{}", sentences[2]);
        assert!(sentences[3].contains("'b' is as fast as 'a', +1.4 % ("), "{}", sentences[3]);
    }

    #[test]
    fn only_what_both_measured_is_compared_and_without_intervals_nothing_is_said() {
        let first = run("x", &[("database", 1, 100.0, 1.0), ("streaming", 1, 50.0, 1.0)]);
        let mut other = run(
            "x",
            &[("database", 1, 100.0, 1.0), ("database", 2, 1.0, 1.0), ("streaming", 4, 50.0, 1.0)],
        );
        assert_eq!(verdicts(&first, &other), [(Verdict::NoDifference, Verdict::NoDifference)]);
        other.rows[0].ci95 = None;
        assert_eq!(verdicts(&first, &other), [(Verdict::Unknown, Verdict::Unknown)]);
        assert_eq!(compare(&[]).comparisons, []);
        assert_eq!(compare(&[("a".to_owned(), &first)]).comparisons, []);
    }

    #[test]
    fn targets_of_one_run_are_compared_with_its_first_and_targets_of_runs_with_their_own() {
        let names = |runs: &[(String, &Results)]| -> Vec<(String, String)> {
            compare(runs).comparisons.into_iter().map(|c| (c.baseline, c.other)).collect()
        };
        let mut both = run("x", &[("database", 1, 100.0, 1.0)]);
        run("y", &[("database", 1, 100.0, 1.0)]).rows.into_iter().for_each(|row| both.add_row(row));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(names(&[("1".to_owned(), &both)]), [pair("x", "y")]);
        let again = both.clone();
        assert_eq!(
            names(&[("1".to_owned(), &both), ("2".to_owned(), &again)]),
            [pair("1: x", "2: x"), pair("1: y", "2: y")]
        );
    }

    #[test]
    fn of_equal_sides_few_are_told_apart_over_all_profiles_together() {
        let mut random = Random::new(5);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        // The mean of thirty batches, and its half width, of a process with mean 100 and deviation
        // 5 per batch.
        let mut measured = || {
            let batches: Vec<f64> = (0..30)
                .map(|_| {
                    100.0
                        + 5.0
                            * (-2.0 * (1.0 - uniform()).ln()).sqrt()
                            * (std::f64::consts::TAU * uniform()).cos()
                })
                .collect();
            let mean = batches.iter().sum::<f64>() / 30.0;
            let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / 29.0;
            (mean, student_t_95(29.0) * (variance / 30.0).sqrt() / mean * 100.0)
        };
        let profiles = ["database", "streaming", "restore", "file-copy", "file-server"];
        let mut wrong = 0;
        for _ in 0..400 {
            let mut side = || {
                let rows: Vec<_> = profiles
                    .iter()
                    .map(|profile| {
                        let (mean, half) = measured();
                        (*profile, 1, mean, half)
                    })
                    .collect();
                run("x", &rows)
            };
            let told = verdicts(&side(), &side());
            wrong += usize::from(
                told.iter().any(|(rate, _)| matches!(rate, Verdict::Faster | Verdict::Slower)),
            );
        }
        // Five of the ten figures vary here: about half of 5 % of 400.
        assert!((2..=22).contains(&wrong), "{wrong} of 400");
    }

    #[test]
    fn what_else_differs_is_said() {
        let first = run("x", &[("database", 1, 100.0, 1.0)]);
        let mut other = first.clone();
        other.method.runtime_s = 5.0;
        other.environment.0[1].1 = "6.12.0".to_owned();
        other.rows[0]
            .notes
            .push(crate::Note { kind: crate::NoteKind::Thermal, text: "hot".to_owned() });
        let cautions = compare(&[("a".to_owned(), &first), ("b".to_owned(), &other)]).cautions;
        assert!(cautions[0].starts_with("Each side is a single run"));
        assert_eq!(
            cautions[1],
            "'b' differs from 'a' in run time (30 s and 5 s), kernel (6.1.0 and 6.12.0)."
        );
        assert!(cautions[2].starts_with("1 row of 'b' with warnings"));
    }
}
