//! A label in its slot: a header with checksums, then the text. Two slots are written alternately. The text is that
//! of a member of an array, or, where the header names no array, that of a hot spare.
//!
//! # Fault model and invariants
//! - A write of a slot may be torn or lost; then a checksum does not agree, or the slot is as before.
//! - The next label always goes to the slot that does *not* hold the newest sound one, with the next sequence:
//!   a label that was written whole stays readable until a newer one has been.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::spare::SpareLabel;
use crate::tail::{BLOCK, SLOT, Slot};
use crate::uuid::Uuid;
use serde::Serialize;
use units::ByteCount;

/// How a label's header begins.
pub const MAGIC: [u8; 8] = *b"SoftROC\0";

/// The version of the format that this software reads and writes.
pub const VERSION: u32 = 2;

const HEADER: usize = BLOCK.0 as usize;
const AT_VERSION: usize = 8;
const AT_HEADER_CRC: usize = 12;
const AT_SEQUENCE: usize = 16;
const AT_BODY_LEN: usize = 24;
const AT_BODY_CRC: usize = 28;
const AT_ARRAY: usize = 32;
const AT_DRIVE: usize = 48;

/// The array UUID in the header of a spare's label.
const NO_ARRAY: Uuid = Uuid([0; 16]);

/// How coarse sets of lanes are made, one after the other, until a label fits its slot.
const MOST_RUNS: [usize; 5] = [4096, 512, 64, 8, 1];

/// What a label is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// That of a member of an array, or of the shadow of one.
    Member(Box<Label>),
    /// That of a hot spare.
    Spare(SpareLabel),
}

/// A sound label, and where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// What it says.
    pub content: Content,
    /// Its number among the labels that this drive has carried.
    pub sequence: u64,
    /// Where it lies.
    pub slot: Slot,
}

impl Carried {
    /// The label of a member, if it is one.
    pub fn label(&self) -> Option<&Label> {
        match &self.content {
            Content::Member(label) => Some(label),
            Content::Spare(_) => None,
        }
    }
}

/// The bytes of a member's label, to be written to the start of its slot: whole 4 KiB blocks. Where its sets of
/// lanes take more room than there is, they are coarser: more lanes are called stale, fewer unwritten.
///
/// # Errors
/// When it does not fit a slot all the same.
pub fn encode(label: &Label, sequence: u64) -> Result<Vec<u8>> {
    let mut text = text_of(label);
    for most in MOST_RUNS {
        match &text {
            Err(error) if error.kind == ErrorKind::TooLarge => text = text_of(&label.coarser(most)),
            _ => break,
        }
    }
    Ok(frame(&text?, label.array, label.drive, sequence))
}

/// The bytes of a spare's label, to be written to the start of its slot.
///
/// # Errors
/// When it does not fit a slot.
pub fn encode_spare(label: &SpareLabel, sequence: u64) -> Result<Vec<u8>> {
    Ok(frame(&text_of(label)?, NO_ARRAY, label.drive, sequence))
}

fn text_of(label: &impl Serialize) -> Result<String> {
    let text = toml::to_string(label).map_err(|error| {
        Error::new(ErrorKind::Contradiction, format!("the label cannot be written as text: {error}"))
    })?;
    if text.len() as u64 > (SLOT - BLOCK).0 {
        let sentence =
            format!("the label takes {} bytes, but a slot has room for 1 MiB; use shorter names", text.len());
        return Err(Error::new(ErrorKind::TooLarge, sentence));
    }
    Ok(text)
}

fn frame(text: &str, array: Uuid, drive: Uuid, sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..AT_VERSION].copy_from_slice(&MAGIC);
    bytes[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
    bytes[AT_SEQUENCE..][..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[AT_BODY_LEN..][..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[AT_BODY_CRC..][..4].copy_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
    bytes[AT_ARRAY..][..16].copy_from_slice(&array.0);
    bytes[AT_DRIVE..][..16].copy_from_slice(&drive.0);
    let crc = crc_without(&bytes, AT_HEADER_CRC);
    bytes[AT_HEADER_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(HEADER), 0);
    bytes
}

/// How much of a slot has to be read, by its first block: at least that block, at most the slot.
pub fn length(first_block: &[u8]) -> ByteCount {
    if !first_block.starts_with(&MAGIC) {
        return BLOCK;
    }
    let body = ByteCount(u64::from(u32_at(first_block, AT_BODY_LEN)));
    (BLOCK + body).align_up(BLOCK).min(SLOT)
}

/// The label in a slot.
///
/// # Errors
/// [`ErrorKind::Blank`] where there is none, [`ErrorKind::Version`] of another version, and what is wrong with
/// one that is damaged.
pub fn decode(bytes: &[u8]) -> Result<(Content, u64)> {
    let damaged = |what: String| Error::new(ErrorKind::Damaged, what);
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::new(ErrorKind::Blank, "there is no label"));
    }
    let Some((header, body)) = bytes.split_at_checked(HEADER) else {
        return Err(damaged(format!("a label's header is cut off after {} bytes", bytes.len())));
    };
    if u32_at(header, AT_HEADER_CRC) != crc_without(header, AT_HEADER_CRC) {
        return Err(damaged("the checksum of a label's header does not agree".into()));
    }
    let version = u32_at(header, AT_VERSION);
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::Version,
            format!(
                "the label has version {version} of its format, but this software knows version {VERSION}; use the software that wrote it, and move the data to a volume made by this one"
            ),
        ));
    }
    let len = u32_at(header, AT_BODY_LEN) as usize;
    let Some(body) = body.get(..len) else {
        return Err(damaged(format!("a label names {len} bytes of text, which its slot does not hold")));
    };
    if u32_at(header, AT_BODY_CRC) != crc32c::crc32c(body) {
        return Err(damaged("the checksum of a label's text does not agree".into()));
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::new(ErrorKind::Contradiction, "the label's text is not UTF-8"))?;
    let (content, array, drive) = if header[AT_ARRAY..][..16] == NO_ARRAY.0 {
        let spare = SpareLabel::from_text(text)?;
        let drive = spare.drive;
        (Content::Spare(spare), NO_ARRAY, drive)
    } else {
        let label = Label::from_text(text)?;
        let (array, drive) = (label.array, label.drive);
        (Content::Member(Box::new(label)), array, drive)
    };
    let same = header[AT_ARRAY..][..16] == array.0 && header[AT_DRIVE..][..16] == drive.0;
    let sequence = u64_at(header, AT_SEQUENCE);
    if !same || sequence >= u64::MAX / 2 {
        return Err(Error::new(ErrorKind::Contradiction, "a label's header and text do not belong together"));
    }
    Ok((content, sequence))
}

/// The newest sound label of a drive, by what its slots hold.
///
/// # Errors
/// [`ErrorKind::Blank`] where neither slot holds one, [`ErrorKind::Version`] where one is of another version
/// (which may be newer: then the other one is not to be trusted), otherwise what is wrong.
pub fn newest(slots: [&[u8]; 2]) -> Result<Carried> {
    let mut newest: Option<Carried> = None;
    let mut wrong: Option<Error> = None;
    for (slot, bytes) in Slot::BOTH.into_iter().zip(slots) {
        match decode(bytes) {
            Ok((content, sequence)) => {
                if newest.as_ref().is_none_or(|other| other.sequence < sequence) {
                    newest = Some(Carried { content, sequence, slot });
                }
            }
            Err(error) if error.kind == ErrorKind::Version => return Err(error),
            Err(error) if error.kind == ErrorKind::Blank => {}
            Err(error) => wrong = Some(error),
        }
    }
    match (newest, wrong) {
        (Some(newest), _) => Ok(newest),
        (None, Some(wrong)) => Err(wrong),
        (None, None) => Err(Error::new(ErrorKind::Blank, "there is no label")),
    }
}
