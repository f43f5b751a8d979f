//! The content of a group's structures: from drives, volumes and spares to the structure of each
//! drive.

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

/// Drives that were configured together, with their volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its identity, equal in all headers.
    pub guid: Guid,
    /// The number of its latest change.
    pub sequence: u32,
    /// The time of its latest change.
    pub timestamp: Time,
    /// The controller that made its latest change.
    pub controller: Controller,
    /// Its drives.
    pub disks: Vec<DiskRecord>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Volumes that the standard cannot describe, on all of the group's drives, each with a text. A
    /// vendor's record reserves their space.
    pub others: Vec<(Guid, String)>,
    /// Its spares, with the volumes that each protects.
    pub spares: BTreeMap<DiskRef, SpareRecord>,
}

/// A volume of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// Its identity, name and state.
    pub record: VolumeRecord,
    /// The time of the latest change of its configuration.
    pub timestamp: Time,
    /// The number of the latest change of its configuration.
    pub sequence: u32,
    /// Its level; the number of spans must be named where there can be several.
    pub shape: Shape,
    /// Its strip.
    pub strip: StripSize,
    /// The bytes used on each member: whole strips.
    pub member_size: ByteCount,
    /// Its size.
    pub capacity: ByteCount,
    /// Its members in the shape's order, and the offset of the data on each.
    pub members: Vec<(DiskRef, ByteOffset)>,
    /// Cache policy: bits in the last byte.
    pub cache_policy: [u8; 8],
    /// The share of the drives that background work may take, 0 to 255.
    pub background_rate: u8,
}

/// The condition of a volume without the members in `out`, in the standard's terms.
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
    /// Its spans, as their drives record them, on drives with the block size of `coding`.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where DDF cannot describe it: see [`LevelCode::of`]; also where
    /// a length is not a whole number of blocks, and where the number of members differs from the
    /// shape's.
    pub fn parts(&self, coding: Coding) -> Result<Vec<VolumePart>> {
        let name = self.record.name.text();
        let contradiction = |context: String| error(ErrorKind::Contradiction, context);
        let code = LevelCode::of(&self.shape)?;
        if self.members.len() != self.shape.drives.as_usize() {
            return Err(contradiction(format!(
                "'{name}' lists {} members, but its layout has {} drives",
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
        let strip_shift =
            self.strip.bytes().0.trailing_zeros() - coding.block.bytes().0.trailing_zeros();
        let element = |(disk, start): &(DiskRef, ByteOffset)| {
            Ok(Element { disk: *disk, start_lba: blocks(start.0)? })
        };
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
    /// The structure of one of its drives, with SoftROC's payload if `extras` has one. The payload
    /// gets the sequence of the header.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where the group does not have that drive, and as
    /// [`Volume::parts`]; [`ErrorKind::TooLarge`] where the content exceeds the space of the
    /// structure.
    pub fn structure(
        &self,
        site: &Site,
        own: DiskRef,
        extras: Option<(u32, &[u8])>,
    ) -> Result<Structure> {
        let coding = site.coding();
        let header = site.header(self.guid, self.sequence, self.timestamp);
        let Some(disk) = self.disks.iter().find(|disk| disk.reference == own) else {
            return Err(error(ErrorKind::Contradiction, format!("the group has no drive {own}")));
        };
        let mut slots = Vec::new();
        for volume in &self.volumes {
            let parts = volume.parts(coding)?.into_iter();
            let own_parts =
                parts.filter(|part| part.elements.iter().any(|element| element.disk == own));
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
