//! Acknowledged writes survive a kill between any two stores, whatever parts were destaged in any
//! order.

use proptest::prelude::*;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::memory::{self, MemoryHead};
use write_log::{CELL, CellRange, Cells, DESCRIPTOR, Descriptor, in_order};

const SECTOR: u64 = 512;
const SECTORS: usize = 32;
const SLOTS: u32 = 24;

fn descriptor(sequence: u64, range: std::ops::Range<u64>) -> Descriptor {
    let range = ByteRange::new(ByteOffset(range.start), ByteCount(range.end - range.start));
    Descriptor { sequence, bytes: CellRange::parts(3, range).next().unwrap() }
}

fn cells(slots: u32, found: &[(u32, Descriptor)]) -> Cells {
    let mut cells = Cells::default();
    let is_free = |slot: &u32| found.iter().all(|(taken, _)| taken != slot);
    (0..slots).filter(is_free).for_each(|slot| cells.give(slot));
    cells.found(found.iter().copied());
    cells
}

#[test]
fn a_descriptor_is_read_as_it_was_written() {
    let written = descriptor(9, 4096 * 77 + 512..4096 * 77 + 4096);
    let bytes = written.encode();
    assert_eq!(Descriptor::decode(&bytes), Some(written));
    assert_eq!(written.bytes.range(), ByteRange::new(ByteOffset(4096 * 77 + 512), ByteCount(3584)));
    let mut unfinished = bytes;
    unfinished[..8].fill(0);
    assert_eq!(Descriptor::decode(&unfinished), None, "its sequence number is stored last");
    for bit in 0..DESCRIPTOR * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Descriptor::decode(&damaged), None, "bit {bit}");
    }
    assert_eq!(Descriptor::decode(&bytes[..31]), None);
}

/// Regression: only the sequence number of a cleared block is zeroed, and sequence numbers restart
/// when a process finds no data. So new content may get the number of the previous content: a kill
/// between any two stores must not bring the previous descriptor back with the new bytes.
#[test]
fn what_a_cell_had_before_is_not_there_again_while_something_is_stored_in_it() {
    let of_before = [
        descriptor(1, 0..512),
        descriptor(1, 4096..8192),
        descriptor(2, 0..512),
        descriptor(1 << 40, 0..4096),
    ];
    let stored = [
        descriptor(1, 0..512),
        descriptor(1, 512..4096),
        descriptor(2, 8192..8704),
        descriptor(1 << 40, 4096..8192),
    ];
    for (before, new) in
        of_before.iter().flat_map(|before| stored.iter().map(move |new| (before, new)))
    {
        let mut words = vec![0; MemoryHead::words(3)];
        before.stores(1).into_iter().for_each(|(at, value)| words[at] = value);
        words[memory::descriptor_at(1)] = 0;
        for (at, value) in new.stores(1) {
            let left = Descriptor::load(1, |word| words[word]);
            assert_eq!(left, None, "{new:?} replaces {before:?}");
            words[at] = value;
        }
        assert_eq!(Descriptor::load(1, |word| words[word]), Some(*new));
    }
}

/// Regression: a write of a part of a block is destaged, and an older write that overlaps it is
/// not. If the newer descriptor is cleared first, a restart overwrites the newer data with the
/// older.
#[test]
fn newer_data_is_not_forgotten_before_older() {
    let mut cells = cells(4, &[]);
    let older = cells.take(&descriptor(1, 0..4096)).unwrap();
    let newer = cells.take(&descriptor(2, 0..512)).unwrap();
    assert!(cells.done(3, 0, 2).is_empty());
    assert_eq!(cells.done(3, 0, 1)[..], [older, newer], "the older one first");
    assert_eq!(cells.free(), 2);
    cells.cleared(&[older, newer]);
    assert_eq!(cells.free(), 4);
}

#[test]
fn a_full_memory_takes_nothing() {
    let mut cells = cells(1, &[(0, descriptor(5, 0..512))]);
    assert_eq!(cells.take(&descriptor(6, 512..1024)), None);
    let cleared = cells.done(3, 0, 5);
    cells.cleared(&cleared);
    assert_eq!(cells.take(&descriptor(6, 512..1024)), Some(0));
}

/// A host computer: memory, drives, and the process that uses them until it is killed.
struct Machine {
    /// Descriptors in memory, and the sectors of their blocks: each holds the number of its write.
    memory: Vec<([u8; DESCRIPTOR], [u64; 8])>,
    drives: [u64; SECTORS],
    /// The newest acknowledged write of each sector.
    answered: [u64; SECTORS],
    /// The stores left until the process is killed.
    stores: usize,
    // The state of the process.
    cells: Cells,
    /// Writes with their dirty sectors.
    dirty: Vec<(u64, Vec<usize>)>,
    sequence: u64,
}

/// The process was killed.
struct Killed;

impl Machine {
    fn new(stores: usize) -> Machine {
        let memory = vec![([0; DESCRIPTOR], [0; 8]); SLOTS as usize];
        let (drives, answered) = ([0; SECTORS], [0; SECTORS]);
        let cells = cells(SLOTS, &[]);
        Machine { memory, drives, answered, stores, cells, dirty: Vec::new(), sequence: 0 }
    }

    fn store(&mut self) -> Result<(), Killed> {
        self.stores = self.stores.checked_sub(1).ok_or(Killed)?;
        Ok(())
    }

    fn write(&mut self, start: usize, len: usize) -> Result<(), Killed> {
        let range =
            ByteRange::new(ByteOffset(start as u64 * SECTOR), ByteCount(len as u64 * SECTOR));
        if self.cells.free() < CellRange::parts(3, range).count() {
            return Ok(());
        }
        self.sequence += 1;
        let sequence = self.sequence;
        for bytes in CellRange::parts(3, range) {
            let descriptor = Descriptor { sequence, bytes };
            let slot = self.cells.take(&descriptor).expect("a block is free") as usize;
            for sector in
                u64::from(bytes.start) / SECTOR..u64::from(bytes.start + bytes.len) / SECTOR
            {
                self.store()?;
                self.memory[slot].1[sector as usize] = sequence;
            }
            self.store()?;
            self.memory[slot].0[8..].copy_from_slice(&descriptor.encode()[8..]);
            self.store()?;
            self.memory[slot].0[..8].copy_from_slice(&descriptor.encode()[..8]);
        }
        let sectors: Vec<usize> = (start..start + len).collect();
        self.answered[start..start + len].fill(sequence);
        let older = self.dirty.len();
        self.dirty.push((sequence, sectors.clone()));
        self.forget(older, &sectors)
    }

    /// Destages some dirty sectors.
    fn destage(&mut self, which: usize, most: usize) -> Result<(), Killed> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let which = which % self.dirty.len();
        let (sequence, mut sectors) = self.dirty[which].clone();
        sectors.truncate(most);
        for sector in &sectors {
            self.store()?;
            self.drives[*sector] = sequence;
        }
        let (before, after) = (self.dirty[..which].len(), self.dirty.len());
        self.forget_between(before, after.min(which + 1), &sectors)
    }

    fn forget(&mut self, until: usize, sectors: &[usize]) -> Result<(), Killed> {
        self.forget_between(0, until, sectors)
    }

    /// Marks these sectors of these writes as clean.
    fn forget_between(
        &mut self,
        from: usize,
        until: usize,
        sectors: &[usize],
    ) -> Result<(), Killed> {
        let per_cell = (CELL.0 / SECTOR) as usize;
        let mut done: Vec<(u64, u64)> = Vec::new();
        for (sequence, dirty) in &mut self.dirty[from..until] {
            let mut touched: Vec<usize> = sectors
                .iter()
                .filter(|sector| dirty.contains(sector))
                .map(|sector| sector / per_cell)
                .collect();
            touched.dedup();
            dirty.retain(|sector| !sectors.contains(sector));
            touched.retain(|cell| dirty.iter().all(|sector| sector / per_cell != *cell));
            done.extend(touched.into_iter().map(|cell| (cell as u64, *sequence)));
        }
        self.dirty.retain(|(_, dirty)| !dirty.is_empty());
        for (cell, sequence) in done {
            let slots = self.cells.done(3, cell, sequence);
            for slot in &slots {
                self.store()?;
                self.memory[*slot as usize].0[..8].fill(0);
            }
            self.cells.cleared(&slots);
        }
        Ok(())
    }

    /// A new process finds the descriptors, and applies them to the drives' data.
    fn restart(&mut self, stores: usize) {
        let slots = (0..SLOTS).zip(&self.memory);
        let found: Vec<(u32, Descriptor)> = slots
            .filter_map(|(slot, (bytes, _))| Some((slot, Descriptor::decode(bytes)?)))
            .collect();
        let mut seen = self.drives;
        (self.dirty, self.stores) = (Vec::new(), stores);
        for (slot, Descriptor { sequence, bytes }) in in_order(found.clone()) {
            let first = (bytes.range().start.0 / SECTOR) as usize;
            let sectors: Vec<usize> =
                (first..first + usize::from(bytes.len) / SECTOR as usize).collect();
            for sector in &sectors {
                seen[*sector] = self.memory[slot as usize].1[sector % 8];
            }
            self.sequence = self.sequence.max(sequence);
            self.dirty.push((sequence, sectors));
        }
        for sector in 0..SECTORS {
            assert!(
                seen[sector] >= self.answered[sector],
                "sector {sector}: {seen:?}, {:?}",
                self.answered
            );
        }
        self.answered = seen;
        self.cells = cells(SLOTS, &found);
        // Superseded data are no longer dirty.
        let all: Vec<(usize, Vec<usize>)> = self
            .dirty
            .iter()
            .enumerate()
            .map(|(place, (_, sectors))| (place, sectors.clone()))
            .collect();
        for (place, sectors) in all.into_iter().rev() {
            for (_, dirty) in &mut self.dirty[..place] {
                dirty.retain(|sector| !sectors.contains(sector));
            }
        }
        let empty: Vec<(u64, u64)> = found_without(&self.memory, &self.dirty);
        self.dirty.retain(|(_, dirty)| !dirty.is_empty());
        for (cell, sequence) in empty {
            let slots = self.cells.done(3, cell, sequence);
            slots.iter().for_each(|slot| self.memory[*slot as usize].0[..8].fill(0));
            self.cells.cleared(&slots);
        }
    }
}

/// The blocks of writes without dirty sectors: each is passed on as a write of its own.
fn found_without(
    memory: &[([u8; DESCRIPTOR], [u64; 8])],
    dirty: &[(u64, Vec<usize>)],
) -> Vec<(u64, u64)> {
    let found = in_order(
        (0..SLOTS)
            .zip(memory)
            .filter_map(|(slot, (bytes, _))| Some((slot, Descriptor::decode(bytes)?))),
    );
    let pairs = found.iter().zip(dirty).filter(|(_, (_, sectors))| sectors.is_empty());
    pairs.map(|((_, descriptor), _)| (descriptor.bytes.cell, descriptor.sequence)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Destage(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..SECTORS, 1usize..14)
            .prop_map(|(start, len)| Step::Write(start, len.min(SECTORS - start))),
        (any::<usize>(), 1usize..14).prop_map(|(which, most)| Step::Destage(which, most)),
    ]
}

proptest! {
    #[test]
    fn what_was_answered_is_found_after_a_kill(
        steps in prop::collection::vec(step(), 1..80),
        kills in prop::collection::vec(0usize..120, 1..6),
    ) {
        let mut kills = kills.into_iter();
        let mut machine = Machine::new(kills.next().unwrap_or(0));
        for step in steps {
            let outcome = match step {
                Step::Write(start, len) => machine.write(start, len),
                Step::Destage(which, most) => machine.destage(which, most),
            };
            if outcome.is_err() {
                machine.restart(kills.next().unwrap_or(usize::MAX));
            }
        }
        machine.restart(usize::MAX);
        while !machine.dirty.is_empty() {
            prop_assert!(machine.destage(0, SECTORS).is_ok());
        }
        prop_assert_eq!(machine.drives, machine.answered);
        prop_assert_eq!(machine.cells.free(), SLOTS as usize, "all blocks are free again");
    }
}

#[test]
fn a_memory_is_what_it_was_made_as_or_nothing() {
    let head = MemoryHead { id: *b"0123456789abcdef", cells: 3 };
    let mut words = vec![0; MemoryHead::words(head.cells)];
    for (at, value) in head.stores() {
        assert!(MemoryHead::read(words.len(), |word| words[word]).is_err(), "incomplete");
        words[at] = value;
    }
    assert_eq!(MemoryHead::read(words.len(), |word| words[word]), Ok(head));
    assert!(MemoryHead::read(words.len() - 1, |word| words[word]).is_err());
    let written = descriptor(7, 4096..4608);
    for (at, value) in written.stores(2) {
        assert_eq!(Descriptor::load(2, |word| words[word]), None, "sequence is last");
        words[at] = value;
    }
    assert_eq!(Descriptor::load(2, |word| words[word]), Some(written));
    assert_eq!(Descriptor::load(1, |word| words[word]), None);
    words[memory::descriptor_at(2)] = 0;
    assert_eq!(Descriptor::load(2, |word| words[word]), None);
    words[1] = 2;
    assert!(
        MemoryHead::read(words.len(), |word| words[word]).unwrap_err().contains("version is 2")
    );
}
