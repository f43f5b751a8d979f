//! Numbers in pictures: exact, in the largest unit in which they are whole.

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// How often 1024 divides all numbers; zero is divisible by anything.
fn unit_of(numbers: &[u64]) -> usize {
    let zeros =
        numbers.iter().filter(|number| **number != 0).map(|number| number.trailing_zeros()).min();
    zeros.map_or(0, |zeros| zeros as usize / 10)
}

/// A size or an address, exactly: `8 KiB`, `1025 KiB`.
pub(crate) fn exact(bytes: u64) -> String {
    let unit = unit_of(&[bytes]);
    format!("{} {}", bytes >> (10 * unit), UNITS[unit])
}

/// An address: a size from the start; the start is `0`.
pub(crate) fn address(offset: u64) -> String {
    if offset == 0 { "0".into() } else { exact(offset) }
}

/// A run of columns: `8..16 KiB`.
pub(crate) fn span(start: u64, end: u64) -> String {
    let unit = unit_of(&[start, end]);
    format!("{}..{} {}", start >> (10 * unit), end >> (10 * unit), UNITS[unit])
}

/// `1 read`, `2 reads`.
pub(crate) fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_in_the_largest_whole_unit() {
        let texts = [0, 512, 8192, 1 << 20, (1 << 30) + 1024, 20000 << 10].map(exact);
        assert_eq!(texts, ["0 B", "512 B", "8 KiB", "1 MiB", "1048577 KiB", "20000 KiB"]);
        assert_eq!(
            [span(0, 65536), span(512, 1024), span(0, 1 << 20)],
            ["0..64 KiB", "512..1024 B", "0..1 MiB"]
        );
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
