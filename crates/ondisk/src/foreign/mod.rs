//! Arrays of other systems: decodes their metadata into records that are common to all formats.
//!
//! ```text
//! drive 0 ─ Glimpse ─► decoder ─► Record ┐
//! drive 1 ─ Glimpse ─► decoder ─► Record ┼─► reconcile ─► FoundVolume: members by slot,
//! drive 2 ─ Glimpse ─► decoder ─► Record ┘                sections, state, reasons
//! ```
//!
//! A decoder sees one drive. It takes bytes from a [`Glimpse`], the probe buffer; missing ranges
//! are noted, the caller reads them and runs the decoder again, until no range is missing. The
//! decoder returns [`Record`]s: the drive's description of a volume ([`VolumeRecord`]) and of its
//! own part ([`MemberRecord`]). [`reconcile`] combines the records of all drives: the newest record
//! of a volume counts, and determines which members are current, stale, copies or missing.
//!
//! A volume's bytes are one or more [`Section`]s, each a [`layout::Shape`] over the same stretch of
//! some members: one section for all ordinary levels, several for drives of different sizes, which
//! no single shape describes.
//!
//! This module never writes. All input is untrusted: lengths and counts are checked against the
//! format's limits before memory is reserved for them.
//!
//! | where | what |
//! | --- | --- |
//! | `glimpse.rs` | [`Glimpse`]: the bytes of a drive that were read so far |
//! | `record.rs` | [`Record`], [`VolumeRecord`], [`MemberRecord`]: the description by one drive |
//! | `section.rs` | [`Arrangement`], [`Section`]: from a level to stretches with one layout |
//! | `partitions.rs` | [`partitions()`]: the partitions of a drive |
//! | `md/` | superblocks of Linux md |
//! | `imsm.rs` | metadata of Intel's firmware RAID |
//! | `metadata.rs` | [`metadata()`]: blocks that identify a drive to other systems; unused space |
//! | `reconcile.rs` | [`reconcile()`]: from records to volumes |
//! | `lacking.rs` | unreadable parts of members that are present: bad blocks, truncated drives |
//! | `search.rs` | [`search()`]: metadata of a drive that was copied to a larger one |
//! | `saved.rs` | [`FoundVolume::take_backup`]: volumes with a part in a backup file |

mod glimpse;
mod imsm;
mod lacking;
mod md;
mod metadata;
mod partitions;
mod reconcile;
mod record;
mod saved;
mod search;
mod section;

pub use glimpse::{Glimpse, RangeState};
pub use md::Backup;
pub use metadata::{leaves_room, metadata};
pub use partitions::partitions;
pub use reconcile::{
    FoundMember, FoundOther, FoundVolume, Seen, Standing, State, UNPLACED, reconcile,
};
pub use record::{
    Consistency, Entry, Feature, Format, Identity, Layouts, MemberRecord, Record, Reshape, Role,
    Told, VolumeRecord,
};
pub use search::search;
pub(crate) use search::steps as search_steps;
pub use section::{Arrangement, Section, ZoneRule, sections};

/// Decodes the metadata on a drive, in all supported formats. Call it again once the ranges that
/// the probe buffer [wants](Glimpse::wanted) have been put there, until it wants nothing more: four
/// times at most.
pub fn read(glimpse: &Glimpse) -> Told {
    let mut told = imsm::read(glimpse);
    told.extend(md::read(glimpse));
    if let Some(note) = several(&told.records) {
        told.notes.push(note);
    }
    told
}

/// A drive may have metadata of an earlier use besides the current ones.
fn several(records: &[Record]) -> Option<String> {
    let set = |record: &Record| {
        let volume = &record.volume;
        (
            volume.format,
            volume.version.clone(),
            volume.container.as_ref().unwrap_or(&volume.identity).clone(),
        )
    };
    let newest = records.iter().max_by_key(|record| record.volume.created_unix_s)?;
    if records.iter().all(|record| set(record) == set(newest)) {
        return None;
    }
    let mut names: Vec<String> = records
        .iter()
        .map(|record| format!("{} {}", record.volume.format, record.volume.version))
        .collect();
    names.dedup();
    let (names, volume) = (names.join(" and "), &newest.volume);
    Some(format!(
        "holds metadata of several arrays ({names}); the newest is {} {}",
        volume.format, volume.version
    ))
}
