//! Trace events: added to the run's hash and passed to a listener.

use crate::rng::Fold;
use platform::{Instant, IoErrorKind};
use std::fmt;
use units::ByteRange;

/// An event of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEvent<'a> {
    /// The tested code recorded an event (`Env::trace`).
    Note {
        /// Its name.
        name: &'a str,
        /// Its first number.
        a: u64,
        /// Its second number.
        b: u64,
    },
    /// A drive received an operation.
    Started {
        /// The drive.
        drive: &'a str,
        /// The kind of operation.
        operation: &'a str,
        /// The byte range.
        range: ByteRange,
    },
    /// A drive returned an operation.
    Returned {
        /// The drive.
        drive: &'a str,
        /// The kind of operation.
        operation: &'a str,
        /// The byte range.
        range: ByteRange,
        /// The number of bytes transferred, or the error.
        result: Result<u64, IoErrorKind>,
    },
    /// The state of a drive changed: a fault, a power cut.
    Drive {
        /// The drive.
        drive: &'a str,
        /// The change.
        name: &'a str,
    },
    /// A stream delivered a fragment.
    Delivered {
        /// The connection.
        connection: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// The state of a process changed.
    Process {
        /// The process.
        process: u64,
        /// The change.
        name: &'a str,
    },
}

/// An event and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord<'a> {
    /// The time.
    pub at: Instant,
    /// The event.
    pub event: TraceEvent<'a>,
}

impl fmt::Display for TraceRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.at)?;
        match self.event {
            TraceEvent::Note { name, a, b } => write!(f, "{name} {a} {b}"),
            TraceEvent::Started { drive, operation, range } => {
                write!(f, "{drive}: {operation} {range:?} ...")
            }
            TraceEvent::Returned { drive, operation, range, result: Ok(bytes) } => {
                write!(f, "{drive}: {operation} {range:?} moved {bytes}")
            }
            TraceEvent::Returned { drive, operation, range, result: Err(kind) } => {
                write!(f, "{drive}: {operation} {range:?} {kind:?}")
            }
            TraceEvent::Drive { drive, name } => write!(f, "{drive}: {name}"),
            TraceEvent::Delivered { connection, bytes } => {
                write!(f, "stream {connection}: {bytes} bytes")
            }
            TraceEvent::Process { process, name } => write!(f, "process {process}: {name}"),
        }
    }
}

type Listener = Box<dyn FnMut(&TraceRecord<'_>)>;

pub(crate) struct Trace {
    hash: Fold,
    listener: Option<Listener>,
}

impl Trace {
    pub fn new() -> Trace {
        Trace { hash: Fold::new(0), listener: None }
    }

    pub fn listen(&mut self, listener: Option<Listener>) {
        self.listener = listener;
    }

    pub fn hash(&self) -> Fold {
        self.hash
    }

    pub fn record(&mut self, at: Instant, event: TraceEvent<'_>) {
        let hash = &mut self.hash;
        hash.number(at.ns);
        match event {
            TraceEvent::Note { name, a, b } => {
                hash.text(name);
                hash.number(a);
                hash.number(b);
            }
            TraceEvent::Started { drive, operation, range } => {
                fold_operation(hash, drive, operation, range)
            }
            TraceEvent::Returned { drive, operation, range, result } => {
                fold_operation(hash, drive, operation, range);
                hash.number(match result {
                    Ok(bytes) => bytes,
                    Err(kind) => u64::MAX - kind as u64,
                });
            }
            TraceEvent::Drive { drive, name } => {
                hash.text(drive);
                hash.text(name);
            }
            TraceEvent::Delivered { connection, bytes } => {
                hash.number(connection);
                hash.number(bytes);
            }
            TraceEvent::Process { process, name } => {
                hash.number(process);
                hash.text(name);
            }
        }
        if let Some(listener) = &mut self.listener {
            listener(&TraceRecord { at, event });
        }
    }
}

fn fold_operation(hash: &mut Fold, drive: &str, operation: &str, range: ByteRange) {
    hash.text(drive);
    hash.text(operation);
    hash.number(range.start.0);
    hash.number(range.len.0);
}
