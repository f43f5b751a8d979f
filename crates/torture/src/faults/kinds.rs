//! The kinds of faults of drives, and their random selection.

use crate::tally::Event;
use platform_sim::Rng;
use std::time::Duration;

/// How long a start waits for a local drive.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);

/// A fault of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The drive dies permanently.
    Dies,
    /// The drive is pulled out. It may be reinserted after a crash, or after this time.
    Vanishes(Option<Duration>),
    /// The drive's file is deleted; the open file still takes writes that are lost later.
    FileDeleted,
    /// The drive's file is truncated to this number of 64ths of its length.
    FileTruncated(u64),
    /// The drive's next writes fail.
    WriteErrors(u64),
    /// The drive's next flushes fail.
    FlushErrors(u64),
    /// The system temporarily refuses the next operations of that kind (ENOMEM and EBUSY of the
    /// ring).
    Busy(&'static str, u64),
    /// Some blocks are unreadable until they are written.
    MediumErrors,
    /// Some blocks are unreadable, and this number of writes, or (`None`) all writes, do not repair
    /// them.
    Stuck {
        /// The number of writes that repair nothing.
        writes: Option<u32>,
        /// Whether these writes fail; otherwise they are acknowledged.
        refuses: bool,
    },
    /// The drive hangs for this time, then completes everything.
    Holds(Duration),
    /// This number of operations take this much longer.
    Stalls(u64, Duration),
    /// All operations take this many times as long, for this time.
    Slows(u32, Duration),
    /// Some sectors read as wrong data.
    Rots,
    /// This number of writes to some place are acknowledged and lost.
    LosesWrites(u64),
    /// This number of writes to some place are acknowledged and misdirected.
    MisdirectsWrites(u64),
}

impl Fault {
    /// `silent`: includes faults that the drive does not report.
    pub(super) fn draw(rng: &mut Rng, silent: bool) -> Fault {
        match rng.below(if silent { 28 } else { 18 }) {
            0..=2 => Fault::Dies,
            3 => Fault::Vanishes(None),
            4..=5 => Fault::Vanishes(Some(Duration::from_micros(1000 << rng.below(14)))),
            6..=7 => Fault::WriteErrors(rng.between(1, 3)),
            8..=9 => Fault::FlushErrors(rng.between(1, 2)),
            10..=11 => Fault::MediumErrors,
            12 => Fault::Holds(Duration::from_secs(rng.between(31, 90))),
            13 => Fault::Holds(Duration::from_millis(rng.between(1, 20_000))),
            14 => Fault::Stalls(rng.between(1, 3), Duration::from_secs(rng.between(31, 90))),
            15 => Fault::Stalls(rng.between(1, 20), Duration::from_millis(rng.between(1, 2_000))),
            16..=17 => {
                Fault::Slows(rng.between(2, 50) as u32, Duration::from_millis(10 << rng.below(10)))
            }
            18..=21 => Fault::Rots,
            22..=24 => Fault::LosesWrites(rng.between(1, 3)),
            _ => Fault::MisdirectsWrites(rng.between(1, 3)),
        }
    }

    /// A fault of the drive's file below the controller.
    pub(super) fn draw_for_file(rng: &mut Rng) -> Fault {
        match rng.below(2) {
            0 => Fault::FileDeleted,
            _ => Fault::FileTruncated(rng.below(64)),
        }
    }

    /// Blocks that stay unreadable.
    pub(super) fn draw_stuck(rng: &mut Rng) -> Fault {
        let writes = if rng.chance(1, 2) { None } else { Some(rng.between(1, 3) as u32) };
        Fault::Stuck { writes, refuses: writes.is_none() && rng.chance(1, 2) }
    }

    /// Temporary refusals of the system, often more than one.
    pub(super) fn draw_busy(rng: &mut Rng) -> Fault {
        // A write that fails in a degraded stripe makes the missing drive's blocks uncertain, which
        // the oracle does not track.
        let operation = ["read", "flush"][rng.below(2) as usize];
        Fault::Busy(operation, 1 << rng.below(8))
    }

    /// A drive that responds late, or hangs for a while and then completes everything.
    pub(super) fn draw_silent(rng: &mut Rng) -> Fault {
        let time = Duration::from_millis(rng.between(200, 45_000));
        match rng.chance(1, 2) {
            true => Fault::Holds(time),
            false => Fault::Stalls(rng.between(1, 30), time),
        }
    }

    /// Whether the drive reports the fault, or is late.
    pub(super) fn is_reported(self) -> bool {
        !matches!(self, Fault::Rots | Fault::LosesWrites(_) | Fault::MisdirectsWrites(_))
    }

    /// Whether the controller may fail the drive for it.
    pub(super) fn may_cost_the_drive(self, limit: Duration) -> bool {
        match self {
            Fault::Dies | Fault::Vanishes(_) | Fault::WriteErrors(_) | Fault::FlushErrors(_) => {
                true
            }
            Fault::FileDeleted | Fault::FileTruncated(_) => true,
            // These faults fail a drive if they hit its write-intent map or label.
            Fault::MediumErrors
            | Fault::Rots
            | Fault::LosesWrites(_)
            | Fault::MisdirectsWrites(_) => false,
            // A drive that refuses a write is failed if its volume survives that.
            Fault::Stuck { refuses, .. } => refuses,
            Fault::Slows(..) | Fault::Busy(..) => false,
            Fault::Holds(time) | Fault::Stalls(_, time) => time >= limit,
        }
    }

    /// How long a slow drive makes a sequence of operations wait. A start reads a drive step by
    /// step, and continues without it after `START_LIMIT`.
    pub(super) fn delay(self) -> Option<Duration> {
        match self {
            Fault::Holds(time) => Some(time),
            Fault::Stalls(count, time) => Some(time * count as u32),
            Fault::Slows(..) => Some(Duration::ZERO),
            _ => None,
        }
    }

    pub(super) fn event(self, limit: Duration) -> Event {
        match self {
            Fault::Dies => Event::Dies,
            Fault::Vanishes(_) => Event::Vanishes,
            Fault::FileDeleted => Event::FileDeleted,
            Fault::FileTruncated(_) => Event::FileTruncated,
            Fault::WriteErrors(_) => Event::WriteErrors,
            Fault::FlushErrors(_) => Event::FlushErrors,
            Fault::Busy(..) => Event::Busy,
            Fault::MediumErrors => Event::MediumErrors,
            Fault::Stuck { .. } => Event::Stuck,
            Fault::Holds(time) | Fault::Stalls(_, time) if time >= limit => Event::TimesOut,
            Fault::Holds(_) | Fault::Stalls(..) => Event::Hangs,
            Fault::Slows(..) => Event::Slow,
            Fault::Rots => Event::Rots,
            Fault::LosesWrites(_) => Event::LosesWrite,
            Fault::MisdirectsWrites(_) => Event::MisdirectsWrite,
        }
    }
}
