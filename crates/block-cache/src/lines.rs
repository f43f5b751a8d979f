//! Lines: what waits for each stripe, and what of it may be destaged now.

use crate::dirt::{Dirt, Sequence};
use crate::line::{Busy, Entry, Line, overlaps};
use crate::shape::LineShape;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use units::{ByteCount, ByteRange, StripeIndex};

/// Names a request of a host among those that are outstanding. A request that touches several stripes is a write in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestTag(pub u64);

/// What a caller keeps with a write: its bytes, or what stands for them.
pub trait Held: Clone {
    /// What belongs to a part of the write, of `len` bytes from `at` on.
    #[must_use]
    fn cut(&self, at: ByteCount, len: ByteCount) -> Self;

    /// A write that was answered, or what was cut from one, need not be kept any more: it lies under newer data that was answered.
    /// This or [`Held::destaged`] is called once for each of its bytes.
    fn settled(&self);

    /// The same, where it was destaged: the drives may have it in their volatile caches alone. It is kept until they have been
    /// flushed.
    fn destaged(&self);
}

/// A write of one stripe.
#[derive(Clone, Debug)]
pub struct Write<T> {
    /// Which bytes of the stripe's data: whole sectors.
    pub range: ByteRange,
    /// The columns that its destage has to itself: of a write whose host waits, those of all the [cells](LineShape::cell) that it
    /// touches, so that what is dirty there goes before it or with it.
    pub columns: Range<u32>,
    /// The request that it is part of.
    pub request: RequestTag,
    /// Whether its host has been answered, so that the cache alone has it: it is *dirty*.
    pub answered: bool,
    /// What its caller keeps with it.
    pub held: T,
}

/// Columns of a line that are being destaged, or about to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destage {
    /// Which line.
    pub stripe: StripeIndex,
    /// Which columns of it.
    pub columns: Range<u32>,
    /// How many strips of data what waited there touched when it began.
    pub strips: usize,
    number: u64,
}

/// What waits for the stripes of a volume, and what is dirty of them.
#[derive(Debug)]
pub struct Lines<T> {
    shape: LineShape,
    lines: BTreeMap<StripeIndex, Line<T>>,
    dirt: Dirt,
    /// How many writes each request has that was not answered: a few dozen requests, and seldom more.
    requests: Vec<(RequestTag, u32)>,
    /// How long all writes are that were not answered.
    bytes: ByteCount,
    came: Sequence,
    begun: u64,
}

impl<T: Held> Lines<T> {
    /// Nothing waits.
    pub fn new(shape: LineShape) -> Lines<T> {
        let (lines, requests, bytes) = (BTreeMap::new(), Vec::new(), ByteCount::ZERO);
        Lines { shape, lines, dirt: Dirt::default(), requests, bytes, came: Sequence(0), begun: 0 }
    }

    /// A write comes. [`Lines::begin`] says what may be destaged after that. Of one that was answered, what it lies over need not be
    /// kept from now on: it must be kept itself.
    ///
    /// # Panics
    /// When it is of no bytes, or not within the stripe.
    pub fn admit(&mut self, stripe: StripeIndex, write: Write<T>) {
        let is_inside = !write.range.is_empty() && write.range.end().0 <= self.shape.stripe.0;
        assert!(is_inside && !write.columns.is_empty(), "a write of {:?} is not of one stripe", write.range);
        self.came.0 += 1;
        let mut since = self.came;
        let line = self.lines.entry(stripe).or_default();
        if write.answered {
            since = line.supersede(write.range, since, &mut self.dirt);
            self.dirt.add(since, write.range.len);
        } else {
            self.bytes += write.range.len;
            match self.requests.iter_mut().find(|(request, _)| *request == write.request) {
                Some((_, count)) => *count += 1,
                None => self.requests.push((write.request, 1)),
            }
        }
        if line.waiting.is_empty() {
            line.waiting.reserve_exact(1);
        }
        line.waiting.push(Entry { write, since });
        self.look_for_lazy(stripe);
    }

    /// Begins a destage in a line, if one may begin: of the columns of a write that is to be destaged, that are not being
    /// destaged already, with what must come before it, and with what touches them. Ask until there is none.
    pub fn begin(&mut self, stripe: StripeIndex) -> Option<Destage> {
        let waits_to_be_filled = self.waits_to_be_filled(stripe);
        let line = self.lines.get_mut(&stripe)?;
        let may_begin =
            |entry: &Entry<T>| line.is_wanted(entry) && (entry.write.answered || !waits_to_be_filled);
        let columns = line.free_columns(may_begin)?;
        let strips = line.strips_within(&columns, self.shape.strip);
        self.begun += 1;
        let destage = Destage { stripe, columns, strips, number: self.begun };
        line.busy.push(Busy { destage: destage.clone(), has_taken: false, entries: SmallVec::new() });
        Some(destage)
    }

    /// The oldest write that a destage which has begun will take.
    pub fn oldest_of(&self, destage: &Destage) -> Option<&Write<T>> {
        let line = self.lines.get(&destage.stripe)?;
        let first = *line.candidates(&destage.columns).first()?;
        Some(&line.waiting[first].write)
    }

    /// The writes that a destage carries out: what waits within its columns by now, oldest first. None where all that it
    /// began for was dirty, and lies under newer data of more columns by now. `most`: bytes of data and redundancy that it
    /// may write, unless it writes the whole stripe.
    ///
    /// # Panics
    /// When the destage has not begun, or has taken its writes.
    pub fn take(&mut self, destage: &Destage, most: Option<ByteCount>) -> SmallVec<[Write<T>; 1]> {
        let line = self.lines.get_mut(&destage.stripe).expect("a line is kept while it is destaged");
        let candidates = line.candidates(&destage.columns);
        let ranges: SmallVec<[ByteRange; 8]> =
            candidates.iter().map(|index| line.waiting[*index].write.range).collect();
        let count = self.shape.how_many_fit(&ranges, most);
        // What is taken from before it moves each of them down by one.
        let taken = candidates[..count].iter().enumerate();
        let entries: SmallVec<[Entry<T>; 1]> =
            taken.map(|(before, index)| line.waiting.remove(index - before)).collect();
        let busy = line.busy.iter_mut().find(|busy| busy.destage == *destage).expect("it has begun");
        assert!(!std::mem::replace(&mut busy.has_taken, true), "{destage:?} takes its writes once");
        let writes = entries.iter().map(|entry| entry.write.clone()).collect();
        busy.entries = entries;
        self.look_for_lazy(destage.stripe);
        writes
    }

    /// A destage is done. `failed`: which of its writes did not get to the drives, by their places among those it took. What of
    /// these was answered stays in the line, which is *pinned*: it waits for [`Lines::retry`]. Writes whose hosts wait, and that
    /// must come after it, fail as well: these are handed out. The line, and the one after it, are to be asked whether
    /// something may begin. Hosts whose writes are on the drives are told after this, and after the caller has cleared
    /// what lies beneath: until then it is kept, and a kill would lay it over them.
    ///
    /// # Panics
    /// When it has not begun; or when a write of it that is on the drives, and whose host waits, comes after one of the same cells
    /// that was answered and is not.
    pub fn end(&mut self, destage: &Destage, failed: &[usize]) -> Vec<Write<T>> {
        let line = self.lines.get_mut(&destage.stripe).expect("a line is kept while it is destaged");
        let place = line.busy.iter().position(|busy| busy.destage == *destage).expect("it has begun");
        let busy = line.busy.swap_remove(place);
        let mut back: Vec<Entry<T>> = Vec::new();
        for (index, entry) in busy.entries.into_iter().enumerate() {
            let has_failed = failed.contains(&index);
            if entry.write.answered {
                self.dirt.remove(entry.since, entry.write.range.len);
                match has_failed {
                    true => back.push(entry),
                    false => entry.write.held.destaged(),
                }
                continue;
            }
            let cells = entry.write.range.align_out(self.shape.cell);
            let is_behind = back.iter().any(|older| older.write.range.overlaps(cells));
            assert!(has_failed || !is_behind, "{:?} comes after what failed, and failed with it", cells);
            let Lines { requests, bytes, .. } = self;
            count_out(requests, bytes, &entry.write);
        }
        let has_failed = !back.is_empty();
        let behind = line.take_behind(&back);
        line.put_back(back, &mut self.dirt);
        let is_dirty = line.waiting.iter().any(|entry| entry.write.answered);
        line.is_pinned = has_failed || (line.is_pinned && is_dirty);
        self.dirt.set_pinned(destage.stripe, line.is_pinned);
        if line.is_empty() {
            self.lines.remove(&destage.stripe);
        }
        self.look_for_lazy(destage.stripe);
        behind.iter().for_each(|write| count_out(&mut self.requests, &mut self.bytes, write));
        behind
    }

    /// Chooses the next line to be destaged among those of which something dirty waits that nobody wants yet: the next one of
    /// an elevator that ascends. It is wanted from now on: [`Lines::begin`] begins it. `up_to`: only lines of which something
    /// that old waits.
    pub fn choose(&mut self, up_to: Option<Sequence>) -> Option<StripeIndex> {
        let stripe = self.dirt.choose(up_to)?;
        Some(self.want(stripe))
    }

    /// The same, of the lines that are full: everything of them is dirty, or so much that nothing is to be won by waiting.
    pub fn choose_full(&mut self) -> Option<StripeIndex> {
        let stripe = self.dirt.choose_full()?;
        Some(self.want(stripe))
    }

    fn want(&mut self, stripe: StripeIndex) -> StripeIndex {
        let line = self.lines.get_mut(&stripe).expect("a line is kept while something of it waits");
        line.wanted = self.came;
        self.look_for_lazy(stripe);
        stripe
    }

    /// Whether [`Lines::choose_full`] would find a line.
    pub fn has_full(&self) -> bool {
        self.dirt.has_full()
    }

    /// Whether something that old waits that nobody wants yet: whether [`Lines::choose`] would find a line.
    pub fn waits_since(&self, up_to: Sequence) -> bool {
        self.dirt.oldest_lazy().is_some_and(|oldest| oldest <= up_to)
    }

    /// Has a line destaged that may be pinned. It is to be begun. False: there is nothing of it.
    pub fn want_line(&mut self, stripe: StripeIndex) -> bool {
        let Some(line) = self.lines.get_mut(&stripe) else { return false };
        (line.is_pinned, line.wanted) = (false, self.came);
        self.dirt.set_pinned(stripe, false);
        self.look_for_lazy(stripe);
        true
    }

    /// Whether nothing that old is dirty in a line any more, or what is left could not be destaged.
    pub fn is_line_settled(&self, stripe: StripeIndex, up_to: Sequence) -> bool {
        let Some(line) = self.lines.get(&stripe) else { return true };
        let is_left = |entry: &Entry<T>| entry.write.answered && entry.since <= up_to;
        let is_being_destaged = line.busy.iter().flat_map(|busy| &busy.entries).any(is_left);
        !is_being_destaged && (line.is_pinned || !line.waiting.iter().any(is_left))
    }

    /// Has the pinned lines destaged that a volume has: all of them, or the first. They are to be begun.
    pub fn retry(&mut self, most: usize) -> Vec<StripeIndex> {
        let pinned: Vec<StripeIndex> = self.dirt.pinned().iter().take(most).copied().collect();
        for stripe in &pinned {
            self.dirt.set_pinned(*stripe, false);
            let line = self.lines.get_mut(stripe).expect("a line is kept while it is pinned");
            (line.is_pinned, line.wanted) = (false, self.came);
        }
        pinned
    }

    /// What the cache has of bytes of a stripe, each with the part of the range that it covers. Later ones lie over earlier ones.
    pub fn within(
        &self,
        stripe: StripeIndex,
        range: ByteRange,
    ) -> impl Iterator<Item = (ByteRange, &Write<T>)> {
        let entries = self.lines.get(&stripe).into_iter().flat_map(|line| {
            let busy = line.busy.iter().flat_map(|busy| &busy.entries);
            busy.chain(&line.waiting).map(|entry| &entry.write)
        });
        entries.filter_map(move |write| {
            let (start, end) = (range.start.max(write.range.start), range.end().min(write.range.end()));
            (start < end).then(|| (ByteRange::from_to(start, end), write))
        })
    }

    /// The latest write that came.
    pub fn latest(&self) -> Sequence {
        self.came
    }

    /// The oldest write of which something is dirty still: what came before it is on the drives, or lies under what is.
    pub fn oldest_dirty(&self) -> Option<Sequence> {
        self.dirt.oldest()
    }

    /// The same, but for what waits in pinned lines.
    pub fn oldest_that_moves(&self) -> Option<Sequence> {
        let moving = self.lines.values().flat_map(|line| {
            let busy = line.busy.iter().flat_map(|busy| &busy.entries);
            busy.chain(line.waiting.iter().filter(|_| !line.is_pinned))
        });
        moving.filter(|entry| entry.write.answered).map(|entry| entry.since).min()
    }

    /// The oldest write of which something is dirty still in a line.
    pub fn oldest_of_line(&self, stripe: StripeIndex) -> Option<Sequence> {
        let line = self.lines.get(&stripe)?;
        let busy = line.busy.iter().flat_map(|busy| &busy.entries);
        let dirty = busy.chain(&line.waiting).filter(|entry| entry.write.answered);
        dirty.map(|entry| entry.since).min()
    }

    /// The lines of which something is dirty.
    pub fn dirty_lines(&self) -> impl Iterator<Item = StripeIndex> {
        let dirty = self.lines.keys().filter(|stripe| self.oldest_of_line(**stripe).is_some());
        dirty.copied()
    }

    /// How much is dirty, pinned lines and what is being destaged included.
    pub fn dirty_bytes(&self) -> ByteCount {
        self.dirt.bytes()
    }

    /// The lines that could not be destaged.
    pub fn pinned(&self) -> &BTreeSet<StripeIndex> {
        self.dirt.pinned()
    }

    /// How much is dirty of the lines that could not be destaged.
    pub fn pinned_bytes(&self) -> ByteCount {
        let lines = self.dirt.pinned().iter().filter_map(|stripe| self.lines.get(stripe));
        let dirty = lines.flat_map(|line| line.waiting.iter().filter(|entry| entry.write.answered));
        ByteCount(dirty.map(|entry| entry.write.range.len.0).sum())
    }

    /// Whether a line waits for a stream to fill it: the third rule of the crate.
    fn waits_to_be_filled(&self, stripe: StripeIndex) -> bool {
        self.requests.len() >= 2 && self.bytes >= self.shape.stripe && self.continues_a_stream(stripe)
    }

    /// Whether a line has been begun, and not filled, while the end of the line before it is on its way to the drives.
    fn continues_a_stream(&self, stripe: StripeIndex) -> bool {
        if self.shape.parity_strips == 0 {
            return false;
        }
        let before = stripe.0.checked_sub(1).and_then(|before| self.lines.get(&StripeIndex(before)));
        let ends = |line: &Line<T>| line.writes_end(self.shape.stripe) && self.is_on_its_way(line);
        let Some(line) = self.lines.get(&stripe).filter(|_| before.is_some_and(ends)) else { return false };
        let is_begun = line.waiting.iter().any(|entry| entry.write.range.start.0 == 0);
        is_begun && !self.shape.is_whole(line.waiting.iter().map(|entry| entry.write.range))
    }

    /// Whether something of a line is being destaged, or waits for that: its end will have the next line looked at.
    fn is_on_its_way(&self, line: &Line<T>) -> bool {
        !line.busy.is_empty() || line.waiting.iter().any(|entry| line.is_wanted(entry))
    }

    /// Whether a write whose host waits need not come here: it would be destaged at once, by itself, and nothing that waits, now or later, has
    /// to know of it. With parity that is what neither begins nor ends a stripe, while nothing is here of its neighbours: streams are
    /// recognised by their ends.
    pub fn may_be_passed(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        if self.shape.parity_strips == 0 {
            return !self.lines.contains_key(&stripe);
        }
        let near = StripeIndex(stripe.0.saturating_sub(1))..=StripeIndex(stripe.0.saturating_add(1));
        let is_inside = range.start.0 > 0 && range.end().0 < self.shape.stripe.0;
        is_inside && self.lines.range(near).next().is_none()
    }

    /// Whether something of a stripe waits, or is destaged.
    pub fn has_any(&self, stripe: StripeIndex) -> bool {
        self.lines.contains_key(&stripe)
    }

    /// Whether nothing waits and nothing is destaged.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn look_for_lazy(&mut self, stripe: StripeIndex) {
        let line = self.lines.get(&stripe);
        let oldest = line.and_then(Line::oldest_lazy);
        let is_full = oldest.is_some() && line.is_some_and(|line| line.is_full(&self.shape));
        self.dirt.set_lazy(stripe, oldest, is_full);
    }

    /// Checks the invariants of the crate. An error is a sentence about somebody's mistake.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let (mut bytes, mut count) = (0, 0);
        for (stripe, line) in &self.lines {
            let busy: Vec<&Range<u32>> = line.busy.iter().map(|busy| &busy.destage.columns).collect();
            let is_apart = |i: usize| busy[..i].iter().all(|other| !overlaps(other, busy[i]));
            if !(0..busy.len()).all(is_apart) {
                return Err(format!("columns of line {stripe} are destaged twice: {busy:?}"));
            }
            if line.is_empty() {
                return Err(format!("line {stripe} is kept, and is empty"));
            }
            let waits = line.waiting.iter().filter(|entry| line.is_wanted(entry));
            let mut waits = waits.filter(|_| line.busy.is_empty());
            if waits.any(|entry| entry.write.answered || !self.continues_a_stream(*stripe)) {
                return Err(format!("what waits in line {stripe} is forgotten"));
            }
            if line.is_pinned != self.dirt.pinned().contains(stripe)
                || line.oldest_lazy() != self.dirt.lazy(*stripe)
                || (line.oldest_lazy().is_some() && line.is_full(&self.shape)) != self.dirt.is_full(*stripe)
            {
                return Err(format!("line {stripe} is not known as what it is"));
            }
            let waiting: Vec<&Entry<T>> = line.waiting.iter().filter(|entry| entry.write.answered).collect();
            let covers = |i: usize, range| waiting[..i].iter().any(|entry| entry.write.range.overlaps(range));
            if (0..waiting.len()).any(|i| covers(i, waiting[i].write.range)) {
                return Err(format!("bytes of line {stripe} are dirty twice"));
            }
            let busy = line.busy.iter().flat_map(|busy| &busy.entries).filter(|entry| entry.write.answered);
            for entry in busy.chain(waiting) {
                bytes += entry.write.range.len.0;
                count += 1;
            }
        }
        match (ByteCount(bytes), count) == (self.dirt.bytes(), self.dirt.count()) {
            true => Ok(()),
            false => Err(format!("{} bytes are dirty, and {bytes} are in lines", self.dirt.bytes())),
        }
    }
}

/// A write whose host waited is done.
fn count_out<T>(requests: &mut Vec<(RequestTag, u32)>, bytes: &mut ByteCount, write: &Write<T>) {
    *bytes -= write.range.len;
    let place = requests.iter().position(|(other, _)| *other == write.request);
    let place = place.expect("a request is counted while a write of it waits");
    requests[place].1 -= 1;
    if requests[place].1 == 0 {
        requests.swap_remove(place);
    }
}
