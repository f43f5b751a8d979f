//! Assigns drives to slots if the metadata contain all but the order: Intel identifies a drive by
//! its serial number, which a drive image lacks.
//!
//! Level, strip, size, number of drives and missing members are taken from the metadata. Only each
//! drive's serial number is guessed, since it determines its slot in every volume of the container.
//! The evidence of all these volumes is added. Drives with a known number keep their slot.

use super::judge::{judge_order, rank};
use super::redundancy::{Redundancy, redundancy};
use super::{
    Candidate, Family, Guess, Sampled, Sureness, candidate, family, family_of_mirrors, orders,
};
use crate::scan::{Scan, ScannedVolume};
use drives::Window;
use layout::{Geometry, Level};
use ondisk::foreign::{FoundOther, FoundVolume, Role, Standing, UNPLACED};
use platform::{DriveSource, Env};
use std::sync::Arc;
use units::{ByteOffset, ByteRange, StripSize};

/// The number of orders that are examined closely: all orders of four drives.
const CLOSE: usize = 24;

/// Guesses serial numbers for drives without one, if volumes identify their members by serial
/// number. Returns orders as [`guess()`](super::guess) does, with the number of each drive
/// ([`Candidate::serials`]). Indexes count the scanned drives that could be opened. `None` if every
/// drive has its slot. Nothing is written.
///
/// # Errors
/// A sentence, when a guess is impossible with any content of the drives.
pub async fn places(env: &Env, scan: &Scan) -> Result<Option<Guess>, String> {
    let has_unplaced =
        |volume: &&ScannedVolume| volume.found.others.iter().any(|one| one.what == UNPLACED);
    let volumes: Vec<&FoundVolume> =
        scan.volumes.iter().filter(has_unplaced).map(|volume| &volume.found).collect();
    let Some(first) = volumes.first() else { return Ok(None) };
    if volumes.iter().any(|volume| volume.record.container != first.record.container) {
        return Err(
            "these drives belong to several arrays that identify drives by serial number; \
                    give the drives of one array at a time"
                .into(),
        );
    }
    let mut guess = Guess::default();
    let container = Container::new(scan, &volumes, &mut guess.findings)?;
    if let [_] = container.drives[..] {
        guess.candidates.push(container.alone(&volumes)?);
        return Ok(Some(guess));
    }
    let mut laid = Vec::new();
    for volume in &volumes {
        match SampledVolume::new(env, scan, &container, volume).await {
            Ok(one) => laid.push(one),
            Err(why) => {
                guess.findings.push(format!("'{}' gives no order: {why}", volume.record.name))
            }
        }
    }
    // A volume of copies has no order: it only judges the orders of other volumes.
    laid.sort_by_key(|one| one.geometry.data_strips() == 1);
    let mut ways: Vec<Vec<Option<usize>>> = Vec::new();
    for one in laid
        .iter()
        .filter(|one| one.geometry.data_strips() > 1 || laid[0].geometry.data_strips() == 1)
    {
        for (_, found) in orders(&one.sampled, &one.family, 0, one.family_strip().shift()).await {
            ways.extend(container.seated(one, &found.order).filter(|way| !ways.contains(way)));
        }
    }
    for way in &ways {
        guess.candidates.extend(container.judged(&laid, way).await);
    }
    let judged = guess.candidates.len();
    rank(&mut guess);
    if judged > guess.candidates.len() {
        guess.findings.push(format!("{judged} orders were compared; the best are listed"));
    }
    if let ([only], true) = (&mut guess.candidates[..], container.is_settled()) {
        only.sureness = only.sureness.max(Sureness::Likely);
        only.evidence.push("no other slot is free".into());
    }
    Ok(Some(guess))
}

/// Adds the serial numbers of a volume's members.
///
/// # Errors
/// A sentence, when a member is being rebuilt.
fn add_numbers(volume: &FoundVolume, numbers: &mut Vec<String>) -> Result<(), String> {
    for entry in &volume.record.entries {
        match entry.role {
            Role::Active(_) if !numbers.contains(&entry.key) => numbers.push(entry.key.clone()),
            Role::Rebuilding(_) => {
                return Err(format!(
                    "a member of '{}' is being rebuilt, and the data do not show which drive it \
                     is; give each its number with --serial DRIVE=NUMBER",
                    volume.record.name
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The drives of a container, and the serial numbers of its members.
struct Container {
    /// The drives with the newest metadata, by their index in the scan.
    drives: Vec<usize>,
    /// The same drives by their index among those that could be opened.
    opened: Vec<usize>,
    /// The members' numbers, each with the drive that reports it, as an index into `drives`.
    seats: Vec<(String, Option<usize>)>,
}

impl Container {
    fn new(
        scan: &Scan,
        volumes: &[&FoundVolume],
        findings: &mut Vec<String>,
    ) -> Result<Container, String> {
        let mut numbers: Vec<String> = Vec::new();
        let mut drives: Vec<usize> = Vec::new();
        let mut placed: Vec<(String, usize)> = Vec::new();
        for volume in volumes {
            let record = &volume.record;
            findings.push(taken_as_written(volume));
            add_numbers(volume, &mut numbers)?;
            for other in volume.others.iter().filter(|other| other.what == UNPLACED) {
                if other.sequence + record.may_lag < record.sequence {
                    findings.push(too_old(scan, volume, other));
                } else if !drives.contains(&other.drive) {
                    drives.push(other.drive);
                }
            }
            for member in
                volume.members.iter().filter(|member| member.standing == Standing::Current)
            {
                let key = key_of(volume, member.slot);
                if let (Some(drive), Some(key)) = (member.drive, key)
                    && placed.iter().all(|(other, _)| *other != key)
                {
                    placed.push((key, drive));
                }
            }
        }
        findings.dedup();
        let free = numbers.len().saturating_sub(placed.len());
        if drives.len() > free {
            return Err(format!(
                "{} drives report no serial number, but only {free} numbers of its metadata are \
                 free; leave out copies and drives of other arrays",
                drives.len()
            ));
        }
        drives.extend(placed.iter().map(|(_, drive)| *drive));
        drives.sort_unstable();
        let is_open = |index: &usize| scan.drives[*index].source.is_some();
        let opened: Vec<usize> = (0..scan.drives.len()).filter(is_open).collect();
        let place = |all: &[usize], drive: usize| all.iter().position(|own| *own == drive);
        let seat = |number: String| {
            let own = placed.iter().find(|(other, _)| *other == number);
            let own = own.and_then(|(_, drive)| place(&drives, *drive));
            (number, own)
        };
        let seats = numbers.into_iter().map(seat).collect();
        let opened = drives.iter().filter_map(|drive| place(&opened, *drive)).collect();
        Ok(Container { drives, opened, seats })
    }

    /// The candidate when only one drive of a mirror is present.
    fn alone(&self, volumes: &[&FoundVolume]) -> Result<Candidate, String> {
        let mut all = None;
        for volume in volumes {
            let section = volume.sections.first().ok_or_else(|| volume.reasons.join("; "))?;
            let geometry = section.geometry()?;
            if geometry.level() != Level::Raid1 {
                return Err(format!(
                    "one drive of '{}' was given, and that is not enough to read it; give the \
                     others too",
                    volume.record.name
                ));
            }
            all = all.or(Some(geometry));
        }
        let free = self.seats.iter().find(|(_, drive)| drive.is_none());
        let ((number, _), geometry) = free.zip(all).ok_or("no slot of it is free")?;
        let mut order = vec![None; geometry.drives().as_usize()];
        order[0] = Some(self.opened[0]);
        Ok(Candidate {
            serials: vec![(self.opened[0], number.clone())],
            sureness: Sureness::Likely,
            evidence: vec!["its members are copies, so the slot does not matter".into()],
            ..candidate(geometry, order, 0)
        })
    }

    /// Whether only one drive and one slot are left.
    fn is_settled(&self) -> bool {
        let placed = self.seats.iter().filter(|(_, drive)| drive.is_some()).count();
        self.drives.len() == placed + 1 && self.seats.len() == placed + 1
    }

    /// The drive of each seat for a volume's order. `None` if that contradicts a number that a
    /// drive reports.
    fn seated(&self, laid: &SampledVolume, order: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
        let mut seated: Vec<Option<usize>> = self.seats.iter().map(|(_, drive)| *drive).collect();
        let copies = laid.copies();
        let units = laid.seats.len() / copies;
        for (slots, drives) in
            laid.seats.chunks(copies).zip(order.chunks((order.len() / units).max(1)))
        {
            for drive in drives.iter().copied().flatten() {
                let seats = || slots.iter().copied().flatten();
                match seated.iter().position(|own| *own == Some(drive)) {
                    Some(own) if seats().any(|seat| seat == own) => {}
                    Some(_) => return None,
                    None => {
                        let free = seats().find(|seat| seated[*seat].is_none())?;
                        seated[free] = Some(drive);
                    }
                }
            }
        }
        Some(seated)
    }

    /// Points for these seats in all volumes; `None` if one volume excludes them.
    async fn judged(&self, laid: &[SampledVolume], seated: &[Option<usize>]) -> Option<Candidate> {
        let mut all: Option<Candidate> = None;
        for one in laid {
            let own: Vec<Option<usize>> = one.seats.iter().map(|seat| seated[(*seat)?]).collect();
            let mut judged = candidate(one.geometry, one.copies_first(&own)?, 0);
            if !judge_order(&one.sampled, &mut judged).await {
                return None;
            }
            let evidence = judged.evidence.into_iter().map(|said| match laid.len() {
                1 => said,
                _ => format!("{}: {said}", one.name),
            });
            match &mut all {
                Some(all) => {
                    all.points += judged.points;
                    all.evidence.extend(evidence);
                }
                None => {
                    let opened = |drive: Option<usize>| drive.map(|drive| self.opened[drive]);
                    all = Some(Candidate {
                        order: own.into_iter().map(opened).collect(),
                        start: one.start,
                        evidence: evidence.collect(),
                        serials: self.serials(seated),
                        ..judged
                    });
                }
            }
        }
        all
    }

    fn serials(&self, seated: &[Option<usize>]) -> Vec<(usize, String)> {
        let seats = self.seats.iter().zip(seated);
        seats
            .filter_map(|((number, _), drive)| Some((self.opened[(*drive)?], number.clone())))
            .collect()
    }
}

fn too_old(scan: &Scan, volume: &FoundVolume, other: &FoundOther) -> String {
    let name = scan.drives.get(other.drive).map_or("", |drive| &drive.name);
    format!(
        "{name} is ignored: its metadata have generation {}, those of the others {}",
        other.sequence, volume.record.sequence
    )
}

fn taken_as_written(volume: &FoundVolume) -> String {
    let record = &volume.record;
    let strip = record.strip.map_or(String::new(), |strip| format!(" with a strip of {strip}"));
    format!(
        "'{}' is {} on {} drives{strip}, by its metadata; they identify drives by serial number \
         only",
        record.name, record.level, record.slots
    )
}

/// The name of a slot's member in the metadata.
fn key_of(volume: &FoundVolume, slot: u16) -> Option<String> {
    let entry = volume.record.entries.iter().find(|entry| entry.role == Role::Active(slot));
    entry.map(|entry| entry.key.clone())
}

/// A volume by its metadata, with samples of the drives in its area.
struct SampledVolume {
    name: String,
    geometry: Geometry,
    /// The start of its data on each drive.
    start: ByteOffset,
    /// The seat of each slot; `None` if the metadata call a member missing.
    seats: Vec<Option<usize>>,
    sampled: Sampled,
    /// The possible occupants of slots: drives, or groups of equal drives.
    family: Family,
}

impl SampledVolume {
    async fn new(
        env: &Env,
        scan: &Scan,
        container: &Container,
        volume: &FoundVolume,
    ) -> Result<SampledVolume, String> {
        let record = &volume.record;
        let section =
            volume.sections.first().filter(|section| section.within.start == ByteOffset(0));
        let section = section.ok_or_else(|| volume.reasons.join("; "))?;
        let geometry = section.geometry()?;
        let start_on = |drive: &usize| {
            let records = &scan.drives.get(*drive)?.told.records;
            let own = records.iter().find(|own| own.volume.identity == record.identity)?;
            Some(own.member.data.start)
        };
        let starts: Option<Vec<ByteOffset>> = container.drives.iter().map(start_on).collect();
        let starts = starts.ok_or("not all of the drives carry its metadata")?;
        let start = starts.first().copied().ok_or("none of its drives was given")?;
        if starts.iter().any(|other| *other != start) {
            return Err("its data begin at different offsets on its drives".into());
        }
        let range = ByteRange::new(start, geometry.member_size());
        let window = |drive: &usize| {
            let source = scan.drives.get(*drive)?.source.clone()?;
            Some(Arc::new(Window::new(source, range)) as Arc<dyn DriveSource>)
        };
        let sources: Vec<Arc<dyn DriveSource>> =
            container.drives.iter().filter_map(window).collect();
        let sampled = Sampled::new(env, &sources).await?;
        let seat = |slot: u16| {
            let key = key_of(volume, slot)?;
            container.seats.iter().position(|(number, _)| *number == key)
        };
        let seats: Vec<Option<usize>> = (0..record.slots).map(seat).collect();
        let found = redundancy(&sampled.windows, sources.len());
        let family = known_family(&geometry, &seats, container, &found)?;
        Ok(SampledVolume { name: record.name.clone(), geometry, start, seats, sampled, family })
    }

    /// The strip for the search of orders; any strip for levels without one.
    fn family_strip(&self) -> StripSize {
        if self.geometry.data_strips() == 1 { StripSize::KIB_64 } else { self.geometry.strip() }
    }

    /// The number of consecutive slots with equal content.
    fn copies(&self) -> usize {
        usize::from(self.geometry.copies()).max(1)
    }

    /// The same order with present drives first in each mirror. `None` if drives that differ would
    /// form a mirror.
    fn copies_first(&self, order: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
        let mut first = Vec::new();
        for unit in order.chunks(self.copies()) {
            let there: Vec<usize> = unit.iter().copied().flatten().collect();
            let hold_the_same =
                |group: &Vec<usize>| there.iter().all(|drive| group.contains(drive));
            if !self.family.groups.iter().any(hold_the_same) {
                let is_missing = there.is_empty() && self.copies() == 1 && self.family.has_missing;
                is_missing.then_some(())?;
            }
            first.extend(there.iter().copied().map(Some));
            first.extend(vec![None; unit.len() - there.len()]);
        }
        Some(first)
    }
}

/// The choices that a volume's metadata leave open. Fails if the drives' content contradicts the
/// volume.
fn known_family(
    geometry: &Geometry,
    seats: &[Option<usize>],
    container: &Container,
    found: &Redundancy,
) -> Result<Family, String> {
    let count = container.drives.len();
    let missing = seats.len().saturating_sub(count);
    if found.told == 0 {
        return Err("all samples of its drives contain only constant bytes".into());
    }
    let single: Vec<Vec<usize>> = (0..count).map(|drive| vec![drive]).collect();
    let mut family = match geometry.level() {
        Level::Raid0 if missing == 0 => family(Level::Raid0, None, &single, 0),
        Level::Raid5 if missing == 0 && !found.is_single_parity() => {
            return Err(format!(
                "its drives XOR to zero in {} % of the blocks only; RAID 5 needs all",
                found.zero * 100 / found.told
            ));
        }
        Level::Raid5 if missing <= 1 => {
            family(Level::Raid5, geometry.parity_arrangement(), &single, missing)
        }
        Level::Raid1 | Level::Raid10 => {
            let groups = found.mirrors();
            let copies = usize::from(geometry.copies());
            let units = seats.len() / copies;
            if groups.len() != units || groups.iter().any(|group| group.len() > copies) {
                return Err(format!(
                    "its drives should form {units} groups of {copies} equal drives, but their \
                     data form {} groups",
                    groups.len()
                ));
            }
            family_of_mirrors(groups)
        }
        _ => return Err(format!("{missing} of its members are missing")),
    };
    family.most = CLOSE;
    family.fixed = known_places(geometry, seats, container, &family.groups);
    Ok(family)
}

/// Groups whose slots are known by a reported number or by a missing member.
fn known_places(
    geometry: &Geometry,
    seats: &[Option<usize>],
    container: &Container,
    groups: &[Vec<usize>],
) -> Vec<(usize, usize)> {
    let copies = usize::from(geometry.copies()).max(1);
    let mut fixed = Vec::new();
    for (unit, slots) in seats.chunks(copies).enumerate() {
        let told = slots.iter().flatten().find_map(|seat| container.seats[*seat].1);
        let has_told = |group: &Vec<usize>| told.is_some_and(|drive| group.contains(&drive));
        let is_short = |group: &Vec<usize>| group.len() < copies;
        let known = if told.is_some() {
            groups.iter().position(has_told)
        } else if slots.iter().all(Option::is_none) {
            Some(groups.len())
        } else if slots.contains(&None)
            && groups.iter().filter(|group| is_short(group)).count() == 1
        {
            groups.iter().position(is_short)
        } else {
            None
        };
        fixed.extend(known.map(|group| (unit, group)));
    }
    fixed
}
