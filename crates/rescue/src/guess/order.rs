//! Assigns drives to slots: by content at positions that a layout fixes, and by continuity from the
//! end of each strip to the next.
//!
//! Evidence is counted in points: the natural logarithm of its likelihood in this order against
//! chance. Each piece concerns one slot or one pair of consecutive slots. An order is therefore
//! built slot by slot, and only the best prefixes are kept (no factorial).

use super::sample::{Cell, EDGE, Window};
use layout::{CopyIndex, DataIndex, Geometry, ParityIndex};
use units::{ByteOffset, StripeIndex};

/// The number of prefixes that are kept.
const CARRIED: usize = 96;
/// The number of rows that are examined for one strip.
const ROWS: usize = 512;
/// Points for a row where the drive excluded from the zero XOR is in the slot of Q.
const Q_POINTS: f64 = 0.5;
/// Points for data that continue across all strips.
pub(super) const CONTINUITY: f64 = 40.0;
/// The minimum likeness of two texts.
const TEXT: f64 = 0.5;
/// The weight of better continuity on the same drive, which contradicts a boundary.
const OWN: f64 = 0.6;
/// This many boundaries are sufficient evidence.
const ENOUGH: f64 = 24.0;

/// Points for each drive in each slot, and for each pair of drives in each pair of slots.
pub(super) struct Weights {
    drives: usize,
    slots: usize,
    alone: Vec<f64>,
    pairs: Vec<f64>,
    /// The number of boundaries that distinguished drives.
    pub(super) boundaries: usize,
    /// The maximum that an order could reach at these boundaries.
    most: f64,
    /// The sum of the variances of likeness at these boundaries.
    variance: f64,
    /// The drive of a slot, if known.
    fixed: Vec<Option<usize>>,
}

/// An order: the drive of each slot, with its points.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) drives: Vec<usize>,
    /// Points from the content of single slots.
    pub(super) alone: f64,
    /// Continuity across strips: [`Weights::continuity`].
    pub(super) continuity: f64,
}

/// Likeness of an end and a beginning: the share of bytes that are equal at the same distance.
/// Constant bytes and zeros do not count: parity of similar data is full of zeros.
fn alike(tail: &[u8; EDGE], head: &[u8; EDGE]) -> f64 {
    let is_constant = |bytes: &[u8; EDGE]| bytes.iter().all(|byte| *byte == bytes[0]);
    if is_constant(tail) || is_constant(head) {
        return 0.0;
    }
    let equal =
        tail.iter().zip(head).filter(|(a, b)| a == b && **a != 0).count() as f64 / EDGE as f64;
    // Text continues as text, though letters differ.
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

    /// Fixes a slot to this drive in every order.
    pub(super) fn fix(&mut self, slot: usize, drive: usize) {
        self.fixed[slot] = Some(drive);
    }

    /// Whether a slot may contain this drive.
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

    /// Compares the end of one slot's strip with the beginning of another's. A drive scores by how
    /// far it exceeds the average of all drives, so that similar drives score nothing.
    ///
    /// The next block on the same drive is compared as well: if it continues better, no strip ends
    /// here.
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
        // Only in part: neighbouring blocks on a drive are often similar without being consecutive.
        let chance = |drive: usize| mean + OWN * (goes_on(drive) - mean).max(0.0);
        let chance: Vec<f64> = (0..drives).map(chance).collect();
        let pair = self.pair(from, to);
        (0..drives * drives)
            .filter(|at| at / drives != at % drives)
            .for_each(|at| pair[at] += likeness[at] - chance[at / drives]);
    }

    /// Examines the rows of a layout in the windows: data begin at `start` on each drive. `cells`
    /// gives the blocks of all drives, including a missing one.
    pub(super) fn look(
        &mut self,
        windows: &[Window],
        geometry: &Geometry,
        start: u64,
        has_q: bool,
    ) {
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
                seen +=
                    usize::from(self.row(geometry, row, &heads, last.as_deref(), next.as_deref()));
                if has_q {
                    self.q(window, geometry, row, at as usize);
                }
            }
        }
    }

    /// Examines a row. Returns whether it contains data.
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

    /// The drive without which the others XOR to zero belongs in the slot of Q.
    fn q(&mut self, window: &Window, geometry: &Geometry, row: u64, block: usize) {
        let Some(q) = geometry.parity_cell(StripeIndex(row), ParityIndex(1)) else { return };
        let Some(xor) = window.xor.get(block).and_then(Option::as_ref).filter(|xor| xor.hash != 0)
        else {
            return;
        };
        let holds = |drive: &usize| {
            window.cells[*drive][block].as_ref().is_some_and(|cell| cell.hash == xor.hash)
        };
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
                        self.of_pair(other, slot, *had, drive)
                            + self.of_pair(slot, other, drive, *had)
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
            let alone = drives
                .iter()
                .enumerate()
                .map(|(slot, drive)| self.alone[slot * self.drives + drive])
                .sum();
            Order { alone, continuity: self.continuity(&drives), drives }
        };
        carried.into_iter().map(order).collect()
    }

    /// Continuity beyond chance as a share of the maximum, at most 1.
    pub(super) fn continuity(&self, order: &[usize]) -> f64 {
        // A few boundaries are weak evidence.
        let weight = (self.boundaries as f64 / ENOUGH).min(1.0);
        if self.most > 0.0 { weight * self.sum(order) / self.most } else { 0.0 }
    }

    /// Continuity in standard deviations: a little at many boundaries is no coincidence either.
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

/// The slots of a row's data strips, in volume order; of several copies, the first.
pub(super) fn data_slots(geometry: &Geometry, row: u64) -> Vec<usize> {
    let map = geometry.stripe_map(StripeIndex(row));
    let cell = |index| map.data_cell(DataIndex(index), CopyIndex(0)).drive.as_usize();
    (0..geometry.data_strips()).map(cell).collect()
}

/// The slot and drive offset of a volume byte.
pub(super) fn place(geometry: &Geometry, start: u64, at: u64) -> Option<(usize, u64)> {
    if at >= geometry.capacity().0 {
        return None;
    }
    let (stripe, within) = geometry.stripe_of(ByteOffset(at));
    let (index, within) = geometry.strip_of(within);
    let cell = geometry.data_cell(stripe, index, CopyIndex(0));
    Some((cell.drive.as_usize(), start + cell.offset.0 + within.0))
}

/// One block of all drives; the missing drive is last, if the layout has one more than were read.
fn column(window: &Window, block: u64, drives: usize) -> Option<Vec<Option<&Cell>>> {
    let block = usize::try_from(block).ok().filter(|block| *block < window.blocks())?;
    let mut column: Vec<Option<&Cell>> =
        window.cells.iter().map(|own| own[block].as_ref()).collect();
    if column.len() < drives {
        column.push(window.xor[block].as_ref());
    }
    Some(column)
}
