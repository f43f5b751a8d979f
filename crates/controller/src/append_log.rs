//! Logs in the state folder. Each log has two files, which are written alternately.
//!
//! **Owns** the current file and its length ([`AppendLog`]); lines that wait to be stored
//! ([`Waiting`]).
//!
//! **Invariants.** A file exceeds its bound by at most the lines of one append. A stored line stays
//! until the other file is full, so the newest lines of at least one bound are kept. A file is
//! created in one step; its first line has its number if it replaces an older file. A crash thus
//! leaves the old file or the new one. An unreadable file is moved aside, as state files are, and
//! never overwritten.
//!
//! **Fault model.** A crash or a failed append may leave a partial line, which is not valid JSON;
//! the next append starts with a line end. Content may be empty, changed, from a later version or
//! unreadable, or a folder may have the file's name. If the state folder is full, the older file is
//! replaced only once the new lines fit.
//!
//! **Callers**: `events` and `audit`.

use crate::statefile::{Place, Trouble, put_aside};
use platform::Env;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The first line of a file that replaced an older one: its number, higher than the other file's.
const PART: &str = "{\"part\":";

/// See the [module](self).
pub(crate) struct AppendLog {
    env: Env,
    files: [&'static str; 2],
    /// The content of the files, as a phrase for messages.
    about: &'static str,
    /// A file of this length is full.
    bound: usize,
    /// The index of the current file.
    current: Cell<usize>,
    /// Whether the file exists.
    exists: Cell<bool>,
    part: Cell<u64>,
    len: Cell<usize>,
    /// Whether the file may end in a partial line.
    is_torn: Cell<bool>,
    /// Unreadable files that could not be moved aside.
    stuck: [Cell<bool>; 2],
}

/// The content of the files.
pub(crate) struct Kept<T> {
    /// The readable lines, oldest first.
    pub(crate) lines: Vec<T>,
    /// Unreadable files.
    pub(crate) troubles: Vec<Trouble>,
}

/// A file as read at the start.
struct Found<T> {
    part: u64,
    index: usize,
    len: usize,
    exists: bool,
    is_torn: bool,
    lines: Vec<T>,
}

impl AppendLog {
    pub(crate) fn new(
        env: &Env,
        files: [&'static str; 2],
        about: &'static str,
        bound: usize,
    ) -> AppendLog {
        AppendLog {
            env: env.clone(),
            files,
            about,
            bound,
            current: Cell::new(0),
            exists: Cell::new(false),
            part: Cell::new(0),
            len: Cell::new(0),
            is_torn: Cell::new(false),
            stuck: [Cell::new(false), Cell::new(false)],
        }
    }

    /// The name of the first file, which is the name of the log.
    pub(crate) fn name(&self) -> &'static str {
        self.files[0]
    }

    /// The content of the log, as a phrase for messages.
    pub(crate) fn about(&self) -> &'static str {
        self.about
    }

    /// Reads all lines and selects the file for the next append. An unreadable file is moved aside.
    pub(crate) async fn load<T: DeserializeOwned>(&self) -> Kept<T> {
        let (mut parts, mut troubles) = (Vec::new(), Vec::new());
        for index in 0..self.files.len() {
            match self.read(index).await {
                Ok(found) => parts.push(found),
                Err(why) => troubles.push(self.set_aside(index, why).await),
            }
        }
        // If neither has a number, only the first one was ever written.
        parts.sort_by_key(|found| (found.part, Reverse(found.index)));
        if let Some(Found { part, index, len, exists, is_torn, .. }) = parts.last() {
            self.part.set(*part);
            self.current.set(*index);
            self.len.set(*len);
            self.exists.set(*exists);
            self.is_torn.set(*is_torn);
        }
        Kept { lines: parts.into_iter().flat_map(|found| found.lines).collect(), troubles }
    }

    /// # Errors
    /// Why nothing in it is readable: the end of a sentence.
    async fn read<T: DeserializeOwned>(&self, index: usize) -> Result<Found<T>, String> {
        let file = self.files[index];
        let bytes = self.env.world().state().load(file).await.map_err(|error| error.to_string())?;
        let Some(bytes) = bytes else {
            return Ok(Found {
                part: 0,
                index,
                len: 0,
                exists: false,
                is_torn: false,
                lines: Vec::new(),
            });
        };
        let text = String::from_utf8_lossy(&bytes);
        let part = part_of(&text);
        let records = text.lines().filter(|line| !line.is_empty() && !line.starts_with(PART));
        let lines: Vec<T> = records.filter_map(|line| read_line(file, line)).collect();
        if lines.is_empty() {
            let why = if bytes.is_empty() { "it is empty" } else { "none of its lines is valid" };
            return Err(why.to_owned());
        }
        let is_torn = !text.ends_with('\n');
        Ok(Found { part, index, len: bytes.len(), exists: true, is_torn, lines })
    }

    async fn set_aside(&self, index: usize, why: String) -> Trouble {
        let (file, about) = (self.files[index], self.about);
        let place = match put_aside(self.env.world().state(), file, file).await {
            Ok(name) => Place::Aside(name),
            Err(stuck) => {
                self.stuck[index].set(true);
                Place::Stuck(stuck)
            }
        };
        Trouble { file, about, why, place, from_previous: false, is_complete: false }
    }

    /// Appends lines, each with its line end. If the file is full, the other one is replaced;
    /// `first` gives its first lines, which must survive the discarded lines.
    ///
    /// # Errors
    /// Why they are not stored: the end of a sentence.
    pub(crate) async fn append(
        &self,
        lines: &str,
        first: impl FnOnce() -> String,
    ) -> Result<(), String> {
        let state = self.env.world().state();
        let is_full = self.len.get() > 0 && self.len.get() + lines.len() > self.bound;
        let index = if is_full { 1 - self.current.get() } else { self.current.get() };
        let file = self.files[index];
        if self.stuck[index].get() {
            put_aside(state, file, file).await?;
            self.stuck[index].set(false);
        }
        let failed = |error: platform::Error| error.to_string();
        if is_full || !self.exists.get() {
            let part = self.part.get() + u64::from(is_full);
            let head = if is_full { format!("{PART}{part}}}\n{}", first()) } else { String::new() };
            let content = head + lines;
            let len = content.len();
            state.store(file, content.into_bytes()).await.map_err(failed)?;
            self.current.set(index);
            self.exists.set(true);
            self.part.set(part);
            self.len.set(len);
            self.is_torn.set(false);
            return Ok(());
        }
        let content = if self.is_torn.get() { format!("\n{lines}") } else { lines.to_owned() };
        let len = content.len();
        let appended = state.append(file, content.into_bytes()).await.map_err(failed);
        // A part may have been written. It is not counted: a full file system must not make a file
        // look full.
        self.is_torn.set(appended.is_err());
        appended.map(|()| self.len.set(self.len.get() + len))
    }
}

fn part_of(text: &str) -> u64 {
    let first = text.lines().next().unwrap_or_default();
    let number = first.strip_prefix(PART).and_then(|rest| rest.strip_suffix('}'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn read_line<T: DeserializeOwned>(file: &str, line: &str) -> Option<T> {
    match serde_json::from_str(line) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!("a line of {file} is invalid and was skipped: {error}");
            None
        }
    }
}

/// A line that waits to be stored.
#[derive(Debug)]
pub(crate) struct Line {
    number: u64,
    /// The subject of the line: a later line with the same key replaces it.
    key: u64,
    text: String,
}

/// Lines that wait to be stored, in order.
pub(crate) struct Waiting {
    lines: RefCell<VecDeque<Line>>,
    most: usize,
    /// The number of lines that are being stored.
    taken: Cell<usize>,
    /// The number of lines added, and the number of the newest stored line.
    added: Cell<u64>,
    stored: Cell<u64>,
}

impl Waiting {
    pub(crate) fn new(most: usize) -> Waiting {
        Waiting {
            lines: RefCell::default(),
            most,
            taken: Cell::new(0),
            added: Cell::new(0),
            stored: Cell::new(0),
        }
    }

    /// Adds a line without its line end; it replaces a line with the same key. Returns its number,
    /// and the oldest line if that was dropped for lack of space.
    pub(crate) fn add(&self, key: u64, text: String) -> (u64, Option<String>) {
        let mut lines = self.lines.borrow_mut();
        if let Some(at) = lines.iter().rposition(|line| line.key == key) {
            lines.remove(at);
        }
        let number = self.added.get() + 1;
        self.added.set(number);
        lines.push_back(Line { number, key, text });
        let dropped =
            if lines.len() + self.taken.get() > self.most { lines.pop_front() } else { None };
        (number, dropped.map(|line| line.text))
    }

    /// The number of lines added.
    pub(crate) fn added(&self) -> u64 {
        self.added.get()
    }

    /// Whether this line, or a later line with its key, is stored.
    pub(crate) fn is_stored(&self, number: u64) -> bool {
        self.stored.get() >= number
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.borrow().is_empty()
    }

    /// Takes the first lines to store them: at least one, and at most this many bytes in total.
    pub(crate) fn take(&self, bytes: usize) -> Vec<Line> {
        let mut lines = self.lines.borrow_mut();
        let (mut taken, mut len) = (Vec::new(), 0);
        while let Some(line) = lines.pop_front() {
            len += line.text.len() + 1;
            if len > bytes && !taken.is_empty() {
                lines.push_front(line);
                break;
            }
            taken.push(line);
        }
        self.taken.set(taken.len());
        taken
    }

    /// Records that taken lines are stored.
    pub(crate) fn are_stored(&self, lines: &[Line]) {
        self.taken.set(0);
        self.stored.set(lines.last().map_or(self.stored.get(), |line| line.number));
    }

    /// Puts taken lines back, since they could not be stored.
    pub(crate) fn give_back(&self, taken: Vec<Line>) {
        self.taken.set(0);
        let mut lines = self.lines.borrow_mut();
        for line in taken.into_iter().rev() {
            lines.push_front(line);
        }
    }
}

/// The lines in the format of the file.
pub(crate) fn text_of(lines: &[Line]) -> String {
    lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> String {
        text_of(lines).replace('\n', " ")
    }

    #[test]
    fn lines_are_taken_in_order_and_a_later_one_replaces_one_that_waits() {
        let waiting = Waiting::new(10);
        for (key, text) in [(1, "a"), (2, "b"), (1, "c"), (3, "d")] {
            assert_eq!(waiting.add(key, text.to_owned()).1, None);
        }
        let taken = waiting.take(4);
        assert_eq!(texts(&taken), "b c ");
        // A line that is being stored is not replaced.
        assert_eq!(waiting.add(2, "e".to_owned()).0, 5);
        waiting.give_back(taken);
        assert_eq!(texts(&waiting.take(100)), "b c d e ");
        assert!(!waiting.is_stored(1));
    }

    #[test]
    fn a_line_is_stored_when_it_or_a_later_one_of_its_key_is() {
        let waiting = Waiting::new(10);
        let (begun, _) = waiting.add(1, "begun".to_owned());
        let (done, _) = waiting.add(1, "done".to_owned());
        let taken = waiting.take(100);
        assert_eq!(texts(&taken), "done ");
        waiting.are_stored(&taken);
        assert!(
            waiting.is_stored(begun) && waiting.is_stored(done) && !waiting.is_stored(done + 1)
        );
    }

    #[test]
    fn where_there_is_no_room_the_oldest_line_is_given_back() {
        let waiting = Waiting::new(2);
        let dropped: Vec<Option<String>> =
            (0..4).map(|key| waiting.add(key, key.to_string()).1).collect();
        assert_eq!(dropped, [None, None, Some("0".to_owned()), Some("1".to_owned())]);
    }
}
