//! The ladder: the numbers of outstanding I/Os at which a target is measured.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// The maximum number of outstanding I/Os of a point.
pub const MAX_OUTSTANDING: u32 = 65_536;

/// Numbers of outstanding I/Os, in the order of measurement. `1..512` is the powers of two from 1
/// to 512; `1,3,8,16` is a list; both can be combined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    rungs: Vec<u32>,
}

impl Ladder {
    /// A ladder with these numbers.
    ///
    /// # Errors
    /// When the list is empty, or a number is zero, above [`MAX_OUTSTANDING`], or repeated.
    pub fn new(rungs: Vec<u32>) -> Result<Ladder> {
        if rungs.is_empty() {
            return Err(wrong("no number of outstanding I/Os is given".to_owned()));
        }
        for (at, rung) in rungs.iter().enumerate() {
            if !(1..=MAX_OUTSTANDING).contains(rung) {
                return Err(wrong(format!(
                    "{rung} outstanding I/Os is not between 1 and {MAX_OUTSTANDING}"
                )));
            }
            if rungs[..at].contains(rung) {
                return Err(wrong(format!("{rung} outstanding I/Os is listed twice")));
            }
        }
        Ok(Ladder { rungs })
    }

    /// The numbers, in the order of measurement.
    pub fn rungs(&self) -> &[u32] {
        &self.rungs
    }

    /// The highest number.
    pub fn highest(&self) -> u32 {
        self.rungs.iter().copied().max().unwrap_or(1)
    }
}

impl Default for Ladder {
    /// The powers of two from 1 to 512, as in the white papers.
    fn default() -> Ladder {
        Ladder { rungs: (0..=9).map(|power| 1 << power).collect() }
    }
}

fn wrong(sentence: String) -> Error {
    Error::new(
        ErrorKind::BadLadder,
        format!("{sentence}; give powers of two as 1..512 or a list as 1,3,8,16"),
    )
}

impl FromStr for Ladder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Ladder> {
        let number = |part: &str| {
            part.trim().parse::<u32>().map_err(|_| {
                wrong(format!("'{part}' in '{text}' is not a number of outstanding I/Os"))
            })
        };
        let mut rungs = Vec::new();
        for part in text.split(',') {
            let Some((first, last)) = part.split_once("..") else {
                rungs.push(number(part)?);
                continue;
            };
            let (first, last) = (number(first)?, number(last)?);
            if !first.is_power_of_two() || !last.is_power_of_two() || first > last {
                return Err(wrong(format!(
                    "'{part}' is not a range from one power of two to a larger one"
                )));
            }
            rungs.extend((first.trailing_zeros()..=last.trailing_zeros()).map(|power| 1 << power));
        }
        Ladder::new(rungs)
    }
}

impl fmt::Display for Ladder {
    /// The input form: `1..512`, or a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doubles =
            self.rungs[0].is_power_of_two() && self.rungs.windows(2).all(|w| w[1] == w[0] * 2);
        if doubles && self.rungs.len() > 2 {
            return write!(f, "{}..{}", self.rungs[0], self.highest());
        }
        let rungs: Vec<String> = self.rungs.iter().map(u32::to_string).collect();
        f.write_str(&rungs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_powers_of_two_and_lists_are_lists() {
        for (text, rungs, again) in [
            ("1..512", &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512][..], "1..512"),
            ("1,3,8,16", &[1, 3, 8, 16], "1,3,8,16"),
            ("32", &[32], "32"),
            (" 8 .. 32 , 1", &[8, 16, 32, 1], "8,16,32,1"),
            ("4..4", &[4], "4"),
        ] {
            let ladder: Ladder = text.parse().unwrap();
            assert_eq!(ladder.rungs(), rungs, "{text}");
            assert_eq!(ladder.to_string(), again);
        }
        assert_eq!(Ladder::default().to_string(), "1..512");
    }

    #[test]
    fn a_wrong_ladder_gets_a_sentence() {
        for (text, part) in [
            ("", "'' in '' is not a number"),
            ("many", "'many' in 'many' is not a number"),
            ("0", "0 outstanding I/Os is not between 1 and 65536"),
            ("1..131072", "131072 outstanding I/Os is not between"),
            ("3..20", "'3..20' is not a range from one power of two to a larger one"),
            ("8..1", "'8..1' is not a range"),
            ("1,2,1", "1 outstanding I/Os is listed twice"),
            ("-1", "'-1' in '-1' is not a number"),
        ] {
            let error = text.parse::<Ladder>().unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadLadder);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
