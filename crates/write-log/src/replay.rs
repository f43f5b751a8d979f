//! Replay: what the records that were found after a crash come to. A fold over values: whoever calls reads the copies, and writes
//! what this says.
//!
//! # What counts
//! Of one ring, the records from the highest `tail` on that any of them says, in order. Several are written at a time, and they become
//! durable in any order: a record that is missing was torn, and of that one nothing was written to its place. What is beside it
//! is about other bytes, as whoever writes the same ones waits for it. But when a record begins, all before its `firm` are durable,
//! or do not count: of those before the highest `firm` that any of them says, from the tail on, none may be missing, or the journal
//! is incomplete.
//!
//! # The order of a replay
//! 1. [`counting`]: of all copies, the records that count, ring by ring and in order.
//! 2. [`Holders::wanting`]: each gets as many copies as it would have, had it not been torn. Nothing is carried out before.
//! 3. [`patches`]: what they leave to be written, the last word on every byte. A flush, and a new identity for the log, end it.

use crate::record::{Change, ChangeKind, Record};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, MAX_DRIVES};

/// A record that counts, and that no copy has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The ring.
    pub ring: u32,
    /// Its sequence.
    pub sequence: u64,
}

/// What is to be written to the members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    /// The member's slot.
    pub slot: u16,
    /// Where, from the volume's first byte on that drive.
    pub range: ByteRange,
    /// What; `None` for zeroes.
    pub bytes: Option<Vec<u8>>,
}

/// What is known of a ring.
#[derive(Default)]
struct Ring {
    tail: u64,
    firm: u64,
    records: BTreeMap<u64, Record>,
}

/// The records that count, of all copies that can be read: ring by ring, in order, each once.
///
/// # Errors
/// Which record is missing: then nobody knows what was interrupted.
pub fn counting(copies: impl IntoIterator<Item = Record>) -> Result<Vec<Record>, Missing> {
    let mut rings: BTreeMap<u32, Ring> = BTreeMap::new();
    for record in copies {
        let ring = rings.entry(record.head.ring).or_default();
        ring.tail = ring.tail.max(record.head.tail);
        ring.firm = ring.firm.max(record.head.firm);
        if record.head.sequence > 0 {
            ring.records.entry(record.head.sequence).or_insert(record);
        }
    }
    let mut counting = Vec::new();
    for (ring, Ring { tail, firm, mut records }) in rings {
        let mut next = tail.max(1);
        for (sequence, record) in records.split_off(&next) {
            if sequence > next && next < firm {
                break;
            }
            next = sequence.saturating_add(1);
            counting.push(record);
        }
        if next < firm {
            return Err(Missing { ring, sequence: next });
        }
    }
    Ok(counting)
}

/// What records that count leave to be written, in their order: the last word on every byte.
pub fn patches(counting: &[Record]) -> Vec<Patch> {
    let mut members: BTreeMap<u16, Drawing> = BTreeMap::new();
    for record in counting {
        let mut at = 0;
        for change in &record.changes {
            let bytes = &record.body[at..at + change.carried() as usize];
            at += bytes.len();
            members.entry(change.slot).or_default().apply(change, bytes);
        }
    }
    members.into_iter().flat_map(|(slot, drawing)| drawing.patches(slot)).collect()
}

/// The last word on the bytes of one member: runs that do not overlap, by where they begin.
#[derive(Default)]
struct Drawing {
    runs: BTreeMap<u64, (u64, Option<Vec<u8>>)>,
}

impl Drawing {
    fn apply(&mut self, change: &Change, bytes: &[u8]) {
        let (start, end) = (change.range.start.0, change.range.end().0);
        self.cut_out(start, end);
        match change.kind {
            _ if start == end => {}
            ChangeKind::Bytes => drop(self.runs.insert(start, (end - start, Some(bytes.to_vec())))),
            ChangeKind::Zeroes => drop(self.runs.insert(start, (end - start, None))),
            ChangeKind::Revoked => {}
        }
    }

    /// Takes a run of bytes out of those that are there.
    fn cut_out(&mut self, start: u64, end: u64) {
        let before = self.runs.range(..start).next_back().map(|(at, (len, _))| (*at, at + len));
        let first = before.filter(|(_, ends)| *ends > start).map_or(start, |(at, _)| at);
        let touched: Vec<u64> = self.runs.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some((len, bytes)) = self.runs.remove(&at) else { continue };
            if at < start {
                let head = bytes.as_ref().map(|bytes| bytes[..(start - at) as usize].to_vec());
                self.runs.insert(at, (start - at, head));
            }
            if at + len > end {
                let tail = bytes.as_ref().map(|bytes| bytes[(end - at) as usize..].to_vec());
                self.runs.insert(end, (at + len - end, tail));
            }
        }
    }

    fn patches(self, slot: u16) -> impl Iterator<Item = Patch> {
        self.runs.into_iter().map(move |(start, (len, bytes))| Patch {
            slot,
            range: ByteRange::new(ByteOffset(start), ByteCount(len)),
            bytes,
        })
    }
}

/// Which members have a record, by its ring and sequence.
#[derive(Clone, Default, Debug)]
pub struct Holders(BTreeMap<(u32, u64), DriveSet>);

impl Holders {
    /// By what was found on each member.
    pub fn of<'a>(copies: impl IntoIterator<Item = (DriveIndex, &'a [Record])>) -> Holders {
        let mut holders = Holders::default();
        for (drive, records) in copies {
            records.iter().for_each(|record| holders.add(record, drive));
        }
        holders
    }

    /// A member has a record.
    pub fn add(&mut self, record: &Record, drive: DriveIndex) {
        self.0.entry((record.head.ring, record.head.sequence)).or_default().insert(drive);
    }

    /// The members that a record is to be given to, until those that have it are enough, or all: those that it is about first, as
    /// they are of its own span. `members`: those that can take it.
    pub fn wanting(
        &self,
        record: &Record,
        members: &DriveSet,
        is_enough: impl Fn(&DriveSet) -> bool,
    ) -> Vec<DriveIndex> {
        let mut holding = self.0.get(&(record.head.ring, record.head.sequence)).copied().unwrap_or_default();
        let mut wanting = Vec::new();
        // What a record says may be any number.
        let slots = record.changes.iter().map(|change| DriveIndex(change.slot));
        let named = slots.filter(|slot| slot.as_usize() < MAX_DRIVES);
        for drive in named.chain(members.iter()) {
            if !members.contains(drive) || holding.contains(drive) {
                continue;
            }
            if is_enough(&holding) {
                break;
            }
            wanting.push(drive);
            holding.insert(drive);
        }
        wanting
    }
}
