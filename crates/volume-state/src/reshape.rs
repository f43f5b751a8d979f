//! A volume that is moved from one layout to another on the same drives while it is used: which bytes may move next, and in which
//! order that is done.
//!
//! A *cursor* goes through the volume's bytes. Behind it they lie by the new layout, ahead of it by the old one. What is moved at
//! a time is a *window* of whole rows of the new layout, and no host reads or writes there meanwhile.
//!
//! Where the new layout has at least as much data in the same part of each drive, the cursor goes *up*, from the first byte on: bytes come to lie nearer to the
//! beginning of the drives, or stay as far from it. Where it has less, the cursor goes *down*, from the last byte on: bytes come to lie farther from the beginning.
//!
//! ```text
//!                   old rows that are of no use any more
//! up    | new rows | . . . . . | old row, in part behind the cursor | old rows |
//!                  ^ the next window is written here
//! down  | old rows | old row, in part behind the cursor | . . . . . | new rows |
//!                                    the next window is written here ^
//! ```
//!
//! # Invariants
//! - An old row that has bytes ahead of the cursor is left whole, also the strips in it that are behind the cursor: its redundancy is
//!   computed over all of them. As long as nothing has moved all old rows are, since all of it may be taken back. A window that would be written over such a row is *saved* first: its new rows are written to a place of their own,
//!   with all of their redundancy, and that is recorded. From then on the window is read from there.
//! - A window never reaches beyond what it saves: what is moved after it is untouched by it.
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
    /// So many bytes of the volume lie by the new layout: its first ones, or its last ones where the cursor goes down.
    pub bytes: ByteCount,
    /// So many bytes next to those are saved.
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
    /// Hosts may ask for everything. So many bytes are served by the new layout, all others by the old one.
    Open(ByteCount),
}

/// Two layouts of a volume over the same drives, both from the same address of each drive on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reshape {
    from: Geometry,
    to: Geometry,
    bytes: ByteCount,
    /// The cursor goes from the last byte to the first.
    is_down: bool,
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
    /// One sentence, when that cannot be done.
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
        let is_down = u128::from(new.data) * u128::from(old.len) < u128::from(old.data) * u128::from(new.len);
        let unit = Reshape::least_save(&from, &to);
        if unit > save {
            return Err(format!(
                "{unit} of each drive would have to be saved at a time, and there is room for {save}"
            ));
        }
        let most_rows = (most.0 / new.len).max(1);
        Ok(Reshape { from, to, bytes, is_down, save_rows: save.0 / new.len, most_rows })
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

    /// Whether the cursor goes from the last byte to the first.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// Where the cursor is when so much has moved.
    fn cursor(&self, moved: ByteCount) -> u64 {
        if self.is_down { self.bytes.0.saturating_sub(moved.0) } else { moved.0 }
    }

    /// The bytes of the volume between two places of the cursor.
    fn between(&self, first: ByteCount, then: ByteCount) -> ByteRange {
        let (first, then) = (self.cursor(first), self.cursor(then));
        ByteRange::from_to(ByteOffset(first.min(then)), ByteOffset(first.max(then)))
    }

    /// What lies by the new layout when so much has moved.
    pub fn by_new(&self, moved: ByteCount) -> ByteRange {
        self.between(ByteCount::ZERO, moved)
    }

    /// What a record says is saved.
    pub fn saved_range(&self, moved: Moved) -> ByteRange {
        self.between(moved.bytes, moved.bytes + moved.saved)
    }

    /// How much has moved before a window is.
    pub fn before(&self, window: &Window) -> ByteCount {
        let ByteRange { start, .. } = window.bytes;
        if self.is_down { ByteCount(self.bytes.0 - window.bytes.end().0) } else { ByteCount(start.0) }
    }

    /// How much has moved when a window is.
    pub fn after(&self, window: &Window) -> ByteCount {
        self.before(window) + window.bytes.len
    }

    /// Where on each drive old rows lie that are in use when so much has moved.
    fn live(&self, moved: ByteCount) -> Range<u64> {
        let (old, at) = (Row::of(&self.from), self.cursor(moved));
        match self.is_down {
            false if at >= self.bytes.0 => u64::MAX..u64::MAX,
            false => at / old.data * old.len..u64::MAX,
            true if moved.is_zero() => {
                0..self.from.stripes().0.div_ceil(u64::from(self.from.stripes_per_row())) * old.len
            }
            true => 0..at.div_ceil(old.data) * old.len,
        }
    }

    /// Whether new rows that have been written up to the edge of this one, from the side that the cursor comes from, are clear of all old rows that
    /// are in use when so much has moved.
    fn is_clear(&self, edge: u64, moved: ByteCount) -> bool {
        let (live, at) = (self.live(moved), edge * Row::of(&self.to).len);
        if self.is_down { at >= live.end } else { at <= live.start }
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
    fn kept(&self, at: ByteCount, end: ByteOffset) -> Option<Window> {
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

    /// What is moved next, when so much has moved, and whether it has to be saved. `None`: all is moved. `most`: what is moved of each drive at
    /// most, where rows allow so little.
    pub fn next(&self, moved: ByteCount, most: ByteCount) -> Option<(Window, bool)> {
        if moved >= self.bytes {
            return None;
        }
        let (new, at) = (Row::of(&self.to), self.cursor(moved));
        let most = self.most_rows.min((most.0 / new.len).max(1));
        // The row before which the window is, or from which on, and how many there are on that side.
        let (edge, left) = match self.is_down {
            true => (at.div_ceil(new.data), at.div_ceil(new.data)),
            false => (at / new.data, self.bytes.0.div_ceil(new.data) - at / new.data),
        };
        let end_of = |rows: u64| if self.is_down { edge - rows } else { edge + rows };
        let window = |rows: u64| self.rows(edge.min(end_of(rows))..edge.max(end_of(rows)));
        let live = self.live(moved);
        let free = match self.is_down {
            true => edge.saturating_sub(live.end.div_ceil(new.len)),
            false => (live.start / new.len).saturating_sub(edge),
        };
        let free = free.min(most).min(left);
        // There is one: old and new rows end together after what can be saved at the latest.
        let is_apart = |rows: &u64| self.is_clear(end_of(*rows), self.after(&window(*rows)));
        let mut all = 1..=left.min(self.save_rows);
        let within = all.clone().rev().filter(|rows| *rows <= most).find(is_apart);
        let saved = within.or_else(|| all.find(is_apart)).unwrap_or(0);
        // A record and a flush for a row or two take longer than writing more of them twice.
        match free * 4 >= saved {
            true => Some((window(free), false)),
            false => Some((window(saved), true)),
        }
    }

    /// The window that a record says is saved.
    fn saved(&self, moved: Moved) -> Option<Window> {
        let (new, saved) = (Row::of(&self.to), self.saved_range(moved));
        let rows = saved.start.0 / new.data..saved.end().0.div_ceil(new.data);
        (!saved.is_empty()).then(|| self.rows(rows))
    }

    /// Whether a record can be of this reshape.
    pub fn allows(&self, moved: Moved) -> bool {
        let new = Row::of(&self.to);
        let Some(end) = moved.bytes.0.checked_add(moved.saved.0) else { return false };
        let fits = |moved: u64| {
            let at = self.cursor(ByteCount(moved));
            moved <= self.bytes.0 && (at == self.bytes.0 || at.is_multiple_of(new.data))
        };
        fits(moved.bytes.0) && fits(end) && moved.saved.0.div_ceil(new.data) <= self.save_rows
    }

    /// Old stripes that are in use when so much has moved: whoever changed another one would change what lies there now.
    pub fn old_stripes(&self, moved: ByteCount) -> Range<u64> {
        let (end, at) = (self.from.stripes().0, self.cursor(moved));
        let stripe = |at: u64| self.from.stripe_of(ByteOffset(at)).0.0;
        match self.is_down {
            true if moved.is_zero() => 0..end,
            true => 0..at.checked_sub(1).map_or(0, |last| (stripe(last) + 1).min(end)),
            false if at >= self.bytes.0 => end..end,
            false => stripe(at).min(end)..end,
        }
    }

    /// New stripes that are in use when so much has moved: whole rows, as they are written. Of several spans some may have nothing of the
    /// volume's in the last one.
    pub fn new_stripes(&self, moved: ByteCount) -> Range<u64> {
        let (new, per_row) = (Row::of(&self.to), u64::from(self.to.stripes_per_row()));
        let lies = self.by_new(moved);
        lies.start.0.div_ceil(new.data) * per_row..lies.end().0.div_ceil(new.data) * per_row
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
        if let Some(window) = self.reshape.kept(self.recorded.bytes, end).filter(|_| is_about_to) {
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
        let Moved { bytes, .. } = self.recorded;
        if self.phase == Phase::Confirming {
            return Some(Step::Record(self.recorded));
        }
        let Some((window, is_saved)) = &self.window else {
            return (self.phase == Phase::Opening).then_some(Step::Open(bytes));
        };
        let (window, from_save) = (window.clone(), *is_saved);
        Some(match self.phase {
            Phase::Confirming | Phase::Closing => Step::Close(window),
            Phase::Saving => Step::Save(window),
            Phase::RecordingSave => Step::Record(Moved { bytes, saved: window.bytes.len }),
            Phase::Writing if self.is_kept => Step::Keep(window),
            Phase::Writing => Step::Write { window, from_save },
            Phase::RecordingMove => {
                Step::Record(Moved { bytes: self.reshape.after(&window), saved: ByteCount::ZERO })
            }
            Phase::Opening => Step::Open(bytes),
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
                self.window = self.reshape.next(self.recorded.bytes, self.most);
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
