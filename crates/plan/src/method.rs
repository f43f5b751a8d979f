//! How a request is served, and why.

use serde::Serialize;
use std::fmt;

/// How a request is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// There is nothing to do.
    Nothing,
    /// Only the requested data is read or written.
    Direct,
    /// Every copy is written.
    Mirror,
    /// Missing strips are computed from the others of their stripe.
    Reconstruct,
    /// All data of the columns is new, so parity needs no old bytes.
    FullStripe,
    /// Read-modify-write: parity changes by the difference of old and new data.
    Rmw,
    /// Reconstruct-write: the unwritten data is read, and parity is recomputed.
    Rcw,
    /// A lost strip that is not written is recovered first, then parity is recomputed.
    RecoverWrite,
    /// Several ways in different columns.
    Mixed,
    /// Data is written without parity, which is lost, or is stale and cannot be recomputed.
    DataOnly,
    /// Redundancy is made to agree with data.
    Resync,
    /// Unreadable strips are recomputed and written.
    Rebuild,
    /// A wrong strip is recomputed and written.
    Repair,
    /// A drive's content is copied to its replacement.
    Copy,
    /// All of the stripe is read and compared.
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
    /// There were two ways to keep parity, each for all columns except full stripes.
    Chosen {
        /// Price of the chosen way.
        chosen: Price,
        /// RMW throughout.
        rmw: Alternative,
        /// RCW throughout.
        rcw: Alternative,
    },
}

/// What another way would have cost, or why it was not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alternative {
    /// Possible at this price.
    Price(Price),
    /// Old parity cannot be read.
    ParityUnreadable,
    /// Old parity may disagree with the data.
    ParityUntrusted,
    /// Data that it needs cannot be read.
    DataUnreadable,
}

/// Price of a way: first the number of drive I/Os, then bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize)]
pub struct Price {
    /// Reads and writes after merging adjacent ones.
    pub drive_ios: u32,
    /// Bytes read and written.
    pub bytes: u64,
}
