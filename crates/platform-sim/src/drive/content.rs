//! What a drive holds: durable content, a volatile cache before it, and faults laid over both.
//!
//! # Fault model and invariants
//! - A completed write goes to `current`, which reads see, and unless it was durable also to the `log` of
//!   unflushed writes. A flush applies, in order, the log as it stood when the flush *started*.
//! - `durable` holds everything flushed and everything written durably. A durable write is kept in the log
//!   too while older writes wait there, so that flushing those cannot undo it.
//! - The cache is bounded: what does not fit is written back, oldest first.
//! - A durable write that its process or its drive did not live to see returned may be in the cache alone.
//! - A power cut leaves each sector with its durable value or with *any one* of its unflushed versions: those
//!   in the log after the last durable one, and those of writes still in flight. Sectors are never torn.
//! - Faults (unreadable sectors, rot, what lost and misdirected writes left) lie over the content and never
//!   change it: what is true and what the drive says are never confused. Rewriting a sector lifts its fault, as
//!   durably as the write is. What a misdirected write put in the wrong place is durable at once.

use super::chunks::{Chunks, Fill};
use super::faults::{Fault, FaultKind, Layer};
use crate::options::DriveOptions;
use crate::rng::Rng;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{ByteOffset, ByteRange};

/// A write as the cache keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub range: ByteRange,
    pub fill: Fill,
    /// A power cut can no longer take it back.
    pub durable: bool,
    /// The drive acknowledges it and says ever after what it said before.
    pub lost: bool,
}

/// How much of the volatile cache a power cut takes.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// All of it.
    Everything,
    /// Nothing of what was completed; writes in flight do not land.
    InFlight,
    /// Nothing: even writes in flight land.
    Nothing,
    /// Each version after the first lost one is lost; this many of 256 survive the draw.
    Sectors(u64),
    /// Whole writes, this many of 256 survive.
    Writes(u64),
}

/// The memory of a drive, and the faults over it. A clone is an image that shares what neither side changes.
#[derive(Clone)]
pub(crate) struct Content {
    current: Layer,
    /// `None`: every completed write is durable, and `current` is all there is.
    durable: Option<Layer>,
    log: VecDeque<Written>,
    /// How many writes have left the log since the beginning: marks are counted from there.
    log_start: u64,
    /// Bytes of the writes in the log, and how many the cache holds before it writes back by itself.
    log_bytes: u64,
    cache_bytes: u64,
}

impl Content {
    pub fn new(options: &DriveOptions, key: u64) -> Content {
        let sector = options.logical_sector.bytes().0;
        let layer = Layer::new(sector, Chunks::new(options.unwritten, key));
        Content {
            durable: (!options.cache.is_zero()).then(|| layer.clone()),
            current: layer,
            log: VecDeque::new(),
            log_start: 0,
            log_bytes: 0,
            cache_bytes: options.cache.0,
        }
    }

    /// Takes a completed write.
    pub fn write(&mut self, write: Written) {
        self.current.take(&write, write.range);
        let Some(durable) = &mut self.durable else { return };
        if write.durable {
            durable.take(&write, write.range);
        }
        if !write.durable || !self.log.is_empty() {
            self.log_bytes += write.range.len.0;
            self.log.push_back(write);
            while self.log_bytes > self.cache_bytes {
                self.flush(self.log_start + 1);
            }
        }
    }

    /// A mark of everything completed by now, for a flush that starts.
    pub fn mark(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Makes everything before `mark` durable.
    pub fn flush(&mut self, mark: u64) {
        let Some(durable) = &mut self.durable else { return };
        while self.log_start < mark
            && let Some(write) = self.log.pop_front()
        {
            self.log_start += 1;
            self.log_bytes -= write.range.len.0;
            durable.take(&write, write.range);
        }
        // What was written durably since must not be undone by what was flushed just now.
        for write in self.log.iter().filter(|write| write.durable) {
            durable.repeat(write);
        }
        while let Some(write) = self.log.pop_front_if(|write| write.durable) {
            self.log_start += 1;
            self.log_bytes -= write.range.len.0;
        }
    }

    /// Whether reading `range` meets a medium error.
    pub fn is_unreadable(&self, range: ByteRange) -> bool {
        self.current.is_unreadable(range)
    }

    /// Whether any sector, now or after a power cut, cannot be read that a write may leave so.
    pub fn has_stuck(&self) -> bool {
        std::iter::once(&self.current).chain(&self.durable).any(Layer::has_stuck)
    }

    /// Reads what the drive says is there, rot and all. Unreadable sectors are the caller's business.
    pub fn read(&self, start: ByteOffset, target: &mut [u8]) {
        self.current.read(start, target);
    }

    /// The truth that a power cut cannot change.
    pub fn read_durable(&self, start: ByteOffset, target: &mut [u8]) {
        self.durable.as_ref().unwrap_or(&self.current).truth.read(start.0, target);
    }

    /// The truth as of the last completed write.
    pub fn read_true(&self, start: ByteOffset, target: &mut [u8]) {
        self.current.truth.read(start.0, target);
    }

    /// What lies over the content now.
    pub fn faults(&self) -> Vec<(ByteRange, FaultKind)> {
        self.current.faults()
    }

    /// Whether `range` holds something that a power cut may take back.
    pub fn is_unflushed(&self, range: ByteRange) -> bool {
        self.log.iter().any(|write| !write.durable && write.range.overlaps(range))
    }

    /// How many completed writes wait for a flush.
    pub fn unflushed_writes(&self) -> usize {
        self.log.iter().filter(|write| !write.durable).count()
    }

    pub fn status(&self, range: ByteRange) -> Vec<platform::StatusExtent> {
        self.current.truth.status(range)
    }

    fn layers(&mut self) -> impl Iterator<Item = &mut Layer> {
        std::iter::once(&mut self.current).chain(&mut self.durable)
    }

    /// Lays a fault over a range, until it is rewritten.
    pub fn lay(&mut self, range: ByteRange, fault: &Fault) {
        self.layers().for_each(|layer| layer.lay(range, fault));
    }

    /// Makes what is from `start` on read as `bytes`, until it is rewritten.
    pub fn put_instead(&mut self, start: ByteOffset, bytes: &[u8]) {
        self.layers().for_each(|layer| layer.put_instead(start, bytes));
    }

    /// Lifts every fault of a range.
    pub fn heal(&mut self, range: ByteRange) {
        self.layers().for_each(|layer| layer.lift(range));
    }

    /// Lifts what makes a range unreadable.
    pub fn heal_unreadable(&mut self, range: ByteRange) {
        self.layers().for_each(|layer| layer.lift_unreadable(range));
    }

    /// Lands any sectors of writes whose drive or process died under way, in any order. A durable one may have come as far
    /// as the cache.
    pub fn land_some(&mut self, mut in_flight: Vec<Written>, rng: &mut Rng) {
        rng.shuffle(&mut in_flight);
        for mut write in in_flight {
            write.durable = write.durable && rng.chance(1, 2);
            match rng.below(4) {
                0 => {}
                1 => self.write(write),
                _ => {
                    for sector in self.current.sectors(write.range) {
                        if rng.chance(1, 2) {
                            let part = self.part(&write, sector);
                            self.write(part);
                        }
                    }
                }
            }
        }
    }

    /// One sector of a write.
    fn part(&self, write: &Written, sector: u64) -> Written {
        let range = self.current.sector_range(sector);
        let at = (range.start - write.range.start).as_usize();
        let fill = match &write.fill {
            Fill::Bytes(bytes) => Fill::Bytes(Arc::new(bytes[at..at + range.len.as_usize()].to_vec())),
            other => other.clone(),
        };
        Written { range, fill, durable: write.durable, lost: write.lost }
    }

    /// Cuts the power: the module's comment says what is left.
    pub fn power_cut(&mut self, mut in_flight: Vec<Written>, rng: &mut Rng) {
        let loss = match rng.below(8) {
            0 => Loss::Everything,
            1 => Loss::InFlight,
            2 => Loss::Nothing,
            3 | 4 => Loss::Writes(rng.between(16, 240)),
            _ => Loss::Sectors(rng.between(16, 240)),
        };
        rng.shuffle(&mut in_flight);
        let completed = self.log.len();
        let writes: Vec<Written> = self.log.drain(..).chain(in_flight).collect();
        self.log_start += completed as u64;
        self.log_bytes = 0;
        let survives: Vec<bool> = writes
            .iter()
            .enumerate()
            .map(|(index, _)| match loss {
                Loss::Everything => false,
                Loss::InFlight => index < completed,
                Loss::Nothing | Loss::Sectors(_) => true,
                Loss::Writes(of_256) => rng.chance(of_256, 256),
            })
            .collect();
        for (sector, versions) in self.versions(&writes, completed) {
            let mut last = None;
            for index in versions {
                if let Loss::Sectors(of_256) = loss
                    && !rng.chance(of_256, 256)
                {
                    break;
                }
                if survives[index as usize] {
                    last = Some(index as usize);
                }
            }
            if let Some(index) = last {
                self.settle(&writes[index], sector);
            }
        }
        if let Some(durable) = &self.durable {
            self.current = durable.clone();
        }
    }

    /// The versions that each sector may be left with besides its durable value: indexes into `writes`.
    fn versions(&self, writes: &[Written], completed: usize) -> BTreeMap<u64, SmallVec<[u32; 4]>> {
        let mut versions: BTreeMap<u64, SmallVec<[u32; 4]>> = BTreeMap::new();
        for (index, write) in writes.iter().enumerate() {
            for sector in self.current.sectors(write.range) {
                let list = versions.entry(sector).or_default();
                if write.durable && index < completed {
                    // It is in the durable content already, and what is older is gone.
                    list.clear();
                } else {
                    list.push(index as u32);
                }
            }
        }
        versions
    }

    fn settle(&mut self, write: &Written, sector: u64) {
        let layer = self.durable.as_mut().unwrap_or(&mut self.current);
        layer.take(write, layer.sector_range(sector));
    }
}
