//! Parser of descriptor chains (VIRTIO 1.2, section 5.2.6): a device-readable header, a status byte
//! at the end of the device-writable part, and data in either.

use crate::GuestMemory;
use crate::config::{LONGEST_REQUEST, RANGES, UNIT};
use crate::ring::{Chain, Segment};
use platform::TargetGeometry;
use units::{ByteCount, ByteOffset, ByteRange};
use vm_memory::{Bytes, GuestAddress};

const HEADER: usize = 16;
const RANGE: usize = 16;
/// The length of a disk's name in a request.
pub(crate) const ID_BYTES: usize = 20;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// Flag of a write-zeroes range: the device may deallocate it. This device keeps the space
/// allocated.
const MAY_UNMAP: u32 = 1;

/// A request's result, as in the status byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done = 0,
    Failed = 1,
    Unsupported = 2,
}

/// A parsed request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// The address of the status byte.
    pub status: u64,
    pub what: Operation,
}

/// The operation. Ranges lie within the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read(ByteRange, Vec<Segment>),
    Write(ByteRange, Vec<Segment>),
    Flush,
    Id(Vec<Segment>),
    Discard(Vec<ByteRange>),
    Zeroes(Vec<ByteRange>),
    /// An invalid or unsupported request.
    Refused(Status),
}

/// Parses a chain. `None`: it has no status byte, so the request cannot be completed.
pub(crate) fn parse(
    memory: &GuestMemory,
    mut chain: Chain,
    geometry: &TargetGeometry,
) -> Option<Request> {
    let last = chain.writable.iter_mut().rfind(|segment| segment.len > 0)?;
    last.len -= 1;
    let status = last.address.checked_add(last.len.into())?;
    let what = what(memory, chain, geometry).unwrap_or(Operation::Refused(Status::Failed));
    Some(Request { status, what })
}

/// The operation; `None`: it is invalid, or outside the disk.
fn what(memory: &GuestMemory, chain: Chain, geometry: &TargetGeometry) -> Option<Operation> {
    let mut header = [0; HEADER];
    if !take(memory, &chain.readable, 0, &mut header) {
        return None;
    }
    let kind = u32::from_le_bytes(header[..4].try_into().ok()?);
    let sector = u64::from_le_bytes(header[8..].try_into().ok()?);
    let readable = after(&chain.readable, HEADER as u64);
    if total(&readable).max(total(&chain.writable)) > LONGEST_REQUEST {
        return None;
    }
    Some(match kind {
        READ => Operation::Read(within(sector, total(&chain.writable), geometry)?, chain.writable),
        WRITE => Operation::Write(within(sector, total(&readable), geometry)?, readable),
        FLUSH => Operation::Flush,
        GET_ID => Operation::Id(chain.writable),
        DISCARD | WRITE_ZEROES => ranges(memory, &readable, kind, geometry)?,
        _ => Operation::Refused(Status::Unsupported),
    })
}

fn ranges(
    memory: &GuestMemory,
    from: &[Segment],
    kind: u32,
    geometry: &TargetGeometry,
) -> Option<Operation> {
    let len = total(from);
    if len == 0 || !len.is_multiple_of(RANGE as u64) || len / RANGE as u64 > RANGES.into() {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    if !take(memory, from, 0, &mut bytes) {
        return None;
    }
    let mut ranges = Vec::new();
    for range in bytes.chunks_exact(RANGE) {
        let sector = u64::from_le_bytes(range[..8].try_into().ok()?);
        let count = u32::from_le_bytes(range[8..12].try_into().ok()?);
        let flags = u32::from_le_bytes(range[12..].try_into().ok()?);
        let allowed = if kind == WRITE_ZEROES { MAY_UNMAP } else { 0 };
        if flags & !allowed != 0 {
            return Some(Operation::Refused(Status::Unsupported));
        }
        ranges.push(within(sector, u64::from(count) * UNIT, geometry)?);
    }
    Some(if kind == DISCARD { Operation::Discard(ranges) } else { Operation::Zeroes(ranges) })
}

fn within(sector: u64, len: u64, geometry: &TargetGeometry) -> Option<ByteRange> {
    let start = sector.checked_mul(UNIT)?;
    let is_inside = start.checked_add(len)? <= geometry.capacity.0;
    (is_inside && len.is_multiple_of(UNIT))
        .then(|| ByteRange::new(ByteOffset(start), ByteCount(len)))
}

fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

/// The segments after the first `count` bytes.
fn after(segments: &[Segment], mut count: u64) -> Vec<Segment> {
    let mut rest = Vec::with_capacity(segments.len());
    for segment in segments {
        let skip = count.min(segment.len.into());
        count -= skip;
        if skip < u64::from(segment.len) {
            // The memory rejects a wrapped address, like any unmapped one.
            let address = segment.address.wrapping_add(skip);
            rest.push(Segment { address, len: segment.len - skip as u32 });
        }
    }
    rest
}

/// Calls `each` with the addresses of `len` bytes from `offset`, and their positions among these
/// bytes; false if `each` fails or the segments are too short.
fn walk(
    segments: &[Segment],
    offset: u64,
    len: usize,
    mut each: impl FnMut(GuestAddress, std::ops::Range<usize>) -> bool,
) -> bool {
    let (mut skip, mut done) = (offset, 0);
    for segment in segments {
        if done == len {
            break;
        }
        let skipped = skip.min(segment.len.into());
        skip -= skipped;
        let count = (u64::from(segment.len) - skipped).min((len - done) as u64) as usize;
        let Some(address) = segment.address.checked_add(skipped) else { return false };
        if count > 0 && !each(GuestAddress(address), done..done + count) {
            return false;
        }
        done += count;
    }
    done == len
}

/// Copies bytes out of a guest's memory, from `offset`; false if the range is not mapped.
pub(crate) fn take(memory: &GuestMemory, from: &[Segment], offset: u64, to: &mut [u8]) -> bool {
    let len = to.len();
    walk(from, offset, len, |address, part| memory.read_slice(&mut to[part], address).is_ok())
}

/// Copies bytes into a guest's memory, from `offset`; false if the range is not mapped.
pub(crate) fn give(memory: &GuestMemory, to: &[Segment], offset: u64, from: &[u8]) -> bool {
    walk(to, offset, from.len(), |address, part| memory.write_slice(&from[part], address).is_ok())
}
