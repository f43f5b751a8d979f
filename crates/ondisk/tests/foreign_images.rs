//! The metadata of arrays that Linux md and mdadm made: the decoders agree with mdadm.

mod foreign;

use foreign::{Array, Drive, arrays, seal, seen, told};
use ondisk::foreign::{
    Backup, Feature, Format, FoundVolume, Record, Role, Standing, State, UNPLACED, reconcile,
};
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};

fn named(name: &str) -> Array {
    arrays().into_iter().find(|array| array.name == name).unwrap()
}

fn found(drives: &[Drive]) -> FoundVolume {
    let mut found = reconcile(&seen(drives));
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The description that mdadm gives for a drive with this record.
fn as_mdadm_says(record: &Record) -> String {
    let (volume, member) = (&record.volume, &record.member);
    let or_dash = |text: &str| if text.is_empty() { "-".to_string() } else { text.to_string() };
    let kib = |strip: ByteCount| strip.0 >> 10;
    if volume.format == Format::Imsm {
        let Role::Active(slot) = member.role else { panic!("{member:?}") };
        let level = &volume.level;
        let strip = if level == "raid1" { 64 } else { kib(volume.strip.unwrap()) };
        return format!(
            "{}, {level}, -, {strip} KiB, family {}, generation {}, clean, data at {}, slot \
                {slot}, [{}]",
            volume.version,
            volume.container.as_ref().unwrap().text,
            volume.sequence,
            member.data.start.0 / 512,
            "U".repeat(volume.slots.into()),
        );
    }
    let strip = volume.strip.filter(|_| volume.level != "linear");
    let version = if volume.version == "0.90" { "0.90.00" } else { &volume.version };
    let role = match member.role {
        Role::Active(slot) => format!("Active device {slot}"),
        Role::Spare => "spare".into(),
        role => panic!("{role:?}"),
    };
    let used = |slot: u16| volume.entries.iter().any(|entry| entry.role == Role::Active(slot));
    let state: String = (0..volume.slots).map(|slot| if used(slot) { 'A' } else { '.' }).collect();
    format!(
        "{version}, {}, {}, {}, uuid {}, events {}, clean, data at {}, {role}, {}",
        volume.level,
        or_dash(&volume.layout.replace("ddf-n", "ddf-N")),
        strip.map_or("-".into(), |strip| format!("{}K", kib(strip))),
        volume.identity.text,
        volume.sequence,
        member.data.start.0 / 512,
        if version == "0.90.00" { "" } else { &state },
    )
}

#[test]
fn every_drive_says_to_us_what_it_says_to_mdadm() {
    let mut drives = 0;
    for array in arrays() {
        for drive in &array.drives {
            let told = told(drive);
            assert!(told.notes.is_empty(), "{} {}: {:?}", array.name, drive.name, told.notes);
            if drive.said == "nothing" {
                assert!(told.records.is_empty(), "{}", array.name);
                continue;
            }
            assert_eq!(told.records.len(), 1, "{} {}", array.name, drive.name);
            let said = as_mdadm_says(&told.records[0]);
            assert_eq!(said.trim_end(), drive.said.trim_end(), "{} {}", array.name, drive.name);
            drives += 1;
        }
    }
    assert!(drives >= 190, "{drives}");
}

#[test]
fn every_array_is_found_with_its_size_and_can_be_read_without_what_its_level_can_spare() {
    let mut arrays_found = 0;
    for array in arrays() {
        let found = found(&array.drives);
        assert_eq!(found.capacity(), array.size, "{}", array.name);
        let is_short = ["raid5-4-stale-member", "raid5-4-degraded-missing"].contains(&&*array.name);
        let expected = if is_short { State::Degraded } else { State::Complete };
        assert_eq!(found.state, expected, "{}: {:?}", array.name, found.reasons);
        assert!(found.no_writing.is_empty(), "{}", array.name);
        let spares = match found.record.level.as_str() {
            "linear" | "raid0" => 0,
            "raid6" => 2,
            "raid10" if array.name.ends_with("n3") => 2,
            "raid1" => found.record.slots - 1,
            _ => 1,
        };
        let first =
            |count: u16| (0..count).fold(DriveSet::EMPTY, |set, slot| set.with(DriveIndex(slot)));
        assert!(found.survives(&first(spares)), "{}", array.name);
        assert!(!found.survives(&first(spares + 1)), "{}", array.name);
        arrays_found += 1;
    }
    assert_eq!(arrays_found, 46);
}

#[test]
fn a_stale_member_is_told_from_the_others_and_not_used() {
    let found = found(&named("raid5-4-stale-member").drives);
    let member = &found.members[2];
    assert_eq!(
        (member.standing, member.drive, member.sequence),
        (Standing::Stale, Some(2), Some(17))
    );
    assert_eq!(found.record.sequence, 22);
    assert_eq!(found.reasons, ["disk2 is stale: the other members no longer list it"]);
}

#[test]
fn a_stale_member_alone_does_not_speak_for_the_others() {
    let mut drives = named("raid5-4-stale-member").drives;
    drives.remove(0);
    let found = found(&drives);
    assert_eq!(found.state, State::NotReadable);
    let standings: Vec<_> = found.members.iter().map(|member| member.standing).collect();
    assert_eq!(
        standings,
        [Standing::Missing, Standing::Current, Standing::Stale, Standing::Current]
    );
}

#[test]
fn a_spare_that_was_rebuilt_has_the_place_of_the_one_that_failed() {
    let found = found(&named("raid5-4-rebuilt-on-spare").drives);
    assert_eq!((found.members[1].drive, found.members[1].standing), (Some(4), Standing::Current));
    assert_eq!((found.others.len(), found.others[0].drive, found.others[0].what), (1, 1, "stale"));
    let spare = reconcile(&seen(&named("raid5-4-spare").drives)).remove(0);
    assert_eq!((spare.others.len(), spare.others[0].drive, spare.others[0].what), (1, 4, "spare"));
}

#[test]
fn bitmaps_and_logs_are_recognised() {
    let features = |name| found(&named(name).drives).record.features;
    assert_eq!(features("raid5-4-bitmap"), [Feature::Bitmap]);
    assert_eq!(features("raid1-2-writemostly-bitmap"), [Feature::Bitmap]);
    assert_eq!(features("raid5-4-ppl"), [Feature::Ppl]);
    assert_eq!(features("raid5-5-left-symmetric"), []);
}

#[test]
fn drives_that_are_known_by_serial_number_are_not_placed_without_one() {
    let mut drives = named("imsm-raid10-4").drives;
    let with = found(&drives);
    let order: Vec<_> = with.members.iter().map(|member| member.drive).collect();
    assert_eq!(order, [Some(0), Some(2), Some(1), Some(3)]);
    drives[1].serial = None;
    let without = found(&drives);
    assert_eq!(without.state, State::Degraded);
    assert_eq!((without.others[0].drive, without.others[0].what), (1, UNPLACED));
    drives[1].serial = Some("ANOTHER".into());
    assert_eq!(
        told(&drives[1]).notes,
        ["holds Intel RAID metadata that do not list its serial number"]
    );
    // A USB bridge reports its own serial number, perhaps the same for every drive: it identifies
    // no drive.
    drives[2].serial = Some("ANOTHER".into());
    let bridged = found(&drives);
    let others: Vec<_> = bridged.others.iter().map(|other| (other.drive, other.what)).collect();
    assert_eq!(others, [(1, UNPLACED), (2, UNPLACED)]);
    let said = &bridged.others[0].reason;
    assert!(said.contains("one of REFDISK0001, REFDISK0003, REFDISK0002, REFDISK0004"), "{said}");
    assert!(said.contains("--guess"), "{said}");
}

/// The same array with changed fields in all its superblocks.
fn changed(name: &str, changes: &[(usize, &[u8])]) -> Vec<Drive> {
    let mut drives = named(name).drives;
    for drive in &mut drives {
        for (at, bytes) in changes {
            drive.parts[0].1[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        seal(drive);
    }
    drives
}

#[test]
fn an_interrupted_reshape_is_recognised_and_stands_against_writing() {
    // RAID 5 of three drives that reshapes to four, at 40704 KiB: features 0x44.
    let changes: [(usize, &[u8]); 6] = [
        (8, &[0x44]),
        (100, &5u32.to_le_bytes()),
        (104, &81408u64.to_le_bytes()),
        (112, &1u32.to_le_bytes()),
        (116, &2u32.to_le_bytes()),
        (120, &128u32.to_le_bytes()),
    ];
    let found = found(&changed("raid5-5-left-symmetric", &changes));
    let Feature::Reshape(reshape) = &found.record.features[0] else {
        panic!("{:?}", found.record.features)
    };
    assert_eq!(reshape.from, "raid5 left-symmetric on 4 members with a strip of 64 KiB");
    assert_eq!(reshape.to, "raid5 left-symmetric on 5 members with a strip of 64 KiB");
    assert_eq!((reshape.position.0, reshape.backwards), (40704 << 10, false));
    assert_eq!((found.state, found.no_writing.len()), (State::Complete, 1));
}

/// RAID 5 of four drives that reshapes to five, at a position, with data that move by that many
/// sectors on each drive.
fn on_its_way(position: u64, shifts: [i32; 5]) -> FoundVolume {
    found(&drives_on_their_way(position, shifts))
}

fn drives_on_their_way(position: u64, shifts: [i32; 5]) -> Vec<Drive> {
    let changes: [(usize, &[u8]); 6] = [
        (8, &[0x44]),
        (100, &5u32.to_le_bytes()),
        (104, &position.to_le_bytes()),
        (112, &1u32.to_le_bytes()),
        (116, &2u32.to_le_bytes()),
        (120, &128u32.to_le_bytes()),
    ];
    let mut drives = changed("raid5-5-left-symmetric", &changes);
    for (drive, shift) in drives.iter_mut().zip(shifts) {
        drive.parts[0].1[124..128].copy_from_slice(&shift.to_le_bytes());
        seal(drive);
    }
    drives
}

#[test]
fn what_an_interrupted_reshape_left_lies_in_two_pieces() {
    let of = |found: &FoundVolume| {
        assert_eq!(found.state, State::Complete, "{:?}", found.reasons);
        let pieces = found.sections.iter();
        pieces
            .map(|piece| {
                (
                    piece.members.len(),
                    piece.members[0].1.0,
                    piece.within.start.0,
                    piece.within.end().0,
                )
            })
            .collect::<Vec<_>>()
    };
    let start = |found: &FoundVolume| found.members[0].data.start.0;
    let (forward, backward) = (on_its_way(2048, [1024; 5]), on_its_way(2048, [-1024; 5]));
    let end = of(&forward)[1].3;
    assert_eq!(of(&forward), [(5, 1024 * 512, 0, 1 << 20), (4, 0, 1 << 20, end)]);
    assert_eq!(of(&backward), [(5, 0, 0, 1 << 20), (4, 1024 * 512, 1 << 20, end)]);
    assert_eq!(start(&forward) - start(&backward), 1024 * 512);
    assert_eq!(of(&on_its_way(0, [1024; 5])), [(4, 0, 0, end)]);
    assert_eq!(forward.no_writing, ["a reshape of it was interrupted"]);
}

/// Where the data offset stays, rows overlap themselves: the rows of both layouts that end
/// together, four of three strips and three of four, and as many again for which Linux may not have
/// recorded its position.
#[test]
fn a_reshape_that_was_interrupted_in_its_critical_section_is_not_read() {
    let together = 12 * 128;
    for (position, state) in [
        (0, State::NotReadable),
        (together, State::NotReadable),
        (2 * together - 4 * 128, State::NotReadable),
        (2 * together, State::Complete),
    ] {
        let found = on_its_way(position, [0; 5]);
        assert_eq!(found.state, state, "{position}: {:?}", found.reasons);
    }
}

#[test]
fn members_whose_data_move_otherwise_than_the_others_stand_against_reading() {
    let found = on_its_way(2048, [1024, 1024, 1024, 1024, 512]);
    assert_eq!(found.state, State::NotReadable);
    assert!(
        found.reasons.iter().any(|reason| reason.contains("by another distance")),
        "{:?}",
        found.reasons
    );
}

/// Regression: the update of the superblocks was interrupted between members. The newest position
/// was used, though a member with an older superblock may lack data that moved since.
#[test]
fn of_members_that_tell_of_different_places_the_least_advanced_one_is_gone_by() {
    // The drives, the number of updates by which each is behind, and their positions.
    let told = |backwards: bool, behind: &[(usize, u64, u64)]| {
        let mut drives = drives_on_their_way(4096, [1024; 5]);
        let features = if backwards { 0x64 } else { 0x44 };
        drives.iter_mut().for_each(|drive| drive.parts[0].1[8] = features);
        for (drive, updates, position) in behind {
            let superblock = &mut drives[*drive].parts[0].1;
            let events = u64::from_le_bytes(superblock[200..208].try_into().unwrap()) - updates;
            superblock[200..208].copy_from_slice(&events.to_le_bytes());
            superblock[104..112].copy_from_slice(&position.to_le_bytes());
        }
        drives.iter_mut().for_each(seal);
        let found = found(&drives);
        let position = found.record.reshape().unwrap().position.0 / 512;
        let ends: Vec<u64> =
            found.sections.iter().map(|piece| piece.within.end().0 / 512).collect();
        assert_eq!(ends.first(), Some(&position), "the sections match the position");
        let is_said = found.reasons.iter().any(|why| why.contains("members may lack data between"));
        assert_eq!(is_said, position != 4096, "{:?}", found.reasons);
        (position, found.state)
    };
    for drive in 0..5 {
        assert_eq!(told(false, &[(drive, 1, 2048)]), (2048, State::Complete), "drive {drive}");
        assert_eq!(
            told(true, &[(drive, 1, 6144)]),
            (6144, State::Complete),
            "drive {drive}, backwards"
        );
    }
    assert_eq!(told(false, &[(1, 1, 3072), (2, 1, 2048), (3, 1, 3072)]), (2048, State::Complete));
    // The position of a member that is too far behind does not count, nor any record of a stale
    // member.
    assert_eq!(told(false, &[(1, 1, 6144)]), (4096, State::Complete));
    assert_eq!(told(false, &[(1, 2, 2048)]), (4096, State::Degraded));
    // Where the data offset stays, the least advanced member may be in its critical section, and
    // the newest past it.
    let mut drives = drives_on_their_way(4 * 1536, [0; 5]);
    let superblock = &mut drives[3].parts[0].1;
    let events = u64::from_le_bytes(superblock[200..208].try_into().unwrap()) - 1;
    superblock[200..208].copy_from_slice(&events.to_le_bytes());
    superblock[104..112].copy_from_slice(&1536u64.to_le_bytes());
    seal(&mut drives[3]);
    assert_eq!(found(&drives).state, State::NotReadable);
}

/// Makes the superblock one event older.
fn events_less_one(drive: &mut Drive) {
    let superblock = &mut drive.parts[0].1;
    let events = u64::from_le_bytes(superblock[200..208].try_into().unwrap()) - 1;
    superblock[200..208].copy_from_slice(&events.to_le_bytes());
    seal(drive);
}

/// Removes the reshape from the superblock; its checksum is not corrected.
fn plain(drive: &mut Drive) {
    let superblock = &mut drive.parts[0].1;
    superblock[8] = 0;
    superblock[100..128].fill(0);
}

/// Regression: the first superblocks of a reshape, or the first without it, were written to all
/// members except one. That member was read like the others: where the data move, all data were
/// read at a wrong offset, without a note.
#[test]
fn one_member_that_does_not_know_of_the_beginning_or_the_end_of_a_reshape_is_read_where_its_data_begin()
 {
    for shift in [1024, -1024] {
        let all_know = on_its_way(0, [shift; 5]);
        for late in 0..5 {
            // The beginning: no data have moved, and one member has the superblock from before.
            let mut drives = drives_on_their_way(0, [shift; 5]);
            plain(&mut drives[late]);
            events_less_one(&mut drives[late]);
            let begun = found(&drives);
            assert_eq!(begun.state, State::Complete, "{shift}, {late}: {:?}", begun.reasons);
            assert_eq!(
                (&begun.members[late].data, &begun.sections),
                (&all_know.members[late].data, &all_know.sections)
            );
            // A reshape that a current member does not record cannot have moved data.
            let mut drives = drives_on_their_way(4096, [shift; 5]);
            plain(&mut drives[late]);
            events_less_one(&mut drives[late]);
            let odd = found(&drives);
            let name = &seen(&drives)[late].name;
            assert_eq!(odd.state, State::NotReadable);
            assert!(odd.reasons.iter().any(|why| why.contains(name.as_str())), "{:?}", odd.reasons);
            // The end: all other members have the moved data, and begin there.
            let mut drives = drives_on_their_way(4096, [shift; 5]);
            for (slot, drive) in drives.iter_mut().enumerate().filter(|(slot, _)| *slot != late) {
                let superblock = &mut drive.parts[0].1;
                let begins = u64::from_le_bytes(superblock[128..136].try_into().unwrap());
                let length = u64::from_le_bytes(superblock[136..144].try_into().unwrap());
                let moved =
                    |word: u64, by: i32| word.checked_add_signed(by.into()).unwrap().to_le_bytes();
                superblock[128..136].copy_from_slice(&moved(begins, shift));
                superblock[136..144].copy_from_slice(&moved(length, -shift));
                plain(drive);
                seal(drive);
                assert_ne!(slot, late);
            }
            events_less_one(&mut drives[late]);
            let ended = found(&drives);
            let other = &ended.members[(late + 1) % 5];
            assert_eq!(ended.members[late].data, other.data, "{shift}, {late}");
            assert_eq!(
                (ended.state, ended.no_writing.len()),
                (State::Complete, 1),
                "{:?}",
                ended.reasons
            );
            assert!(
                ended.no_writing[0].contains(&format!("{name} records a reshape at")),
                "{:?}",
                ended.no_writing
            );
        }
    }
}

#[test]
fn features_that_nobody_knows_here_make_nothing_sure() {
    let found = found(&changed("raid5-5-left-symmetric", &[(9, &[0x80])]));
    assert_eq!(found.record.features, [Feature::Unknown("feature bits 0x8000".into())]);
    assert_eq!(found.state, State::NotReadable);
}

#[test]
fn what_was_not_stopped_in_order_is_dirty() {
    let drives = changed("raid5-5-left-symmetric", &[(208, &[0; 8])]);
    let dirty = found(&drives[1..]);
    assert_eq!(dirty.state, State::Degraded);
    assert!(
        dirty.reasons.iter().any(|reason| reason.contains("not cleanly shut down")),
        "{:?}",
        dirty.reasons
    );
    // Without parity and copies no redundancy can be wrong.
    let drives = changed("raid0-4", &[(208, &[0; 8])]);
    assert!(found(&drives).reasons.is_empty());
}

#[test]
fn a_superblock_that_is_damaged_or_out_of_place_is_told_and_not_used() {
    let mut drives = named("raid5-5-left-symmetric").drives;
    drives[0].parts[0].1[48] ^= 1;
    assert_eq!(
        told(&drives[0]).notes,
        ["holds a Linux md 1.2 superblock, and its checksum is wrong"]
    );
    assert_eq!(found(&drives).state, State::Degraded);
    drives[1].parts[0].1[144] = 9;
    seal(&mut drives[1]);
    assert!(told(&drives[1]).notes[0].contains("lies in sector 9, not 8"));
    // The end of the drive determines the place: with one more sector, the superblock is not found.
    let mut drive = named("raid5-4-meta1.0").drives.remove(0);
    drive.size = ByteCount(drive.size.0 + 8 * 512);
    assert!(told(&drive).records.is_empty());
}

#[test]
fn a_superblock_of_a_big_endian_machine_is_read_as_well() {
    let mut drives = named("raid5-4-meta0.90").drives;
    for drive in &mut drives {
        drive.parts[0].1.chunks_mut(4).for_each(|word| word.reverse());
        // The halves of 64-bit numbers, here the events, are in the machine's order too.
        let words = &mut drive.parts[0].1;
        let (low, high) = words[156..164].split_at_mut(4);
        low.swap_with_slice(high);
    }
    let found = found(&drives);
    assert_eq!((found.state, found.record.sequence), (State::Complete, 18));
    assert_eq!(found.record.identity.text, "00febdeb:d683a8be:3d186b3c:53958f34");
}

#[test]
fn metadata_of_two_arrays_on_a_drive_are_both_told() {
    let mut drives = named("raid5-4-meta1.0").drives;
    let other = named("raid5-4-chunk4").drives;
    drives[0].parts.extend(other[0].parts.clone());
    let told = told(&drives[0]);
    assert_eq!(told.records.len(), 2);
    assert!(
        told.notes[0].contains("metadata of several arrays (linux-md 1.2 and linux-md 1.0)"),
        "{:?}",
        told.notes
    );
    assert_eq!(reconcile(&seen(&drives)).len(), 2);
}

/// A backup of the array of [`on_its_way`], with these stretches of the volume in sectors.
fn backup(stretches: &[(u64, u64)]) -> Backup {
    let found = on_its_way(0, [0; 5]);
    let stretch = |(from, to): &(u64, u64)| {
        (ByteRange::from_to(ByteOffset(from * 512), ByteOffset(to * 512)), ByteOffset(4096))
    };
    Backup {
        array: found.record.identity.bytes[..].try_into().unwrap(),
        written_unix_s: found.record.updated_unix_s.unwrap(),
        stretches: stretches.iter().map(stretch).collect(),
    }
}

/// The position of the reshape determines the part of the file that is read, and whether the file
/// matches.
#[test]
fn of_a_backup_is_read_what_lies_ahead_of_the_reshape() {
    // Rows of three strips of 128 sectors become rows of four; both end together after 1536.
    let taken = |position: u64, stretches: &[(u64, u64)]| {
        let mut found = on_its_way(position, [0; 5]);
        let why = found.take_backup(&backup(stretches)).err();
        let pieces = |range: &ByteRange| (range.start.0 / 512, range.end().0 / 512);
        let saved: Vec<_> = found.saved.iter().map(|(bytes, _)| pieces(bytes)).collect();
        let sections: Vec<_> = found.sections.iter().map(|one| pieces(&one.within)).collect();
        (why.unwrap_or_default(), saved, sections, found)
    };
    let end = {
        let (why, saved, sections, found) = taken(512, &[(0, 1536)]);
        assert_eq!((why.as_str(), saved), ("", vec![(512, 1536)]));
        assert_eq!(
            found.saved[0].1,
            ByteOffset(4096 + 512 * 512),
            "it begins in the middle of the saved part"
        );
        assert_eq!(found.state, State::Complete, "{:?}", found.reasons);
        assert_eq!((sections.len(), sections[0], sections[1].0), (2, (0, 512), 1536));
        assert_eq!(found.capacity(), ByteCount(sections[1].1 * 512), "no data are missing");
        sections[1].1
    };
    // The reshape has reached the end of the saved part: the members have all data.
    let (why, saved, sections, _) = taken(1536, &[(0, 1536)]);
    assert_eq!((why.as_str(), saved, sections), ("", vec![], vec![(0, 1536), (1536, end)]));
    let (why, ..) = taken(1024, &[(0, 768)]);
    assert!(why.contains("is too old"), "{why}");
    let (why, ..) = taken(512, &[(768, 1536)]);
    assert!(why.contains("it does not match"), "{why}");
    let (why, ..) = taken(0, &[(0, 384), (768, 1536)]);
    assert!(why.contains("it does not match"), "a gap: {why}");
    let (why, ..) = taken(0, &[(0, 100)]);
    assert!(why.contains("which are no stripes of the array"), "{why}");
    // Behind its critical section the file is not used.
    let (why, saved, _, found) = taken(4 * 1536, &[(0, 1536)]);
    assert_eq!((why.as_str(), saved), ("", vec![]));
    assert!(found.reasons.iter().any(|said| said.contains("not needed")), "{:?}", found.reasons);
    let mut another = backup(&[(0, 1536)]);
    another.array[0] ^= 1;
    assert!(!on_its_way(0, [0; 5]).is_of(&another));
}
