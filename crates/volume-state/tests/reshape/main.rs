//! A volume that is moved to another layout, tried in every order in which the steps can happen, with a crash after each of them, and
//! again after the start that follows.
//!
//! What is real are [`volume_state::Mover`], which says what is done next, [`volume_state::Reshape`], which says what may be moved and what has to be saved,
//! and the layouts. Hosts, drives and labels are as small as they can be.
//!
//! - A volume of a few blocks on up to five drives. A block has a value of four bits; P is their sum and Q a sum with weights, in the
//!   field of sixteen. Values of data are all different, so nothing is right by chance.
//! - Of each block a drive has what it was sent last, which is what a read sees, and the set of what a power cut may leave.
//! - The writes of a step go to the drives in every order, and so do the copies of a label. Drives are flushed one after the other.
//! - A crash is a kill or a power cut. With it any drives are lost, up to what the lower of both levels survives. Drives fail between
//!   any two steps, too. They do not come back.
//! - A step fails halfway, and is begun again from what is recorded; hosts do not wait meanwhile.
//! - Hosts write blocks; a write of a host is whole and durable at once, or has not happened, as the journal sees to that. Or it is answered by
//!   a cache that outlives a kill.
//!
//! Read at every crash: what hosts were answered must be there, without whatever drives are lost. Read at any other time: what hosts need not
//! wait for is what they were answered last.

mod crash;
mod defects;
mod drives;
mod run;
mod scenes;
mod walk;
mod windows;

use defects::Defect;
use drives::Cell;
use layout::Geometry;
use units::{ByteCount, ByteOffset, ByteRange};
use volume_state::{Moved, Mover, Reshape};

const BLOCK: u64 = 4096;
const DRIVES: usize = 5;
/// Blocks of each drive: those of the volume, and behind them those that are saved.
const MEMBER: usize = 6;
const SAVE: usize = 2;
const ROWS: usize = MEMBER + SAVE;
/// Most blocks of a volume.
const BLOCKS: usize = 12;

#[derive(Clone, Debug)]
struct Setup {
    from: Geometry,
    to: Geometry,
    blocks: usize,
    /// What is moved at a time, where it is saved and where it is not: blocks of each drive.
    save: u64,
    most: u64,
    /// What hosts write: blocks and values.
    puts: Vec<(usize, u8)>,
    /// Their writes are answered by a cache.
    cached: bool,
    /// So many drives fail while the machine runs; so many steps fail; so many crashes.
    fails: u8,
    failing_steps: u8,
    crashes: u8,
    defect: Defect,
}

impl Setup {
    fn reshape(&self) -> Reshape {
        let bytes = ByteCount(self.blocks as u64 * BLOCK);
        let save = ByteCount(self.save * BLOCK);
        Reshape::new(self.from, self.to, bytes, save, ByteCount(self.most * BLOCK)).expect("it can be moved")
    }

    /// How many drives may be lost on the way.
    fn tolerance(&self) -> u32 {
        u32::from(self.from.survives().at_least.0.min(self.to.survives().at_least.0))
    }

    fn drives(&self) -> usize {
        usize::from(self.from.drives().0.max(self.to.drives().0))
    }

    /// All drives, by bit.
    fn all(&self) -> u8 {
        ((1u16 << self.drives()) - 1) as u8
    }
}

/// A write to a drive.
type Write = (usize, usize, u8);

/// What is under way of the mover's step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Doing {
    Nothing,
    Closing,
    /// Writes that are left, and then drives that are left to be flushed, by bit.
    Writing(Vec<Write>, u8),
    /// Drives whose label is left to be written, by bit.
    Recording(Moved, u8),
}

/// Blocks of the volume: from, to.
type Blocks = (usize, usize);

/// What hosts may ask for, and where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Door {
    /// Blocks that are served by the new layout.
    by_new: Blocks,
    /// Blocks that hosts wait for.
    closed: Blocks,
    /// Where these may be read nevertheless.
    read: Shut,
    /// Nothing is written before something is opened.
    is_start: bool,
}

/// Where what is closed is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Shut {
    Nowhere,
    WhereSaved,
    ByOld,
}

impl Door {
    /// Everything is open; so many bytes are served by the new layout.
    fn open(setup: &Setup, moved: ByteCount) -> Door {
        let by_new = blocks_of(setup.reshape().by_new(moved));
        Door { by_new, closed: (0, 0), read: Shut::Nowhere, is_start: false }
    }

    /// What a start opens.
    fn start(setup: &Setup, moved: Moved) -> Door {
        let closed = blocks_of(setup.reshape().saved_range(moved));
        Door { closed, read: Shut::WhereSaved, is_start: true, ..Door::open(setup, moved.bytes) }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    cells: [Cell; DRIVES * ROWS],
    /// By bit.
    failed: u8,
    labels: [(u8, Moved); DRIVES],
    generation: u8,
    mover: Mover,
    doing: Doing,
    door: Door,
    put: usize,
    /// A host's write that has begun: whether by the new layout.
    in_flight: Option<(usize, u8, bool)>,
    /// What the cache was given under the old layout, and has not written.
    dirty: Option<(usize, u8)>,
    truth: [u8; BLOCKS],
    /// What a power cut may leave, by bit.
    sure: [u16; BLOCKS],
    fails: u8,
    failing_steps: u8,
    crashes: u8,
}

fn block_of(at: ByteOffset) -> usize {
    at.0.div_ceil(BLOCK) as usize
}

fn blocks_of(range: ByteRange) -> Blocks {
    (block_of(range.start), block_of(range.end()))
}

fn start(setup: &Setup) -> State {
    let mut truth = [0; BLOCKS];
    let mut sure = [0; BLOCKS];
    for block in 0..setup.blocks {
        truth[block] = block as u8 + 1;
        sure[block] = 1 << truth[block];
    }
    let mut cells = [Cell::of(0); DRIVES * ROWS];
    let mut data = truth[..setup.blocks].to_vec();
    data.resize((setup.from.capacity().0 / BLOCK) as usize, 0);
    drives::lay(&setup.from, 0, &data, 0).for_each(|(drive, row, value)| {
        cells[drive * ROWS + row] = Cell::of(value);
    });
    State {
        cells,
        failed: 0,
        labels: [(1, Moved::default()); DRIVES],
        generation: 1,
        mover: Mover::new(setup.reshape(), Moved::default()),
        doing: Doing::Nothing,
        door: Door::start(setup, Moved::default()),
        put: 0,
        in_flight: None,
        dirty: None,
        truth,
        sure,
        fails: setup.fails,
        failing_steps: setup.failing_steps,
        crashes: setup.crashes,
    }
}
