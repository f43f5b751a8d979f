//! Labels in their slots: golden bytes, torn writes, hostile bytes.

use ondisk::{
    BLOCK, Bad, Bay, Carried, Cause, Content, ErrorKind, Init, Label, Member, MemberState, Phase, Policy,
    Relocated, Runs, SLOT, Shadow, Slot, SpareLabel, SpareScope, StandIn, Tail, Uuid, VolumeLabel, WriteHole,
    encode, encode_spare, length, newest,
};
use proptest::prelude::*;
use units::ByteCount;

fn uuid(last: u8) -> Uuid {
    let mut bytes = [0x10; 16];
    bytes[15] = last;
    Uuid(bytes)
}

fn volume() -> VolumeLabel {
    VolumeLabel {
        uuid: uuid(0xBB),
        name: "data".into(),
        level: layout::Level::Raid5,
        parity: Some(layout::ParityArrangement::LeftSymmetric),
        mirrors: None,
        spans: 1,
        copies: 1,
        strip_bytes: 65536,
        data_start_bytes: 0,
        member_bytes: 1 << 20,
        first_lane: 0,
        lanes: 10,
        sector_bytes: 512,
        capacity_bytes: 2 << 20,
        write_hole: WriteHole::Resync,
        init: Init::Background,
        created_unix_s: 1_700_000_000,
        lost: Vec::new(),
        unwritten: Runs::default(),
        relocated: None,
        bad: Vec::new(),
    }
}

fn label() -> Label {
    let member = |slot: u8| Member::online(uuid(slot), format!("/drives/{slot}"), 1);
    let mut label = Label {
        array: uuid(0xAA),
        drive: uuid(1),
        generation: 7,
        confirmed: 6,
        phase: Phase::Online,
        clean: false,
        policy: Policy::default(),
        volume: vec![volume()],
        member: (0..3).map(member).collect(),
    };
    let failed = &mut label.member[2];
    (failed.state, failed.since, failed.knew) = (MemberState::Failed, 6, 5);
    (failed.cause, failed.stale) = (Some(Cause::Error), Runs(vec![[3, 5], [9, 10]]));
    label
}

/// A second volume, and everything that a label may say.
fn full_label() -> Label {
    let mut label = label();
    label.volume.push(VolumeLabel {
        uuid: uuid(0xBC),
        name: "more".into(),
        level: layout::Level::Raid1,
        parity: None,
        copies: 3,
        data_start_bytes: 1 << 20,
        first_lane: 10,
        lanes: 1,
        capacity_bytes: 1 << 20,
        init: Init::Zeroed,
        lost: vec![2],
        unwritten: Runs(vec![[10, 11]]),
        relocated: Some(Relocated { slot: 2, lanes: Runs(vec![[10, 11]]) }),
        bad: vec![Bad { slot: 1, bytes: vec![[512, 1024], [4096, 8192]] }],
        ..volume()
    });
    label.member[0].enclosure = Some("shelf 1".into());
    let stands_in = StandIn {
        instead_of: "/drives/8".into(),
        bay: Some(Bay { enclosure: "shelf 1".into(), slot: "3".into() }),
        scope: Some(SpareScope::Global),
        revertible: true,
    };
    label.member[0].stands_in = Some(stands_in.clone());
    label.member[0].shadow = Some(Shadow {
        uuid: uuid(0x77),
        name: "/drives/7".into(),
        stale: Runs(vec![[0, 11]]),
        stands_in: Some(stands_in),
    });
    label
}

fn spare() -> SpareLabel {
    SpareLabel {
        drive: uuid(9),
        scope: SpareScope::Arrays(vec![uuid(0xAA)]),
        enclosure: Some("shelf 1".into()),
        revertible: true,
        since_unix_s: 1_700_000_000,
    }
}

fn read(slots: [&[u8]; 2]) -> Label {
    newest(slots).unwrap().label().unwrap().clone()
}

const TEXT: &str = r#"array = "10101010-1010-1010-1010-1010101010aa"
drive = "10101010-1010-1010-1010-101010101001"
generation = 7
confirmed = 6
phase = "online"
clean = false

[policy]
medium_error_limit = 100
copyback = true
emergency_spare = false
drive_guard = true
mixed_kinds = false
task_share_percent = 30

[[volume]]
uuid = "10101010-1010-1010-1010-1010101010bb"
name = "data"
level = "raid5"
parity = "left-symmetric"
spans = 1
copies = 1
strip_bytes = 65536
data_start_bytes = 0
member_bytes = 1048576
first_lane = 0
lanes = 10
sector_bytes = 512
capacity_bytes = 2097152
write_hole = "resync"
init = "background"
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
knew = 5
cause = "error"
stale = [[3, 5], [9, 10]]
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
    bytes[8..12].copy_from_slice(&[2, 0, 0, 0]);
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
    let content = Content::Member(Box::new(label()));
    assert_eq!(newest([&blank, &bytes]).unwrap(), Carried { content, sequence: 9, slot: Slot::B });
}

#[test]
fn everything_that_a_label_may_say_is_read_as_it_was_written() {
    let label = full_label();
    label.check().unwrap();
    let bytes = encode(&label, 3).unwrap();
    assert_eq!(read([&bytes, &[]]), label);
    // The shadow carries the label too.
    let shadows = label.for_drive(uuid(0x77));
    assert_eq!((shadows.slot(), shadows.slot_of(uuid(0x77))), (Some(0), None));
    assert_eq!(read([&encode(&shadows, 4).unwrap(), &bytes]), shadows);
}

#[test]
fn the_label_of_a_spare_is_told_from_that_of_a_member() {
    let bytes = encode_spare(&spare(), 5).unwrap();
    assert_eq!(bytes[32..48], [0; 16]);
    let carried = newest([&bytes, &[]]).unwrap();
    assert_eq!((carried.label(), &carried.content), (None, &Content::Spare(spare())));
    for scope in [SpareScope::Global, SpareScope::Enclosure] {
        let spare = SpareLabel { scope, ..spare() };
        let found = newest([&encode_spare(&spare, 1).unwrap(), &[]]).unwrap();
        assert_eq!(found.content, Content::Spare(spare));
    }
    for wrong in [
        SpareLabel { scope: SpareScope::Arrays(Vec::new()), ..spare() },
        SpareLabel { scope: SpareScope::Enclosure, enclosure: None, ..spare() },
        SpareLabel { enclosure: Some("a\nb".into()), ..spare() },
    ] {
        let bytes = encode_spare(&wrong, 1).unwrap();
        assert_eq!(newest([&bytes, &[]]).unwrap_err().kind, ErrorKind::Contradiction, "{wrong:?}");
    }
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
    other[8] = 1;
    other[12..16].fill(0);
    let header_crc = crc(&other[..4096]);
    other[12..16].copy_from_slice(&header_crc.to_le_bytes());
    let sound = encode(&label(), 2).unwrap();
    let error = newest([&other, &sound]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(error.context.contains("version 1") && error.context.contains("version 2"), "{error}");
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
        let mut label = full_label();
        change(&mut label);
        label.check().unwrap_err().to_string()
    };
    assert!(wrong(|label| label.volume[0].strip_bytes = 5000).contains("5000"));
    assert!(wrong(|label| label.volume[0].capacity_bytes = 1 << 40).contains("capacity"));
    assert!(wrong(|label| label.volume[0].name = "a/b".into()).contains("a/b"));
    assert!(wrong(|label| label.member[0].uuid = label.member[1].uuid).contains("two members"));
    assert!(wrong(|label| label.drive = Uuid([9; 16])).contains("no member"));
    assert!(wrong(|label| label.member.truncate(2)).contains("raid5"));
    assert!(wrong(|label| label.member.clear()).contains("0 members"));
    assert!(wrong(|label| label.volume.clear()).contains("0 volumes"));
    assert!(wrong(|label| label.volume[0].spans = 2).contains("2 spans"));
    assert!(wrong(|label| label.volume[1].copies = 2).contains("2"));
    assert!(wrong(|label| label.volume[0].sector_bytes = 520).contains("520"));
    assert!(wrong(|label| label.volume[0].member_bytes += 512).contains("whole strips"));
    assert!(wrong(|label| label.generation = 0).contains("generation"));
    assert!(wrong(|label| label.confirmed = 7).contains("confirmed"));
    assert!(wrong(|label| label.generation = 1 << 40).contains("confirmed"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = 65536).contains("same bytes"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = u64::MAX - 511).contains("begin"));
    assert!(wrong(|label| label.volume[1].data_start_bytes = (1 << 20) + 1).contains("begin"));
    assert!(wrong(|label| label.volume[0].lanes = 11).contains("same lanes"));
    assert!(wrong(|label| label.volume[1].first_lane = u32::MAX).contains("lanes"));
    assert!(wrong(|label| label.volume[1].lanes = 0).contains("lanes"));
    assert!(wrong(|label| label.volume[1].name = "data".into()).contains("alike"));
    assert!(wrong(|label| label.volume[1].uuid = label.volume[0].uuid).contains("alike"));
    assert!(wrong(|label| label.volume[1].lost = vec![3]).contains("slots"));
    assert!(wrong(|label| label.volume[1].unwritten = Runs(vec![[9, 11]])).contains("not its own"));
    assert!(wrong(|label| label.volume[1].unwritten = Runs(vec![[11, 10]])).contains("unwritten"));
    assert!(wrong(|label| label.volume[1].bad[0].slot = 3).contains("slots"));
    assert!(wrong(|label| label.volume[1].bad[0].bytes[0] = [1, 512]).contains("lost blocks"));
    assert!(wrong(|label| label.volume[1].bad[0].bytes.swap(0, 1)).contains("lost blocks"));
    assert!(wrong(|label| label.member[2].stale = Runs(vec![[5, 5]])).contains("stale"));
    assert!(wrong(|label| label.member[2].stale = Runs(vec![[0, u32::MAX]])).contains("stale"));
    assert!(wrong(|label| label.member[2].knew = 6).contains("since"));
    assert!(wrong(|label| label.member[2].since = 8).contains("since"));
    assert!(wrong(|label| label.member[0].enclosure = Some(String::new())).contains("enclosure"));
    assert!(wrong(|label| label.policy.task_share_percent = 0).contains("percent"));
    assert!(wrong(|label| label.policy.task_share_percent = 101).contains("percent"));
}

#[test]
fn the_label_of_the_largest_array_fits_its_slot() {
    let mut large = label();
    large.volume[0].level = layout::Level::Raid0;
    large.volume[0].parity = None;
    large.member = (0..=255).map(|slot| Member::online(uuid(slot), "", 1)).collect();
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(3000));
    let bytes = encode(&large, 1).unwrap();
    assert!(bytes.len() as u64 <= SLOT.0);
    large.member.iter_mut().for_each(|member| member.name = "x".repeat(4200));
    assert_eq!(encode(&large, 1).unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn sets_of_lanes_that_do_not_fit_are_coarser_and_never_wrong() {
    let mut large = label();
    large.volume[0].lanes = 1 << 20;
    let every_other = Runs((0..1 << 18).map(|at| [4 * at, 4 * at + 1 + at % 2]).collect());
    large.member[1].stale = every_other.clone();
    large.volume[0].unwritten = every_other.clone();
    let found = read([&encode(&large, 1).unwrap(), &[]]);
    assert!(
        every_other.0.iter().all(|run| found.member[1]
            .stale
            .0
            .iter()
            .any(|wide| wide[0] <= run[0] && run[1] <= wide[1]))
    );
    assert!(found.volume[0].unwritten.0.iter().all(|run| every_other.0.contains(run)));
    assert!(found.member[1].stale.0.len() > 100);
}

#[test]
fn as_many_volumes_as_an_array_may_have_fit() {
    let mut many = label();
    many.volume = (0..ondisk::MAX_VOLUMES as u64)
        .map(|number| VolumeLabel {
            uuid: Uuid([number as u8; 16]),
            name: format!("{number:0>64}"),
            data_start_bytes: number << 20,
            first_lane: number as u32,
            lanes: 1,
            ..volume()
        })
        .collect();
    many.member[2].stale = Runs::one(0, 256);
    many.check().unwrap();
    assert_eq!(read([&encode(&many, 1).unwrap(), &[]]), many);
    assert_eq!((many.lanes(), many.used_bytes()), (256, 256 << 20));
    assert!(many.names().ends_with("and 254 more volumes"));
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
        (old.generation, old.confirmed) = (8, 7);
        let after = encode(&old, 4).unwrap();
        let keep = keep.min(after.len());
        prop_assert_eq!(slot.other() == Slot::A, at == 1);
        slots[1 - at][..keep].copy_from_slice(&after[..keep]);
        let found = read([&slots[0], &slots[1]]);
        prop_assert!(found == unchanged || found == old);
    }

    #[test]
    fn any_change_of_a_byte_is_noticed_or_harmless(at in 0_usize..8192, value in any::<u8>()) {
        let mut bytes = encode(&label(), 3).unwrap();
        let at = at % bytes.len();
        bytes[at] = value;
        let blank = vec![0_u8; 4096];
        if let Ok(found) = newest([&bytes, &blank]) {
            prop_assert_eq!(found.label(), Some(&label()));
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
        numbers in prop::array::uniform8(any::<u64>()), lanes in prop::array::uniform4(any::<u32>()),
        spans in any::<u16>(), name in ".*", members in 0_usize..4,
    ) {
        let mut label = full_label();
        [label.generation, label.confirmed, ..] = numbers;
        label.member.truncate(members);
        let volume = &mut label.volume[1];
        [_, _, volume.strip_bytes, volume.member_bytes, volume.capacity_bytes, volume.sector_bytes, ..] = numbers;
        volume.bad[0].bytes[0] = [numbers[6], numbers[7]];
        volume.data_start_bytes = numbers[7];
        volume.unwritten = Runs(vec![[lanes[0], lanes[1]]]);
        (volume.first_lane, volume.lanes) = (lanes[2], lanes[3]);
        (volume.spans, volume.name) = (spans, name);
        let blank = vec![0_u8; 4096];
        if let Ok(bytes) = encode(&label, 1) {
            let read = newest([&bytes, &blank]);
            prop_assert_eq!(read.is_ok(), label.check().is_ok());
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written(
        generation in 2_u64..1 << 60, clean in any::<bool>(), name in "[a-z][a-z0-9._-]{0,63}", path in ".{0,40}",
    ) {
        let mut label = label();
        (label.generation, label.confirmed, label.clean) = (generation + 8, generation + 7, clean);
        label.volume[0].name = name;
        label.member[0].name = path;
        let bytes = encode(&label, generation).unwrap();
        let found = newest([&bytes, &[]]).unwrap();
        prop_assert_eq!((found.label(), found.sequence), (Some(&label), generation));
    }
}
