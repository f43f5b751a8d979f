//! What goes to the terminal: tables, JSON, questions.

use crate::failure::{Failure, Outcome};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// A table with a header and without vertical lines; the columns named in `numeric` are aligned to the right.
pub fn table(headers: &[&str], rows: &[Vec<String>], numeric: &[bool]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for (index, numeric) in numeric.iter().enumerate() {
        if let (Some(column), true) = (table.column_mut(index), *numeric) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    print(&text)
}

/// Prints text with a line end. A reader that went away (`| head`) ends the process quietly.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|error| Failure::failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Writes a file, or standard output for `-`.
pub fn write_file(path: &Path, content: &str) -> Outcome {
    if path == Path::new("-") {
        return print(content);
    }
    std::fs::write(path, content)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file of bytes, or standard output for `-`.
pub fn write_bytes(path: &Path, content: &[u8]) -> Outcome {
    let written = match path == Path::new("-") {
        true => std::io::stdout().lock().write_all(content),
        false => std::fs::write(path, content),
    };
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Asks on a terminal before something is destroyed; elsewhere `--yes` must have been given.
pub fn confirm(question: &str, yes: bool) -> Outcome {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused(format!("{question} Confirm with --yes.")));
    }
    eprint!("{question} Type yes to continue: ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::refused("Nothing was changed.")) }
}
