//! The write-intent map: the regions in which a write may be interrupted.
//!
//! # Fault model and invariants
//! - A block is 4 KiB with a checksum. A crash or power cut may tear or lose a write of it; then
//!   its checksum is wrong, or the block is the previous one.
//! - Every block has two copies. A block with sequence *s* lies in copy *s* mod 2; its next write,
//!   *s*+1, goes to the other. So a torn write leaves the previous block: a write never overwrites
//!   the last acknowledged block.
//! - The same block is written to every member of the array, and a mark is durable when it is on
//!   all of them. So each member alone has every acknowledged mark. The members' marks are united:
//!   an additional mark costs a resync, a missing mark costs data.
//! - A block that is unreadable on all members counts as completely marked.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::tail::{Area, BLOCK};
use crate::uuid::Uuid;
use std::collections::BTreeSet;

/// The magic number of every block.
pub const MAGIC: [u8; 8] = *b"SRoCwmap";

/// The version of the format.
const VERSION: u32 = 1;

/// Bytes before the bits.
pub(crate) const HEADER: usize = 64;

pub(crate) const LEN: usize = BLOCK.0 as usize;

/// Regions with a bit in one block.
pub const REGIONS_PER_BLOCK: u32 = ((LEN - HEADER) * 8) as u32;

/// The most regions of a map.
pub const MAX_REGIONS: u32 = 1 << 20;

/// The most blocks of a map.
pub const MAX_BLOCKS: u32 = MAX_REGIONS.div_ceil(REGIONS_PER_BLOCK);

const AT_VERSION: usize = 8;
const AT_BLOCK: usize = 12;
const AT_ARRAY: usize = 16;
const AT_SEQUENCE: usize = 32;
const AT_CRC: usize = 40;

/// A block to write to every member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockWrite {
    /// Its area.
    pub area: Area,
    /// Its copy, 0 or 1.
    pub copy: usize,
    /// Its index.
    pub block: u32,
    /// Its 4096 bytes.
    pub bytes: Vec<u8>,
}

/// One member's copies of the map, as read: the blocks in order. An unreadable block is `None`.
pub type Copies = [Vec<Option<Vec<u8>>>; 2];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) sequence: u64,
    pub(crate) bits: Vec<u8>,
}

impl Block {
    /// The block with its next sequence, as every member gets it.
    pub(crate) fn write(&mut self, area: Area, array: Uuid, index: u32) -> BlockWrite {
        self.sequence += 1;
        let bytes = encode(magic(area), array, index, self);
        BlockWrite { area, copy: (self.sequence & 1) as usize, block: index, bytes }
    }
}

/// A bit for each region of one array: marked, or initialised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntentMap {
    area: Area,
    array: Uuid,
    regions: u32,
    blocks: Vec<Block>,
    changed: BTreeSet<u32>,
    set: u32,
}

/// The number of blocks for the bits of `regions` regions.
pub fn blocks_for(regions: u32) -> u32 {
    regions.min(MAX_REGIONS).div_ceil(REGIONS_PER_BLOCK).max(1)
}

impl IntentMap {
    /// A map of `regions` regions (at most [`MAX_REGIONS`]), none marked or all.
    pub fn new(array: Uuid, regions: u32, all: bool) -> IntentMap {
        IntentMap::in_area(Area::WriteIntent, array, regions, all)
    }

    /// The same for another area.
    pub(crate) fn in_area(area: Area, array: Uuid, regions: u32, all: bool) -> IntentMap {
        let regions = regions.min(MAX_REGIONS);
        let blank = Block { sequence: 0, bits: vec![0; LEN - HEADER] };
        let blocks = vec![blank; blocks_for(regions) as usize];
        let mut map = IntentMap { area, array, regions, blocks, changed: BTreeSet::new(), set: 0 };
        if all {
            (0..regions).for_each(|region| {
                map.mark(region);
            });
        }
        map
    }

    /// The united map of the members, and the number of blocks that are unreadable on all of them.
    pub fn unite(array: Uuid, regions: u32, members: &[Copies]) -> (IntentMap, u32) {
        IntentMap::unite_in(Area::WriteIntent, array, regions, members)
    }

    /// The same for another area.
    pub(crate) fn unite_in(
        area: Area,
        array: Uuid,
        regions: u32,
        members: &[Copies],
    ) -> (IntentMap, u32) {
        let mut map = IntentMap::in_area(area, array, regions, false);
        let mut unknown = 0;
        for index in 0..map.blocks.len() as u32 {
            let known: Vec<Block> =
                members.iter().filter_map(|copies| newest(copies, area, array, index)).collect();
            if known.is_empty() {
                unknown += 1;
                map.mark_block(index);
            }
            for block in known {
                map.unite_block(index, &block);
            }
        }
        map.changed.clear();
        (map, unknown)
    }

    fn unite_block(&mut self, index: u32, block: &Block) {
        let first = index * REGIONS_PER_BLOCK;
        let regions = REGIONS_PER_BLOCK.min(self.regions - first);
        for region in 0..regions {
            if block.bits[region as usize / 8] >> (region % 8) & 1 == 1 {
                self.mark(first + region);
            }
        }
        let sequence = &mut self.blocks[index as usize].sequence;
        *sequence = block.sequence.max(*sequence);
    }

    fn mark_block(&mut self, index: u32) {
        let first = index * REGIONS_PER_BLOCK;
        let end = (first + REGIONS_PER_BLOCK).min(self.regions);
        (first..end).for_each(|region| {
            self.mark(region);
        });
    }

    /// The number of regions.
    pub fn regions(&self) -> u32 {
        self.regions
    }

    /// The number of marked regions.
    pub fn marked(&self) -> u32 {
        self.set
    }

    /// The marked regions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.regions).filter(|&region| self.is_marked(region))
    }

    /// Whether a region is marked. Regions past the end are not.
    pub fn is_marked(&self, region: u32) -> bool {
        let (block, at) = ((region / REGIONS_PER_BLOCK) as usize, region % REGIONS_PER_BLOCK);
        region < self.regions && self.blocks[block].bits[at as usize / 8] >> (at % 8) & 1 == 1
    }

    /// Marks a region; returns whether it was unmarked. Ignores regions past the end.
    pub fn mark(&mut self, region: u32) -> bool {
        self.change(region, true)
    }

    /// Removes a region's mark; returns whether it was marked.
    pub fn unmark(&mut self, region: u32) -> bool {
        self.change(region, false)
    }

    fn change(&mut self, region: u32, mark: bool) -> bool {
        if region >= self.regions || self.is_marked(region) == mark {
            return false;
        }
        let (block, at) = (region / REGIONS_PER_BLOCK, region % REGIONS_PER_BLOCK);
        self.blocks[block as usize].bits[at as usize / 8] ^= 1 << (at % 8);
        self.set = if mark { self.set + 1 } else { self.set - 1 };
        self.changed.insert(block);
        true
    }

    /// The blocks that changed since the last call, each with its next sequence.
    pub fn take_changed(&mut self) -> Vec<BlockWrite> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|index| self.write_of(index)).collect()
    }

    /// Marks blocks that are not durable on all members as changed again. Their next write goes to
    /// the same copy, which may be torn: the other copy is the last that is valid everywhere.
    pub fn not_written(&mut self, writes: &[BlockWrite]) {
        for BlockWrite { block, .. } in writes {
            self.blocks[*block as usize].sequence += 1;
            self.changed.insert(*block);
        }
    }

    /// Changes the number of regions (at most [`MAX_REGIONS`]): new ones are unmarked, those past
    /// the end are removed. New blocks must be written twice, like those of a new map.
    pub fn resize(&mut self, regions: u32) {
        let regions = regions.min(MAX_REGIONS);
        (regions..self.regions).for_each(|region| {
            self.unmark(region);
        });
        let blank = Block { sequence: 0, bits: vec![0; LEN - HEADER] };
        self.blocks.resize(blocks_for(regions) as usize, blank);
        self.changed.retain(|block| *block < blocks_for(regions));
        self.regions = regions;
    }

    /// Every block, with its next sequence. Two calls, each written, make both copies of all blocks
    /// valid.
    pub fn take_all(&mut self) -> Vec<BlockWrite> {
        self.changed.clear();
        (0..self.blocks.len() as u32).map(|index| self.write_of(index)).collect()
    }

    fn write_of(&mut self, index: u32) -> BlockWrite {
        self.blocks[index as usize].write(self.area, self.array, index)
    }
}

/// The magic number of an area's blocks.
fn magic(area: Area) -> [u8; 8] {
    match area {
        Area::WriteIntent => MAGIC,
        Area::Initialised => *b"SRoCinit",
        Area::PartlyInitialised => *b"SRoCpart",
    }
}

fn encode(magic: [u8; 8], array: Uuid, index: u32, block: &Block) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    bytes[..AT_VERSION].copy_from_slice(&magic);
    bytes[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
    bytes[AT_BLOCK..][..4].copy_from_slice(&index.to_le_bytes());
    bytes[AT_ARRAY..][..16].copy_from_slice(&array.0);
    bytes[AT_SEQUENCE..][..8].copy_from_slice(&block.sequence.to_le_bytes());
    bytes[HEADER..].copy_from_slice(&block.bits);
    let crc = crc_without(&bytes, AT_CRC);
    bytes[AT_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], area: Area, array: Uuid, index: u32) -> Option<Block> {
    let ours = bytes.len() == LEN
        && bytes.starts_with(&magic(area))
        && u32_at(bytes, AT_CRC) == crc_without(bytes, AT_CRC)
        && u32_at(bytes, AT_VERSION) == VERSION
        && u32_at(bytes, AT_BLOCK) == index
        && bytes[AT_ARRAY..][..16] == array.0;
    // SoftROC never writes a sequence near the end of the range.
    let sequence = u64_at(bytes, AT_SEQUENCE);
    (ours && sequence < u64::MAX / 2).then(|| Block { sequence, bits: bytes[HEADER..].to_vec() })
}

/// A member's newest block. `None` if it is unknown: neither copy is valid, or a copy that may be
/// newer is unreadable. (A torn copy is no obstacle: its checksum is wrong, and it was never
/// acknowledged.)
pub(crate) fn newest(copies: &Copies, area: Area, array: Uuid, index: u32) -> Option<Block> {
    let mut newest: Option<Block> = None;
    for blocks in copies {
        let bytes = blocks.get(index as usize)?.as_ref()?;
        if let Some(block) = decode(bytes, area, array, index)
            && newest.as_ref().is_none_or(|other| other.sequence < block.sequence)
        {
            newest = Some(block);
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARRAY: Uuid = Uuid([7; 16]);

    /// The bytes of a drive's two copies of the map.
    #[derive(Clone)]
    struct Disk(Copies);

    impl Disk {
        fn new(regions: u32) -> Disk {
            let blank = vec![Some(vec![0; LEN]); blocks_for(regions) as usize];
            Disk([blank.clone(), blank])
        }

        /// Writes the first `keep` bytes of a block: a torn write if they are not all.
        fn write(&mut self, write: &BlockWrite, keep: usize) {
            let place = self.0[write.copy][write.block as usize].as_mut().unwrap();
            place[..keep].copy_from_slice(&write.bytes[..keep]);
        }
    }

    fn marks(map: &IntentMap) -> Vec<u32> {
        map.iter().collect()
    }

    #[test]
    fn a_map_holds_every_region_a_volume_may_have() {
        assert_eq!(MAX_BLOCKS, 33);
        let mut map = IntentMap::new(ARRAY, MAX_REGIONS, false);
        assert!(map.mark(MAX_REGIONS - 1) && map.mark(0) && map.mark(REGIONS_PER_BLOCK));
        assert!(!map.mark(MAX_REGIONS));
        assert_eq!(
            map.take_changed().iter().map(|write| write.block).collect::<Vec<_>>(),
            [0, 1, 32]
        );
        assert_eq!(map.take_changed(), []);
        map.mark(1);
        let writes = map.take_changed();
        map.not_written(&writes);
        assert_eq!(map.take_changed()[0].copy, writes[0].copy, "never over the last sound copy");
        map.unmark(1);
        assert_eq!(marks(&map), [0, REGIONS_PER_BLOCK, MAX_REGIONS - 1]);
    }

    #[test]
    fn a_block_is_these_bytes() {
        let mut map = IntentMap::new(ARRAY, 100, false);
        map.mark(9);
        let write = map.take_changed().remove(0);
        let mut bytes = vec![0_u8; 4096];
        bytes[..16].copy_from_slice(b"SRoCwmap\x01\0\0\0\0\0\0\0");
        bytes[16..32].fill(7);
        bytes[32] = 1;
        bytes[65] = 2;
        let crc = crc32c::crc32c(&bytes);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(write, BlockWrite { area: Area::WriteIntent, copy: 1, block: 0, bytes });
    }

    #[test]
    fn a_block_that_no_member_can_tell_is_all_dirty() {
        let (map, unknown) = IntentMap::unite(ARRAY, 10, &[]);
        assert_eq!((map.marked(), unknown), (10, 1));
        let (map, unknown) = IntentMap::unite(ARRAY, 10, &[Disk::new(10).0]);
        assert_eq!((map.marked(), unknown), (10, 1));
    }

    #[test]
    fn a_copy_that_cannot_be_read_might_have_been_the_newest() {
        let mut disk = Disk::new(10);
        let mut map = IntentMap::new(ARRAY, 10, false);
        for _ in 0..2 {
            map.take_all().iter().for_each(|write| disk.write(write, LEN));
        }
        let sound = disk.clone();
        disk.0[0][0] = None;
        assert_eq!(IntentMap::unite(ARRAY, 10, &[disk.0.clone()]).0.marked(), 10);
        assert_eq!(IntentMap::unite(ARRAY, 10, &[disk.0, sound.0]).0.marked(), 0);
    }

    #[test]
    fn the_map_of_another_array_says_nothing() {
        let mut disk = Disk::new(10);
        IntentMap::new(Uuid([8; 16]), 10, false)
            .take_all()
            .iter()
            .for_each(|write| disk.write(write, LEN));
        assert_eq!(IntentMap::unite(ARRAY, 10, &[disk.0]).1, 1);
    }

    /// Regression: a drive wrote a block of the map in the place of another one. Checksum and array
    /// were right, and its bits passed for those of the other block: acknowledged marks were
    /// missing. The block's number detects it.
    #[test]
    fn a_block_in_the_place_of_another_one_says_nothing() {
        let regions = 2 * REGIONS_PER_BLOCK;
        let mut map = IntentMap::new(ARRAY, regions, false);
        map.mark(REGIONS_PER_BLOCK + 5);
        let mut disk = Disk::new(regions);
        for _ in 0..2 {
            map.take_all().iter().for_each(|write| disk.write(write, LEN));
        }
        let sound = disk.clone();
        disk.0.iter_mut().for_each(|copy| copy[1] = copy[0].clone());
        let (found, unknown) = IntentMap::unite(ARRAY, regions, &[disk.0]);
        assert_eq!(
            (found.marked(), unknown),
            (REGIONS_PER_BLOCK, 1),
            "unknown: all regions may be dirty"
        );
        assert_eq!(marks(&IntentMap::unite(ARRAY, regions, &[sound.0]).0), [REGIONS_PER_BLOCK + 5]);
    }

    /// Regression: a write of the map failed on one drive of two for lack of space, and was
    /// retried. The retry went to the other copy, the last valid one, and the process was killed
    /// during the write.
    #[test]
    fn a_write_that_is_tried_again_spares_the_last_sound_copy() {
        let mut map = IntentMap::new(ARRAY, 10, false);
        let mut disk = Disk::new(10);
        for _ in 0..2 {
            map.take_all().iter().for_each(|write| disk.write(write, LEN));
        }
        map.mark(3);
        map.take_changed().iter().for_each(|write| disk.write(write, LEN));
        map.mark(4);
        for _ in 0..3 {
            let writes = map.take_changed();
            writes.iter().for_each(|write| disk.write(write, 40));
            map.not_written(&writes);
        }
        let (found, unknown) = IntentMap::unite(ARRAY, 10, &[disk.0]);
        assert_eq!((marks(&found), unknown), (vec![3], 0));
    }

    #[test]
    fn a_map_grows_and_shrinks_with_its_volumes() {
        let mut map = IntentMap::new(ARRAY, 10, false);
        assert!(map.mark(3) && map.mark(9));
        map.resize(REGIONS_PER_BLOCK + 1);
        assert!(map.mark(REGIONS_PER_BLOCK) && marks(&map) == [3, 9, REGIONS_PER_BLOCK]);
        map.resize(5);
        assert_eq!((marks(&map), map.marked(), map.take_all().len()), (vec![3], 1, 1));
        map.resize(10);
        assert_eq!(marks(&map), [3]);
    }

    proptest! {
        /// Marks and unmarks are written to two members; the last write is torn at any byte,
        /// independently on each. Each member alone then has every mark that was acknowledged
        /// before.
        #[test]
        fn a_torn_write_never_loses_an_acknowledged_mark(
            steps in prop::collection::vec((0_u32..70_000, any::<bool>()), 1..40),
            torn in (0..=LEN, 0..=LEN),
        ) {
            let regions = 70_000;
            let mut map = IntentMap::new(ARRAY, regions, false);
            let mut disks = [Disk::new(regions), Disk::new(regions)];
            for _ in 0..2 {
                for write in map.take_all() {
                    disks.iter_mut().for_each(|disk| disk.write(&write, LEN));
                }
            }
            let mut acknowledged = Vec::new();
            let mut before = marks(&map);
            for (index, (region, mark)) in steps.iter().enumerate() {
                before = marks(&map);
                if *mark { map.mark(*region); } else { map.unmark(*region); }
                let last = index + 1 == steps.len();
                for write in map.take_changed() {
                    let keep = if last { [torn.0, torn.1] } else { [LEN; 2] };
                    disks.iter_mut().zip(keep).for_each(|(disk, keep)| disk.write(&write, keep));
                }
                if !last { acknowledged = marks(&map); }
            }
            let after = marks(&map);
            for disk in &disks {
                let one = std::slice::from_ref(&disk.0);
                let (found, unknown) = IntentMap::unite(ARRAY, regions, one);
                let found = marks(&found);
                prop_assert_eq!(unknown, 0);
                prop_assert!(found == before || found == after);
                prop_assert!(acknowledged.is_empty() || acknowledged == before);
            }
            let two = [disks[0].0.clone(), disks[1].0.clone()];
            let (both, _) = IntentMap::unite(ARRAY, regions, &two);
            let mut in_both_states = before.iter().filter(|region| after.contains(region));
            prop_assert!(in_both_states.all(|&region| both.is_marked(region)));
        }

        #[test]
        fn any_bytes_are_taken_for_a_map_without_panic(
            first in prop::collection::vec(any::<u8>(), 0..5000),
            at in 0_usize..LEN,
            value in any::<u8>(),
        ) {
            let mut map = IntentMap::new(ARRAY, 100, false);
            map.mark(3);
            let mut damaged = map.take_changed().remove(0).bytes;
            let changed = damaged[at] != value;
            damaged[at] = value;
            let copies = [vec![Some(first)], vec![Some(damaged)]];
            let (_, unknown) = IntentMap::unite(ARRAY, 100, &[copies]);
            prop_assert_eq!(unknown, u32::from(changed));
        }
    }
}
