//! Option values: numbers, sizes, times, and separate values for reads and writes.
//!
//! Numbers are whole, or a calculation in brackets. Units of sizes follow `kb_base`, as in fio:
//! with 1024, the default, `4k` and `4kb` are 4096 and `4kib` is 4000; with 1000 it is the reverse.

use std::time::Duration;

/// The maximum nesting of brackets.
const DEEPEST: u32 = 32;

/// Times must be shorter than ten years.
const LONGEST_US: u64 = 3650 * 86_400_000_000;

/// A size, or a share of the target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Amount {
    Bytes(u64),
    Percent(f64),
}

/// The meaning of `k`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Base(pub(super) u64);

impl Base {
    /// `4096`, `0x1000`, `4k`, `(4*1024)`.
    pub(super) fn number(self, text: &str) -> Option<u64> {
        let text = text.trim();
        if text.starts_with('(') {
            return calculated(text, &|unit| self.unit(unit));
        }
        let (number, unit) = whole(text)?;
        number.checked_mul(self.unit(unit)?)
    }

    /// A number, or `20%`.
    pub(super) fn amount(self, text: &str) -> Option<Amount> {
        match text.trim().strip_suffix('%') {
            Some(number) => percent(number).map(Amount::Percent),
            None => self.number(text).map(Amount::Bytes),
        }
    }

    fn unit(self, text: &str) -> Option<u64> {
        let text = text.trim().to_ascii_lowercase();
        let mut rest = text.chars();
        let power = match rest.next() {
            None => return Some(1),
            Some('b') => return rest.as_str().is_empty().then_some(1),
            Some('k') => 1,
            Some('m') => 2,
            Some('g') => 3,
            Some('t') => 4,
            Some('p') => 5,
            Some(_) => return None,
        };
        let base = match rest.as_str() {
            "" | "b" | "i" => self.0,
            "ib" if self.0 == 1024 => 1000,
            "ib" => 1024,
            _ => return None,
        };
        Some(base.pow(power))
    }
}

/// A whole number from 0 to 100.
pub(super) fn percent(text: &str) -> Option<f64> {
    let number = Base(1024).number(text.trim().trim_end_matches('%'))?;
    (number <= 100).then_some(number as f64)
}

/// A time; a number without a unit is in units of `unit_us` microseconds.
pub(super) fn time(text: &str, unit_us: u64) -> Option<Duration> {
    let unit = |unit: &str| {
        Some(match unit.trim().to_ascii_lowercase().as_str() {
            "" => unit_us,
            "us" | "usec" => 1,
            "ms" | "msec" => 1000,
            "s" | "sec" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" | "hour" => 3_600_000_000,
            "d" | "day" => 86_400_000_000,
            _ => return None,
        })
    };
    let text = text.trim();
    let us = match text.starts_with('(') {
        true if text.ends_with(')') => {
            calculated(text, &|unit| unit.is_empty().then_some(1))?.checked_mul(unit_us)?
        }
        true => calculated(text, &|text| if text.is_empty() { Some(1) } else { unit(text) })?,
        false => {
            let (number, rest) = whole(text)?;
            number.checked_mul(unit(rest)?)?
        }
    };
    (us < LONGEST_US).then(|| Duration::from_micros(us))
}

/// The leading digits of a text, and the rest.
fn whole(text: &str) -> Option<(u64, &str)> {
    let (radix, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, text),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    Some((u64::from_str_radix(digits, radix).ok()?, rest))
}

/// The values for reads and for writes; `None`: the default. In numeric values a colon or a dash
/// also separates them, if there is no comma.
pub(super) fn sides(text: &str, numbers: bool) -> [Option<&str>; 2] {
    let text = text.trim();
    let parting = [',', ':', '-'].into_iter().find(|c| text.contains(*c) && (*c == ',' || numbers));
    let is_calculated = text.starts_with('(');
    let Some(parting) = parting.filter(|c| *c == ',' || !is_calculated) else {
        return [Some(text), Some(text)];
    };
    let mut parts = text.split(parting).map(str::trim);
    let mut next = || parts.next().filter(|part| !part.is_empty());
    [next(), next()]
}

/// A calculation: `+`, `-`, `*`, `/`, `%`, `^`, brackets, numbers with units.
struct Calculation<'a> {
    rest: &'a str,
    unit: &'a dyn Fn(&str) -> Option<u64>,
    depth: u32,
}

fn calculated(text: &str, unit: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut calculation = Calculation { rest: text, unit, depth: 0 };
    let value = calculation.operand()?;
    let is_whole = (0.0..9e18).contains(&value) && calculation.rest.trim().is_empty();
    is_whole.then_some(value as u64)
}

impl Calculation<'_> {
    fn takes(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        loop {
            match () {
                () if self.takes('+') => value += self.product()?,
                () if self.takes('-') => value -= self.product()?,
                () => return Some(value),
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.power()?;
        loop {
            match () {
                () if self.takes('*') => value *= self.power()?,
                () if self.takes('/') => value /= self.power()?,
                () if self.takes('%') => value %= self.power()?,
                () => return Some(value),
            }
        }
    }

    fn power(&mut self) -> Option<f64> {
        let value = self.operand()?;
        let mut exponents = Vec::new();
        while self.takes('^') {
            exponents.push(self.operand()?);
        }
        let exponent = exponents.into_iter().rev().reduce(|exponent, base| base.powf(exponent));
        Some(exponent.map_or(value, |exponent| value.powf(exponent)))
    }

    /// A number with its unit, or a calculation in brackets.
    fn operand(&mut self) -> Option<f64> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = if self.takes('-') {
            -self.operand()?
        } else if self.takes('(') {
            let value = self.sum()?;
            if !self.takes(')') {
                return None;
            }
            value * self.unit()?
        } else {
            let text = self.rest.trim_start();
            let (number, rest) = whole(text)?;
            // A decimal fraction.
            let fraction = rest.strip_prefix('.').map(|digits| {
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                digits.split_at(end)
            });
            let (fraction, rest) = fraction.unwrap_or(("", rest));
            let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
            self.rest = rest;
            (number as f64 + fraction) * self.unit()?
        };
        self.depth -= 1;
        value.is_finite().then_some(value)
    }

    fn unit(&mut self) -> Option<f64> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (unit, rest) = self.rest.split_at(end);
        self.rest = rest;
        (self.unit)(unit).map(|unit| unit as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As shown by `fio --parse-only --debug=parse`.
    #[test]
    fn numbers_are_what_fio_reads() {
        for (text, base, value) in [
            ("4k", 1024, Some(4096)),
            ("4kb", 1024, Some(4096)),
            ("4KiB", 1024, Some(4000)),
            ("4ki", 1024, Some(4096)),
            ("4KiB", 1000, Some(4096)),
            ("1m", 1000, Some(1_000_000)),
            ("4096B", 1024, Some(4096)),
            ("2tb", 1024, Some(2 << 40)),
            ("0x1000", 1024, Some(4096)),
            ("(4*1024)", 1024, Some(4096)),
            ("(2 * (1k + 1k))", 1024, Some(4096)),
            ("(2^3^2 - 2^9 + 7 % 4)", 1024, Some(3)),
            ("(1.5*2k)", 1024, Some(3072)),
            ("(4)k", 1024, Some(4096)),
            ("1.5k", 1024, None),
            ("-4k", 1024, None),
            ("(4*", 1024, None),
            ("(1-2)", 1024, None),
            ("(1/0)", 1024, None),
            ("4x", 1024, None),
            ("4 kk", 1024, None),
            ("99999999999p", 1024, None),
            ("", 1024, None),
            ("4µ", 1024, None),
        ] {
            assert_eq!(Base(base).number(text), value, "{text}");
        }
        assert_eq!(Base(1024).number(&"(".repeat(100_000)), None);
        assert_eq!(Base(1024).number(&format!("({}", "-".repeat(100_000))), None);
        assert_eq!(Base(1024).amount("20%"), Some(Amount::Percent(20.0)));
        assert_eq!(Base(1024).amount("120%"), None);
    }

    #[test]
    fn times_have_units_of_their_own() {
        for (text, unit_us, us) in [
            ("1m", 1_000_000, Some(60_000_000)),
            ("5", 1_000_000, Some(5_000_000)),
            ("2ms", 1, Some(2000)),
            ("500", 1, Some(500)),
            ("1500msec", 1_000_000, Some(1_500_000)),
            ("(2*30)", 1_000_000, Some(60_000_000)),
            ("(2*30)m", 1_000_000, Some(3_600_000_000)),
            ("1h", 1_000_000, Some(3_600_000_000)),
            ("(30s)", 1, None),
            ("5 weeks", 1, None),
            ("99999999999999999d", 1, None),
        ] {
            assert_eq!(time(text, unit_us), us.map(Duration::from_micros), "{text}");
        }
    }

    #[test]
    fn values_for_reads_and_writes_are_parted_as_fio_parts_them() {
        for (text, numbers, expected) in [
            ("4k", true, [Some("4k"), Some("4k")]),
            ("4k,", true, [Some("4k"), None]),
            ("4k,8k,16k", true, [Some("4k"), Some("8k")]),
            (",8k", true, [None, Some("8k")]),
            ("4k,,8k", true, [Some("4k"), None]),
            ("4k-512k", true, [Some("4k"), Some("512k")]),
            ("4k:8k", true, [Some("4k"), Some("8k")]),
            ("(4-1)", true, [Some("(4-1)"), Some("(4-1)")]),
            ("4k/50:8k/50", false, [Some("4k/50:8k/50"), Some("4k/50:8k/50")]),
        ] {
            assert_eq!(sides(text, numbers), expected, "{text}");
        }
    }
}
