//! The label of a hot spare.

use crate::error::{Error, ErrorKind, Result};
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// The arrays that a spare protects.
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

/// The label of a hot spare. Such a drive belongs to no array yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpareLabel {
    /// The UUID of the drive that carries this label: from its physical disk data, not from the
    /// text.
    #[serde(skip)]
    pub drive: Uuid,
    /// The arrays that it protects.
    pub scope: SpareScope,
    /// Its enclosure, by the operator's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// Whether its content is copied back to the drive that replaces the failed one, which frees
    /// the spare.
    pub revertible: bool,
    /// The time when it became a spare, in seconds since 1970.
    pub since_unix_s: u64,
}

/// The bay of a drive, as the host computer reports it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bay {
    /// The enclosure.
    pub enclosure: String,
    /// The bay in it.
    pub slot: String,
}

/// Marks a member as the active hot spare of a drive that failed, or predicts its failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// The name of that drive, for users.
    pub instead_of: String,
    /// The bay of that drive: a blank drive there replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bay: Option<Bay>,
    /// The arrays that it protected before; `None` if it was not a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SpareScope>,
    /// Whether its content is copied back to the drive that replaces the failed one, which frees
    /// the spare.
    pub revertible: bool,
}

/// The most arrays that one spare protects.
const MAX_ARRAYS: usize = 256;

/// The longest name of an enclosure.
const LONGEST_ENCLOSURE: usize = 64;

impl SpareLabel {
    /// Checks the content.
    ///
    /// # Errors
    /// Describes the first invalid field.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(ErrorKind::Contradiction, what));
        match &self.scope {
            SpareScope::Arrays(arrays) if arrays.is_empty() || arrays.len() > MAX_ARRAYS => {
                wrong("a spare's label names no arrays, or too many")
            }
            SpareScope::Enclosure if self.enclosure.is_none() => {
                wrong("a spare's label names no enclosure, but protects one")
            }
            _ if self.enclosure.as_ref().is_some_and(|name| !is_enclosure_name(name)) => {
                wrong("a spare's label names an enclosure with no name")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a text is valid as the name of an enclosure.
pub(crate) fn is_enclosure_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_ENCLOSURE && name.chars().all(|c| !c.is_control())
}
