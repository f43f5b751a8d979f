//! A volume that is moved from one layout to another on the same drives while it is used: which bytes may move next, and in which
//! order that is done.
//!
//! A *cursor* goes up through the volume's bytes. Below it they lie by the new layout, from it on by the old one. What is moved at
//! a time is a *window* of whole rows of the new layout, and no host reads or writes there meanwhile.
//!
//! ```text
//!              old rows that are of no use any more
//! drives  | new rows | . . . . . | old row, in part below the cursor | old rows |
//!                    ^ the next window is written here
//! ```
//!
//! # Invariants
//! - An old row that has bytes above the cursor is left whole, also the strips in it that are below the cursor: its redundancy is
//!   computed over all of them. A window that would be written over such a row is *saved* first: its new rows are written to a place of their own,
//!   with all of their redundancy, and that is recorded. From then on the window is read from there.
//! - A window never reaches beyond what it saves: what follows it is untouched by it.
//! - The cursor is recorded when what it passes is durable where it lies now. Hosts get at the window after that, so nothing that
//!   a host writes there is written over when the window is written again.
//! - A saved window that is in nobody's hands, as at a start or after a step that failed, is read where it is saved, and not written. When
//!   it is closed again, nobody reads there any more: the next window is saved in the same place.
//! - Where each byte has the same place by both layouts (only more rows follow) nothing is copied of what is whole: the window is *kept*. Its old
//!   rows go out of use, and it is recorded. What is not whole, as drives are missing or blocks are lost there, is moved as anything else is.
//! - What is read from the record of a start is recorded again, on every drive, before anything is built upon it: what
//!   one drive alone says may be gone at the next start.
//!
//! So at every instant every byte is on the drives by the old layout, by the new one, or saved by the new one; it has the redundancy of
//! the lower of both levels, and the record says where it is. `tests/reshape` tries every order of the steps.

use layout::{Geometry, Level, MirrorArrangement};
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange};

/// What is kept at a time at most, of each drive: hosts wait while its old stripes go out of use, one after the other.
const MOST_KEPT: u64 = 16 << 30;

/// What is recorded of a reshape, durably.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Moved {
    /// Bytes of the volume below this lie by the new layout.
    pub to: ByteOffset,
    /// So many bytes from there on are saved.
    pub saved: ByteCount,
}

/// What is moved at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Bytes of the volume.
    pub bytes: ByteRange,
    /// The stripes of the new layout that have them. They may reach beyond the volume's last byte.
    pub stripes: Range<u64>,
}

/// What is to be done next. Each step is done as a whole before the next one begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Have hosts wait that ask for these bytes; wait for those that are at it, and write to the drives what caches have of the bytes.
    Close(Window),
    /// Read the window by the old layout, write it to where it is saved, and flush the drives.
    Save(Window),
    /// Make this durable on every drive that is in use.
    Record(Moved),
    /// Write the window by the new layout, and flush the drives.
    Write {
        /// The window.
        window: Window,
        /// Whether it is read from where it is saved, and not by the old layout.
        from_save: bool,
    },
    /// The window lies where it is to be: have its old stripes go out of use, and flush the drives.
    Keep(Window),
    /// Hosts may ask for everything. Bytes below this are served by the new layout, all others by the old one.
    Open(ByteOffset),
}

/// Two layouts of a volume over the same drives, both from the same address of each drive on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reshape {
    from: Geometry,
    to: Geometry,
    bytes: ByteCount,
    /// The most rows of the new layout that can be saved, and the most that are moved at a time.
    save_rows: u64,
    most_rows: u64,
}

/// Data in a row of stripes that lie side by side, and what the row takes of each drive.
#[derive(Clone, Copy)]
struct Row {
    data: u64,
    len: u64,
}

impl Row {
    fn of(geometry: &Geometry) -> Row {
        Row {
            data: geometry.stripe_bytes().0 * u64::from(geometry.stripes_per_row()),
            len: geometry.strip().bytes().0 * u64::from(geometry.rows_per_stripe()),
        }
    }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

impl Reshape {
    /// The first `bytes` of a volume move from one layout to another. `save`: room on each drive to save what would be written over;
    /// `most`: what is moved at a time at most, of each drive.
    ///
    /// # Errors
    /// One sentence, when that cannot be done from the volume's beginning on.
    pub fn new(
        from: Geometry,
        to: Geometry,
        bytes: ByteCount,
        save: ByteCount,
        most: ByteCount,
    ) -> Result<Reshape, String> {
        let (old, new) = (Row::of(&from), Row::of(&to));
        if [&from, &to].iter().any(|of| of.mirror_arrangement() == Some(MirrorArrangement::Far)) {
            return Err("the copies of a far arrangement lie in two parts of each drive, which cannot be moved in order".into());
        }
        if bytes > to.capacity() || bytes > from.capacity() {
            return Err(format!("{bytes} do not fit: the new layout has {}", to.capacity()));
        }
        if u128::from(new.data) * u128::from(old.len) < u128::from(old.data) * u128::from(new.len) {
            return Err("the new layout has less data in the same part of each drive, so what is moved would lie over what is not moved yet".into());
        }
        let unit = Reshape::least_save(&from, &to);
        if unit > save {
            return Err(format!(
                "{unit} of each drive would have to be saved at a time, and there is room for {save}"
            ));
        }
        let most_rows = (most.0 / new.len).max(1);
        Ok(Reshape { from, to, bytes, save_rows: save.0 / new.len, most_rows })
    }

    /// The least that has to be saved at a time of each drive, where anything has to be: up to where rows of both layouts end together.
    pub fn least_save(from: &Geometry, to: &Geometry) -> ByteCount {
        ByteCount(common_multiple(Row::of(from).len, Row::of(to).len))
    }

    /// The old layout.
    pub fn from(&self) -> &Geometry {
        &self.from
    }

    /// The new layout.
    pub fn to(&self) -> &Geometry {
        &self.to
    }

    /// What is moved.
    pub fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// What is moved at a time, at most, where nothing has to be saved.
    pub fn most_bytes(&self) -> ByteCount {
        ByteCount(Row::of(&self.to).data * self.most_rows)
    }

    /// Where on each drive the first old row begins that has bytes from `at` on.
    fn live_from(&self, at: u64) -> u64 {
        let old = Row::of(&self.from);
        if at >= self.bytes.0 { u64::MAX } else { at / old.data * old.len }
    }

    /// The window of these rows of the new layout.
    fn rows(&self, rows: Range<u64>) -> Window {
        let row = Row::of(&self.to).data;
        let per_row = u64::from(self.to.stripes_per_row());
        let end = (rows.end * row).min(self.bytes.0);
        Window {
            bytes: ByteRange::from_to(ByteOffset(rows.start * row), ByteOffset(end)),
            stripes: rows.start * per_row..rows.end * per_row,
        }
    }

    /// What so many bytes of the volume take of each drive by the new layout.
    pub fn of_each_drive(&self, bytes: ByteCount) -> ByteCount {
        let new = Row::of(&self.to);
        ByteCount(bytes.0.div_ceil(new.data) * new.len)
    }

    /// Whether each byte has the same place by both layouts: nothing has to be copied.
    pub fn is_in_place(&self) -> bool {
        let (from, to) = (&self.from, &self.to);
        // Mirrors are served by strips that are as long as their drives allow.
        let has_strips = from.level() != Level::Raid1;
        let is_alike = from.shape() == to.shape() && from.level() != Level::Jbod;
        is_alike && (from.strip() == to.strip() || !has_strips)
    }

    /// The window from `at` on that can be kept, up to where rows of both layouts end together before `end`. `None`: there is none.
    fn kept(&self, at: ByteOffset, end: ByteOffset) -> Option<Window> {
        let (old, new) = (Row::of(&self.from), Row::of(&self.to));
        let both = common_multiple(old.data, new.data);
        let most = at.0.saturating_add(MOST_KEPT / new.len * new.data);
        let end = match end.0.min(most) {
            end if end >= self.bytes.0 => self.bytes.0.div_ceil(new.data),
            end => end / both * both / new.data,
        };
        let first = at.0 / new.data;
        (self.is_in_place() && end > first).then(|| self.rows(first..end))
    }

    /// What is moved next, when all below `at` is, and whether it has to be saved. `None`: all is moved. `most`: what is moved of each drive at
    /// most, where rows allow so little.
    pub fn next(&self, at: ByteOffset, most: ByteCount) -> Option<(Window, bool)> {
        if at.0 >= self.bytes.0 {
            return None;
        }
        let new = Row::of(&self.to);
        let most = self.most_rows.min((most.0 / new.len).max(1));
        let (first, last) = (at.0 / new.data, self.bytes.0.div_ceil(new.data));
        let free = (self.live_from(at.0) / new.len).min(first + most).min(last).max(first);
        // There is one: old and new rows end together after what can be saved at the latest.
        let is_apart = |end: &u64| end * new.len <= self.live_from(end * new.data);
        let mut ends = first + 1..=last.min(first + self.save_rows);
        let within = ends.clone().rev().filter(|end| end - first <= most).find(is_apart);
        let saved = within.or_else(|| ends.find(is_apart)).unwrap_or(first);
        // A record and a flush for a row or two take longer than writing more of them twice.
        match (free - first) * 4 >= saved - first {
            true => Some((self.rows(first..free), false)),
            false => Some((self.rows(first..saved), true)),
        }
    }

    /// The window that a record says is saved.
    fn saved(&self, moved: Moved) -> Option<Window> {
        let new = Row::of(&self.to);
        let end = (moved.to.0 + moved.saved.0).div_ceil(new.data);
        (moved.saved > ByteCount::ZERO).then(|| self.rows(moved.to.0 / new.data..end))
    }

    /// Whether a record can be of this reshape.
    pub fn allows(&self, moved: Moved) -> bool {
        let new = Row::of(&self.to);
        let (start, end) = (moved.to.0, moved.to.0.checked_add(moved.saved.0));
        let fits = |at: u64| at == self.bytes.0 || at < self.bytes.0 && at.is_multiple_of(new.data);
        let Some(end) = end else { return false };
        fits(start) && fits(end) && (end - start).div_ceil(new.data) <= self.save_rows
    }

    /// Old stripes that are in use when all below `at` is moved: whoever changed another one would change what lies there now.
    pub fn old_stripes(&self, at: ByteOffset) -> Range<u64> {
        let end = self.from.stripes().0;
        let first = self.from.stripe_of(at).0;
        if at.0 >= self.bytes.0 { end..end } else { first.0.min(end)..end }
    }

    /// New stripes that are in use when all below `at` is moved: whole rows, as they are written. Of several spans some may have nothing of the
    /// volume's in the last one.
    pub fn new_stripes(&self, at: ByteOffset) -> Range<u64> {
        0..at.0.div_ceil(Row::of(&self.to).data) * u64::from(self.to.stripes_per_row())
    }
}

/// Where a mover is with the window that it has before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// What was found at a start is recorded again.
    Confirming,
    Closing,
    Saving,
    RecordingSave,
    Writing,
    RecordingMove,
    Opening,
}

/// The order of the steps: says what is to be done next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mover {
    reshape: Reshape,
    recorded: Moved,
    /// What is being moved, and whether it is saved first.
    window: Option<(Window, bool)>,
    phase: Phase,
    /// What is moved of each drive at a time at most.
    most: ByteCount,
    /// The window is kept.
    is_kept: bool,
}

impl Mover {
    /// Goes on where the record says, at a start, or after a step that failed. Nothing is closed yet. Hosts must not write what is saved before
    /// the first [`Step::Open`]; until it is closed they may read it where it is saved.
    pub fn new(reshape: Reshape, recorded: Moved) -> Mover {
        let most = ByteCount(u64::MAX);
        Mover { reshape, recorded, window: None, phase: Phase::Confirming, most, is_kept: false }
    }

    /// A window is about to be closed, and all of the volume is whole up to `end`, by the old layout: keeps as much of it as can be, if each byte has the
    /// same place by both layouts.
    pub fn keep(&mut self, end: ByteOffset) {
        let is_about_to =
            self.phase == Phase::Closing && self.window.is_some() && self.recorded.saved.is_zero();
        if let Some(window) = self.reshape.kept(self.recorded.to, end).filter(|_| is_about_to) {
            (self.window, self.is_kept) = (Some((window, false)), true);
        }
    }

    /// From the next window on so much of each drive is moved at a time at most, where rows allow so little: hosts that ask for it wait for
    /// all of it.
    pub fn limit(&mut self, most: ByteCount) {
        self.most = most;
    }

    /// What is to be done next; `None`: all is moved.
    pub fn step(&self) -> Option<Step> {
        let Moved { to, .. } = self.recorded;
        if self.phase == Phase::Confirming {
            return Some(Step::Record(self.recorded));
        }
        let Some((window, is_saved)) = &self.window else {
            return (self.phase == Phase::Opening).then_some(Step::Open(to));
        };
        let (window, from_save) = (window.clone(), *is_saved);
        Some(match self.phase {
            Phase::Confirming | Phase::Closing => Step::Close(window),
            Phase::Saving => Step::Save(window),
            Phase::RecordingSave => Step::Record(Moved { to, saved: window.bytes.len }),
            Phase::Writing if self.is_kept => Step::Keep(window),
            Phase::Writing => Step::Write { window, from_save },
            Phase::RecordingMove => Step::Record(Moved { to: window.bytes.end(), saved: ByteCount::ZERO }),
            Phase::Opening => Step::Open(to),
        })
    }

    /// What [`Mover::step`] said is done.
    pub fn done(&mut self) {
        let is_saved = self.window.as_ref().is_some_and(|(_, is_saved)| *is_saved);
        let was_saved = self.recorded.saved > ByteCount::ZERO;
        if let (Phase::RecordingSave | Phase::RecordingMove, Some(Step::Record(moved))) =
            (self.phase, self.step())
        {
            self.recorded = moved;
        }
        self.phase = match self.phase {
            Phase::Confirming => {
                // Hosts ask for nothing of it yet: what is not saved is opened before anything else is closed.
                self.window = self.reshape.saved(self.recorded).map(|window| (window, true));
                if was_saved { Phase::Closing } else { Phase::Opening }
            }
            Phase::Closing if was_saved || !is_saved => Phase::Writing,
            Phase::Closing => Phase::Saving,
            Phase::Saving => Phase::RecordingSave,
            Phase::RecordingSave => Phase::Writing,
            Phase::Writing => Phase::RecordingMove,
            Phase::RecordingMove => Phase::Opening,
            Phase::Opening => {
                self.window = self.reshape.next(self.recorded.to, self.most);
                self.is_kept = false;
                Phase::Closing
            }
        };
    }

    /// What is recorded.
    pub fn recorded(&self) -> Moved {
        self.recorded
    }
}
