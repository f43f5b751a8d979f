//! A drive's content: durable data, a volatile cache, and an overlay of faults.
//!
//! # Fault model and invariants
//! - A completed write goes to `current`, from which reads are served, and, unless durable, to the
//!   `log` of unflushed writes. A flush applies the log, in order, as it was when the flush
//!   *started*.
//! - `durable` holds all flushed and durable writes. A durable write stays in the log while older
//!   writes are there, so that flushing them does not undo it.
//! - The cache is bounded: on overflow the oldest writes are written back.
//! - A durable write whose process or drive ended before completion may be in the cache only.
//! - A power cut leaves each sector with its durable value or *any one* of its unflushed versions:
//!   those in the log after the last durable one, and those of writes in flight. Sectors are never
//!   torn.
//! - Faults (unreadable sectors, rot, lost and misdirected writes) are an overlay: the true content
//!   and the returned data stay separate. Rewriting a sector removes its fault, as durably as the
//!   write. The misplaced data of a misdirected write is durable at once.

use super::chunks::{Chunks, Fill};
use super::faults::{Fault, FaultKind, Layer};
use crate::options::DriveOptions;
use crate::rng::Rng;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{ByteOffset, ByteRange};

/// A write in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub range: ByteRange,
    pub fill: Fill,
    /// It survives a power cut.
    pub durable: bool,
    /// The drive acknowledges it, and its range reads as before.
    pub lost: bool,
}

/// How much of the volatile cache a power cut loses.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The whole cache.
    Everything,
    /// No completed write; writes in flight are lost.
    InFlight,
    /// Nothing: even writes in flight take effect.
    Nothing,
    /// In each sector, the first lost version and all later ones; each survives with probability
    /// n/256.
    Sectors(u64),
    /// Whole writes; each survives with probability n/256.
    Writes(u64),
}

/// A drive's content with its faults. A clone is an image that shares unchanged data.
#[derive(Clone)]
pub(crate) struct Content {
    current: Layer,
    /// `None`: every completed write is durable, and only `current` is used.
    durable: Option<Layer>,
    log: VecDeque<Written>,
    /// The number of writes that have left the log: marks are positions counted from the first
    /// write.
    log_start: u64,
    /// Bytes in the log, and the limit above which the cache writes back.
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

    /// Records a completed write.
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

    /// The position of a starting flush: it covers all writes completed so far.
    pub fn mark(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Makes all writes before `mark` durable.
    pub fn flush(&mut self, mark: u64) {
        let Some(durable) = &mut self.durable else { return };
        while self.log_start < mark
            && let Some(write) = self.log.pop_front()
        {
            self.log_start += 1;
            self.log_bytes -= write.range.len.0;
            durable.take(&write, write.range);
        }
        // The flush must not undo later durable writes.
        for write in self.log.iter().filter(|write| write.durable) {
            durable.repeat(write);
        }
        while let Some(write) = self.log.pop_front_if(|write| write.durable) {
            self.log_start += 1;
            self.log_bytes -= write.range.len.0;
        }
    }

    /// Whether a read of `range` is a medium error.
    pub fn is_unreadable(&self, range: ByteRange) -> bool {
        self.current.is_unreadable(range)
    }

    /// Whether a sector, now or after a power cut, stays unreadable after writes.
    pub fn has_stuck(&self) -> bool {
        std::iter::once(&self.current).chain(&self.durable).any(Layer::has_stuck)
    }

    /// Reads as the drive would, rot included. The caller handles unreadable sectors.
    pub fn read(&self, start: ByteOffset, target: &mut [u8]) {
        self.current.read(start, target);
    }

    /// Reads the true content that survives a power cut.
    pub fn read_durable(&self, start: ByteOffset, target: &mut [u8]) {
        self.durable.as_ref().unwrap_or(&self.current).truth.read(start.0, target);
    }

    /// Reads the true content after the last completed write.
    pub fn read_true(&self, start: ByteOffset, target: &mut [u8]) {
        self.current.truth.read(start.0, target);
    }

    /// The current faults.
    pub fn faults(&self) -> Vec<(ByteRange, FaultKind)> {
        self.current.faults()
    }

    /// Whether a power cut may change `range`.
    pub fn is_unflushed(&self, range: ByteRange) -> bool {
        self.log.iter().any(|write| !write.durable && write.range.overlaps(range))
    }

    /// The number of completed, unflushed writes.
    pub fn unflushed_writes(&self) -> usize {
        self.log.iter().filter(|write| !write.durable).count()
    }

    pub fn status(&self, range: ByteRange) -> Vec<platform::StatusExtent> {
        self.current.truth.status(range)
    }

    fn layers(&mut self) -> impl Iterator<Item = &mut Layer> {
        std::iter::once(&mut self.current).chain(&mut self.durable)
    }

    /// Adds a fault to a range, until it is rewritten.
    pub fn lay(&mut self, range: ByteRange, fault: &Fault) {
        self.layers().for_each(|layer| layer.lay(range, fault));
    }

    /// Makes the bytes from `start` read as `bytes`, until they are rewritten.
    pub fn put_instead(&mut self, start: ByteOffset, bytes: &[u8]) {
        self.layers().for_each(|layer| layer.put_instead(start, bytes));
    }

    /// Removes all faults of a range.
    pub fn heal(&mut self, range: ByteRange) {
        self.layers().for_each(|layer| layer.lift(range));
    }

    /// Removes medium errors of a range.
    pub fn heal_unreadable(&mut self, range: ByteRange) {
        self.layers().for_each(|layer| layer.lift_unreadable(range));
    }

    /// Applies random sectors, in random order, of writes whose drive or process ended before
    /// completion. A durable one may reach only the cache.
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
            Fill::Bytes(bytes) => {
                Fill::Bytes(Arc::new(bytes[at..at + range.len.as_usize()].to_vec()))
            }
            other => other.clone(),
        };
        Written { range, fill, durable: write.durable, lost: write.lost }
    }

    /// Cuts the power: the module's header defines the result.
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

    /// The possible versions of each sector besides its durable value: indexes into `writes`.
    fn versions(&self, writes: &[Written], completed: usize) -> BTreeMap<u64, SmallVec<[u32; 4]>> {
        let mut versions: BTreeMap<u64, SmallVec<[u32; 4]>> = BTreeMap::new();
        for (index, write) in writes.iter().enumerate() {
            for sector in self.current.sectors(write.range) {
                let list = versions.entry(sector).or_default();
                if write.durable && index < completed {
                    // It is in the durable content already; older versions are obsolete.
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
