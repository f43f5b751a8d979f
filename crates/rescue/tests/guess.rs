//! Arrays without metadata: the layout is found from the data on their drives, or the guess reports
//! that it is ambiguous.
//!
//! The images are those of `images.rs`, with zeros over everything but the volumes' data. A sample
//! is in the repository; `RESCUE_IMAGES=DIR` takes all of a folder, as there. Intel's arrays are
//! also taken unchanged except for the drives' serial numbers.

#![expect(clippy::disallowed_methods, reason = "the test brings the files that env is to open")]

use layout::{CopyIndex, DataIndex, Geometry, Level, ParityArrangement, ParityIndex, Shape};
use platform::{DriveSource, Env};
use platform_linux::{Settings, Shard};
use rescue::{Candidate, Guess, Named, Sureness, guess, places, scan};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{ByteCount, ByteOffset, DriveCount, StripSize, StripeIndex};

/// Drives in a temporary folder, which is removed on drop.
struct Drives {
    name: String,
    folder: PathBuf,
    paths: Vec<String>,
}

impl Drop for Drives {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folder(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    // Concurrent tests use the same arrays.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = parent.join(format!("guess-{}-{number}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn packed() -> Vec<PathBuf> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let folder = std::env::var_os("RESCUE_IMAGES").map_or_else(own, PathBuf::from);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    // An interrupted reshape has two layouts at once, so a guess cannot be right.
    let is_one = |name: &str| {
        name.ends_with(".tar.xz")
            && !["-half", "-backup"].iter().any(|half| name.ends_with(&format!("{half}.tar.xz")))
    };
    files.retain(|file| is_one(&file.to_string_lossy()));
    files.sort();
    files
}

fn unpack(file: &Path) -> Option<Drives> {
    let name = file.file_name().unwrap().to_string_lossy().replace(".tar.xz", "");
    let folder = folder(&name);
    let unpacked = Command::new("tar").arg("-xJSf").arg(file).arg("-C").arg(&folder).status();
    let path = |number: usize| folder.join(format!("disk{number}.img"));
    let paths = (0..)
        .map(path)
        .take_while(|path| path.exists())
        .map(|path| path.to_str().unwrap().to_owned());
    let drives = Drives { name, paths: paths.collect(), folder: folder.clone() };
    if unpacked.is_ok_and(|status| status.success()) {
        return Some(drives);
    }
    test_tools::not_installed("tar or xz");
    None
}

fn on_a_shard<T: 'static>(work: impl AsyncFnOnce(Env) -> T + 'static) -> T {
    let shard = Shard::new(&Settings::with_memory(ByteCount(64 << 20))).unwrap();
    let env = shard.env().clone();
    shard.run(async move { work(env).await })
}

/// Overwrites everything but the members' data with zeros.
async fn forget_metadata(env: &Env, drives: &Drives) {
    let serial = |number: usize| {
        drives.name.starts_with("imsm").then(|| format!("REFDISK{:04}", number + 1))
    };
    let named = drives.paths.iter().enumerate();
    let named: Vec<Named> = named
        .map(|(number, name)| Named { name: name.clone(), serial: serial(number), size_was: None })
        .collect();
    let found = scan(env, &named).await;
    for (number, path) in drives.paths.iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        let members = found.volumes.iter().flat_map(|volume| {
            let size = volume.found.sections.iter().map(|section| section.member_size.0).max();
            let size = volume.found.record.member_size.map_or(size, |recorded| Some(recorded.0));
            volume.found.members.iter().map(move |member| (member, size))
        });
        let mut kept: Vec<(usize, usize)> = members
            .filter(|(member, _)| member.drive == Some(number))
            .map(|(member, size)| {
                let len = size.unwrap_or(member.data.len.0).min(member.data.len.0);
                (member.data.start.0 as usize, (member.data.start.0 + len) as usize)
            })
            .collect();
        kept.sort_unstable();
        let mut from = 0;
        for (start, end) in kept {
            bytes[from.min(start)..start].fill(0);
            from = end;
        }
        let len = bytes.len();
        bytes[from.min(len)..].fill(0);
        std::fs::write(path, bytes).unwrap();
    }
}

async fn opened(env: &Env, paths: &[String]) -> Vec<Arc<dyn DriveSource>> {
    let mut sources = Vec::new();
    for path in paths {
        sources.push(drives::open_for_reading(env, path).await.unwrap());
    }
    sources
}

/// The number of sampled sectors with the right content, and with wrong content. Sectors of a
/// missing drive and sectors of zeros are skipped.
fn right_and_wrong(candidate: &Candidate, images: &[Vec<u8>]) -> (usize, usize) {
    let (mut right, mut wrong) = (0, 0);
    let geometry = candidate.geometry;
    for number in (0..geometry.capacity().0 / 512).step_by(13) {
        let (stripe, within) = geometry.stripe_of(ByteOffset(number * 512));
        let (index, within) = geometry.strip_of(within);
        let cell = geometry.data_cell(stripe, index, CopyIndex(0));
        let Some(drive) = candidate.order[cell.drive.as_usize()] else { continue };
        let at = (candidate.start.0 + cell.offset.0 + within.0) as usize;
        let sector = &images[drive][at..at + 512];
        if sector.iter().all(|byte| *byte == 0) {
            continue;
        }
        let expected = format!("LBA={number:012}");
        match sector.chunks(16).all(|text| text == expected.as_bytes()) {
            true => right += 1,
            false => wrong += 1,
        }
    }
    (right, wrong)
}

fn is_right(candidate: &Candidate, images: &[Vec<u8>]) -> bool {
    let (right, wrong) = right_and_wrong(candidate, images);
    right > 100 && wrong * 50 < right
}

fn told(guess: &Guess) -> String {
    let mut text = guess.findings.join("\n");
    for candidate in &guess.candidates {
        text += &format!(
            "\n{:7.1} +{:.1} {} {} {:?} from {}: {}",
            candidate.points,
            candidate.margin,
            candidate.sureness.name(),
            candidate.geometry,
            candidate.order,
            candidate.start.0,
            candidate.evidence.join("; ")
        );
    }
    text
}

async fn guessed(env: &Env, paths: &[String]) -> (Guess, Vec<Vec<u8>>) {
    let sources = opened(env, paths).await;
    let found = guess(env, &sources).await.unwrap();
    (found, paths.iter().map(|path| std::fs::read(path).unwrap()).collect())
}

/// Arrays that are not guessed: linear, copies far apart, offset or on an odd number of drives, and
/// drives with two volumes.
const NOT_GUESSED: [&str; 9] = [
    "linear-3",
    "raid10-4-f2",
    "raid10-5-f2",
    "raid10-5-n2",
    "raid10-5-n3",
    "raid10-5-o2",
    "ddf-two-vols",
    "imsm-two-vols",
    "imsm-two-vols-2drives",
];
/// The pattern is so regular that another strip or layout fits as well.
const NOT_TOLD: [&str; 2] = ["raid5-3-left-symmetric", "raid5-4-chunk4"];

/// A guess may fail, but a wrong guess must not be sure.
#[test]
fn arrays_without_metadata_are_laid_out_again_or_it_is_said_that_nobody_can_tell() {
    for file in packed() {
        let Some(array) = unpack(&file) else { return };
        on_a_shard(async move |env| {
            forget_metadata(&env, &array).await;
            let (found, images) = guessed(&env, &array.paths).await;
            let name = array.name.replace("ddf-raid10-5", "raid10-5");
            let Some(best) = found.candidates.first() else {
                assert!(
                    NOT_GUESSED.contains(&&*name) && !found.findings.is_empty(),
                    "{}",
                    array.name
                );
                return;
            };
            let is_right = is_right(best, &images);
            let why = format!("{}:\n{}", array.name, told(&found));
            assert!(is_right || best.sureness < Sureness::Likely, "sure, and wrong: {why}");
            let may_fail = NOT_GUESSED.contains(&&*name) || NOT_TOLD.contains(&&*name);
            assert!(is_right || may_fail, "{why}");
        });
    }
}

#[test]
fn a_drive_may_be_missing_and_the_others_in_any_order() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/raid5-4-meta0.90.tar.xz");
    let Some(array) = unpack(&file) else { return };
    on_a_shard(async move |env| {
        forget_metadata(&env, &array).await;
        let given = [3, 0, 2].map(|drive: usize| array.paths[drive].clone());
        let (found, images) = guessed(&env, &given).await;
        let best = &found.candidates[0];
        assert!(is_right(best, &images) && best.sureness >= Sureness::Weak, "{}", told(&found));
        assert_eq!(best.order, [Some(1), None, Some(2), Some(0)], "{}", told(&found));
        let sources = opened(&env, &given).await;
        assert!(rescue::guessed_attachment(best, &sources, engine::VolumeId(0), "guess").is_ok());
    });
}

/// Writes a volume to drives as the engine does, with parity, each after `start` zero bytes.
fn laid_out(volume: &[u8], geometry: &Geometry, start: usize) -> Vec<Vec<u8>> {
    let strip = geometry.strip().bytes().as_usize();
    let len = start + geometry.member_size().as_usize();
    let mut drives = vec![vec![0; len]; geometry.drives().as_usize()];
    for stripe in (0..geometry.stripes().0).map(StripeIndex) {
        let map = geometry.stripe_map(stripe);
        let mut sum = vec![0; strip];
        for index in (0..geometry.data_strips()).map(DataIndex) {
            let from = geometry.volume_offset(stripe, index, ByteCount(0)).0 as usize;
            let data = &volume[from..from + strip];
            sum.iter_mut().zip(data).for_each(|(sum, byte)| *sum ^= byte);
            let cell = map.data_cell(index, CopyIndex(0));
            let at = start + cell.offset.0 as usize;
            drives[cell.drive.as_usize()][at..at + strip].copy_from_slice(data);
        }
        if let Some(cell) = map.parity_cell(ParityIndex(0)) {
            let at = start + cell.offset.0 as usize;
            drives[cell.drive.as_usize()][at..at + strip].copy_from_slice(&sum);
        }
    }
    drives
}

/// An ext4 file system with this project's sources; `None`, with a message, without mke2fs.
fn ext4(folder: &Path, len: usize) -> Option<Vec<u8>> {
    let image = folder.join("volume.img");
    std::fs::write(&image, vec![0; len]).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-d"]).arg(sources).arg(&image);
    if !command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .status()
        .is_ok_and(|status| status.success())
    {
        test_tools::not_installed("mke2fs");
        return None;
    }
    Some(std::fs::read(image).unwrap())
}

#[test]
fn a_file_system_tells_how_its_volume_lies_on_the_drives() {
    let cases = [
        (
            Level::Raid5,
            Some(ParityArrangement::LeftSymmetric),
            StripSize::KIB_64,
            vec![3, 0, 4, 1, 2],
        ),
        (
            Level::Raid5,
            Some(ParityArrangement::RightAsymmetric),
            StripSize::KIB_64,
            vec![1, 3, 0, 2],
        ),
        (Level::Raid0, None, StripSize::KIB_64, vec![2, 0, 1]),
    ];
    for (number, (level, parity, strip, order)) in cases.into_iter().enumerate() {
        let folder = folder(&format!("ext4-{number}"));
        let shape = Shape { parity, ..Shape::new(level, DriveCount(order.len() as u16)) };
        let geometry = shape.geometry(strip, ByteCount(16 << 20)).unwrap();
        let Some(volume) = ext4(&folder, geometry.capacity().as_usize()) else { return };
        let laid = laid_out(&volume, &geometry, 1 << 20);
        // Position `place` gets the drive of slot `order[place]`.
        let mut paths = Vec::new();
        for (place, slot) in order.iter().enumerate() {
            let path = folder.join(format!("disk{place}.img"));
            std::fs::write(&path, &laid[*slot]).unwrap();
            paths.push(path.to_str().unwrap().to_owned());
        }
        let drives = Drives { name: level.to_string(), folder, paths };
        on_a_shard(async move |env| {
            let (found, _) = guessed(&env, &drives.paths).await;
            let place = |slot: usize| order.iter().position(|own| *own == slot);
            let expected: Vec<Option<usize>> = (0..order.len()).map(place).collect();
            let best = &found.candidates[0];
            let why = told(&found);
            assert_eq!((best.geometry.level(), best.geometry.strip()), (level, strip), "{why}");
            assert_eq!(
                (best.geometry.parity_arrangement(), &best.order),
                (parity, &expected),
                "{why}"
            );
            assert_eq!(best.start.0, 1 << 20, "{why}");
            assert!(best.sureness >= Sureness::Weak, "{why}");
            assert!(best.evidence.iter().any(|one| one.contains("superblock")), "{why}");
        });
    }
}

#[test]
fn drives_that_look_alike_everywhere_are_said_to_be_so() {
    let folder = folder("noise");
    let mut paths = Vec::new();
    let mut state = 1_u64;
    for number in 0..3 {
        let mut bytes = Vec::new();
        while bytes.len() < 4 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        let path = folder.join(format!("disk{number}.img"));
        std::fs::write(&path, bytes).unwrap();
        paths.push(path.to_str().unwrap().to_owned());
    }
    let drives = Drives { name: "noise".into(), folder, paths };
    on_a_shard(async move |env| {
        let (found, _) = guessed(&env, &drives.paths).await;
        assert!(
            found.candidates.iter().all(|one| one.sureness < Sureness::Likely),
            "{}",
            told(&found)
        );
        assert!(
            found.findings.iter().any(|said| said.contains("nothing tells")),
            "{}",
            told(&found)
        );
    });
}

/// Intel's arrays in `images/`; their metadata identify drives by serial number, which the files
/// lack.
fn by_serial_number() -> Vec<PathBuf> {
    let is_one = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().starts_with("imsm");
    packed().into_iter().filter(is_one).collect()
}

fn permutations(of: &[String]) -> Vec<Vec<String>> {
    let [_, _, ..] = of else { return vec![of.to_vec()] };
    let with = |at: usize| {
        let rest = [&of[..at], &of[at + 1..]].concat();
        permutations(&rest).into_iter().map(move |rest| [&of[at..=at], &rest].concat())
    };
    (0..of.len()).flat_map(with).collect()
}

fn without_numbers(paths: &[String]) -> Vec<Named> {
    paths.iter().map(|name| Named { name: name.clone(), serial: None, size_was: None }).collect()
}

/// Guesses the order of drives whose metadata contain everything else.
async fn placed(env: &Env, named: &[Named]) -> Guess {
    let found = scan(env, named).await;
    places(env, &found).await.unwrap().expect("drives without a slot")
}

/// The number of wrong bytes in the volumes, assembled with the guessed serial numbers. Measured on
/// sampled sectors.
async fn wrong_with(env: &Env, named: &[Named], candidate: &Candidate) -> usize {
    let mut named = named.to_vec();
    for (drive, number) in &candidate.serials {
        named[*drive].serial = Some(number.clone());
    }
    let found = scan(env, &named).await;
    assert!(!found.volumes.is_empty());
    let images: Vec<Vec<u8>> = named.iter().map(|one| std::fs::read(&one.name).unwrap()).collect();
    let wrong = found.volumes.iter().map(|volume| {
        assert!(
            rescue::attachment(&found, volume, engine::VolumeId(0)).is_ok(),
            "{:?}",
            volume.found.reasons
        );
        let order = volume.found.members.iter().map(|member| member.drive).collect();
        let start =
            volume.found.members.iter().find(|member| member.drive.is_some()).unwrap().data.start;
        let geometry = volume.found.sections[0].geometry().unwrap();
        right_and_wrong(&Candidate { geometry, order, start, ..candidate.clone() }, &images).1
    });
    wrong.sum()
}

#[test]
fn images_without_their_serial_numbers_are_put_in_order_however_they_are_named() {
    for file in by_serial_number() {
        let Some(array) = unpack(&file) else { return };
        on_a_shard(async move |env| {
            for given in permutations(&array.paths) {
                let named = without_numbers(&given);
                let guess = placed(&env, &named).await;
                let best = &guess.candidates[0];
                let why = format!("{} as {given:?}:\n{}", array.name, told(&guess));
                assert_eq!(wrong_with(&env, &named, best).await, 0, "{why}");
                assert!(best.sureness >= Sureness::Likely, "{why}");
                for other in &guess.candidates[1..] {
                    assert!(other.sureness < Sureness::Likely, "{why}");
                }
            }
        });
    }
}

/// The image of one drive is missing, or one drive reports its number.
#[test]
fn fewer_images_and_some_numbers_are_enough_where_the_level_is() {
    for file in by_serial_number() {
        let Some(array) = unpack(&file) else { return };
        let can_miss_one = !array.name.contains("raid0") && !array.name.contains("two-vols");
        on_a_shard(async move |env| {
            for left in 0..array.paths.len() {
                let mut given = array.paths.clone();
                given.rotate_left(left);
                if can_miss_one {
                    let named = without_numbers(&given[1..]);
                    let guess = placed(&env, &named).await;
                    let (best, why) =
                        (&guess.candidates[0], format!("{}: {}", array.name, told(&guess)));
                    let is_right = wrong_with(&env, &named, best).await == 0;
                    assert!(is_right || best.sureness < Sureness::Likely, "sure, and wrong: {why}");
                    assert!(is_right, "{why}");
                }
                let mut named = without_numbers(&given);
                named[0].serial = Some(format!("REFDISK{:04}", left + 1));
                let guess = placed(&env, &named).await;
                let (best, why) =
                    (&guess.candidates[0], format!("{}: {}", array.name, told(&guess)));
                assert!(best.serials.contains(&(0, format!("REFDISK{:04}", left + 1))), "{why}");
                assert_eq!(wrong_with(&env, &named, best).await, 0, "{why}");
            }
        });
    }
}

/// Noise that XORs to zero over all drives, in the data area of a volume.
fn overwrite_with_noise(paths: &[String], len: usize) {
    let mut state = 7_u64;
    let mut sum = vec![0_u8; len];
    for (number, path) in paths.iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        if number + 1 == paths.len() {
            bytes[..len].copy_from_slice(&sum);
        } else {
            for (byte, sum) in bytes[..len].iter_mut().zip(&mut sum) {
                state =
                    state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                *byte = (state >> 56) as u8;
                *sum ^= *byte;
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn what_the_drives_do_not_tell_is_said_and_what_cannot_be_is_not_offered() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/imsm-raid5-4.tar.xz");
    let Some(array) = unpack(&file) else { return };
    on_a_shard(async move |env| {
        let named = without_numbers(&array.paths);
        let len = std::fs::metadata(&array.paths[0]).unwrap().len() as usize - (1 << 20);
        overwrite_with_noise(&array.paths, len);
        let guess = placed(&env, &named).await;
        assert!(
            guess.candidates.iter().all(|one| one.sureness == Sureness::Tied),
            "{}",
            told(&guess)
        );
        assert!(
            guess.findings.iter().any(|said| said.contains("24 orders were compared")),
            "{}",
            told(&guess)
        );
        assert!(
            guess.findings.iter().any(|said| said.contains("cannot be told apart")),
            "{}",
            told(&guess)
        );
        // The metadata say RAID 5. Its drives do not XOR to zero now, so no candidate is offered.
        let mut bytes = std::fs::read(&array.paths[1]).unwrap();
        bytes[..len].iter_mut().for_each(|byte| *byte = byte.rotate_left(3));
        std::fs::write(&array.paths[1], bytes).unwrap();
        let guess = placed(&env, &named).await;
        assert!(guess.candidates.is_empty(), "{}", told(&guess));
        assert!(
            guess.findings.iter().any(|said| said.contains("its drives XOR to zero in")),
            "{}",
            told(&guess)
        );
    });
}

#[test]
fn copies_are_readable_whichever_of_them_is_here() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/imsm-raid1-2.tar.xz");
    let Some(array) = unpack(&file) else { return };
    on_a_shard(async move |env| {
        for one in &array.paths {
            let named = without_numbers(std::slice::from_ref(one));
            let guess = placed(&env, &named).await;
            assert_eq!(wrong_with(&env, &named, &guess.candidates[0]).await, 0, "{}", told(&guess));
        }
        // A RAID 1 of two drives is refused if a copy of one drive is given as a third drive.
        let copy = array.folder.join("copy.img").to_str().unwrap().to_owned();
        std::fs::copy(&array.paths[0], &copy).unwrap();
        let named = without_numbers(&[&array.paths[..], &[copy]].concat());
        let found = scan(&env, &named).await;
        let why = places(&env, &found).await.err().unwrap();
        assert!(why.contains("leave out copies"), "{why}");
    });
}
