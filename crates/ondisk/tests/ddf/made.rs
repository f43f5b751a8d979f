//! Groups that SoftROC makes, on drives in memory.

use crate::image::Image;
use layout::{Level, Shape};
use ondisk::ddf::{
    Condition, Controller, DiskKind, DiskRecord, DiskRef, DiskState, Group, Guid, Name, Site, Step,
    Structure, Time, Volume, VolumeAccess, VolumeRecord, VolumeState, update,
};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, DriveCount, SectorSize, StripSize};

pub const VENDOR: [u8; 8] = *b"SoftROC ";
pub const MEMBER_BYTES: u64 = 4 << 20;

/// The size of drive `index`: all differ.
pub fn size_of(index: usize) -> ByteCount {
    ByteCount((32 << 20) + MEMBER_BYTES + 4096 * index as u64)
}

pub fn site(index: usize) -> Site {
    Site::of(size_of(index), SectorSize::B512).unwrap()
}

pub fn guid(kind: u8, index: u8) -> Guid {
    let mut uuid = [kind; 16];
    uuid[15] = index;
    Guid::of_uuid(VENDOR, uuid)
}

pub fn reference(index: usize) -> DiskRef {
    DiskRef::of(&guid(0xDD, index as u8))
}

fn disk(index: usize) -> DiskRecord {
    DiskRecord {
        guid: guid(0xDD, index as u8),
        reference: reference(index),
        kind: DiskKind(DiskKind::MEMBER | DiskKind::FORCED_GUID),
        state: DiskState(DiskState::ONLINE),
        configured_blocks: site(index).configured_blocks(),
        path: [0xFF; 18],
        block_bytes: u16::MAX,
    }
}

/// One volume of that shape on the shape's number of drives, in a different order.
pub fn group(shape: Shape) -> Group {
    let geometry = shape.geometry(StripSize::KIB_64, ByteCount(MEMBER_BYTES)).unwrap();
    let count = shape.drives.as_usize();
    let mut order: Vec<usize> = (0..count).step_by(2).chain((1..count).step_by(2)).collect();
    order.rotate_left(usize::from(count > 2));
    let volume = Volume {
        record: VolumeRecord {
            guid: guid(0xBB, 1),
            number: 0,
            kind: 0,
            state: VolumeState::of(Condition::Optimal),
            access: VolumeAccess::READY,
            failures_left: u8::MAX,
            name: Name::new("data").unwrap(),
        },
        timestamp: Time::from_unix_s(1_800_000_000),
        sequence: 1,
        shape,
        strip: StripSize::KIB_64,
        member_size: geometry.member_size(),
        capacity: geometry.capacity(),
        members: order.into_iter().map(|index| (reference(index), ByteOffset::ZERO)).collect(),
        cache_policy: [0; 8],
        background_rate: 0x80,
    };
    Group {
        guid: guid(0xAA, 0),
        sequence: 1,
        timestamp: Time::from_unix_s(1_800_000_000),
        controller: Controller {
            guid: guid(0xCC, 0),
            pci: [u16::MAX; 4],
            product: *b"SoftROC         ",
            vendor: Vec::new(),
        },
        disks: (0..count).map(disk).collect(),
        volumes: vec![volume],
        others: Vec::new(),
        spares: BTreeMap::new(),
    }
}

pub fn raid5() -> Group {
    group(Shape::new(Level::Raid5, DriveCount(4)))
}

/// Adds a hot spare to the group.
pub fn add_spare(group: &mut Group) {
    let kind = DiskKind(DiskKind::GLOBAL_SPARE | DiskKind::FORCED_GUID);
    let spare = DiskRecord { kind, ..disk(group.disks.len()) };
    group.disks.push(spare);
}

/// The structure of drive `index`, with a payload.
pub fn structure(group: &Group, index: usize, payload: &[u8]) -> Structure {
    group.structure(&site(index), reference(index), Some((1, payload))).unwrap()
}

pub fn apply(image: &mut Image, steps: &[Step]) {
    for step in steps {
        if let Step::Write { at, bytes } = step {
            image.write(*at, bytes);
        }
    }
}

/// The drives of a new group.
pub fn images(group: &Group) -> Vec<Image> {
    (0..group.disks.len())
        .map(|index| {
            let mut image = Image::blank(size_of(index).0);
            let new = structure(group, index, b"extras");
            apply(&mut image, &update(size_of(index), None, &new).unwrap());
            image
        })
        .collect()
}
