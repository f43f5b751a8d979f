//! SoftROC's data without a field in DDF: TOML text with a version, in the vendor log of its
//! drives.
//!
//! All drives of an array carry the same text. The physical disk data identify the drive.

use crate::ddf::Extras;
use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::spare::SpareLabel;
use crate::tail::TailPlace;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use units::ByteCount;

/// The version that this software writes. A label of an earlier version is converted at its next
/// change.
pub const VERSION: u32 = 6;

/// The earliest version that this software reads. Versions 1 and 2 had a different format.
pub const EARLIEST_VERSION: u32 = 3;

/// The limits of runs in each set of regions, tried in order until the label fits.
const MOST_RUNS: [usize; 5] = [4096, 512, 64, 8, 1];

/// The role of a drive of SoftROC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A member of an array, or its replacement.
    Member(Box<Label>),
    /// A hot spare.
    Spare(SpareLabel),
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<&'a Label>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spare: Option<&'a SpareLabel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    array: Option<Label>,
    spare: Option<SpareLabel>,
}

impl Content {
    /// The label of a member, if it is one.
    pub fn label(&self) -> Option<&Label> {
        match self {
            Content::Member(label) => Some(label),
            Content::Spare(_) => None,
        }
    }

    /// The place of the tail on the drive that carries it.
    pub fn tail(&self) -> TailPlace {
        self.label().map_or(TailPlace::End, |label| label.tail)
    }

    /// The UUID of the drive that carries it.
    pub fn drive(&self) -> Uuid {
        match self {
            Content::Member(label) => label.drive,
            Content::Spare(spare) => spare.drive,
        }
    }
}

/// The text of a member's label. Where its sets of regions are too large, they are coarsened: more
/// regions count as stale, fewer as unwritten.
///
/// # Errors
/// [`ErrorKind::TooLarge`] where it still does not fit.
pub fn text_of(label: &Label) -> Result<Vec<u8>> {
    let mut text = write(&Written { array: Some(label), spare: None });
    for most in MOST_RUNS {
        match &text {
            Err(error) if error.kind == ErrorKind::TooLarge => {
                text = write(&Written { array: Some(&label.coarser(most)), spare: None });
            }
            _ => break,
        }
    }
    text
}

/// The text of a spare's label.
///
/// # Errors
/// [`ErrorKind::TooLarge`] where it does not fit.
pub fn spare_text_of(spare: &SpareLabel) -> Result<Vec<u8>> {
    write(&Written { array: None, spare: Some(spare) })
}

fn write(written: &Written) -> Result<Vec<u8>> {
    let text = toml::to_string(written).map_err(|error| {
        Error::new(
            ErrorKind::Contradiction,
            format!("the label cannot be written as text: {error}"),
        )
    })?;
    if ByteCount::of(text.as_bytes()) > Extras::MOST {
        let sentence = format!(
            "the label takes {} bytes, but there is room for {}; use shorter names",
            text.len(),
            Extras::MOST
        );
        return Err(Error::new(ErrorKind::TooLarge, sentence));
    }
    Ok(text.into_bytes())
}

/// Decodes the payload of that drive.
///
/// # Errors
/// [`ErrorKind::Version`] for another version, [`ErrorKind::Contradiction`] for invalid content.
pub fn read(extras: &Extras, drive: Uuid) -> Result<Content> {
    check_version(extras.version)?;
    let contradiction = |what: String| Error::new(ErrorKind::Contradiction, what);
    let text = std::str::from_utf8(&extras.payload)
        .map_err(|_| contradiction("the label's text is not UTF-8".to_owned()))?;
    let read: Read = toml::from_str(text).map_err(|error| {
        contradiction(format!("the label's text cannot be understood: {}", error.message()))
    })?;
    match (read.array, read.spare) {
        (Some(label), None) => {
            let label = label.for_drive(drive);
            label.check()?;
            Ok(Content::Member(Box::new(label)))
        }
        (None, Some(spare)) => {
            let spare = SpareLabel { drive, ..spare };
            spare.check()?;
            Ok(Content::Spare(spare))
        }
        _ => Err(contradiction("the label is neither an array's nor a spare's".to_owned())),
    }
}

/// Refuses an unsupported version.
///
/// # Errors
/// [`ErrorKind::Version`] with its number.
pub(crate) fn check_version(version: u32) -> Result<()> {
    match version {
        EARLIEST_VERSION..=VERSION => Ok(()),
        other => Err(another_version(other)),
    }
}

/// The error for an unsupported version.
pub(crate) fn another_version(version: u32) -> Error {
    let context = format!(
        "the label has version {version} of its format, but this software knows versions \
            {EARLIEST_VERSION} to {VERSION}; use the software that wrote it, and move the data to \
            a volume made by this one"
    );
    Error::new(ErrorKind::Version, context)
}
