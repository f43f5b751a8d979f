//! A channel, what waits for it, and both as they are kept.

use super::send;
use crate::files::{self, Files};
use ::notify::{Channel, Line, Message, Outcome, Queue, Sender, Target, Waiting};
use controller::{ControllerHandle, Event};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Lines that a file may have besides those that are needed.
const SPARE_LINES: usize = 1000;

/// A channel as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) channel: Channel,
    /// A password, a key or a community: it is never told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// A channel as it is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelInfo {
    /// It.
    #[serde(flatten)]
    pub channel: Channel,
    /// Whether it has a secret.
    pub has_secret: bool,
    /// How many messages wait.
    pub waiting: usize,
    /// Why the last try failed; `None`: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A channel at work.
pub(crate) struct Post {
    kept: Mutex<Kept>,
    shelf: Mutex<Shelf>,
}

/// A queue and its file.
struct Shelf {
    queue: Queue,
    files: Files,
    name: String,
    lines: usize,
    problem: Option<String>,
}

/// What somebody should know of a channel.
pub(crate) enum News {
    Failing(String),
    Works,
    GivenUp(u64, String),
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    // A clock before 1970 is as wrong as one at its beginning.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Post {
    /// A channel of which there may be a queue on disk. One that cannot be read is kept aside.
    pub(crate) fn open(files: &Files, kept: Kept, controller: &ControllerHandle) -> Post {
        let (channel, name) = (kept.channel.name.clone(), file_of(&kept.channel.name));
        let (post, unreadable) = Post::read(files, kept);
        if let Some(why) = unreadable {
            let sentence = files.set_aside(&name, &why);
            let effect = format!("messages that waited for '{channel}' are not sent");
            files::tell_unreadable(controller, &name, &why, &effect, &sentence);
        }
        post
    }

    /// The same; and why its queue cannot be read, which is where it was then.
    pub(super) fn read(files: &Files, kept: Kept) -> (Post, Option<String>) {
        let name = file_of(&kept.channel.name);
        let (text, why) = match files.load(&name) {
            Ok(text) => (text.unwrap_or_default(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let text = String::from_utf8_lossy(&text);
        let (queue, unreadable) = Queue::read(&text);
        if unreadable > 0 {
            tracing::warn!("{unreadable} lines of {name} are left behind: they cannot be read");
        }
        let mut shelf = Shelf { queue, files: files.clone(), name, lines: 0, problem: None };
        if !text.is_empty() {
            // A line that was cut off would spoil the next one.
            shelf.rewrite();
        }
        (Post { kept: Mutex::new(kept), shelf: Mutex::new(shelf) }, why)
    }

    /// A new channel: events after that number become its messages.
    pub(crate) fn new(files: &Files, kept: Kept, seen: u64) -> Post {
        let (queue, name) = (Queue::after(seen), file_of(&kept.channel.name));
        let mut shelf = Shelf { queue, files: files.clone(), name, lines: 0, problem: None };
        shelf.rewrite();
        Post { kept: Mutex::new(kept), shelf: Mutex::new(shelf) }
    }

    /// What is held is put in place as a whole: what a panic left behind is whole.
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept(&self) -> Kept {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, kept: Kept) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    pub(crate) fn info(&self) -> ChannelInfo {
        let kept = self.kept();
        let shelf = self.shelf();
        let (waiting, problem) = (shelf.queue.len(), shelf.problem.clone());
        ChannelInfo { channel: kept.channel, has_secret: kept.secret.is_some(), waiting, problem }
    }

    /// The number of the last event it has looked at, where the newest event has that number.
    pub(crate) fn seen(&self, newest: u64) -> u64 {
        let mut shelf = self.shelf();
        if shelf.queue.numbers_end_at(newest) {
            shelf.rewrite();
        }
        shelf.queue.seen()
    }

    /// Takes what happened.
    pub(crate) fn offer(&self, events: &[Event]) {
        let channel = self.kept().channel;
        let now_s = now_s();
        let mut shelf = self.shelf();
        let lines: Vec<Line> =
            events.iter().filter_map(|event| shelf.queue.offer(&channel, event, now_s)).collect();
        shelf.keep(&lines);
    }

    /// Sends the next message, if one is due: whether there may be more; and what came of it, if somebody should know.
    pub(crate) async fn send_next(&self, sender: &Sender) -> (bool, Option<News>) {
        let kept = self.kept();
        let due = self.shelf().queue.due(&kept.channel, now_s());
        let Some(Waiting { place, message, .. }) = due else { return (false, None) };
        match send_one(&kept, &message, sender).await {
            Ok(()) => {
                let mut shelf = self.shelf();
                let (line, was_told) = shelf.queue.sent(place);
                shelf.keep(&[line]);
                shelf.problem = None;
                (true, was_told.then_some(News::Works))
            }
            Err(why) => {
                let mut shelf = self.shelf();
                shelf.problem = Some(why.clone());
                match shelf.queue.failed(place, now_s()) {
                    Outcome::Again => (false, None),
                    Outcome::Tell => (false, Some(News::Failing(why))),
                    Outcome::GivenUp(line) => {
                        shelf.keep(&[line]);
                        (false, Some(News::GivenUp(message.event.number, why)))
                    }
                }
            }
        }
    }

    /// Removes what is kept of what waits.
    pub(crate) fn remove(&self) -> platform::Result<()> {
        let shelf = self.shelf();
        shelf.files.remove(&shelf.name)
    }
}

/// Sends a message to a channel, now.
pub(crate) async fn send_one(kept: &Kept, message: &Message, sender: &Sender) -> Result<(), String> {
    let target = Target::read(&kept.channel.target).map_err(|error| error.message)?;
    send::send(kept, &target, message, sender).await
}

fn file_of(name: &str) -> String {
    format!("notify-{name}.queue")
}

impl Shelf {
    /// Keeps lines; where the file has become long, only what is still needed.
    fn keep(&mut self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        self.lines += lines.len();
        if self.lines > self.queue.len() + SPARE_LINES {
            return self.rewrite();
        }
        let kept = text(lines).and_then(|text| self.files.append(&self.name, text.as_bytes()).map_err(told));
        self.complain(kept);
    }

    fn rewrite(&mut self) {
        let lines = self.queue.lines();
        self.lines = lines.len();
        let kept = text(&lines).and_then(|text| self.files.store(&self.name, text.as_bytes()).map_err(told));
        self.complain(kept);
    }

    /// What cannot be kept is sent all the same, unless the process ends before.
    fn complain(&self, kept: Result<(), String>) {
        if let Err(why) = kept {
            tracing::error!("messages that wait may be lost at a restart: {why}");
        }
    }
}

fn told(error: platform::Error) -> String {
    error.to_string()
}

fn text(lines: &[Line]) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).map_err(|error| error.to_string())?);
        text.push('\n');
    }
    Ok(text)
}
