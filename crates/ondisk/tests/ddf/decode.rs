//! Decodes the members of arrays that Linux md made, undamaged and damaged.

use crate::arrays::volumes_of;
use crate::image::{REFERENCES, members, reference};
use ondisk::ErrorKind;
use ondisk::ddf::{
    Condition, CopyState, DiskKind, Drive, Effort, Extras, HeaderKind, Look, Section,
};
use ondisk::foreign::State;
use units::ByteOffset;

#[test]
fn every_member_of_the_reference_images_is_read_and_written_back_byte_by_byte() {
    for reference in REFERENCES {
        let images = members(reference.metadata);
        for (index, image) in images.iter().enumerate() {
            let name = format!("{} disk {index}", reference.name);
            let drive = image.drive();
            assert!(!drive.needs_repair(), "{name}: {:?}", drive.copies);
            let written = drive.structure;
            assert_eq!(written.header.revision_text(), "01.02.00", "{name}");
            assert_eq!(written.disks.iter().flatten().count(), images.len(), "{name}");
            let own = written.disk(written.own.reference).unwrap();
            assert_eq!(own.guid, written.own.guid, "{name}");
            let headers = [
                (HeaderKind::Anchor, 98303),
                (HeaderKind::Primary, written.header.primary_lba),
                (HeaderKind::Secondary, written.header.secondary_lba),
            ];
            for (kind, lba) in headers {
                let bytes = written.encode_header(kind);
                let found =
                    image.read(units::ByteRange::new(ByteOffset(lba * 512), units::ByteCount(512)));
                assert_eq!(found.as_ref(), Some(&bytes), "{name}: {kind:?}");
                for section in Section::ALL {
                    let Some(bytes) = written.encode_section(section).unwrap() else { continue };
                    if kind == HeaderKind::Anchor {
                        continue;
                    }
                    let at = ByteOffset(
                        (lba + u64::from(written.header.place(section).offset_blocks)) * 512,
                    );
                    let range = units::ByteRange::new(at, units::ByteCount::of(&bytes));
                    assert!(
                        image.read(range).as_ref() == Some(&bytes),
                        "{name}: {}",
                        section.name()
                    );
                }
            }
        }
    }
}

#[test]
fn a_failed_member_and_a_spare_are_told_in_the_physical_disk_records() {
    let drive = reference("ddf-raid5-4-failed")[0].drive();
    let current: Vec<bool> =
        drive.structure.disks.iter().flatten().map(|disk| disk.state.is_current()).collect();
    assert_eq!(current, [true, true, false, true]);
    let spare = reference("ddf-raid5-4-spare")[3].drive();
    let own = spare.structure.disk(spare.structure.own.reference).unwrap();
    assert!(own.kind.has(DiskKind::GLOBAL_SPARE) && own.kind.is_spare());
    assert_eq!(spare.structure.parts().count(), 0);
}

/// The sections of the reference images: blocks from their header on.
const SECTIONS: [(Section, u64); 5] = [
    (Section::Controller, 1),
    (Section::Disks, 2),
    (Section::Volumes, 130),
    (Section::Records, 162),
    (Section::OwnDisk, 617),
];

#[test]
fn one_damaged_copy_is_told_and_the_other_used_whatever_is_damaged() {
    let whole = &reference("ddf-raid5-5")[1];
    let sound = whole.drive().structure;
    let headers = [(HeaderKind::Primary, 65536_u64), (HeaderKind::Secondary, 32768)];
    for (kind, lba) in headers {
        let all = SECTIONS.iter().map(|(section, at)| (section.name(), *at)).chain([("header", 0)]);
        for (what, at) in all {
            for unreadable in [false, true] {
                let mut image = whole.clone();
                match unreadable {
                    false => image.damage((lba + at) * 512 + 17),
                    true => image.unreadable.push(lba + at),
                }
                let drive = image.drive();
                assert_eq!(drive.structure, sound, "{kind:?} {what}");
                assert!(drive.needs_repair(), "{kind:?} {what}");
                for copy in &drive.copies {
                    let expected =
                        if copy.kind == kind { CopyState::Damaged } else { CopyState::Sound };
                    assert_eq!(copy.state, expected, "{kind:?} {what}");
                    assert_eq!(
                        copy.flaws.is_empty(),
                        copy.kind != kind,
                        "{kind:?} {what}: {:?}",
                        copy.flaws
                    );
                }
            }
        }
    }
}

#[test]
fn copies_damaged_in_different_places_make_one_together() {
    let whole = &reference("ddf-raid5-5")[2];
    let sound = whole.drive().structure;
    for (first, at_first) in SECTIONS {
        for (second, at_second) in SECTIONS {
            let mut image = whole.clone();
            image.damage((65536 + at_first) * 512 + 9);
            image.damage((32768 + at_second) * 512 + 8);
            match image.look(Effort::Usual) {
                // A record of a volume that is damaged in both copies: the other drives have it.
                Look::Found(drive) if first == second => {
                    assert_eq!(first, Section::Records);
                    assert_eq!(drive.structure.parts().count(), 0);
                }
                Look::Found(drive) => {
                    assert_eq!(drive.structure, sound, "{first:?} {second:?}");
                    assert!(drive.copies.iter().all(|copy| copy.state == CopyState::Damaged));
                }
                Look::Lost(lost) => {
                    assert_eq!(first, second, "{}", lost.error);
                    assert_eq!(lost.error.kind, ErrorKind::Damaged, "{}", lost.error);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_controller_with_other_checksums_is_read_where_both_copies_agree() {
    let whole = &reference("ddf-raid5-5")[2];
    let mut image = whole.clone();
    for lba in [65536, 32768] {
        image.damage((lba + 2) * 512 + 4);
    }
    let drive = image.drive();
    assert_eq!(drive.structure, whole.drive().structure);
    assert!(!drive.needs_repair(), "{:?}", drive.copies);
}

#[test]
fn an_update_that_was_cut_off_leaves_the_closed_copy_whatever_the_sequences_say() {
    let whole = &reference("ddf-raid5-5")[0];
    let sound = whole.drive().structure;
    let with = |primary: (u32, u8), secondary: (u32, u8)| {
        let mut image = whole.clone();
        let headers =
            [(HeaderKind::Primary, 65536, primary), (HeaderKind::Secondary, 32768, secondary)];
        for (kind, lba, (ahead, open)) in headers {
            let mut changed = sound.clone();
            changed.header.sequence = changed.header.sequence.wrapping_add(ahead);
            changed.header.open = open;
            image.write(ByteOffset(lba * 512), &changed.encode_header(kind));
        }
        let drive = image.drive();
        let ahead = drive.structure.header.sequence.wrapping_sub(sound.header.sequence);
        (ahead, drive.copies[0].state, drive.copies[1].state)
    };
    use CopyState::{Behind, Open, Sound};
    assert_eq!(with((1, 0), (0, 0)), (1, Sound, Behind));
    assert_eq!(with((0, 0), (1, 0)), (1, Behind, Sound));
    assert_eq!(with((0, 1), (0, 0)), (0, Open, Sound));
    assert_eq!(with((1, 1), (0, 0)), (0, Open, Sound));
    assert_eq!(with((1, 0), (0, 1)), (1, Sound, Open));
    assert_eq!(with((1, 0), (1, 1)), (1, Sound, Open));
    // Sequences wrap around: one that is far ahead is behind.
    assert_eq!(with((0, 0), (u32::MAX - 5, 0)), (0, Sound, Behind));
    // Both copies are open: no protocol writes both at once; the condition is reported.
    assert_eq!(with((1, 1), (0, 1)), (1, Open, Open));
}

#[test]
fn a_drive_without_its_anchor_is_blank_until_it_is_searched() {
    let mut image = reference("ddf-raid10-4")[3].clone();
    let sound = image.drive();
    image.write(ByteOffset(98303 * 512), &[0; 512]);
    let Look::Nothing(error) = image.look(Effort::Usual) else { panic!("it has no anchor") };
    assert_eq!(error.kind, ErrorKind::Blank);
    let Look::Found(found) = image.look(Effort::Search) else { panic!("no header found") };
    assert_eq!(found.anchor.kind, HeaderKind::Primary);
    assert_eq!(found.anchor.at, ByteOffset(65536 * 512));
    assert_eq!(found.structure, sound.structure);
    assert!(found.needs_repair());
    // Without the primary header, the secondary one is used.
    image.write(ByteOffset(65536 * 512), &[0; 512]);
    let Look::Found(found) = image.look(Effort::Search) else { panic!("no header found") };
    assert_eq!((found.anchor.kind, &found.structure), (HeaderKind::Secondary, &sound.structure));
    // An anchor at another place, as on PERC controllers.
    let mut image = reference("ddf-raid10-4")[3].clone();
    image.write(ByteOffset(98303 * 512), &[0; 512]);
    image.write(ByteOffset(98100 * 512), &sound.structure.encode_header(HeaderKind::Anchor));
    let Look::Found(found) = image.look(Effort::Search) else { panic!("no anchor found") };
    assert_eq!((found.anchor.kind, &found.structure), (HeaderKind::Anchor, &sound.structure));
}

#[test]
fn what_linux_md_made_of_softrocs_structure_is_read_and_the_payload_is_known_to_be_older() {
    let images = members(include_str!("images/softroc-raid5-5-failed-by-md.txt"));
    let drives: Vec<Drive> = images.iter().map(|image| image.drive()).collect();
    for drive in &drives {
        assert!(!drive.needs_repair(), "{:?}", drive.copies);
        assert_eq!(drive.structure.header.sequence, 6);
        let log = drive.structure.vendor_log.as_ref().unwrap();
        let extras = Extras::of(log).unwrap().unwrap();
        assert_eq!((extras.sequence, &extras.payload[..]), (1, &b"extras"[..]));
        assert_eq!(
            drive.structure.volumes[0].as_ref().unwrap().state.condition(),
            Condition::Degraded
        );
    }
    let found = &volumes_of(&drives)[0];
    let order: Vec<Option<usize>> = found.members.iter().map(|member| member.drive).collect();
    assert_eq!(
        (found.state, &order[..]),
        (State::Degraded, &[Some(0), Some(2), Some(4), None, Some(3)][..])
    );
    assert_eq!((found.others[0].drive, found.others[0].what), (1, "failed"));
}
