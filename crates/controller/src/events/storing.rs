//! Storage of events: `events.jsonl` and `events.2.jsonl`, written in turn, one JSON object per
//! line.
//!
//! **Invariants.** Events are stored in the order of their numbers, from the feed of the
//! subscribers. A failed write is retried after a second, then at growing intervals up to a minute.
//! Events that were replaced in memory meanwhile leave an `events.left-out` in the file. The
//! current `alarm.sounds` event is in the newer file.
//!
//! **Fault model.** A crash loses unstored events. A full file system loses no events that are
//! still in memory.

use super::{EventCode, Events, MOST, subscription::left_out};
use crate::append_log::Kept;
use crate::interface::Event;
use crate::signals::wait_or;
use std::time::Duration;

/// The files of events.
pub(super) const FILES: [&str; 2] = ["events.jsonl", "events.2.jsonl"];

/// The name of the list in messages.
pub(super) const ABOUT: &str = "the list of events";

/// The maximum size of each file, in bytes.
pub(super) const FILE_BYTES: usize = 2 << 20;

/// The intervals between attempts to store events.
const FIRST_GAP: Duration = Duration::from_secs(1);
const LONGEST_GAP: Duration = Duration::from_secs(60);

/// The time that a shutdown waits for the storage of all events.
const LAST: Duration = Duration::from_secs(10);

impl Events {
    /// Loads the stored events. A line that a crash cut off is ignored.
    pub(crate) async fn load(&self) {
        let of_alarm = self.load_alarm().await;
        let Kept { lines, troubles } = self.log.load::<Event>().await;
        lines.into_iter().for_each(|event| self.restore(event));
        let next = self.number_after();
        // Seconds since 1970 exceed any number in a file that cannot be read.
        self.next.set(if troubles.is_empty() { next } else { next.max(self.env.unix_time()) });
        self.stored.set(self.feed.feed().newest());
        self.feed.open();
        // Stored before any other event: the next start detects a crash from here on by it.
        let text = "the controller was started".to_owned();
        self.report(
            EventCode::ControllerStarted,
            "controller",
            "start",
            "volumes are started",
            text,
        );
        if let Err(why) = self.store_some().await {
            self.not_stored(&why);
        }
        if let Some(trouble) = of_alarm {
            self.report_state(&trouble, "the alarm is on");
        }
        for trouble in &troubles {
            self.report_state(trouble, "earlier events are not listed");
        }
    }

    /// Restores a stored event. The `alarm.sounds` event is stored twice if a file was started
    /// anew.
    fn restore(&self, event: Event) {
        self.alarm.hear(&event);
        let number = event.number;
        if number == 0 || number > self.feed.feed().newest() {
            self.ended.set(event.code == EventCode::ControllerStopped.code());
            self.feed.publish(number, event);
        }
    }

    /// The number of the first event after the stored ones.
    fn number_after(&self) -> u64 {
        match self.feed.feed().newest() {
            0 => 1,
            last => last + if self.ended.get() { 1 } else { MOST as u64 },
        }
    }

    fn has_unstored(&self) -> bool {
        self.feed.feed().newest() > self.stored.get()
    }

    /// Stores events as they are reported, until the events are closed.
    pub(crate) async fn write(&self) {
        let mut gap = FIRST_GAP;
        loop {
            let waiting = || self.has_unstored() || self.closing.get();
            self.changed.wait_until(&self.env, waiting).await;
            if !self.has_unstored() {
                break;
            }
            match self.store_some().await {
                Ok(()) => {
                    gap = FIRST_GAP;
                    self.log_is_stored(&self.log);
                }
                Err(why) if self.closing.get() => {
                    tracing::error!("the last events are not stored: {why}");
                    break;
                }
                Err(why) => {
                    self.not_stored(&why);
                    let until = self.env.now() + gap;
                    wait_or(&self.env, &self.changed, || self.closing.get(), until).await;
                    gap = (gap * 2).min(LONGEST_GAP);
                }
            }
        }
        self.closed.set(true);
        self.changed.notify(&self.env);
    }

    /// Stores the next unstored events.
    async fn store_some(&self) -> Result<(), String> {
        let news = self.feed.feed().after(self.stored.get());
        let Some((last, _)) = news.items.last() else { return Ok(()) };
        let missing = news.gap.map(|gap| left_out(gap, self.env.unix_time()));
        let events = missing.iter().chain(news.items.iter().map(|(_, event)| event.as_ref()));
        let lines: String = events.map(line).collect();
        let alarm = || self.alarm.sounding().as_ref().map_or_else(String::new, line);
        self.log.append(&lines, alarm).await?;
        self.stored.set(*last);
        Ok(())
    }

    fn not_stored(&self, why: &str) {
        let effect = "new events are lost at a restart, unless they can be stored before";
        self.log_is_not_stored(&self.log, why, effect);
    }

    /// Stores all events and ends the storage. Waits at most [`LAST`] for a state folder that does
    /// not respond.
    pub(crate) async fn close(&self) {
        self.closing.set(true);
        self.changed.notify(&self.env);
        let until = self.env.now() + LAST;
        if !wait_or(&self.env, &self.changed, || self.closed.get(), until).await {
            tracing::error!("the last events may not be stored: the state folder does not respond");
        }
    }
}

/// An event as a line with its line end.
fn line(event: &Event) -> String {
    match serde_json::to_string(event) {
        Ok(text) => text + "\n",
        Err(error) => {
            tracing::error!("an event cannot be written as JSON: {error}");
            String::new()
        }
    }
}
