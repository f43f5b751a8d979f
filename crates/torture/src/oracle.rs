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

use crate::stamp::{self, Found, Generation, Sector};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// A point in the order of things: every issue and every end has its own.
pub type Tick = u64;

/// What an entry leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Zeroes.
    Zeroes,
    /// The stamp of its generation.
    Stamp,
    /// These bytes, a whole sector: what was there, with a part of it rewritten.
    Patched(Rc<[u8]>),
    /// Anything but the stamp of another sector or write.
    Anything,
}

/// How an operation on sectors was meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What every sector held at the beginning.
    Beginning,
    /// A write.
    Write,
    /// Zeroes were written.
    WriteZeroes,
    /// The content was given up.
    Trim,
    /// It was lost, and the operator knows.
    GivenUp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Acknowledged,
    Failed,
    CutOff,
    /// A trim: it may or may not have done anything.
    Perhaps,
}

#[derive(Clone, Debug)]
struct Entry {
    generation: Generation,
    kind: Kind,
    value: Value,
    finished: Option<(Tick, End)>,
    superseded: Option<Tick>,
    /// Not even a power cut brings it back.
    gone: bool,
    /// Mirrors, or data and parity, may disagree on it.
    unsettled: bool,
}

impl Entry {
    fn is_before(&self, issued: Tick) -> bool {
        self.finished.is_some_and(|(at, _)| at < issued)
    }
}

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
pub struct Oracle {
    sector: ByteCount,
    sectors: u64,
    beginning: Value,
    /// Whether a trim may leave anything at all; otherwise it leaves zeroes or nothing happens.
    trims_leave_anything: bool,
    clock: Tick,
    next_generation: u64,
    touched: BTreeMap<u64, Vec<Entry>>,
    /// Reads under way: what they may still find is kept for messages and checks.
    reads: Vec<Tick>,
    /// Since when, in this life, all redundancy agrees.
    agrees_since: Option<Tick>,
    /// Sectors of which nobody knew what they held at the beginning, and what a read found when redundancy agreed.
    unwritten: BTreeMap<u64, Seen>,
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
    /// Of a volume of which nothing was written: it holds `beginning`.
    pub fn new(
        sector: SectorSize,
        capacity: ByteCount,
        beginning: Value,
        trims_leave_anything: bool,
    ) -> Oracle {
        Oracle {
            sector: sector.bytes(),
            sectors: capacity.0 / sector.bytes().0,
            beginning,
            trims_leave_anything,
            clock: 1,
            next_generation: 1,
            touched: BTreeMap::new(),
            reads: Vec::new(),
            agrees_since: None,
            unwritten: BTreeMap::new(),
        }
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

    fn first_entry(beginning: &Value) -> Entry {
        Entry {
            generation: Generation(0),
            kind: Kind::Beginning,
            value: beginning.clone(),
            finished: Some((0, End::Acknowledged)),
            superseded: None,
            gone: false,
            unsettled: false,
        }
    }

    fn entries(&mut self, sector: u64) -> &mut Vec<Entry> {
        let beginning = &self.beginning;
        self.touched.entry(sector).or_insert_with(|| vec![Self::first_entry(beginning)])
    }

    fn touched_in(&mut self, issued: &Issued) -> impl Iterator<Item = (&u64, &mut Vec<Entry>)> {
        self.touched.range_mut(issued.first..issued.end)
    }

    // What is done to the volume.

    /// Whether a write may be issued now: no part of a sector is being rewritten in this range, whose outcome
    /// would depend on the order of the two.
    pub fn may_write(&self, first: Sector, count: u64) -> bool {
        let mut touched = self.touched.range(first.0..first.0 + count);
        !touched.any(|(_, entries)| {
            entries.iter().any(|entry| matches!(entry.value, Value::Patched(_)) && entry.finished.is_none())
        })
    }

    fn issue(&mut self, kind: Kind, first: Sector, count: u64, value: impl Fn(u64) -> Value) -> Issued {
        let generation = Generation(self.next_generation);
        self.next_generation += 1;
        let issued = self.tick();
        for sector in first.0..first.0 + count {
            let value = value(sector);
            self.entries(sector).push(Entry {
                generation,
                kind,
                value,
                finished: None,
                superseded: None,
                gone: false,
                unsettled: false,
            });
        }
        Issued { generation, kind, issued, first: first.0, end: first.0 + count }
    }

    /// Issues a write of whole sectors, each to be filled with its stamp.
    pub fn write(&mut self, first: Sector, count: u64) -> Issued {
        self.issue(Kind::Write, first, count, |_| Value::Stamp)
    }

    /// Issues zeroes.
    pub fn write_zeroes(&mut self, first: Sector, count: u64) -> Issued {
        self.issue(Kind::WriteZeroes, first, count, |_| Value::Zeroes)
    }

    /// Issues a trim.
    pub fn trim(&mut self, first: Sector, count: u64) -> Issued {
        let value = if self.trims_leave_anything { Value::Anything } else { Value::Zeroes };
        self.issue(Kind::Trim, first, count, move |_| value.clone())
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
        let issued = self.issue(Kind::Write, Sector(first), end - first, |_| Value::Stamp);
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
                if let Some(entry) = self.entries(sector).last_mut() {
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
        let size = self.sector.as_usize();
        let mut current = self.entries(sector).iter().filter(|entry| entry.superseded.is_none());
        let (only, None) = (current.next()?, current.next()) else { return None };
        only.finished?;
        content(only, Sector(sector), size)
    }

    /// An operation was acknowledged. `durable`: with the promise that a power cut cannot take it back.
    pub fn acknowledge(&mut self, operation: &Issued, durable: bool) {
        let end = if operation.kind == Kind::Trim { End::Perhaps } else { End::Acknowledged };
        let now = self.finish(operation, end);
        if end == End::Perhaps {
            return;
        }
        for (_, entries) in self.touched_in(operation) {
            for entry in entries.iter_mut().filter(|entry| entry.is_before(operation.issued)) {
                entry.superseded.get_or_insert(now);
                entry.gone |= durable;
            }
        }
        self.prune(operation.first, operation.end);
    }

    /// An operation failed: its range holds old, new or both.
    pub fn fail(&mut self, operation: &Issued) {
        self.finish(operation, End::Failed);
        for (_, entries) in self.touched_in(operation) {
            entries.iter_mut().for_each(|entry| entry.unsettled = true);
        }
    }

    fn finish(&mut self, operation: &Issued, end: End) -> Tick {
        let now = self.tick();
        for (_, entries) in self.touched_in(operation) {
            let own = entries.iter_mut().find(|entry| entry.generation == operation.generation);
            if let Some(entry) = own {
                entry.finished = Some((now, end));
            }
        }
        now
    }

    /// A flush begins.
    pub fn begin_flush(&mut self) -> Begun {
        Begun(self.tick())
    }

    /// A flush was acknowledged.
    pub fn acknowledge_flush(&mut self, flush: Begun) {
        for entries in self.touched.values_mut() {
            for entry in entries.iter_mut() {
                entry.gone |= entry.superseded.is_some_and(|at| at < flush.0);
            }
        }
        self.unwritten.values_mut().for_each(|seen| seen.certain |= seen.at < flush.0);
        self.prune(0, u64::MAX);
    }

    /// Forgets what is gone and no read under way may still find.
    fn prune(&mut self, first: u64, end: u64) {
        let oldest = self.reads.iter().min().copied().unwrap_or(u64::MAX);
        for (_, entries) in self.touched.range_mut(first..end) {
            entries.retain(|entry| !(entry.gone && entry.superseded.is_some_and(|at| at < oldest)));
        }
    }

    // What happens to it.

    /// The process died.
    pub fn kill(&mut self) {
        let now = self.cut_off();
        self.reads.clear();
        self.agrees_since = None;
        // What was read before stays read: but of several candidates the mirrors may hold different ones.
        self.unsettle();
        debug_assert!(now <= self.clock);
    }

    /// The power went.
    pub fn power_cut(&mut self) {
        self.cut_off();
        self.reads.clear();
        self.agrees_since = None;
        self.unwritten.retain(|_, seen| seen.certain);
        for entries in self.touched.values_mut() {
            entries.retain(|entry| !entry.gone);
            entries.iter_mut().for_each(|entry| entry.superseded = None);
        }
        self.unsettle();
    }

    fn cut_off(&mut self) -> Tick {
        let now = self.tick();
        for entries in self.touched.values_mut() {
            for entry in entries.iter_mut().filter(|entry| entry.finished.is_none()) {
                entry.finished = Some((now, End::CutOff));
            }
        }
        now
    }

    fn unsettle(&mut self) {
        for entries in self.touched.values_mut() {
            let current = entries.iter().filter(|entry| entry.superseded.is_none()).count();
            if current > 1 {
                entries.iter_mut().for_each(|entry| entry.unsettled = true);
            }
        }
    }

    /// All redundancy agrees with the data again: what a read finds from now on, it finds again.
    pub fn settle(&mut self) {
        let now = self.tick();
        self.agrees_since.get_or_insert(now);
        for entries in self.touched.values_mut() {
            entries.iter_mut().for_each(|entry| entry.unsettled = false);
        }
    }

    /// What these sectors hold is lost, and the operator knows: from now on they may hold anything.
    pub fn give_up(&mut self, first: Sector, count: u64) {
        let operation = self.issue(Kind::GivenUp, first, count, |_| Value::Anything);
        self.finish(&operation, End::Acknowledged);
        for (_, entries) in self.touched_in(&operation) {
            entries.retain(|entry| entry.generation == operation.generation);
        }
    }

    // Reads.

    /// A read begins.
    pub fn begin_read(&mut self) -> Begun {
        let now = self.tick();
        self.reads.push(now);
        Begun(now)
    }

    /// A read failed.
    pub fn abandon_read(&mut self, read: Begun) {
        self.reads.retain(|begun| *begun != read.0);
    }

    /// A read brought `bytes` from `start` on.
    ///
    /// # Errors
    /// When some sector holds what it must not.
    pub fn check(&mut self, read: Begun, start: ByteOffset, bytes: &[u8]) -> Result<(), Violation> {
        let result = self.look(read.0, start, bytes);
        self.abandon_read(read);
        result
    }

    fn look(&mut self, begun: Tick, start: ByteOffset, bytes: &[u8]) -> Result<(), Violation> {
        let range = ByteRange::new(start, ByteCount::of(bytes));
        let now = self.tick();
        let size = self.sector;
        let (first, end) = self.sectors_around(range);
        let mut model = vec![0; size.as_usize()];
        for sector in first..end {
            let whole = self.range_of(sector);
            let part = whole.intersection(range);
            let got = &bytes[(part.start - start).as_usize()..][..part.len.as_usize()];
            let from = (part.start - whole.start).as_usize();
            let is_unwritten = match self.touched.get_mut(&sector) {
                Some(entries) => look_at(entries, Sector(sector), begun, now, got, from, &mut model)?,
                None => {
                    let mut entries = [Self::first_entry(&self.beginning)];
                    look_at(&mut entries, Sector(sector), begun, now, got, from, &mut model)?
                }
            };
            if is_unwritten {
                self.look_at_unwritten(sector, begun, now, got, from)?;
            }
        }
        Ok(())
    }

    /// A read found what a sector held at the beginning, of which nobody knew what that was.
    fn look_at_unwritten(
        &mut self,
        sector: u64,
        begun: Tick,
        now: Tick,
        got: &[u8],
        from: usize,
    ) -> Result<(), Violation> {
        match self.unwritten.get(&sector) {
            Some(seen) if seen.bytes[from..from + got.len()] == *got => Ok(()),
            Some(_) => {
                let text = format!("sector {sector} changed, and nobody ever wrote it");
                Err(Violation { sector: Sector(sector), text })
            }
            None => {
                if got.len() as u64 == self.sector.0 && self.agrees_since.is_some_and(|since| since < begun) {
                    self.unwritten.insert(sector, Seen { bytes: got.into(), at: now, certain: false });
                }
                Ok(())
            }
        }
    }

    /// Sectors of which it is not certain what they hold.
    pub fn undecided(&self) -> Vec<Sector> {
        let several = |entries: &[Entry]| {
            let mut current = entries.iter().filter(|entry| entry.superseded.is_none());
            current.nth(1).is_some()
        };
        let undecided = self.touched.iter().filter(|(_, entries)| several(entries));
        undecided.map(|(sector, _)| Sector(*sector)).collect()
    }
}

fn content(entry: &Entry, sector: Sector, size: usize) -> Option<Vec<u8>> {
    match &entry.value {
        Value::Zeroes => Some(vec![0; size]),
        Value::Stamp => {
            let mut bytes = vec![0; size];
            stamp::fill(&mut bytes, sector, entry.generation);
            Some(bytes)
        }
        Value::Patched(bytes) => Some(bytes.to_vec()),
        Value::Anything => None,
    }
}

fn matches(entry: &Entry, sector: Sector, got: &[u8], from: usize, model: &mut [u8]) -> bool {
    match &entry.value {
        Value::Zeroes => got.iter().all(|byte| *byte == 0),
        Value::Patched(bytes) => bytes[from..from + got.len()] == *got,
        Value::Stamp => {
            stamp::fill(model, sector, entry.generation);
            model[from..from + got.len()] == *got
        }
        // Noise is nobody's: a stamp that is not among the candidates is somebody's.
        Value::Anything if entry.kind == Kind::GivenUp => true,
        Value::Anything => !matches!(whole_cells(got, from), Found::Stamp(..) | Found::Mixture(_)),
    }
}

/// What the whole cells among some bytes of a sector say.
fn whole_cells(got: &[u8], from: usize) -> Found {
    let skip = from.next_multiple_of(stamp::CELL) - from;
    if got.len() < skip + stamp::CELL {
        return Found::Unknown;
    }
    let len = (got.len() - skip) / stamp::CELL * stamp::CELL;
    stamp::recognise(&got[skip..skip + len], (from + skip) / stamp::CELL)
}

/// Judges what a read found of a sector. Whether it can only be what the sector held at the beginning, whatever that was.
fn look_at(
    entries: &mut [Entry],
    sector: Sector,
    begun: Tick,
    now: Tick,
    got: &[u8],
    from: usize,
    model: &mut [u8],
) -> Result<bool, Violation> {
    let allowed = |entry: &Entry| entry.superseded.is_none_or(|at| at > begun);
    let mut fitting = None;
    let mut fits = 0;
    for (index, entry) in entries.iter().enumerate() {
        if allowed(entry) && matches(entry, sector, got, from, model) {
            fitting = Some(index);
            fits += 1;
        }
    }
    let Some(fitting) = fitting else { return Err(violation(entries, sector, begun, got, from)) };
    let quiet = entries.iter().all(|entry| entry.is_before(begun));
    let settled = entries.iter().all(|entry| !entry.unsettled || entry.superseded.is_some());
    if fits == 1 && quiet && settled && entries[fitting].value != Value::Anything {
        for (index, entry) in entries.iter_mut().enumerate() {
            if index != fitting {
                entry.superseded.get_or_insert(now);
            }
        }
    }
    let found = &entries[fitting];
    Ok(fits == 1 && found.kind == Kind::Beginning && found.value == Value::Anything)
}

fn violation(entries: &[Entry], sector: Sector, begun: Tick, got: &[u8], from: usize) -> Violation {
    use std::fmt::Write;
    let found = whole_cells(got, from);
    let judgement = match &found {
        Found::Stamp(other, _) if *other != sector => "foreign data",
        Found::Stamp(_, generation) if entries.iter().all(|entry| entry.generation < *generation) => {
            "data of a write that never was"
        }
        Found::Stamp(..) | Found::Zeroes => "old data",
        Found::Mixture(_) => "a torn sector",
        Found::Unknown => "garbage",
    };
    let mut text = format!("sector {} holds {judgement} ({found}); it may hold:", sector.0);
    for entry in entries {
        let allowed = entry.superseded.is_none_or(|at| at > begun);
        let what = match (&entry.value, entry.kind) {
            (_, Kind::Beginning) => "what it held at the beginning".to_owned(),
            (Value::Zeroes, _) => format!("zeroes of operation {}", entry.generation.0),
            (Value::Stamp, _) => format!("write {}", entry.generation.0),
            (Value::Patched(_), _) => format!("what write {} made of it", entry.generation.0),
            (Value::Anything, _) => format!("anything since operation {}", entry.generation.0),
        };
        let end = match entry.finished {
            None => "under way",
            Some((_, End::Acknowledged)) => "acknowledged",
            Some((_, End::Failed)) => "failed",
            Some((_, End::CutOff)) => "cut off by a crash",
            Some((_, End::Perhaps)) => "trimmed",
        };
        let verdict = if allowed { "" } else { "NOT " };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n    {verdict}{what} ({:?}, {end})", entry.kind);
    }
    Violation { sector, text }
}

#[cfg(test)]
mod tests;
