//! Plans that bring a stripe's redundancy and data together: resync, rebuild, verify.
//!
//! ```text
//! resync   D0 D1 D2 ─ xor ─> P                D0 ──────────> D0' D0"
//! rebuild  D0 D1 P ── xor ─> D2               D0 ──────────> D0'
//! verify   D0 D1 D2 ─ xor ─ compare ─ P       D0 ─ compare ─ D0' D0"
//! ```

use crate::read::readable_copy;
use crate::survey::{Pieces, Survey, strips};
use crate::{Bands, ComputeKind, ErrorKind, Method, Plan, ScratchSlot, Source, Target, Unplannable};
use layout::{CopyIndex, DataIndex, Role, StripeMap};
use units::{ByteOffset, ByteRange};

/// The only scratch buffer: the XOR of what was read.
const SUM_AT: ByteOffset = ByteOffset::ZERO;
const SUM: ScratchSlot = ScratchSlot(0);

/// The one band of the whole stripe.
const WHOLE: u8 = 1;

fn whole_stripe(plan: &mut Plan) {
    let all = ByteRange::new(ByteOffset::ZERO, plan.geometry.stripe_bytes());
    plan.bands = Bands::of(all, plan.geometry.strip());
}

/// An error about some data strips, whole.
fn error(plan: &Plan, kind: ErrorKind, set: u64) -> Unplannable {
    let mut pieces = Pieces::default();
    pieces.add(&plan.bands, 0, set);
    pieces.into_error(kind, plan.stripe)
}

pub(crate) fn plan_resync(plan: &mut Plan, map: &StripeMap) -> Result<(), Unplannable> {
    whole_stripe(plan);
    let Some(survey) = Survey::of(&plan.geometry, map, &plan.health) else {
        return if plan.geometry.copies() > 1 { resync_mirrors(plan, map) } else { Ok(()) };
    };
    let all = strips(0, plan.geometry.data_strips());
    if survey.unreadable == 0 {
        if !survey.parity_writable {
            return Err(error(plan, ErrorKind::NothingWritable, all));
        }
        plan.method = Method::Resync;
        sum_all_but(plan, map, &survey, None);
        plan.emit_writes(survey.parity, Role::P, WHOLE, |_, _| Source::Scratch { slot: SUM, at: SUM_AT });
        return Ok(());
    }
    let lost = survey.unreadable;
    if !survey.parity_usable || lost.count_ones() > 1 {
        return Err(error(plan, ErrorKind::DataLost, lost));
    }
    if survey.unwritable & lost != 0 {
        return Err(error(plan, ErrorKind::NothingWritable, lost));
    }
    plan.method = Method::Rebuild;
    let index = DataIndex(lost.trailing_zeros() as u16);
    sum_all_but(plan, map, &survey, Some(index.0));
    let copy = CopyIndex(0);
    let sum = |_: &Plan, _| Source::Scratch { slot: SUM, at: SUM_AT };
    plan.emit_writes(map.data_cell(index, copy), Role::Data { index, copy }, WHOLE, sum);
    Ok(())
}

/// Reads every data strip but `missing`, and P if there is a missing one; the XOR of all gives what is not read.
fn sum_all_but(plan: &mut Plan, map: &StripeMap, survey: &Survey, missing: Option<u16>) {
    let strips = plan.geometry.data_strips();
    let copy = CopyIndex(0);
    let first_source = plan.sources.len();
    for i in (0..strips).filter(|i| Some(*i) != missing) {
        let index = DataIndex(i);
        plan.emit_reads(map.data_cell(index, copy), Role::Data { index, copy }, i, WHOLE, 0);
        let data = plan.brought(i, 0);
        plan.sources.push(data);
    }
    let role = match missing {
        None => Role::P,
        Some(i) => {
            plan.emit_reads(survey.parity, Role::P, strips, WHOLE, 0);
            let parity = plan.brought(strips, 0);
            plan.sources.push(parity);
            Role::Data { index: DataIndex(i), copy }
        }
    };
    let into = Target::Scratch { slot: SUM, at: SUM_AT };
    plan.emit_compute(ComputeKind::Xor { into, role }, 0, first_source);
    plan.scratch.push(plan.geometry.strip().bytes());
}

/// Writes every mirror but the first that can be read, from that one. Where no other is left, it agrees with
/// itself: there is nothing to do.
fn resync_mirrors(plan: &mut Plan, map: &StripeMap) -> Result<(), Unplannable> {
    plan.method = Method::Resync;
    let (geometry, health) = (plan.geometry, plan.health);
    let mut lost = 0;
    for i in 0..geometry.data_strips() {
        let index = DataIndex(i);
        let Some(good) = readable_copy(&geometry, map, &health, i, CopyIndex(0)) else {
            lost |= 1 << i;
            continue;
        };
        let is_kept = |copy: CopyIndex| health.writable.contains(map.data_cell(index, copy).drive);
        let mut others = (0..geometry.copies()).map(CopyIndex).filter(|copy| *copy != good && is_kept(*copy));
        let Some(first) = others.next() else { continue };
        plan.emit_reads(map.data_cell(index, good), Role::Data { index, copy: good }, i, WHOLE, 0);
        for copy in std::iter::once(first).chain(others) {
            let cell = map.data_cell(index, copy);
            plan.emit_writes(cell, Role::Data { index, copy }, WHOLE, |plan, b| plan.brought(i, b));
        }
    }
    if lost != 0 {
        return Err(error(plan, ErrorKind::DataLost, lost));
    }
    Ok(())
}

pub(crate) fn plan_verify(plan: &mut Plan, map: &StripeMap) -> Result<(), Unplannable> {
    whole_stripe(plan);
    plan.method = Method::Verify;
    let Some(survey) = Survey::of(&plan.geometry, map, &plan.health) else {
        return verify_copies(plan, map);
    };
    if survey.unreadable != 0 || !survey.parity_readable {
        return Err(error(plan, ErrorKind::NothingToCompare, survey.unreadable));
    }
    sum_all_but(plan, map, &survey, None);
    let strips = plan.geometry.data_strips();
    plan.emit_reads(survey.parity, Role::P, strips, WHOLE, 0);
    let first_source = plan.sources.len();
    let parity = plan.brought(strips, 0);
    plan.sources.extend([Source::Scratch { slot: SUM, at: SUM_AT }, parity]);
    plan.emit_compute(ComputeKind::Compare, 0, first_source);
    Ok(())
}

/// Reads every copy that can be read, and compares those of one strip with each other.
fn verify_copies(plan: &mut Plan, map: &StripeMap) -> Result<(), Unplannable> {
    let (geometry, health) = (plan.geometry, plan.health);
    let (mut lost, mut alone) = (0, 0);
    for i in 0..geometry.data_strips() {
        let index = DataIndex(i);
        let first_source = plan.sources.len();
        for copy in (0..geometry.copies()).map(CopyIndex) {
            let cell = map.data_cell(index, copy);
            if health.readable.contains(cell.drive) {
                plan.emit_reads(cell, Role::Data { index, copy }, i, WHOLE, 0);
                let source = plan.brought(i, 0);
                plan.sources.push(source);
            }
        }
        match plan.sources.len() - first_source {
            0 => lost |= 1 << i,
            1 if geometry.copies() > 1 => alone |= 1 << i,
            1 => plan.sources.truncate(first_source),
            _ => plan.emit_compute(ComputeKind::Compare, 0, first_source),
        }
    }
    if lost != 0 {
        return Err(error(plan, ErrorKind::DataLost, lost));
    }
    if alone != 0 {
        return Err(error(plan, ErrorKind::NothingToCompare, alone));
    }
    Ok(())
}
