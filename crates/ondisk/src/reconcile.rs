//! From the labels that drives carry to the arrays they make: pure, whatever the order of the drives.
//!
//! # What decides
//! - Drives belong together by array UUID, and have their slots by drive UUID. Paths and order mean nothing.
//! - The label of the highest generation speaks for the array. A drive that it calls failed is *stale*, unless
//!   it missed no write.
//! - Every change is on all online members before the next one begins. So a member that is called online may
//!   be one generation behind (the last change was interrupted), and no more: one that is further behind is
//!   a copy from an earlier time.
//! - Two parts of an array that were each used without the other have labels that contradict one another.
//!   Neither is newer in any way that counts, whatever their generations: the array is not started.

use crate::label::{Cause, Label, Member, MemberState, Phase};
use crate::slot::Carried;
use crate::uuid::Uuid;
use std::collections::BTreeMap;
use units::{ByteCount, DriveIndex};

/// A drive that carries a sound label.
#[derive(Clone, Debug)]
pub struct SeenDrive {
    /// How it is named, for sentences.
    pub name: String,
    /// Its size.
    pub size: ByteCount,
    /// Its label.
    pub carried: Carried,
}

/// What a member is to its array, now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// It holds what it should.
    Current,
    /// It is out, but missed no write and may be used again.
    MissedNothing(Cause),
    /// It is there, and what it holds is old.
    Stale,
    /// It is not there; the array last used it.
    Missing,
    /// It is not there, and the array goes on without it anyway.
    Out,
}

/// A member, and the drive that was found for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMember {
    /// Which of the drives given, if any.
    pub drive: Option<usize>,
    /// What it is.
    pub role: Role,
    /// Why it is not current: a sentence.
    pub reason: Option<String>,
}

/// Whether an array can serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// All members are current.
    Optimal,
    /// Members are missing, no more than the level survives.
    Degraded,
    /// It cannot serve.
    Offline,
}

/// An array, as its drives tell of it.
#[derive(Clone, Debug)]
pub struct FoundArray {
    /// Its newest label.
    pub label: Label,
    /// Its members, by slot.
    pub members: Vec<FoundMember>,
    /// Drives that say they belong to it and cannot be used, and why: a sentence each.
    pub refused: Vec<(usize, String)>,
    /// Whether it can serve.
    pub readiness: Readiness,
    /// Why it is not optimal: a sentence each.
    pub reasons: Vec<String>,
}

impl FoundArray {
    /// The current members: their slots, and which of the drives given they are.
    pub fn current(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let with_slot = self.members.iter().enumerate();
        with_slot
            .filter(|(_, member)| member.role == Role::Current)
            .filter_map(|(slot, m)| Some((slot, m.drive?)))
    }
}

/// The arrays that these drives make, by UUID.
pub fn reconcile(drives: &[SeenDrive]) -> Vec<FoundArray> {
    let mut groups: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for (index, drive) in drives.iter().enumerate() {
        groups.entry(drive.carried.label.array).or_default().push(index);
    }
    groups.into_values().filter_map(|group| found(drives, group)).collect()
}

fn found(drives: &[SeenDrive], group: Vec<usize>) -> Option<FoundArray> {
    let mut refused = Vec::new();
    let group = without_copies(drives, group, &mut refused);
    // Where every drive was refused, their labels still tell which array it is.
    let speakers: Vec<usize> =
        if group.is_empty() { refused.iter().map(|(d, _)| *d).collect() } else { group.clone() };
    let newest = speakers
        .into_iter()
        .max_by_key(|&drive| (label(drives, drive).generation, drive_key(drives, drive)))?;
    let newest = label(drives, newest).clone();
    let mut members = Vec::new();
    for member in &newest.member {
        let drive = group.iter().copied().find(|&drive| label(drives, drive).drive == member.uuid);
        members.push(judge(drives, &newest, member, drive));
    }
    for &drive in &group {
        if newest.slot_of(label(drives, drive).drive).is_none() {
            let sentence = format!(
                "{} was a member of '{}' once and is none any more",
                drives[drive].name, newest.volume.name
            );
            refused.push((drive, sentence));
        }
    }
    refused.sort();
    let mut reasons: Vec<String> = members.iter().filter_map(|member| member.reason.clone()).collect();
    let apart = apart(drives, &newest, &group);
    let readiness = if let Some(sentence) = apart {
        reasons.push(sentence);
        Readiness::Offline
    } else {
        readiness(&newest, &members, &mut reasons)
    };
    Some(FoundArray { label: newest, members, refused, readiness, reasons })
}

fn label(drives: &[SeenDrive], drive: usize) -> &Label {
    &drives[drive].carried.label
}

/// An order of drives that does not depend on how they were given.
fn drive_key(drives: &[SeenDrive], drive: usize) -> Uuid {
    label(drives, drive).drive
}

/// Of drives with one UUID at most one is the member: the one whose label is newer. Where they are equally
/// new, nobody can tell, and none is used.
fn without_copies(drives: &[SeenDrive], group: Vec<usize>, refused: &mut Vec<(usize, String)>) -> Vec<usize> {
    let mut by_uuid: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for drive in group {
        by_uuid.entry(label(drives, drive).drive).or_default().push(drive);
    }
    let mut kept = Vec::new();
    for mut same in by_uuid.into_values() {
        let age = |drive: &usize| (label(drives, *drive).generation, drives[*drive].carried.sequence);
        same.sort_by_key(age);
        let Some(newest) = same.pop() else { continue };
        let ties = same.iter().filter(|drive| age(drive) == age(&newest)).count();
        let name = |drive: usize| &drives[drive].name;
        for &copy in &same {
            let sentence = format!(
                "{} is a copy of {}: both carry the same drive UUID; disconnect the one that is not to be used, or write zeroes over its last 32 MiB",
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
                "{} and {} carry the same drive UUID and are equally new, so neither is used; disconnect the copy",
                name(newest),
                name(other)
            );
            refused.push((newest, sentence));
        }
    }
    kept
}

fn judge(drives: &[SeenDrive], newest: &Label, member: &Member, drive: Option<usize>) -> FoundMember {
    let volume = &newest.volume.name;
    let say = |role, reason: String| FoundMember { drive, role, reason: Some(reason) };
    let Some(index) = drive else {
        return match member.state {
            MemberState::Online => {
                say(Role::Missing, format!("drive {} of '{volume}' is missing", member.name))
            }
            MemberState::Failed => {
                say(Role::Out, format!("drive {} of '{volume}' is out: {}", member.name, why(member)))
            }
        };
    };
    let seen = &drives[index];
    let own = label(drives, index);
    if !newest.fits(seen.size) {
        let need = ByteCount(newest.volume.member_bytes);
        return say(
            Role::Stale,
            format!(
                "{} has become too small for '{volume}', which uses {need} of it and 32 MiB for its label",
                seen.name
            ),
        );
    }
    if member.is_online() {
        if own.generation + 1 >= newest.generation {
            return FoundMember { drive, role: Role::Current, reason: None };
        }
        return say(
            Role::Stale,
            format!(
                "{} is a copy from an earlier time: it knows {} of {} changes of '{volume}'; it has to be rebuilt",
                seen.name, own.generation, newest.generation
            ),
        );
    }
    match member.cause {
        Some(cause) if !member.missed_writes => say(
            Role::MissedNothing(cause),
            format!("{} is out ({}), but missed no write", seen.name, why(member)),
        ),
        _ => say(
            Role::Stale,
            format!(
                "{} is stale: '{volume}' was written without it ({}); it has to be rebuilt",
                seen.name,
                why(member)
            ),
        ),
    }
}

/// Why a member is out, to be read within a sentence.
pub fn why(member: &Member) -> &'static str {
    match member.cause {
        Some(Cause::Missing) => "it was missing when the volume was started",
        Some(Cause::Offline) => "an operator took it offline",
        Some(Cause::Operator) => "an operator declared it failed",
        Some(Cause::Error) | None => "it failed",
    }
}

/// Whether `other` calls a member failed that `newest` has used all the while: then neither comes from the other.
fn contradicts(other: &Label, newest: &Label) -> bool {
    other.member.iter().zip(&newest.member).any(|(theirs, ours)| {
        !theirs.is_online() && ours.is_online() && ours.since <= other.generation && theirs.uuid == ours.uuid
    }) || (other.generation == newest.generation && !other.agrees_with(newest))
}

/// Whether another part of the array was used without this one: a sentence.
///
/// Only where that part could be used: all members that it calls online are of it too, or not here to be
/// asked, and they are enough for the level. Otherwise its label is merely the beginning of a change that was
/// never completed, and nothing was acknowledged on the strength of it.
fn apart(drives: &[SeenDrive], newest: &Label, group: &[usize]) -> Option<String> {
    for &drive in group {
        let other = label(drives, drive);
        let offline: Vec<usize> = (0..)
            .zip(&other.member)
            .filter(|(_, member)| !member.is_online())
            .map(|(slot, _)| slot)
            .collect();
        if other.phase != Phase::Online || !contradicts(other, newest) || !can_do_without(other, &offline) {
            continue;
        }
        let on_its_side = |member: &Member| {
            let carrier = group.iter().find(|&&drive| label(drives, drive).drive == member.uuid);
            carrier.is_none_or(|&carrier| contradicts(label(drives, carrier), newest))
        };
        if other.member.iter().filter(|member| member.is_online()).all(on_its_side) {
            return Some(format!(
                "drives of '{}' were used without one another: {} went one way and others another, and each may hold writes that the other lacks; disconnect those that are not to be used",
                newest.volume.name, drives[drive].name
            ));
        }
    }
    None
}

fn why_offline(label: &Label, members: usize, out: usize) -> String {
    let (name, here) = (&label.volume.name, members - out);
    match label.geometry().map(|geometry| geometry.survives()) {
        Ok(survives) if survives.at_least == survives.at_most => {
            let needed = members - survives.at_least.as_usize();
            format!(
                "'{name}' needs {needed} of its {members} drives and has {here}; connect the others and add them"
            )
        }
        _ => format!(
            "the {here} drives that '{name}' has of {members} do not hold all of its data; connect the others and add them"
        ),
    }
}

/// Whether the volume still has all its data without the members in these slots.
fn can_do_without(label: &Label, out: &[usize]) -> bool {
    // Only a label with a layout has few enough members for a set of them.
    out.is_empty()
        || label.geometry().is_ok_and(|geometry| {
            geometry.survives_set(&out.iter().map(|slot| DriveIndex(*slot as u16)).collect())
        })
}

fn readiness(label: &Label, members: &[FoundMember], reasons: &mut Vec<String>) -> Readiness {
    let out: Vec<usize> =
        (0..).zip(members).filter(|(_, m)| m.role != Role::Current).map(|(i, _)| i).collect();
    if out.is_empty() {
        Readiness::Optimal
    } else if can_do_without(label, &out) {
        Readiness::Degraded
    } else {
        reasons.push(why_offline(label, members.len(), out.len()));
        Readiness::Offline
    }
}
