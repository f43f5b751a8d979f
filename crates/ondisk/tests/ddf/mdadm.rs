//! Checks SoftROC's structures with `mdadm --examine`, which reads plain files.

// A test that runs another program on files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::made::{MEMBER_BYTES, add_spare, group, images, reference, size_of, structure};
use layout::{Level, MirrorArrangement, ParityArrangement, Shape};
use ondisk::ddf::{Condition, DiskState, Group, VolumeState, update};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use units::{ByteCount, ByteRange, DriveCount};

/// The output of `mdadm` for the drives of a group; `None` where it is not installed.
fn examined(name: &str, group: &Group, images: &[crate::image::Image]) -> Option<Vec<String>> {
    let mdadm =
        ["/sbin/mdadm", "/usr/sbin/mdadm"].into_iter().find(|path| PathBuf::from(path).exists());
    let Some(mdadm) = mdadm else {
        test_tools::not_installed("mdadm");
        return None;
    };
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ddf-mdadm-{name}"));
    std::fs::create_dir_all(&directory).unwrap();
    let examine = |(index, image): (usize, &crate::image::Image)| {
        let path = directory.join(format!("drive{index}"));
        let file = File::create(&path).unwrap();
        file.set_len(image.size).unwrap();
        // The rest of a new drive may hold any bytes: here zeros.
        let site = crate::made::site(index);
        let copy = ByteCount(1024 * 512);
        let places =
            [(site.primary(), copy), (site.secondary(), copy), (site.anchor(), ByteCount(512))];
        for (at, len) in places {
            file.write_all_at(&image.read(ByteRange::new(at, len)).unwrap(), at.0).unwrap();
        }
        let output = Command::new(mdadm).arg("--examine").arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{name} drive {index}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    let texts = images.iter().enumerate().map(examine).collect();
    assert_eq!(group.disks.len(), images.len());
    Some(texts)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(" : ")?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn shape(level: Level, drives: u16) -> Shape {
    let spans = match level {
        Level::Raid00 | Level::Raid50 | Level::Raid60 => Some(2),
        Level::Raid10 => Some(drives / 2),
        _ => None,
    };
    Shape { spans, ..Shape::new(level, DriveCount(drives)) }
}

#[test]
fn mdadm_reads_the_level_the_order_and_the_sizes_of_every_level() {
    let of_parity = |level, parity| Shape { parity: Some(parity), ..shape(level, 5) };
    let cases = [
        ("jbod", shape(Level::Jbod, 1), "JBOD", 1),
        ("raid0", shape(Level::Raid0, 4), "RAID0", 4),
        ("raid00", shape(Level::Raid00, 6), "RAID0", 3),
        ("raid1", shape(Level::Raid1, 2), "RAID1", 2),
        ("raid1-3", shape(Level::Raid1, 3), "RAID1", 3),
        ("raid10", shape(Level::Raid10, 6), "RAID1", 2),
        ("raid1e", shape(Level::Raid1e, 5), "RAID1E", 5),
        (
            "raid1e-offset",
            Shape { mirrors: Some(MirrorArrangement::Offset), ..shape(Level::Raid1e, 5) },
            "RAID1E",
            5,
        ),
        ("raid4", shape(Level::Raid4, 4), "RAID4", 4),
        ("raid5-ls", shape(Level::Raid5, 5), "RAID5", 5),
        ("raid5-la", of_parity(Level::Raid5, ParityArrangement::LeftAsymmetric), "RAID5", 5),
        ("raid5-ra", of_parity(Level::Raid5, ParityArrangement::RightAsymmetric), "RAID5", 5),
        ("raid5ee", shape(Level::Raid5ee, 5), "RAID5EE", 5),
        ("raid6-nc", shape(Level::Raid6, 5), "RAID6", 5),
        ("raid6-nr", of_parity(Level::Raid6, ParityArrangement::DdfNRestart), "RAID6", 5),
        ("raid6-zr", of_parity(Level::Raid6, ParityArrangement::DdfZeroRestart), "RAID6", 5),
        ("raid50", shape(Level::Raid50, 6), "RAID5", 3),
        ("raid60", shape(Level::Raid60, 8), "RAID6", 4),
    ];
    for (name, shape, level, width) in cases {
        let group = group(shape);
        let images = images(&group);
        let Some(texts) = examined(name, &group, &images) else { return };
        let volume = &group.volumes[0];
        for (index, text) in texts.iter().enumerate() {
            let own = reference(index);
            let slot = volume.members.iter().position(|(disk, _)| *disk == own).unwrap();
            let span = slot / width;
            let of_span = volume.members[span * width..(span + 1) * width].iter();
            let order: Vec<String> = of_span
                .map(|(disk, _)| {
                    let number =
                        group.disks.iter().position(|record| record.reference == *disk).unwrap();
                    format!("{number}@0K")
                })
                .collect();
            let expected = [
                ("Magic", Some("de11de11".to_owned())),
                ("Version", Some("01.02.00".to_owned())),
                ("Redundant hdr", Some("yes".to_owned())),
                ("Seq", Some("00000001".to_owned())),
                ("Virtual Disks", Some("1".to_owned())),
                ("Raid Devices[0]", Some(format!("{width} ({})", order.join(" ")))),
                ("Chunk Size[0]", Some("128 sectors".to_owned())),
                ("Raid Level[0]", Some(level.to_owned())),
                ("Device Size[0]", Some((volume.member_size.0 >> 10).to_string())),
                ("Array Size[0]", Some((volume.capacity.0 >> 10).to_string())),
                ("state[0]", Some("Optimal, Consistent".to_owned())),
                ("init state[0]", Some("Fully Initialised".to_owned())),
                ("access[0]", Some("Read/Write".to_owned())),
                ("Name[0]", Some("data".to_owned())),
            ];
            for (key, value) in expected {
                let found = field(text, key).map(str::to_owned);
                assert_eq!(found, value, "{name} drive {index}: {key} in\n{text}");
            }
            let spans = volume.members.len() / width;
            let position = (spans > 1).then(|| format!("{span} of {spans}"));
            assert_eq!(
                field(text, "Secondary Position[0]").map(str::to_owned),
                position,
                "{name}\n{text}"
            );
            let secondary = (spans > 1).then_some("Striped");
            assert_eq!(field(text, "Secondary Level[0]"), secondary, "{name}\n{text}");
            assert_eq!(disk_lines(text).len(), group.disks.len(), "{name}\n{text}");
        }
    }
}

/// The lines about physical disks: reference, and type and state.
fn disk_lines(text: &str) -> Vec<(String, String)> {
    let rest = text.split("Type/State").nth(1).unwrap_or_default();
    let lines = rest.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_disk = words.len() >= 4 && words[0].parse::<u16>().is_ok();
        is_disk.then(|| (words[1].to_owned(), words[3..].join(" ")))
    });
    lines.collect()
}

#[test]
fn mdadm_reads_the_states_of_drives_and_volumes() {
    let mut group = group(shape(Level::Raid5, 4));
    add_spare(&mut group);
    let mut images = images(&group);
    group.sequence += 1;
    group.disks[2].state = DiskState(DiskState::ONLINE | DiskState::FAILED);
    group.volumes[0].record.state =
        VolumeState(VolumeState::of(Condition::Degraded).0 | VolumeState::NOT_CONSISTENT);
    for (index, image) in images.iter_mut().enumerate() {
        let drive = image.drive();
        let new = structure(&group, index, &[0x55; 100_000]);
        crate::made::apply(image, &update(size_of(index), Some(&drive), &new).unwrap());
    }
    let Some(texts) = examined("states", &group, &images) else { return };
    for text in &texts {
        assert_eq!(field(text, "Seq"), Some("00000002"), "{text}");
        assert_eq!(field(text, "state[0]"), Some("Degraded, Not Consistent"), "{text}");
        let disks = disk_lines(text);
        let expected =
            ["active/Online", "active/Online", "active/Offline, Failed", "active/Online"];
        for (index, expected) in expected.into_iter().chain(["Global-Spare/Online"]).enumerate() {
            assert_eq!(disks[index].0, reference(index).to_string(), "{text}");
            assert!(disks[index].1.ends_with(expected), "{text}");
        }
    }
    assert_eq!(MEMBER_BYTES, 4 << 20);
}
