//! What can happen to a drive, and how it is drawn.

use crate::tally::Deed;
use platform_sim::Rng;
use std::time::Duration;

/// How long a start waits for a drive of this machine.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);

/// What can happen to a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It dies for good.
    Dies,
    /// It is pulled out. It may be put back after a crash, or after so long.
    Vanishes(Option<Duration>),
    /// Its file is deleted, and goes on taking writes that nobody will find again.
    FileDeleted,
    /// Its file is truncated to so many 64ths of its length.
    FileTruncated(u64),
    /// Its next writes fail.
    WriteErrors(u64),
    /// Its next flushes fail.
    FlushErrors(u64),
    /// Its next so many operations of that kind are refused by the system for now (ENOMEM and EBUSY of the ring).
    Busy(&'static str, u64),
    /// Some blocks cannot be read until they are written.
    MediumErrors,
    /// Some blocks cannot be read, and writes to them repair nothing: so many more of each, or (`None`) all of them.
    Stuck {
        /// Writes that repair nothing.
        writes: Option<u32>,
        /// Whether they fail; otherwise they are acknowledged.
        refuses: bool,
    },
    /// It answers nothing for so long, then everything.
    Holds(Duration),
    /// So many operations take so much longer.
    Stalls(u64, Duration),
    /// Everything takes so many times as long, for so long.
    Slows(u32, Duration),
    /// Some sectors read as something else.
    Rots,
    /// So many writes to some place are acknowledged and not carried out.
    LosesWrites(u64),
    /// So many writes to some place are acknowledged and carried out somewhere else.
    MisdirectsWrites(u64),
}

impl Fault {
    /// `silent`: also one that no drive tells of.
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
            16..=17 => Fault::Slows(rng.between(2, 50) as u32, Duration::from_millis(10 << rng.below(10))),
            18..=21 => Fault::Rots,
            22..=24 => Fault::LosesWrites(rng.between(1, 3)),
            _ => Fault::MisdirectsWrites(rng.between(1, 3)),
        }
    }

    /// Something that is done to a drive's file below the controller.
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

    /// What the system refuses for now, often more than once.
    pub(super) fn draw_busy(rng: &mut Rng) -> Fault {
        // A write that fails beside a drive that is out leaves that drive's blocks of the stripe in doubt, which the oracle does not follow.
        let operation = ["read", "flush"][rng.below(2) as usize];
        Fault::Busy(operation, 1 << rng.below(8))
    }

    /// A drive that answers late, or not for a while, and then all that it was asked.
    pub(super) fn draw_silent(rng: &mut Rng) -> Fault {
        let time = Duration::from_millis(rng.between(200, 45_000));
        match rng.chance(1, 2) {
            true => Fault::Holds(time),
            false => Fault::Stalls(rng.between(1, 30), time),
        }
    }

    /// Whether the drive tells of it, or is late.
    pub(super) fn is_reported(self) -> bool {
        !matches!(self, Fault::Rots | Fault::LosesWrites(_) | Fault::MisdirectsWrites(_))
    }

    /// Whether the controller may take the drive out for it.
    pub(super) fn may_cost_the_drive(self, limit: Duration) -> bool {
        match self {
            Fault::Dies | Fault::Vanishes(_) | Fault::WriteErrors(_) | Fault::FlushErrors(_) => true,
            Fault::FileDeleted | Fault::FileTruncated(_) => true,
            // Where the map or the label cannot be read or written, that is the drive's end too.
            Fault::MediumErrors | Fault::Rots | Fault::LosesWrites(_) | Fault::MisdirectsWrites(_) => false,
            // A drive that refuses a write goes out where its volume can do without it.
            Fault::Stuck { refuses, .. } => refuses,
            Fault::Slows(..) | Fault::Busy(..) => false,
            Fault::Holds(time) => time >= limit,
            // A start looks at a drive step by step, and goes on without it when it has not answered all of them in time.
            Fault::Stalls(count, time) => time >= limit || time * count as u32 >= START_LIMIT,
        }
    }

    pub(super) fn deed(self, limit: Duration) -> Deed {
        match self {
            Fault::Dies => Deed::Dies,
            Fault::Vanishes(_) => Deed::Vanishes,
            Fault::FileDeleted => Deed::FileDeleted,
            Fault::FileTruncated(_) => Deed::FileTruncated,
            Fault::WriteErrors(_) => Deed::WriteErrors,
            Fault::FlushErrors(_) => Deed::FlushErrors,
            Fault::Busy(..) => Deed::Busy,
            Fault::MediumErrors => Deed::MediumErrors,
            Fault::Stuck { .. } => Deed::Stuck,
            Fault::Holds(time) | Fault::Stalls(_, time) if time >= limit => Deed::TimesOut,
            Fault::Holds(_) | Fault::Stalls(..) => Deed::Hangs,
            Fault::Slows(..) => Deed::Slow,
            Fault::Rots => Deed::Rots,
            Fault::LosesWrites(_) => Deed::LosesWrite,
            Fault::MisdirectsWrites(_) => Deed::MisdirectsWrite,
        }
    }
}
