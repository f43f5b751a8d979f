//! What SoftROC itself keeps on drives. The first byte of an input says whether checksums are put right.

use ondisk::ddf::Extras;
use ondisk::intent::LANES_PER_BLOCK;
use ondisk::{Content, Copies, IntentMap, Telling, Uuid, VERSION, Witness, read, spare_text_of, text_of};

/// CRC-32C of bytes with the four bytes at `field` taken for zero.
fn crc_without(bytes: &[u8], field: usize) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..field]), &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[field + 4..])
}

/// The label's text, of the version that the first byte names: what is read is written and read as the same. And the
/// witness, made of the same bytes.
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
    let again = again.expect("what fitted fits again");
    assert_eq!(
        read(&extras(&again), drive),
        Ok(content.clone()),
        "what was written is read as something else"
    );
    if let Some(label) = content.label() {
        Telling::of(label).expect("a label that was read can be told in DDF");
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
