//! Converts bytes to hexadecimal digits and back.

pub(crate) fn of(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `None`: not hexadecimal, or an odd number of digits.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Compares in constant time.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let differ = left.iter().zip(right).fold(0, |differ, (left, right)| differ | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&of(&bytes)), Some(bytes));
        assert_eq!(of(&[0, 171]), "00ab");
        for wrong in ["0", "0g", "é0", "+1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(same(b"one", b"one") && !same(b"one", b"onf") && !same(b"one", b"on"));
    }
}
