//! The label of a log device: golden, torn, hostile, and distinguished from every other content of
//! a drive.

use ondisk::foreign::Glimpse;
use ondisk::{Found, LogFound, LogLabel, LogMember, LogPlace, Uuid, find};
use proptest::prelude::*;
use units::{ByteCount, ByteOffset, ByteRange};

const MIB: u64 = 1 << 20;

fn uuid(last: u8) -> Uuid {
    let mut bytes = [0x10; 16];
    bytes[15] = last;
    Uuid(bytes)
}

fn place(volume: u8, start: u64, len: u64) -> LogPlace {
    LogPlace {
        volume: uuid(volume),
        name: format!("data{volume}"),
        start_bytes: start * MIB,
        len_bytes: len * MIB,
    }
}

fn label() -> LogLabel {
    let device = |number: u8| LogMember { uuid: uuid(number), name: format!("/drives/{number}") };
    LogLabel {
        log: uuid(0xAA),
        device: uuid(1),
        generation: 7,
        since_unix_s: 1_700_000_000,
        devices: vec![device(1), device(2)],
        place: vec![place(5, 1, 7), place(6, 8, 2)],
    }
}

const TEXT: &str = r#"log = "10101010-1010-1010-1010-1010101010aa"
generation = 7
since_unix_s = 1700000000

[[devices]]
uuid = "10101010-1010-1010-1010-101010101001"
name = "/drives/1"

[[devices]]
uuid = "10101010-1010-1010-1010-101010101002"
name = "/drives/2"

[[place]]
volume = "10101010-1010-1010-1010-101010101005"
name = "data5"
start_bytes = 1048576
len_bytes = 7340032

[[place]]
volume = "10101010-1010-1010-1010-101010101006"
name = "data6"
start_bytes = 8388608
len_bytes = 2097152
"#;

/// A copy with that text and a valid checksum, encoded by hand.
fn copy_of(version: u8, generation: u8, text: &str) -> Vec<u8> {
    let mut bytes = b"SRoClogd".to_vec();
    bytes.extend([version, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(uuid(1).0);
    bytes.extend([generation, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(text.as_bytes());
    let crc = crc32c::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    bytes
}

fn found(copy0: &[u8], copy1: &[u8]) -> LogFound {
    LogLabel::find(Some(copy0), Some(copy1))
}

fn why(found: LogFound) -> String {
    match found {
        LogFound::Bad(why) => why,
        other => panic!("no error: {other:?}"),
    }
}

/// A device of 16 MiB with these copies.
fn device(copies: [&[u8]; 2]) -> Vec<u8> {
    let mut bytes = vec![0; 16 << 20];
    for (at, copy) in [64 << 10, 512 << 10].into_iter().zip(copies) {
        bytes[at..at + copy.len()].copy_from_slice(copy);
    }
    bytes
}

#[test]
fn a_label_is_these_bytes() {
    let bytes = label().encode().unwrap();
    assert_eq!(bytes, copy_of(1, 7, TEXT));
    assert_eq!(found(&bytes, &bytes), LogFound::Sound(label()));
    let other = label().for_device(uuid(2));
    assert_eq!(other.encode().unwrap()[64..], bytes[64..], "both devices carry the same text");
    assert_eq!(LogLabel::copies().map(|copy| copy.start.0), [64 << 10, 512 << 10]);
}

#[test]
fn the_newer_of_two_sound_copies_counts_and_a_torn_one_does_not() {
    let old = label().encode().unwrap();
    let newer = LogLabel { generation: 8, place: Vec::new(), ..label() };
    let new = newer.encode().unwrap();
    assert_eq!(found(&new, &old), LogFound::Sound(newer.clone()));
    assert_eq!(found(&old, &new), LogFound::Sound(newer.clone()));
    // Every interruption of the change, at any sector of either copy.
    for at in (0..old.len()).step_by(512) {
        let torn = [&new[..at], &old[at..]].concat();
        let before = found(&torn, &old);
        assert!(
            before == LogFound::Sound(label()) || before == LogFound::Sound(newer.clone()),
            "{at}"
        );
        assert_eq!(found(&new, &torn), LogFound::Sound(newer.clone()), "{at}");
    }
    assert_eq!(LogLabel::find(None, Some(&old)), LogFound::Sound(label()));
    assert_eq!(LogLabel::find(Some(&old), None), LogFound::Sound(label()));
}

#[test]
fn a_first_label_that_was_cut_off_is_none_and_two_damaged_copies_are_a_fault() {
    let (whole, zeroes) = (label().encode().unwrap(), vec![0; 4096]);
    assert_eq!(found(&zeroes, &zeroes), LogFound::Blank);
    let mut torn = whole.clone();
    torn[512..].fill(0);
    assert_eq!(found(&torn, &zeroes), LogFound::Blank, "the first label was being written");
    assert_eq!(found(&zeroes, &torn), LogFound::Blank, "the label was being taken off");
    assert_eq!(found(&zeroes, &whole), LogFound::Sound(label()), "it is not taken off yet");
    assert!(why(found(&torn, &torn)).contains("both copies of its log label are damaged"));
    assert!(why(LogLabel::find(Some(&torn), None)).contains("both copies"));
    assert_eq!(LogLabel::find(Some(&zeroes), None), LogFound::Blank);
}

#[test]
fn another_version_is_refused_whichever_copy_has_it() {
    let (ours, newer) = (label().encode().unwrap(), copy_of(2, 8, TEXT));
    for (copy0, copy1) in [(&newer, &ours), (&ours, &newer), (&newer, &newer)] {
        assert!(why(found(copy0, copy1)).contains("version 2 of its format"));
    }
}

#[test]
fn what_a_label_may_not_say_is_refused() {
    let wrong = |change: fn(&mut LogLabel)| {
        let mut label = label();
        change(&mut label);
        label.check().unwrap_err().to_string()
    };
    assert!(wrong(|label| label.generation = 0).contains("generation 0"));
    assert!(wrong(|label| label.devices.clear()).contains("0 devices"));
    assert!(wrong(|label| label.devices.push(label.devices[0].clone())).contains("3 devices"));
    assert!(wrong(|label| label.devices[1] = label.devices[0].clone()).contains("twice"));
    assert!(wrong(|label| label.device = uuid(9)).contains("does not name the device"));
    assert!(wrong(|label| label.devices[1].name.clear()).contains("no name"));
    assert!(wrong(|label| label.devices[1].name = "a\nb".into()).contains("no name"));
    assert!(wrong(|label| label.place[1].name = "a b".into()).contains("no name"));
    assert!(wrong(|label| label.place[1].start_bytes += 512).contains("invalid place"));
    assert!(wrong(|label| label.place[1].len_bytes = 0).contains("invalid place"));
    assert!(wrong(|label| label.place[1].start_bytes = u64::MAX - 4095).contains("invalid place"));
    assert!(wrong(|label| label.place[1].start_bytes -= 4096).contains("same bytes"));
    assert!(wrong(|label| label.place[0].start_bytes -= 4096).contains("overlaps the label"));
    assert!(wrong(|label| label.place[1].volume = label.place[0].volume).contains("two journals"));
    assert!(wrong(|label| label.place = vec![label.place[0].clone(); 1025]).contains("1025"));
    label().check().unwrap();
}

#[test]
fn a_text_that_contradicts_itself_or_its_head_is_refused() {
    let refused = |version, generation, text: &str| {
        let copy = copy_of(version, generation, text);
        why(found(&copy, &copy))
    };
    assert!(refused(1, 8, TEXT).contains("different generations"));
    assert!(refused(1, 7, &format!("more = 1\n{TEXT}")).contains("more"));
    assert!(refused(1, 7, &TEXT.replace("7340032", "8340032")).contains("invalid place"));
}

#[test]
fn the_room_of_the_journals_leaves_both_ends_alone() {
    let room = |size| LogLabel::room(ByteCount(size)).map(|room| (room.start.0, room.end().0));
    assert_eq!(room(6 * MIB), Some((MIB, 5 * MIB)), "the least");
    assert_eq!(room(6 * MIB - 512), None);
    assert_eq!(room(0), None);
    assert_eq!(room(100 * MIB + 300_000), Some((MIB, 99 * MIB + 262_144)));
    assert!(label().fits(ByteCount(11 * MIB)) && !label().fits(ByteCount(11 * MIB - 512)));
}

#[test]
fn a_log_device_is_told_from_other_drives() {
    let bytes = label().encode().unwrap();
    assert_eq!(find(&Glimpse::of(device([&bytes, &bytes]))), Found::Log(Box::new(label())));
    assert_eq!(find(&Glimpse::of(device([&[], &[]]))), Found::Blank);
    // A device of which only the label's range was read.
    let mut glimpse = Glimpse::new(ByteCount(16 * MIB));
    let on = device([&bytes, &bytes]);
    while find(&glimpse) == Found::NotYet {
        for range in glimpse.wanted() {
            assert!(
                range.end() <= ByteOffset(MIB) || range.start >= ByteOffset(15 * MIB),
                "{range:?} is read"
            );
            let part = on[range.start.0 as usize..range.end().0 as usize].to_vec();
            glimpse.put(range, Some(part));
        }
    }
    assert_eq!(find(&glimpse), Found::Log(Box::new(label())));
    // A truncated image of it.
    let mut short = on.clone();
    short.truncate(9 << 20);
    assert!(
        matches!(find(&Glimpse::of(short)), Found::Bad(error) if error.context.contains("larger"))
    );
    assert!(matches!(find(&Glimpse::of(device([&bytes[..100], &bytes[..100]]))), Found::Bad(_)));
}

#[test]
fn what_lies_in_the_journals_is_not_taken_for_a_label_of_the_past() {
    // On a device of 48 MiB the workspace of a tail, where labels of version 2 were, is in the
    // space of the journals.
    let bytes = label().encode().unwrap();
    let mut on = device([&bytes, &bytes]);
    on.resize(48 << 20, 0);
    on[16 << 20..][..12].copy_from_slice(b"SoftROC\0\x02\0\0\0");
    assert_eq!(find(&Glimpse::of(on.clone())), Found::Log(Box::new(label())));
    on[..1 << 20].fill(0);
    assert!(matches!(find(&Glimpse::of(on)), Found::Bad(_)), "without the label it is one");
}

#[test]
fn places_of_a_full_log_fit_into_a_copy() {
    let journal = |number: u64| LogPlace {
        volume: Uuid::from_random(1, number),
        name: "n".repeat(64),
        start_bytes: (1 << 62) + number * 4096,
        len_bytes: 4096,
    };
    let mut label = label();
    label.place = (0..1024).map(journal).collect();
    label.devices.iter_mut().for_each(|device| device.name = "d".repeat(4096));
    let bytes = label.encode().unwrap();
    assert_eq!(found(&bytes, &bytes), LogFound::Sound(label));
}

proptest! {
    #[test]
    fn a_label_is_read_as_it_was_written(
        generation in 1_u64..1 << 60,
        since in 0_u64..1 << 60,
        name in "[a-z][a-z0-9._-]{0,63}",
        path in "[^\\p{Cc}]{1,40}",
        lens in prop::collection::vec(1_u64..1000, 0..20),
        is_single in any::<bool>(),
    ) {
        let mut label = LogLabel { generation, since_unix_s: since, place: Vec::new(), ..label() };
        let mut at = MIB;
        for (number, len) in lens.into_iter().enumerate() {
            label.place.push(LogPlace {
                volume: Uuid::from_random(number as u64, 7),
                name: name.clone(),
                start_bytes: at,
                len_bytes: len * 4096,
            });
            at += len * 4096;
        }
        label.devices[0].name = path;
        label.devices.truncate(if is_single { 1 } else { 2 });
        let bytes = label.encode().unwrap();
        prop_assert_eq!(found(&bytes, &bytes), LogFound::Sound(label));
    }

    #[test]
    fn a_changed_byte_never_goes_unnoticed(at in 0_usize..64 + TEXT.len(), bit in 0_u8..8) {
        let whole = label().encode().unwrap();
        let mut other = whole.clone();
        other[at] ^= 1 << bit;
        prop_assert_eq!(found(&other, &whole), LogFound::Sound(label()));
        prop_assert!(!matches!(found(&other, &other), LogFound::Sound(_)));
    }

    #[test]
    fn any_numbers_with_a_sound_checksum_are_checked(
        numbers in prop::array::uniform5(any::<u64>()), name in ".{0,10}",
    ) {
        let mut label = label();
        label.generation = numbers[0];
        (label.place[0].start_bytes, label.place[0].len_bytes) = (numbers[1], numbers[2]);
        (label.place[1].start_bytes, label.place[1].len_bytes) = (numbers[3], numbers[4]);
        label.place[0].name = name;
        let (checked, encoded) = (label.check(), label.encode());
        prop_assert!(checked.is_ok() || encoded.is_err());
    }

    #[test]
    fn hostile_bytes_are_no_label(
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        begins in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if begins {
            bytes.splice(..bytes.len().min(8), *b"SRoClogd");
        }
        prop_assert!(!matches!(found(&bytes, &[]), LogFound::Sound(_)));
    }
}

#[test]
fn copies_and_room_do_not_meet() {
    let [one, other] = LogLabel::copies();
    let front = ByteRange::new(ByteOffset(0), LogLabel::FRONT);
    assert!(front.contains(one) && front.contains(other) && !one.overlaps(other));
    let room = LogLabel::room(ByteCount(64 * MIB)).unwrap();
    assert!(!room.overlaps(front));
}
