//! The file: intervals of one minute for a day, and of fifteen minutes for thirty days, in SQLite.
//!
//! One thread has the connection: it opens the file, writes, rolls up, deletes and answers. Whoever hands rows over does not wait.
//! Each batch is one transaction, durable when it is committed.

mod schema;
mod tables;
mod thread;

use crate::interval::Interval;
use crate::series::Points;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a history is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A volume.
    Volume,
    /// A drive.
    Drive,
}

/// A volume or a drive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Subject {
    /// Which of both.
    pub kind: Kind,
    /// What tells it from others, for as long as it lives.
    pub key: String,
    /// How it is called now.
    pub name: String,
}

/// An interval of a subject. Rows of the same beginning are added up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Of which.
    pub subject: Subject,
    /// When it begins, in seconds since 1970: a whole minute.
    pub at_s: u64,
    /// What was done.
    pub interval: Interval,
}

/// How large the file may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of the database. Its journal takes a few MiB besides.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 120 << 20 }
    }
}

/// What an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The file cannot be used: it was moved aside, and a new one begun.
    SetAside {
        /// Why: the end of a sentence.
        why: String,
        /// Its name now.
        now_at: String,
    },
    /// History is not stored. It is told once, until it is stored again.
    NotStored {
        /// Why: the end of a sentence.
        why: String,
    },
    /// History is stored again.
    StoredAgain,
}

/// Batches that may wait for the thread.
const WAITING: usize = 8;

/// What the thread is asked.
enum Order {
    Write { rows: Vec<Row>, now_s: u64 },
    Read(Box<Read>),
    Close,
}

/// A question: which subjects, when, in points of which length.
struct Read {
    kind: Option<Kind>,
    name: Option<String>,
    from_s: u64,
    to_s: u64,
    /// Gives the length of points, by the beginning of the minutes that are kept.
    step_s: Box<dyn FnOnce(Option<u64>) -> u64 + Send>,
    answer: mpsc::Sender<Result<Points, String>>,
}

/// The file, and the thread that has it.
pub struct Store {
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<()>>,
    /// Breaks off when the thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    path: PathBuf,
}

/// How long the end waits for the thread: a file system that hangs keeps nobody from ending.
const LAST_WRITE: Duration = Duration::from_secs(5);

impl Store {
    /// Opens the file on a thread of its own, which also makes it. `notice` is called there.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn open(
        path: &Path,
        limits: Limits,
        notice: impl Fn(Notice) + Send + 'static,
    ) -> std::io::Result<Store> {
        let (orders, receiver) = mpsc::sync_channel(WAITING);
        let (ending, ended) = mpsc::channel();
        let here = path.to_owned();
        let thread = std::thread::Builder::new().name("history".into()).spawn(move || {
            let _ending: mpsc::Sender<()> = ending;
            thread::run(&here, limits, &receiver, &notice);
        })?;
        Ok(Store { orders, thread: Some(thread), ended: Mutex::new(ended), path: path.to_owned() })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands rows over. They come back if the thread is too far behind, or gone.
    ///
    /// # Errors
    /// The rows.
    pub fn write(&self, rows: Vec<Row>, now_s: u64) -> Result<(), Vec<Row>> {
        self.orders.try_send(Order::Write { rows, now_s }).map_err(|error| match error {
            TrySendError::Full(Order::Write { rows, .. })
            | TrySendError::Disconnected(Order::Write { rows, .. }) => rows,
            _ => Vec::new(),
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Why it cannot be had: the end of a sentence.
    fn read(&self, read: Read, answered: &mpsc::Receiver<Result<Points, String>>) -> Result<Points, String> {
        let gone = || "the thread of the history has ended".to_owned();
        self.orders.send(Order::Read(Box::new(read))).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Intervals of the file, added up as points.
    ///
    /// # Errors
    /// Why they cannot be read: the end of a sentence.
    pub(crate) fn points(
        &self,
        (kind, name): (Option<Kind>, Option<String>),
        (from_s, to_s): (u64, u64),
        step_s: impl FnOnce(Option<u64>) -> u64 + Send + 'static,
    ) -> Result<Points, String> {
        let (answer, answered) = mpsc::channel();
        let step_s = Box::new(step_s);
        self.read(Read { kind, name, from_s, to_s, step_s, answer }, &answered)
    }

    /// Waits until everything that was handed over is written, or cannot be; not for long.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A thread that has ended needs no order. One that is behind ends with the process: what it has not written is lost.
        let deadline = Instant::now() + LAST_WRITE;
        while let Err(TrySendError::Full(_)) = self.orders.try_send(Order::Close) {
            if Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
            // What it panicked of was printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}
