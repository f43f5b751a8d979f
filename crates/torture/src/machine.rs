//! What the volumes under test share: the machine that they are on, and the array that some of them lie on together.

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

/// The machine. It belongs to nobody that can be killed.
pub struct Machine {
    /// The shards of the latest process.
    pub shards: RefCell<Vec<engine::Shard>>,
    /// Drives that may take the place of others, and are not tried yet.
    pub replacements: RefCell<Vec<(String, SimDrive)>>,
    /// Drives that migrations add.
    pub additions: RefCell<Vec<(String, SimDrive)>>,
    /// Those that have, had or may have a place: that a drive takes one may be undone by a crash, or done unheard.
    pub known: RefCell<Vec<(String, SimDrive)>>,
    /// Writes that went astray, and on which drive: whichever array has or gets it may miss them.
    pub strays: RefCell<Vec<(String, StrayWrite)>>,
    /// Drives whose file was truncated, and that an array took as the smaller ones that they are now.
    pub taken_smaller: RefCell<BTreeSet<String>>,
    /// Drives of which somebody was told that all of them is used since they became larger, and how large they were by then.
    pub rescanned: RefCell<BTreeMap<String, ByteCount>>,
    /// Drives of which somebody asked that all of them is used, whatever was answered.
    pub asked: RefCell<BTreeSet<String>>,
    /// How large drives were used, by their first names and the UUIDs that they were shown with.
    pub used: RefCell<BTreeMap<(String, String), u64>>,
    /// Which life it is.
    pub life: Cell<u64>,
    /// Under which name a drive is found that was called something else at first: by the name, its first one.
    pub paths: RefCell<BTreeMap<String, String>>,
    /// Whether the memory of the cache was deleted in this boot.
    pub lost_memory: Cell<bool>,
    /// Its log devices.
    pub log: LogDevices,
    /// Virtual time.
    pub time: SimHandle,
    /// What is told, and the sum of it.
    pub story: Rc<Story>,
}

impl Machine {
    /// Of a run that has just begun.
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

    /// Another one, with copies of drives.
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

    /// Lets go of everything that belongs to a simulation.
    pub fn let_go(&self) {
        self.bury();
        self.replacements.take();
        self.additions.take();
        self.known.take();
    }

    /// Drives that a migration adds, by their first names, which may have a place from now on. `None` where there are none, over copies.
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

    /// Lets go of what a process left behind that ended without stopping: its shards and volumes own one another.
    pub fn bury(&self) {
        self.shards.take().iter().for_each(engine::Shard::stop);
    }

    /// Which drive is found under a name, by its first one.
    pub fn drive_at(&self, path: &str) -> String {
        self.paths.borrow().get(path).cloned().unwrap_or_else(|| path.to_owned())
    }

    /// Under which name a drive is found.
    pub fn path_of(&self, name: String) -> String {
        let paths = self.paths.borrow();
        let mut aliases = paths.iter().filter(|(_, drive)| **drive == name);
        aliases.next().map_or(name.clone(), |(path, _)| path.clone())
    }
}

/// Drives that are used together, and what is wrong with them.
pub struct Array {
    /// The drives by slot, once there are all; none of copies.
    pub drives: RefCell<Vec<SimDrive>>,
    /// By slot, what the drive there was first called.
    pub names: RefCell<Vec<String>>,
    /// By slot, the UUID by which the controller last named the drive there. Another drive that takes the slot has another one.
    pub members: RefCell<BTreeMap<DriveIndex, String>>,
    /// What is wrong with drives.
    pub faults: RefCell<Faults>,
    /// Drives that the controller went without at the latest start.
    pub out: Cell<DriveSet>,
    /// Whether the last life ended with a clean shutdown, and no drive failed in it.
    pub shut_down: Cell<bool>,
    /// Whether this life begins after one that did.
    pub after_shutdown: Cell<bool>,
    /// Whether an operator may have said that he is to be asked before the array starts without missing drives.
    pub asks: Cell<bool>,
    volumes: RefCell<Vec<Weak<Scene>>>,
}

impl Array {
    /// Of the drives of a setup, of which nothing is known yet.
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

    /// The same knowledge of copies of the drives.
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

    /// Knows what is known of another one.
    pub fn adopt(&self, other: &Array) {
        self.names.borrow_mut().clone_from(&other.names.borrow());
        self.members.borrow_mut().clone_from(&other.members.borrow());
        self.faults.borrow_mut().clone_from(&other.faults.borrow());
        self.out.set(other.out.get());
    }

    /// A volume lies on it.
    pub fn lay(&self, scene: &Rc<Scene>) {
        self.volumes.borrow_mut().push(Rc::downgrade(scene));
    }

    /// The volumes that lie on it, or may.
    pub fn volumes(&self) -> Vec<Rc<Scene>> {
        self.volumes.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// It may lie on more drives from now on. Of copies nobody has the drives.
    pub fn grow(&self, names: Vec<String>, drives: Vec<SimDrive>) {
        self.faults.borrow_mut().grow(names.len());
        self.names.borrow_mut().extend(names);
        self.drives.borrow_mut().extend(drives);
    }

    /// It lies on so many drives and no more: what was done to the others is undone.
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

    /// Whether a volume of it may be on its way to another layout, or is to be.
    pub fn may_move(&self) -> bool {
        self.volumes().iter().any(|volume| volume.may_be_there() && volume.may_move())
    }

    /// Whether every volume that may lie on it survives that these drives are lost.
    pub fn survives(&self, lost: &DriveSet) -> bool {
        self.volumes().iter().all(|volume| volume.survives(lost))
    }

    /// Whether drives that are missing could have served a volume that may lie on it without the others: that is asked about.
    pub fn may_have_gone_on(&self, missing: &DriveSet) -> bool {
        let volumes = self.volumes();
        let mut layouts =
            volumes.iter().filter(|volume| volume.may_be_there()).flat_map(|volume| volume.layouts());
        let could =
            layouts.any(|layout| layout.survives_set(&DriveSet::first(layout.drives()).minus(missing)));
        !missing.is_empty() && could
    }

    /// Drives that nobody can rely on now: something is wrong with them, or the controller went without them.
    pub fn unreliable(&self) -> DriveSet {
        self.faults.borrow().bad().union(&self.out.get())
    }

    /// Whether nothing is wrong with the drive of a slot. The controller's word that it can be taken out at no cost is about what that
    /// costs from then on: what was lost with an earlier drive of the slot stays lost when the one that is being rebuilt there goes.
    pub fn is_relied_on(&self, slot: DriveIndex) -> bool {
        !self.unreliable().contains(slot)
    }

    /// Those of them whose loss may cost data where parity may not agree: an operator forced what it says of these (`forced`), or the
    /// controller says that it costs none. That is not about blocks that cannot be read.
    pub fn unaccepted(&self, forced: &DriveSet) -> DriveSet {
        let faults = self.faults.borrow();
        let unreadable = faults.unreadable();
        // The controller vouches for what it knows: that another drive cannot read some blocks it finds when it reads them.
        let vouched = if unreadable.is_empty() { faults.vouched() } else { DriveSet::EMPTY };
        self.unreliable().minus(forced).minus(&vouched).union(&unreadable)
    }

    /// Takes note of drives that cannot be relied on, for every volume that lies on it.
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
