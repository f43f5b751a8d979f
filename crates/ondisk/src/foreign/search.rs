//! Finds metadata that belong to the end of a smaller drive, on a larger drive that is its copy.
//!
//! The places of Linux md 1.0 and 0.90 and of Intel's metadata count from the end of the drive.
//! Metadata elsewhere are used only where they differ from data of hosts, and where only one
//! candidate exists:
//!
//! | metadata | condition |
//! | --- | --- |
//! | Linux md 1.0 | records the sector where it lies |
//! | Linux md 0.90 | its data end before it, at a multiple of 64 KiB |
//! | Intel | list this drive (by serial number, if known), ending one block behind the anchor |
//!
//! The search is for drives without other metadata. SNIA DDF has its own search
//! ([`Effort::Search`](crate::ddf::Effort)), over the same bytes.

use super::glimpse::Glimpse;
use super::record::Told;
use super::{imsm, md};
use units::{ByteCount, ByteOffset, ByteRange};

/// The length of the searched end of a drive.
const SEARCHED: ByteCount = ByteCount(32 << 20);
/// The bytes read at a time.
const STEP: u64 = 1 << 20;
const SECTOR: usize = 512;

/// Metadata at a wrong place.
pub(super) struct Displaced {
    /// Their kind: a few words.
    pub(super) what: String,
    /// Their offset.
    pub(super) at: ByteOffset,
    /// The least size of the original drive.
    pub(super) was: ByteCount,
    /// The decoded metadata.
    pub(super) told: Told,
}

/// The ranges that a search reads.
pub(crate) fn steps(size: ByteCount) -> Vec<ByteRange> {
    let mut steps = Vec::new();
    let mut at = size.0.saturating_sub(SEARCHED.0) / 4096 * 4096;
    while at < size.0 {
        let len = STEP.min(size.0 - at);
        steps.push(ByteRange::new(ByteOffset(at), ByteCount(len)));
        at += len;
    }
    steps
}

/// Metadata in the last 32 MiB of a drive that were written for a smaller drive. Call it again when
/// the ranges that the probe buffer [wanted](Glimpse::wanted) are there, until it wants nothing
/// more: twice at most.
pub fn search(glimpse: &Glimpse) -> Told {
    let mut found: Vec<Displaced> = Vec::new();
    for step in steps(glimpse.size()) {
        let Some(bytes) = glimpse.bytes(step.start.0, step.len.0) else { continue };
        for (index, head) in bytes.chunks(SECTOR).enumerate() {
            let at = step.start + ByteCount((index * SECTOR) as u64);
            found.extend(md::displaced(glimpse, at, head));
            found.extend(imsm::displaced(glimpse, at, head));
        }
    }
    match &mut found[..] {
        [] => Told::default(),
        [one] => {
            let mut told = std::mem::take(&mut one.told);
            told.notes.push(format!(
                "holds {} {} before its end, not at a regular place: it is a copy of a drive of \
                 {}, and is read as that drive",
                one.what,
                ByteCount(glimpse.size().0.saturating_sub(one.at.0)),
                one.was
            ));
            told
        }
        several => {
            let places: Vec<String> =
                several.iter().map(|one| format!("{} ({} B)", one.what, one.was.0)).collect();
            let note = format!(
                "holds several metadata of smaller drives: {}; select one with --size-was and the \
                 size in parentheses",
                places.join(", ")
            );
            Told { records: Vec::new(), notes: vec![note] }
        }
    }
}
