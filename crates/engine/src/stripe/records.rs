//! The ring of records of one shard, in a journal or a data log: numbers, places, and the slices of
//! records.
//!
//! # Invariants
//! - Records and notices begin one at a time, under the `turn` lock. A record in flight completes
//!   without the lock, so its holder may wait for it.
//! - A record whose write failed may be replayed. So no new record begins until it is invalidated.

use crate::stripe::journal::Devices;
use ondisk::TailPlace;
use platform::sync::Credits;
use platform::{Buf, Env, Slice, Slices};
use smallvec::SmallVec;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;
use units::{ByteCount, ByteOffset};
use write_log::{About, Batch, Begun, BodyCrc, Change, Head, LogId, MOST_SLICES, StripeRing};

/// Where the records are.
pub(crate) enum Medium {
    /// The members, which may change; see [`JournalOn::Members`](crate::JournalOn::Members).
    /// `copies`: the number of members that hold a record.
    Members { at: ByteCount, tail: TailPlace, copies: usize },
    /// Each device, from this offset.
    Devices(ByteOffset, Rc<Devices>),
}

/// See the [module](self).
pub(crate) struct RecordRing {
    pub(crate) id: LogId,
    pub(crate) medium: Medium,
    /// Its number: that of the shard.
    number: u32,
    /// Its offset in the journal or log.
    pub(super) start: u64,
    ring: RefCell<StripeRing>,
    /// The lock to begin a record or a notice.
    pub(crate) turn: Credits,
    /// Free header buffers for records.
    heads: RefCell<Vec<Buf>>,
    /// It has been replaced or removed: nothing is written to it.
    pub(crate) is_closed: Cell<bool>,
}

/// A record with a number and a place in the ring.
pub(crate) struct Record {
    pub(super) begun: Begun,
    pub(super) place: u64,
    pub(super) slices: Slices,
}

impl Record {
    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.begun.sequence
    }
}

impl RecordRing {
    /// The ring of a shard, of this length.
    pub(crate) fn new(
        env: &Env,
        id: LogId,
        medium: Medium,
        shard: u16,
        len: ByteCount,
    ) -> RecordRing {
        RecordRing {
            id,
            medium,
            number: u32::from(shard),
            start: len.0 * u64::from(shard),
            ring: RefCell::new(StripeRing::new(len)),
            turn: Credits::new(env, 1),
            heads: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    pub(crate) fn ring(&self) -> Ref<'_, StripeRing> {
        self.ring.borrow()
    }

    pub(crate) fn ring_mut(&self) -> RefMut<'_, StripeRing> {
        self.ring.borrow_mut()
    }

    /// Whether the records are on members, and a failed member may lose them.
    pub(crate) fn is_on_members(&self) -> bool {
        matches!(self.medium, Medium::Members { .. })
    }

    /// The place for a record. `None`: there is no space, or a failed record is not invalidated.
    pub(crate) fn place_for(&self, batch: &Batch) -> Option<u64> {
        let ring = self.ring();
        ring.place_for(batch.len().0).filter(|_| !ring.has_failed())
    }

    /// Assigns the record's number, and assembles its slices.
    pub(crate) fn begin(
        &self,
        batch: &Batch,
        place: u64,
        stripes: &[About],
        changes: &[Change],
        carried: impl IntoIterator<Item = Slice>,
    ) -> Record {
        let begun = self.ring_mut().begin(place, batch.len().0, stripes);
        let (head, buf) = (self.head(&begun, place), self.take_head(Head::len(batch.changes)));
        Record { begun, place, slices: record_slices(&head, batch, changes, carried, buf) }
    }

    pub(super) fn head(&self, begun: &Begun, place: u64) -> Head {
        let Begun { sequence, tail, firm } = *begun;
        Head { id: self.id, ring: self.number, sequence, tail, firm, place: self.start + place }
    }

    pub(super) fn take_head(&self, len: ByteCount) -> Buf {
        let usual = if len == Head::len(0) { self.heads.borrow_mut().pop() } else { None };
        usual.unwrap_or_else(|| Buf::unpooled(len))
    }

    /// Returns the header buffer of a written record.
    pub(super) fn put_head(&self, head: Slice) {
        let usual = head.try_unfreeze().ok().filter(|head| head.len() == Head::len(0));
        self.heads.borrow_mut().extend(usual);
    }
}

/// The slices of a record: its header in `buf`, the carried data, and zeros up to a whole block.
fn record_slices(
    head: &Head,
    batch: &Batch,
    changes: &[Change],
    carried: impl IntoIterator<Item = Slice>,
    mut buf: Buf,
) -> Slices {
    let mut slices: Slices = SmallVec::with_capacity(MOST_SLICES.min(2 + batch.changes));
    let mut crc = BodyCrc::default();
    slices.push(Slice::zero(ByteCount::ZERO));
    for slice in carried {
        crc = slice.solid().map_or(crc, |bytes| crc.and(bytes));
        slices.push(slice);
    }
    let pad = batch.body() - batch.carried;
    if pad > ByteCount::ZERO {
        crc = crc.and(&platform::buffers::zero_bytes()[..pad.as_usize()]);
        slices.push(Slice::zero(pad));
    }
    head.encode(changes, batch.body(), crc.value(), buf.bytes_mut());
    slices[0] = buf.freeze();
    slices
}
