//! What is wrong with drives, and what goes wrong when.
//!
//! A fault is drawn before a life begins, and happens at a point in virtual time, wherever the run is by then:
//! while the controller starts, recovers, resyncs, serves or stops. It happens only if the level survives it
//! together with what is wrong already (RAID 0 survives nothing, and gets one now and then all the same).

use crate::scene::Scene;
use env::IoErrorKind;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};
use world_sim::Rng;

/// What can happen to a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It dies for good.
    Dies,
    /// It is pulled out, and may come back after a crash.
    Vanishes,
    /// Its next writes fail.
    WriteErrors(u64),
    /// Its next flushes fail.
    FlushErrors(u64),
    /// Some blocks cannot be read.
    MediumErrors,
    /// It answers nothing for so long, then everything.
    Holds(Duration),
    /// So many operations take so much longer.
    Stalls(u64, Duration),
}

/// A drive that takes longer for an operation may be out, as the controller sees it (its limit is 30 seconds).
const TIME_LIMIT: Duration = Duration::from_secs(29);

impl Fault {
    fn draw(rng: &mut Rng) -> Fault {
        match rng.below(16) {
            0..=2 => Fault::Dies,
            3..=6 => Fault::Vanishes,
            7..=8 => Fault::WriteErrors(rng.between(1, 3)),
            9 => Fault::FlushErrors(rng.between(1, 2)),
            10..=11 => Fault::MediumErrors,
            12 => Fault::Holds(Duration::from_secs(rng.between(31, 90))),
            13 => Fault::Holds(Duration::from_millis(rng.between(1, 20_000))),
            14 => Fault::Stalls(rng.between(1, 3), Duration::from_secs(rng.between(31, 90))),
            _ => Fault::Stalls(rng.between(1, 20), Duration::from_millis(rng.between(1, 2_000))),
        }
    }

    /// Whether the controller may take the drive out for it.
    fn may_cost_the_drive(self) -> bool {
        match self {
            Fault::Dies | Fault::Vanishes | Fault::WriteErrors(_) | Fault::FlushErrors(_) => true,
            // Where the map or the label cannot be read or written, that is the drive's end too.
            Fault::MediumErrors => false,
            Fault::Holds(time) | Fault::Stalls(_, time) => time >= TIME_LIMIT,
        }
    }
}

/// What is wrong with drives.
pub struct Faults {
    /// By drive: the latest life in which something happened that may cost it its place.
    broken: Vec<Option<u64>>,
    dead: DriveSet,
    away: DriveSet,
    unreadable: DriveSet,
    /// Drives that something ever happened to that may cost them their place.
    ever: DriveSet,
    /// Drives that ever had blocks that could not be read.
    ever_unreadable: DriveSet,
    count: usize,
}

impl Faults {
    /// Nothing is wrong.
    pub fn new(drives: usize) -> Faults {
        Faults {
            broken: vec![None; drives],
            dead: DriveSet::EMPTY,
            away: DriveSet::EMPTY,
            unreadable: DriveSet::EMPTY,
            ever: DriveSet::EMPTY,
            ever_unreadable: DriveSet::EMPTY,
            count: drives,
        }
    }

    fn indexes(&self) -> impl Iterator<Item = DriveIndex> + use<> {
        (0..self.count as u16).map(DriveIndex)
    }

    /// Drives that cannot be relied on now.
    pub fn bad(&self) -> DriveSet {
        let broken: DriveSet =
            self.indexes().filter(|drive| self.broken[drive.as_usize()].is_some()).collect();
        broken.union(&self.dead).union(&self.away).union(&self.unreadable)
    }

    /// Drives that nobody can bring back now.
    pub fn gone(&self) -> DriveSet {
        self.dead.union(&self.away)
    }

    /// Drives that the controller may have taken out at some time.
    pub fn ever(&self) -> DriveSet {
        self.ever
    }

    /// Whether blocks of any drive could not be read at some time.
    pub fn ever_unreadable(&self) -> bool {
        !self.ever_unreadable.is_empty()
    }

    /// Whether something happened in that life.
    pub fn happened_in(&self, life: u64) -> bool {
        self.broken.contains(&Some(life))
    }

    /// The controller has started, in that life, and said which drives it uses: what happened before shows in that.
    pub fn known(&mut self, life: u64) {
        for broken in &mut self.broken {
            if broken.is_some_and(|in_life| in_life < life) {
                *broken = None;
            }
        }
    }

    /// Another drive has the slot. Whether it is there; nothing else is wrong with it.
    pub fn replaced(&mut self, slot: DriveIndex, is_present: bool) {
        self.broken[slot.as_usize()] = None;
        for wrong in [&mut self.dead, &mut self.away, &mut self.unreadable] {
            wrong.remove(slot);
        }
        if !is_present {
            self.dead.insert(slot);
        }
        self.ever.insert(slot);
    }

    /// Drives that died.
    pub fn dead(&self) -> DriveSet {
        self.dead
    }

    /// For people.
    pub fn describe(&self) -> String {
        let list = |set: &DriveSet| set.iter().map(|drive| drive.0.to_string()).collect::<Vec<_>>().join(" ");
        let broken: DriveSet =
            self.indexes().filter(|drive| self.broken[drive.as_usize()].is_some()).collect();
        let mut parts = Vec::new();
        for (what, set) in [
            ("broken", &broken),
            ("dead", &self.dead),
            ("away", &self.away),
            ("unreadable", &self.unreadable),
        ] {
            if !set.is_empty() {
                parts.push(format!("{what}: {}", list(set)));
            }
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}

/// Plans the faults of a life.
pub fn plan(scene: &Rc<Scene>, rng: &mut Rng) {
    let drives = scene.drives.borrow().len() as u64;
    let count = match (scene.setup.level.is_redundant(), rng.below(8)) {
        (true, 0..=2) | (false, 1..) => 0,
        (true, 3..=6) | (false, 0) => 1,
        // A level may survive more than it does for certain.
        (true, _) => rng.between(2, 4),
    };
    for _ in 0..count {
        let index = DriveIndex(rng.below(drives) as u16);
        let fault = Fault::draw(rng);
        // Between 100 µs and some seconds, every order of magnitude as likely as any.
        let delay = Duration::from_micros(100 << rng.below(15)) + Duration::from_nanos(rng.below(100_000));
        let (life, mut rng) = (scene.life.get(), rng.clone());
        later(scene, delay, move |scene| {
            if scene.life.get() == life {
                happen(scene, index, fault, &mut rng);
            }
        });
    }
}

/// Does something later, if the run still goes on then. What waits in the simulation must not own it.
fn later(scene: &Rc<Scene>, delay: Duration, action: impl FnOnce(&Rc<Scene>) + 'static) {
    let weak = Rc::downgrade(scene);
    scene.time.after(delay, move || {
        if let Some(scene) = weak.upgrade() {
            action(&scene);
        }
    });
}

fn happen(scene: &Rc<Scene>, index: DriveIndex, fault: Fault, rng: &mut Rng) {
    let drive = scene.drives.borrow()[index.as_usize()].clone();
    {
        let faults = scene.faults.borrow();
        let bad = faults.bad().union(&scene.out.get());
        let all = bad.with(index);
        let is_redundant = scene.setup.level.is_redundant();
        let may = if is_redundant { scene.setup.geometry.survives_set(&all) } else { all.count().0 <= 1 };
        if !scene.created.get() || !may || !drive.is_present() {
            return;
        }
    }
    scene.tell(|| format!("drive {}: {fault:?}", index.0));
    scene.count(|tally| tally.faults += 1);
    {
        let mut faults = scene.faults.borrow_mut();
        if fault.may_cost_the_drive() {
            faults.broken[index.as_usize()] = Some(scene.life.get());
            faults.ever.insert(index);
        }
        match fault {
            Fault::Dies => faults.dead.insert(index),
            Fault::Vanishes => faults.away.insert(index),
            Fault::MediumErrors => {
                faults.unreadable.insert(index);
                faults.ever_unreadable.insert(index);
            }
            _ => {}
        }
    }
    match fault {
        Fault::Dies => drive.fail_now(),
        Fault::Vanishes => drive.vanish(),
        Fault::WriteErrors(count) => drive.fail_next(count, Some("write"), IoErrorKind::Medium),
        Fault::FlushErrors(count) => drive.fail_next(count, Some("flush"), IoErrorKind::Medium),
        Fault::MediumErrors => {
            for _ in 0..rng.between(1, 4) {
                drive.make_unreadable(some_blocks(scene, rng));
            }
        }
        Fault::Holds(time) => {
            drive.hold();
            later(scene, time, move |scene| scene.drives.borrow()[index.as_usize()].release());
        }
        Fault::Stalls(count, time) => drive.stall_next(count, time),
    }
}

/// Some blocks of a drive's data, where requests go.
fn some_blocks(scene: &Scene, rng: &mut Rng) -> ByteRange {
    let setup = &scene.setup;
    let zone = setup.zones[rng.below(setup.zones.len() as u64) as usize];
    let (stripe, _) = setup.geometry.stripe_of(zone.start + ByteCount(rng.below(zone.len.0)));
    let start = stripe.0 * setup.strip.bytes().0 + rng.below(setup.strip.bytes().0 / 4096) * 4096;
    ByteRange::new(ByteOffset(start), ByteCount(4096 << rng.below(2)).min(setup.strip.bytes()))
}

/// What is done to drives between lives: those that were pulled out may be put back. `all`: whatever can be
/// repaired is.
pub fn repair(scene: &Scene, rng: &mut Rng, all: bool) {
    let mut faults = scene.faults.borrow_mut();
    for (index, drive) in scene.drives.borrow().iter().enumerate() {
        let index = DriveIndex(index as u16);
        drive.release();
        drive.stall_next(0, Duration::ZERO);
        drive.cancel_failures();
        if faults.away.contains(index) && (all || rng.chance(2, 3)) {
            faults.away.remove(index);
            drive.come_back();
            scene.tell(|| format!("drive {} is put back", index.0));
        }
        if all {
            drive.heal(ByteRange::new(ByteOffset::ZERO, drive.size()));
            faults.unreadable.remove(index);
        }
        // Nothing else than its drives holds what a volume without redundancy held: they are repaired.
        if faults.dead.contains(index) && !scene.setup.level.is_redundant() {
            faults.dead.remove(index);
            drive.come_back();
            scene.tell(|| format!("drive {} is repaired", index.0));
        }
    }
}
