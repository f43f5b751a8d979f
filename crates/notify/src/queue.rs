//! What waits for a channel: in order, each message once, with growing gaps between tries, kept over restarts.
//!
//! Time is given with every call, in seconds since 1970. The queue says which [`Line`]s are to be kept: those that were kept, read in
//! order, make the queue again. A message is kept before it is sent, and done after that: a crash in between sends it twice.

use crate::{Channel, Message};
use controller::Event;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The most messages that wait: a day of one every nine seconds.
const MOST: usize = 10_000;

/// The longest gap between two tries, in seconds.
const LONGEST_GAP_S: u64 = 60;

/// For how long a message is tried.
const PATIENCE_S: u64 = 86_400;

/// After so many failures in a row somebody should know: half a minute.
const WORTH_TELLING: u32 = 5;

/// The queue of a channel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// The number of the last event that was looked at.
    seen: u64,
    next: u64,
    waiting: VecDeque<Waiting>,
    /// Until when events of that code and subject are folded.
    folding: BTreeMap<(String, String), u64>,
    failures: u32,
    tried_s: u64,
}

/// A message that waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// Its number in the queue.
    pub place: u64,
    /// When it came, in seconds since 1970.
    pub since_s: u64,
    /// When it may be sent.
    pub due_s: u64,
    /// Whether repeats are still being folded into it.
    #[serde(default)]
    pub is_folding: bool,
    /// It.
    pub message: Message,
}

/// What is to be kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Events up to that number were looked at.
    Seen(u64),
    /// A message waits; one with that place is replaced.
    Put(Box<Waiting>),
    /// A message waits no longer.
    Done(u64),
}

/// What became of a try that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is tried again.
    Again,
    /// It is tried again, and somebody should know.
    Tell,
    /// It was tried for a day, and is given up.
    GivenUp(Line),
}

impl Queue {
    /// One that begins after an event.
    pub fn after(seen: u64) -> Queue {
        Queue { seen, ..Queue::default() }
    }

    /// What was kept, a line of JSON each; and how many lines were none. A last line that was cut off is one of these.
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

    /// All that has to be kept of it, instead of what was kept before.
    pub fn lines(&self) -> Vec<Line> {
        let waiting = self.waiting.iter().map(|one| Line::Put(Box::new(one.clone())));
        waiting.chain([Line::Seen(self.seen)]).collect()
    }

    /// The number of the last event that was looked at.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Events have numbers up to `newest`: where that is less than what was seen, their file was removed, and numbers began again.
    /// Whether that was so; then all of the queue is to be kept anew.
    pub fn numbers_end_at(&mut self, newest: u64) -> bool {
        let began_again = newest < self.seen;
        if began_again {
            self.seen = 0;
        }
        began_again
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Looks at an event: it becomes a message, is folded into one, or neither. What is to be kept of that.
    pub fn offer(&mut self, channel: &Channel, event: &Event, now_s: u64) -> Option<Line> {
        if event.number <= self.seen {
            return None;
        }
        self.seen = event.number;
        if !channel.takes(event) {
            return None;
        }
        let quiet = |at_s: u64| channel.quiet.map_or(at_s, |quiet| quiet.until(event.severity, at_s));
        let key = key(event);
        let until_s = self.folding.get(&key).copied().filter(|until_s| now_s < *until_s);
        // One that is due, and was not sent yet, takes it as well.
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
        // What came first is told at once; what is repeated, when its time is over.
        let due_s = quiet(until_s.unwrap_or(now_s));
        if until_s.is_none() && channel.fold_s > 0 {
            self.folding.retain(|_, until_s| now_s < *until_s);
            self.folding.insert(key, now_s + channel.fold_s);
        }
        let (place, is_folding) = (self.next, until_s.is_some());
        self.next += 1;
        let waiting = Waiting { place, since_s: now_s, due_s, is_folding, message: Message::of(event) };
        self.waiting.push_back(waiting.clone());
        Some(Line::Put(Box::new(waiting)))
    }

    /// The message to be sent now, if there is one: the first that is due. Nothing is folded into it any more.
    pub fn due(&mut self, channel: &Channel, now_s: u64) -> Option<Waiting> {
        // A clock that was set back is no reason to wait.
        let rests = self.failures > 0 && now_s >= self.tried_s && now_s < self.tried_s + self.gap_s();
        if rests {
            return None;
        }
        let one = self.waiting.iter_mut().find(|one| one.due_s <= now_s)?;
        if one.is_folding {
            one.is_folding = false;
            // Further repeats make one message in the time that follows.
            self.folding.insert(key(&one.message.event), now_s + channel.fold_s);
        }
        Some(one.clone())
    }

    /// It was sent. What is to be kept of that; and whether tries had failed for so long that it was told.
    pub fn sent(&mut self, place: u64) -> (Line, bool) {
        self.waiting.retain(|one| one.place != place);
        let was_told = self.failures >= WORTH_TELLING;
        self.failures = 0;
        (Line::Done(place), was_told)
    }

    /// It could not be sent.
    pub fn failed(&mut self, place: u64, now_s: u64) -> Outcome {
        self.failures = self.failures.saturating_add(1);
        self.tried_s = now_s;
        let is_old = |one: &Waiting| one.place == place && one.due_s.max(one.since_s) + PATIENCE_S <= now_s;
        if self.waiting.iter().any(is_old) {
            self.waiting.retain(|one| one.place != place);
            return Outcome::GivenUp(Line::Done(place));
        }
        if self.failures == WORTH_TELLING { Outcome::Tell } else { Outcome::Again }
    }

    /// How many tries have failed since the last that did not.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Seconds until the next try: 1, 2, 4, … 60.
    fn gap_s(&self) -> u64 {
        1_u64.checked_shl(self.failures.saturating_sub(1)).map_or(LONGEST_GAP_S, |gap| gap.min(LONGEST_GAP_S))
    }
}

/// Events with the same key are repeats.
fn key(event: &Event) -> (String, String) {
    (event.code.clone(), event.subject.clone())
}

fn is_of(one: &Waiting, (code, subject): &(String, String)) -> bool {
    one.message.event.code == *code && one.message.event.subject == *subject
}
