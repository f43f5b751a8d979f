//! The text form: `Key = Value` lines, sections with an underlined name, tables with aligned
//! columns.

use crate::tree::{Align, Pairs, Table, Value};

/// Values by name: simple values as lines, others as sections.
pub(crate) fn pairs(out: &mut String, pairs: &Pairs) {
    for (name, value) in pairs {
        match value {
            Value::Text(text) => line(out, name, text),
            Value::Number(number) => line(out, name, &number.to_string()),
            Value::Table(rows) => {
                section(out, name);
                table(out, rows);
            }
            Value::Pairs(inner) => {
                section(out, name);
                self::pairs(out, inner);
                out.push('\n');
            }
        }
    }
}

/// `Key = Value`.
pub(crate) fn line(out: &mut String, name: &str, value: &str) {
    out.push_str(name.trim_end());
    out.push_str(" = ");
    // A value must not start another line.
    out.push_str(&value.replace(['\n', '\r'], " "));
    out.push('\n');
}

/// The head of a section.
pub(crate) fn section(out: &mut String, name: &str) {
    out.push_str(&format!("\n{name} :\n{}\n\n", "=".repeat(name.chars().count())));
}

fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => text.replace(['\n', '\r'], " "),
        Value::Number(number) => number.to_string(),
        // No text cell contains rows: only JSON shows them.
        Value::Table(_) | Value::Pairs(_) => String::new(),
    }
}

/// A table: a ruler, names of columns, a ruler, rows, a ruler, and the legend.
pub(crate) fn table(out: &mut String, table: &Table) {
    let cells: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let of_rows =
                cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            of_rows.max().unwrap_or(0).max(column.name.len())
        })
        .collect();
    let ruler = "-".repeat(widths.iter().map(|width| width + 1).sum());
    let put = |out: &mut String, at: usize, text: &str, to_the_right: bool| {
        let width = widths[at];
        match to_the_right {
            true => out.push_str(&format!("{text:>width$} ")),
            false => out.push_str(&format!("{text:<width$} ")),
        }
    };
    out.push_str(&ruler);
    out.push('\n');
    for (at, column) in table.columns.iter().enumerate() {
        put(out, at, column.name, column.align == Align::Right);
    }
    out.push('\n');
    out.push_str(&ruler);
    out.push('\n');
    for (row, values) in cells.iter().zip(&table.rows) {
        for (at, column) in table.columns.iter().enumerate() {
            let is_number = matches!(values.get(at), Some(Value::Number(_)));
            let to_the_right = match column.align {
                Align::Left => false,
                Align::Right => true,
                Align::ByKind => is_number,
            };
            put(out, at, row.get(at).map_or("", String::as_str), to_the_right);
        }
        out.push('\n');
    }
    out.push_str(&ruler);
    out.push_str("\n\n");
    if !table.legend.is_empty() {
        out.push_str(table.legend);
        out.push_str("\n\n");
    }
}
