//! Terminal output: tables, JSON, prompts. All output is filtered ([`units::printable_lines`]):
//! only line ends and tabs keep their effect, since names of drives, volumes and hosts, and
//! responses of other machines are untrusted.

use crate::failure::{Failure, Outcome};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
pub use units::wrapped;
use units::{printable, printable_lines};

/// A table with a header and without vertical lines, within the terminal's width; the columns named
/// in `numeric` are aligned to the right.
pub fn table(headers: &[&str], rows: &[Vec<String>], numeric: &[bool]) -> String {
    table_within(headers, rows, numeric, width())
}

/// The least width of a name that is shortened in a table.
const SHORTEST: usize = 14;

/// A table whose rows never wrap within `width` columns: the columns of `optional` are left out, in
/// this order, until it fits, and then the names in the first column lose their start.
pub fn table_of_lines(
    headers: &[&str],
    rows: &[Vec<String>],
    numeric: &[bool],
    (optional, width): (&[&str], Option<u16>),
) -> String {
    let cells = |at: usize| rows.iter().map(move |row| row[at].chars().count());
    let widths: Vec<usize> = (0..headers.len())
        .map(|at| cells(at).chain([headers[at].chars().count()]).max().unwrap_or(0))
        .collect();
    // A column has a space on both sides; the last one is trimmed.
    let others = |kept: &[usize]| kept.iter().skip(1).map(|at| widths[*at] + 2).sum::<usize>() + 1;
    let width = width.map_or(usize::MAX, usize::from);
    let mut kept: Vec<usize> = (0..headers.len()).collect();
    for name in optional {
        if widths[0].min(SHORTEST) + others(&kept) > width {
            kept.retain(|at| headers[*at] != *name);
        }
    }
    let most = width.saturating_sub(others(&kept)).max(1);
    let row = |row: &Vec<String>| {
        let cell =
            |at: &usize| if *at == 0 { without_start(&row[0], most) } else { row[*at].clone() };
        kept.iter().map(cell).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let headers: Vec<&str> = kept.iter().map(|at| headers[*at]).collect();
    let numeric: Vec<bool> = kept.iter().map(|at| numeric[*at]).collect();
    table_within(&headers, &rows, &numeric, None)
}

/// The end of a name in at most `most` characters: the end of a path tells drives apart.
fn without_start(name: &str, most: usize) -> String {
    match name.chars().count().checked_sub(most) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("…{}", name.chars().skip(more + 1).collect::<String>()),
    }
}

/// The same with cells that are wrapped to a width.
pub fn table_within(
    headers: &[&str],
    rows: &[Vec<String>],
    numeric: &[bool],
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers.iter().copied());
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        // A table cell is one line.
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (index, numeric) in numeric.iter().enumerate() {
        if let (Some(column), true) = (table.column_mut(index), *numeric) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A line of a table whose rows are printed one by one. Each cell has the width of its column, with
/// the gap, and whether it is numeric; it is wrapped to this width.
pub fn table_line(columns: &[(&str, u16, bool)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_row(columns.iter().map(|(cell, ..)| printable(cell)));
    for (index, (_, width, numeric)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(*width)));
            column.set_cell_alignment(if *numeric {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            });
        }
    }
    table.trim_fmt()
}

/// The columns of the terminal. `None`: standard output is no terminal, and lines are not wrapped.
pub fn width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}

/// Whether JSON was printed already: an error must not print a second object.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// See [`ANSWERED`].
pub fn has_answered() -> bool {
    ANSWERED.load(Ordering::Relaxed)
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Outcome {
    json_text(&serde_json::to_string_pretty(value).map_err(Failure::failed)?)
}

/// Prints a value as JSON on one line, as one of several.
pub fn json_line(value: &impl Serialize) -> Outcome {
    json_text(&serde_json::to_string(value).map_err(Failure::failed)?)
}

/// Prints JSON.
pub fn json_text(text: &str) -> Outcome {
    ANSWERED.store(true, Ordering::Relaxed);
    print(text)
}

/// Prints text with a line end. A closed pipe (`| head`) exits silently.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    let text = printable_lines(text.trim_end_matches('\n'));
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other
            .map_err(|error| Failure::failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints a message to standard error. Errors are ignored.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable_lines(text));
}

/// The log output of `serve` on standard error: one line per event, with filtered names and
/// messages.
pub struct Log<W = std::io::Stderr>(W);

impl Log {
    /// To standard error.
    pub fn to_stderr() -> Log {
        Log(std::io::stderr())
    }
}

impl<W: Write> Write for Log<W> {
    /// Writes an event as a whole.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = printable(text.trim_end_matches('\n')).into_owned();
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Writes a file, or standard output for `-`.
pub fn write_file(path: &Path, content: &str) -> Outcome {
    if path == Path::new("-") {
        return print(content);
    }
    write_bytes(path, content.as_bytes())
}

/// Writes a file of bytes, or standard output for `-`. An existing file is replaced after the new
/// one is complete.
pub fn write_bytes(path: &Path, content: &[u8]) -> Outcome {
    let written = match path == Path::new("-") {
        true => std::io::stdout().lock().write_all(content),
        false => replace(path, content),
    };
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    // A symbolic link stays a link, and special files (a pipe, /dev/stdout) cannot be replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (true, Some(name)) = (!path.exists() || path.is_file(), path.file_name()) else {
        return std::fs::write(&path, content);
    };
    let mut unfinished = std::ffi::OsString::from(".");
    unfinished.push(name);
    unfinished.push(".new");
    let unfinished = path.with_file_name(unfinished);
    let written =
        std::fs::write(&unfinished, content).and_then(|()| std::fs::rename(&unfinished, &path));
    written.inspect_err(|_| {
        // The file may not exist.
        let _ = std::fs::remove_file(&unfinished);
    })
}

/// Asks for confirmation on a terminal; elsewhere prints the sentence and continues. For operations
/// that destroy no data.
pub fn confirm_on_terminal(question: &str, sentence: &str, yes: bool) -> Outcome {
    match std::io::stdin().is_terminal() && !yes {
        true => confirm(question, false),
        false => {
            say(&format!("Note: {sentence}"));
            Ok(())
        }
    }
}

/// Asks for confirmation on a terminal; elsewhere `--yes` is required. For operations that destroy
/// data.
pub fn confirm(question: &str, yes: bool) -> Outcome {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused(format!("{question} Confirm with --yes.")));
    }
    eprint!("{} Type yes to continue: ", printable_lines(question));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::refused("Nothing was changed.")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_the_log_is_one_line_that_moves_nothing() {
        let mut log = Log(Vec::new());
        let event = "INFO drive a\x1b[2J\r\nERROR forged \u{202e}gnp\u{9b}1m\n";
        log.write_all(event.as_bytes()).unwrap();
        log.write_all(b"WARN plain\n").unwrap();
        let expected = "INFO drive a\\u001b[2J\\r\\nERROR forged \\u202egnp\\u009b1m\nWARN plain\n";
        assert_eq!(String::from_utf8(log.0).unwrap(), expected);
    }

    #[test]
    fn a_cell_of_a_table_is_one_line() {
        let rows = [vec!["a\x1b]0;title\x07\nb".to_owned(), "7".to_owned()]];
        let text = table(&["name", "number"], &rows, &[false, true]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"a\u001b]0;title\u0007\nb"), "{text}");
    }
}
