//! Changes of a volume's journal: it is added, replaced or removed while the volume is served.
//!
//! A write splits itself to fit the journal's record size, so the journal must not change under it.
//! Writes that use the journal are counted. A change waits for them; new writes wait without locks.
//!
//! # Invariants
//! - Earlier writes are on the drives before the first record of a new journal. A record's
//!   redundancy depends on what the other drives hold.
//! - When a journal is removed, all its records are invalidated, durably. Nothing is written to its
//!   place afterwards.
//! - When all devices of a journal have failed, the journal is replaced at once, also one that is
//!   not in use yet. Running writes put their records into the new journal. It is complete only
//!   after these writes are done and the drives are flushed.
//! - The controller writes the label: a journal is complete only when every shard uses it.

use super::slot::Journal;
use crate::attachment::JournalPlace;
use crate::stripe::Stripes;
use crate::stripe::records::Medium;
use ondisk::Uuid;
use platform::IoError;
use std::cell::RefCell;
use std::rc::Rc;
use write_log::LogId;

/// Guards the journal against a change until this value is dropped.
pub(crate) struct ByJournal(Rc<Stripes>);

impl Drop for ByJournal {
    fn drop(&mut self) {
        let slot = &self.0.journal;
        slot.writes.set(slot.writes.get() - 1);
        if slot.is_changing.get() {
            slot.changed.notify(self.0.shard.env());
        }
    }
}

impl Stripes {
    /// Keeps the current journal for a write that has passed the gate.
    pub(crate) fn go_by_journal(self: &Rc<Self>) -> ByJournal {
        self.journal.writes.set(self.journal.writes.get() + 1);
        ByJournal(self.clone())
    }

    /// Moves the journal to `place`, or removes it.
    ///
    /// # Errors
    /// When earlier writes or the invalidation of records cannot be made durable: the journal
    /// stays.
    pub(crate) async fn change_journal(
        self: &Rc<Self>,
        place: Option<&JournalPlace>,
    ) -> Result<(), String> {
        // Attach the new devices first: a failure must leave the old journal in use.
        let next = self.new_journal(place)?;
        let before = self.journal.coming.replace(next);
        assert!(before.is_none(), "one journal change runs at a time");
        let exchanged =
            self.with_no_writes(self.exchange_journal()).await.map_err(|error| error.to_string());
        drop(self.journal.coming.take());
        exchanged
    }

    /// All devices of journal `lost` have failed. If it is the current or the next journal, it is
    /// replaced by one at `place`, or by none. Returns whether it was.
    ///
    /// # Errors
    /// When this shard cannot attach the new journal.
    pub(crate) fn lose_journal(
        &self,
        lost: Uuid,
        place: Option<&JournalPlace>,
    ) -> Result<bool, String> {
        let is_lost = |journal: &RefCell<Option<Rc<Journal>>>| {
            journal.borrow().as_ref().is_some_and(|journal| journal.records.id == LogId(lost.0))
        };
        let mut both = [&self.journal.now, &self.journal.coming].into_iter();
        let Some(place_of) = both.find(|journal| is_lost(journal)) else {
            return Ok(false); // The journal was changed meanwhile.
        };
        let next = self.new_journal(place)?;
        if let Some(lost) = place_of.replace(next) {
            lost.records.is_closed.set(true);
            lost.changed.notify(self.shard.env());
            if let Medium::Devices(_, devices) = &lost.records.medium {
                devices.ids().for_each(|device| devices.leave(self.shard.env(), device));
            }
        }
        Ok(true)
    }

    /// Waits until all writes that used a lost journal are complete, and flushes the drives.
    ///
    /// # Errors
    /// When the drives cannot be flushed.
    pub(crate) async fn settle_lost_journal(self: &Rc<Self>) -> Result<(), IoError> {
        let settle = async {
            let slot = &self.journal;
            slot.changed.wait_until(self.shard.env(), || slot.writes.get() == 0).await;
            self.flush_once().await
        };
        self.with_no_writes(settle).await
    }

    fn new_journal(&self, place: Option<&JournalPlace>) -> Result<Option<Rc<Journal>>, String> {
        let shard = &self.shard;
        let journal = Journal::new(shard.env(), place, &self.spec, shard.index().0, shard.count());
        journal.map_err(|error| error.to_string())
    }

    /// Runs `work` while new writes wait at the gate.
    async fn with_no_writes<T>(&self, work: impl Future<Output = T>) -> T {
        let (slot, env) = (&self.journal, self.shard.env());
        slot.changed.wait_until(env, || !slot.is_changing.get()).await;
        slot.is_changing.set(true);
        let done = work.await;
        slot.is_changing.set(false);
        slot.changed.notify(env);
        self.gate_opened.notify(env);
        done
    }

    async fn exchange_journal(self: &Rc<Self>) -> Result<(), IoError> {
        let (slot, shard) = (&self.journal, &self.shard);
        loop {
            slot.changed.wait_until(shard.env(), || slot.writes.get() == 0).await;
            // The journal may be lost and replaced at any time. The replacement then has the
            // records that waited for space in this one.
            let before = slot.now();
            let _turn = match &before {
                Some(journal) => Some(journal.records.turn.take(1).await),
                None => None,
            };
            if let Some(journal) = &before {
                let next = journal.records.ring().next();
                while !journal.records.is_closed.get()
                    && journal.records.ring().counts_from() < next
                {
                    self.make_room_unless_lost(journal).await?;
                }
            }
            self.flush_once().await?;
            // Repairs pass no gate.
            let is_lost = before.as_ref().is_some_and(|journal| journal.records.is_closed.get());
            if slot.writes.get() == 0 && !is_lost {
                before.iter().for_each(|journal| journal.records.is_closed.set(true));
                slot.now.replace(slot.coming.take());
                break;
            }
        }
        Ok(())
    }
}
