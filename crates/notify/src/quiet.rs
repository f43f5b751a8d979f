//! Quiet hours: only critical events are sent.

use controller::{Error, ErrorKind, Severity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const DAY_S: u64 = 86_400;

/// Daily hours in UTC, such as `22:00-07:00`. Other messages wait until they end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quiet {
    from_s: u64,
    to_s: u64,
}

impl Quiet {
    /// When a message of that severity may be sent: `now_s`, or the end of the quiet hours. Seconds
    /// since 1970.
    pub fn until(self, severity: Severity, now_s: u64) -> u64 {
        if severity >= Severity::Critical {
            return now_s;
        }
        let length = (DAY_S + self.to_s - self.from_s) % DAY_S;
        let since = (DAY_S + now_s % DAY_S - self.from_s) % DAY_S;
        if since < length { now_s + length - since } else { now_s }
    }
}

impl FromStr for Quiet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Quiet, Error> {
        let wrong = || {
            let sentence = format!(
                "'{text}' is not a time range; expected HH:MM-HH:MM (UTC), as in 22:00-07:00"
            );
            Error::new(ErrorKind::Invalid, sentence)
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from_s, to_s) = (time(from).ok_or_else(wrong)?, time(to).ok_or_else(wrong)?);
        if from_s == to_s { Err(wrong()) } else { Ok(Quiet { from_s, to_s }) }
    }
}

/// Parses `HH:MM` into seconds of the day.
fn time(text: &str) -> Option<u64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |digits: &str, below: u64| -> Option<u64> {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_two && *number < below)
    };
    Some(number(hour, 24)? * 3600 + number(minute, 60)? * 60)
}

impl fmt::Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |s: u64| format!("{:02}:{:02}", s / 3600, s / 60 % 60);
        write!(f, "{}-{}", time(self.from_s), time(self.to_s))
    }
}

impl TryFrom<String> for Quiet {
    type Error = Error;

    fn try_from(text: String) -> Result<Quiet, Error> {
        text.parse()
    }
}

impl From<Quiet> for String {
    fn from(quiet: Quiet) -> String {
        quiet.to_string()
    }
}
