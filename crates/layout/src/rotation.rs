//! How parity moves from stripe to stripe.

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How parity moves from stripe to stripe on `n` drives, under the names Linux md gave them.
///
/// *Left*: parity of stripe `s` is on drive `n - 1 - s mod n`. *Right*: on drive `s mod n`.
/// *Symmetric*: the data strips start on the drive after parity and wrap, so that consecutive strips of
/// the volume are on consecutive drives. *Asymmetric*: they fill the drives from 0 up, passing over parity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParityRotation {
    /// The default here, as in Linux md (layout 2) and MegaRAID; DDF: "parity N, data continuation".
    #[default]
    LeftSymmetric,
    /// Linux md layout 0; DDF: "parity N, data restart".
    LeftAsymmetric,
    /// Linux md layout 3; DDF: "parity 0, data continuation".
    RightSymmetric,
    /// Linux md layout 1; DDF: "parity 0, data restart".
    RightAsymmetric,
}

impl ParityRotation {
    /// All of them, the default first.
    pub const ALL: [ParityRotation; 4] = [
        ParityRotation::LeftSymmetric,
        ParityRotation::LeftAsymmetric,
        ParityRotation::RightSymmetric,
        ParityRotation::RightAsymmetric,
    ];

    /// Its name in commands and files, such as `left-symmetric`.
    pub const fn name(self) -> &'static str {
        match self {
            ParityRotation::LeftSymmetric => "left-symmetric",
            ParityRotation::LeftAsymmetric => "left-asymmetric",
            ParityRotation::RightSymmetric => "right-symmetric",
            ParityRotation::RightAsymmetric => "right-asymmetric",
        }
    }

    /// Whether data follows parity around (symmetric) or starts on drive 0 in every stripe (asymmetric).
    pub const fn is_symmetric(self) -> bool {
        matches!(self, ParityRotation::LeftSymmetric | ParityRotation::RightSymmetric)
    }

    /// Whether parity starts on the last drive and moves down.
    pub const fn is_left(self) -> bool {
        matches!(self, ParityRotation::LeftSymmetric | ParityRotation::LeftAsymmetric)
    }
}

impl fmt::Display for ParityRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ParityRotation {
    type Err = Error;

    fn from_str(text: &str) -> Result<ParityRotation, Error> {
        ParityRotation::ALL
            .into_iter()
            .find(|rotation| rotation.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let names = ParityRotation::ALL.map(ParityRotation::name).join(", ");
                Error::new(
                    ErrorKind::UnknownRotation,
                    format!("'{text}' is not a parity rotation; expected one of {names}"),
                )
            })
    }
}
