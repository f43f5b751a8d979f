//! Converts a label to DDF: derived again at every change, so that other software sees the current
//! state.
//!
//! | label | DDF |
//! | --- | --- |
//! | array | the group: its GUID is the array's UUID; the sequence the generation, modulo 2³² |
//! | member, replacement | a physical disk record; the reference is made of the drive's UUID |
//! | its state | online; failed; missing; rebuilding (stale, written regions); replacement |
//! | volume | a virtual disk record and, on its drives, configuration records |
//! | volume that reshapes, or that DDF cannot describe | a vendor's record, to reserve its space |
//! | not clean, or a member is stale in unwritten regions | not consistent: needs a resync |
//! | hot spare | a group of its own, with a spare assignment record |

use crate::ddf::{
    Condition, Controller, DiskKind, DiskRecord, DiskRef, DiskState, Drive, Group, Guid, Name,
    Site, SpareRecord, Step, Structure, Time, Volume, VolumeAccess, VolumeRecord, VolumeState,
    condition, follows, rewrite, update,
};
use crate::error::{Error, ErrorKind, Result};
use crate::label::{Cause, Label, Member};
use crate::payload::{Content, VERSION, spare_text_of, text_of};
use crate::runs::Runs;
use crate::spare::{SpareLabel, SpareScope};
use crate::tail::{Tail, TailPlace};
use crate::uuid::Uuid;
use crate::volume::{Init, VolumeLabel};
use crate::witness::Witness;
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, DriveCount, SectorSize};

/// The vendor in the GUIDs of groups, volumes and drives.
pub(crate) const VENDOR: [u8; 8] = *b"SoftROC ";

fn guid(uuid: Uuid) -> Guid {
    Guid::of_uuid(VENDOR, uuid.0)
}

/// The sequence of a group's header in that generation.
pub(crate) fn sequence(generation: u64) -> u32 {
    generation as u32
}

/// The content for all drives of an array: the text is encoded once.
#[derive(Clone, Debug)]
pub struct Telling {
    group: Group,
    generation: u64,
    text: Vec<u8>,
}

impl Telling {
    /// The content for the members of an array, and for their replacements.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where the label does not fit; [`ErrorKind::Contradiction`] where its
    /// content is invalid.
    pub fn of(label: &Label) -> Result<Telling> {
        Ok(Telling { group: group_of(label)?, generation: label.generation, text: text_of(label)? })
    }

    /// The content for a hot spare on a drive with that site.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where it does not fit.
    pub fn of_spare(spare: &SpareLabel, site: &Site) -> Result<Telling> {
        Ok(Telling { group: spare_group(spare, site), generation: 1, text: spare_text_of(spare)? })
    }

    /// The content for a drive of that site.
    ///
    /// # Errors
    /// As [`of`](Self::of) and [`of_spare`](Self::of_spare).
    pub fn of_content(content: &Content, site: &Site) -> Result<Telling> {
        match content {
            Content::Member(label) => Telling::of(label),
            Content::Spare(spare) => Telling::of_spare(spare, site),
        }
    }

    /// The content of one of the drives.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where the drive is unknown.
    pub fn told(&self, site: &Site, drive: Uuid) -> Result<Told> {
        let structure = self.structure(site, drive)?;
        Ok(Told { structure, witness: Witness::new(drive, self.generation, &self.text) })
    }

    /// The structure of one of the drives.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where the drive is unknown.
    fn structure(&self, site: &Site, drive: Uuid) -> Result<Structure> {
        let own = self.group.disks.iter().find(|disk| disk.guid == guid(drive));
        let none =
            || Error::new(ErrorKind::Contradiction, format!("no drive {drive} in the label"));
        let reference = own.ok_or_else(none)?.reference;
        // Records of volumes on this drive use its own block size; a volume that they cannot
        // describe gets a vendor's record.
        let mut group = self.group.clone();
        let (sayable, others): (Vec<Volume>, Vec<Volume>) =
            group.volumes.into_iter().partition(|volume| volume.parts(site.coding()).is_ok());
        group.volumes = sayable;
        group.others.extend(others.iter().map(|volume| {
            (
                volume.record.guid,
                format!("{} {}", volume.shape.level.name(), volume.record.name.text()),
            )
        }));
        group.structure(site, reference, Some((VERSION, &self.text)))
    }
}

/// The content of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its structure.
    pub structure: Structure,
    /// Its witness.
    pub witness: Witness,
}

impl Told {
    /// The steps that write it to a drive of that size; `old` is the drive's present structure.
    /// Where the new one cannot follow it, the drive is written as a new one.
    ///
    /// # Errors
    /// As [`update`].
    pub fn steps(&self, size: ByteCount, old: Option<&Drive>) -> Result<Vec<Step>> {
        let old = old.filter(|old| follows(old, &self.structure));
        Ok(self.with_witness(size, update(size, old, &self.structure)?))
    }

    /// The same for a drive whose copies are both lost, and whose anchor and witness are readable:
    /// these stay until the new copies are complete.
    ///
    /// # Errors
    /// As [`rewrite`].
    pub fn steps_for_headless(&self, size: ByteCount) -> Result<Vec<Step>> {
        Ok(self.with_witness(size, rewrite(size, &self.structure)?))
    }

    fn with_witness(&self, size: ByteCount, mut steps: Vec<Step>) -> Vec<Step> {
        if let Some(tail) = Tail::at(size, self.structure.place_on(size)) {
            // With the anchor, before the last flush.
            let witness = Step::Write { at: tail.witness().start, bytes: self.witness.encode() };
            steps.insert(steps.len().saturating_sub(1), witness);
        }
        steps
    }
}

fn controller(of: Guid) -> Controller {
    Controller { guid: of, pci: [u16::MAX; 4], product: *b"SoftROC         ", vendor: Vec::new() }
}

fn group_of(label: &Label) -> Result<Group> {
    let created = label.volume.iter().map(|volume| volume.created_unix_s).max().unwrap_or(0);
    let disks = disks_of(label);
    let references: BTreeMap<Guid, DiskRef> =
        disks.iter().map(|disk| (disk.guid, disk.reference)).collect();
    let mut volumes = Vec::new();
    let (mut number, mut others) = (0, Vec::new());
    for volume in label.volume.iter().filter(|volume| !volume.is_part()) {
        // DDF cannot describe two layouts of a volume: other software sees none until the volume
        // has one layout on all named members.
        if volume.reshape.is_some() || volume.members.is_some() {
            others.push((guid(volume.uuid), format!("{} {}", volume.level.name(), volume.name)));
            continue;
        }
        number += 1;
        volumes.push(volume_of(label, number - 1, volume, &references)?);
    }
    Ok(Group {
        guid: guid(label.array),
        sequence: sequence(label.generation),
        timestamp: Time::from_unix_s(created.max(label.policy.set_unix_s)),
        controller: controller(guid(label.array)),
        disks,
        volumes,
        others,
        spares: BTreeMap::new(),
    })
}

fn disk(
    uuid: Uuid,
    kind: u16,
    state: u16,
    (size, block): (u64, u64),
    place: TailPlace,
    taken: &mut Vec<DiskRef>,
) -> DiskRecord {
    let guid = guid(uuid);
    let mut reference = DiskRef::of(&guid);
    while taken.contains(&reference) || reference == DiskRef::NONE {
        reference = DiskRef(reference.0.wrapping_add(1));
    }
    taken.push(reference);
    let site =
        SectorSize::from_bytes(block).and_then(|block| Site::at(ByteCount(size), block, place));
    DiskRecord {
        guid,
        reference,
        kind: DiskKind(kind | DiskKind::FORCED_GUID),
        state: DiskState(state),
        configured_blocks: site.map_or(0, |site| site.configured_blocks()),
        path: [0xFF; 18],
        block_bytes: u16::MAX,
    }
}

fn disks_of(label: &Label) -> Vec<DiskRecord> {
    let mut taken = Vec::new();
    let mut disks = Vec::new();
    for member in &label.member {
        let size = (member.size_bytes, member.block_bytes);
        disks.push(disk(
            member.uuid,
            DiskKind::MEMBER,
            state_of(label, member),
            size,
            label.tail,
            &mut taken,
        ));
    }
    for replacement in label.member.iter().filter_map(|member| member.replacement.as_ref()) {
        let size = (replacement.size_bytes, replacement.block_bytes);
        let state = DiskState::ONLINE | DiskState::REBUILDING | DiskState::TRANSITION;
        disks.push(disk(replacement.uuid, DiskKind::MEMBER, state, size, label.tail, &mut taken));
    }
    disks
}

/// Whether a member is stale in written regions of a volume.
fn is_behind(member: &Member, volume: &VolumeLabel) -> bool {
    member.stale.touches_beyond(&volume.unwritten, volume.first_region, volume.end_region())
}

fn state_of(label: &Label, member: &Member) -> u16 {
    let is_behind = label.volume.iter().any(|volume| is_behind(member, volume));
    match (member.is_online(), member.cause) {
        (true, _) if is_behind => DiskState::ONLINE | DiskState::REBUILDING,
        (true, _) => DiskState::ONLINE,
        (false, Some(Cause::Missing)) => DiskState::MISSING,
        (false, _) => DiskState::FAILED,
    }
}

fn volume_of(
    label: &Label,
    number: u16,
    volume: &VolumeLabel,
    references: &BTreeMap<Guid, DiskRef>,
) -> Result<Volume> {
    let geometry = volume.geometry(label.member.len())?;
    let behind = label.member.iter().enumerate();
    let behind = behind.filter(|(_, member)| !member.is_online() || is_behind(member, volume));
    let out = volume.does_without(&crate::volume::slots(behind.map(|(slot, _)| slot)));
    let is_lost = !volume.lost.is_empty();
    let told = if is_lost { Condition::Failed } else { condition(&geometry, &out) };
    let mut state = VolumeState::of(told);
    // In unwritten regions a replacement drive may hold any data: other software has to make
    // redundancy agree.
    let none = Runs::default();
    // Drives that are reported as failed, or as behind, are ignored here: with such a drive, an
    // inconsistent volume is one with doubtful data, and Linux md does not start it.
    let stale = |member: &&Member| {
        member.stale.touches_beyond(&none, volume.first_region, volume.end_region())
    };
    let current =
        label.member.iter().filter(|member| member.is_online() && !is_behind(member, volume));
    // Uninitialised stripes have no matching redundancy. With an offline drive this is not
    // reported, as above.
    let by_stripe = volume.initialised_by_bytes.is_some();
    let is_uninitialised = by_stripe && label.member.iter().all(Member::is_online);
    let is_consistent = label.clean && !is_uninitialised && current.filter(stale).count() == 0;
    if volume.level.is_redundant() && !is_consistent {
        state = VolumeState(state.0 | VolumeState::NOT_CONSISTENT);
    }
    let is_initialised =
        label.clean && !by_stripe || volume.init == Init::Zeroed || !volume.level.is_redundant();
    let name: String = volume.name.chars().take(Name::MOST_BYTES).collect();
    let start = ByteOffset(volume.data_start_bytes);
    let member = |member: &Member| {
        (references.get(&guid(member.uuid)).copied().unwrap_or(DiskRef::NONE), start)
    };
    Ok(Volume {
        record: VolumeRecord {
            guid: guid(volume.uuid),
            number,
            kind: 0,
            state,
            access: if is_initialised {
                VolumeAccess::READY
            } else {
                VolumeAccess::NOT_INITIALISED
            },
            failures_left: u8::MAX,
            name: Name::new(&name).unwrap_or(Name([0; 16])),
        },
        timestamp: Time::from_unix_s(volume.created_unix_s),
        // A stale drive has an older record of its span.
        sequence: label.member.iter().map(|member| sequence(member.since)).max().unwrap_or(0),
        shape: volume.shape(DriveCount(label.member.len() as u16)),
        strip: geometry.strip(),
        member_size: ByteCount(volume.member_bytes),
        capacity: ByteCount(volume.capacity_bytes),
        members: label.member.iter().map(member).collect(),
        cache_policy: [0; 8],
        background_rate: (u16::from(label.policy.task_share_percent) * 255 / 100) as u8,
    })
}

fn spare_group(spare: &SpareLabel, site: &Site) -> Group {
    let dedicated = matches!(spare.scope, SpareScope::Arrays(_));
    let kind = if dedicated { DiskKind::SPARE } else { DiskKind::GLOBAL_SPARE };
    let size = (site.size().0, site.block().bytes().0);
    let disk = disk(spare.drive, kind, DiskState::ONLINE, size, site.place(), &mut Vec::new());
    let bits = [
        (dedicated, SpareRecord::DEDICATED),
        (spare.revertible, SpareRecord::REVERTIBLE),
        (spare.scope == SpareScope::Enclosure, SpareRecord::ENCLOSURE),
    ];
    let bits = bits.iter().filter(|(is_so, _)| *is_so).fold(0, |bits, (_, bit)| bits | bit);
    let timestamp = Time::from_unix_s(spare.since_unix_s);
    // Its arrays are in other groups; the GUIDs of their volumes would be invalid references here.
    let record = SpareRecord { timestamp, kind: bits, most: 0, protects: Vec::new() };
    Group {
        guid: guid(spare.drive),
        sequence: 1,
        timestamp,
        controller: controller(guid(spare.drive)),
        spares: BTreeMap::from([(disk.reference, record)]),
        disks: vec![disk],
        volumes: Vec::new(),
        others: Vec::new(),
    }
}
