//! A label in its slot: a header with checksums, then the text. Two slots are written alternately.
//!
//! # Fault model and invariants
//! - A write of a slot may be torn or lost; then a checksum does not agree, or the slot is as before.
//! - The next label always goes to the slot that does *not* hold the newest sound one, with the next sequence:
//!   a label that was written whole stays readable until a newer one has been.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::tail::{BLOCK, SLOT, Slot};
use units::ByteCount;

/// How a label's header begins.
pub const MAGIC: [u8; 8] = *b"SoftROC\0";

/// The version of the format that this software reads and writes.
pub const VERSION: u32 = 1;

const HEADER: usize = BLOCK.0 as usize;
const AT_VERSION: usize = 8;
const AT_HEADER_CRC: usize = 12;
const AT_SEQUENCE: usize = 16;
const AT_BODY_LEN: usize = 24;
const AT_BODY_CRC: usize = 28;
const AT_ARRAY: usize = 32;
const AT_DRIVE: usize = 48;

/// A sound label, and where the next one goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// What it says.
    pub label: Label,
    /// Its number among the labels that this drive has carried.
    pub sequence: u64,
    /// Where it lies.
    pub slot: Slot,
}

/// The bytes of a label, to be written to the start of its slot: whole 4 KiB blocks.
///
/// # Errors
/// When it does not fit a slot.
pub fn encode(label: &Label, sequence: u64) -> Result<Vec<u8>> {
    let text = label.to_text()?;
    let mut bytes = vec![0; HEADER];
    bytes[..AT_VERSION].copy_from_slice(&MAGIC);
    bytes[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
    bytes[AT_SEQUENCE..][..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[AT_BODY_LEN..][..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[AT_BODY_CRC..][..4].copy_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
    bytes[AT_ARRAY..][..16].copy_from_slice(&label.array.0);
    bytes[AT_DRIVE..][..16].copy_from_slice(&label.drive.0);
    let crc = crc_without(&bytes, AT_HEADER_CRC);
    bytes[AT_HEADER_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(HEADER), 0);
    Ok(bytes)
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
pub fn decode(bytes: &[u8]) -> Result<(Label, u64)> {
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
                "the label has version {version} of its format, but this software knows version {VERSION}; use the software that wrote it"
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
    let sequence = u64_at(header, AT_SEQUENCE);
    let label = Label::from_text(body)?;
    let same = header[AT_ARRAY..][..16] == label.array.0 && header[AT_DRIVE..][..16] == label.drive.0;
    if !same || sequence >= u64::MAX / 2 {
        return Err(Error::new(ErrorKind::Contradiction, "a label's header and text do not belong together"));
    }
    Ok((label, sequence))
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
            Ok((label, sequence)) => {
                if newest.as_ref().is_none_or(|other| other.sequence < sequence) {
                    newest = Some(Carried { label, sequence, slot });
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
