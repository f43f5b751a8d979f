//! Explores a reshape: every order of steps, with a crash after each of them, and again after the
//! following start.
//!
//! Real code: [`volume_state::Mover`] (order of steps), [`volume_state::Reshape`] (windows, saves)
//! and the layouts. Hosts, drives and labels are minimal models:
//!
//! - A volume of a few blocks on up to five drives. A block is four bits; P is a sum, Q a weighted
//!   sum in GF(16). All data values differ, so that nothing is right by chance.
//! - Each drive block has its latest value, which reads return, and the values possible after a
//!   power cut.
//! - Writes of a step, and copies of a label, reach the drives in every order. Drives are flushed
//!   one by one.
//! - A crash is a kill or a power cut, with any loss of drives that the lower level tolerates.
//!   Drives also fail between steps, and do not return.
//! - A step fails halfway and restarts from the record; hosts do not wait meanwhile.
//! - A host write is atomic and durable at once, as with a journal, or is acknowledged by a cache
//!   that survives a kill.
//!
//! After every crash all acknowledged data must be readable without the lost drives. At any other
//! time open blocks must read as acknowledged last.

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
/// Blocks of each drive: those of the volume, then the save area.
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
    /// Window sizes with and without a save: blocks of each drive.
    save: u64,
    most: u64,
    /// Host writes: blocks and values.
    puts: Vec<(usize, u8)>,
    /// A cache acknowledges host writes.
    cached: bool,
    /// Numbers of drive failures, failed steps and crashes.
    fails: u8,
    failing_steps: u8,
    crashes: u8,
    defect: Defect,
}

impl Setup {
    fn reshape(&self) -> Reshape {
        let bytes = ByteCount(self.blocks as u64 * BLOCK);
        let save = ByteCount(self.save * BLOCK);
        Reshape::new(self.from, self.to, bytes, save, ByteCount(self.most * BLOCK))
            .expect("it can be moved")
    }

    /// Number of drives that may be lost.
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

/// The mover's step in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum StepProgress {
    Nothing,
    Closing,
    /// Writes left; then drives still to be flushed, by bit.
    Writing(Vec<Write>, u8),
    /// Drives whose label is still to be written, by bit.
    Recording(Moved, u8),
}

/// Blocks of the volume: start, end.
type Blocks = (usize, usize);

/// Blocks open to hosts, and the layout that serves them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct HostAccess {
    /// Blocks in the new layout.
    by_new: Blocks,
    /// Blocks closed to hosts.
    closed: Blocks,
    /// Where closed blocks may still be read.
    read: ClosedRead,
    /// No host writes until the first `Open`.
    is_start: bool,
}

/// Where closed blocks are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ClosedRead {
    Nowhere,
    WhereSaved,
    ByOld,
}

impl HostAccess {
    /// Everything is open; this many bytes are in the new layout.
    fn open(setup: &Setup, moved: ByteCount) -> HostAccess {
        let by_new = blocks_of(setup.reshape().by_new(moved));
        HostAccess { by_new, closed: (0, 0), read: ClosedRead::Nowhere, is_start: false }
    }

    /// The access state after a start.
    fn start(setup: &Setup, moved: Moved) -> HostAccess {
        let closed = blocks_of(setup.reshape().saved_range(moved));
        HostAccess {
            closed,
            read: ClosedRead::WhereSaved,
            is_start: true,
            ..HostAccess::open(setup, moved.bytes)
        }
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
    doing: StepProgress,
    door: HostAccess,
    put: usize,
    /// A running host write: whether it uses the new layout.
    in_flight: Option<(usize, u8, bool)>,
    /// Dirty cache data that was acknowledged under the old layout.
    dirty: Option<(usize, u8)>,
    truth: [u8; BLOCKS],
    /// Values possible after a power cut, by bit.
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
        doing: StepProgress::Nothing,
        door: HostAccess::start(setup, Moved::default()),
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
