//! Preconditioning: writes before the measurement. A solid-state drive that was never written
//! serves reads without flash access, and accepts writes at a speed that it cannot sustain.

use crate::error::{Error, ErrorKind, Result};
use crate::load::profile::Profile;
use std::fmt;
use std::str::FromStr;
use units::ByteCount;

/// The writes before the first point: sequential blocks of 128 KiB with 32 outstanding, over the
/// measured area and repeatedly, with incompressible bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precondition {
    /// No writes.
    #[default]
    None,
    /// This many bytes.
    Written(ByteCount),
    /// Twice the measured area: the workload-independent preconditioning of the SNIA Solid State
    /// Storage Performance Test Specification. Its second, workload-dependent step runs each
    /// workload in rounds until it is steady: [`crate::Settings::steady_state`].
    TwiceTheArea,
}

/// The number of outstanding writes.
pub(crate) const OUTSTANDING: u32 = 32;

/// The load of the preconditioning.
pub(crate) fn profile() -> Profile {
    "sequential,write,128K"
        .parse()
        .expect("the parser accepts this constant load profile, as a test shows")
}

impl Precondition {
    /// The number of bytes for an area of this size.
    pub fn bytes(self, area: ByteCount) -> ByteCount {
        match self {
            Precondition::None => ByteCount::ZERO,
            Precondition::Written(bytes) => bytes,
            Precondition::TwiceTheArea => ByteCount(area.0.saturating_mul(2)),
        }
    }
}

impl fmt::Display for Precondition {
    /// The input form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Precondition::None => f.write_str("none"),
            Precondition::Written(bytes) => write!(f, "{bytes}"),
            Precondition::TwiceTheArea => f.write_str("snia"),
        }
    }
}

impl FromStr for Precondition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Precondition> {
        match text {
            "none" => Ok(Precondition::None),
            "snia" => Ok(Precondition::TwiceTheArea),
            size => size.parse().map(Precondition::Written).map_err(|_| {
                Error::new(
                    ErrorKind::BadSettings,
                    format!(
                        "'{size}' is not a preconditioning; expected none, snia (twice the \
                            measured area) or how much to write, such as 10G"
                    ),
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        for (text, kind, bytes) in [
            ("none", Precondition::None, 0),
            ("snia", Precondition::TwiceTheArea, 200),
            ("10G", Precondition::Written(ByteCount(10 << 30)), 10 << 30),
        ] {
            let read: Precondition = text.parse().unwrap();
            assert_eq!((read, read.bytes(ByteCount(100)).0), (kind, bytes));
            assert_eq!(read.to_string().replace(" GiB", "G"), text);
        }
        let error = "some".parse::<Precondition>().unwrap_err();
        assert!(
            error.to_string().starts_with("'some' is not a preconditioning; expected none, snia")
        );
    }

    #[test]
    fn its_load_writes_all_of_the_area_in_turn() {
        let profile = profile();
        assert!(
            profile.writes() && !profile.reads() && profile.block() == Some(ByteCount(128 << 10))
        );
    }
}
