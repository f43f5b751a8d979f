//! Combines the records of all drives into volumes: a pure function, independent of the order of
//! the drives.
//!
//! # Rules
//! - Records belong to one volume when their format and the volume's identity are the same.
//! - The record with the highest sequence number describes the volume. A drive's record of itself
//!   counts only as far as that record agrees.
//! - A member whose own record is older than the newest by more than the format allows is *stale*:
//!   the volume was used without it. So is a member that the newest record lists as failed, or not
//!   at all.
//! - Of two drives with one identity, one is a copy. The newer is the member; where they are
//!   equally new, neither is used.
//! - A member that is still being rebuilt is not completely current, and not used.
//! - Unreadable parts of a member (bad blocks, a truncated drive) count on that member alone
//!   (`lacking.rs`).
//! - The least advanced current member determines the position of a reshape. Where some members
//!   record a reshape and others do not, the newest record decides; the data offsets of the others
//!   are derived from it.
//!
//! Stale members and copies are listed with the reason, and never read for the volume's data.

use super::lacking;
use super::record::{Consistency, Entry, Feature, MemberRecord, Record, Role, VolumeRecord};
use super::section::{Arrangement, Section, sections};
use crate::foreign::{Format, Identity};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, MAX_DRIVES};

/// A record, with the drive that carries it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The index of the drive.
    pub drive: usize,
    /// The drive's name, for sentences.
    pub name: String,
    /// The drive's size.
    pub size: ByteCount,
    /// Its record.
    pub record: Record,
}

/// The state of a slot's drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// Its data are current.
    Current,
    /// It is being rebuilt, and not completely current.
    Rebuilding,
    /// It may be current, but its data are not reliable: it is not read.
    Excluded,
    /// It is present, and the volume was used without it.
    Stale,
    /// It is missing.
    Missing,
}

impl Standing {
    /// Its name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Current => "current",
            Standing::Rebuilding => "rebuilding",
            Standing::Excluded => "excluded",
            Standing::Stale => "stale",
            Standing::Missing => "missing",
        }
    }
}

/// A volume's member, and its drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMember {
    /// Its slot.
    pub slot: u16,
    /// Its state.
    pub standing: Standing,
    /// The index of its drive; `None` where it is missing.
    pub drive: Option<usize>,
    /// The range of its data on that drive; empty where it is missing.
    pub data: ByteRange,
    /// The sequence number of its own record.
    pub sequence: Option<u64>,
    /// The time of its own record's last change, in seconds since 1970.
    pub updated_unix_s: Option<u64>,
    /// The ranges of the drive that count as unreadable, within the range that the volume uses;
    /// ascending.
    pub unreadable: Vec<ByteRange>,
    /// The reason why it is not current: a sentence.
    pub reason: Option<String>,
}

/// The kind of a drive whose slot is unknown ([`FoundOther::what`]).
pub const UNPLACED: &str = "unplaced";

/// A drive that belongs to a volume without being a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundOther {
    /// The index of the drive.
    pub drive: usize,
    /// Its kind: `spare`, `journal`, `failed`, `stale`, `rebuilding`, `copy`, `unplaced`.
    pub what: &'static str,
    /// The sequence number of its own record.
    pub sequence: u64,
    /// Details: a sentence.
    pub reason: String,
}

/// The usability of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// All members are current.
    Complete,
    /// Members are missing, and all data are readable.
    Degraded,
    /// Not all data are readable, or their layout is unknown.
    NotReadable,
}

impl State {
    /// Its name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Complete => "complete",
            State::Degraded => "degraded",
            State::NotReadable => "not readable",
        }
    }
}

/// A volume, as its drives describe it.
#[derive(Clone, Debug)]
pub struct FoundVolume {
    /// The newest record.
    pub record: VolumeRecord,
    /// Its members, by slot.
    pub members: Vec<FoundMember>,
    /// Other drives that belong to it.
    pub others: Vec<FoundOther>,
    /// The layout of its bytes, in order; empty where it is unknown.
    pub sections: Vec<Section>,
    /// Ranges of the volume that are in a reshape's backup instead of on its members, with their
    /// offsets in that file. The sections are then the bytes around them
    /// ([`FoundVolume::take_backup`]).
    pub saved: Vec<(ByteRange, ByteOffset)>,
    /// Its usability.
    pub state: State,
    /// The reasons why it is not complete, and other notes for its readers: a sentence each.
    pub reasons: Vec<String>,
    /// The reasons why it must not be written to: a sentence each; empty where writes are allowed.
    pub no_writing: Vec<String>,
}

impl FoundVolume {
    /// The size of the part that can be served.
    pub fn capacity(&self) -> ByteCount {
        let sections = self.sections.iter().map(|section| section.within.len.0);
        ByteCount(sections.chain(self.saved.iter().map(|(bytes, _)| bytes.len.0)).sum())
    }

    /// Whether all its data are readable without the members in `out`, by slot.
    pub fn survives(&self, out: &DriveSet) -> bool {
        !self.sections.is_empty()
            && self.sections.iter().all(|section| section_survives(section, out))
    }

    /// The members that are not current, by slot.
    pub fn out(&self) -> DriveSet {
        let out = self
            .members
            .iter()
            .take(MAX_DRIVES)
            .filter(|member| member.standing != Standing::Current);
        out.fold(DriveSet::EMPTY, |set, member| set.with(DriveIndex(member.slot)))
    }
}

fn section_survives(section: &Section, out: &DriveSet) -> bool {
    let here = (0..).zip(&section.members).filter(|(_, (slot, _))| out.contains(DriveIndex(*slot)));
    let lost = here.fold(DriveSet::EMPTY, |set, (index, _)| set.with(DriveIndex(index)));
    section.geometry().is_ok_and(|geometry| geometry.survives_set(&lost))
}

/// The volumes of these records, by format and identity.
pub fn reconcile(seen: &[Seen]) -> Vec<FoundVolume> {
    let mut groups: BTreeMap<(Format, &[u8]), Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        let volume = &one.record.volume;
        groups.entry((volume.format, &volume.identity.bytes)).or_default().push(one);
    }
    groups.into_values().filter_map(found).collect()
}

fn found(mut group: Vec<&Seen>) -> Option<FoundVolume> {
    group.sort_by_key(|seen| seen.drive);
    let mut others = Vec::new();
    let (kept, tied) = without_copies(&group, &mut others);
    let speakers = if kept.is_empty() { &group } else { &kept };
    // Among equally new records, one of a member takes precedence: a removed drive may have a
    // record of its removal.
    let belongs = |seen: &Seen| matches!(seen.record.member.role, Role::Active(_));
    let newest = *speakers.iter().max_by_key(|seen| {
        (seen.record.volume.sequence, belongs(seen), std::cmp::Reverse(seen.drive))
    })?;
    let mut record = newest.record.volume.clone();
    let mut members: Vec<Option<FoundMember>> = vec![None; usize::from(record.slots)];
    for seen in &kept {
        place(&record, seen, &mut members, &mut others);
    }
    let (mut reasons, mut no_writing) = (Vec::new(), no_writing(&record));
    let mut members: Vec<FoundMember> = (0..)
        .zip(members)
        .map(|(slot, member)| member.unwrap_or_else(|| missing(slot, &record, &tied)))
        .collect();
    reasons.extend(members.iter().filter_map(|member| member.reason.clone()));
    reasons.extend(go_by_the_least_advanced(&kept, &members, &mut record));
    match where_some_know_of_no_reshape(&kept, &mut members, &record) {
        Ok(why) => no_writing.extend(why),
        Err(why) => record.arrangement = Arrangement::Other(why),
    }
    if let Some(why) = members_that_move_apart(&kept, &record) {
        record.arrangement = Arrangement::Other(why);
    }
    let lacking = lacking::note(&kept, &mut members, &mut record);
    reasons.extend(lacking.reasons);
    no_writing.extend(lacking.no_writing);
    reasons.extend(apart(&kept, newest));
    others.sort_by_key(|other| other.drive);
    let mut found = FoundVolume {
        no_writing,
        record,
        members,
        others,
        sections: Vec::new(),
        saved: Vec::new(),
        state: State::NotReadable,
        reasons,
    };
    judge(&mut found);
    Some(found)
}

/// The beginning of the sentence that explains why there are no sections.
pub(super) const UNREADABLE: &str = "it cannot be read: ";

/// Fills in the sections, the state and the reasons.
pub(super) fn judge(found: &mut FoundVolume) {
    let sizes: Vec<_> =
        found.members.iter().map(|member| member.drive.map(|_| member.data.len)).collect();
    match sections(&found.record, &sizes) {
        Ok(sections) => found.sections = sections,
        Err(why) => found.reasons.push(format!("{UNREADABLE}{why}")),
    }
    let out = found.out();
    found.state = match found.survives(&out) {
        true if out.is_empty() => State::Complete,
        true => State::Degraded,
        false => State::NotReadable,
    };
    if !found.sections.is_empty() && found.state == State::NotReadable {
        let (count, slots) = (out.count(), found.record.slots);
        found.reasons.push(format!(
            "{count} of its {slots} members are missing, too many to read it; find them and name \
            them too"
        ));
    }
    let dirty = found.record.consistency != Consistency::Clean;
    if dirty && found.state == State::Degraded {
        found.reasons.push(
            "it was not cleanly shut down: data computed for the missing members may be wrong in \
             stripes with interrupted writes"
                .into(),
        );
    } else if let (Some(log), State::Degraded) = (unapplied_log(&found.record), found.state) {
        found.reasons.push(format!(
            "its {log} is not applied: after a crash, data computed for the missing members may \
             be wrong in stripes with interrupted writes"
        ));
    }
}

/// The log without which parity may be stale after a crash, whatever the superblocks say: with such
/// a log, Linux md records a crash nowhere else.
fn unapplied_log(record: &VolumeRecord) -> Option<&Feature> {
    record.features.iter().find(|feature| matches!(feature, Feature::Ppl | Feature::Journal))
}

/// Uses the position of the current member that is least advanced in the reshape, and adds a note.
/// Metadata are on all members before a reshape overwrites data that the earlier position needs,
/// and before hosts use the part that it has passed. So where members differ, the update with the
/// later position was interrupted: the data between are complete in the old layout, but a member
/// without a flush may lack them in the new one.
fn go_by_the_least_advanced(
    kept: &[&Seen],
    members: &[FoundMember],
    record: &mut VolumeRecord,
) -> Option<String> {
    let farthest = record.reshape()?.clone();
    let is_current = |seen: &&&Seen| {
        let is_it = |member: &FoundMember| member.drive == Some(seen.drive);
        members.iter().any(|member| is_it(member) && member.standing == Standing::Current)
    };
    // A member that does not record the reshape yet is behind a position at which no data have
    // moved.
    let mut least = (&farthest, None);
    for seen in kept.iter().filter(is_current) {
        if let Some(own) = seen.record.volume.reshape()
            && own.way() == farthest.way()
            && own.is_behind(least.0)
        {
            least = (own, Some(*seen));
        }
    }
    let (reshape, Some(seen)) = least else { return None };
    let (here, there) = (ByteCount(reshape.position.0), ByteCount(farthest.position.0));
    record.arrangement = seen.record.volume.arrangement.clone();
    for feature in &mut record.features {
        if let Feature::Reshape(of) = feature {
            *of = reshape.clone();
        }
    }
    Some(format!(
        "{} records the reshape at {here}, and other members at {there}: {here} is used, since \
         members may lack data between",
        seen.name
    ))
}

/// The first or the last update of a reshape was interrupted between members: some record it,
/// others do not. Sets the data offsets of each member by the newest record. The volume must not be
/// written to: a member that still records the reshape had not flushed data that moved to it since.
///
/// # Errors
/// When the members' records are not consistent: a sentence.
fn where_some_know_of_no_reshape(
    kept: &[&Seen],
    members: &mut [FoundMember],
    record: &VolumeRecord,
) -> Result<Vec<String>, String> {
    let mut no_writing = Vec::new();
    for member in members.iter_mut().filter(|member| member.standing == Standing::Current) {
        let Some(seen) = kept.iter().find(|seen| member.drive == Some(seen.drive)) else {
            continue;
        };
        let name = &seen.name;
        let by = match (record.reshape(), seen.record.volume.reshape()) {
            (None, Some(own)) => {
                no_writing.push(format!(
                    "{name} records a reshape at {}, and other members record its end: {name} may \
                     lack data that moved behind that; leave it out where the level survives that",
                    ByteCount(own.position.0)
                ));
                // Its own record begins at the offset of the shorter layout, before and after; by
                // the newest record the data have moved.
                own.shift.max(0)
            }
            (Some(reshape), None) if !reshape.has_begun() => reshape.shift.min(0),
            (Some(_), None) => {
                return Err(format!(
                    "a reshape was interrupted that {name} does not record, although it has moved \
                     data; let Linux md finish it on copies of the drives"
                ));
            }
            _ => continue,
        };
        let (data, begins) = (member.data, member.data.start.0.checked_add_signed(by));
        let begins = begins.filter(|begins| *begins <= data.end().0);
        let begins = begins.ok_or_else(|| {
            format!("a reshape moves its data by {by} bytes, for which {name} has no space")
        })?;
        member.data = ByteRange::from_to(ByteOffset(begins), data.end());
    }
    Ok(no_writing)
}

/// A reshape moves the data of each member by its own distance, but the layout of all members comes
/// from one record.
fn members_that_move_apart(kept: &[&Seen], record: &VolumeRecord) -> Option<String> {
    let way = record.reshape()?.way();
    let members = kept.iter().filter(|seen| matches!(seen.record.member.role, Role::Active(_)));
    let other = members
        .filter(|seen| {
            record.sequence.saturating_sub(seen.record.volume.sequence) <= record.may_lag
        })
        .find(|seen| seen.record.volume.reshape().is_some_and(|reshape| reshape.way() != way))?;
    Some(format!(
        "a reshape was interrupted, and it moves the data on {} by another distance than on other \
         members",
        other.name
    ))
}

fn no_writing(record: &VolumeRecord) -> Vec<String> {
    let mut reasons = Vec::new();
    for feature in &record.features {
        match feature {
            Feature::Reshape(_) => reasons.push("a reshape of it was interrupted".into()),
            Feature::Journal => {
                reasons.push("its write journal may hold writes that its members lack".into())
            }
            Feature::Clustered => reasons.push("it is shared between computers".into()),
            Feature::Unknown(what) => reasons.push(format!("it uses unsupported features: {what}")),
            // `lacking.rs` handles bad blocks, by member.
            Feature::Bitmap | Feature::Ppl | Feature::BadBlocks | Feature::Replacement => {}
        }
    }
    reasons
}

/// Assigns a drive to its place in the newest record.
fn place(
    record: &VolumeRecord,
    seen: &Seen,
    members: &mut [Option<FoundMember>],
    others: &mut Vec<FoundOther>,
) {
    let own = &seen.record;
    let sequence = own.volume.sequence;
    let behind = record.sequence.saturating_sub(sequence);
    let entry = record.entries.iter().find(|entry| entry.key == own.member.key);
    let role = entry.map(|entry| entry.role);
    let mut other =
        |what, reason| others.push(FoundOther { drive: seen.drive, what, sequence, reason });
    let name = &seen.name;
    let stale = || match role {
        Some(Role::Active(_)) => format!(
            "{name} is stale: its metadata are at number {sequence}, those of the others at {}",
            record.sequence
        ),
        Some(Role::Failed) => format!("{name} is stale: the other members record it as failed"),
        _ => format!("{name} is stale: the other members no longer list it"),
    };
    let (slot, standing, reason) = match (role, own.member.role) {
        (Some(Role::Spare), _) | (None, Role::Spare) => {
            return other("spare", format!("{name} is a spare"));
        }
        (_, Role::Unknown) => {
            return other(
                UNPLACED,
                format!(
                    "{name} belongs to it, but its slot depends on its serial number, which is \
                     unknown: give it ({}), as in 'softroc rescue DRIVE... --serial \
                     DRIVE=NUMBER', or have the order guessed: 'softroc rescue DRIVE... --guess'",
                    members_keys(record)
                ),
            );
        }
        (Some(Role::Journal), _) => {
            return other("journal", format!("{name} holds the write journal"));
        }
        (Some(Role::Active(slot)), Role::Active(_)) if behind <= record.may_lag => {
            match rebuilding(record, &own.member) {
                None => (slot, Standing::Current, None),
                Some(done) => (slot, Standing::Rebuilding, Some(being_rebuilt(name, done))),
            }
        }
        (Some(Role::Rebuilding(slot)), _) if behind <= record.may_lag => {
            let done = own.member.rebuilt.unwrap_or_default();
            (slot, Standing::Rebuilding, Some(being_rebuilt(name, done)))
        }
        // No record has its former slot.
        (_, Role::Failed | Role::Spare | Role::Journal) => return other("failed", stale()),
        (_, Role::Active(slot) | Role::Rebuilding(slot)) => (slot, Standing::Stale, Some(stale())),
    };
    let Some(place) = members.get_mut(usize::from(slot)) else {
        return other(
            "stale",
            format!("{name} is member {slot} by its metadata, which the volume does not have"),
        );
    };
    let found = FoundMember {
        slot,
        standing,
        drive: Some(seen.drive),
        data: own.member.data,
        sequence: Some(sequence),
        updated_unix_s: own.volume.updated_unix_s,
        unreadable: Vec::new(),
        reason,
    };
    match place {
        // A drive that is being replaced and its replacement; a stale member and its successor.
        Some(there) if there.standing <= standing => {
            let what = if standing == Standing::Current { "copy" } else { standing.name() };
            let second = || format!("{name} holds the same data as the drive used for its slot");
            other(what, found.reason.unwrap_or_else(second));
        }
        Some(there) => {
            let displaced = std::mem::replace(there, found);
            if let (Some(drive), Some(sequence)) = (displaced.drive, displaced.sequence) {
                let reason = displaced.reason.unwrap_or_default();
                others.push(FoundOther {
                    drive,
                    what: displaced.standing.name(),
                    sequence,
                    reason,
                });
            }
        }
        None => *place = Some(found),
    }
}

/// The keys of the members, for a sentence.
fn members_keys(record: &VolumeRecord) -> String {
    let is_member = |entry: &&Entry| matches!(entry.role, Role::Active(_) | Role::Rebuilding(_));
    let keys: Vec<&str> =
        record.entries.iter().filter(is_member).map(|entry| entry.key.as_str()).collect();
    match keys.is_empty() {
        true => "its metadata name none".into(),
        false => format!("one of {}", keys.join(", ")),
    }
}

/// The progress of the rebuild of a member that is not completely current.
fn rebuilding(record: &VolumeRecord, member: &MemberRecord) -> Option<ByteCount> {
    let all = record.member_size.unwrap_or(member.data.len);
    member.rebuilt.filter(|done| *done < all)
}

fn being_rebuilt(name: &str, done: ByteCount) -> String {
    format!("{name} was being rebuilt: only its first {done} are current")
}

fn missing(slot: u16, record: &VolumeRecord, tied: &[(u16, String)]) -> FoundMember {
    let holds = |role: Role| matches!(role, Role::Active(s) | Role::Rebuilding(s) if s == slot);
    let entry = record.entries.iter().find(|entry| holds(entry.role));
    let reason = match (tied.iter().find(|(of, _)| *of == slot), entry) {
        (Some((_, reason)), _) => reason.clone(),
        (None, Some(entry)) => format!("member {slot} ({}) is missing", entry.key),
        (None, None) => {
            format!("member {slot} was missing already when the metadata were last written")
        }
    };
    FoundMember {
        slot,
        standing: Standing::Missing,
        drive: None,
        data: ByteRange::new(ByteOffset(0), ByteCount::ZERO),
        sequence: None,
        updated_unix_s: None,
        unreadable: Vec::new(),
        reason: Some(reason),
    }
}

/// The records without those of copies, and the slots that are empty because of copies: with a
/// sentence.
fn without_copies<'a>(
    group: &[&'a Seen],
    others: &mut Vec<FoundOther>,
) -> (Vec<&'a Seen>, Vec<(u16, String)>) {
    let mut by_device: BTreeMap<(Option<&Identity>, usize), Vec<&'a Seen>> = BTreeMap::new();
    for &seen in group {
        let device = seen.record.member.device.as_ref();
        let alone = if device.is_some() { usize::MAX } else { seen.drive };
        by_device.entry((device, alone)).or_default().push(seen);
    }
    let (mut kept, mut tied) = (Vec::new(), Vec::new());
    for mut same in by_device.into_values() {
        same.sort_by_key(|seen| seen.record.volume.sequence);
        let Some(newest) = same.pop() else { continue };
        let sequence = newest.record.volume.sequence;
        let Some(last) = same.last() else {
            kept.push(newest);
            continue;
        };
        let tie = last.record.volume.sequence == sequence;
        let sentence = if tie {
            format!(
                "{} and {} carry the same drive identity and are equally new, so neither is used; \
                    leave the copy out",
                newest.name, last.name
            )
        } else {
            kept.push(newest);
            format!(
                "{} is an older copy of {}: both carry the same drive identity",
                last.name, newest.name
            )
        };
        if tie {
            same.push(newest);
            if let Role::Active(slot) | Role::Rebuilding(slot) = newest.record.member.role {
                tied.push((slot, sentence.clone()));
            }
        }
        others.extend(same.iter().map(|seen| FoundOther {
            drive: seen.drive,
            what: "copy",
            sequence: seen.record.volume.sequence,
            reason: sentence.clone(),
        }));
    }
    (kept, tied)
}

/// Whether parts of the volume were used separately: each records the other as failed.
fn apart(kept: &[&Seen], newest: &Seen) -> Option<String> {
    let active = |volume: &VolumeRecord, key: &str| {
        volume.entries.iter().any(|entry| entry.key == key && matches!(entry.role, Role::Active(_)))
    };
    let other = kept.iter().find(|seen| {
        !active(&newest.record.volume, &seen.record.member.key)
            && matches!(seen.record.member.role, Role::Active(_))
            && !active(&seen.record.volume, &newest.record.member.key)
            && matches!(newest.record.member.role, Role::Active(_))
    })?;
    Some(format!(
        "{} (number {}) and {} (number {}) were used separately, and each may hold writes that \
         the other lacks; the newer is taken",
        newest.name, newest.record.volume.sequence, other.name, other.record.volume.sequence
    ))
}
