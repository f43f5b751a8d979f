//! One line: what the cache has of a stripe.

use crate::dirt::{Dirt, Sequence};
use crate::lines::{Destage, Held, Write};
use crate::shape::LineShape;
use smallvec::SmallVec;
use std::ops::Range;
use units::{ByteCount, ByteRange};

/// A line with more writes is destaged, however little they are: what is asked of a line is asked of each of them.
const MOST_WAITING: usize = 512;

/// A write in its line.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) write: Write<T>,
    /// The oldest write that it stands for: its own number, or that of what it was laid over.
    pub(crate) since: Sequence,
}

/// A destage that has begun.
#[derive(Debug)]
pub(crate) struct Busy<T> {
    pub(crate) destage: Destage,
    pub(crate) has_taken: bool,
    /// What it writes; nothing before it has taken its writes.
    pub(crate) entries: SmallVec<[Entry<T>; 1]>,
}

#[derive(Debug)]
pub(crate) struct Line<T> {
    /// In the order in which they came. Answered ones do not overlap each other.
    pub(crate) waiting: Vec<Entry<T>>,
    /// Most lines of a full cache have one write and no destage: room for more of either is taken when there are more.
    pub(crate) busy: Vec<Busy<T>>,
    /// Answered writes that stand for something as old as that are to be destaged.
    pub(crate) wanted: Sequence,
    /// It could not be destaged: answered writes stay where they are until somebody asks for them again.
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

    /// Whether a write is to be destaged as soon as it may.
    pub(crate) fn is_wanted(&self, entry: &Entry<T>) -> bool {
        match entry.write.answered {
            true => entry.since <= self.wanted && !self.is_pinned,
            false => true,
        }
    }

    /// The oldest of what waits that nobody wants.
    pub(crate) fn oldest_lazy(&self) -> Option<Sequence> {
        let lazy = self.waiting.iter().filter(|entry| entry.write.answered && !self.is_wanted(entry));
        lazy.filter(|_| !self.is_pinned).map(|entry| entry.since).min()
    }

    /// Whether its answered writes are the whole stripe, or so many that nothing is to be won by waiting.
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

    /// A write that was answered takes the place of what waits beneath it. The oldest that it stands for.
    pub(crate) fn supersede(&mut self, range: ByteRange, mut since: Sequence, dirt: &mut Dirt) -> Sequence {
        let is_beneath = |entry: &Entry<T>| entry.write.answered && entry.write.range.overlaps(range);
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

    /// Takes out what must come after answered writes that could not be destaged, and whose hosts wait: it could not be destaged
    /// before them, nor they again and again for its sake.
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
        // From the last on: what is taken out moves nothing before it.
        let mut taken: Vec<Write<T>> =
            behind.iter().rev().map(|index| self.waiting.remove(*index).write).collect();
        taken.reverse();
        taken
    }

    /// Puts answered writes that could not be destaged back to where they were: before all that came after them. What came
    /// after them and was answered lies over them.
    pub(crate) fn put_back(&mut self, failed: Vec<Entry<T>>, dirt: &mut Dirt) {
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

    /// What waits within these columns, by its place, oldest first: but for what an older one overlaps that does not lie
    /// within them, and so comes first.
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

    /// The columns that may be destaged next: those of a write that is to be, of what must come before it, and of what
    /// touches them. `may_begin`: which write may be the reason.
    pub(crate) fn free_columns(&self, may_begin: impl Fn(&Entry<T>) -> bool) -> Option<Range<u32>> {
        let is_busy =
            |columns: &Range<u32>| self.busy.iter().any(|busy| overlaps(&busy.destage.columns, columns));
        let reasons = (0..self.waiting.len()).filter(|index| may_begin(&self.waiting[*index]));
        let mut columns =
            reasons.map(|index| self.with_what_comes_first(index)).find(|columns| !is_busy(columns))?;
        loop {
            let before = columns.clone();
            for Entry { write, .. } in &self.waiting {
                let wider = hull(&columns, &write.columns);
                // What is pinned is older: it would be tried, and fail, in place of what this is begun for, again and again.
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

    /// How many strips of data the writes touch that wait within these columns.
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

    /// The columns of a write, and of older ones that overlap them: they are destaged before it, or with it.
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
    /// What is left of an answered write of which these bytes lie under newer data: they need not be kept.
    pub(crate) fn without(&self, range: ByteRange) -> SmallVec<[Entry<T>; 2]> {
        let whole = self.write.range;
        if !whole.overlaps(range) {
            return SmallVec::from_iter([self.clone()]);
        }
        let beneath = ByteRange::from_to(whole.start.max(range.start), whole.end().min(range.end()));
        self.write.held.cut(beneath.start - whole.start, beneath.len).settled();
        let before = ByteRange::from_to(whole.start, range.start.max(whole.start));
        let after = ByteRange::from_to(range.end().min(whole.end()), whole.end());
        let rest = [before, after].into_iter().filter(|part| !part.is_empty());
        rest.map(|part| {
            let held = self.write.held.cut(part.start - whole.start, part.len);
            let write = Write { range: part, columns: self.write.columns.clone(), held, ..self.write };
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
