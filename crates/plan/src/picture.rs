//! A plan as a figure and a list of steps, for people: the grid (`grid.rs`), the steps under their
//! names in traces, the cost, and the reason (`reason.rs`).

use crate::grid::grid;
use crate::reason::{computed_roles, cost_text, reason};
use crate::text::{address, counted, exact, list, span};
use crate::{
    Compute, ComputeKind, Health, Plan, Read, ReadPart, Request, ScratchSlot, Source, Step, Target,
    Term, Write, WritePart,
};
use layout::{Geometry, Role};
use serde::Serialize;
use std::fmt::Write as _;
use units::{ByteOffset, DriveIndex};

/// One step, for people and for JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StepLine {
    /// Its number, from 1.
    pub step: usize,
    /// Its name in traces: see [`Step::name`].
    pub name: &'static str,
    /// The drive it concerns, if one.
    pub drive: Option<u16>,
    /// First byte: on the drive, or within the strip for a computation.
    pub offset_bytes: Option<u64>,
    /// How many bytes.
    pub size_bytes: Option<u64>,
    /// Its effect, such as `new P = old P ^ old D2 ^ new D2`.
    pub what: String,
}

/// The whole picture of a plan: title, grid, steps, cost, reason.
pub fn picture(plan: &Plan) -> String {
    let asked = match plan.request().range() {
        Some(range) => {
            let start =
                plan.geometry().stripe_start(plan.stripe()) + (range.start - ByteOffset::ZERO);
            format!("{} {} at {}", plan.request().name(), exact(range.len.0), address(start.0))
        }
        None => {
            let what = match plan.request() {
                Request::WriteExtents { extents, .. } => {
                    let count = counted(extents.len() as u32, "extent");
                    format!(" {count}, {}, of", exact(plan.request().host_bytes().0))
                }
                Request::Repair { culprit, .. } => format!(" {culprit} of"),
                Request::Copy { drive, .. } => format!(" drive {drive}'s part of"),
                _ => String::new(),
            };
            format!("{}{what} stripe {}", plan.request().name(), plan.stripe())
        }
    };
    format!(
        "{}: {asked}, {}\n\n{}",
        plan.geometry(),
        state(plan.geometry(), plan.health()),
        body(plan)
    )
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

/// A health, in words.
pub(crate) fn state(geometry: &Geometry, health: &Health) -> String {
    let names = |drives: &mut dyn Iterator<Item = DriveIndex>| {
        let all: Vec<String> = drives.map(|drive| drive.to_string()).collect();
        format!("{} {}", if all.len() == 1 { "drive" } else { "drives" }, list(&all))
    };
    let failed = health.failed(geometry);
    let write_only = health.write_only(geometry);
    let read_only =
        units::DriveSet::first(geometry.drives()).minus(&health.writable).minus(&failed);
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
    if let Some(drive) = health.relocated {
        parts.push(format!("the content of drive {drive} is in the spare strips"));
    }
    if !health.parity_trusted && geometry.level().is_redundant() {
        let what = if geometry.parity_strips() > 0 { "parity" } else { "copies" };
        parts.push(format!("{what} not yet resynced"));
    }
    if parts.is_empty() { "optimal".into() } else { parts.join(", ") }
}

/// A plan's steps, for people. A commit without later writes is omitted.
pub(crate) fn step_lines(plan: &Plan) -> Vec<StepLine> {
    let line = |(i, step): (usize, Step)| {
        let (drive, offset_bytes, size_bytes, what) = match step {
            Step::Read(read) => {
                (Some(read.drive.0), Some(read.offset.0), Some(read.len.0), read_text(plan, read))
            }
            Step::Write(write) => (
                Some(write.drive.0),
                Some(write.offset.0),
                Some(write.len.0),
                write_text(plan, write),
            ),
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
    let digits =
        lines.iter().filter_map(|line| line.drive).map(|drive| drive.to_string().len()).max();
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
        let full =
            format!("  {:>3}  {:<7}  {:width$}   {}", line.step, line.name, place(line), line.what);
        text.push_str(full.trim_end());
        text.push('\n');
    }
    text
}

/// Whether old and new content are distinguished.
fn is_write(plan: &Plan) -> bool {
    plan.request().is_write()
}

fn read_text(plan: &Plan, read: &Read) -> String {
    if is_write(plan) {
        return format!("old {}", read.role);
    }
    if !matches!(plan.request(), Request::Read { .. }) {
        return read.role.to_string();
    }
    let to_host = |part: &ReadPart| matches!(part.into, Target::Host { .. });
    let parts = plan.read_parts(read);
    let (host, kept) = (parts.iter().any(to_host), !parts.iter().all(to_host));
    let computed: Vec<String> = computed_roles(plan).iter().map(Role::to_string).collect();
    match (host, kept) {
        (true, true) => format!("{}, to the host and for {}", read.role, list(&computed)),
        (false, true) => format!("{}, for {}", read.role, list(&computed)),
        (_, false) => format!("{}, to the host", read.role),
    }
}

fn write_text(plan: &Plan, write: &Write) -> String {
    let copies = matches!(plan.request(), Request::Copy { .. });
    let is_itself = |part: &WritePart| match part.from {
        Source::Host { .. } => matches!(write.role, Role::Data { .. }),
        Source::Scratch { slot, .. } => made_in(plan, slot) == Some(write.role),
        Source::Read { slot, .. } => {
            (copies || is_write(plan)) && plan.reads()[usize::from(slot.0)].role == write.role
        }
        Source::Cached { role, .. } => role == write.role,
        Source::Zero => false,
    };
    let parts = plan.write_parts(write);
    let name = if copies { write.role.to_string() } else { format!("new {}", write.role) };
    let to = if copies { ", to the replacement" } else { "" };
    if parts.iter().all(is_itself) {
        return format!("{name}{to}");
    }
    let text = |part: &WritePart| {
        if is_itself(part) { "computed".into() } else { source_text(plan, part.from) }
    };
    let sources: Vec<String> = parts.iter().map(text).collect();
    format!("{name} = {}{to}", sources.join(", then "))
}

/// What a computation puts into a scratch buffer.
fn made_in(plan: &Plan, slot: ScratchSlot) -> Option<Role> {
    let is_it =
        |target: Target| matches!(target, Target::Scratch { slot: other, .. } if other == slot);
    plan.computes()
        .iter()
        .find_map(|compute| results(compute).into_iter().find(|(_, into)| is_it(*into)))
        .map(|(role, _)| role)
}

/// The results of a computation, and their places.
fn results(compute: &Compute) -> Vec<(Role, Target)> {
    match compute.kind {
        ComputeKind::Generate { p, q } | ComputeKind::Update { p, q } => {
            let (p, q) = (p.map(|into| (Role::P, into)), q.map(|into| (Role::Q, into)));
            p.into_iter().chain(q).collect()
        }
        ComputeKind::Recover { lost } => {
            lost.iter().flatten().map(|lost| (lost.role, lost.into)).collect()
        }
        ComputeKind::Compare | ComputeKind::Check => Vec::new(),
    }
}

fn compute_text(plan: &Plan, compute: &Compute) -> String {
    let mut terms: Vec<String> = Vec::new();
    let made: Vec<String> = results(compute)
        .iter()
        .map(|(role, _)| match compute.kind {
            ComputeKind::Recover { .. } if is_write(plan) => format!("old {role}"),
            _ if matches!(plan.request(), Request::Read { .. } | Request::Copy { .. }) => {
                role.to_string()
            }
            _ => format!("new {role}"),
        })
        .collect();
    let of = plan.terms(compute);
    let (elsewhere, pairs) = compute.kind.old_parity_and_pairs(of);
    if let ComputeKind::Update { .. } = compute.kind {
        let old_parity =
            |(role, _): &(Role, Target)| match elsewhere.iter().find(|term| term.role == *role) {
                Some(term) => source_text(plan, term.from),
                None => format!("old {role}"),
            };
        terms.extend(results(compute).iter().map(old_parity));
    }
    let named = |term: &&Term| term.from != Source::Zero;
    match compute.kind {
        ComputeKind::Update { .. } => {
            // All old terms, then all new ones.
            let (old, new) = (pairs.iter().step_by(2), pairs.iter().skip(1).step_by(2));
            terms.extend(old.chain(new).filter(named).map(|term| source_text(plan, term.from)));
        }
        _ => terms.extend(of.iter().map(|term| source_text(plan, term.from))),
    }
    // Without weights the computation is a plain XOR.
    let is_sum = !results(compute).iter().any(|(role, _)| *role == Role::Q)
        && results(compute).len() < 2
        && !of.iter().any(|term| term.role == Role::Q);
    match compute.kind {
        ComputeKind::Compare => terms.join(" = ") + " ?",
        ComputeKind::Check if is_sum => {
            let p = terms.pop().unwrap_or_default();
            format!("{p} = {} ?", joined(&terms, " ^ "))
        }
        ComputeKind::Check => format!("do {} agree ?", joined(&terms, ", ")),
        _ => {
            let to_host = |(_, into): &(Role, Target)| matches!(into, Target::Host { .. });
            let to = if results(compute).iter().any(to_host) { ", to the host" } else { "" };
            match is_sum {
                true => format!("{} = {}{to}", made.join(", "), joined(&terms, " ^ ")),
                false => format!("{} from {}{to}", made.join(", "), joined(&terms, ", ")),
            }
        }
    }
}

/// Joins names; long runs of neighbours are shortened.
fn joined(names: &[String], separator: &str) -> String {
    let split = |name: &str| -> Option<(String, u16)> {
        let (prefix, index) = name.split_once('D')?;
        Some((prefix.to_owned(), index.parse().ok()?))
    };
    let follows = |a: &String, b: &String| match (split(a), split(b)) {
        (Some(a), Some(b)) => a.0 == b.0 && a.1 + 1 == b.1,
        _ => false,
    };
    let mut parts: Vec<String> = Vec::new();
    for run in names.chunk_by(follows) {
        match run {
            [first, .., last] if run.len() > 3 && separator == ", " => {
                parts.push(format!("{first} .. {last}"))
            }
            [first, .., last] if run.len() > 3 => {
                parts.extend([first.clone(), "..".into(), last.clone()])
            }
            _ => parts.extend_from_slice(run),
        }
    }
    parts.join(separator)
}

fn source_text(plan: &Plan, source: Source) -> String {
    let old = if is_write(plan) { "old " } else { "" };
    match source {
        Source::Zero => "zeroes".into(),
        Source::Scratch { slot, .. } => match made_in(plan, slot) {
            Some(role) => format!("{old}{role}"),
            None => "computed".into(),
        },
        Source::Read { slot, .. } => format!("{old}{}", plan.reads()[usize::from(slot.0)].role),
        Source::Cached { role, .. } => format!("cached {role}"),
        Source::Host { at } => {
            let strip = plan.bands.data_at(at.0) >> plan.geometry().strip().shift();
            if is_write(plan) { format!("new D{strip}") } else { format!("D{strip}") }
        }
    }
}

/// Heading of a stripe, if there are several.
pub(crate) fn stripe_heading(geometry: &Geometry, plan: &Plan) -> String {
    let stripe = plan.stripe();
    let place = match geometry.stripes_per_row() {
        1 => format!("stripe {stripe}"),
        spans => format!("stripe {stripe}, in span {}", stripe.0 % u64::from(spans)),
    };
    match plan.request().range() {
        Some(range) => {
            let start = geometry.stripe_start(stripe) + (range.start - ByteOffset::ZERO);
            format!("{place}: {} at {}", exact(range.len.0), address(start.0))
        }
        None => place,
    }
}
