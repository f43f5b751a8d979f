//! Steady state: whether a target's latest rounds are alike.
//!
//! The rule is that of the SNIA Solid State Storage Performance Test Specification (Enterprise,
//! 2.0.2): over a window of five rounds, (1) the largest and the smallest value differ by at most
//! 20 % of the window's average, and (2) the least-squares line through the five values rises or
//! falls by at most 10 % of the average from the window's first round to its last. A test ends with
//! the first window that passes, or after 25 rounds without one.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The rule for a steady state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SteadyRule {
    /// The length of a round.
    pub round: Duration,
    /// The number of rounds in a window; the last window is the measured one.
    pub window_rounds: u32,
    /// The maximum number of rounds.
    pub max_rounds: u32,
    /// The maximum difference between the largest and the smallest round, in percent of their
    /// average.
    pub range_percent: f64,
    /// The maximum rise or fall of the line through the rounds over the window, in percent of the
    /// average.
    pub slope_percent: f64,
}

impl SteadyRule {
    /// The rule of the SNIA test with rounds of this length; the test uses one minute.
    pub fn snia(round: Duration) -> SteadyRule {
        SteadyRule {
            round,
            window_rounds: 5,
            max_rounds: 25,
            range_percent: 20.0,
            slope_percent: 10.0,
        }
    }

    /// Evaluates the last window of `rounds` (a figure each); `None` if there are too few.
    pub fn judge(&self, rounds: &[f64]) -> Option<SteadyState> {
        let window = self.window_rounds as usize;
        let last =
            rounds.get(rounds.len().checked_sub(window)?..).filter(|last| last.len() >= 2)?;
        let average = last.iter().sum::<f64>() / window as f64;
        let (low, high) =
            last.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(*value), high.max(*value))
            });
        // Without any throughput, the state does not count as steady.
        let moves = average > 0.0;
        let percent = |value: f64| if moves { (value / average * 1e5).round() / 1e3 } else { 0.0 };
        let range_percent = percent(high - low);
        let slope_percent = percent(slope(last).abs() * (window - 1) as f64);
        Some(SteadyState {
            reached: moves
                && range_percent <= self.range_percent
                && slope_percent <= self.slope_percent,
            rounds: rounds.len() as u32,
            round_s: self.round.as_secs_f64(),
            range_percent,
            slope_percent,
        })
    }
}

/// The steadiness of a row's target, by the criteria of a [`SteadyRule`].
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SteadyState {
    /// Whether the last five rounds pass the rule.
    pub reached: bool,
    /// The number of rounds; the last five are the row's window.
    pub rounds: u32,
    /// The length of a round.
    pub round_s: f64,
    /// The difference between the largest and the smallest of the five, in percent of their
    /// average.
    pub range_percent: f64,
    /// The rise or fall of the line through the five, in percent of their average.
    pub slope_percent: f64,
}

/// The slope of the least-squares line, per round.
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let (middle, average) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let pairs =
        || values.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - average));
    pairs().map(|(x, y)| x * y).sum::<f64>() / pairs().map(|(x, _)| x * x).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rounds: &[f64]) -> Option<SteadyState> {
        SteadyRule::snia(Duration::from_secs(60)).judge(rounds)
    }

    #[test]
    fn the_last_five_rounds_are_judged_by_range_and_slope() {
        for (rounds, range, slope, reached) in [
            (&[100.0; 5][..], 0.0, 0.0, true),
            // Rounds before the window do not matter.
            (&[900.0, 500.0, 100.0, 100.0, 100.0, 100.0, 100.0], 0.0, 0.0, true),
            // A range of 20 % without a trend passes; a little more does not.
            (&[100.0, 110.0, 100.0, 90.0, 100.0], 20.0, 8.0, true),
            (&[100.0, 89.0, 100.0, 111.0, 100.0], 22.0, 8.8, false),
            // A trend of 10 % from first to last passes; a little more does not, although the range
            // would.
            (&[105.0, 102.5, 100.0, 97.5, 95.0], 10.0, 10.0, true),
            (&[94.0, 97.0, 100.0, 103.0, 106.0], 12.0, 12.0, false),
        ] {
            let steady = judge(rounds).unwrap();
            assert_eq!(
                (steady.range_percent, steady.slope_percent, steady.reached),
                (range, slope, reached),
                "{rounds:?}"
            );
            assert_eq!(steady.rounds as usize, rounds.len());
        }
    }

    #[test]
    fn too_few_rounds_are_not_judged_and_silence_is_not_steady() {
        assert_eq!(judge(&[100.0; 4]), None);
        assert_eq!(judge(&[]), None);
        let silent = judge(&[0.0; 5]).unwrap();
        assert!(!silent.reached && silent.range_percent == 0.0);
    }
}
