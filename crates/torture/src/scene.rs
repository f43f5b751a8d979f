//! What the harness knows of a run, besides the simulation: the oracle, the faults, the story.
//!
//! It belongs to nobody that can be killed; every task of every life sees the same one.

use crate::error::{Error, ErrorKind, Result};
use crate::faults::Faults;
use crate::oracle::{Issued, Oracle, Value, Violation};
use crate::script::Fate;
use crate::setup::Setup;
use crate::stamp::Sector;
use crate::story::Story;
use crate::tally::{Deed, Tally};
use env::{IoError, IoErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteOffset, ByteRange, DriveIndex, DriveSet};
use world_sim::{SimDrive, SimHandle, Trimmed, Unwritten};

/// Sectors of which redundancy may not tell the truth until it agrees.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// They are.
    pub now: BTreeSet<u64>,
    /// They were until redundancy agreed, which no flush has made certain yet: a power cut takes it back.
    settled: BTreeSet<u64>,
}

impl Unsettled {
    fn settle(&mut self) {
        self.settled.append(&mut self.now);
    }

    fn settled(&self) -> Vec<u64> {
        self.settled.iter().copied().collect()
    }

    fn flushed(&mut self, settled: &[u64]) {
        self.settled.retain(|sector| settled.binary_search(sector).is_err());
    }

    fn power_cut(&mut self) {
        self.now.append(&mut self.settled);
    }
}

/// See the [module](self).
pub struct Scene {
    /// What was drawn.
    pub setup: Setup,
    /// What every sector may hold.
    pub oracle: RefCell<Oracle>,
    /// The shards of the latest process.
    pub shards: RefCell<Vec<engine::Shard>>,
    /// `explain` said something of the volume that is not so.
    pub untrue: RefCell<Option<crate::error::Error>>,
    /// The drives by slot, once there are all; none of a scene over copies.
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
    /// Whether the controller says that its journal tells all that a crash can interrupt: it does from the moment on that all
    /// redundancy agrees.
    pub covered: Cell<bool>,
    /// Drives that the controller went without at the latest start.
    pub out: Cell<DriveSet>,
    /// Sectors beside which parity may be wrong, until redundancy agrees: they were written while parity could neither
    /// be used nor made to agree, for want of a drive; or a write to them was cut off, and the operator forced it.
    pub without_parity: RefCell<Unsettled>,
    /// With a journal: sectors that redundancy does not give back until it agrees. They were written with the whole
    /// stripe, which is not kept, and a crash may have left that on some drives alone.
    torn: RefCell<Unsettled>,
    /// Whether the controller ever listed blocks whose content is lost: requests for those fail from then on.
    pub has_lost_blocks: Cell<bool>,
    /// Whether a request ever failed, since more was wrong than the level survives.
    pub has_failed: Cell<bool>,
    /// Drives of which an operator forced, in this life, what redundancy says of them.
    pub forced: Cell<DriveSet>,
    /// Whether the last life ended with a clean shutdown, and no drive failed in it.
    pub shut_down: Cell<bool>,
    /// Whether this life begins after one that did.
    pub after_shutdown: Cell<bool>,
    /// Whether an operator may have said that he is to be asked before the array starts without missing drives.
    pub asks: Cell<bool>,
    /// Which life it is.
    pub life: Cell<u64>,
    /// Under which name a drive is found that was called something else at first: by the name, its first one.
    pub paths: RefCell<BTreeMap<String, String>>,
    /// Stripes of which a drive changed something without telling anybody, and which drives did.
    pub tainted: RefCell<BTreeMap<u64, DriveSet>>,
    /// Virtual time.
    pub time: SimHandle,
    /// What is told, and the sum of it.
    pub story: Rc<Story>,
}

impl Scene {
    /// Of a run that has just begun.
    pub fn new(setup: Setup, time: SimHandle, story: Rc<Story>) -> Scene {
        let noise = setup.drives.iter().any(|drive| drive.unwritten == Unwritten::Noise);
        let beginning = if noise { Value::Anything } else { Value::Zeroes };
        let is_redundant = setup.level.is_redundant();
        let trims_leave_anything = !is_redundant && setup.drives[0].trimmed == Trimmed::Anything;
        let (capacity, stripe) = (setup.geometry.capacity(), setup.geometry.stripe_bytes());
        let oracle = Oracle::new(setup.sector(), capacity, stripe, beginning, trims_leave_anything)
            .answering_early(setup.has_cache());
        Scene {
            shards: RefCell::default(),
            untrue: RefCell::default(),
            drives: RefCell::default(),
            names: RefCell::new(setup.names()),
            replacements: RefCell::default(),
            known: RefCell::default(),
            faults: RefCell::new(Faults::new(setup.drives.len())),
            setup,
            oracle: RefCell::new(oracle),
            created: Cell::new(false),
            synced: Cell::new(false),
            covered: Cell::new(false),
            has_failed: Cell::new(false),
            out: Cell::new(DriveSet::EMPTY),
            without_parity: RefCell::default(),
            torn: RefCell::default(),
            has_lost_blocks: Cell::new(false),
            forced: Cell::new(DriveSet::EMPTY),
            shut_down: Cell::new(false),
            after_shutdown: Cell::new(false),
            asks: Cell::new(false),
            life: Cell::new(0),
            paths: RefCell::default(),
            tainted: RefCell::default(),
            time,
            story,
        }
    }

    /// The same knowledge over copies of the drives, in another simulation: what happens there teaches this scene nothing.
    pub fn copy(&self, time: SimHandle, known: Vec<(String, SimDrive)>) -> Scene {
        Scene {
            setup: self.setup.clone(),
            oracle: self.oracle.clone(),
            shards: RefCell::default(),
            untrue: RefCell::default(),
            drives: RefCell::default(),
            names: self.names.clone(),
            replacements: RefCell::default(),
            known: RefCell::new(known),
            faults: self.faults.clone(),
            created: self.created.clone(),
            synced: self.synced.clone(),
            covered: self.covered.clone(),
            has_failed: self.has_failed.clone(),
            out: self.out.clone(),
            without_parity: self.without_parity.clone(),
            torn: self.torn.clone(),
            has_lost_blocks: self.has_lost_blocks.clone(),
            forced: self.forced.clone(),
            shut_down: self.shut_down.clone(),
            after_shutdown: self.after_shutdown.clone(),
            asks: self.asks.clone(),
            life: self.life.clone(),
            paths: RefCell::default(),
            tainted: self.tainted.clone(),
            time,
            story: self.story.clone(),
        }
    }

    /// Knows what another scene found out: which drives are in the slots, what is wrong with them.
    pub fn adopt(&self, other: &Scene) {
        self.names.borrow_mut().clone_from(&other.names.borrow());
        self.faults.borrow_mut().clone_from(&other.faults.borrow());
        self.synced.set(other.synced.get());
        self.has_lost_blocks.set(other.has_lost_blocks.get());
    }

    /// Lets go of everything that belongs to a simulation.
    pub fn let_go(&self) {
        self.bury();
        self.drives.take();
        self.replacements.take();
        self.known.take();
    }

    /// Which drive is found under a name, by its first one.
    pub fn drive_at(&self, path: &str) -> String {
        self.paths.borrow().get(path).cloned().unwrap_or_else(|| path.to_owned())
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
        let first_name = self.drive_at(called);
        let mut names = self.names.borrow_mut();
        let known = self.known.borrow();
        let Some((name, drive)) = known.iter().find(|(name, _)| *name == first_name) else { return };
        let Some(before) = names.get_mut(slot.as_usize()).filter(|before| *before != name) else { return };
        self.tell(|| format!("{name} is drive {} now, instead of {before}", slot.0));
        before.clone_from(name);
        if let Some(drive_before) = self.drives.borrow_mut().get_mut(slot.as_usize()) {
            *drive_before = drive.clone();
        }
        self.faults.borrow_mut().replaced(slot, drive.is_present());
        self.out.set(self.out.get().with(slot));
        self.note_losses();
    }

    /// Lets go of what a process left behind that ended without stopping: its shards and volumes own one another.
    pub fn bury(&self) {
        self.shards.take().iter().for_each(engine::Shard::stop);
    }

    /// Tells what the harness does or sees.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        self.tell_of("run", line);
    }

    /// Tells what `who` does, or what happens to it.
    pub fn tell_of(&self, who: &str, line: impl FnOnce() -> String) {
        self.story.tell(self.time.now(), who, &line());
    }

    /// Counts.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        self.story.count(change);
    }

    /// Counts a deed that really happened.
    pub fn did(&self, deed: Deed) {
        self.story.count(|tally| tally.did(deed));
    }

    /// Whether parity may not agree with the data after a crash.
    pub fn parity_may_lie(&self) -> bool {
        self.setup.has_parity() && !self.covered.get()
    }

    /// Whether a request may fail now: more is lost than the level survives. Where parity may not agree with
    /// data after a crash, any fault is more, but for drives of which an operator forced what parity says.
    pub fn may_fail(&self) -> bool {
        let bad = self.faults.borrow().bad().union(&self.out.get());
        let unknown_parity = self.parity_may_lie() && !self.synced.get();
        let unaccepted = bad.minus(&self.forced.get());
        !self.setup.geometry.survives_set(&bad) || (unknown_parity && !unaccepted.is_empty())
    }

    /// The controller says that redundancy agrees with the data.
    pub fn settle(&self) {
        self.note_losses();
        self.synced.set(true);
        self.without_parity.borrow_mut().settle();
        self.torn.borrow_mut().settle();
        self.oracle.borrow_mut().settle();
    }

    /// What is settled now; a flush that begins now makes that certain.
    pub fn settled(&self) -> [Vec<u64>; 2] {
        [self.without_parity.borrow().settled(), self.torn.borrow().settled()]
    }

    /// A flush was acknowledged, before which these were settled.
    pub fn flushed(&self, [without_parity, torn]: &[Vec<u64>; 2]) {
        self.without_parity.borrow_mut().flushed(without_parity);
        self.torn.borrow_mut().flushed(torn);
    }

    /// The process died, or the power was cut.
    pub(crate) fn crash(&self, fate: Fate) {
        let torn = match fate {
            Fate::Kill => {
                // What the cache was writing may be on some drives of its stripe: what parity says beside it, nobody knows.
                let underway = self.oracle.borrow().underway();
                self.without_parity.borrow_mut().now.extend(underway.into_iter().map(|sector| sector.0));
                self.oracle.borrow_mut().kill()
            }
            Fate::PowerCut => {
                self.without_parity.borrow_mut().power_cut();
                self.torn.borrow_mut().power_cut();
                self.oracle.borrow_mut().power_cut()
            }
        };
        if self.setup.has_journal() {
            self.torn.borrow_mut().now.extend(torn.into_iter().map(|sector| sector.0));
            self.note_losses();
        }
    }

    /// A write failed in the middle.
    pub fn failed(&self, operation: &Issued) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.fail(operation);
        if self.setup.has_journal() {
            self.torn.borrow_mut().now.extend(oracle.whole_stripes(operation));
        }
    }

    /// Takes note of drives that cannot be relied on: what was to be told by redundancy that does not agree yet is lost.
    pub fn note_losses(&self) {
        let lost = self.faults.borrow().bad().union(&self.out.get());
        let mut torn = self.torn.borrow_mut();
        if lost.is_empty() || torn.now.is_empty() {
            return;
        }
        let (gone, left) = torn.now.iter().partition(|sector| lost.contains(self.drive_of(**sector)));
        torn.now = left;
        let gone: BTreeSet<u64> = gone;
        let mut oracle = self.oracle.borrow_mut();
        gone.iter().for_each(|sector| oracle.give_up(Sector(*sector), 1));
    }

    /// The drive on which a sector is.
    fn drive_of(&self, sector: u64) -> DriveIndex {
        let geometry = &self.setup.geometry;
        let (stripe, within) = geometry.stripe_of(ByteOffset(sector * self.setup.sector().bytes().0));
        let (index, _) = geometry.strip_of(within);
        geometry.data_cell(stripe, index, layout::CopyIndex(0)).drive
    }

    /// Takes note of sectors that are being written, or were: whether parity covers them.
    pub fn note_write(&self, range: ByteRange) {
        if self.parity_may_lie() && self.may_fail() {
            let sector = self.setup.sector().bytes().0;
            let sectors = range.start.0 / sector..range.end().0.div_ceil(sector);
            self.without_parity.borrow_mut().now.extend(sectors);
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
        self.has_failed.set(true);
        if self.setup.has_parity() {
            // A write that failed in the middle of a stripe leaves its region to be resynced.
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
