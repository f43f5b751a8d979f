//! Why a plan was chosen, and its cost, in words.

use crate::grid::homeless;
use crate::survey::{Strips, Survey, each};
use crate::text::{counted, exact, list, span};
use crate::{Alternative, ComputeKind, Cost, Method, Plan, Price, Request, Target, Verdict};
use layout::{CopyIndex, DataIndex, Role};
use std::fmt::Write as _;

/// A cost, in words.
pub(crate) fn cost_text(cost: &Cost) -> String {
    let part = |count: u32, what: &str, bytes: u64| {
        (count > 0).then(|| format!("{} ({})", counted(count, what), exact(bytes)))
    };
    let parts =
        [part(cost.reads, "read", cost.bytes_read), part(cost.writes, "write", cost.bytes_written)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut text = counted(cost.drive_ios(), "drive I/O");
    if !parts.is_empty() {
        let _ = write!(text, ": {}", parts.join(", "));
    }
    if cost.parity_bytes > 0 {
        let _ = write!(text, "; parity over {}", exact(cost.parity_bytes));
    }
    if cost.compare_bytes > 0 {
        let _ = write!(text, "; comparison over {}", exact(cost.compare_bytes));
    }
    text
}

/// Why the plan is as it is, in one line.
pub(crate) fn reason(plan: &Plan) -> String {
    let mut text = match plan.verdict() {
        Verdict::Chosen { chosen, rmw, rcw } => chosen_text(plan, *chosen, *rmw, *rcw),
        Verdict::Only => only_text(plan),
    };
    let homeless = homeless(plan);
    if !homeless.is_empty() {
        let verb = if homeless.len() == 1 { "is" } else { "are" };
        let _ = write!(text, "; {} {verb} held by parity alone", list(&homeless));
    }
    text
}

fn only_text(plan: &Plan) -> String {
    let (geometry, health) = (plan.geometry(), plan.health());
    let parity = if geometry.parity_strips() > 1 { "P and Q" } else { "parity" };
    match plan.method() {
        Method::Nothing if matches!(plan.request(), Request::Copy { .. }) => {
            "the drive holds nothing of this stripe".into()
        }
        Method::Nothing => "there is no redundancy to update".into(),
        Method::Direct if plan.request().is_write() => "there is no redundancy to update".into(),
        Method::Direct if geometry.copies() > 1 && !health.parity_trusted => {
            "copies may differ, so the first readable copy is used".into()
        }
        Method::Direct if is_split(plan) => "each copy is read in part".into(),
        Method::Direct if geometry.copies() > 1 => "one copy is enough to read".into(),
        Method::Direct => "only the requested data is read".into(),
        Method::Mirror => "all writable copies are written".into(),
        Method::Reconstruct => computed_text(plan),
        Method::FullStripe => {
            format!("full stripe: all data is new, so {parity} need{} no read", needs(plan))
        }
        Method::DataOnly if health.parity_trusted => {
            "parity cannot be written, so only data is written".into()
        }
        Method::DataOnly => {
            "parity is stale and cannot be recomputed, so only data is written".into()
        }
        Method::Resync => "redundancy is recomputed from the data".into(),
        Method::Rebuild => "unreadable strips are recomputed from the others and written".into(),
        Method::Repair => "the strip is recomputed from the others and written".into(),
        Method::Copy if plan.computes().is_empty() => {
            "the content of the drive is copied to its replacement".into()
        }
        Method::Copy => {
            "the content of the drive is computed from the others for its replacement".into()
        }
        Method::Verify if geometry.level().is_redundant() => {
            "data and redundancy are read and compared".into()
        }
        Method::Verify => "the data is read; without redundancy nothing is compared".into(),
        Method::Rmw | Method::Rcw | Method::RecoverWrite | Method::Mixed => {
            plan.method().to_string()
        }
    }
}

fn needs(plan: &Plan) -> &'static str {
    if plan.geometry().parity_strips() > 1 { "" } else { "s" }
}

fn is_split(plan: &Plan) -> bool {
    let strips = plan.bands.last - plan.bands.first + 1;
    matches!(plan.request(), Request::Read { split: true, .. })
        && plan.reads().len() > usize::from(strips)
}

/// Strips computed for the host.
pub(crate) fn computed_roles(plan: &Plan) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    for compute in plan.computes() {
        let ComputeKind::Recover { lost } = compute.kind else { continue };
        for lost in lost.iter().flatten().filter(|lost| matches!(lost.into, Target::Host { .. })) {
            if !roles.contains(&lost.role) {
                roles.push(lost.role);
            }
        }
    }
    roles.sort_unstable();
    roles
}

fn computed_text(plan: &Plan) -> String {
    let names: Vec<String> = computed_roles(plan).iter().map(Role::to_string).collect();
    let others = if plan.geometry().parity_strips() > 1 { "others" } else { "all others" };
    match names.len() {
        1 => format!(
            "{} cannot be read, so it is computed from {others} of its stripe",
            list(&names)
        ),
        _ => format!(
            "{} cannot be read, so they are computed from {others} of their stripe",
            list(&names)
        ),
    }
}

fn chosen_text(plan: &Plan, chosen: Price, rmw: Alternative, rcw: Alternative) -> String {
    let ios = counted(chosen.drive_ios, "drive I/O");
    let not_rmw = |way: &str| other_text(plan, way, chosen, rmw, impossible_rmw(plan, rmw));
    let not_rcw = |way: &str| other_text(plan, way, chosen, rcw, impossible_rcw(plan, rcw));
    match plan.method() {
        Method::Rmw => format!("RMW: {ios}; {}", not_rcw("RCW")),
        Method::Rcw => format!("RCW: {ios}; {}", not_rmw("RMW")),
        method => {
            let ways: Vec<String> =
                (0..plan.bands.all().len()).filter_map(|b| way_text(plan, b)).collect();
            let way = if method == Method::RecoverWrite { method.to_string() } else { list(&ways) };
            match (impossible_rmw(plan, rmw), impossible_rcw(plan, rcw)) {
                (Some(because), Some(same)) if because == same => {
                    format!("{way}: {ios}; neither RMW nor RCW is possible throughout: {because}")
                }
                _ => format!("{way}: {ios}; {}; {}", not_rmw("RMW"), not_rcw("RCW")),
            }
        }
    }
}

/// How parity of band `b` is kept; `None` where nothing is written.
fn way_text(plan: &Plan, b: usize) -> Option<String> {
    let band = plan.bands.all()[b];
    let strips = band.concerned.count_ones();
    let way = if plan.rmw_bands >> b & 1 == 1 {
        "RMW"
    } else if plan.recover_bands >> b & 1 == 1 {
        "recovery"
    } else if plan.rcw_bands >> b & 1 == 1 && strips == u32::from(plan.geometry().data_strips()) {
        "full stripe"
    } else if plan.rcw_bands >> b & 1 == 1 {
        "RCW"
    } else {
        "data alone"
    };
    (strips > 0).then(|| format!("{way} in {}", span(band.start, band.start + band.len)))
}

fn other_text(
    plan: &Plan,
    name: &str,
    chosen: Price,
    other: Alternative,
    impossible: Option<String>,
) -> String {
    if let Some(because) = impossible {
        let throughout = if plan.method() == Method::Mixed { " throughout" } else { "" };
        return format!("{name} is not possible{throughout}: {because}");
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

fn impossible_rmw(plan: &Plan, rmw: Alternative) -> Option<String> {
    impossible(plan, rmw, |written| written)
}

fn impossible_rcw(plan: &Plan, rcw: Alternative) -> Option<String> {
    impossible(plan, rcw, |written| !written)
}

/// Why a way is not possible in all bands. `reads`: the strips it reads, by the strips written.
fn impossible(
    plan: &Plan,
    alternative: Alternative,
    reads: impl Fn(Strips) -> Strips,
) -> Option<String> {
    match alternative {
        Alternative::Price(_) => None,
        Alternative::ParityUnreadable if plan.geometry().parity_strips() > 1 => {
            let survey = Survey::of(plan)?;
            let gone = survey.writable & !survey.readable;
            let names: Vec<String> =
                crate::survey::roles_in(gone).map(|(_, role)| role.to_string()).collect();
            Some(format!("{} cannot be read", list(&names)))
        }
        Alternative::ParityUnreadable => Some("parity cannot be read".into()),
        Alternative::ParityUntrusted => Some("parity is not yet resynced".into()),
        Alternative::DataUnreadable => {
            let unreadable = Survey::of(plan)?.unreadable;
            let bands = plan.bands.all().iter().filter(|band| band.concerned != 0);
            let needed = bands.fold(0, |all, band| all | reads(band.concerned) & !band.cached);
            let name = |i| Role::Data { index: DataIndex(i), copy: CopyIndex(0) }.to_string();
            let names: Vec<String> = each(unreadable & needed).map(name).collect();
            Some(format!("{} cannot be read", list(&names)))
        }
    }
}
