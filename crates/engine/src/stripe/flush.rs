//! Flush: all writes acknowledged before it arrived become durable.
//!
//! Rule (c) of `ARCHITECTURE.md`: a flush covers writes of all connections and shards, because it
//! flushes each *drive* once. A failed drive counts as flushed once its failure is durable on the
//! other drives. Requests that arrive during a flush share the next one: the running flush may
//! already have passed their writes.

use crate::members::is_gone;
use crate::stripe::{DriveOp, DriveOps, Stripes};
use platform::{IoError, IoErrorKind, Member};
use std::rc::Rc;
use units::DriveSet;

impl Stripes {
    /// Flushes all drives in use. Returns when all writes acknowledged before the call are durable.
    ///
    /// # Errors
    /// When a drive that holds such writes cannot make them durable.
    pub(crate) async fn flush_once(self: &Rc<Self>) -> Result<(), IoError> {
        let env = self.shard.env();
        let flush = &self.flushing;
        // The next flush to start covers this request.
        let mine = flush.started.get() + 1;
        loop {
            flush
                .changed
                .wait_until(env, || flush.finished.get() >= mine || !flush.running.get())
                .await;
            if flush.finished.get() >= mine {
                break;
            }
            self.run_flush().await;
        }
        match flush.last_failure.get() {
            Some((number, error)) if number >= mine => Err(error),
            _ => Ok(()),
        }
    }

    async fn run_flush(self: &Rc<Self>) {
        let flush = &self.flushing;
        flush.running.set(true);
        let number = flush.started.get() + 1;
        flush.started.set(number);
        let settled = self.settled_by_now();
        match self.flush_drives().await {
            Ok(()) => self.note_flushed(settled),
            Err(error) => flush.last_failure.set(Some((number, error))),
        }
        flush.finished.set(number);
        flush.running.set(false);
        flush.changed.notify(self.shard.env());
    }

    async fn flush_drives(self: &Rc<Self>) -> Result<(), IoError> {
        let writable = self.in_service();
        let mut ops = DriveOps::default();
        let start = |member: &Rc<Member>| DriveOp::Flush(member.flush());
        for slot in writable.iter().filter(|slot| self.members.get(*slot).is_some()) {
            ops.ask(self, slot, start);
        }
        // A replacement must hold all flushed data before it takes a slot.
        for slot in self.state().being_replaced().iter() {
            ops.ask_replacement(self, slot, start);
        }
        // Drives that are already out are not flushed. Redundancy replaces their cached data, once
        // their failure is durable and if the level tolerates it.
        let mut error = None;
        let mut failed = DriveSet::first(self.geometry().drives()).minus(&writable);
        if !self.geometry().survives_set(&self.behind()) {
            error = Some(IoError::new(IoErrorKind::Gone));
        }
        let lacking = ops
            .finish(self, |answered| {
                let Err(flush_error) = answered.result else { return };
                if answered.is_swapped(self) {
                    return;
                }
                if flush_error.kind == IoErrorKind::Busy {
                    error = Some(flush_error); // The drive still has its cached data.
                    return;
                }
                // The drive's cached data may be lost: its content is no longer current.
                let survivable = self.may_lose(answered.slot);
                if survivable || is_gone(&flush_error) {
                    self.fail_drive(answered.slot, flush_error, "flush");
                    failed.insert(answered.slot);
                }
                if !survivable {
                    error = Some(flush_error);
                }
            })
            .await;
        let (lacking, unflushed) = lacking.without_busy();
        lacking.settled(self).await?;
        error = error.or(unflushed);
        self.recorded(&failed).await?;
        error.map_or(Ok(()), Err)
    }
}
