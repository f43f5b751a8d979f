//! The entries that operations leave at sectors, and their storage.

use super::Tick;
use crate::stamp::{self, Generation, Sector};
use std::ops::Range;
use std::rc::Rc;

/// The value of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Zeroes.
    Zeroes,
    /// The stamp of its generation.
    Stamp,
    /// A whole sector after a partial write.
    Patched(Rc<[u8]>),
    /// Any value except the stamp of another sector or write.
    Anything,
    /// Any value, also a write to an earlier volume on these drives.
    Leftovers,
}

impl Value {
    /// Whether the value is unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Value::Anything | Value::Leftovers)
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The sector's first value.
    Beginning,
    /// A write.
    Write,
    /// A write of zeroes.
    WriteZeroes,
    /// A trim.
    Trim,
    /// A loss that the operator accepted.
    GivenUp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Acknowledged,
    Failed,
    CutOff,
    /// A trim: with or without effect.
    Perhaps,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub generation: Generation,
    pub kind: Kind,
    pub value: Value,
    pub finished: Option<(Tick, End)>,
    pub superseded: Option<Tick>,
    /// Not even a power cut restores it.
    pub gone: bool,
    /// It was removed by a durable write that no flush has covered.
    pub is_promised_away: bool,
    /// Mirrors, or data and parity, may disagree on it.
    pub unsettled: bool,
    /// Its operation covered the whole stripe.
    pub of_whole_stripe: bool,
}

impl Entry {
    /// The entry of an operation that is being issued.
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

    /// The first entry of a sector.
    pub fn first(beginning: &Value) -> Entry {
        let entry = Entry::new(Generation(0), Kind::Beginning, beginning.clone());
        Entry { finished: Some((0, End::Acknowledged)), ..entry }
    }

    pub fn is_before(&self, issued: Tick) -> bool {
        self.finished.is_some_and(|(at, _)| at < issued)
    }

    /// The whole sector, if its bytes are known.
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
    /// The number of possible values.
    pub fn candidates(&self) -> usize {
        self.entries.iter().filter(|entry| entry.superseded.is_none()).count()
    }
}

/// The entries of every sector that was ever touched. Flushes, crashes and the like only concern
/// sectors with more than one entry, which are listed: they are few.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    /// By sector: the index of its cell plus one; zero without a cell.
    places: Vec<u32>,
    cells: Vec<Cell>,
    /// Indexes of cells that had more than one entry at the last check.
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

    /// The cells of the touched sectors among these.
    pub fn of(&self, sectors: Range<u64>) -> impl Iterator<Item = &Cell> {
        let places = &self.places[sectors.start as usize..sectors.end as usize];
        places.iter().filter_map(|place| self.cells.get((*place as usize).checked_sub(1)?))
    }

    /// Changes the entries of the touched sectors among these.
    pub fn each(&mut self, sectors: Range<u64>, mut change: impl FnMut(&mut Vec<Entry>)) {
        for sector in sectors {
            if let Some(entries) = self.get_mut(sector) {
                change(entries);
            }
        }
    }

    /// The entries of a sector; `beginning` is the first entry of a new cell.
    pub fn touch(&mut self, sector: u64, beginning: &Value) -> &mut Vec<Entry> {
        let place = &mut self.places[sector as usize];
        if *place == 0 {
            self.cells.push(Cell {
                sector,
                entries: vec![Entry::first(beginning)],
                is_listed: false,
            });
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

    /// Changes the entries of every sector with more than one, and removes sectors from the list
    /// that have only one consistent entry left.
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

    /// The cells with more than one entry.
    pub fn several(&self) -> impl Iterator<Item = &Cell> {
        self.several.iter().map(|index| &self.cells[*index as usize])
    }
}
