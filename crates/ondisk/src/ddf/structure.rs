//! One drive's copy of the structure: decodes and encodes the bytes of its sections.

use super::checksum::Checksum;
use super::disks::{DiskRecord, ENTRY, OwnDisk};
use super::fields::{Fields, Writer};
use super::header::{Coding, Header, HeaderKind, Section};
use super::logs::{BadBlockLog, VendorLog};
use super::names::{DiskRef, Guid};
use super::records::{Slot, SpareRecord, VolumePart};
use super::volumes::VolumeRecord;
use crate::tail::{Tail, TailPlace};
use crate::{Error, ErrorKind, Result};
use units::ByteCount;

/// The controller that wrote the structure last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Controller {
    /// Its identity.
    pub guid: Guid,
    /// PCI vendor, device, subsystem vendor, subsystem.
    pub pci: [u16; 4],
    /// Its name: ASCII.
    pub product: [u8; 16],
    /// Vendor data.
    pub vendor: Vec<u8>,
}

impl Controller {
    fn decode(fields: Fields, len: usize) -> Controller {
        Controller {
            guid: Guid(fields.array(8)),
            pci: std::array::from_fn(|index| fields.u16(32 + 2 * index)),
            product: fields.array(40),
            vendor: fields.vec(64..len),
        }
    }

    fn encode(&self, section: &mut Writer) {
        section.put(8, &self.guid.0);
        for (index, id) in self.pci.iter().enumerate() {
            section.u16(32 + 2 * index, *id);
        }
        section.put(40, &self.product);
        section.put(64, &self.vendor);
    }
}

/// The content of one copy on one drive.
///
/// Free entries and slots are kept, so that encoding reproduces the bytes that were read. Reserved
/// bytes are written as 0xFF, whatever they were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Its encoding.
    pub coding: Coding,
    /// Its header, without its kind.
    pub header: Header,
    /// The controller that wrote the structure last.
    pub controller: Controller,
    /// All drives of the group; free entries are `None`.
    pub disks: Vec<Option<DiskRecord>>,
    /// All volumes of the group; free entries are `None`.
    pub volumes: Vec<Option<VolumeRecord>>,
    /// This drive's configuration records.
    pub slots: Vec<Slot>,
    /// Identifies this drive among the records.
    pub own: OwnDisk,
    /// Its bad block log, if present and readable.
    pub bad_blocks: Option<BadBlockLog>,
    /// Its vendor log, if present and readable.
    pub vendor_log: Option<VendorLog>,
}

/// Checks a section: signature, CRC, and space for the entries that it counts.
///
/// # Errors
/// A sentence.
pub(super) fn check(
    section: Section,
    bytes: &[u8],
    header: &Header,
    coding: Coding,
) -> std::result::Result<(), String> {
    has_signature(section, bytes, coding)?;
    match section {
        Section::Records => {
            let damaged = |slot| if let Slot::Damaged(why, _) = slot { Some(why) } else { None };
            slots(bytes, header, coding).into_iter().find_map(damaged).map_or(Ok(()), Err)
        }
        Section::Diagnostics => Ok(()),
        _ if Checksum::carried_by(bytes, coding.order).is_none() => {
            Err(format!("the checksum of the {} is wrong", section.name()))
        }
        Section::BadBlocks => {
            let fields = Fields::new(bytes, coding.order);
            let log = BadBlockLog::decode(fields, bytes.len(), &header.revision);
            log.map(|_| ()).map_err(|error| error.context)
        }
        _ => Ok(()),
    }
}

/// Checks the signature of a section.
pub(super) fn has_signature(
    section: Section,
    bytes: &[u8],
    coding: Coding,
) -> std::result::Result<(), String> {
    let found = Fields::new(bytes, coding.order).u32(0);
    match section.signature() {
        Some(signature) if found != signature => {
            let name = section.name();
            Err(format!("the signature of the {name} is {found:#010x}, not {signature:#010x}"))
        }
        _ => Ok(()),
    }
}

/// The length of a slot of the configuration records.
pub(super) fn slot_bytes(header: &Header, coding: Coding) -> usize {
    usize::from(header.record_blocks) * coding.block_bytes()
}

pub(super) fn slots(bytes: &[u8], header: &Header, coding: Coding) -> Vec<Slot> {
    // A header without a record length has no slots; the smallest record needs one block.
    let len = slot_bytes(header, coding);
    if len == 0 {
        return Vec::new();
    }
    bytes.chunks_exact(len).map(|bytes| Slot::decode(bytes, header, coding)).collect()
}

fn entries<T>(
    bytes: &[u8],
    coding: Coding,
    decode: impl Fn(Fields) -> Option<T>,
) -> Vec<Option<T>> {
    let entries = bytes.get(ENTRY..).unwrap_or_default().chunks_exact(ENTRY);
    entries.map(|entry| decode(Fields::new(entry, coding.order))).collect()
}

impl Structure {
    /// The place of the structure on its drive, by its addresses.
    pub fn place(&self) -> TailPlace {
        self.header.tail_place(self.coding)
    }

    /// The same on a drive of that size. A drive that ends with a tail in front has no space for
    /// data behind it: its tail is at its end.
    pub fn place_on(&self, size: ByteCount) -> TailPlace {
        Some(self.place())
            .filter(|place| Tail::at(size, *place).is_some())
            .unwrap_or(TailPlace::End)
    }

    /// Decodes a structure from sections that have been checked; the required ones are present.
    pub(super) fn decode(
        header: Header,
        coding: Coding,
        slots: Vec<Slot>,
        section: impl Fn(Section) -> Option<Vec<u8>>,
    ) -> Result<Structure> {
        let needed = |which: Section| {
            let context = || format!("the DDF structure has no {}", which.name());
            section(which).ok_or_else(|| Error::new(ErrorKind::Damaged, context()))
        };
        let order = coding.order;
        let controller = needed(Section::Controller)?;
        let own = needed(Section::OwnDisk)?;
        let bad_blocks = section(Section::BadBlocks).map(|bytes| {
            BadBlockLog::decode(Fields::new(&bytes, order), bytes.len(), &header.revision)
        });
        let vendor_log = section(Section::VendorLog);
        Ok(Structure {
            controller: Controller::decode(Fields::new(&controller, order), controller.len()),
            disks: entries(&needed(Section::Disks)?, coding, DiskRecord::decode),
            volumes: entries(&needed(Section::Volumes)?, coding, VolumeRecord::decode),
            slots,
            own: OwnDisk::decode(Fields::new(&own, order)),
            bad_blocks: bad_blocks.transpose()?,
            vendor_log: vendor_log
                .map(|bytes| VendorLog::decode(Fields::new(&bytes, order), bytes.len())),
            header,
            coding,
        })
    }

    /// The parts of volumes that this drive records.
    pub fn parts(&self) -> impl Iterator<Item = &VolumePart> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Volume(part) => Some(&**part),
            _ => None,
        })
    }

    /// The assignment of this drive, if it is a spare with a record.
    pub fn spare(&self) -> Option<&SpareRecord> {
        self.slots.iter().find_map(|slot| match slot {
            Slot::Spare(spare) => Some(spare),
            _ => None,
        })
    }

    /// The record of a physical disk.
    pub fn disk(&self, reference: DiskRef) -> Option<&DiskRecord> {
        self.disks.iter().flatten().find(|disk| disk.reference == reference)
    }

    /// The record of a virtual disk.
    pub fn volume(&self, guid: Guid) -> Option<&VolumeRecord> {
        self.volumes.iter().flatten().find(|volume| volume.guid == guid)
    }

    /// Checks that every section fits its place.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where a section is too short, [`ErrorKind::Contradiction`] where a
    /// required section, or one with content, has no place.
    pub fn check(&self) -> Result<()> {
        let is_said = |section: Section| match section {
            Section::BadBlocks => self.bad_blocks.is_some(),
            Section::VendorLog => self.vendor_log.is_some(),
            _ => Section::NEEDED.contains(&section),
        };
        for section in Section::ALL {
            if !self.header.place(section).is_there() && is_said(section) {
                let context = format!("the DDF header has no place for the {}", section.name());
                return Err(Error::new(ErrorKind::Contradiction, context));
            }
            self.section_bytes(section)?;
        }
        Ok(())
    }

    /// The same structure with all free entries, slots and padding that decoding yields.
    #[must_use]
    pub(super) fn padded(mut self) -> Structure {
        let bytes = |section| self.section_bytes(section).ok().flatten().unwrap_or_default();
        let entries = |section| bytes(section).saturating_sub(ENTRY) / ENTRY;
        let (disks, volumes) = (entries(Section::Disks), entries(Section::Volumes));
        let slots = bytes(Section::Records).checked_div(self.slot_bytes()).unwrap_or_default();
        let log = bytes(Section::VendorLog).saturating_sub(VendorLog::HEAD);
        let controller = bytes(Section::Controller).saturating_sub(64);
        self.disks.resize(disks.max(self.disks.len()), None);
        self.volumes.resize(volumes.max(self.volumes.len()), None);
        self.slots.resize(slots.max(self.slots.len()), Slot::Empty);
        self.controller.vendor.resize(controller.max(self.controller.vendor.len()), 0xFF);
        if let Some(theirs) = &mut self.vendor_log {
            theirs.data.resize(log.max(theirs.data.len()), 0xFF);
        }
        self
    }

    /// The bytes of a header.
    pub fn encode_header(&self, kind: HeaderKind) -> Vec<u8> {
        self.header.encode(kind, self.coding)
    }

    /// The bytes of a section, as long as its place; `None` where it has no place, and for
    /// diagnostics, which only their controller writes.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where it does not fit its place.
    pub fn encode_section(&self, section: Section) -> Result<Option<Vec<u8>>> {
        let Some(len) = self.section_bytes(section)? else { return Ok(None) };
        if section == Section::Records {
            return Ok(Some(self.encode_records(len)));
        }
        let mut bytes = Writer::new(len, self.coding.order);
        if let Some(signature) = section.signature() {
            bytes.u32(0, signature);
        }
        match section {
            Section::Controller => self.controller.encode(&mut bytes),
            Section::Disks => {
                self.encode_head(
                    &mut bytes,
                    self.disks.iter().flatten().count(),
                    self.header.most_disks,
                );
                for (index, disk) in self.disks.iter().enumerate() {
                    disk.iter().for_each(|disk| disk.encode(ENTRY + ENTRY * index, &mut bytes));
                }
            }
            Section::Volumes => {
                let count = self.volumes.iter().flatten().count();
                self.encode_head(&mut bytes, count, self.header.most_volumes);
                for (index, volume) in self.volumes.iter().enumerate() {
                    volume
                        .iter()
                        .for_each(|volume| volume.encode(ENTRY + ENTRY * index, &mut bytes));
                }
            }
            Section::OwnDisk => self.own.encode(&mut bytes),
            Section::BadBlocks => {
                let log = self.bad_blocks.clone().unwrap_or_default();
                log.encode(&mut bytes, &self.header.revision);
            }
            Section::VendorLog => self.vendor_log.iter().for_each(|log| log.encode(&mut bytes)),
            Section::Records | Section::Diagnostics => {}
        }
        let mut bytes = bytes.into_bytes();
        self.coding.checksum.seal(&mut bytes, self.coding.order);
        Ok(Some(bytes))
    }

    /// The length of a section to be written.
    fn section_bytes(&self, section: Section) -> Result<Option<usize>> {
        let place = self.header.place(section);
        if !place.is_there() || section == Section::Diagnostics {
            return Ok(None);
        }
        let len = self.coding.bytes(u64::from(place.blocks));
        let need = self.len_of(section);
        if len > section.most_bytes() || len.0 < need as u64 {
            let name = section.name();
            let context = format!("the DDF {name} need {need} bytes in {} blocks", place.blocks);
            return Err(Error::new(ErrorKind::TooLarge, context));
        }
        Ok(Some(len.as_usize()))
    }

    /// The least length of a section.
    fn len_of(&self, section: Section) -> usize {
        let used = |last: Option<usize>| ENTRY + ENTRY * last.map_or(0, |last| last + 1);
        match section {
            Section::Controller => 64 + self.controller.vendor.len(),
            Section::Disks => used(self.disks.iter().rposition(Option::is_some)),
            Section::Volumes => used(self.volumes.iter().rposition(Option::is_some)),
            Section::Records => {
                let last = self.slots.iter().rposition(|slot| *slot != Slot::Empty);
                let fits = |slot: &Slot| slot.fits(&self.header, self.slot_bytes());
                match self.slots.iter().all(fits) {
                    true => last.map_or(0, |last| last + 1).saturating_mul(self.slot_bytes()),
                    false => usize::MAX,
                }
            }
            Section::OwnDisk => 512,
            Section::BadBlocks => self.bad_blocks.as_ref().map_or(32, BadBlockLog::len),
            Section::VendorLog => {
                VendorLog::HEAD + self.vendor_log.as_ref().map_or(0, |log| log.data.len())
            }
            Section::Diagnostics => 0,
        }
    }

    fn slot_bytes(&self) -> usize {
        slot_bytes(&self.header, self.coding)
    }

    fn encode_head(&self, section: &mut Writer, count: usize, most: u16) {
        section.u16(8, count as u16);
        section.u16(10, most);
    }

    fn encode_records(&self, len: usize) -> Vec<u8> {
        let slot_bytes = self.slot_bytes();
        let mut bytes = Vec::with_capacity(len);
        for slot in &self.slots {
            bytes.extend_from_slice(&slot.encode(&self.header, self.coding, slot_bytes));
        }
        bytes.resize(len, 0xFF);
        bytes
    }
}
