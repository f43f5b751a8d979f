//! What a chain of descriptors asks for (VIRTIO 1.2, section 5.2.6): a header in what the device may read, a status byte at the
//! end of what it may write, data in either.

use crate::GuestMemory;
use crate::config::{LONGEST_REQUEST, RANGES, UNIT};
use crate::ring::{Chain, Segment};
use platform::TargetGeometry;
use units::{ByteCount, ByteOffset, ByteRange};
use vm_memory::{Bytes, GuestAddress};

const HEADER: usize = 16;
const RANGE: usize = 16;
/// The bytes of a disk's name, as a guest asks for it.
pub(crate) const ID_BYTES: usize = 20;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// Of a range to zero: its space may be given up. It stays allocated here.
const MAY_UNMAP: u32 = 1;

/// What becomes of a request, as the status byte says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done = 0,
    Failed = 1,
    Unsupported = 2,
}

/// A request, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// Where its status goes.
    pub status: u64,
    pub what: What,
}

/// What it asks for. Ranges lie within the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Read(ByteRange, Vec<Segment>),
    Write(ByteRange, Vec<Segment>),
    Flush,
    Id(Vec<Segment>),
    Discard(Vec<ByteRange>),
    Zeroes(Vec<ByteRange>),
    /// Nothing that can be done.
    Refused(Status),
}

/// Takes a chain apart. `None`: there is no place for a status, so that nothing can be said of it.
pub(crate) fn parse(memory: &GuestMemory, mut chain: Chain, geometry: &TargetGeometry) -> Option<Request> {
    let last = chain.writable.iter_mut().rfind(|segment| segment.len > 0)?;
    last.len -= 1;
    let status = last.address.checked_add(last.len.into())?;
    let what = what(memory, chain, geometry).unwrap_or(What::Refused(Status::Failed));
    Some(Request { status, what })
}

/// What is asked for; `None`: it makes no sense, or lies outside of the disk.
fn what(memory: &GuestMemory, chain: Chain, geometry: &TargetGeometry) -> Option<What> {
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
        READ => What::Read(within(sector, total(&chain.writable), geometry)?, chain.writable),
        WRITE => What::Write(within(sector, total(&readable), geometry)?, readable),
        FLUSH => What::Flush,
        GET_ID => What::Id(chain.writable),
        DISCARD | WRITE_ZEROES => ranges(memory, &readable, kind, geometry)?,
        _ => What::Refused(Status::Unsupported),
    })
}

fn ranges(memory: &GuestMemory, from: &[Segment], kind: u32, geometry: &TargetGeometry) -> Option<What> {
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
            return Some(What::Refused(Status::Unsupported));
        }
        ranges.push(within(sector, u64::from(count) * UNIT, geometry)?);
    }
    Some(if kind == DISCARD { What::Discard(ranges) } else { What::Zeroes(ranges) })
}

fn within(sector: u64, len: u64, geometry: &TargetGeometry) -> Option<ByteRange> {
    let start = sector.checked_mul(UNIT)?;
    let is_inside = start.checked_add(len)? <= geometry.capacity.0;
    (is_inside && len.is_multiple_of(UNIT)).then(|| ByteRange::new(ByteOffset(start), ByteCount(len)))
}

fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

/// What follows the first `count` bytes.
fn after(segments: &[Segment], mut count: u64) -> Vec<Segment> {
    let mut rest = Vec::with_capacity(segments.len());
    for segment in segments {
        let skip = count.min(segment.len.into());
        count -= skip;
        if skip < u64::from(segment.len) {
            // An address that wraps is refused by the memory, as any other that is not there.
            let address = segment.address.wrapping_add(skip);
            rest.push(Segment { address, len: segment.len - skip as u32 });
        }
    }
    rest
}

/// Calls `each` with the addresses of `len` bytes from `offset` on, and where they belong among these; false when it did, or
/// when there are not as many.
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

/// Copies bytes out of a guest's memory, from `offset` on; false where there are none.
pub(crate) fn take(memory: &GuestMemory, from: &[Segment], offset: u64, to: &mut [u8]) -> bool {
    let len = to.len();
    walk(from, offset, len, |address, part| memory.read_slice(&mut to[part], address).is_ok())
}

/// Copies bytes into a guest's memory, from `offset` on; false where there is none.
pub(crate) fn give(memory: &GuestMemory, to: &[Segment], offset: u64, from: &[u8]) -> bool {
    walk(to, offset, from.len(), |address, part| memory.write_slice(&from[part], address).is_ok())
}
