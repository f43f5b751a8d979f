//! The story of a run, a line an event: when, who, what, where; and its sum.

use crate::options::RequestName;
use crate::setup::Setup;
use crate::tally::Tally;
use env::Instant;
use layout::Role;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use units::{ByteCount, ByteRange, DriveIndex};
use world_sim::{TraceEvent, TraceRecord};

/// Lines that are remembered, to be told with a failure.
const REMEMBERED: usize = 60;

/// Outlives every simulation of a run, and the copies that are looked at after crashes.
pub struct Story {
    lines: RefCell<VecDeque<String>>,
    aloud: bool,
    /// Faults and operators' actions that happened, by their numbers.
    pub incidents: RefCell<BTreeSet<u64>>,
    /// Requests that were sent, in that order.
    pub requests: RefCell<Vec<RequestName>>,
    /// Whether what is told happens to copies of the drives, whose time is another.
    pub of_copies: Cell<bool>,
    tally: Cell<Tally>,
}

impl Story {
    /// Nothing has happened. `aloud`: it is printed while it happens.
    pub fn new(aloud: bool) -> Story {
        Story {
            lines: RefCell::default(),
            aloud,
            incidents: RefCell::default(),
            requests: RefCell::default(),
            of_copies: Cell::new(false),
            tally: Cell::default(),
        }
    }

    /// Whether it is printed.
    pub fn is_aloud(&self) -> bool {
        self.aloud
    }

    /// Tells a line: `what` was done by, or happened to, `who`.
    pub fn tell(&self, at: Instant, who: &str, what: &str) {
        let line = self.line(at, who, what);
        if self.aloud {
            println!("{line}");
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == REMEMBERED {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn line(&self, at: Instant, who: &str, what: &str) -> String {
        let copies = if self.of_copies.get() { "(copy) " } else { "" };
        format!("{:>16.6} ms  {copies}{who:<10} {what}", at.ns as f64 / 1e6)
    }

    /// The latest lines.
    pub fn latest(&self) -> Vec<String> {
        self.lines.borrow().iter().cloned().collect()
    }

    /// Tells what a simulation traced, in the volume's words.
    pub fn trace(&self, setup: &Setup, slot: Option<DriveIndex>, record: &TraceRecord<'_>) {
        let (who, what) = match record.event {
            TraceEvent::Note { name, a, b } => ("engine".to_owned(), format!("{name} {a} {b}")),
            TraceEvent::Started { drive, operation, range } => {
                (drive.to_owned(), format!("{operation}{} ...", place(setup, slot, range)))
            }
            TraceEvent::Returned { drive, operation, range, result } => {
                let end = match result {
                    Ok(_) => "done".to_owned(),
                    Err(kind) => format!("failed: {kind:?}"),
                };
                (drive.to_owned(), format!("{operation}{} {end}", place(setup, slot, range)))
            }
            TraceEvent::Drive { drive, name } => (drive.to_owned(), name.to_owned()),
            TraceEvent::Delivered { connection, bytes } => {
                (format!("stream {connection}"), format!("{bytes} bytes"))
            }
            TraceEvent::Process { process, name } => (format!("process {process}"), name.to_owned()),
        };
        println!("{}", self.line(record.at, &who, &what));
    }

    /// Counts.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// The sum so far.
    pub fn tally(&self) -> Tally {
        self.tally.get()
    }
}

/// The drive that a traced event is about.
pub fn drive_of<'a>(event: &TraceEvent<'a>) -> Option<&'a str> {
    match event {
        TraceEvent::Started { drive, .. }
        | TraceEvent::Returned { drive, .. }
        | TraceEvent::Drive { drive, .. } => Some(drive),
        _ => None,
    }
}

/// Where on a drive, in the volume's words; empty for no range.
fn place(setup: &Setup, slot: Option<DriveIndex>, range: ByteRange) -> String {
    if range.is_empty() {
        return String::new();
    }
    let bytes = format!(" {} bytes at {}", range.len.0, range.start.0);
    let located = slot.and_then(|slot| setup.geometry.locate(slot, range.start));
    match located.filter(|_| range.start.0 < setup.geometry.member_size().0) {
        Some(at) => {
            let role = match at.role {
                Role::Data { index, copy } if copy.0 == 0 => format!("data {}", index.0),
                Role::Data { index, copy } => format!("copy {} of data {}", copy.0, index.0),
                Role::P => "P".to_owned(),
                Role::Q => "Q".to_owned(),
                Role::Spare => "spare".to_owned(),
            };
            format!("{bytes} (stripe {} {role} +{})", at.stripe.0, at.within.0)
        }
        None => format!("{bytes} (metadata{})", from_end(setup, slot, range.start.0)),
    }
}

fn from_end(setup: &Setup, slot: Option<DriveIndex>, start: u64) -> String {
    let Some(drive) = slot.and_then(|slot| setup.drives.get(slot.as_usize())) else { return String::new() };
    let ByteCount(size) = drive.size;
    if start < size { format!(", {} before the end", size - start) } else { String::new() }
}
