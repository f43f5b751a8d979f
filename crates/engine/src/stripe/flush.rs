//! Flush: every write acknowledged before it arrived becomes safe from a power cut.
//!
//! Rule (c) of the promises: the flush covers writes of every connection and every shard, because it flushes
//! the *drives*, each once, whoever wrote to them. A drive that failed is as good as flushed once that is durable
//! on the others, and not before. Requests that arrive while a flush runs share the next
//! one: the running one may have passed their writes already.

use crate::members::Replacement;
use crate::members::is_gone;
use crate::stripe::Stripes;
use env::sync::Signal;
use env::{Io, IoError, IoErrorKind, Member};
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// The flush of a drive that is being filled; none of one that lacks a write already.
type ReplacementFlush = (DriveIndex, Rc<Replacement>, Option<Io>);

/// The flushes of a volume on one shard.
#[derive(Default)]
pub(crate) struct Flush {
    running: Cell<bool>,
    started: Cell<u64>,
    finished: Cell<u64>,
    /// The latest flush that failed. Whoever waits for that one or an earlier one is told: a failure may be
    /// reported twice, never not at all.
    last_failure: Cell<Option<(u64, IoError)>>,
    changed: Signal,
}

impl Stripes {
    /// Flushes every drive in use. Done when all writes that were acknowledged before the call are durable.
    ///
    /// # Errors
    /// When some drive that holds such writes cannot make them durable.
    pub(crate) async fn flush_once(self: &Rc<Self>) -> Result<(), IoError> {
        let env = self.shard.env();
        let flush = &self.flushing;
        // The one that starts after this moment covers us.
        let mine = flush.started.get() + 1;
        loop {
            flush.changed.wait_until(env, || flush.finished.get() >= mine || !flush.running.get()).await;
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
        let mut flushes: SmallVec<[(DriveIndex, Rc<Member>, Io); 8]> = SmallVec::new();
        for drive in writable.iter() {
            if let Ok(member) = self.member(drive) {
                let io = member.flush();
                flushes.push((drive, member, io));
            }
        }
        // One that takes a slot must hold all that was flushed before.
        let mut filling: SmallVec<[ReplacementFlush; 1]> = SmallVec::new();
        let being_replaced = self.state().being_replaced();
        for drive in being_replaced.iter() {
            if let Some(replacement) = self.members.replacement(drive) {
                let io = replacement.failed.get().is_none().then(|| replacement.member.flush());
                filling.push((drive, replacement, io));
            }
        }
        // Drives that are out already are flushed by nobody: what they had cached is to be had from the others,
        // once it is durably known that they are out, and where the level can do without them.
        let mut error = None;
        let mut failed = DriveSet::first(self.geometry().drives()).minus(&writable);
        if !self.geometry().survives_set(&self.behind()) {
            error = Some(IoError::new(IoErrorKind::Gone));
        }
        for (drive, member, flush) in flushes {
            if let Err(flush_error) = flush.await.result {
                if flush_error.kind == IoErrorKind::NotSupported {
                    continue; // Without a volatile cache there is nothing to flush.
                }
                if !self.members.is_in_slot(drive, &member) {
                    continue; // Where it mattered, the drive that has the slot now is not current.
                }
                // What the drive had cached may be lost: it no longer holds what it should.
                let survivable = self.may_lose(drive);
                if survivable || is_gone(&flush_error) {
                    self.fail_drive(drive, flush_error, "flush");
                    failed.insert(drive);
                }
                if !survivable {
                    error = Some(flush_error);
                }
            }
        }
        for (drive, replacement, flush) in filling {
            let result = match flush {
                Some(flush) => flush.await.result,
                None => Err(IoError::new(IoErrorKind::Gone)),
            };
            match result {
                Err(lacks) if lacks.kind != IoErrorKind::NotSupported => {
                    self.replacement_lacks(drive, &replacement, lacks).await?;
                }
                _ => {}
            }
        }
        self.recorded(&failed).await?;
        error.map_or(Ok(()), Err)
    }
}
