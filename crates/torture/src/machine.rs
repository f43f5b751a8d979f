//! The state that volumes under test share: the machine, and the array that several volumes use.

use crate::faults::Faults;
use crate::log_devices::LogDevices;
use crate::scene::Scene;
use crate::setup::Setup;
use crate::story::Story;
use platform_sim::{SimDrive, SimHandle, StrayWrite};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet};

/// The machine. It survives kills of the process.
pub struct Machine {
    /// The shards of the latest process.
    pub shards: RefCell<Vec<engine::Shard>>,
    /// Unused replacement drives.
    pub replacements: RefCell<Vec<(String, SimDrive)>>,
    /// Drives that reshapes add.
    pub additions: RefCell<Vec<(String, SimDrive)>>,
    /// Drives that are, were or may be members: a crash may undo a replacement, or complete it
    /// without a report.
    pub known: RefCell<Vec<(String, SimDrive)>>,
    /// Misdirected or lost writes by drive: the array that has or gets the drive may miss them.
    pub strays: RefCell<Vec<(String, StrayWrite)>>,
    /// Drives with a truncated file that an array uses at their smaller size.
    pub taken_smaller: RefCell<BTreeSet<String>>,
    /// Drives with a confirmed rescan after they became larger, and their size then.
    pub rescanned: RefCell<BTreeMap<String, ByteCount>>,
    /// Drives with a requested rescan, with any result.
    pub asked: RefCell<BTreeSet<String>>,
    /// The used size of drives, by first name and reported UUID.
    pub used: RefCell<BTreeMap<(String, String), u64>>,
    /// The number of the life.
    pub life: Cell<u64>,
    /// The current first name by path, for drives with a changed path.
    pub paths: RefCell<BTreeMap<String, String>>,
    /// Whether the cache's memory was deleted in this boot.
    pub lost_memory: Cell<bool>,
    /// The log devices.
    pub log: LogDevices,
    /// Virtual time.
    pub time: SimHandle,
    /// The story, and its totals.
    pub story: Rc<Story>,
}

impl Machine {
    /// The machine of a new run.
    pub fn new(time: SimHandle, story: Rc<Story>) -> Machine {
        Machine {
            shards: RefCell::default(),
            replacements: RefCell::default(),
            additions: RefCell::default(),
            known: RefCell::default(),
            strays: RefCell::default(),
            taken_smaller: RefCell::default(),
            rescanned: RefCell::default(),
            asked: RefCell::default(),
            used: RefCell::default(),
            life: Cell::new(0),
            paths: RefCell::default(),
            lost_memory: Cell::default(),
            log: LogDevices::default(),
            time,
            story,
        }
    }

    /// A machine with copies of the drives.
    pub fn copy(&self, time: SimHandle, known: Vec<(String, SimDrive)>) -> Machine {
        let (log, rescanned) = (self.log.clone(), self.rescanned.clone());
        let (asked, used) = (self.asked.clone(), self.used.clone());
        let taken_smaller = self.taken_smaller.clone();
        let begun = Machine::new(time, self.story.clone());
        let machine = Machine { log, taken_smaller, rescanned, asked, used, ..begun };
        machine.life.set(self.life.get());
        *machine.known.borrow_mut() = known;
        machine
    }

    /// Drops all objects of a simulation.
    pub fn let_go(&self) {
        self.bury();
        self.replacements.take();
        self.additions.take();
        self.known.take();
    }

    /// Drives that a reshape adds, by their first names; they may be members from now on. `None`
    /// over copies.
    pub fn to_add(&self, names: &[String]) -> Option<Vec<SimDrive>> {
        let additions = self.additions.borrow();
        let of_name = |name: &String| additions.iter().find(|(other, _)| other == name).cloned();
        let drives: Vec<(String, SimDrive)> = names.iter().map(of_name).collect::<Option<_>>()?;
        let mut known = self.known.borrow_mut();
        for (name, drive) in &drives {
            if known.iter().all(|(other, _)| other != name) {
                known.push((name.clone(), drive.clone()));
            }
        }
        Some(drives.into_iter().map(|(_, drive)| drive).collect())
    }

    /// Drops the shards and volumes of a killed process, which own one another.
    pub fn bury(&self) {
        self.shards.take().iter().for_each(engine::Shard::stop);
    }

    /// The first name of the drive at a path.
    pub fn drive_at(&self, path: &str) -> String {
        self.paths.borrow().get(path).cloned().unwrap_or_else(|| path.to_owned())
    }

    /// The path of a drive.
    pub fn path_of(&self, name: String) -> String {
        let paths = self.paths.borrow();
        let mut aliases = paths.iter().filter(|(_, drive)| **drive == name);
        aliases.next().map_or(name.clone(), |(path, _)| path.clone())
    }
}

/// The drives of an array, and their faults.
pub struct Array {
    /// The drives by slot, once all exist; empty over copies.
    pub drives: RefCell<Vec<SimDrive>>,
    /// By slot, the drive's first name.
    pub names: RefCell<Vec<String>>,
    /// By slot, the drive's last reported UUID. A replacement has another one.
    pub members: RefCell<BTreeMap<DriveIndex, String>>,
    /// The faults of the drives.
    pub faults: RefCell<Faults>,
    /// Drives that the latest start did not use.
    pub out: Cell<DriveSet>,
    /// Whether the last life ended with a clean shutdown, and without a failed drive.
    pub shut_down: Cell<bool>,
    /// Whether this life follows such a life.
    pub after_shutdown: Cell<bool>,
    /// Whether an operator may have requested to be asked before a start without missing drives.
    pub asks: Cell<bool>,
    volumes: RefCell<Vec<Weak<Scene>>>,
}

impl Array {
    /// The setup's drives, without faults.
    pub fn new(setup: &Setup) -> Array {
        Array {
            drives: RefCell::default(),
            names: RefCell::new(setup.names()),
            members: RefCell::default(),
            faults: RefCell::new(Faults::new(setup.drives.len())),
            out: Cell::new(DriveSet::EMPTY),
            shut_down: Cell::new(false),
            after_shutdown: Cell::new(false),
            asks: Cell::new(false),
            volumes: RefCell::default(),
        }
    }

    /// A copy of the state, for copies of the drives.
    pub fn copy(&self) -> Array {
        Array {
            drives: RefCell::default(),
            names: self.names.clone(),
            members: self.members.clone(),
            faults: self.faults.clone(),
            out: self.out.clone(),
            shut_down: self.shut_down.clone(),
            after_shutdown: self.after_shutdown.clone(),
            asks: self.asks.clone(),
            volumes: RefCell::default(),
        }
    }

    /// Takes over the state of a copy.
    pub fn adopt(&self, other: &Array) {
        self.names.borrow_mut().clone_from(&other.names.borrow());
        self.members.borrow_mut().clone_from(&other.members.borrow());
        self.faults.borrow_mut().clone_from(&other.faults.borrow());
        self.out.set(other.out.get());
    }

    /// Adds a volume to the array.
    pub fn lay(&self, scene: &Rc<Scene>) {
        self.volumes.borrow_mut().push(Rc::downgrade(scene));
    }

    /// The volumes that use the array, or may use it.
    pub fn volumes(&self) -> Vec<Rc<Scene>> {
        self.volumes.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// The array may have more drives from now on. Over copies there are no drives.
    pub fn grow(&self, names: Vec<String>, drives: Vec<SimDrive>) {
        self.faults.borrow_mut().grow(names.len());
        self.names.borrow_mut().extend(names);
        self.drives.borrow_mut().extend(drives);
    }

    /// The array has only `count` drives now: changes to the others are undone.
    pub fn shrink(&self, count: DriveCount) {
        let count = count.as_usize();
        self.names.borrow_mut().truncate(count);
        self.faults.borrow_mut().shrink(count);
        let mut drives = self.drives.borrow_mut();
        let left = drives.len().min(count);
        for drive in drives.split_off(left) {
            drive.release();
            drive.stall_next(0, Duration::ZERO);
            drive.slow_down(1);
            drive.cancel_failures();
            drive.heal_unreadable(ByteRange::new(ByteOffset::ZERO, drive.size()));
            drive.clear_write_errors();
            if !drive.is_present() {
                drive.come_back();
            }
        }
    }

    /// Whether a reshape of one of its volumes may be active or queued.
    pub fn may_move(&self) -> bool {
        self.volumes().iter().any(|volume| volume.may_be_there() && volume.may_move())
    }

    /// Whether all possible volumes of the array survive the loss of these drives.
    pub fn survives(&self, lost: &DriveSet) -> bool {
        self.volumes().iter().all(|volume| volume.survives(lost))
    }

    /// Whether the missing drives could have served a volume alone: the controller then asks for
    /// consent.
    pub fn may_have_gone_on(&self, missing: &DriveSet) -> bool {
        let volumes = self.volumes();
        let mut layouts = volumes
            .iter()
            .filter(|volume| volume.may_be_there())
            .flat_map(|volume| volume.layouts());
        let could = layouts
            .any(|layout| layout.survives_set(&DriveSet::first(layout.drives()).minus(missing)));
        !missing.is_empty() && could
    }

    /// Drives that may be unusable now: they have faults, or the controller does not use them.
    pub fn unreliable(&self) -> DriveSet {
        self.faults.borrow().bad().union(&self.out.get())
    }

    /// Whether a slot's drive has no fault. A removal without data loss concerns later losses only:
    /// earlier losses of the slot stay when its rebuilding drive goes.
    pub fn is_relied_on(&self, slot: DriveIndex) -> bool {
        !self.unreliable().contains(slot)
    }

    /// Unreliable drives without accepted loss: an operator accepted stale parity for those in
    /// `forced`, or the controller reports that their removal loses no data. That excludes
    /// unreadable blocks.
    pub fn unaccepted(&self, forced: &DriveSet) -> DriveSet {
        let faults = self.faults.borrow();
        let unreadable = faults.unreadable();
        // The controller does not know of unreadable blocks that it has not read.
        let vouched = if unreadable.is_empty() { faults.vouched() } else { DriveSet::EMPTY };
        self.unreliable().minus(forced).minus(&vouched).union(&unreadable)
    }

    /// Records unreliable drives for every volume of the array.
    pub fn note_losses(&self) {
        let lost = self.unreliable();
        self.volumes().iter().for_each(|volume| volume.lose(&lost));
    }

    /// The slot of a drive, by its first name.
    pub fn slot_of(&self, name: &str) -> Option<DriveIndex> {
        let names = self.names.try_borrow().ok()?;
        names.iter().position(|of_slot| of_slot == name).map(|slot| DriveIndex(slot as u16))
    }
}
