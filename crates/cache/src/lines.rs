//! Lines: what waits for each stripe, and what of it may be destaged now.

use crate::merge::merge;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use units::{ByteCount, ByteRange, StripeIndex};

/// The most writes that one plan carries out: each is a run of memory, of which a drive's operation has not too many.
const MOST_WRITES: usize = 128;

/// Names a request of a host among those that are outstanding. A request that touches several stripes is a write in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestTag(pub u64);

/// A write of one stripe.
#[derive(Clone, Debug)]
pub struct Write<T> {
    /// Which bytes of the stripe's data: whole sectors.
    pub range: ByteRange,
    /// The columns that its destage has to itself.
    pub columns: Range<u32>,
    /// The request that it is part of.
    pub request: RequestTag,
    /// What its caller keeps with it.
    pub held: T,
}

/// How the stripes of a volume lie, and how much of one can be destaged by one plan.
#[derive(Clone, Copy, Debug)]
pub struct LineShape {
    /// Bytes of data in a stripe.
    pub stripe: ByteCount,
    /// Bytes of a strip.
    pub strip: ByteCount,
    /// How many strips of a stripe are parity. Where there are none, a whole stripe is worth no waiting.
    pub parity_strips: u16,
    /// Into how many runs of columns the extents of a plan may cut a strip.
    pub most_runs: usize,
}

/// Columns of a line that are being destaged, or about to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destage {
    /// Which line.
    pub stripe: StripeIndex,
    /// Which columns of it.
    pub columns: Range<u32>,
    number: u64,
}

/// A destage that has begun.
#[derive(Debug)]
struct Busy {
    destage: Destage,
    /// Whether it writes the last bytes of the stripe; nothing before its writes were taken.
    writes_end: bool,
    /// The requests that its writes are part of.
    requests: SmallVec<[RequestTag; 1]>,
    /// How long these writes are.
    bytes: ByteCount,
}

#[derive(Debug)]
struct Line<T> {
    /// In the order in which they came.
    waiting: Vec<Write<T>>,
    busy: SmallVec<[Busy; 1]>,
}

/// What waits for the stripes of a volume.
#[derive(Debug)]
pub struct Lines<T> {
    shape: LineShape,
    lines: BTreeMap<StripeIndex, Line<T>>,
    /// How many writes of each request there are: a few dozen requests, and seldom more.
    requests: Vec<(RequestTag, u32)>,
    /// How long all writes are that wait or are being destaged.
    bytes: ByteCount,
    begun: u64,
}

impl<T> Lines<T> {
    /// Nothing waits.
    pub fn new(shape: LineShape) -> Lines<T> {
        Lines { shape, lines: BTreeMap::new(), requests: Vec::new(), bytes: ByteCount::ZERO, begun: 0 }
    }

    /// A write comes. [`Lines::begin`] says what may be destaged after that.
    ///
    /// # Panics
    /// When it is of no bytes, or not within the stripe.
    pub fn admit(&mut self, stripe: StripeIndex, write: Write<T>) {
        let is_inside = !write.range.is_empty() && write.range.end().0 <= self.shape.stripe.0;
        assert!(is_inside && !write.columns.is_empty(), "a write of {:?} is not of one stripe", write.range);
        self.bytes += write.range.len;
        match self.requests.iter_mut().find(|(request, _)| *request == write.request) {
            Some((_, count)) => *count += 1,
            None => self.requests.push((write.request, 1)),
        }
        let line = self.lines.entry(stripe);
        line.or_insert_with(|| Line { waiting: Vec::new(), busy: SmallVec::new() }).waiting.push(write);
    }

    /// Begins a destage in a line, if one may begin: of the columns of the oldest write that neither overlaps what is being
    /// destaged nor an older one that waits, and of what touches them. Ask until there is none.
    pub fn begin(&mut self, stripe: StripeIndex) -> Option<Destage> {
        if self.waits_to_be_filled(stripe) {
            return None;
        }
        let line = self.lines.get_mut(&stripe)?;
        let columns = line.free_columns()?;
        self.begun += 1;
        let destage = Destage { stripe, columns, number: self.begun };
        line.busy.push(Busy {
            destage: destage.clone(),
            writes_end: false,
            requests: SmallVec::new(),
            bytes: ByteCount::ZERO,
        });
        Some(destage)
    }

    /// The oldest write that a destage which has begun will take.
    pub fn oldest_of(&self, destage: &Destage) -> Option<&Write<T>> {
        self.lines
            .get(&destage.stripe)?
            .waiting
            .iter()
            .find(|write| is_within(&write.columns, &destage.columns))
    }

    /// Takes the writes that a destage carries out: what waits within its columns by now, oldest first, and one at least.
    /// `most`: bytes of data and redundancy that it may write, unless it writes the whole stripe.
    ///
    /// # Panics
    /// When the destage has not begun, or has taken its writes.
    pub fn take(&mut self, destage: &Destage, most: Option<ByteCount>) -> SmallVec<[Write<T>; 1]> {
        let line = self.lines.get_mut(&destage.stripe).expect("a line is kept while it is destaged");
        let candidates = line.candidates(&destage.columns);
        let ranges: SmallVec<[ByteRange; 8]> =
            candidates.iter().map(|index| line.waiting[*index].range).collect();
        let count = self.shape.how_many_fit(&ranges, most);
        // What is taken from before it moves each of them down by one.
        let taken = candidates[..count].iter().enumerate();
        let writes: SmallVec<[Write<T>; 1]> =
            taken.map(|(before, index)| line.waiting.remove(index - before)).collect();
        let busy = line.busy.iter_mut().find(|busy| busy.destage == *destage).expect("it has begun");
        assert!(busy.requests.is_empty() && !writes.is_empty(), "{destage:?} takes its writes once");
        busy.writes_end = writes.iter().any(|write| write.range.end().0 == self.shape.stripe.0);
        busy.requests = writes.iter().map(|write| write.request).collect();
        busy.bytes = ByteCount(writes.iter().map(|write| write.range.len.0).sum());
        writes
    }

    /// A destage is done, whatever it came to. Its line, and the one after it, are to be asked whether something may begin.
    ///
    /// # Panics
    /// When it has not begun.
    pub fn end(&mut self, destage: &Destage) {
        let line = self.lines.get_mut(&destage.stripe).expect("a line is kept while it is destaged");
        let place = line.busy.iter().position(|busy| busy.destage == *destage).expect("it has begun");
        let busy = line.busy.swap_remove(place);
        if line.waiting.is_empty() && line.busy.is_empty() {
            self.lines.remove(&destage.stripe);
        }
        self.bytes -= busy.bytes;
        for request in busy.requests {
            let place = self.requests.iter().position(|(other, _)| *other == request);
            let place = place.expect("a request is counted while it is destaged");
            self.requests[place].1 -= 1;
            if self.requests[place].1 == 0 {
                self.requests.swap_remove(place);
            }
        }
    }

    /// Whether a line waits for a stream to fill it: the third rule of the crate.
    fn waits_to_be_filled(&self, stripe: StripeIndex) -> bool {
        self.requests.len() >= 2 && self.bytes >= self.shape.stripe && self.continues_a_stream(stripe)
    }

    /// Whether a line has been begun, and not filled, while the end of the line before it is in the cache.
    fn continues_a_stream(&self, stripe: StripeIndex) -> bool {
        if self.shape.parity_strips == 0 {
            return false;
        }
        let before = stripe.0.checked_sub(1).and_then(|before| self.lines.get(&StripeIndex(before)));
        let ends = |line: &Line<T>| line.writes_end(self.shape.stripe);
        let Some(line) = self.lines.get(&stripe).filter(|_| before.is_some_and(ends)) else { return false };
        let is_begun = line.waiting.iter().any(|write| write.range.start.0 == 0);
        is_begun && !self.shape.is_whole(line.waiting.iter().map(|write| write.range))
    }

    /// Whether nothing waits and nothing is destaged.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Checks the invariants of the crate. An error is a sentence about somebody's mistake.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        for (stripe, line) in &self.lines {
            let busy: Vec<&Range<u32>> = line.busy.iter().map(|busy| &busy.destage.columns).collect();
            let is_apart = |i: usize| busy[..i].iter().all(|other| !overlaps(other, busy[i]));
            if !(0..busy.len()).all(is_apart) {
                return Err(format!("columns of line {stripe} are destaged twice: {busy:?}"));
            }
            if line.waiting.is_empty() && line.busy.is_empty() {
                return Err(format!("line {stripe} is kept, and is empty"));
            }
            if line.busy.is_empty() && !self.continues_a_stream(*stripe) {
                return Err(format!("what waits in line {stripe} is forgotten"));
            }
        }
        Ok(())
    }
}

impl<T> Line<T> {
    /// Whether the last bytes of the stripe are in it.
    fn writes_end(&self, stripe: ByteCount) -> bool {
        self.busy.iter().any(|busy| busy.writes_end)
            || self.waiting.iter().any(|write| write.range.end().0 == stripe.0)
    }

    /// What waits within these columns, by its place, oldest first: but for what an older one overlaps that does not lie
    /// within them, and so comes first.
    fn candidates(&self, columns: &Range<u32>) -> SmallVec<[usize; 8]> {
        let mut passed: SmallVec<[&Range<u32>; 4]> = SmallVec::new();
        let mut candidates = SmallVec::new();
        for (index, write) in self.waiting.iter().enumerate() {
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

    /// The columns that may be destaged next.
    fn free_columns(&self) -> Option<Range<u32>> {
        let busy = self.busy.iter().map(|busy| &busy.destage.columns);
        let mut columns = self.waiting.iter().enumerate().find_map(|(index, write)| {
            let mut older = self.waiting.iter().take(index).map(|write| &write.columns);
            let is_free = !busy.clone().any(|busy| overlaps(busy, &write.columns))
                && !older.any(|older| overlaps(older, &write.columns));
            is_free.then(|| write.columns.clone())
        })?;
        loop {
            let before = columns.clone();
            for write in &self.waiting {
                let wider = columns.start.min(write.columns.start)..columns.end.max(write.columns.end);
                if touches(&columns, &write.columns) && !busy.clone().any(|busy| overlaps(busy, &wider)) {
                    columns = wider;
                }
            }
            if columns == before {
                return Some(columns);
            }
        }
    }
}

impl LineShape {
    /// Whether writes cover the whole stripe.
    fn is_whole(&self, writes: impl Iterator<Item = ByteRange>) -> bool {
        let writes: Vec<ByteRange> = writes.collect();
        let at_most: u64 = writes.iter().map(|range| range.len.0).sum();
        at_most >= self.stripe.0
            && merge(&writes).iter().map(|extent| extent.range.len.0).sum::<u64>() == self.stripe.0
    }

    /// How many of these writes, from the first on, one plan can carry out: one at least.
    fn how_many_fit(&self, writes: &[ByteRange], most: Option<ByteCount>) -> usize {
        let writes = &writes[..writes.len().min(MOST_WRITES)];
        if writes.len() < 2 || self.is_whole(writes.iter().copied()) {
            return writes.len();
        }
        let (mut cuts, mut data): (BTreeSet<u64>, u64) = (BTreeSet::new(), 0);
        for (index, write) in writes.iter().enumerate() {
            data += write.len.0;
            self.cut(*write, &mut cuts);
            let columns = cuts.last().zip(cuts.first()).map_or(0, |(last, first)| last - first);
            let bytes = data + u64::from(self.parity_strips) * columns;
            let is_too_much = cuts.len() > self.most_runs + 1 || most.is_some_and(|most| bytes > most.0);
            if index > 0 && is_too_much {
                return index;
            }
        }
        writes.len()
    }

    /// Notes where a write cuts the columns of a strip.
    fn cut(&self, write: ByteRange, cuts: &mut BTreeSet<u64>) {
        let (strip, start, end) = (self.strip.0, write.start.0, write.end().0);
        cuts.extend([start % strip, (end - 1) % strip + 1]);
        if start / strip != (end - 1) / strip {
            cuts.extend([0, strip]);
        }
    }
}

fn overlaps(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

fn touches(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start <= other.end && other.start <= one.end
}

fn is_within(part: &Range<u32>, whole: &Range<u32>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}
