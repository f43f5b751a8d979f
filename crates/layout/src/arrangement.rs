//! The layouts of parity and of copies: their positions on the drives, row by row.

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The positions of the parity strips on the `n` drives of a span, and the order of the data strips
/// on the others. `r` is the stripe's row.
///
/// | name | P | Q, or the spare of RAID 5EE | data strips | weight of data in Q |
/// | --- | --- | --- | --- | --- |
/// | `left-symmetric` | moves down from the last drive | after P | from the drive after those on, wrapping | in order, from the drive after Q on |
/// | `left-asymmetric` | moves down from the last drive | after P | from drive 0 up | same |
/// | `right-symmetric` | moves up from drive 0 | after P | from the drive after those on, wrapping | same |
/// | `right-asymmetric` | moves up from drive 0 | after P | from drive 0 up | same |
/// | `parity-first` | drive 0 | drive 1 | from drive 0 up | same |
/// | `parity-last` | the last drive that is not Q's | the last drive | from drive 0 up | same |
/// | `ddf-zero-restart` | moves up from drive 0 | after P | from drive 0 up | by drive |
/// | `ddf-n-restart` | moves down from drive n − 2 | after P | from drive 0 up | by drive |
/// | `ddf-n-continue` | moves down from the last drive | before P | from the drive after P on, wrapping | by drive |
/// | `left-symmetric-6`, … | as RAID 5 on the first n − 1 drives | the last drive | as RAID 5 on the first n − 1 drives | in order, from drive 0 on |
///
/// Data strips skip drives with parity or the spare. The names are those of Linux md. DDF calls
/// them for RAID 5 *parity 0* (right) and *parity N* (left), *data restart* (asymmetric) and *data
/// continuation* (symmetric). In RAID 5EE the spare follows P, and both move: the left layouts
/// start with P on the last drive but one in row 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParityArrangement {
    /// Linux md layout 2; DDF RAID 5 and 5EE qualifier 3. The default of MegaRAID and of Linux md.
    LeftSymmetric,
    /// Linux md layout 0; DDF RAID 5 and 5EE qualifier 2; Intel's RAID 5.
    LeftAsymmetric,
    /// Linux md layout 3; DDF RAID 5 qualifier 1.
    RightSymmetric,
    /// Linux md layout 1; DDF RAID 5 and 5EE qualifier 0.
    RightAsymmetric,
    /// Linux md layout 4; DDF RAID 4 qualifier 0.
    ParityFirst,
    /// Linux md layout 5 (and level 4); DDF RAID 4 qualifier 1.
    ParityLast,
    /// Linux md layout 8; DDF RAID 6 qualifier 1, "rotating parity 0, data restart".
    DdfZeroRestart,
    /// Linux md layout 9; DDF RAID 6 qualifier 2, "rotating parity N, data restart".
    DdfNRestart,
    /// Linux md layout 10; DDF RAID 6 qualifier 3, "rotating parity N, data continuation".
    DdfNContinue,
    /// Linux md layout 18: RAID 5 with an added drive for Q.
    #[serde(rename = "left-symmetric-6")]
    LeftSymmetric6,
    /// Linux md layout 16.
    #[serde(rename = "left-asymmetric-6")]
    LeftAsymmetric6,
    /// Linux md layout 19.
    #[serde(rename = "right-symmetric-6")]
    RightSymmetric6,
    /// Linux md layout 17.
    #[serde(rename = "right-asymmetric-6")]
    RightAsymmetric6,
    /// Linux md layout 20.
    #[serde(rename = "parity-first-6")]
    ParityFirst6,
}

/// The positions of the copies of data strips on `n` mirroring drives, `c` copies each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorArrangement {
    /// Copies next to each other, row after row: copy `j` of data strip `i` is cell `c·i + j` of
    /// the stripe. Linux md "near"; DDF RAID 1E qualifier 0, "adjacent".
    Near,
    /// A row of data, then the same row again, shifted by one drive. Linux md "offset"; DDF RAID 1E
    /// qualifier 1, "offset".
    Offset,
    /// All rows of data; then, at `1/c` of the drive, all rows again, shifted by one drive. Reads
    /// of copy 0 stay in the fast outer part of a rotating drive. Linux md "far".
    Far,
}

impl ParityArrangement {
    /// All parity layouts.
    pub const ALL: [ParityArrangement; 14] = [
        ParityArrangement::LeftSymmetric,
        ParityArrangement::LeftAsymmetric,
        ParityArrangement::RightSymmetric,
        ParityArrangement::RightAsymmetric,
        ParityArrangement::ParityFirst,
        ParityArrangement::ParityLast,
        ParityArrangement::DdfZeroRestart,
        ParityArrangement::DdfNRestart,
        ParityArrangement::DdfNContinue,
        ParityArrangement::LeftSymmetric6,
        ParityArrangement::LeftAsymmetric6,
        ParityArrangement::RightSymmetric6,
        ParityArrangement::RightAsymmetric6,
        ParityArrangement::ParityFirst6,
    ];

    /// Its name in commands and files, such as `left-symmetric`.
    pub const fn name(self) -> &'static str {
        match self {
            ParityArrangement::LeftSymmetric => "left-symmetric",
            ParityArrangement::LeftAsymmetric => "left-asymmetric",
            ParityArrangement::RightSymmetric => "right-symmetric",
            ParityArrangement::RightAsymmetric => "right-asymmetric",
            ParityArrangement::ParityFirst => "parity-first",
            ParityArrangement::ParityLast => "parity-last",
            ParityArrangement::DdfZeroRestart => "ddf-zero-restart",
            ParityArrangement::DdfNRestart => "ddf-n-restart",
            ParityArrangement::DdfNContinue => "ddf-n-continue",
            ParityArrangement::LeftSymmetric6 => "left-symmetric-6",
            ParityArrangement::LeftAsymmetric6 => "left-asymmetric-6",
            ParityArrangement::RightSymmetric6 => "right-symmetric-6",
            ParityArrangement::RightAsymmetric6 => "right-asymmetric-6",
            ParityArrangement::ParityFirst6 => "parity-first-6",
        }
    }
}

impl MirrorArrangement {
    /// All mirror layouts.
    pub const ALL: [MirrorArrangement; 3] =
        [MirrorArrangement::Near, MirrorArrangement::Offset, MirrorArrangement::Far];

    /// Its name in commands and files, such as `near`.
    pub const fn name(self) -> &'static str {
        match self {
            MirrorArrangement::Near => "near",
            MirrorArrangement::Offset => "offset",
            MirrorArrangement::Far => "far",
        }
    }
}

impl fmt::Display for ParityArrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for MirrorArrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ParityArrangement {
    type Err = Error;

    fn from_str(text: &str) -> Result<ParityArrangement, Error> {
        let known = ParityArrangement::ALL;
        known
            .into_iter()
            .find(|one| one.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| unknown(text, "a parity layout", &known.map(ParityArrangement::name)))
    }
}

impl FromStr for MirrorArrangement {
    type Err = Error;

    fn from_str(text: &str) -> Result<MirrorArrangement, Error> {
        let known = MirrorArrangement::ALL;
        known
            .into_iter()
            .find(|one| one.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| unknown(text, "a mirror layout", &known.map(MirrorArrangement::name)))
    }
}

fn unknown(text: &str, what: &str, names: &[&str]) -> Error {
    let context = format!("'{text}' is not {what}; expected one of {}", names.join(", "));
    Error::new(ErrorKind::UnknownArrangement, context)
}
