//! What the harness knows of a run, besides the simulation: the oracle, the faults, the story.
//!
//! It belongs to nobody that can be killed; every task of every life sees the same one.

use crate::error::{Error, ErrorKind, Result};
use crate::faults::Faults;
use crate::oracle::{Oracle, Value, Violation};
use crate::setup::Setup;
use env::{IoError, IoErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use units::{ByteRange, DriveIndex, DriveSet};
use world_sim::{SimDrive, SimHandle, Trimmed, Unwritten};

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests to the volume.
    pub ops: u64,
    /// Of those, how many failed, as they might.
    pub errors: u64,
    /// Processes killed.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Faults of drives.
    pub faults: u64,
    /// Starts of the controller that found a volume to recover.
    pub recoveries: u64,
    /// Starts that were refused until the operator accepted what is lost.
    pub refusals: u64,
    /// Drives that were out and brought back, to be rebuilt.
    pub returns: u64,
    /// Drives whose places were taken by others.
    pub replacements: u64,
    /// Times that the whole volume was read with drives removed.
    pub removals: u64,
    /// Steps of the simulation.
    pub events: u64,
}

impl Tally {
    /// Adds up.
    pub fn add(&mut self, other: &Tally) {
        self.ops += other.ops;
        self.errors += other.errors;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.faults += other.faults;
        self.recoveries += other.recoveries;
        self.refusals += other.refusals;
        self.returns += other.returns;
        self.replacements += other.replacements;
        self.removals += other.removals;
        self.events += other.events;
    }
}

/// Lines that are remembered, to be told with a failure.
const REMEMBERED: usize = 60;

/// See the [module](self).
pub struct Scene {
    /// What was drawn.
    pub setup: Setup,
    /// What every sector may hold.
    pub oracle: RefCell<Oracle>,
    /// The shards of the latest process.
    pub shards: RefCell<Vec<engine::Shard>>,
    /// The drives, once there are all.
    pub drives: RefCell<Vec<SimDrive>>,
    /// By slot, what the drive there was first called.
    pub names: RefCell<Vec<String>>,
    /// Drives that may take the place of others, and are not tried yet.
    pub replacements: RefCell<Vec<(String, SimDrive)>>,
    /// Those that have, had or may have a place: that a drive takes one may be undone by a crash, or done unheard.
    pub known: RefCell<Vec<(String, SimDrive)>>,
    /// What is wrong with drives.
    pub faults: RefCell<Faults>,
    /// Whether the volume was created: somebody was told so.
    pub created: Cell<bool>,
    /// Whether all redundancy agrees with the data, as the controller said in this life.
    pub synced: Cell<bool>,
    /// Drives that the controller went without at the latest start.
    pub out: Cell<DriveSet>,
    /// Sectors beside which parity may be wrong, until redundancy agrees: they were written while parity could neither
    /// be used nor made to agree, for want of a drive; or a write to them was cut off, and the operator accepted it.
    pub without_parity: RefCell<BTreeSet<u64>>,
    /// Those that were so until redundancy agreed, which no flush has made certain yet: a power cut takes it back.
    settled_unflushed: RefCell<BTreeSet<u64>>,
    /// Whether the controller ever listed blocks whose content is lost: requests for those fail from then on.
    pub has_lost_blocks: Cell<bool>,
    /// Drives of which an operator accepted, in this life, what redundancy says of them.
    pub accepted: Cell<DriveSet>,
    /// Which life it is.
    pub life: Cell<u64>,
    /// The sum of it.
    pub tally: Cell<Tally>,
    /// Virtual time.
    pub time: SimHandle,
    story: RefCell<VecDeque<String>>,
    aloud: bool,
}

impl Scene {
    /// Of a run that has just begun. `aloud`: the story is printed.
    pub fn new(setup: Setup, time: SimHandle, aloud: bool) -> Scene {
        let noise = setup.drives.iter().any(|drive| drive.unwritten == Unwritten::Noise);
        let beginning = if noise { Value::Anything } else { Value::Zeroes };
        let is_redundant = setup.level.is_redundant();
        let trims_leave_anything = !is_redundant && setup.drives[0].trimmed == Trimmed::Anything;
        let oracle = Oracle::new(setup.sector(), setup.geometry.capacity(), beginning, trims_leave_anything);
        Scene {
            shards: RefCell::default(),
            drives: RefCell::default(),
            names: RefCell::new(setup.names()),
            replacements: RefCell::default(),
            known: RefCell::default(),
            faults: RefCell::new(Faults::new(setup.drives.len())),
            setup,
            oracle: RefCell::new(oracle),
            created: Cell::new(false),
            synced: Cell::new(false),
            out: Cell::new(DriveSet::EMPTY),
            without_parity: RefCell::default(),
            has_lost_blocks: Cell::new(false),
            accepted: Cell::new(DriveSet::EMPTY),
            settled_unflushed: RefCell::default(),
            life: Cell::new(0),
            tally: Cell::default(),
            time,
            story: RefCell::default(),
            aloud,
        }
    }

    /// The names of all drives that may be the volume's.
    pub fn all_names(&self) -> Vec<String> {
        let mut names = self.names.borrow().clone();
        for (name, _) in self.known.borrow().iter() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The controller says what the drive of a slot is called that it uses: another one may have taken it.
    pub fn note_drive(&self, slot: DriveIndex, called: &str) {
        let first_name = called.split("-path").next().unwrap_or(called);
        let (mut names, mut drives) = (self.names.borrow_mut(), self.drives.borrow_mut());
        let known = self.known.borrow();
        let Some((name, drive)) = known.iter().find(|(name, _)| name == first_name) else { return };
        let slot_names = names.get_mut(slot.as_usize()).zip(drives.get_mut(slot.as_usize()));
        let Some((before, drive_before)) = slot_names.filter(|(before, _)| *before != name) else { return };
        self.tell(|| format!("{name} is drive {} now, instead of {before}", slot.0));
        self.count(|tally| tally.replacements += 1);
        before.clone_from(name);
        *drive_before = drive.clone();
        self.faults.borrow_mut().replaced(slot, drive.is_present());
        self.out.set(self.out.get().with(slot));
    }

    /// Lets go of what a process left behind that ended without stopping: its shards and volumes own one another.
    pub fn bury(&self) {
        self.shards.take().iter().for_each(engine::Shard::stop);
    }

    /// Tells what happens.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        let line = format!("{:>14.6} ms  {}", self.time.now().ns as f64 / 1e6, line());
        if self.aloud {
            println!("{line}");
        }
        let mut story = self.story.borrow_mut();
        if story.len() == REMEMBERED {
            story.pop_front();
        }
        story.push_back(line);
    }

    /// The latest lines of the story.
    pub fn story(&self) -> Vec<String> {
        self.story.borrow().iter().cloned().collect()
    }

    /// Counts.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Whether a request may fail now: more is lost than the level survives. Where parity may not agree with
    /// data after a crash, any fault is more, but for drives of which an operator accepted what parity says.
    pub fn may_fail(&self) -> bool {
        let bad = self.faults.borrow().bad().union(&self.out.get());
        let unknown_parity = self.setup.has_parity() && !self.synced.get();
        let unaccepted = bad.minus(&self.accepted.get());
        !self.setup.geometry.survives_set(&bad) || (unknown_parity && !unaccepted.is_empty())
    }

    /// The controller says that redundancy agrees with the data.
    pub fn settle(&self) {
        self.synced.set(true);
        self.settled_unflushed.borrow_mut().extend(self.without_parity.take());
        self.oracle.borrow_mut().settle();
    }

    /// Sectors that are settled now; a flush that begins now makes that certain.
    pub fn settled(&self) -> Vec<u64> {
        self.settled_unflushed.borrow().iter().copied().collect()
    }

    /// A flush was acknowledged, before which these were settled.
    pub fn flushed(&self, settled: &[u64]) {
        let mut unflushed = self.settled_unflushed.borrow_mut();
        settled.iter().for_each(|sector| {
            unflushed.remove(sector);
        });
    }

    /// The power was cut: what was settled and not flushed may be as it was.
    pub fn power_cut(&self) {
        self.without_parity.borrow_mut().extend(self.settled_unflushed.take());
    }

    /// Takes note of sectors that are being written, or were: whether parity covers them.
    pub fn note_write(&self, range: ByteRange) {
        if self.setup.has_parity() && self.may_fail() {
            let sector = self.setup.sector().bytes().0;
            let sectors = range.start.0 / sector..range.end().0.div_ceil(sector);
            self.without_parity.borrow_mut().extend(sectors);
        }
    }

    /// Judges a request that failed.
    ///
    /// # Errors
    /// When it must not have failed.
    pub fn judge_error(&self, what: &str, range: ByteRange, error: IoError) -> Result<()> {
        self.tell(|| format!("{what} of {range:?} failed: {error}"));
        let lost = self.has_lost_blocks.get() && error.kind == IoErrorKind::Medium;
        if !self.may_fail() && !lost {
            let faults = self.faults.borrow().describe();
            return Err(Error::new(
                ErrorKind::NeedlessError,
                format!(
                    "{what} of {range:?} failed ({error}) although the level survives what is wrong: {faults}"
                ),
            ));
        }
        self.count(|tally| tally.errors += 1);
        if self.setup.has_parity() {
            // A write that failed in the middle of a stripe leaves its lane to be resynced.
            self.synced.set(false);
        }
        Ok(())
    }

    /// A violation as an error.
    pub fn wrong_data(&self, what: &str, violation: &Violation) -> Error {
        let place = self.place_of(violation.sector.0);
        Error::new(ErrorKind::WrongData, format!("{what}: {violation}\n    ({place})"))
    }

    /// Where a sector lies, for people.
    pub fn place_of(&self, sector: u64) -> String {
        let geometry = &self.setup.geometry;
        let offset = units::ByteOffset(sector * self.setup.sector().bytes().0);
        let (stripe, within) = geometry.stripe_of(offset);
        let (index, at) = geometry.strip_of(within);
        let cell = geometry.data_cell(stripe, index, layout::CopyIndex(0));
        format!(
            "stripe {}, byte {} of data strip {}, on drive {} at byte {}",
            stripe.0,
            at.0,
            index.0,
            cell.drive.0,
            cell.offset.0 + at.0
        )
    }
}
