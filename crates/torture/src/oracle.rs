//! What every sector of the volume may hold.
//!
//! # The model
//! Every write, zeroing and trim leaves an *entry* with each sector it touches. An entry is *issued*, then
//! *finished*: acknowledged, failed, or cut off by a crash. Of two entries, one that finished before the other
//! was issued is the earlier; otherwise either may be.
//!
//! - An acknowledged write *supersedes* what is earlier. A read may find what was not superseded when it began.
//! - A read that finds one of several candidates, with nothing under way, settles the matter: it supersedes the
//!   others. (Not while mirrors or parity may still disagree after a crash: see [`Oracle::settle`].)
//! - What was superseded before a flush began is *gone* when the flush is acknowledged; what is earlier than an
//!   acknowledged durable write is gone at once.
//! - The death of the process leaves everything as it is, but what was under way is as finished as it gets.
//! - A power cut leaves, of each sector by itself, anything that is not gone.
//!
//! - What nobody ever wrote reads the same for ever, whichever drives are out, from the moment on that all redundancy
//!   agreed; a power cut may take that back, if no flush came since.
//!
//! A trim, a failed write and one cut off by a crash supersede nothing: their content is one more candidate.
//!
//! A sector that a drive changed without telling anybody is *excused*: nothing is said of it any more.

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

/// A point in the order of things: every issue and every end has its own.
pub type Tick = u64;

/// A read found what it must not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Where.
    pub sector: Sector,
    /// What, in people's words, with what was allowed.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A write, zeroing or trim that was issued.
#[derive(Clone, Copy, Debug)]
#[must_use = "what was issued is finished some time"]
pub struct Issued {
    /// Its number.
    pub generation: Generation,
    kind: Kind,
    issued: Tick,
    first: u64,
    end: u64,
}

/// A read or a flush that has begun.
#[derive(Clone, Copy, Debug)]
#[must_use = "what has begun ends some time"]
pub struct Begun(Tick);

/// See the [module](self).
#[derive(Clone)]
pub struct Oracle {
    sector: ByteCount,
    sectors: u64,
    /// Sectors of a stripe, by each layout that the volume may have.
    stripes: Vec<u64>,
    beginning: Value,
    /// Whether a trim may leave anything at all; otherwise it leaves zeroes or nothing happens.
    trims_leave_anything: bool,
    clock: Tick,
    next_generation: u64,
    touched: Cells,
    /// Reads under way: what they may still find is kept for messages and checks.
    reads: Vec<Tick>,
    /// Since when, in this life, all redundancy agrees.
    agrees_since: Option<Tick>,
    /// Sectors of which nobody knew what they held at the beginning, and what a read found when redundancy agreed.
    unwritten: BTreeMap<u64, Seen>,
    excused: BTreeSet<u64>,
    /// Whether writes are acknowledged before they are on the drives.
    answers_early: bool,
    /// Whether it is remembered what durable writes alone took the place of: see [`Oracle::without_promises`].
    remembers: bool,
}

/// What a sector held that nobody had written.
#[derive(Clone, Debug)]
struct Seen {
    bytes: Rc<[u8]>,
    at: Tick,
    /// Not even a power cut changes it any more.
    certain: bool,
}

impl Oracle {
    /// Of a volume of which nothing was written: it holds `beginning`. `stripes`: the length of its stripes, by each layout that it may have.
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

    /// The same of a volume whose writes are acknowledged before they are on the drives.
    #[must_use]
    pub fn answering_early(self, answers_early: bool) -> Oracle {
        Oracle { answers_early, ..self }
    }

    /// The same of a volume whose durable writes may be promised by a log alone, which may be given up.
    #[must_use]
    pub fn remembering(self, remembers: bool) -> Oracle {
        Oracle { remembers, ..self }
    }

    /// Whether it is: see [`Oracle::remembering`].
    pub fn remembers(&self) -> bool {
        self.remembers
    }

    /// The same of a volume whose writes have numbers from there on.
    #[must_use]
    pub fn numbered_from(self, generation: u64) -> Oracle {
        Oracle { next_generation: generation, ..self }
    }

    /// The same of a volume of which there was another one before: no write of the two has the same number.
    #[must_use]
    pub fn after(self, before: &Oracle) -> Oracle {
        Oracle { clock: before.clock, next_generation: before.next_generation, ..self }
    }

    /// The volume's sector.
    pub fn sector(&self) -> ByteCount {
        self.sector
    }

    /// How many sectors there are.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    fn tick(&mut self) -> Tick {
        self.clock += 1;
        self.clock
    }

    // What is done to the volume.

    /// Whether a write may be issued now: no part of a sector is being rewritten in this range, whose outcome
    /// would depend on the order of the two.
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

    /// Writes that are outstanding together, or wait in a cache together, may go to the drives together: where they make up a
    /// whole stripe, it is written as one, as if one operation had covered it.
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
                // Where there is one thing alone, it is on the drives. What a log has promised alone is in the cache still, perhaps.
                let entries = cell.entries.iter();
                entries.clone().any(is_open)
                    && (entries.clone().count() > 1 || entries.clone().any(|entry| entry.finished.is_none()))
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

    /// The sectors of the stripes that an operation covers as a whole, by any layout that the volume may have.
    pub fn whole_stripes(&self, operation: &Issued) -> Range<u64> {
        let whole = |len: &u64| (operation.first.next_multiple_of(*len), operation.end / len * len);
        let mut all = self.stripes.iter().map(whole).filter(|(start, end)| start < end);
        let Some(first) = all.next() else { return operation.end..operation.end };
        let (start, end) = all.fold(first, |(start, end), other| (start.min(other.0), end.max(other.1)));
        start..end
    }

    /// Issues a write of whole sectors, each to be filled with its stamp.
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

    /// Issues a write of any bytes. Sectors that it covers whole get their stamp, of the others the part; gives
    /// the payload with it. `None` if it is not known what the other parts hold, or somebody writes there.
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
            let (from, to) = ((part.start - whole.start).as_usize(), (part.end() - whole.start).as_usize());
            payload.extend_from_slice(&stamp[from..to]);
            if let Some(mut content) = edges.remove(&sector) {
                content[from..to].copy_from_slice(&stamp[from..to]);
                if let Some(entry) = self.touched.get_mut(sector).and_then(|entries| entries.last_mut()) {
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

    /// What a sector holds, if that is one thing and nobody is changing it.
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

    /// An operation was acknowledged. `durable`: with the promise that a power cut cannot take it back.
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

    /// An operation failed: its range holds old, new or both.
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

    /// A flush was acknowledged. `may_be_by_log`: perhaps what it covers is on log devices alone.
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

    /// When the oldest of the reads under way began.
    fn oldest_read(&self) -> Tick {
        self.reads.iter().min().copied().unwrap_or(Tick::MAX)
    }

    // What happens to it.

    /// The process died. Sectors of whole stripes that were being written.
    pub fn kill(&mut self) -> Vec<Sector> {
        // What was read before stays read: but of several candidates the mirrors may hold different ones.
        let now = self.crash(|_| {});
        self.torn_stripes(|entry| entry.finished == Some((now, End::CutOff)))
    }

    /// The power went. Sectors of whole stripes that were being written, or of which the drives may have lost some.
    pub fn power_cut(&mut self) -> Vec<Sector> {
        self.unwritten.retain(|_, seen| seen.certain);
        self.crash(|entries| {
            // What a log alone promised may be in a cache once it was carried out, until its log is given up.
            entries.retain(|entry| !entry.gone || entry.is_promised_away);
            let left = entries.iter_mut().filter(|entry| !entry.gone);
            left.for_each(|entry| entry.superseded = None);
        });
        self.torn_stripes(|_| true)
    }

    /// From now on it is as if durable writes had been promised no more than others, but for what a flush has covered: what promised
    /// them is lost.
    pub fn without_promises(&mut self) {
        self.touched.each_of_several(|entries| {
            for entry in entries.iter_mut().filter(|entry| entry.is_promised_away) {
                (entry.gone, entry.is_promised_away) = (false, false);
            }
        });
    }

    /// Sectors that may hold one of several things, one of which was written with the whole stripe, and may be on some drives alone.
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

    /// All redundancy agrees with the data again: what a read finds from now on, it finds again.
    pub fn settle(&mut self) {
        let now = self.tick();
        self.agrees_since.get_or_insert(now);
        self.touched.each_of_several(|entries| entries.iter_mut().for_each(|entry| entry.unsettled = false));
    }

    /// What these sectors hold is lost, and the operator knows: from now on they may hold anything.
    pub fn give_up(&mut self, first: Sector, count: u64) {
        let operation = self.issue(Kind::GivenUp, first, count, &Value::Anything);
        self.finish(&operation, End::Acknowledged);
        self.touched.each(operation.first..operation.end, |entries| {
            entries.retain(|entry| entry.generation == operation.generation);
        });
    }

    /// Nothing is said of a sector any more, whatever is written to it: a drive changed it, or what redundancy says of
    /// it, and told nobody.
    pub fn excuse(&mut self, sector: Sector) {
        self.excused.insert(sector.0);
    }

    /// Knows what was known by another one, made before. What drives changed since, without telling anybody, they changed all the same.
    pub fn become_what_was_known(&mut self, before: Oracle) {
        let since = std::mem::replace(self, before);
        self.excused.extend(since.excused);
    }

    /// How many sectors nothing is said of any more.
    pub fn excused(&self) -> u64 {
        self.excused.len() as u64
    }

    /// Sectors of which it is not certain what they hold.
    pub fn undecided(&self) -> Vec<Sector> {
        self.several_where(|cell| cell.candidates() > 1)
    }

    /// Sectors of which the drives may hold something older than what was acknowledged, or be about to be given that.
    pub fn underway(&self) -> Vec<Sector> {
        let is_one = |cell: &Cell| cell.entries.iter().filter(|entry| !entry.is_promised_away).count() > 1;
        self.several_where(|cell| self.answers_early && (!self.remembers || is_one(cell)))
    }

    fn several_where(&self, is_one: impl Fn(&Cell) -> bool) -> Vec<Sector> {
        let several = self.touched.several().filter(|cell| is_one(cell));
        let mut sectors: Vec<Sector> = several.map(|cell| Sector(cell.sector)).collect();
        sectors.sort_unstable();
        sectors
    }
}

/// Forgets what is gone and no read under way may still find; the oldest of them began at `oldest`.
fn forget(entries: &mut Vec<Entry>, oldest: Tick) {
    if entries.len() > 1 {
        let is_kept = |entry: &Entry| !entry.gone || entry.is_promised_away;
        entries.retain(|entry| is_kept(entry) || entry.superseded.is_none_or(|at| at >= oldest));
    }
}

#[cfg(test)]
mod tests;
