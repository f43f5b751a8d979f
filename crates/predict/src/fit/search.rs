//! Searches for the parameters with the smallest errors: from many starting points, then down from
//! the best.
//!
//! Parameters are *coordinates* between 0 and 1. The search minimises the sum of squared errors. A
//! penalty for errors above 2 % prevents one large error in exchange for many small ones. A small
//! term for the distance from the start decides only between equal errors.
//!
//! 1. A grid: two values of each coordinate in all combinations, and the start.
//! 2. From the best of these, damped least-squares steps (Levenberg 1944, Marquardt 1963). They
//!    follow the narrow valleys of parameters that can replace each other.
//! 3. From the end of each, a search along each coordinate (Hooke and Jeeves 1961), near and far: a
//!    parameter that limits nothing yet has no slope.
//!
//! The first errors may come from short runs: [`refine`] continues with longer ones.
//!
//! There is no randomness: the same errors lead to the same result.

use crate::error::Result;

/// The grid's two values of each coordinate.
const GRID: [f64; 2] = [0.25, 0.7];
/// The usual number of descents, the maximum, and the steps of each.
const DESCENTS: usize = 4;
const MOST_DESCENTS: usize = 16;
const STEPS: usize = 6;
/// The step of a coordinate for a slope. Runs of a model are slightly noisy.
const SLOPE_STEP: f64 = 0.04;
/// The first and the last step along a coordinate, and the multiple for the far step.
const FIRST_STEP: f64 = 0.04;
const LAST_STEP: f64 = 0.005;
const FAR: [f64; 3] = [6.0, 2.0, 1.0];
/// The error that the full range of a coordinate counts as.
const DISTANCE: f64 = 0.02;
/// Below this, further descents gain nothing: about 1 % for each of five errors.
const GOOD_ENOUGH: f64 = 6e-4;
/// Below this, [`DESCENTS`] attempts are enough: about 2 % for each of five errors.
const ACCEPTABLE: f64 = 2.5e-3;

fn badness(errors: &[f64]) -> f64 {
    let one = |error: &f64| error.powi(2) + 4.0 * (error.abs() - 0.02).max(0.0).powi(2);
    errors.iter().map(one).sum()
}

/// A point with its errors, including the distances from the start.
#[derive(Clone, Debug)]
struct Point {
    at: Vec<f64>,
    errors: Vec<f64>,
    badness: f64,
}

/// Errors at coordinates.
pub type Errors<'a> = dyn FnMut(&[f64]) -> Result<Vec<f64>> + 'a;

struct Search<'a, 'b> {
    errors: &'a mut Errors<'b>,
    start: &'a [f64],
}

/// Returns the coordinates with the smallest `errors` from `start`, with at most `rounds` searches
/// along all coordinates.
///
/// # Errors
/// Those of `errors`.
pub fn search(errors: &mut Errors<'_>, start: &[f64], rounds: u32) -> Result<Vec<f64>> {
    let mut search = Search { errors, start };
    let mut places = vec![search.look(start.to_vec())?];
    for corner in 0..1_u32 << start.len() {
        let at = (0..start.len()).map(|i| GRID[(corner >> i & 1) as usize]).collect();
        places.push(search.look(at)?);
    }
    places.sort_by(|a, b| a.badness.total_cmp(&b.badness));
    let mut best = places[0].clone();
    for (nth, place) in places.into_iter().enumerate() {
        let enough = match nth {
            0..DESCENTS => GOOD_ENOUGH,
            DESCENTS..MOST_DESCENTS => ACCEPTABLE,
            _ => break,
        };
        if best.badness < enough {
            break;
        }
        let lower = search.descend(place)?;
        let lower = search.along(lower, rounds)?;
        if lower.badness < best.badness {
            best = lower;
        }
    }
    Ok(best.at)
}

/// Returns the coordinates with the smallest `errors` near `from`, the result of a search from
/// `start`.
///
/// # Errors
/// Those of `errors`.
pub fn refine(
    errors: &mut Errors<'_>,
    start: &[f64],
    from: &[f64],
    rounds: u32,
) -> Result<Vec<f64>> {
    let mut search = Search { errors, start };
    let place = search.look(from.to_vec())?;
    let lower = search.descend(place)?;
    Ok(search.along(lower, rounds)?.at)
}

impl Search<'_, '_> {
    fn look(&mut self, at: Vec<f64>) -> Result<Point> {
        let mut errors = (self.errors)(&at)?;
        errors.extend(at.iter().zip(self.start).map(|(at, start)| DISTANCE * (at - start)));
        let badness = badness(&errors);
        Ok(Point { at, errors, badness })
    }

    fn descend(&mut self, mut best: Point) -> Result<Point> {
        let mut damping = 0.01;
        for _ in 0..STEPS {
            let slopes = self.slopes(&best)?;
            let before = best.badness;
            for _ in 0..3 {
                let Some(step) = step(&slopes, &best.errors, damping) else { break };
                let at = best
                    .at
                    .iter()
                    .zip(&step)
                    .map(|(at, step)| (at + step).clamp(0.0, 1.0))
                    .collect();
                let tried = self.look(at)?;
                if tried.badness < best.badness {
                    best = tried;
                    damping /= 4.0;
                    break;
                }
                damping *= 6.0;
            }
            if best.badness > before * 0.97 {
                break;
            }
        }
        Ok(best)
    }

    /// The slope of each error for each coordinate: a row per coordinate.
    fn slopes(&mut self, place: &Point) -> Result<Vec<Vec<f64>>> {
        let mut rows = Vec::new();
        for i in 0..place.at.len() {
            let mut at = place.at.clone();
            at[i] += if at[i] + SLOPE_STEP <= 1.0 { SLOPE_STEP } else { -SLOPE_STEP };
            let moved = at[i] - place.at[i];
            let there = self.look(at)?.errors;
            rows.push(
                there
                    .iter()
                    .zip(&place.errors)
                    .map(|(there, here)| (there - here) / moved)
                    .collect(),
            );
        }
        Ok(rows)
    }

    fn along(&mut self, mut best: Point, rounds: u32) -> Result<Point> {
        let mut step = FIRST_STEP;
        for _ in 0..rounds {
            let before = best.badness;
            for i in 0..best.at.len() {
                for way in FAR.iter().flat_map(|far| [far * step, -far * step]) {
                    best = self.as_long_as_it_helps(best, i, way)?;
                }
            }
            if best.badness > before * 0.99 {
                step /= 2.0;
            }
            if step < LAST_STEP {
                break;
            }
        }
        Ok(best)
    }

    fn as_long_as_it_helps(&mut self, mut best: Point, i: usize, way: f64) -> Result<Point> {
        loop {
            let mut at = best.at.clone();
            at[i] = (at[i] + way).clamp(0.0, 1.0);
            if at == best.at {
                return Ok(best);
            }
            let tried = self.look(at)?;
            if tried.badness >= best.badness {
                return Ok(best);
            }
            best = tried;
        }
    }
}

/// The damped step to the minimum of the linearised errors: (S·Sᵀ + d·diag)·x = −S·e. `None`
/// without any slope.
fn step(slopes: &[Vec<f64>], errors: &[f64], damping: f64) -> Option<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let n = slopes.len();
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let mut row: Vec<f64> = (0..n).map(|j| dot(&slopes[i], &slopes[j])).collect();
            row[i] += damping * row[i];
            row.push(-dot(&slopes[i], errors));
            row
        })
        .collect();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs()))?;
        rows.swap(i, pivot);
        let (above, below) = rows.split_at_mut(i + 1);
        let first = &above[i];
        for row in below {
            let times = row[i] / first[i];
            row.iter_mut().zip(first).for_each(|(value, first)| *value -= times * first);
        }
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        x[i] = (rows[i][n] - dot(&rows[i][i + 1..n], &x[i + 1..])) / rows[i][i];
    }
    x.iter().all(|x| x.is_finite()).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rates that depend on the sum and the ratio of two times, and a third limited by the
    /// larger: a narrow valley with a kink, away from the start.
    #[test]
    fn a_narrow_valley_is_followed_to_its_end() {
        let mut looks = 0;
        let mut errors = |at: &[f64]| {
            looks += 1;
            let (a, b) = (1.0 + 9.0 * at[0], 1.0 + 9.0 * at[1]);
            Ok(vec![(a + b) / 11.0 - 1.0, 2.0 / a.max(b / 5.0) - 1.0, a * b / 18.0 - 1.0])
        };
        let found = search(&mut errors, &[0.9, 0.1], 20).unwrap();
        let (a, b) = (1.0 + 9.0 * found[0], 1.0 + 9.0 * found[1]);
        assert!((a - 2.0).abs() < 0.1 && (b - 9.0).abs() < 0.2, "{a} {b}");
        assert!(looks < 250, "{looks}");
    }

    /// Short runs are 5 % off: their optimum is not that of long runs.
    #[test]
    fn better_errors_move_what_rough_ones_found() {
        let mut rough = |at: &[f64]| Ok(vec![at[0] * 1.05 - 0.4, at[1] * 0.95 - 0.4]);
        let found = search(&mut rough, &[0.5, 0.5], 20).unwrap();
        let mut better = |at: &[f64]| Ok(vec![at[0] - 0.4, at[1] - 0.4]);
        let refined = refine(&mut better, &[0.5, 0.5], &found, 20).unwrap();
        assert!(found.iter().any(|at| (at - 0.4).abs() > 0.01), "{found:?}");
        assert!(refined.iter().all(|at| (at - 0.4).abs() < 0.005), "{refined:?}");
    }

    #[test]
    fn a_coordinate_that_nothing_follows_stays_where_the_search_began() {
        let mut errors = |at: &[f64]| Ok(vec![at[0] - 0.4, (at[0] - 0.4) * 2.0]);
        let found = search(&mut errors, &[0.5, 0.6], 20).unwrap();
        assert!((found[0] - 0.4).abs() < 0.01 && (found[1] - 0.6).abs() < 0.01, "{found:?}");
    }

    /// The second coordinate limits nothing near the start: it has no slope there.
    #[test]
    fn what_shows_no_slope_is_found_by_looking_far() {
        let mut errors =
            |at: &[f64]| Ok(vec![1.0 / (0.3 + at[0]).max(2.0 * at[1]) / 0.625 - 1.0, at[0] - 0.2]);
        let found = search(&mut errors, &[0.2, 0.1], 20).unwrap();
        let left = errors(&found).unwrap();
        assert!(left.iter().all(|error| error.abs() < 0.01), "{found:?}: {left:?}");
    }
}
