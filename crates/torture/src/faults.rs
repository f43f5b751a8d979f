//! Faults of drives, and their schedule.
//!
//! Faults are drawn before a life begins, and happen at a virtual time in any phase: start,
//! recovery, resync, service, stop. A fault happens only if the level survives it together with all
//! current faults (RAID 0 survives none, and still gets one occasionally). [`crate::silent`] has
//! the silent faults.

mod kinds;

use crate::scene::Scene;
use crate::setup::VolumeRole;
use crate::silent;
use crate::tally::Event;
pub use kinds::Fault;
pub(crate) use kinds::START_LIMIT;
use platform::IoErrorKind;
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet};

/// The current and earlier faults of drives.
#[derive(Clone)]
pub struct Faults {
    /// By drive: the latest life with a fault that may fail the drive.
    broken: Vec<Option<u64>>,
    /// By drive: the latest life with temporary refusals of operations. They never fail a drive,
    /// but requests fail.
    busy: Vec<Option<u64>>,
    /// By drive: the latest life in which it was slow, and how long its delays add up to since the
    /// life before.
    slow: Vec<Option<(u64, Duration)>>,
    /// Slots for which an operator ordered the removal of the drive; the affected drive is not yet
    /// known.
    asked_out: DriveSet,
    /// Slots with an unanswered order to remove the drive without data loss: the drive may be
    /// removed already.
    ordered: DriveSet,
    /// Drives that the controller removed without data loss, with no later fault in the array.
    vouched: DriveSet,
    /// The number of faults that may fail a drive.
    happened: u64,
    dead: DriveSet,
    away: DriveSet,
    unreadable: DriveSet,
    /// Drives that ever had a fault that may fail them.
    ever: DriveSet,
    /// Whether any drive ever had unreadable blocks: the punctured blocks move on to other drives.
    ever_unreadable: bool,
    /// Drives with blocks that no write repaired: only redundancy may hold their data until the
    /// drive is replaced.
    stuck: DriveSet,
    count: usize,
}

impl Faults {
    /// No faults.
    pub fn new(drives: usize) -> Faults {
        Faults {
            broken: vec![None; drives],
            busy: vec![None; drives],
            slow: vec![None; drives],
            asked_out: DriveSet::EMPTY,
            ordered: DriveSet::EMPTY,
            vouched: DriveSet::EMPTY,
            happened: 0,
            dead: DriveSet::EMPTY,
            away: DriveSet::EMPTY,
            unreadable: DriveSet::EMPTY,
            ever: DriveSet::EMPTY,
            ever_unreadable: false,
            stuck: DriveSet::EMPTY,
            count: drives,
        }
    }

    /// The number of drives rises by `more`.
    pub fn grow(&mut self, more: usize) {
        self.count += more;
        self.broken.resize(self.count, None);
        self.busy.resize(self.count, None);
        self.slow.resize(self.count, None);
    }

    /// The number of drives drops to `count`; faults of the others are forgotten.
    pub fn shrink(&mut self, count: usize) {
        self.count = count;
        self.broken.truncate(count);
        self.busy.truncate(count);
        self.slow.truncate(count);
        let left = DriveSet::first(DriveCount(count as u16));
        let all = [
            &mut self.asked_out,
            &mut self.ordered,
            &mut self.vouched,
            &mut self.dead,
            &mut self.away,
            &mut self.unreadable,
            &mut self.ever,
            &mut self.stuck,
        ];
        all.into_iter().for_each(|set| *set = set.intersection(&left));
    }

    fn indexes(&self) -> impl Iterator<Item = DriveIndex> + use<> {
        (0..self.count as u16).map(DriveIndex)
    }

    /// Drives that may be unusable now.
    pub fn bad(&self) -> DriveSet {
        let broken: DriveSet =
            self.indexes().filter(|drive| self.broken[drive.as_usize()].is_some()).collect();
        broken
            .union(&self.busy_drives())
            .union(&self.dead)
            .union(&self.away)
            .union(&self.unreadable)
    }

    /// Drives that refused operations temporarily in this life.
    fn busy_drives(&self) -> DriveSet {
        self.indexes().filter(|drive| self.busy[drive.as_usize()].is_some()).collect()
    }

    /// A drive refuses operations temporarily in that life.
    pub fn busy(&mut self, drive: DriveIndex, life: u64) {
        self.busy[drive.as_usize()] = Some(life);
        self.vouched = DriveSet::EMPTY;
        self.happened += 1;
    }

    /// Whether the delays of a drive add up to the time limit of a start, or a slow drive also
    /// refuses operations: the retries may exceed the time limit.
    fn is_too_slow(&mut self, drive: DriveIndex, fault: Fault, life: u64) -> bool {
        let is_busy = self.busy[drive.as_usize()] == Some(life);
        let slow = &mut self.slow[drive.as_usize()];
        if let Some(delay) = fault.delay() {
            // A delay that started before a crash lasts into the start after it.
            let before = slow
                .filter(|(last, _)| last + 1 >= life)
                .map_or(Duration::ZERO, |(_, delay)| delay);
            *slow = Some((life, before + delay));
            is_busy || before + delay >= START_LIMIT
        } else {
            matches!(fault, Fault::Busy(..)) && slow.is_some_and(|(last, _)| last == life)
        }
    }

    /// Whether any drive refuses operations in this life.
    pub fn is_busy(&self) -> bool {
        self.busy.iter().any(Option::is_some)
    }

    /// Drives that cannot return now.
    pub fn gone(&self) -> DriveSet {
        self.dead.union(&self.away)
    }

    /// Drives that the controller may ever have failed.
    pub fn ever(&self) -> DriveSet {
        self.ever
    }

    /// Blocks of a drive become unreadable.
    pub fn cannot_read(&mut self, drive: DriveIndex) {
        self.unreadable.insert(drive);
        self.ever_unreadable = true;
        self.vouched = DriveSet::EMPTY;
    }

    /// Drives with unreadable blocks.
    pub fn unreadable(&self) -> DriveSet {
        self.unreadable
    }

    /// Whether any drive ever had unreadable blocks.
    pub fn ever_unreadable(&self) -> bool {
        self.ever_unreadable
    }

    /// Whether a fault happened in that life.
    pub fn happened_in(&self, life: u64) -> bool {
        self.broken.contains(&Some(life))
    }

    /// The controller may fail the drive in that life.
    pub fn suspect(&mut self, drive: DriveIndex, life: u64) {
        self.broken[drive.as_usize()] = Some(life);
        self.ever.insert(drive);
        self.vouched = DriveSet::EMPTY;
        self.happened += 1;
    }

    /// An operator orders the removal of a slot's drive, which may be another drive by then.
    pub fn asks_out(&mut self, slot: DriveIndex, life: u64) {
        self.suspect(slot, life);
        self.asked_out.insert(slot);
    }

    /// An operator orders a removal that accepts no data loss: the drive goes only if no data is
    /// lost.
    pub fn may_be_taken(&mut self, slot: DriveIndex) {
        self.ever.insert(slot);
        self.ordered.insert(slot);
        self.happened += 1;
    }

    /// Slots whose drive such an order may have removed already.
    pub fn ordered(&self) -> DriveSet {
        self.ordered
    }

    /// The reply to that order arrived: the drive's state is known.
    pub fn answered(&mut self, slot: DriveIndex) {
        self.ordered.remove(slot);
    }

    /// The process crashed in that life: unanswered orders have unknown results.
    pub fn crash(&mut self, life: u64) {
        self.doubt();
        for slot in std::mem::take(&mut self.ordered).iter() {
            self.suspect(slot, life);
        }
    }

    /// The operator accepts no loss: the controller removes the drive only without data loss,
    /// unless more faults follow.
    pub fn vouch(&mut self, slot: DriveIndex) {
        self.vouched.insert(slot);
    }

    /// A new fault: removals that cost no data before may now cost data.
    pub fn doubt(&mut self) {
        self.vouched = DriveSet::EMPTY;
    }

    /// Drives whose removal costs no data, according to the controller.
    pub fn vouched(&self) -> DriveSet {
        self.vouched
    }

    /// The order was refused: the slot's drive keeps its earlier state, unless more faults happened
    /// meanwhile.
    pub fn was_refused(&mut self, slot: DriveIndex, before: &Faults) {
        self.vouched.remove(slot);
        if self.happened == before.happened + 1 {
            self.broken[slot.as_usize()] = before.broken[slot.as_usize()];
            self.ever = before.ever.union(&self.ever.without(slot));
        }
    }

    /// The affected drive is known, or the order was refused.
    pub fn looked(&mut self, slot: DriveIndex) {
        self.asked_out.remove(slot);
    }

    /// A drive is gone since that life.
    pub fn lost(&mut self, drive: DriveIndex, life: u64) {
        self.suspect(drive, life);
        self.dead.insert(drive);
    }

    /// The controller started in that life and reported its drives, which reveals all earlier
    /// failures.
    pub fn known(&mut self, life: u64) {
        self.asked_out = DriveSet::EMPTY;
        for broken in self.broken.iter_mut().chain(&mut self.busy) {
            if broken.is_some_and(|in_life| in_life < life) {
                *broken = None;
            }
        }
    }

    /// Another drive takes the slot. Of its own earlier faults only blocks that no write repaired
    /// remain.
    pub fn replaced(&mut self, slot: DriveIndex, drive: &SimDrive) {
        if !self.asked_out.contains(slot) {
            self.broken[slot.as_usize()] = None;
        }
        for wrong in [&mut self.dead, &mut self.away, &mut self.unreadable, &mut self.stuck] {
            wrong.remove(slot);
        }
        if !drive.can_be_opened() {
            self.dead.insert(slot);
        }
        if drive.has_stuck_sectors() {
            self.cannot_read(slot);
            self.stuck.insert(slot);
        }
        self.ever.insert(slot);
    }

    /// Drives that died.
    pub fn dead(&self) -> DriveSet {
        self.dead
    }

    /// A description for people.
    pub fn describe(&self) -> String {
        let list = |set: &DriveSet| {
            set.iter().map(|drive| drive.0.to_string()).collect::<Vec<_>>().join(" ")
        };
        let broken: DriveSet =
            self.indexes().filter(|drive| self.broken[drive.as_usize()].is_some()).collect();
        let mut parts = Vec::new();
        for (what, set) in [
            ("broken", &broken),
            ("busy", &self.busy_drives()),
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

/// The distance between the incident numbers of operators and faults.
pub const OPERATORS: u64 = 50;

/// The incident offset of faults of a drive's file.
const OF_FILES: u64 = 40;

/// The incident offset of permanently unreadable blocks.
const OF_STUCK: u64 = 41;

/// The incident offset of temporary refusals.
const OF_BUSY: u64 = 42;

/// The incident offset of drives that hang or are slow beyond a time limit: two, possibly at the
/// same time.
const OF_SILENT: u64 = 43;

/// Between 100 µs and some tenths of a second; all orders of magnitude are equally likely.
pub fn delay(rng: &mut Rng) -> Duration {
    Duration::from_micros(100 << rng.below(12)) + Duration::from_nanos(rng.below(100_000))
}

/// Plans the faults of a life.
pub fn plan(scene: &Rc<Scene>) {
    plan_one_more(scene, "file faults", OF_FILES, Fault::draw_for_file);
    plan_one_more(scene, "stuck blocks", OF_STUCK, Fault::draw_stuck);
    plan_one_more(scene, "busy", OF_BUSY, Fault::draw_busy);
    for (stream, nth) in [("silent", OF_SILENT), ("silent with it", OF_SILENT + 1)] {
        plan_one_more(scene, stream, nth, Fault::draw_silent);
    }
    let life = scene.machine.life.get();
    let stream = |instance: String| Rng::new(scene.setup.seed, "faults", &instance);
    let mut rng = stream(life.to_string());
    let drives = scene.array.drives.borrow().len() as u64;
    let is_redundant = scene.is_redundant();
    let count = match rng.below(8) {
        0..=1 => 0,
        2..=4 => 1,
        // A level may survive more than its guaranteed fault tolerance.
        _ => rng.between(2, 4),
    };
    let is_silent = scene.setup.is_silent();
    let count = if is_silent { count + rng.below(3) } else { count };
    for index in 0..count {
        let number = scene.setup.first_incident(life) + index;
        if scene.setup.without.incidents.contains(&number) {
            continue;
        }
        let mut rng = stream(format!("{life}.{index}"));
        let drive = DriveIndex(rng.below(drives) as u16);
        let fault = Fault::draw(&mut rng, is_silent && is_redundant);
        let delay = delay(&mut rng);
        later(scene, delay, move |scene| {
            if scene.machine.life.get() == life {
                happen(scene, number, drive, fault, &mut rng);
            }
        });
    }
}

/// Plans, in a quarter of the lives, one more fault with its own random stream: other draws of
/// known seeds do not change.
fn plan_one_more(scene: &Rc<Scene>, stream: &'static str, nth: u64, draw: fn(&mut Rng) -> Fault) {
    let life = scene.machine.life.get();
    let mut rng = Rng::new(scene.setup.seed, stream, &life.to_string());
    let number = scene.setup.first_incident(life) + nth;
    let is_wanted = rng.chance(1, 4) && scene.is_redundant();
    if !is_wanted || scene.setup.without.incidents.contains(&number) {
        return;
    }
    let drive = DriveIndex(rng.below(scene.array.drives.borrow().len() as u64) as u16);
    let (fault, delay) = (draw(&mut rng), delay(&mut rng));
    later(scene, delay, move |scene| {
        if scene.machine.life.get() == life {
            happen(scene, number, drive, fault, &mut rng);
        }
    });
}

/// Runs an action later, if the run still goes on. The pending action must not own the scene.
pub(crate) fn later(scene: &Rc<Scene>, delay: Duration, action: impl FnOnce(&Rc<Scene>) + 'static) {
    let weak = Rc::downgrade(scene);
    scene.machine.time.after(delay, move || {
        if let Some(scene) = weak.upgrade() {
            action(&scene);
        }
    });
}

/// Runs an action on a drive later; the drive is found by its first name, in any slot.
pub fn later_to(
    scene: &Rc<Scene>,
    delay: Duration,
    drive: &SimDrive,
    action: impl FnOnce(&SimDrive) + 'static,
) {
    let name = drive.name().to_owned();
    later(scene, delay, move |scene| {
        let drive = scene
            .machine
            .known
            .borrow()
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, drive)| drive.clone());
        if let Some(drive) = drive {
            action(&drive);
        }
    });
}

/// Whether every volume of the array survives a further lost drive, in addition to current faults
/// and pending orders.
pub fn may_lose(scene: &Scene, index: DriveIndex) -> bool {
    let ordered = scene.array.faults.borrow().ordered;
    let all = scene.array.unreliable().union(&ordered).with(index);
    if scene.is_redundant() { scene.array.survives(&all) } else { all.count().0 <= 1 }
}

fn happen(scene: &Rc<Scene>, number: u64, index: DriveIndex, fault: Fault, rng: &mut Rng) {
    // The drive may be no member any more.
    let Some(drive) = scene.array.drives.borrow().get(index.as_usize()).cloned() else { return };
    let may = !fault.is_reported() || may_lose(scene, index);
    if !scene.is_there() || !may || !drive.is_present() {
        return;
    }
    let (name, limit) = (drive.name().to_owned(), scene.setup.shortest_limit());
    scene.machine.story.incidents.borrow_mut().insert(number);
    scene.tell_of(&name, || format!("{fault:?}, in slot {} (incident {number})", index.0));
    if !matches!(fault, Fault::LosesWrites(_) | Fault::MisdirectsWrites(_)) {
        scene.did(fault.event(limit));
    }
    {
        let mut faults = scene.array.faults.borrow_mut();
        let life = scene.machine.life.get();
        if fault.may_cost_the_drive(limit) || faults.is_too_slow(index, fault, life) {
            faults.suspect(index, life);
        }
        match fault {
            Fault::Dies | Fault::FileDeleted | Fault::FileTruncated(_) => faults.dead.insert(index),
            Fault::Vanishes(_) => faults.away.insert(index),
            Fault::Busy(..) => faults.busy(index, scene.machine.life.get()),
            Fault::MediumErrors => faults.cannot_read(index),
            Fault::Stuck { .. } => {
                faults.cannot_read(index);
                faults.stuck.insert(index);
            }
            _ => {}
        }
    }
    scene.array.note_losses();
    carry_out(scene, index, &drive, fault, rng);
}

fn carry_out(scene: &Rc<Scene>, index: DriveIndex, drive: &SimDrive, fault: Fault, rng: &mut Rng) {
    match fault {
        Fault::Dies => drive.fail_now(),
        Fault::Vanishes(back) => {
            drive.vanish();
            if let Some(after) = back {
                later(scene, after, move |scene| put_back(scene, index));
            }
        }
        Fault::FileDeleted => drive.delete_file(),
        Fault::FileTruncated(part) => {
            // A truncated drive that became larger before ends before its label, wherever the label
            // is.
            let by = scene.setup.larger.as_ref().map_or(0, |larger| larger.by.0);
            drive.truncate_file(ByteCount((drive.size().0 - by) / 64 * part));
        }
        Fault::WriteErrors(count) => drive.fail_next(count, Some("write"), IoErrorKind::Medium),
        Fault::FlushErrors(count) => drive.fail_next(count, Some("flush"), IoErrorKind::Medium),
        Fault::Busy(operation, count) => drive.fail_next(count, Some(operation), IoErrorKind::Busy),
        Fault::MediumErrors => {
            for _ in 0..rng.between(1, 4) {
                let on_same =
                    scene.beside.iter().find(|other| other.setup.place == VolumeRole::SameDrives);
                let whose = on_same.filter(|_| rng.chance(1, 3)).unwrap_or(scene);
                drive.make_unreadable(some_blocks(whose, rng));
            }
        }
        Fault::Stuck { writes, refuses } => {
            for _ in 0..rng.between(1, 3) {
                let blocks = some_blocks(scene, rng);
                drive.make_stuck(blocks, writes);
                if refuses {
                    drive.refuse_writes(blocks);
                }
            }
        }
        Fault::Holds(time) => {
            drive.hold();
            later_to(scene, time, drive, SimDrive::release);
        }
        Fault::Stalls(count, time) => drive.stall_next(count, time),
        Fault::Slows(times, time) => {
            drive.slow_down(times);
            later_to(scene, time, drive, |drive| drive.slow_down(1));
        }
        Fault::Rots => {
            let range = some_blocks(scene, rng);
            drive.rot(range);
            silent::taint(scene, index, range);
        }
        Fault::LosesWrites(count) => drive.lose_writes(count, Some(some_blocks(scene, rng))),
        Fault::MisdirectsWrites(count) => {
            drive.misdirect_writes(count, Some(some_blocks(scene, rng)))
        }
    }
}

/// Some blocks of a drive's data in the range of requests. The range ends with the volume, because
/// another volume with its own redundancy may follow.
pub fn some_blocks(scene: &Scene, rng: &mut Rng) -> ByteRange {
    let setup = &scene.setup;
    let geometry = scene.layout();
    let zone = setup.zones[rng.below(setup.zones.len() as u64) as usize];
    let (stripe, _) = geometry.stripe_of(zone.start + ByteCount(rng.below(zone.len.0)));
    let row =
        stripe.0 / u64::from(geometry.stripes_per_row()) * u64::from(geometry.rows_per_stripe());
    let strip = geometry.strip().bytes().0;
    let start = setup.start.0 + row * strip + rng.below(strip / 4096) * 4096;
    let left = ByteCount((setup.start + geometry.member_size()).0 - start);
    ByteRange::new(
        ByteOffset(start),
        ByteCount(4096 << rng.below(2)).min(geometry.strip().bytes()).min(left),
    )
}

/// A drive that was pulled out is reinserted.
fn put_back(scene: &Scene, index: DriveIndex) {
    let mut faults = scene.array.faults.borrow_mut();
    if faults.away.contains(index) {
        faults.away.remove(index);
        let drive = scene.array.drives.borrow()[index.as_usize()].clone();
        drive.come_back();
        scene.did(Event::ComesBack);
        scene.tell_of(drive.name(), || format!("reinserted in slot {}", index.0));
    }
}

/// The repair of drives between lives: pulled drives may be reinserted. `all`: repairs everything
/// that can be repaired.
pub fn repair(scene: &Scene, rng: &mut Rng, all: bool) {
    for (index, drive) in scene.array.drives.borrow().clone().into_iter().enumerate() {
        let index = DriveIndex(index as u16);
        drive.release();
        drive.stall_next(0, Duration::ZERO);
        drive.slow_down(1);
        drive.cancel_failures();
        let is_away = scene.array.faults.borrow().away.contains(index);
        if is_away && (all || rng.chance(2, 3)) {
            put_back(scene, index);
        }
        let mut faults = scene.array.faults.borrow_mut();
        if all {
            drive.heal_unreadable(ByteRange::new(ByteOffset::ZERO, drive.size()));
            drive.clear_write_errors();
            if !faults.stuck.contains(index) {
                faults.unreadable.remove(index);
            }
        }
        // A volume without redundancy needs its original drives: they are repaired.
        if faults.dead.contains(index) && !scene.is_redundant() {
            faults.dead.remove(index);
            drive.come_back();
            scene.tell_of(drive.name(), || "repaired".to_owned());
        }
    }
}
