//! Checks whether a foreign volume can be imported, and builds the label of its array.
//!
//! Volumes of one container that share drives become volumes of one array: they are imported
//! together or not at all.

use super::on_its_way::{ForeignWay, foreign_way};
use super::{Scan, Scanned, called, own_name};
use crate::arrays::extents;
use crate::foreign::Foreign;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use engine::Regions;
use ondisk::foreign::{Consistency, Feature, FoundVolume, Section, Standing, State};
use ondisk::{
    Cause, Label, Member, MemberState, Phase, Policy, Runs, Tail, TailPlace, VolumeLabel,
    is_volume_name,
};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// The plan of an import.
pub(crate) struct Plan {
    /// The label of the array, not yet online.
    pub(crate) label: Label,
    /// Its drives, by slot; `None` where one is missing.
    pub(crate) drives: Vec<Option<Rc<Drive>>>,
    /// Regions whose redundancy may be out of sync.
    pub(crate) marked: Vec<u32>,
    /// Notes for the operator, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// The advice if a volume cannot be imported.
const INSTEAD: &str = "copy its data instead: softroc rescue DRIVE... --serve unix:PATH";

fn refused(name: &str, why: impl AsRef<str>) -> Error {
    let sentence = format!("'{name}' cannot be imported: {}; {INSTEAD}", why.as_ref());
    Error::new(ErrorKind::WrongState, sentence)
}

/// The volumes that must be imported together with one: those of its container that share drives,
/// directly or through other volumes. Includes the volume itself.
pub(super) fn together(scan: &Scan, index: usize) -> Vec<usize> {
    let container = |index: usize| scan.volumes[index].record.container.clone();
    let mut all = vec![index];
    if container(index).is_none() {
        return all;
    }
    loop {
        let drives: Vec<usize> =
            all.iter().flat_map(|index| current(&scan.volumes[*index])).collect();
        let more = (0..scan.volumes.len()).find(|other| {
            !all.contains(other)
                && container(*other) == container(index)
                && current(&scan.volumes[*other]).iter().any(|drive| drives.contains(drive))
        });
        match more {
            Some(other) => all.push(other),
            None => break,
        }
    }
    all.sort_unstable();
    all
}

fn current(found: &FoundVolume) -> Vec<usize> {
    let is_current = |standing| standing == Standing::Current;
    found
        .members
        .iter()
        .filter(|member| is_current(member.standing))
        .filter_map(|member| member.drive)
        .collect()
}

/// A volume and its location on the drives.
struct Laid<'a> {
    found: &'a FoundVolume,
    section: &'a Section,
    /// Its drives, in the order of the layout.
    drives: Vec<Option<usize>>,
    /// Its start offset on each drive.
    start: ByteOffset,
    /// The reshape, if any; the section then describes the old layout.
    way: Option<ForeignWay<'a>>,
}

impl Foreign {
    /// Plans the import of a volume. `name`: its new name.
    ///
    /// # Errors
    /// Why it cannot be imported, and the alternative.
    pub(super) fn plan_import(
        &self,
        scan: &Scan,
        index: usize,
        name: Option<&str>,
    ) -> Result<Plan> {
        let chosen = &scan.volumes[index];
        let title = called(chosen);
        let volumes = together(scan, index);
        let mut laid: Vec<Laid> = Vec::new();
        for other in &volumes {
            let found = &scan.volumes[*other];
            let lies = lie(found).map_err(|why| match *other == index {
                true => refused(&title, why),
                false => refused(
                    &title,
                    format!("'{}' on the same drives cannot be imported: {why}", called(found)),
                ),
            })?;
            laid.push(lies);
        }
        let drives = laid[0].drives.clone();
        if laid.iter().any(|other| other.drives != drives) {
            let why = "other volumes on its drives use them in another order, or only some of them";
            return Err(refused(&title, why));
        }
        for one in &laid {
            check_drives(scan, &volumes, one).map_err(|why| refused(&title, why))?;
        }
        let tail = tail_place(scan, &laid).map_err(|why| refused(&title, why))?;
        let drives: Vec<Option<Rc<Drive>>> = drives
            .into_iter()
            .map(|drive| drive.and_then(|drive| scan.drive(drive).cloned()))
            .collect();
        let mut label = self.empty_label(&drives, tail, &title)?;
        let mut marked = Vec::new();
        let mut notes = Vec::new();
        for one in &laid {
            let new = name.filter(|_| std::ptr::eq(one.found, chosen));
            let wanted = new.unwrap_or_else(|| own_name(&one.found.record.name)).to_owned();
            self.check_imported_name(&title, &wanted, &label)?;
            let volume = self
                .volume_label(one, wanted, &drives, &label)
                .map_err(|why| refused(&title, why))?;
            self.add_volume(&mut label, one, volume, (&mut marked, &mut notes))
                .map_err(|why| refused(&title, why))?;
        }
        let regions = label.regions();
        for member in label.member.iter_mut().filter(|member| !member.is_online()) {
            member.stale = Runs::one(0, regions);
        }
        label.check().map_err(|error| refused(&title, error.to_string()))?;
        notes.extend(laid.iter().flat_map(|one| one.found.reasons.iter().cloned()));
        notes.extend(laid.iter().flat_map(|one| one.found.others.iter()).map(|other| {
            format!(
                "{}; it was left unchanged: softroc foreign clear {}",
                other.reason,
                scan.name(other.drive)
            )
        }));
        notes.dedup();
        Ok(Plan { label, drives, marked, notes })
    }

    /// Adds a volume to the label, with its parts if it is reshaping. Also returns unsynced regions
    /// and notes.
    fn add_volume(
        &self,
        label: &mut Label,
        one: &Laid,
        volume: VolumeLabel,
        (marked, notes): (&mut Vec<u32>, &mut Vec<String>),
    ) -> std::result::Result<(), String> {
        let is_marked = volume.level.is_redundant() && !is_known_to_agree(one.found);
        if is_marked {
            marked.extend(volume.first_region..volume.end_region());
            let why = match one.found.record.consistency {
                Consistency::Clean => "has a partial parity log, which is not applied",
                Consistency::Dirty | Consistency::DirtyFrom(_) => "was not cleanly shut down",
            };
            notes.push(format!(
                "'{}' {why}: a resync runs in the background; the volume is usable now",
                volume.name
            ));
        }
        label.volume.push(volume);
        if let Some(way) = &one.way {
            let regions = self.add_way(label, way, notes)?;
            marked.extend(regions.filter(|_| is_marked));
        }
        Ok(())
    }

    fn check_imported_name(&self, title: &str, name: &str, label: &Label) -> Result<()> {
        if !is_volume_name(name) || label.volume.iter().any(|volume| volume.name == name) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "'{title}' cannot be imported under the name '{name}'; choose another one with \
                    --name NEW"
                ),
            ));
        }
        self.lifecycle.check_new_name(name).map_err(|error| {
            let sentence = format!("{}, such as --name {name}-2", error.message);
            Error::new(error.kind, sentence)
        })
    }

    fn empty_label(
        &self,
        drives: &[Option<Rc<Drive>>],
        tail: TailPlace,
        title: &str,
    ) -> Result<Label> {
        let present = drives.iter().flatten().map(|drive| drive.extent());
        let Some(extent) = present.min_by_key(|(size, _)| *size) else {
            return Err(refused(title, "none of its drives is present"));
        };
        let member = |(slot, drive): (usize, &Option<Rc<Drive>>)| match drive {
            Some(drive) => {
                Member::online(self.arrays.new_uuid(), drive.name.clone(), drive.extent(), 1)
            }
            None => Member {
                state: MemberState::Failed,
                cause: Some(Cause::Missing),
                ..Member::online(self.arrays.new_uuid(), format!("member {slot}"), extent, 1)
            },
        };
        let member: Vec<Member> = drives.iter().enumerate().map(member).collect();
        let own = member.iter().find(|member| member.is_online()).map(|member| member.uuid);
        Ok(Label {
            array: self.arrays.new_uuid(),
            drive: own.unwrap_or(ondisk::Uuid([0; 16])),
            generation: 1,
            confirmed: 0,
            phase: Phase::Creating,
            clean: false,
            shut_down: false,
            failed: Vec::new(),
            leaving: Vec::new(),
            initialisation_blocks: None,
            tail,
            policy: Policy::default(),
            volume: Vec::new(),
            member,
        })
    }

    fn volume_label(
        &self,
        laid: &Laid,
        name: String,
        drives: &[Option<Rc<Drive>>],
        label: &Label,
    ) -> std::result::Result<VolumeLabel, String> {
        let geometry = laid.section.geometry()?;
        let sectors = drives.iter().flatten().map(|drive| drive.extent().1);
        let sector = sectors.max().unwrap_or(SectorSize::B512);
        let regions = Regions::of(&geometry).count;
        let first_region = extents::free_regions(Some(label), regions).ok_or_else(|| {
            format!("it would have {regions} regions, more than an array supports")
        })?;
        let beside = label;
        let label = self.arrays.label_of(name, &geometry, first_region..first_region + regions);
        let label = VolumeLabel {
            data_start_bytes: laid.start.0,
            sector_bytes: sector.bytes().0,
            capacity_bytes: laid.section.within.len.0,
            created_unix_s: laid.found.record.created_unix_s.unwrap_or(label.created_unix_s),
            ..label
        };
        crate::arrays::journal::with_write_hole(label, None, Some(beside))
    }
}

/// Whether parity and copies are certainly in sync. With a partial parity log, Linux md does not
/// record a crash elsewhere, and this log is not applied here.
fn is_known_to_agree(found: &FoundVolume) -> bool {
    found.record.consistency == Consistency::Clean && !found.record.features.contains(&Feature::Ppl)
}

/// The location of a volume on its drives, if SoftROC supports such a location.
fn lie(found: &FoundVolume) -> std::result::Result<Laid<'_>, String> {
    let way = foreign_way(found)?;
    // Only one reason is reported; others may exist.
    if let Some(why) = found.no_writing.get(usize::from(way.is_some())) {
        return Err(why.clone());
    }
    if found.state == State::NotReadable {
        let why = found.reasons.join("; ");
        return Err(if why.is_empty() { "not all of its data can be read".into() } else { why });
    }
    if found.state == State::Degraded && !is_known_to_agree(found) {
        return Err(
            "it is degraded and was not cleanly shut down, or has a partial parity log that \
            is not applied, so that the missing member's data cannot be computed for interrupted \
            writes"
                .into(),
        );
    }
    let section = match (&way, &found.sections[..]) {
        (Some(way), _) => way.was,
        (None, [section]) => section,
        (None, sections) => {
            return Err(format!("it has {} parts with different layouts", sections.len()));
        }
    };
    let is_on_all = section.members.len() == usize::from(found.record.slots);
    if section.within.start != ByteOffset::ZERO || way.is_none() && !is_on_all {
        return Err("it uses only a part of its layout's capacity".into());
    }
    let mut drives = Vec::new();
    let mut start = None;
    // A reshaping volume uses fewer drives in one of its layouts.
    let all = (0..found.record.slots).map(|slot| (slot, ByteOffset(0)));
    let members = if way.is_some() { all.collect() } else { section.members.clone() };
    for (slot, offset) in &members {
        let member = found.members.get(usize::from(*slot));
        let Some(member) = member.filter(|member| member.standing == Standing::Current) else {
            drives.push(None);
            continue;
        };
        let begins = ByteOffset(member.data.start.0.saturating_add(offset.0));
        if start.is_some_and(|start| start != begins) {
            return Err("its data starts at different offsets on its drives".into());
        }
        start = Some(begins);
        drives.push(member.drive);
    }
    let start = start.ok_or("none of its drives is present")?;
    Ok(Laid { found, section, drives, start, way })
}

/// Checks whether SoftROC can use the drives of a volume.
fn check_drives(scan: &Scan, volumes: &[usize], laid: &Laid) -> std::result::Result<(), String> {
    for number in laid.drives.iter().flatten() {
        let Some(scanned) = scan.drives.get(*number) else { continue };
        let name = &scanned.drive.name;
        let Some(access) = scanned.drive.access() else {
            return Err(format!("drive {name} is closed"));
        };
        let info = access.info();
        if info.read_only {
            return Err(format!("drive {name} is read-only"));
        }
        if let Some(trouble) = &scanned.trouble {
            return Err(trouble.clone());
        }
        let others = scan.volumes.iter().enumerate().filter(|(index, _)| !volumes.contains(index));
        let another = others.map(|(_, other)| other).find(|other| current(other).contains(number));
        if let Some(other) = another {
            return Err(format!("drive {name} carries metadata of '{}' as well", called(other)));
        }
    }
    Ok(())
}

/// Where SoftROC's metadata fit on the drives: at the end, or else in front of the data, the same
/// on all drives.
fn tail_place(scan: &Scan, laid: &[Laid]) -> std::result::Result<TailPlace, String> {
    let mut why = None;
    for place in TailPlace::ALL {
        let without = laid.iter().find_map(|one| without_room(scan, one, place));
        let Some((name, start)) = without else { return Ok(place) };
        why = why.or(Some((name, start)));
    }
    let (name, start) = why.unwrap_or_default();
    let least = ByteCount(TailPlace::Front.data_start().0);
    let before = match start < least {
        true => {
            format!(
                "it starts at {start}, and not at {least} or later, which would leave space before \
                    it"
            )
        }
        false => {
            format!("the metadata of Linux md before its start at {start} leaves less than 32 MiB")
        }
    };
    Err(format!(
        "its data extends into the last 32 MiB of drive {name}, the place of SoftROC's label, and \
        {before}; create a volume on other drives and copy the data there"
    ))
}

/// A drive without space for SoftROC's metadata at that place, and the offset of its data.
fn without_room(scan: &Scan, laid: &Laid, place: TailPlace) -> Option<(String, ByteCount)> {
    let data = ByteRange::new(laid.start, laid.section.member_size);
    let is_without = |scanned: &&Scanned| {
        let info = scanned.drive.access().map(|access| access.info().clone());
        let tail = info.and_then(|info| {
            Tail::at(info.size, place).filter(|tail| tail.site(info.logical_sector).is_some())
        });
        let is_free = place.is_end() || scanned.in_front.contains(&place);
        !is_free || tail.is_none_or(|tail| !tail.data().contains(data))
    };
    let scanned = laid.drives.iter().flatten().filter_map(|number| scan.drives.get(*number));
    scanned
        .clone()
        .find(is_without)
        .map(|scanned| (scanned.drive.name.clone(), ByteCount(laid.start.0)))
}
