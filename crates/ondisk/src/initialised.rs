//! The record of initialised regions and stripes: the stripes on the drives that hold data of
//! hosts.
//!
//! # Fault model and invariants
//! - Two parts: a bit for each region of the array (*initialised*), and a table of the *partially
//!   initialised* regions, with a bit for each stripe. A region in neither part is uninitialised:
//!   it reads as zeros.
//! - Blocks of both parts are written like those of the [`IntentMap`]: alternating between two
//!   copies, to every member. So each member alone has all acknowledged bits, and the members' bits
//!   are united. A bit is set only when the stripe is on the drives and flushed.
//! - Bits are never removed. Only a region's entry in the table is, once its bit in the first part
//!   is durable.
//! - The record is exact. A stripe without space in the table is refused: the caller initialises
//!   the rest of the region first.
//! - Where no member can read a block, the initialised regions are unknown. The caller then treats
//!   all as initialised, without redundancy until a resync. (As uninitialised, data of hosts would
//!   read as zeros.)
//!
//! ```text
//! block of the table, 4096 bytes; numbers are little-endian
//! the first 64 bytes are those of a block of the map, with "SRoCpart"; then entries of regions:
//!    0  4  region of the array           a region of 0 stripes ends the block
//!    4  4  number of its stripes
//!    8  n  a bit for each stripe, least significant first, in whole multiples of 4 bytes
//! ```

use crate::bytes::u32_at;
use crate::intent::{Block, BlockWrite, Copies, HEADER, IntentMap, LEN, newest};
use crate::tail::Area;
use crate::uuid::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The most blocks of the table.
pub const MAX_BLOCKS: u32 = 128;

/// The fewest blocks: enough for all regions of a small array.
const MIN_BLOCKS: u32 = 4;

/// The table has one block for this many regions of an array.
const REGIONS_FOR_A_BLOCK: u32 = 64;

/// The bytes for entries in a block.
const ROOM: usize = LEN - HEADER;

/// The bytes before the bits of a region.
const ENTRY_HEADER: usize = 8;

/// The number of blocks in the table of a new record for `regions` regions. The label records it.
pub fn table_blocks(regions: u32) -> u32 {
    (regions / REGIONS_FOR_A_BLOCK).clamp(MIN_BLOCKS, MAX_BLOCKS)
}

/// One member's copies of the record, as read.
#[derive(Clone, Default, Debug)]
pub struct RecordCopies {
    /// The bits of regions.
    pub regions: Copies,
    /// The table.
    pub table: Copies,
}

/// A partially initialised region.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// The block that has it.
    block: u32,
    /// The number of stripes in the region.
    stripes: u32,
    /// A bit for each stripe, in whole multiples of 4 bytes.
    bits: Vec<u8>,
}

impl Entry {
    fn len(&self) -> usize {
        ENTRY_HEADER + self.bits.len()
    }
}

/// The bytes that the bits of `stripes` stripes need.
fn bytes_for(stripes: u32) -> usize {
    (stripes as usize).div_ceil(32) * 4
}

/// The record of one array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitRecord {
    array: Uuid,
    initialised: IntentMap,
    entries: BTreeMap<u32, Entry>,
    /// The sequence of the latest write of each block.
    sequences: Vec<u64>,
    changed: BTreeSet<u32>,
}

impl InitRecord {
    /// The record of an array of `regions` regions, none of which is initialised, with a table of
    /// `blocks` blocks (at most [`MAX_BLOCKS`]).
    pub fn new(array: Uuid, regions: u32, blocks: u32) -> InitRecord {
        InitRecord {
            array,
            initialised: IntentMap::in_area(Area::Initialised, array, regions, false),
            entries: BTreeMap::new(),
            sequences: vec![0; blocks.clamp(1, MAX_BLOCKS) as usize],
            changed: BTreeSet::new(),
        }
    }

    /// The united record of the members. False: it is incomplete, since a block is unreadable on
    /// every member.
    pub fn unite(
        array: Uuid,
        regions: u32,
        blocks: u32,
        members: &[RecordCopies],
    ) -> (InitRecord, bool) {
        let mut record = InitRecord::new(array, regions, blocks);
        let of_regions: Vec<Copies> = members.iter().map(|copies| copies.regions.clone()).collect();
        let (initialised, unknown) =
            IntentMap::unite_in(Area::Initialised, array, regions, &of_regions);
        record.initialised = initialised;
        let mut is_all = unknown == 0;
        let mut found: BTreeMap<u32, (u32, Vec<u8>)> = BTreeMap::new();
        for index in 0..record.sequences.len() as u32 {
            let known = members
                .iter()
                .filter_map(|copies| newest(&copies.table, Area::PartlyInitialised, array, index));
            let mut is_known = false;
            for Block { sequence, bits } in known {
                let Some(entries) = decode(&bits, regions) else { continue };
                is_known = true;
                let latest = &mut record.sequences[index as usize];
                *latest = sequence.max(*latest);
                for (region, stripes, bits) in entries {
                    let (_, all) = found.entry(region).or_insert((stripes, vec![0; bits.len()]));
                    all.iter_mut().zip(&bits).for_each(|(all, bits)| *all |= bits);
                }
            }
            is_all &= is_known;
        }
        for (region, (stripes, bits)) in found {
            // A completed region may still have an entry in the table.
            let fits = record.is_initialised(region) || record.note(region, stripes, &bits);
            is_all &= fits;
        }
        (record, is_all)
    }

    /// The number of regions.
    pub fn regions(&self) -> u32 {
        self.initialised.regions()
    }

    /// The number of blocks in its table.
    pub fn blocks(&self) -> u32 {
        self.sequences.len() as u32
    }

    /// Whether the whole region is initialised.
    pub fn is_initialised(&self, region: u32) -> bool {
        self.initialised.is_marked(region)
    }

    /// The partially initialised regions, with a bit for each stripe.
    pub fn partial(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.entries.iter().map(|(region, entry)| (*region, &entry.bits[..]))
    }

    /// The uninitialised regions of a range.
    pub fn uninitialised(&self, regions: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        regions.filter(|region| !self.is_initialised(*region) && !self.entries.contains_key(region))
    }

    /// Records stripes of a region of `stripes` stripes as initialised. False: no space for it,
    /// nothing has changed.
    #[must_use]
    pub fn note(&mut self, region: u32, stripes: u32, bits: &[u8]) -> bool {
        if self.is_initialised(region) || region >= self.regions() {
            return true;
        }
        if !self.entries.contains_key(&region) {
            let mut entry = Entry { block: 0, stripes, bits: vec![0; bytes_for(stripes)] };
            let Some(block) = self.block_with_room(entry.len()) else { return false };
            entry.block = block;
            self.entries.insert(region, entry);
        }
        if let Some(entry) = self.entries.get_mut(&region) {
            entry.bits.iter_mut().zip(bits).for_each(|(all, bits)| *all |= bits);
            self.changed.insert(entry.block);
        }
        true
    }

    fn block_with_room(&self, len: usize) -> Option<u32> {
        let mut used = vec![0; self.sequences.len()];
        self.entries.values().for_each(|entry| used[entry.block as usize] += entry.len());
        used.iter().position(|used| used + len <= ROOM).map(|block| block as u32)
    }

    /// Records the whole region as initialised.
    pub fn complete(&mut self, region: u32) {
        self.initialised.mark(region);
        self.take_line(region);
    }

    fn take_line(&mut self, region: u32) {
        if let Some(entry) = self.entries.remove(&region) {
            self.changed.insert(entry.block);
        }
    }

    /// Resets regions that no longer belong to their volume: they are uninitialised.
    pub fn forget(&mut self, regions: Range<u32>) {
        for region in regions {
            self.initialised.unmark(region);
            self.take_line(region);
        }
    }

    /// Changes the number of regions: new ones are uninitialised. The caller then writes all
    /// blocks, twice. The table grows with the number of regions, and never shrinks.
    pub fn resize(&mut self, regions: u32) {
        self.forget(regions..self.regions());
        self.initialised.resize(regions);
        let blocks = table_blocks(regions).max(self.blocks());
        self.sequences.resize(blocks as usize, 0);
    }

    /// The blocks that changed since the last call, each with its next sequence. Those of the first
    /// list record regions as initialised; they must be durable before the second list is written.
    pub fn take_changed(&mut self) -> [Vec<BlockWrite>; 2] {
        let changed = std::mem::take(&mut self.changed);
        [
            self.initialised.take_changed(),
            changed.into_iter().map(|index| self.write_of(index)).collect(),
        ]
    }

    /// Every block, with its next sequence. Two calls, each written, make both copies of all blocks
    /// valid.
    pub fn take_all(&mut self) -> Vec<BlockWrite> {
        self.changed.clear();
        let mut all = self.initialised.take_all();
        all.extend((0..self.sequences.len() as u32).map(|index| self.write_of(index)));
        all
    }

    /// Marks blocks that are not durable on all members as changed again; their next write goes to
    /// the same copies.
    pub fn not_written(&mut self, writes: &[BlockWrite]) {
        let (regions, table): (Vec<BlockWrite>, Vec<BlockWrite>) =
            writes.iter().cloned().partition(|write| write.area == Area::Initialised);
        self.initialised.not_written(&regions);
        for BlockWrite { block, .. } in table {
            self.sequences[block as usize] += 1;
            self.changed.insert(block);
        }
    }

    fn write_of(&mut self, index: u32) -> BlockWrite {
        let mut bits = Vec::with_capacity(ROOM);
        for (region, entry) in self.entries.iter().filter(|(_, entry)| entry.block == index) {
            bits.extend(region.to_le_bytes());
            bits.extend(entry.stripes.to_le_bytes());
            bits.extend(&entry.bits);
        }
        bits.resize(ROOM, 0);
        let mut block = Block { sequence: self.sequences[index as usize], bits };
        let write = block.write(Area::PartlyInitialised, self.array, index);
        self.sequences[index as usize] = block.sequence;
        write
    }
}

/// The entries of a block of the table. `None`: not written by SoftROC.
fn decode(bytes: &[u8], regions: u32) -> Option<Vec<(u32, u32, Vec<u8>)>> {
    let (mut entries, mut at) = (Vec::new(), 0);
    while at + ENTRY_HEADER <= bytes.len() {
        let (region, stripes) = (u32_at(bytes, at), u32_at(bytes, at + 4));
        if stripes == 0 {
            break;
        }
        let from = at + ENTRY_HEADER;
        let bits = bytes.get(from..from.checked_add(bytes_for(stripes))?)?;
        // Entries of regions beyond the array's end do not count.
        if region < regions {
            entries.push((region, stripes, bits.to_vec()));
        }
        at = from + bits.len();
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    const ARRAY: Uuid = Uuid([7; 16]);

    /// The bytes of a drive's copies of a record.
    #[derive(Clone)]
    struct Disk(RecordCopies);

    impl Disk {
        fn new(regions: u32, blocks: u32) -> Disk {
            let blank = |count: u32| vec![Some(vec![0xa5; LEN]); count as usize];
            let (map, table) = (blank(crate::intent::blocks_for(regions)), blank(blocks));
            Disk(RecordCopies { regions: [map.clone(), map], table: [table.clone(), table] })
        }

        fn of(record: &mut InitRecord) -> Disk {
            let mut disk = Disk::new(record.regions(), record.blocks());
            for _ in 0..2 {
                record.take_all().iter().for_each(|write| disk.write(write, LEN));
            }
            disk
        }

        /// Writes the first `keep` bytes of a block: a torn write if they are not all.
        fn write(&mut self, write: &BlockWrite, keep: usize) {
            let copies = match write.area {
                Area::Initialised => &mut self.0.regions,
                Area::PartlyInitialised => &mut self.0.table,
                Area::WriteIntent => panic!("a record has no write intents"),
            };
            let place = copies[write.copy][write.block as usize].as_mut().unwrap();
            place[..keep].copy_from_slice(&write.bytes[..keep]);
        }
    }

    /// The number of initialised stripes by region, or `None`: all.
    fn known(record: &InitRecord) -> Vec<Option<u32>> {
        let count = |bits: &[u8]| bits.iter().map(|byte| byte.count_ones()).sum();
        let partial: BTreeMap<u32, u32> =
            record.partial().map(|(region, bits)| (region, count(bits))).collect();
        let of = |region| match record.is_initialised(region) {
            true => None,
            false => Some(partial.get(&region).copied().unwrap_or(0)),
        };
        (0..record.regions()).map(of).collect()
    }

    #[test]
    fn a_block_of_the_table_is_these_bytes() {
        let mut record = InitRecord::new(ARRAY, 100, 4);
        assert!(record.note(9, 33, &[0b101, 0, 0, 0, 1]));
        let [none, mut table] = record.take_changed();
        assert_eq!(none, []);
        let mut bytes = vec![0_u8; 4096];
        bytes[..16].copy_from_slice(b"SRoCpart\x01\0\0\0\0\0\0\0");
        bytes[16..32].fill(7);
        bytes[32] = 1;
        bytes[64] = 9;
        bytes[68] = 33;
        bytes[72] = 0b101;
        bytes[76] = 1;
        let crc = crc32c::crc32c(&bytes);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        let write = BlockWrite { area: Area::PartlyInitialised, copy: 1, block: 0, bytes };
        assert_eq!(table.remove(0), write);
        record.complete(9);
        let [mut regions, table] = record.take_changed();
        assert!(regions.remove(0).bytes.starts_with(b"SRoCinit") && table.len() == 1);
    }

    /// A region's entry in the table may be removed only when its bit is durable: a crash between
    /// leaves both.
    #[test]
    fn a_region_that_is_complete_and_still_in_the_table_is_complete() {
        let mut record = InitRecord::new(ARRAY, 10, 4);
        assert!(record.note(3, 16, &[1, 0]));
        let mut disk = Disk::of(&mut record);
        record.complete(3);
        let [regions, _] = record.take_changed();
        regions.iter().for_each(|write| disk.write(write, LEN));
        let (found, is_all) = InitRecord::unite(ARRAY, 10, 4, &[disk.0]);
        assert_eq!((known(&found)[3], is_all), (None, true));
    }

    #[test]
    fn a_block_that_no_member_can_tell_is_said_to_be_unknown() {
        let mut record = InitRecord::new(ARRAY, 10, 4);
        let sound = Disk::of(&mut record);
        for of_table in [false, true] {
            let mut disk = sound.clone();
            let copies = if of_table { &mut disk.0.table } else { &mut disk.0.regions };
            copies.iter_mut().for_each(|copy| copy[0] = None);
            assert!(!InitRecord::unite(ARRAY, 10, 4, &[disk.0.clone()]).1);
            assert!(InitRecord::unite(ARRAY, 10, 4, &[disk.0, sound.0.clone()]).1);
        }
        assert!(!InitRecord::unite(ARRAY, 10, 4, &[]).1);
        assert!(!InitRecord::unite(Uuid([8; 16]), 10, 4, &[sound.0]).1, "another array's");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_fits_when_others_are_complete() {
        let mut record = InitRecord::new(ARRAY, 1000, table_blocks(1000));
        let most = table_blocks(1000) * (ROOM / (ENTRY_HEADER + 1024)) as u32;
        for region in 0..most {
            assert!(record.note(region, 8192, &[1]), "{region} of {most}");
        }
        assert!(!record.note(most, 8192, &[1]) && known(&record)[most as usize] == Some(0));
        record.complete(5);
        assert!(record.note(most, 8192, &[1]));
        assert!(!record.note(999, 8 * 4096, &[1]), "the region is too large for a block");
    }

    proptest! {
        /// For any sequence of notes and completions, and a last change that is torn at any write
        /// on each of two members: the durable stripes are known, and only noted stripes are.
        /// Writes before the torn one are durable; later ones have not started.
        #[test]
        fn a_torn_write_takes_nothing_back(
            steps in prop::collection::vec((0_u32..40, 0_u8..4, any::<[u8; 4]>()), 1..40),
            cut in 0..2_usize,
            torn in (0..=LEN, 0..=LEN),
        ) {
            let mut record = InitRecord::new(ARRAY, 40, 4);
            let disk = Disk::of(&mut record);
            let mut disks = [disk.clone(), disk];
            let mut before = known(&record);
            for (index, (region, what, bits)) in steps.iter().enumerate() {
                before = known(&record);
                match what {
                    0 => record.complete(*region),
                    _ => prop_assert!(record.note(*region, 32, bits)),
                }
                let last = index + 1 == steps.len();
                for (at, write) in record.take_changed().iter().flatten().enumerate() {
                    let keep = match at.cmp(&cut) {
                        Ordering::Equal if last => [torn.0, torn.1],
                        Ordering::Greater if last => [0; 2],
                        _ => [LEN; 2],
                    };
                    disks.iter_mut().zip(keep).for_each(|(disk, keep)| disk.write(write, keep));
                }
            }
            let after = known(&record);
            let at_least = |found: &Vec<Option<u32>>, least: &Vec<Option<u32>>| {
                found.iter().zip(least).all(|(found, least)| match (found, least) {
                    (None, _) => true,
                    (Some(found), Some(least)) => found >= least,
                    (Some(_), None) => false,
                })
            };
            for disk in &disks {
                let one = std::slice::from_ref(&disk.0);
                let (found, is_all) = InitRecord::unite(ARRAY, 40, 4, one);
                prop_assert!(is_all);
                prop_assert!(at_least(&known(&found), &before) && at_least(&after, &known(&found)));
            }
            let two = [disks[0].0.clone(), disks[1].0.clone()];
            let (both, _) = InitRecord::unite(ARRAY, 40, 4, &two);
            prop_assert!(at_least(&known(&both), &before) && at_least(&after, &known(&both)));
        }

        #[test]
        fn any_bytes_are_taken_for_a_record_without_panic(
            bytes in prop::collection::vec(any::<u8>(), ROOM),
            regions in 1_u32..100,
        ) {
            let mut block = Block { sequence: 4, bits: bytes };
            let write = block.write(Area::PartlyInitialised, ARRAY, 0);
            let mut disk = Disk::new(regions, 4);
            disk.write(&write, LEN);
            let _ = InitRecord::unite(ARRAY, regions, 4, &[disk.0]);
        }

        #[test]
        fn what_is_left_after_a_change_of_size_is_what_was_known(
            sizes in prop::collection::vec(1_u32..20_000, 1..6),
        ) {
            let mut record = InitRecord::new(ARRAY, sizes[0], table_blocks(sizes[0]));
            for size in sizes {
                record.resize(size);
                prop_assert!(record.note(size / 2, 256, &[3]));
                record.complete(size / 3);
                let disk = Disk::of(&mut record);
                let (found, is_all) = InitRecord::unite(ARRAY, size, record.blocks(), &[disk.0]);
                prop_assert!(is_all);
                prop_assert_eq!(known(&found), known(&record));
            }
        }
    }
}
