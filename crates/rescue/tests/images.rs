//! Reads arrays of Linux md without Linux md: every sector has the right content with any set of
//! missing drives that the level survives.
//!
//! Sector `n` of each array is 32 times the text `LBA=` and `n` in twelve decimal digits, except
//! those overwritten with zeros later ([`ZEROED`]). A sample of arrays is in `images/`, packed;
//! with `RESCUE_IMAGES=DIR` all `*.tar.xz` in that folder are read instead.
//!
//! Names that begin with `imsm`: made by `mdadm -e imsm` on drives with serial numbers from
//! `REFDISK0001`; with two volumes, each has its own sectors from 0.
//!
//! Names that end with `-backup`: a reset stopped the machine during `mdadm --grow --backup-file`,
//! with `-n 5` in its first stripes and after them, and with `-c 128`; `backup` is that file. mdadm
//! 4.2 does not limit a reshape to the saved range. The last image was edited by hand to what a
//! correct mdadm leaves: the members after that range, and the saved bytes after the file's header.
//! Linux md (`mdadm --assemble --backup-file`) reads the whole pattern in all of them.
//!
//! Names that end with `-half`: `mdadm --grow` (`-n 5`, `-l 6 -n 5`, `-c 128`; `-n 4` after
//! `--array-size`) was stopped halfway by `frozen` in `md/sync_action`; members of 48 MiB with
//! `--data-offset=8M`.

#![expect(clippy::disallowed_methods, reason = "the test brings the files that env is to open")]

mod arrays;

use arrays::{Unpacked, named, on_a_shard, serve, unpack};
use engine::{VolumeDrive, VolumeId};
use ondisk::foreign::{FoundVolume, Standing, State};
use platform::{Buf, Drive, Env, Member};
use rescue::{Scan, ScannedDrive, assemble, scan, with_backup};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

fn packed() -> Vec<PathBuf> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let folder = std::env::var_os("RESCUE_IMAGES").map_or_else(own, PathBuf::from);
    let files =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".tar.xz"));
    files.sort();
    assert!(!files.is_empty(), "no images in {}", folder.display());
    files
}

/// Runs of sectors with wrong content.
async fn wrong_sectors(
    env: &Env,
    drive: Rc<VolumeDrive>,
    zeroed: &std::ops::Range<u64>,
) -> Vec<(u64, u64)> {
    const PIECE: u64 = 512 << 10;
    let size = drive.info().size.0;
    let member = Member::new(env, drive);
    let mut wrong: Vec<(u64, u64)> = Vec::new();
    for at in (0..size).step_by(PIECE as usize) {
        let buf = Buf::unpooled(ByteCount(PIECE.min(size - at)));
        let outcome = member.read(ByteOffset(at), [buf].into_iter().collect()).await;
        outcome.result.unwrap_or_else(|error| panic!("at byte {at}: {error}"));
        for (index, sector) in (0..).zip(outcome.buffers[0].bytes().chunks(512)) {
            let number = at / 512 + index;
            let expected = format!("LBA={number:012}");
            let expected =
                if zeroed.contains(&number) { [0; 16].as_slice() } else { expected.as_bytes() };
            if sector.chunks(16).all(|text| text == expected) {
                continue;
            }
            match wrong.last_mut() {
                Some((_, end)) if *end == number => *end += 1,
                _ => wrong.push((number, number + 1)),
            }
        }
    }
    wrong
}

/// The volumes that are found without some of the drives.
fn without(drives: &[ScannedDrive], left_out: &DriveSet) -> Scan {
    let is_there = |number: &u16| !left_out.contains(DriveIndex(*number));
    let kept = (0..).zip(drives).filter(|(number, _)| is_there(number));
    assemble(kept.map(|(_, drive)| drive.clone()).collect())
}

/// Reads an array without each set of drives that it may miss, the empty set first; returns their
/// number.
fn read_without_every_set_that_may_be_missed(array: Unpacked) -> usize {
    on_a_shard(async move |env| {
        let mut complete = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        take_backup(&env, &array, &mut complete).await;
        assert!(!complete.volumes.is_empty(), "{}: nothing found", array.name);
        let mut read = 0;
        for bits in 0..1_u32 << array.drives.len() {
            let numbers = (0..32).filter(|number| bits >> number & 1 == 1).map(DriveIndex);
            let left_out: DriveSet = numbers.collect();
            if !complete.volumes.iter().all(|volume| may_miss(&volume.found, &left_out)) {
                continue;
            }
            let mut scan = without(&complete.drives, &left_out);
            take_backup(&env, &array, &mut scan).await;
            let told: Vec<usize> = left_out.iter().map(|drive| drive.as_usize()).collect();
            let why = format!("{} without {told:?}", array.name);
            let volumes = serve(&env, &scan).await;
            assert_eq!(volumes.len(), complete.volumes.len(), "{why}");
            for (volume, whole) in volumes.into_iter().zip(&complete.volumes) {
                assert_eq!(volume.info().size, whole.found.capacity(), "{why}");
                check(
                    &array.name,
                    !left_out.is_empty(),
                    &wrong_sectors(&env, volume, &zeroed(&array)).await,
                    &why,
                );
            }
            read += 1;
        }
        read
    })
}

/// The backup file of mdadm, if the image has one.
fn backup(array: &Unpacked) -> Option<String> {
    let file = array.folder.join("backup");
    file.exists().then(|| file.to_str().unwrap().to_owned())
}

/// A scan holds the file while it is open, so each scan gets a copy.
async fn take_backup(env: &Env, array: &Unpacked, scan: &mut Scan) {
    let Some(file) = backup(array) else { return };
    let copy = (0..)
        .map(|number| format!("{file}-{number}"))
        .find(|copy| !Path::new(copy).exists())
        .unwrap();
    std::fs::copy(&file, &copy).unwrap();
    with_backup(env, scan, &copy).await.unwrap();
}

/// Checks that only the permitted sectors are wrong.
fn check(name: &str, is_degraded: bool, wrong: &[(u64, u64)], why: &str) {
    if name == "raid5-4-crash-dirty" && is_degraded {
        // The machine was reset while these sectors were overwritten with zeros. Their stripe can
        // be reconstructed only if parity had been written too.
        let is_in_stripe = wrong.iter().all(|(from, to)| 768 <= *from && *to <= 1152);
        assert!(is_in_stripe && wrong.len() <= 2, "{why}: {wrong:?}");
        return;
    }
    let written =
        LONGER.iter().find(|(longer, _)| *longer == name).map_or(u64::MAX, |(_, sectors)| *sectors);
    assert!(wrong.iter().all(|(from, _)| *from >= written), "{why}: {wrong:?}");
}

fn zeroed(array: &Unpacked) -> std::ops::Range<u64> {
    let found = ZEROED.into_iter().find(|(name, _)| *name == array.name);
    found.map_or(0..0, |(_, sectors)| sectors)
}

/// Arrays whose metadata give another size than was written to the members, in sectors.
const LONGER: [(&str, u64); 1] = [("ddf-raid10-5-n2", 65_536)];

/// Sectors that were overwritten with zeros later: after a member was removed, which still has the
/// old content, and just before the machine was reset.
const ZEROED: [(&str, std::ops::Range<u64>); 3] = [
    ("raid5-4-stale-member", 1024..4096),
    ("ddf-raid5-4-failed", 1024..4096),
    ("raid5-4-crash-dirty", 800..824),
];

/// Whether a volume is readable without these drives, and its metadata are complete without them.
fn may_miss(found: &FoundVolume, left_out: &DriveSet) -> bool {
    let is_left_out =
        |drive: usize| u16::try_from(drive).is_ok_and(|drive| left_out.contains(DriveIndex(drive)));
    let is_current = |standing| standing == Standing::Current;
    let gone = found
        .members
        .iter()
        .filter(|member| !is_current(member.standing) || member.drive.is_some_and(is_left_out));
    let gone: DriveSet = gone.map(|member| DriveIndex(member.slot)).collect();
    found.survives(&gone)
}

#[test]
fn every_sector_reads_as_it_was_written_whichever_drives_may_be_missing() {
    let mut sets = 0;
    let mut arrays = 0;
    for file in packed() {
        let Some(array) = unpack(&file, "all") else { return };
        sets += read_without_every_set_that_may_be_missed(array);
        arrays += 1;
    }
    assert!(arrays >= 12 && sets >= 55, "{arrays} arrays in {sets} states");
}

#[test]
fn a_stale_member_is_not_read() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/raid5-4-stale-member.tar.xz");
    let Some(array) = unpack(&file, "stale") else { return };
    on_a_shard(async move |env| {
        let with = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        assert_eq!(with.volumes[0].found.members[2].standing, Standing::Stale);
        let attachment = rescue::attachment(&with, &with.volumes[0], VolumeId(0)).unwrap();
        let there: Vec<bool> = attachment.sources.iter().map(Option::is_some).collect();
        assert_eq!(there, [true, true, false, true]);
        let alone = without(&with.drives, &DriveSet::EMPTY.with(DriveIndex(0)));
        assert_eq!(alone.volumes[0].found.state, State::NotReadable);
        assert!(rescue::attachment(&alone, &alone.volumes[0], VolumeId(0)).is_err());
    });
}

/// The drives are opened read-only, so that a user without write permission can read them.
#[test]
fn nothing_can_be_written() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/raid5-4-stale-member.tar.xz");
    let Some(array) = unpack(&file, "read-only") else { return };
    let before: Vec<Vec<u8>> =
        array.drives.iter().map(|drive| std::fs::read(drive).unwrap()).collect();
    let drives = array.drives.clone();
    on_a_shard(async move |env| {
        let found = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        for link in std::fs::read_dir("/proc/self/fd").unwrap() {
            let link = link.unwrap();
            let Ok(target) = std::fs::read_link(link.path()) else { continue };
            if array.drives.iter().any(|drive| Path::new(drive) == target) {
                let number = link.file_name().into_string().unwrap();
                let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
                let flags =
                    flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
                assert_eq!(
                    u32::from_str_radix(flags, 8).unwrap() & 3,
                    0,
                    "{target:?} is open for writing"
                );
            }
        }
        let source = found.drives[0].source.clone().unwrap();
        assert!(source.info().read_only);
        let member = Member::new(&env, source.attach(&env).unwrap());
        let slices = [platform::Slice::zero(ByteCount(4096))].into_iter().collect();
        assert!(
            member
                .write(ByteOffset(0), slices, platform::Durability::Durable)
                .await
                .result
                .is_err()
        );
        let volume = serve(&env, &found).await.remove(0);
        let member = Member::new(&env, volume);
        let slices = [platform::Slice::zero(ByteCount(4096))].into_iter().collect();
        assert!(
            member
                .write(ByteOffset(0), slices, platform::Durability::Durable)
                .await
                .result
                .is_err()
        );
        // Dropping the array deletes its folder.
        let after: Vec<Vec<u8>> =
            drives.iter().map(|drive| std::fs::read(drive).unwrap()).collect();
        assert!(before == after, "a drive has changed");
    });
}

/// Regression: the engine tried to repair unreadable blocks on read-only drives. It marked the
/// region of the failed write unsynced, and could not reconstruct its missing blocks afterwards. A
/// read-only drive is not repaired.
///
/// One member is a partition of its drive, one image is truncated, a third drive is missing: RAID 6
/// tolerates that.
#[test]
fn partitions_are_found_and_what_a_drive_cannot_read_is_computed() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/raid6-5-left-symmetric.tar.xz");
    let Some(array) = unpack(&file, "partition") else { return };
    let member = std::fs::read(&array.drives[0]).unwrap();
    let mut drive = vec![0; 1 << 20];
    let sectors = u32::try_from(member.len() / 512).unwrap();
    drive[446 + 4] = 0xFD;
    drive[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    drive[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
    drive[510..512].copy_from_slice(&[0x55, 0xAA]);
    drive.extend(member);
    std::fs::write(&array.drives[0], drive).unwrap();
    let mut cut_off = std::fs::read(&array.drives[1]).unwrap();
    cut_off.truncate(cut_off.len() - (4 << 20) - 512);
    std::fs::write(&array.drives[1], cut_off).unwrap();
    on_a_shard(async move |env| {
        let found = scan(&env, &named(&array, &DriveSet::EMPTY.with(DriveIndex(2)))).await;
        assert_eq!(found.drives[0].name, format!("{} partition 1", array.drives[0]));
        let standings: Vec<_> =
            found.volumes[0].found.members.iter().map(|member| member.standing).collect();
        let expected = [
            Standing::Current,
            Standing::Current,
            Standing::Missing,
            Standing::Current,
            Standing::Current,
        ];
        assert_eq!(standings, expected);
        let volume = serve(&env, &found).await.remove(0);
        assert_eq!(wrong_sectors(&env, volume.clone(), &(0..0)).await, []);
        // A second read: a block that could not be repaired has failed no drive.
        assert_eq!(wrong_sectors(&env, volume, &(0..0)).await, []);
    });
}

/// Inconsistent backup files: the change to the file, and the error.
#[test]
fn a_backup_of_another_array_or_moment_or_a_damaged_one_is_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/images/raid5-4-chunk64to128-backup.tar.xz");
    let Some(array) = unpack(&file, "backup") else { return };
    on_a_shard(async move |env| {
        let file = backup(&array).unwrap();
        let sound = std::fs::read(&file).unwrap();
        let plain = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        let why = plain.volumes[0].found.reasons.join("; ");
        assert!(
            plain.volumes[0].found.state == State::NotReadable && why.contains("--backup-file"),
            "{why}"
        );
        drop(plain);
        let number = |at: usize| u64::from_le_bytes(sound[at..at + 8].try_into().unwrap());
        // Sectors: the position of each saved range in the volume.
        let stretches = [(48, 56), (80, 88)].into_iter().filter(|(_, len)| number(*len) > 0);
        let stretches: Vec<(usize, usize)> = stretches.collect();
        let moved = |change: fn(u64) -> u64| {
            let mut bytes = sound.clone();
            for (at, _) in &stretches {
                bytes[*at..at + 8].copy_from_slice(&change(number(*at)).to_le_bytes());
            }
            bytes
        };
        let with = |at: usize, new: &[u8]| {
            let mut bytes = sound.clone();
            bytes[at..at + new.len()].copy_from_slice(new);
            bytes
        };
        let (written, hours) = (number(32), 60 * 60);
        let cases: [(Vec<u8>, &str); 11] = [
            (with(16, &[0xAB]), "is of another array"),
            (with(0, b"X"), "does not begin with md_backup_data"),
            (with(64, &[0]), "its header contradicts itself"),
            (with(400, &[1]), "its header contradicts itself"),
            (with(40, &[9]), "its header contradicts itself"),
            (vec![0; sound.len()], "is empty"),
            (sound[..sound.len() / 4 / 4096 * 4096].to_vec(), "is truncated"),
            (moved(|at| at + 30 * 768), "it does not match"),
            (moved(|at| at + 1), "which are no stripes of the array"),
            (with(32, &(written - 3 * hours).to_le_bytes()), "before the array's metadata"),
            (with(32, &(written + hours).to_le_bytes()), "after the array's metadata"),
        ];
        for (bytes, expected) in cases {
            std::fs::write(&file, bytes).unwrap();
            let mut found = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
            let why = with_backup(&env, &mut found, &file).await.err().unwrap_or_default();
            assert!(why.contains(expected), "no '{expected}' in: {why}");
            assert_eq!(found.volumes[0].found.state, State::NotReadable, "{expected}");
        }
        // With zeros in the file the sectors are wrong: they are read from the file, so the test
        // can fail.
        let zeroes = [&sound[..4096], &vec![0; sound.len() - 4096]].concat();
        std::fs::write(&file, zeroes).unwrap();
        let mut found = scan(&env, &named(&array, &DriveSet::EMPTY)).await;
        with_backup(&env, &mut found, &file).await.unwrap();
        let volume = serve(&env, &found).await.remove(0);
        assert!(!wrong_sectors(&env, volume, &(0..0)).await.is_empty(), "it is read from the file");
    });
}
