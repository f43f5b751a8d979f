//! Plans for writing, and how the method is chosen.
//!
//! Parity has to follow the data. Per band of columns (see `bands.rs`) there are three ways:
//!
//! ```text
//! full stripe       host D0 D1 D2 ──────────────── xor ─> P            reads nothing
//! read-modify-write host D1, old D1, old P ─────── xor ─> P            reads what is written, and P
//! reconstruct-write host D1, old D0, old D2 ────── xor ─> P            reads what is not written
//! ```
//!
//! RMW needs the old data and a P that agrees with it; RCW needs every strip that is not written; a full
//! stripe needs neither. A strip that cannot be written lives on in P, provided that every other strip of
//! the band is either written or can be read, for only then can P give it back. Where P cannot be written,
//! data goes out alone, provided that no other strip of the band depends on P as it is.
//!
//! The bands are chosen together, because what touches on a drive is one I/O: of the at most eight
//! combinations the one with the fewest drive I/Os is taken, then the fewest bytes, then RMW first.

use crate::bands::{MAX_BANDS, Mask};
use crate::small::{is_small, plan_small_write};
use crate::survey::{Pieces, Strips, Survey, each, strips};
use crate::{
    Alternative, Bands, ComputeKind, ErrorKind, Method, Plan, Price, ScratchSlot, Source, Target,
    Unplannable, Verdict,
};
use layout::{CopyIndex, DataIndex, Role, StripeMap};
use units::{ByteCount, ByteOffset, ByteRange};

/// Writes the host's payload, or zeroes.
pub(crate) fn plan_write(
    plan: &mut Plan,
    map: &StripeMap,
    range: ByteRange,
    zeroes: bool,
) -> Result<(), Unplannable> {
    plan.bands = Bands::of(range, plan.geometry.strip());
    match Survey::of(&plan.geometry, map, &plan.health) {
        None => write_copies(plan, map, zeroes),
        Some(survey) if is_small(plan, &survey) => {
            plan_small_write(plan, map, &survey, zeroes);
            Ok(())
        }
        Some(survey) => plan_write_with_parity(plan, map, &survey, zeroes),
    }
}

/// Chooses the way of each band and plans it; the plan is fresh but for its bands.
pub(crate) fn plan_write_with_parity(
    plan: &mut Plan,
    map: &StripeMap,
    survey: &Survey,
    zeroes: bool,
) -> Result<(), Unplannable> {
    let ways = Ways::of(plan, survey)?;
    let choice = ways.choose(plan, survey);
    (plan.rmw_bands, plan.rcw_bands) = (choice.rmw, choice.rcw);
    emit_parity_write(plan, map, survey, choice, zeroes);
    Ok(())
}

/// Writes every copy that can be written; at least one of each strip must be.
fn write_copies(plan: &mut Plan, map: &StripeMap, zeroes: bool) -> Result<(), Unplannable> {
    plan.method = if plan.geometry.copies() > 1 { Method::Mirror } else { Method::Direct };
    let mut homeless = Pieces::default();
    for i in plan.bands.first..=plan.bands.last {
        let index = DataIndex(i);
        let mask = plan.bands.of_strip(i);
        let before = plan.writes.len();
        for copy in (0..plan.geometry.copies()).map(CopyIndex) {
            let cell = map.data_cell(index, copy);
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

/// In which bands parity can be kept in which way.
struct Ways {
    /// Bands with something to write.
    active: Mask,
    /// Bands of which every data strip is written.
    full: Mask,
    rmw: Mask,
    rcw: Mask,
}

/// In which bands parity is kept in which way; in the other active ones data goes out alone.
#[derive(Clone, Copy, Default)]
struct Choice {
    rmw: Mask,
    rcw: Mask,
}

impl Ways {
    fn of(plan: &Plan, survey: &Survey) -> Result<Ways, Unplannable> {
        let mut ways = Ways { active: 0, full: 0, rmw: 0, rcw: 0 };
        let (mut homeless, mut lost) = (Pieces::default(), Pieces::default());
        let all = strips(0, plan.geometry.data_strips());
        for b in 0..plan.bands.all().len() {
            let written: Strips = plan.bands.concerned(b);
            if written == 0 {
                continue;
            }
            let unreadable_others = survey.unreadable & !written;
            let unwritable = survey.unwritable & written;
            let rmw = survey.parity_usable && survey.parity_writable && survey.unreadable & written == 0;
            let rcw = survey.parity_writable && unreadable_others == 0;
            let others_depend_on_parity = survey.parity_usable && unreadable_others != 0;
            if unwritable != 0 {
                if !rcw || unwritable.count_ones() > 1 {
                    homeless.add(&plan.bands, b, unwritable);
                }
            } else if !rmw && !rcw && others_depend_on_parity {
                lost.add(&plan.bands, b, unreadable_others);
            } else if !rmw && !rcw && survey.parity_writable && plan.health.parity_trusted {
                // Parity cannot be read now but is deemed right: if it came back, it would be wrong.
                lost.add(&plan.bands, b, unreadable_others);
            }
            let bit = 1 << b;
            ways.active |= bit;
            ways.full |= if written == all { bit } else { 0 };
            ways.rmw |= if rmw && written != all { bit } else { 0 };
            ways.rcw |= if rcw { bit } else { 0 };
        }
        if !homeless.is_empty() {
            return Err(homeless.into_error(ErrorKind::NothingWritable, plan.stripe));
        }
        if !lost.is_empty() {
            return Err(lost.into_error(ErrorKind::DataLost, plan.stripe));
        }
        Ok(ways)
    }

    /// The cheapest combination. Also says so in the plan: its method, and why.
    fn choose(&self, plan: &mut Plan, survey: &Survey) -> Choice {
        let either = self.rmw & self.rcw;
        let always = Choice { rmw: self.rmw & !self.rcw, rcw: self.rcw & !self.rmw };
        if either | always.rmw == 0 && self.full == self.active {
            plan.method = if always.rcw == 0 { Method::DataOnly } else { Method::FullStripe };
            return always;
        }
        let written = Written::of(plan, survey);
        // Descending through the subsets of `either`: RMW in all of them comes first and wins ties, RMW in
        // none of them comes last.
        let mut subset = either;
        let most_rmw = written.price(Choice { rmw: self.rmw, rcw: always.rcw });
        let (mut best, mut chosen) = (Choice { rmw: self.rmw, rcw: always.rcw }, most_rmw);
        let mut most_rcw = most_rmw;
        while subset != 0 {
            subset = (subset - 1) & either;
            let choice = Choice { rmw: always.rmw | subset, rcw: always.rcw | (either & !subset) };
            most_rcw = written.price(choice);
            if most_rcw < chosen {
                (best, chosen) = (choice, most_rcw);
            }
        }
        plan.method = self.method(best);
        if best.rmw | best.rcw != 0 {
            let rmw = self.rmw_throughout(most_rmw, survey);
            let rcw = self.rcw_throughout(most_rcw);
            plan.verdict = Verdict::Chosen { chosen, rmw, rcw };
        }
        best
    }

    fn rmw_throughout(&self, price: Price, survey: &Survey) -> Alternative {
        if self.rmw | self.full == self.active {
            Alternative::Price(price)
        } else if !survey.parity_readable {
            Alternative::ParityUnreadable
        } else if !survey.parity_usable {
            Alternative::ParityUntrusted
        } else {
            Alternative::DataUnreadable
        }
    }

    fn rcw_throughout(&self, price: Price) -> Alternative {
        if self.rcw == self.active { Alternative::Price(price) } else { Alternative::DataUnreadable }
    }

    fn method(&self, choice: Choice) -> Method {
        if choice.rmw | choice.rcw == 0 {
            Method::DataOnly
        } else if choice.rmw == self.active {
            Method::Rmw
        } else if choice.rcw != self.active {
            Method::Mixed
        } else if self.full == self.active {
            Method::FullStripe
        } else {
            Method::Rcw
        }
    }
}

/// What is written, summed up so that a combination is priced without a look at every strip: the first and
/// the last strip, those between them (concerned in every band), and the others (in none).
struct Written {
    classes: [(u32, Mask); 4],
    data: Price,
    /// The columns in each set of bands.
    columns: [u64; 1 << MAX_BANDS],
}

impl Written {
    fn of(plan: &Plan, survey: &Survey) -> Written {
        let bands = &plan.bands;
        let concerned = u32::from(bands.last - bands.first) + 1;
        let others = u32::from(plan.geometry.data_strips()) - concerned;
        let every = (1 << bands.all().len()) - 1;
        let classes = [
            (1, bands.of_strip(bands.first)),
            (u32::from(concerned > 1), bands.of_strip(bands.last)),
            (concerned.saturating_sub(2), every),
            (others, 0),
        ];
        let mut data = Price { drive_ios: concerned, bytes: bands.range_len() };
        for i in each(survey.unwritable & strips(bands.first, bands.last + 1)) {
            data.drive_ios -= 1;
            data.bytes -= bands.columns(bands.of_strip(i));
        }
        let mut columns = [0; 1 << MAX_BANDS];
        for (b, band) in bands.all().iter().enumerate() {
            for below in 0..1 << b {
                columns[below | 1 << b] = columns[below] + band.len;
            }
        }
        Written { classes, data, columns }
    }

    fn price(&self, choice: Choice) -> Price {
        let mut price = self.data;
        let mut add = |count: u32, mask: Mask| {
            price.drive_ios += count * Bands::ios(mask);
            price.bytes += u64::from(count) * self.columns[usize::from(mask) % self.columns.len()];
        };
        for (count, written) in self.classes {
            add(count, reads_of(written, choice));
        }
        add(1, choice.rmw);
        add(1, choice.rmw | choice.rcw);
        price
    }
}

/// The bands of a strip that are read: with RMW those that are written, with RCW those that are not.
fn reads_of(written: Mask, choice: Choice) -> Mask {
    (written & choice.rmw) | (!written & choice.rcw)
}

fn emit_parity_write(plan: &mut Plan, map: &StripeMap, survey: &Survey, choice: Choice, zeroes: bool) {
    let strips = plan.geometry.data_strips();
    let (first, last) = (plan.bands.first, plan.bands.last);
    let touched = if choice.rcw == 0 { first..last + 1 } else { 0..strips };
    for i in touched {
        let index = DataIndex(i);
        let wanted = reads_of(plan.bands.of_strip(i), choice);
        if wanted != 0 {
            let copy = CopyIndex(0);
            plan.emit_reads(map.data_cell(index, copy), Role::Data { index, copy }, i, wanted, 0);
        }
    }
    plan.emit_reads(survey.parity, Role::P, strips, choice.rmw, 0);
    let new_parity = emit_new_parity(plan, choice, zeroes);
    for i in (first..=last).filter(|i| survey.unwritable >> i & 1 == 0) {
        let (index, copy) = (DataIndex(i), CopyIndex(0));
        let mask = plan.bands.of_strip(i);
        plan.emit_writes(map.data_cell(index, copy), Role::Data { index, copy }, mask, payload(i, zeroes));
    }
    plan.emit_writes(survey.parity, Role::P, choice.rmw | choice.rcw, |_, b| new_parity[b]);
}

/// Computes new parity, band by band, and says where it is. A sum of nothing is zero, and a sum of one
/// thing is that thing: neither costs a step.
fn emit_new_parity(plan: &mut Plan, choice: Choice, zeroes: bool) -> [Source; 3] {
    let slot = ScratchSlot(0);
    let mut scratch_len = 0;
    let mut new_parity = [Source::Zero; 3];
    for (b, parity) in new_parity.iter_mut().enumerate().take(plan.bands.all().len()) {
        if (choice.rmw | choice.rcw) >> b & 1 == 0 {
            continue;
        }
        let first_source = plan.sources.len();
        push_sources(plan, b, choice.rmw >> b & 1 == 1, zeroes);
        match plan.sources[first_source..] {
            [] => {}
            [only] => {
                *parity = only;
                plan.sources.truncate(first_source);
            }
            _ => {
                let at = ByteOffset(scratch_len);
                *parity = Source::Scratch { slot, at };
                let into = Target::Scratch { slot, at };
                plan.emit_compute(ComputeKind::Xor { into, role: Role::P }, b, first_source);
                scratch_len += plan.bands.all()[b].len;
            }
        }
    }
    if scratch_len > 0 {
        plan.scratch.push(ByteCount(scratch_len));
    }
    new_parity
}

fn push_sources(plan: &mut Plan, b: usize, rmw: bool, zeroes: bool) {
    let strips = plan.geometry.data_strips();
    let band = plan.bands.all()[b];
    if rmw {
        let old_parity = plan.brought(strips, b);
        plan.sources.push(old_parity);
        for i in band.first..band.end {
            let old = plan.brought(i, b);
            plan.sources.push(old);
        }
    } else {
        for i in (0..band.first).chain(band.end..strips) {
            let kept = plan.brought(i, b);
            plan.sources.push(kept);
        }
    }
    if !zeroes {
        for i in band.first..band.end {
            let new = plan.in_host(i, b);
            plan.sources.push(new);
        }
    }
}
