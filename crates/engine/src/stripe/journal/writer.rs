//! Group commit of the journal: when a record begins, what it has, and when records retire.

use super::slot::{Entry, Journal};
use crate::stripe::Stripes;
use crate::stripe::records::Record;
use platform::{IoError, IoErrorKind};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, StripeIndex};
use write_log::{About, Batch, Change, Part, StripeRing};

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
        volume.write_waiting(&self.journal).await;
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

impl Journal {
    /// The waiting entries that fit one record.
    fn next_batch(&self) -> Batch {
        let waiting = self.waiting.borrow();
        let parts = waiting.iter().map(|entry| Part {
            changes: entry.changes.len(),
            slices: entry.bytes.len(),
            carried: ByteCount(entry.len),
        });
        Batch::of(parts, self.records.ring().most())
    }

    /// Whether the next record is due, and no task is about to begin it.
    fn is_record_due(&self) -> bool {
        let waiting = self.waiting.borrow().len();
        waiting > 0
            && !self.is_beginning.get()
            && write_log::is_time(self.under_way.get(), waiting, self.last_batch.get())
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
    async fn write_waiting(self: &Rc<Self>, journal: &Rc<Journal>) {
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
        let _turn = journal.records.turn.take(1).await;
        let (batch, place) = loop {
            let batch = journal.next_batch();
            if journal.records.is_closed.get() {
                break (batch, Err(IoError::new(IoErrorKind::Gone)));
            }
            match journal.records.place_for(&batch) {
                Some(place) => break (batch, Ok(place)),
                None => match self.make_room(journal).await {
                    Ok(()) => {}
                    Err(error) => break (batch, Err(error)),
                },
            }
        };
        journal.last_batch.set(batch.entries);
        let entries: Vec<Entry> = journal.waiting.borrow_mut().drain(..batch.entries).collect();
        journal.is_beginning.set(false);
        let record = place.map(|place| {
            let stripes: SmallVec<[About; 8]> = entries.iter().map(|entry| entry.about).collect();
            let changes: SmallVec<[Change; 32]> =
                entries.iter().flat_map(|entry| entry.changes.iter().copied()).collect();
            let carried = entries.iter().flat_map(|entry| &entry.bytes).cloned();
            journal.records.begin(&batch, place, &stripes, &changes, carried)
        });
        (record, entries)
    }

    async fn write_begun(
        self: &Rc<Self>,
        journal: &Journal,
        record: Record,
    ) -> Result<u64, IoError> {
        journal.under_way.set(journal.under_way.get() + 1);
        let written = self.write_record(&journal.records, record).await;
        journal.under_way.set(journal.under_way.get() - 1);
        if written.is_err() {
            journal.changed.notify(self.shard.env());
        }
        written
    }

    /// Retires records, and writes a notice of that to the drives. The caller holds `turn`.
    pub(super) async fn make_room(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        let is_news = journal.records.ring().can_announce();
        if is_news {
            return self.write_notice(&journal.records).await;
        }
        let settles =
            || journal.records.ring().can_retire() || journal.records.ring().can_announce();
        journal
            .changed
            .wait_until(self.shard.env(), || settles() || journal.records.is_closed.get())
            .await;
        let is_retired = journal.records.ring().can_announce();
        match is_retired || journal.records.is_closed.get() {
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
            Err(_) if journal.records.is_closed.get() => Ok(()),
            done => done,
        }
    }

    /// The writes that a flush which begins now covers.
    pub(crate) fn settled_by_now(&self) -> Settled {
        let settled = |journal: Rc<Journal>| {
            let before = journal.records.ring().settled();
            (journal, before)
        };
        let records_before = self.journal.now().map(settled);
        Settled { records_before, whole_stripes: self.journal.whole_stripes.done() }
    }

    /// Retires what a completed flush of all drives covers.
    pub(crate) fn note_flushed(&self, settled: Settled) {
        if let Some((journal, before)) = settled.records_before {
            let mut ring = journal.records.ring_mut();
            assert!(
                before <= ring.settled(),
                "records before {before} retire, and record {} is not complete",
                ring.settled()
            );
            ring.retire(before);
        }
        self.journal.whole_stripes.flushed(settled.whole_stripes);
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
            let ring = journal.records.ring();
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
                    journal.records.ring_mut().flushed(took, began.since(before));
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
        let before = journal.records.ring().next();
        self.forget_records(&journal, |ring| !ring.says(stripe) || ring.counts_from() >= before)
            .await
    }

    /// Invalidates all records written before the call, if they are on members. A member may then
    /// be removed.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn renew_journal(self: &Rc<Self>) -> Result<(), IoError> {
        match self.journal.now().is_some_and(|journal| journal.records.is_on_members()) {
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
        let before = journal.records.ring().next();
        self.forget_records(&journal, |ring| ring.counts_from() >= before).await?;
        if !journal.records.is_on_members() {
            return Ok(());
        }
        // The latest notice may be on a member that will be removed: write another.
        let _turn = journal.records.turn.take(1).await;
        match journal.records.is_closed.get() {
            // The journal is closed: another journal may use its place.
            true => Ok(()),
            false => self.write_notice(&journal.records).await,
        }
    }

    async fn forget_records(
        self: &Rc<Self>,
        journal: &Journal,
        are_forgotten: impl Fn(&StripeRing) -> bool,
    ) -> Result<(), IoError> {
        let _turn = journal.records.turn.take(1).await;
        // Another task may have invalidated them meanwhile.
        while !journal.records.is_closed.get() && !are_forgotten(&journal.records.ring()) {
            self.make_room_unless_lost(journal).await?;
        }
        Ok(())
    }

    /// Invalidates records in the background after a member has left the volume.
    pub(crate) fn renew_journal_later(self: &Rc<Self>) {
        if !self.journal.now().is_some_and(|journal| journal.records.is_on_members()) {
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
