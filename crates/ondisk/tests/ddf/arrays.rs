//! The volumes that the members of a group form: level, order, state, and the place of every strip.

use crate::image::{Image, REFERENCES, members, reference};
use layout::Role;
use ondisk::ddf::{Drive, tell};
use ondisk::foreign::{FoundVolume, Seen, Standing, State, reconcile};
use units::{ByteCount, ByteOffset, DriveIndex};

/// The volumes of these drives, by name.
pub fn volumes(images: &[&Image]) -> Vec<FoundVolume> {
    volumes_of(&images.iter().map(|image| image.drive()).collect::<Vec<_>>())
}

/// The same for decoded drives.
pub fn volumes_of(drives: &[Drive]) -> Vec<FoundVolume> {
    let mut seen = Vec::new();
    for (drive, told) in tell(&drives.iter().collect::<Vec<_>>()).into_iter().enumerate() {
        assert_eq!(told.notes, Vec::<String>::new());
        let size = drives[drive].size;
        let seen_in = |record| Seen { drive, name: format!("disk{drive}"), size, record };
        seen.extend(told.records.into_iter().map(seen_in));
    }
    let mut found = reconcile(&seen);
    found.sort_by_key(|volume| volume.record.name.clone());
    found
}

fn of(name: &str) -> Vec<FoundVolume> {
    volumes(&reference(name).iter().collect::<Vec<_>>())
}

/// One line about a volume.
fn line(volume: &FoundVolume) -> String {
    let record = &volume.record;
    let members: Vec<String> = volume
        .members
        .iter()
        .map(|member| match (member.drive, member.standing) {
            (Some(drive), Standing::Current) => drive.to_string(),
            (drive, standing) => {
                format!(
                    "{}={}",
                    drive.map_or("-".into(), |drive| drive.to_string()),
                    standing.name()
                )
            }
        })
        .collect();
    let layout = if record.layout.is_empty() { "-" } else { &record.layout };
    let strip = record.strip.map_or("-".into(), |strip| strip.to_string());
    format!(
        "{}: {} {layout} {strip} {} of {} each, {} [{}]",
        record.name,
        record.level,
        volume.capacity(),
        record.member_size.unwrap_or_default(),
        volume.state.name(),
        members.join(" ")
    )
}

#[test]
fn every_reference_image_is_the_array_that_linux_md_made() {
    let expected = [
        ("ddf-raid0-4", "vol0: raid0 - 64 KiB 64 MiB of 16 MiB each, complete [0 2 1 3]"),
        ("ddf-raid1-2", "vol0: raid1 - - 16 MiB of 16 MiB each, complete [0 1]"),
        ("ddf-raid10-3-n3", "vol0: raid1 - - 16 MiB of 16 MiB each, complete [0 2 1]"),
        ("ddf-raid10-4", "vol0: raid10 - 64 KiB 32 MiB of 16 MiB each, complete [0 2 1 3]"),
        // The members hold 40 MiB; mdadm made a volume of 32 MiB.
        ("ddf-raid10-5-n2", "vol0: raid1e near 64 KiB 32 MiB of 16 MiB each, complete [0 2 4 1 3]"),
        (
            "ddf-raid5-4-failed",
            "vol0: raid5 left-symmetric 64 KiB 48 MiB of 16 MiB each, degraded [0 -=missing 1 3]",
        ),
        (
            "ddf-raid5-4-left-symmetric",
            "vol0: raid5 left-symmetric 64 KiB 48 MiB of 16 MiB each, complete [0 2 1 3]",
        ),
        (
            "ddf-raid5-4-right-asymmetric",
            "vol0: raid5 right-asymmetric 64 KiB 48 MiB of 16 MiB each, complete [0 2 1 3]",
        ),
        (
            "ddf-raid5-4-spare",
            "vol0: raid5 left-symmetric 64 KiB 48 MiB of 16 MiB each, complete [0 2 4 1]",
        ),
        (
            "ddf-raid5-5",
            "vol0: raid5 left-symmetric 64 KiB 64 MiB of 16 MiB each, complete [0 2 4 1 3]",
        ),
        (
            "ddf-raid6-5-ddf-N-continue",
            "vol0: raid6 ddf-n-continue 64 KiB 48 MiB of 16 MiB each, complete [0 2 4 1 3]",
        ),
        (
            "ddf-raid6-5-ddf-zero-restart",
            "vol0: raid6 ddf-zero-restart 64 KiB 48 MiB of 16 MiB each, complete [0 2 4 1 3]",
        ),
        (
            "ddf-two-vols",
            "vol0: raid5 left-symmetric 64 KiB 12 MiB of 4 MiB each, complete [0 2 1 3]\n\
             vol1: raid10 - 64 KiB 24 MiB of 12 MiB each, complete [0 2 1 3]",
        ),
    ];
    assert_eq!(expected.len(), REFERENCES.len());
    for (name, expected) in expected {
        let lines: Vec<String> = of(name).iter().map(line).collect();
        assert_eq!(lines.join("\n"), expected, "{name}");
    }
    let starts: Vec<u64> =
        of("ddf-two-vols")[1].members.iter().map(|member| member.data.start.0).collect();
    assert_eq!(starts, [4 << 20; 4]);
}

#[test]
fn the_failed_member_and_the_spare_are_listed_and_not_used() {
    let failed = &of("ddf-raid5-4-failed")[0];
    assert_eq!(failed.others.len(), 1);
    assert_eq!((failed.others[0].drive, failed.others[0].what), (2, "failed"));
    let spare = &of("ddf-raid5-4-spare")[0];
    assert_eq!((spare.others[0].drive, spare.others[0].what), (3, "spare"));
    assert_eq!(spare.no_writing, Vec::<String>::new());
}

/// The content of a volume at a place of a drive: the index of its 64 KiB, or `None` for parity and
/// free space.
pub fn strip_at(volume: &FoundVolume, drive: usize, at: u64) -> Option<u64> {
    let member = volume.members.iter().find(|member| member.drive == Some(drive))?;
    let offset =
        at.checked_sub(member.data.start.0).filter(|offset| *offset < member.data.len.0)?;
    let mut base = 0;
    for section in &volume.sections {
        let geometry = section.geometry().unwrap();
        let index = section.members.iter().position(|(slot, _)| *slot == member.slot);
        let located = index.and_then(|index| {
            let within = offset.checked_sub(section.members[index].1.0)?;
            let is_used = within < section.member_size.0;
            geometry.locate(DriveIndex(index as u16), ByteOffset(within)).filter(|_| is_used)
        });
        if let Some(located) = located {
            let Role::Data { index, .. } = located.role else { return None };
            let place = geometry.volume_offset(located.stripe, index, located.within);
            return (place.0 < section.within.len.0).then_some((base + place.0) >> 16);
        }
        base += section.within.len.0;
    }
    None
}

/// The data found on a member, in units of 64 KiB.
fn measured(line: &str) -> (usize, Vec<Option<u64>>) {
    let (drive, rest) = line.split_once(':').unwrap();
    let mut strips = Vec::new();
    for word in rest.split_whitespace() {
        match word.strip_prefix('@') {
            Some(run) => {
                let numbers: Vec<u64> =
                    run.split(['+', '=']).map(|text| text.parse().unwrap()).collect();
                strips.extend((0..numbers[1] / 128).map(|index| Some(numbers[2] / 128 + index)));
            }
            None => strips.push(word.parse().ok()),
        }
    }
    (drive.parse().unwrap(), strips)
}

#[test]
fn every_strip_is_where_it_was_found_on_the_members() {
    for reference in REFERENCES {
        let images = members(reference.metadata);
        let found = volumes(&images.iter().collect::<Vec<_>>());
        let mut checked = 0;
        for line in reference.map.lines() {
            let (drive, strips) = measured(line);
            let is_out = found[0].others.iter().any(|other| other.drive == drive);
            if is_out {
                continue;
            }
            for (index, strip) in strips.iter().enumerate() {
                let at = (index as u64) << 16;
                let computed = found.iter().find_map(|volume| strip_at(volume, drive, at));
                // The first MiB of the degraded volume was overwritten.
                let is_overwritten = reference.name == "ddf-raid5-4-failed" && strip.is_none();
                if !is_overwritten {
                    assert_eq!(computed, *strip, "{} disk {drive}, {at} bytes in", reference.name);
                    checked += usize::from(strip.is_some());
                }
            }
        }
        let copies = found.iter().map(|volume| {
            let copies = volume.sections[0].geometry().unwrap().copies();
            (volume.capacity().0 >> 16) as usize * usize::from(copies)
        });
        let expected: usize = copies.sum();
        let is_failed = reference.name == "ddf-raid5-4-failed";
        assert!(
            if is_failed { checked > 500 } else { checked == expected },
            "{} {checked}",
            reference.name
        );
    }
}

#[test]
fn any_order_of_the_drives_makes_the_same_volume_and_missing_ones_are_told() {
    let images = reference("ddf-raid6-5-ddf-N-continue");
    let whole = &of("ddf-raid6-5-ddf-N-continue")[0];
    for shift in 0..5 {
        let mut turned: Vec<&Image> = images.iter().collect();
        turned.rotate_left(shift);
        let found = &volumes(&turned)[0];
        assert_eq!(found.record.arrangement, whole.record.arrangement);
        for (member, expected) in found.members.iter().zip(&whole.members) {
            assert_eq!((member.drive.unwrap() + shift) % 5, expected.drive.unwrap());
        }
        for few in [4, 3] {
            let found = &volumes(&turned[..few])[0];
            assert_eq!(found.state, State::Degraded);
            assert_eq!(found.out().count().0 as usize, 5 - few);
        }
        assert_eq!(volumes(&turned[..2])[0].state, State::NotReadable);
    }
}

#[test]
fn a_span_without_any_drive_makes_the_volume_unreadable_and_one_drive_of_each_serves() {
    let images = reference("ddf-raid10-4");
    // Slots 0 and 1 are the first span: disks 0 and 2.
    let found = &volumes(&[&images[0], &images[2]])[0];
    assert_eq!(found.state, State::NotReadable, "{:?}", found.reasons);
    assert_eq!(line(found).split('[').nth(1), Some("0 1 -=missing -=missing]"));
    let found = &volumes(&[&images[2], &images[3]])[0];
    assert_eq!((found.state, found.capacity()), (State::Degraded, ByteCount(32 << 20)));
    assert_eq!(line(found).split('[').nth(1), Some("-=missing 0 -=missing 1]"));
}

#[test]
fn drives_of_two_arrays_that_are_mixed_are_told_apart() {
    let (one, other) = (reference("ddf-raid5-5"), reference("ddf-raid5-4-spare"));
    let mixed: Vec<&Image> = one.iter().take(4).chain(&other).collect();
    let lines: Vec<String> = volumes(&mixed).iter().map(line).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().any(|line| line.ends_with("degraded [0 2 -=missing 1 3]")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("complete [4 6 8 5]")), "{lines:?}");
}

#[test]
fn a_cloned_drive_is_recognised_and_neither_is_used_unless_one_is_older() {
    let images = reference("ddf-raid5-5");
    let mut with_clone: Vec<&Image> = images.iter().collect();
    with_clone.push(&images[3]);
    let found = &volumes(&with_clone)[0];
    assert_eq!(found.state, State::Degraded);
    let copies: Vec<usize> = found.others.iter().map(|other| other.drive).collect();
    assert_eq!(copies, [3, 5]);
    assert!(found.others.iter().all(|other| other.what == "copy"));
}
