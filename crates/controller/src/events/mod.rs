//! Events. The newest thousand are in memory, and more in the state folder.
//!
//! **Owns** the events and their numbers ([`Events`]), the list of their kinds ([`EventCode`],
//! `codes.rs`), subscriptions (`subscription.rs`), the folding of repeats (`folding.rs`), their
//! storage (`storing.rs`), the alarm (`alarm.rs`), and the state of notification channels
//! (`channels.rs`).
//!
//! **Invariants.** Numbers are unique. After a restart they continue after the last stored event;
//! after a crash they skip a thousand, since unstored events had numbers too. (If the file is
//! removed, they restart at 1.) A kind of event has one code and one severity. Reporting never
//! waits: memory is bounded by the feed, the table of repeats and the batch that is being stored.
//!
//! **Callers**: every module whose actions operators should know.

mod alarm;
mod channels;
mod codes;
mod folding;
mod state_files;
mod storing;
mod subscription;

pub use codes::EventCode;
pub use subscription::{EventFeed, EventSubscription};

use crate::append_log::AppendLog;
use crate::interface::{Caller, Event, EventCount, Severity};
use crate::signals::wait_or;
use folding::{Draft, Folding, Summary};

use platform::sync::Signal;
use platform::{Env, Publisher};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

/// The number of events in memory.
const MOST: usize = 1000;

/// The events of this controller.
pub(crate) struct Events {
    env: Env,
    feed: Publisher<Event>,
    log: AppendLog,
    /// The number of the last stored event.
    stored: Cell<u64>,
    /// Whether the last loaded event is a shutdown.
    ended: Cell<bool>,
    closing: Cell<bool>,
    closed: Cell<bool>,
    changed: Signal,
    folding: RefCell<Folding>,
    /// The number of the next event.
    next: Cell<u64>,
    /// The number of events since the start, by code.
    counts: RefCell<BTreeMap<&'static str, (Severity, u64)>>,
    /// The command that is being carried out.
    acting: RefCell<Option<Acting>>,
    alarm: alarm::Alarm,
    channels: channels::Channels,
    state_files: state_files::StateTroubles,
}

/// The object of an event.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    subject: &'a str,
    /// A related object.
    related: Option<&'a str>,
}

impl<'a> Subject<'a> {
    /// An object and a related one, such as a drive and its array.
    pub(crate) fn both(subject: &'a str, related: &'a str) -> Subject<'a> {
        Subject { subject, related: Some(related) }
    }
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Subject<'a> {
    fn from(subject: &'a T) -> Subject<'a> {
        Subject { subject: subject.as_ref(), related: None }
    }
}

/// A command in progress.
#[derive(Clone, Default)]
struct Acting {
    by: Option<Caller>,
    /// Whether an event has reported it.
    told: Rc<Cell<bool>>,
}

impl Events {
    pub(crate) fn new(env: &Env) -> Events {
        Events {
            env: env.clone(),
            feed: Publisher::new(MOST),
            log: AppendLog::new(env, storing::FILES, storing::ABOUT, storing::FILE_BYTES),
            stored: Cell::new(0),
            ended: Cell::new(false),
            closing: Cell::new(false),
            closed: Cell::new(false),
            changed: Signal::default(),
            folding: RefCell::default(),
            next: Cell::new(1),
            counts: RefCell::default(),
            acting: RefCell::default(),
            alarm: alarm::Alarm::default(),
            channels: channels::Channels::default(),
            state_files: state_files::StateTroubles::default(),
        }
    }

    /// Reports an event: its code, object, cause, effect, and complete text. Repeats are counted
    /// and reported later in a summary.
    pub(crate) fn report<'a>(
        &self,
        code: EventCode,
        about: impl Into<Subject<'a>>,
        cause: &str,
        effect: &str,
        text: String,
    ) {
        let Subject { subject, related } = about.into();
        self.counts.borrow_mut().entry(code.code()).or_insert((code.severity(), 0)).1 += 1;
        self.channels.hear(code, subject, &text);
        self.state_files.hear(code, subject, &text);
        let draft = Draft {
            code,
            subject: subject.to_owned(),
            related: related.map(str::to_owned),
            cause: cause.to_owned(),
            effect: effect.to_owned(),
            text,
            time_unix_s: self.env.unix_time(),
        };
        let is_ordered = self.acting.borrow().is_some();
        // The `alarm.sounds` event names the event before it.
        let begins_alarm = self.begins_alarm(code);
        let alone = match is_ordered || begins_alarm || code.is_alone() {
            true => Some(draft),
            false => self.folding.borrow_mut().offer(draft, self.env.now()),
        };
        match alone {
            Some(draft) => self.publish(draft, 1, None),
            None => self.changed.notify(&self.env),
        }
        if begins_alarm {
            self.sound_alarm(code, subject);
        }
    }

    fn publish_summary(&self, Summary { mut last, count, first_unix_s }: Summary) {
        if count > 1 {
            let seconds = last.time_unix_s.saturating_sub(first_unix_s);
            last.text.push_str(&format!(
                " ({count} such events within {seconds} s; this is the last one)"
            ));
        }
        self.publish(last, count, (count > 1).then_some(first_unix_s));
    }

    fn publish(&self, draft: Draft, count: u64, first_unix_s: Option<u64>) {
        let Draft { code, subject, related, cause, effect, text, time_unix_s } = draft;
        let (severity, number) = (code.severity(), self.next.get());
        self.next.set(number + 1);
        let kind = code.code();
        match severity {
            Severity::Info => tracing::info!(number, code = kind, "{text}"),
            Severity::Warning => tracing::warn!(number, code = kind, "{text}"),
            Severity::Critical | Severity::Fatal => tracing::error!(number, code = kind, "{text}"),
        }
        let (code, by) = (kind.to_owned(), self.caller());
        let event = Event {
            number,
            time_unix_s,
            code,
            severity,
            subject,
            related,
            cause,
            effect,
            text,
            by,
            count,
            first_unix_s,
        };
        self.alarm.hear(&event);
        self.feed.publish(number, event);
        self.changed.notify(&self.env);
    }

    /// Reports summaries of repeats when they are due, until the events are closed.
    pub(crate) async fn report_repeats(&self) {
        let next = || self.folding.borrow().next();
        while !self.closing.get() {
            let Some(due) = next() else {
                let waiting = || next().is_some() || self.closing.get();
                self.changed.wait_until(&self.env, waiting).await;
                continue;
            };
            // An earlier summary may become due meanwhile.
            let is_other = || self.closing.get() || next().is_none_or(|next| next < due);
            wait_or(&self.env, &self.changed, is_other, due).await;
            let due = self.folding.borrow_mut().due(self.env.now());
            due.into_iter().for_each(|summary| self.publish_summary(summary));
        }
    }

    /// Reports all counted repeats now.
    pub(crate) fn report_repeats_now(&self) {
        let folded = self.folding.borrow_mut().all();
        folded.into_iter().for_each(|summary| self.publish_summary(summary));
    }

    /// The caller of the command in progress, for an event that reports it.
    fn caller(&self) -> Option<Caller> {
        let acting = self.acting.borrow();
        let acting = acting.as_ref()?;
        acting.told.set(true);
        acting.by.clone()
    }

    /// Runs a command; events that it reports name its caller. Also returns whether it reported
    /// any.
    pub(crate) fn doing<T>(&self, by: Option<&Caller>, work: impl FnOnce() -> T) -> (T, bool) {
        let acting = Acting { by: by.cloned(), told: Rc::default() };
        let before = self.acting.replace(Some(acting.clone()));
        let done = work();
        self.acting.replace(before);
        (done, acting.told.get())
    }

    /// The same for asynchronous work. Events that other tasks report while this one waits do not
    /// count.
    pub(crate) async fn doing_all<T>(
        &self,
        by: Option<&Caller>,
        work: impl Future<Output = T>,
    ) -> (T, bool) {
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

    /// The newest `last` events, the newest last: all, or those that concern one object.
    pub(crate) fn list(&self, last: Option<usize>, about: Option<&str>) -> Vec<Event> {
        let mut events = self.feed.feed().last(MOST);
        events.retain(|event| about.is_none_or(|name| event.concerns(name)));
        let skip = events.len().saturating_sub(last.unwrap_or(MOST));
        events.iter().skip(skip).map(|event| (**event).clone()).collect()
    }

    /// The feed for subscribers.
    pub(crate) fn feed(&self) -> EventFeed {
        EventFeed(self.feed.feed().clone())
    }

    /// The number of events of each code since the start.
    pub(crate) fn counts(&self) -> Vec<EventCount> {
        let counts = self.counts.borrow();
        let count = |(code, (severity, count)): (&&'static str, &(Severity, u64))| EventCount {
            code: (*code).to_owned(),
            severity: *severity,
            count: *count,
        };
        counts.iter().map(count).collect()
    }
}
