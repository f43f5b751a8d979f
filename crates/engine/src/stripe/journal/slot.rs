//! The journal of a volume, which may come and go while the volume is served.
//!
//! A write cuts itself to what the journal takes, and keeps itself there: in between the journal must stay what it is. So writes are
//! counted that have seen it, and whoever changes it waits for them, while those that come meanwhile wait with nothing held.
//!
//! # Invariants
//! - What was written before a journal comes is on the drives before its first record: a record says what columns become, and
//!   its redundancy stands on what the other drives hold.
//! - When a journal goes, no record of it counts, and the drives know. Nothing is written to its place any more.
//! - When the devices that it lies on have failed, it is another one at once, for writes under way too: what they wait for is
//!   written there. So it is with one that is still to come. Until all of them are done and the drives are flushed, that one does not tell all.
//! - What the label says is the controller's business: a journal tells all only while every shard has it.

use super::{Journal, JournalPlace, Medium};
use crate::stripe::Stripes;
use crate::volume::VolumeSpec;
use ondisk::Uuid;
use platform::sync::Signal;
use platform::{Env, IoError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use write_log::{LogId, WholeStripes};

/// See the top.
pub(crate) struct JournalSlot {
    now: RefCell<Option<Rc<Journal>>>,
    /// The one that it will be when nothing of that counts any more. Its devices may fail before it has come.
    coming: RefCell<Option<Rc<Journal>>>,
    /// How many writes go by the journal as it is.
    writes: Cell<usize>,
    is_changing: Cell<bool>,
    changed: Signal,
    /// Of the drives, whichever journal there was when they were written.
    pub(super) whole_stripes: WholeStripes,
}

impl JournalSlot {
    pub(crate) fn new(
        env: &Env,
        place: Option<&JournalPlace>,
        spec: &VolumeSpec,
        shard: u16,
        shards: u16,
    ) -> platform::Result<JournalSlot> {
        Ok(JournalSlot {
            now: RefCell::new(Journal::new(env, place, spec, shard, shards)?),
            coming: RefCell::default(),
            writes: Cell::new(0),
            is_changing: Cell::new(false),
            changed: Signal::default(),
            whole_stripes: WholeStripes::new(),
        })
    }

    /// The journal, if there is one.
    pub(super) fn now(&self) -> Option<Rc<Journal>> {
        self.now.borrow().clone()
    }

    /// Whether writes wait until it is another one.
    pub(in crate::stripe) fn is_changing(&self) -> bool {
        self.is_changing.get()
    }
}

/// A write that goes by the journal as it is now, until this is dropped.
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
    /// Has the journal stay what it is, for a write that has passed the gate.
    pub(crate) fn go_by_journal(self: &Rc<Self>) -> ByJournal {
        self.journal.writes.set(self.journal.writes.get() + 1);
        ByJournal(self.clone())
    }

    /// Has the volume keep its writes there from now on, or nowhere.
    ///
    /// # Errors
    /// When what has been written, or that no record counts any more, cannot be made durable: the journal stays as it is.
    pub(crate) async fn change_journal(self: &Rc<Self>, place: Option<&JournalPlace>) -> Result<(), String> {
        // What cannot be had is found out before anything is given up.
        let next = self.new_journal(place)?;
        let before = self.journal.coming.replace(next);
        assert!(before.is_none(), "the journal is changed once at a time");
        let exchanged = self.with_no_writes(self.exchange_journal()).await.map_err(|error| error.to_string());
        drop(self.journal.coming.take());
        exchanged
    }

    /// The devices that the journal of that identity lies on have failed: if it is this one, or the one that is coming, it is that one from
    /// now on, or none. Whether it was.
    ///
    /// # Errors
    /// When this shard cannot have it there.
    pub(crate) fn lose_journal(&self, lost: Uuid, place: Option<&JournalPlace>) -> Result<bool, String> {
        let is_lost = |journal: &RefCell<Option<Rc<Journal>>>| {
            journal.borrow().as_ref().is_some_and(|journal| journal.id == LogId(lost.0))
        };
        let mut both = [&self.journal.now, &self.journal.coming].into_iter();
        let Some(place_of) = both.find(|journal| is_lost(journal)) else {
            return Ok(false); // It was changed meanwhile.
        };
        let next = self.new_journal(place)?;
        if let Some(lost) = place_of.replace(next) {
            lost.is_closed.set(true);
            lost.changed.notify(self.shard.env());
            if let Medium::Devices(_, devices) = &lost.medium {
                devices.ids().for_each(|device| devices.leave(self.shard.env(), device));
            }
        }
        Ok(true)
    }

    /// Done when every write that went by a journal which was lost is done, and the drives know.
    ///
    /// # Errors
    /// When that cannot be made durable.
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

    /// Does something while writes that come wait at the gate.
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
            // It may be lost at any time: then it is another one, which has records of those that waited for room in this one.
            let before = slot.now();
            let _turn = match &before {
                Some(journal) => Some(journal.turn.take(1).await),
                None => None,
            };
            if let Some(journal) = &before {
                let next = journal.ring.borrow().next();
                while !journal.is_closed.get() && journal.ring.borrow().counts_from() < next {
                    self.make_room_unless_lost(journal).await?;
                }
            }
            self.flush_once().await?;
            // What mends stripes passes no gate.
            let is_lost = before.as_ref().is_some_and(|journal| journal.is_closed.get());
            if slot.writes.get() == 0 && !is_lost {
                before.iter().for_each(|journal| journal.is_closed.set(true));
                slot.now.replace(slot.coming.take());
                break;
            }
        }
        Ok(())
    }
}
