//! A cache line: the cached writes of one stripe.

use crate::dirt::{DirtyData, Sequence};
use crate::lines::{Destage, Held, Write};
use crate::shape::LineShape;
use smallvec::SmallVec;
use std::ops::Range;
use units::{ByteCount, ByteRange};

/// A line with this many writes counts as full, since the cost of its operations grows with them.
const MOST_WAITING: usize = 512;

/// A write in its cache line.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) write: Write<T>,
    /// Its own number, or the lowest number of the older dirty data that it replaced.
    pub(crate) since: Sequence,
}

/// A running destage.
#[derive(Debug)]
pub(crate) struct Busy<T> {
    pub(crate) destage: Destage,
    pub(crate) has_taken: bool,
    /// The writes that it destages; empty until `take`.
    pub(crate) entries: SmallVec<[Entry<T>; 1]>,
}

#[derive(Debug)]
pub(crate) struct Line<T> {
    /// In order of arrival. Acknowledged writes do not overlap each other.
    pub(crate) waiting: Vec<Entry<T>>,
    /// `Vec`s without spare capacity: most lines of a full cache have one write and no destage.
    pub(crate) busy: Vec<Busy<T>>,
    /// Acknowledged writes up to this number are to be destaged.
    pub(crate) wanted: Sequence,
    /// A destage has failed: acknowledged writes stay until a retry.
    pub(crate) is_pinned: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line { waiting: Vec::new(), busy: Vec::new(), wanted: Sequence(0), is_pinned: false }
    }
}

impl<T: Held> Line<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.busy.is_empty()
    }

    /// Whether a write is to be destaged as soon as its columns are free.
    pub(crate) fn is_wanted(&self, entry: &Entry<T>) -> bool {
        match entry.write.answered {
            true => entry.since <= self.wanted && !self.is_pinned,
            false => true,
        }
    }

    /// The oldest dirty write that is not yet wanted.
    pub(crate) fn oldest_lazy(&self) -> Option<Sequence> {
        let lazy =
            self.waiting.iter().filter(|entry| entry.write.answered && !self.is_wanted(entry));
        lazy.filter(|_| !self.is_pinned).map(|entry| entry.since).min()
    }

    /// Whether its dirty writes cover the whole stripe, or reach the limit of writes.
    pub(crate) fn is_full(&self, shape: &LineShape) -> bool {
        let answered = self.waiting.iter().filter(|entry| entry.write.answered);
        let bytes: u64 = answered.map(|entry| entry.write.range.len.0).sum();
        bytes == shape.stripe.0 || self.waiting.len() >= MOST_WAITING
    }

    /// Whether the last bytes of the stripe are in it.
    pub(crate) fn writes_end(&self, stripe: ByteCount) -> bool {
        let busy = self.busy.iter().flat_map(|busy| &busy.entries);
        busy.chain(&self.waiting).any(|entry| entry.write.range.end().0 == stripe.0)
    }

    /// Replaces waiting dirty data under an acknowledged write. Returns the oldest number replaced.
    pub(crate) fn supersede(
        &mut self,
        range: ByteRange,
        mut since: Sequence,
        dirt: &mut DirtyData,
    ) -> Sequence {
        let is_beneath =
            |entry: &Entry<T>| entry.write.answered && entry.write.range.overlaps(range);
        if !self.waiting.iter().any(is_beneath) {
            return since;
        }
        for entry in std::mem::take(&mut self.waiting) {
            if !is_beneath(&entry) {
                self.waiting.push(entry);
                continue;
            }
            since = since.min(entry.since);
            dirt.remove(entry.since, entry.write.range.len);
            for rest in entry.without(range) {
                dirt.add(rest.since, rest.write.range.len);
                self.waiting.push(rest);
            }
        }
        since
    }

    /// Removes the unacknowledged writes that must follow failed dirty writes. They cannot go
    /// first, and must not repeat the failing destage.
    pub(crate) fn take_behind(&mut self, failed: &[Entry<T>]) -> Vec<Write<T>> {
        if failed.is_empty() {
            return Vec::new();
        }
        let is_behind = |index: usize| {
            let first = self.with_what_comes_first(index);
            failed.iter().any(|entry| overlaps(&entry.write.columns, &first))
        };
        let waits = (0..self.waiting.len()).filter(|index| !self.waiting[*index].write.answered);
        let behind: Vec<usize> = waits.filter(|index| is_behind(*index)).collect();
        // From the end, so that earlier indices stay valid.
        let mut taken: Vec<Write<T>> =
            behind.iter().rev().map(|index| self.waiting.remove(*index).write).collect();
        taken.reverse();
        taken
    }

    /// Puts failed dirty writes back before all later writes. Later acknowledged writes keep
    /// precedence over them.
    pub(crate) fn put_back(&mut self, failed: Vec<Entry<T>>, dirt: &mut DirtyData) {
        let mut back = failed;
        for newer in self.waiting.iter_mut().filter(|entry| entry.write.answered) {
            let beneath = back.iter().filter(|entry| entry.write.range.overlaps(newer.write.range));
            let Some(since) = beneath.map(|entry| entry.since).min() else { continue };
            back = back.iter().flat_map(|entry| entry.without(newer.write.range)).collect();
            if since < newer.since {
                dirt.remove(newer.since, newer.write.range.len);
                dirt.add(since, newer.write.range.len);
                newer.since = since;
            }
        }
        for entry in &back {
            dirt.add(entry.since, entry.write.range.len);
        }
        self.waiting.splice(..0, back);
    }

    /// Indices of waiting writes within these columns, oldest first. Skips writes behind an
    /// overlapping older write that reaches outside the columns.
    pub(crate) fn candidates(&self, columns: &Range<u32>) -> SmallVec<[usize; 8]> {
        let mut passed: SmallVec<[&Range<u32>; 4]> = SmallVec::new();
        let mut candidates = SmallVec::new();
        for (index, Entry { write, .. }) in self.waiting.iter().enumerate() {
            if is_within(&write.columns, columns)
                && !passed.iter().any(|older| overlaps(older, &write.columns))
            {
                candidates.push(index);
            } else {
                passed.push(&write.columns);
            }
        }
        candidates
    }

    /// The columns to destage next: those of a write that `may_begin` accepts, of its predecessors,
    /// and of adjacent writes.
    pub(crate) fn free_columns(&self, may_begin: impl Fn(&Entry<T>) -> bool) -> Option<Range<u32>> {
        let is_busy = |columns: &Range<u32>| {
            self.busy.iter().any(|busy| overlaps(&busy.destage.columns, columns))
        };
        let reasons = (0..self.waiting.len()).filter(|index| may_begin(&self.waiting[*index]));
        let mut columns = reasons
            .map(|index| self.with_what_comes_first(index))
            .find(|columns| !is_busy(columns))?;
        loop {
            let before = columns.clone();
            for Entry { write, .. } in &self.waiting {
                let wider = hull(&columns, &write.columns);
                // Pinned data is older, would be tried first, and would fail this destage each
                // time.
                let is_of_use = !(self.is_pinned && write.answered);
                if is_of_use && touches(&columns, &write.columns) && !is_busy(&wider) {
                    columns = wider;
                }
            }
            if columns == before {
                return Some(columns);
            }
        }
    }

    /// How many data strips the waiting writes within these columns touch.
    pub(crate) fn strips_within(&self, columns: &Range<u32>, strip: ByteCount) -> usize {
        let within = self.waiting.iter().map(|entry| &entry.write);
        let within = within.filter(|write| is_within(&write.columns, columns));
        let touched = within.flat_map(|write| {
            let (start, end) = (write.range.start.0, write.range.end().0);
            start / strip.0..end.div_ceil(strip.0)
        });
        let mut touched: SmallVec<[u64; 16]> = touched.collect();
        touched.sort_unstable();
        touched.dedup();
        touched.len()
    }

    /// The columns of a write and of all older writes that must be destaged before or with it.
    fn with_what_comes_first(&self, index: usize) -> Range<u32> {
        let mut columns = self.waiting[index].write.columns.clone();
        loop {
            let before = columns.clone();
            for older in &self.waiting[..index] {
                if overlaps(&columns, &older.write.columns) {
                    columns = hull(&columns, &older.write.columns);
                }
            }
            if columns == before {
                return columns;
            }
        }
    }
}

impl<T: Held> Entry<T> {
    /// The remainder of a dirty write whose `range` newer data covers. Frees the covered part.
    pub(crate) fn without(&self, range: ByteRange) -> SmallVec<[Entry<T>; 2]> {
        let whole = self.write.range;
        if !whole.overlaps(range) {
            return SmallVec::from_iter([self.clone()]);
        }
        let beneath =
            ByteRange::from_to(whole.start.max(range.start), whole.end().min(range.end()));
        self.write.held.cut(beneath.start - whole.start, beneath.len).settled();
        let before = ByteRange::from_to(whole.start, range.start.max(whole.start));
        let after = ByteRange::from_to(range.end().min(whole.end()), whole.end());
        let rest = [before, after].into_iter().filter(|part| !part.is_empty());
        rest.map(|part| {
            let held = self.write.held.cut(part.start - whole.start, part.len);
            let write =
                Write { range: part, columns: self.write.columns.clone(), held, ..self.write };
            Entry { write, since: self.since }
        })
        .collect()
    }
}

pub(crate) fn overlaps(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

fn touches(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start <= other.end && other.start <= one.end
}

fn is_within(part: &Range<u32>, whole: &Range<u32>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

fn hull(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    one.start.min(other.start)..one.end.max(other.end)
}
