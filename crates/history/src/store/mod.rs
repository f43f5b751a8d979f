//! The history file: minutes for a day, and quarters of an hour for thirty days, in SQLite.
//!
//! One thread owns the connection: it opens the file, writes, rolls up, deletes and queries.
//! Callers do not wait for writes. Each batch is one transaction, durable on commit.

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

/// The kind of a subject.
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
    /// Its kind.
    pub kind: Kind,
    /// Its unique key, constant for its lifetime.
    pub key: String,
    /// Its current name.
    pub name: String,
}

/// An interval of a subject. Rows with the same start are added up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The subject.
    pub subject: Subject,
    /// Its start, in seconds since 1970: a whole minute.
    pub at_s: u64,
    /// The operations.
    pub interval: Interval,
}

/// The size limit of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of the database, without its WAL of a few MiB.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 120 << 20 }
    }
}

/// A report for an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The file cannot be used; it was moved aside and replaced by a new one.
    SetAside {
        /// Why: a clause that completes a message.
        why: String,
        /// Its new name.
        now_at: String,
    },
    /// History is not stored. Reported once, until it is stored again.
    NotStored {
        /// Why: a clause that completes a message.
        why: String,
    },
    /// History is stored again.
    StoredAgain,
}

/// The limit of queued requests.
const WAITING: usize = 8;

/// A request to the thread.
enum Request {
    Write { rows: Vec<Row>, now_s: u64 },
    Read(Box<Read>),
    Close,
}

/// A query: subjects, range and length of points.
struct Read {
    kind: Option<Kind>,
    name: Option<String>,
    from_s: u64,
    to_s: u64,
    /// Returns the length of points, given the start of the stored minutes.
    step_s: Box<dyn FnOnce(Option<u64>) -> u64 + Send>,
    answer: mpsc::Sender<Result<Points, String>>,
}

/// The history file and its thread.
pub struct Store {
    orders: SyncSender<Request>,
    thread: Option<JoinHandle<()>>,
    /// Disconnects when the thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    path: PathBuf,
}

/// The time limit for the thread at shutdown: a hanging file system must not block it.
const LAST_WRITE: Duration = Duration::from_secs(5);

impl Store {
    /// Opens or creates the file on its own thread. `notice` is called there.
    ///
    /// # Errors
    /// When no thread can be started.
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

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Queues rows. Returns them if the queue is full or the thread has ended.
    ///
    /// # Errors
    /// The rows.
    pub fn write(&self, rows: Vec<Row>, now_s: u64) -> Result<(), Vec<Row>> {
        self.orders.try_send(Request::Write { rows, now_s }).map_err(|error| match error {
            TrySendError::Full(Request::Write { rows, .. })
            | TrySendError::Disconnected(Request::Write { rows, .. }) => rows,
            _ => Vec::new(),
        })
    }

    /// Sends a query and waits for the result.
    ///
    /// # Errors
    /// Why it fails. The error is a clause that completes a message.
    fn read(
        &self,
        read: Read,
        answered: &mpsc::Receiver<Result<Points, String>>,
    ) -> Result<Points, String> {
        let gone = || "the thread of the history has ended".to_owned();
        self.orders.send(Request::Read(Box::new(read))).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Stored intervals, merged into points.
    ///
    /// # Errors
    /// Why they cannot be read. The error is a clause that completes a message.
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

    /// Waits until all queued rows are written or have failed, up to a time limit.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A slow thread is abandoned, and its unwritten rows are lost.
        let deadline = Instant::now() + LAST_WRITE;
        while let Err(TrySendError::Full(_)) = self.orders.try_send(Request::Close) {
            if Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}
