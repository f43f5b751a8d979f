//! A drive with a volatile cache, one strip of one column.

use super::DRIVES;

/// The content of a strip, and a bit for each value that a power cut may leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cell {
    pub(super) last: u8,
    pub(super) may: u8,
}

/// The strips of a column, by drive.
pub(super) type Cells = [Cell; DRIVES];

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

/// Every state of a column after a power cut.
pub(super) fn cuts(cells: &Cells) -> Vec<Cells> {
    let mut ways = vec![*cells];
    for drive in 0..DRIVES {
        let mut next = Vec::new();
        for way in ways {
            for value in (0..4).filter(|value| way[drive].may >> value & 1 == 1) {
                let mut cut = way;
                cut[drive] = Cell::of(value);
                next.push(cut);
            }
        }
        ways = next;
    }
    ways
}

/// The numbers of the bits that are set.
pub(super) fn bits(set: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |bit| set >> bit & 1 == 1)
}
