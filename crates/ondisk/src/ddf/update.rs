//! Writes a structure so that a power cut at any write leaves one copy with the old or the new
//! content.
//!
//! # Fault model
//! Between two flushes any blocks that were written may be lost, in any order.
//!
//! # Protocol
//! ```text
//! │ is a flush
//! first copy:   header, old sequence, open │ sections │ header, new sequence, closed │
//! second copy:  header, old sequence, open │ sections │ header, new sequence, closed │ anchor │
//! ```
//! At any moment one copy is closed and whole: the second until the first is closed again, then the
//! first. The open header keeps the old sequence: readers that prefer a higher sequence to a closed
//! header take the other copy too. The first copy is the primary, unless only the secondary is
//! unsound: a sound copy is overwritten only when the other copy is sound as well.
//!
//! Where the drive has no structure of that group at those places, the update removes an old anchor
//! first, and writes the new one last, which makes the drive a member.

use super::copies::{CopyReport, CopyState, is_after};
use super::find::Drive;
use super::header::{Header, HeaderKind, Section, SectionPlace};
use super::logs::VendorLog;
use super::site;
use super::structure::Structure;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use units::{ByteCount, ByteOffset};

/// One step of an update; steps run in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write these bytes: whole blocks.
    Write {
        /// The address of the first byte.
        at: ByteOffset,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Wait until all earlier writes are durable.
    Flush,
}

/// The steps that write `new` to a drive of that size; `old` is its present structure.
///
/// # Errors
/// [`ErrorKind::Contradiction`] where the sequence does not follow the old one, or a place is not
/// on the drive; [`ErrorKind::TooLarge`] where a section does not fit its place.
pub fn update(size: ByteCount, old: Option<&Drive>, new: &Structure) -> Result<Vec<Step>> {
    new.check()?;
    check_places(size, new)?;
    let (mut steps, mut sections) = (Vec::new(), Sections::of(new));
    match old.filter(|old| is_in_place(old, new)) {
        Some(old) => {
            let was = old.structure.header.sequence;
            if !is_after(new.header.sequence, was) {
                let context = format!("sequence {} does not follow {was}", new.header.sequence);
                return Err(Error::new(ErrorKind::Contradiction, context));
            }
            for kind in order(old) {
                let is_new = |copy: &CopyReport| copy.needs_repair() || copy.has_odd_checksums;
                let is_sound = !old.copies.iter().any(|copy| copy.kind == kind && is_new(copy));
                let known = is_sound.then_some(&old.structure);
                write_copy(&mut steps, &mut sections, kind, was, known)?;
            }
        }
        None => {
            let theirs =
                old.filter(|old| old.anchor.kind == HeaderKind::Anchor).map(|old| old.anchor.at);
            let anchors = [Some(anchor_of(size, new)), theirs];
            for at in anchors.into_iter().flatten() {
                steps.push(Step::Write { at, bytes: vec![0; new.coding.block_bytes()] });
            }
            steps.push(Step::Flush);
            for kind in copies_of(new) {
                write_copy(
                    &mut steps,
                    &mut sections,
                    kind,
                    new.header.sequence.wrapping_sub(1),
                    None,
                )?;
            }
        }
    }
    write_anchor(&mut steps, size, old, new);
    Ok(steps)
}

/// The steps that write `new` to a drive of that size whose copies are both lost, and whose anchor
/// has the group and places of `new`. The anchor stays, so that an interruption leaves the drive as
/// it was.
///
/// # Errors
/// As [`update`].
pub fn rewrite(size: ByteCount, new: &Structure) -> Result<Vec<Step>> {
    new.check()?;
    check_places(size, new)?;
    let (mut steps, mut sections) = (Vec::new(), Sections::of(new));
    for kind in copies_of(new) {
        write_copy(&mut steps, &mut sections, kind, new.header.sequence.wrapping_sub(1), None)?;
    }
    write_anchor(&mut steps, size, None, new);
    Ok(steps)
}

/// Whether an update can follow a drive's structure: same places, same group, and a later sequence.
/// Otherwise the drive is written as a new one: [`update`] without an old structure.
pub fn follows(old: &Drive, new: &Structure) -> bool {
    is_in_place(old, new) && is_after(new.header.sequence, old.structure.header.sequence)
}

/// The steps that make a drive's copies equal again: a damaged or older copy is rewritten from the
/// one that is used. Empty where no repair is needed.
///
/// # Errors
/// As [`update`].
pub fn repair(drive: &Drive) -> Result<Vec<Step>> {
    if !drive.needs_repair() {
        return Ok(Vec::new());
    }
    let mut sound = drive.structure.clone();
    sound.header.open = 0;
    sound.check()?;
    check_places(drive.size, &sound)?;
    let (mut steps, mut sections) = (Vec::new(), Sections::of(&sound));
    let bad = drive.copies.iter().filter(|copy| copy.needs_repair());
    // CRCs that are accepted because all copies share them are lost with the first rewritten copy.
    let odd = drive.copies.iter().filter(|copy| !copy.needs_repair() && copy.has_odd_checksums);
    let odd = odd.filter(|copy| copy.state != CopyState::Absent);
    for copy in bad.chain(odd) {
        write_copy(&mut steps, &mut sections, copy.kind, sound.header.sequence, None)?;
    }
    write_anchor(&mut steps, drive.size, Some(drive), &sound);
    Ok(steps)
}

/// The steps that remove a drive's structure: the anchor, then the headers, so that a search does
/// not find it either. Other blocks stay.
pub fn clear(drive: &Drive) -> Vec<Step> {
    let zeroes = |at| Step::Write { at, bytes: vec![0; drive.structure.coding.block_bytes()] };
    let last = anchor_of(drive.size, &drive.structure);
    let mut steps = vec![zeroes(drive.anchor.at)];
    if last != drive.anchor.at && drive.anchor.at.0 < last.0 {
        steps.push(zeroes(last));
    }
    steps.push(Step::Flush);
    let header = &drive.structure.header;
    for kind in copies_of(&drive.structure) {
        let lba =
            if kind == HeaderKind::Primary { header.primary_lba } else { header.secondary_lba };
        let at = ByteOffset(drive.structure.coding.bytes(lba).0);
        if at.0 < drive.size.0 {
            steps.push(zeroes(at));
        }
    }
    steps.push(Step::Flush);
    steps
}

/// Whether the old copies have the places, the group and the encoding of the new ones.
fn is_in_place(old: &Drive, new: &Structure) -> bool {
    let (was, header) = (&old.structure.header, &new.header);
    old.structure.coding == new.coding
        && was.group == header.group
        && (was.primary_lba, was.secondary_lba) == (header.primary_lba, header.secondary_lba)
}

fn copies_of(structure: &Structure) -> Vec<HeaderKind> {
    match structure.header.has_secondary() {
        true => vec![HeaderKind::Primary, HeaderKind::Secondary],
        false => vec![HeaderKind::Primary],
    }
}

/// The order in which the copies are written: an unsound one first.
fn order(old: &Drive) -> Vec<HeaderKind> {
    let mut kinds = copies_of(&old.structure);
    let is_bad =
        |kind: &HeaderKind| old.copies.iter().any(|copy| copy.kind == *kind && copy.needs_repair());
    kinds.sort_by_key(|kind| !is_bad(kind));
    kinds
}

fn anchor_of(size: ByteCount, structure: &Structure) -> ByteOffset {
    site::anchor(size, structure.coding.block, structure.place())
}

fn write_anchor(steps: &mut Vec<Step>, size: ByteCount, old: Option<&Drive>, new: &Structure) {
    let is_known = |old: &&Drive| is_in_place(old, new) && old.anchor.kind == HeaderKind::Anchor;
    let known = old.filter(is_known).map(|old| old.anchor.at);
    let at = known.unwrap_or(anchor_of(size, new));
    steps.push(Step::Write { at, bytes: new.encode_header(HeaderKind::Anchor) });
    steps.push(Step::Flush);
}

/// The bytes of a structure's sections, shared by both copies because they are long.
struct Sections<'a> {
    of: &'a Structure,
    bytes: BTreeMap<usize, Option<Vec<u8>>>,
}

impl<'a> Sections<'a> {
    fn of(structure: &'a Structure) -> Sections<'a> {
        Sections { of: structure, bytes: BTreeMap::new() }
    }

    fn bytes(&mut self, section: Section) -> Result<Option<&[u8]>> {
        let bytes = match self.bytes.entry(section.index()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.of.encode_section(section)?),
        };
        Ok(bytes.as_deref())
    }
}

fn write_copy(
    steps: &mut Vec<Step>,
    sections: &mut Sections,
    kind: HeaderKind,
    was: u32,
    known: Option<&Structure>,
) -> Result<()> {
    let new = sections.of;
    let lba =
        if kind == HeaderKind::Primary { new.header.primary_lba } else { new.header.secondary_lba };
    let at = |offset: u64| ByteOffset(new.coding.bytes(lba.saturating_add(offset)).0);
    let open = Header { open: 1, sequence: was, ..new.header.clone() };
    steps.push(Step::Write { at: at(0), bytes: open.encode(kind, new.coding) });
    steps.push(Step::Flush);
    for section in Section::ALL {
        let known = known.filter(|known| known.header.place(section) == new.header.place(section));
        if known.is_some_and(|known| says_the_same(known, new, section)) {
            continue;
        }
        let Some(bytes) = sections.bytes(section)? else { continue };
        let start = u64::from(new.header.place(section).offset_blocks);
        let log = known
            .and_then(|known| known.vendor_log.as_ref())
            .filter(|_| section == Section::VendorLog);
        for range in changed(log, bytes) {
            let first = (range.start / new.coding.block_bytes()) as u64;
            steps.push(Step::Write { at: at(start + first), bytes: bytes[range].to_vec() });
        }
    }
    steps.push(Step::Flush);
    steps.push(Step::Write { at: at(0), bytes: new.encode_header(kind) });
    steps.push(Step::Flush);
    Ok(())
}

/// Whether two structures have the same bytes in a section, at the same place.
fn says_the_same(known: &Structure, new: &Structure, section: Section) -> bool {
    match section {
        Section::Controller => known.controller == new.controller,
        Section::Disks => known.disks == new.disks,
        Section::Volumes => known.volumes == new.volumes,
        Section::Records => known.slots == new.slots,
        Section::OwnDisk => known.own == new.own,
        Section::BadBlocks => known.bad_blocks == new.bad_blocks,
        Section::VendorLog => known.vendor_log == new.vendor_log,
        Section::Diagnostics => true,
    }
}

/// The unit in which changes of a log are written: a log is long, and few of its bytes change.
const PART: usize = 4096;

/// The parts of a section that differ from the `known` log in its place; the whole section where
/// that is unknown, or no log.
fn changed(known: Option<&VendorLog>, bytes: &[u8]) -> Vec<Range<usize>> {
    let Some(known) = known else { return std::iter::once(0..bytes.len()).collect() };
    let was = |range: Range<usize>| {
        known.data.get(range.start - VendorLog::HEAD..range.end - VendorLog::HEAD)
    };
    let mut changed: Vec<Range<usize>> = Vec::new();
    for (index, part) in bytes.chunks(PART).enumerate() {
        let range = index * PART..index * PART + part.len();
        // The first part has the checksum of the whole log.
        if index > 0 && was(range.clone()) == Some(part) {
            continue;
        }
        match changed.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => changed.push(range),
        }
    }
    changed
}

/// Checks that the sections lie on the drive, before the anchor, and that the copies do not
/// overlap.
fn check_places(size: ByteCount, new: &Structure) -> Result<()> {
    let header = &new.header;
    let wrong = |what: &str| {
        let context =
            format!("the DDF structure would be written {what}; the drive has {} bytes", size.0);
        Err(Error::new(ErrorKind::Contradiction, context))
    };
    let ends = header.places.iter().filter(|place| place.is_there());
    let end = ends
        .map(|place| u64::from(place.offset_blocks) + u64::from(place.blocks))
        .max()
        .unwrap_or(1);
    let last = size.0 / new.coding.block.bytes().0;
    for kind in copies_of(new) {
        let lba =
            if kind == HeaderKind::Primary { header.primary_lba } else { header.secondary_lba };
        if lba.checked_add(end).is_none_or(|end| end >= last) {
            return wrong("past the end of the drive");
        }
    }
    if header.has_secondary() && header.primary_lba.abs_diff(header.secondary_lba) < end {
        return wrong("with copies that overlap");
    }
    // A section that overlaps another, or the header, would be overwritten.
    let place = |place: &SectionPlace| (u64::from(place.offset_blocks), u64::from(place.blocks));
    let mut places: Vec<(u64, u64)> =
        header.places.iter().filter(|place| place.is_there()).map(place).collect();
    places.push((0, 1));
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return wrong("with sections that overlap");
    }
    Ok(())
}
