//! Events as interfaces follow them, from any thread and without a command.
//!
//! **Invariants.** A subscription is given every event above the number that it has seen, once and in order. Where events
//! were replaced before it took them, it is given one event of the code `events.left-out` in their place, with their
//! number. It ends only with the controller.

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
    /// The number of the newest event; 0: there is none.
    pub fn newest(&self) -> u64 {
        self.0.newest()
    }

    /// The same, as soon as those from before the start are there.
    pub async fn begun(&self) -> u64 {
        self.0.begun().await
    }

    /// The events after that number that are there now, oldest first; no more than one delivery has.
    pub fn after(&self, seen: u64) -> Vec<Event> {
        delivered(self.0.after(seen))
    }

    /// Follows the events after that number. One that is higher than the newest is of events whose file was removed: then
    /// all that are kept follow.
    pub fn subscribe(&self, seen: u64) -> EventSubscription {
        EventSubscription(self.0.subscribe(seen))
    }
}

/// See the [module](self).
pub struct EventSubscription(Subscription<Event>);

impl EventSubscription {
    /// The next events, as soon as there are any; `None`: the controller is gone, and everything was delivered.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        self.0.next().await.map(delivered)
    }
}

fn delivered(news: News<Event>) -> Vec<Event> {
    let since_s = news.items.first().map_or(0, |(_, event)| event.time_unix_s);
    let left_out = news.gap.map(|gap| left_out(gap, since_s));
    left_out.into_iter().chain(news.items.into_iter().map(|(_, event)| (*event).clone())).collect()
}

/// What stands for events that were replaced before they were taken.
pub(super) fn left_out(gap: Gap, time_unix_s: u64) -> Event {
    let code = EventCode::EventsLeftOut;
    let count = gap.count();
    let text = format!(
        "up to {count} events, from number {} to number {}, are not kept any more and were not delivered",
        gap.first, gap.last
    );
    Event {
        number: gap.last,
        time_unix_s,
        code: code.code().to_owned(),
        severity: code.severity(),
        subject: "controller".to_owned(),
        related: None,
        cause: "they were taken too late".to_owned(),
        effect: "look at the state of volumes and drives".to_owned(),
        text,
        by: None,
        count,
        first_unix_s: None,
    }
}
