//! Recognises whole images written by the formats' own tools, where they are installed.

// Tests may use files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use signatures::{Ends, INSPECTED, inspect};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use units::ByteCount;

/// Creates an image with a shell line (`$I` is the file), and returns its findings; `None` without
/// the tool.
fn made_by(name: &str, tool: &str, size: u64, line: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file =
        File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    file.set_len(size).unwrap();
    let script =
        format!("PATH=$PATH:/sbin:/usr/sbin; command -v {tool} >/dev/null || exit 42; {line}");
    let status = Command::new("sh")
        .args(["-c", &script])
        .env("I", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    if !status.success() {
        test_tools::not_installed(&format!("{tool} (for {name}: {status})"));
        return None;
    }
    let len = INSPECTED.0.min(size);
    let (mut first, mut last) = (vec![0; len as usize], vec![0; len as usize]);
    file.read_exact_at(&mut first, 0).unwrap();
    file.read_exact_at(&mut last, size - len).unwrap();
    std::fs::remove_file(&path).unwrap();
    let findings = inspect(&Ends::new(ByteCount(size), &first, &last), &[]);
    Some(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "))
}

#[test]
fn whole_images_are_recognised_as_one_thing() {
    const MIB: u64 = 1 << 20;
    for (name, tool, size, line, expected) in [
        ("ext2", "mkfs.ext2", 8 * MIB, "mkfs.ext2 -q $I", "an ext2 file system (at byte 1080)"),
        ("ext3", "mkfs.ext3", 8 * MIB, "mkfs.ext3 -q $I", "an ext3 file system (at byte 1080)"),
        (
            "ext4",
            "mkfs.ext4",
            8 * MIB,
            "mkfs.ext4 -q -L a $I",
            "an ext4 file system named 'a' (at byte 1080)",
        ),
        ("swap", "mkswap", 8 * MIB, "mkswap $I", "Linux swap space (at byte 4086)"),
        (
            "mbr",
            "sfdisk",
            8 * MIB,
            "echo ,4M | sfdisk -X dos $I",
            "an MBR partition table with 1 partition (at byte 510)",
        ),
        (
            "gpt",
            "sfdisk",
            8 * MIB,
            "echo ,4M | sfdisk -X gpt $I",
            "a GPT partition table with 1 partition (at byte 512)",
        ),
        ("xfs", "mkfs.xfs", 320 * MIB, "mkfs.xfs -q $I", "an XFS file system (at byte 0)"),
        (
            "btrfs",
            "mkfs.btrfs",
            128 * MIB,
            "mkfs.btrfs -q $I",
            "a Btrfs file system (at byte 65600)",
        ),
        ("fat", "mkfs.vfat", 64 * MIB, "mkfs.vfat -F 32 $I", "a FAT32 file system (at byte 0)"),
        ("ntfs", "mkfs.ntfs", 8 * MIB, "mkfs.ntfs -F -q $I", "an NTFS file system (at byte 3)"),
    ] {
        if let Some(found) = made_by(name, tool, size, line) {
            assert_eq!(found, expected, "{name}");
        }
    }
}
