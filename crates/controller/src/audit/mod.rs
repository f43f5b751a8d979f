//! The audit trail: all orders, with their origin and outcome.
//!
//! **Owns** the records of orders and their numbers ([`Audit`]). The newest thousand are in memory;
//! `audit.jsonl` and `audit.2.jsonl` hold more. These files are written alternately and hold only
//! orders, so a flood of events cannot displace an order.
//!
//! **Invariants.** An order is recorded as begun before it is executed, and with its outcome before
//! the reply. The last record with a number counts. Only requests refused for missing permissions
//! (orders and sign-ins) are folded: by source and order, for a day, in a bounded table
//! (`refusals.rs`). Secrets are not recorded (`fields.rs`).
//!
//! **Fault model.** A state folder that is full, or exceeds [`PATIENCE`], blocks no order. The
//! order is executed; the reply, an event and `health` report that it is not recorded yet. The
//! record waits in memory until it can be stored; a crash before that loses it. Beyond
//! [`MOST_WAITING`] records, the oldest one goes to the program's own log, and the trail counts it
//! in one `records-lost`.

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

/// The files of the audit trail.
const FILES: [&str; 2] = ["audit.jsonl", "audit.2.jsonl"];

/// The content of the files, for messages.
const ABOUT: &str = "the audit trail";

/// The maximum length of each file, in bytes.
const FILE_BYTES: usize = 8 << 20;

/// Orders kept in memory.
const MOST: usize = 1000;

/// How long an order waits for its record.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of records that wait to be stored.
const MOST_WAITING: usize = 2000;

/// The maximum number of bytes stored at a time.
const PIECE: usize = 128 << 10;

/// The delay between two attempts to store records, unless a new order arrives.
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
    /// The number of attempts to store records.
    tries: Cell<u64>,
    /// Whether an attempt is running.
    is_storing: Cell<bool>,
    /// Why the last attempt failed, or takes long.
    problem: RefCell<Option<String>>,
    /// Records dropped since the trail was last stored.
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

    /// Reads the newest orders, and continues their numbers.
    pub(crate) async fn load(&self) {
        let Kept { lines, troubles } = self.log.load::<AuditEntry>().await;
        let last = lines.iter().map(|entry| entry.number).max().unwrap_or(0);
        // The seconds since 1970 exceed any number in an unreadable file.
        let least = if troubles.is_empty() { 1 } else { self.env.unix_time().max(1) };
        self.next.set(least.max(last + 1));
        lines.iter().for_each(|entry| self.keep(entry));
        for trouble in &troubles {
            self.events.report_state(trouble, "earlier orders are not listed");
        }
    }

    /// The newest `last` orders, newest last.
    pub(crate) fn list(&self, last: Option<usize>) -> Vec<AuditEntry> {
        let recent = self.recent.borrow();
        let skip = recent.len().saturating_sub(last.unwrap_or(MOST));
        recent.iter().skip(skip).cloned().collect()
    }

    /// Opens a record for an order.
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

    /// Records that an order is about to be executed.
    pub(crate) fn begin(&self, Open(entry): &Open) -> Record {
        self.record(entry)
    }

    /// Records the outcome of an order.
    pub(crate) fn end(&self, Open(mut entry): Open, refused: Option<&Error>) -> Record {
        entry.ends(refused, self.env.unix_time());
        entry.why = entry.why.map(fields::shortened);
        self.record(&entry)
    }

    /// Records a request refused for missing permissions. Repeats from the same source are counted.
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

    /// Records the counts of refusals that are not recorded yet.
    pub(crate) fn record_refusals(&self) {
        let counted = self.refusals.borrow_mut().take();
        for entry in &counted {
            self.record(entry);
        }
    }

    /// Keeps the entry in memory; it replaces the entry with the same number.
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
            // The entry consists of strings and numbers, so serialisation cannot fail.
            tracing::error!("order {} cannot be written as JSON: {error}", entry.number);
            format!("{{\"number\":{}}}", entry.number)
        });
        let (number, dropped) = self.waiting.add(entry.number, line);
        if let Some(dropped) = dropped {
            self.lost.set(self.lost.get() + 1);
            tracing::error!(
                "too many audit records are not stored yet; this log line is the only record of: \
                {dropped}"
            );
        }
        self.changed.notify(&self.env);
        Record(number)
    }

    /// Waits until a record is stored; otherwise returns a sentence with the reason why it is not.
    pub(crate) async fn stored(&self, Record(number): Record) -> Option<String> {
        let tries = self.tries.get();
        let has_failed = || self.problem.borrow().is_some() && self.tries.get() > tries;
        let done = || self.waiting.is_stored(number) || has_failed();
        // Do not wait again for a folder that already does not respond.
        let is_silent = self.is_storing.get() && self.problem.borrow().is_some();
        if !is_silent {
            wait_or(&self.env, &self.changed, done, self.env.now() + PATIENCE).await;
        }
        if self.waiting.is_stored(number) {
            return None;
        }
        if self.problem.borrow().is_none() {
            self.not_stored("the state folder does not respond");
        }
        let why = self.problem.borrow().clone().unwrap_or_default();
        Some(format!(
            "this command is not recorded in the audit trail yet ({why}); free space in the state \
             folder"
        ))
    }

    /// Stores records as they arrive.
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

    /// Notes that records were stored.
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
                entry.why = Some(
                    "too many records waited while the state folder was not writable".to_owned(),
                );
                self.record(&entry);
            }
        }
        self.changed.notify(&self.env);
    }

    /// Notes that orders are not stored: one event reports it, until they are.
    fn not_stored(&self, why: &str) {
        self.problem.replace(Some(why.to_owned()));
        let effect = "commands work, and their audit records wait in memory; a restart before they \
            are stored loses them";
        self.events.log_is_not_stored(&self.log, why, effect);
    }
}
