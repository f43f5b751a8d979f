//! What the label of a hot spare says.

use crate::error::{Error, ErrorKind, Result};
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// Which arrays a spare stands by for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpareScope {
    /// All arrays.
    Global,
    /// Arrays with a drive in the spare's enclosure.
    Enclosure,
    /// These arrays.
    Arrays(Vec<Uuid>),
}

/// What the label of a hot spare says. Such a drive belongs to no array yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpareLabel {
    /// The UUID of the drive that carries this label: its physical disk data say it, not the text.
    #[serde(skip)]
    pub drive: Uuid,
    /// Which arrays it stands by for.
    pub scope: SpareScope,
    /// The enclosure it sits in, as the operator calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// Whether its content comes back to the drive that replaces the failed one, and it is a spare again.
    pub revertible: bool,
    /// When it became a spare, in seconds since 1970.
    pub since_unix_s: u64,
}

/// Where a drive sits, as the machine tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bay {
    /// The enclosure.
    pub enclosure: String,
    /// The place in it.
    pub slot: String,
}

/// That a member stands in for a drive that failed, or expects to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// How the drive was named, for people.
    pub instead_of: String,
    /// Where that drive sat: a blank drive that appears there is its successor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bay: Option<Bay>,
    /// Which arrays it stood by for before; `None` of one that was no spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SpareScope>,
    /// Whether its content goes to the drive that replaces the failed one, and it is a spare again.
    pub revertible: bool,
}

/// The most arrays that one spare stands by for.
const MAX_ARRAYS: usize = 256;

/// The longest name of an enclosure.
const LONGEST_ENCLOSURE: usize = 64;

impl SpareLabel {
    /// Looks whether everything it says can be.
    ///
    /// # Errors
    /// Says what cannot.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(ErrorKind::Contradiction, what));
        match &self.scope {
            SpareScope::Arrays(arrays) if arrays.is_empty() || arrays.len() > MAX_ARRAYS => {
                wrong("a spare's label names no arrays, or too many")
            }
            SpareScope::Enclosure if self.enclosure.is_none() => {
                wrong("a spare's label names no enclosure, but is for one")
            }
            _ if self.enclosure.as_ref().is_some_and(|name| !is_enclosure_name(name)) => {
                wrong("a spare's label names an enclosure with no name")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a text can be the name of an enclosure.
pub(crate) fn is_enclosure_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_ENCLOSURE && name.chars().all(|c| !c.is_control())
}
