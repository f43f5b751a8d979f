//! The journal of a volume, which may come and go while the volume is served.
//!
//! A write cuts itself to what the journal takes, and keeps itself there: in between the journal must stay what it is. So writes are
//! counted that have seen it, and whoever changes it waits for them, while those that come meanwhile wait with nothing held.
//!
//! # Invariants
//! - What was written before a journal comes is on the drives before its first record: a record says what columns become, and
//!   its redundancy stands on what the other drives hold.
//! - When a journal goes, no record of it counts, and the drives know. Nothing is written to its place any more.
//! - What the label says is the controller's business: a journal tells all only while every shard has it.

use super::{Journal, JournalPlace};
use crate::stripe::Stripes;
use crate::volume::VolumeSpec;
use env::sync::Signal;
use env::{Env, IoError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// See the top.
pub(crate) struct JournalSlot {
    now: RefCell<Option<Rc<Journal>>>,
    /// How many writes go by the journal as it is.
    writes: Cell<usize>,
    is_changing: Cell<bool>,
    changed: Signal,
}

impl JournalSlot {
    pub(crate) fn new(
        env: &Env,
        place: Option<JournalPlace>,
        spec: &VolumeSpec,
        shard: u16,
        shards: u16,
    ) -> JournalSlot {
        let journal = Journal::new(env, place, spec, shard, shards);
        JournalSlot {
            now: RefCell::new(journal.map(Rc::new)),
            writes: Cell::new(0),
            is_changing: Cell::new(false),
            changed: Signal::default(),
        }
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
    pub(crate) async fn change_journal(self: &Rc<Self>, place: Option<JournalPlace>) -> Result<(), IoError> {
        let (slot, env) = (&self.journal, self.shard.env());
        slot.changed.wait_until(env, || !slot.is_changing.get()).await;
        slot.is_changing.set(true);
        let changed = self.exchange_journal(place).await;
        slot.is_changing.set(false);
        slot.changed.notify(env);
        self.gate_opened.notify(env);
        changed
    }

    async fn exchange_journal(self: &Rc<Self>, place: Option<JournalPlace>) -> Result<(), IoError> {
        let (slot, shard) = (&self.journal, &self.shard);
        let before = slot.now();
        loop {
            slot.changed.wait_until(shard.env(), || slot.writes.get() == 0).await;
            let _turn = match &before {
                Some(journal) => Some(journal.turn.take(1).await),
                None => None,
            };
            if let Some(journal) = &before {
                let next = journal.ring.borrow().next();
                while journal.ring.borrow().counts_from() < next {
                    self.make_room(journal).await?;
                }
            }
            self.flush_once().await?;
            // What mends stripes passes no gate.
            if slot.writes.get() == 0 {
                break;
            }
        }
        before.iter().for_each(|journal| journal.is_closed.set(true));
        let journal = Journal::new(shard.env(), place, &self.spec, shard.index().0, shard.count());
        *slot.now.borrow_mut() = journal.map(Rc::new);
        Ok(())
    }
}
