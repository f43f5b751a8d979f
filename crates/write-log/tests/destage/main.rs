//! Destage with redundancy first, tried in every order in which its steps can happen, with a crash after each of them, and again
//! in the replay, any number of times.
//!
//! What is real are [`write_log::Destages`], which says what a plan may do next and which records still count, and [`write_log::Column`],
//! which says after a crash what each redundancy strip stands for. Hosts, drives and the log's places are as small as they can be.
//!
//! - A stripe of two or three data strips and one or two redundancy strips, one or two columns wide. A strip of a column is an
//!   element of the field of four, which has as many different coefficients of Q as there are strips. The code is linear, and
//!   nothing but equality of checksums decides: so the old content is zero, and a factor does not matter. Values are tried in all
//!   combinations (see `scenes`), so those that are equal by chance are among them.
//! - Of each strip a drive has what it was sent last, which is what a read sees, and the set of what a power cut may leave.
//! - A crash is a kill or a power cut. With it any drives are lost, up to what the level survives, and any one of two log devices.
//!   Records that were under way are on any part of their places.
//! - After a crash the columns are looked at one by one: of what couples them, nothing is left but the order of the log and the
//!   drives that are out.
//! - Drives fail between any two steps, and that is recorded at once: until it is, none of the protocol's steps can be told from one
//!   that has not been done yet. They come back empty, and are written again before they are current.
//!
//! Records are whole or not there (`tests/model` tears them, their notices and the ring), and checksums are equal where contents are.

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
/// Most data strips, most drives, most columns.
const STRIPS: usize = 3;
const DRIVES: usize = 5;
const COLUMNS: usize = 2;
/// A column that is not looked at: what is logged for it stays dirty, and keeps what is behind it in the log.
const ELSEWHERE: usize = COLUMNS;

/// What a host writes: a strip of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Put {
    column: usize,
    strip: usize,
    value: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Job {
    /// One data record.
    Log(Vec<Put>),
    /// The only column as a whole, not logged.
    Whole([u8; STRIPS]),
}

/// Where the log lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// On the members: each record on as many as may be lost, and one more.
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
    place: Place,
    /// A write is answered when memory has it that outlives the process.
    memory: bool,
    /// So many drives fail while the machine runs, so many come back.
    fails: u8,
    returns: u8,
    /// So many log devices fail while the machine runs.
    device_fails: u8,
    /// While a replay goes on, a host writes 3 to strip 1, and that is logged.
    serves: bool,
    /// A log of an earlier start, and one that was discarded, can be read too.
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

    /// What a drive holds of a column with these data.
    fn cell_of(&self, drive: usize, data: &[u8; STRIPS]) -> u8 {
        match drive.checked_sub(self.data) {
            None => data[drive],
            Some(redundancy) => field::redundancy(redundancy, &data[..self.data]),
        }
    }

    /// How many places of a log there are: one on each drive, or each device.
    fn homes(&self) -> usize {
        match self.place {
            Place::Members => self.drives(),
            Place::Devices => 2,
        }
    }
}

/// A plan's part of a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Noted {
    column: usize,
    data: SmallVec<[Logged; 4]>,
    sums: SmallVec<[u8; 2]>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Content {
    Data(SmallVec<[Put; 2]>),
    Intent(SmallVec<[Noted; 2]>),
}

/// A record that counts, or is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    begun: Begun,
    /// By home: where it is, or is going to be.
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
    notes: SmallVec<[Noted; 2]>,
    redundancy: SmallVec<[Write; 4]>,
    data: SmallVec<[Write; 4]>,
}

/// A flush under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Flush {
    begun: FlushBegun,
    /// By column and drive: what a power cut may leave when it is done.
    then: [[u8; DRIVES]; COLUMNS],
    /// A whole stripe was written before it began.
    covers_whole: bool,
}

/// What may be read of a strip.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Sure {
    /// The values, by bit.
    values: u8,
    /// The record that said so.
    by: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    cells: [Cells; COLUMNS],
    /// What columns hold by the plans that have begun.
    truth: [[u8; STRIPS]; COLUMNS],
    sure: [[Sure; STRIPS]; COLUMNS],
    /// Drives that are recorded as failed, log devices that are fenced, and those that get nothing any more, by bit.
    failed: u8,
    fenced: u8,
    deaf: u8,
    log: Vec<Entry>,
    ring: Destages,
    job: usize,
    /// What is logged, durable, and in no plan yet.
    dirty: Vec<(u64, Put)>,
    active: Vec<Active>,
    flush: Option<Flush>,
    /// The writes of a whole stripe that is being written, without a record.
    whole: SmallVec<[Write; 5]>,
    /// A whole stripe is being written, or was, and no flush has covered it: strips are `sure` by this number, and by none later.
    loose: Option<u64>,
    fails: u8,
    returns: u8,
    device_fails: u8,
    /// What is only known where a defect is planted: a write was left out; plans have written to these drives.
    skipped: bool,
    wrote: u8,
}

fn start(setup: &Setup) -> State {
    State {
        cells: [[Cell::of(0); DRIVES]; COLUMNS],
        truth: [[0; STRIPS]; COLUMNS],
        sure: [[Sure { values: 1, by: 0 }; STRIPS]; COLUMNS],
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
