//! `mem:SIZE`: a drive in the memory of this process, allocated on write.
//!
//! The content consists of chunks. Each chunk has a lock in a processor cache line of its own, so
//! that shards rarely contend. A request that spans chunks is not atomic for readers on other
//! shards, as on any drive. Frequently written chunks move to a large page, where the system has
//! these: random requests then need fewer page table lookups. Every request completes immediately.
//! Data-less buffers are accepted, and nothing is copied.
//!
//! Writes bypass the processor's caches, because the next reader is unknown. A write to a range
//! that was just read (a read-modify-write) uses the caches: its cache lines are still there.

use crate::request::{give_back, objection};
use platform::{
    BlockStatus, Buf, Completion, Drive, DriveHealth, DriveIdentity, DriveInfo, DriveKind,
    DriveSource, Env, IoError, IoErrorKind, IoOutcome, IoRequest, Result, Slices, StatusExtent,
    copy_past_caches,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{ByteCount, ByteRange, SectorSize};

/// The usual size of a large page.
const CHUNK: usize = 2 << 20;

/// The usual size of a page.
const PAGE: usize = 4096;

/// Written pages of a chunk that justify a large page. Below that, the chunk may hold only a label,
/// which is rewritten often.
const LARGE_PAGE_MIN: u32 = (CHUNK / PAGE / 4) as u32;

/// A first write of this length to the start of a chunk is likely the first of several in order.
/// The chunk then gets a large page at once. Otherwise its data is first written to small pages,
/// and copied to the large page later.
const IN_ORDER: usize = 64 << 10;

/// Chunk slots that are allocated together, on the first access to one of them.
const GROUP: usize = 512;

/// The largest memory drive.
pub(crate) const LARGEST: ByteCount = ByteCount(16 << 40);

/// The bytes of a chunk. The system allocates a page on its first access. The chunk starts at a
/// large-page boundary inside an allocation of twice its size: untouched memory costs nothing.
struct Chunk {
    allocated: Box<[u8]>,
    starts: usize,
    /// The written pages, one bit each, until [`LARGE_PAGE_MIN`] are written.
    written: [u64; CHUNK / PAGE / 64],
    is_large: bool,
}

impl Chunk {
    fn new() -> Chunk {
        let allocated = vec![0; 2 * CHUNK].into_boxed_slice();
        let starts = allocated.as_ptr().align_offset(CHUNK).min(CHUNK);
        Chunk { allocated, starts, written: Default::default(), is_large: false }
    }

    fn bytes(&self) -> &[u8] {
        &self.allocated[self.starts..][..CHUNK]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.allocated[self.starts..][..CHUNK]
    }

    fn write(&mut self, inside: usize, bytes: &[u8], was_read: bool, env: &Env) {
        let place = &mut self.bytes_mut()[inside..inside + bytes.len()];
        if was_read {
            place.copy_from_slice(bytes)
        } else {
            copy_past_caches(place, bytes)
        }
        if !self.is_large && !bytes.is_empty() {
            for page in inside / PAGE..=(inside + bytes.len() - 1) / PAGE {
                self.written[page / 64] |= 1 << (page % 64);
            }
            let written = self.written.iter().map(|pages| pages.count_ones()).sum::<u32>();
            self.is_large = written >= LARGE_PAGE_MIN
                || (inside == 0
                    && bytes.len() >= IN_ORDER
                    && written as usize * PAGE == bytes.len());
            if self.is_large {
                env.world().enlarge_pages(self.bytes_mut());
            }
        }
    }
}

/// A chunk's lock, and the chunk after the first write to it. Aligned to a processor cache line, so
/// that shards with neighbouring chunks do not share one.
#[derive(Default)]
#[repr(align(64))]
struct ChunkSlot(Mutex<Option<Chunk>>);

struct Content {
    info: DriveInfo,
    groups: Box<[OnceLock<Box<[ChunkSlot]>>]>,
}

/// A memory drive. Its content lasts as long as the drive and its attachments.
pub struct MemoryDrive {
    content: Arc<Content>,
}

impl MemoryDrive {
    /// A drive of zeroes. `size`: whole sectors, at most 16 TiB. `identity` must be unique.
    pub fn new(
        name: &str,
        identity: DriveIdentity,
        size: ByteCount,
        sector: SectorSize,
    ) -> MemoryDrive {
        let info = DriveInfo {
            name: name.to_owned(),
            identity,
            kind: DriveKind::Memory,
            size: size.min(LARGEST).align_down(sector.bytes()),
            logical_sector: sector,
            physical_sector: sector,
            rotational: false,
            read_only: false,
            exclusive: true,
            hardware: platform::Hardware::default(),
        };
        let count = info.size.as_usize().div_ceil(CHUNK * GROUP);
        let groups = (0..count).map(|_| OnceLock::new()).collect();
        MemoryDrive { content: Arc::new(Content { info, groups }) }
    }
}

impl DriveSource for MemoryDrive {
    fn info(&self) -> &DriveInfo {
        &self.content.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        Ok(Rc::new(Attached {
            content: self.content.clone(),
            recent: Recent::default(),
            env: env.clone(),
        }))
    }
}

struct Attached {
    content: Arc<Content>,
    recent: Recent,
    env: Env,
}

/// The ranges of the last few reads. Other requests may arrive between the read and the write of a
/// read-modify-write, so one range is not enough.
#[derive(Default)]
struct Recent {
    reads: Cell<[(u64, u64); 4]>,
}

impl Recent {
    fn read(&self, start: u64, len: u64) {
        let [a, b, c, _] = self.reads.get();
        self.reads.set([(start, start + len), a, b, c]);
    }

    /// Whether a write at `start` begins in a recently read range.
    fn has(&self, start: u64) -> bool {
        self.reads.get().iter().any(|(from, to)| (*from..*to).contains(&start))
    }
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.content.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let content = &self.content;
        if let Some(kind) = objection(&content.info, &request) {
            return give_back(request, completion, Err(IoError::new(kind)));
        }
        let outcome = match request {
            IoRequest::Read { offset, mut buffers } => {
                let count = content.read(offset.0, &mut buffers);
                self.recent.read(offset.0, count);
                IoOutcome::done(count).with_buffers(buffers)
            }
            IoRequest::Write { offset, slices, .. } => IoOutcome::done(content.write(
                offset.0,
                &slices,
                self.recent.has(offset.0),
                &self.env,
            )),
            IoRequest::WriteZeroes { range, .. } | IoRequest::Trim { range } => {
                content.zero(range);
                IoOutcome::done(range.len.0)
            }
            IoRequest::Flush => IoOutcome::done(0),
            IoRequest::Health => IoOutcome::with_health(DriveHealth::default()),
            IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
                IoOutcome::failed(IoError::new(IoErrorKind::NotSupported))
            }
            IoRequest::Status { range } => {
                let mut outcome = IoOutcome::done(range.len.0);
                outcome.extents = content.status(range);
                outcome
            }
        };
        completion.complete(outcome);
    }
}

fn locked(place: &ChunkSlot) -> MutexGuard<'_, Option<Chunk>> {
    place.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a range per chunk: chunk index, offset in the chunk, length.
fn parts(start: u64, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut at, mut left) = (start as usize, len);
    std::iter::from_fn(move || {
        let (index, inside) = (at / CHUNK, at % CHUNK);
        let count = left.min(CHUNK - inside);
        at += count;
        left -= count;
        (count > 0).then_some((index, inside, count))
    })
}

impl Content {
    /// A chunk for writing; allocates its slot.
    fn chunk(&self, index: usize) -> MutexGuard<'_, Option<Chunk>> {
        let group = self.groups[index / GROUP]
            .get_or_init(|| (0..GROUP).map(|_| ChunkSlot::default()).collect());
        locked(&group[index % GROUP])
    }

    /// A chunk, if its slot is allocated.
    fn made(&self, index: usize) -> Option<MutexGuard<'_, Option<Chunk>>> {
        self.groups[index / GROUP].get().map(|group| locked(&group[index % GROUP]))
    }

    fn read(&self, mut at: u64, buffers: &mut [Buf]) -> u64 {
        let start = at;
        for buf in buffers {
            let len = buf.len().as_usize();
            if !buf.is_hollow() {
                let mut rest = buf.bytes_mut();
                for (index, inside, count) in parts(at, len) {
                    let (part, tail) = rest.split_at_mut(count);
                    match self.made(index).as_deref() {
                        Some(Some(chunk)) => {
                            part.copy_from_slice(&chunk.bytes()[inside..inside + count])
                        }
                        _ => part.fill(0),
                    }
                    rest = tail;
                }
            }
            at += len as u64;
        }
        at - start
    }

    fn write(&self, mut at: u64, slices: &Slices, was_read: bool, env: &Env) -> u64 {
        let start = at;
        for slice in slices {
            let len = slice.len();
            if let Some(mut bytes) = slice.solid() {
                for (index, inside, count) in parts(at, bytes.len()) {
                    let mut chunk = self.chunk(index);
                    let (part, tail) = bytes.split_at(count);
                    chunk.get_or_insert_with(Chunk::new).write(inside, part, was_read, env);
                    bytes = tail;
                }
            } else if slice.is_zero() {
                self.zero(ByteRange::new(units::ByteOffset(at), len));
            }
            at += len.0;
        }
        at - start
    }

    fn zero(&self, range: ByteRange) {
        for (index, inside, count) in parts(range.start.0, range.len.as_usize()) {
            let Some(mut chunk) = self.made(index) else { continue };
            if count == CHUNK {
                *chunk = None;
            } else if let Some(chunk) = &mut *chunk {
                chunk.bytes_mut()[inside..inside + count].fill(0);
            }
        }
    }

    fn status(&self, range: ByteRange) -> Vec<StatusExtent> {
        let mut extents: Vec<StatusExtent> = Vec::new();
        for (index, _, count) in parts(range.start.0, range.len.as_usize()) {
            let is_written = self.made(index).is_some_and(|chunk| chunk.is_some());
            let status = if is_written { BlockStatus::Data } else { BlockStatus::Hole };
            match extents.last_mut() {
                Some(last) if last.status == status => last.len += ByteCount(count as u64),
                _ => extents.push(StatusExtent { len: ByteCount(count as u64), status }),
            }
        }
        extents
    }
}
