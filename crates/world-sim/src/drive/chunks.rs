//! Sparse memory: what a drive holds, in chunks that images share until one side writes.

use crate::options::Unwritten;
use env::sync::split_mix;
use env::{BlockStatus, StatusExtent};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

/// Small: after a snapshot or a power cut, the first write to a chunk copies it.
const CHUNK: u64 = 16 << 10;
/// The unit in which space is taken: the smallest sector.
const UNIT: u64 = 512;
const UNITS: usize = (CHUNK / UNIT) as usize;

#[derive(Clone)]
struct Chunk {
    data: Box<[u8]>,
    /// One bit per unit: whether it was written (and not given back).
    written: u32,
}
const _: () = assert!(UNITS == u32::BITS as usize);

/// What is written somewhere.
#[derive(Clone, Debug)]
pub(crate) enum Fill {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// Zeroes, taking no space.
    Hole,
    /// Zeroes, taking space.
    Zeroes,
    /// Noise.
    Noise(u64),
    /// A length without bytes: the content stays what it is.
    Hollow,
}

/// The noise of a key at a byte address: a function of both.
fn noise(key: u64, start: u64, target: &mut [u8]) {
    for (index, word) in target.chunks_mut(8).enumerate() {
        let value = split_mix(key ^ (start + index as u64 * 8).rotate_left(20)).1;
        word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
    }
}

#[derive(Clone)]
pub(crate) struct Chunks {
    map: BTreeMap<u64, Arc<Chunk>>,
    unwritten: Unwritten,
    key: u64,
}

/// The parts of a range within chunks: chunk number, where in the chunk, and how far from the range's start.
fn parts(range: ByteRange) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let (start, end) = (range.start.0, range.end().0);
    let first = start / CHUNK;
    let last = if range.is_empty() { first } else { end.div_ceil(CHUNK) };
    (first..last).map(move |chunk| {
        let base = chunk * CHUNK;
        let from = start.max(base);
        let to = end.min(base + CHUNK);
        (chunk, (from - base) as usize..(to - base) as usize, (from - start) as usize)
    })
}

/// The bits of the units that a range within a chunk touches.
fn unit_bits(within: &std::ops::Range<usize>) -> u32 {
    let first = within.start / UNIT as usize;
    let count = within.end.div_ceil(UNIT as usize) - first;
    if count == UNITS { u32::MAX } else { ((1 << count) - 1) << first }
}

impl Chunks {
    pub fn new(unwritten: Unwritten, key: u64) -> Chunks {
        Chunks { map: BTreeMap::new(), unwritten, key }
    }

    fn fill_unwritten(&self, start: u64, target: &mut [u8]) {
        match self.unwritten {
            Unwritten::Zeroes => target.fill(0),
            Unwritten::Noise => noise(self.key, start, target),
        }
    }

    /// Reads from `start` on, as much as `target` takes.
    pub fn read(&self, start: u64, target: &mut [u8]) {
        let range = ByteRange::new(units::ByteOffset(start), ByteCount::of(target));
        for (number, within, at) in parts(range) {
            let target = &mut target[at..at + within.len()];
            match self.map.get(&number) {
                Some(chunk) => target.copy_from_slice(&chunk.data[within]),
                None => self.fill_unwritten(number * CHUNK + within.start as u64, target),
            }
        }
    }

    /// Writes part of a fill to `range`; `skip`: how far into the fill's bytes the range begins.
    pub fn write(&mut self, range: ByteRange, fill: &Fill, skip: usize) {
        if matches!(fill, Fill::Hollow) {
            return;
        }
        for (number, within, at) in parts(range) {
            let whole = within.len() as u64 == CHUNK;
            if matches!(fill, Fill::Hole) && self.unwritten == Unwritten::Zeroes {
                if whole {
                    self.map.remove(&number);
                    continue;
                }
                if !self.map.contains_key(&number) {
                    continue;
                }
            }
            let chunk = self.chunk_mut(number);
            let bits = unit_bits(&within);
            let target = &mut chunk.data[within.clone()];
            match fill {
                Fill::Bytes(bytes) => target.copy_from_slice(&bytes[skip + at..skip + at + within.len()]),
                Fill::Hole | Fill::Zeroes => target.fill(0),
                Fill::Noise(key) => noise(*key, number * CHUNK + within.start as u64, target),
                Fill::Hollow => {}
            }
            chunk.written =
                if matches!(fill, Fill::Hole) { chunk.written & !bits } else { chunk.written | bits };
        }
    }

    fn chunk_mut(&mut self, number: u64) -> &mut Chunk {
        if !self.map.contains_key(&number) {
            let mut data = vec![0; CHUNK as usize].into_boxed_slice();
            self.fill_unwritten(number * CHUNK, &mut data);
            self.map.insert(number, Arc::new(Chunk { data, written: 0 }));
        }
        Arc::make_mut(self.map.get_mut(&number).expect("was inserted just now"))
    }

    /// Which parts of a range are written. What reads as noise before it is written counts as data.
    pub fn status(&self, range: ByteRange) -> Vec<StatusExtent> {
        let mut extents: Vec<StatusExtent> = Vec::new();
        let mut add = |len: u64, status| match extents.last_mut() {
            Some(last) if last.status == status => last.len += ByteCount(len),
            _ => extents.push(StatusExtent { len: ByteCount(len), status }),
        };
        if self.unwritten == Unwritten::Noise {
            add(range.len.0, BlockStatus::Data);
            return extents;
        }
        for (number, within, _) in parts(range) {
            let written = self.map.get(&number).map_or(0, |chunk| chunk.written);
            let mut at = within.start;
            while at < within.end {
                let unit = at / UNIT as usize;
                let next = ((unit + 1) * UNIT as usize).min(within.end);
                let status = if written >> unit & 1 == 1 { BlockStatus::Data } else { BlockStatus::Hole };
                add((next - at) as u64, status);
                at = next;
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ByteOffset;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    #[test]
    fn bytes_are_found_where_they_were_written_across_chunks() {
        let mut chunks = Chunks::new(Unwritten::Zeroes, 0);
        let bytes: Arc<[u8]> = (0..3 * CHUNK).map(|i| (i / 7) as u8).collect();
        chunks.write(range(CHUNK - 512, bytes.len() as u64), &Fill::Bytes(bytes.clone()), 0);
        let mut back = vec![1; bytes.len() + 1024];
        chunks.read(CHUNK - 1024, &mut back);
        assert_eq!(back[..512], [0; 512]);
        assert_eq!(back[512..512 + bytes.len()], bytes[..]);
        assert_eq!(back[512 + bytes.len()..], [0; 512]);
    }

    #[test]
    fn space_is_taken_by_writes_and_given_back_by_holes() {
        let mut chunks = Chunks::new(Unwritten::Zeroes, 0);
        chunks.write(range(0, 4 * CHUNK), &Fill::Zeroes, 0);
        chunks.write(range(CHUNK + 512, 2 * CHUNK), &Fill::Hole, 0);
        let status = chunks.status(range(0, 5 * CHUNK));
        let data = |len| StatusExtent { len: ByteCount(len), status: BlockStatus::Data };
        let hole = |len| StatusExtent { len: ByteCount(len), status: BlockStatus::Hole };
        assert_eq!(status, [data(CHUNK + 512), hole(2 * CHUNK), data(CHUNK - 512), hole(CHUNK)]);
    }

    #[test]
    fn a_copy_keeps_what_the_original_overwrites() {
        let mut chunks = Chunks::new(Unwritten::Noise, 9);
        let copy = chunks.clone();
        let (mut before, mut after) = ([0; 512], [0; 512]);
        copy.read(512, &mut before);
        assert!(before.iter().any(|byte| *byte != 0), "noise");
        chunks.write(range(512, 512), &Fill::Hole, 0);
        chunks.read(512, &mut after);
        assert_eq!(after, [0; 512]);
        copy.read(512, &mut after);
        assert_eq!(before, after);
    }
}
