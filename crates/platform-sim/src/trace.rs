//! What happened: folded into a hash, and told to whoever listens.

use crate::rng::Fold;
use platform::{Instant, IoErrorKind};
use std::fmt;
use units::ByteRange;

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEvent<'a> {
    /// The code above took note of something (`Env::trace`).
    Note {
        /// Its name.
        name: &'a str,
        /// Its first number.
        a: u64,
        /// Its second number.
        b: u64,
    },
    /// A drive was given an operation.
    Started {
        /// Which drive.
        drive: &'a str,
        /// What kind of operation.
        operation: &'a str,
        /// Which bytes.
        range: ByteRange,
    },
    /// A drive returned an operation.
    Returned {
        /// Which drive.
        drive: &'a str,
        /// What kind of operation.
        operation: &'a str,
        /// Which bytes.
        range: ByteRange,
        /// How many bytes were moved, or why none.
        result: Result<u64, IoErrorKind>,
    },
    /// Something was done to a drive: a fault, a power cut.
    Drive {
        /// Which drive.
        drive: &'a str,
        /// What.
        name: &'a str,
    },
    /// A stream delivered a piece.
    Delivered {
        /// Which connection.
        connection: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Something happened to a process.
    Process {
        /// Which.
        process: u64,
        /// What.
        name: &'a str,
    },
}

/// One thing that happened, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord<'a> {
    /// When.
    pub at: Instant,
    /// What.
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
            TraceEvent::Delivered { connection, bytes } => write!(f, "stream {connection}: {bytes} bytes"),
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
            TraceEvent::Started { drive, operation, range } => fold_operation(hash, drive, operation, range),
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
