//! The room of events: what happened, kept in memory, the newest thousand, and appended to `events.jsonl`, one JSON
//! object a line.
//!
//! **Owns** the events and their numbers ([`Events`]), the one list of their kinds ([`EventCode`], `codes.rs`), the alarm that
//! some of them begin (`alarm.rs`), and what they say of channels of notifications (`channels.rs`).
//!
//! **Invariants.** No number is given twice: they go on where the file ends, and after a crash a thousand further on,
//! for what was reported and not stored then had numbers too. (Where the file is removed, they begin again.) A kind of event has one code and one severity.
//!
//! **Who may call it**: every room that does something people should know of.

mod alarm;
mod channels;
mod codes;
mod state_files;

pub use codes::EventCode;

use crate::interface::{Caller, Event, EventCount, Severity};

use env::Env;
use env::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::Rc;

/// Where events are kept over restarts.
const FILE: &str = "events.jsonl";

/// Events in memory.
const MOST: usize = 1000;

/// When the file has more lines than this at a start, it is cut to the newest [`MOST`].
const MOST_LINES: usize = 10_000;

/// The events of this controller.
pub(crate) struct Events {
    env: Env,
    recent: RefCell<VecDeque<Event>>,
    unwritten: RefCell<String>,
    writing: Cell<bool>,
    closed: Cell<bool>,
    changed: Signal,
    /// The number of the next event.
    next: Cell<u64>,
    /// How many there were since the start, by code.
    counts: RefCell<BTreeMap<&'static str, (Severity, u64)>>,
    /// What is being done because somebody asked for it.
    acting: RefCell<Option<Acting>>,
    alarm: alarm::Alarm,
    channels: channels::Channels,
    state_files: state_files::StateTroubles,
}

/// Something that is done because it was asked for.
#[derive(Clone, Default)]
struct Acting {
    by: Option<Caller>,
    /// Whether an event told of it.
    told: Rc<Cell<bool>>,
}

impl Events {
    pub(crate) fn new(env: &Env) -> Events {
        Events {
            env: env.clone(),
            recent: RefCell::default(),
            unwritten: RefCell::default(),
            writing: Cell::new(false),
            closed: Cell::new(false),
            changed: Signal::default(),
            next: Cell::new(1),
            counts: RefCell::default(),
            acting: RefCell::default(),
            alarm: alarm::Alarm::default(),
            channels: channels::Channels::default(),
            state_files: state_files::StateTroubles::default(),
        }
    }

    /// Takes note of an event: of which kind, of what, why, what it changes, and all of it in one sentence.
    pub(crate) fn report(&self, code: EventCode, subject: &str, cause: &str, effect: &str, text: String) {
        let (severity, number) = (code.severity(), self.next.get());
        self.next.set(number + 1);
        let kind = code.code();
        self.counts.borrow_mut().entry(kind).or_insert((severity, 0)).1 += 1;
        match severity {
            Severity::Info => tracing::info!(number, code = kind, "{text}"),
            Severity::Warning => tracing::warn!(number, code = kind, "{text}"),
            Severity::Critical | Severity::Fatal => tracing::error!(number, code = kind, "{text}"),
        }
        self.channels.hear(code, subject, &text);
        self.state_files.hear(code, subject, &text);
        let event = Event {
            number,
            time_unix_s: self.env.unix_time(),
            code: kind.to_owned(),
            severity,
            subject: subject.to_owned(),
            cause: cause.to_owned(),
            effect: effect.to_owned(),
            text,
            by: self.caller(),
        };
        match serde_json::to_string(&event) {
            Ok(line) => {
                let mut unwritten = self.unwritten.borrow_mut();
                unwritten.push_str(&line);
                unwritten.push('\n');
            }
            Err(error) => tracing::error!("an event cannot be written as JSON: {error}"),
        }
        self.keep(event);
        self.changed.notify(&self.env);
        self.alarm_about(code, subject);
    }

    /// Who asked for what is being done now. An event tells of it.
    fn caller(&self) -> Option<Caller> {
        let acting = self.acting.borrow();
        let acting = acting.as_ref()?;
        acting.told.set(true);
        acting.by.clone()
    }

    /// Does what somebody asked for: events that are reported meanwhile say who it was. Also whether there were any.
    pub(crate) fn doing<T>(&self, by: Option<&Caller>, work: impl FnOnce() -> T) -> (T, bool) {
        let acting = Acting { by: by.cloned(), told: Rc::default() };
        let before = self.acting.replace(Some(acting.clone()));
        let done = work();
        self.acting.replace(before);
        (done, acting.told.get())
    }

    /// The same for what takes time. Events of others, which are reported while this waits, are not meant.
    pub(crate) async fn doing_all<T>(&self, by: Option<&Caller>, work: impl Future<Output = T>) -> (T, bool) {
        let acting = Acting { by: by.cloned(), told: Rc::default() };
        let mut work = std::pin::pin!(work);
        let done = std::future::poll_fn(|context| {
            let before = self.acting.replace(Some(acting.clone()));
            let poll = work.as_mut().poll(context);
            self.acting.replace(before);
            poll
        });
        (done.await, acting.told.get())
    }

    fn keep(&self, event: Event) {
        self.alarm.hear(&event);
        let mut recent = self.recent.borrow_mut();
        recent.push_back(event);
        while recent.len() > MOST {
            recent.pop_front();
        }
    }

    /// The newest `last`, newest last.
    pub(crate) fn list(&self, last: Option<usize>) -> Vec<Event> {
        let recent = self.recent.borrow();
        let skip = recent.len().saturating_sub(last.unwrap_or(MOST));
        recent.iter().skip(skip).cloned().collect()
    }

    /// How many there were of each kind since the start.
    pub(crate) fn counts(&self) -> Vec<EventCount> {
        let counts = self.counts.borrow();
        let count = |(code, (severity, count)): (&&'static str, &(Severity, u64))| EventCount {
            code: (*code).to_owned(),
            severity: *severity,
            count: *count,
        };
        counts.iter().map(count).collect()
    }

    /// Reads what was kept. A line that was cut off by a crash is left behind.
    pub(crate) async fn load(&self) {
        let trouble = self.load_alarm().await;
        self.load_events().await;
        if let Some(trouble) = trouble {
            self.report_state(&trouble, "the alarm is on");
        }
    }

    async fn load_events(&self) {
        let bytes = match self.env.world().state().load(FILE).await {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) => {
                // Whatever the last number was: seconds since 1970 are more.
                self.next.set(self.env.unix_time().max(1));
                return tracing::error!("earlier events cannot be read: {error}");
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let skip = lines.len().saturating_sub(MOST);
        let read = |line: &&str| match serde_json::from_str::<Event>(line) {
            Ok(event) => Some(event),
            Err(error) => {
                tracing::warn!("a line of {FILE} is no event: {error}");
                None
            }
        };
        // What was said last of the alarm counts, however long ago it was.
        let is_of_alarm = |line: &&&str| line.contains("\"alarm.");
        let of_alarm: Vec<&str> = lines[..skip].iter().rfind(is_of_alarm).into_iter().copied().collect();
        of_alarm.iter().filter_map(read).for_each(|event| self.alarm.hear(&event));
        lines[skip..].iter().filter_map(read).for_each(|event| self.keep(event));
        self.next.set(self.number_after());
        if lines.len() > MOST_LINES {
            let kept = of_alarm.iter().chain(&lines[skip..]);
            let newest: String = kept.flat_map(|line| [line, "\n"]).collect();
            if let Err(error) = self.env.world().state().store(FILE, newest.into_bytes()).await {
                tracing::error!("old events cannot be cut off: {error}");
            }
        } else if !text.is_empty() && !text.ends_with('\n') {
            self.unwritten.borrow_mut().push('\n');
        }
        // Stored before anything else is reported: a crash from here on is seen by it.
        let text = "the controller was started".to_owned();
        self.report(EventCode::ControllerStarted, "controller", "start", "volumes are started", text);
        self.append(self.unwritten.take()).await;
    }

    /// The number of the first event after those that were kept.
    fn number_after(&self) -> u64 {
        let recent = self.recent.borrow();
        let Some(last) = recent.iter().map(|event| event.number).max().filter(|last| *last > 0) else {
            return 1;
        };
        let ended = recent.back().is_some_and(|event| event.code == EventCode::ControllerStopped.code());
        last + if ended { 1 } else { MOST as u64 }
    }

    /// Appends events as they come, until they are closed.
    pub(crate) async fn write(&self) {
        loop {
            let waiting = || !self.unwritten.borrow().is_empty() || self.closed.get();
            self.changed.wait_until(&self.env, waiting).await;
            let lines = self.unwritten.take();
            if lines.is_empty() {
                return;
            }
            self.append(lines).await;
        }
    }

    async fn append(&self, lines: String) {
        self.writing.set(true);
        if let Err(error) = self.env.world().state().append(FILE, lines.into_bytes()).await {
            tracing::error!("events cannot be stored: {error}");
        }
        self.writing.set(false);
        self.changed.notify(&self.env);
    }

    /// Waits until all events are stored, and ends the writing.
    pub(crate) async fn close(&self) {
        let done = || self.unwritten.borrow().is_empty() && !self.writing.get();
        self.changed.wait_until(&self.env, done).await;
        self.closed.set(true);
        self.changed.notify(&self.env);
    }
}
