//! Arbitrary bytes: no panic, no endless loop, bounded memory.

use crate::image::{Image, REFERENCES, members};
use crate::made::{images, raid5};
use ondisk::ddf::{Checksum, Drive, Effort, Extras, Look, Order, repair, tell, update};
use ondisk::foreign::{Seen, reconcile};
use proptest::prelude::*;
use std::sync::LazyLock;
use units::{ByteCount, ByteOffset, ByteRange};

static WHOLE: LazyLock<Vec<Vec<Image>>> = LazyLock::new(|| {
    let mut all: Vec<Vec<Image>> =
        REFERENCES.iter().map(|reference| members(reference.metadata)).collect();
    all.push(images(&raid5()));
    all
});

/// Uses everything that was found.
fn use_it(images: &[Image]) {
    let looks = images.iter().map(|image| image.look(Effort::Usual));
    let drives: Vec<Drive> = looks
        .filter_map(|look| if let Look::Found(drive) = look { Some(*drive) } else { None })
        .collect();
    let refs: Vec<&Drive> = drives.iter().collect();
    let mut seen = Vec::new();
    for (drive, told) in tell(&refs).into_iter().enumerate() {
        let size = refs[drive].size;
        seen.extend(told.records.into_iter().map(|record| Seen {
            drive,
            name: "drive".into(),
            size,
            record,
        }));
    }
    let found = reconcile(&seen);
    assert!(found.len() <= seen.len());
    for drive in &drives {
        // It is either written, or refused with an error.
        let _ = repair(drive);
        let mut next = drive.structure.clone();
        next.header.sequence = next.header.sequence.wrapping_add(1);
        let _ = update(drive.size, Some(drive), &next);
        let _ = drive.structure.vendor_log.as_ref().map(Extras::of);
    }
}

/// Sets a byte of a drive, and corrects the CRC of its section, so that the section is decoded.
fn mutate(image: &mut Image, at: u64, value: u8, seals: bool) {
    let sections = [(0, 1), (1, 1), (2, 128), (130, 32), (162, 7), (169, 7), (617, 1), (618, 264)];
    let whole = |lba: u64| match image.size {
        50_331_648 => [65536, 32768, 98303].contains(&lba),
        _ => false,
    };
    let headers: Vec<u64> = (0..image.size / 512)
        .rev()
        .take(1)
        .chain([65536, 32768])
        .filter(|lba| whole(*lba))
        .collect();
    let lba = at / 512;
    let range = headers.iter().find_map(|header| {
        let of =
            |(offset, len): (u64, u64)| (header + offset..header + offset + len).contains(&lba);
        let found = sections.into_iter().find(|section| of(*section))?;
        let sectors = found.1.min(image.size / 512 - header - found.0);
        Some(ByteRange::new(ByteOffset((header + found.0) * 512), ByteCount(512 * sectors)))
    });
    let range = range.unwrap_or(ByteRange::new(ByteOffset(lba * 512), ByteCount(512)));
    let mut bytes = image.read(range).unwrap();
    bytes[(at - range.start.0) as usize] = value;
    if seals {
        let crc = Checksum::Raw.of_section(&bytes).to_be_bytes();
        bytes[4..8].copy_from_slice(&crc);
        assert_eq!(Checksum::carried_by(&bytes, Order::Big), Some(Checksum::Raw));
    }
    image.write(range.start, &bytes);
}

/// Interesting places: headers, heads of sections, and arbitrary places in a copy.
fn place() -> impl Strategy<Value = u64> {
    let sector = prop_oneof![
        Just(98303_u64),
        Just(65536),
        Just(32768),
        Just(65536 + 162),
        Just(65536 + 163),
        Just(65536 + 2),
        Just(65536 + 130),
        Just(65536 + 617),
        65536..65536 + 620_u64,
    ];
    (sector, prop_oneof![0..160_u64, 190..260_u64, 0..512_u64])
        .prop_map(|(sector, at)| sector * 512 + at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn mutated_structures_are_read_or_refused(
        which in 0..REFERENCES.len(),
        drive in 0..2_usize,
        changes in prop::collection::vec(
            (place(), prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], any::<bool>()),
            1..6,
        ),
    ) {
        let mut images = WHOLE[which].clone();
        for (at, value, seals) in changes {
            mutate(&mut images[drive], at, value, seals);
        }
        use_it(&images);
    }

    #[test]
    fn any_tail_is_read_or_refused(
        size in 1_u64..200,
        seed in prop::collection::vec(any::<u8>(), 64),
        signed in any::<bool>(),
    ) {
        let mut image = Image::blank(size * 512);
        for lba in 0..size {
            let repeated = seed.iter().cycle().take(512).enumerate();
            let mut sector: Vec<u8> =
                repeated.map(|(i, byte)| byte ^ (i as u8) ^ lba as u8).collect();
            if signed {
                sector[..4].copy_from_slice(&0xDE11_DE11_u32.to_be_bytes());
                sector[32..34].copy_from_slice(b"01");
                sector[112] = (lba % 3) as u8;
                let crc = Checksum::Standard.of_section(&sector).to_be_bytes();
                sector[4..8].copy_from_slice(&crc);
            }
            image.write(ByteOffset(lba * 512), &sector);
        }
        let _ = image.look(Effort::Search);
    }
}

#[test]
fn a_drive_of_any_small_size_is_looked_at_without_panic() {
    for size in [0, 1, 511, 512, 4095, 4096, 4608, 512 * 257] {
        let image = Image::blank(size / 512 * 512);
        assert!(matches!(image.look(Effort::Search), Look::Nothing(_)), "{size}");
    }
}
