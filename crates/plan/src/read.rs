//! Plans for reading.
//!
//! ```text
//! direct          D2 -> host
//! split           D2 (its first part) -> host, D2' (its second part) -> host
//! reconstruction  D0 ─┐
//!                 D1 ─┼─> D2 -> host              (requested parts of D0, D1 are read once)
//!                 P  ─┘
//!                 D0, P, Q ─> D1, D2 -> host      (two are lost: it takes both)
//! ```

use crate::bands::Mask;
use crate::steps::Run;
use crate::survey::{Parities, Pieces, Strips, Survey, each, roles_in};
use crate::{
    ComputeKind, CopyChoice, ErrorKind, Lost, Method, Plan, Read, ReadPart, Source, Target,
    Unplannable,
};
use layout::{CopyIndex, DataIndex, Role};
use units::{ByteCount, ByteOffset, ByteRange};

/// Least bytes of a part when a strip is split between its copies: below, access costs exceed
/// transfer.
const SPLIT_LEAST: u64 = 32 << 10;

/// Alignment of the parts of a split strip: the largest sector.
const SPLIT_ALIGNMENT: u64 = 4 << 10;

pub(crate) fn plan_read(
    plan: &mut Plan,
    range: ByteRange,
    prefer: &CopyChoice,
    split: bool,
) -> Result<(), Unplannable> {
    plan.method = Method::Direct;
    let split = split && plan.geometry.copies() > 1 && plan.health.parity_trusted;
    let mut missing = 0;
    for i in plan.bands.first..=plan.bands.last {
        let index = DataIndex(i);
        let Some(copy) = plan.readable_copy(index, prefer.of(index)) else {
            missing |= 1 << i;
            continue;
        };
        if split {
            split_strip(plan, i, copy, range);
            continue;
        }
        let mask = plan.bands.of_strip(i);
        plan.emit_reads(plan.map.data_cell(index, copy), Role::Data { index, copy }, i, mask, mask);
    }
    if missing == 0 {
        return Ok(());
    }
    if let Some(survey) = Survey::of(plan)
        && let Some(parities) = survey.enough(survey.unreadable, survey.all)
    {
        reconstruct(plan, &survey, parities, missing);
        return Ok(());
    }
    let mut lost = Pieces::default();
    for b in 0..plan.bands.all().len() {
        lost.add(&plan.bands, b, missing & plan.bands.concerned(b));
    }
    Err(lost.into_error(ErrorKind::DataLost, plan.stripe))
}

impl Plan {
    /// The copy of a data strip to read: the preferred one, or the next readable one. Where copies
    /// may differ, always the first readable one.
    #[inline]
    pub(crate) fn readable_copy(&self, index: DataIndex, prefer: CopyIndex) -> Option<CopyIndex> {
        let copies = self.geometry.copies();
        if copies == 1 {
            return self.can_read(index, CopyIndex(0)).then_some(CopyIndex(0));
        }
        let first = match prefer.0 {
            _ if !self.health.parity_trusted => 0,
            prefer if prefer < copies => prefer,
            prefer => prefer % copies,
        };
        (first..copies).chain(0..first).map(CopyIndex).find(|copy| self.can_read(index, *copy))
    }

    #[inline]
    pub(crate) fn can_read(&self, index: DataIndex, copy: CopyIndex) -> bool {
        self.health.readable.contains(self.map.data_cell(index, copy).drive)
    }
}

/// Reads the requested part of a strip from all its readable copies, one part each, starting with
/// `first`.
fn split_strip(plan: &mut Plan, i: u16, first: CopyIndex, range: ByteRange) {
    let (index, copies) = (DataIndex(i), plan.geometry.copies());
    let strip = plan.geometry.strip().bytes();
    let piece = range.intersection(ByteRange::new(ByteOffset(strip.0 * u64::from(i)), strip));
    let can_read = (0..copies).filter(|copy| plan.can_read(index, CopyIndex(*copy))).count() as u64;
    let parts = can_read.min(piece.len.0 / SPLIT_LEAST).max(1);
    let part_len = piece.len.0.div_ceil(parts).next_multiple_of(SPLIT_ALIGNMENT);
    let mut done = 0;
    for copy in (first.0..copies).chain(0..first.0).map(CopyIndex) {
        if done == piece.len.0 {
            break;
        }
        if !plan.can_read(index, copy) {
            continue;
        }
        let len = ByteCount(part_len.min(piece.len.0 - done));
        let within = ByteCount(piece.start.0 % strip.0 + done);
        let cell = plan.map.data_cell(index, copy);
        let at = ByteOffset(piece.start.0 + done - range.start.0);
        let parts = Run::one(plan.read_parts.len() as u16);
        plan.read_parts.push(ReadPart { into: Target::Host { at }, len });
        let (offset, role) = (cell.offset + within, Role::Data { index, copy });
        plan.reads.push(Read { drive: cell.drive, offset, within, len, role, parts });
        done += len.0;
    }
}

/// Plans again, and computes unreadable strips from the rest of the stripe. `missing`: those that
/// are requested.
fn reconstruct(plan: &mut Plan, survey: &Survey, parities: Parities, missing: Strips) {
    plan.method = Method::Reconstruct;
    plan.forget_steps();
    let strips = plan.geometry.data_strips();
    let computed = each(missing).fold(0, |mask: Mask, i| mask | plan.bands.of_strip(i));
    for i in (0..strips).filter(|i| survey.unreadable >> i & 1 == 0) {
        let asked = plan.bands.of_strip(i);
        plan.emit_data_reads(i, asked | computed, asked);
    }
    for (bit, role) in roles_in(parities) {
        plan.emit_parity_reads(survey, bit, role, computed);
    }
    for b in (0..plan.bands.all().len()).filter(|b| computed >> b & 1 == 1) {
        let first_term = plan.terms.len();
        for i in (0..strips).filter(|i| survey.unreadable >> i & 1 == 0) {
            let asked = plan.bands.of_strip(i) >> b & 1 == 1;
            let from: Source = if asked { plan.in_host(i, b) } else { plan.brought(i, b) };
            plan.push_data_term(i, from);
        }
        for (bit, role) in roles_in(parities) {
            let from = plan.brought_parity(bit, b);
            plan.push_term(role, from);
        }
        let mut lost = [None; 2];
        for (lost, i) in lost.iter_mut().zip(each(survey.unreadable)) {
            *lost = Some(lost_into(plan, i, b));
        }
        plan.emit_compute(ComputeKind::Recover { lost }, b..=b, first_term);
    }
}

/// Target of band `b` of a computed strip: the host's buffer if requested, otherwise a scratch
/// buffer.
fn lost_into(plan: &mut Plan, i: u16, b: usize) -> Lost {
    let band = plan.bands.all()[b];
    let into = if plan.bands.of_strip(i) >> b & 1 == 1 {
        Target::Host { at: ByteOffset(plan.bands.host_at(i, band.start)) }
    } else {
        Target::Scratch { slot: plan.new_scratch(band.len), at: ByteOffset::ZERO }
    };
    let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
    Lost { role, exponent: plan.exponent(i), into }
}
