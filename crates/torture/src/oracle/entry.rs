//! What an operation leaves with each sector that it touches, and where all of it is kept.

use super::Tick;
use crate::stamp::{self, Generation, Sector};
use std::ops::Range;
use std::rc::Rc;

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
    /// Anything, also what somebody wrote to a volume that was here before.
    Leftovers,
}

impl Value {
    /// Whether nobody knows what it is.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Value::Anything | Value::Leftovers)
    }
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
pub(super) enum End {
    Acknowledged,
    Failed,
    CutOff,
    /// A trim: it may or may not have done anything.
    Perhaps,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub generation: Generation,
    pub kind: Kind,
    pub value: Value,
    pub finished: Option<(Tick, End)>,
    pub superseded: Option<Tick>,
    /// Not even a power cut brings it back.
    pub gone: bool,
    /// It is gone by the promise of a durable write alone: no flush has covered that.
    pub is_promised_away: bool,
    /// Mirrors, or data and parity, may disagree on it.
    pub unsettled: bool,
    /// Its operation covered the whole stripe.
    pub of_whole_stripe: bool,
}

impl Entry {
    /// Of an operation that was issued just now.
    pub fn new(generation: Generation, kind: Kind, value: Value) -> Entry {
        let (gone, unsettled, of_whole_stripe, is_promised_away) = (false, false, false, false);
        let (finished, superseded) = (None, None);
        Entry {
            generation,
            kind,
            value,
            finished,
            superseded,
            gone,
            is_promised_away,
            unsettled,
            of_whole_stripe,
        }
    }

    /// What was there before anything happened.
    pub fn first(beginning: &Value) -> Entry {
        let entry = Entry::new(Generation(0), Kind::Beginning, beginning.clone());
        Entry { finished: Some((0, End::Acknowledged)), ..entry }
    }

    pub fn is_before(&self, issued: Tick) -> bool {
        self.finished.is_some_and(|(at, _)| at < issued)
    }

    /// The bytes of the whole sector, if they are known.
    pub fn content(&self, sector: Sector, size: usize) -> Option<Vec<u8>> {
        match &self.value {
            Value::Zeroes => Some(vec![0; size]),
            Value::Stamp => {
                let mut bytes = vec![0; size];
                stamp::fill(&mut bytes, sector, self.generation);
                Some(bytes)
            }
            Value::Patched(bytes) => Some(bytes.to_vec()),
            Value::Anything | Value::Leftovers => None,
        }
    }
}

/// The entries of one sector.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub sector: u64,
    pub entries: Vec<Entry>,
    is_listed: bool,
}

impl Cell {
    /// How many things it may hold, as it stands.
    pub fn candidates(&self) -> usize {
        self.entries.iter().filter(|entry| entry.superseded.is_none()).count()
    }
}

/// The entries of every sector that was ever touched. A flush, a crash and the like concern only those of which there
/// is more than one entry, which are listed: they are few.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    /// By sector: one more than the index of its cell; zero if it has none.
    places: Vec<u32>,
    cells: Vec<Cell>,
    /// Indexes of cells that had more than one entry when somebody last looked.
    several: Vec<u32>,
}

impl Cells {
    pub fn new(sectors: u64) -> Cells {
        Cells { places: vec![0; sectors as usize], cells: Vec::new(), several: Vec::new() }
    }

    pub fn get_mut(&mut self, sector: u64) -> Option<&mut Vec<Entry>> {
        let place = *self.places.get(sector as usize)?;
        Some(&mut self.cells.get_mut((place as usize).checked_sub(1)?)?.entries)
    }

    /// The cells of those of these sectors that were touched.
    pub fn of(&self, sectors: Range<u64>) -> impl Iterator<Item = &Cell> {
        let places = &self.places[sectors.start as usize..sectors.end as usize];
        places.iter().filter_map(|place| self.cells.get((*place as usize).checked_sub(1)?))
    }

    /// Does something to the entries of those of these sectors that were touched.
    pub fn each(&mut self, sectors: Range<u64>, mut change: impl FnMut(&mut Vec<Entry>)) {
        for sector in sectors {
            if let Some(entries) = self.get_mut(sector) {
                change(entries);
            }
        }
    }

    /// The entries of a sector; if it has none yet, `beginning` is its first.
    pub fn touch(&mut self, sector: u64, beginning: &Value) -> &mut Vec<Entry> {
        let place = &mut self.places[sector as usize];
        if *place == 0 {
            self.cells.push(Cell { sector, entries: vec![Entry::first(beginning)], is_listed: false });
            *place = self.cells.len() as u32;
        }
        let index = *place as usize - 1;
        &mut self.cells[index].entries
    }

    /// Adds an entry to a sector.
    pub fn push(&mut self, sector: u64, entry: Entry, beginning: &Value) {
        self.touch(sector, beginning).push(entry);
        let place = self.places[sector as usize] - 1;
        let cell = &mut self.cells[place as usize];
        if !cell.is_listed {
            cell.is_listed = true;
            self.several.push(place);
        }
    }

    /// Does something to the entries of every sector that has more than one; drops those from the list that are down
    /// to one by that: all that may hold it agree on it.
    pub fn each_of_several(&mut self, mut change: impl FnMut(&mut Vec<Entry>)) {
        let cells = &mut self.cells;
        self.several.retain(|index| {
            let cell = &mut cells[*index as usize];
            change(&mut cell.entries);
            cell.is_listed = cell.entries.len() > 1;
            if !cell.is_listed {
                cell.entries.iter_mut().for_each(|entry| entry.unsettled = false);
            }
            cell.is_listed
        });
    }

    /// The cells that have more than one entry.
    pub fn several(&self) -> impl Iterator<Item = &Cell> {
        self.several.iter().map(|index| &self.cells[*index as usize])
    }
}
