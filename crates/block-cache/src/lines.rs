//! Cache lines: the waiting writes of each stripe, and which of them may be destaged now.

use crate::dirt::{DirtyData, Sequence};
use crate::line::{Busy, Entry, Line, overlaps};
use crate::shape::LineShape;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use units::{ByteCount, ByteRange, StripeIndex};

/// Identifies an outstanding host request. A request over several stripes is one write per stripe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestTag(pub u64);

/// The caller's data of a write: its bytes, or a reference to them.
pub trait Held: Clone {
    /// The part of `len` bytes from `at` on.
    #[must_use]
    fn cut(&self, at: ByteCount, len: ByteCount) -> Self;

    /// An acknowledged write, or a part of it, is covered by newer acknowledged data: free it. Each
    /// byte gets one call, of this or of [`Held::destaged`].
    fn settled(&self);

    /// The same after a destage. Volatile drive caches may hold it: keep it until they are flushed.
    fn destaged(&self);
}

/// A write of one stripe.
#[derive(Clone, Debug)]
pub struct Write<T> {
    /// Range in the stripe's data, in whole sectors.
    pub range: ByteRange,
    /// Columns that its destage locks. For an unacknowledged write: those of all [cache
    /// blocks](LineShape::cell) it touches, so that dirty data there is destaged before or with it.
    pub columns: Range<u32>,
    /// The request it belongs to.
    pub request: RequestTag,
    /// Whether it is acknowledged from the cache, and thus *dirty*.
    pub answered: bool,
    /// The caller's data.
    pub held: T,
}

/// Columns of a line that are being destaged, or about to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destage {
    /// The line.
    pub stripe: StripeIndex,
    /// Its columns.
    pub columns: Range<u32>,
    /// How many data strips the waiting writes touched when it began.
    pub strips: usize,
    number: u64,
}

/// The waiting and dirty writes of a volume, by stripe.
#[derive(Debug)]
pub struct Lines<T> {
    shape: LineShape,
    lines: BTreeMap<StripeIndex, Line<T>>,
    dirt: DirtyData,
    /// Number of unacknowledged writes per request. A `Vec`, since there are seldom more than a few
    /// dozen.
    requests: Vec<(RequestTag, u32)>,
    /// Total length of unacknowledged writes.
    bytes: ByteCount,
    came: Sequence,
    begun: u64,
}

impl<T: Held> Lines<T> {
    /// An empty cache.
    pub fn new(shape: LineShape) -> Lines<T> {
        let (lines, requests, bytes) = (BTreeMap::new(), Vec::new(), ByteCount::ZERO);
        Lines {
            shape,
            lines,
            dirt: DirtyData::default(),
            requests,
            bytes,
            came: Sequence(0),
            begun: 0,
        }
    }

    /// Adds a write; call [`Lines::begin`] afterwards. An acknowledged write frees the dirty data
    /// that it covers, so the caller must keep it.
    ///
    /// # Panics
    /// When the range is empty or exceeds the stripe.
    pub fn admit(&mut self, stripe: StripeIndex, write: Write<T>) {
        let is_inside = !write.range.is_empty() && write.range.end().0 <= self.shape.stripe.0;
        assert!(is_inside && !write.columns.is_empty(), "{:?} exceeds its stripe", write.range);
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

    /// Begins a destage in a line, if possible: of a wanted write whose columns are free, with its
    /// predecessors and adjacent writes. Repeat until `None`.
    pub fn begin(&mut self, stripe: StripeIndex) -> Option<Destage> {
        let waits_to_be_filled = self.waits_to_be_filled(stripe);
        let line = self.lines.get_mut(&stripe)?;
        let may_begin = |entry: &Entry<T>| {
            line.is_wanted(entry) && (entry.write.answered || !waits_to_be_filled)
        };
        let columns = line.free_columns(may_begin)?;
        let strips = line.strips_within(&columns, self.shape.strip);
        self.begun += 1;
        let destage = Destage { stripe, columns, strips, number: self.begun };
        line.busy.push(Busy {
            destage: destage.clone(),
            has_taken: false,
            entries: SmallVec::new(),
        });
        Some(destage)
    }

    /// The oldest write that a begun destage will take.
    pub fn oldest_of(&self, destage: &Destage) -> Option<&Write<T>> {
        let line = self.lines.get(&destage.stripe)?;
        let first = *line.candidates(&destage.columns).first()?;
        Some(&line.waiting[first].write)
    }

    /// The writes that a destage carries out: those waiting within its columns now, oldest first.
    /// Empty when newer data of more columns has replaced them all. `most`: limit of data and
    /// redundancy in bytes, except for a full stripe.
    ///
    /// # Panics
    /// When the destage has not begun, or has taken its writes.
    pub fn take(&mut self, destage: &Destage, most: Option<ByteCount>) -> SmallVec<[Write<T>; 1]> {
        let line = self.lines.get_mut(&destage.stripe).expect("a line exists while it is destaged");
        let candidates = line.candidates(&destage.columns);
        let ranges: SmallVec<[ByteRange; 8]> =
            candidates.iter().map(|index| line.waiting[*index].write.range).collect();
        let count = self.shape.how_many_fit(&ranges, most);
        // Each removal shifts later indices down by one.
        let taken = candidates[..count].iter().enumerate();
        let entries: SmallVec<[Entry<T>; 1]> =
            taken.map(|(before, index)| line.waiting.remove(index - before)).collect();
        let busy =
            line.busy.iter_mut().find(|busy| busy.destage == *destage).expect("it has begun");
        assert!(!std::mem::replace(&mut busy.has_taken, true), "{destage:?} has taken its writes");
        let writes = entries.iter().map(|entry| entry.write.clone()).collect();
        busy.entries = entries;
        self.look_for_lazy(destage.stripe);
        writes
    }

    /// Completes a destage. `failed`: indices of its writes that are not on the drives.
    ///
    /// Failed dirty writes stay in the line, which is *pinned* until [`Lines::retry`].
    /// Unacknowledged writes that must follow them fail as well, and are returned. Call `begin` for
    /// this line and the next one. Acknowledge completed writes only after this call, and after the
    /// dirty data under them is freed: otherwise a crash would restore the older data over them.
    ///
    /// # Panics
    /// When it has not begun, or when an unacknowledged write succeeded although an older dirty
    /// write of the same cache blocks failed.
    pub fn end(&mut self, destage: &Destage, failed: &[usize]) -> Vec<Write<T>> {
        let line = self.lines.get_mut(&destage.stripe).expect("a line exists while it is destaged");
        let place =
            line.busy.iter().position(|busy| busy.destage == *destage).expect("it has begun");
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
            assert!(has_failed || !is_behind, "{:?} must fail with the older write", cells);
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

    /// Chooses the next dirty line to destage, in ascending order. It is wanted from now on; call
    /// [`Lines::begin`]. `up_to`: only lines with dirty data up to this number.
    pub fn choose(&mut self, up_to: Option<Sequence>) -> Option<StripeIndex> {
        let stripe = self.dirt.choose(up_to)?;
        Some(self.want(stripe))
    }

    /// The same among full lines.
    pub fn choose_full(&mut self) -> Option<StripeIndex> {
        let stripe = self.dirt.choose_full()?;
        Some(self.want(stripe))
    }

    fn want(&mut self, stripe: StripeIndex) -> StripeIndex {
        let line = self.lines.get_mut(&stripe).expect("a line exists while a write waits");
        line.wanted = self.came;
        self.look_for_lazy(stripe);
        stripe
    }

    /// Whether [`Lines::choose_full`] would find a line.
    pub fn has_full(&self) -> bool {
        self.dirt.has_full()
    }

    /// Whether [`Lines::choose`] would find a line.
    pub fn waits_since(&self, up_to: Sequence) -> bool {
        self.dirt.oldest_lazy().is_some_and(|oldest| oldest <= up_to)
    }

    /// Requests the destage of a line, also of a pinned one; call `begin`. False: it has no data.
    pub fn want_line(&mut self, stripe: StripeIndex) -> bool {
        let Some(line) = self.lines.get_mut(&stripe) else { return false };
        (line.is_pinned, line.wanted) = (false, self.came);
        self.dirt.set_pinned(stripe, false);
        self.look_for_lazy(stripe);
        true
    }

    /// Whether a line has no dirty data up to this number, except for pinned data.
    pub fn is_line_settled(&self, stripe: StripeIndex, up_to: Sequence) -> bool {
        let Some(line) = self.lines.get(&stripe) else { return true };
        let is_left = |entry: &Entry<T>| entry.write.answered && entry.since <= up_to;
        let is_being_destaged = line.busy.iter().flat_map(|busy| &busy.entries).any(is_left);
        !is_being_destaged && (line.is_pinned || !line.waiting.iter().any(is_left))
    }

    /// Unpins up to `most` lines and requests their destage; call `begin` for each.
    pub fn retry(&mut self, most: usize) -> Vec<StripeIndex> {
        let pinned: Vec<StripeIndex> = self.dirt.pinned().iter().take(most).copied().collect();
        for stripe in &pinned {
            self.dirt.set_pinned(*stripe, false);
            let line = self.lines.get_mut(stripe).expect("a line exists while it is pinned");
            (line.is_pinned, line.wanted) = (false, self.came);
        }
        pinned
    }

    /// Cached writes that overlap a range, each with the overlap. Later ones take precedence.
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
            let (start, end) =
                (range.start.max(write.range.start), range.end().min(write.range.end()));
            (start < end).then(|| (ByteRange::from_to(start, end), write))
        })
    }

    /// The number of the latest write.
    pub fn latest(&self) -> Sequence {
        self.came
    }

    /// The oldest number with dirty data: all earlier writes are on the drives or replaced.
    pub fn oldest_dirty(&self) -> Option<Sequence> {
        self.dirt.oldest()
    }

    /// The same without the waiting data of pinned lines.
    pub fn oldest_that_moves(&self) -> Option<Sequence> {
        let moving = self.lines.values().flat_map(|line| {
            let busy = line.busy.iter().flat_map(|busy| &busy.entries);
            busy.chain(line.waiting.iter().filter(|_| !line.is_pinned))
        });
        moving.filter(|entry| entry.write.answered).map(|entry| entry.since).min()
    }

    /// The oldest number with dirty data in a line.
    pub fn oldest_of_line(&self, stripe: StripeIndex) -> Option<Sequence> {
        let line = self.lines.get(&stripe)?;
        let busy = line.busy.iter().flat_map(|busy| &busy.entries);
        let dirty = busy.chain(&line.waiting).filter(|entry| entry.write.answered);
        dirty.map(|entry| entry.since).min()
    }

    /// The lines with dirty data.
    pub fn dirty_lines(&self) -> impl Iterator<Item = StripeIndex> {
        let dirty = self.lines.keys().filter(|stripe| self.oldest_of_line(**stripe).is_some());
        dirty.copied()
    }

    /// Total dirty data, with pinned lines and running destages.
    pub fn dirty_bytes(&self) -> ByteCount {
        self.dirt.bytes()
    }

    /// The pinned lines.
    pub fn pinned(&self) -> &BTreeSet<StripeIndex> {
        self.dirt.pinned()
    }

    /// Dirty data of the pinned lines.
    pub fn pinned_bytes(&self) -> ByteCount {
        let lines = self.dirt.pinned().iter().filter_map(|stripe| self.lines.get(stripe));
        let dirty = lines.flat_map(|line| line.waiting.iter().filter(|entry| entry.write.answered));
        ByteCount(dirty.map(|entry| entry.write.range.len.0).sum())
    }

    /// Whether a line waits to be filled by sequential writes: rule 3 of the crate.
    fn waits_to_be_filled(&self, stripe: StripeIndex) -> bool {
        self.requests.len() >= 2
            && self.bytes >= self.shape.stripe
            && self.continues_a_stream(stripe)
    }

    /// Whether a line is new and partial while the end of the previous line is destaged.
    fn continues_a_stream(&self, stripe: StripeIndex) -> bool {
        if self.shape.parity_strips == 0 {
            return false;
        }
        let before =
            stripe.0.checked_sub(1).and_then(|before| self.lines.get(&StripeIndex(before)));
        let ends = |line: &Line<T>| line.writes_end(self.shape.stripe) && self.is_on_its_way(line);
        let Some(line) = self.lines.get(&stripe).filter(|_| before.is_some_and(ends)) else {
            return false;
        };
        let is_begun = line.waiting.iter().any(|entry| entry.write.range.start.0 == 0);
        is_begun && !self.shape.is_whole(line.waiting.iter().map(|entry| entry.write.range))
    }

    /// Whether a destage of the line runs or is about to begin: its end re-examines the next line.
    fn is_on_its_way(&self, line: &Line<T>) -> bool {
        !line.busy.is_empty() || line.waiting.iter().any(|entry| line.is_wanted(entry))
    }

    /// Whether an unacknowledged write may bypass the cache: it would be destaged at once, alone.
    /// With parity it must not touch an end of its stripe, and neither this line nor its neighbours
    /// may exist: streams are recognised by their ends.
    pub fn may_be_passed(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        if self.shape.parity_strips == 0 {
            return !self.lines.contains_key(&stripe);
        }
        let near =
            StripeIndex(stripe.0.saturating_sub(1))..=StripeIndex(stripe.0.saturating_add(1));
        let is_inside = range.start.0 > 0 && range.end().0 < self.shape.stripe.0;
        is_inside && self.lines.range(near).next().is_none()
    }

    /// Whether a stripe has waiting writes or running destages.
    pub fn has_any(&self, stripe: StripeIndex) -> bool {
        self.lines.contains_key(&stripe)
    }

    /// Whether there are no waiting writes and no running destages.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn look_for_lazy(&mut self, stripe: StripeIndex) {
        let line = self.lines.get(&stripe);
        let oldest = line.and_then(Line::oldest_lazy);
        let is_full = oldest.is_some() && line.is_some_and(|line| line.is_full(&self.shape));
        self.dirt.set_lazy(stripe, oldest, is_full);
    }

    /// Checks the invariants of the crate.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&self) -> Result<(), String> {
        let (mut bytes, mut count) = (0, 0);
        for (stripe, line) in &self.lines {
            let busy: Vec<&Range<u32>> =
                line.busy.iter().map(|busy| &busy.destage.columns).collect();
            let is_apart = |i: usize| busy[..i].iter().all(|other| !overlaps(other, busy[i]));
            if !(0..busy.len()).all(is_apart) {
                return Err(format!("columns of line {stripe} are destaged twice: {busy:?}"));
            }
            if line.is_empty() {
                return Err(format!("line {stripe} is empty and was not removed"));
            }
            let waits = line.waiting.iter().filter(|entry| line.is_wanted(entry));
            let mut waits = waits.filter(|_| line.busy.is_empty());
            if waits.any(|entry| entry.write.answered || !self.continues_a_stream(*stripe)) {
                return Err(format!("wanted writes of line {stripe} wait without a destage"));
            }
            if line.is_pinned != self.dirt.pinned().contains(stripe)
                || line.oldest_lazy() != self.dirt.lazy(*stripe)
                || (line.oldest_lazy().is_some() && line.is_full(&self.shape))
                    != self.dirt.is_full(*stripe)
            {
                return Err(format!("line {stripe} differs from its entry in the index"));
            }
            let waiting: Vec<&Entry<T>> =
                line.waiting.iter().filter(|entry| entry.write.answered).collect();
            let covers = |i: usize, range| {
                waiting[..i].iter().any(|entry| entry.write.range.overlaps(range))
            };
            if (0..waiting.len()).any(|i| covers(i, waiting[i].write.range)) {
                return Err(format!("bytes of line {stripe} are dirty twice"));
            }
            let busy = line
                .busy
                .iter()
                .flat_map(|busy| &busy.entries)
                .filter(|entry| entry.write.answered);
            for entry in busy.chain(waiting) {
                bytes += entry.write.range.len.0;
                count += 1;
            }
        }
        match (ByteCount(bytes), count) == (self.dirt.bytes(), self.dirt.count()) {
            true => Ok(()),
            false => Err(format!("{} dirty bytes counted, {bytes} in lines", self.dirt.bytes())),
        }
    }
}

/// Uncounts a completed write.
fn count_out<T>(requests: &mut Vec<(RequestTag, u32)>, bytes: &mut ByteCount, write: &Write<T>) {
    *bytes -= write.range.len;
    let place = requests.iter().position(|(other, _)| *other == write.request);
    let place = place.expect("a request is counted while a write of it waits");
    requests[place].1 -= 1;
    if requests[place].1 == 0 {
        requests.swap_remove(place);
    }
}
