//! Subscriptions to events, from any thread and without a command.
//!
//! **Invariants.** A subscription delivers every event above the last seen number, once and in
//! order. If events were replaced before their delivery, it delivers one `events.left-out` in their
//! place, with their count. It ends only with the controller.

use super::EventCode;
use crate::interface::Event;
use platform::{Feed, Gap, News, Subscription};

/// Reads the events that the controller keeps in memory.
#[derive(Clone)]
pub struct EventFeed(pub(super) Feed<Event>);

impl From<Feed<Event>> for EventFeed {
    fn from(feed: Feed<Event>) -> EventFeed {
        EventFeed(feed)
    }
}

impl EventFeed {
    /// The number of the newest event; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.0.newest()
    }

    /// The same, after the stored events have been loaded.
    pub async fn begun(&self) -> u64 {
        self.0.begun().await
    }

    /// The events after this number, oldest first; at most one delivery.
    pub fn after(&self, seen: u64) -> Vec<Event> {
        delivered(self.0.after(seen))
    }

    /// Subscribes to the events after this number. A number above the newest belongs to a removed
    /// file: then all events in memory are delivered.
    pub fn subscribe(&self, seen: u64) -> EventSubscription {
        EventSubscription(self.0.subscribe(seen))
    }
}

/// See the [module](self).
pub struct EventSubscription(Subscription<Event>);

impl EventSubscription {
    /// Waits for the next events; `None` after the controller ended and everything was delivered.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        self.0.next().await.map(delivered)
    }
}

fn delivered(news: News<Event>) -> Vec<Event> {
    let since_s = news.items.first().map_or(0, |(_, event)| event.time_unix_s);
    let left_out = news.gap.map(|gap| left_out(gap, since_s));
    left_out.into_iter().chain(news.items.into_iter().map(|(_, event)| (*event).clone())).collect()
}

/// The event in place of events that were replaced before their delivery.
pub(super) fn left_out(gap: Gap, time_unix_s: u64) -> Event {
    let code = EventCode::EventsLeftOut;
    let count = gap.count();
    let text = format!(
        "up to {count} events, from number {} to number {}, are no longer in memory and were not \
        delivered",
        gap.first, gap.last
    );
    Event {
        number: gap.last,
        time_unix_s,
        code: code.code().to_owned(),
        severity: code.severity(),
        subject: "controller".to_owned(),
        related: None,
        cause: "the subscriber was too slow".to_owned(),
        effect: "check the state of volumes and drives".to_owned(),
        text,
        by: None,
        count,
        first_unix_s: None,
    }
}
