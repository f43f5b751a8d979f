//! The table of levels: names, requirements, fault tolerance and cost.
//!
//! A level is one row, one variant of [`Level`], and one file in `levels/` with the row and figures
//! of the layout. Properties that follow from the row and the drives in the same way for a whole
//! family are calculated: [`crate::Geometry::survives`], [`crate::Geometry::write_penalty`].

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
    /// One drive, passed through.
    Jbod,
    /// Striping without redundancy.
    Raid0,
    /// Striping over spans of RAID 0.
    Raid00,
    /// Mirroring: all drives have the same content.
    Raid1,
    /// Striped mirrors over any number of drives.
    Raid1e,
    /// Striping over spans of RAID 1.
    Raid10,
    /// Striping with parity on one drive.
    Raid4,
    /// Striping with one rotating parity strip per stripe.
    Raid5,
    /// RAID 5 with a distributed spare.
    Raid5ee,
    /// Striping with two rotating parity strips per stripe.
    Raid6,
    /// Striping over spans of RAID 5.
    Raid50,
    /// Striping over spans of RAID 6.
    Raid60,
}

/// The kind of redundancy of a level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// No redundancy.
    Striped,
    /// Copies of each data strip.
    Mirrored,
    /// Parity strips in each stripe.
    Parity,
}

/// A level's row in the table: all its properties except the map.
pub struct LevelRow {
    /// The level.
    pub level: Level,
    /// Its name in commands, files and metrics, such as `raid5`.
    pub name: &'static str,
    /// Its title in text, such as `RAID 5`.
    pub title: &'static str,
    /// A summary of one sentence, without a full stop.
    pub summary: &'static str,
    /// The kind of redundancy.
    pub family: Family,
    /// The minimum number of drives.
    pub min_drives: DriveCount,
    /// The maximum number of drives.
    pub max_drives: DriveCount,
    /// The possible numbers of spans: 1 for levels without spans.
    pub spans: RangeInclusive<u16>,
    /// The possible numbers of drives per span.
    pub drives_per_span: RangeInclusive<u16>,
    /// Parity strips per stripe.
    pub parity_strips: u16,
    /// Spare strips per stripe.
    pub spare_strips: u16,
    /// Its parity layouts, the default first; empty without parity.
    pub parity_arrangements: &'static [ParityArrangement],
    /// Its mirror layouts, the default first; empty without a choice.
    pub mirror_arrangements: &'static [MirrorArrangement],
    /// Formulas for the documentation; tests compare them with the calculated values.
    pub formulas: Formulas,
}

/// Properties of a level as formulas: `n` drives, `s` spans, `c` copies, `w = n / s` drives per
/// span.
pub struct Formulas {
    /// The usable capacity, in drives.
    pub usable: &'static str,
    /// The number of drives that may fail, in the worst case.
    pub survives_at_least: &'static str,
    /// The number of drives that may fail, in the best case.
    pub survives_at_most: &'static str,
    /// Drive I/Os per small random host write.
    pub write_penalty: &'static str,
}

impl LevelRow {
    /// Whether it has spans.
    pub fn is_spanned(&self) -> bool {
        *self.spans.end() > 1
    }
}

impl Level {
    /// All levels, in the order of the table.
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

    /// Its title in text, such as `RAID 5`.
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// Whether it survives the failure of any one drive.
    pub fn is_redundant(self) -> bool {
        self.row().family != Family::Striped
    }

    /// Whether it has parity, and therefore a write hole: an interrupted write may make parity
    /// inconsistent with unrelated data.
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

    /// Parses a level's name, case-insensitive.
    fn from_str(text: &str) -> Result<Level, Error> {
        Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text)).ok_or_else(
            || {
                let names: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
                Error::new(
                    ErrorKind::UnknownLevel,
                    format!("'{text}' is not a level; expected one of {}", names.join(", ")),
                )
            },
        )
    }
}
