//! FastPath: the shorter way through the same rooms, for requests that need nothing but mapping.
//!
//! A read inside one strip of a healthy volume, and a write inside one strip where no redundancy has to
//! follow, is mapped and issued: no cache lookup, no plan, no waiting, no allocation. Anything else, and anything
//! that fails here, goes the long way, which knows what to do about it.
//!
//! Budget: 50 ns beyond the drive's own time.

use crate::execute::is_gone;
use crate::volume::Volume;
use env::locks::Mode;
use env::{Buf, Durability, IoError, Member, Slice};
use layout::CopyIndex;
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, StripeIndex};

impl Volume {
    /// Where a range inside one strip lies: its drive and raw address; `None` when it is not inside one.
    fn map_one(&self, range: ByteRange) -> Option<(DriveIndex, Rc<Member>, ByteOffset)> {
        let geometry = self.geometry();
        let (stripe, within) = geometry.stripe_of(range.start);
        let (index, at) = geometry.strip_of(within);
        if at.0 + range.len.0 > geometry.strip().bytes().0 {
            return None;
        }
        let copy = self.choose_copy(stripe);
        let cell = geometry.data_cell(stripe, index, copy);
        let member = self.members.get(cell.drive)?;
        Some((cell.drive, member, self.raw(cell.offset) + at))
    }

    /// The mirror to read: the one with the fewest operations under way, alternating where they are equal. Where
    /// mirrors may differ, one speaks for all: the first that can be read, which is also what a resync writes to
    /// the others.
    pub(crate) fn choose_copy(&self, stripe: StripeIndex) -> CopyIndex {
        let copies = self.geometry().copies();
        if copies == 1 || !self.dirty.is_synced(self.lane_of(stripe)) {
            return CopyIndex(0);
        }
        let busy = |copy: u16| {
            let cell = self.geometry().data_cell(stripe, layout::DataIndex(0), CopyIndex(copy));
            self.members.outstanding(cell.drive)
        };
        let start = (stripe.0 % u64::from(copies)) as u16;
        let order = (0..copies).map(|i| (start + i) % copies);
        CopyIndex(order.min_by_key(|&copy| busy(copy)).unwrap_or(0))
    }

    /// Reads on the fast path. `Err` with the buffer: take the long way; without: a drive kept the buffer.
    pub(crate) async fn fast_read(self: &Rc<Self>, range: ByteRange, buf: Buf) -> Result<Buf, Option<Buf>> {
        if !self.all_well.get() {
            return Err(Some(buf));
        }
        let Some((_, member, offset)) = self.map_one(range) else { return Err(Some(buf)) };
        let io = member.read(offset, smallvec![buf]);
        let mut outcome = io.await;
        let buf = outcome.buffers.pop();
        match (outcome.result, buf) {
            (Ok(_), Some(buf)) => {
                self.count(|counters| counters.fast_path += 1);
                Ok(buf)
            }
            (_, buf) => Err(buf),
        }
    }

    /// Writes on the fast path; `None`: take the long way.
    pub(crate) async fn fast_write(
        self: &Rc<Self>,
        range: ByteRange,
        data: &Slice,
        durability: Durability,
    ) -> Option<Result<(), IoError>> {
        let eligible = !self.is_redundant()
            && self.all_well.get()
            && !data.is_zero()
            && range.is_aligned(self.spec.sector.bytes())
            && range.len > ByteCount::ZERO;
        if !eligible {
            return None;
        }
        let (drive, member, offset) = self.map_one(range)?;
        // The lock is there for writes that complete a sector; it lives on the stripe's owner.
        let (stripe, within) = self.geometry().stripe_of(range.start);
        if !self.is_mine(stripe) {
            return None;
        }
        let columns = self.columns(ByteRange::new(ByteOffset(within.0), range.len));
        let key = self.lock_key(stripe);
        let _guard = self.shard.locks().try_lock_columns(key, Mode::Shared, columns)?;
        let io = member.write(offset, smallvec![data.clone()], durability);
        match io.await.result {
            Ok(_) => {
                self.count(|counters| counters.fast_path += 1);
                Some(Ok(()))
            }
            // It may still be under way: written again, it could land after a later write (rule (d)).
            Err(error) if is_gone(&error) => {
                self.fail_drive(drive, error, "write");
                Some(Err(error))
            }
            Err(_) => None,
        }
    }
}
