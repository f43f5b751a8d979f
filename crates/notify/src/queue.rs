//! The queue of a channel: in order, each message once, retries with growing delays, persistent
//! over restarts.
//!
//! The caller passes the time, in seconds since 1970. The queue returns the [`Line`]s to store;
//! reading them in order restores the queue. A message is stored before it is sent, and removed
//! after that: a crash in between sends it twice.

use crate::{Channel, Message};
use controller::Event;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The limit of the queue: one message every nine seconds for a day.
const MOST: usize = 10_000;

/// The longest delay between two attempts, in seconds.
const LONGEST_GAP_S: u64 = 60;

/// The retry deadline of a message, in seconds.
const DEADLINE_S: u64 = 86_400;

/// Consecutive failures that raise an event: half a minute.
const FAILURES_TO_REPORT: u32 = 5;

/// The queue of a channel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// The number of the last event processed.
    seen: u64,
    next: u64,
    waiting: VecDeque<Waiting>,
    /// The end of folding for each code and subject.
    folding: BTreeMap<(String, String), u64>,
    failures: u32,
    tried_s: u64,
}

/// A pending message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// Its number in the queue.
    pub place: u64,
    /// When it was queued, in seconds since 1970.
    pub since_s: u64,
    /// When it may be sent.
    pub due_s: u64,
    /// Whether repeats are still folded into it.
    #[serde(default)]
    pub is_folding: bool,
    /// The message.
    pub message: Message,
}

/// A line of the stored queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Events up to that number were processed.
    Seen(u64),
    /// A message is pending; it replaces one with the same number.
    Put(Box<Waiting>),
    /// A message was sent or dropped.
    Done(u64),
}

/// The result of a failed attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A retry follows.
    Again,
    /// A retry follows, and the failure must be reported.
    Tell,
    /// The retry deadline passed; the message is dropped.
    GivenUp(Line),
}

impl Queue {
    /// An empty queue that starts after an event.
    pub fn after(seen: u64) -> Queue {
        Queue { seen, ..Queue::default() }
    }

    /// Reads a stored queue (a JSON object per line), and counts invalid lines, such as a truncated
    /// last one.
    pub fn read(text: &str) -> (Queue, usize) {
        let (mut queue, mut unreadable) = (Queue::default(), 0);
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) => queue.take(line),
                Err(_) => unreadable += 1,
            }
        }
        (queue, unreadable)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Seen(number) => self.seen = number,
            Line::Done(place) => self.waiting.retain(|one| one.place != place),
            Line::Put(waiting) => {
                self.seen = self.seen.max(waiting.message.event.number);
                self.next = self.next.max(waiting.place + 1);
                let key = key(&waiting.message.event);
                if waiting.is_folding {
                    self.folding.insert(key, waiting.due_s);
                }
                match self.waiting.iter_mut().rev().find(|one| one.place <= waiting.place) {
                    Some(one) if one.place < waiting.place => self.waiting.push_back(*waiting),
                    Some(one) => *one = *waiting,
                    None => self.waiting.push_back(*waiting),
                }
            }
        }
    }

    /// All lines to store, as a replacement for the stored queue.
    pub fn lines(&self) -> Vec<Line> {
        let waiting = self.waiting.iter().map(|one| Line::Put(Box::new(one.clone())));
        waiting.chain([Line::Seen(self.seen)]).collect()
    }

    /// The number of the last event processed.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// `newest` is the last event number. A smaller one than `seen` means that the event file was
    /// removed and the numbers restarted. Returns whether they did; the caller then stores the
    /// whole queue again.
    pub fn numbers_end_at(&mut self, newest: u64) -> bool {
        let began_again = newest < self.seen;
        if began_again {
            self.seen = 0;
        }
        began_again
    }

    /// The number of pending messages.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no message is pending.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues an event, folds it into a message, or drops it. Returns the line to store.
    pub fn offer(&mut self, channel: &Channel, event: &Event, now_s: u64) -> Option<Line> {
        if event.number <= self.seen {
            return None;
        }
        self.seen = event.number;
        if !channel.takes(event) {
            return None;
        }
        let quiet =
            |at_s: u64| channel.quiet.map_or(at_s, |quiet| quiet.until(event.severity, at_s));
        let key = key(event);
        let until_s = self.folding.get(&key).copied().filter(|until_s| now_s < *until_s);
        // A message that is due but not sent takes further repeats.
        if let Some(one) = self.waiting.iter_mut().find(|one| one.is_folding && is_of(one, &key)) {
            let more = one.message.more + 1;
            one.message = Message { more, ..Message::of(event) };
            return Some(Line::Put(Box::new(one.clone())));
        }
        if self.waiting.len() >= MOST {
            let last = self.waiting.back_mut()?;
            last.message.left_out += 1;
            return Some(Line::Put(Box::new(last.clone())));
        }
        // The first event is sent at once; its repeats when the fold time ends.
        let due_s = quiet(until_s.unwrap_or(now_s));
        if until_s.is_none() && channel.fold_s > 0 {
            self.folding.retain(|_, until_s| now_s < *until_s);
            self.folding.insert(key, now_s + channel.fold_s);
        }
        let (place, is_folding) = (self.next, until_s.is_some());
        self.next += 1;
        let waiting =
            Waiting { place, since_s: now_s, due_s, is_folding, message: Message::of(event) };
        self.waiting.push_back(waiting.clone());
        Some(Line::Put(Box::new(waiting)))
    }

    /// The message to send now: the first that is due. Repeats are no longer folded into it.
    pub fn due(&mut self, channel: &Channel, now_s: u64) -> Option<Waiting> {
        // A clock that was set back does not extend the delay.
        let is_delayed =
            self.failures > 0 && now_s >= self.tried_s && now_s < self.tried_s + self.gap_s();
        if is_delayed {
            return None;
        }
        let one = self.waiting.iter_mut().find(|one| one.due_s <= now_s)?;
        if one.is_folding {
            one.is_folding = false;
            // Further repeats form one message in the next fold time.
            self.folding.insert(key(&one.message.event), now_s + channel.fold_s);
        }
        Some(one.clone())
    }

    /// Records a successful attempt. Returns the line to store, and whether failures had been
    /// reported.
    pub fn sent(&mut self, place: u64) -> (Line, bool) {
        self.waiting.retain(|one| one.place != place);
        let was_reported = self.failures >= FAILURES_TO_REPORT;
        self.failures = 0;
        (Line::Done(place), was_reported)
    }

    /// Records a failed attempt.
    pub fn failed(&mut self, place: u64, now_s: u64) -> Outcome {
        self.failures = self.failures.saturating_add(1);
        self.tried_s = now_s;
        let is_old =
            |one: &Waiting| one.place == place && one.due_s.max(one.since_s) + DEADLINE_S <= now_s;
        if self.waiting.iter().any(is_old) {
            self.waiting.retain(|one| one.place != place);
            return Outcome::GivenUp(Line::Done(place));
        }
        if self.failures == FAILURES_TO_REPORT { Outcome::Tell } else { Outcome::Again }
    }

    /// The number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The delay until the next attempt, in seconds: 1, 2, 4, … 60.
    fn gap_s(&self) -> u64 {
        1_u64
            .checked_shl(self.failures.saturating_sub(1))
            .map_or(LONGEST_GAP_S, |gap| gap.min(LONGEST_GAP_S))
    }
}

/// Events with the same key are repeats.
fn key(event: &Event) -> (String, String) {
    (event.code.clone(), event.subject.clone())
}

fn is_of(one: &Waiting, (code, subject): &(String, String)) -> bool {
    one.message.event.code == *code && one.message.event.subject == *subject
}
