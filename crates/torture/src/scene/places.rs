//! The position of a volume's sectors, by all of its possible layouts.

use super::Scene;
use layout::{CopyIndex, DataIndex, Geometry};
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, DriveSet, StripeIndex};

impl Scene {
    /// The stripe and data strip of a sector in a layout, and its offset in the strip.
    fn strip_of(&self, layout: &Geometry, sector: u64) -> (StripeIndex, DataIndex, ByteCount) {
        let (stripe, within) = layout.stripe_of(ByteOffset(sector * self.setup.sector().bytes().0));
        let (index, at) = layout.strip_of(within);
        (stripe, index, at)
    }

    /// The controller reported that all drives have their own strips: the distributed spare is free
    /// again.
    pub(crate) fn spare_is_free(&self) {
        self.in_spare.set(self.array.unreliable());
    }

    /// Whether the distributed spare may be in use.
    pub(crate) fn is_spare_used(&self) -> bool {
        !self.in_spare.get().is_empty()
    }

    /// Whether a strip may be on one of these drives. A failed drive's strips may be in the
    /// distributed spare, also after its return, until the spare is reported free.
    fn is_strip_on(
        &self,
        layout: &Geometry,
        (stripe, index): (StripeIndex, DataIndex),
        drives: &DriveSet,
    ) -> bool {
        let home = layout.data_cell(stripe, index, CopyIndex(0)).drive;
        let may_have_moved = self.in_spare.get().contains(home);
        let spare = layout.stripe_map(stripe).spare_cell().filter(|_| may_have_moved);
        drives.contains(home) || spare.is_some_and(|spare| drives.contains(spare.drive))
    }

    /// Whether a sector may be on one of these drives.
    pub(super) fn is_on(&self, sector: u64, drives: &DriveSet) -> bool {
        self.layouts().any(|layout| {
            let (stripe, index, _) = self.strip_of(&layout, sector);
            self.is_strip_on(&layout, (stripe, index), drives)
        })
    }

    /// Sectors in the same columns of the same stripe that may be on one of these drives.
    pub(super) fn beside_on(&self, sector: u64, drives: &DriveSet) -> BTreeSet<u64> {
        let mut beside = BTreeSet::new();
        for layout in self.layouts() {
            let (stripe, _, at) = self.strip_of(&layout, sector);
            for index in (0..layout.data_strips()).map(DataIndex) {
                if self.is_strip_on(&layout, (stripe, index), drives) {
                    let offset = layout.volume_offset(stripe, index, at);
                    // A stripe of the next layout may reach beyond the volume's end.
                    if offset.0 < self.setup.geometry.capacity().0 {
                        beside.insert(offset.0 / self.setup.sector().bytes().0);
                    }
                }
            }
        }
        beside
    }

    /// A sector's position for people; during a reshape in both layouts.
    pub fn place_of(&self, sector: u64) -> String {
        let place = |layout: Geometry| {
            let (stripe, index, at) = self.strip_of(&layout, sector);
            let cell = layout.data_cell(stripe, index, CopyIndex(0));
            format!(
                "stripe {}, byte {} of data strip {}, on drive {} at byte {}",
                stripe.0,
                at.0,
                index.0,
                cell.drive.0,
                cell.offset.0 + at.0
            )
        };
        self.layouts().map(place).collect::<Vec<_>>().join("; by the next layout ")
    }
}
