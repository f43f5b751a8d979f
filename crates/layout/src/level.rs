//! The table of levels: what a level is called, what it needs, what it survives, and what it costs.
//!
//! A level is one row here, one variant of [`Level`], and one file beside this one that holds the row and
//! the map. The compiler then names every place that has to say something about the new level.

use crate::{Error, ErrorKind, raid0, raid1, raid5};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::DriveCount;

/// A RAID level. Its properties are in its [`LevelRow`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Every drive holds the same.
    Raid1,
    /// Striping with one rotating parity strip per stripe.
    Raid5,
}

/// A level's row in the table: everything about it but the map.
pub struct LevelRow {
    /// Which level.
    pub level: Level,
    /// Its name in commands, files and metrics, such as `raid5`.
    pub name: &'static str,
    /// Its name in prose, such as `RAID 5`.
    pub title: &'static str,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The fewest drives it can be made of.
    pub min_drives: DriveCount,
    /// The most drives it can be made of.
    pub max_drives: DriveCount,
    /// Data strips per stripe on that many drives.
    pub data_strips: fn(DriveCount) -> u16,
    /// How often each data strip is stored on that many drives (1 where it is not mirrored).
    pub copies: fn(DriveCount) -> u16,
    /// Parity strips per stripe.
    pub parity_strips: u16,
    /// How many of that many drives may fail without loss of data.
    pub survives: fn(DriveCount) -> Survives,
    /// Drive I/Os per small random write of the host on that many drives, all of them working: the write
    /// penalty. (RAID 5 on three drives pays 3, since reading the one other data strip is cheaper than
    /// reading old data and old parity; on more drives it is the textbook's 4.)
    pub write_penalty: fn(DriveCount) -> u16,
}

/// How many drives may fail without loss of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survives {
    /// Whichever drives they are.
    pub at_least: DriveCount,
    /// When they are the luckiest ones.
    pub at_most: DriveCount,
}

impl Survives {
    pub(crate) const fn any(drives: u16) -> Survives {
        Survives { at_least: DriveCount(drives), at_most: DriveCount(drives) }
    }
}

impl Level {
    /// Every level there is, in the order of the table.
    pub const ALL: [Level; 3] = [Level::Raid0, Level::Raid1, Level::Raid5];

    /// The level's row in the table.
    pub const fn row(self) -> &'static LevelRow {
        match self {
            Level::Raid0 => &raid0::ROW,
            Level::Raid1 => &raid1::ROW,
            Level::Raid5 => &raid5::ROW,
        }
    }

    /// Its name in commands, files and metrics, such as `raid5`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Its name in prose, such as `RAID 5`.
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// Whether any drive may fail without loss of data.
    pub fn is_redundant(self) -> bool {
        let row = self.row();
        (row.survives)(row.min_drives).at_least > DriveCount(0)
    }
}

impl fmt::Display for Level {
    /// The name in commands, such as `raid5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = Error;

    /// A level by its name in commands; upper and lower case are the same.
    fn from_str(text: &str) -> Result<Level, Error> {
        Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let names: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
            Error::new(
                ErrorKind::UnknownLevel,
                format!("'{text}' is not a level; expected one of {}", names.join(", ")),
            )
        })
    }
}
