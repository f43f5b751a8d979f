//! Plans for reading.
//!
//! ```text
//! direct          D2 -> host
//! reconstruction  D0 ─┐
//!                 D1 ─┼─ xor ─> D2 -> host        (what of D0 and D1 is asked for too is read once)
//!                 P  ─┘
//! ```

use crate::bands::Mask;
use crate::survey::{Pieces, Survey};
use crate::{Bands, ComputeKind, ErrorKind, Health, Method, Plan, Source, Target, Unplannable};
use layout::{CopyIndex, DataIndex, Geometry, Role, StripeMap};
use units::{ByteOffset, ByteRange};

pub(crate) fn plan_read(
    plan: &mut Plan,
    map: &StripeMap,
    range: ByteRange,
    prefer: CopyIndex,
) -> Result<(), Unplannable> {
    let (geometry, health) = (plan.geometry, plan.health);
    plan.bands = Bands::of(range, geometry.strip());
    plan.method = Method::Direct;
    let mut missing = 0;
    for i in plan.bands.first..=plan.bands.last {
        let Some(copy) = readable_copy(&geometry, map, &health, i, prefer) else {
            missing |= 1 << i;
            continue;
        };
        let index = DataIndex(i);
        let mask = plan.bands.of_strip(i);
        plan.emit_reads(map.data_cell(index, copy), Role::Data { index, copy }, i, mask, mask);
    }
    if missing == 0 {
        return Ok(());
    }
    let survey = Survey::of(&geometry, map, &health);
    match survey {
        Some(survey) if survey.parity_usable && survey.unreadable.count_ones() == 1 => {
            reconstruct(plan, map, &survey);
            Ok(())
        }
        _ => {
            let mut lost = Pieces::default();
            for b in 0..plan.bands.all().len() {
                lost.add(&plan.bands, b, missing & plan.bands.concerned(b));
            }
            Err(lost.into_error(ErrorKind::DataLost, plan.stripe))
        }
    }
}

/// The copy of a data strip to read: the preferred one, or the next that can be read.
pub(crate) fn readable_copy(
    geometry: &Geometry,
    map: &StripeMap,
    health: &Health,
    strip: u16,
    prefer: CopyIndex,
) -> Option<CopyIndex> {
    let copies = geometry.copies();
    let first = if prefer.0 < copies { prefer.0 } else { prefer.0 % copies };
    (first..copies)
        .chain(0..first)
        .map(CopyIndex)
        .find(|copy| health.readable.contains(map.data_cell(DataIndex(strip), *copy).drive))
}

/// Plans anew, with the one strip that cannot be read computed from all others of its stripe.
fn reconstruct(plan: &mut Plan, map: &StripeMap, survey: &Survey) {
    plan.method = Method::Reconstruct;
    plan.reads.clear();
    plan.read_parts.clear();
    let strips = plan.geometry.data_strips();
    let missing = survey.unreadable.trailing_zeros() as u16;
    let computed: Mask = plan.bands.of_strip(missing);
    for i in (0..strips).filter(|i| *i != missing) {
        let (index, copy) = (DataIndex(i), CopyIndex(0));
        let asked = plan.bands.of_strip(i);
        plan.emit_reads(map.data_cell(index, copy), Role::Data { index, copy }, i, asked | computed, asked);
    }
    plan.emit_reads(survey.parity, Role::P, strips, computed, 0);
    let role = Role::Data { index: DataIndex(missing), copy: CopyIndex(0) };
    for b in (0..plan.bands.all().len()).filter(|b| computed >> b & 1 == 1) {
        let first_source = plan.sources.len();
        for i in (0..=strips).filter(|i| *i != missing) {
            let asked = i < strips && plan.bands.of_strip(i) >> b & 1 == 1;
            let source: Source = if asked { plan.in_host(i, b) } else { plan.brought(i, b) };
            plan.sources.push(source);
        }
        let at = ByteOffset(plan.bands.host_at(missing, plan.bands.all()[b].start));
        plan.emit_compute(ComputeKind::Xor { into: Target::Host { at }, role }, b, first_source);
    }
}
