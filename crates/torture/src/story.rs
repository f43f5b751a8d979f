//! The log of a run ("story"), one line per event: time, subject, event; and its totals.

use crate::options::RequestName;
use crate::scene::Scene;
use crate::tally::Tally;
use layout::Role;
use platform::Instant;
use platform_sim::{TraceEvent, TraceRecord};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{ByteOffset, ByteRange};

/// The number of lines kept, to be printed with a failure.
const REMEMBERED: usize = 60;

/// The latest lines, for the thread that detects endless loops.
#[derive(Default)]
pub(crate) struct Lines {
    latest: Mutex<VecDeque<String>>,
    told: AtomicU64,
}

impl Lines {
    fn push(&self, line: String) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == REMEMBERED {
            latest.pop_front();
        }
        latest.push_back(line);
        self.told.fetch_add(1, Ordering::Relaxed);
    }

    /// The latest lines.
    pub(crate) fn latest(&self) -> Vec<String> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The number of lines so far.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }
}

/// Outlives every simulation of a run, also those over copies.
pub struct Story {
    lines: Arc<Lines>,
    aloud: bool,
    /// Faults and operator actions that happened, by their numbers.
    pub incidents: RefCell<BTreeSet<u64>>,
    /// Requests that were sent, in order.
    pub requests: RefCell<Vec<RequestName>>,
    /// Whether events belong to a simulation over copies, which has its own time.
    pub of_copies: Cell<bool>,
    tally: Cell<Tally>,
    tally_of_neighbours: Cell<Tally>,
}

impl Story {
    /// An empty story. `aloud`: prints each line at once.
    pub fn new(aloud: bool) -> Story {
        Story {
            lines: Arc::default(),
            aloud,
            incidents: RefCell::default(),
            requests: RefCell::default(),
            of_copies: Cell::new(false),
            tally: Cell::default(),
            tally_of_neighbours: Cell::default(),
        }
    }

    /// Whether lines are printed at once.
    pub fn is_aloud(&self) -> bool {
        self.aloud
    }

    /// Adds a line: subject `who`, event `what`.
    pub fn tell(&self, at: Instant, who: &str, what: &str) {
        let line = self.line(at, who, what);
        if self.aloud {
            println!("{line}");
        }
        self.lines.push(line);
    }

    /// The latest lines, for another thread.
    pub(crate) fn lines(&self) -> Arc<Lines> {
        self.lines.clone()
    }

    fn line(&self, at: Instant, who: &str, what: &str) -> String {
        let copies = if self.of_copies.get() { "(copy) " } else { "" };
        format!("{:>16.6} ms  {copies}{who:<10} {what}", at.ns as f64 / 1e6)
    }

    /// The latest lines.
    pub fn latest(&self) -> Vec<String> {
        self.lines.latest()
    }

    /// Adds an event that a simulation traced, with positions in the volumes.
    pub fn trace(&self, volumes: &[Rc<Scene>], record: &TraceRecord<'_>) {
        let (who, what) = match record.event {
            TraceEvent::Note { name, a, b } => ("engine".to_owned(), format!("{name} {a} {b}")),
            TraceEvent::Started { drive, operation, range } => {
                (drive.to_owned(), format!("{operation}{} ...", place(volumes, drive, range)))
            }
            TraceEvent::Returned { drive, operation, range, result } => {
                let end = match result {
                    Ok(_) => "done".to_owned(),
                    Err(kind) => format!("failed: {kind:?}"),
                };
                (drive.to_owned(), format!("{operation}{} {end}", place(volumes, drive, range)))
            }
            TraceEvent::Drive { drive, name } => (drive.to_owned(), name.to_owned()),
            TraceEvent::Delivered { connection, bytes } => {
                (format!("stream {connection}"), format!("{bytes} bytes"))
            }
            TraceEvent::Process { process, name } => {
                (format!("process {process}"), name.to_owned())
            }
        };
        println!("{}", self.line(record.at, &who, &what));
    }

    /// Updates the totals, of the first volume or of its neighbours.
    pub fn count(&self, of_neighbours: bool, change: impl FnOnce(&mut Tally)) {
        let cell = if of_neighbours { &self.tally_of_neighbours } else { &self.tally };
        let mut tally = cell.get();
        change(&mut tally);
        cell.set(tally);
    }

    /// The totals so far of the first volume.
    pub fn tally(&self) -> Tally {
        self.tally.get()
    }

    /// The totals so far of its neighbours.
    pub fn tally_of_neighbours(&self) -> Tally {
        self.tally_of_neighbours.get()
    }
}

/// A drive range as a position in the volume; empty for an empty range.
fn place(volumes: &[Rc<Scene>], drive: &str, range: ByteRange) -> String {
    if range.is_empty() {
        return String::new();
    }
    let bytes = format!(" {} bytes at {}", range.len.0, range.start.0);
    let located = volumes.iter().find_map(|volume| located(volume, drive, range.start));
    match located {
        Some(place) => format!("{bytes} ({place})"),
        None => format!("{bytes} (metadata{})", from_end(volumes, drive, range.start.0)),
    }
}

fn located(volume: &Scene, drive: &str, at: ByteOffset) -> Option<String> {
    let (setup, slot) = (&volume.setup, volume.array.slot_of(drive)?);
    let layout = volume.layout();
    let within = at.0.checked_sub(setup.start.0).filter(|at| *at < layout.member_size().0)?;
    let at = layout.locate(slot, ByteOffset(within))?;
    let role = match at.role {
        Role::Data { index, copy } if copy.0 == 0 => format!("data {}", index.0),
        Role::Data { index, copy } => format!("copy {} of data {}", copy.0, index.0),
        Role::P => "P".to_owned(),
        Role::Q => "Q".to_owned(),
        Role::Spare => "spare".to_owned(),
    };
    let of = if setup.is_neighbour() { "w: " } else { "" };
    Some(format!("{of}stripe {} {role} +{}", at.stripe.0, at.within.0))
}

fn from_end(volumes: &[Rc<Scene>], drive: &str, start: u64) -> String {
    let slot = |volume: &Rc<Scene>| volume.array.slot_of(drive).map(|slot| (volume.clone(), slot));
    let size = volumes.iter().find_map(slot).and_then(|(volume, slot)| {
        volume.setup.drives.get(slot.as_usize()).map(|drive| drive.size.0)
    });
    match size {
        Some(size) if start < size => format!(", {} before the end", size - start),
        _ => String::new(),
    }
}
