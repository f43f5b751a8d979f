//! Volumes and their policies.

use super::drives::DriveMatches;
use super::{Findings, Options, Step, Subject, VolumeMatches};
use crate::current::Current;
use crate::document::{Array, Document, Volume};
use crate::policy;
use controller::{Coercion, Command, CreateVolume, DriveState, VolumeInfo};
use std::collections::{BTreeMap, BTreeSet};
use units::ByteCount;

pub(super) fn compare(
    document: &Document,
    now: &Current,
    (places, pairs): (&DriveMatches<'_>, &VolumeMatches<'_>),
    options: Options,
    found: &mut Findings,
) {
    if document.arrays.is_none() {
        return;
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (volume, array, there) in &pairs.0 {
        let Some(there) = there else {
            missing(volume, array, (now, places), options, found);
            continue;
        };
        shape(volume, there, found);
        policies(&there.name, "volume", (&volume.policies, &policy::of_volume(there)), found);
        if seen.insert(there.array.as_str()) {
            policies(&there.name, "array of", (&array.policies, &policy::of_array(there)), found);
        }
    }
    let is_of_file = |there: &VolumeInfo| {
        pairs.0.iter().any(|pair| pair.2.is_some_and(|one| one.uuid == there.uuid))
    };
    for there in now.volumes.iter().filter(|there| !is_of_file(there)) {
        let is_expected = pairs.0.iter().any(|(volume, ..)| volume.uuid == there.uuid);
        if is_expected {
            continue; // A missing volume is reported above.
        }
        let of = Subject::new(about(&there.name), "existence")
            .now(described(&there.level, there.capacity_bytes));
        found.stays(of, "a restore deletes no volume");
    }
}

fn about(volume: &str) -> String {
    format!("volume {volume}")
}

fn described(level: &str, capacity_bytes: u64) -> String {
    format!("{level}, {}", ByteCount(capacity_bytes))
}

/// Reports a missing volume of the document, or creates it.
fn missing(
    volume: &Volume,
    array: &Array,
    (now, places): (&Current, &DriveMatches<'_>),
    options: Options,
    found: &mut Findings,
) {
    let of = Subject::new(about(&volume.name), "existence")
        .file(described(&volume.level, volume.capacity_bytes));
    let names: Vec<&str> = array.members.iter().map(|member| member.drive.as_str()).collect();
    if !options.create {
        let why = format!(
            "the volume is missing; connect its drives ({}), or use --create for an empty one on \
                unused drives",
            names.join(", ")
        );
        return found.stays(of, why);
    }
    match create(volume, array, now, places) {
        Ok(create) => found.changes(of, Step::Command(Command::VolumeCreate(create))),
        Err(why) => found.stays(of, why),
    }
}

/// The command that recreates a volume: in its array if that exists, else on its former drives if
/// unused.
fn create(
    volume: &Volume,
    array: &Array,
    now: &Current,
    places: &DriveMatches<'_>,
) -> Result<CreateVolume, String> {
    let hole =
        volume.policies.get("write-hole").map(|value| policy::order("", "write-hole", value));
    let sector = volume.policies.get("sector").map(|value| policy::order("", "sector", value));
    let wanted = CreateVolume {
        name: volume.name.clone(),
        level: volume.level.clone(),
        spans: (volume.spans > 1).then_some(volume.spans),
        copies: (volume.copies > 1).then_some(volume.copies),
        strip_bytes: Some(volume.strip_bytes),
        arrangement: volume.layout.clone(),
        size_bytes: Some(volume.capacity_bytes),
        write_hole: hole.transpose()?.and_then(|set| set.write_hole),
        sector_format: sector.transpose()?.and_then(|set| set.sector_format),
        destroy_data: false,
        // The same size as before, whatever rounding the drives had then.
        coercion: Some(Coercion::None),
        ..CreateVolume::default()
    };
    if let Some(beside) = now.present().find(|there| there.array == array.uuid) {
        return Ok(CreateVolume { array: Some(beside.name.clone()), ..wanted });
    }
    let mut drives = Vec::new();
    for member in &array.members {
        let there = places.get(&member.drive);
        let there =
            there.ok_or_else(|| format!("drive {} is missing; connect it first", member.drive))?;
        // A step before may have created another volume of this array on it.
        let is_ours =
            there.volumes.iter().any(|name| array.volumes.iter().any(|of| of.name == *name));
        if there.state != DriveState::Unused && !is_ours {
            return Err(format!(
                "drive {} is {}; volumes need unused drives",
                there.name, there.state
            ));
        }
        drives.push(there.name.clone());
    }
    match drives.is_empty() {
        true => Err("the file does not list its drives".to_owned()),
        false => Ok(CreateVolume { drives, ..wanted }),
    }
}

/// Compares name, level and layout of an existing volume.
fn shape(volume: &Volume, there: &VolumeInfo, found: &mut Findings) {
    if volume.name != there.name {
        let of = Subject::new(about(&there.name), "name").file(&volume.name).now(&there.name);
        let rename = Command::VolumeSet { volume: there.uuid.clone(), name: volume.name.clone() };
        found.changes(of, Step::Command(rename));
    }
    let none = || "none".to_owned();
    let rows = [
        ("level", volume.level.clone(), there.level.clone()),
        ("spans", volume.spans.to_string(), there.spans.to_string()),
        ("copies", volume.copies.to_string(), there.copies.to_string()),
        (
            "strip",
            ByteCount(volume.strip_bytes).to_string(),
            ByteCount(there.strip_bytes).to_string(),
        ),
        (
            "layout",
            volume.layout.clone().unwrap_or_else(none),
            there.arrangement.clone().unwrap_or_else(none),
        ),
        (
            "capacity",
            ByteCount(volume.capacity_bytes).to_string(),
            ByteCount(there.capacity_bytes).to_string(),
        ),
    ];
    for (what, file, now) in rows {
        if file != now {
            let of = Subject::new(about(&there.name), what).file(file).now(now);
            found.stays(
                of,
                "a restore moves no data; use 'softroc volume expand' or 'softroc volume migrate'",
            );
        }
    }
}

type Policies = BTreeMap<String, String>;

fn policies(
    volume: &str,
    of_what: &str,
    (file, now): (&Policies, &Policies),
    found: &mut Findings,
) {
    for (name, value) in file {
        if now.get(name) == Some(value) {
            continue;
        }
        let mut of = Subject::new(format!("{of_what} {volume}"), name).file(value);
        of.now = now.get(name).cloned();
        match policy::order(volume, name, value) {
            Ok(_) if of.now.is_none() => found.stays(of, "its RAID level has no such policy"),
            Ok(set) => found.changes(of, Step::Command(Command::VolumePolicy(set))),
            Err(why) => found.stays(of, why),
        }
    }
}
