//! The cells of one stripe.
//!
//! A stripe uses the drives of its span, `base` to `base + width` (exclusive); within the span a
//! drive is a *slot*. Four placements of data strips serve all levels:
//!
//! | placement | copy `j` of data strip `i` |
//! | --- | --- |
//! | around | slot `start + i`, wrapping at `wrap`: RAID 0 from slot 0, parity levels that continue after parity |
//! | past | slot `i`, one further for each slot passed that holds parity or the spare |
//! | near | cell `c·i + j`, where cells are counted along the slots, then along the rows |
//! | shifted | slot `i + j`, wrapping, in the stripe's row `j` |
//!
//! All methods take constant time, without allocation; the fast path needs only the first line.

use crate::rule::{NOWHERE, wrapped};
use crate::{Cell, CopyIndex, DataIndex, ParityIndex, Role};
use units::{ByteCount, ByteOffset, DriveIndex};

/// The cells of one stripe, made by [`crate::Geometry::stripe_map`]; a value of a few words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeMap {
    pub(crate) way: Placement,
    pub(crate) second_is: Second,
    pub(crate) weighs_by_slot: bool,
    /// The first drive of the stripe's span, and the number of its drives.
    pub(crate) base: u16,
    pub(crate) width: u16,
    pub(crate) copies: u16,
    pub(crate) data_strips: u16,
    pub(crate) rows: u16,
    /// The slots without data, or [`NOWHERE`].
    pub(crate) p: u16,
    pub(crate) second: u16,
    pub(crate) start: u16,
    pub(crate) wrap: u16,
    /// The relocated drives: see [`StripeMap::relocated`].
    pub(crate) lost: u16,
    pub(crate) refuge: u16,
    /// The stripe's address on each drive, and the distance of its rows.
    pub(crate) offset: ByteOffset,
    pub(crate) row_step: ByteCount,
}

/// The placement of data strips.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Placement {
    Around,
    Past,
    Near,
    Shifted,
}

/// The content of the second slot without data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Second {
    None,
    Q,
    Spare,
}

impl StripeMap {
    /// The position of copy `copy` of data strip `index`.
    #[inline]
    pub fn data_cell(&self, index: DataIndex, copy: CopyIndex) -> Cell {
        match self.way {
            Placement::Around => self.cell_at(wrapped(self.start + index.0, self.wrap), 0),
            Placement::Past => self.cell_at(self.past(index), 0),
            Placement::Near | Placement::Shifted => self.mirror_cell(index, copy),
        }
    }

    /// The position of parity strip `index`; `None` if the level has no such strip.
    #[inline]
    pub fn parity_cell(&self, index: ParityIndex) -> Option<Cell> {
        match index {
            ParityIndex(0) if self.p != NOWHERE => Some(self.cell_at(self.p, 0)),
            ParityIndex(1) if self.second_is == Second::Q => Some(self.cell_at(self.second, 0)),
            _ => None,
        }
    }

    /// The position of the stripe's spare strip; `None` if the level has none.
    pub fn spare_cell(&self) -> Option<Cell> {
        (self.second_is == Second::Spare).then(|| self.cell_at(self.second, 0))
    }

    /// The position of a role; `None` if the stripe has no such strip.
    pub fn cell_of(&self, role: Role) -> Option<Cell> {
        match role {
            Role::Data { index, copy } => (index.0 < self.data_strips && copy.0 < self.copies)
                .then(|| self.data_cell(index, copy)),
            Role::P => self.parity_cell(ParityIndex(0)),
            Role::Q => self.parity_cell(ParityIndex(1)),
            Role::Spare => self.spare_cell(),
        }
    }

    /// The role of `drive` in row `row` of the stripe; only mirrored stripes have several rows.
    /// `None` for drives outside the stripe, and past its last row.
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
            Placement::Around => (
                if slot >= self.start { slot - self.start } else { slot + self.wrap - self.start },
                0,
            ),
            Placement::Past => (slot - u16::from(slot > self.p) - u16::from(slot > self.second), 0),
            Placement::Near => {
                let cell = row * self.width + slot;
                (cell / self.copies, cell % self.copies)
            }
            Placement::Shifted => {
                (if slot >= row { slot - row } else { slot + self.width - row }, row)
            }
        };
        Some(Role::Data { index: DataIndex(index), copy: CopyIndex(copy) })
    }

    /// The position of row `row` of the stripe on `drive`.
    pub fn cell_in(&self, drive: DriveIndex, row: u16) -> Cell {
        Cell { drive, offset: self.offset + ByteCount(self.row_step.0 * u64::from(row)) }
    }

    /// The roles of `drive` in the stripe, row by row; empty for drives outside the stripe.
    pub fn roles_on(&self, drive: DriveIndex) -> impl Iterator<Item = (Cell, Role)> + use<> {
        let map = *self;
        (0..self.rows)
            .filter_map(move |row| Some((map.cell_in(drive, row), map.role_at(drive, row)?)))
    }

    /// All cells of the stripe, drive by drive.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, Role)> + use<> {
        let map = *self;
        self.drives().flat_map(move |drive| map.roles_on(drive))
    }

    /// The drives of the stripe: those of its span.
    pub fn drives(
        &self,
    ) -> impl DoubleEndedIterator<Item = DriveIndex> + ExactSizeIterator + use<> {
        (self.base..self.base + self.width).map(DriveIndex)
    }

    /// The exponent of a data strip in Q, 0 to 31, different for each data strip of a stripe. It is
    /// also defined for levels without Q.
    ///
    /// Linux md numbers data strips from the one after Q, wrapping; DDF uses the drive's number in
    /// its span. Both are tested with arrays written by Linux md.
    pub fn q_exponent(&self, index: DataIndex) -> u8 {
        let slot = match self.way {
            Placement::Around => wrapped(self.start + index.0, self.wrap),
            Placement::Past => self.past(index),
            Placement::Near | Placement::Shifted => index.0,
        };
        if self.weighs_by_slot || self.second_is != Second::Q {
            return slot as u8;
        }
        let after_q = |slot: u16| {
            if slot > self.second {
                slot - self.second - 1
            } else {
                slot + self.width - self.second - 1
            }
        };
        let (place, p) = (after_q(slot), after_q(self.p));
        (place - u16::from(p < place)) as u8
    }

    /// The stripe after the strip on `failed` was rebuilt into the spare strip: the two have
    /// changed places. The lost strip is at the position of the spare, and the spare is on the
    /// failed drive. The stripe is unchanged if it has no spare, or nothing but its spare on
    /// `failed`.
    ///
    /// A stripe has one spare: a second relocation discards the first.
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

    /// The slot of data strip `index` if data start at slot 0.
    #[inline]
    fn past(&self, index: DataIndex) -> u16 {
        let (low, high) =
            if self.p < self.second { (self.p, self.second) } else { (self.second, self.p) };
        let slot = index.0 + u16::from(index.0 >= low);
        slot + u16::from(slot >= high)
    }

    fn mirror_cell(&self, index: DataIndex, copy: CopyIndex) -> Cell {
        if self.way == Placement::Shifted {
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
        Cell {
            drive: DriveIndex(drive),
            offset: self.offset + ByteCount(self.row_step.0 * u64::from(row)),
        }
    }
}
