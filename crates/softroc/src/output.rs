//! What goes to the terminal: tables, JSON, questions.

use crate::failure::{Failure, Outcome};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Whether JSON was printed already: the answer is there, and an error does not become a second one.
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
    write_bytes(path, content.as_bytes())
}

/// Writes a file of bytes, or standard output for `-`. A file that is there is replaced when the new one is whole.
pub fn write_bytes(path: &Path, content: &[u8]) -> Outcome {
    let written = match path == Path::new("-") {
        true => std::io::stdout().lock().write_all(content),
        false => replace(path, content),
    };
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    // A link stays one, and what is no file (a pipe, /dev/stdout) cannot be replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (true, Some(name)) = (!path.exists() || path.is_file(), path.file_name()) else {
        return std::fs::write(&path, content);
    };
    let mut unfinished = std::ffi::OsString::from(".");
    unfinished.push(name);
    unfinished.push(".new");
    let unfinished = path.with_file_name(unfinished);
    let written = std::fs::write(&unfinished, content).and_then(|()| std::fs::rename(&unfinished, &path));
    written.inspect_err(|_| {
        // It may never have been made.
        let _ = std::fs::remove_file(&unfinished);
    })
}

/// Asks on a terminal; elsewhere what there is to say is said, and it goes on: nothing is destroyed.
pub fn confirm_on_terminal(question: &str, sentence: &str, yes: bool) -> Outcome {
    match std::io::stdin().is_terminal() && !yes {
        true => confirm(question, false),
        false => {
            eprintln!("Note: {sentence}");
            Ok(())
        }
    }
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
