//! Sparse memory: a drive's content as runs of written data, which images share until one side
//! writes.
//!
//! Bytes are kept in the buffers of the writes: a write copies none, and the current and the
//! durable content share them. Images share whole chunks.
//!
//! # Invariants
//! - The runs of a chunk are sorted, not empty, within the chunk, and do not overlap. The gaps
//!   between them are unwritten.
//! - Each chunk has a run.

use crate::options::Unwritten;
use platform::sync::split_mix;
use platform::{BlockStatus, StatusExtent};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

const CHUNK: u64 = 64 << 10;

/// The content of a write.
#[derive(Clone, Debug)]
pub(crate) enum Fill {
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// Zeros without space.
    Hole,
    /// Zeros with allocated space.
    Zeroes,
    /// Noise.
    Noise(u64),
    /// Data-less: the content stays unchanged.
    Hollow,
}

/// A part of a chunk and its content.
#[derive(Clone)]
struct Run {
    start: u32,
    end: u32,
    fill: Fill,
    /// The run's offset in the bytes of its fill.
    skip: u32,
}

impl Run {
    /// The part before `end`, if any.
    fn before(&self, end: u32) -> Option<Run> {
        (self.start < end).then(|| Run { end: self.end.min(end), ..self.clone() })
    }

    /// The part from `start`, if any.
    fn from(&self, start: u32) -> Option<Run> {
        let cut = start.saturating_sub(self.start);
        (self.end > start).then(|| Run {
            start: self.start + cut,
            skip: self.skip + cut,
            ..self.clone()
        })
    }

    /// Whether `next` continues this run, in address and content.
    fn goes_on_in(&self, next: &Run) -> bool {
        let same = match (&self.fill, &next.fill) {
            (Fill::Bytes(one), Fill::Bytes(other)) => {
                Arc::ptr_eq(one, other) && self.skip + (self.end - self.start) == next.skip
            }
            (Fill::Hole, Fill::Hole) | (Fill::Zeroes, Fill::Zeroes) => true,
            (Fill::Noise(one), Fill::Noise(other)) => one == other,
            _ => false,
        };
        same && self.end == next.start
    }
}

/// The runs of a chunk.
#[derive(Clone, Default)]
struct Chunk {
    runs: Vec<Run>,
}

impl Chunk {
    /// Replaces the content of `within` by `new`, or by nothing. Merges adjacent runs of equal
    /// content.
    fn put(&mut self, within: Range<u32>, new: Option<Run>) {
        // With adjacent runs, which may merge.
        let first = self.runs.partition_point(|run| run.end < within.start);
        let past = first + self.runs[first..].partition_point(|run| run.start <= within.end);
        let met = &self.runs[first..past];
        let before = met.first().and_then(|run| run.before(within.start));
        let after = met.last().and_then(|run| run.from(within.end));
        let mut put: SmallVec<[Run; 3]> = SmallVec::new();
        for run in before.into_iter().chain(new).chain(after) {
            match put.last_mut() {
                Some(last) if last.goes_on_in(&run) => last.end = run.end,
                _ => put.push(run),
            }
        }
        self.runs.splice(first..past, put);
    }

    /// The parts of `within`, in order, with their content; `None` for unwritten parts.
    fn parts(&self, within: Range<u32>) -> impl Iterator<Item = (Range<u32>, Option<&Run>)> {
        let first = self.runs.partition_point(|run| run.end <= within.start);
        let (mut at, mut index) = (within.start, first);
        std::iter::from_fn(move || {
            if at >= within.end {
                return None;
            }
            let next = self.runs.get(index).filter(|run| run.start < within.end);
            let (end, run) = match next {
                Some(run) if run.start <= at => (run.end.min(within.end), Some(run)),
                Some(run) => (run.start, None),
                None => (within.end, None),
            };
            index += usize::from(run.is_some());
            let part = at..end;
            at = end;
            Some((part, run))
        })
    }
}

/// The noise of a key at a byte address, which determine it.
fn noise(key: u64, start: u64, target: &mut [u8]) {
    let (mut at, mut rest) = (start, target);
    while !rest.is_empty() {
        let skip = (at % 8) as usize;
        let value = split_mix(key ^ (at - skip as u64).rotate_left(20)).1.to_le_bytes();
        let len = rest.len().min(8 - skip);
        let (word, after) = rest.split_at_mut(len);
        word.copy_from_slice(&value[skip..skip + len]);
        rest = after;
        at += len as u64;
    }
}

#[derive(Clone)]
pub(crate) struct Chunks {
    map: BTreeMap<u64, Arc<Chunk>>,
    unwritten: Unwritten,
    key: u64,
}

/// The parts of a range per chunk: chunk number, range in the chunk, and offset from the range's
/// start.
fn parts(range: ByteRange) -> impl Iterator<Item = (u64, Range<u32>, usize)> {
    let (start, end) = (range.start.0, range.end().0);
    let first = start / CHUNK;
    let last = if range.is_empty() { first } else { end.div_ceil(CHUNK) };
    (first..last).map(move |chunk| {
        let base = chunk * CHUNK;
        let from = start.max(base);
        let to = end.min(base + CHUNK);
        (chunk, (from - base) as u32..(to - base) as u32, (from - start) as usize)
    })
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

    /// Reads from `start` into `target`.
    pub fn read(&self, start: u64, target: &mut [u8]) {
        let range = ByteRange::new(units::ByteOffset(start), ByteCount::of(target));
        for (number, within, at) in parts(range) {
            let target = &mut target[at..at + within.len()];
            match self.map.get(&number) {
                Some(chunk) => self.read_chunk(number * CHUNK, chunk, within, target),
                None => self.fill_unwritten(number * CHUNK + u64::from(within.start), target),
            }
        }
    }

    fn read_chunk(&self, base: u64, chunk: &Chunk, within: Range<u32>, target: &mut [u8]) {
        let mut rest = target;
        for (part, run) in chunk.parts(within) {
            let (target, after) = rest.split_at_mut(part.len());
            rest = after;
            let address = base + u64::from(part.start);
            match run.map(|run| (&run.fill, run)) {
                Some((Fill::Bytes(bytes), run)) => {
                    let skip = (run.skip + (part.start - run.start)) as usize;
                    target.copy_from_slice(&bytes[skip..skip + part.len()]);
                }
                Some((Fill::Hole | Fill::Zeroes, _)) => target.fill(0),
                Some((Fill::Noise(key), _)) => noise(*key, address, target),
                // A data-less write leaves no run.
                Some((Fill::Hollow, _)) | None => self.fill_unwritten(address, target),
            }
        }
    }

    /// Writes part of a fill to `range`; `skip`: the offset in the fill's bytes.
    pub fn write(&mut self, range: ByteRange, fill: &Fill, skip: usize) {
        if matches!(fill, Fill::Hollow) {
            return;
        }
        let gives_back = matches!(fill, Fill::Hole) && self.unwritten == Unwritten::Zeroes;
        for (number, within, at) in parts(range) {
            if gives_back && !self.map.contains_key(&number) {
                continue;
            }
            let run = (!gives_back).then(|| Run {
                start: within.start,
                end: within.end,
                fill: fill.clone(),
                skip: (skip + at) as u32,
            });
            let chunk = self.map.entry(number).or_default();
            if within.len() as u64 == CHUNK {
                // The write replaces the whole chunk, so nothing needs a copy.
                *chunk = Arc::new(Chunk { runs: run.into_iter().collect() });
            } else {
                Arc::make_mut(chunk).put(within, run);
            }
            if chunk.runs.is_empty() {
                self.map.remove(&number);
            }
        }
    }

    /// The written parts of a range. Unwritten parts that read as noise count as data.
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
            let Some(chunk) = self.map.get(&number) else {
                add(within.len() as u64, BlockStatus::Hole);
                continue;
            };
            for (part, run) in chunk.parts(within) {
                let is_hole = run.is_none_or(|run| matches!(run.fill, Fill::Hole));
                add(part.len() as u64, if is_hole { BlockStatus::Hole } else { BlockStatus::Data });
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use units::ByteOffset;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    #[test]
    fn bytes_are_found_where_they_were_written_across_chunks() {
        let mut chunks = Chunks::new(Unwritten::Zeroes, 0);
        let bytes: Arc<Vec<u8>> = Arc::new((0..3 * CHUNK).map(|i| (i / 7) as u8).collect());
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

    /// Compares random reads with an array of bytes.
    fn check_reads(rng: &mut Rng, chunks: &Chunks, plain: &[u8], seed: u64) {
        let size = plain.len() as u64;
        for _ in 0..200 {
            let start = rng.below(size);
            let mut back = vec![0; (1 + rng.below((size - start).min(5000))) as usize];
            chunks.read(start, &mut back);
            let expected = &plain[start as usize..start as usize + back.len()];
            assert_eq!(back, expected, "seed {seed} at {start}");
        }
    }

    /// Random writes of every kind, compared with an array of bytes: the data, and the written
    /// parts.
    #[test]
    fn runs_hold_what_a_plain_array_would() {
        const SIZE: u64 = 3 * CHUNK;
        for (seed, unwritten) in
            [(1, Unwritten::Zeroes), (2, Unwritten::Noise), (3, Unwritten::Zeroes)]
        {
            let mut rng = Rng::new(seed, "chunks", "test");
            let mut chunks = Chunks::new(unwritten, 9);
            let mut plain = vec![0; SIZE as usize];
            chunks.read(0, &mut plain);
            let mut is_written = vec![false; (SIZE / 512) as usize];
            let mut images = Vec::new();
            for round in 0..2000 {
                let start = rng.below(SIZE / 512);
                let most = (SIZE / 512 - start).min(if rng.chance(1, 8) { 200 } else { 9 });
                let range = range(start * 512, (1 + rng.below(most)) * 512);
                let at = range.start.0 as usize..range.end().0 as usize;
                let skip = rng.below(3) as usize * 512;
                let fill = match rng.below(6) {
                    0 => Fill::Hole,
                    1 => Fill::Zeroes,
                    2 => Fill::Noise(round),
                    3 => Fill::Hollow,
                    _ => Fill::Bytes(Arc::new(
                        (0..skip + at.len()).map(|_| rng.next_u64() as u8).collect(),
                    )),
                };
                chunks.write(range, &fill, skip);
                match &fill {
                    Fill::Hollow => continue,
                    Fill::Bytes(bytes) => plain[at.clone()].copy_from_slice(&bytes[skip..]),
                    Fill::Hole | Fill::Zeroes => plain[at.clone()].fill(0),
                    Fill::Noise(key) => noise(*key, range.start.0, &mut plain[at.clone()]),
                }
                is_written[at.start / 512..at.end / 512].fill(!matches!(fill, Fill::Hole));
                if round % 400 == 0 {
                    images.push((chunks.clone(), plain.clone()));
                }
            }
            images.push((chunks, plain));
            for (chunks, plain) in &images {
                check_reads(&mut rng, chunks, plain, seed);
            }
            let (chunks, _) = &images[images.len() - 1];
            let mut units = Vec::new();
            for extent in chunks.status(range(0, SIZE)) {
                units.extend(std::iter::repeat_n(
                    extent.status == BlockStatus::Data,
                    (extent.len.0 / 512) as usize,
                ));
            }
            let expected =
                if unwritten == Unwritten::Noise { vec![true; units.len()] } else { is_written };
            assert_eq!(units, expected, "seed {seed}");
            assert!(
                chunks
                    .map
                    .values()
                    .all(|chunk| chunk.runs.is_sorted_by(|one, next| one.end <= next.start))
            );
        }
    }

    #[test]
    fn a_write_that_comes_in_parts_is_one_run() {
        let mut chunks = Chunks::new(Unwritten::Zeroes, 0);
        let fill = Fill::Bytes(Arc::new(vec![7; 4096]));
        for part in [3, 1, 0, 2] {
            chunks.write(range(512 + part * 1024, 1024), &fill, part as usize * 1024);
        }
        assert_eq!(chunks.map[&0].runs.len(), 1);
    }
}
