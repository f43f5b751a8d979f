//! What DDF has no words for: the text that SoftROC keeps in the vendor log of its drives, TOML, with a version.
//!
//! All drives of an array carry the same text. Which of them a drive is, its physical disk data say.

use crate::ddf::Extras;
use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::spare::SpareLabel;
use crate::tail::TailPlace;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use units::ByteCount;

/// The version of the text that this software writes. A label of an earlier version becomes this one at its next change.
pub const VERSION: u32 = 6;

/// The earliest version that this software reads. Versions 1 and 2 were labels of a form of their own.
pub const EARLIEST_VERSION: u32 = 3;

/// How coarse sets of regions are made, one after the other, until a label fits.
const MOST_RUNS: [usize; 5] = [4096, 512, 64, 8, 1];

/// What a drive of SoftROC's is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A member of an array, or the replacement of one.
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

    /// Where the tail is of the drive that carries it.
    pub fn tail(&self) -> TailPlace {
        self.label().map_or(TailPlace::End, |label| label.tail)
    }

    /// The UUID of the drive that is to carry it.
    pub fn drive(&self) -> Uuid {
        match self {
            Content::Member(label) => label.drive,
            Content::Spare(spare) => spare.drive,
        }
    }
}

/// The text of a member's label. Where its sets of regions take more room than there is, they are coarser: more regions are
/// called stale, fewer unwritten.
///
/// # Errors
/// [`ErrorKind::TooLarge`] where it does not fit all the same.
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
        Error::new(ErrorKind::Contradiction, format!("the label cannot be written as text: {error}"))
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

/// What the payload of that drive says.
///
/// # Errors
/// [`ErrorKind::Version`] of another version, [`ErrorKind::Contradiction`] where it says what cannot be.
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

/// Refuses a version that this software does not read.
///
/// # Errors
/// [`ErrorKind::Version`] with its number.
pub(crate) fn check_version(version: u32) -> Result<()> {
    match version {
        EARLIEST_VERSION..=VERSION => Ok(()),
        other => Err(another_version(other)),
    }
}

/// The refusal of a version that is not known.
pub(crate) fn another_version(version: u32) -> Error {
    let context = format!(
        "the label has version {version} of its format, but this software knows versions {EARLIEST_VERSION} to {VERSION}; use the software that wrote it, and move the data to a volume made by this one"
    );
    Error::new(ErrorKind::Version, context)
}
