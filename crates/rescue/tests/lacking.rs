//! Members with bad blocks, truncated members, members copied to larger drives, and drives with
//! other data besides. Every sector is right or gives an I/O error, and anomalies are reported as
//! sentences.
//!
//! Sector `n` of each array is 32 times the text `LBA=` and `n` in twelve decimal digits.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test brings the files that env is to open"
)]

mod arrays;

use arrays::{Unpacked, named, on_a_shard, packed_as, serve, unpack};
use engine::VolumeDrive;
use ondisk::foreign::{Standing, State};
use platform::{Buf, Drive, Env, Member};
use rescue::{Scan, scan};
use std::io::{Read, Seek, SeekFrom, Write};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

const SUPERBLOCK: u64 = 4096;

fn array(name: &str, purpose: &str) -> Option<Unpacked> {
    unpack(&packed_as(name), purpose)
}

fn change(file: &str, at: u64, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

fn bytes_of(file: &str, at: u64, len: usize) -> Vec<u8> {
    let mut file = std::fs::File::open(file).unwrap();
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut bytes).unwrap();
    bytes
}

fn resize(file: &str, by: i64) {
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size.checked_add_signed(by).unwrap()).unwrap();
}

/// Gives a member of version 1.2 a list of bad blocks, counted from the beginning of its data, and
/// overwrites these blocks on the drive.
fn add_list(drive: &str, runs: &[(u64, u64)]) {
    let mut superblock = bytes_of(drive, SUPERBLOCK, 4096);
    let data = u64::from_le_bytes(superblock[128..136].try_into().unwrap());
    superblock[8] |= 8;
    superblock[185..192].copy_from_slice(&[0, 8, 0, 16, 0, 0, 0]);
    superblock[216..220].fill(0);
    let roles = u32::from_le_bytes(superblock[220..224].try_into().unwrap()) as usize;
    let word =
        |word: &[u8]| word.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let sum: u64 = superblock[..256 + 2 * roles].chunks(4).map(word).sum();
    superblock[216..220]
        .copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
    change(drive, SUPERBLOCK, &superblock);
    let mut list = Vec::new();
    for (first, count) in runs {
        list.extend(((data + first) << 10 | count).to_le_bytes());
        change(drive, (data + first) * 512, &b"RUBBISH!".repeat(64 * *count as usize));
    }
    list.resize(4096, 0xFF);
    change(drive, SUPERBLOCK + 16 * 512, &list);
}

/// Runs of sectors with wrong content and no error, and runs of unreadable sectors.
async fn outcome(env: &Env, drive: Rc<VolumeDrive>) -> (Vec<(u64, u64)>, Vec<(u64, u64)>) {
    const PIECE: u64 = 256 << 10;
    let size = drive.info().size.0;
    let member = Member::new(env, drive);
    let (mut wrong, mut unread) = (Vec::new(), Vec::new());
    let add = |runs: &mut Vec<(u64, u64)>, sector: u64| match runs.last_mut() {
        Some((_, end)) if *end == sector => *end += 1,
        _ => runs.push((sector, sector + 1)),
    };
    for at in (0..size).step_by(PIECE as usize) {
        let len = PIECE.min(size - at);
        let read = async |at: u64, len: u64| {
            let buf = Buf::unpooled(ByteCount(len));
            let outcome = member.read(ByteOffset(at), [buf].into_iter().collect()).await;
            outcome.result.is_ok().then(|| outcome.buffers[0].bytes().to_vec())
        };
        let mut pieces = vec![(at, read(at, len).await)];
        if pieces[0].1.is_none() {
            pieces.clear();
            for at in (at..at + len).step_by(512) {
                pieces.push((at, read(at, 512).await));
            }
        }
        for (at, bytes) in pieces {
            let Some(bytes) = bytes else {
                add(&mut unread, at / 512);
                continue;
            };
            for (number, sector) in (at / 512..).zip(bytes.chunks(512)) {
                let expected = format!("LBA={number:012}");
                if !sector.chunks(16).all(|text| text == expected.as_bytes()) {
                    add(&mut wrong, number);
                }
            }
        }
    }
    (wrong, unread)
}

/// All reports: of the first volume, then of drives.
fn said(scan: &Scan) -> String {
    let volume = scan.volumes.first().into_iter();
    let others = volume
        .clone()
        .flat_map(|volume| volume.found.others.iter().map(|other| other.reason.clone()));
    let reasons = volume.flat_map(|volume| volume.found.reasons.iter().cloned());
    let drives = scan.drives.iter();
    let notes = drives
        .flat_map(|drive| drive.told.notes.iter().map(|note| format!("{} {note}", drive.name)));
    others.chain(reasons).chain(notes).collect::<Vec<_>>().join("\n")
}

fn expect_said(scan: &Scan, expected: &[&str]) {
    let said = said(scan);
    for expected in expected {
        assert!(said.contains(expected), "no '{expected}' in:\n{said}");
    }
}

/// Checks the state, and that all sectors are right, with any set of drives.
async fn expect_right(env: &Env, scan: &Scan, state: State) {
    assert_eq!(scan.volumes.len(), 1, "{}", said(scan));
    assert_eq!(scan.volumes[0].found.state, state, "{}", said(scan));
    let volume = serve(env, scan).await.remove(0);
    assert_eq!(outcome(env, volume).await, (vec![], vec![]));
}

/// Regression: rescue returned the content of a member's bad blocks as data, without a report.
#[test]
fn bad_blocks_of_a_member_are_computed_or_give_errors_and_no_other_sector_does() {
    let Some(array) = array("raid6-5-left-symmetric", "bad") else { return };
    let (array, zero, two) = on_a_shard(async move |env| {
        // Row 16 has parity on slots 3 and 4, data on 0, 1 and 2.
        let plain = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let drive_of = |slot: usize| plain.volumes[0].found.members[slot].drive.unwrap();
        let [zero, one, two] = [0, 1, 2].map(drive_of);
        drop(plain);
        add_list(&array.drives[one], &[(16 * 128, 8)]);
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        expect_said(&all, &["disk1.img has a list of bad blocks: its sectors "]);
        expect_right(&env, &all, State::Complete).await;
        (array, zero, two)
    });
    on_a_shard(async move |env| {
        let out: DriveSet = [zero, two].map(|drive| DriveIndex(drive as u16)).into_iter().collect();
        let without = scan(&env, &named(&array, &out)).await;
        assert_eq!(without.volumes[0].found.state, State::Degraded);
        let volume = serve(&env, &without).await.remove(0);
        let row = 16 * 3 * 128;
        let lost = [0, 128, 256].map(|strip| (row + strip, row + strip + 8));
        assert_eq!(outcome(&env, volume.clone()).await, (vec![], lost.to_vec()));
        assert_eq!(outcome(&env, volume).await, (vec![], lost.to_vec()), "a second time");
    });
}

#[test]
fn bad_blocks_of_a_volume_in_several_pieces_give_errors_and_no_other_sector_does() {
    let Some(array) = array("linear-3", "bad") else { return };
    on_a_shard(async move |env| {
        let plain = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let found = &plain.volumes[0].found;
        let (before, second) =
            (found.sections[0].within.len.0 / 512, found.members[1].drive.unwrap());
        drop(plain);
        add_list(&array.drives[second], &[(100, 3), (5000, 1)]);
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let volume = serve(&env, &all).await.remove(0);
        let lost = vec![(before + 100, before + 103), (before + 5000, before + 5001)];
        assert_eq!(outcome(&env, volume).await, (vec![], lost));
    });
}

#[test]
fn a_member_whose_list_of_bad_blocks_is_damaged_is_not_read() {
    let Some(array) = array("raid6-5-left-symmetric", "list") else { return };
    on_a_shard(async move |env| {
        add_list(&array.drives[1], &[(2048, 8)]);
        change(&array.drives[1], SUPERBLOCK + 16 * 512, &[0; 4096]);
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let excluded =
            all.volumes[0].found.members.iter().find(|member| member.drive == Some(1)).unwrap();
        assert_eq!(excluded.standing, Standing::Excluded);
        expect_said(
            &all,
            &["disk1.img is excluded: its list of bad blocks is damaged: entry 0 names 0 units"],
        );
        expect_right(&env, &all, State::Degraded).await;
    });
}

#[test]
fn members_that_were_copied_to_larger_drives_are_found() {
    for (name, by, expected) in [
        ("raid5-4-meta1.0", 8 << 20, "holds a Linux md 1.0 superblock 8200 KiB before its end"),
        ("raid5-4-meta0.90", 8 << 20, "holds a Linux md 0.90 superblock 8256 KiB before its end"),
        ("imsm-raid5-4", 1 << 20, "holds Intel RAID metadata 1025 KiB before its end"),
    ] {
        for grown in [1, 4] {
            let Some(array) = array(name, &format!("larger-{grown}")) else { return };
            on_a_shard(async move |env| {
                array.drives[..grown].iter().for_each(|drive| resize(drive, by));
                let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
                expect_said(&all, &[&format!("disk{}.img {expected}", grown - 1)]);
                expect_right(&env, &all, State::Complete).await;
            });
        }
    }
}

#[test]
fn metadata_of_ddf_on_larger_drives_are_found_and_named() {
    let Some(array) = array("ddf-two-vols", "larger") else { return };
    on_a_shard(async move |env| {
        let before = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let (count, state) = (before.volumes.len(), before.volumes[0].found.state);
        drop(before);
        array.drives.iter().for_each(|drive| resize(drive, 1 << 20));
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        assert_eq!((all.volumes.len(), all.volumes[0].found.state), (count, state));
        expect_said(&all, &["disk0.img holds its DDF anchor ", "disk3.img holds its DDF anchor "]);
        for volume in serve(&env, &all).await {
            assert_eq!(outcome(&env, volume).await, (vec![], vec![]));
        }
    });
}

#[test]
fn a_size_that_is_named_has_metadata_found_beyond_what_is_searched() {
    for name in ["raid5-4-meta1.0", "raid5-4-meta0.90", "imsm-raid5-4"] {
        let Some(array) = array(name, "size-was") else { return };
        on_a_shard(async move |env| {
            let was = std::fs::metadata(&array.drives[1]).unwrap().len();
            resize(&array.drives[1], 48 << 20);
            let without = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
            assert_eq!(without.volumes[0].found.state, State::Degraded, "{name}");
            assert!(said(&without).contains("missing"), "{}", said(&without));
            drop(without);
            let sized = |size: u64| {
                let mut named = named(&array, &DriveSet::EMPTY);
                named[1].size_was = Some(ByteCount(size));
                named
            };
            let odd = scan(&env, &sized(was + 1)).await;
            let trouble = odd.drives[1].trouble.clone().unwrap();
            assert!(trouble.contains("no whole number of its sectors of 512"), "{trouble}");
            drop(odd);
            let more = scan(&env, &sized(was + (64 << 20))).await;
            expect_said(
                &more,
                &["of --size-was, and is read as it is; no metadata of an array were found"],
            );
            drop(more);
            let all = scan(&env, &sized(was)).await;
            expect_said(&all, &["disk1.img is read as a drive of "]);
            expect_right(&env, &all, State::Complete).await;
        });
    }
}

#[test]
fn a_member_that_was_cut_off_is_named_and_what_it_lacks_is_computed() {
    let Some(array) = array("raid6-5-left-symmetric", "cut") else { return };
    let array = on_a_shard(async move |env| {
        resize(&array.drives[2], -65536);
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        expect_said(&all, &["disk2.img is truncated: its data end at ", ", 64 KiB less; "]);
        expect_right(&env, &all, State::Complete).await;
        array
    });
    on_a_shard(async move |env| {
        std::fs::OpenOptions::new()
            .write(true)
            .open(&array.drives[2])
            .unwrap()
            .set_len(65_536)
            .unwrap();
        let rest = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        expect_said(&rest, &["disk2.img is excluded: it is truncated before its data"]);
        expect_right(&env, &rest, State::Degraded).await;
    });
}

#[test]
fn the_rest_of_ddf_metadata_beside_those_of_intel_is_told_and_not_used() {
    let Some(array) = array("imsm-raid1-2", "rest") else { return };
    let Some(other) = array_of_ddf() else { return };
    on_a_shard(async move |env| {
        let end = std::fs::metadata(&other.drives[0]).unwrap().len();
        let anchor = bytes_of(&other.drives[0], end - 512, 512);
        for drive in &array.drives {
            change(drive, std::fs::metadata(drive).unwrap().len() - 512, &anchor);
        }
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let expected = "disk0.img holds remains of DDF metadata in addition to those of imsm \
                        1.1.00, which are used (";
        expect_said(&all, &[expected]);
        expect_right(&env, &all, State::Complete).await;
    });
}

fn array_of_ddf() -> Option<Unpacked> {
    array("ddf-two-vols", "anchor")
}

/// A partition table with partitions from one sector to another, without its backup.
fn partition_table(partitions: &[(u64, u64)]) -> Vec<u8> {
    let mut table = vec![0; 34 * 512];
    table[446 + 4] = 0xEE;
    table[446 + 8..446 + 16].copy_from_slice(&[1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    table[510..512].copy_from_slice(&[0x55, 0xAA]);
    table[512..520].copy_from_slice(b"EFI PART");
    table[512 + 72..512 + 80].copy_from_slice(&2_u64.to_le_bytes());
    table[512 + 80..512 + 84].copy_from_slice(&128_u32.to_le_bytes());
    table[512 + 84..512 + 88].copy_from_slice(&128_u32.to_le_bytes());
    for (index, (first, last)) in partitions.iter().enumerate() {
        let entry = &mut table[1024 + 128 * index..][..128];
        entry[..16].fill(7);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    table
}

#[test]
fn members_in_the_last_partition_of_their_drives_are_found() {
    let Some(array) = array("raid5-4-meta1.0", "gpt") else { return };
    on_a_shard(async move |env| {
        for drive in &array.drives {
            let member = std::fs::read(drive).unwrap();
            let last = 4096 + member.len() as u64 / 512 - 1;
            let mut whole = partition_table(&[(2048, 4095), (4096, last)]);
            whole.resize(2 << 20, 0);
            whole.extend(member);
            // The backup of the table.
            whole.resize(whole.len() + 33 * 512, 0);
            std::fs::write(drive, whole).unwrap();
        }
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        assert_eq!(all.drives[0].name, format!("{} partition 2", array.drives[0]));
        expect_right(&env, &all, State::Complete).await;
    });
}

#[test]
fn a_superblock_that_is_damaged_or_overwritten_by_a_table_of_partitions_is_told() {
    let Some(array) = array("raid6-5-left-symmetric", "overwritten") else { return };
    on_a_shard(async move |env| {
        change(&array.drives[3], 0, &partition_table(&[(2048, 30_000)]));
        change(&array.drives[1], SUPERBLOCK + 0x40, &[0xFF]);
        let all = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        expect_said(
            &all,
            &[
                "disk1.img holds a Linux md 1.2 superblock, and its checksum is wrong",
                "disk3.img holds a partition table, and no array metadata outside or inside the \
                 partitions",
                "member 1 (1) is missing",
                "member 3 (3) is missing",
            ],
        );
        expect_right(&env, &all, State::Degraded).await;
    });
}

#[test]
fn of_a_member_and_its_copy_neither_is_used() {
    let Some(array) = array("raid6-5-left-symmetric", "copy") else { return };
    on_a_shard(async move |env| {
        let copy = format!("{}/copy.img", array.folder.display());
        std::fs::copy(&array.drives[0], &copy).unwrap();
        let mut named = named(&array, &DriveSet::EMPTY);
        named.push(rescue::Named { name: copy, serial: None, size_was: None });
        let all = scan(&env, &named).await;
        expect_said(
            &all,
            &["carry the same drive identity and are equally new, so neither is used"],
        );
        assert_eq!(all.volumes[0].found.members[0].standing, Standing::Missing);
        expect_right(&env, &all, State::Degraded).await;
    });
}
