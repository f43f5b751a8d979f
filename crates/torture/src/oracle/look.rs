//! Checks of read results against the allowed values.

use super::entry::{End, Entry, Kind, Value};
use super::{Begun, Oracle, Seen, Tick, Violation};
use crate::stamp::{self, Recognised, Sector};
use units::{ByteCount, ByteOffset, ByteRange};

impl Oracle {
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

    /// Checks a read's `bytes` from `start`.
    ///
    /// # Errors
    /// When a sector has a value that is not allowed.
    pub fn check(&mut self, read: Begun, start: ByteOffset, bytes: &[u8]) -> Result<(), Violation> {
        let result = self.look(read.0, start, bytes);
        self.abandon_read(read);
        result
    }

    /// Checks ranges that were reported as zeros.
    ///
    /// # Errors
    /// When a sector has another value.
    pub fn check_zeros(&mut self, asked: Begun, ranges: &[ByteRange]) -> Result<(), Violation> {
        let mut look =
            |range: &ByteRange| self.look(asked.0, range.start, &vec![0; range.len.as_usize()]);
        let result = ranges.iter().try_for_each(&mut look);
        self.abandon_read(asked);
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
            if !self.excused.is_empty() && self.excused.contains(&sector) {
                continue;
            }
            let is_unwritten = match self.touched.get_mut(sector) {
                Some(entries) => {
                    look_at(entries, Sector(sector), begun, now, got, from, &mut model)?
                }
                None => {
                    let mut entries = [Entry::first(&self.beginning)];
                    look_at(&mut entries, Sector(sector), begun, now, got, from, &mut model)?
                }
            };
            if is_unwritten {
                self.look_at_unwritten(sector, begun, now, got, from)?;
            }
        }
        Ok(())
    }

    /// A read found the first value of a sector, which is unknown.
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
                let text = format!("sector {sector} changed without a write");
                Err(Violation { sector: Sector(sector), text })
            }
            None => {
                if got.len() as u64 == self.sector.0
                    && self.agrees_since.is_some_and(|since| since < begun)
                {
                    self.unwritten
                        .insert(sector, Seen { bytes: got.into(), at: now, certain: false });
                }
                Ok(())
            }
        }
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
        // Unknown bytes are allowed; a stamp outside the candidates belongs to another write.
        Value::Leftovers => true,
        Value::Anything if entry.kind == Kind::GivenUp => true,
        Value::Anything => {
            !matches!(whole_cells(got, from), Recognised::Stamp(..) | Recognised::Mixture(_))
        }
    }
}

/// The whole cells among some bytes of a sector.
fn whole_cells(got: &[u8], from: usize) -> Recognised {
    let skip = from.next_multiple_of(stamp::CELL) - from;
    if got.len() < skip + stamp::CELL {
        return Recognised::Unknown;
    }
    let len = (got.len() - skip) / stamp::CELL * stamp::CELL;
    stamp::recognise(&got[skip..skip + len], (from + skip) / stamp::CELL)
}

/// Checks the bytes of a sector. Returns whether they can only be its first value.
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
    if fits == 1 && quiet && settled && !entries[fitting].value.is_unknown() {
        for (index, entry) in entries.iter_mut().enumerate() {
            if index != fitting {
                entry.superseded.get_or_insert(now);
            }
        }
    }
    let found = &entries[fitting];
    Ok(fits == 1 && found.kind == Kind::Beginning && found.value.is_unknown())
}

fn violation(entries: &[Entry], sector: Sector, begun: Tick, got: &[u8], from: usize) -> Violation {
    use std::fmt::Write;
    let found = whole_cells(got, from);
    let judgement = match &found {
        Recognised::Stamp(other, _) if *other != sector => "foreign data",
        Recognised::Stamp(_, generation)
            if entries.iter().all(|entry| entry.generation < *generation) =>
        {
            "data of a write that never was"
        }
        Recognised::Stamp(..) | Recognised::Zeroes => "old data",
        Recognised::Mixture(_) => "a torn sector",
        Recognised::Unknown => "garbage",
    };
    let mut text = format!("sector {} holds {judgement} ({found}); it may hold:", sector.0);
    for entry in entries {
        let allowed = entry.superseded.is_none_or(|at| at > begun);
        let what = match (&entry.value, entry.kind) {
            (_, Kind::Beginning) => "its first value".to_owned(),
            (Value::Zeroes, _) => format!("zeroes of operation {}", entry.generation.0),
            (Value::Stamp, _) => format!("write {}", entry.generation.0),
            (Value::Patched(_), _) => {
                format!("the sector after partial write {}", entry.generation.0)
            }
            (Value::Anything | Value::Leftovers, _) => {
                format!("any value since operation {}", entry.generation.0)
            }
        };
        let end = match entry.finished {
            None => "outstanding",
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
