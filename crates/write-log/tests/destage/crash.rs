//! The state of a column after a crash.

use super::defects::Defect;
use super::drive::{Cell, Cells, bits};
use super::walk::{Label, Walk};
use super::{Content, Entry, LogPlace, Setup, State};
use smallvec::{SmallVec, smallvec};
use std::hash::Hash;
use write_log::Intent;

/// The copy of a record in persistent memory.
pub(super) const MEMORY: u8 = 1 << 7;

/// The part of a record that concerns one column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FoundRecord {
    pub(super) number: u64,
    /// By place, and [`MEMORY`].
    pub(super) copies: u8,
    pub(super) what: RecordKind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum RecordKind {
    /// Strips and values.
    Data(SmallVec<[(u16, u8); 3]>),
    Intent(Intent<u8>),
}

/// A column after a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct CrashState {
    pub(super) cells: Cells,
    /// Drives that are recorded as failed; log devices that are fenced.
    pub(super) failed: u8,
    pub(super) fenced: u8,
    pub(super) log: Vec<FoundRecord>,
    /// By strip, a bit for each value that may be read: now, and after the next power cut.
    pub(super) now: [u8; 3],
    pub(super) cut: [u8; 3],
    /// Strips of a full-stripe write without a record: with any drive offline, their content is
    /// unknown.
    pub(super) loose: u8,
    /// A host may write during the replay.
    pub(super) is_served: bool,
}

/// Every set of drives that may be offline, including these.
pub(super) fn sets(setup: &Setup, failed: u8) -> impl Iterator<Item = u8> {
    let most = setup.redundancy as u32;
    (0_u8..1 << setup.drives()).filter(move |set| set & failed == failed && set.count_ones() <= most)
}

/// Every subset of a set.
fn parts(set: u8) -> impl Iterator<Item = u8> {
    (0..=set).filter(move |part| part & !set == 0)
}

impl State {
    /// All state that affects a crash.
    pub(super) fn rest(&self) -> impl Hash + '_ {
        let entries: Vec<_> =
            self.log.iter().map(|entry| (entry.begun.sequence, entry.copies, entry.is_durable)).collect();
        let content: Vec<&Content> = self.log.iter().map(|entry| &entry.content).collect();
        ((&self.cells, &self.sure, self.failed), (self.fenced, self.deaf, self.loose), entries, content)
    }

    /// Simulates every possible crash in this state.
    pub(super) fn crash(&self, setup: &Setup, walk: &mut Walk) {
        let absent: &[u8] = if setup.place == LogPlace::Devices { &[0, 1, 2] } else { &[0] };
        let failed = if setup.defect == Defect::ReturnedBelieved { 0 } else { self.failed };
        for (lost, absent) in
            sets(setup, failed).flat_map(|lost| absent.iter().map(move |absent| (lost, *absent)))
        {
            let unread = match setup.place {
                LogPlace::Members => lost,
                LogPlace::Devices => self.fenced | absent,
            };
            if setup.place == LogPlace::Devices && unread == 3 {
                // The volume is offline, and reports it.
                continue;
            }
            for is_cut in [false, true] {
                self.crash_with(setup, walk, Crash { lost, unread, is_cut });
            }
        }
    }

    fn crash_with(&self, setup: &Setup, walk: &mut Walk, crash: Crash) {
        // Records under way are on any subset of their places.
        let under_way: Vec<&Entry> = self.log.iter().filter(|entry| !entry.is_durable).collect();
        let mut ways: Vec<SmallVec<[u8; 4]>> = vec![smallvec![]];
        for entry in &under_way {
            let here = entry.copies & !crash.unread;
            ways = ways.into_iter().flat_map(|way| parts(here).map(move |part| with(&way, part))).collect();
        }
        for way in ways {
            for column in 0..setup.columns {
                let left = self.left(setup, column, &crash, &way);
                walk.crashed(left, crash.is_cut, Label::Crash(crash.lost, crash.is_cut));
            }
        }
    }

    fn left(&self, setup: &Setup, column: usize, crash: &Crash, way: &[u8]) -> CrashState {
        let mut parts = way.iter();
        let in_memory = setup.memory && !crash.is_cut;
        let mut log = older(setup, column);
        for entry in &self.log {
            let part = if entry.is_durable { None } else { parts.next() };
            let is_kept = in_memory && part.is_some() && matches!(entry.content, Content::Data(_));
            let copies = part.map_or(entry.copies & !crash.unread, |part| *part);
            let copies = copies | if is_kept { MEMORY } else { 0 };
            if copies == 0 {
                continue;
            }
            let number = entry.begun.sequence;
            log.extend(found(&entry.content, column).map(|what| FoundRecord { number, copies, what }));
        }
        let mut cells = self.cells[column];
        bits(crash.lost).for_each(|drive| cells[drive] = Cell::of(0));
        let fenced = if setup.place == LogPlace::Devices { crash.unread } else { 0 };
        let (now, cut) = (self.allowed(setup, column, in_memory), self.allowed(setup, column, false));
        let is_loose = |strip: &usize| self.loose.is_some_and(|by| self.sure[column][*strip].by == by);
        let loose = (0..3).filter(is_loose).fold(0, |set, strip| set | 1 << strip);
        CrashState { cells, failed: crash.lost, fenced, log, now, cut, loose, is_served: setup.serves }
    }

    /// The values that may be read: the durable one, and those under way after it; with persistent
    /// memory only the newest of these.
    fn allowed(&self, setup: &Setup, column: usize, in_memory: bool) -> [u8; 3] {
        let mut allowed = [0; 3];
        for (strip, allowed) in allowed.iter_mut().enumerate().take(setup.data) {
            let sure = self.sure[column][strip];
            *allowed = sure.values;
            for entry in self.log.iter().filter(|entry| !entry.is_durable && entry.begun.sequence > sure.by) {
                let Content::Data(puts) = &entry.content else { continue };
                for put in puts.iter().filter(|put| (put.column, put.strip) == (column, strip)) {
                    let before = if in_memory { 0 } else { *allowed };
                    *allowed = before | 1 << put.value;
                }
            }
        }
        allowed
    }
}

struct Crash {
    lost: u8,
    /// Unreadable places of the log.
    unread: u8,
    is_cut: bool,
}

fn with(way: &[u8], part: u8) -> SmallVec<[u8; 4]> {
    way.iter().copied().chain([part]).collect()
}

/// The part of a record that concerns a column.
fn found(content: &Content, column: usize) -> Option<RecordKind> {
    match content {
        Content::Data(puts) => {
            let here = puts.iter().filter(|put| put.column == column);
            let here: SmallVec<[(u16, u8); 3]> = here.map(|put| (put.strip as u16, put.value)).collect();
            (!here.is_empty()).then_some(RecordKind::Data(here))
        }
        Content::Intent(notes) => {
            let note = notes.iter().find(|note| note.column == column)?;
            Some(RecordKind::Intent(Intent { data: note.data.clone(), sums: note.sums.clone() }))
        }
    }
}

/// Other records in the places of the log: of an earlier epoch, or in a fenced log.
fn older(setup: &Setup, column: usize) -> Vec<FoundRecord> {
    let is_believed = matches!(setup.defect, Defect::OlderEpoch | Defect::DiscardedBelieved);
    let is_there = setup.has_older && column == 0;
    let old = FoundRecord {
        number: 0,
        copies: (1 << setup.homes()) - 1,
        what: RecordKind::Data(smallvec![(0, 3)]),
    };
    Vec::from_iter((is_there && is_believed).then_some(old))
}
