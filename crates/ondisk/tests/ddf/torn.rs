//! Updates that are interrupted at any write.

use crate::image::Image;
use crate::made::{apply, images, raid5, size_of, structure};
use ondisk::ddf::{
    CopyState, DiskState, Effort, HeaderKind, Look, Section, Step, Structure, clear, repair, update,
};
use units::{ByteCount, ByteOffset, ByteRange};

/// The drive after a power cut: of each unflushed write, the blocks that `lands` selects.
fn cut(before: &Image, pending: &[&Step], lands: &dyn Fn(usize, usize) -> bool) -> Image {
    let mut image = before.clone();
    for (write, step) in pending.iter().enumerate() {
        let Step::Write { at, bytes } = step else { continue };
        for (block, sector) in bytes.chunks(512).enumerate() {
            if lands(write, block) {
                image.write(*at + ByteCount(512 * block as u64), sector);
            }
        }
    }
    image
}

/// Drives after a power cut during these steps: a selection of all possible ones.
fn after_cuts(start: &Image, steps: &[Step], check: &mut dyn FnMut(&Image, bool)) {
    let mut durable = start.clone();
    let mut pending: Vec<&Step> = Vec::new();
    let noise = |write: usize, block: usize, salt: usize| {
        (write * 31 + block * 17 + salt).wrapping_mul(0x9E37_79B9) >> 7 & 1 == 0
    };
    let mut is_all = false;
    for (index, step) in steps.iter().enumerate() {
        if *step != Step::Flush {
            pending.push(step);
            continue;
        }
        let last = pending.len().saturating_sub(1);
        check(&cut(&durable, &pending, &|_, _| false), is_all);
        check(&cut(&durable, &pending, &|write, _| write < last), is_all);
        check(&cut(&durable, &pending, &|write, _| write == last), is_all);
        check(&cut(&durable, &pending, &|_, block| block == 0), is_all);
        check(&cut(&durable, &pending, &|_, block| block != 0), is_all);
        for salt in 0..4 {
            check(&cut(&durable, &pending, &|write, block| noise(write, block, salt)), is_all);
        }
        durable = cut(&durable, &pending, &|_, _| true);
        pending.clear();
        is_all = index + 1 == steps.len();
        check(&durable, is_all);
    }
    assert!(pending.is_empty(), "the last step is a flush");
}

/// The copy that Linux md uses: the primary, unless it is unsound, or the secondary is closed and
/// has a higher sequence, or both have one sequence and only the secondary is closed.
fn as_linux_md_chooses(image: &Image, places: &Structure) -> Structure {
    let header = |lba: u64, kind| {
        let block = image.read(ByteRange::new(ByteOffset(lba * 512), ByteCount(512))).unwrap();
        ondisk::ddf::Header::decode(&block, kind).ok().map(|(header, _)| header)
    };
    let primary = header(places.header.primary_lba, HeaderKind::Primary);
    let secondary = header(places.header.secondary_lba, HeaderKind::Secondary);
    let takes_secondary = match (&primary, &secondary) {
        (None, _) => true,
        (_, None) => false,
        (Some(one), Some(other)) => {
            other.sequence > one.sequence && !other.is_open()
                || other.sequence == one.sequence && one.is_open() && !other.is_open()
        }
    };
    // The other copy is made unreadable, so that only the chosen one remains.
    let (chosen, spoilt) = match takes_secondary {
        true => (secondary, places.header.primary_lba),
        false => (primary, places.header.secondary_lba),
    };
    assert!(!chosen.unwrap().is_open(), "it would take a copy that is being written");
    let mut image = image.clone();
    image.unreadable.push(spoilt);
    let drive = image.drive();
    assert!(drive.copies.iter().any(|copy| copy.state == CopyState::Sound));
    drive.structure
}

/// The next change of the group: a drive failed.
fn changed() -> (Structure, Structure, Image) {
    let mut group = raid5();
    let image = images(&group)[1].clone();
    let old = image.drive().structure;
    group.sequence += 1;
    group.timestamp.0 += 60;
    group.disks[2].state = DiskState(DiskState::ONLINE | DiskState::FAILED);
    group.volumes[0].sequence += 1;
    (old, structure(&group, 1, b"other extras, longer than before"), image)
}

#[test]
fn an_update_that_is_cut_off_anywhere_leaves_what_was_or_what_is_to_be() {
    let (old, new, image) = changed();
    let drive = image.drive();
    let steps = update(drive.size, Some(&drive), &new).unwrap();
    let (mut olds, mut news, mut cuts) = (0, 0, 0);
    after_cuts(&image, &steps, &mut |image, is_all| {
        let drive = image.drive();
        assert!(drive.structure == old || drive.structure == new, "{:?}", drive.copies);
        assert!(!is_all || drive.structure == new && !drive.needs_repair());
        let linux = as_linux_md_chooses(image, &old);
        assert_eq!(linux, drive.structure, "Linux md would read something else");
        *if drive.structure == old { &mut olds } else { &mut news } += 1;
        cuts += 1;
    });
    assert!(olds > 20 && news > 20 && cuts > 50, "{olds} {news} {cuts}");
}

#[test]
fn a_repair_that_is_cut_off_anywhere_leaves_what_the_sound_copy_says() {
    let (old, new, image) = changed();
    // States after an interrupted update, and after damage.
    let mut left = Vec::new();
    let drive = image.drive();
    let steps = update(drive.size, Some(&drive), &new).unwrap();
    after_cuts(&image, &steps, &mut |image, _| left.push(image.clone()));
    for lba in [old.header.primary_lba, old.header.secondary_lba] {
        for offset in [0, 1, 3, 162] {
            let mut image = image.clone();
            image.damage((lba + offset) * 512 + 100);
            left.push(image);
        }
    }
    let mut repaired = 0;
    for image in left.iter().step_by(3) {
        let before = image.drive();
        let steps = repair(&before).unwrap();
        if steps.is_empty() {
            assert!(!before.needs_repair());
            continue;
        }
        repaired += 1;
        after_cuts(image, &steps, &mut |image, is_all| {
            let drive = image.drive();
            assert_eq!(drive.structure, before.structure);
            assert!(!is_all || !drive.needs_repair(), "{:?}", drive.copies);
        });
    }
    assert!(repaired > 15, "{repaired}");
}

#[test]
fn an_update_beside_a_damaged_copy_never_touches_the_sound_one_first() {
    let (old, new, whole) = changed();
    for lba in [old.header.primary_lba, old.header.secondary_lba] {
        let mut image = whole.clone();
        image.damage((lba + 2) * 512 + 100);
        let drive = image.drive();
        let steps = update(drive.size, Some(&drive), &new).unwrap();
        after_cuts(&image, &steps, &mut |image, is_all| {
            let found = image.drive();
            assert!(found.structure == old || found.structure == new, "{:?}", found.copies);
            assert!(!is_all || found.structure == new && !found.needs_repair());
        });
    }
}

#[test]
fn a_new_drive_is_a_member_only_when_all_of_its_structure_is_there() {
    let group = raid5();
    let new = structure(&group, 2, b"extras");
    // On a blank drive, and on one with another group at the same places.
    let mut used = Image::blank(size_of(2).0);
    let mut other = group.clone();
    other.guid = crate::made::guid(0xAA, 9);
    apply(&mut used, &update(size_of(2), None, &structure(&other, 2, b"")).unwrap());
    let before = used.drive();
    for (start, old) in [(Image::blank(size_of(2).0), None), (used, Some(&before))] {
        let steps = update(size_of(2), old, &new).unwrap();
        after_cuts(&start, &steps, &mut |image, is_all| match image.look(Effort::Usual) {
            Look::Nothing(_) => assert!(!is_all),
            Look::Found(drive) => {
                let is_before = old.is_some_and(|old| old.structure == drive.structure);
                assert!(is_before && !is_all || drive.structure == new && !drive.needs_repair());
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn a_drive_that_lost_its_anchor_keeps_a_whole_copy_while_it_is_repaired_or_changed() {
    let (old, new, mut image) = changed();
    image.write(ByteOffset(image.size - 512), &[0; 512]);
    let Look::Found(drive) = image.look(Effort::Search) else { panic!("no header found") };
    for (steps, after) in
        [(repair(&drive).unwrap(), &old), (update(drive.size, Some(&drive), &new).unwrap(), &new)]
    {
        after_cuts(&image, &steps, &mut |image, is_all| {
            let effort = if is_all { Effort::Usual } else { Effort::Search };
            let Look::Found(found) = image.look(effort) else { panic!("nothing is left") };
            assert!(found.structure == old || found.structure == *after, "{:?}", found.copies);
            assert!(
                !is_all || found.structure == *after && !found.needs_repair(),
                "{:?}",
                found.copies
            );
        });
    }
}

#[test]
fn what_is_cleared_is_not_found_by_a_search_either() {
    let mut image = images(&raid5())[0].clone();
    let drive = image.drive();
    apply(&mut image, &clear(&drive));
    assert!(matches!(image.look(Effort::Search), Look::Nothing(_)));
}

#[test]
fn a_sequence_that_does_not_follow_is_refused() {
    let (_, new, image) = changed();
    let drive = image.drive();
    let mut same = new.clone();
    same.header.sequence = drive.structure.header.sequence;
    assert!(update(drive.size, Some(&drive), &same).is_err());
    let mut small = new;
    small.header.places[Section::Records as usize].blocks = 1;
    assert!(update(drive.size, Some(&drive), &small).is_err());
    assert!(update(ByteCount(16 << 20), None, &drive.structure).is_err());
}
