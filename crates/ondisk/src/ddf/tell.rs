//! Converts structures to the volume records of [`foreign`](crate::foreign).
//!
//! A drive has the physical and virtual disk records of its whole group, and the configuration
//! records of its own spans alone. For the other spans of a volume, the record of a drive uses the
//! newest drive that has them. [`reconcile`](crate::foreign::reconcile()) decides which drives are
//! current, stale, copies or missing, from one record per drive:
//!
//! | of the record | from |
//! | --- | --- |
//! | identity | the GUIDs of group and volume; LSI (new GUIDs at each boot): group, number, name |
//! | sequence | the drive's header |
//! | entries | elements by slot, with the state that the drive's physical disk records give each |
//! | the drive's role | its physical disk data |
//!
//! A member may be one update behind, since an update may have been interrupted between drives. But
//! where a volume is degraded and no record explains why, the member that is behind is the stale
//! one.

use super::copies::{CopyState, is_after};
use super::disks::{DiskKind, DiskRecord, DiskState};
use super::find::Drive;
use super::header::{HeaderKind, Section as HeaderSection};
use super::level::{self, Slots, VolumeLayout};
use super::names::{DiskRef, Guid};
use super::records::{SpareRecord, VolumePart};
use super::structure::Structure;
use super::volumes::{Condition, VolumeRecord as VirtualDisk};
use crate::foreign::{
    Arrangement, Consistency, Entry, Feature, Format, Identity, MemberRecord, Record, Role,
    Section, Told, VolumeRecord,
};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, StripSize};

/// The records of each of these drives, in their order.
pub fn tell(drives: &[&Drive]) -> Vec<Told> {
    let mut newest: BTreeMap<Key, Newest> = BTreeMap::new();
    for drive in drives {
        for part in drive.structure.parts() {
            let spans = newest.entry(key(drive, part.volume)).or_default();
            let place = spans.entry(part.span).or_insert((drive, part));
            if is_newer((drive, part), *place) {
                *place = (drive, part);
            }
        }
    }
    let none = BTreeMap::new();
    let of = |drive: &Drive, volume: &VirtualDisk| {
        let spans = newest.get(&key(drive, volume.guid)).unwrap_or(&none);
        record(&drive.structure, volume, spans.values().map(|(_, part)| *part))
    };
    let told = |drive: &&Drive| {
        let mut told = Told { records: Vec::new(), notes: notes(drive) };
        for volume in drive.structure.volumes.iter().flatten() {
            match of(drive, volume) {
                Ok(Some(record)) => told.records.push(record),
                Ok(None) => {}
                Err(note) => told.notes.push(note),
            }
        }
        told
    };
    drives.iter().map(told).collect()
}

/// Parts of a volume with an equal key are combined: group, volume, and the unit of addresses.
type Key = (Guid, Guid, u64);

/// The newest part of each span, and the drive that has it.
type Newest<'a> = BTreeMap<u8, (&'a Drive, &'a VolumePart)>;

fn key(drive: &Drive, volume: Guid) -> Key {
    (drive.structure.header.group, volume, drive.structure.coding.bytes(1).0)
}

fn is_newer(one: (&Drive, &VolumePart), than: (&Drive, &VolumePart)) -> bool {
    let header = |drive: &Drive| drive.structure.header.sequence;
    match one.1.sequence == than.1.sequence {
        true => is_after(header(one.0), header(than.0)),
        false => is_after(one.1.sequence, than.1.sequence),
    }
}

/// Notes on a drive's structure.
fn notes(drive: &Drive) -> Vec<String> {
    let mut notes = Vec::new();
    if drive.anchor.kind != HeaderKind::Anchor || drive.structure.header.is_open() {
        let from = drive.anchor.kind.name();
        notes.push(match drive.structure.header.is_open() {
            true => "the updates of both copies of its DDF structure were interrupted".to_owned(),
            false => {
                format!("its DDF anchor is lost; the structure was found from the {from} header")
            }
        });
    }
    if let Some(back) = drive.displaced_by() {
        notes.push(format!(
            "holds its DDF anchor {back} before its end, not in the last block: its controller \
             wrote it there, or the drive is a copy of a smaller one; the metadata are used"
        ));
    }
    let own = drive.structure.disk(drive.structure.own.reference);
    if own.is_some_and(|disk| disk.state.has(DiskState::UNRECOVERED_READS)) {
        notes.push(
            "had blocks that could not be read, which its DDF metadata do not list; a copy of it \
             may have wrong data there"
                .to_owned(),
        );
    }
    for copy in &drive.copies {
        let name = copy.kind.name();
        match copy.state {
            CopyState::Sound | CopyState::Absent => {}
            CopyState::Behind => {
                notes.push(format!("the {name} copy of its DDF structure is older than the other"))
            }
            CopyState::Open => {
                notes.push(format!("the update of its {name} DDF copy was interrupted"));
            }
            CopyState::Damaged => {
                let why = copy.flaws.first().map_or("", String::as_str);
                notes.push(format!("the {name} copy of its DDF structure is damaged: {why}"));
            }
        }
    }
    notes
}

/// The role of a drive, by its entry in the records.
fn role(disk: &DiskRecord, slot: u16) -> Role {
    match disk.state {
        state if state.has(DiskState::FAILED | DiskState::MISSING) => Role::Failed,
        state if state.has(DiskState::REBUILDING) => Role::Rebuilding(slot),
        state if state.has(DiskState::ONLINE) => Role::Active(slot),
        _ => Role::Failed,
    }
}

/// A volume's spans: the drive's own, and the newest of the others.
struct Spans<'a> {
    parts: Vec<Option<&'a VolumePart>>,
    first: &'a VolumePart,
    width: usize,
    slots: Slots,
}

impl<'a> Spans<'a> {
    fn of(
        structure: &'a Structure,
        volume: &VirtualDisk,
        newest: impl Iterator<Item = &'a VolumePart>,
    ) -> Option<Spans<'a>> {
        let mut parts: BTreeMap<u8, &VolumePart> = newest.map(|part| (part.span, part)).collect();
        let own = structure.parts().filter(|part| part.volume == volume.guid);
        let own = own
            .reduce(|one, other| if is_after(other.sequence, one.sequence) { other } else { one });
        if let Some(own) = own {
            parts.insert(own.span, own);
        }
        let first = own.or(parts.values().next().copied())?;
        let count = first.spans.max(1);
        Some(Spans {
            parts: (0..count).map(|span| parts.get(&span).copied()).collect(),
            first,
            width: first.elements.len(),
            slots: Slots::SpanBySpan,
        })
    }

    /// The slot of each element, and the part that contains it.
    fn elements(&self) -> impl Iterator<Item = (u16, DiskRef, u64, &'a VolumePart)> {
        let spans = self.parts.len();
        let with_span = self.parts.iter().enumerate();
        with_span.filter_map(|(span, part)| Some((span, (*part)?))).flat_map(move |(span, part)| {
            part.elements.iter().enumerate().map(move |(index, element)| {
                let slot = match self.slots {
                    Slots::SpanBySpan => span * self.width + index,
                    Slots::Interleaved => index * spans + span,
                };
                (slot.min(usize::from(u16::MAX)) as u16, element.disk, element.start_lba, part)
            })
        })
    }

    /// The reason why the spans do not form one volume: a sentence.
    fn differ(&self) -> Option<&'static str> {
        let first = self.first;
        let parts = || self.parts.iter().flatten();
        let of = |part: &VolumePart| {
            (
                part.strip_shift,
                part.primary_level,
                part.qualifier,
                part.spans,
                part.secondary_level,
                part.rotate_shift,
            )
        };
        if parts().any(|part| part.elements.len() != self.width) {
            return Some("its spans have different numbers of drives");
        }
        if parts().any(|part| part.blocks != first.blocks) && first.spans > 1 {
            return Some("its spans have different sizes");
        }
        if parts().any(|part| of(part) != of(first) || part.volume_blocks != first.volume_blocks) {
            return Some("its spans have different layouts");
        }
        None
    }
}

/// A drive's record of a volume; `None` where it has no relation to it.
fn record<'a>(
    structure: &'a Structure,
    volume: &VirtualDisk,
    newest: impl Iterator<Item = &'a VolumePart>,
) -> Result<Option<Record>, String> {
    let name = volume.name.text();
    if volume.state.condition() == Condition::Deleted {
        return Ok(None);
    }
    let Some(mut spans) = Spans::of(structure, volume, newest) else {
        return Err(format!("DDF volume '{name}' ({}) has no configuration record", volume.guid));
    };
    let part = spans.first;
    let reading = level::read(part);
    if let VolumeLayout::Shape(_, slots) = reading.what {
        spans.slots = slots;
    }
    let Some(member) = member(structure, volume, &spans) else { return Ok(None) };
    let bytes = |blocks: u64| structure.coding.bytes(blocks);
    let strip = strip(structure, part).filter(|_| reading.has_strip);
    let member_size = bytes(part.blocks);
    let arrangement = match strip {
        _ if volume.state.is_morphing() => Arrangement::Other(format!(
            "{MORPHING} when its metadata were last written: let its controller finish the reshape"
        )),
        None if reading.has_strip && !matches!(reading.what, VolumeLayout::Other(_)) => {
            Arrangement::Other(format!("its strip of 2^{} blocks is invalid", part.strip_shift))
        }
        _ => arrangement(structure, &spans, reading.what.clone(), strip),
    };
    let entries = entries(structure, &spans);
    let record = VolumeRecord {
        format: Format::Ddf,
        version: structure.header.revision_text(),
        identity: identity(structure, volume),
        container: Some(Identity {
            text: structure.header.group.to_string(),
            bytes: structure.header.group.0.to_vec(),
        }),
        name,
        level: reading.level.to_owned(),
        layout: reading.layout.to_owned(),
        arrangement,
        strip,
        capacity: Some(bytes(part.volume_blocks)),
        member_size: (reading.what != VolumeLayout::Linear).then_some(member_size),
        slots: (spans.width * spans.parts.len()).min(usize::from(u16::MAX)) as u16,
        may_lag: u64::from(is_explained(volume, &entries)),
        entries,
        sequence: u64::from(structure.header.sequence),
        created_unix_s: None,
        updated_unix_s: Some(structure.header.timestamp.unix_s()),
        consistency: match volume.state.is_inconsistent() || !volume.access.is_initialised() {
            true => Consistency::Dirty,
            false => Consistency::Clean,
        },
        features: features(structure, volume, &reading.what),
    };
    Ok(Some(Record { volume: record, member }))
}

/// The part of this drive in a volume; `None` where it is neither a member nor a spare of it.
fn member(structure: &Structure, volume: &VirtualDisk, spans: &Spans) -> Option<MemberRecord> {
    let own = structure.own.reference;
    let disk = structure.disk(own);
    let element = spans.elements().find(|(_, disk, ..)| *disk == own && own != DiskRef::NONE);
    let (role, data) = match (element, disk) {
        (Some((slot, _, start_lba, part)), _) => (
            disk.map_or(Role::Failed, |disk| role(disk, slot)),
            bounded(structure, start_lba, part.blocks),
        ),
        (None, Some(disk))
            if disk.kind.is_spare() && protects(structure.spare(), disk, volume.guid) =>
        {
            (Role::Spare, ByteRange::default())
        }
        _ => return None,
    };
    let (bad, excluded) = match bad_blocks(structure) {
        Ok(bad) => (bad, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut device = structure.own.guid.0.to_vec();
    device.extend(own.0.to_be_bytes());
    let text = format!("{} {own}", structure.own.guid);
    Some(MemberRecord {
        key: own.to_string(),
        device: Some(Identity { text, bytes: device }),
        role,
        data,
        // DDF does not record the progress of a rebuild.
        rebuilt: matches!(role, Role::Rebuilding(_)).then_some(ByteCount::ZERO),
        bad,
        excluded,
    })
}

/// The byte range of blocks, limited to the largest possible drive.
fn bounded(structure: &Structure, lba: u64, blocks: u64) -> ByteRange {
    let start = structure.coding.bytes(lba).0;
    let len = structure.coding.bytes(blocks).min(ByteCount(u64::MAX - start));
    ByteRange::new(ByteOffset(start), len)
}

/// The blocks of its bad block log, whether the controller has remapped them or not: the original
/// blocks are not valid.
///
/// # Errors
/// When the log is damaged: a clause.
fn bad_blocks(structure: &Structure) -> Result<Vec<ByteRange>, String> {
    let unknown = |why: String| {
        format!(
            "its DDF bad block log {why}, so its bad blocks are unknown; rebuild the drive with \
            the RAID controller that wrote it"
        )
    };
    let Some(log) = &structure.bad_blocks else {
        return match structure.header.place(HeaderSection::BadBlocks).is_there() {
            true => Err(unknown("cannot be read, or is damaged".into())),
            false => Ok(Vec::new()),
        };
    };
    let mut bad = Vec::new();
    for (index, entry) in log.entries.iter().enumerate() {
        let run = bounded(structure, entry.lba, entry.blocks.into());
        if run.is_empty() {
            return Err(unknown(format!(
                "is damaged: entry {index} names {} blocks from block {} on",
                entry.blocks, entry.lba
            )));
        }
        bad.push(run);
    }
    bad.sort();
    Ok(bad)
}

/// Whether a spare protects a volume.
fn protects(spare: Option<&SpareRecord>, disk: &DiskRecord, volume: Guid) -> bool {
    match spare {
        Some(spare) if spare.kind & SpareRecord::DEDICATED != 0 => {
            spare.protects.iter().any(|(guid, _)| *guid == volume)
        }
        Some(_) => true,
        None => disk.kind.has(DiskKind::GLOBAL_SPARE),
    }
}

fn entries(structure: &Structure, spans: &Spans) -> Vec<Entry> {
    let entry = |(slot, reference, ..): (u16, DiskRef, u64, _)| {
        // A drive that the group no longer lists is not a member.
        let disk = structure.disk(reference)?;
        Some(Entry { key: reference.to_string(), role: role(disk, slot) })
    };
    let mut entries: Vec<Entry> = spans.elements().filter_map(entry).collect();
    let members: Vec<DiskRef> = spans.elements().map(|(_, reference, ..)| reference).collect();
    let spares = structure.disks.iter().flatten().filter(|disk| disk.kind.is_spare());
    let spares = spares.filter(|disk| !members.contains(&disk.reference));
    entries.extend(spares.map(|disk| Entry {
        key: disk.reference.to_string(),
        role: if disk.state.is_current() { Role::Spare } else { Role::Failed },
    }));
    entries
}

/// Whether a volume that is not optimal lists a member that is not current.
fn is_explained(volume: &VirtualDisk, entries: &[Entry]) -> bool {
    let is_whole = volume.state.condition() == Condition::Optimal;
    is_whole || entries.iter().any(|entry| matches!(entry.role, Role::Failed | Role::Rebuilding(_)))
}

fn identity(structure: &Structure, volume: &VirtualDisk) -> Identity {
    let mut bytes = structure.header.group.0.to_vec();
    if volume.guid.vendor() == Some("LSI") {
        bytes.extend(volume.number.to_be_bytes());
        bytes.extend(volume.name.0);
    } else {
        bytes.extend(volume.guid.0);
    }
    Identity { text: volume.guid.to_string(), bytes }
}

/// The note for a volume that was being reshaped.
const MORPHING: &str = "its layout was being changed";

/// Controllers whose RAID 6 has P and Q in the standard's order. MegaRAID's driver swaps them.
const SURE_OF_Q: [&str; 3] = ["SoftROC", "Linux-MD", "FreeBSD"];

fn features(structure: &Structure, volume: &VirtualDisk, what: &VolumeLayout) -> Vec<Feature> {
    let mut features = Vec::new();
    let is_sure = volume.guid.vendor().is_some_and(|vendor| SURE_OF_Q.contains(&vendor));
    let has_q = matches!(what, VolumeLayout::Shape(shape, _) | VolumeLayout::Concatenated(shape)
        if shape.level.row().parity_strips == 2);
    if has_q && !is_sure {
        features.push(Feature::Unknown(
            "which of its two parity strips is P depends on the controller".into(),
        ));
    }
    if volume.state.is_morphing() {
        features.push(Feature::Unknown(MORPHING.into()));
    }
    if structure.bad_blocks.as_ref().is_some_and(|log| !log.entries.is_empty()) {
        features.push(Feature::BadBlocks);
    }
    features
}

/// The strip, where its exponent is valid.
fn strip(structure: &Structure, part: &VolumePart) -> Option<ByteCount> {
    (part.strip_shift < 32).then(|| structure.coding.bytes(1 << part.strip_shift))
}

fn arrangement(
    structure: &Structure,
    spans: &Spans,
    what: VolumeLayout,
    strip: Option<ByteCount>,
) -> Arrangement {
    let part = spans.first;
    let blocks = structure.coding.bytes(1);
    if part.block_bytes != u16::MAX && ByteCount(u64::from(part.block_bytes)) != blocks {
        let context = format!(
            "it has blocks of {} bytes on drives with blocks of {}",
            part.block_bytes, blocks.0
        );
        return Arrangement::Other(context);
    }
    if let Some(why) = spans.differ().filter(|_| what != VolumeLayout::Linear) {
        return Arrangement::Other(why.into());
    }
    let member_size = structure.coding.bytes(part.blocks);
    match what {
        VolumeLayout::Shape(shape, _) => Arrangement::Shape(shape),
        VolumeLayout::Linear => {
            let whole = |part: &&VolumePart| {
                structure.coding.bytes(part.blocks).is_aligned(StripSize::MIN.bytes())
            };
            match spans.parts.iter().flatten().all(whole) {
                true => Arrangement::Linear,
                false => {
                    Arrangement::Other("its concatenated members are not multiples of 4 KiB".into())
                }
            }
        }
        VolumeLayout::Concatenated(shape) => {
            let strip = strip.map_or(Ok(StripSize::MIN), |strip| {
                StripSize::new(strip).map_err(|e| e.to_string())
            });
            let sections = strip.and_then(|strip| {
                let width = shape.drives.0;
                let starts = (0..spans.parts.len() as u16).map(|span| span * width);
                let slots =
                    |start| (start..start + width).map(|slot| (slot, ByteOffset::ZERO)).collect();
                starts.map(|start| Section::new(shape, strip, slots(start), member_size)).collect()
            });
            sections.map_or_else(Arrangement::Other, Arrangement::Sections)
        }
        VolumeLayout::Other(why) => Arrangement::Other(why),
    }
}
