//! What happened: kept in memory, the newest thousand, and appended to `events.jsonl`, one JSON object a line.

use crate::interface::{Event, Severity};
use env::Env;
use env::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

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
        }
    }

    /// Takes note of an event: of what, why, what it changes, and all of it in one sentence.
    pub(crate) fn add(&self, severity: Severity, subject: &str, cause: &str, effect: &str, text: String) {
        match severity {
            Severity::Info => tracing::info!("{text}"),
            Severity::Warning => tracing::warn!("{text}"),
            Severity::Critical => tracing::error!("{text}"),
        }
        let event = Event {
            time_unix_s: self.env.unix_time(),
            severity,
            subject: subject.to_owned(),
            cause: cause.to_owned(),
            effect: effect.to_owned(),
            text,
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
    }

    pub(crate) fn info(&self, subject: &str, cause: &str, effect: &str, text: String) {
        self.add(Severity::Info, subject, cause, effect, text);
    }

    pub(crate) fn warn(&self, subject: &str, cause: &str, effect: &str, text: String) {
        self.add(Severity::Warning, subject, cause, effect, text);
    }

    pub(crate) fn critical(&self, subject: &str, cause: &str, effect: &str, text: String) {
        self.add(Severity::Critical, subject, cause, effect, text);
    }

    fn keep(&self, event: Event) {
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

    /// Reads what was kept. A line that was cut off by a crash is left behind.
    pub(crate) async fn load(&self) {
        let bytes = match self.env.world().state().load(FILE).await {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) => return tracing::error!("earlier events cannot be read: {error}"),
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let skip = lines.len().saturating_sub(MOST);
        for line in &lines[skip..] {
            match serde_json::from_str(line) {
                Ok(event) => self.keep(event),
                Err(error) => tracing::warn!("a line of {FILE} is no event: {error}"),
            }
        }
        if lines.len() > MOST_LINES {
            let newest: String = lines[skip..].iter().flat_map(|line| [line, "\n"]).collect();
            if let Err(error) = self.env.world().state().store(FILE, newest.into_bytes()).await {
                tracing::error!("old events cannot be cut off: {error}");
            }
        } else if !text.is_empty() && !text.ends_with('\n') {
            self.unwritten.borrow_mut().push('\n');
        }
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
            self.writing.set(true);
            if let Err(error) = self.env.world().state().append(FILE, lines.into_bytes()).await {
                tracing::error!("events cannot be stored: {error}");
            }
            self.writing.set(false);
            self.changed.notify(&self.env);
        }
    }

    /// Waits until all events are stored, and ends the writing.
    pub(crate) async fn close(&self) {
        let done = || self.unwritten.borrow().is_empty() && !self.writing.get();
        self.changed.wait_until(&self.env, done).await;
        self.closed.set(true);
        self.changed.notify(&self.env);
    }
}
