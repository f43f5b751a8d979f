//! The test setup: run time, ramp-up time, and the queue depths of a test that cycles through them.

use super::super::{Import, Place};
use std::time::Duration;

/// More queue depths than this are rejected.
const MOST_DEPTHS: usize = 256;

/// The content of the section.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) runtime: Option<Duration>,
    pub(super) ramp: Option<Duration>,
    /// Queue depths with their line, even if the test does not cycle through them.
    cycling: Option<(Place, Vec<u32>)>,
    cycles: bool,
}

impl Setup {
    /// The queue depths through which the test cycles.
    pub(super) fn depths(&self) -> Option<(&Place, &[u32])> {
        let (place, depths) = self.cycling.as_ref().filter(|_| self.cycles)?;
        Some((place, depths))
    }

    /// Reads a line after the comment `key`.
    pub(super) fn line(&mut self, import: &mut Import, place: &Place, key: &str, line: &str) {
        if key.starts_with("hours") || key == "run time" {
            match run_time(line) {
                Some(Duration::ZERO) => import.note(
                    place,
                    format_args!("'{line}' runs until it is stopped; use --runtime when measuring"),
                ),
                Some(time) => self.runtime = Some(time),
                None => import.note(
                    place,
                    format_args!(
                        "'{line}' is no run time and is left out; \
                    expected hours, minutes and seconds; use --runtime when measuring"
                    ),
                ),
            }
        } else if key.starts_with("ramp up time") {
            match line.trim().parse::<u32>() {
                Ok(seconds) => self.ramp = Some(Duration::from_secs(u64::from(seconds))),
                Err(_) => import.note(
                    place,
                    format_args!(
                        "'{line}' is no ramp-up time and is left \
                    out; expected seconds; use --ramp when measuring"
                    ),
                ),
            }
        } else if key.starts_with("start") && key.contains("end") || key == "queue depth cycling" {
            match depths(line) {
                Some(depths) => self.cycling = Some((place.clone(), depths)),
                None => import.note(
                    place,
                    format_args!(
                        "'{line}' are no queue depths and are left \
                    out; expected start, end, step and LINEAR or EXPONENTIAL; use --outstanding \
                    when measuring"
                    ),
                ),
            }
        } else if key.starts_with("test type") {
            self.test_type(import, place, line);
        } else if key.starts_with("default disk workers") {
            let workers = match line.parse::<u32>() {
                Ok(count) => count.to_string(),
                Err(_) => "and the number of processors".to_owned(),
            };
            import.note(
                place,
                format_args!("'{line}' is left out; use --workers {workers} when measuring"),
            );
        }
    }

    /// Old versions have a number for the test type.
    fn test_type(&mut self, import: &mut Import, place: &Place, line: &str) {
        let name = line.to_ascii_uppercase();
        self.cycles = name.starts_with("CYCLE_OUTSTANDING_IOS") || ["6", "7"].contains(&&*name);
        let is_all = ["NORMAL", "CYCLE_OUTSTANDING_IOS", "0", "6"].contains(&&*name);
        if !is_all {
            import.note(
                place,
                format_args!(
                    "the test type '{line}' cycles through workers or \
                                             targets, which is left out; measure with --workers \
                                             1, 2 and so on, or name several targets"
                ),
            );
        }
    }
}

fn run_time(line: &str) -> Option<Duration> {
    let parts: Option<Vec<u64>> = line.split_whitespace().map(|part| part.parse().ok()).collect();
    let [hours, minutes, seconds] = parts?[..] else { return None };
    let whole = [(hours, 3600), (minutes, 60), (seconds, 1)];
    let sum = whole
        .iter()
        .try_fold(0_u64, |sum, (count, each)| sum.checked_add(count.checked_mul(*each)?))?;
    Some(Duration::from_secs(sum))
}

/// `1  32  2  EXPONENTIAL`: from 1 to 32, each twice the previous one.
fn depths(line: &str) -> Option<Vec<u32>> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [start, end, step, kind] = parts[..] else { return None };
    let [start, end, step] = [start, end, step].map(|number| number.parse::<u32>().ok());
    let (start, end, step) = (start.filter(|start| *start > 0)?, end?, step?);
    let next: fn(u32, u32) -> Option<u32> = match kind.to_ascii_uppercase().as_str() {
        "LINEAR" | "0" => u32::checked_add,
        "EXPONENTIAL" | "1" => u32::checked_mul,
        _ => return None,
    };
    let all = std::iter::successors(Some(start), |depth| {
        next(*depth, step).filter(|next| next > depth && *next <= end)
    });
    let depths: Vec<u32> = all.take(MOST_DEPTHS + 1).collect();
    (depths.len() <= MOST_DEPTHS).then_some(depths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_depths_are_added_or_multiplied() {
        for (line, expected) in [
            ("1 32 2 EXPONENTIAL", Some(vec![1, 2, 4, 8, 16, 32])),
            ("1          10         3          linear", Some(vec![1, 4, 7, 10])),
            ("4 4 2 EXPONENTIAL", Some(vec![4])),
            ("4 64 1 EXPONENTIAL", Some(vec![4])),
            ("4 64 0 LINEAR", Some(vec![4])),
            ("1 4294967295 4294967295 1", Some(vec![1, 4_294_967_295])),
            ("0 32 2 EXPONENTIAL", None),
            ("1 4000 1 LINEAR", None),
            ("1 32 2", None),
            ("1 32 2 CUBIC", None),
        ] {
            assert_eq!(depths(line), expected, "{line}");
        }
    }
}
