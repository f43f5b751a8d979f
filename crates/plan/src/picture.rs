//! A plan as a figure and as a list of steps, for people.
//!
//! The grid shows the stripe: a column per drive, headed by what the drive holds, a row per run of columns
//! of the strip, and in each cell what happens there. Below it are the steps in order, under the names that
//! traces use, then the cost, then the reason.

use crate::text::{address, counted, exact, list, span};
use crate::{
    Alternative, Compute, ComputeKind, Cost, Method, Plan, Price, Read, Request, Source, Step, Target,
    Verdict, Write,
};
use layout::{Geometry, Role};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use units::{ByteOffset, DriveIndex};

/// Drives beside each other in a grid; more are shown below.
const DRIVES_PER_ROW: usize = 12;

/// One step, for people and for JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StepLine {
    /// Its number, from 1.
    pub step: usize,
    /// Its name in traces: `read`, `xor`, `compare`, `commit`, `write`.
    pub name: &'static str,
    /// The drive it concerns, if one.
    pub drive: Option<u16>,
    /// Its first byte: on the drive, or within the strip for what is computed.
    pub offset_bytes: Option<u64>,
    /// How many bytes.
    pub size_bytes: Option<u64>,
    /// What it does, such as `new P = old P ^ old D2 ^ new D2`.
    pub what: String,
}

/// The whole picture of a plan: title, grid, steps, cost, reason.
pub fn picture(plan: &Plan) -> String {
    let asked = match plan.request().range() {
        Some(range) => {
            let start = plan.geometry().stripe_start(plan.stripe()) + (range.start - ByteOffset::ZERO);
            format!("{} {} at {}", plan.request().name(), exact(range.len.0), address(start.0))
        }
        None => format!("{} stripe {}", plan.request().name(), plan.stripe()),
    };
    format!("{}: {asked}, {}\n\n{}", plan.geometry(), state(plan), body(plan))
}

/// The picture without its title.
pub(crate) fn body(plan: &Plan) -> String {
    let mut text = grid(plan);
    text.push('\n');
    text.push_str(&steps_text(&step_lines(plan)));
    let _ = writeln!(text, "\n  cost: {}", cost_text(&plan.cost()));
    let _ = writeln!(text, "  why:  {}", reason(plan));
    text
}

/// The health the plan was made for, in words.
pub(crate) fn state(plan: &Plan) -> String {
    let (geometry, health) = (plan.geometry(), plan.health());
    let names = |drives: &mut dyn Iterator<Item = DriveIndex>| {
        let all: Vec<String> = drives.map(|drive| drive.to_string()).collect();
        format!("{} {}", if all.len() == 1 { "drive" } else { "drives" }, list(&all))
    };
    let failed = health.failed(geometry);
    let write_only = health.write_only(geometry);
    let read_only = units::DriveSet::first(geometry.drives()).minus(&health.writable).minus(&failed);
    let mut parts = Vec::new();
    if !failed.is_empty() {
        parts.push(format!("{} failed", names(&mut failed.iter())));
    }
    if !write_only.is_empty() {
        parts.push(format!("{} cannot be read here", names(&mut write_only.iter())));
    }
    if !read_only.is_empty() {
        parts.push(format!("{} cannot be written", names(&mut read_only.iter())));
    }
    if !health.parity_trusted && geometry.parity_strips() > 0 {
        parts.push("parity not yet resynced".into());
    }
    if parts.is_empty() { "optimal".into() } else { parts.join(", ") }
}

/// The stripe as a table: drives across, columns of the strip down.
fn grid(plan: &Plan) -> String {
    let strip = plan.geometry().strip().bytes().0;
    let cuts = cuts(plan);
    let rows: Vec<(u64, u64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let labels: Vec<String> = rows.iter().map(|(start, end)| span(*start, *end)).collect();
    let stripe = format!("stripe {}", plan.stripe());
    let width = labels.iter().chain([&stripe]).map(String::len).max().unwrap_or(0).max(12);
    let mut marks = BTreeSet::new();
    let mut text = String::new();
    let map = plan.geometry().stripe_map(plan.stripe());
    let drives: Vec<DriveIndex> = map.drives().collect();
    for chunk in drives.chunks(DRIVES_PER_ROW) {
        let rule = format!("  {:width$} +{}\n", "", "-----+".repeat(chunk.len()));
        let row = |label: &str, cell: &dyn Fn(DriveIndex) -> String| {
            let cells: String = chunk.iter().map(|drive| format!("{:^5}|", cell(*drive))).collect();
            format!("  {label:>width$} |{cells}\n")
        };
        let numbers: String = chunk.iter().map(|drive| format!("{:^6}", drive.0)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(format!("  {:>width$}  {numbers}", "drive").trim_end());
        text.push('\n');
        text.push_str(&rule);
        for strip in 0..plan.geometry().rows_per_stripe() {
            let role = |drive| map.role_at(drive, strip).map_or_else(String::new, |role| role.to_string());
            text.push_str(&row(if strip == 0 { &stripe } else { "" }, &role));
            text.push_str(&rule);
            for ((start, end), label) in rows.iter().zip(&labels) {
                let cell = |drive| {
                    map.role_at(drive, strip)
                        .map_or_else(String::new, |role| marks_at(plan, drive, role, *start, *end))
                };
                marks.extend(chunk.iter().flat_map(|drive| cell(*drive).into_bytes()));
                text.push_str(&row(label, &cell));
            }
            text.push_str(&rule);
        }
    }
    let legend = [
        (b'r', "r read"),
        (b'w', "w written"),
        (b'*', "* computed from the others"),
        (b'+', "+ new, held by parity alone"),
        (b'x', "x failed"),
        (b'?', "? cannot be read"),
        (b'!', "! cannot be written"),
    ];
    let legend: Vec<&str> =
        legend.iter().filter(|(mark, _)| marks.contains(mark)).map(|(_, text)| *text).collect();
    if !legend.is_empty() {
        let _ = writeln!(text, "  {:width$}  {}", "", legend.join("   "));
    }
    debug_assert!(cuts.last() == Some(&strip));
    text
}

/// Where something begins or ends within the strip, and the strip's own ends.
fn cuts(plan: &Plan) -> Vec<u64> {
    let strip = plan.geometry().strip().bytes().0;
    let mut cuts = BTreeSet::from([0, strip]);
    for (start, len) in plan.reads().iter().map(|io| (io.within.0, io.len.0)) {
        cuts.extend([start, start + len]);
    }
    for (start, len) in plan.writes().iter().map(|io| (io.within.0, io.len.0)) {
        cuts.extend([start, start + len]);
    }
    for compute in plan.computes() {
        cuts.extend([compute.within.0, compute.within.0 + compute.len.0]);
    }
    for strip in plan.request().range().map(|_| plan.bands.all()).unwrap_or_default() {
        cuts.extend([strip.start, strip.start + strip.len]);
    }
    cuts.into_iter().collect()
}

/// What happens to some columns of the strip that a drive holds as `role`.
fn marks_at(plan: &Plan, drive: DriveIndex, role: Role, start: u64, end: u64) -> String {
    let inside = |within: u64, len: u64| within <= start && end <= within + len;
    let mut marks: Vec<&str> = Vec::new();
    let (readable, writable) =
        (plan.health().readable.contains(drive), plan.health().writable.contains(drive));
    match (readable, writable) {
        (false, false) => marks.push("x"),
        (false, true) => marks.push("?"),
        (true, false) => marks.push("!"),
        (true, true) => {}
    }
    if plan.reads().iter().any(|read| read.role == role && inside(read.within.0, read.len.0)) {
        marks.push("r");
    }
    let computed = |compute: &&Compute| {
        matches!(compute.kind, ComputeKind::Xor { into: Target::Host { .. }, role: made } if made == role)
            && inside(compute.within.0, compute.len.0)
    };
    if plan.computes().iter().any(|compute| computed(&compute)) {
        marks.push("*");
    }
    if plan.writes().iter().any(|write| write.role == role && inside(write.within.0, write.len.0)) {
        marks.push("w");
    }
    if let Role::Data { index, .. } = role
        && !writable
        && plan.geometry().parity_strips() > 0
        && matches!(plan.request(), Request::Write { .. } | Request::WriteZeroes { .. })
        && plan
            .bands
            .all()
            .iter()
            .any(|band| band.first <= index.0 && index.0 < band.end && inside(band.start, band.len))
    {
        marks.push("+");
    }
    marks.join(" ")
}

/// A plan's steps, for people. A commit before no write is left out: it separates nothing.
pub(crate) fn step_lines(plan: &Plan) -> Vec<StepLine> {
    let line = |(i, step): (usize, Step)| {
        let (drive, offset_bytes, size_bytes, what) = match step {
            Step::Read(read) => {
                (Some(read.drive.0), Some(read.offset.0), Some(read.len.0), read_text(plan, read))
            }
            Step::Write(write) => {
                (Some(write.drive.0), Some(write.offset.0), Some(write.len.0), write_text(plan, write))
            }
            Step::Compute(compute) => {
                (None, Some(compute.within.0), Some(compute.len.0), compute_text(plan, compute))
            }
            Step::Commit => (None, None, None, String::new()),
        };
        StepLine { step: i + 1, name: step.name(), drive, offset_bytes, size_bytes, what }
    };
    let shown = plan.steps().filter(|step| *step != Step::Commit || !plan.writes().is_empty());
    shown.enumerate().map(line).collect()
}

fn steps_text(lines: &[StepLine]) -> String {
    let digits = lines.iter().filter_map(|line| line.drive).map(|drive| drive.to_string().len()).max();
    let digits = digits.unwrap_or(1);
    let place = |line: &StepLine| match (line.drive, line.offset_bytes, line.size_bytes) {
        (Some(drive), Some(offset), Some(size)) => {
            format!("drive {drive:<digits$}  {} at {}", exact(size), address(offset))
        }
        (None, Some(offset), Some(size)) => {
            format!("{:<width$}  {}", "columns", span(offset, offset + size), width = 6 + digits)
        }
        _ => String::new(),
    };
    let width = lines.iter().map(|line| place(line).len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let full = format!("  {:>3}  {:<7}  {:width$}   {}", line.step, line.name, place(line), line.what);
        text.push_str(full.trim_end());
        text.push('\n');
    }
    text
}

/// Whether old and new content have to be told apart.
fn is_write(plan: &Plan) -> bool {
    matches!(plan.request(), Request::Write { .. } | Request::WriteZeroes { .. })
}

fn read_text(plan: &Plan, read: &Read) -> String {
    if is_write(plan) {
        return format!("old {}", read.role);
    }
    if !matches!(plan.request(), Request::Read { .. }) {
        return read.role.to_string();
    }
    let to_host = |part: &crate::ReadPart| matches!(part.into, Target::Host { .. });
    let parts = plan.read_parts(read);
    let (host, kept) = (parts.iter().any(to_host), !parts.iter().all(to_host));
    let computed = plan.computes().iter().find_map(|compute| match compute.kind {
        ComputeKind::Xor { role, .. } => Some(role.to_string()),
        ComputeKind::Compare => None,
    });
    match (host, kept, computed) {
        (true, true, Some(computed)) => format!("{}, to the host and for {computed}", read.role),
        (false, true, Some(computed)) => format!("{}, for {computed}", read.role),
        _ => format!("{}, to the host", read.role),
    }
}

/// What a computed strip is called, to tell it from the one that was read.
fn made_prefix(plan: &Plan) -> &'static str {
    match plan.request() {
        Request::Read { .. } => "",
        Request::Verify => "computed ",
        Request::Write { .. } | Request::WriteZeroes { .. } | Request::Resync => "new ",
    }
}

fn write_text(plan: &Plan, write: &Write) -> String {
    let new = made_prefix(plan);
    let plain = |part: &crate::WritePart| match part.from {
        Source::Host { .. } => !matches!(write.role, Role::P),
        Source::Scratch { .. } => true,
        Source::Read { .. } | Source::Zero => false,
    };
    let parts = plan.write_parts(write);
    if parts.iter().all(plain) {
        return format!("{new}{}", write.role);
    }
    let sources: Vec<String> = parts.iter().map(|part| source_text(plan, part.from)).collect();
    format!("{new}{} = {}", write.role, sources.join(", then "))
}

fn compute_text(plan: &Plan, compute: &Compute) -> String {
    let sources = plan.sources(compute);
    match compute.kind {
        ComputeKind::Compare => {
            let names: Vec<String> = sources.iter().map(|source| source_text(plan, *source)).collect();
            names.join(" = ") + " ?"
        }
        ComputeKind::Xor { into, role } => {
            let new = made_prefix(plan);
            let to_host = if matches!(into, Target::Host { .. }) { ", to the host" } else { "" };
            format!("{new}{role} = {}{to_host}", sum_text(plan, sources))
        }
    }
}

/// A sum of sources; long runs of neighbours are shortened.
fn sum_text(plan: &Plan, sources: &[Source]) -> String {
    let names: Vec<(String, Option<u16>)> = sources
        .iter()
        .map(|source| {
            let name = source_text(plan, *source);
            let index = name.split_once('D').and_then(|(_, index)| index.parse().ok());
            (name, index)
        })
        .collect();
    let follows = |a: &(String, Option<u16>), b: &(String, Option<u16>)| {
        let prefix = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        matches!((a.1, b.1), (Some(a), Some(b)) if a + 1 == b) && prefix(&a.0) == prefix(&b.0)
    };
    let mut parts: Vec<String> = Vec::new();
    for run in names.chunk_by(follows) {
        match run {
            [first, .., last] if run.len() > 3 => {
                parts.extend([first.0.clone(), "..".into(), last.0.clone()])
            }
            _ => parts.extend(run.iter().map(|(name, _)| name.clone())),
        }
    }
    parts.join(" ^ ")
}

fn source_text(plan: &Plan, source: Source) -> String {
    match source {
        Source::Zero => "zeroes".into(),
        Source::Scratch { .. } => format!("{}P", made_prefix(plan)),
        Source::Read { slot, .. } => {
            let role = plan.reads()[usize::from(slot.0)].role;
            if is_write(plan) { format!("old {role}") } else { role.to_string() }
        }
        Source::Host { at } => {
            let start = plan.request().range().map_or(0, |range| range.start.0);
            let strip = (start + at.0) >> plan.geometry().strip().shift();
            if is_write(plan) { format!("new D{strip}") } else { format!("D{strip}") }
        }
    }
}

/// A cost, in words.
pub(crate) fn cost_text(cost: &Cost) -> String {
    let part = |count: u32, what: &str, bytes: u64| {
        (count > 0).then(|| format!("{} ({})", counted(count, what), exact(bytes)))
    };
    let parts = [part(cost.reads, "read", cost.bytes_read), part(cost.writes, "write", cost.bytes_written)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut text = counted(cost.drive_ios(), "drive I/O");
    if !parts.is_empty() {
        let _ = write!(text, ": {}", parts.join(", "));
    }
    if cost.xor_bytes > 0 {
        let _ = write!(text, "; xor over {}", exact(cost.xor_bytes));
    }
    if cost.compare_bytes > 0 {
        let _ = write!(text, "; compare over {}", exact(cost.compare_bytes));
    }
    text
}

/// Why the plan is as it is, in one line.
pub(crate) fn reason(plan: &Plan) -> String {
    let (geometry, health) = (plan.geometry(), plan.health());
    let mut text = match plan.verdict() {
        Verdict::Chosen { chosen, rmw, rcw } => chosen_text(plan, *chosen, *rmw, *rcw),
        Verdict::Only => match plan.method() {
            Method::Nothing => "there is no redundancy to bring up to date".into(),
            Method::Direct if is_write(plan) => "no redundancy has to follow the data".into(),
            Method::Direct if geometry.copies() > 1 => "one mirror is enough to read".into(),
            Method::Direct => "what is asked for is read, and nothing else".into(),
            Method::Mirror => "every mirror that works is written".into(),
            Method::Reconstruct => {
                let gone: Vec<String> = plan
                    .computes()
                    .iter()
                    .filter_map(|compute| match compute.kind {
                        ComputeKind::Xor { role, .. } => Some(role.to_string()),
                        ComputeKind::Compare => None,
                    })
                    .take(1)
                    .collect();
                format!("{} cannot be read, so it is computed from all others of its stripe", list(&gone))
            }
            Method::FullStripe => "full stripe: all data is new, so parity needs no read".into(),
            Method::DataOnly if health.parity_trusted => {
                "parity cannot be written, so data is written alone".into()
            }
            Method::DataOnly => {
                "parity is not to be trusted and cannot be computed anew, so data is written alone".into()
            }
            Method::Resync => "redundancy is made to agree with the data".into(),
            Method::Rebuild => "what cannot be read is computed from the others and written".into(),
            Method::Verify if geometry.level().is_redundant() => "all of it is read and compared".into(),
            Method::Verify => "all of it is read; there is nothing to compare it with".into(),
            Method::Rmw | Method::Rcw | Method::Mixed => plan.method().to_string(),
        },
    };
    let homeless = geometry.stripe_map(plan.stripe()).cells().filter(|(cell, role)| {
        (0..plan.bands.all().len()).any(|b| {
            let band = plan.bands.all()[b];
            marks_at(plan, cell.drive, *role, band.start, band.start + band.len).contains('+')
        })
    });
    let homeless: Vec<String> = homeless.map(|(_, role)| role.to_string()).collect();
    if !homeless.is_empty() {
        let _ = write!(text, "; {} lives on in parity", list(&homeless));
    }
    text
}

fn chosen_text(plan: &Plan, chosen: Price, rmw: Alternative, rcw: Alternative) -> String {
    let ios = counted(chosen.drive_ios, "drive I/O");
    match plan.method() {
        Method::Rmw => format!("RMW: {ios}; {}", other_text(plan, "RCW", chosen, rcw)),
        Method::Rcw => format!("RCW: {ios}; {}", other_text(plan, "RMW", chosen, rmw)),
        _ => {
            let ways: Vec<String> = (0..plan.bands.all().len()).filter_map(|b| way_text(plan, b)).collect();
            let others = match (impossible(plan, rmw), impossible(plan, rcw)) {
                (Some(because), Some(same)) if because == same => {
                    format!("neither is possible throughout: {because}")
                }
                _ => {
                    format!(
                        "{}; {}",
                        other_text(plan, "RMW", chosen, rmw),
                        other_text(plan, "RCW", chosen, rcw)
                    )
                }
            };
            format!("{}: {ios}; {others}", list(&ways))
        }
    }
}

/// How parity of band `b` is kept; nothing where there is nothing to write.
fn way_text(plan: &Plan, b: usize) -> Option<String> {
    let band = plan.bands.all()[b];
    let strips = band.end.saturating_sub(band.first);
    let way = if plan.rmw_bands >> b & 1 == 1 {
        "RMW"
    } else if plan.rcw_bands >> b & 1 == 1 && strips == plan.geometry().data_strips() {
        "full stripe"
    } else if plan.rcw_bands >> b & 1 == 1 {
        "RCW"
    } else {
        "data alone"
    };
    (strips > 0).then(|| format!("{way} in {}", span(band.start, band.start + band.len)))
}

fn other_text(plan: &Plan, name: &str, chosen: Price, other: Alternative) -> String {
    if let Some(because) = impossible(plan, other) {
        return format!("{name} is not possible: {because}");
    }
    match other {
        Alternative::Price(price) if price.drive_ios > chosen.drive_ios => {
            format!("{name} would need {}", price.drive_ios)
        }
        Alternative::Price(price) if price.bytes > chosen.bytes => {
            format!("{name} would need as many and {} more", exact(price.bytes - chosen.bytes))
        }
        _ => format!("{name} would cost the same"),
    }
}

/// Why an alternative is not possible.
fn impossible(plan: &Plan, alternative: Alternative) -> Option<String> {
    match alternative {
        Alternative::Price(_) => None,
        Alternative::ParityUnreadable => Some("parity cannot be read".into()),
        Alternative::ParityUntrusted => Some("parity is not yet resynced".into()),
        Alternative::DataUnreadable => {
            let cells = plan.geometry().stripe_map(plan.stripe()).cells();
            let lost = cells
                .filter(|(cell, _)| !plan.health().readable.contains(cell.drive))
                .filter(|(_, role)| matches!(role, Role::Data { .. }));
            let names: Vec<String> = lost.map(|(_, role)| role.to_string()).collect();
            Some(format!("{} cannot be read", list(&names)))
        }
    }
}

/// The heading of a stripe when there are several.
pub(crate) fn stripe_heading(geometry: &Geometry, plan: &Plan) -> String {
    match plan.request().range() {
        Some(range) => {
            let start = geometry.stripe_start(plan.stripe()) + (range.start - ByteOffset::ZERO);
            format!("stripe {}: {} at {}", plan.stripe(), exact(range.len.0), address(start.0))
        }
        None => format!("stripe {}", plan.stripe()),
    }
}
