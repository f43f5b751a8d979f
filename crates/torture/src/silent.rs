//! Silent corruption by drives: bit rot, lost writes, misdirected writes.
//!
//! # Invariants
//! Corruption is unknown until data is compared with redundancy. So a corrupted sector, and each
//! sector that is computed from it (with parity, the sectors of the same columns of the stripe),
//! may have any value: they are *excused* permanently. Their stripes are *tainted*: a check may
//! find them inconsistent. Corruption does not spread through crashes, rebuilds and repairs. At the
//! end of a run, without other faults, stricter checks follow ([`Run::silent_faults`]).

use crate::error::{Error, Result};
use crate::host::Host;
use crate::life::{self, Plan};
use crate::log_devices;
use crate::operator;
use crate::removed::Sets;
use crate::run::{Run, envs};
use crate::scene::Scene;
use crate::stamp::Sector;
use crate::tally::Event;
use crate::workload;
use controller::{Command, SetPolicy, Startable, WriteMode};
use engine::Volume;
use layout::{Cell, CopyIndex, DataIndex, Geometry, Level, ParityIndex, Role};
use platform::{Durability, Env};
use platform_sim::{FaultKind, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// Records silent corruption of a range of a drive.
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

/// Records misdirected writes so far. The drive may belong to another array by now, which misses
/// them: they excuse the array that has the drive.
pub(crate) fn note_strays(scene: &Scene) {
    let drives = scene.array.drives.borrow();
    let mut strays = scene.machine.strays.borrow_mut();
    for drive in drives.iter() {
        for stray in drive.take_strays() {
            scene.did(if stray.landed.is_some() {
                Event::MisdirectsWrite
            } else {
                Event::LosesWrite
            });
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

/// The maximum number of corrupted stripes at the end.
const STRIPES: u64 = 4;

/// Corrupted stripes, and the wrong drives.
type WrongDrives = BTreeMap<u64, DriveSet>;

impl Run {
    /// The last test: without other faults, drives are corrupted. Other sectors read as before; a
    /// check finds every corrupted stripe, and names the drive if the level allows it; a repair
    /// restores what can be identified, and all redundancy is consistent again.
    pub(crate) fn silent_faults(&mut self) -> Result<()> {
        let setup = self.scene.setup.clone();
        // A check skips regions that were never written: large volumes have some.
        let is_well = self.scene.array.out.get().is_empty() && !self.scene.has_lost_blocks.get();
        let has_stripe = setup.geometry.capacity() >= self.scene.layout().stripe_bytes();
        let is_redundant = self.scene.is_redundant();
        if !setup.silent_in_the_end
            || !is_redundant
            || !is_well
            || !has_stripe
            || setup.zones.len() > 1
        {
            return Ok(());
        }
        self.scene.tell(|| "drives will be corrupted silently".to_owned());
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

/// A life with silent corruption.
async fn suffer(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>) -> Result<()> {
    let plan = Plan { given, is_last: true, ..Plan::default() };
    let host = life::begin(scene.clone(), envs, &plan).await;
    if !life::open(&host, &plan, true).await? {
        return Error::wrong_state("the volume needs drives although all drives work");
    }
    let volume = host.volumes()?[0].clone();
    operator::stop_tasks(&host).await;
    write_through(&scene, &host).await?;
    // With a log, a stripe is written in pieces: each is computed from the parity drive's content,
    // which may lack the previous piece.
    let is_in_pieces =
        log_devices::journal(&host.show().await?).is_some_and(|(_, is_on_log)| is_on_log);
    let mut rng = Rng::new(scene.setup.seed, "silent", "");
    for _ in 0..rng.between(1, STRIPES) {
        lay(&scene, &volume, is_in_pieces, &mut rng).await?;
    }
    // A reshape may have enlarged the volume.
    let geometry = volume.spec().geometry;
    let places = places(&scene, &geometry);
    let wrong = wrong(&geometry, &places);
    let before = scene.oracle.borrow().clone();
    excuse_places(&scene, &geometry, &places, &wrong);
    // Corruption does not spread: only the corrupted places may differ.
    life::look_at_zones(&scene, &volume).await?;
    judge_check(&host, &wrong, Startable::Check).await?;
    judge_check(&host, &wrong, Startable::Repair).await?;
    if scene.tells_who_is_wrong() && wrong.values().all(|drives| drives.count().0 == 1) {
        // The repair restores everything that can be identified: nothing is excused any more.
        *scene.oracle.borrow_mut() = before;
    }
    life::look_at_zones(&scene, &volume).await?;
    judge_check(&host, &WrongDrives::new(), Startable::Check).await?;
    workload::flush(&scene, &volume).await?;
    host.shut_down().await
}

/// Switches to write-through: each write reaches the drives as one stripe write, and neither cache
/// nor log writes it later.
async fn write_through(scene: &Scene, host: &Host) -> Result<()> {
    if !scene.setup.has_cache() {
        return Ok(());
    }
    let (volume, write_mode) = (scene.setup.name().to_owned(), Some(WriteMode::WriteThrough));
    let command = Command::VolumePolicy(SetPolicy { volume, write_mode, ..SetPolicy::default() });
    match host.ask(command).await {
        Ok(_) => Ok(()),
        Err(error) => Error::wrong_state(format!("cannot switch to write-through: {error}")),
    }
}

/// Writes a stripe, and corrupts a part, or loses or misdirects a write if the stripe is not
/// written in pieces.
async fn lay(scene: &Scene, volume: &Rc<Volume>, is_in_pieces: bool, rng: &mut Rng) -> Result<()> {
    let geometry = scene.layout();
    // A reshape may have enlarged the volume beyond the checked range.
    let stripes = scene.setup.geometry.capacity().0 / geometry.stripe_bytes().0;
    let stripe = StripeIndex(rng.below(stripes.clamp(1, geometry.stripes().0)));
    write(scene, volume, stripe).await?;
    let map = geometry.stripe_map(stripe);
    let copies = || (0..geometry.copies()).map(CopyIndex);
    let data = (0..geometry.data_strips()).map(DataIndex);
    let data = data.flat_map(|index| copies().map(move |copy| (index, copy)));
    let mut cells: Vec<Cell> = data.map(|(index, copy)| map.data_cell(index, copy)).collect();
    cells.extend(
        (0..geometry.parity_strips()).filter_map(|index| map.parity_cell(ParityIndex(index))),
    );
    let cell = cells[rng.below(cells.len() as u64) as usize];
    let drive = scene.array.drives.borrow()[cell.drive.as_usize()].clone();
    let sector = scene.setup.sector().bytes().0;
    let sectors = geometry.strip().bytes().0 / sector;
    let first = rng.below(sectors);
    let count = rng.between(1, (sectors - first).min(4));
    let range = ByteRange::new(cell.offset + ByteCount(first * sector), ByteCount(count * sector));
    let (event, what) = match rng.below(3) {
        _ if is_in_pieces => (Event::Rots, "changes"),
        0 => (Event::Rots, "changes"),
        1 => (Event::LosesWrite, "loses a write to"),
        _ => (Event::MisdirectsWrite, "misdirects a write to"),
    };
    scene.did(event);
    scene.tell_of(drive.name(), || format!("it {what} {range:?}, in stripe {}", stripe.0));
    match event {
        Event::Rots => {
            drive.rot(range);
            return Ok(());
        }
        Event::LosesWrite => drive.lose_writes(1, Some(range)),
        _ => drive.misdirect_writes(1, Some(range)),
    }
    write(scene, volume, stripe).await
}

/// A full-stripe write: it reads nothing, so it repairs earlier corruption and does not spread it.
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

/// The corrupted places: stripe, drive, and range on the drive. Free distributed spare strips hold
/// no data that could be wrong.
fn places(scene: &Scene, geometry: &Geometry) -> Vec<(u64, DriveIndex, ByteRange)> {
    let sector = scene.setup.sector().bytes();
    let mut places = Vec::new();
    for (index, drive) in scene.array.drives.borrow().iter().enumerate() {
        let slot = DriveIndex(index as u16);
        for (range, _) in drive.faults().into_iter().filter(|(_, kind)| *kind == FaultKind::Silent)
        {
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

/// The wrong drives by stripe. If a drive is wrong in two strips of the same columns, the drives
/// cannot be identified: all may be wrong.
fn wrong(geometry: &Geometry, places: &[(u64, DriveIndex, ByteRange)]) -> WrongDrives {
    let (mut wrong, mut columns) = (WrongDrives::new(), BTreeSet::new());
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

/// Excuses exactly the wrong sectors; if several drives are wrong in a stripe, the result of a
/// repair is unpredictable.
fn excuse_places(
    scene: &Scene,
    geometry: &Geometry,
    places: &[(u64, DriveIndex, ByteRange)],
    wrong: &WrongDrives,
) {
    let sector = scene.setup.sector().bytes().0;
    let mut oracle = scene.oracle.borrow_mut();
    for (stripe, slot, range) in places {
        if wrong.get(stripe).is_some_and(|drives| drives.count().0 > 1) {
            let whole = geometry.stripe_range(StripeIndex(*stripe));
            (whole.start.0 / sector..whole.end().0 / sector)
                .for_each(|sector| oracle.excuse(Sector(sector)));
        } else if let Some(place) = geometry.locate(*slot, range.start)
            && let Role::Data { index, .. } = place.role
        {
            let offset = geometry.volume_offset(place.stripe, index, place.within);
            oracle.excuse(Sector(offset.0 / sector));
        }
    }
}

/// A check finds exactly the corrupted stripes, and names the drives if the level allows it.
async fn judge_check(host: &Host, wrong: &WrongDrives, what: Startable) -> Result<()> {
    let scene = &host.scene;
    let Some(task) = host.run_task(what).await? else {
        return Error::wrong_state(format!("{what:?} is not done although all drives are present"));
    };
    scene.count(|tally| tally.checks += 1);
    let (found, expected) = (task.found.mismatches, wrong.len() as u64);
    scene.tell(|| {
        format!("{what:?} found {found} inconsistent stripes, and blames {:?}", task.blamed)
    });
    let story = || {
        format!("{what:?} found {found} stripes and blames {:?}; wrong are {wrong:?}", task.blamed)
    };
    // The engine checks mirrors in pieces larger than strips: several strips count as one.
    let in_pieces = scene.layout().level() == Level::Raid1 && found > 0 && found <= expected;
    if found != expected && !in_pieces {
        return Error::wrong_state(story());
    }
    if scene.tells_who_is_wrong() {
        for slot in scene.layout().drives().indexes() {
            let alone = wrong
                .values()
                .filter(|drives| drives.contains(slot) && drives.count().0 == 1)
                .count();
            let least = if in_pieces { alone.min(1) } else { alone } as u64;
            let may_be_blamed =
                wrong.values().any(|drives| drives.contains(slot) || drives.count().0 > 1);
            let blamed = task.blamed.iter().find(|blamed| blamed.slot == slot.0);
            let blamed = blamed.map_or(0, |blamed| blamed.stripes);
            if blamed < least || (blamed > 0 && !may_be_blamed) {
                return Error::wrong_state(story());
            }
        }
    }
    Ok(())
}
