//! How a request is served, and why that way.

use serde::Serialize;
use std::fmt;

/// How a request is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Nothing has to be done.
    Nothing,
    /// What is asked for is read, or written, and nothing else.
    Direct,
    /// Every copy is written.
    Mirror,
    /// Missing strips are computed from the others of their stripe.
    Reconstruct,
    /// All data of the columns concerned is new, so parity needs no old bytes.
    FullStripe,
    /// Read-modify-write: old data and old parity are read; their difference to the new data is the
    /// change of parity.
    Rmw,
    /// Reconstruct-write: the data that is not written is read, and parity computed anew.
    Rcw,
    /// A strip that is lost and is not written is computed first, then parity anew.
    RecoverWrite,
    /// Some columns one way and some another.
    Mixed,
    /// Data is written without parity, because parity is lost, or is not to be trusted and cannot be
    /// computed anew.
    DataOnly,
    /// Redundancy is made to agree with data.
    Resync,
    /// Strips that cannot be read are computed from the others and written.
    Rebuild,
    /// A strip that is wrong is computed from the others and written.
    Repair,
    /// What a drive holds goes to the drive that takes its place.
    Copy,
    /// Everything is read and compared.
    Verify,
}

impl Method {
    /// Its short name, as in "RMW: 4 drive I/Os".
    pub fn name(self) -> &'static str {
        match self {
            Method::Nothing => "nothing to do",
            Method::Direct => "direct",
            Method::Mirror => "mirrored write",
            Method::Reconstruct => "reconstruction",
            Method::FullStripe => "full-stripe write",
            Method::Rmw => "RMW",
            Method::Rcw => "RCW",
            Method::RecoverWrite => "recovering write",
            Method::Mixed => "mixed",
            Method::DataOnly => "data without parity",
            Method::Resync => "resync",
            Method::Rebuild => "rebuild",
            Method::Repair => "repair",
            Method::Copy => "copy",
            Method::Verify => "verify",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a method was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// There is no other way.
    Only,
    /// Parity could be kept in two ways, each used over all columns (but for those written in full).
    Chosen {
        /// What was chosen costs this.
        chosen: Price,
        /// RMW throughout.
        rmw: Alternative,
        /// RCW throughout.
        rcw: Alternative,
    },
}

/// What one way of writing would have cost, or why it was not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alternative {
    /// Possible at this price.
    Price(Price),
    /// Old parity cannot be read.
    ParityUnreadable,
    /// Old parity may disagree with the data.
    ParityUntrusted,
    /// Data that it would read cannot be read.
    DataUnreadable,
}

/// What is weighed: fewest drive I/Os first, then fewest bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize)]
pub struct Price {
    /// Reads and writes after merging what touches on a drive.
    pub drive_ios: u32,
    /// Bytes read and written.
    pub bytes: u64,
}
