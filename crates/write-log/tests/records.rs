//! The journal's records: format, scan and replay.

use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};
use write_log::{
    BLOCK, BodyCrc, Change, ChangeKind, Head, Holders, LogId, Missing, Patch, Record, counting,
    patches, scan,
};

const ID: LogId = LogId(*b"0123456789abcdef");

/// The writes of a replay of all copies.
fn replay(copies: impl IntoIterator<Item = Record>) -> Result<Vec<Patch>, Missing> {
    Ok(patches(&counting(copies)?))
}

fn change(slot: u16, kind: ChangeKind, start: u64, len: u64) -> Change {
    Change { slot, kind, range: ByteRange::new(ByteOffset(start), ByteCount(len)) }
}

/// The head of a record that began when all earlier ones were durable.
fn head(sequence: u64, tail: u64, place: u64) -> Head {
    Head { id: ID, ring: 0, sequence, tail, firm: sequence, place }
}

/// The bytes of a record on a drive.
fn encoded(head: Head, changes: &[Change], body: &[u8]) -> Vec<u8> {
    let mut padded = body.to_vec();
    padded.resize(ByteCount(body.len() as u64).align_up(BLOCK).as_usize(), 0);
    let mut bytes = vec![0xAA; Head::len(changes.len()).as_usize()];
    let crc = BodyCrc::default().and(&padded).value();
    head.encode(changes, ByteCount(padded.len() as u64), crc, &mut bytes);
    bytes.extend(padded);
    bytes
}

fn record(sequence: u64, tail: u64, changes: &[Change], fill: u8) -> Record {
    let carried = |change: &&Change| change.kind == ChangeKind::Bytes;
    let len: u64 = changes.iter().filter(carried).map(|change| change.range.len.0).sum();
    let body = vec![fill; len as usize];
    Record { head: head(sequence, tail, 0), changes: changes.to_vec(), body }
}

#[test]
fn a_head_lies_as_it_is_written_down() {
    let changes =
        [change(3, ChangeKind::Bytes, 0x1000, 512), change(4, ChangeKind::Zeroes, 0x2000, 1024)];
    let bytes = encoded(Head { ring: 5, firm: 8, ..head(9, 7, 8192) }, &changes, &[1; 512]);
    assert_eq!(bytes.len(), 8192);
    let mut expected = vec![0_u8; 4096];
    expected[..8].copy_from_slice(b"SRoCjrnl");
    expected[8] = 1;
    expected[16..32].copy_from_slice(b"0123456789abcdef");
    expected[32] = 5;
    expected[40] = 9;
    expected[48] = 7;
    expected[57] = 0x20;
    expected[65] = 0x10;
    expected[73] = 0x10;
    expected[84] = 2;
    expected[88] = 8;
    let mut body = vec![0_u8; 4096];
    body[..512].fill(1);
    expected[80..84].copy_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    expected[96..98].copy_from_slice(&[3, 0]);
    expected[98] = 1;
    expected[105] = 0x10;
    expected[113] = 2;
    expected[120..122].copy_from_slice(&[4, 0]);
    expected[122] = 2;
    expected[129] = 0x20;
    expected[137] = 4;
    let crc = crc32c::crc32c(&expected);
    expected[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(bytes[..4096], expected);
}

#[test]
fn records_are_found_between_what_is_none_torn_or_of_another_time() {
    let one = [change(0, ChangeKind::Bytes, 0, 512)];
    let mut journal = vec![0x55; 16 * 4096];
    let mut put = |at: usize, bytes: &[u8]| journal[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &encoded(head(0, 1, 0), &[], &[]));
    put(2 * 4096, &encoded(head(1, 1, 2 * 4096), &one, &[1; 512]));
    // The record carries a record as data: a scan does not decode that.
    let inner = encoded(head(2, 1, 5 * 4096), &one, &[2; 512]);
    let carried = [change(1, ChangeKind::Bytes, 0, inner.len() as u64)];
    put(4 * 4096, &encoded(head(2, 1, 4 * 4096), &carried, &inner));
    put(8 * 4096, &encoded(Head { id: LogId([1; 16]), ..head(3, 1, 8 * 4096) }, &one, &[3; 512]));
    put(10 * 4096, &encoded(head(3, 1, 9 * 4096), &one, &[3; 512]));
    let mut torn = encoded(head(3, 1, 12 * 4096), &one, &[3; 512]);
    torn[4096 + 511] ^= 1;
    put(12 * 4096, &torn);
    // The last one is truncated by the end.
    put(15 * 4096, &encoded(head(3, 1, 15 * 4096), &one, &[3; 512])[..4096]);
    let found: Vec<(u64, u64)> =
        scan(&journal, ID).iter().map(|record| (record.head.sequence, record.head.place)).collect();
    assert_eq!(found, [(0, 0), (1, 2 * 4096), (2, 4 * 4096)]);
}

#[test]
fn the_last_word_on_every_byte_counts() {
    let patches = replay([
        record(2, 1, &[change(0, ChangeKind::Bytes, 4, 4)], 2),
        record(1, 1, &[change(0, ChangeKind::Bytes, 0, 12), change(1, ChangeKind::Bytes, 0, 4)], 1),
        record(1, 1, &[change(0, ChangeKind::Bytes, 0, 12), change(1, ChangeKind::Bytes, 0, 4)], 1),
        record(
            3,
            1,
            &[change(0, ChangeKind::Zeroes, 10, 4), change(1, ChangeKind::Revoked, 1, 2)],
            0,
        ),
    ]);
    let found: Vec<(u16, u64, u64, Option<u8>)> = patches
        .unwrap()
        .into_iter()
        .map(|patch| {
            let first = patch.bytes.as_ref().map(|bytes| bytes[0]);
            assert!(
                patch.bytes.as_ref().is_none_or(|bytes| bytes.len() as u64 == patch.range.len.0)
            );
            (patch.slot, patch.range.start.0, patch.range.len.0, first)
        })
        .collect();
    let expected = [
        (0, 0, 4, Some(1)),
        (0, 4, 4, Some(2)),
        (0, 8, 2, Some(1)),
        (0, 10, 4, None),
        (1, 0, 1, Some(1)),
        (1, 3, 1, Some(1)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_does_not_count_any_more_is_not_missed_and_what_does_is() {
    let one = [change(0, ChangeKind::Bytes, 0, 4)];
    // The newest record announces that the first two do not count.
    let patches =
        replay([record(1, 1, &one, 1), record(4, 3, &one, 4), record(3, 1, &one, 3)]).unwrap();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].bytes.as_deref(), Some(&[4; 4][..]));
    // A notice announces that none does.
    assert_eq!(replay([record(1, 1, &one, 1), record(0, 2, &[], 0)]), Ok(Vec::new()));
    // A record in the middle is on no remaining drive.
    let missing = Missing { ring: 0, sequence: 3 };
    assert_eq!(replay([record(2, 2, &one, 1), record(4, 2, &one, 4)]), Err(missing));
    // The record after the newest is nowhere durable: none of its writes had begun.
    assert!(replay([record(2, 2, &one, 1), record(3, 2, &one, 4)]).is_ok());
}

/// Regression: with one record at a time, a missing record before the newest made a journal
/// incomplete. With several under way, a power cut leaves any subset: a later one may have been
/// written and acknowledged while no write of an earlier one had begun.
#[test]
fn records_that_were_under_way_together_may_be_there_without_one_another() {
    let at = |slot| [change(slot, ChangeKind::Bytes, 0, 4)];
    let with_firm = |sequence, firm| {
        let record = record(sequence, 1, &at(sequence as u16), sequence as u8);
        Record { head: Head { firm, ..record.head }, ..record }
    };
    let slots = |records: Vec<Record>| {
        replay(records).map(|patches| patches.iter().map(|patch| patch.slot).collect::<Vec<_>>())
    };
    // Three records were concurrent.
    assert_eq!(slots(vec![with_firm(1, 1), with_firm(3, 2), with_firm(4, 2)]), Ok(vec![1, 3, 4]));
    assert_eq!(slots(vec![with_firm(4, 2), with_firm(1, 1)]), Ok(vec![1, 4]));
    // When the last began, all earlier ones were durable: they are missing.
    assert_eq!(
        slots(vec![with_firm(1, 1), with_firm(4, 3)]),
        Err(Missing { ring: 0, sequence: 2 })
    );
    assert_eq!(
        slots(vec![with_firm(1, 1), with_firm(2, 1), with_firm(5, 4)]).unwrap_err().sequence,
        3
    );
    // A record that was under way for long, while others ended: no record announces it as durable.
    assert_eq!(slots(vec![with_firm(2, 1), with_firm(5, 1), with_firm(9, 1)]), Ok(vec![2, 5, 9]));
    // A notice announces it as well, though no counting record is left.
    let notice =
        Record { head: Head { firm: 3, ..head(0, 1, 0) }, changes: Vec::new(), body: Vec::new() };
    assert_eq!(slots(vec![with_firm(2, 1), notice.clone()]), Err(Missing { ring: 0, sequence: 1 }));
    let retired = Record { head: Head { tail: 3, ..notice.head }, ..notice };
    assert_eq!(slots(vec![with_firm(2, 1), retired]), Ok(Vec::new()));
}

#[test]
fn hostile_bytes_are_no_record() {
    let good = encoded(head(1, 1, 0), &[change(0, ChangeKind::Bytes, 0, 512)], &[1; 512]);
    assert_eq!(scan(&good, ID).len(), 1);
    for at in (0..good.len()).step_by(7).chain(0..160) {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        assert!(scan(&bad, ID).is_empty(), "byte {at}");
    }
    for len in [0, 1, 95, 4095, 4096, 8191] {
        assert!(scan(&good[..len], ID).is_empty(), "{len} bytes");
    }
    // A valid checksum and an invalid content: a run that ends beyond all addresses, more changes
    // than fit, ...
    for (at, value) in [
        (104, u64::MAX),
        (112, u64::MAX),
        (64, 0),
        (64, 1 << 40),
        (72, 1 << 63),
        (84, u64::MAX),
        (88, 2),
    ] {
        let mut bad = good.clone();
        let len = if at == 84 { 4 } else { 8 };
        bad[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        bad[12..16].fill(0);
        let crc = crc32c::crc32c(&bad[..4096]);
        bad[12..16].copy_from_slice(&crc.to_le_bytes());
        assert!(scan(&bad, ID).is_empty(), "{value} at {at}");
    }
}

#[test]
fn a_torn_record_is_given_to_those_it_is_about_first_until_they_are_enough() {
    let drives = |slots: &[u16]| slots.iter().map(|slot| DriveIndex(*slot)).collect::<DriveSet>();
    let torn = record(
        1,
        1,
        &[change(700, ChangeKind::Zeroes, 0, 512), change(3, ChangeKind::Zeroes, 0, 512)],
        0,
    );
    let other = record(2, 1, &[], 0);
    let found = [torn.clone()];
    let mut holders = Holders::of([(DriveIndex(1), &found[..])]);
    let wanting = |holders: &Holders, record: &Record, most: u16| {
        holders.wanting(record, &drives(&[0, 1, 3]), |holding| holding.count().0 >= most)
    };
    assert_eq!(wanting(&holders, &torn, 2), [DriveIndex(3)]);
    assert_eq!(wanting(&holders, &torn, 9), [DriveIndex(3), DriveIndex(0)], "to all members");
    assert_eq!(wanting(&holders, &torn, 1), []);
    assert_eq!(wanting(&holders, &other, 1), [DriveIndex(0)]);
    holders.add(&torn, DriveIndex(3));
    assert_eq!(wanting(&holders, &torn, 2), []);
}
