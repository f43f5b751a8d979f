//! A volume whose interrupted reshape overwrote a part of its data, with the file that has the
//! copy.
//!
//! # Rules
//! - Up to the position in the superblocks the volume has the new layout, whatever the file has:
//!   hosts may have written there since.
//! - From the position to the end of the saved part, the file has the data. The reshape must not
//!   write behind that.
//! - A file that ends before the position is older than the superblocks; one that begins behind it
//!   is newer: both are unusable. In a backward reshape the reverse holds.

use super::md::Backup;
use super::reconcile::{FoundVolume, UNREADABLE, judge};
use super::record::{Format, Layouts, Reshape};
use super::section::Arrangement;
use units::{ByteCount, ByteOffset, ByteRange};

/// The header of the file and the superblocks of the array are written at about the same time: the
/// most by which the superblocks may be later, and earlier. mdadm has the same limits.
const LATER_S: u64 = 2 * 60 * 60;
const EARLIER_S: u64 = 10 * 60;

impl FoundVolume {
    /// Whether a backup belongs to this volume.
    pub fn is_of(&self, backup: &Backup) -> bool {
        let own = &self.record.identity.bytes;
        // Version 0.90 stores the UUID as four numbers.
        let by_numbers =
            |own: &[u8]| own.chunks(4).flat_map(|word| word.iter().rev()).eq(&backup.array);
        self.record.format == Format::LinuxMd
            && (own[..] == backup.array || self.record.version.starts_with("0.") && by_numbers(own))
    }

    /// Reads the saved part from the backup, where the members alone lack it.
    ///
    /// # Errors
    /// When the backup is of another volume or of another moment: a sentence.
    pub fn take_backup(&mut self, backup: &Backup) -> Result<(), String> {
        let Some(reshape) = self.record.reshape().cloned() else {
            return Err("no reshape of its array is under way, so a backup is not needed".into());
        };
        let Some(layouts) = &reshape.layouts else {
            return Err("the kind of the array's reshape is not supported".into());
        };
        if !layouts.is_critical {
            self.reasons.push("the backup is not needed: its members have all data".into());
            return Ok(());
        }
        self.check_time(backup)?;
        let (between, saved) = saved(backup, &reshape, layouts)?;
        self.record.arrangement = Arrangement::Sections(layouts.around(between, reshape.backwards));
        self.saved = saved;
        self.reasons.retain(|reason| !reason.starts_with(UNREADABLE));
        judge(self);
        Ok(())
    }

    fn check_time(&self, backup: &Backup) -> Result<(), String> {
        let Some(updated) = self.record.updated_unix_s else { return Ok(()) };
        let written = backup.written_unix_s;
        if updated > written.saturating_add(LATER_S) {
            return Err(format!(
                "the backup was written {} s before the array's metadata and is too old; find the \
                 file of this reshape",
                updated - written
            ));
        }
        if written > updated.saturating_add(EARLIER_S) {
            return Err(format!(
                "the backup was written {} s after the array's metadata: the drives are older, or \
                 are earlier copies",
                written - updated
            ));
        }
        Ok(())
    }
}

/// The range of the volume to read from the backup, and its offset in that file.
fn saved(
    backup: &Backup,
    reshape: &Reshape,
    layouts: &Layouts,
) -> Result<(ByteRange, Vec<(ByteRange, ByteOffset)>), String> {
    let (position, whole) = (reshape.position, layouts.was.geometry()?.stripe_bytes());
    let as_text = |at: ByteOffset| ByteCount(at.0);
    let end = layouts.was.within.end();
    let is_odd =
        |(bytes, _): &&(ByteRange, ByteOffset)| !bytes.is_aligned(whole) || bytes.end() > end;
    if let Some((bytes, _)) = backup.stretches.iter().find(is_odd) {
        return Err(format!(
            "the header of the backup is damaged: it lists {} from {} on, which are no stripes of \
             the array",
            bytes.len,
            as_text(bytes.start)
        ));
    }
    let is_ahead = |(bytes, _): &&(ByteRange, ByteOffset)| match reshape.backwards {
        true => bytes.start <= position,
        false => bytes.end() >= position,
    };
    let ahead: Vec<(ByteRange, ByteOffset)> =
        backup.stretches.iter().filter(is_ahead).copied().collect();
    let (Some((first, _)), Some((last, _))) = (ahead.first(), ahead.last()) else {
        return Err(format!(
            "the backup has no data at the reshape's position of {} and is too old",
            as_text(position)
        ));
    };
    let between = match reshape.backwards {
        true => ByteRange::from_to(first.start, position),
        false => ByteRange::from_to(position, last.end()),
    };
    let reaches = if reshape.backwards { last.end() >= position } else { first.start <= position };
    let is_whole = ahead.windows(2).all(|pair| pair[0].0.end() == pair[1].0.start);
    if !reaches || !is_whole {
        return Err(format!(
            "the backup has {} to {} of the volume, but no data from the reshape's position of {} \
             on, so it does not match",
            as_text(first.start),
            as_text(last.end()),
            as_text(position)
        ));
    }
    let needed = ahead.iter().filter(|(bytes, _)| bytes.overlaps(between)).map(|(bytes, at)| {
        let needed = bytes.intersection(between);
        (needed, ByteOffset(at.0 + (needed.start.0 - bytes.start.0)))
    });
    Ok((between, needed.collect()))
}
