//! What is said of drives that carry metadata and are not in use.

use serde::{Deserialize, Serialize};

/// A volume that another system made, or has changed since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignVolume {
    /// Its name; may be empty.
    pub name: String,
    /// What tells it from all others, as its format writes it.
    pub identity: String,
    /// The format: `ddf`, `linux-md`, `imsm`.
    pub format: String,
    /// The format's version.
    pub version: String,
    /// Its level, as its format calls it.
    pub level: String,
    /// Its layout, as its format calls it; empty where there is no choice.
    pub layout: String,
    /// Its strip; `None` where the level has none.
    pub strip_bytes: Option<u64>,
    /// Its size; 0 where it is not known.
    pub size_bytes: u64,
    /// `complete`, `degraded` or `not readable`.
    pub state: String,
    /// Whether it was cleanly shut down.
    pub clean: bool,
    /// Its members, by slot.
    pub members: Vec<ForeignMember>,
    /// Other drives that have to do with it.
    pub others: Vec<ForeignOther>,
    /// What is missing or stale, and why: a sentence each.
    pub reasons: Vec<String>,
    /// Volumes that are imported together with it, since they lie on the same drives: their names or identities.
    pub together_with: Vec<String>,
    /// Why it cannot be imported, and what to do instead: a sentence. `None` where it can be.
    pub obstacle: Option<String>,
}

/// A member of a foreign volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignMember {
    /// Its slot, from zero.
    pub slot: u16,
    /// The drive; `None` where it is missing.
    pub drive: Option<String>,
    /// `current`, `rebuilding`, `stale` or `missing`.
    pub standing: String,
    /// Where its data begin on the drive.
    pub data_start_bytes: Option<u64>,
    /// Why it is not current: a sentence.
    pub reason: Option<String>,
}

/// A drive that has to do with a foreign volume and is none of its members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignOther {
    /// The drive.
    pub drive: String,
    /// What it is, in a word: `spare`, `journal`, `failed`, `stale`, `copy`.
    pub what: String,
    /// More about it: a sentence.
    pub reason: String,
}

/// A drive that carries metadata and serves in no volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignDrive {
    /// The drive.
    pub name: String,
    /// What it carries: a few words each.
    pub holds: Vec<String>,
    /// Why it is not used: a sentence.
    pub reason: Option<String>,
    /// Whether `foreign clear` takes all of that away.
    pub clearable: bool,
}
