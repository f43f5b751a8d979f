//! Sizes as text: binary suffixes in input, binary units in output; drive capacities are decimal.

use crate::{ByteCount, ByteOffset, StripSize};
use std::fmt;
use std::str::FromStr;

/// The error for text that is not a size. It names the text and the expected format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseSizeError(String);

impl ParseSizeError {
    pub(crate) fn new(sentence: String) -> ParseSizeError {
        ParseSizeError(sentence)
    }
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseSizeError {}

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

fn parse_bytes(text: &str) -> Result<u64, ParseSizeError> {
    let wrong = || {
        ParseSizeError(format!(
            "'{text}' is not a size; expected a whole number with an optional suffix K, M, G, T or \
                P (binary: 1K = 1024), such as 64K"
        ))
    };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let suffix = suffix.trim_start().to_ascii_uppercase();
    let shift = match suffix.trim_end_matches('B').trim_end_matches('I') {
        "" if suffix.len() <= 1 => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| ParseSizeError(format!("'{text}' is more than 2^64 bytes")))
}

impl FromStr for ByteCount {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<ByteCount, ParseSizeError> {
        parse_bytes(text).map(ByteCount)
    }
}

impl FromStr for ByteOffset {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<ByteOffset, ParseSizeError> {
        parse_bytes(text).map(ByteOffset)
    }
}

impl FromStr for StripSize {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<StripSize, ParseSizeError> {
        StripSize::new(parse_bytes(text).map(ByteCount)?)
    }
}

impl fmt::Display for ByteCount {
    /// In the largest binary unit that gives a whole number, else with two decimals (`1.50 GiB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 0;
        let mut whole = self.0;
        while whole >= 1024 && whole.is_multiple_of(1024) {
            whole /= 1024;
            unit += 1;
        }
        if whole < 1 << 14 {
            return f.pad(&format!("{whole} {}", UNITS[unit]));
        }
        let mut value = whole as f64;
        while value >= 1024.0 {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{value:.2} {}", UNITS[unit]))
    }
}

impl fmt::Display for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteCount(self.0).fmt(f)
    }
}

/// A drive's capacity as on its printed label: decimal (`4.00 TB`).
pub fn decimal_capacity(size: ByteCount) -> String {
    let mut value = size.0 as f64;
    let mut unit = 0;
    const DECIMAL: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    while value >= 1000.0 && unit + 1 < DECIMAL.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.2} {}", DECIMAL[unit]) }
}

/// A drive's capacity in decimal and binary (`4.00 TB (3.64 TiB)`).
pub fn both_capacities(size: ByteCount) -> String {
    format!("{} ({size})", decimal_capacity(size))
}

/// A count with its noun: `1 region`, `3 regions`.
pub fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// Text in lines of at most `width` columns, broken between words. A longer word has a line of its
/// own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a /a/long/path b", 4), ["a", "/a/long/path", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn one_thing_is_no_several() {
        let regions = |count: u32| counted(count, "region");
        assert_eq!([regions(0), regions(1), regions(2)], ["0 regions", "1 region", "2 regions"]);
        assert_eq!(both_capacities(ByteCount(4_000_000_000_000)), "4.00 TB (3.64 TiB)");
    }

    #[test]
    fn sizes_are_read_as_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 65536),
            ("64k", 65536),
            ("1MiB", 1 << 20),
            ("2GB", 2 << 30),
        ] {
            assert_eq!(text.parse::<ByteCount>().unwrap(), ByteCount(bytes), "{text}");
        }
        for wrong in ["", "K", "64X", "-1", "1.5G", "64KK", "99999999P", "1BB"] {
            assert!(wrong.parse::<ByteCount>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_written_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (65536, "64 KiB"),
            (3 << 29, "1536 MiB"),
            (1 << 40, "1 TiB"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
        assert_eq!(ByteCount(1_000_000_007).to_string(), "953.67 MiB");
        assert_eq!(decimal_capacity(ByteCount(4_000_787_030_016)), "4.00 TB");
    }
}
