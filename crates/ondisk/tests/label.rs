//! Labels in their slots: golden bytes, torn writes, hostile bytes.

use ondisk::{
    BLOCK, Carried, Cause, ErrorKind, Label, Member, MemberState, Phase, SLOT, Slot, Tail, Uuid, VolumeLabel,
    WriteHole, encode, length, newest,
};
use proptest::prelude::*;
use units::ByteCount;

fn uuid(last: u8) -> Uuid {
    let mut bytes = [0x10; 16];
    bytes[15] = last;
    Uuid(bytes)
}

fn label() -> Label {
    let member = |slot: u8| Member {
        uuid: uuid(slot),
        name: format!("/drives/{slot}"),
        state: MemberState::Online,
        since: 1,
        cause: None,
        missed_writes: false,
    };
    let mut label = Label {
        array: uuid(0xAA),
        drive: uuid(1),
        generation: 7,
        phase: Phase::Online,
        clean: false,
        volume: VolumeLabel {
            uuid: uuid(0xBB),
            name: "data".into(),
            level: layout::Level::Raid5,
            rotation: Some(layout::ParityArrangement::LeftSymmetric),
            spans: 1,
            strip_bytes: 65536,
            member_bytes: 1 << 20,
            sector_bytes: 512,
            capacity_bytes: 2 << 20,
            write_hole: WriteHole::Resync,
            created_unix_s: 1_700_000_000,
        },
        member: (0..3).map(member).collect(),
    };
    let failed = &mut label.member[2];
    (failed.state, failed.since) = (MemberState::Failed, 6);
    (failed.cause, failed.missed_writes) = (Some(Cause::Error), true);
    label
}

const TEXT: &str = r#"array = "10101010-1010-1010-1010-1010101010aa"
drive = "10101010-1010-1010-1010-101010101001"
generation = 7
phase = "online"
clean = false

[volume]
uuid = "10101010-1010-1010-1010-1010101010bb"
name = "data"
level = "raid5"
rotation = "left-symmetric"
spans = 1
strip_bytes = 65536
member_bytes = 1048576
sector_bytes = 512
capacity_bytes = 2097152
write_hole = "resync"
created_unix_s = 1700000000

[[member]]
uuid = "10101010-1010-1010-1010-101010101000"
name = "/drives/0"
state = "online"
since = 1

[[member]]
uuid = "10101010-1010-1010-1010-101010101001"
name = "/drives/1"
state = "online"
since = 1

[[member]]
uuid = "10101010-1010-1010-1010-101010101002"
name = "/drives/2"
state = "failed"
since = 6
cause = "error"
missed_writes = true
"#;

/// CRC-32C by the book, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

#[test]
fn a_label_is_these_bytes() {
    assert_eq!(crc(b"123456789"), 0xE306_9283);
    let mut bytes = vec![0; 8192];
    bytes[..8].copy_from_slice(b"SoftROC\0");
    bytes[8..12].copy_from_slice(&[1, 0, 0, 0]);
    bytes[16..24].copy_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0]);
    bytes[24..28].copy_from_slice(&(TEXT.len() as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&crc(TEXT.as_bytes()).to_le_bytes());
    bytes[32..64].fill(0x10);
    bytes[47] = 0xAA;
    bytes[63] = 1;
    let header_crc = crc(&bytes[..4096]);
    bytes[12..16].copy_from_slice(&header_crc.to_le_bytes());
    bytes[4096..4096 + TEXT.len()].copy_from_slice(TEXT.as_bytes());

    let encoded = encode(&label(), 9).unwrap();
    assert_eq!(String::from_utf8_lossy(&encoded[4096..]).trim_end_matches('\0'), TEXT);
    assert_eq!(encoded, bytes);
    assert_eq!(length(&bytes), ByteCount(8192));
    let blank = vec![0; 4096];
    assert_eq!(newest([&blank, &bytes]).unwrap(), Carried { label: label(), sequence: 9, slot: Slot::B });
}

#[test]
fn the_newer_of_two_sound_labels_counts() {
    let (old, new) = (encode(&label(), 1).unwrap(), encode(&label(), 2).unwrap());
    assert_eq!(newest([&old, &new]).unwrap().slot, Slot::B);
    assert_eq!(newest([&new, &old]).unwrap().slot, Slot::A);
}

#[test]
fn a_label_of_another_version_is_refused_even_beside_a_sound_one() {
    let mut other = encode(&label(), 1).unwrap();
    other[8] = 2;
    other[12..16].fill(0);
    let header_crc = crc(&other[..4096]);
    other[12..16].copy_from_slice(&header_crc.to_le_bytes());
    let sound = encode(&label(), 2).unwrap();
    let error = newest([&other, &sound]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(error.context.contains("version 2"), "{error}");
}

#[test]
fn a_drive_without_labels_is_blank_and_one_with_broken_labels_is_not() {
    let blank = vec![0; 4096];
    assert_eq!(newest([&blank, &blank]).unwrap_err().kind, ErrorKind::Blank);
    let mut broken = encode(&label(), 1).unwrap();
    broken[4200] ^= 1;
    assert_eq!(newest([&blank, &broken]).unwrap_err().kind, ErrorKind::Damaged);
}

#[test]
fn a_label_that_contradicts_itself_is_refused_with_a_sentence() {
    let wrong = |change: fn(&mut Label)| {
        let mut label = label();
        change(&mut label);
        label.check().unwrap_err().to_string()
    };
    assert!(wrong(|label| label.volume.strip_bytes = 5000).contains("5000"));
    assert!(wrong(|label| label.volume.capacity_bytes = 1 << 40).contains("capacity"));
    assert!(wrong(|label| label.volume.name = "a/b".into()).contains("a/b"));
    assert!(wrong(|label| label.member[0].uuid = label.member[1].uuid).contains("two members"));
    assert!(wrong(|label| label.drive = Uuid([9; 16])).contains("no member"));
    assert!(wrong(|label| label.member.truncate(2)).contains("raid5"));
    assert!(wrong(|label| label.volume.spans = 2).contains("2 spans"));
    assert!(wrong(|label| label.volume.sector_bytes = 520).contains("520"));
    assert!(wrong(|label| label.volume.member_bytes += 512).contains("whole strips"));
    assert!(wrong(|label| label.generation = 0).contains("generation"));
}

#[test]
fn the_label_of_the_largest_array_fits_its_slot() {
    let mut large = label();
    large.volume.level = layout::Level::Raid0;
    large.volume.rotation = None;
    large.member = (0..=255).map(|slot| Member { uuid: uuid(slot), ..large.member[0].clone() }).collect();
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(3000));
    let bytes = encode(&large, 1).unwrap();
    assert!(bytes.len() as u64 <= SLOT.0);
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(4200));
    assert_eq!(encode(&large, 1).unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn data_ends_where_the_tail_begins() {
    let tail = Tail::of(ByteCount(100 << 20)).unwrap();
    assert_eq!(tail.start().0, 68 << 20);
    assert_eq!((tail.slot(Slot::B).start - tail.start()), SLOT);
    assert!(label().fits(ByteCount(33 << 20)));
    assert!(!label().fits(ByteCount((33 << 20) - 512)));
    assert_eq!(&ondisk::mark(&tail)[..16], b"SoftROC member\0\0");
}

proptest! {
    #[test]
    fn a_torn_write_of_a_label_leaves_the_one_before(keep in 0_usize..=8192, first in any::<bool>()) {
        let mut old = label();
        let mut slots = [vec![0_u8; 12288], vec![0; 12288]];
        let at = usize::from(!first);
        let before = encode(&old, 3).unwrap();
        slots[at][..before.len()].copy_from_slice(&before);
        let (unchanged, slot) = (old.clone(), newest([&slots[0], &slots[1]]).unwrap().slot);
        old.generation += 1;
        let after = encode(&old, 4).unwrap();
        let keep = keep.min(after.len());
        prop_assert_eq!(slot.other() == Slot::A, at == 1);
        slots[1 - at][..keep].copy_from_slice(&after[..keep]);
        let found = newest([&slots[0], &slots[1]]).unwrap().label;
        prop_assert!(found == unchanged || found == old);
    }

    #[test]
    fn any_change_of_a_byte_is_noticed_or_harmless(at in 0_usize..8192, value in any::<u8>()) {
        let mut bytes = encode(&label(), 3).unwrap();
        let at = at % bytes.len();
        bytes[at] = value;
        let blank = vec![0_u8; 4096];
        if let Ok(found) = newest([&bytes, &blank]) {
            prop_assert_eq!(found.label, label());
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        a in prop::collection::vec(any::<u8>(), 0..9000),
        mut b in prop::collection::vec(any::<u8>(), 64..9000),
    ) {
        b[..8].copy_from_slice(b"SoftROC\0");
        prop_assert!(newest([&a, &b]).is_err());
        prop_assert!(length(&b) <= SLOT && length(&b) >= BLOCK);
    }

    #[test]
    fn any_text_with_sound_checksums_is_read_without_panic(
        generation in any::<u64>(), strip in any::<u64>(), member in any::<u64>(), capacity in any::<u64>(),
        spans in any::<u16>(), sector in any::<u64>(), name in ".*", members in 0_usize..4,
    ) {
        let mut label = label();
        label.generation = generation;
        label.member.truncate(members);
        let volume = &mut label.volume;
        (volume.strip_bytes, volume.member_bytes, volume.capacity_bytes) = (strip, member, capacity);
        (volume.spans, volume.sector_bytes, volume.name) = (spans, sector, name);
        let blank = vec![0_u8; 4096];
        if let Ok(bytes) = encode(&label, 1) {
            let read = newest([&bytes, &blank]);
            prop_assert_eq!(read.is_ok(), label.check().is_ok());
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written(
        generation in 1_u64..1 << 60, clean in any::<bool>(), name in "[a-z][a-z0-9._-]{0,63}", path in ".{0,40}",
    ) {
        let mut label = label();
        (label.generation, label.clean, label.volume.name) = (generation, clean, name);
        label.member[0].name = path;
        let bytes = encode(&label, generation).unwrap();
        let found = newest([&bytes, &[]]).unwrap();
        prop_assert_eq!((found.label, found.sequence), (label, generation));
    }
}
