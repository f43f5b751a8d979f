//! The allowed values of every sector of the volume.
//!
//! # The model
//! Every write, zeroing and trim leaves an *entry* at each sector it touches. An entry is *issued*,
//! then *finished*: acknowledged, failed, or cut off by a crash. An entry that finished before
//! another one was issued is earlier; otherwise their order is open.
//!
//! - An acknowledged write *supersedes* earlier entries. A read may find entries that were not
//!   superseded when it began.
//! - A read that finds one of several candidates, with no other operation outstanding, supersedes
//!   the others. (Not while mirrors or parity may be inconsistent after a crash: see
//!   [`Oracle::settle`].)
//! - Entries superseded before a flush began are *gone* when the flush is acknowledged; an
//!   acknowledged durable write removes earlier entries immediately.
//! - A kill changes nothing; outstanding operations finish.
//! - A power cut leaves, for each sector independently, any entry that is not gone.
//!
//! - An unwritten sector reads the same from the end of the resync on, without any drives. A power
//!   cut may undo that, unless a flush followed.
//!
//! A trim, a failed write and an interrupted write supersede nothing: their content is one more
//! candidate.
//!
//! A silently corrupted sector is *excused*: it may have any value.

mod entry;
mod look;

use crate::stamp::{self, Generation, Sector};
use entry::{Cell, Cells, End, Entry};
pub use entry::{Kind, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// A point in the order of events: every issue and every end has its own.
pub type Tick = u64;

/// A read found a value that is not allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The sector.
    pub sector: Sector,
    /// The value and the allowed values, for people.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An issued write, zeroing or trim.
#[derive(Clone, Copy, Debug)]
#[must_use = "an issued operation must be finished"]
pub struct Issued {
    /// Its number.
    pub generation: Generation,
    kind: Kind,
    issued: Tick,
    first: u64,
    end: u64,
}

/// A read or a flush in progress.
#[derive(Clone, Copy, Debug)]
#[must_use = "a begun operation must be ended"]
pub struct Begun(Tick);

/// See the [module](self).
#[derive(Clone)]
pub struct Oracle {
    sector: ByteCount,
    sectors: u64,
    /// Sectors per stripe, for each possible layout of the volume.
    stripes: Vec<u64>,
    beginning: Value,
    /// Whether a trim may leave any value; otherwise it leaves zeroes or the old value.
    trims_leave_anything: bool,
    clock: Tick,
    next_generation: u64,
    touched: Cells,
    /// Reads in progress: their possible values are kept for messages and checks.
    reads: Vec<Tick>,
    /// Since when, in this life, all redundancy is consistent.
    agrees_since: Option<Tick>,
    /// Sectors with an unknown first value, and the value that a read found with consistent
    /// redundancy.
    unwritten: BTreeMap<u64, Seen>,
    excused: BTreeSet<u64>,
    /// Whether writes are acknowledged before the drives have them.
    answers_early: bool,
    /// Whether entries superseded only by durable writes are kept: see
    /// [`Oracle::without_promises`].
    remembers: bool,
}

/// The value of an unwritten sector.
#[derive(Clone, Debug)]
struct Seen {
    bytes: Rc<[u8]>,
    at: Tick,
    /// Durable: a power cut does not change it.
    certain: bool,
}

impl Oracle {
    /// The oracle of an unwritten volume: it holds `beginning`. `stripes`: the stripe lengths of
    /// its possible layouts.
    pub fn new(
        sector: SectorSize,
        capacity: ByteCount,
        stripes: &[ByteCount],
        beginning: Value,
        trims_leave_anything: bool,
    ) -> Oracle {
        let sectors = capacity.0 / sector.bytes().0;
        Oracle {
            sector: sector.bytes(),
            sectors,
            stripes: stripes.iter().map(|stripe| (stripe.0 / sector.bytes().0).max(1)).collect(),
            beginning,
            trims_leave_anything,
            clock: 1,
            next_generation: 1,
            touched: Cells::new(sectors),
            reads: Vec::new(),
            agrees_since: None,
            unwritten: BTreeMap::new(),
            excused: BTreeSet::new(),
            answers_early: false,
            remembers: false,
        }
    }

    /// Sets whether writes are acknowledged before the drives have them.
    #[must_use]
    pub fn answering_early(self, answers_early: bool) -> Oracle {
        Oracle { answers_early, ..self }
    }

    /// Sets whether durable writes may be durable only by a log that may be discarded.
    #[must_use]
    pub fn remembering(self, remembers: bool) -> Oracle {
        Oracle { remembers, ..self }
    }

    /// See [`Oracle::remembering`].
    pub fn remembers(&self) -> bool {
        self.remembers
    }

    /// Sets the number of the first write.
    #[must_use]
    pub fn numbered_from(self, generation: u64) -> Oracle {
        Oracle { next_generation: generation, ..self }
    }

    /// Continues the numbers of an earlier volume: no write of the two has the same number.
    #[must_use]
    pub fn after(self, before: &Oracle) -> Oracle {
        Oracle { clock: before.clock, next_generation: before.next_generation, ..self }
    }

    /// The volume's sector size.
    pub fn sector(&self) -> ByteCount {
        self.sector
    }

    /// The number of sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    fn tick(&mut self) -> Tick {
        self.clock += 1;
        self.clock
    }

    // Operations on the volume.

    /// Whether a write may be issued now: no partial write of a sector in this range is
    /// outstanding, because the result would depend on their order.
    pub fn may_write(&self, first: Sector, count: u64) -> bool {
        !self.touched.of(first.0..first.0 + count).any(|cell| {
            let is_patch = |entry: &Entry| matches!(entry.value, Value::Patched(_));
            cell.entries.iter().any(|entry| entry.finished.is_none() && is_patch(entry))
        })
    }

    fn issue(&mut self, kind: Kind, first: Sector, count: u64, value: &Value) -> Issued {
        let generation = Generation(self.next_generation);
        self.next_generation += 1;
        let issued = self.tick();
        let operation = Issued { generation, kind, issued, first: first.0, end: first.0 + count };
        let whole = self.whole_stripes(&operation);
        for sector in operation.first..operation.end {
            let of_whole_stripe = whole.contains(&sector);
            let entry = Entry { of_whole_stripe, ..Entry::new(generation, kind, value.clone()) };
            self.touched.push(sector, entry, &self.beginning);
        }
        self.note_joined(&operation);
        operation
    }

    /// Writes that are outstanding or cached together may reach the drives together: if they cover
    /// a whole stripe, it may be written as one full-stripe write.
    fn note_joined(&mut self, operation: &Issued) {
        let (operation, sectors) = (*operation, self.sectors);
        let stripes = self.stripes.clone().into_iter().flat_map(|len| {
            let touched = operation.first / len..operation.end.div_ceil(len).min(sectors / len);
            touched.map(move |stripe| stripe * len..(stripe + 1) * len)
        });
        for stripe in stripes {
            let (early, len) = (self.answers_early, stripe.end - stripe.start);
            let is_open = move |entry: &Entry| {
                let may_wait = early && !entry.gone;
                entry.kind != Kind::Trim && (entry.finished.is_none() || may_wait)
            };
            let cells = self.touched.of(stripe.clone()).filter(|cell| {
                // A sector with a single candidate is on the drives. A write that is durable only
                // by a log may still be in the cache.
                let entries = cell.entries.iter();
                entries.clone().any(is_open)
                    && (entries.clone().count() > 1
                        || entries.clone().any(|entry| entry.finished.is_none()))
            });
            let open = cells.count();
            if open as u64 == len {
                self.touched.each(stripe, |entries| {
                    entries
                        .iter_mut()
                        .filter(|entry| is_open(entry))
                        .for_each(|entry| entry.of_whole_stripe = true);
                });
            }
        }
    }

    /// The sectors of the stripes that an operation covers completely, by any possible layout.
    pub fn whole_stripes(&self, operation: &Issued) -> Range<u64> {
        let whole = |len: &u64| (operation.first.next_multiple_of(*len), operation.end / len * len);
        let mut all = self.stripes.iter().map(whole).filter(|(start, end)| start < end);
        let Some(first) = all.next() else { return operation.end..operation.end };
        let (start, end) =
            all.fold(first, |(start, end), other| (start.min(other.0), end.max(other.1)));
        start..end
    }

    /// Issues a write of whole sectors, each with its stamp.
    pub fn write(&mut self, first: Sector, count: u64) -> Issued {
        self.issue(Kind::Write, first, count, &Value::Stamp)
    }

    /// Issues zeroes.
    pub fn write_zeroes(&mut self, first: Sector, count: u64) -> Issued {
        self.issue(Kind::WriteZeroes, first, count, &Value::Zeroes)
    }

    /// Issues a trim.
    pub fn trim(&mut self, first: Sector, count: u64) -> Issued {
        let value = if self.trims_leave_anything { Value::Anything } else { Value::Zeroes };
        self.issue(Kind::Trim, first, count, &value)
    }

    /// Issues a write of any byte range: whole sectors get their stamp, others a part of it.
    /// Returns the payload as well. `None` if the rest of a partial sector is unknown, or being
    /// written.
    pub fn write_bytes(&mut self, range: ByteRange) -> Option<(Issued, Vec<u8>)> {
        let (first, end) = self.sectors_around(range);
        if !self.may_write(Sector(first), end - first) {
            return None;
        }
        let mut edges = BTreeMap::new();
        for sector in [first, end - 1] {
            if !range.contains(self.range_of(sector)) {
                edges.insert(sector, self.known_content(sector)?);
            }
        }
        let issued = self.issue(Kind::Write, Sector(first), end - first, &Value::Stamp);
        let mut payload = Vec::with_capacity(range.len.as_usize());
        let mut stamp = vec![0; self.sector.as_usize()];
        for sector in first..end {
            stamp::fill(&mut stamp, Sector(sector), issued.generation);
            let whole = self.range_of(sector);
            let part = whole.intersection(range);
            let (from, to) =
                ((part.start - whole.start).as_usize(), (part.end() - whole.start).as_usize());
            payload.extend_from_slice(&stamp[from..to]);
            if let Some(mut content) = edges.remove(&sector) {
                content[from..to].copy_from_slice(&stamp[from..to]);
                if let Some(entry) =
                    self.touched.get_mut(sector).and_then(|entries| entries.last_mut())
                {
                    entry.value = Value::Patched(content.into());
                }
            }
        }
        Some((issued, payload))
    }

    fn range_of(&self, sector: u64) -> ByteRange {
        ByteRange::new(ByteOffset(sector * self.sector.0), self.sector)
    }

    fn sectors_around(&self, range: ByteRange) -> (u64, u64) {
        (range.start.0 / self.sector.0, range.end().0.div_ceil(self.sector.0))
    }

    /// The value of a sector, if it is certain and no write is outstanding.
    fn known_content(&mut self, sector: u64) -> Option<Vec<u8>> {
        if self.excused.contains(&sector) {
            return None;
        }
        let size = self.sector.as_usize();
        let entries = self.touched.touch(sector, &self.beginning);
        let mut current = entries.iter().filter(|entry| entry.superseded.is_none());
        let (only, None) = (current.next()?, current.next()) else { return None };
        only.finished?;
        only.content(Sector(sector), size)
    }

    /// An operation was acknowledged. `durable`: it survives a power cut.
    pub fn acknowledge(&mut self, operation: &Issued, durable: bool) {
        let end = if operation.kind == Kind::Trim { End::Perhaps } else { End::Acknowledged };
        let now = self.finish(operation, end);
        if end == End::Perhaps {
            return;
        }
        let (oldest, remembers) = (self.oldest_read(), self.remembers);
        self.touched.each(operation.first..operation.end, |entries| {
            for entry in entries.iter_mut().filter(|entry| entry.is_before(operation.issued)) {
                entry.superseded.get_or_insert(now);
                entry.is_promised_away |= durable && !entry.gone && remembers;
                entry.gone |= durable;
            }
            forget(entries, oldest);
        });
    }

    /// An operation failed: its range has old data, new data or both.
    pub fn fail(&mut self, operation: &Issued) {
        self.finish(operation, End::Failed);
        self.touched.each(operation.first..operation.end, |entries| {
            entries.iter_mut().for_each(|entry| entry.unsettled = true);
        });
    }

    fn finish(&mut self, operation: &Issued, end: End) -> Tick {
        let now = self.tick();
        self.touched.each(operation.first..operation.end, |entries| {
            let own = entries.iter_mut().find(|entry| entry.generation == operation.generation);
            if let Some(entry) = own {
                entry.finished = Some((now, end));
            }
        });
        now
    }

    /// A flush begins.
    pub fn begin_flush(&mut self) -> Begun {
        Begun(self.tick())
    }

    /// A flush was acknowledged. `may_be_by_log`: possibly only log devices have the covered
    /// writes.
    pub fn acknowledge_flush(&mut self, flush: Begun, may_be_by_log: bool) {
        let by_log = may_be_by_log && self.remembers;
        let oldest = self.oldest_read();
        self.touched.each_of_several(|entries| {
            for entry in entries.iter_mut() {
                if entry.superseded.is_some_and(|at| at < flush.0) {
                    let is_promised_away = by_log && (entry.is_promised_away || !entry.gone);
                    (entry.gone, entry.is_promised_away) = (true, is_promised_away);
                }
            }
            forget(entries, oldest);
        });
        self.unwritten.values_mut().for_each(|seen| seen.certain |= seen.at < flush.0);
    }

    /// The start of the oldest read in progress.
    fn oldest_read(&self) -> Tick {
        self.reads.iter().min().copied().unwrap_or(Tick::MAX)
    }

    // External events.

    /// A kill. Returns the sectors of outstanding full-stripe writes.
    pub fn kill(&mut self) -> Vec<Sector> {
        // Values that were read stay, but mirrors may hold different candidates.
        let now = self.crash(|_| {});
        self.torn_stripes(|entry| entry.finished == Some((now, End::CutOff)))
    }

    /// A power cut. Returns the sectors of full-stripe writes that were outstanding, or that drives
    /// may have lost partly.
    pub fn power_cut(&mut self) -> Vec<Sector> {
        self.unwritten.retain(|_, seen| seen.certain);
        self.crash(|entries| {
            // A write that was durable by a log may be in a cache until its log is discarded.
            entries.retain(|entry| !entry.gone || entry.is_promised_away);
            let left = entries.iter_mut().filter(|entry| !entry.gone);
            left.for_each(|entry| entry.superseded = None);
        });
        self.torn_stripes(|_| true)
    }

    /// The log with durable writes is lost: from now on, durable writes count as cached ones,
    /// unless a flush covered them.
    pub fn without_promises(&mut self) {
        self.touched.each_of_several(|entries| {
            for entry in entries.iter_mut().filter(|entry| entry.is_promised_away) {
                (entry.gone, entry.is_promised_away) = (false, false);
            }
        });
    }

    /// Sectors with several candidates, one of them from a full-stripe write that only some drives
    /// may have.
    fn torn_stripes(&self, may_be_torn: impl Fn(&Entry) -> bool) -> Vec<Sector> {
        let is_one = |entry: &Entry| entry.of_whole_stripe && may_be_torn(entry);
        let torn = self.touched.several().filter(|cell| cell.candidates() > 1);
        let torn = torn.filter(|cell| cell.entries.iter().any(is_one));
        torn.map(|cell| Sector(cell.sector)).collect()
    }

    fn crash(&mut self, mut change: impl FnMut(&mut Vec<Entry>)) -> Tick {
        let now = self.tick();
        self.reads.clear();
        self.agrees_since = None;
        self.touched.each_of_several(|entries| {
            for entry in entries.iter_mut().filter(|entry| entry.finished.is_none()) {
                entry.finished = Some((now, End::CutOff));
            }
            change(entries);
            if entries.iter().filter(|entry| entry.superseded.is_none()).count() > 1 {
                entries.iter_mut().for_each(|entry| entry.unsettled = true);
            }
        });
        now
    }

    /// Redundancy is consistent again: the value that a read finds from now on is final.
    pub fn settle(&mut self) {
        let now = self.tick();
        self.agrees_since.get_or_insert(now);
        self.touched.each_of_several(|entries| {
            entries.iter_mut().for_each(|entry| entry.unsettled = false)
        });
    }

    /// An operator accepted the loss of these sectors: they may have any value.
    pub fn give_up(&mut self, first: Sector, count: u64) {
        let operation = self.issue(Kind::GivenUp, first, count, &Value::Anything);
        self.finish(&operation, End::Acknowledged);
        self.touched.each(operation.first..operation.end, |entries| {
            entries.retain(|entry| entry.generation == operation.generation);
        });
    }

    /// A sector may have any value from now on, even after writes: a drive silently corrupted it or
    /// its redundancy.
    pub fn excuse(&mut self, sector: Sector) {
        self.excused.insert(sector.0);
    }

    /// Returns to an earlier oracle, but keeps the silent corruption since then.
    pub fn become_what_was_known(&mut self, before: Oracle) {
        let since = std::mem::replace(self, before);
        self.excused.extend(since.excused);
    }

    /// The number of excused sectors.
    pub fn excused(&self) -> u64 {
        self.excused.len() as u64
    }

    /// Sectors with several candidates.
    pub fn undecided(&self) -> Vec<Sector> {
        self.several_where(|cell| cell.candidates() > 1)
    }

    /// Sectors whose drives may have an older value than the acknowledged one, or are about to be
    /// written.
    pub fn underway(&self) -> Vec<Sector> {
        let is_one =
            |cell: &Cell| cell.entries.iter().filter(|entry| !entry.is_promised_away).count() > 1;
        self.several_where(|cell| self.answers_early && (!self.remembers || is_one(cell)))
    }

    fn several_where(&self, is_one: impl Fn(&Cell) -> bool) -> Vec<Sector> {
        let several = self.touched.several().filter(|cell| is_one(cell));
        let mut sectors: Vec<Sector> = several.map(|cell| Sector(cell.sector)).collect();
        sectors.sort_unstable();
        sectors
    }
}

/// Removes gone entries that no read in progress may find; the oldest read began at `oldest`.
fn forget(entries: &mut Vec<Entry>, oldest: Tick) {
    if entries.len() > 1 {
        let is_kept = |entry: &Entry| !entry.gone || entry.is_promised_away;
        entries.retain(|entry| is_kept(entry) || entry.superseded.is_none_or(|at| at >= oldest));
    }
}

#[cfg(test)]
mod tests;
