//! The harness's knowledge of a volume under test: the allowed values of its sectors, and the
//! excused ones.
//!
//! It survives kills; every task of every life shares it. A run is about one volume, which knows
//! its neighbours.

mod failing;
mod places;

use crate::error::{Error, ErrorKind, Result};
use crate::log_devices::OnLog;
use crate::machine::{Array, Machine};
use crate::migrations::ReshapeState;
use crate::oracle::{Issued, Oracle, Value, Violation};
use crate::script::LifeEnd;
use crate::setup::{Setup, VolumeRole};
use crate::silent::note_strays;
use crate::stamp::Sector;
use crate::story::Story;
use crate::tally::{Event, Tally};
use controller::WriteHole;
use platform::{IoError, IoErrorKind};
use platform_sim::{SimDrive, SimHandle, Trimmed};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, DriveSet};

/// Sectors whose redundancy may be wrong until it is consistent.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// The current sectors.
    pub now: BTreeSet<u64>,
    /// Sectors until the last resync, which no flush has made durable: a power cut undoes it.
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

fn new_oracle(setup: &Setup, beginning: Value, has_log: bool) -> Oracle {
    let is_redundant = setup.layouts().all(|layout| layout.level().is_redundant());
    let trims_leave_anything = !is_redundant && setup.drives[0].trimmed == Trimmed::Anything;
    let mut stripes: Vec<ByteCount> = setup.layouts().map(|layout| layout.stripe_bytes()).collect();
    stripes.dedup();
    let capacity = setup.geometry.capacity();
    let oracle = Oracle::new(setup.sector(), capacity, &stripes, beginning, trims_leave_anything);
    let has_parity = setup.layouts().any(|layout| layout.parity_strips() > 0);
    let oracle = oracle.answering_early(setup.has_cache()).remembering(has_log && has_parity);
    // No two volumes have a write of the same number: data of another volume is recognised.
    if setup.is_neighbour() { oracle.numbered_from(1 << 40) } else { oracle }
}

/// Whether the volume exists, according to replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Never requested.
    Never,
    /// Creation requested, without a reply.
    Asked,
    /// Creation confirmed.
    There,
    /// Deletion requested, without a reply.
    Leaving,
    /// Deletion confirmed.
    Gone,
}

/// The state at the begin of a request: [`Scene::begin_request`].
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    ended_failing: u64,
    logged: Option<u64>,
}

/// One volume under test. See the [module](self).
pub struct Scene {
    /// The drawn setup.
    pub setup: Setup,
    /// The machine.
    pub machine: Rc<Machine>,
    /// The array.
    pub array: Rc<Array>,
    /// The neighbours.
    pub beside: Vec<Rc<Scene>>,
    /// The allowed values of every sector.
    pub oracle: RefCell<Oracle>,
    /// The position in its sequence of layouts.
    pub way: ReshapeState,
    /// The known state of its journal on log devices.
    pub on_log: OnLog,
    /// The oracle for the case that its log is discarded; `None` if that is the same.
    without_log: RefCell<Option<Oracle>>,
    /// `explain` reported something wrong about the volume.
    pub untrue: RefCell<Option<crate::error::Error>>,
    /// Whether the volume exists.
    pub presence: Cell<Presence>,
    /// Whether checks are skipped: too much of its copied drives is lost.
    pub is_ignored: Cell<bool>,
    /// Whether all redundancy is consistent, as reported in this life.
    pub synced: Cell<bool>,
    /// The number of resyncs that ended while requests could fail: earlier requests may still fail.
    ended_failing: Cell<u64>,
    /// Whether the journal covers interrupted writes, as reported: since all redundancy is
    /// consistent.
    pub covered: Cell<bool>,
    /// Whether it was deleted while a drive could not be updated.
    pub untold: Cell<bool>,
    /// Whether it may ever have had a journal.
    pub had_journal: Cell<bool>,
    /// Whether an operator requested to remove the journal, without a reply in this life.
    pub gives_up_journal: Cell<bool>,
    /// Sectors whose parity may be wrong until the next resync: they were written while a missing
    /// drive prevented both use and repair of parity; or a write to them was interrupted, and an
    /// operator accepted the stale parity, or their drive was lost meanwhile.
    pub without_parity: RefCell<Unsettled>,
    /// With a journal: sectors that cannot be reconstructed until the next resync. Full-stripe
    /// writes are not in the journal, and a crash may have left one on some drives only.
    torn: RefCell<Unsettled>,
    /// Whether the controller ever listed punctured blocks: requests for these fail.
    pub has_lost_blocks: Cell<bool>,
    /// Whether a request ever failed because of too many faults.
    pub has_failed: Cell<bool>,
    /// Drives whose stale parity an operator accepted in this life.
    pub forced: Cell<DriveSet>,
    /// Drives whose strips may be in the distributed spare: they were unreliable, and the
    /// controller has not reported since that all drives have their own strips.
    in_spare: Cell<DriveSet>,
    /// Silently corrupted stripes, and the drives.
    pub tainted: RefCell<BTreeMap<u64, DriveSet>>,
}

impl Scene {
    /// The scene of a new run.
    pub fn new(setup: Setup, time: SimHandle, story: Rc<Story>) -> Rc<Scene> {
        let machine = Rc::new(Machine::new(time, story));
        let array = Rc::new(Array::new(&setup));
        let beside = setup.beside.iter().map(|other| {
            let array = match other.place {
                VolumeRole::OwnDrives => Rc::new(Array::new(other)),
                VolumeRole::First | VolumeRole::SameDrives => array.clone(),
            };
            Scene::on(&machine, array, other.clone(), Vec::new(), setup.log.is_some())
        });
        let beside = beside.collect();
        let has_log = setup.log.is_some();
        Scene::on(&machine, array, setup, beside, has_log)
    }

    fn on(
        machine: &Rc<Machine>,
        array: Rc<Array>,
        setup: Setup,
        beside: Vec<Rc<Scene>>,
        has_log: bool,
    ) -> Rc<Scene> {
        let beginning = if setup.begins_with_zeros() { Value::Zeroes } else { Value::Anything };
        let oracle = new_oracle(&setup, beginning, has_log);
        let scene = Rc::new(Scene {
            untold: Cell::default(),
            had_journal: Cell::new(setup.has_parity() && setup.write_hole == WriteHole::Journal),
            setup,
            machine: machine.clone(),
            array,
            beside,
            oracle: RefCell::new(oracle),
            way: ReshapeState::default(),
            on_log: OnLog::default(),
            without_log: RefCell::default(),
            untrue: RefCell::default(),
            presence: Cell::new(Presence::Never),
            is_ignored: Cell::new(false),
            synced: Cell::new(false),
            ended_failing: Cell::new(0),
            covered: Cell::new(false),
            gives_up_journal: Cell::new(false),
            has_failed: Cell::new(false),
            without_parity: RefCell::default(),
            torn: RefCell::default(),
            has_lost_blocks: Cell::new(false),
            forced: Cell::new(DriveSet::EMPTY),
            in_spare: Cell::new(DriveSet::EMPTY),
            tainted: RefCell::default(),
        });
        scene.array.lay(&scene);
        scene
    }

    /// The same knowledge over copies of the drives, in another simulation that does not affect
    /// this scene.
    pub fn copy(&self, time: SimHandle, known: Vec<(String, SimDrive)>) -> Rc<Scene> {
        let machine = Rc::new(self.machine.copy(time, known));
        let array = Rc::new(self.array.copy());
        let beside = self.beside.iter().map(|other| {
            let array = match Rc::ptr_eq(&other.array, &self.array) {
                true => array.clone(),
                false => Rc::new(other.array.copy()),
            };
            other.copy_onto(&machine, array, Vec::new())
        });
        let beside = beside.collect();
        self.copy_onto(&machine, array, beside)
    }

    fn copy_onto(
        &self,
        machine: &Rc<Machine>,
        array: Rc<Array>,
        beside: Vec<Rc<Scene>>,
    ) -> Rc<Scene> {
        let scene = Rc::new(Scene {
            setup: self.setup.clone(),
            machine: machine.clone(),
            array,
            beside,
            oracle: self.oracle.clone(),
            way: self.way.clone(),
            on_log: self.on_log.clone(),
            without_log: self.without_log.clone(),
            untrue: RefCell::default(),
            presence: self.presence.clone(),
            is_ignored: self.is_ignored.clone(),
            synced: self.synced.clone(),
            ended_failing: self.ended_failing.clone(),
            covered: self.covered.clone(),
            untold: self.untold.clone(),
            had_journal: self.had_journal.clone(),
            gives_up_journal: self.gives_up_journal.clone(),
            has_failed: self.has_failed.clone(),
            without_parity: self.without_parity.clone(),
            torn: self.torn.clone(),
            has_lost_blocks: self.has_lost_blocks.clone(),
            forced: self.forced.clone(),
            in_spare: self.in_spare.clone(),
            tainted: self.tainted.clone(),
        });
        scene.array.lay(&scene);
        scene
    }

    /// Takes over results from a scene over copies: drives of the slots, faults, values.
    pub fn adopt(&self, other: &Scene) {
        self.array.adopt(&other.array);
        self.way.adopt(&other.way);
        self.oracle.borrow_mut().clone_from(&other.oracle.borrow());
        self.on_log.adopt(&other.on_log);
        self.without_log.borrow_mut().clone_from(&other.without_log.borrow());
        self.presence.set(other.presence.get());
        self.untold.set(other.untold.get());
        self.synced.set(other.synced.get());
        self.in_spare.set(other.in_spare.get());
        self.has_lost_blocks.set(other.has_lost_blocks.get());
        self.beside.iter().zip(&other.beside).for_each(|(own, other)| own.adopt(other));
    }

    /// The volume and its neighbours.
    pub fn volumes(self: &Rc<Self>) -> Vec<Rc<Scene>> {
        std::iter::once(self).chain(&self.beside).cloned().collect()
    }

    /// The same, but only the first volume of each array.
    pub fn arrays(self: &Rc<Self>) -> Vec<Rc<Scene>> {
        let on_own = |scene: &Rc<Scene>| scene.setup.place != VolumeRole::SameDrives;
        self.volumes().into_iter().filter(on_own).collect()
    }

    /// Whether its creation is confirmed, and its deletion is not.
    pub fn is_there(&self) -> bool {
        matches!(self.presence.get(), Presence::There | Presence::Leaving)
    }

    /// Whether it exists, or may exist without a reply.
    pub fn may_be_there(&self) -> bool {
        !matches!(self.presence.get(), Presence::Never | Presence::Gone)
    }

    /// It is created again. Its unwritten sectors may hold data of an earlier volume.
    pub fn begins_anew(&self) {
        self.comes_beside();
        // Added drives may hold any data.
        let is_as_drawn = self.array.faults.borrow().ever().is_empty()
            && self.way.done() == 0
            && !self.may_move();
        let is_first = self.presence.get() == Presence::Never && is_as_drawn;
        if !is_first {
            let remembers = self.oracle.borrow().remembers();
            let oracle =
                new_oracle(&self.setup, Value::Leftovers, remembers).after(&self.oracle.borrow());
            *self.oracle.borrow_mut() = oracle;
        }
        self.without_log.take();
        self.on_log.begins_anew(&self.machine.log);
        self.synced.set(false);
        self.covered.set(false);
        self.gives_up_journal.set(false);
        self.had_journal
            .set(self.setup.has_parity() && self.setup.write_hole == WriteHole::Journal);
        self.has_lost_blocks.set(false);
        self.has_failed.set(false);
        self.without_parity.take();
        self.torn.take();
        self.in_spare.set(self.array.unreliable());
        self.presence.set(Presence::Asked);
    }

    /// Drops all objects of a simulation.
    pub fn let_go(self: &Rc<Self>) {
        self.machine.let_go();
        self.arrays().iter().for_each(|scene| drop(scene.array.drives.take()));
    }

    /// The names of all possible drives of the volume.
    pub fn all_names(self: &Rc<Self>) -> Vec<String> {
        let of_slots =
            self.arrays().into_iter().flat_map(|scene| scene.array.names.borrow().clone());
        let mut names: Vec<String> = of_slots.collect();
        for (name, _) in self.machine.known.borrow().iter() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Records the reported drive of a slot: another one may have taken it.
    pub fn note_drive(&self, slot: DriveIndex, shown: &controller::DriveInfo) {
        let first_name = self.machine.drive_at(&shown.name);
        let known = self.machine.known.borrow();
        let Some((name, drive)) = known.iter().find(|(name, _)| *name == first_name) else {
            return;
        };
        let before = self.array.names.borrow().get(slot.as_usize()).cloned();
        let uuid = shown.uuid.clone().unwrap_or_default();
        let mut members = self.array.members.borrow_mut();
        let is_known = members.get(&slot) == Some(&uuid);
        if before.as_ref() == Some(name) {
            members.insert(slot, uuid);
            return;
        }
        // A drive that is about to take the slot is listed before that is recorded.
        let Some(before) = before.filter(|_| !is_known) else { return };
        members.insert(slot, uuid);
        drop(members);
        self.tell(|| format!("{name} is now drive {}, instead of {before}", slot.0));
        note_strays(self);
        self.array.names.borrow_mut()[slot.as_usize()].clone_from(name);
        if let Some(seat) = self.array.drives.borrow_mut().get_mut(slot.as_usize()) {
            // Its pending lost writes belong to this array; another array may get the drive.
            seat.keep_writes();
            *seat = drive.clone();
        }
        if drive.can_be_opened() && !drive.is_present() {
            self.machine.taken_smaller.borrow_mut().insert(name.clone());
        }
        self.array.faults.borrow_mut().replaced(slot, drive);
        // A drive that was filled before it took the slot is current.
        if shown.state != controller::DriveState::Online {
            self.array.out.set(self.array.out.get().with(slot));
        }
        self.array.note_losses();
    }

    /// Adds an event of the harness to the story.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        self.tell_of("run", line);
    }

    /// Adds an event of `who` to the story.
    pub fn tell_of(&self, who: &str, line: impl FnOnce() -> String) {
        self.machine.time.progress();
        let of = if self.setup.is_neighbour() { "w/" } else { "" };
        self.machine.story.tell(self.machine.time.now(), &format!("{of}{who}"), &line());
    }

    /// Updates the totals.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        self.machine.story.count(self.setup.is_neighbour(), change);
    }

    /// Counts an event that happened.
    pub fn did(&self, event: Event) {
        self.count(|tally| tally.did(event));
    }

    /// Whether parity may be inconsistent after a crash.
    pub fn parity_may_lie(&self) -> bool {
        self.has_parity() && !self.covered.get()
    }

    /// The controller reported that redundancy is consistent.
    pub fn settle(&self) {
        self.array.note_losses();
        self.ended_failing.update(|ended| ended + u64::from(self.may_fail()));
        self.synced.set(true);
        self.without_parity.borrow_mut().settle();
        self.torn.borrow_mut().settle();
        self.oracle.borrow_mut().settle();
    }

    /// The resynced sectors; a flush that begins now makes that durable.
    pub fn settled(&self) -> [Vec<u64>; 2] {
        [self.without_parity.borrow().settled(), self.torn.borrow().settled()]
    }

    /// A flush was acknowledged that began after [`Scene::settled`].
    pub fn flushed(&self, [without_parity, torn]: &[Vec<u64>; 2]) {
        self.without_parity.borrow_mut().flushed(without_parity);
        self.torn.borrow_mut().flushed(torn);
    }

    /// Applies a crash to the oracle without the log.
    fn crash_without_log(&self, fate: LifeEnd) {
        if !self.oracle.borrow().remembers() {
            return;
        }
        let mut kept = self.without_log.borrow_mut();
        match fate {
            LifeEnd::Kill => drop(kept.as_mut().map(Oracle::kill)),
            LifeEnd::PowerCut => {
                let without = kept.get_or_insert_with(|| self.oracle.borrow().clone());
                without.without_promises();
                let left = without.clone();
                without.power_cut();
                if self.on_log.is_lost() {
                    // It was kept at an earlier crash if the volume was not served since; silent
                    // corruption since then counts.
                    self.oracle.borrow_mut().become_what_was_known(left);
                }
            }
        }
    }

    /// The log may be lost. Until the volume is served after a power cut, only the log may have
    /// made writes durable.
    pub(crate) fn log_is_lost(&self) {
        if let Some(without) = self.without_log.take() {
            self.oracle.borrow_mut().become_what_was_known(without);
        }
        self.covered.set(false);
    }

    /// An operator discards the log, and with it the cache.
    pub(crate) fn discard_log(&self) {
        if let Some(without) = self.without_log.take() {
            self.oracle.borrow_mut().become_what_was_known(without);
        }
        if self.setup.has_cache() {
            let mut oracle = self.oracle.borrow_mut();
            oracle.without_promises();
            oracle.power_cut();
        }
        self.covered.set(false);
        self.on_log.give_up();
    }

    /// The volume is served: its log was replayed or discarded.
    pub(crate) fn is_served(&self) {
        self.without_log.take();
    }

    /// A kill or a power cut.
    pub(crate) fn crash(&self, fate: LifeEnd) {
        self.crash_without_log(fate);
        let torn = match fate {
            LifeEnd::Kill => {
                // A destage may have reached some drives of its stripe only: parity is uncertain
                // there.
                let underway = self.oracle.borrow().underway();
                self.without_parity
                    .borrow_mut()
                    .now
                    .extend(underway.into_iter().map(|sector| sector.0));
                self.oracle.borrow_mut().kill()
            }
            LifeEnd::PowerCut => {
                self.without_parity.borrow_mut().power_cut();
                self.torn.borrow_mut().power_cut();
                self.oracle.borrow_mut().power_cut()
            }
        };
        if self.had_journal.get() {
            self.torn.borrow_mut().now.extend(torn.into_iter().map(|sector| sector.0));
            self.array.note_losses();
        }
    }

    /// A write failed midway.
    pub fn failed(&self, operation: &Issued) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.fail(operation);
        if self.had_journal.get() {
            self.torn.borrow_mut().now.extend(oracle.whole_stripes(operation));
        }
    }

    /// Drives became unreliable: data that needs inconsistent redundancy is lost.
    pub fn lose(&self, lost: &DriveSet) {
        self.in_spare.set(self.in_spare.get().union(lost));
        if self.parity_may_lie() && self.is_too_much_lost() {
            // Dirty cache blocks are written from now on without parity (`note_write`): parity is
            // neither valid for the missing drive, nor repaired without it.
            self.without_parity
                .borrow_mut()
                .now
                .extend(self.oracle.borrow().underway().iter().map(|sector| sector.0));
        }
        let mut torn = self.torn.borrow_mut();
        if lost.is_empty() || torn.now.is_empty() {
            return;
        }
        let (gone, left) = torn.now.iter().partition(|sector| self.is_on(**sector, lost));
        torn.now = left;
        let gone: BTreeSet<u64> = gone;
        let mut oracle = self.oracle.borrow_mut();
        // For the oracle, an excused sector has one value that may be anything; parity does not
        // match it.
        let undecided = oracle.undecided().into_iter().map(|undecided| undecided.0);
        self.without_parity
            .borrow_mut()
            .now
            .extend(undecided.filter(|sector| gone.contains(sector)));
        self.give_up(&mut oracle, &gone);
    }

    /// Sectors may have any value, also if their log is lost later.
    fn give_up(&self, oracle: &mut Oracle, sectors: &BTreeSet<u64>) {
        let mut without_log = self.without_log.borrow_mut();
        for oracle in without_log.iter_mut().chain([oracle]) {
            sectors.iter().for_each(|sector| oracle.give_up(Sector(*sector), 1));
        }
    }

    /// The sectors of missing drives that stale parity may reconstruct wrongly in the present
    /// layout: those in a stripe with a sector whose value is uncertain or not yet covered by
    /// parity.
    pub fn untold(&self, out: &DriveSet) -> BTreeSet<u64> {
        let oracle = self.oracle.borrow();
        let mut uncertain = self.without_parity.borrow_mut();
        uncertain.now.extend(oracle.undecided().iter().map(|undecided| undecided.0));
        uncertain.now.iter().flat_map(|sector| self.beside_on(*sector, out)).collect()
    }

    /// An operator accepts stale parity: these sectors may have any value.
    pub fn force(&self, untold: &BTreeSet<u64>) {
        self.give_up(&mut self.oracle.borrow_mut(), untold);
    }

    /// Records sectors with outstanding or finished writes: whether parity covers them.
    pub fn note_write(&self, range: ByteRange) {
        if self.parity_may_lie() && self.is_too_much_lost() {
            let sector = self.setup.sector().bytes().0;
            let sectors = range.start.0 / sector..range.end().0.div_ceil(sector);
            self.without_parity.borrow_mut().now.extend(sectors);
        }
    }

    /// The state that [`judge_error`](Self::judge_error) needs, at the begin of a request.
    pub fn begin_request(&self) -> Begun {
        let logged = self.on_log.logged().filter(|_| self.covered.get());
        Begun { ended_failing: self.ended_failing.get(), logged }
    }

    /// Whether a log device has all writes since then, so that a power cut cannot lose them.
    pub fn was_logged(&self, begun: Begun) -> bool {
        begun.logged.is_some() && begun.logged == self.begin_request().logged
    }

    /// Checks whether a request may fail.
    ///
    /// # Errors
    /// When it must not fail.
    pub fn judge_error(
        &self,
        what: &str,
        range: ByteRange,
        begun: Begun,
        error: IoError,
    ) -> Result<()> {
        self.tell(|| format!("{what} of {range:?} failed: {error}"));
        let lost = (self.has_lost_blocks.get() || self.may_lack_copy())
            && error.kind == IoErrorKind::Medium;
        let could_fail_meanwhile = begun.ended_failing != self.ended_failing.get();
        // A write whose journal record failed may fail as well, and so may requests that need data
        // which a failed write left without redundancy.
        let is_refused = self.array.faults.borrow().is_busy()
            && matches!(error.kind, IoErrorKind::Busy | IoErrorKind::Gone | IoErrorKind::Medium);
        if !self.is_too_much_lost() && !could_fail_meanwhile && !lost && !is_refused {
            let faults = self.array.faults.borrow().describe();
            return Err(Error::new(
                ErrorKind::NeedlessError,
                format!(
                    "{what} of {range:?} failed ({error}) although the level survives the faults: \
                        {faults}"
                ),
            ));
        }
        self.count(|tally| tally.errors += 1);
        self.has_failed.set(true);
        if self.has_parity() {
            // A write that failed midway leaves its region unsynced.
            self.synced.set(false);
        }
        Ok(())
    }

    /// A violation as an error.
    pub fn wrong_data(&self, what: &str, violation: &Violation) -> Error {
        let place = self.place_of(violation.sector.0);
        Error::new(ErrorKind::WrongData, format!("{what}: {violation}\n    ({place})"))
    }
}

#[cfg(test)]
mod tests;
