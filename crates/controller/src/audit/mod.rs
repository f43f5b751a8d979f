//! The room of the audit trail: every order, who gave it from where, and what became of it.
//!
//! **Owns** the records of orders and their numbers ([`Audit`]): the newest thousand in memory, all that fit in `audit.jsonl`
//! and `audit.2.jsonl`, which are written in turn and shared with nothing else, so that no flood of events pushes an order out.
//!
//! **Invariants.** An order that takes time is recorded as begun before it is carried out, and every order with its outcome
//! before it is answered. The last record with a number counts. Only what is refused for want of rights, sign-ins and orders
//! alike, is folded: by source and order, for a day, in a bounded table (`refusals.rs`). Secrets are not recorded (`fields.rs`).
//!
//! **Fault model.** A state folder that is full, or does not answer within [`PATIENCE`], must not stop a repair: the order is
//! carried out, its answer says that it is not recorded, and so do an event and `health`. The record waits in memory and is
//! stored when that is possible; a crash before loses it. When [`MOST_WAITING`] records wait, further orders are refused.

mod fields;
mod refusals;

pub use fields::order_of;

use crate::append_log::{AppendLog, Waiting};
use crate::events::{EventCode, Events};
use crate::interface::{AuditEntry, AuditOutcome, Error, ErrorKind, OrderGiven, Result};
use crate::signals::wait_or;
use env::Env;
use env::sync::Signal;
use refusals::Refusals;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Where orders are recorded.
const FILES: [&str; 2] = ["audit.jsonl", "audit.2.jsonl"];

/// How long each file is at most, in bytes.
const FILE_BYTES: usize = 8 << 20;

/// Orders in memory.
const MOST: usize = 1000;

/// Lines that are looked at when the trail is loaded: an order has two, a folded refusal more.
const LOADED_LINES: usize = 8 * MOST;

/// How long an order waits until it is recorded.
const PATIENCE: Duration = Duration::from_secs(1);

/// Records that wait to be stored at most.
const MOST_WAITING: usize = 1000;

/// The gap between two tries to store records, unless an order comes in between.
const GAP: Duration = Duration::from_secs(10);

/// The audit trail.
pub(crate) struct Audit {
    env: Env,
    events: Rc<Events>,
    log: AppendLog,
    waiting: Waiting,
    recent: RefCell<VecDeque<AuditEntry>>,
    next: Cell<u64>,
    refusals: RefCell<Refusals>,
    /// How often it was tried to store records.
    tries: Cell<u64>,
    /// Why the last try failed.
    problem: RefCell<Option<String>>,
    changed: Signal,
}

/// An order whose outcome is not known yet.
pub(crate) struct Open(AuditEntry);

/// A record that may not be stored yet.
#[derive(Clone, Copy)]
pub(crate) struct Record(u64);

impl Audit {
    pub(crate) fn new(env: &Env, events: &Rc<Events>) -> Rc<Audit> {
        Rc::new(Audit {
            env: env.clone(),
            events: events.clone(),
            log: AppendLog::new(env, FILES, FILE_BYTES),
            waiting: Waiting::default(),
            recent: RefCell::default(),
            next: Cell::new(1),
            refusals: RefCell::default(),
            tries: Cell::new(0),
            problem: RefCell::default(),
            changed: Signal::default(),
        })
    }

    /// Reads the newest orders, and goes on after their numbers.
    pub(crate) async fn load(&self) {
        let lines = match self.log.load().await {
            Ok(lines) => lines,
            Err(error) => {
                // Whatever the last number was: seconds since 1970 are more.
                self.next.set(self.env.unix_time().max(1));
                return self.not_stored(&format!("it cannot be read: {error}"));
            }
        };
        for line in &lines[lines.len().saturating_sub(LOADED_LINES)..] {
            match serde_json::from_str::<AuditEntry>(line) {
                Ok(entry) => {
                    self.next.set(self.next.get().max(entry.number + 1));
                    self.keep(&entry);
                }
                Err(error) => tracing::warn!("a line of {} is no order: {error}", FILES[0]),
            }
        }
    }

    /// The newest `last` orders, newest last.
    pub(crate) fn list(&self, last: Option<usize>) -> Vec<AuditEntry> {
        let recent = self.recent.borrow();
        let skip = recent.len().saturating_sub(last.unwrap_or(MOST));
        recent.iter().skip(skip).cloned().collect()
    }

    /// Why the newest orders are not stored, while that is so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// Whether an order can be recorded, sooner or later.
    ///
    /// # Errors
    /// `OutOfSpace`: too many records wait.
    pub(crate) fn check(&self) -> Result<()> {
        if self.waiting.len() < MOST_WAITING {
            return Ok(());
        }
        let why = self.problem().unwrap_or_else(|| "the state folder does not answer".to_owned());
        let sentence = format!(
            "{MOST_WAITING} orders are not recorded in the audit trail yet ({why}); free space for the state folder, then try again"
        );
        Err(Error::new(ErrorKind::OutOfSpace, sentence))
    }

    /// An order is given.
    pub(crate) fn open(&self, given: OrderGiven) -> Open {
        let number = self.next.get();
        self.next.set(number + 1);
        let OrderGiven { by, order, subject, fields } = given;
        Open(AuditEntry {
            number,
            time_unix_s: self.env.unix_time(),
            by,
            order,
            subject,
            fields: fields::bounded(fields),
            outcome: AuditOutcome::Begun,
            why: None,
            ended_unix_s: None,
            count: 1,
        })
    }

    /// Records that an order is about to be carried out.
    pub(crate) fn begin(&self, Open(entry): &Open) -> Record {
        self.record(entry)
    }

    /// Records what became of it.
    pub(crate) fn end(&self, Open(mut entry): Open, refused: Option<&Error>) -> Record {
        entry.ends(refused, self.env.unix_time());
        self.record(&entry)
    }

    /// Something was refused for want of rights. Repeats of the same source are counted.
    pub(crate) fn refused(&self, given: OrderGiven, why: &Error) {
        let now_s = self.env.unix_time();
        let ended = self.refusals.borrow_mut().end_of_day(now_s);
        for entry in &ended {
            self.record(entry);
        }
        let open = || {
            let Open(mut entry) = self.open(given.clone());
            entry.ends(Some(why), now_s);
            entry
        };
        let (entry, is_recorded) = self.refusals.borrow_mut().count(&given, now_s, open);
        if is_recorded {
            self.record(&entry);
        } else {
            self.keep(&entry);
        }
    }

    /// Records the counts of refusals that were not recorded yet.
    pub(crate) fn record_refusals(&self) {
        let counted = self.refusals.borrow_mut().take();
        for entry in &counted {
            self.record(entry);
        }
    }

    /// The entry in memory; one of that number is replaced.
    fn keep(&self, entry: &AuditEntry) {
        let mut recent = self.recent.borrow_mut();
        match recent.iter_mut().rev().find(|one| one.number == entry.number) {
            Some(one) => one.clone_from(entry),
            None => {
                let at = recent.partition_point(|one| one.number < entry.number);
                recent.insert(at, entry.clone());
            }
        }
        while recent.len() > MOST {
            recent.pop_front();
        }
    }

    fn record(&self, entry: &AuditEntry) -> Record {
        self.keep(entry);
        let line = serde_json::to_string(entry).unwrap_or_else(|error| {
            // The entry is of strings and numbers: it can be written whatever it holds.
            tracing::error!("order {} cannot be written as JSON: {error}", entry.number);
            format!("{{\"number\":{}}}", entry.number)
        });
        let number = self.waiting.add(line);
        self.changed.notify(&self.env);
        Record(number)
    }

    /// Waits until a record is stored; otherwise a sentence: that it is not, and why.
    pub(crate) async fn stored(&self, Record(number): Record) -> Option<String> {
        let tries = self.tries.get();
        let has_failed = || self.problem.borrow().is_some() && self.tries.get() > tries;
        let done = || self.waiting.is_stored(number) || has_failed();
        wait_or(&self.env, &self.changed, done, self.env.now() + PATIENCE).await;
        if self.waiting.is_stored(number) {
            return None;
        }
        let why = self.problem().unwrap_or_else(|| "the state folder does not answer".to_owned());
        self.not_stored(&why);
        Some(format!(
            "this order is not recorded in the audit trail yet ({why}); free space for the state folder"
        ))
    }

    /// Stores records as they come.
    pub(crate) async fn write(self: Rc<Self>) {
        loop {
            self.changed.wait_until(&self.env, || self.waiting.len() > 0).await;
            let (lines, count) = self.waiting.all();
            let stored = self.log.append(&lines, String::new).await;
            self.tries.set(self.tries.get() + 1);
            match stored {
                Ok(()) => {
                    self.waiting.are_stored(count);
                    self.problem.take();
                    self.changed.notify(&self.env);
                }
                Err(why) => {
                    self.not_stored(&why.to_string());
                    self.changed.notify(&self.env);
                    let until = self.env.now() + GAP;
                    wait_or(&self.env, &self.changed, || self.waiting.len() > count, until).await;
                }
            }
        }
    }

    /// Orders are not stored: one event says so, until they are.
    fn not_stored(&self, why: &str) {
        if self.problem.replace(Some(why.to_owned())).is_none() {
            let text = format!(
                "orders cannot be recorded in the audit trail ({why}): they are carried out, and their records wait in memory; free space for the state folder"
            );
            let effect = "records wait in memory, and are lost at a restart";
            self.events.report(EventCode::AuditNotStored, "controller", why, effect, text);
        }
    }
}
