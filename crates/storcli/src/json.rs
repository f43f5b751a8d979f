//! The JSON form. The order of names is kept: some programs read lists by position.

use crate::tree::{Pairs, Table, Value};
use std::fmt::Write as _;

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value; `depth` indents the lines after the first.
pub(crate) fn value(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Text(text) => out.push_str(&quoted(text)),
        Value::Number(number) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{number}");
        }
        Value::Table(table) => list(out, table, depth),
        Value::Pairs(pairs) => {
            object(out, pairs.iter().map(|(name, value)| (name.as_str(), value)), depth)
        }
    }
}

/// Values by name.
pub(crate) fn pairs(out: &mut String, pairs: &Pairs, depth: usize) {
    object(out, pairs.iter().map(|(name, value)| (name.as_str(), value)), depth);
}

/// A list of rows.
pub(crate) fn list(out: &mut String, table: &Table, depth: usize) {
    let indent = "\t".repeat(depth + 1);
    out.push('[');
    for (at, row) in table.rows.iter().enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        out.push_str(&indent);
        let names = table.columns.iter().map(|column| column.name);
        object(out, names.zip(row), depth + 1);
    }
    out.push('\n');
    out.push_str(&"\t".repeat(depth));
    out.push(']');
}

fn object<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a Value)>, depth: usize) {
    let indent = "\t".repeat(depth + 1);
    out.push('{');
    for (at, (name, of)) in pairs.enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        out.push_str(&indent);
        out.push_str(&quoted(name));
        out.push_str(" : ");
        value(out, of, depth + 1);
    }
    out.push('\n');
    out.push_str(&"\t".repeat(depth));
    out.push('}');
}
