//! Records: the bytes in which a log stores writes.
//!
//! A *record* has the changes of some writes to the members' drives: data and all redundancy. It is
//! durable on more members than the volume may lose before its first byte is written to its place.
//! After a crash the replay repeats the records in order, whatever part of them was written.
//!
//! # Place
//! A volume's journal is a range in the tail, at the same offset on every member, divided into
//! *rings*, one for each shard, which alone writes it. A stripe belongs to one shard as long as the
//! journal keeps its UUID, so the records of one ring are ordered, and records of different rings
//! are independent. The first two blocks of a ring are for *notices*: records without changes that
//! announce which records no longer count. Notices alternate between the two blocks.
//! ```text
//! record, at a multiple of 4096 bytes of its ring; numbers are little-endian
//!    0  8  "SRoCjrnl"                       48  8  tail: no record before this one counts
//!    8  4  version, 1                       56  8  place, from the journal's beginning
//!   12  4  CRC-32C of the head,             64  8  bytes of the head, a multiple of 4096
//!          this field as zero               72  8  bytes behind the head, a multiple of 4096
//!   16 16  UUID of the journal              80  4  CRC-32C of the bytes behind the head
//!   32  4  number of the ring               84  4  number of changes
//!   36  4  zero                             88  8  firm: no record before this one can be missing
//!   40  8  sequence, from 1; 0: a notice    96     changes, 24 bytes each; zeros to its end
//!
//! change
//!    0  2  slot
//!    2  2  1: its bytes follow the head, in the order of the changes; 2: it is zeroed;
//!          3: revoked: it will be written without a record, and earlier records do not count
//!    4  4  zero
//!    8  8  offset from the volume's first byte on that drive
//!   16  8  length in bytes
//! ```
//! Records of a *data log* have the same format: their changes refer to the volume itself, the slot
//! is 0, and offsets count from the volume's first byte.
//!
//! The UUID is random at every start, and unknown to all hosts: data of a host in a record are
//! never taken for a record.

use crate::bytes::{crc_without, u32_at, u64_at};
use units::{ByteCount, ByteOffset, ByteRange};

/// The unit of everything in a log: the largest sector.
pub const BLOCK: ByteCount = ByteCount(4096);

/// The UUID of a log's records: random for each epoch, so that no older record counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogId(pub [u8; 16]);

const MAGIC: [u8; 8] = *b"SRoCjrnl";
const VERSION: u32 = 1;
const AT_VERSION: usize = 8;
const AT_CRC: usize = 12;
const AT_ID: usize = 16;
const AT_RING: usize = 32;
const AT_SEQUENCE: usize = 40;
const AT_TAIL: usize = 48;
const AT_PLACE: usize = 56;
const AT_HEAD: usize = 64;
const AT_BODY: usize = 72;
const AT_BODY_CRC: usize = 80;
const AT_COUNT: usize = 84;
const AT_FIRM: usize = 88;
const CHANGES: usize = 96;
const CHANGE: usize = 24;

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// Bytes that the record carries.
    Bytes,
    /// Zeros.
    Zeroes,
    /// A write without a record; earlier records of these bytes do not count.
    Revoked,
}

impl ChangeKind {
    const ALL: [(ChangeKind, u16); 3] =
        [(ChangeKind::Bytes, 1), (ChangeKind::Zeroes, 2), (ChangeKind::Revoked, 3)];

    fn number(self) -> u16 {
        ChangeKind::ALL.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, number)| *number)
    }

    fn of(number: u16) -> Option<ChangeKind> {
        ChangeKind::ALL.iter().find(|(_, other)| *other == number).map(|(kind, _)| *kind)
    }
}

/// A range of a member that a record changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The member's slot.
    pub slot: u16,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The range from the volume's first byte on that drive; whole sectors.
    pub range: ByteRange,
}

impl Change {
    /// The bytes that the record carries for it.
    pub(crate) fn carried(&self) -> u64 {
        match self.kind {
            ChangeKind::Bytes => self.range.len.0,
            ChangeKind::Zeroes | ChangeKind::Revoked => 0,
        }
    }
}

/// The number of blocks for notices at the beginning of a ring.
pub const NOTICES: u64 = 2;

/// The head of a record, without its changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The UUID of the journal.
    pub id: LogId,
    /// The ring.
    pub ring: u32,
    /// The sequence number in the ring, from 1; 0: a notice.
    pub sequence: u64,
    /// The first record of the ring that counts.
    pub tail: u64,
    /// The first record of the ring that may be missing: all that count before it are durable.
    pub firm: u64,
    /// The offset in the journal.
    pub place: u64,
}

impl Head {
    /// The length of a head with `changes` changes.
    pub fn len(changes: usize) -> ByteCount {
        ByteCount((CHANGES + changes * CHANGE) as u64).align_up(BLOCK)
    }

    /// Encodes a head in front of `body` bytes (a multiple of 4096) with that checksum.
    ///
    /// # Panics
    /// When the length of `into` differs from [`Head::len`].
    pub fn encode(&self, changes: &[Change], body: ByteCount, body_crc: u32, into: &mut [u8]) {
        let len = Head::len(changes.len());
        assert_eq!(into.len() as u64, len.0, "the head of a record takes whole blocks");
        into.fill(0);
        into[..8].copy_from_slice(&MAGIC);
        into[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        into[AT_ID..][..16].copy_from_slice(&self.id.0);
        into[AT_RING..][..4].copy_from_slice(&self.ring.to_le_bytes());
        for (at, number) in [
            (AT_SEQUENCE, self.sequence),
            (AT_TAIL, self.tail),
            (AT_PLACE, self.place),
            (AT_HEAD, len.0),
            (AT_BODY, body.0),
            (AT_FIRM, self.firm),
        ] {
            into[at..][..8].copy_from_slice(&number.to_le_bytes());
        }
        into[AT_BODY_CRC..][..4].copy_from_slice(&body_crc.to_le_bytes());
        into[AT_COUNT..][..4].copy_from_slice(&(changes.len() as u32).to_le_bytes());
        for (change, bytes) in changes.iter().zip(into[CHANGES..].chunks_exact_mut(CHANGE)) {
            bytes[..2].copy_from_slice(&change.slot.to_le_bytes());
            bytes[2..4].copy_from_slice(&change.kind.number().to_le_bytes());
            bytes[8..16].copy_from_slice(&change.range.start.0.to_le_bytes());
            bytes[16..24].copy_from_slice(&change.range.len.0.to_le_bytes());
        }
        let crc = crc_without(into, AT_CRC);
        into[AT_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The checksum of the bytes behind a head, computed in parts.
#[derive(Clone, Copy, Default, Debug)]
pub struct BodyCrc(u32);

impl BodyCrc {
    /// Adds further bytes.
    pub fn and(self, bytes: &[u8]) -> BodyCrc {
        BodyCrc(crc32c::crc32c_append(self.0, bytes))
    }

    /// The checksum of all bytes so far.
    pub fn value(self) -> u32 {
        self.0
    }
}

/// A decoded record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its head.
    pub head: Head,
    /// Its changes.
    pub changes: Vec<Change>,
    /// The bytes for [`ChangeKind::Bytes`], in order.
    pub body: Vec<u8>,
}

impl Record {
    /// Decodes a record at the beginning of `bytes`; `None` where it is absent or damaged. `place`:
    /// their offset in the journal.
    fn decode(bytes: &[u8], id: LogId, place: u64) -> Option<Record> {
        let is_record = bytes.len() >= BLOCK.as_usize()
            && bytes.starts_with(&MAGIC)
            && u32_at(bytes, AT_VERSION) == VERSION
            && bytes[AT_ID..][..16] == id.0
            && u64_at(bytes, AT_PLACE) == place;
        if !is_record {
            return None;
        }
        let whole = |at: usize| {
            let len = u64_at(bytes, at);
            (len <= bytes.len() as u64 && len.is_multiple_of(BLOCK.0)).then_some(len as usize)
        };
        let (head_len, body_len) = (whole(AT_HEAD)?, whole(AT_BODY)?);
        let count = u32_at(bytes, AT_COUNT) as usize;
        let fits = head_len as u64 == Head::len(count.min(bytes.len())).0
            && head_len + body_len <= bytes.len();
        if !fits || crc_without(&bytes[..head_len], AT_CRC) != u32_at(bytes, AT_CRC) {
            return None;
        }
        let body = &bytes[head_len..head_len + body_len];
        if BodyCrc::default().and(body).value() != u32_at(bytes, AT_BODY_CRC) {
            return None;
        }
        let changes = bytes[CHANGES..head_len].chunks_exact(CHANGE).take(count).map(decode_change);
        let changes: Vec<Change> = changes.collect::<Option<_>>()?;
        let carried =
            changes.iter().try_fold(0_u64, |sum, change| sum.checked_add(change.carried()))?;
        let head = Head {
            id,
            ring: u32_at(bytes, AT_RING),
            sequence: u64_at(bytes, AT_SEQUENCE),
            tail: u64_at(bytes, AT_TAIL),
            firm: u64_at(bytes, AT_FIRM),
            place,
        };
        let counts =
            head.sequence == 0 || (head.tail <= head.sequence && head.firm <= head.sequence);
        let is_whole = carried <= body_len as u64 && counts;
        is_whole.then(|| Record { head, changes, body: body.to_vec() })
    }

    fn len(&self) -> usize {
        Head::len(self.changes.len()).as_usize() + self.body.len()
    }

    /// The bytes in each copy of the journal.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Head::len(self.changes.len()).as_usize()];
        let crc = BodyCrc::default().and(&self.body).value();
        self.head.encode(&self.changes, ByteCount::of(&self.body), crc, &mut bytes);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn decode_change(bytes: &[u8]) -> Option<Change> {
    let kind = ChangeKind::of(u16::from_le_bytes([bytes[2], bytes[3]]))?;
    let (start, len) = (u64_at(bytes, 8), u64_at(bytes, 16));
    start.checked_add(len)?;
    let range = ByteRange::new(ByteOffset(start), ByteCount(len));
    Some(Change { slot: u16::from_le_bytes([bytes[0], bytes[1]]), kind, range })
}

/// The records of a journal with that UUID in one member's copy, in the order of their places.
pub fn scan(journal: &[u8], id: LogId) -> Vec<Record> {
    let mut records = Vec::new();
    let mut at = 0;
    while at + BLOCK.as_usize() <= journal.len() {
        match Record::decode(&journal[at..], id, at as u64) {
            Some(record) => {
                at += record.len();
                records.push(record);
            }
            None => at += BLOCK.as_usize(),
        }
    }
    records
}
