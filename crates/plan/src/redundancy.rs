//! Plans that restore consistency of a stripe: resync, rebuild, repair, copy, verify.
//!
//! ```text
//! resync   D0 D1 D2 ──────> P, Q              D0 ──────────> D0' D0"
//! rebuild  D0 D1 P Q ─────> D2, D3            D0 ──────────> D0'
//! repair   the same, of a strip that can be read but is wrong
//! copy     D0 ────────────> D0, on another drive
//! verify   D0 D1 D2 P Q ──> which is wrong    D0 D0' D0" ──> which is wrong
//! ```

use crate::bands::Mask;
use crate::survey::{Parities, Pieces, Strips, Survey, each, roles_in, strips};
use crate::{ComputeKind, ErrorKind, Lost, Method, Plan, Source, Target, Unplannable};
use layout::{Cell, CopyIndex, DataIndex, Role};
use units::{ByteOffset, DriveIndex};

/// The only band: the requested columns.
const BAND: Mask = 1;

/// An error about some data strips in the requested columns.
fn error(plan: &Plan, kind: ErrorKind, set: Strips) -> Unplannable {
    let mut pieces = Pieces::default();
    pieces.add(&plan.bands, 0, set);
    pieces.into_error(kind, plan.stripe)
}

/// The data strip of a role as a set; empty for P and Q.
fn strip_of(role: Role) -> Strips {
    match role {
        Role::Data { index, .. } => 1 << index.0,
        Role::P | Role::Q | Role::Spare => 0,
    }
}

fn all_strips(plan: &Plan) -> Strips {
    strips(0, plan.geometry.data_strips())
}

/// Some strips of a stripe with parity.
#[derive(Clone, Copy)]
struct Wanted {
    data: Strips,
    parity: Parities,
}

pub(crate) fn plan_resync(plan: &mut Plan) -> Result<(), Unplannable> {
    let Some(survey) = Survey::of(plan) else {
        return if plan.geometry.copies() > 1 { resync_copies(plan) } else { Ok(()) };
    };
    let lost = survey.unreadable;
    let behind =
        Wanted { data: lost & !survey.unwritable, parity: survey.writable & !survey.readable };
    let rebuilds = lost != 0 || behind.parity != 0 && plan.health.parity_trusted;
    plan.method = if rebuilds { Method::Rebuild } else { Method::Resync };
    let wanted = if rebuilds { behind } else { Wanted { data: 0, parity: survey.writable } };
    if wanted.data == 0 && wanted.parity == 0 {
        let set = if lost != 0 { lost } else { all_strips(plan) };
        return Err(error(plan, ErrorKind::NothingWritable, set));
    }
    restore(plan, &survey, lost, wanted)
}

/// Computes strips from the others and writes them. `missing`: the data strips that are not read,
/// including those among `wanted`.
fn restore(
    plan: &mut Plan,
    survey: &Survey,
    missing: Strips,
    wanted: Wanted,
) -> Result<(), Unplannable> {
    let mut sources: Parities = 0;
    if missing != 0 {
        let computed = missing.count_ones() + wanted.parity.count_ones();
        match survey.enough(missing, survey.all & !wanted.parity) {
            Some(parities) if computed <= 2 => sources = parities,
            _ => return Err(error(plan, ErrorKind::DataLost, missing)),
        }
    }
    let kept = all_strips(plan) & !missing;
    for i in each(kept) {
        plan.emit_data_reads(i, BAND, 0);
    }
    for (bit, role) in roles_in(sources) {
        plan.emit_parity_reads(survey, bit, role, BAND);
    }
    let first_term = plan.terms.len();
    for i in each(kept) {
        let from = plan.brought(i, 0);
        plan.push_data_term(i, from);
    }
    for (bit, role) in roles_in(sources) {
        let from = plan.brought_parity(bit, 0);
        plan.push_term(role, from);
    }
    let len = plan.bands.all()[0].len;
    let room =
        |plan: &mut Plan| Target::Scratch { slot: plan.new_scratch(len), at: ByteOffset::ZERO };
    let mut made: [Option<Lost>; 2] = [None; 2];
    let mut count = 0;
    for i in each(missing) {
        let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
        made[count] = Some(Lost { role, exponent: plan.exponent(i), into: room(plan) });
        count += 1;
    }
    for (_, role) in roles_in(wanted.parity) {
        made[count] = Some(Lost { role, exponent: 0, into: room(plan) });
        count += 1;
    }
    let place = |role| made.iter().flatten().find(|lost| lost.role == role).map(|lost| lost.into);
    let kind = if missing == 0 {
        ComputeKind::Generate { p: place(Role::P), q: place(Role::Q) }
    } else {
        ComputeKind::Recover { lost: made }
    };
    plan.emit_compute(kind, 0..=0, first_term);
    for lost in made.into_iter().flatten() {
        let is_wanted = match lost.role {
            Role::P | Role::Q => true,
            role => strip_of(role) & wanted.data != 0,
        };
        if is_wanted && let Some(cell) = plan.target_cell(lost.role) {
            plan.emit_writes(cell, lost.role, BAND, |_, _| lost.into.as_source());
        }
    }
    Ok(())
}

impl Plan {
    /// Target of a strip: its own cell, or, for a copy of a drive, its relocated cell.
    fn target_cell(&self, role: Role) -> Option<Cell> {
        match self.request {
            crate::Request::Copy { drive, .. } => {
                let home = self.geometry.stripe_map(self.stripe);
                [self.map, home]
                    .iter()
                    .filter_map(|map| map.cell_of(role))
                    .find(|cell| cell.drive == drive)
            }
            _ => self.map.cell_of(role),
        }
    }

    fn can_write(&self, index: DataIndex, copy: CopyIndex) -> bool {
        self.health.writable.contains(self.map.data_cell(index, copy).drive)
    }

    /// The first readable copy of a strip, other than `not`.
    fn other_copy(&self, index: DataIndex, not: CopyIndex) -> Option<CopyIndex> {
        (0..self.geometry.copies())
            .map(CopyIndex)
            .find(|copy| *copy != not && self.can_read(index, *copy))
    }
}

/// Writes copies from the first readable one: to the write-only copies, or, if there are none or
/// copies are not trusted, to all others. A single remaining copy needs no resync.
fn resync_copies(plan: &mut Plan) -> Result<(), Unplannable> {
    let behind =
        |plan: &Plan, index, copy| plan.can_write(index, copy) && !plan.can_read(index, copy);
    let indexes = || (0..plan.geometry.data_strips()).map(DataIndex);
    let copies = || (0..plan.geometry.copies()).map(CopyIndex);
    let rebuilds = plan.health.parity_trusted
        && indexes().any(|index| copies().any(|copy| behind(plan, index, copy)));
    plan.method = if rebuilds { Method::Rebuild } else { Method::Resync };
    let mut lost = 0;
    for i in 0..plan.geometry.data_strips() {
        let index = DataIndex(i);
        let good = plan.readable_copy(index, CopyIndex(0));
        let mut is_read = false;
        for copy in (0..plan.geometry.copies()).map(CopyIndex) {
            let is_wanted =
                if rebuilds { behind(plan, index, copy) } else { plan.can_write(index, copy) };
            if !is_wanted || good == Some(copy) {
                continue;
            }
            let Some(good) = good else {
                lost |= 1 << i;
                break;
            };
            if !is_read {
                plan.emit_reads(
                    plan.map.data_cell(index, good),
                    Role::Data { index, copy: good },
                    i,
                    BAND,
                    0,
                );
                is_read = true;
            }
            let cell = plan.map.data_cell(index, copy);
            plan.emit_writes(cell, Role::Data { index, copy }, BAND, |plan, b| plan.brought(i, b));
        }
    }
    if lost != 0 { Err(error(plan, ErrorKind::DataLost, lost)) } else { Ok(()) }
}

pub(crate) fn plan_repair(plan: &mut Plan, culprit: Role) -> Result<(), Unplannable> {
    plan.method = Method::Repair;
    let set = strip_of(culprit);
    let is_writable =
        plan.map.cell_of(culprit).is_some_and(|cell| plan.health.writable.contains(cell.drive));
    if !is_writable {
        let set = if set != 0 { set } else { all_strips(plan) };
        return Err(error(plan, ErrorKind::NothingWritable, set));
    }
    renew(plan, culprit)
}

/// Computes a strip, or takes another copy, and writes it to its place.
fn renew(plan: &mut Plan, role: Role) -> Result<(), Unplannable> {
    let set = strip_of(role);
    if let Some(survey) = Survey::of(plan) {
        let parity = roles_in(survey.all).filter(|(_, other)| *other == role);
        let parity = parity.fold(0, |parity, (bit, _)| parity | 1 << bit);
        return restore(plan, &survey, survey.unreadable | set, Wanted { data: set, parity });
    }
    let Role::Data { index, copy } = role else { return Ok(()) };
    match plan.other_copy(index, copy) {
        None => Err(error(plan, ErrorKind::DataLost, set)),
        Some(good) => {
            let from = plan.map.data_cell(index, good);
            pass_on(plan, from, Role::Data { index, copy: good }, role);
            Ok(())
        }
    }
}

/// Reads a cell and writes its content to the place of `to`.
fn pass_on(plan: &mut Plan, from: Cell, holds: Role, to: Role) {
    let strips = plan.geometry.data_strips();
    let i = match to {
        Role::Data { index, .. } => index.0,
        Role::P | Role::Spare => strips,
        Role::Q => strips + 1,
    };
    plan.emit_reads(from, holds, i, BAND, 0);
    if let Some(cell) = plan.target_cell(to) {
        plan.emit_writes(cell, to, BAND, |plan, b| plan.brought(i, b));
    }
}

pub(crate) fn plan_copy(plan: &mut Plan, drive: DriveIndex) -> Result<(), Unplannable> {
    let home = plan.geometry.stripe_map(plan.stripe);
    for row in 0..plan.geometry.rows_per_stripe() {
        // Its present content, or, if that is relocated, its former content.
        let held = [plan.map, home]
            .iter()
            .filter_map(|map| map.role_at(drive, row))
            .find(|role| *role != Role::Spare);
        let Some(role) = held else { continue };
        plan.method = Method::Copy;
        match plan.map.cell_of(role) {
            Some(cell) if plan.health.readable.contains(cell.drive) => {
                pass_on(plan, cell, role, role)
            }
            _ => renew(plan, role)?,
        }
    }
    Ok(())
}

pub(crate) fn plan_verify(plan: &mut Plan) -> Result<(), Unplannable> {
    plan.method = Method::Verify;
    let Some(survey) = Survey::of(plan) else {
        return verify_copies(plan);
    };
    if survey.unreadable != 0 || survey.readable == 0 {
        return Err(error(plan, ErrorKind::NothingToCompare, survey.unreadable));
    }
    let all = 0..plan.geometry.data_strips();
    for i in all.clone() {
        plan.emit_data_reads(i, BAND, 0);
    }
    for (bit, role) in roles_in(survey.readable) {
        plan.emit_parity_reads(&survey, bit, role, BAND);
    }
    for i in all {
        let from = plan.brought(i, 0);
        plan.push_data_term(i, from);
    }
    for (bit, role) in roles_in(survey.readable) {
        let from = plan.brought_parity(bit, 0);
        plan.push_term(role, from);
    }
    plan.emit_compute(ComputeKind::Check, 0..=0, 0);
    Ok(())
}

/// Reads every readable copy, and compares the copies of each strip.
fn verify_copies(plan: &mut Plan) -> Result<(), Unplannable> {
    let copies = plan.geometry.copies();
    let (mut lost, mut alone) = (0, 0);
    for i in 0..plan.geometry.data_strips() {
        let index = DataIndex(i);
        let first_term = plan.terms.len();
        for copy in (0..copies).map(CopyIndex) {
            if !plan.can_read(index, copy) {
                continue;
            }
            let role = Role::Data { index, copy };
            plan.emit_reads(plan.map.data_cell(index, copy), role, i, BAND, 0);
            let from: Source = plan.brought(i, 0);
            plan.push_term(role, from);
        }
        match plan.terms.len() - first_term {
            0 => lost |= 1 << i,
            1 if copies > 1 => alone |= 1 << i,
            1 => plan.terms.truncate(first_term),
            _ => plan.emit_compute(ComputeKind::Compare, 0..=0, first_term),
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
