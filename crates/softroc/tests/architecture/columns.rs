//! No line of code is wider than 100 columns.

use crate::{root, sources};

/// The longest line of code and of Markdown.
pub const COLUMNS: usize = 100;

/// A word of this length may extend a line: it cannot be broken.
const LONG_WORD: usize = 60;

#[test]
fn no_line_of_code_is_wider_than_a_hundred_columns() {
    let mut wrong = Vec::new();
    for path in sources() {
        let relative = path.strip_prefix(root()).expect("below the root").display().to_string();
        let text = std::fs::read_to_string(&path).expect("a source");
        wrong.extend(wide(&text).into_iter().map(|line| format!("{relative}:{line}")));
    }
    assert!(wrong.is_empty(), "more than {COLUMNS} columns:\n{}", wrong.join("\n"));
}

/// The numbers of lines that are too wide. Raw strings and tables in comments cannot be broken.
fn wide(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut raw_end: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let was_raw = raw_end.is_some();
        raw_end = match raw_end {
            Some(end) if line.contains(&end) => None,
            Some(end) => Some(end),
            None => raw_string(line),
        };
        let is_table = line.trim_start().starts_with("//") && line.contains(" |");
        let has_long_word = line.split_whitespace().any(|word| word.chars().count() >= LONG_WORD);
        let may_be_wide = was_raw || raw_end.is_some() || is_table || has_long_word;
        if line.chars().count() > COLUMNS && !may_be_wide {
            found.push(number + 1);
        }
    }
    found
}

/// The end of a raw string that begins in a line and does not end there.
fn raw_string(line: &str) -> Option<String> {
    let at = line.find("r#")?;
    let hashes = line[at + 1..].chars().take_while(|c| *c == '#').count();
    let rest = line[at + 1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    (!rest.contains(&end)).then_some(end)
}

#[test]
fn a_wide_line_is_found_but_not_what_cannot_be_broken() {
    let words = "words ".repeat(20);
    assert_eq!(wide(&format!("short\nlet a = \"{words}\";\n")), [2]);
    let raw = format!("let a = r#\"begin\n{words}\nend\"#;\n{words}\n");
    assert_eq!(wide(&raw), [4]);
    assert_eq!(wide(&format!("/// | {words} |\nfn {}() {{}}\n", "long_".repeat(20))), [0_usize; 0]);
}
