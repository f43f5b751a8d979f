//! Writes records and notices to members or log devices, and retires them.

use super::{Entry, Journal, Medium};
use crate::stripe::{DriveOp, DriveOps, Stripes};
use ondisk::Tail;
use platform::{Buf, Durability, IoError, IoErrorKind, Member, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};
use write_log::{About, Batch, Begun, BodyCrc, Change, Head, MOST_SLICES, Part, StripeRing};

/// The writes that were complete when a flush began.
pub(crate) struct Settled {
    /// The journal at that time, and the first record that was not complete. A replacement journal
    /// numbers its records anew, and this flush does not cover them.
    records_before: Option<(Rc<Journal>, u64)>,
    /// The number of completed whole-stripe writes.
    whole_stripes: u64,
}

/// The task that writes a record.
struct Writer {
    journal: Rc<Journal>,
    is_done: bool,
}

impl Writer {
    async fn run(mut self, volume: Rc<Stripes>) {
        volume.write_record(&self.journal).await;
        self.is_done = true;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_done {
            // A kill: no other task notifies the waiting writes.
            let waiting = self.journal.waiting.take();
            drop(waiting);
        }
    }
}

/// A record with a number and a place in the ring.
struct Record {
    begun: Begun,
    place: u64,
    slices: Slices,
}

impl Journal {
    /// The waiting entries that fit one record.
    fn next_batch(&self) -> Batch {
        let waiting = self.waiting.borrow();
        let parts = waiting.iter().map(|entry| Part {
            changes: entry.changes.len(),
            slices: entry.bytes.len(),
            carried: ByteCount(entry.len),
        });
        Batch::of(parts, self.ring.borrow().most())
    }

    /// Whether the next record is due, and no task is about to begin it.
    fn is_record_due(&self) -> bool {
        let waiting = self.waiting.borrow().len();
        waiting > 0
            && !self.is_beginning.get()
            && write_log::is_time(self.under_way.get(), waiting, self.last_batch.get())
    }

    /// Whether the records are on members, and a failed member may lose them.
    fn is_on_members(&self) -> bool {
        matches!(self.medium, Medium::Members { .. })
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

    fn head(&self, begun: &Begun, place: u64) -> Head {
        let Begun { sequence, tail, firm } = *begun;
        Head { id: self.id, ring: self.number, sequence, tail, firm, place: self.start + place }
    }

    /// Assigns the record's number, and assembles its slices.
    fn begin(&self, batch: &Batch, place: u64, entries: &[Entry]) -> Record {
        let stripes: SmallVec<[About; 8]> = entries.iter().map(|entry| entry.about).collect();
        let begun = self.ring.borrow_mut().begin(place, batch.len().0, &stripes);
        let changes: SmallVec<[Change; 32]> =
            entries.iter().flat_map(|entry| entry.changes.iter().copied()).collect();
        let carried = entries.iter().flat_map(|entry| &entry.bytes).cloned();
        let head = self.head(&begun, place);
        let slices = record_slices(
            &head,
            batch,
            &changes,
            carried,
            self.take_head(Head::len(batch.changes)),
        );
        Record { begun, place, slices }
    }

    /// The drives for the copies of a record, in order of preference.
    fn span(&self, volume: &Stripes, number: u64) -> impl Iterator<Item = DriveIndex> + use<> {
        let geometry = volume.geometry();
        write_log::span_of(number, self.terms.copies, geometry.drives(), geometry.drives_per_span())
    }
}

impl Stripes {
    /// Logs a write's changes in a record, together with other waiting writes, and notifies it when
    /// the record is durable.
    pub(super) fn record(self: &Rc<Self>, journal: &Rc<Journal>, entry: Entry) {
        journal.waiting.borrow_mut().push_back(entry);
        self.write_when_due(journal);
    }

    /// Starts a task for the next record, if that is due. Writes that are ready by the time it runs
    /// share the record.
    fn write_when_due(self: &Rc<Self>, journal: &Rc<Journal>) {
        if journal.is_record_due() {
            journal.is_beginning.set(true);
            let writer = Writer { journal: journal.clone(), is_done: false };
            self.shard.env().spawn("write a record", writer.run(self.clone()));
        }
    }

    /// Writes the waiting entries as one record.
    async fn write_record(self: &Rc<Self>, journal: &Rc<Journal>) {
        let (record, mut entries) = self.begin_record(journal).await;
        self.write_when_due(journal);
        let result = match record {
            Ok(record) => self.write_begun(journal, record).await,
            Err(error) => Err(error),
        };
        entries.iter_mut().for_each(|entry| entry.tell(result));
        self.write_when_due(journal);
        self.retire_in_time(journal);
    }

    /// Takes the waiting entries, a number and a place for the record, when the ring has space.
    async fn begin_record(
        self: &Rc<Self>,
        journal: &Journal,
    ) -> (Result<Record, IoError>, Vec<Entry>) {
        let _turn = journal.turn.take(1).await;
        let (batch, place) = loop {
            let batch = journal.next_batch();
            if journal.is_closed.get() {
                break (batch, Err(IoError::new(IoErrorKind::Gone)));
            }
            let place = journal.ring.borrow().place_for(batch.len().0);
            match place {
                Some(place) if !journal.ring.borrow().has_failed() => break (batch, Ok(place)),
                _ => match self.make_room(journal).await {
                    Ok(()) => {}
                    Err(error) => break (batch, Err(error)),
                },
            }
        };
        journal.last_batch.set(batch.entries);
        let entries: Vec<Entry> = journal.waiting.borrow_mut().drain(..batch.entries).collect();
        journal.is_beginning.set(false);
        let record = place.map(|place| journal.begin(&batch, place, &entries));
        (record, entries)
    }

    async fn write_begun(
        self: &Rc<Self>,
        journal: &Journal,
        record: Record,
    ) -> Result<u64, IoError> {
        let Record { begun, place, mut slices } = record;
        journal.under_way.set(journal.under_way.get() + 1);
        let written = self.write_copies(journal, begun.sequence, place, &slices).await;
        journal.under_way.set(journal.under_way.get() - 1);
        journal.put_head(slices.swap_remove(0));
        match written {
            Ok(()) => journal.ring.borrow_mut().landed(&begun),
            Err(_) => {
                journal.ring.borrow_mut().fail(begun.sequence);
                journal.changed.notify(self.shard.env());
            }
        }
        written.map(|()| begun.sequence)
    }

    /// Writes the same data to all log devices, or to one member more than a span may lose, or to
    /// all remaining members of the span.
    ///
    /// # Errors
    /// When members in use cannot write it, or no log device has it.
    async fn write_copies(
        self: &Rc<Self>,
        journal: &Journal,
        number: u64,
        place: u64,
        slices: &Slices,
    ) -> Result<(), IoError> {
        if let Medium::Devices(at, devices) = &journal.medium {
            let at = *at + ByteCount(journal.start + place);
            return Box::pin(self.write_to_devices(devices, at, slices)).await;
        }
        let (mut done, mut refused) = (0, DriveSet::EMPTY);
        let (mut tried, mut failure) = (DriveSet::EMPTY, None);
        loop {
            let usable = self.in_service();
            let span: SmallVec<[DriveIndex; 16]> = journal.span(self, number).collect();
            let next =
                span.iter().filter(|drive| usable.contains(**drive) && !tried.contains(**drive));
            let next: SmallVec<[DriveIndex; 4]> =
                next.take(journal.terms.copies.saturating_sub(done)).copied().collect();
            if next.is_empty() {
                let all = done >= journal.terms.copies || (done > 0 && refused.is_empty());
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
                    filling.and_then(|filling| journal_at(journal, &filling.member, place))
                {
                    ops.ask_replacement(self, slot, write(at));
                }
                match now.and_then(|member| journal_at(journal, &member, place)) {
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

    /// Retires records, and writes a notice of that to the drives. The caller holds `turn`.
    pub(super) async fn make_room(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        let is_news = journal.ring.borrow().can_announce();
        if is_news {
            return self.announce(journal).await;
        }
        let settles = || journal.ring.borrow().can_retire() || journal.ring.borrow().can_announce();
        journal.changed.wait_until(self.shard.env(), || settles() || journal.is_closed.get()).await;
        let is_retired = journal.ring.borrow().can_announce();
        match is_retired || journal.is_closed.get() {
            true => Ok(()),
            false => self.retire(journal).await,
        }
    }

    /// Like `make_room`. Succeeds if the journal's devices failed meanwhile: the members record
    /// that, and its records do not count.
    pub(super) async fn make_room_unless_lost(
        self: &Rc<Self>,
        journal: &Journal,
    ) -> Result<(), IoError> {
        match self.make_room(journal).await {
            Err(_) if journal.is_closed.get() => Ok(()),
            done => done,
        }
    }

    /// The writes that a flush which begins now covers.
    pub(crate) fn settled_by_now(&self) -> Settled {
        let settled = |journal: Rc<Journal>| {
            let before = journal.ring.borrow().settled();
            (journal, before)
        };
        let records_before = self.journal.now().map(settled);
        Settled { records_before, whole_stripes: self.journal.whole_stripes.done() }
    }

    /// Retires what a completed flush of all drives covers.
    pub(crate) fn note_flushed(&self, settled: Settled) {
        if let Some((journal, before)) = settled.records_before {
            let mut ring = journal.ring.borrow_mut();
            assert!(
                before <= ring.settled(),
                "records before {before} retire, and record {} is not complete",
                ring.settled()
            );
            ring.retire(before);
        }
        self.journal.whole_stripes.flushed(settled.whole_stripes);
    }

    /// Writes a notice of the live records to the drives. The caller holds `turn`.
    async fn announce(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        let (place, begun) = journal.ring.borrow().begin_notice();
        let mut buf = journal.take_head(Head::len(0));
        journal.head(&begun, place).encode(&[], ByteCount::ZERO, 0, buf.bytes_mut());
        let mut slices: Slices = SmallVec::from_iter([buf.freeze()]);
        self.write_copies(journal, begun.tail, place, &slices).await?;
        journal.put_head(slices.swap_remove(0));
        journal.ring.borrow_mut().noticed(&begun);
        Ok(())
    }

    /// Flushes the drives; this retires the completed records.
    async fn retire(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        self.flush_once().await?;
        journal.changed.notify(self.shard.env());
        Ok(())
    }

    /// Retires records in the background, before a write must wait for space.
    fn retire_in_time(self: &Rc<Self>, journal: &Rc<Journal>) {
        let is_due = {
            let ring = journal.ring.borrow();
            ring.is_due() && ring.can_retire()
        };
        if !is_due || journal.retiring.get() {
            return;
        }
        let Ok(user) = self.enter() else { return };
        journal.retiring.set(true);
        let (volume, journal) = (self.clone(), journal.clone());
        self.shard.env().spawn("retire records of the journal", async move {
            let _user = user;
            let began = volume.shard.env().now();
            let before = journal.retired_at.replace(began);
            match volume.retire(&journal).await {
                Ok(()) => {
                    let took = volume.shard.env().now().since(began);
                    journal.ring.borrow_mut().flushed(took, began.since(before));
                }
                Err(error) => {
                    tracing::warn!(volume = %volume.name(), "cannot retire records: {error}");
                }
            }
            journal.retiring.set(false);
        });
    }

    /// Waits until no live record covers a stripe, whose columns the caller holds.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn silence(self: &Rc<Self>, stripe: StripeIndex) -> Result<(), IoError> {
        let Some(journal) = self.journal.now() else { return Ok(()) };
        // Later records of the stripe cover other columns.
        let before = journal.ring.borrow().next();
        self.forget_records(&journal, |ring| !ring.says(stripe) || ring.counts_from() >= before)
            .await
    }

    /// Invalidates all records written before the call, if they are on members. A member may then
    /// be removed.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn renew_journal(self: &Rc<Self>) -> Result<(), IoError> {
        match self.journal.now().is_some_and(|journal| journal.is_on_members()) {
            true => self.revoke_records().await,
            false => Ok(()),
        }
    }

    /// Invalidates all records written before the call, on any storage: no replay applies them.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn revoke_records(self: &Rc<Self>) -> Result<(), IoError> {
        let Some(journal) = self.journal.now() else { return Ok(()) };
        let before = journal.ring.borrow().next();
        self.forget_records(&journal, |ring| ring.counts_from() >= before).await?;
        if !journal.is_on_members() {
            return Ok(());
        }
        // The latest notice may be on a member that will be removed: write another.
        let _turn = journal.turn.take(1).await;
        match journal.is_closed.get() {
            // The journal is closed: another journal may use its place.
            true => Ok(()),
            false => self.announce(&journal).await,
        }
    }

    async fn forget_records(
        self: &Rc<Self>,
        journal: &Journal,
        are_forgotten: impl Fn(&StripeRing) -> bool,
    ) -> Result<(), IoError> {
        let _turn = journal.turn.take(1).await;
        // Another task may have invalidated them meanwhile.
        while !journal.is_closed.get() && !are_forgotten(&journal.ring.borrow()) {
            self.make_room_unless_lost(journal).await?;
        }
        Ok(())
    }

    /// Invalidates records in the background after a member has left the volume.
    pub(crate) fn renew_journal_later(self: &Rc<Self>) {
        if !self.journal.now().is_some_and(|journal| journal.is_on_members()) {
            return;
        }
        let Ok(user) = self.enter() else { return };
        let volume = self.clone();
        self.shard.env().spawn("renew the journal", async move {
            let _user = user;
            if let Err(error) = volume.renew_journal().await {
                tracing::warn!(volume = %volume.name(), "cannot renew the journal: {error}");
            }
        });
    }
}

/// The slices of a record: its header in `buf`, the carried data, and zeros up to a whole block.
pub(crate) fn record_slices(
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

/// The offset of a ring position on a member.
fn journal_at(journal: &Journal, member: &Member, place: u64) -> Option<ByteOffset> {
    let Medium::Members { at, tail } = journal.medium else { return None };
    let room = Tail::at(member.info().size, tail)?.journals();
    Some(room.start + ByteCount(at.0 + journal.start + place))
}
