//! Which drive has which slot: by what is found where a layout says that it belongs, and by how the end of each strip
//! goes on in the next.
//!
//! Evidence is counted in points, about the natural logarithm of how much more likely it is in this order than by
//! chance. All of it is about one slot, or about a pair of slots that follow one another; so an order is built slot by
//! slot, and only the best beginnings are carried on: no factorial.

use super::sample::{Cell, EDGE, Window};
use layout::{CopyIndex, DataIndex, Geometry, ParityIndex};
use units::{ByteOffset, StripeIndex};

/// How many beginnings of an order are carried on.
const CARRIED: usize = 96;
/// How many rows are looked at, for one strip.
const ROWS: usize = 512;
/// Points for a row in which the drive that all others add up without is where Q should be.
const Q_POINTS: f64 = 0.5;
/// Points of strips that go on in one another everywhere.
pub(super) const CONTINUITY: f64 = 40.0;
/// How alike two texts are at least.
const TEXT: f64 = 0.5;
/// How much of what goes on better on the same drive speaks against a boundary.
const OWN: f64 = 0.6;
/// So many boundaries are enough to rely upon.
const ENOUGH: f64 = 24.0;

/// What speaks for each drive in each slot, and for each pair of drives in each pair of slots.
pub(super) struct Weights {
    drives: usize,
    slots: usize,
    alone: Vec<f64>,
    pairs: Vec<f64>,
    /// How many boundaries told drives apart.
    pub(super) boundaries: usize,
    /// The most that an order could have got at them.
    most: f64,
    /// The squared spreads of likeness at them, added up.
    variance: f64,
    /// The drive of a slot, where that is known.
    fixed: Vec<Option<usize>>,
}

/// An order: the drive of each slot; and what speaks for it.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) drives: Vec<usize>,
    /// Points for what is in slots alone.
    pub(super) alone: f64,
    /// How well the strips go on in one another: [`Weights::continuity`].
    pub(super) continuity: f64,
}

/// How alike an end and a beginning are: the bytes that are equal at the same distance. Constant ones say nothing,
/// nor do zeroes: parity of what is alike is full of them.
fn alike(tail: &[u8; EDGE], head: &[u8; EDGE]) -> f64 {
    let is_constant = |bytes: &[u8; EDGE]| bytes.iter().all(|byte| *byte == bytes[0]);
    if is_constant(tail) || is_constant(head) {
        return 0.0;
    }
    let equal = tail.iter().zip(head).filter(|(a, b)| a == b && **a != 0).count() as f64 / EDGE as f64;
    // Text goes on as text, though letters differ.
    match (is_text(tail), is_text(head)) {
        (true, true) => equal.max(TEXT),
        (false, false) => equal,
        _ => equal / 2.0,
    }
}

fn is_text(bytes: &[u8; EDGE]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7E | 0x80..))
        && bytes.iter().filter(|byte| **byte >= 0x80).count() < EDGE / 4
}

impl Weights {
    pub(super) fn new(drives: usize, slots: usize) -> Weights {
        let pairs = vec![0.0; slots * slots * drives * drives];
        Weights {
            drives,
            slots,
            alone: vec![0.0; slots * drives],
            pairs,
            boundaries: 0,
            most: 0.0,
            variance: 0.0,
            fixed: vec![None; slots],
        }
    }

    /// Has a slot have that drive in every order.
    pub(super) fn fix(&mut self, slot: usize, drive: usize) {
        self.fixed[slot] = Some(drive);
    }

    /// Whether a slot may have a drive.
    fn may_have(&self, slot: usize, drive: usize) -> bool {
        match self.fixed[slot] {
            Some(fixed) => fixed == drive,
            None => !self.fixed.contains(&Some(drive)),
        }
    }

    /// Adds points for a drive in a slot.
    pub(super) fn add(&mut self, slot: usize, drive: usize, points: f64) {
        self.alone[slot * self.drives + drive] += points;
    }

    fn pair(&mut self, from: usize, to: usize) -> &mut [f64] {
        let at = (from * self.slots + to) * self.drives * self.drives;
        &mut self.pairs[at..at + self.drives * self.drives]
    }

    /// Compares what ends in one slot with what begins in another. What is counted is how much better a drive goes on
    /// than the others do on average, so that drives that are alike say nothing.
    ///
    /// What follows on the same drive is compared as well: where that goes on better, no strip ends here.
    fn boundary(
        &mut self,
        (from, tails): (usize, &[Option<&Cell>]),
        (to, heads): (usize, &[Option<&Cell>]),
        own: Option<&[Option<&Cell>]>,
    ) {
        if from == to {
            return;
        }
        let drives = self.drives;
        let mut likeness = vec![0.0; drives * drives];
        for a in 0..drives {
            for b in 0..drives {
                if let (Some(tail), Some(head), true) = (tails[a], heads[b], a != b) {
                    likeness[a * drives + b] = alike(&tail.tail, &head.head);
                }
            }
        }
        let count = (drives * (drives - 1)).max(1) as f64;
        let mean = likeness.iter().sum::<f64>() / count;
        let most = likeness.iter().fold(0.0, |most, one: &f64| one.max(most)) - mean;
        if most <= 0.0 {
            return;
        }
        self.boundaries += 1;
        self.most += most;
        let others = (0..drives * drives).filter(|at| at / drives != at % drives);
        self.variance += others.map(|at| (likeness[at] - mean).powi(2)).sum::<f64>() / count;
        let goes_on = |drive: usize| match (tails[drive], own.and_then(|own| own[drive])) {
            (Some(tail), Some(next)) => alike(&tail.tail, &next.head),
            _ => 0.0,
        };
        // In part: neighbours on a drive are often alike without following one another.
        let chance = |drive: usize| mean + OWN * (goes_on(drive) - mean).max(0.0);
        let chance: Vec<f64> = (0..drives).map(chance).collect();
        let pair = self.pair(from, to);
        (0..drives * drives)
            .filter(|at| at / drives != at % drives)
            .for_each(|at| pair[at] += likeness[at] - chance[at / drives]);
    }

    /// Looks at the rows of a layout in the windows: data begin at `start` on each drive. `cells` gives the blocks of
    /// all drives, that of one which is missing among them.
    pub(super) fn look(&mut self, windows: &[Window], geometry: &Geometry, start: u64, has_q: bool) {
        let strip = geometry.strip().bytes().0;
        let per_window = (ROWS / windows.len().max(1)).max(4);
        for window in windows {
            let len = window.blocks() as u64 * super::sample::BLOCK;
            let first = window.start.saturating_sub(start).div_ceil(strip);
            let end = (window.start + len).saturating_sub(start) / strip;
            let mut seen = 0;
            for row in first..end.min(geometry.member_size().0 / strip) {
                let at = (start + row * strip - window.start) / super::sample::BLOCK;
                let Some(heads) = column(window, at, self.drives) else { continue };
                if seen >= per_window {
                    break;
                }
                let last = column(window, at + strip / super::sample::BLOCK - 1, self.drives);
                let next = column(window, at + strip / super::sample::BLOCK, self.drives);
                seen += usize::from(self.row(geometry, row, &heads, last.as_deref(), next.as_deref()));
                if has_q {
                    self.q(window, geometry, row, at as usize);
                }
            }
        }
    }

    /// Looks at a row; whether it holds anything.
    fn row(
        &mut self,
        geometry: &Geometry,
        row: u64,
        heads: &[Option<&Cell>],
        tails: Option<&[Option<&Cell>]>,
        next: Option<&[Option<&Cell>]>,
    ) -> bool {
        let Some(tails) = tails else { return false };
        let is_told = |cells: &[Option<&Cell>]| cells.iter().flatten().any(|cell| cell.hash != 0);
        if !is_told(heads) && !is_told(tails) {
            return false;
        }
        let slots = data_slots(geometry, row);
        for pair in slots.windows(2) {
            self.boundary((pair[0], tails), (pair[1], heads), next);
        }
        if let (Some(next), Some(last), Some(first)) =
            (next, slots.last(), data_slots(geometry, row + 1).first())
        {
            self.boundary((*last, tails), (*first, next), Some(next));
        }
        true
    }

    /// The drive without which the others add up belongs where Q is.
    fn q(&mut self, window: &Window, geometry: &Geometry, row: u64, block: usize) {
        let Some(q) = geometry.parity_cell(StripeIndex(row), ParityIndex(1)) else { return };
        let Some(xor) = window.xor.get(block).and_then(Option::as_ref).filter(|xor| xor.hash != 0) else {
            return;
        };
        let holds =
            |drive: &usize| window.cells[*drive][block].as_ref().is_some_and(|cell| cell.hash == xor.hash);
        let holders: Vec<usize> = (0..window.cells.len()).filter(holds).collect();
        if let [holder] = holders[..] {
            self.add(q.drive.as_usize(), holder, Q_POINTS);
        }
    }

    /// The best orders, the best first.
    pub(super) fn orders(&self, most: usize) -> Vec<Order> {
        let scale = if self.most > 0.0 { CONTINUITY / self.most } else { 0.0 };
        let mut carried: Vec<(Vec<usize>, f64)> = vec![(Vec::new(), 0.0)];
        for slot in 0..self.slots {
            let mut next = Vec::new();
            for (order, points) in &carried {
                let is_free = |drive: &usize| !order.contains(drive) && self.may_have(slot, *drive);
                for drive in (0..self.drives).filter(is_free) {
                    let with = order.iter().enumerate().map(|(other, had)| {
                        self.of_pair(other, slot, *had, drive) + self.of_pair(slot, other, drive, *had)
                    });
                    let more = self.alone[slot * self.drives + drive] + scale * with.sum::<f64>();
                    next.push(([order.as_slice(), &[drive]].concat(), points + more));
                }
            }
            next.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            next.truncate(CARRIED);
            carried = next;
        }
        carried.truncate(most);
        let order = |(drives, _): (Vec<usize>, f64)| {
            let alone =
                drives.iter().enumerate().map(|(slot, drive)| self.alone[slot * self.drives + drive]).sum();
            Order { alone, continuity: self.continuity(&drives), drives }
        };
        carried.into_iter().map(order).collect()
    }

    /// How much better the strips go on in one another than by chance, of the most that is possible: at most 1.
    pub(super) fn continuity(&self, order: &[usize]) -> f64 {
        // A few boundaries are no evidence.
        let weight = (self.boundaries as f64 / ENOUGH).min(1.0);
        if self.most > 0.0 { weight * self.sum(order) / self.most } else { 0.0 }
    }

    /// The same in standard deviations: little continuity at many boundaries is no chance either.
    pub(super) fn deviations(&self, order: &[usize]) -> f64 {
        if self.variance > 0.0 { self.sum(order) / self.variance.sqrt() } else { 0.0 }
    }

    fn sum(&self, order: &[usize]) -> f64 {
        let pairs = (0..self.slots).flat_map(|a| (0..self.slots).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b).map(|(a, b)| self.of_pair(a, b, order[a], order[b])).sum()
    }

    fn of_pair(&self, from: usize, to: usize, a: usize, b: usize) -> f64 {
        self.pairs[((from * self.slots + to) * self.drives + a) * self.drives + b]
    }
}

/// The slots of a row's data strips, in the order of the volume's bytes; of copies the first.
pub(super) fn data_slots(geometry: &Geometry, row: u64) -> Vec<usize> {
    let map = geometry.stripe_map(StripeIndex(row));
    let cell = |index| map.data_cell(DataIndex(index), CopyIndex(0)).drive.as_usize();
    (0..geometry.data_strips()).map(cell).collect()
}

/// Where a byte of the volume lies: slot, and address on the drive.
pub(super) fn place(geometry: &Geometry, start: u64, at: u64) -> Option<(usize, u64)> {
    if at >= geometry.capacity().0 {
        return None;
    }
    let (stripe, within) = geometry.stripe_of(ByteOffset(at));
    let (index, within) = geometry.strip_of(within);
    let cell = geometry.data_cell(stripe, index, CopyIndex(0));
    Some((cell.drive.as_usize(), start + cell.offset.0 + within.0))
}

/// A block of all drives, the missing one last if there is one more than were read.
fn column(window: &Window, block: u64, drives: usize) -> Option<Vec<Option<&Cell>>> {
    let block = usize::try_from(block).ok().filter(|block| *block < window.blocks())?;
    let mut column: Vec<Option<&Cell>> = window.cells.iter().map(|own| own[block].as_ref()).collect();
    if column.len() < drives {
        column.push(window.xor[block].as_ref());
    }
    Some(column)
}
