//! Online reshape of a volume on the same drives: which bytes may move next, and in which order.
//!
//! Bytes behind the *cursor* are in the new layout, bytes ahead of it in the old one. A *window* of
//! whole new rows moves at a time; hosts wait for it. The cursor goes *up* from the first byte if
//! the new layout has at least as much data in the same part of each drive, otherwise *down* from
//! the last byte.
//!
//! ```text
//!                   old rows no longer in use
//! up    | new rows | . . . . . | old row, in part behind the cursor | old rows |
//!                  ^ the next window is written here
//! down  | old rows | old row, in part behind the cursor | . . . . . | new rows |
//!                                    the next window is written here ^
//! ```
//!
//! # Invariants
//! - An old row with bytes ahead of the cursor stays intact, since its redundancy covers all its
//!   strips. Before the first move all old rows do, so that the reshape can be cancelled.
//! - A window that would overwrite such a row is *saved* first: its new rows, with redundancy, are
//!   written to a save area and recorded. From then on the window is read from there.
//! - A window never extends beyond its saved part, and so does not touch later data.
//! - The cursor is recorded when the moved window is durable. Hosts get access afterwards, so a
//!   repeated write of the window cannot overwrite their data.
//! - A saved window outside a step (at a start, after a failed step) is read from the save area and
//!   not written. When it is closed again, nothing reads there: the next window reuses the area.
//! - If each byte has the same place in both layouts (the new one only adds rows), an intact window
//!   is *kept*: nothing is copied, its old rows go out of use, and that is recorded. A window with
//!   missing drives or lost blocks is moved as usual.
//! - A start writes the record again, on every drive, before it continues: a record on one drive
//!   may be gone at the next start.
//!
//! So each byte is always in the old layout, the new one or the save area, with the redundancy of
//! the lower level, and the record says where. `tests/reshape` tries every order of the steps.

use layout::{Geometry, Level, MirrorArrangement};
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange};

/// Upper limit of a kept window, per drive: hosts wait while its old stripes go out of use.
const MOST_KEPT: u64 = 16 << 30;

/// The durable record of a reshape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Moved {
    /// Bytes already in the new layout: the first ones, or the last ones if the cursor goes down.
    pub bytes: ByteCount,
    /// Saved bytes, which follow those in the cursor's direction.
    pub saved: ByteCount,
}

/// A unit of moving.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Bytes of the volume.
    pub bytes: ByteRange,
    /// Stripes of the new layout that contain them. They may extend past the volume's last byte.
    pub stripes: Range<u64>,
}

/// The next action. A step is complete before the next one begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Hold new host requests for these bytes, wait for running ones, and destage the bytes from
    /// caches.
    Close(Window),
    /// Read the window in the old layout, write it to the save area, and flush the drives.
    Save(Window),
    /// Make this record durable on every drive in use.
    Record(Moved),
    /// Write the window in the new layout, and flush the drives.
    Write {
        /// The window.
        window: Window,
        /// Whether it is read from the save area instead of the old layout.
        from_save: bool,
    },
    /// The window is in its final place: take its old stripes out of use, and flush the drives.
    Keep(Window),
    /// Admit host requests for all bytes. This many bytes are in the new layout, the others in the
    /// old.
    Open(ByteCount),
}

/// Two layouts of a volume over the same drives, which begin at the same address of each drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reshape {
    from: Geometry,
    to: Geometry,
    bytes: ByteCount,
    /// The cursor goes from the last byte to the first.
    is_down: bool,
    /// The most rows of the new layout in the save area, and in a window.
    save_rows: u64,
    most_rows: u64,
}

/// Data of a row of parallel stripes, and its length on each drive.
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
    /// Moves the first `bytes` of a volume to another layout. `save`: size of the save area on each
    /// drive; `most`: largest window on each drive.
    ///
    /// # Errors
    /// One sentence, when it is impossible.
    pub fn new(
        from: Geometry,
        to: Geometry,
        bytes: ByteCount,
        save: ByteCount,
        most: ByteCount,
    ) -> Result<Reshape, String> {
        let (old, new) = (Row::of(&from), Row::of(&to));
        if [&from, &to].iter().any(|of| of.mirror_arrangement() == Some(MirrorArrangement::Far)) {
            return Err(
                "the copies of a far layout are in two parts of each drive: these cannot be moved \
                    in order"
                    .into(),
            );
        }
        if bytes > to.capacity() || bytes > from.capacity() {
            return Err(format!("{bytes} do not fit: the new layout has {}", to.capacity()));
        }
        let is_down =
            u128::from(new.data) * u128::from(old.len) < u128::from(old.data) * u128::from(new.len);
        let unit = Reshape::least_save(&from, &to);
        if unit > save {
            return Err(format!(
                "the reshape must save {unit} of each drive at a time, and there is room for {save}"
            ));
        }
        let most_rows = (most.0 / new.len).max(1);
        Ok(Reshape { from, to, bytes, is_down, save_rows: save.0 / new.len, most_rows })
    }

    /// The smallest save area of each drive: up to where rows of both layouts end together.
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

    /// The bytes to move.
    pub fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// The largest window that need not be saved.
    pub fn most_bytes(&self) -> ByteCount {
        ByteCount(Row::of(&self.to).data * self.most_rows)
    }

    /// Whether the cursor goes from the last byte to the first.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// Position of the cursor after `moved` bytes.
    fn cursor(&self, moved: ByteCount) -> u64 {
        if self.is_down { self.bytes.0.saturating_sub(moved.0) } else { moved.0 }
    }

    /// Bytes of the volume between two positions of the cursor.
    fn between(&self, first: ByteCount, then: ByteCount) -> ByteRange {
        let (first, then) = (self.cursor(first), self.cursor(then));
        ByteRange::from_to(ByteOffset(first.min(then)), ByteOffset(first.max(then)))
    }

    /// Bytes in the new layout after `moved` bytes.
    pub fn by_new(&self, moved: ByteCount) -> ByteRange {
        self.between(ByteCount::ZERO, moved)
    }

    /// The saved bytes of a record.
    pub fn saved_range(&self, moved: Moved) -> ByteRange {
        self.between(moved.bytes, moved.bytes + moved.saved)
    }

    /// Bytes moved before a window.
    pub fn before(&self, window: &Window) -> ByteCount {
        let ByteRange { start, .. } = window.bytes;
        if self.is_down {
            ByteCount(self.bytes.0 - window.bytes.end().0)
        } else {
            ByteCount(start.0)
        }
    }

    /// Bytes moved with a window.
    pub fn after(&self, window: &Window) -> ByteCount {
        self.before(window) + window.bytes.len
    }

    /// Old rows in use on each drive after `moved` bytes.
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

    /// Whether new rows up to `edge`, from the cursor's starting side, avoid all old rows in use
    /// after `moved` bytes.
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

    /// Length on each drive of this many bytes in the new layout.
    pub fn of_each_drive(&self, bytes: ByteCount) -> ByteCount {
        let new = Row::of(&self.to);
        ByteCount(bytes.0.div_ceil(new.data) * new.len)
    }

    /// Whether each byte has the same place in both layouts, so that nothing is copied.
    pub fn is_in_place(&self) -> bool {
        let (from, to) = (&self.from, &self.to);
        // RAID 1 strips are as long as the drives allow.
        let has_strips = from.level() != Level::Raid1;
        let is_alike = from.shape() == to.shape() && from.level() != Level::Jbod;
        is_alike && (from.strip() == to.strip() || !has_strips)
    }

    /// The window from `at` that can be kept, up to the last common row end before `end`, if any.
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

    /// The next window after `moved` bytes, and whether it must be saved. `None`: all is moved.
    /// `most`: limit on each drive, if rows allow it.
    pub fn next(&self, moved: ByteCount, most: ByteCount) -> Option<(Window, bool)> {
        if moved >= self.bytes {
            return None;
        }
        let (new, at) = (Row::of(&self.to), self.cursor(moved));
        let most = self.most_rows.min((most.0 / new.len).max(1));
        // The row at which the window begins (up) or ends (down), and the number of rows left.
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
        // It exists: old and new rows end together within the save area.
        let is_apart = |rows: &u64| self.is_clear(end_of(*rows), self.after(&window(*rows)));
        let mut all = 1..=left.min(self.save_rows);
        let within = all.clone().rev().filter(|rows| *rows <= most).find(is_apart);
        let saved = within.or_else(|| all.find(is_apart)).unwrap_or(0);
        // A record and a flush for a row or two take longer than writing more rows twice.
        match free * 4 >= saved {
            true => Some((window(free), false)),
            false => Some((window(saved), true)),
        }
    }

    /// The saved window of a record.
    fn saved(&self, moved: Moved) -> Option<Window> {
        let (new, saved) = (Row::of(&self.to), self.saved_range(moved));
        let rows = saved.start.0 / new.data..saved.end().0.div_ceil(new.data);
        (!saved.is_empty()).then(|| self.rows(rows))
    }

    /// Whether a record can belong to this reshape.
    pub fn allows(&self, moved: Moved) -> bool {
        let new = Row::of(&self.to);
        let Some(end) = moved.bytes.0.checked_add(moved.saved.0) else { return false };
        let fits = |moved: u64| {
            let at = self.cursor(ByteCount(moved));
            moved <= self.bytes.0 && (at == self.bytes.0 || at.is_multiple_of(new.data))
        };
        fits(moved.bytes.0) && fits(end) && moved.saved.0.div_ceil(new.data) <= self.save_rows
    }

    /// Old stripes in use after `moved` bytes; a change of others would overwrite moved data.
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

    /// New stripes in use after `moved` bytes, in whole rows. With several spans, the last row may
    /// contain stripes without data of the volume.
    pub fn new_stripes(&self, moved: ByteCount) -> Range<u64> {
        let (new, per_row) = (Row::of(&self.to), u64::from(self.to.stripes_per_row()));
        let lies = self.by_new(moved);
        lies.start.0.div_ceil(new.data) * per_row..lies.end().0.div_ceil(new.data) * per_row
    }
}

/// Progress of a mover with its next window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// The record found at the start is written again.
    Confirming,
    Closing,
    Saving,
    RecordingSave,
    Writing,
    RecordingMove,
    Opening,
}

/// The state machine of a reshape: gives the next step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mover {
    reshape: Reshape,
    recorded: Moved,
    /// The window being moved, and whether it is saved first.
    window: Option<(Window, bool)>,
    phase: Phase,
    /// Limit of a window on each drive.
    most: ByteCount,
    /// The window is kept.
    is_kept: bool,
}

impl Mover {
    /// Continues from a record, at a start or after a failed step. Nothing is closed yet. Before
    /// the first [`Step::Open`] hosts must not write saved bytes; they may read these from the save
    /// area until they are closed.
    pub fn new(reshape: Reshape, recorded: Moved) -> Mover {
        let most = ByteCount(u64::MAX);
        Mover { reshape, recorded, window: None, phase: Phase::Confirming, most, is_kept: false }
    }

    /// Before a window is closed, with the volume intact up to `end` in the old layout: keeps as
    /// much of it as possible, if each byte has the same place in both layouts.
    pub fn keep(&mut self, end: ByteOffset) {
        let is_about_to =
            self.phase == Phase::Closing && self.window.is_some() && self.recorded.saved.is_zero();
        if let Some(window) = self.reshape.kept(self.recorded.bytes, end).filter(|_| is_about_to) {
            (self.window, self.is_kept) = (Some((window, false)), true);
        }
    }

    /// Limits the following windows on each drive, if rows allow it: hosts wait for a whole window.
    pub fn limit(&mut self, most: ByteCount) {
        self.most = most;
    }

    /// The next step; `None`: all is moved.
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

    /// Completes the step of [`Mover::step`].
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
                // Hosts have no access to it yet: the rest is opened before anything else is
                // closed.
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

    /// The durable record.
    pub fn recorded(&self) -> Moved {
        self.recorded
    }
}
