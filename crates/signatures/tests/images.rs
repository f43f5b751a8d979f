//! Images made by the formats' own tools, shrunk to the sectors that identify them (`images.txt`).

use signatures::{Ends, Finding, INSPECTED, Kind, Label, Place, inspect};
use units::{ByteCount, ByteOffset};

struct Image {
    name: String,
    size: u64,
    expected: String,
    pieces: Vec<(u64, Vec<u8>)>,
}

fn images() -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    for line in include_str!("images.txt").lines() {
        let Some((head, rest)) =
            line.split_once(' ').filter(|(head, _)| *head != "#" && *head != "by")
        else {
            continue;
        };
        if head == "image" {
            let (name, size) = rest.split_once(' ').unwrap();
            let size = size.parse().unwrap();
            images.push(Image {
                name: name.to_owned(),
                size,
                expected: String::new(),
                pieces: Vec::new(),
            });
            continue;
        }
        let image = images.last_mut().unwrap();
        if head == "is" {
            image.expected = rest.to_owned();
            continue;
        }
        let bytes =
            (0..rest.len()).step_by(2).map(|at| u8::from_str_radix(&rest[at..at + 2], 16).unwrap());
        image.pieces.push((head.parse().unwrap(), bytes.collect()));
    }
    images
}

impl Image {
    fn ends(&self) -> (Vec<u8>, Vec<u8>) {
        let len = self.size.min(INSPECTED.0);
        let end = |begin: u64| {
            let mut bytes = vec![0; len as usize];
            for (offset, piece) in &self.pieces {
                for (at, byte) in piece.iter().enumerate() {
                    let place = (offset + at as u64).checked_sub(begin).map(|place| place as usize);
                    if let Some(target) = place.and_then(|place| bytes.get_mut(place)) {
                        *target = *byte;
                    }
                }
            }
            bytes
        };
        (end(0), end(self.size - len))
    }

    fn inspect(&self) -> Vec<Finding> {
        let (first, last) = self.ends();
        inspect(&Ends::new(ByteCount(self.size), &first, &last), &[])
    }
}

fn sentence(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join(" | ")
}

#[test]
fn what_the_formats_own_tools_wrote_is_recognised() {
    let images = images();
    assert!(images.len() > 40, "{}", images.len());
    for image in &images {
        assert_eq!(sentence(&image.inspect()), image.expected, "{}", image.name);
    }
}

#[test]
fn a_wiped_magic_is_not_recognised_any_more() {
    for mut image in images() {
        // A FAT is recognised by its whole boot sector; other formats by the bytes at the offset of
        // the finding.
        let offsets: Vec<u64> = image.inspect().iter().map(|finding| finding.offset.0).collect();
        for offset in offsets {
            image.pieces.push((offset, vec![0; 12]));
        }
        // The remaining boot sector has no partitions, but is still recognised.
        let rest = image.inspect();
        assert!(
            rest.iter().all(|finding| finding.kind == Kind::PartitionTable),
            "{}: {rest:?}",
            image.name
        );
    }
}

#[test]
fn drives_that_were_never_used_or_hold_random_bytes_are_nothing() {
    let mut state = 7;
    for round in 0..200 {
        let mut bytes = vec![0_u8; 1 << 20];
        if round > 0 {
            for word in bytes.chunks_exact_mut(8) {
                let (next, value) = split_mix(state);
                state = next;
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        let ends = Ends::new(ByteCount(10 << 20), &bytes, &bytes);
        assert_eq!(inspect(&ends, &[]), [], "round {round}");
    }
}

/// SplitMix64.
fn split_mix(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state, z ^ (z >> 31))
}

#[test]
fn several_things_on_one_drive_are_all_told() {
    let find = |name: &str| images().into_iter().find(|image| image.name == name).unwrap();
    let mut drive = find("ext4");
    let btrfs = find("btrfs");
    let md = find("raid5-4-meta1.0");
    drive.pieces.extend(btrfs.pieces);
    // The md label is from a drive of another size; its recorded sector must match its new
    // position.
    let shift = md.size - drive.size;
    drive
        .pieces
        .extend(md.pieces.into_iter().map(|(offset, piece)| (offset.saturating_sub(shift), piece)));
    assert!(!sentence(&drive.inspect()).contains("md array"), "a misplaced copy is not recognised");
    let sector = ((drive.size / 512) - 16) & !7;
    drive.pieces.push((sector * 512 + 144, sector.to_le_bytes().to_vec()));
    let all = sentence(&drive.inspect());
    for part in ["an ext4 file system", "a Btrfs file system", "a Linux md array"] {
        assert!(all.contains(part), "{all}");
    }
}

#[test]
fn zfs_is_recognised_by_any_of_its_four_labels_in_either_byte_order() {
    const SIZE: u64 = (64 << 20) + 12345 * 512;
    let end = SIZE / (256 << 10) * (256 << 10);
    for start in [0, 256 << 10, end - (512 << 10), end - (256 << 10)] {
        for magic in [0x00BA_B10C_u64.to_le_bytes(), 0x00BA_B10C_u64.to_be_bytes()] {
            let offset = start + (128 << 10) + 5 * 4096;
            let image = Image {
                name: String::new(),
                size: SIZE,
                expected: String::new(),
                pieces: vec![(offset, magic.to_vec())],
            };
            let expected = format!("a member of a ZFS pool (at byte {offset})");
            assert_eq!(sentence(&image.inspect()), expected);
        }
    }
}

#[test]
fn an_anchor_that_a_controller_moved_away_from_the_end_is_found() {
    let mut image = images().into_iter().find(|image| image.name == "ddf-raid5-5").unwrap();
    image.size += 300 * 512;
    assert!(sentence(&image.inspect()).contains("DDF 01.02.00"));
}

#[test]
fn the_callers_own_label_is_looked_for_where_it_says() {
    const OURS: [Label; 2] = [
        Label { what: "a label of ours", magic: b"OURS", place: Place::FromEnd(4096) },
        Label { what: "another", magic: b"OURS", place: Place::FromStart(4096) },
    ];
    let (first, mut last) = (vec![0; 8192], vec![0; 8192]);
    last[4096..4100].copy_from_slice(b"OURS");
    let findings = inspect(&Ends::new(ByteCount(1 << 30), &first, &last), &OURS);
    assert_eq!(
        findings,
        [Finding {
            kind: Kind::Label,
            what: "a label of ours".into(),
            offset: ByteOffset((1 << 30) - 4096)
        }]
    );
}

#[test]
fn short_or_missing_ends_are_no_reason_to_panic() {
    for image in images() {
        let (first, last) = image.ends();
        for len in [0, 1, 511, 512, 1000, 4095, 4096, 65536, 66000] {
            let len = len.min(first.len());
            let ends = Ends::new(ByteCount(image.size), &first[..len], &last[last.len() - len..]);
            inspect(&ends, &[]);
            inspect(&Ends::new(ByteCount(len as u64 / 2), &first[..len], &last[..len]), &[]);
        }
    }
}
