//! `softroc rescue` in use: the table of the arrays on drives, and the volumes by NBD, tested with
//! external programs. The tests of the crate `rescue` cover the correctness of array types.

mod common;

use common::{Folder, have, run, softroc};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An unpacked image of an array of Linux md; `None`, with a printed reason, without the program
/// for it.
fn unpacked(name: &str) -> Option<Folder> {
    if !have("xz") {
        return None;
    }
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rescue/tests/images");
    let (folder, file) = (Folder::new(name), images.join(format!("{name}.tar.xz")));
    run("tar", &["-xJSf", file.to_str().unwrap(), "-C", folder.0.to_str().unwrap()]);
    Some(folder)
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serving(drives: &[String], more: &[&str], socket: &Path) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
    command
        .arg("rescue")
        .args(drives)
        .args(more)
        .arg("--serve")
        .arg(format!("unix:{}", socket.display()));
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !socket.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is served");
        std::thread::sleep(Duration::from_millis(20));
    }
    Serving(child)
}

#[test]
fn the_table_says_what_is_there_and_what_is_missing() {
    let Some(folder) = unpacked("raid5-4-stale-member") else { return };
    let drives = [0, 2, 3].map(|number| folder.file(&format!("disk{number}.img")));
    let answer = softroc(&["rescue", &drives[0], &drives[1], &drives[2], "/does/not/exist"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    for expected in [
        "linux-md 1.2",
        "left-symmetric",
        "64 KiB",
        "not readable",
        "stale",
        "is missing",
        "drive file /does/not/exist does not exist",
        "2 of its 4 members are missing, too many to read it; find them and name them too",
    ] {
        assert!(answer.stdout.contains(expected), "no '{expected}' in:\n{}", answer.stdout);
    }
    assert!(!answer.stdout.contains("all data can be read"), "{}", answer.stdout);
}

#[test]
fn a_degraded_array_is_served_read_only_to_outside_programs() {
    if !have("nbdcopy") || !have("nbdinfo") {
        return;
    }
    let Some(folder) = unpacked("raid5-4-stale-member") else { return };
    let drives: Vec<String> =
        (0..4).map(|number| folder.file(&format!("disk{number}.img"))).collect();
    let answer = softroc(&["rescue", &drives[0], &drives[1], &drives[2], &drives[3], "--json"]);
    let found: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    let volume = &found["volumes"][0];
    assert_eq!(
        (&volume["state"], &volume["level"]),
        (&"degraded".into(), &"raid5".into()),
        "{volume}"
    );
    assert_eq!((&volume["events"], &volume["members"][2]["events"]), (&22.into(), &17.into()));
    assert_eq!(volume["members"][2]["standing"], "stale");

    let socket = folder.0.join("nbd.sock");
    let _serving = serving(&drives, &[], &socket);
    let address =
        format!("nbd+unix:///{}?socket={}", volume["export"].as_str().unwrap(), socket.display());
    run("nbdinfo", &["--is", "read-only", &address]);
    let copy = folder.file("copy.img");
    run("nbdcopy", &[&address, &copy]);
    let bytes = std::fs::read(&copy).unwrap();
    assert_eq!(bytes.len() as u64, volume["size_bytes"].as_u64().unwrap());
    for (number, sector) in bytes.chunks(512).enumerate() {
        // Overwritten after the stale member was removed: it still has the earlier content.
        let is_zeroed = (1024..4096).contains(&number);
        let text = format!("LBA={number:012}");
        let expected = if is_zeroed { [0; 16].as_slice() } else { text.as_bytes() };
        assert!(sector.chunks(16).all(|part| part == expected), "sector {number}");
    }
}

/// Each message says what the state means for the data, and what to do.
#[test]
fn a_degraded_array_and_a_truncated_image_come_with_advice() {
    let Some(folder) = unpacked("raid5-4-stale-member") else { return };
    let drives = [0, 1, 3].map(|number| folder.file(&format!("disk{number}.img")));
    let [a, b, c] = drives.each_ref().map(String::as_str);
    let table = softroc(&["rescue", a, b, c]).ok();
    let degraded = "all data can be read: the blocks of missing members are computed from \
                    redundancy; repeat the command with --serve";
    assert!(table.contains(degraded) && !table.contains("a complete copy"), "{table}");
    let cut = std::fs::OpenOptions::new().write(true).open(b).unwrap();
    cut.set_len(8 << 20).unwrap();
    let table = softroc(&["rescue", a, b, c]).ok();
    assert!(
        table.contains("disk1.img is truncated") && table.contains("a complete copy of that drive"),
        "{table}"
    );
    // Without its metadata, the image is no member.
    cut.set_len(4096).unwrap();
    let table = softroc(&["rescue", a, b, c]).ok();
    let lost = "disk1.img: no array metadata found, and the drive is not read; if it is the \
        missing member";
    assert!(table.contains(lost), "{table}");
}

/// The position of superblock version 1.2.
const SUPERBLOCK: u64 = 4096;

#[test]
fn drives_whose_metadata_are_gone_are_guessed_shown_and_served() {
    let Some(folder) = unpacked("raid5-4-crash-dirty") else { return };
    let drive = |number: usize| folder.file(&format!("disk{number}.img"));
    let before: Vec<Vec<u8>> = (0..4)
        .map(|number| {
            let mut bytes = std::fs::read(drive(number)).unwrap();
            bytes[SUPERBLOCK as usize..][..4096].fill(0);
            std::fs::write(drive(number), &bytes).unwrap();
            bytes
        })
        .collect();
    // In another order than that of their slots.
    let drives = [drive(0), drive(2), drive(1), drive(3)];
    let [a, b, c, d] = drives.each_ref().map(String::as_str);
    let table = softroc(&["rescue", a, b, c, d, "--guess"]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    for expected in
        ["drive 1: ", "single parity", "GUESS", "left-symmetric", "64 KiB  0 2 1 3", "sure (+"]
    {
        assert!(table.stdout.contains(expected), "no '{expected}' in:\n{}", table.stdout);
    }
    let told = softroc(&["rescue", a, b, c, d, "--guess", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let first = &told["candidates"][0];
    assert_eq!((&first["level"], &first["sureness"]), (&"raid5".into(), &"sure".into()), "{first}");
    assert_eq!(first["members"], serde_json::json!([drive(0), drive(1), drive(2), drive(3)]));
    assert_eq!(
        (&first["strip_bytes"], &first["data_start_bytes"]),
        (&65536.into(), &(1 << 20).into())
    );

    let socket = folder.0.join("nbd.sock");
    let serve = format!("unix:{}", socket.display());
    let none = softroc(&["rescue", a, b, c, d, "--guess", "--serve", &serve, "--candidate", "99"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
    assert!(none.stderr.contains("--candidate 99: there are 1 to "), "{}", none.stderr);
    assert_eq!(softroc(&["rescue", a, b, c, d, "--candidate", "1"]).code, 2, "of no guess");
    if have("nbdcopy") {
        let (serving, copy) = (serving(&drives, &["--guess"], &socket), folder.file("copy.img"));
        run("nbdcopy", &[&format!("nbd+unix:///guess?socket={}", socket.display()), &copy]);
        drop(serving);
        let sector = std::fs::read(&copy).unwrap()[512 * 5000..][..512].to_vec();
        assert!(sector.chunks(16).all(|part| part == b"LBA=000000005000"), "{sector:?}");
    }
    let after: Vec<Vec<u8>> = (0..4).map(|number| std::fs::read(drive(number)).unwrap()).collect();
    assert!(after == before, "a drive was written to");
}

#[test]
fn of_drives_that_tell_nothing_nothing_is_guessed() {
    let folder = Folder::new("guess-nothing");
    let blank = ["0.img", "1.img"].map(|name| folder.file(name));
    blank.iter().for_each(|drive| std::fs::write(drive, vec![0; 4 << 20]).unwrap());
    let answer = softroc(&["rescue", &blank[0], &blank[1], "--guess"]);
    assert_eq!(answer.code, 1, "{}", answer.stdout);
    assert!(
        answer.stderr.contains("the contents of these drives do not show level"),
        "{}",
        answer.stderr
    );
}

#[test]
fn drives_without_an_array_are_told_and_the_exit_code_says_so() {
    let folder = Folder::new("rescue-nothing");
    let blank = folder.file("blank.img");
    std::fs::write(&blank, vec![0; 1 << 20]).unwrap();
    let answer = softroc(&["rescue", &blank]);
    assert_eq!(answer.code, 1);
    assert!(answer.stdout.contains("no array metadata found"), "{}", answer.stdout);
    assert!(
        answer
            .stderr
            .contains("no array was found on the drive, and nothing was changed; name all")
    );
    let answer = softroc(&["rescue", &folder.file("none.img")]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.stderr.contains("because no drive could be opened; check the names"),
        "{}",
        answer.stderr
    );
    let answer = softroc(&["rescue", &blank, "--guess"]);
    assert!(
        answer.stderr.contains("1 drive can be opened, and guessing takes 2 to 24"),
        "{}",
        answer.stderr
    );
    let answer = softroc(&["rescue", &blank, "--serial", "other.img=X1"]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(
        answer.stderr.contains("'other.img', which is not among the drives"),
        "{}",
        answer.stderr
    );
}

/// Intel's metadata identify drives by serial numbers, which files do not have.
#[test]
fn drives_whose_serial_numbers_nobody_knows_are_put_in_order_and_all_their_volumes_served() {
    let Some(folder) = unpacked("imsm-raid5-4") else { return };
    let drives: Vec<String> =
        [2, 0, 3, 1].map(|number| folder.file(&format!("disk{number}.img"))).to_vec();
    let [a, b, c, d] = &drives[..] else { unreachable!() };
    let table = softroc(&["rescue", a, b, c, d]);
    assert!(
        table.stdout.contains("not readable") && table.stdout.contains("--guess"),
        "{}",
        table.stdout
    );
    let told = softroc(&["rescue", a, b, c, d, "--guess", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let first = &told["candidates"][0];
    let expected = serde_json::json!({
        a: "REFDISK0003", b: "REFDISK0001", c: "REFDISK0004", d: "REFDISK0002",
    });
    assert_eq!((&first["serials"], &first["sureness"]), (&expected, &"sure".into()), "{first}");
    // The printed command is equivalent to the guess.
    let text = softroc(&["rescue", a, b, c, d, "--guess"]).stdout;
    let by_hand = text.lines().find_map(|line| line.split_once("equivalent command: ")).unwrap().1;
    let by_hand: Vec<&str> = by_hand.split(' ').collect();
    let by_hand = softroc(&[&["rescue", a, b, c, d], &by_hand[..]].concat());
    assert!(by_hand.stdout.contains("complete"), "{}", by_hand.stdout);
    if have("nbdcopy") {
        let (socket, copy) = (folder.0.join("nbd.sock"), folder.file("copy.img"));
        let _serving = serving(&drives, &["--guess"], &socket);
        run("nbdcopy", &[&format!("nbd+unix:///vol0?socket={}", socket.display()), &copy]);
        for (number, sector) in std::fs::read(&copy).unwrap().chunks(512).enumerate() {
            let text = format!("LBA={number:012}");
            assert!(sector.chunks(16).all(|part| part == text.as_bytes()), "sector {number}");
        }
    }
}

/// A backup file of mdadm has the data that a reshape in place overwrites.
#[test]
fn an_interrupted_reshape_is_read_with_its_backup_file() {
    let Some(folder) = unpacked("raid5-4-chunk64to128-backup") else { return };
    let drives: Vec<String> =
        (0..4).map(|number| folder.file(&format!("disk{number}.img"))).collect();
    let [a, b, c, d] = &drives[..] else { unreachable!() };
    let without = softroc(&["rescue", a, b, c, d]);
    assert!(without.stdout.contains("rescue DRIVE... --backup-file FILE"), "{}", without.stdout);
    let file = folder.file("backup");
    let with = softroc(&["rescue", a, b, c, d, "--backup-file", &file]);
    assert!(with.stdout.contains("complete") && with.code == 0, "{}", with.stdout);
    let other = folder.file("other");
    std::fs::write(&other, vec![7; 8192]).unwrap();
    let wrong = softroc(&["rescue", a, b, c, d, "--backup-file", &other]);
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("does not begin with md_backup_data"), "{}", wrong.stderr);
}

/// Metadata of Linux md 1.0 are located from the end of a drive: on larger drives they are outside
/// the searched part.
#[test]
fn the_size_that_drives_had_is_an_option_for_all_or_for_one() {
    let Some(folder) = unpacked("raid5-4-meta1.0") else { return };
    let drives: Vec<String> =
        (0..4).map(|number| folder.file(&format!("disk{number}.img"))).collect();
    for drive in &drives {
        let file = std::fs::OpenOptions::new().write(true).open(drive).unwrap();
        file.set_len((16 + 48) << 20).unwrap();
    }
    let [a, b, c, d] = &drives[..] else { unreachable!() };
    let rescue = |options: &[&str]| softroc(&[&["rescue", a, b, c, d], options].concat());
    assert_eq!(rescue(&[]).code, 1, "they are not found");
    let all = rescue(&["--size-was", "16MiB"]);
    assert!(all.stdout.contains("complete") && all.code == 0, "{}", all.stdout);
    assert!(all.stdout.contains("disk3.img is read as a drive of 16 MiB"), "{}", all.stdout);
    let of_one = |drive: &str| format!("{drive}=16777216");
    let [a, b, c] = [a, b, c].map(|drive| of_one(drive));
    let three = rescue(&["--size-was", &a, "--size-was", &b, "--size-was", &c]);
    assert!(three.stdout.contains("degraded"), "{}", three.stdout);
    let wrong = rescue(&["--size-was", "other.img=16MiB"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("'other.img', which is not among the drives"),
        "{}",
        wrong.stderr
    );
    for wrong in ["large", "=16MiB", "a.img="] {
        assert_eq!(rescue(&["--size-was", wrong]).code, 2, "{wrong}");
    }
}

/// Regression: the copy, its original and their slot had the same message.
#[test]
fn a_drive_and_its_copy_are_named_once_and_bad_blocks_are_in_the_table_and_in_json() {
    let Some(folder) = unpacked("raid5-4-stale-member") else { return };
    let drives: Vec<String> =
        (0..4).map(|number| folder.file(&format!("disk{number}.img"))).collect();
    let copy = folder.file("copy.img");
    std::fs::copy(&drives[0], &copy).unwrap();
    let [a, b, c, d] = &drives[..] else { unreachable!() };
    let told = softroc(&["rescue", a, b, c, d, &copy]).stdout;
    assert_eq!(told.matches("carry the same drive identity").count(), 1, "{told}");
    // A list with one range: 8 sectors of the drive from 4096 on.
    let mut bytes = std::fs::read(b).unwrap();
    let superblock = &mut bytes[SUPERBLOCK as usize..][..4096];
    superblock[8] |= 8;
    superblock[185..192].copy_from_slice(&[0, 8, 0, 16, 0, 0, 0]);
    superblock[216..220].fill(0);
    let roles = u32::from_le_bytes(superblock[220..224].try_into().unwrap()) as usize;
    let word =
        |word: &[u8]| word.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let sum: u64 = superblock[..256 + 2 * roles].chunks(4).map(word).sum();
    superblock[216..220]
        .copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
    let list = &mut bytes[SUPERBLOCK as usize + 16 * 512..][..4096];
    list.fill(0xFF);
    list[..8].copy_from_slice(&(4096_u64 << 10 | 8).to_le_bytes());
    std::fs::write(b, &bytes).unwrap();
    let told = softroc(&["rescue", a, b, c, d]).stdout;
    let expected = "disk1.img has a list of bad blocks: its sectors 4096 to 4103 (4 KiB) count as \
        unreadable";
    assert!(told.contains(expected), "{told}");
    let told = softroc(&["rescue", a, b, c, d, "--json"]).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let expected = serde_json::json!([{ "start_bytes": 4096 * 512, "bytes": 4096 }]);
    assert_eq!(told["volumes"][0]["members"][1]["unreadable"], expected);
}
