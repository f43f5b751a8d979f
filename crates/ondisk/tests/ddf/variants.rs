//! Deviations of other controllers: byte order, checksums, blocks, places, levels.

use crate::arrays::{strip_at, volumes, volumes_of};
use crate::image::Image;
use crate::made::{apply, group, guid, images, raid5, reference, size_of, structure};
use layout::{Level, MirrorArrangement, Shape};
use ondisk::ddf::{
    Checksum, Condition, Drive, Effort, Group, Guid, HeaderKind, Look, Order, Site, Slot,
    Structure, Time, VolumePart, VolumeState, update,
};
use ondisk::foreign::{FoundVolume, Standing, State};
use units::{ByteCount, ByteOffset, DriveCount, SectorSize};

fn written(size: ByteCount, structure: &Structure) -> Image {
    let mut image = Image::blank(size.0);
    apply(&mut image, &update(size, None, structure).unwrap());
    image
}

#[test]
fn either_byte_order_and_either_checksum_is_read_and_kept() {
    for order in [Order::Big, Order::Little] {
        for checksum in [Checksum::Raw, Checksum::Standard] {
            let mut new = structure(&raid5(), 0, b"extras");
            (new.coding.order, new.coding.checksum) = (order, checksum);
            let image = written(size_of(0), &new);
            assert_eq!(image.drive().structure, new, "{order:?} {checksum:?}");
        }
    }
}

#[test]
fn adaptecs_anchor_is_found_before_the_end_and_its_unlimited_elements_are_bounded_by_the_record() {
    let mut new = structure(&raid5(), 0, b"extras");
    new.coding.order = Order::Little;
    new.header.most_elements = u16::MAX;
    let mut image = written(size_of(0), &new);
    let last = image.size - 512;
    let anchor = new.encode_header(HeaderKind::Anchor);
    image.write(ByteOffset(last), &[0; 512]);
    image.write(ByteOffset(last - 256 * 512), &anchor);
    let drive = image.drive();
    assert_eq!((drive.anchor.at, &drive.structure), (ByteOffset(last - 256 * 512), &new));
    // The next update keeps the place.
    let mut next = new.clone();
    next.header.sequence += 1;
    apply(&mut image, &update(drive.size, Some(&drive), &next).unwrap());
    assert_eq!(image.drive().anchor.at, drive.anchor.at);
    assert_eq!(image.drive().structure, next);
}

/// The drives of a group with blocks of 4096 bytes.
fn large_blocks(group: &Group) -> Vec<Image> {
    let image = |index: usize| {
        let site = Site::of(size_of(index), SectorSize::B4096).unwrap();
        written(
            size_of(index),
            &group.structure(&site, reference(index), Some((1, b"extras"))).unwrap(),
        )
    };
    (0..group.disks.len()).map(image).collect()
}

#[test]
fn drives_with_blocks_of_4096_bytes_are_read_whatever_the_blocks_they_are_read_with() {
    for group in
        [raid5(), group(Shape { spans: Some(2), ..Shape::new(Level::Raid10, DriveCount(4)) })]
    {
        let large = large_blocks(&group);
        let found = &volumes(&large.iter().collect::<Vec<_>>())[0];
        let small = images(&group);
        let expected = &volumes(&small.iter().collect::<Vec<_>>())[0];
        assert_eq!(found.state, State::Complete, "{:?}", found.reasons);
        assert_eq!(found.record.strip, expected.record.strip);
        assert_eq!(found.sections, expected.sections);
        assert_eq!(large[0].drive().structure.coding.block, SectorSize::B4096);
        let damaged = &mut large[1].clone();
        damaged.damage(large[1].drive().structure.header.primary_lba * 4096 + 4096 + 77);
        assert!(damaged.drive().needs_repair());
    }
}

/// Drives with changed records of the volume.
fn changed(shape: Shape, change: impl Fn(&mut VolumePart)) -> Vec<Drive> {
    let mut drives: Vec<Drive> = images(&group(shape)).iter().map(Image::drive).collect();
    for drive in &mut drives {
        for slot in &mut drive.structure.slots {
            if let Slot::Volume(part) = slot {
                change(part);
            }
        }
    }
    drives
}

fn read_as(shape: Shape, change: impl Fn(&mut VolumePart)) -> FoundVolume {
    volumes_of(&changed(shape, change)).remove(0)
}

fn on(level: Level, drives: u16) -> Shape {
    Shape::new(level, DriveCount(drives))
}

fn pairs() -> Shape {
    Shape { spans: Some(2), ..on(Level::Raid10, 4) }
}

#[test]
fn what_cannot_be_expressed_is_named_and_not_read() {
    let level = |primary_level: u8| move |part: &mut VolumePart| part.primary_level = primary_level;
    let cases: Vec<(&str, FoundVolume, &str)> = vec![
        ("raid3", read_as(on(Level::Raid5, 4), level(0x03)), "RAID 3"),
        ("mdf", read_as(on(Level::Raid5, 4), level(0x07)), "multi-dimensional parity"),
        ("raid1", read_as(on(Level::Raid5, 4), level(0x01)), "RAID 1 on 4 drives"),
        ("unknown", read_as(on(Level::Raid5, 4), level(0x42)), "primary level 0x42"),
        ("raid5", read_as(on(Level::Raid5, 4), |part| part.qualifier = 7), "qualifier 7"),
        (
            "raid5r",
            read_as(on(Level::Raid5, 4), |part| {
                (part.primary_level, part.rotate_shift) = (0x35, 4)
            }),
            "every 16 stripes",
        ),
        ("raid1", read_as(pairs(), |part| part.secondary_level = 9), "secondary level 0x09"),
        (
            "raid10",
            read_as(pairs(), |part| part.blocks += u64::from(part.span) * 128),
            "different sizes",
        ),
        ("raid10", read_as(pairs(), |part| part.strip_shift += part.span), "different layouts"),
        ("raid5", read_as(on(Level::Raid5, 4), |part| part.block_bytes = 4096), "blocks of 4096"),
        ("raid5", read_as(on(Level::Raid5, 4), |part| part.strip_shift = 0xFF), "2^255 blocks"),
        ("raid5", read_as(on(Level::Raid5, 4), |part| part.strip_shift = 20), "out of range"),
    ];
    for (level, found, reason) in cases {
        assert_eq!(
            (found.record.level.as_str(), found.state),
            (level, State::NotReadable),
            "{reason}"
        );
        assert!(found.sections.is_empty(), "{reason}");
        assert!(
            found.reasons.iter().any(|why| why.contains(reason)),
            "{reason}: {:?}",
            found.reasons
        );
    }
}

#[test]
fn levels_that_are_others_in_disguise_are_read_as_these() {
    // RAID 5E: RAID 5 with free space at the end of every drive.
    let found = read_as(on(Level::Raid5, 4), |part| {
        (part.primary_level, part.volume_blocks) = (0x15, part.volume_blocks / 2);
    });
    assert_eq!((found.record.level.as_str(), found.state), ("raid5e", State::Complete));
    assert_eq!(found.capacity(), ByteCount(6 << 20));
    let found =
        read_as(on(Level::Raid5, 4), |part| (part.primary_level, part.rotate_shift) = (0x35, 0));
    assert_eq!((found.record.level.as_str(), found.state), ("raid5r", State::Complete));
}

#[test]
fn linux_mds_offset_copies_are_its_far_ones() {
    let offset = Shape { mirrors: Some(MirrorArrangement::Offset), ..on(Level::Raid1e, 4) };
    let theirs = Guid::new(*b"Linux-MD", [0; 8], Time(1), 1);
    let drives = renamed(offset, |_| theirs);
    let found = &volumes_of(&drives)[0];
    assert_eq!(
        (found.record.layout.as_str(), found.state),
        ("far", State::Complete),
        "{:?}",
        found.reasons
    );
}

#[test]
fn mirrored_stripes_are_read_with_each_mirror_in_its_place() {
    let found = read_as(pairs(), |part| (part.primary_level, part.secondary_level) = (0x00, 1));
    assert_eq!(
        (found.record.level.as_str(), found.state),
        ("raid01", State::Complete),
        "{:?}",
        found.reasons
    );
    let original = &group(pairs()).volumes[0].members;
    for (slot, (disk, _)) in original.iter().enumerate() {
        let drive = (0..4).find(|index| reference(*index) == *disk).unwrap();
        for row in 0..10 {
            // Both stripes have strip 2·row on their first drive, and the next strip on their
            // second.
            let expected = 2 * row + slot as u64 % 2;
            assert_eq!(strip_at(&found, drive, row << 16), Some(expected), "slot {slot} row {row}");
        }
    }
}

#[test]
fn concatenations_are_read_one_after_the_other() {
    let found = read_as(pairs(), |part| part.secondary_level = 2);
    assert_eq!(
        (found.state, found.capacity()),
        (State::Complete, ByteCount(8 << 20)),
        "{:?}",
        found.reasons
    );
    assert_eq!(found.sections.len(), 2);
    let found = read_as(on(Level::Raid0, 3), |part| part.primary_level = 0x1F);
    assert_eq!((found.record.level.as_str(), found.state), ("concatenation", State::Complete));
    let firsts: Vec<Option<u64>> =
        found.members.iter().map(|member| strip_at(&found, member.drive.unwrap(), 0)).collect();
    assert_eq!(firsts, [Some(0), Some(64), Some(128)]);
}

#[test]
fn a_member_that_is_one_change_behind_is_current_unless_the_volume_went_on_without_it() {
    // The state after a power cut between drives; and a volume that lost a drive without a record
    // of it: there the drive that is behind is the lost one.
    for (condition, expected) in
        [(Condition::Optimal, Standing::Current), (Condition::Degraded, Standing::Stale)]
    {
        let mut group = raid5();
        let mut images = images(&group);
        group.sequence += 1;
        group.volumes[0].record.state = VolumeState::of(condition);
        for index in [0, 1, 3] {
            let drive = images[index].drive();
            let new = structure(&group, index, b"extras");
            apply(&mut images[index], &update(size_of(index), Some(&drive), &new).unwrap());
        }
        let found = &volumes(&images.iter().collect::<Vec<_>>())[0];
        let behind = found.members.iter().find(|member| member.drive == Some(2)).unwrap();
        assert_eq!(behind.standing, expected, "{condition:?}");
    }
}

/// Drives whose volume has another GUID, one for each drive.
fn renamed(shape: Shape, guid_of: impl Fn(usize) -> Guid) -> Vec<Drive> {
    let mut drives: Vec<Drive> = images(&group(shape)).iter().map(Image::drive).collect();
    for (index, drive) in drives.iter_mut().enumerate() {
        drive
            .structure
            .volumes
            .iter_mut()
            .flatten()
            .for_each(|volume| volume.guid = guid_of(index));
        for slot in &mut drive.structure.slots {
            if let Slot::Volume(part) = slot {
                part.volume = guid_of(index);
            }
        }
    }
    drives
}

#[test]
fn lsis_volumes_are_told_by_group_number_and_name_whatever_their_guid() {
    let lsi = |index: usize| {
        let mut theirs = *b"LSI     ----------------";
        theirs[23] = index as u8;
        Guid(theirs)
    };
    let mut drives = renamed(on(Level::Raid5, 4), lsi);
    let found = volumes_of(&drives);
    assert_eq!((found.len(), found[0].state, found[0].no_writing.len()), (1, State::Complete, 0));
    drives[0].structure.header.group = guid(0xAA, 7);
    assert_eq!(volumes_of(&drives).len(), 2);
}

#[test]
fn raid_6_of_controllers_that_may_exchange_p_and_q_is_not_to_be_written() {
    let theirs = |_| Guid(*b"LSI     ----------------");
    let found = &volumes_of(&renamed(on(Level::Raid6, 5), theirs))[0];
    assert_eq!((found.state, found.no_writing.len()), (State::Complete, 1));
    assert!(
        found.no_writing[0].contains("which of its two parity strips is P"),
        "{:?}",
        found.no_writing
    );
    assert!(read_as(on(Level::Raid6, 5), |_| {}).no_writing.is_empty());
}

#[test]
fn a_header_of_an_unknown_revision_is_named() {
    let mut new = structure(&raid5(), 0, b"");
    new.header.revision = *b"07.00.00";
    let Look::Nothing(error) = written(size_of(0), &new).look(Effort::Usual) else {
        panic!("it is read")
    };
    assert_eq!(error.kind, ondisk::ErrorKind::Version);
    assert!(error.context.contains("07.00.00"), "{error}");
}
