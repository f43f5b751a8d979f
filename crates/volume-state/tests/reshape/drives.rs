//! Drives with volatile caches, and a layout's blocks on them.

use super::{BLOCK, ROWS, Write};
use layout::{CopyIndex, DataIndex, Geometry, ParityIndex};
use units::{ByteOffset, StripeIndex};

/// Content of a block: the value that reads return, and the values possible after a power cut, by
/// bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cell {
    pub(super) last: u8,
    pub(super) may: u16,
}

impl Cell {
    /// A durable value.
    pub(super) fn of(value: u8) -> Cell {
        Cell { last: value, may: 1 << value }
    }

    pub(super) fn write(&mut self, value: u8) {
        self.last = value;
        self.may |= 1 << value;
    }

    pub(super) fn flush(&mut self) {
        *self = Cell::of(self.last);
    }
}

/// Indices of the set bits.
pub(super) fn bits(set: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |bit| set >> bit & 1 == 1)
}

/// Multiplication in GF(16).
fn product(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b > 0 {
        if b & 1 == 1 {
            sum ^= a;
        }
        a = if a & 8 == 8 { (a << 1 ^ 0b1_0011) & 15 } else { a << 1 };
        b >>= 1;
    }
    sum
}

fn redundancy(which: u16, data: &[u8]) -> u8 {
    let mut weight = 1;
    data.iter().fold(0, |sum, value| {
        let part = if which == 0 { *value } else { product(weight, *value) };
        weight = product(weight, 2);
        sum ^ part
    })
}

/// A column of a stripe, one block per strip, of a layout whose rows begin at `base`.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) base: usize,
    stripe: StripeIndex,
    column: usize,
}

impl<'a> Column<'a> {
    /// The column with a block of the layout, and its data strip.
    pub(super) fn of(geometry: &'a Geometry, base: usize, block: usize) -> (Column<'a>, usize) {
        let (stripe, within) = geometry.stripe_of(ByteOffset(block as u64 * BLOCK));
        let (index, at) = geometry.strip_of(within);
        (Column { geometry, base, stripe, column: (at.0 / BLOCK) as usize }, usize::from(index.0))
    }

    /// The blocks of the layout in its data strips.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> + use<> {
        let strip = (self.geometry.strip().bytes().0 / BLOCK) as usize;
        let strips = usize::from(self.geometry.data_strips());
        let (first, column) = (self.stripe.0 as usize * strips, self.column);
        (first..first + strips).map(move |index| index * strip + column)
    }

    fn place(&self, cell: layout::Cell) -> (usize, usize) {
        (cell.drive.as_usize(), self.base + (cell.offset.0 / BLOCK) as usize + self.column)
    }

    /// Drive and row of a data strip's copies, or of a redundancy strip.
    fn data(&self, index: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let index = DataIndex(index as u16);
        (0..self.geometry.copies()).map(move |copy| {
            self.place(self.geometry.data_cell(self.stripe, index, CopyIndex(copy)))
        })
    }

    fn parity(&self, which: u16) -> Option<(usize, usize)> {
        self.geometry.parity_cell(self.stripe, ParityIndex(which)).map(|cell| self.place(cell))
    }

    /// All blocks of the column for these data.
    pub(super) fn laid(&self, data: &[u8]) -> Vec<Write> {
        let mut writes = Vec::new();
        for (index, value) in data.iter().enumerate() {
            writes.extend(self.data(index).map(|(drive, row)| (drive, row, *value)));
        }
        for which in 0..self.geometry.parity_strips() {
            let place = self.parity(which);
            writes.extend(place.map(|(drive, row)| (drive, row, redundancy(which, data))));
        }
        writes
    }

    /// The data without lost drives; `None` if unrecoverable.
    pub(super) fn solve(&self, cells: &[Cell], lost: u8) -> Option<Vec<u8>> {
        let read = |(drive, row): (usize, usize)| {
            (lost >> drive & 1 == 0).then(|| cells[drive * ROWS + row].last)
        };
        let found: Vec<Option<u8>> = (0..usize::from(self.geometry.data_strips()))
            .map(|index| self.data(index).find_map(read))
            .collect();
        let unknown: Vec<usize> =
            (0..found.len()).filter(|index| found[*index].is_none()).collect();
        let mut data: Vec<u8> = found.iter().map(|value| value.unwrap_or(0)).collect();
        let sums: Vec<(u16, u8)> = (0..self.geometry.parity_strips())
            .filter_map(|which| Some((which, self.parity(which).and_then(read)?)))
            .collect();
        if unknown.len() > sums.len() {
            return None;
        }
        let sums = &sums[..unknown.len()];
        // At most two unknown values: all combinations are tried.
        (0..1usize << (4 * unknown.len())).find_map(|values| {
            for (nth, index) in unknown.iter().enumerate() {
                data[*index] = (values >> (4 * nth) & 15) as u8;
            }
            sums.iter().all(|(which, sum)| redundancy(*which, &data) == *sum).then(|| data.clone())
        })
    }
}

/// The content of the drives for a layout; `data`: its blocks from a stripe boundary; `first`:
/// index of the first.
pub(super) fn lay<'a>(
    geometry: &'a Geometry,
    base: usize,
    data: &'a [u8],
    first: usize,
) -> impl Iterator<Item = Write> + 'a {
    let columns = (first..first + data.len()).filter_map(move |block| {
        let (column, index) = Column::of(geometry, base, block);
        (index == 0).then_some(column)
    });
    columns.flat_map(move |column| {
        let values: Vec<u8> = column.blocks().map(|block| data[block - first]).collect();
        column.laid(&values)
    })
}
