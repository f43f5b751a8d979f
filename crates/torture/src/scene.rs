//! What the harness knows of a volume under test, besides the simulation: what its sectors may hold, and what is excused.
//!
//! It belongs to nobody that can be killed; every task of every life sees the same one. A run is about one volume, which knows those
//! beside it.

mod failing;
mod places;

use crate::error::{Error, ErrorKind, Result};
use crate::log_devices::OnLog;
use crate::machine::{Array, Machine};
use crate::migrations::Way;
use crate::oracle::{Issued, Oracle, Value, Violation};
use crate::script::Fate;
use crate::setup::{Place, Setup};
use crate::silent::note_strays;
use crate::stamp::Sector;
use crate::story::Story;
use crate::tally::{Deed, Tally};
use controller::WriteHole;
use platform::{IoError, IoErrorKind};
use platform_sim::{SimDrive, SimHandle, Trimmed};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, DriveSet};

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

fn new_oracle(setup: &Setup, beginning: Value, has_log: bool) -> Oracle {
    let is_redundant = setup.layouts().all(|layout| layout.level().is_redundant());
    let trims_leave_anything = !is_redundant && setup.drives[0].trimmed == Trimmed::Anything;
    let mut stripes: Vec<ByteCount> = setup.layouts().map(|layout| layout.stripe_bytes()).collect();
    stripes.dedup();
    let capacity = setup.geometry.capacity();
    let oracle = Oracle::new(setup.sector(), capacity, &stripes, beginning, trims_leave_anything);
    let has_parity = setup.layouts().any(|layout| layout.parity_strips() > 0);
    let oracle = oracle.answering_early(setup.has_cache()).remembering(has_log && has_parity);
    // No two volumes have a write of the same number: what one holds of the other gives itself away.
    if setup.is_neighbour() { oracle.numbered_from(1 << 40) } else { oracle }
}

/// Whether the volume is there, as far as anybody was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Nobody ever asked for it.
    Never,
    /// It was asked for, and nobody was told that it is there.
    Asked,
    /// It was created: somebody was told so.
    There,
    /// Its deletion was asked for, and nobody was told that it is gone.
    Leaving,
    /// It was deleted: somebody was told so.
    Gone,
}

/// When a request began: [`Scene::begin_request`].
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    ended_failing: u64,
    logged: Option<u64>,
}

/// One volume under test. See the [module](self).
pub struct Scene {
    /// What was drawn.
    pub setup: Setup,
    /// The machine that it is on.
    pub machine: Rc<Machine>,
    /// The drives that it lies on.
    pub array: Rc<Array>,
    /// The volumes beside it.
    pub beside: Vec<Rc<Scene>>,
    /// What every sector may hold.
    pub oracle: RefCell<Oracle>,
    /// Where it is among the layouts that it is to have.
    pub way: Way,
    /// What is known of its journal that may lie on log devices.
    pub on_log: OnLog,
    /// What every sector may hold if what its log has is given up; none if that is the same.
    without_log: RefCell<Option<Oracle>>,
    /// `explain` said something of the volume that is not so.
    pub untrue: RefCell<Option<crate::error::Error>>,
    /// Whether it is there.
    pub presence: Cell<Presence>,
    /// Whether nobody looks at it: so much is lost of copies of its drives that it may be anything.
    pub is_ignored: Cell<bool>,
    /// Whether all redundancy agrees with the data, as the controller said in this life.
    pub synced: Cell<bool>,
    /// How often redundancy came to agree while requests could fail until then: one that began before may still say so.
    ended_failing: Cell<u64>,
    /// Whether the controller says that its journal covers what a crash can interrupt: from the moment on that all redundancy agrees.
    pub covered: Cell<bool>,
    /// Whether it was deleted, and a drive of it could not be told.
    pub untold: Cell<bool>,
    /// Whether it may ever have had a journal.
    pub had_journal: Cell<bool>,
    /// Whether an operator has asked that it have none, and was not answered in this life.
    pub gives_up_journal: Cell<bool>,
    /// Sectors beside which parity may be wrong, until redundancy agrees: they were written while parity could neither
    /// be used nor made to agree, for want of a drive; or a write to them was cut off, and the operator forced it, or they
    /// were lost with their drive meanwhile.
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
    /// Drives whose strips may be in the distributed spare: they could not be relied on, and the controller did not say since that all of its drives have
    /// what is theirs.
    in_spare: Cell<DriveSet>,
    /// Stripes of which a drive changed something without telling anybody, and which drives did.
    pub tainted: RefCell<BTreeMap<u64, DriveSet>>,
}

impl Scene {
    /// Of a run that has just begun.
    pub fn new(setup: Setup, time: SimHandle, story: Rc<Story>) -> Rc<Scene> {
        let machine = Rc::new(Machine::new(time, story));
        let array = Rc::new(Array::new(&setup));
        let beside = setup.beside.iter().map(|other| {
            let array = match other.place {
                Place::OwnDrives => Rc::new(Array::new(other)),
                Place::First | Place::SameDrives => array.clone(),
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
            way: Way::default(),
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

    /// The same knowledge over copies of the drives, in another simulation: what happens there teaches this scene nothing.
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

    fn copy_onto(&self, machine: &Rc<Machine>, array: Rc<Array>, beside: Vec<Rc<Scene>>) -> Rc<Scene> {
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

    /// Knows what another scene found out: which drives are in the slots, what is wrong with them, what was read.
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

    /// It and the volumes beside it.
    pub fn volumes(self: &Rc<Self>) -> Vec<Rc<Scene>> {
        std::iter::once(self).chain(&self.beside).cloned().collect()
    }

    /// The same, but of volumes that lie on the same drives only the first one.
    pub fn arrays(self: &Rc<Self>) -> Vec<Rc<Scene>> {
        let on_own = |scene: &Rc<Scene>| scene.setup.place != Place::SameDrives;
        self.volumes().into_iter().filter(on_own).collect()
    }

    /// Whether it was created, and not deleted: somebody was told so.
    pub fn is_there(&self) -> bool {
        matches!(self.presence.get(), Presence::There | Presence::Leaving)
    }

    /// Whether it is there, or may be though nobody was told.
    pub fn may_be_there(&self) -> bool {
        !matches!(self.presence.get(), Presence::Never | Presence::Gone)
    }

    /// It is created anew. What it holds was never written by a host of this one, but perhaps by one of a volume before it.
    pub fn begins_anew(&self) {
        self.comes_beside();
        // What drives held that were added to the array is anything.
        let is_as_drawn =
            self.array.faults.borrow().ever().is_empty() && self.way.done() == 0 && !self.may_move();
        let is_first = self.presence.get() == Presence::Never && is_as_drawn;
        if !is_first {
            let remembers = self.oracle.borrow().remembers();
            let oracle = new_oracle(&self.setup, Value::Leftovers, remembers).after(&self.oracle.borrow());
            *self.oracle.borrow_mut() = oracle;
        }
        self.without_log.take();
        self.on_log.begins_anew(&self.machine.log);
        self.synced.set(false);
        self.covered.set(false);
        self.gives_up_journal.set(false);
        self.had_journal.set(self.setup.has_parity() && self.setup.write_hole == WriteHole::Journal);
        self.has_lost_blocks.set(false);
        self.has_failed.set(false);
        self.without_parity.take();
        self.torn.take();
        self.in_spare.set(self.array.unreliable());
        self.presence.set(Presence::Asked);
    }

    /// Lets go of everything that belongs to a simulation.
    pub fn let_go(self: &Rc<Self>) {
        self.machine.let_go();
        self.arrays().iter().for_each(|scene| drop(scene.array.drives.take()));
    }

    /// The names of all drives that may be a volume's.
    pub fn all_names(self: &Rc<Self>) -> Vec<String> {
        let of_slots = self.arrays().into_iter().flat_map(|scene| scene.array.names.borrow().clone());
        let mut names: Vec<String> = of_slots.collect();
        for (name, _) in self.machine.known.borrow().iter() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The controller says what the drive of a slot is called that it uses: another one may have taken it.
    pub fn note_drive(&self, slot: DriveIndex, shown: &controller::DriveInfo) {
        let first_name = self.machine.drive_at(&shown.name);
        let known = self.machine.known.borrow();
        let Some((name, drive)) = known.iter().find(|(name, _)| *name == first_name) else { return };
        let before = self.array.names.borrow().get(slot.as_usize()).cloned();
        let uuid = shown.uuid.clone().unwrap_or_default();
        let mut members = self.array.members.borrow_mut();
        let is_known = members.get(&slot) == Some(&uuid);
        if before.as_ref() == Some(name) {
            members.insert(slot, uuid);
            return;
        }
        // One that is about to take the slot is shown before that is recorded.
        let Some(before) = before.filter(|_| !is_known) else { return };
        members.insert(slot, uuid);
        drop(members);
        self.tell(|| format!("{name} is drive {} now, instead of {before}", slot.0));
        note_strays(self);
        self.array.names.borrow_mut()[slot.as_usize()].clone_from(name);
        if let Some(seat) = self.array.drives.borrow_mut().get_mut(slot.as_usize()) {
            // What it was to lose was this array's, and it may get to another one.
            seat.keep_writes();
            *seat = drive.clone();
        }
        if drive.can_be_opened() && !drive.is_present() {
            self.machine.taken_smaller.borrow_mut().insert(name.clone());
        }
        self.array.faults.borrow_mut().replaced(slot, drive);
        // One that was filled before it took the slot has all that it should.
        if shown.state != controller::DriveState::Online {
            self.array.out.set(self.array.out.get().with(slot));
        }
        self.array.note_losses();
    }

    /// Tells what the harness does or sees.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        self.tell_of("run", line);
    }

    /// Tells what `who` does, or what happens to it.
    pub fn tell_of(&self, who: &str, line: impl FnOnce() -> String) {
        self.machine.time.progress();
        let of = if self.setup.is_neighbour() { "w/" } else { "" };
        self.machine.story.tell(self.machine.time.now(), &format!("{of}{who}"), &line());
    }

    /// Counts.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        self.machine.story.count(self.setup.is_neighbour(), change);
    }

    /// Counts a deed that really happened.
    pub fn did(&self, deed: Deed) {
        self.count(|tally| tally.did(deed));
    }

    /// Whether parity may not agree with the data after a crash.
    pub fn parity_may_lie(&self) -> bool {
        self.has_parity() && !self.covered.get()
    }

    /// The controller says that redundancy agrees with the data.
    pub fn settle(&self) {
        self.array.note_losses();
        self.ended_failing.update(|ended| ended + u64::from(self.may_fail()));
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

    /// What becomes of it in a crash if what its log has is given up.
    fn crash_without_log(&self, fate: Fate) {
        if !self.oracle.borrow().remembers() {
            return;
        }
        let mut kept = self.without_log.borrow_mut();
        match fate {
            Fate::Kill => drop(kept.as_mut().map(Oracle::kill)),
            Fate::PowerCut => {
                let without = kept.get_or_insert_with(|| self.oracle.borrow().clone());
                without.without_promises();
                let left = without.clone();
                without.power_cut();
                if self.on_log.is_lost() {
                    // It was kept at an earlier crash if nobody served the volume since: drives may have changed something meanwhile.
                    self.oracle.borrow_mut().become_what_was_known(left);
                }
            }
        }
    }

    /// Nobody can rely any more on what its log has. Before it is served after a power cut, that may be all that promised durable
    /// writes.
    pub(crate) fn log_is_lost(&self) {
        if let Some(without) = self.without_log.take() {
            self.oracle.borrow_mut().become_what_was_known(without);
        }
        self.covered.set(false);
    }

    /// An operator gives up what its log has. With that goes what the cache has.
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

    /// It is served: what its log has was carried out, or given up.
    pub(crate) fn is_served(&self) {
        self.without_log.take();
    }

    /// The process died, or the power was cut.
    pub(crate) fn crash(&self, fate: Fate) {
        self.crash_without_log(fate);
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
        if self.had_journal.get() {
            self.torn.borrow_mut().now.extend(torn.into_iter().map(|sector| sector.0));
            self.array.note_losses();
        }
    }

    /// A write failed in the middle.
    pub fn failed(&self, operation: &Issued) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.fail(operation);
        if self.had_journal.get() {
            self.torn.borrow_mut().now.extend(oracle.whole_stripes(operation));
        }
    }

    /// Drives cannot be relied on: what was to be told by redundancy that does not agree yet is lost.
    pub fn lose(&self, lost: &DriveSet) {
        self.in_spare.set(self.in_spare.get().union(lost));
        if self.parity_may_lie() && self.is_too_much_lost() {
            // What the cache has acknowledged and not written yet is written from now on as what hosts write (`note_write`): without
            // parity, since that neither tells what the drive has that is out, nor is made to agree without it.
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
        // The oracle takes what is given up for one thing, that may be anything; parity did not follow it for that.
        let undecided = oracle.undecided().into_iter().map(|undecided| undecided.0);
        self.without_parity.borrow_mut().now.extend(undecided.filter(|sector| gone.contains(sector)));
        self.give_up(&mut oracle, &gone);
    }

    /// Sectors may hold anything, also if what its log has turns out to be lost.
    fn give_up(&self, oracle: &mut Oracle, sectors: &BTreeSet<u64>) {
        let mut without_log = self.without_log.borrow_mut();
        for oracle in without_log.iter_mut().chain([oracle]) {
            sectors.iter().for_each(|sector| oracle.give_up(Sector(*sector), 1));
        }
    }

    /// The sectors of drives that are out which stale parity may compute wrongly, in the volume's
    /// present layout: those in a stripe with a sector whose content is uncertain or not yet
    /// counted by parity.
    pub fn untold(&self, out: &DriveSet) -> BTreeSet<u64> {
        let oracle = self.oracle.borrow();
        let mut uncertain = self.without_parity.borrow_mut();
        uncertain.now.extend(oracle.undecided().iter().map(|undecided| undecided.0));
        uncertain.now.iter().flat_map(|sector| self.beside_on(*sector, out)).collect()
    }

    /// An operator accepts stale parity: these sectors may read as anything.
    pub fn force(&self, untold: &BTreeSet<u64>) {
        self.give_up(&mut self.oracle.borrow_mut(), untold);
    }

    /// Takes note of sectors that are being written, or were: whether parity covers them.
    pub fn note_write(&self, range: ByteRange) {
        if self.parity_may_lie() && self.is_too_much_lost() {
            let sector = self.setup.sector().bytes().0;
            let sectors = range.start.0 / sector..range.end().0.div_ceil(sector);
            self.without_parity.borrow_mut().now.extend(sectors);
        }
    }

    /// What [`judge_error`](Self::judge_error) needs to know of a request: taken before it begins.
    pub fn begin_request(&self) -> Begun {
        let logged = self.on_log.logged().filter(|_| self.covered.get());
        Begun { ended_failing: self.ended_failing.get(), logged }
    }

    /// Whether a power cut cannot take back what was written since then, as a log device has it.
    pub fn was_logged(&self, begun: Begun) -> bool {
        begun.logged.is_some() && begun.logged == self.begin_request().logged
    }

    /// Judges a request that failed.
    ///
    /// # Errors
    /// When it must not have failed.
    pub fn judge_error(&self, what: &str, range: ByteRange, begun: Begun, error: IoError) -> Result<()> {
        self.tell(|| format!("{what} of {range:?} failed: {error}"));
        let lost = self.has_lost_blocks.get() && error.kind == IoErrorKind::Medium;
        let could_fail_meanwhile = begun.ended_failing != self.ended_failing.get();
        // What was to be recorded first, and could not be, is no better; nor is what a write that failed left without redundancy.
        let is_refused = self.array.faults.borrow().is_busy()
            && matches!(error.kind, IoErrorKind::Busy | IoErrorKind::Gone | IoErrorKind::Medium);
        if !self.is_too_much_lost() && !could_fail_meanwhile && !lost && !is_refused {
            let faults = self.array.faults.borrow().describe();
            return Err(Error::new(
                ErrorKind::NeedlessError,
                format!(
                    "{what} of {range:?} failed ({error}) although the level survives what is wrong: {faults}"
                ),
            ));
        }
        self.count(|tally| tally.errors += 1);
        self.has_failed.set(true);
        if self.has_parity() {
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
}

#[cfg(test)]
mod tests;
