//! The buffer of a rotating drive: acknowledged writes, and data that was read ahead.
//!
//! # Invariants
//! - Runs of dirty sectors have different starts, are never empty, and their sum is
//!   `dirty_sectors`.
//! - A run is destaged from its front; sectors that are appended meanwhile remain in it.

use super::geometry::{Geometry, Position};
use std::collections::VecDeque;

/// Consecutive dirty sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub start: u64,
    pub sectors: u64,
    pub place: Position,
    /// The time at which its first sectors became dirty.
    pub since_ns: u64,
}

/// Acknowledged writes that are not on the medium.
#[derive(Debug)]
pub(crate) struct WriteCache {
    most_sectors: u64,
    most_runs: usize,
    dirty_sectors: u64,
    runs: VecDeque<Run>,
}

impl WriteCache {
    pub fn new(most_sectors: u64, most_runs: u64) -> WriteCache {
        WriteCache {
            most_sectors,
            most_runs: most_runs as usize,
            dirty_sectors: 0,
            runs: VecDeque::new(),
        }
    }

    /// Accepts a write, merged with its neighbours; false if there is no space.
    pub fn take(&mut self, start: u64, sectors: u64, now_ns: u64, geometry: &Geometry) -> bool {
        let end = start + sectors;
        if self.holds(start, end) {
            return true; // Overwrites dirty sectors.
        }
        // A write larger than the cache is accepted if the cache is empty.
        let fits = self.dirty_sectors + sectors <= self.most_sectors || self.runs.is_empty();
        if !fits {
            return false;
        }
        if let Some(run) = self.runs.iter_mut().find(|run| run.start + run.sectors == start) {
            run.sectors += sectors;
        } else if let Some(run) = self.runs.iter_mut().find(|run| run.start == end) {
            run.start = start;
            run.sectors += sectors;
            run.place = geometry.place(start);
        } else if self.runs.len() < self.most_runs {
            let place = geometry.place(start);
            self.runs.push_back(Run { start, sectors, place, since_ns: now_ns });
        } else {
            return false;
        }
        self.dirty_sectors += sectors;
        true
    }

    pub fn runs(&self) -> &VecDeque<Run> {
        &self.runs
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether one run contains the whole range.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        self.runs.iter().any(|run| run.start <= start && end <= run.start + run.sectors)
    }

    /// Marks the first sectors of a run, at most `most`, as written to the medium.
    pub fn clean(&mut self, start: u64, sectors: u64, geometry: &Geometry, now_ns: u64) {
        let Some(at) =
            self.runs.iter().position(|run| run.start <= start && start < run.start + run.sectors)
        else {
            return;
        };
        let run = &mut self.runs[at];
        // Sectors prepended meanwhile are still dirty: the run is cut only if the written range is
        // its front.
        if run.start != start {
            return;
        }
        let cleaned = sectors.min(run.sectors);
        self.dirty_sectors -= cleaned;
        run.start += cleaned;
        run.sectors -= cleaned;
        run.since_ns = now_ns;
        if run.sectors == 0 {
            self.runs.remove(at);
        } else {
            run.place = geometry.place(run.start);
        }
    }
}

/// Ranges that were read and are still in the buffer, oldest first.
#[derive(Debug)]
pub(crate) struct Segments {
    most: usize,
    most_sectors: u64,
    ranges: VecDeque<(u64, u64)>,
}

impl Segments {
    pub fn new(most: u64, most_sectors: u64) -> Segments {
        Segments { most: most as usize, most_sectors, ranges: VecDeque::new() }
    }

    pub fn keep(&mut self, start: u64, end: u64) {
        if end <= start || self.most == 0 {
            return;
        }
        if self.ranges.len() == self.most {
            self.ranges.pop_front();
        }
        self.ranges.push_back((start.max(end.saturating_sub(self.most_sectors)), end));
    }

    pub fn hold(&self, start: u64, end: u64) -> bool {
        self.ranges.iter().any(|(from, to)| *from <= start && end <= *to)
    }

    /// Drops overwritten ranges.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.ranges.retain(|(from, to)| *to <= start || end <= *from);
    }
}
