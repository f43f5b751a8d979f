//! SoftROC's own structures on drives. The first byte of an input selects the correction of
//! checksums.

use ondisk::ddf::Extras;
use ondisk::intent::REGIONS_PER_BLOCK;
use ondisk::{
    Content, Copies, IntentMap, LogFound, LogLabel, Telling, Uuid, VERSION, Witness, read,
    spare_text_of, text_of,
};
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{BodyCrc, Change, ChangeKind, Head, LogId, Record, counting, patches, scan};

/// CRC-32C of bytes with the four bytes at `field` as zero.
fn crc_without(bytes: &[u8], field: usize) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..field]), &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[field + 4..])
}

/// The label's text, of the version in the first byte: a decoded label encodes and decodes to the
/// same. The witness decodes the same bytes.
pub(super) fn label(input: &[u8]) {
    let Some((flags, text)) = input.split_first() else { return };
    witness(*flags, text);
    let drive = Uuid([1; 16]);
    let extras = |payload: &[u8]| Extras {
        version: if flags & 1 != 0 { VERSION } else { u32::from(*flags) },
        sequence: 1,
        payload: payload.to_vec(),
    };
    let Ok(content) = read(&extras(text), drive) else { return };
    let again = match &content {
        Content::Member(label) => text_of(label),
        Content::Spare(spare) => spare_text_of(spare),
    };
    let again = again.expect("a label that fitted fits again");
    assert_eq!(read(&extras(&again), drive), Ok(content.clone()), "the label differs");
    if let Some(label) = content.label() {
        Telling::of(label).expect("a decoded label can be encoded in DDF");
    }
}

fn witness(flags: u8, bytes: &[u8]) {
    const CRC: usize = 12;
    let mut block = vec![0; 4096];
    let len = bytes.len().min(64);
    block[..len].copy_from_slice(&bytes[..len]);
    if flags & 2 != 0 {
        block[..12].copy_from_slice(b"SRoCwitn\x01\0\0\0");
        let crc = crc_without(&block, CRC);
        block[CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    }
    if let Some(witness) = Witness::decode(&block) {
        assert_eq!(Witness::decode(&witness.encode()), Some(witness));
    }
}

/// The label of a log device: two copies, separated by a byte 0xFF. A valid label encodes and
/// decodes to the same. If the first byte selects it, heads are generated here: then the input
/// consists of the texts.
pub(super) fn log_device(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let cut = bytes.iter().position(|byte| *byte == 0xFF).unwrap_or(bytes.len());
    let (one, other) = (&bytes[..cut], bytes.get(cut + 1..).unwrap_or_default());
    let copy = |bytes: &[u8]| if flags & 1 != 0 { log_copy(bytes) } else { bytes.to_vec() };
    let (one, other) = (copy(one), copy(other));
    match LogLabel::find((flags & 2 == 0).then_some(&one), (flags & 4 == 0).then_some(&other)) {
        LogFound::Sound(label) => {
            assert_eq!(label.check(), Ok(()), "an invalid label is accepted");
            let again = label.encode().expect("a label that fitted fits again");
            assert_eq!(LogLabel::find(Some(&again), Some(&[])), LogFound::Sound(label));
        }
        LogFound::Bad(why) => assert!(!why.is_empty()),
        LogFound::Blank => {}
    }
}

/// A copy with that text, with the first device and generation in it.
fn log_copy(text: &[u8]) -> Vec<u8> {
    const CRC: usize = 12;
    let words = String::from_utf8_lossy(text);
    let behind = |word: &str| words.split_once(word).map_or("", |(_, rest)| rest);
    let number: String = behind("generation = ").chars().take_while(char::is_ascii_digit).collect();
    let device: Option<Uuid> = behind("uuid = \"").get(..36).and_then(|uuid| uuid.parse().ok());
    let mut copy = b"SRoClogd\x01\0\0\0\0\0\0\0".to_vec();
    copy.extend(device.unwrap_or_default().0);
    copy.extend(number.parse::<u64>().unwrap_or_default().to_le_bytes());
    copy.extend((text.len() as u32).to_le_bytes());
    copy.resize(64, 0);
    copy.extend(text);
    let crc = crc_without(&copy, CRC);
    copy[CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    copy
}

/// The write-intent map: blocks of an input alternate between the two copies.
pub(super) fn intent(input: &[u8]) {
    const BLOCK: usize = 4096;
    const INDEX: usize = 12;
    const CRC: usize = 40;
    let Some(([flags, more, array @ ..], bytes)) = input.split_first_chunk::<18>() else { return };
    let array = Uuid(*array);
    let regions = REGIONS_PER_BLOCK * u32::from(*more % 2) + u32::from(*more) + 1;
    let mut copies: Copies = [Vec::new(), Vec::new()];
    // The bits of an input are repeated, so that a short input fills a block.
    for (number, part) in bytes.chunks(256).enumerate().take(16) {
        let mut block: Vec<u8> = part.iter().copied().cycle().take(BLOCK).collect();
        if flags & 1 != 0 {
            block[INDEX..][..4].copy_from_slice(&(number as u32 / 2).to_le_bytes());
            block[16..32].copy_from_slice(&array.0);
            let crc = crc_without(&block, CRC);
            block[CRC..][..4].copy_from_slice(&crc.to_le_bytes());
        }
        copies[number % 2].push((flags & 2 == 0 || number % 5 != 4).then_some(block));
    }
    let (mut map, unknown) = IntentMap::unite(array, regions, std::slice::from_ref(&copies));
    assert!(map.marked() <= map.regions() && map.iter().count() == map.marked() as usize);
    // The encoded map, written twice, decodes to the same.
    let mut written: Copies = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        for write in map.take_all() {
            let copy = &mut written[write.copy];
            copy.resize(copy.len().max(write.block as usize + 1), None);
            copy[write.block as usize] = Some(write.bytes);
        }
    }
    let (again, lost) = IntentMap::unite(array, regions, &[written]);
    assert!(lost == 0 && again.iter().eq(map.iter()), "{unknown} blocks were unknown");
}

/// The UUID of the journal in the inputs of its target.
const JOURNAL: LogId = LogId([7; 16]);

/// A journal: its records are found, give the same replay in any order, and encode to the same.
/// Checksums are corrected where a block begins like a record.
pub(super) fn journal(input: &[u8]) {
    const BLOCK: usize = 4096;
    let Some((flags, bytes)) = input.split_first() else { return };
    // A part of an input is a block, mostly zeros, so that inputs are short.
    let parts = bytes.chunks(192).take(64);
    let mut journal: Vec<u8> = Vec::new();
    for part in parts {
        journal.extend(part);
        journal.resize(journal.len().next_multiple_of(BLOCK), 0);
    }
    if flags & 1 != 0 {
        (0..journal.len()).step_by(BLOCK).for_each(|at| put_right(&mut journal, at));
    }
    let mut records = scan(&journal, JOURNAL);
    for record in &records {
        let at = record.head.place as usize;
        let again = record.encode();
        assert!(
            journal[at..].starts_with(&again)
                || scan(&again_at(&again, at), JOURNAL) == [record.clone()]
        );
    }
    let replay = |copies: Vec<Record>| counting(copies).map(|counting| patches(&counting));
    let patches = replay(records.clone());
    records.reverse();
    records.extend(records.clone());
    let distinct: std::collections::BTreeSet<(u32, u64)> =
        records.iter().map(|record| (record.head.ring, record.head.sequence)).collect();
    if distinct.len() * 2 == records.len() {
        assert_eq!(patches, replay(records), "the order of the copies changes the replay");
    }
    for pair in patches.iter().flat_map(|patches| patches.windows(2)) {
        let in_order = pair[0].range.end() <= pair[1].range.start;
        assert!(pair[0].slot < pair[1].slot || (pair[0].slot == pair[1].slot && in_order));
    }
    for patch in patches.into_iter().flatten() {
        assert!(patch.bytes.is_none_or(|bytes| bytes.len() as u64 == patch.range.len.0));
    }
}

/// A record's bytes, encoded for a journal that begins `at` bytes before it.
fn again_at(record: &[u8], at: usize) -> Vec<u8> {
    let mut journal = vec![0; at];
    journal.extend(record);
    journal
}

/// Corrects the head of a record where one may begin: UUID, place, lengths that fit, checksums.
fn put_right(journal: &mut [u8], at: usize) {
    let block = &mut journal[at..];
    if !block.starts_with(b"SRoCjrnl") {
        return;
    }
    block[8..12].copy_from_slice(&1_u32.to_le_bytes());
    block[16..32].copy_from_slice(&JOURNAL.0);
    block[56..64].copy_from_slice(&(at as u64).to_le_bytes());
    let len = |at: usize| u64::from_le_bytes(block[at..][..8].try_into().unwrap_or_default());
    let (head, body) = (len(64), len(72));
    if head < 4096 || head.saturating_add(body) > block.len() as u64 {
        return;
    }
    let crc = BodyCrc::default().and(&block[head as usize..][..body as usize]).value();
    block[80..84].copy_from_slice(&crc.to_le_bytes());
    let crc = crc_without(&block[..head as usize], 12);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Seed journals: concurrent records, a notice, a missing record, a torn record.
pub fn journals() -> Vec<Vec<u8>> {
    let change = |slot, kind, start, len| Change {
        slot,
        kind,
        range: ByteRange::new(ByteOffset(start), ByteCount(len)),
    };
    let record = |sequence, tail, firm, changes: &[Change]| {
        let carried: u64 =
            changes.iter().filter(|c| c.kind == ChangeKind::Bytes).map(|c| c.range.len.0).sum();
        let body = vec![sequence as u8; ByteCount(carried).align_up(ondisk::BLOCK).as_usize()];
        let head = Head { id: JOURNAL, ring: 0, sequence, tail, firm, place: 0 };
        Record { head, changes: changes.to_vec(), body }.encode()
    };
    let bytes = [change(0, ChangeKind::Bytes, 512, 512), change(2, ChangeKind::Bytes, 512, 512)];
    let more = [change(0, ChangeKind::Zeroes, 0, 4096), change(1, ChangeKind::Revoked, 0, 8192)];
    // The input has only the beginning of each block.
    let input = |flags: u8, records: &[Vec<u8>]| {
        let blocks = records.iter().flat_map(|record| record.chunks(4096));
        [vec![flags], blocks.flat_map(|block| block[..192].to_vec()).collect()].concat()
    };
    let (one, two, four) =
        (record(1, 1, 1, &bytes), record(2, 1, 2, &more), record(4, 2, 2, &bytes));
    let notice = record(0, 2, 2, &[]);
    vec![
        input(1, &[notice.clone(), one.clone(), two.clone()]),
        input(1, &[one.clone(), four.clone()]),
        input(1, &[notice, two.clone(), four]),
        input(1, &[record(3, 1, 3, &bytes), one.clone()]),
        input(0, &[one, two]),
    ]
}
