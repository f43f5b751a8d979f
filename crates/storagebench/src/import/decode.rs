//! Text files of other systems: UTF-8 and UTF-16 with and without a byte order mark, otherwise
//! Windows-1252.

/// The characters of Windows-1252 at Latin-1's control characters; the five undefined ones are
/// U+FFFD.
const WINDOWS: [char; 32] = [
    '€', '\u{FFFD}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{FFFD}', 'Ž',
    '\u{FFFD}', '\u{FFFD}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{FFFD}',
    'ž', 'Ÿ',
];

/// The text of a file. Carriage returns without a line feed become line feeds.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8_or_windows(rest),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ if zeros(bytes, 1) => utf16(bytes, u16::from_le_bytes),
        _ if zeros(bytes, 0) => utf16(bytes, u16::from_be_bytes),
        _ => utf8_or_windows(bytes),
    };
    if text.contains('\n') { text } else { text.replace('\r', "\n") }
}

/// Whether most pairs have a zero byte at `place` only: UTF-16 of Latin letters.
fn zeros(bytes: &[u8], place: usize) -> bool {
    let pairs = bytes.len() / 2;
    let zero = |at: usize| bytes.chunks_exact(2).filter(|pair| pair[at] == 0).count();
    pairs > 0 && zero(place) * 2 > pairs && zero(1 - place) == 0
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn utf8_or_windows(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| windows(*byte)).collect(),
    }
}

fn windows(byte: u8) -> char {
    match byte {
        0x80..=0x9F => WINDOWS[usize::from(byte) - 0x80],
        other => char::from(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_encoding_are_the_same_text() {
        let text_16 = |unit: fn(u16) -> [u8; 2], mark: bool| -> Vec<u8> {
            let mark = if mark { "\u{FEFF}" } else { "" };
            mark.encode_utf16().chain("Prüfung\r\n".encode_utf16()).flat_map(unit).collect()
        };
        for bytes in [
            "Prüfung\r\n".as_bytes().to_vec(),
            "\u{FEFF}Prüfung\r\n".as_bytes().to_vec(),
            b"Pr\xFCfung\r\n".to_vec(),
            text_16(u16::to_le_bytes, true),
            text_16(u16::to_be_bytes, true),
            text_16(u16::to_le_bytes, false),
            text_16(u16::to_be_bytes, false),
        ] {
            assert_eq!(text(&bytes), "Prüfung\r\n", "{bytes:?}");
        }
    }

    #[test]
    fn odd_bytes_are_text_too() {
        for (bytes, expected) in [
            (&b"\x80 100\x96200"[..], "€ 100–200"),
            (b"a\rb\r", "a\nb\n"),
            (b"\xFF\xFEa\0\0\xD8b\0c", "a\u{FFFD}b"),
            (b"\x81", "\u{FFFD}"),
            (b"", ""),
            (b"\0", "\0"),
        ] {
            assert_eq!(text(bytes), expected, "{bytes:?}");
        }
    }
}
