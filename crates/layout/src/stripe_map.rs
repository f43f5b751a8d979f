//! Where the cells of one stripe are.
//!
//! A stripe lies on the drives of its span, `base` up to `base + width`; within the span a drive is a *slot*.
//! Three ways of placing data strips serve all levels:
//!
//! | way | copy `j` of data strip `i` |
//! | --- | --- |
//! | around | slot `start + i`, wrapping at `wrap`: RAID 0 from slot 0, parity levels that continue after parity |
//! | past | slot `i`, one further for each slot passed that holds parity or the spare |
//! | near | cell `c·i + j`, where cells are counted along the slots, then along the rows |
//! | shifted | slot `i + j`, wrapping, in the stripe's row `j` |
//!
//! All of it is constant in time, without allocation; the fast path pays for the first line only.

use crate::rule::{NOWHERE, wrapped};
use crate::{Cell, CopyIndex, DataIndex, ParityIndex, Role};
use units::{ByteCount, ByteOffset, DriveIndex};

/// Where the cells of one stripe are. Made by [`crate::Geometry::stripe_map`]; a value of a few words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeMap {
    pub(crate) way: Way,
    pub(crate) second_is: Second,
    pub(crate) weighs_by_slot: bool,
    /// The first drive of the stripe's span, and how many drives that has.
    pub(crate) base: u16,
    pub(crate) width: u16,
    pub(crate) copies: u16,
    pub(crate) data_strips: u16,
    pub(crate) rows: u16,
    /// The slots that do not hold data, or [`NOWHERE`].
    pub(crate) p: u16,
    pub(crate) second: u16,
    pub(crate) start: u16,
    pub(crate) wrap: u16,
    /// The drives that have changed places: see [`StripeMap::relocated`].
    pub(crate) lost: u16,
    pub(crate) refuge: u16,
    /// Where the stripe begins on each of its drives, and how far apart its rows are.
    pub(crate) offset: ByteOffset,
    pub(crate) row_step: ByteCount,
}

/// How data strips are placed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Way {
    Around,
    Past,
    Near,
    Shifted,
}

/// What the second slot that does not hold data holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Second {
    None,
    Q,
    Spare,
}

impl StripeMap {
    /// Where copy `copy` of data strip `index` is.
    #[inline]
    pub fn data_cell(&self, index: DataIndex, copy: CopyIndex) -> Cell {
        match self.way {
            Way::Around => self.cell_at(wrapped(self.start + index.0, self.wrap), 0),
            Way::Past => self.cell_at(self.past(index), 0),
            Way::Near | Way::Shifted => self.mirror_cell(index, copy),
        }
    }

    /// Where parity strip `index` is; `None` where the level has no such strip.
    #[inline]
    pub fn parity_cell(&self, index: ParityIndex) -> Option<Cell> {
        match index {
            ParityIndex(0) if self.p != NOWHERE => Some(self.cell_at(self.p, 0)),
            ParityIndex(1) if self.second_is == Second::Q => Some(self.cell_at(self.second, 0)),
            _ => None,
        }
    }

    /// Where the stripe's spare strip is; `None` where the level has none.
    pub fn spare_cell(&self) -> Option<Cell> {
        (self.second_is == Second::Spare).then(|| self.cell_at(self.second, 0))
    }

    /// Where a role is; `None` where the stripe has no such strip.
    pub fn cell_of(&self, role: Role) -> Option<Cell> {
        match role {
            Role::Data { index, copy } => {
                (index.0 < self.data_strips && copy.0 < self.copies).then(|| self.data_cell(index, copy))
            }
            Role::P => self.parity_cell(ParityIndex(0)),
            Role::Q => self.parity_cell(ParityIndex(1)),
            Role::Spare => self.spare_cell(),
        }
    }

    /// What `drive` holds in row `row` of the stripe, of which only mirrored stripes have more than one; `None`
    /// for a drive on which the stripe does not lie, and past its last row.
    pub fn role_at(&self, drive: DriveIndex, row: u16) -> Option<Role> {
        let place = match drive.0 {
            moved if moved == self.lost => self.refuge,
            moved if moved == self.refuge => self.lost,
            drive => drive,
        };
        let slot = place.checked_sub(self.base).filter(|slot| *slot < self.width)?;
        if row >= self.rows {
            return None;
        }
        let (index, copy) = match self.way {
            _ if slot == self.p => return Some(Role::P),
            _ if slot == self.second => {
                return Some(if self.second_is == Second::Q { Role::Q } else { Role::Spare });
            }
            Way::Around => {
                (if slot >= self.start { slot - self.start } else { slot + self.wrap - self.start }, 0)
            }
            Way::Past => (slot - u16::from(slot > self.p) - u16::from(slot > self.second), 0),
            Way::Near => {
                let cell = row * self.width + slot;
                (cell / self.copies, cell % self.copies)
            }
            Way::Shifted => (if slot >= row { slot - row } else { slot + self.width - row }, row),
        };
        Some(Role::Data { index: DataIndex(index), copy: CopyIndex(copy) })
    }

    /// Where row `row` of the stripe is on `drive`.
    pub fn cell_in(&self, drive: DriveIndex, row: u16) -> Cell {
        Cell { drive, offset: self.offset + ByteCount(self.row_step.0 * u64::from(row)) }
    }

    /// What `drive` holds of the stripe, row by row; nothing where the stripe does not lie on it.
    pub fn roles_on(&self, drive: DriveIndex) -> impl Iterator<Item = (Cell, Role)> + use<> {
        let map = *self;
        (0..self.rows).filter_map(move |row| Some((map.cell_in(drive, row), map.role_at(drive, row)?)))
    }

    /// All cells of the stripe, drive by drive.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, Role)> + use<> {
        let map = *self;
        self.drives().flat_map(move |drive| map.roles_on(drive))
    }

    /// The drives that the stripe lies on: those of its span.
    pub fn drives(&self) -> impl DoubleEndedIterator<Item = DriveIndex> + ExactSizeIterator + use<> {
        (self.base..self.base + self.width).map(DriveIndex)
    }

    /// The power of 2 that Q weighs a data strip with, 0 to 31; each data strip of a stripe has another. It is
    /// as well defined where the level has no Q.
    ///
    /// Linux md numbers data strips in the order in which they follow Q, wrapping; DDF takes the number of the
    /// drive in its span. Both have been checked against arrays that Linux md wrote.
    pub fn q_exponent(&self, index: DataIndex) -> u8 {
        let slot = match self.way {
            Way::Around => wrapped(self.start + index.0, self.wrap),
            Way::Past => self.past(index),
            Way::Near | Way::Shifted => index.0,
        };
        if self.weighs_by_slot || self.second_is != Second::Q {
            return slot as u8;
        }
        let after_q = |slot: u16| {
            if slot > self.second { slot - self.second - 1 } else { slot + self.width - self.second - 1 }
        };
        let (place, p) = (after_q(slot), after_q(self.p));
        (place - u16::from(p < place)) as u8
    }

    /// The same stripe after what it had on `failed` was rebuilt into its spare strip: the two have changed
    /// places, so that the lost strip is where the spare was, and the spare is on the failed drive, which may
    /// be replaced at leisure. It is the stripe itself where it has no spare, or no other strip than that on
    /// `failed`.
    ///
    /// A stripe has one spare: relocating anew forgets the former place.
    #[must_use]
    pub fn relocated(self, failed: DriveIndex) -> StripeMap {
        let map = StripeMap { lost: NOWHERE, refuge: NOWHERE, ..self };
        match map.spare_cell() {
            Some(spare) if spare.drive != failed && map.role_at(failed, 0).is_some() => {
                StripeMap { lost: failed.0, refuge: spare.drive.0, ..map }
            }
            _ => map,
        }
    }

    /// The slot of data strip `index` where data fills the slots from 0 up.
    #[inline]
    fn past(&self, index: DataIndex) -> u16 {
        let (low, high) = if self.p < self.second { (self.p, self.second) } else { (self.second, self.p) };
        let slot = index.0 + u16::from(index.0 >= low);
        slot + u16::from(slot >= high)
    }

    fn mirror_cell(&self, index: DataIndex, copy: CopyIndex) -> Cell {
        if self.way == Way::Shifted {
            return self.cell_at(wrapped(index.0 + copy.0, self.width), copy.0);
        }
        let cell = self.copies * index.0 + copy.0;
        if cell < self.width {
            self.cell_at(cell, 0)
        } else {
            self.cell_at(cell % self.width, cell / self.width)
        }
    }

    #[inline]
    fn cell_at(&self, slot: u16, row: u16) -> Cell {
        let place = self.base + slot;
        let drive = if place == self.lost {
            self.refuge
        } else if place == self.refuge {
            self.lost
        } else {
            place
        };
        Cell { drive: DriveIndex(drive), offset: self.offset + ByteCount(self.row_step.0 * u64::from(row)) }
    }
}
