//! Plans for writing.
//!
//! Parity has to follow the data. Per band of columns (see `bands.rs`) there are four ways:
//!
//! ```text
//! full stripe       host D0 D1 D2 ──────────────────── > P, Q          reads nothing
//! read-modify-write host D1, old D1, old P, old Q ──── > P, Q          reads what is written, P and Q
//! reconstruct-write host D1, old D0, old D2 ────────── > P, Q          reads what is not written
//! recovering write  old D0, P, Q ─> old D1, D2
//!                   host D1, old D0, old D2 ────────── > P, Q          reads all that can be read
//! ```
//!
//! `ways.rs` says which are possible and chooses; here the choice becomes steps. P and Q of a band are one step and
//! one pass over memory. Read-modify-write changes old parity where it was read, and writes it from there.

use crate::bands::{MAX_BANDS, Mask};
use crate::small::{is_small, plan_small_write};
use crate::survey::{Parities, Pieces, Survey, each, roles_in};
use crate::ways::{Choice, Ways};
use crate::{Bands, ComputeKind, ErrorKind, Lost, Method, Plan, ScratchSlot, Source, Target, Unplannable};
use layout::{CopyIndex, DataIndex, Role};
use units::ByteOffset;

/// Writes the host's payload, or zeroes. The plan is fresh but for its bands.
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

/// Chooses the way of each band and plans it; the plan is fresh but for its bands.
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

/// Writes every copy that can be written; at least one of each strip must be.
fn write_copies(plan: &mut Plan, zeroes: bool) -> Result<(), Unplannable> {
    plan.method = if plan.geometry.copies() > 1 { Method::Mirror } else { Method::Direct };
    let mut homeless = Pieces::default();
    for i in plan.bands.first..=plan.bands.last {
        let index = DataIndex(i);
        let mask = plan.bands.of_strip(i);
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

/// Where the new bytes of a strip are.
fn payload(strip: u16, zeroes: bool) -> impl Fn(&Plan, usize) -> Source {
    move |plan, b| if zeroes { Source::Zero } else { plan.in_host(strip, b) }
}

fn emit_parity_write(plan: &mut Plan, survey: &Survey, choice: Choice, zeroes: bool) {
    let (first, last) = (plan.bands.first, plan.bands.last);
    let all_strips = choice.rcw | choice.recover != 0;
    let touched = if all_strips { 0..plan.geometry.data_strips() } else { first..last + 1 };
    for i in touched.filter(|i| survey.unreadable >> i & 1 == 0) {
        let wanted = choice.reads_of(plan.bands.of_strip(i));
        if wanted != 0 {
            plan.emit_data_reads(i, wanted, 0);
        }
    }
    for (bit, role) in roles_in(survey.all) {
        plan.emit_parity_reads(survey, bit, role, choice.parity_reads(survey, bit));
    }
    let (follows, new_parity) = emit_new_parity(plan, survey, choice, zeroes);
    for i in (first..=last).filter(|i| survey.unwritable >> i & 1 == 0) {
        let (index, copy) = (DataIndex(i), CopyIndex(0));
        let (cell, mask) = (plan.map.data_cell(index, copy), plan.bands.of_strip(i));
        plan.emit_writes(cell, Role::Data { index, copy }, mask, payload(i, zeroes));
    }
    for (bit, role) in roles_in(survey.writable) {
        let n = usize::from(bit);
        plan.emit_writes(survey.parity[n], role, follows, |_, b| new_parity[b][n]);
    }
}

/// Computes new parity, band by band. Says in which bands, and where it is: P and Q of each.
fn emit_new_parity(
    plan: &mut Plan,
    survey: &Survey,
    choice: Choice,
    zeroes: bool,
) -> (Mask, [[Source; 2]; MAX_BANDS]) {
    let old = OldData::recover(plan, survey, choice);
    let mut new_parity = [[Source::Zero; 2]; MAX_BANDS];
    let mut generated = Generated { slots: [None; 2], lens: [0; 2] };
    let mut follows = 0;
    for (b, new) in new_parity.iter_mut().enumerate().take(plan.bands.all().len()) {
        let has = (choice.rmw | choice.rcw | choice.recover) >> b & 1 == 1;
        if !has || plan.bands.concerned(b) == 0 {
            continue;
        }
        follows |= 1 << b;
        if choice.rmw >> b & 1 == 1 || old.is_updated(choice, b) {
            for (bit, _) in roles_in(survey.writable) {
                new[usize::from(bit)] = plan.brought_parity(bit, b);
            }
            update(plan, survey, b, zeroes);
        } else {
            *new = generated.parity(plan, survey, &old, b, zeroes);
        }
    }
    (follows, new_parity)
}

/// Brings old parity of band `b` up to date where it was read.
fn update(plan: &mut Plan, survey: &Survey, b: usize, zeroes: bool) {
    let band = plan.bands.all()[b];
    let first_term = plan.terms.len();
    for i in band.first..band.end {
        let (old, new) = (plan.brought(i, b), payload(i, zeroes)(plan, b));
        plan.push_data_term(i, old);
        plan.push_data_term(i, new);
    }
    let place = |bit: u16| {
        let is_kept = survey.writable >> bit & 1 == 1;
        is_kept.then(|| plan.brought_parity(bit, b)).and_then(Source::as_own_buffer)
    };
    let kind = ComputeKind::Update { p: place(0), q: place(1) };
    plan.emit_compute(kind, b..=b, first_term);
}

/// Old data of the bands with recovery.
struct OldData {
    /// The strips that were computed, and where they are.
    recovered: [Option<(u16, ScratchSlot)>; 2],
    /// The first column of what was recovered.
    start: u64,
    /// Bands with recovery whose old parity is all read and whose written strips are too, so that parity is
    /// brought up to date as with RMW.
    updated: Mask,
}

impl OldData {
    fn is_updated(&self, choice: Choice, b: usize) -> bool {
        (choice.recover & self.updated) >> b & 1 == 1
    }

    /// Computes what is lost, in one step over all bands that need it.
    fn recover(plan: &mut Plan, survey: &Survey, choice: Choice) -> OldData {
        let mut old = OldData { recovered: [None; 2], start: 0, updated: 0 };
        let mut solved: Mask = 0;
        for b in (0..plan.bands.all().len()).filter(|b| choice.recover >> b & 1 == 1) {
            let written = plan.bands.concerned(b);
            if survey.writable & !choice.recover_from == 0 && survey.unreadable & written == 0 {
                old.updated |= 1 << b;
            } else if written != 0 && survey.unreadable & !written != 0 {
                solved |= 1 << b;
            }
        }
        let Some(hull) = Bands::runs(Bands::hull(solved)).next() else { return old };
        let (first, last) = (hull.start, plan.bands.all()[hull.end - 1]);
        old.start = plan.bands.all()[first].start;
        let first_term = plan.terms.len();
        for i in (0..plan.geometry.data_strips()).filter(|i| survey.unreadable >> i & 1 == 0) {
            let from = plan.brought(i, first);
            plan.push_data_term(i, from);
        }
        for (bit, role) in roles_in(choice.recover_from) {
            let from = plan.brought_parity(bit, first);
            plan.push_term(role, from);
        }
        let mut lost = [None; 2];
        for (n, i) in each(survey.unreadable).take(2).enumerate() {
            let slot = plan.new_scratch(last.start + last.len - old.start);
            let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
            let into = Target::Scratch { slot, at: ByteOffset::ZERO };
            lost[n] = Some(Lost { role, exponent: plan.exponent(i), into });
            old.recovered[n] = Some((i, slot));
        }
        plan.emit_compute(ComputeKind::Recover { lost }, first..=hull.end - 1, first_term);
        old
    }

    /// Where band `b` of a strip that is not written is.
    fn of(&self, plan: &Plan, i: u16, b: usize) -> Source {
        match self.recovered.iter().flatten().find(|(strip, _)| *strip == i) {
            None => plan.brought(i, b),
            Some((_, slot)) => {
                Source::Scratch { slot: *slot, at: ByteOffset(plan.bands.all()[b].start - self.start) }
            }
        }
    }
}

/// Scratch buffers with new parity, P's and Q's.
struct Generated {
    slots: [Option<ScratchSlot>; 2],
    lens: [u64; 2],
}

impl Generated {
    /// Room for band `b` of P (`bit` 0) or Q (1).
    fn room(&mut self, plan: &mut Plan, bit: u16, b: usize) -> Target {
        let n = usize::from(bit);
        let slot = *self.slots[n].get_or_insert_with(|| plan.new_scratch(0));
        let at = ByteOffset(self.lens[n]);
        self.lens[n] += plan.bands.all()[b].len;
        plan.scratch[usize::from(slot.0)].0 = self.lens[n];
        Target::Scratch { slot, at }
    }

    /// P and Q of band `b` from all data. A sum of nothing is zero, and P of one thing is that thing: neither costs
    /// a step.
    fn parity(
        &mut self,
        plan: &mut Plan,
        survey: &Survey,
        old: &OldData,
        b: usize,
        zeroes: bool,
    ) -> [Source; 2] {
        let band = plan.bands.all()[b];
        let first_term = plan.terms.len();
        for i in (0..band.first).chain(band.end..plan.geometry.data_strips()) {
            let kept = old.of(plan, i, b);
            plan.push_data_term(i, kept);
        }
        if !zeroes {
            for i in band.first..band.end {
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
