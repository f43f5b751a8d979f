//! Unreadable parts of members whose drives are present: blocks on a list of bad blocks, data
//! beyond the end of a truncated drive, and whole members whose metadata cannot be interpreted.
//! They count as unreadable on that member.

use super::reconcile::{FoundMember, Seen, Standing};
use super::record::{Feature, VolumeRecord};
use units::{ByteCount, ByteOffset, ByteRange};

/// The most runs of bad blocks in a sentence.
const NAMED_RUNS: usize = 4;
const SECTOR: u64 = 512;

/// The notes on unreadable parts of members.
#[derive(Default)]
pub(super) struct UnreadableNotes {
    /// One sentence for each.
    pub(super) reasons: Vec<String>,
    /// The reasons why the volume must not be written to: one sentence each.
    pub(super) no_writing: Vec<String>,
}

/// Records the unreadable ranges of each current member, or excludes the member.
pub(super) fn note(
    kept: &[&Seen],
    members: &mut [FoundMember],
    record: &mut VolumeRecord,
) -> UnreadableNotes {
    let mut lacking = UnreadableNotes::default();
    for member in members.iter_mut().filter(|member| member.standing == Standing::Current) {
        let Some(seen) = kept.iter().find(|seen| member.drive == Some(seen.drive)) else {
            continue;
        };
        let used = used(record, member.data);
        if let Some(why) = nothing_of(seen, used) {
            lacking.no_writing.push(why.clone());
            lacking.reasons.push(why.clone());
            (member.standing, member.reason) = (Standing::Excluded, Some(why));
            continue;
        }
        let here = ByteRange::from_to(
            used.start,
            ByteOffset(used.end().0.min(seen.size.0).max(used.start.0)),
        );
        member.unreadable = within(&seen.record.member.bad, here);
        if !member.unreadable.is_empty() {
            lacking.reasons.push(bad_blocks(&seen.name, &member.unreadable));
            lacking.no_writing.push(format!(
                "{} has a list of bad blocks, which an import would drop: let the original system \
                 rewrite these blocks",
                seen.name
            ));
            if !record.features.contains(&Feature::BadBlocks) {
                record.features.push(Feature::BadBlocks);
            }
        }
        if member.data.end().0 > seen.size.0 {
            let gone = ByteRange::from_to(here.end(), used.end());
            lacking.reasons.push(cut_off(seen, member.data, gone.len));
            if !gone.is_empty() {
                lacking.no_writing.push(format!(
                    "{} is truncated, and an import needs all of its data: use a drive of at \
                     least {}",
                    seen.name,
                    ByteCount(used.end().0)
                ));
                member.unreadable.push(gone);
            }
        }
    }
    lacking
}

/// The parts of the runs within a range, in ascending order and without overlaps.
fn within(runs: &[ByteRange], range: ByteRange) -> Vec<ByteRange> {
    let inside = runs.iter().map(|run| run.intersection(range)).filter(|run| !run.is_empty());
    let mut inside: Vec<ByteRange> = inside.collect();
    inside.sort();
    let mut merged: Vec<ByteRange> = Vec::new();
    for run in inside {
        match merged.last_mut().filter(|last| last.end() >= run.start) {
            Some(last) => *last = ByteRange::from_to(last.start, last.end().max(run.end())),
            None => merged.push(run),
        }
    }
    merged
}

/// The part of a member's data that the volume uses.
fn used(record: &VolumeRecord, data: ByteRange) -> ByteRange {
    // A reshape that moves the data uses all of them.
    let size = record.member_size.filter(|_| record.reshape().is_none());
    ByteRange::new(data.start, size.map_or(data.len, |size| size.min(data.len)))
}

/// The reason why a member is excluded.
fn nothing_of(seen: &Seen, used: ByteRange) -> Option<String> {
    let name = &seen.name;
    if let Some(why) = &seen.record.member.excluded {
        return Some(format!("{name} is excluded: {why}"));
    }
    let is_gone = !used.is_empty() && used.start.0 >= seen.size.0;
    is_gone.then(|| {
        format!(
            "{name} is excluded: it is truncated before its data, which begin at {}; the drive \
             has {}",
            ByteCount(used.start.0),
            seen.size
        )
    })
}

fn bad_blocks(name: &str, runs: &[ByteRange]) -> String {
    let all = ByteCount(runs.iter().map(|run| run.len.0).sum());
    let run = |run: &ByteRange| {
        let (first, last) = (run.start.0 / SECTOR, (run.end().0 / SECTOR).saturating_sub(1));
        if first >= last { first.to_string() } else { format!("{first} to {last}") }
    };
    let named: Vec<String> = runs.iter().take(NAMED_RUNS).map(run).collect();
    let more = match runs.len().saturating_sub(NAMED_RUNS) {
        0 => String::new(),
        more => format!(" and {more} more runs"),
    };
    format!(
        "{name} has a list of bad blocks: its sectors {}{more} ({all}) count as unreadable; \
         redundancy serves them where the level has any",
        named.join(", ")
    )
}

fn cut_off(seen: &Seen, data: ByteRange, gone: ByteCount) -> String {
    let (name, size, end) = (&seen.name, seen.size, ByteCount(data.end().0));
    let short = ByteCount(data.end().0.saturating_sub(size.0));
    let consequence = match gone.is_zero() {
        true => "the volume does not use that part".to_owned(),
        false => format!(
            "the last {gone} of the volume's part count as unreadable; redundancy serves them \
             where the level has any"
        ),
    };
    format!(
        "{name} is truncated: its data end at {end} by its metadata, and it has {size}, {short} \
         less; {consequence}"
    )
}
