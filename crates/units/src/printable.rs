//! Makes external text safe to print in terminals, logs and pages: names, serial numbers, messages
//! of other systems.

use std::borrow::Cow;

/// Whether a character controls a terminal, ends a line, or changes the text direction: controls
/// (C0, DEL, C1), line and paragraph separators, direction marks.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line; unprintable characters are escaped as in JSON (`\n`, `\u001b`, `\u202e`).
///
/// ```
/// assert_eq!(units::printable("SSD\x1b[2J\n"), r"SSD\u001b[2J\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable)
}

/// Like [`printable`] for multi-line text: line ends and tabs stay. JSON keeps the same string
/// values.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unprintable(c) && c != '\n' && c != '\t')
}

fn escaped(text: &str, escapes: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escapes) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !escapes(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            // All of them have at most four hexadecimal digits.
            c => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears the screen, rings, overwrites, starts a line, reverses text, uses a C1 control
    /// sequence, deletes.
    const HOSTILE: &str = "a\x1b[2J\x07\r\nb\u{202e}c\u{9b}31m\x7f\u{2028}\u{2066}\td";

    #[test]
    fn nothing_reaches_a_terminal_but_what_it_shows() {
        assert_eq!(
            printable(HOSTILE),
            r"a\u001b[2J\u0007\r\nb\u202ec\u009b31m\u007f\u2028\u2066\td"
        );
        assert_eq!(
            printable_lines(HOSTILE),
            "a\\u001b[2J\\u0007\\r\nb\\u202ec\\u009b31m\\u007f\\u2028\\u2066\td"
        );
        for plain in ["", "data-7", "Größe 4 KiB – ‼ 盘 🖴", r"back\slash"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain), "{plain}");
        }
    }

    #[test]
    fn every_control_and_every_mark_of_direction_is_unprintable() {
        let all =
            (0..=0x1f).chain(0x7f..=0x9f).chain([0x61c, 0x200e, 0x200f]).chain(0x2028..=0x202e);
        for c in all.chain(0x2066..=0x2069).filter_map(char::from_u32) {
            let text = printable(&c.to_string()).into_owned();
            assert!(
                is_unprintable(c) && text.starts_with('\\') && text.is_ascii(),
                "{:x}",
                u32::from(c)
            );
        }
        for c in [' ', '~', '\u{a0}', '\u{200b}', '\u{200d}', '\u{202f}', '\u{2065}', '\u{206a}'] {
            assert!(!is_unprintable(c), "{:x}", u32::from(c));
        }
    }
}
