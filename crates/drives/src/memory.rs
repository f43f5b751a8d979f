//! `mem:SIZE`: a drive in the memory of this process, allocated where it is written.
//!
//! The content is cut into chunks, each behind a lock of its own, so that the shards' attachments rarely
//! meet; nor do they in the processor's caches, where each lock has a line to itself. A request that spans chunks is not one
//! step to a reader on another shard, as on any drive. A chunk of which much was written is put into a large page, where the
//! world has such: random requests look up many addresses otherwise, each in tables that are not in the processor's caches. Everything
//! completes at once. Hollow buffers are taken and nothing is copied.
//!
//! What is written goes past the processor's caches, since nobody knows who reads it, or when; except where it was read just now, as whoever
//! changes a part of a stripe does: its lines are in the caches still.

use crate::request::{give_back, objection};
use platform::{
    BlockStatus, Buf, Completion, Drive, DriveHealth, DriveIdentity, DriveInfo, DriveKind, DriveSource, Env,
    IoError, IoErrorKind, IoOutcome, IoRequest, Result, Slices, StatusExtent, copy_past_caches,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{ByteCount, ByteRange, SectorSize};

/// As long as a large page of the usual processors.
const CHUNK: usize = 2 << 20;

/// A page of the usual processors.
const PAGE: usize = 4096;

/// Pages of a chunk that were written before it is worth a large one: before that it may be one label that somebody needs, and writes again and
/// again.
const MUCH: u32 = (CHUNK / PAGE / 4) as u32;

/// Chunks whose places are made together, when the first of them is asked for.
const GROUP: usize = 512;

/// The largest memory drive.
pub(crate) const LARGEST: ByteCount = ByteCount(16 << 40);

/// The bytes of a chunk, of which the system gives each page when it is touched. They begin where a large page may, in memory that is
/// twice as long: what is not touched costs nothing.
struct Chunk {
    allocated: Box<[u8]>,
    starts: usize,
    /// Which of its pages were written, by bits, until they are [`MUCH`].
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
            self.is_large = self.written.iter().map(|pages| pages.count_ones()).sum::<u32>() >= MUCH;
            if self.is_large {
                env.world().enlarge_pages(self.bytes_mut());
            }
        }
    }
}

/// A chunk's lock, and the chunk once something was written there: in a line of the processor's caches for itself, so that two
/// shards which use neighbouring chunks do not take it from one another.
#[derive(Default)]
#[repr(align(64))]
struct Place(Mutex<Option<Chunk>>);

struct Content {
    info: DriveInfo,
    groups: Box<[OnceLock<Box<[Place]>>]>,
}

/// A memory drive. What was written lasts as long as it and its attachments.
pub struct MemoryDrive {
    content: Arc<Content>,
}

impl MemoryDrive {
    /// A drive of zeroes. `size`: whole sectors, at most 16 TiB. `identity` must be its own.
    pub fn new(name: &str, identity: DriveIdentity, size: ByteCount, sector: SectorSize) -> MemoryDrive {
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
        Ok(Rc::new(Attached { content: self.content.clone(), recent: Recent::default(), env: env.clone() }))
    }
}

struct Attached {
    content: Arc<Content>,
    recent: Recent,
    env: Env,
}

/// What was read last: where each of a few reads began and ended. A drive that other requests come to between a read and the write that
/// follows from it has a few of them under way.
#[derive(Default)]
struct Recent {
    reads: Cell<[(u64, u64); 4]>,
}

impl Recent {
    fn read(&self, start: u64, len: u64) {
        let [a, b, c, _] = self.reads.get();
        self.reads.set([(start, start + len), a, b, c]);
    }

    /// Whether a write from `start` on begins where something was read just now.
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
            IoRequest::Write { offset, slices, .. } => {
                IoOutcome::done(content.write(offset.0, &slices, self.recent.has(offset.0), &self.env))
            }
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

fn locked(place: &Place) -> MutexGuard<'_, Option<Chunk>> {
    place.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a range, chunk by chunk: which chunk, where in it, how long.
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
    /// A chunk that is to be written: its place is made.
    fn chunk(&self, index: usize) -> MutexGuard<'_, Option<Chunk>> {
        let group = self.groups[index / GROUP].get_or_init(|| (0..GROUP).map(|_| Place::default()).collect());
        locked(&group[index % GROUP])
    }

    /// A chunk, if its place was ever made.
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
                        Some(Some(chunk)) => part.copy_from_slice(&chunk.bytes()[inside..inside + count]),
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
