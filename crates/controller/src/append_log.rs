//! A log that lines are appended to, in two files of the state folder that are written in turn.
//!
//! **Owns** which of the two files is written, and how long it is.
//!
//! **Invariants.** Each file is at most as long as its bound and the lines of one append more. A line that was stored stays
//! until the other file is full: of what was appended, the newest lines of at least one bound are kept. A file is begun anew
//! in one step with its number in its first line, so that a crash leaves either the old file or the new one.
//!
//! **Fault model.** A crash or an append that fails may leave a part of a line: the next append begins with a line end, and
//! a part of a line is no JSON. Beginning a file anew needs no more space than the old one took, so that a full file system
//! does not stop it.

use env::{Env, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The first line of a file that was begun anew: its number, which is higher than that of the other file.
const PART: &str = "{\"part\":";

/// See the [module](self).
pub(crate) struct AppendLog {
    env: Env,
    files: [&'static str; 2],
    /// A file that is as long is full.
    bound: usize,
    /// Which file is written.
    current: Cell<usize>,
    part: Cell<u64>,
    len: Cell<usize>,
    /// Whether the file may end in a part of a line.
    is_torn: Cell<bool>,
}

impl AppendLog {
    pub(crate) fn new(env: &Env, files: [&'static str; 2], bound: usize) -> AppendLog {
        AppendLog {
            env: env.clone(),
            files,
            bound,
            current: Cell::new(0),
            part: Cell::new(0),
            len: Cell::new(0),
            is_torn: Cell::new(false),
        }
    }

    /// Reads all lines, oldest first, and finds where the next one goes.
    ///
    /// # Errors
    /// When a file cannot be read: lines are appended to the first one then.
    pub(crate) async fn load(&self) -> Result<Vec<String>> {
        let mut parts = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let bytes = self.env.world().state().load(file).await?.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            parts.push((part_of(&text), index, bytes.len(), text));
        }
        // Where neither has a number, only the first one was ever written.
        parts.sort_by_key(|(part, index, ..)| (*part, std::cmp::Reverse(*index)));
        if let Some((part, index, len, text)) = parts.last() {
            self.part.set(*part);
            self.current.set(*index);
            self.len.set(*len);
            self.is_torn.set(!text.is_empty() && !text.ends_with('\n'));
        }
        let lines = parts.iter().flat_map(|(.., text)| text.lines());
        Ok(lines.filter(|line| !line.is_empty() && !line.starts_with(PART)).map(str::to_owned).collect())
    }

    /// Appends lines, each with its end. Where the file is full, the other one is begun anew, with `first` as its first
    /// lines: what must not go with the lines that are given up.
    ///
    /// # Errors
    /// When they are not stored.
    pub(crate) async fn append(&self, lines: &str, first: impl FnOnce() -> String) -> Result<()> {
        let state = self.env.world().state();
        if self.len.get() > 0 && self.len.get() + lines.len() > self.bound {
            let (other, part) = (1 - self.current.get(), self.part.get() + 1);
            let content = format!("{PART}{part}}}\n{}{lines}", first());
            let len = content.len();
            state.store(self.files[other], content.into_bytes()).await?;
            self.current.set(other);
            self.part.set(part);
            self.len.set(len);
            self.is_torn.set(false);
            return Ok(());
        }
        let content = if self.is_torn.get() { format!("\n{lines}") } else { lines.to_owned() };
        let len = content.len();
        let appended = state.append(self.files[self.current.get()], content.into_bytes()).await;
        // A part of it may be there. It is not counted: a full file system must not make a file look full.
        self.is_torn.set(appended.is_err());
        appended.map(|()| self.len.set(self.len.get() + len))
    }
}

fn part_of(text: &str) -> u64 {
    let first = text.lines().next().unwrap_or_default();
    let number = first.strip_prefix(PART).and_then(|rest| rest.strip_suffix('}'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Lines that wait to be stored, in order.
#[derive(Default)]
pub(crate) struct Waiting {
    lines: RefCell<VecDeque<String>>,
    /// How many lines were added, and how many of these are stored.
    added: Cell<u64>,
    stored: Cell<u64>,
}

impl Waiting {
    /// Adds a line, without its end. Its number: it is stored when as many are.
    pub(crate) fn add(&self, line: String) -> u64 {
        self.lines.borrow_mut().push_back(line);
        self.added.set(self.added.get() + 1);
        self.added.get()
    }

    /// Whether the line of that number is stored.
    pub(crate) fn is_stored(&self, number: u64) -> bool {
        self.stored.get() >= number
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lines.borrow().len()
    }

    /// All that wait now, each with its end, and how many.
    pub(crate) fn all(&self) -> (String, usize) {
        let lines = self.lines.borrow();
        (lines.iter().flat_map(|line| [line, "\n"]).collect(), lines.len())
    }

    /// The first `count` are stored.
    pub(crate) fn are_stored(&self, count: usize) {
        self.lines.borrow_mut().drain(..count);
        self.stored.set(self.stored.get() + count as u64);
    }
}
