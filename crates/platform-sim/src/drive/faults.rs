//! Faults of a drive: an overlay on its true content, which they never change.

use super::chunks::{Chunks, Fill};
use super::content::Written;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange};

/// A fault of a sector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A read is a medium error.
    Unreadable,
    /// The same, and writes succeed without repairing it: that many more, or (`None`) all.
    Stuck(Option<u32>),
    /// Each byte reads as its exclusive or with this value, without an error.
    Rot(u8),
    /// It reads as these bytes, without an error: the old data after a lost write, or data of a
    /// misdirected write.
    Instead(Arc<[u8]>),
}

/// The kind of a fault, for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A read is a medium error.
    Unreadable,
    /// A read returns wrong data without an error.
    Silent,
}

impl Fault {
    fn is_unreadable(&self) -> bool {
        self.kind() == FaultKind::Unreadable
    }

    /// The fault after a write. `None`: repaired.
    fn written(&self) -> Option<Fault> {
        match self {
            Fault::Stuck(None) => Some(Fault::Stuck(None)),
            Fault::Stuck(Some(left)) if *left > 0 => Some(Fault::Stuck(Some(left - 1))),
            _ => None,
        }
    }

    fn kind(&self) -> FaultKind {
        match self {
            Fault::Unreadable | Fault::Stuck(_) => FaultKind::Unreadable,
            Fault::Rot(_) | Fault::Instead(_) => FaultKind::Silent,
        }
    }
}

/// One state of a drive, current or durable: the true content, and the faults by sector number.
#[derive(Clone)]
pub(crate) struct Layer {
    sector: u64,
    pub truth: Chunks,
    faults: BTreeMap<u64, Fault>,
}

impl Layer {
    pub fn new(sector: u64, truth: Chunks) -> Layer {
        Layer { sector, truth, faults: BTreeMap::new() }
    }

    pub fn sectors(&self, range: ByteRange) -> Range<u64> {
        range.start.0 / self.sector..range.end().0.div_ceil(self.sector)
    }

    pub fn sector_range(&self, sector: u64) -> ByteRange {
        ByteRange::new(ByteOffset(sector * self.sector), ByteCount(self.sector))
    }

    /// Applies a write, or one of its sectors: repairs the faults there, unless the write is lost.
    pub fn take(&mut self, write: &Written, part: ByteRange) {
        let skip = (part.start - write.range.start).as_usize();
        if !write.lost {
            self.truth.write(part, &write.fill, skip);
            return self.rewrite(part);
        }
        for sector in self.sectors(part) {
            let range = self.sector_range(sector);
            let said = self.said(range);
            self.truth.write(range, &write.fill, (range.start - write.range.start).as_usize());
            if !self.faults.get(&sector).is_some_and(Fault::is_unreadable) {
                self.set_said(sector, said.into());
            }
        }
    }

    /// Applies only the content of a write whose faults are recorded already.
    pub fn repeat(&mut self, write: &Written) {
        if write.lost {
            self.take(write, write.range);
        } else {
            self.truth.write(write.range, &write.fill, 0);
        }
    }

    /// Makes sectors read as `bytes`, without changing the true content.
    pub fn put_instead(&mut self, start: ByteOffset, bytes: &[u8]) {
        let first = start.0 / self.sector;
        for (index, bytes) in bytes.chunks_exact(self.sector as usize).enumerate() {
            self.set_said(first + index as u64, bytes.into());
        }
    }

    /// Sets the data that a sector returns: a fault only if it differs from the true content.
    fn set_said(&mut self, sector: u64, bytes: Arc<[u8]>) {
        let mut truth = vec![0; self.sector as usize];
        self.truth.read(sector * self.sector, &mut truth);
        if *truth == *bytes {
            self.faults.remove(&sector);
        } else {
            self.faults.insert(sector, Fault::Instead(bytes));
        }
    }

    pub fn lay(&mut self, range: ByteRange, fault: &Fault) {
        for sector in self.sectors(range) {
            self.faults.insert(sector, fault.clone());
        }
    }

    /// Removes the faults that end with a write of these sectors.
    fn rewrite(&mut self, range: ByteRange) {
        if !self.faults.is_empty() {
            let sectors = self.sectors(range);
            let before: Vec<(u64, Option<Fault>)> = self
                .faults
                .range(sectors)
                .map(|(sector, fault)| (*sector, fault.written()))
                .collect();
            for (sector, left) in before {
                match left {
                    Some(fault) => drop(self.faults.insert(sector, fault)),
                    None => drop(self.faults.remove(&sector)),
                }
            }
        }
    }

    pub fn lift(&mut self, range: ByteRange) {
        if !self.faults.is_empty() {
            let sectors = self.sectors(range);
            let lifted: Vec<u64> = self.faults.range(sectors).map(|(sector, _)| *sector).collect();
            for sector in lifted {
                self.faults.remove(&sector);
            }
        }
    }

    /// Removes medium errors, and no other faults.
    pub fn lift_unreadable(&mut self, range: ByteRange) {
        let sectors = self.sectors(range);
        self.faults.retain(|sector, fault| !(sectors.contains(sector) && fault.is_unreadable()));
    }

    /// Whether a read of `range` is a medium error.
    pub fn is_unreadable(&self, range: ByteRange) -> bool {
        !self.faults.is_empty()
            && self.faults.range(self.sectors(range)).any(|(_, fault)| fault.is_unreadable())
    }

    /// Whether a sector stays unreadable after writes.
    pub fn has_stuck(&self) -> bool {
        self.faults.values().any(|fault| matches!(fault, Fault::Stuck(_)))
    }

    fn said(&self, range: ByteRange) -> Vec<u8> {
        let mut bytes = vec![0; range.len.as_usize()];
        self.read(range.start, &mut bytes);
        bytes
    }

    /// Reads as the drive would. The caller handles unreadable sectors.
    pub fn read(&self, start: ByteOffset, target: &mut [u8]) {
        self.truth.read(start.0, target);
        if self.faults.is_empty() {
            return;
        }
        let range = ByteRange::new(start, ByteCount::of(target));
        for (sector, fault) in self.faults.range(self.sectors(range)) {
            let whole = self.sector_range(*sector);
            let part = whole.intersection(range);
            let at = (part.start - start).as_usize();
            let target = &mut target[at..at + part.len.as_usize()];
            match fault {
                Fault::Unreadable | Fault::Stuck(_) => {}
                Fault::Rot(mask) => target.iter_mut().for_each(|byte| *byte ^= mask),
                Fault::Instead(bytes) => {
                    let skip = (part.start - whole.start).as_usize();
                    target.copy_from_slice(&bytes[skip..skip + target.len()]);
                }
            }
        }
    }

    /// All faults in order of address; adjacent ones of one kind are merged.
    pub fn faults(&self) -> Vec<(ByteRange, FaultKind)> {
        let mut runs: Vec<(ByteRange, FaultKind)> = Vec::new();
        for (sector, fault) in &self.faults {
            let (range, kind) = (self.sector_range(*sector), fault.kind());
            match runs.last_mut() {
                Some((last, of)) if last.end() == range.start && *of == kind => {
                    last.len += range.len
                }
                _ => runs.push((range, kind)),
            }
        }
        runs
    }
}

/// The bytes of a write, unless it is data-less.
pub(crate) fn bytes_of(write: &Written) -> Option<Arc<[u8]>> {
    match &write.fill {
        Fill::Bytes(bytes) => Some(bytes.as_slice().into()),
        Fill::Zeroes => Some(vec![0; write.range.len.as_usize()].into()),
        Fill::Hole | Fill::Noise(_) | Fill::Hollow => None,
    }
}
