//! Combines the labels of drives into arrays: a pure function, independent of the order of the
//! drives.
//!
//! # Rules
//! - Drives belong together by array UUID, and have their slots by drive UUID. Paths and order do
//!   not count.
//! - The label of the highest generation describes the array.
//! - Every member that this label has online since its *confirmed* generation or earlier has
//!   carried the label of that generation. So a drive with an older label is a copy from an earlier
//!   time.
//! - A member that failed had, at that time, a label at least as new as its `knew`; so did one that
//!   returned after the confirmed generation. A drive with an older label is an earlier copy as
//!   well. Any other failed drive has *left*, and may return: it lacks the regions that are
//!   recorded as stale, and the marked ones.
//! - Two parts of an array that were each used without the other have contradictory labels.
//!   Generations do not decide between them: the array is not started.

use crate::label::{Cause, Label, Member, MemberState, Phase};
use crate::uuid::Uuid;
use crate::volume::{VolumeLabel, slots};
use std::collections::BTreeMap;
use units::{ByteCount, DriveSet};

/// A drive with the valid label of a member, or of a member's replacement.
#[derive(Clone, Debug)]
pub struct SeenDrive {
    /// Its name, for sentences.
    pub name: String,
    /// Its size.
    pub size: ByteCount,
    /// Its label.
    pub label: Label,
}

/// The present role of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// Online; current except for its stale regions.
    Current,
    /// Not online, but present: it may return after a rebuild of the regions that it lacks.
    Left(Cause),
    /// Present, with unreliable content.
    Stale,
    /// Missing; the array used it last.
    Missing,
    /// Missing; the array was already running without it.
    Out,
}

/// A member, with its drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMember {
    /// The index of its drive, if present.
    pub drive: Option<usize>,
    /// Its role.
    pub role: Role,
    /// The reason why it is not current: a sentence.
    pub reason: Option<String>,
    /// The index of its replacement, if that is usable.
    pub replacement: Option<usize>,
}

/// Whether a volume can be served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Readiness {
    /// All members are current.
    Optimal,
    /// Members are missing, and the level survives that.
    Degraded,
    /// It cannot be served.
    Offline,
}

/// An array, as its drives describe it.
#[derive(Clone, Debug)]
pub struct FoundArray {
    /// Its newest label.
    pub label: Label,
    /// Its members, by slot.
    pub members: Vec<FoundMember>,
    /// Drives of the array that are unusable, with the reason: a sentence each.
    pub refused: Vec<(usize, String)>,
    /// The reason why none of its volumes can be served, whatever its members: a sentence.
    pub apart: Option<String>,
    /// The reasons why it is not optimal: a sentence each.
    pub reasons: Vec<String>,
}

impl FoundArray {
    /// Members that are not current, by slot.
    pub fn out(&self) -> DriveSet {
        let with_slot = self.members.iter().enumerate();
        slots(with_slot.filter(|(_, member)| member.role != Role::Current).map(|(slot, _)| slot))
    }

    /// Whether a volume of it can be served.
    pub fn readiness(&self, volume: &VolumeLabel) -> Readiness {
        match self.apart {
            Some(_) => Readiness::Offline,
            None => readiness(&self.label, volume, &self.out()),
        }
    }
}

/// Whether a volume can be served without the members in `out`. A member that still needs a rebuild
/// in some regions cannot replace them there. Unwritten regions need no rebuild.
pub fn readiness(label: &Label, volume: &VolumeLabel, out: &DriveSet) -> Readiness {
    let lost = slots(volume.lost.iter().map(|slot| usize::from(*slot)));
    let is_behind = |member: &Member| {
        member.stale.touches_beyond(&volume.unwritten, volume.first_region, volume.end_region())
    };
    let with_slot = label.member.iter().enumerate();
    let behind = slots(with_slot.filter(|(_, member)| is_behind(member)).map(|(slot, _)| slot));
    let enough = || {
        lost.intersection(out).is_empty()
            && volume.survives(label.member.len(), &out.union(&behind))
    };
    match out.is_empty() {
        true if behind.is_empty() => Readiness::Optimal,
        true => Readiness::Degraded,
        false if enough() => Readiness::Degraded,
        false => Readiness::Offline,
    }
}

/// The arrays that these drives make, by UUID.
pub fn reconcile(drives: &[SeenDrive]) -> Vec<FoundArray> {
    let mut groups: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for (index, drive) in drives.iter().enumerate() {
        groups.entry(drive.label.array).or_default().push(index);
    }
    groups.into_values().filter_map(|group| found(drives, group)).collect()
}

fn found(drives: &[SeenDrive], group: Vec<usize>) -> Option<FoundArray> {
    let mut refused = Vec::new();
    let group = without_copies(drives, group, &mut refused);
    // Where every drive was refused, their labels still identify the array.
    let speakers: Vec<usize> =
        if group.is_empty() { refused.iter().map(|(d, _)| *d).collect() } else { group.clone() };
    let newest = speakers
        .into_iter()
        .max_by_key(|&drive| (drives[drive].label.generation, drives[drive].label.drive))?;
    let newest = drives[newest].label.clone();
    let carrier =
        |uuid: Uuid| group.iter().copied().find(|&drive| drives[drive].label.drive == uuid);
    let mut members = Vec::new();
    for member in &newest.member {
        let mut found = judge(drives, &newest, member, carrier(member.uuid));
        found.replacement =
            member.replacement.as_ref().and_then(|replacement| carrier(replacement.uuid));
        found.replacement = found.replacement.filter(|&drive| {
            drives[drive].label.generation >= newest.confirmed && newest.fits(drives[drive].size)
        });
        members.push(found);
    }
    for &drive in &group {
        let uuid = drives[drive].label.drive;
        if newest.slot_of(uuid).is_none() && newest.replaced_by(uuid).is_none() {
            let sentence = format!(
                "{} is a former member of the array of {}",
                drives[drive].name,
                newest.names()
            );
            refused.push((drive, sentence));
        }
    }
    refused.sort();
    let mut reasons: Vec<String> =
        members.iter().filter_map(|member| member.reason.clone()).collect();
    let apart = apart(drives, &newest, &group);
    reasons.extend(apart.clone());
    let mut found = FoundArray { label: newest, members, refused, apart, reasons };
    if found.apart.is_none() {
        let short = found
            .label
            .volume
            .iter()
            .filter(|volume| found.readiness(volume) == Readiness::Offline);
        let mut short: Vec<String> = short.map(|volume| too_few(&found, volume)).collect();
        short.dedup();
        found.reasons.extend(short);
    }
    Some(found)
}

fn too_few(found: &FoundArray, volume: &VolumeLabel) -> String {
    let members = found.members.len();
    // The parts of a reshaping volume are shown to users as that volume.
    let owner =
        volume.part.as_ref().and_then(|part| found.label.volume_of(part.of)).unwrap_or(volume);
    format!(
        "'{}' cannot be started without {} of its {members} drives; connect and register them",
        owner.name,
        found.out().count()
    )
}

/// Of drives with one UUID at most one is the member: the one whose label is newer. Where they are
/// equally new, none is used.
fn without_copies(
    drives: &[SeenDrive],
    group: Vec<usize>,
    refused: &mut Vec<(usize, String)>,
) -> Vec<usize> {
    let mut by_uuid: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for drive in group {
        by_uuid.entry(drives[drive].label.drive).or_default().push(drive);
    }
    let mut kept = Vec::new();
    for mut same in by_uuid.into_values() {
        let age = |drive: &usize| drives[*drive].label.generation;
        same.sort_by_key(age);
        let Some(newest) = same.pop() else { continue };
        let ties = same.iter().filter(|drive| age(drive) == age(&newest)).count();
        let name = |drive: usize| &drives[drive].name;
        for &copy in &same {
            let sentence = format!(
                "{} is a copy of {}, or the same storage under another name: both carry the same \
                    drive UUID, and the newer one is used; disconnect the other one, and write \
                    nothing to it",
                name(copy),
                name(newest)
            );
            refused.push((copy, sentence));
        }
        if ties == 0 {
            kept.push(newest);
        } else {
            let other = same[same.len() - 1];
            let sentence = format!(
                "{} and {} carry the same drive UUID and are equally new, so neither is used: one \
                    is a copy, or they are one storage under two names; remove one of the names, \
                    and write nothing to either",
                name(newest),
                name(other)
            );
            refused.push((newest, sentence));
        }
    }
    kept
}

fn judge(
    drives: &[SeenDrive],
    newest: &Label,
    member: &Member,
    drive: Option<usize>,
) -> FoundMember {
    let volumes = newest.names();
    let say =
        |role, reason: String| FoundMember { drive, role, reason: Some(reason), replacement: None };
    let Some(index) = drive else {
        return match member.state {
            MemberState::Online => {
                say(Role::Missing, format!("drive {} of {volumes} is missing", member.name))
            }
            MemberState::Failed => say(
                Role::Out,
                format!("drive {} of {volumes} is not in use: {}", member.name, why(member)),
            ),
        };
    };
    let seen = &drives[index];
    let own = &seen.label;
    if !newest.fits(seen.size) {
        let need = newest.needed_bytes();
        return say(
            Role::Stale,
            format!(
                "{} is now too small for {volumes}, which need {need} of it with its label",
                seen.name
            ),
        );
    }
    // A member that joined with an unconfirmed change may lack that change.
    let known = if member.is_online() && member.since <= newest.confirmed {
        newest.confirmed
    } else {
        member.knew
    };
    if own.generation < known {
        return say(
            Role::Stale,
            format!(
                "{} is an earlier copy: it has recorded {} of the first {known} changes of \
                    {volumes}; replace it with 'softroc drive replace'",
                seen.name, own.generation
            ),
        );
    }
    if member.is_online() {
        return FoundMember { drive, role: Role::Current, reason: None, replacement: None };
    }
    let sentence = format!(
        "{0} is not in use ({1}); run 'softroc drive {2} {0}' to use it again once its volumes \
         are started",
        seen.name,
        why(member),
        verb_back(member)
    );
    say(Role::Left(member.cause.unwrap_or(Cause::Error)), sentence)
}

/// The reason why a member is not in use, as a part of a sentence.
pub fn why(member: &Member) -> &'static str {
    match member.cause {
        Some(Cause::Missing) => "it was missing when its volumes were started",
        Some(Cause::Offline) => "an operator took it offline",
        Some(Cause::Operator) => "an operator declared it failed",
        Some(Cause::Suspended) => "it did not respond in time and is suspended",
        Some(Cause::OperatorSuspended) => "an operator suspended it",
        Some(Cause::Error) | None => "it failed",
    }
}

/// The command with which an operator returns a drive to use: `online`, or `resume`.
pub fn verb_back(member: &Member) -> &'static str {
    if member.is_suspended_by_operator() { "resume" } else { "online" }
}

/// Whether `other` has a member as failed that `newest` has used throughout: then neither label
/// derives from the other.
fn contradicts(other: &Label, newest: &Label) -> bool {
    other.member.iter().zip(&newest.member).any(|(theirs, ours)| {
        !theirs.is_online()
            && ours.is_online()
            && ours.since <= other.generation
            && theirs.uuid == ours.uuid
    }) || (other.generation == newest.generation && !other.agrees_with(newest))
}

/// The change that one part of the array made, by its label: within a sentence.
fn went_on(drives: &[SeenDrive], part: &[usize], label: &Label) -> String {
    let names: Vec<&str> = part.iter().map(|&drive| drives[drive].name.as_str()).collect();
    let out = label.member.iter().filter(|member| !member.is_online());
    let out: Vec<&str> = out.map(|member| member.name.as_str()).collect();
    format!(
        "{} made change {} without {}",
        names.join(" and "),
        label.generation,
        out.join(" and ")
    )
}

/// Whether another part of the array was used without this one: a sentence.
///
/// Only where that part could be used: all members that it has online are in it, or missing, and
/// they suffice for some volume. Otherwise its label is only the beginning of a change that was
/// never completed, and no write was acknowledged because of it.
fn apart(drives: &[SeenDrive], newest: &Label, group: &[usize]) -> Option<String> {
    for &drive in group {
        let other = &drives[drive].label;
        let serves =
            |volume: &VolumeLabel| readiness(other, volume, &other.out()) != Readiness::Offline;
        if other.phase != Phase::Online
            || !contradicts(other, newest)
            || !other.volume.iter().any(serves)
        {
            continue;
        }
        let on_its_side = |member: &Member| {
            let carrier = group.iter().find(|&&drive| drives[drive].label.drive == member.uuid);
            carrier.is_none_or(|&carrier| contradicts(&drives[carrier].label, newest))
        };
        if other.member.iter().filter(|member| member.is_online()).all(on_its_side) {
            let (theirs, ours): (Vec<usize>, Vec<usize>) =
                group.iter().partition(|&&drive| contradicts(&drives[drive].label, newest));
            return Some(format!(
                "drives of {} were used separately: {}, and {}; each may hold writes that the \
                 other lacks. Disconnect the drives of the part that you do not need",
                newest.names(),
                went_on(drives, &ours, newest),
                went_on(drives, &theirs, other)
            ));
        }
    }
    None
}
