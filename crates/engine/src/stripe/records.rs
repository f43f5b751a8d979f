//! The ring of records of one shard, in a journal or a data log: numbers, places, and the writes of
//! records and notices to members or log devices.
//!
//! # Invariants
//! - Records and notices begin one at a time, under the `turn` lock. A record in flight completes
//!   without the lock, so its holder may wait for it.
//! - A record whose write failed may be replayed. So no new record begins until it is invalidated.

use crate::stripe::journal::Devices;
use crate::stripe::{DriveOp, DriveOps, Stripes};
use ondisk::{Tail, TailPlace};
use platform::sync::Credits;
use platform::{Buf, Durability, Env, IoError, IoErrorKind, Member, Slice, Slices};
use smallvec::SmallVec;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};
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
    start: u64,
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
    begun: Begun,
    place: u64,
    slices: Slices,
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

    fn head(&self, begun: &Begun, place: u64) -> Head {
        let Begun { sequence, tail, firm } = *begun;
        Head { id: self.id, ring: self.number, sequence, tail, firm, place: self.start + place }
    }

    fn take_head(&self, len: ByteCount) -> Buf {
        let usual = if len == Head::len(0) { self.heads.borrow_mut().pop() } else { None };
        usual.unwrap_or_else(|| Buf::unpooled(len))
    }

    /// Returns the header buffer of a written record.
    fn put_head(&self, head: Slice) {
        let usual = head.try_unfreeze().ok().filter(|head| head.len() == Head::len(0));
        self.heads.borrow_mut().extend(usual);
    }
}

impl Stripes {
    /// Writes a record. Returns its number when it is durable.
    ///
    /// # Errors
    /// When it is not durable as often as it must be: it is to be invalidated.
    pub(crate) async fn write_record(
        self: &Rc<Self>,
        records: &RecordRing,
        record: Record,
    ) -> Result<u64, IoError> {
        let Record { begun, place, mut slices } = record;
        let written = self.write_copies(records, begun.sequence, place, &slices).await;
        records.put_head(slices.swap_remove(0));
        match written {
            Ok(()) => records.ring_mut().landed(&begun),
            Err(_) => records.ring_mut().fail(begun.sequence),
        }
        written.map(|()| begun.sequence)
    }

    /// Writes a notice of the live records. The caller holds `turn`.
    ///
    /// # Errors
    /// When it is not durable as often as it must be.
    pub(crate) async fn write_notice(self: &Rc<Self>, records: &RecordRing) -> Result<(), IoError> {
        let (place, begun) = records.ring().begin_notice();
        let mut buf = records.take_head(Head::len(0));
        records.head(&begun, place).encode(&[], ByteCount::ZERO, 0, buf.bytes_mut());
        let mut slices: Slices = SmallVec::from_iter([buf.freeze()]);
        self.write_copies(records, begun.tail, place, &slices).await?;
        records.put_head(slices.swap_remove(0));
        records.ring_mut().noticed(&begun);
        Ok(())
    }

    /// Writes the same data to all log devices, or to one member more than a span may lose, or to
    /// all remaining members of the span.
    ///
    /// # Errors
    /// When members in use cannot write it, or no log device has it.
    async fn write_copies(
        self: &Rc<Self>,
        records: &RecordRing,
        number: u64,
        place: u64,
        slices: &Slices,
    ) -> Result<(), IoError> {
        let copies = match &records.medium {
            Medium::Devices(at, devices) => {
                let at = *at + ByteCount(records.start + place);
                return Box::pin(self.write_to_devices(devices, at, slices)).await;
            }
            Medium::Members { copies, .. } => *copies,
        };
        let (mut done, mut refused) = (0, DriveSet::EMPTY);
        let (mut tried, mut failure) = (DriveSet::EMPTY, None);
        loop {
            let usable = self.in_service();
            let span: SmallVec<[DriveIndex; 16]> = span(self, number, copies).collect();
            let next =
                span.iter().filter(|drive| usable.contains(**drive) && !tried.contains(**drive));
            let next: SmallVec<[DriveIndex; 4]> =
                next.take(copies.saturating_sub(done)).copied().collect();
            if next.is_empty() {
                let all = done >= copies || (done > 0 && refused.is_empty());
                return if all {
                    Ok(())
                } else {
                    Err(failure.unwrap_or(IoError::new(IoErrorKind::Gone)))
                };
            }
            let mut ops = DriveOps::default();
            for slot in next {
                tried.insert(slot);
                let write = |at| {
                    move |member: &Rc<Member>| {
                        DriveOp::Io(member.write(at, slices.clone(), Durability::Durable))
                    }
                };
                let (now, filling) = (self.members.get(slot), self.members.replacement(slot));
                // A replacement may take the slot at any time: it gets the same records as the
                // slot's drive.
                if let Some(at) =
                    filling.and_then(|filling| at_member(records, &filling.member, place))
                {
                    ops.ask_replacement(self, slot, write(at));
                }
                match now.and_then(|member| at_member(records, &member, place)) {
                    Some(at) => ops.ask(self, slot, write(at)),
                    None => refused.insert(slot),
                }
            }
            let lacking = ops
                .finish(self, |answered| match answered.result {
                    _ if answered.is_swapped(self) => tried.remove(answered.slot),
                    Ok(()) => done += 1,
                    Err(error) => {
                        failure = Some(error);
                        if self.write_fault(answered.slot, answered.member.as_ref(), error).is_err()
                        {
                            refused.insert(answered.slot);
                        }
                    }
                })
                .await;
            lacking.settled(self).await?;
        }
    }
}

/// The drives for the copies of a record, in order of preference.
fn span(volume: &Stripes, number: u64, copies: usize) -> impl Iterator<Item = DriveIndex> + use<> {
    let geometry = volume.geometry();
    write_log::span_of(number, copies, geometry.drives(), geometry.drives_per_span())
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

/// The offset of a place of the ring on a member.
fn at_member(records: &RecordRing, member: &Member, place: u64) -> Option<ByteOffset> {
    let Medium::Members { at, tail, .. } = records.medium else { return None };
    let room = Tail::at(member.info().size, tail)?.journals();
    Some(room.start + ByteCount(at.0 + records.start + place))
}
