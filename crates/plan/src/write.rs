//! Plans for writing.
//!
//! Parity has to follow the data. Per band of columns (see `bands.rs`) there are four ways:
//!
//! ```text
//! full stripe       host D0 D1 D2 ──────────────────── > P, Q    reads nothing
//! read-modify-write host D1, old D1, old P, old Q ──── > P, Q    reads the written strips, P and Q
//! reconstruct-write host D1, old D0, old D2 ────────── > P, Q    reads the other strips
//! recovering write  old D0, P, Q ─> old D1, D2
//!                   host D1, old D0, old D2 ────────── > P, Q    reads all readable strips
//! ```
//!
//! Cached data replaces reads. `ways.rs` finds the possible ways and chooses; this module emits the
//! steps. P and Q of a band are one step and one pass over memory. Read-modify-write updates old
//! parity in place; cached old parity stays unchanged, and new parity goes to scratch.

use crate::bands::Mask;
use crate::extents::note_cached;
use crate::small::{is_small, plan_small_write};
use crate::survey::{InBand, Parities, Pieces, Survey, each, roles_in, strips};
use crate::ways::{Choice, Ways};
use crate::{
    Bands, ComputeKind, ErrorKind, Lost, Method, Plan, ScratchSlot, Source, Target, Unplannable,
};
use layout::{CopyIndex, DataIndex, Role};
use std::ops::Range;
use units::ByteOffset;

/// Writes the host's payload, or zeroes, with a fresh plan with bands.
pub(crate) fn plan_write(plan: &mut Plan, zeroes: bool) -> Result<(), Unplannable> {
    match Survey::of(plan) {
        None => write_copies(plan, zeroes),
        Some(survey) if is_small(plan, &survey) => {
            plan_small_write(plan, &survey, zeroes);
            Ok(())
        }
        Some(survey) => plan_write_with_parity(plan, &survey, zeroes),
    }
}

/// Chooses the way of each band and emits it, in a fresh plan with bands.
pub(crate) fn plan_write_with_parity(
    plan: &mut Plan,
    survey: &Survey,
    zeroes: bool,
) -> Result<(), Unplannable> {
    let ways = Ways::of(plan, survey)?;
    let choice = ways.choose(plan, survey);
    (plan.rmw_bands, plan.rcw_bands, plan.recover_bands) = (choice.rmw, choice.rcw, choice.recover);
    emit_parity_write(plan, survey, choice, zeroes);
    Ok(())
}

/// Writes every writable copy; each strip must have at least one.
fn write_copies(plan: &mut Plan, zeroes: bool) -> Result<(), Unplannable> {
    plan.method = if plan.geometry.copies() > 1 { Method::Mirror } else { Method::Direct };
    let mut homeless = Pieces::default();
    for i in plan.bands.first..=plan.bands.last {
        let index = DataIndex(i);
        let mask = plan.bands.of_strip(i);
        if mask == 0 {
            continue; // Between two extents.
        }
        let before = plan.writes.len();
        for copy in (0..plan.geometry.copies()).map(CopyIndex) {
            let cell = plan.map.data_cell(index, copy);
            if plan.health.writable.contains(cell.drive) {
                plan.emit_writes(cell, Role::Data { index, copy }, mask, payload(i, zeroes));
            }
        }
        if plan.writes.len() == before {
            for b in (0..plan.bands.all().len()).filter(|b| mask >> b & 1 == 1) {
                homeless.add(&plan.bands, b, 1 << i);
            }
        }
    }
    if homeless.is_empty() {
        return Ok(());
    }
    Err(homeless.into_error(ErrorKind::NothingWritable, plan.stripe))
}

/// Source of the new bytes of a strip.
fn payload(strip: u16, zeroes: bool) -> impl Fn(&Plan, usize) -> Source {
    move |plan, b| if zeroes { Source::Zero } else { plan.in_host(strip, b) }
}

fn emit_parity_write(plan: &mut Plan, survey: &Survey, choice: Choice, zeroes: bool) {
    let (first, last) = (plan.bands.first, plan.bands.last);
    if !matches!(plan.method, Method::FullStripe | Method::DataOnly) {
        note_cached(plan);
        emit_old_reads(plan, survey, choice);
    }
    let follows = emit_new_parity(plan, survey, choice, zeroes);
    for i in (first..=last).filter(|i| survey.unwritable >> i & 1 == 0) {
        let (index, copy) = (DataIndex(i), CopyIndex(0));
        let (cell, mask) = (plan.map.data_cell(index, copy), plan.bands.of_strip(i));
        plan.emit_writes(cell, Role::Data { index, copy }, mask, payload(i, zeroes));
    }
    for (bit, role) in roles_in(survey.writable) {
        let n = usize::from(bit);
        plan.emit_writes(survey.parity[n], role, follows, |plan, b| plan.new_parity[b][n]);
    }
}

/// Reads the old data and parity that the choice needs and that are not cached.
fn emit_old_reads(plan: &mut Plan, survey: &Survey, choice: Choice) {
    let (first, last) = (plan.bands.first, plan.bands.last);
    let all_strips = choice.rcw | choice.recover != 0;
    let touched = if all_strips { 0..plan.geometry.data_strips() } else { first..last + 1 };
    for i in touched.filter(|i| survey.unreadable >> i & 1 == 0) {
        let wanted = choice.reads_of(plan.bands.of_strip(i)) & !plan.bands.cached_of(i);
        if wanted != 0 {
            plan.emit_data_reads(i, wanted, 0);
        }
    }
    for (bit, role) in roles_in(survey.all) {
        let wanted = choice.parity_reads(survey, bit) & !plan.bands.cached_parity_of(bit);
        plan.emit_parity_reads(survey, bit, role, wanted);
    }
}

/// Computes new parity, band by band, and records its location. Returns these bands.
fn emit_new_parity(plan: &mut Plan, survey: &Survey, choice: Choice, zeroes: bool) -> Mask {
    let updated = recover_old_data(plan, survey, choice);
    let mut made = Made { slots: [None; 2], lens: [0; 2] };
    let mut follows = 0;
    plan.new_parity.clear();
    for b in 0..plan.bands.all().len() {
        let has = (choice.rmw | choice.rcw | choice.recover) >> b & 1 == 1;
        let new = if !has || plan.bands.concerned(b) == 0 {
            [Source::Zero; 2]
        } else {
            follows |= 1 << b;
            match (choice.rmw | updated) >> b & 1 == 1 {
                true => made.updated(plan, survey, b, zeroes),
                false => made.generated(plan, survey, b, zeroes),
            }
        };
        plan.new_parity.push(new);
    }
    follows
}

/// Computes lost old data in the bands with recovery, one step per run of bands that need it.
/// Returns the other bands with recovery whose old parity and written strips are complete: their
/// parity is updated as with RMW.
fn recover_old_data(plan: &mut Plan, survey: &Survey, choice: Choice) -> Mask {
    let (mut updated, mut needed): (Mask, Mask) = (0, 0);
    if choice.recover == 0 {
        return updated;
    }
    for (b, band) in
        plan.bands.all().iter().enumerate().filter(|(b, _)| choice.recover >> b & 1 == 1)
    {
        let InBand { unreadable, recover_from, .. } = survey.in_band(band);
        let written = band.concerned;
        if survey.writable & !recover_from.unwrap_or(0) == 0 && unreadable & written == 0 {
            updated |= 1 << b;
        } else if written != 0 && unreadable & !written != 0 {
            needed |= 1 << b;
        }
    }
    for run in Bands::runs(choice.recover) {
        let mut start = run.start;
        while start < run.end {
            // Bands with the same cached strips lie in one piece, and lose the same strips.
            let is_alike = |b: &usize| {
                let (one, other) = (&plan.bands.all()[start], &plan.bands.all()[*b]);
                (one.cached, one.cached_parity) == (other.cached, other.cached_parity)
            };
            let end = start + (start..run.end).take_while(is_alike).count();
            let solved = needed & Mask::MAX << start & Mask::MAX >> (Mask::BITS as usize - end);
            if let Some(hull) = Bands::runs(Bands::hull(solved)).next() {
                recover_run(plan, survey, hull);
            }
            start = end;
        }
    }
    updated
}

/// Computes the lost strips of a run of bands, and records their location.
fn recover_run(plan: &mut Plan, survey: &Survey, bands: Range<usize>) {
    let (first, last) = (plan.bands.all()[bands.start], plan.bands.all()[bands.end - 1]);
    let InBand { unreadable, recover_from, .. } = survey.in_band(&first);
    let first_term = plan.terms.len();
    for i in (0..plan.geometry.data_strips()).filter(|i| unreadable >> i & 1 == 0) {
        let from = plan.brought(i, bands.start);
        plan.push_data_term(i, from);
    }
    for (bit, role) in roles_in(recover_from.unwrap_or(0)) {
        let from = plan.brought_parity(bit, bands.start);
        plan.push_term(role, from);
    }
    let mut lost = [None; 2];
    for (lost, i) in lost.iter_mut().zip(each(unreadable)) {
        let slot = plan.new_scratch(last.start + last.len - first.start);
        let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
        let into = Target::Scratch { slot, at: ByteOffset::ZERO };
        *lost = Some(Lost { role, exponent: plan.exponent(i), into });
        for b in bands.clone() {
            let at = ByteOffset(plan.bands.all()[b].start - first.start);
            plan.set_old(i, b, Source::Scratch { slot, at });
        }
    }
    plan.emit_compute(ComputeKind::Recover { lost }, bands.start..=bands.end - 1, first_term);
}

/// Scratch buffers with new parity, P's and Q's.
struct Made {
    slots: [Option<ScratchSlot>; 2],
    lens: [u64; 2],
}

impl Made {
    /// Space for band `b` of P (`bit` 0) or Q (1).
    fn room(&mut self, plan: &mut Plan, bit: u16, b: usize) -> Target {
        let n = usize::from(bit);
        let slot = *self.slots[n].get_or_insert_with(|| plan.new_scratch(0));
        let at = ByteOffset(self.lens[n]);
        self.lens[n] += plan.bands.all()[b].len;
        plan.scratch[usize::from(slot.0)].0 = self.lens[n];
        Target::Scratch { slot, at }
    }

    /// P and Q of band `b` from old parity and the changes: in place, or in scratch if cached.
    fn updated(&mut self, plan: &mut Plan, survey: &Survey, b: usize, zeroes: bool) -> [Source; 2] {
        let first_term = plan.terms.len();
        let (mut targets, mut parity) = ([None; 2], [Source::Zero; 2]);
        for (bit, role) in roles_in(survey.writable) {
            let old = plan.brought_parity(bit, b);
            let target = match old.as_own_buffer() {
                Some(own) => own,
                None => {
                    plan.push_term(role, old);
                    self.room(plan, bit, b)
                }
            };
            (targets[usize::from(bit)], parity[usize::from(bit)]) =
                (Some(target), target.as_source());
        }
        for i in each(plan.bands.concerned(b)) {
            let (old, new) = (plan.brought(i, b), payload(i, zeroes)(plan, b));
            plan.push_data_term(i, old);
            plan.push_data_term(i, new);
        }
        let [p, q] = targets;
        plan.emit_compute(ComputeKind::Update { p, q }, b..=b, first_term);
        parity
    }

    /// P and Q of band `b` from all data. An empty sum is zero, and P of one strip is that strip:
    /// neither needs a step.
    fn generated(
        &mut self,
        plan: &mut Plan,
        survey: &Survey,
        b: usize,
        zeroes: bool,
    ) -> [Source; 2] {
        let written = plan.bands.concerned(b);
        let first_term = plan.terms.len();
        for i in each(strips(0, plan.geometry.data_strips()) & !written) {
            let kept = plan.brought(i, b);
            plan.push_data_term(i, kept);
        }
        if !zeroes {
            for i in each(written) {
                let new = plan.in_host(i, b);
                plan.push_data_term(i, new);
            }
        }
        let mut wanted: Parities = survey.writable;
        let mut parity = [Source::Zero; 2];
        match plan.terms[first_term..] {
            [] => wanted = 0,
            [only] => {
                parity[0] = only.from;
                wanted &= !1;
            }
            _ => {}
        }
        if wanted == 0 {
            plan.terms.truncate(first_term);
            return parity;
        }
        let mut targets = [None; 2];
        for (bit, _) in roles_in(wanted) {
            let room = self.room(plan, bit, b);
            (targets[usize::from(bit)], parity[usize::from(bit)]) = (Some(room), room.as_source());
        }
        let [p, q] = targets;
        plan.emit_compute(ComputeKind::Generate { p, q }, b..=b, first_term);
        parity
    }
}
