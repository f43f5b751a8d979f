//! What drives change without telling anybody: rot, lost writes, misdirected writes.
//!
//! # What must hold
//! Nobody can know that a drive's word is wrong until it is held against redundancy; so a sector that a drive changed
//! may read as anything, and whatever is computed from it as well: with parity, the sectors of the same columns of that
//! stripe. Those are *excused* for good, and their stripes are *tainted*: a check may find that they do not agree. All
//! other sectors are what they are, through crashes, rebuilds and repairs: it does not spread. At the end of a run all is
//! well, so that more can be asked ([`Run::silent_faults`]).

use crate::error::{Error, Result};
use crate::host::Host;
use crate::life::{self, Plan};
use crate::log_devices;
use crate::operator;
use crate::removed::Sets;
use crate::run::{Run, envs};
use crate::scene::Scene;
use crate::stamp::Sector;
use crate::tally::Deed;
use crate::workload;
use controller::{Command, SetPolicy, Startable, WriteMode};
use engine::Volume;
use layout::{Cell, CopyIndex, DataIndex, Geometry, Level, ParityIndex, Role};
use platform::{Durability, Env};
use platform_sim::{FaultKind, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// A drive changed a range of what it holds, and told nobody.
pub(crate) fn taint(scene: &Scene, slot: DriveIndex, range: ByteRange) {
    let geometry = scene.layout();
    let sector = scene.setup.sector().bytes();
    let (mut tainted, mut oracle) = (scene.tainted.borrow_mut(), scene.oracle.borrow_mut());
    let mut at = range.start.align_down(sector);
    while at < range.end() {
        if let Some(place) = geometry.locate(slot, at) {
            tainted.entry(place.stripe.0).or_default().insert(slot);
            let mut excuse = |index: DataIndex| {
                let offset = geometry.volume_offset(place.stripe, index, place.within);
                oracle.excuse(Sector(offset.0 / sector.0));
            };
            match place.role {
                Role::Data { index, .. } if !scene.has_parity() => excuse(index),
                _ => (0..geometry.data_strips()).for_each(|index| excuse(DataIndex(index))),
            }
        }
        at += sector;
    }
}

/// Takes note of writes that went astray by now. A drive may be another array's by the time at which anybody notices, of
/// which it missed them: they are held in favour of whoever has it.
pub(crate) fn note_strays(scene: &Scene) {
    let drives = scene.array.drives.borrow();
    let mut strays = scene.machine.strays.borrow_mut();
    for drive in drives.iter() {
        for stray in drive.take_strays() {
            scene.did(if stray.landed.is_some() { Deed::MisdirectsWrite } else { Deed::LosesWrite });
            scene.tell_of(drive.name(), || format!("{stray:?}"));
            strays.push((drive.name().to_owned(), stray));
        }
    }
    for (name, stray) in strays.iter() {
        let Some(slot) = drives.iter().position(|drive| drive.name() == *name) else { continue };
        for range in std::iter::once(stray.missed).chain(stray.landed) {
            taint(scene, DriveIndex(slot as u16), range);
        }
    }
}

/// How many stripes are laid hands on in the end, at most.
const STRIPES: u64 = 4;

/// Stripes of which drives hold something else than what was written to them, and which drives.
type Wrong = BTreeMap<u64, DriveSet>;

impl Run {
    /// The last of all: all is well, and then drives change what they hold. Sectors that are not on the places that
    /// changed read as before; a check finds every such stripe, and names the drive where the level can tell; a repair
    /// gives back what can be told, and all redundancy agrees again.
    pub(crate) fn silent_faults(&mut self) -> Result<()> {
        let setup = self.scene.setup.clone();
        // A check passes over regions that nobody wrote: in large volumes there are some.
        let is_well = self.scene.array.out.get().is_empty() && !self.scene.has_lost_blocks.get();
        let has_stripe = setup.geometry.capacity() >= self.scene.layout().stripe_bytes();
        let is_redundant = self.scene.is_redundant();
        if !setup.silent_in_the_end || !is_redundant || !is_well || !has_stripe || setup.zones.len() > 1 {
            return Ok(());
        }
        self.scene.tell(|| "drives are to change what they hold".to_owned());
        self.scene.machine.bury();
        self.sim.restart_process();
        let given = self.paths();
        let life = suffer(self.scene.clone(), envs(&self.sim, &setup), given);
        if self.finish(life)?.is_none() {
            return Ok(());
        }
        let (copies, scene) = (self.copies(), self.scene.clone());
        self.without_some(&scene, &copies, Sets::AFTER_SILENCE)
    }
}

/// A life in which drives change what they hold.
async fn suffer(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>) -> Result<()> {
    let plan = Plan { given, is_last: true, ..Plan::default() };
    let host = life::begin(scene.clone(), envs, &plan).await;
    if !life::open(&host, &plan, true).await? {
        return Error::wrong_state("the volume needs drives although all were well");
    }
    let volume = host.volumes()?[0].clone();
    operator::stop_tasks(&host).await;
    write_through(&scene, &host).await?;
    // A log has room for pieces of a stripe: each is computed from what the parity drive holds, which may have lost the one before.
    let is_in_pieces = log_devices::journal(&host.show().await?).is_some_and(|(_, is_on_log)| is_on_log);
    let mut rng = Rng::new(scene.setup.seed, "silent", "");
    for _ in 0..rng.between(1, STRIPES) {
        lay(&scene, &volume, is_in_pieces, &mut rng).await?;
    }
    // After a migration there may be more of it than was drawn.
    let geometry = volume.spec().geometry;
    let places = places(&scene, &geometry);
    let wrong = wrong(&geometry, &places);
    let before = scene.oracle.borrow().clone();
    excuse_places(&scene, &geometry, &places, &wrong);
    // It does not spread: only the places themselves may read otherwise.
    life::look_at_zones(&scene, &volume).await?;
    judge_check(&host, &wrong, Startable::Check).await?;
    judge_check(&host, &wrong, Startable::Repair).await?;
    if scene.tells_who_is_wrong() && wrong.values().all(|drives| drives.count().0 == 1) {
        // What can be told is given back: nothing is excused any more.
        *scene.oracle.borrow_mut() = before;
    }
    life::look_at_zones(&scene, &volume).await?;
    judge_check(&host, &Wrong::new(), Startable::Check).await?;
    workload::flush(&scene, &volume).await?;
    host.shut_down().await
}

/// What is written goes to the drives at once, as one write of a stripe: neither the cache nor a log has it, and writes it later.
async fn write_through(scene: &Scene, host: &Host) -> Result<()> {
    if !scene.setup.has_cache() {
        return Ok(());
    }
    let (volume, write_mode) = (scene.setup.name().to_owned(), Some(WriteMode::WriteThrough));
    let command = Command::VolumePolicy(SetPolicy { volume, write_mode, ..SetPolicy::default() });
    match host.ask(command).await {
        Ok(_) => Ok(()),
        Err(error) => Error::wrong_state(format!("the volume does not become write-through: {error}")),
    }
}

/// Writes a stripe, and lets a drive change some of it, or lose or misdirect that where the stripe is not written in pieces.
async fn lay(scene: &Scene, volume: &Rc<Volume>, is_in_pieces: bool, rng: &mut Rng) -> Result<()> {
    let geometry = scene.layout();
    // After a migration there may be more than what is looked at.
    let stripes = scene.setup.geometry.capacity().0 / geometry.stripe_bytes().0;
    let stripe = StripeIndex(rng.below(stripes.clamp(1, geometry.stripes().0)));
    write(scene, volume, stripe).await?;
    let map = geometry.stripe_map(stripe);
    let copies = || (0..geometry.copies()).map(CopyIndex);
    let data = (0..geometry.data_strips()).map(DataIndex);
    let data = data.flat_map(|index| copies().map(move |copy| (index, copy)));
    let mut cells: Vec<Cell> = data.map(|(index, copy)| map.data_cell(index, copy)).collect();
    cells.extend((0..geometry.parity_strips()).filter_map(|index| map.parity_cell(ParityIndex(index))));
    let cell = cells[rng.below(cells.len() as u64) as usize];
    let drive = scene.array.drives.borrow()[cell.drive.as_usize()].clone();
    let sector = scene.setup.sector().bytes().0;
    let sectors = geometry.strip().bytes().0 / sector;
    let first = rng.below(sectors);
    let count = rng.between(1, (sectors - first).min(4));
    let range = ByteRange::new(cell.offset + ByteCount(first * sector), ByteCount(count * sector));
    let (deed, what) = match rng.below(3) {
        _ if is_in_pieces => (Deed::Rots, "changes"),
        0 => (Deed::Rots, "changes"),
        1 => (Deed::LosesWrite, "loses a write to"),
        _ => (Deed::MisdirectsWrite, "misdirects a write to"),
    };
    scene.did(deed);
    scene.tell_of(drive.name(), || format!("it {what} {range:?}, in stripe {}", stripe.0));
    match deed {
        Deed::Rots => {
            drive.rot(range);
            return Ok(());
        }
        Deed::LosesWrite => drive.lose_writes(1, Some(range)),
        _ => drive.misdirect_writes(1, Some(range)),
    }
    write(scene, volume, stripe).await
}

/// Writes a whole stripe: nothing is read for it, so that what is wrong there is so no more, and goes nowhere.
async fn write(scene: &Scene, volume: &Rc<Volume>, stripe: StripeIndex) -> Result<()> {
    let sector = scene.setup.sector().bytes().0;
    let range = scene.layout().stripe_range(stripe);
    let (first, count) = (Sector(range.start.0 / sector), range.len.0 / sector);
    let issued = scene.oracle.borrow_mut().write(first, count);
    let _payload = volume.shard().reserve_payload(range.len).await;
    let mut buf = workload::take(volume, range.len)?;
    buf.bytes_mut().copy_from_slice(&workload::stamps(first, count, issued, sector));
    let begun = scene.begin_request();
    match volume.write(range, buf.freeze(), Durability::Durable).await {
        Ok(()) => {
            scene.oracle.borrow_mut().acknowledge(&issued, true);
            Ok(())
        }
        Err(error) => scene.judge_error("a write of a stripe", range, begun, error),
    }
}

/// Where drives read as something else than they should: the stripe, the drive, the range on it. Room for what other
/// drives lose holds nothing that could be wrong.
fn places(scene: &Scene, geometry: &Geometry) -> Vec<(u64, DriveIndex, ByteRange)> {
    let sector = scene.setup.sector().bytes();
    let mut places = Vec::new();
    for (index, drive) in scene.array.drives.borrow().iter().enumerate() {
        let slot = DriveIndex(index as u16);
        for (range, _) in drive.faults().into_iter().filter(|(_, kind)| *kind == FaultKind::Silent) {
            let mut at = range.start;
            while at < range.end() {
                match geometry.locate(slot, at) {
                    Some(place) if place.role != Role::Spare => {
                        places.push((place.stripe.0, slot, ByteRange::new(at, sector)));
                    }
                    _ => {}
                }
                at += sector;
            }
        }
    }
    places
}

/// Which drives are wrong in which stripes. Where a drive is wrong in two strips of the same columns, nothing tells who is: then
/// all may be.
fn wrong(geometry: &Geometry, places: &[(u64, DriveIndex, ByteRange)]) -> Wrong {
    let (mut wrong, mut columns) = (Wrong::new(), BTreeSet::new());
    for (stripe, drive, range) in places {
        let drives = wrong.entry(*stripe).or_default();
        drives.insert(*drive);
        let within = geometry.locate(*drive, range.start).map(|place| place.within);
        if !columns.insert((*stripe, *drive, within)) {
            *drives = DriveSet::first(geometry.drives());
        }
    }
    wrong
}

/// Excuses just the sectors that are wrong; where several drives are wrong in one stripe, it cannot be told what a repair
/// makes of it.
fn excuse_places(scene: &Scene, geometry: &Geometry, places: &[(u64, DriveIndex, ByteRange)], wrong: &Wrong) {
    let sector = scene.setup.sector().bytes().0;
    let mut oracle = scene.oracle.borrow_mut();
    for (stripe, slot, range) in places {
        if wrong.get(stripe).is_some_and(|drives| drives.count().0 > 1) {
            let whole = geometry.stripe_range(StripeIndex(*stripe));
            (whole.start.0 / sector..whole.end().0 / sector).for_each(|sector| oracle.excuse(Sector(sector)));
        } else if let Some(place) = geometry.locate(*slot, range.start)
            && let Role::Data { index, .. } = place.role
        {
            let offset = geometry.volume_offset(place.stripe, index, place.within);
            oracle.excuse(Sector(offset.0 / sector));
        }
    }
}

/// A check finds just what is wrong, and names the drives where the level can tell.
async fn judge_check(host: &Host, wrong: &Wrong, what: Startable) -> Result<()> {
    let scene = &host.scene;
    let Some(task) = host.run_task(what).await? else {
        return Error::wrong_state(format!("{what:?} is not done although all drives are there"));
    };
    scene.count(|tally| tally.checks += 1);
    let (found, expected) = (task.found.mismatches, wrong.len() as u64);
    scene.tell(|| format!("{what:?} found {found} stripes that do not agree, and blames {:?}", task.blamed));
    let story =
        || format!("{what:?} found {found} stripes and blames {:?}; wrong are {wrong:?}", task.blamed);
    // The engine checks mirrors in larger pieces than strips: there, several count as one.
    let in_pieces = scene.layout().level() == Level::Raid1 && found > 0 && found <= expected;
    if found != expected && !in_pieces {
        return Error::wrong_state(story());
    }
    if scene.tells_who_is_wrong() {
        for slot in scene.layout().drives().indexes() {
            let alone =
                wrong.values().filter(|drives| drives.contains(slot) && drives.count().0 == 1).count();
            let least = if in_pieces { alone.min(1) } else { alone } as u64;
            let may_be_blamed = wrong.values().any(|drives| drives.contains(slot) || drives.count().0 > 1);
            let blamed = task.blamed.iter().find(|blamed| blamed.slot == slot.0);
            let blamed = blamed.map_or(0, |blamed| blamed.stripes);
            if blamed < least || (blamed > 0 && !may_be_blamed) {
                return Error::wrong_state(story());
            }
        }
    }
    Ok(())
}
