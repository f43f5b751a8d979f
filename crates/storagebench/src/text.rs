//! Figures and times in readable form, and rounded for files.

/// Figures are stored to the nanosecond, the thousandth of an I/O and the byte: further digits are
/// arithmetic noise, and make files long.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// A figure with three or four significant digits and thousands separated by a thin space: `12
/// 345`, `87.4`.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 999.5 || v == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let grouped = format!("{sign}{}", in_thousands(digits));
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

/// A whole number with separated thousands: `22`, `12 345`.
pub(crate) fn count(value: u64) -> String {
    in_thousands(&value.to_string())
}

fn in_thousands(digits: &str) -> String {
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && digits.len() > 4 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202F}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time given in microseconds, in a suitable unit: `87.4 µs`, `1.25 ms`.
pub fn duration(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{} µs", number(us)),
        us if us < 999_500.0 => format!("{} ms", number(us / 1e3)),
        us => format!("{} s", number(us / 1e6)),
    }
}

/// Half the width of an interval, in percent of its figure; empty without an interval.
pub(crate) fn half_width(interval: Option<[f64; 2]>, value: f64) -> String {
    interval
        .filter(|_| value > 0.0)
        .map_or_else(String::new, |[low, high]| percent((high - low) / 2.0 / value * 100.0))
}

fn percent(value: f64) -> String {
    match value {
        value if value < 0.005 => "0 %".to_owned(),
        value if value < 9.95 => format!("{value:.2} %"),
        value => format!("{value:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        for (value, text) in [
            (0.0, "0"),
            (0.1234, "0.12"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (87.44, "87.4"),
            (99.96, "100"),
            (4321.4, "4321"),
            (12_345.6, "12\u{202F}346"),
            (1_234_567.0, "1\u{202F}234\u{202F}567"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
        for (value, text) in [(0, "0"), (22, "22"), (4321, "4321"), (12_345, "12\u{202F}345")] {
            assert_eq!(count(value), text);
        }
        for (us, text) in
            [(0.25, "0.25 µs"), (87.44, "87.4 µs"), (999.6, "1.00 ms"), (2.5e6, "2.50 s")]
        {
            assert_eq!(duration(us), text);
        }
    }
}
