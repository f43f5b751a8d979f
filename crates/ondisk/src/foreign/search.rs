//! Metadata that lie at the end of a drive, on one that was copied to a larger drive: not where they belong any more.
//!
//! Linux md 1.0 and 0.90 and Intel's metadata are counted from the end of the drive. What is found elsewhere is used
//! only where it can be told from what hosts have written, and where it is the only one:
//!
//! | metadata | must say |
//! | --- | --- |
//! | Linux md 1.0 | in which sector it lies |
//! | Linux md 0.90 | of data that end before it, at a multiple of 64 KiB |
//! | Intel | of a drive that ends one block behind the anchor: this one, where its serial number is known |
//!
//! It is for drives on which nothing else was found. SNIA DDF has a search of its own
//! ([`Effort::Search`](crate::ddf::Effort)), over the same bytes.

use super::glimpse::Glimpse;
use super::record::Told;
use super::{imsm, md};
use units::{ByteCount, ByteOffset, ByteRange};

/// How much of a drive's end is searched.
const SEARCHED: ByteCount = ByteCount(32 << 20);
/// How much of it is read at a time.
const STEP: u64 = 1 << 20;
const SECTOR: usize = 512;

/// Metadata that were found where they do not belong.
pub(super) struct Displaced {
    /// What they are: a few words.
    pub(super) what: String,
    /// Where they are.
    pub(super) at: ByteOffset,
    /// The least size that the drive had.
    pub(super) was: ByteCount,
    /// What they say.
    pub(super) told: Told,
}

/// The parts of a drive's end that a search reads.
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

/// Metadata in the last 32 MiB of a drive that were written when it was smaller. To be called again when what the
/// glimpse [wanted](Glimpse::wanted) is there, until it wants nothing more: twice at most.
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
                "holds {} {} before its end, where none belongs: it was copied from a drive of {}, and is \
                 read as that drive",
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
                "holds several metadata from when it was smaller, and which counts is not known: {}; say \
                 how large it was, \
                 with --size-was and the size in parentheses",
                places.join(", ")
            );
            Told { records: Vec::new(), notes: vec![note] }
        }
    }
}
