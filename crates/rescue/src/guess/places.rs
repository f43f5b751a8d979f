//! Which drive has which slot, where metadata say all but that: Intel's know a drive by its serial number, which its image does not have.
//!
//! Level, strip, size, number of drives and which of them are missing are taken as they are written. What is guessed is the serial
//! number of each drive, since that puts it in its slot of every volume of the container; the evidence of all these volumes
//! is added up. Drives that tell their number stay where it puts them.

use super::judge::{judge_order, rank};
use super::redundancy::{Redundancy, redundancy};
use super::{Candidate, Family, Guess, Sampled, Sureness, candidate, family, family_of_mirrors, orders};
use crate::scan::{Scan, ScannedVolume};
use drives::Window;
use layout::{Geometry, Level};
use ondisk::foreign::{FoundOther, FoundVolume, Role, Standing, UNPLACED};
use platform::{DriveSource, Env};
use std::sync::Arc;
use units::{ByteOffset, ByteRange, StripSize};

/// How many orders are looked at closely: all of four drives.
const CLOSE: usize = 24;

/// Serial numbers for the drives that tell none, if there are volumes whose members are known by them: orders as they are guessed where
/// no metadata are left, each with the numbers that it comes to ([`Candidate::serials`]). Drives are counted among those of
/// the scan that could be opened. `None` where every drive has its place. Nothing is written.
///
/// # Errors
/// When it cannot be guessed whatever the drives hold: a sentence.
pub async fn places(env: &Env, scan: &Scan) -> Result<Option<Guess>, String> {
    let has_unplaced = |volume: &&ScannedVolume| volume.found.others.iter().any(|one| one.what == UNPLACED);
    let volumes: Vec<&FoundVolume> =
        scan.volumes.iter().filter(has_unplaced).map(|volume| &volume.found).collect();
    let Some(first) = volumes.first() else { return Ok(None) };
    if volumes.iter().any(|volume| volume.record.container != first.record.container) {
        return Err(
            "these are drives of several arrays that know them by serial number; name those of one array at a time"
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
        match Laid::new(env, scan, &container, volume).await {
            Ok(one) => laid.push(one),
            Err(why) => guess.findings.push(format!("'{}' tells no order: {why}", volume.record.name)),
        }
    }
    // A volume without an order, as of copies, judges, and has none to offer where others do.
    laid.sort_by_key(|one| one.geometry.data_strips() == 1);
    let mut ways: Vec<Vec<Option<usize>>> = Vec::new();
    for one in laid.iter().filter(|one| one.geometry.data_strips() > 1 || laid[0].geometry.data_strips() == 1)
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
        only.evidence.push("no other place is free".into());
    }
    Ok(Some(guess))
}

/// The drives of a container, and the serial numbers of its members.
struct Container {
    /// The drives that are as new as the newest, as the scan counts them.
    drives: Vec<usize>,
    /// The same among those of the scan that could be opened.
    opened: Vec<usize>,
    /// The members' numbers, and the drive that tells to have it, as an index into `drives`.
    seats: Vec<(String, Option<usize>)>,
}

impl Container {
    fn new(scan: &Scan, volumes: &[&FoundVolume], findings: &mut Vec<String>) -> Result<Container, String> {
        let mut numbers: Vec<String> = Vec::new();
        let mut drives: Vec<usize> = Vec::new();
        let mut placed: Vec<(String, usize)> = Vec::new();
        for volume in volumes {
            let record = &volume.record;
            findings.push(taken_as_written(volume));
            for entry in &record.entries {
                match entry.role {
                    Role::Active(_) if !numbers.contains(&entry.key) => numbers.push(entry.key.clone()),
                    Role::Rebuilding(_) => {
                        return Err(format!(
                            "a member of '{}' is being rebuilt, and which of the drives that is cannot be told from what they hold; give \
                             each its number with --serial DRIVE=NUMBER",
                            record.name
                        ));
                    }
                    _ => {}
                }
            }
            for other in volume.others.iter().filter(|other| other.what == UNPLACED) {
                if other.sequence + record.may_lag < record.sequence {
                    findings.push(too_old(scan, volume, other));
                } else if !drives.contains(&other.drive) {
                    drives.push(other.drive);
                }
            }
            for member in volume.members.iter().filter(|member| member.standing == Standing::Current) {
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
                "{} drives tell no serial number, and its metadata name {free} that no other drive has; leave out copies, and drives \
                 that take no part",
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

    /// The candidate where one drive is here, of copies.
    fn alone(&self, volumes: &[&FoundVolume]) -> Result<Candidate, String> {
        let mut all = None;
        for volume in volumes {
            let section = volume.sections.first().ok_or_else(|| volume.reasons.join("; "))?;
            let geometry = section.geometry()?;
            if geometry.level() != Level::Raid1 {
                return Err(format!(
                    "one drive of '{}' is here, and that is not enough to read it; name the others too",
                    volume.record.name
                ));
            }
            all = all.or(Some(geometry));
        }
        let free = self.seats.iter().find(|(_, drive)| drive.is_none());
        let ((number, _), geometry) = free.zip(all).ok_or("no place of it is free")?;
        let mut order = vec![None; geometry.drives().as_usize()];
        order[0] = Some(self.opened[0]);
        Ok(Candidate {
            serials: vec![(self.opened[0], number.clone())],
            sureness: Sureness::Likely,
            evidence: vec!["its members are copies: which of them it is does not matter".into()],
            ..candidate(geometry, order, 0)
        })
    }

    /// Whether one drive is left for one place.
    fn is_settled(&self) -> bool {
        let placed = self.seats.iter().filter(|(_, drive)| drive.is_some()).count();
        self.drives.len() == placed + 1 && self.seats.len() == placed + 1
    }

    /// The drive of each seat, when those of a volume have this order. `None` where that contradicts a number that a drive tells.
    fn seated(&self, laid: &Laid, order: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
        let mut seated: Vec<Option<usize>> = self.seats.iter().map(|(_, drive)| *drive).collect();
        let copies = laid.copies();
        let units = laid.seats.len() / copies;
        for (slots, drives) in laid.seats.chunks(copies).zip(order.chunks((order.len() / units).max(1))) {
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

    /// What speaks for these seats in all volumes; `None` where one of them cannot be so.
    async fn judged(&self, laid: &[Laid], seated: &[Option<usize>]) -> Option<Candidate> {
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
        seats.filter_map(|((number, _), drive)| Some((self.opened[(*drive)?], number.clone()))).collect()
    }
}

fn too_old(scan: &Scan, volume: &FoundVolume, other: &FoundOther) -> String {
    let name = scan.drives.get(other.drive).map_or("", |drive| &drive.name);
    format!(
        "{name} takes no part: its metadata are at number {}, those of the others at {}",
        other.sequence, volume.record.sequence
    )
}

fn taken_as_written(volume: &FoundVolume) -> String {
    let record = &volume.record;
    let strip = record.strip.map_or(String::new(), |strip| format!(" with a strip of {strip}"));
    format!(
        "'{}' is {} on {} drives{strip}, as its metadata say; they tell drives apart by serial number alone",
        record.name, record.level, record.slots
    )
}

/// How the metadata name the member of a slot.
fn key_of(volume: &FoundVolume, slot: u16) -> Option<String> {
    let entry = volume.record.entries.iter().find(|entry| entry.role == Role::Active(slot));
    entry.map(|entry| entry.key.clone())
}

/// A volume as its metadata have it, and what was read of the drives where it lies.
struct Laid {
    name: String,
    geometry: Geometry,
    /// Where its data begin on each drive.
    start: ByteOffset,
    /// The seat of each slot; `None` where the metadata call a member missing.
    seats: Vec<Option<usize>>,
    sampled: Sampled,
    /// What may be where: drives, or groups of drives that hold the same.
    family: Family,
}

impl Laid {
    async fn new(
        env: &Env,
        scan: &Scan,
        container: &Container,
        volume: &FoundVolume,
    ) -> Result<Laid, String> {
        let record = &volume.record;
        let section = volume.sections.first().filter(|section| section.within.start == ByteOffset(0));
        let section = section.ok_or_else(|| volume.reasons.join("; "))?;
        let geometry = section.geometry()?;
        let start_on = |drive: &usize| {
            let records = &scan.drives.get(*drive)?.told.records;
            let own = records.iter().find(|own| own.volume.identity == record.identity)?;
            Some(own.member.data.start)
        };
        let starts: Option<Vec<ByteOffset>> = container.drives.iter().map(start_on).collect();
        let starts = starts.ok_or("not all of the drives carry its metadata")?;
        let start = starts.first().copied().ok_or("none of its drives is here")?;
        if starts.iter().any(|other| *other != start) {
            return Err("its data begin at different places".into());
        }
        let range = ByteRange::new(start, geometry.member_size());
        let window = |drive: &usize| {
            let source = scan.drives.get(*drive)?.source.clone()?;
            Some(Arc::new(Window::new(source, range)) as Arc<dyn DriveSource>)
        };
        let sources: Vec<Arc<dyn DriveSource>> = container.drives.iter().filter_map(window).collect();
        let sampled = Sampled::new(env, &sources).await?;
        let seat = |slot: u16| {
            let key = key_of(volume, slot)?;
            container.seats.iter().position(|(number, _)| *number == key)
        };
        let seats: Vec<Option<usize>> = (0..record.slots).map(seat).collect();
        let found = redundancy(&sampled.windows, sources.len());
        let family = known_family(&geometry, &seats, container, &found)?;
        Ok(Laid { name: record.name.clone(), geometry, start, seats, sampled, family })
    }

    /// The strip by which orders are looked for; levels without one are looked at with any.
    fn family_strip(&self) -> StripSize {
        if self.geometry.data_strips() == 1 { StripSize::KIB_64 } else { self.geometry.strip() }
    }

    /// How many slots that follow one another hold the same.
    fn copies(&self) -> usize {
        usize::from(self.geometry.copies()).max(1)
    }

    /// The same order with the drives that are there first among those that hold the same. `None` where drives would hold the same
    /// that do not.
    fn copies_first(&self, order: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
        let mut first = Vec::new();
        for unit in order.chunks(self.copies()) {
            let there: Vec<usize> = unit.iter().copied().flatten().collect();
            let hold_the_same = |group: &Vec<usize>| there.iter().all(|drive| group.contains(drive));
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

/// What a volume's metadata leave open, and whether what the drives hold can be that volume at all.
fn known_family(
    geometry: &Geometry,
    seats: &[Option<usize>],
    container: &Container,
    found: &Redundancy,
) -> Result<Family, String> {
    let count = container.drives.len();
    let missing = seats.len().saturating_sub(count);
    if found.told == 0 {
        return Err("its drives hold nothing but constant bytes where they were looked at".into());
    }
    let single: Vec<Vec<usize>> = (0..count).map(|drive| vec![drive]).collect();
    let mut family = match geometry.level() {
        Level::Raid0 if missing == 0 => family(Level::Raid0, None, &single, 0),
        Level::Raid5 if missing == 0 && !found.is_single_parity() => {
            return Err(format!(
                "its drives add up in {} % of the blocks only, and those of RAID 5 would in all",
                found.zero * 100 / found.told
            ));
        }
        Level::Raid5 if missing <= 1 => family(Level::Raid5, geometry.parity_arrangement(), &single, missing),
        Level::Raid1 | Level::Raid10 => {
            let groups = found.mirrors();
            let copies = usize::from(geometry.copies());
            let units = seats.len() / copies;
            if groups.len() != units || groups.iter().any(|group| group.len() > copies) {
                return Err(format!(
                    "its drives should hold the same {copies} by {copies}, and what they hold makes {} groups and not {units}",
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

/// Which groups have their slots, or pairs of slots, by a number that a drive tells, or since a member is missing there.
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
        } else if slots.contains(&None) && groups.iter().filter(|group| is_short(group)).count() == 1 {
            groups.iter().position(is_short)
        } else {
            None
        };
        fixed.extend(known.map(|group| (unit, group)));
    }
    fixed
}
