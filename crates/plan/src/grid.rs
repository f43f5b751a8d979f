//! The stripe as a table: drives across, the columns of the strip down.
//!
//! One column per drive, headed by the strip that it holds; one row per run of strip columns; in
//! each cell the operations. Spans are separated. If a drive holds several strips of the stripe,
//! each row of strips has its own table.

use crate::text::span;
use crate::{Compute, ComputeKind, Plan, Request, Source, Target, Term};
use layout::{Cell, Role};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use units::DriveIndex;

/// Drives side by side in a grid; further ones follow below.
const DRIVES_PER_ROW: usize = 12;

/// Meaning of the marks.
const LEGEND: [(char, &str); 9] = [
    ('r', "r read"),
    ('m', "m taken from memory"),
    ('w', "w written"),
    ('c', "c written to the replacement"),
    ('*', "* computed from the others"),
    ('+', "+ new, held by parity alone"),
    ('x', "x failed"),
    ('?', "? cannot be read"),
    ('!', "! cannot be written"),
];

/// The grid of a plan, with its legend.
pub(crate) fn grid(plan: &Plan) -> String {
    let cuts = cuts(plan);
    let columns: Vec<(u64, u64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let labels: Vec<String> = columns.iter().map(|(start, end)| span(*start, *end)).collect();
    let stripe = format!("stripe {}", plan.stripe());
    let left = labels.iter().chain([&stripe]).map(String::len).max().unwrap_or(0).max(12);
    let roles = plan.map.cells().map(|(_, role)| role.to_string().len());
    let table = Table { plan, left, width: roles.max().unwrap_or(0).max(5) };
    let mut marks = BTreeSet::new();
    let mut text = String::new();
    for drives in shown_drives(plan).chunks(DRIVES_PER_ROW) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table.numbers(drives));
        text.push_str(&table.rule(drives));
        for row in 0..plan.geometry().rows_per_stripe() {
            let label = if row == 0 { stripe.clone() } else { format!("row {row}") };
            let role =
                |drive| plan.map.role_at(drive, row).map_or(String::new(), |role| role.to_string());
            text.push_str(&table.row(&label, drives, &role));
            text.push_str(&table.rule(drives));
            for ((start, end), label) in columns.iter().zip(&labels) {
                let cell = |drive| marks_in_row(plan, drive, row, *start, *end);
                marks.extend(
                    drives.iter().flat_map(|drive| cell(*drive).chars().collect::<Vec<_>>()),
                );
                text.push_str(&table.row(label, drives, &cell));
            }
            text.push_str(&table.rule(drives));
        }
    }
    let legend: Vec<&str> =
        LEGEND.iter().filter(|(mark, _)| marks.contains(mark)).map(|(_, text)| *text).collect();
    if !legend.is_empty() {
        let _ = writeln!(text, "  {:left$}  {}", "", legend.join("   "));
    }
    text
}

/// All drives if they fit in one row; otherwise those of the stripe.
fn shown_drives(plan: &Plan) -> Vec<DriveIndex> {
    let all = plan.geometry().drives();
    if all.as_usize() <= DRIVES_PER_ROW {
        all.indexes().collect()
    } else {
        plan.map.drives().collect()
    }
}

/// Format of a grid's lines.
struct Table<'a> {
    plan: &'a Plan,
    /// The width of the labels, and of a cell.
    left: usize,
    width: usize,
}

impl Table<'_> {
    /// A line of cells, with `gap` where another span begins.
    fn line(
        &self,
        drives: &[DriveIndex],
        gap: &str,
        cell: &dyn Fn(DriveIndex) -> String,
    ) -> String {
        let span = self.plan.geometry().drives_per_span().0;
        let mut text = String::new();
        for (n, drive) in drives.iter().enumerate() {
            if n > 0 && drive.0 % span == 0 && self.plan.geometry().spans() > 1 {
                text.push_str(gap);
            }
            text.push_str(&cell(*drive));
        }
        text
    }

    fn numbers(&self, drives: &[DriveIndex]) -> String {
        let number = |drive: DriveIndex| format!("{:^width$}", drive.0, width = self.width + 1);
        let line = self.line(drives, "  ", &number);
        format!("  {:>left$}  {}\n", "drive", line.trim_end(), left = self.left)
    }

    fn rule(&self, drives: &[DriveIndex]) -> String {
        let line = self.line(drives, " +", &|_| format!("{}+", "-".repeat(self.width)));
        format!("  {:left$} +{line}\n", "", left = self.left)
    }

    fn row(
        &self,
        label: &str,
        drives: &[DriveIndex],
        cell: &dyn Fn(DriveIndex) -> String,
    ) -> String {
        let line = self
            .line(drives, " |", &|drive| format!("{:^width$}|", cell(drive), width = self.width));
        format!("  {label:>left$} |{line}\n", left = self.left)
    }
}

/// The ends of the strip, and of each step within it.
fn cuts(plan: &Plan) -> Vec<u64> {
    let strip = plan.geometry().strip().bytes().0;
    let mut cuts = BTreeSet::from([0, strip]);
    let reads = plan.reads().iter().map(|io| (io.within.0, io.len.0));
    let writes = plan.writes().iter().map(|io| (io.within.0, io.len.0));
    let computes = plan.computes().iter().map(|compute| (compute.within.0, compute.len.0));
    let bands = plan.bands.all().iter().map(|band| (band.start, band.len));
    for (start, len) in reads.chain(writes).chain(computes).chain(bands) {
        cuts.extend([start, start + len]);
    }
    cuts.into_iter().collect()
}

fn marks_in_row(plan: &Plan, drive: DriveIndex, row: u16, start: u64, end: u64) -> String {
    match plan.map.role_at(drive, row) {
        Some(role) => marks_at(plan, plan.map.cell_in(drive, row), role, start, end),
        None => String::new(),
    }
}

/// Marks of some columns of a cell.
fn marks_at(plan: &Plan, cell: Cell, role: Role, start: u64, end: u64) -> String {
    let inside = |within: u64, len: u64| within <= start && end <= within + len;
    let (readable, writable) =
        (plan.health().readable.contains(cell.drive), plan.health().writable.contains(cell.drive));
    let mut marks: Vec<&str> = Vec::new();
    match (readable, writable) {
        (false, false) => marks.push("x"),
        (false, true) => marks.push("?"),
        (true, false) => marks.push("!"),
        (true, true) => {}
    }
    let here = |drive: DriveIndex, offset: units::ByteOffset, within: units::ByteCount| {
        drive == cell.drive && offset.0 - within.0 == cell.offset.0
    };
    let is_read =
        |io: &crate::Read| here(io.drive, io.offset, io.within) && inside(io.within.0, io.len.0);
    if plan.reads().iter().any(is_read) {
        marks.push("r");
    }
    if is_from_memory(plan, role, start, end) {
        marks.push("m");
    }
    let computed = |compute: &Compute| {
        let ComputeKind::Recover { lost } = compute.kind else { return false };
        inside(compute.within.0, compute.len.0)
            && lost
                .iter()
                .flatten()
                .any(|lost| lost.role == role && matches!(lost.into, Target::Host { .. }))
    };
    if plan.computes().iter().any(computed) {
        marks.push("*");
    }
    let is_written =
        |io: &crate::Write| here(io.drive, io.offset, io.within) && inside(io.within.0, io.len.0);
    if plan.writes().iter().any(is_written) {
        marks.push(if matches!(plan.request(), Request::Copy { .. }) { "c" } else { "w" });
    }
    if is_homeless(plan, role, cell.drive, start, end) {
        marks.push("+");
    }
    marks.join(" ")
}

/// Whether a computation uses cached columns of a strip.
fn is_from_memory(plan: &Plan, role: Role, start: u64, end: u64) -> bool {
    let is_taken = |compute: &Compute| {
        let from_memory =
            |term: &Term| term.role == role && matches!(term.from, Source::Cached { .. });
        let (within, len) = (compute.within.0, compute.len.0);
        within <= start && end <= within + len && plan.terms(compute).iter().any(from_memory)
    };
    plan.computes().iter().any(is_taken)
}

/// Whether only parity holds some new columns of a data strip.
fn is_homeless(plan: &Plan, role: Role, drive: DriveIndex, start: u64, end: u64) -> bool {
    let Role::Data { index, .. } = role else { return false };
    let mut bands = plan.bands.all().iter();
    plan.geometry().parity_strips() > 0
        && plan.request().is_write()
        && !plan.health().writable.contains(drive)
        && bands.any(|band| {
            let concerned = band.concerned >> index.0 & 1 == 1;
            concerned && band.start <= start && end <= band.start + band.len
        })
}

/// Data strips that parity alone holds in part.
pub(crate) fn homeless(plan: &Plan) -> Vec<String> {
    let bands = || plan.bands.all().iter();
    plan.map
        .cells()
        .filter(|(cell, role)| {
            bands()
                .any(|band| is_homeless(plan, *role, cell.drive, band.start, band.start + band.len))
        })
        .map(|(_, role)| role.to_string())
        .collect()
}
