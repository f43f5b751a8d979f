//! Forged metadata: no decoder panics, runs endlessly, or reserves memory for untrusted lengths.

mod foreign;

use foreign::{Array, Drive, arrays, searched, seen, seen_by, told};
use ondisk::foreign::reconcile;
use proptest::prelude::*;

/// Corrects the checksum, so that the content is decoded.
fn seal(drive: &mut Drive) {
    for (_, bytes) in &mut drive.parts {
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let fold = |sum: u64| (sum as u32).wrapping_add((sum >> 32) as u32);
        let sum = |bytes: &[u8]| {
            bytes.chunks_exact(4).map(|chunk| u64::from(word(chunk, 0))).sum::<u64>()
        };
        if bytes.len() < 4096 || bytes[512..].starts_with(b"Intel") {
            // The anchor is the last block; it contains the length.
            let anchor = bytes.len() - 512;
            let length = word(bytes, anchor + 0x24) as usize;
            let all = [&bytes[anchor..], &bytes[..anchor]].concat();
            let sum = all[..length.min(all.len())].chunks_exact(4).map(|chunk| word(chunk, 0));
            let sum = sum.fold(0, u32::wrapping_add).wrapping_sub(word(bytes, anchor + 0x20));
            bytes[anchor + 0x20..anchor + 0x24].copy_from_slice(&sum.to_le_bytes());
        } else if word(bytes, 4) == 1 {
            let used = 256 + 2 * (word(bytes, 220) as usize);
            bytes[216..220].fill(0);
            let checksum = fold(sum(&bytes[..used.min(4096)]));
            bytes[216..220].copy_from_slice(&checksum.to_le_bytes());
        } else {
            bytes[152..156].fill(0);
            let checksum = fold(sum(bytes));
            bytes[152..156].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

/// One array of each kind of metadata.
fn samples() -> Vec<Array> {
    let names = [
        "raid5-4-meta0.90",
        "raid5-4-meta1.0",
        "raid5-4-bitmap",
        "raid5-4-rebuilt-on-spare",
        "raid0-3-zones-original",
        "linear-3",
        "raid10-5-f2",
        "raid6-6-left-symmetric-6",
        "imsm-raid10-4",
        "imsm-raid0-2",
    ];
    arrays().into_iter().filter(|array| names.contains(&&*array.name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_in_metadata_are_borne(
        which in 0usize..10,
        of_all in any::<bool>(),
        changes in prop::collection::vec((any::<u16>(), any::<u8>(), any::<bool>()), 1..12),
    ) {
        let mut drives = samples().swap_remove(which).drives;
        let count = if of_all { drives.len() } else { 1 };
        for drive in &mut drives[..count] {
            for (place, value, is_early) in &changes {
                let Some((_, bytes)) = drive.parts.first_mut() else { continue };
                // Most of the relevant bytes are at the beginning.
                let room = if *is_early { bytes.len().min(264) } else { bytes.len() };
                bytes[usize::from(*place) % room] = *value;
            }
            seal(drive);
        }
        let found = reconcile(&seen(&drives));
        for volume in &found {
            for member in &volume.members {
                let is_used =
                    |bad: &units::ByteRange| member.data.contains(*bad) && !bad.is_empty();
                prop_assert!(member.unreadable.iter().all(is_used), "{:?}", member);
                let mut pairs = member.unreadable.windows(2);
                let in_order = pairs.all(|pair| pair[0].end() <= pair[1].start);
                prop_assert!(in_order, "{:?}", member.unreadable);
            }
            prop_assert!(volume.members.len() <= 65536);
            for section in &volume.sections {
                prop_assert!(section.geometry().is_ok());
                prop_assert!(section.within.end().0 <= section.geometry().unwrap().capacity().0);
            }
        }
    }

    #[test]
    fn any_bytes_at_all_are_borne(
        bytes in prop::collection::vec(any::<u8>(), 0..20_000),
        cut in 0u64..70_000,
    ) {
        let parts = vec![(cut / 512 * 512, bytes)];
        let size = units::ByteCount(cut + 20_000);
        let (name, serial) = ("disk".into(), Some("S".into()));
        let (said, unreadable) = (String::new(), Vec::new());
        let drive = Drive { name, size, serial, said, parts, unreadable };
        told(&drive);
        searched(&drive);
    }
}

proptest! {
    // A search reads 32 MiB.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_bytes_that_a_search_comes_across_are_borne(
        which in 0usize..10,
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6),
    ) {
        let mut drives = samples().swap_remove(which).drives;
        drives.truncate(1);
        for (place, value) in &changes {
            let Some((_, bytes)) = drives[0].parts.first_mut() else { continue };
            let room = bytes.len().min(264);
            bytes[usize::from(*place) % room] = *value;
        }
        seal(&mut drives[0]);
        drives[0].size.0 += 1 << 20;
        for volume in reconcile(&seen_by(&drives, searched)) {
            prop_assert!(volume.sections.iter().all(|section| section.geometry().is_ok()));
        }
    }
}
