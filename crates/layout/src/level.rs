//! The table of levels: what a level is called, what it needs, what it survives, and what it costs.
//!
//! A level is one row, one variant of [`Level`], and one file in `levels/` that holds the row and pictures of
//! the layout. What follows from the row and the drives alike for all levels of a family is computed:
//! [`crate::Geometry::survives`], [`crate::Geometry::write_penalty`].

use crate::levels::{
    jbod, raid00, raid0, raid1, raid1e, raid4, raid5, raid5ee, raid6, raid10, raid50, raid60,
};
use crate::{Error, ErrorKind, MirrorArrangement, ParityArrangement};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use units::DriveCount;

/// A RAID level. Its properties are in its [`LevelRow`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// One drive as it is.
    Jbod,
    /// Striping without redundancy.
    Raid0,
    /// Striping over spans of RAID 0.
    Raid00,
    /// Every drive holds the same.
    Raid1,
    /// Striped mirrors over any number of drives.
    Raid1e,
    /// Striping over spans of RAID 1.
    Raid10,
    /// Striping with parity on one drive.
    Raid4,
    /// Striping with one rotating parity strip per stripe.
    Raid5,
    /// RAID 5 with a hot spare spread over the drives.
    Raid5ee,
    /// Striping with two rotating parity strips per stripe.
    Raid6,
    /// Striping over spans of RAID 5.
    Raid50,
    /// Striping over spans of RAID 6.
    Raid60,
}

/// What kind of redundancy a level has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// None: data strips side by side.
    Striped,
    /// Copies of every data strip.
    Mirrored,
    /// Parity strips in every stripe.
    Parity,
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
    /// What kind of redundancy it has.
    pub family: Family,
    /// The fewest drives it can be made of.
    pub min_drives: DriveCount,
    /// The most drives it can be made of.
    pub max_drives: DriveCount,
    /// How many spans it can have: 1 where it has none.
    pub spans: RangeInclusive<u16>,
    /// How many drives a span can have.
    pub drives_per_span: RangeInclusive<u16>,
    /// Parity strips per stripe.
    pub parity_strips: u16,
    /// Spare strips per stripe.
    pub spare_strips: u16,
    /// Where parity can be, the default first; empty where there is none.
    pub parity_arrangements: &'static [ParityArrangement],
    /// Where copies can be, the default first; empty where there is no choice.
    pub mirror_arrangements: &'static [MirrorArrangement],
    /// For people, in `n` drives, `s` spans and `c` copies; tests hold them against what is computed.
    pub formulas: Formulas,
}

/// What is true of a level on any number of drives, for people: `n` drives, `s` spans, `c` copies, the drives
/// of a span `w = n / s`.
pub struct Formulas {
    /// How many drives' worth of data the volume holds.
    pub usable: &'static str,
    /// How many drives it survives losing, whichever they are.
    pub survives_at_least: &'static str,
    /// How many drives it survives losing when they are the luckiest ones.
    pub survives_at_most: &'static str,
    /// Accesses on drives per small random write of the host.
    pub write_penalty: &'static str,
}

impl LevelRow {
    /// Whether it has spans.
    pub fn is_spanned(&self) -> bool {
        *self.spans.end() > 1
    }
}

impl Level {
    /// Every level there is, in the order of the table.
    pub const ALL: [Level; 12] = [
        Level::Jbod,
        Level::Raid0,
        Level::Raid00,
        Level::Raid1,
        Level::Raid1e,
        Level::Raid10,
        Level::Raid4,
        Level::Raid5,
        Level::Raid5ee,
        Level::Raid6,
        Level::Raid50,
        Level::Raid60,
    ];

    /// The level's row in the table.
    pub const fn row(self) -> &'static LevelRow {
        match self {
            Level::Jbod => &jbod::ROW,
            Level::Raid0 => &raid0::ROW,
            Level::Raid00 => &raid00::ROW,
            Level::Raid1 => &raid1::ROW,
            Level::Raid1e => &raid1e::ROW,
            Level::Raid10 => &raid10::ROW,
            Level::Raid4 => &raid4::ROW,
            Level::Raid5 => &raid5::ROW,
            Level::Raid5ee => &raid5ee::ROW,
            Level::Raid6 => &raid6::ROW,
            Level::Raid50 => &raid50::ROW,
            Level::Raid60 => &raid60::ROW,
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
        self.row().family != Family::Striped
    }

    /// Whether redundancy is parity, which a write that is interrupted may leave in disagreement with data nobody was writing.
    pub fn has_parity(self) -> bool {
        self.row().family == Family::Parity
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
