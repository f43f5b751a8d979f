//! A channel, its queue, and the files of both.

use super::send;
use crate::files::{self, Files};
use ::notify::{Channel, Line, Message, Outcome, Queue, Sender, Target, Waiting};
use controller::{ControllerHandle, Event};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Number of outdated lines that a file may have.
const SPARE_LINES: usize = 1000;

/// A stored channel.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredChannel {
    pub(crate) channel: Channel,
    /// A password, key or community; never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// A channel in replies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelInfo {
    /// The channel.
    #[serde(flatten)]
    pub channel: Channel,
    /// Whether it has a secret.
    pub has_secret: bool,
    /// Number of queued messages.
    pub waiting: usize,
    /// The error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A running channel.
pub(crate) struct RunningChannel {
    kept: Mutex<StoredChannel>,
    shelf: Mutex<StoredQueue>,
}

/// A queue and its file.
struct StoredQueue {
    queue: Queue,
    files: Files,
    name: String,
    lines: usize,
    problem: Option<String>,
}

/// A change of a channel that is reported.
pub(crate) enum ChannelEvent {
    Failing(String),
    Works,
    GivenUp(u64, String),
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    // A clock before 1970 is wrong anyway.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl RunningChannel {
    /// Opens a channel and its queue file. An unreadable file is renamed.
    pub(crate) fn open(
        files: &Files,
        kept: StoredChannel,
        controller: &ControllerHandle,
    ) -> RunningChannel {
        let (channel, name) = (kept.channel.name.clone(), file_of(&kept.channel.name));
        let (post, unreadable) = RunningChannel::read(files, kept);
        if let Some(why) = unreadable {
            let sentence = files.set_aside(&name, &why);
            let effect = format!("queued messages for '{channel}' are not sent");
            files::tell_unreadable(controller, &name, &why, &effect, &sentence);
        }
        post
    }

    /// The same; also returns the reason if the queue is unreadable.
    pub(super) fn read(files: &Files, kept: StoredChannel) -> (RunningChannel, Option<String>) {
        let name = file_of(&kept.channel.name);
        let (text, why) = match files.load(&name) {
            Ok(text) => (text.unwrap_or_default(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let text = String::from_utf8_lossy(&text);
        let (queue, unreadable) = Queue::read(&text);
        if unreadable > 0 {
            tracing::warn!("{unreadable} unreadable lines of {name} are skipped");
        }
        let mut shelf = StoredQueue { queue, files: files.clone(), name, lines: 0, problem: None };
        if !text.is_empty() {
            // An incomplete line would corrupt the next one.
            shelf.rewrite();
        }
        (RunningChannel { kept: Mutex::new(kept), shelf: Mutex::new(shelf) }, why)
    }

    /// A new channel: later events than `seen` become its messages.
    pub(crate) fn new(files: &Files, kept: StoredChannel, seen: u64) -> RunningChannel {
        let (queue, name) = (Queue::after(seen), file_of(&kept.channel.name));
        let mut shelf = StoredQueue { queue, files: files.clone(), name, lines: 0, problem: None };
        shelf.rewrite();
        RunningChannel { kept: Mutex::new(kept), shelf: Mutex::new(shelf) }
    }

    /// The state is replaced as a whole, so it is consistent after a panic.
    fn shelf(&self) -> MutexGuard<'_, StoredQueue> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept(&self) -> StoredChannel {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, kept: StoredChannel) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    pub(crate) fn info(&self) -> ChannelInfo {
        let kept = self.kept();
        let shelf = self.shelf();
        let (waiting, problem) = (shelf.queue.len(), shelf.problem.clone());
        ChannelInfo { channel: kept.channel, has_secret: kept.secret.is_some(), waiting, problem }
    }

    /// The last event that it has seen, limited to the newest event.
    pub(crate) fn seen(&self, newest: u64) -> u64 {
        let mut shelf = self.shelf();
        if shelf.queue.numbers_end_at(newest) {
            shelf.rewrite();
        }
        shelf.queue.seen()
    }

    /// Queues messages for events.
    pub(crate) fn offer(&self, events: &[Event]) {
        let channel = self.kept().channel;
        let now_s = now_s();
        let mut shelf = self.shelf();
        let lines: Vec<Line> =
            events.iter().filter_map(|event| shelf.queue.offer(&channel, event, now_s)).collect();
        shelf.keep(&lines);
    }

    /// Sends the next due message. Returns whether there may be more, and a change to report.
    pub(crate) async fn send_next(&self, sender: &Sender) -> (bool, Option<ChannelEvent>) {
        let kept = self.kept();
        let due = self.shelf().queue.due(&kept.channel, now_s());
        let Some(Waiting { place, message, .. }) = due else { return (false, None) };
        match send_one(&kept, &message, sender).await {
            Ok(()) => {
                let mut shelf = self.shelf();
                let (line, was_told) = shelf.queue.sent(place);
                shelf.keep(&[line]);
                shelf.problem = None;
                (true, was_told.then_some(ChannelEvent::Works))
            }
            Err(why) => {
                let mut shelf = self.shelf();
                shelf.problem = Some(why.clone());
                match shelf.queue.failed(place, now_s()) {
                    Outcome::Again => (false, None),
                    Outcome::Tell => (false, Some(ChannelEvent::Failing(why))),
                    Outcome::GivenUp(line) => {
                        shelf.keep(&[line]);
                        (false, Some(ChannelEvent::GivenUp(message.event.number, why)))
                    }
                }
            }
        }
    }

    /// Removes the queue file.
    pub(crate) fn remove(&self) -> platform::Result<()> {
        let shelf = self.shelf();
        shelf.files.remove(&shelf.name)
    }
}

/// Sends a message to a channel, now.
pub(crate) async fn send_one(
    kept: &StoredChannel,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    let target = Target::read(&kept.channel.target).map_err(|error| error.message)?;
    send::send(kept, &target, message, sender).await
}

fn file_of(name: &str) -> String {
    format!("notify-{name}.queue")
}

impl StoredQueue {
    /// Appends lines; a file that has become long is rewritten with the current content.
    fn keep(&mut self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        self.lines += lines.len();
        if self.lines > self.queue.len() + SPARE_LINES {
            return self.rewrite();
        }
        let kept = text(lines)
            .and_then(|text| self.files.append(&self.name, text.as_bytes()).map_err(told));
        self.complain(kept);
    }

    fn rewrite(&mut self) {
        let lines = self.queue.lines();
        self.lines = lines.len();
        let kept = text(&lines)
            .and_then(|text| self.files.store(&self.name, text.as_bytes()).map_err(told));
        self.complain(kept);
    }

    /// Messages that cannot be stored are sent anyway, unless the process ends before.
    fn complain(&self, kept: Result<(), String>) {
        if let Err(why) = kept {
            tracing::error!("queued messages may be lost in a restart: {why}");
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
