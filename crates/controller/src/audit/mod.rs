//! The room of the audit trail: every order, who gave it from where, and what became of it.
//!
//! **Owns** the records of orders and their numbers ([`Audit`]): the newest thousand in memory, all that fit in `audit.jsonl`
//! and `audit.2.jsonl`, which are written in turn and shared with nothing else, so that no flood of events pushes an order out.
//!
//! **Invariants.** An order is recorded as begun before it is carried out, and with its outcome before it is answered. The last
//! record with a number counts. Only what is refused for want of rights, sign-ins and orders alike, is folded: by source and
//! order, for a day, in a bounded table (`refusals.rs`). Secrets are not recorded (`fields.rs`).
//!
//! **Fault model.** A state folder that is full, or does not answer within [`PATIENCE`], stops no order: the order is carried
//! out, its answer says that it is not recorded yet, and so do an event and `health`. The record waits in memory and is stored
//! when that is possible; a crash before loses it. Beyond [`MOST_WAITING`] records, the oldest one goes to the program's own log,
//! and the trail counts it in one `records-lost`.

mod fields;
mod refusals;

pub use fields::order_of;

use crate::append_log::{AppendLog, Kept, Waiting, text_of};
use crate::events::Events;
use crate::interface::{AuditEntry, AuditOutcome, Error, OrderGiven};
use crate::signals::wait_or;
use platform::Env;
use platform::sync::Signal;
use refusals::Refusals;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Where orders are recorded.
const FILES: [&str; 2] = ["audit.jsonl", "audit.2.jsonl"];

/// What they hold.
const ABOUT: &str = "the audit trail";

/// How long each file is at most, in bytes.
const FILE_BYTES: usize = 8 << 20;

/// Orders in memory.
const MOST: usize = 1000;

/// How long an order waits until it is recorded.
const PATIENCE: Duration = Duration::from_secs(1);

/// Records that wait to be stored at most.
const MOST_WAITING: usize = 2000;

/// So much is stored at a time, in bytes.
const PIECE: usize = 128 << 10;

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
    /// Whether that is being tried.
    is_storing: Cell<bool>,
    /// Why the last try failed, or takes so long.
    problem: RefCell<Option<String>>,
    /// Records that had no place, since the trail could be stored last.
    lost: Cell<u64>,
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
            log: AppendLog::new(env, FILES, ABOUT, FILE_BYTES),
            waiting: Waiting::new(MOST_WAITING),
            recent: RefCell::default(),
            next: Cell::new(1),
            refusals: RefCell::default(),
            tries: Cell::new(0),
            is_storing: Cell::new(false),
            problem: RefCell::default(),
            lost: Cell::new(0),
            changed: Signal::default(),
        })
    }

    /// Reads the newest orders, and goes on after their numbers.
    pub(crate) async fn load(&self) {
        let Kept { lines, troubles } = self.log.load::<AuditEntry>().await;
        let last = lines.iter().map(|entry| entry.number).max().unwrap_or(0);
        // Whatever the last number was in a file that cannot be read: seconds since 1970 are more.
        let least = if troubles.is_empty() { 1 } else { self.env.unix_time().max(1) };
        self.next.set(least.max(last + 1));
        lines.iter().for_each(|entry| self.keep(entry));
        for trouble in &troubles {
            self.events.report_state(trouble, "orders that were given before are not listed");
        }
    }

    /// The newest `last` orders, newest last.
    pub(crate) fn list(&self, last: Option<usize>) -> Vec<AuditEntry> {
        let recent = self.recent.borrow();
        let skip = recent.len().saturating_sub(last.unwrap_or(MOST));
        recent.iter().skip(skip).cloned().collect()
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
            order: fields::shortened(order),
            subject: fields::shortened(subject),
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
        entry.why = entry.why.map(fields::shortened);
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
        match recent.binary_search_by_key(&entry.number, |one| one.number) {
            Ok(at) => recent[at].clone_from(entry),
            Err(at) => recent.insert(at, entry.clone()),
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
        let (number, dropped) = self.waiting.add(entry.number, line);
        if let Some(dropped) = dropped {
            self.lost.set(self.lost.get() + 1);
            tracing::error!("too many orders are not recorded yet; this one is here alone: {dropped}");
        }
        self.changed.notify(&self.env);
        Record(number)
    }

    /// Waits until a record is stored; otherwise a sentence: that it is not, and why.
    pub(crate) async fn stored(&self, Record(number): Record) -> Option<String> {
        let tries = self.tries.get();
        let has_failed = || self.problem.borrow().is_some() && self.tries.get() > tries;
        let done = || self.waiting.is_stored(number) || has_failed();
        // A folder that is silent already is not waited for again.
        let is_silent = self.is_storing.get() && self.problem.borrow().is_some();
        if !is_silent {
            wait_or(&self.env, &self.changed, done, self.env.now() + PATIENCE).await;
        }
        if self.waiting.is_stored(number) {
            return None;
        }
        if self.problem.borrow().is_none() {
            self.not_stored("the state folder does not answer");
        }
        let why = self.problem.borrow().clone().unwrap_or_default();
        Some(format!(
            "this order is not recorded in the audit trail yet ({why}); make room in the state folder"
        ))
    }

    /// Stores records as they come.
    pub(crate) async fn write(self: Rc<Self>) {
        loop {
            self.changed.wait_until(&self.env, || !self.waiting.is_empty()).await;
            let (lines, added) = (self.waiting.take(PIECE), self.waiting.added());
            self.is_storing.set(true);
            let stored = self.log.append(&text_of(&lines), String::new).await;
            self.is_storing.set(false);
            self.tries.set(self.tries.get() + 1);
            match stored {
                Ok(()) => {
                    self.waiting.are_stored(&lines);
                    self.is_stored();
                }
                Err(why) => {
                    self.waiting.give_back(lines);
                    self.not_stored(&why);
                    self.changed.notify(&self.env);
                    let until = self.env.now() + GAP;
                    wait_or(&self.env, &self.changed, || self.waiting.added() > added, until).await;
                }
            }
        }
    }

    /// Some records are stored.
    fn is_stored(&self) {
        self.problem.take();
        if self.waiting.is_empty() {
            self.events.log_is_stored(&self.log);
            let lost = self.lost.take();
            if lost > 0 {
                let given = OrderGiven {
                    by: None,
                    order: "records-lost".to_owned(),
                    subject: "controller".to_owned(),
                    fields: serde_json::Value::Null,
                };
                let Open(mut entry) = self.open(given);
                (entry.outcome, entry.count) = (AuditOutcome::Done, lost);
                entry.why = Some("too many records waited while the state folder took none".to_owned());
                self.record(&entry);
            }
        }
        self.changed.notify(&self.env);
    }

    /// Orders are not stored: one event says so, until they are.
    fn not_stored(&self, why: &str) {
        self.problem.replace(Some(why.to_owned()));
        let effect = "orders are carried out, and their records wait in memory until they can be stored; a restart before loses them";
        self.events.log_is_not_stored(&self.log, why, effect);
    }
}
