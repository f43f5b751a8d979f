//! Unreadable parts of members that are present: bad blocks, truncated drives, metadata that cannot
//! be interpreted; and metadata at a wrong place after a copy to a larger drive.

mod foreign;

use foreign::{Drive, arrays, seal, searched, seen, seen_by, told};
use ondisk::foreign::{Feature, FoundVolume, Standing, State, Told, reconcile};
use units::{ByteCount, ByteOffset, ByteRange};

const SUPERBLOCK: u64 = 4096;

fn drives_of(name: &str) -> Vec<Drive> {
    arrays().into_iter().find(|array| array.name == name).unwrap().drives
}

fn found(drives: &[Drive]) -> FoundVolume {
    let mut found = reconcile(&seen(drives));
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn put(drive: &mut Drive, at: usize, bytes: &[u8]) {
    drive.parts[0].1[at..at + bytes.len()].copy_from_slice(bytes);
    seal(drive);
}

/// Adds a list of bad blocks to a member of version 1.2: first sectors of the drive, and lengths.
fn add_list(drive: &mut Drive, entries: &[(u64, u64)]) {
    let features = drive.parts[0].1[8] | 8;
    put(drive, 8, &[features]);
    put(drive, 185, &[0, 8, 0, 16, 0, 0, 0]);
    let mut list: Vec<u8> =
        entries.iter().flat_map(|(first, count)| (first << 10 | count).to_le_bytes()).collect();
    list.resize(4096, 0xFF);
    drive.parts.push((SUPERBLOCK + 16 * 512, list));
}

fn sectors(from: u64, to: u64) -> ByteRange {
    ByteRange::from_to(ByteOffset(from * 512), ByteOffset(to * 512))
}

fn standings(found: &FoundVolume) -> Vec<&'static str> {
    found.members.iter().map(|member| member.standing.name()).collect()
}

/// Regression: rescue read these blocks as data, so 4 KiB were wrong without a message.
#[test]
fn listed_blocks_count_as_unreadable_on_their_member_and_are_named() {
    let mut drives = drives_of("raid5-4-bitmap");
    // Data are in sectors 2048 to 32767; earlier sectors are unused.
    add_list(&mut drives[1], &[(100, 8), (4096, 8), (4104, 1), (9000, 512)]);
    let with = found(&drives);
    assert_eq!(with.members[1].unreadable, [sectors(4096, 4105), sectors(9000, 9512)]);
    assert!(with.members[0].unreadable.is_empty());
    assert_eq!((with.state, with.members[1].standing), (State::Complete, Standing::Current));
    let why = with.reasons.join("; ");
    assert!(
        why.contains("disk1 has a list of bad blocks: its sectors 4096 to 4104, 9000 to 9511 ("),
        "{why}"
    );
    assert!(with.record.features.contains(&Feature::BadBlocks), "{:?}", with.record.features);
    assert!(with.no_writing[0].contains("disk1 has a list of bad blocks"), "{:?}", with.no_writing);
    let mut empty = drives_of("raid5-4-bitmap");
    add_list(&mut empty[1], &[]);
    let empty = found(&empty);
    assert!(
        empty.members[1].unreadable.is_empty()
            && empty.reasons.is_empty()
            && empty.no_writing.is_empty()
    );
}

#[test]
fn a_list_that_cannot_be_read_or_followed_excludes_its_member() {
    let damage = |drive: &mut Drive, case: usize| match case {
        // Entries of no sectors; out of order; past the end of the drive.
        0 => add_list(drive, &[(0, 0)]),
        1 => add_list(drive, &[(5000, 8), (4096, 8)]),
        2 => add_list(drive, &[(32_760, 16)]),
        // A list of no or too many sectors; over the superblock; in the data; before and past the
        // drive.
        3 => put(drive, 186, &[0, 0]),
        4 => put(drive, 186, &[129, 0]),
        5 => put(drive, 188, &0_i32.to_le_bytes()),
        6 => put(drive, 188, &4000_i32.to_le_bytes()),
        7 => put(drive, 188, &(-16_i32).to_le_bytes()),
        8 => put(drive, 188, &40_000_i32.to_le_bytes()),
        _ => {
            drive.unreadable.push(ByteRange::new(ByteOffset(SUPERBLOCK + 16 * 512), ByteCount(512)))
        }
    };
    let expected = [
        "is damaged: entry 0 names 0 units",
        "is damaged: entry 1 names 8 units of 2^0 sectors from unit 4096 on",
        "is damaged: entry 0 names 16 units of 2^0 sectors from unit 32760 on",
        "has 0 sectors at +16 from its superblock, and it must have 1 to 128",
        "has 129 sectors",
        "and must not overlap its superblock or its data",
        "and must not overlap its superblock or its data",
        "and must lie on the drive",
        "and must lie on the drive",
        "its list of bad blocks at sector 24 cannot be read",
    ];
    for (case, expected) in expected.iter().enumerate() {
        let mut drives = drives_of("raid5-4-bitmap");
        if case >= 3 {
            add_list(&mut drives[1], &[]);
        }
        damage(&mut drives[1], case);
        let found = found(&drives);
        assert_eq!(standings(&found), ["current", "excluded", "current", "current"], "case {case}");
        assert_eq!(found.state, State::Degraded);
        let why = found.members[1].reason.clone().unwrap();
        assert!(
            why.starts_with("disk1 is excluded: ") && why.contains(expected),
            "case {case}: {why}"
        );
        assert!(found.reasons.contains(&why) && found.no_writing.contains(&why), "case {case}");
    }
    let mut striped = drives_of("raid0-4");
    add_list(&mut striped[1], &[(0, 0)]);
    assert_eq!(found(&striped).state, State::NotReadable, "no other member has its data");
}

#[test]
fn a_member_with_feature_bits_that_are_not_known_is_excluded_whoever_speaks_for_the_array() {
    let mut drives = drives_of("raid5-5-left-symmetric");
    put(&mut drives[2], 9, &[0x80]);
    let odd = found(&drives);
    assert_eq!(standings(&odd), ["current", "current", "excluded", "current", "current"]);
    assert!(
        odd.reasons[0].contains("disk2 is excluded: it uses unsupported feature bits 0x8000"),
        "{:?}",
        odd.reasons
    );
    // A rebuild by a bitmap records its progress; without that, the state of the member is unknown.
    let mut drives = drives_of("raid5-5-left-symmetric");
    put(&mut drives[2], 8, &[0x80]);
    let odd = found(&drives);
    assert!(odd.reasons[0].contains("feature bit 0x80"), "{:?}", odd.reasons);
    put(&mut drives[2], 8, &[0x82]);
    put(&mut drives[2], 152, &64_u64.to_le_bytes());
    assert_eq!(found(&drives).members[2].standing, Standing::Rebuilding);
    // Regression: in a reshape, unknown bits passed for known ones.
    let mut drives = drives_of("raid5-5-left-symmetric");
    for drive in &mut drives {
        put(drive, 8, &[0x44, 0x80]);
        put(drive, 100, &5u32.to_le_bytes());
        put(drive, 104, &81408u64.to_le_bytes());
        put(drive, 112, &1u32.to_le_bytes());
        put(drive, 116, &2u32.to_le_bytes());
        put(drive, 120, &128u32.to_le_bytes());
    }
    let reshaped = found(&drives);
    assert_eq!(reshaped.state, State::NotReadable);
    assert!(
        reshaped.reasons.iter().any(|why| why.contains("feature bits 0x8000")),
        "{:?}",
        reshaped.reasons
    );
}

/// Linux md does not mark a crash where such a log exists.
#[test]
fn a_partial_parity_log_that_is_not_applied_is_told_where_parity_is_needed() {
    let mut drives = drives_of("raid5-4-ppl");
    assert!(found(&drives).reasons.is_empty());
    drives.remove(1);
    let without = found(&drives);
    assert!(
        without.reasons.iter().any(|why| why.contains("partial parity log is not applied")),
        "{:?}",
        without.reasons
    );
}

#[test]
fn a_member_that_was_cut_off_says_by_how_much_and_takes_part_for_what_it_has() {
    let mut drives = drives_of("raid5-4-bitmap");
    drives[2].size.0 -= 64 << 10;
    let short = found(&drives);
    assert_eq!(short.members[2].unreadable, [sectors(32_768 - 128, 32_768)]);
    assert_eq!((short.state, short.members[2].standing), (State::Complete, Standing::Current));
    assert_eq!(
        short.reasons[0],
        "disk2 is truncated: its data end at 16 MiB by its metadata, and it has 16320 KiB, 64 KiB \
         less; the last 64 KiB of the volume's part count as unreadable; redundancy serves them \
         where the level has any"
    );
    assert!(
        short.no_writing[0].contains("use a drive of at least 16 MiB"),
        "{:?}",
        short.no_writing
    );
    // Space that the array does not use may be missing.
    for drive in &mut drives {
        put(drive, 80, &(30_720_u64 - 128).to_le_bytes());
    }
    let unused = found(&drives);
    assert!(unused.members[2].unreadable.is_empty() && unused.no_writing.is_empty());
    assert!(
        unused.reasons[0].ends_with("the volume does not use that part"),
        "{:?}",
        unused.reasons
    );
    // Bad blocks beyond the end of the truncated drive, and across it.
    add_list(&mut drives[2], &[(5000, 1), (32_500, 200)]);
    for drive in &mut drives {
        put(drive, 80, &30_720_u64.to_le_bytes());
    }
    assert_eq!(
        found(&drives).members[2].unreadable,
        [sectors(5000, 5001), sectors(32_500, 32_640), sectors(32_640, 32_768)]
    );
    let mut drives = drives_of("raid5-4-bitmap");
    drives[2].size = ByteCount(1 << 20);
    let gone = found(&drives);
    assert_eq!((gone.state, gone.members[2].standing), (State::Degraded, Standing::Excluded));
    assert!(gone.reasons[0].contains("it is truncated before its data"), "{:?}", gone.reasons);
}

fn larger(name: &str, by: u64) -> Vec<Drive> {
    let mut drives = drives_of(name);
    drives.iter_mut().for_each(|drive| drive.size.0 += by);
    drives
}

#[test]
fn metadata_at_the_end_are_found_on_a_drive_that_is_larger_than_it_was() {
    for (name, what, by, was) in [
        ("raid5-4-meta1.0", "a Linux md 1.0 superblock 8200 KiB before its end", 8 << 20, "16 MiB"),
        (
            "raid5-4-meta0.90",
            "a Linux md 0.90 superblock 8256 KiB before its end",
            8 << 20,
            "16 MiB",
        ),
        ("imsm-raid1-2", "Intel RAID metadata 1025 KiB before its end", 1 << 20, "32 MiB"),
        ("imsm-raid10-4", "Intel RAID metadata 1025 KiB before its end", 1 << 20, "32 MiB"),
    ] {
        let drives = larger(name, by);
        for drive in &drives {
            assert!(told(drive).records.is_empty(), "{name}: it is at a wrong place");
            let note = searched(drive).notes.join("; ");
            assert!(
                note.contains(what) && note.contains(&format!("a drive of {was},")),
                "{name}: {note}"
            );
        }
        let all = reconcile(&seen_by(&drives, searched)).remove(0);
        assert_eq!(all.state, State::Complete, "{name}: {:?}", all.reasons);
        let as_it_was = reconcile(&seen(&drives_of(name))).remove(0);
        assert_eq!(
            (all.capacity(), &all.members),
            (as_it_was.capacity(), &as_it_was.members),
            "{name}"
        );
        // The range of the search is limited.
        let beyond = larger(name, (32 << 20) + (128 << 10));
        assert!(beyond.iter().all(|drive| searched(drive) == Told::default()), "{name}");
    }
}

#[test]
fn what_a_search_comes_across_is_not_used_where_it_does_not_say_that_it_belongs_there() {
    // At another place than the recorded one: within an image on the drive.
    let mut drive = larger("raid5-4-meta1.0", 8 << 20).remove(0);
    drive.parts[0].0 += 4096;
    assert_eq!(searched(&drive), Told::default());
    let mut drive = larger("raid5-4-meta0.90", 8 << 20).remove(0);
    drive.parts[0].0 += 4096;
    assert_eq!(searched(&drive), Told::default());
    // With data that extend beyond it.
    let mut drive = larger("raid5-4-meta0.90", 8 << 20).remove(0);
    drive.parts[0].0 -= 4 << 20;
    assert_eq!(searched(&drive), Told::default());
    // Of a drive with another end, or another drive.
    let mut drive = larger("imsm-raid1-2", 1 << 20).remove(0);
    drive.parts[0].0 += 512;
    assert_eq!(searched(&drive), Told::default());
    let mut drive = larger("imsm-raid1-2", 1 << 20).remove(0);
    drive.serial = Some("ANOTHER".into());
    assert_eq!(searched(&drive), Told::default());
    // Two candidates: neither takes precedence.
    let mut drive = larger("raid5-4-meta1.0", 8 << 20).remove(0);
    let old = larger("raid5-4-meta0.90", 8 << 20).remove(0);
    drive.parts.extend(old.parts);
    let both = searched(&drive);
    assert!(both.records.is_empty());
    let note = both.notes.join("; ");
    for expected in ["1.0 superblock (16777216 B)", "0.90 superblock (16777216 B)", "--size-was"] {
        assert!(note.contains(expected), "no '{expected}' in: {note}");
    }
}

/// The metadata of Intel's mirror with some bytes changed and a log appended, and an updated
/// checksum.
fn intel(changes: &[(usize, &[u8])], log: &[u8]) -> Vec<Drive> {
    let mut drives = drives_of("imsm-raid1-2");
    for drive in &mut drives {
        let bytes = &mut drive.parts[0].1;
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let old = word(bytes, 0x24) as usize;
        let end = old + log.len();
        assert!(end <= 512, "all of it in one block");
        bytes[old..end].copy_from_slice(log);
        bytes[0x24..0x28].copy_from_slice(&(end as u32).to_le_bytes());
        bytes[0x48..0x4C].copy_from_slice(&(log.len() as u32).to_le_bytes());
        for (at, new) in changes {
            bytes[*at..at + new.len()].copy_from_slice(new);
        }
        let sum =
            bytes[..end].chunks_exact(4).map(|chunk| word(chunk, 0)).fold(0, u32::wrapping_add);
        let sum = sum.wrapping_sub(word(bytes, 0x20));
        bytes[0x20..0x24].copy_from_slice(&sum.to_le_bytes());
    }
    drives
}

/// The offset of the first volume, behind two disks.
const INTEL_VOLUME: usize = 0xD8 + 2 * 48;

#[test]
fn what_changes_where_or_whether_intels_data_are_valid_is_known_or_refused_by_name() {
    assert_eq!(found(&intel(&[], &[])).state, State::Complete);
    for (at, value, expected) in [
        (0x34, 0x8000_0020_u32, "copies on demand (0x20)"),
        (0x34, 0x8200_0001, "a cache on flash memory (0x2000000)"),
        (0x34, 0x8000_0108, "RAID 1E (0x8), 0x100"),
        (INTEL_VOLUME + 24, 0x400, "a copy that is updated only on request (status 0x400)"),
        (INTEL_VOLUME + 40, 0x0001_0000, "a cache on flash memory (mode 1)"),
    ] {
        let refused = found(&intel(&[(at, &value.to_le_bytes())], &[]));
        assert_eq!(refused.state, State::NotReadable, "{expected}");
        assert!(refused.reasons.iter().any(|why| why.contains(expected)), "{:?}", refused.reasons);
    }
    let known = 0xEC00_00D7_u32;
    assert_eq!(found(&intel(&[(0x34, &known.to_le_bytes())], &[])).state, State::Complete);
}

fn bad_block_log(entries: &[(u8, u8, u32)]) -> Vec<u8> {
    let mut log = 0xABAD_B10C_u32.to_le_bytes().to_vec();
    log.extend((entries.len() as u32).to_le_bytes());
    for (count, disk, first) in entries {
        log.extend([*count, *disk, 0, 0]);
        log.extend(first.to_le_bytes());
    }
    log
}

#[test]
fn intels_bad_block_log_is_of_the_disks_that_it_names() {
    let log = bad_block_log(&[(7, 1, 4096), (0, 1, 100)]);
    let with = found(&intel(&[], &log));
    let named: Vec<_> =
        with.members.iter().filter(|member| !member.unreadable.is_empty()).collect();
    assert_eq!((named.len(), named[0].drive), (1, Some(1)), "the second disk is the second drive");
    assert_eq!(named[0].unreadable, [sectors(100, 101), sectors(4096, 4104)]);
    assert!(
        with.reasons[0].contains("disk1 has a list of bad blocks: its sectors 100, 4096 to 4103")
    );
    for (log, expected) in [
        (bad_block_log(&[(7, 2, 4096)]), "entry 0 is of disk 2, and there are 2"),
        ([&[0; 4][..], &bad_block_log(&[(7, 1, 4096)])[4..]].concat(), "begins with 0x0"),
        (bad_block_log(&[(7, 1, 4096)])[..12].to_vec(), "has 1 entries"),
    ] {
        let damaged = found(&intel(&[], &log));
        assert_eq!(damaged.state, State::NotReadable);
        assert_eq!(standings(&damaged), ["excluded", "excluded"]);
        assert!(damaged.reasons[0].contains(expected), "{:?}", damaged.reasons);
    }
}
