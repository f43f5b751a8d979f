//! What a group of drives is to say: from drives, volumes and spares to the structure of each drive.

use super::disks::{DiskKind, DiskRecord, OwnDisk};
use super::header::Coding;
use super::level::LevelCode;
use super::logs::Extras;
use super::names::{DiskRef, Guid, Time};
use super::records::{Element, Slot, SpareRecord, VolumePart};
use super::site::Site;
use super::structure::{Controller, Structure};
use super::volumes::{Condition, VolumeRecord};
use crate::{Error, ErrorKind, Result};
use layout::{Geometry, Shape};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, DriveSet, StripSize};

/// Drives that were configured together, and what they make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its identity: the same in all headers.
    pub guid: Guid,
    /// Counts its changes.
    pub sequence: u32,
    /// When it was last changed.
    pub timestamp: Time,
    /// Who changed it.
    pub controller: Controller,
    /// Its drives.
    pub disks: Vec<DiskRecord>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Volumes for which the standard has no words, on all of its drives, and what is said of them: a vendor's record keeps
    /// their place.
    pub others: Vec<(Guid, String)>,
    /// The drives that stand by, and for what.
    pub spares: BTreeMap<DiskRef, SpareRecord>,
}

/// A volume of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// Its identity, name and state.
    pub record: VolumeRecord,
    /// When its configuration was last changed.
    pub timestamp: Time,
    /// Counts the changes of its configuration.
    pub sequence: u32,
    /// Its level; the number of spans must be named where there can be several.
    pub shape: Shape,
    /// Its strip.
    pub strip: StripSize,
    /// What is used of each member: whole strips.
    pub member_size: ByteCount,
    /// Its size.
    pub capacity: ByteCount,
    /// Its members in the shape's order, and where on each its data begin.
    pub members: Vec<(DiskRef, ByteOffset)>,
    /// Cache policy: bits in the last byte.
    pub cache_policy: [u8; 8],
    /// How much of the drives background work may take, 0 to 255.
    pub background_rate: u8,
}

/// The condition of a volume that lacks those members, as the standard words it.
pub fn condition(geometry: &Geometry, out: &DriveSet) -> Condition {
    match geometry.survives_set(out) {
        _ if out.is_empty() => Condition::Optimal,
        false => Condition::Failed,
        true if geometry.survives_more(out).0 > 0 => Condition::PartiallyOptimal,
        true => Condition::Degraded,
    }
}

fn error(kind: ErrorKind, context: String) -> Error {
    Error::new(kind, context)
}

impl Volume {
    /// Its spans, as their drives record them, on drives with blocks of that length.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where DDF cannot say it: see [`LevelCode::of`]; also where a length is not a whole
    /// number of blocks, and where there are more or fewer members than the shape has drives.
    pub fn parts(&self, coding: Coding) -> Result<Vec<VolumePart>> {
        let name = self.record.name.text();
        let contradiction = |context: String| error(ErrorKind::Contradiction, context);
        let code = LevelCode::of(&self.shape)?;
        if self.members.len() != self.shape.drives.as_usize() {
            return Err(contradiction(format!(
                "'{name}' has {} members and a shape of {} drives",
                self.members.len(),
                self.shape.drives
            )));
        }
        let blocks = |bytes: u64| match bytes.is_multiple_of(coding.block.bytes().0) {
            true => Ok(bytes / coding.block.bytes().0),
            false => Err(contradiction(format!(
                "{bytes} bytes of '{name}' are not a whole number of blocks of {}",
                coding.block.bytes().0
            ))),
        };
        let strip_shift = self.strip.bytes().0.trailing_zeros() - coding.block.bytes().0.trailing_zeros();
        let element =
            |(disk, start): &(DiskRef, ByteOffset)| Ok(Element { disk: *disk, start_lba: blocks(start.0)? });
        let elements: Vec<Element> = self.members.iter().map(element).collect::<Result<_>>()?;
        let part = |(span, elements): (usize, &[Element])| {
            Ok(VolumePart {
                volume: self.record.guid,
                timestamp: self.timestamp,
                sequence: self.sequence,
                strip_shift: strip_shift as u8,
                primary_level: code.primary_level,
                qualifier: code.qualifier,
                spans: code.spans,
                span: span as u8,
                secondary_level: code.secondary_level,
                blocks: blocks(self.member_size.0)?,
                volume_blocks: blocks(self.capacity.0)?,
                block_bytes: u16::MAX,
                rotate_shift: u8::MAX,
                spares: [DiskRef::NONE; 8],
                cache_policy: self.cache_policy,
                background_rate: self.background_rate,
                parity_disks: u8::MAX,
                polynomial: u16::MAX,
                constants: u8::MAX,
                vendor: [0xFF; 128],
                elements: elements.to_vec(),
            })
        };
        elements.chunks(usize::from(code.drives_per_span)).enumerate().map(part).collect()
    }
}

impl Group {
    /// What one of its drives is to carry, with SoftROC's payload if there is one. The payload's sequence is made the
    /// header's.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where the group does not have that drive, and as [`Volume::parts`];
    /// [`ErrorKind::TooLarge`] where there is more than the structure has room for.
    pub fn structure(&self, site: &Site, own: DiskRef, extras: Option<(u32, &[u8])>) -> Result<Structure> {
        let coding = site.coding();
        let header = site.header(self.guid, self.sequence, self.timestamp);
        let Some(disk) = self.disks.iter().find(|disk| disk.reference == own) else {
            return Err(error(ErrorKind::Contradiction, format!("the group has no drive {own}")));
        };
        let mut slots = Vec::new();
        for volume in &self.volumes {
            let parts = volume.parts(coding)?.into_iter();
            let own_parts = parts.filter(|part| part.elements.iter().any(|element| element.disk == own));
            slots.extend(own_parts.map(|part| Slot::Volume(Box::new(part))));
        }
        let slot_bytes = usize::from(header.record_blocks) * coding.block_bytes();
        let others = self.others.iter();
        slots.extend(others.map(|(guid, text)| Slot::kept_for(*guid, text, coding, slot_bytes)));
        slots.extend(self.spares.get(&own).cloned().map(Slot::Spare));
        let vendor_log = extras.map(|(version, payload)| {
            Extras { version, sequence: self.sequence, payload: payload.to_vec() }.log()
        });
        let structure = Structure {
            coding,
            controller: self.controller.clone(),
            disks: self.disks.iter().cloned().map(Some).collect(),
            volumes: self.volumes.iter().map(|volume| Some(volume.record.clone())).collect(),
            slots,
            own: own_disk(disk),
            bad_blocks: None,
            vendor_log: vendor_log.transpose()?,
            header,
        };
        structure.check()?;
        Ok(structure.padded())
    }
}

fn own_disk(disk: &DiskRecord) -> OwnDisk {
    OwnDisk {
        guid: disk.guid,
        reference: disk.reference,
        is_forced_reference: 0,
        is_forced_guid: u8::from(disk.kind.has(DiskKind::FORCED_GUID)),
        vendor: [0xFF; 32],
    }
}
