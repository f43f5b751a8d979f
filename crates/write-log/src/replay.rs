//! Replay: evaluates the records that are found after a crash. The caller reads the copies, and
//! writes the result.
//!
//! # Counting records
//! In each ring, the records from its highest `tail` on, in order. Several are written
//! concurrently, and they become durable in any order: a missing record was torn, and none of its
//! writes has begun. Records concurrent with it cover other bytes, since writes of the same bytes
//! wait for one another. But when a record begins, all before its `firm` are durable, or do not
//! count: from the tail to the highest `firm`, no record may be missing, or the journal is
//! incomplete.
//!
//! # Order of a replay
//! 1. [`counting`]: the counting records of all copies, by ring and in order.
//! 2. [`Holders::wanting`]: each record gets the copies of a record that was not torn. No write to
//!    the drives precedes this.
//! 3. [`patches`]: the newest content of every byte. A flush, and a new UUID for the log, end the
//!    replay.

use crate::record::{Change, ChangeKind, Record};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, MAX_DRIVES};

/// A counting record without any copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The ring.
    pub ring: u32,
    /// Its sequence.
    pub sequence: u64,
}

/// A write of the replay to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    /// The member's slot.
    pub slot: u16,
    /// The range from the volume's first byte on that drive.
    pub range: ByteRange,
    /// The bytes; `None` for zeros.
    pub bytes: Option<Vec<u8>>,
}

/// The records of a ring, and its limits.
#[derive(Default)]
struct Ring {
    tail: u64,
    firm: u64,
    records: BTreeMap<u64, Record>,
}

/// The counting records of all readable copies: by ring, in order, each once.
///
/// # Errors
/// The missing record: the interrupted writes are unknown then.
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

/// The writes of a replay of these records, which are in order: the newest content of every byte.
pub fn patches(counting: &[Record]) -> Vec<Patch> {
    let mut members: BTreeMap<u16, Overlay> = BTreeMap::new();
    for record in counting {
        let mut at = 0;
        for change in &record.changes {
            let bytes = &record.body[at..at + change.carried() as usize];
            at += bytes.len();
            members.entry(change.slot).or_default().apply(change, bytes);
        }
    }
    members.into_iter().flat_map(|(slot, overlay)| overlay.patches(slot)).collect()
}

/// The newest content of one member: runs without overlaps, by offset.
#[derive(Default)]
struct Overlay {
    runs: BTreeMap<u64, (u64, Option<Vec<u8>>)>,
}

impl Overlay {
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

    /// Removes a range of bytes.
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

/// The members that have each record, by ring and sequence.
#[derive(Clone, Default, Debug)]
pub struct Holders(BTreeMap<(u32, u64), DriveSet>);

impl Holders {
    /// From the records that were found on each member.
    pub fn of<'a>(copies: impl IntoIterator<Item = (DriveIndex, &'a [Record])>) -> Holders {
        let mut holders = Holders::default();
        for (drive, records) in copies {
            records.iter().for_each(|record| holders.add(record, drive));
        }
        holders
    }

    /// Adds a member of a record.
    pub fn add(&mut self, record: &Record, drive: DriveIndex) {
        self.0.entry((record.head.ring, record.head.sequence)).or_default().insert(drive);
    }

    /// The members to which the replay copies a record, until enough have it, or all: first those
    /// that it changes, as they belong to its span. `members`: those that can receive it.
    pub fn wanting(
        &self,
        record: &Record,
        members: &DriveSet,
        is_enough: impl Fn(&DriveSet) -> bool,
    ) -> Vec<DriveIndex> {
        let mut holding =
            self.0.get(&(record.head.ring, record.head.sequence)).copied().unwrap_or_default();
        let mut wanting = Vec::new();
        // The slot in a record may be any number.
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
