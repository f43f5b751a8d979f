//! Model of a destage that writes redundancy first: every order of its steps, with a crash after
//! each, and again in the replay, any number of times.
//!
//! The real code is [`write_log::Destages`], which decides the next step of a plan and the counting
//! records, and [`write_log::Column`], which assigns redundancy strips to plans after a crash.
//! Hosts, drives and the log's places are minimal models.
//!
//! - A stripe has two or three data strips, one or two redundancy strips, and one or two columns. A
//!   strip of a column is an element of the field of four, which has enough coefficients of Q. The
//!   code is linear, and only equality of checksums decides: so the old content is zero, and
//!   factors do not matter. All combinations of values are tried (see `scenes`), including those
//!   that are equal by chance.
//! - A drive has, for each strip, its latest value, which a read returns, and the set of values
//!   that a power cut may leave.
//! - A crash is a kill or a power cut, with the loss of any drives that the level survives, and of
//!   one of two log devices. Records under way are on any subset of their places.
//! - After a crash the columns are checked one by one: they share only the order of the log and the
//!   offline drives.
//! - Drives fail between any two steps, and the failure is recorded at once: until then, the step
//!   counts as not done. They return empty, and are rebuilt before they are current.
//!
//! Records are either whole or absent (`tests/model` tears them, their notices and the ring), and
//! checksums are equal where contents are.

mod crash;
mod defects;
mod drive;
mod field;
mod replay;
mod run;
mod scenes;
mod steps;
mod walk;

use defects::Defect;
use drive::{Cell, Cells};
use smallvec::SmallVec;
use units::ByteCount;
use write_log::{Begun, Destages, FlushBegun, Logged, NOTICES};

const BLOCK: u64 = write_log::BLOCK.0;
/// The most data strips, drives and columns.
const STRIPS: usize = 3;
const DRIVES: usize = 5;
const COLUMNS: usize = 2;
/// A column outside the model: its logged data stay dirty, and keep later records in the log.
const ELSEWHERE: usize = COLUMNS;

/// A host's write of a strip of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct StripWrite {
    column: usize,
    strip: usize,
    value: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Job {
    /// One data record.
    Log(Vec<StripWrite>),
    /// The only column as a whole, without a record.
    Whole([u8; STRIPS]),
}

/// The place of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LogPlace {
    /// On the members: each record has one copy more than the number of drives that may be lost.
    Members,
    /// On two devices.
    Devices,
}

#[derive(Clone, Debug)]
struct Setup {
    data: usize,
    redundancy: usize,
    columns: usize,
    jobs: Vec<Job>,
    place: LogPlace,
    /// A write is acknowledged when persistent memory has it.
    memory: bool,
    /// The drives that fail and return at run time.
    fails: u8,
    returns: u8,
    /// The log devices that fail at run time.
    device_fails: u8,
    /// During a replay, a host writes 3 to strip 1, which is logged.
    serves: bool,
    /// A log of an earlier start, and a discarded one, are readable as well.
    has_older: bool,
    defect: Defect,
}

impl Setup {
    fn drives(&self) -> usize {
        self.data + self.redundancy
    }

    fn redundancy_drives(&self) -> std::ops::Range<usize> {
        self.data..self.drives()
    }

    /// The content of a drive for a column with these data.
    fn cell_of(&self, drive: usize, data: &[u8; STRIPS]) -> u8 {
        match drive.checked_sub(self.data) {
            None => data[drive],
            Some(redundancy) => field::redundancy(redundancy, &data[..self.data]),
        }
    }

    /// The number of places of a log: one on each drive, or each device.
    fn homes(&self) -> usize {
        match self.place {
            LogPlace::Members => self.drives(),
            LogPlace::Devices => 2,
        }
    }
}

/// The part of a plan in a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PlanPart {
    column: usize,
    data: SmallVec<[Logged; 4]>,
    sums: SmallVec<[u8; 2]>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Content {
    Data(SmallVec<[StripWrite; 2]>),
    Intent(SmallVec<[PlanPart; 2]>),
}

/// A record that counts, or is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    begun: Begun,
    /// Its present or future places, by bit.
    copies: u8,
    is_durable: bool,
    content: Content,
}

/// A write to a drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Write {
    drive: usize,
    column: usize,
    value: u8,
}

/// A plan that has begun.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Active {
    number: u64,
    is_whole: bool,
    notes: SmallVec<[PlanPart; 2]>,
    redundancy: SmallVec<[Write; 4]>,
    data: SmallVec<[Write; 4]>,
}

/// A flush under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Flush {
    begun: FlushBegun,
    /// By column and drive: the values that a power cut may leave after it.
    then: [[u8; DRIVES]; COLUMNS],
    /// Whether a full-stripe write was done before it began.
    covers_whole: bool,
}

/// The values that may be read of a strip.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct AllowedValues {
    /// The values, by bit.
    values: u8,
    /// The record that determined them.
    by: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    cells: [Cells; COLUMNS],
    /// The content of the columns by the plans that have begun.
    truth: [[u8; STRIPS]; COLUMNS],
    sure: [[AllowedValues; STRIPS]; COLUMNS],
    /// Failed drives, fenced log devices, and places without further writes, by bit.
    failed: u8,
    fenced: u8,
    deaf: u8,
    log: Vec<Entry>,
    ring: Destages,
    job: usize,
    /// Logged, durable data without a plan.
    dirty: Vec<(u64, StripWrite)>,
    active: Vec<Active>,
    flush: Option<Flush>,
    /// The writes of a full-stripe write that is under way, without a record.
    whole: SmallVec<[Write; 5]>,
    /// A full-stripe write is under way, or not flushed: its strips are `sure` by this number at
    /// most.
    loose: Option<u64>,
    fails: u8,
    returns: u8,
    device_fails: u8,
    /// For planted defects only: a write was skipped; the drives that plans have written to.
    skipped: bool,
    wrote: u8,
}

fn start(setup: &Setup) -> State {
    State {
        cells: [[Cell::of(0); DRIVES]; COLUMNS],
        truth: [[0; STRIPS]; COLUMNS],
        sure: [[AllowedValues { values: 1, by: 0 }; STRIPS]; COLUMNS],
        failed: 0,
        fenced: 0,
        deaf: 0,
        log: Vec::new(),
        ring: Destages::new(ByteCount(BLOCK * (NOTICES + 60))),
        job: 0,
        dirty: Vec::new(),
        active: Vec::new(),
        flush: None,
        whole: SmallVec::new(),
        loose: None,
        fails: setup.fails,
        returns: setup.returns,
        device_fails: setup.device_fails,
        skipped: false,
        wrote: 0,
    }
}
