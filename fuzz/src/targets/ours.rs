//! What SoftROC itself keeps on drives. The first byte of an input says whether checksums are put right.

use ondisk::intent::LANES_PER_BLOCK;
use ondisk::{Content, Copies, IntentMap, Uuid, encode, encode_spare, newest};

/// CRC-32C of bytes with the four bytes at `field` taken for zero.
fn crc_without(bytes: &[u8], field: usize) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..field]), &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[field + 4..])
}

/// The label: what is decoded is encoded and decoded as the same.
pub(super) fn label(input: &[u8]) {
    const HEADER: usize = 4096;
    const HEADER_CRC: usize = 12;
    const TEXT_LEN: usize = 24;
    const TEXT_CRC: usize = 28;
    let Some((flags, bytes)) = input.split_first() else { return };
    let mut slot = bytes.to_vec();
    // The header's zeroes are left out of inputs.
    let text = slot.split_off(slot.len().min(64));
    slot.resize(HEADER, 0);
    if flags & 1 != 0 {
        slot[TEXT_LEN..][..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        slot[TEXT_CRC..][..4].copy_from_slice(&crc32c::crc32c(&text).to_le_bytes());
        let crc = crc_without(&slot, HEADER_CRC);
        slot[HEADER_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    }
    slot.extend(text);
    let Ok(carried) = newest([&slot, &[]]) else { return };
    let again = match &carried.content {
        Content::Member(label) => encode(label, carried.sequence),
        Content::Spare(spare) => encode_spare(spare, carried.sequence),
    };
    let again = again.expect("what fitted a slot fits it again");
    assert!(newest([&again, &[]]).as_ref() == Ok(&carried), "what was encoded is decoded as something else");
}

/// The write-intent map: blocks of an input, of which every other is of the second copy.
pub(super) fn intent(input: &[u8]) {
    const BLOCK: usize = 4096;
    const INDEX: usize = 12;
    const CRC: usize = 40;
    let Some(([flags, more, array @ ..], bytes)) = input.split_first_chunk::<18>() else { return };
    let array = Uuid(*array);
    let lanes = LANES_PER_BLOCK * u32::from(*more % 2) + u32::from(*more) + 1;
    let mut copies: Copies = [Vec::new(), Vec::new()];
    // The bits of an input go round, so that an input is short and a block is full.
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
    let (mut map, unknown) = IntentMap::unite(array, lanes, std::slice::from_ref(&copies));
    assert!(map.marked() <= map.lanes() && map.iter().count() == map.marked() as usize);
    // What it says is written, twice, and understood as the same.
    let mut written: Copies = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        for write in map.take_all() {
            let copy = &mut written[write.copy];
            copy.resize(copy.len().max(write.block as usize + 1), None);
            copy[write.block as usize] = Some(write.bytes);
        }
    }
    let (again, lost) = IntentMap::unite(array, lanes, &[written]);
    assert!(lost == 0 && again.iter().eq(map.iter()), "{unknown} blocks were unknown");
}
