//! Arrays that other systems made: what their metadata say, in words that are common to all formats.
//!
//! ```text
//! drive 0 ─ Glimpse ─► decoder ─► Record ┐
//! drive 1 ─ Glimpse ─► decoder ─► Record ┼─► reconcile ─► FoundVolume: members by slot, sections, state, reasons
//! drive 2 ─ Glimpse ─► decoder ─► Record ┘
//! ```
//!
//! A decoder sees one drive. It asks a [`Glimpse`] for the bytes that it needs; what is not there yet is noted, read
//! by whoever has the drive, and the decoder is called again, until it asks for nothing more. What it finds are
//! [`Record`]s: what this drive says of a volume ([`VolumeRecord`]) and of its own part in it ([`MemberRecord`]).
//! [`reconcile`] puts the records of all drives together: the newest speaks for a volume, and says which members are
//! current, stale, copies or missing.
//!
//! A volume's bytes are one or more [`Section`]s, each a [`layout::Shape`] over the same stretch of some members: one
//! section for all ordinary levels, more for drives of different sizes, which no single shape can say.
//!
//! Nothing here writes, and nothing trusts what it reads: lengths and counts are held against the format's limits
//! before anything is reserved for them.
//!
//! | where | what |
//! | --- | --- |
//! | `glimpse.rs` | [`Glimpse`]: the bytes of a drive that were read so far |
//! | `record.rs` | [`Record`], [`VolumeRecord`], [`MemberRecord`]: what one drive says |
//! | `section.rs` | [`Arrangement`], [`Section`]: from a level on members to stretches that a layout can express |
//! | `partitions.rs` | [`partitions()`]: where a drive's partitions are |
//! | `md/` | superblocks of Linux md |
//! | `imsm.rs` | metadata of Intel's firmware RAID |
//! | `metadata.rs` | [`metadata()`]: by what other systems know a drive, and what they leave unused before their data |
//! | `reconcile.rs` | [`reconcile()`]: from records to volumes |
//! | `lacking.rs` | what members lack though their drives are there: bad blocks, cut-off ends |
//! | `search.rs` | [`search()`]: metadata of a drive that was copied to a larger one |
//! | `saved.rs` | [`FoundVolume::take_backup`]: volumes of which a file has what their members lack |

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

pub use glimpse::{Glimpse, Got};
pub use md::Backup;
pub use metadata::{leaves_room, metadata};
pub use partitions::partitions;
pub use reconcile::{FoundMember, FoundOther, FoundVolume, Seen, Standing, State, UNPLACED, reconcile};
pub use record::{
    Consistency, Entry, Feature, Format, Identity, Layouts, MemberRecord, Record, Reshape, Role, Told,
    VolumeRecord,
};
pub use search::search;
pub(crate) use search::steps as search_steps;
pub use section::{Arrangement, Section, ZoneRule, sections};

/// What the metadata on a drive say, in all formats that are known here. To be called again once what the glimpse
/// [wanted](Glimpse::wanted) has been put there, until it wants nothing more: four times at most.
pub fn read(glimpse: &Glimpse) -> Told {
    let mut told = imsm::read(glimpse);
    told.extend(md::read(glimpse));
    if let Some(note) = several(&told.records) {
        told.notes.push(note);
    }
    told
}

/// Metadata of an earlier use may be left on a drive beside those in force.
fn several(records: &[Record]) -> Option<String> {
    let set = |record: &Record| {
        let volume = &record.volume;
        (volume.format, volume.version.clone(), volume.container.as_ref().unwrap_or(&volume.identity).clone())
    };
    let newest = records.iter().max_by_key(|record| record.volume.created_unix_s)?;
    if records.iter().all(|record| set(record) == set(newest)) {
        return None;
    }
    let mut names: Vec<String> =
        records.iter().map(|record| format!("{} {}", record.volume.format, record.volume.version)).collect();
    names.dedup();
    let (names, volume) = (names.join(" and "), &newest.volume);
    Some(format!(
        "holds metadata of several arrays ({names}); the newest is {} {}",
        volume.format, volume.version
    ))
}
