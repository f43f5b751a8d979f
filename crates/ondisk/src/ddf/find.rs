//! Finding the structure on a drive: the anchor, the copies that it names, their sections.
//!
//! # Hostile input
//! Whatever the bytes are, this ends and holds little: a fixed list of places for the anchor; two copies; eight sections
//! each, of which no more than [`Section::most_bytes`] is read; the search reads the last 32 MiB once.

use super::copies::{CopyReport, CopyState, Raw, RawCopy, choose};
use super::header::{Coding, HEADER_SIGNATURE, Header, HeaderKind, Section};
use super::site::{self, Site};
use super::structure::Structure;
use crate::foreign::{Glimpse, Got, search_steps};
use crate::tail::{FRONT_ANCHOR, TailPlace};
use crate::{Error, ErrorKind, Result};
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// How hard to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Where anchors are by the standard, and where Adaptec has them.
    Usual,
    /// Where the anchor is damaged or cannot be read, also where SoftROC has its copies: a drive that has no anchor is
    /// nobody's, one with a bad block there is not.
    Own,
    /// If that fails, in the last 32 MiB: PERC controllers have the anchor elsewhere, and where it was overwritten, a
    /// header may be left of it. What is found so may be the remains of what was removed on purpose: for the rescuer.
    Search,
}

/// Where the structure was found from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where the header is, in bytes.
    pub at: ByteOffset,
    /// The anchor, or a header that stands in for it.
    pub kind: HeaderKind,
}

/// A drive with a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its size.
    pub size: ByteCount,
    /// From where its copies were found.
    pub anchor: Place,
    /// What it says.
    pub structure: Structure,
    /// How its copies are: the primary, then the secondary.
    pub copies: Vec<CopyReport>,
}

impl Drive {
    /// A drive of that size on which that structure was just written, both copies and the anchor.
    pub fn written(size: ByteCount, structure: Structure) -> Drive {
        let header = &structure.header;
        let block = structure.coding.block.bytes().0;
        let copy = |kind, lba: u64| CopyReport {
            kind,
            at: ByteOffset(lba.saturating_mul(block)),
            state: CopyState::Sound,
            sequence: Some(header.sequence),
            flaws: Vec::new(),
            has_odd_checksums: false,
        };
        let copies = vec![
            copy(HeaderKind::Primary, header.primary_lba),
            copy(HeaderKind::Secondary, header.secondary_lba),
        ];
        let at = site::anchor(size, structure.coding.block, structure.place_on(size));
        let anchor = Place { at, kind: HeaderKind::Anchor };
        Drive { size, anchor, structure, copies }
    }

    /// By how much its anchor lies before the last places where one belongs; `None` where it does not.
    pub(super) fn displaced_by(&self) -> Option<ByteCount> {
        let belongs = |places: Vec<ByteRange>| places.iter().any(|place| place.start == self.anchor.at);
        let is_odd = self.anchor.kind == HeaderKind::Anchor
            && !belongs(usual_places(self.size))
            && !belongs(places_in_front(self.size));
        is_odd.then(|| ByteCount(self.size.0.saturating_sub(self.anchor.at.0)))
    }

    /// Where its copies are: each from its header to the end of its last section.
    pub fn extents(&self) -> Vec<ByteRange> {
        let block = self.structure.coding.block.bytes().0;
        let ends = self.structure.header.places.iter().filter(|place| place.is_there());
        let ends = ends.map(|place| u64::from(place.offset_blocks) + u64::from(place.blocks));
        let blocks = ends.max().unwrap_or(1);
        let there = self.copies.iter().filter(|copy| copy.state != CopyState::Absent);
        let extent = |copy: &CopyReport| {
            let len = blocks.checked_mul(block)?;
            let end = copy.at.0.checked_add(len)?;
            (end <= self.size.0).then_some(ByteRange::new(copy.at, ByteCount(len)))
        };
        there.filter_map(extent).collect()
    }

    /// Whether there is a copy that is what was used, and needs nothing of the other.
    pub fn has_sound_copy(&self) -> bool {
        self.copies.iter().any(|copy| copy.state == CopyState::Sound)
    }

    /// Whether a header or a copy should be written anew.
    pub fn needs_repair(&self) -> bool {
        self.anchor.kind != HeaderKind::Anchor || self.copies.iter().any(CopyReport::needs_repair)
    }
}

/// What looking at a drive led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// More of it must be read: the glimpse says what it [wants](Glimpse::wanted).
    NotYet,
    /// The drive has a structure.
    Found(Box<Drive>),
    /// Its anchor is there, and neither copy can be relied upon: what SoftROC said on it other drives tell
    /// ([`restore`](crate::restore)).
    Lost(Box<Lost>),
    /// It has none ([`ErrorKind::Blank`]), or one that cannot be read.
    Nothing(Error),
}

/// A drive that has nothing left but its anchor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its size.
    pub size: ByteCount,
    /// What the anchor says.
    pub anchor: Header,
    /// How it is written.
    pub coding: Coding,
    /// The sequences of those headers of copies that can be read.
    pub sequences: Vec<u32>,
    /// What is wrong with the copies.
    pub error: Error,
}

impl Lost {
    /// Where on the drive the copies are, by what the anchor says.
    pub fn place(&self) -> TailPlace {
        self.anchor.tail_place(self.coding)
    }
}

/// More must be read before it can go on.
struct Wanted;

/// Looks for the structure on a drive, as far as what has been read of it allows.
pub fn look(glimpse: &Glimpse, effort: Effort) -> Look {
    match try_look(glimpse, effort) {
        Err(Wanted) => Look::NotYet,
        Ok(look) => look,
    }
}

fn try_look(glimpse: &Glimpse, effort: Effort) -> std::result::Result<Look, Wanted> {
    let usual = match usual_anchor(glimpse)? {
        Ok((anchor, coding, place)) => match read_copies(glimpse, &anchor, coding, place)? {
            Ok(drive) => return Ok(Look::Found(Box::new(drive))),
            Err(error) => {
                let sequences = header_sequences(glimpse, &anchor, coding);
                Look::Lost(Box::new(Lost { size: glimpse.size(), anchor, coding, sequences, error }))
            }
        },
        Err(error) => Look::Nothing(error),
    };
    let others = match effort {
        Effort::Usual => Vec::new(),
        Effort::Own => own_copies(glimpse)?,
        Effort::Search => searched(glimpse)?,
    };
    for (header, coding, place) in others {
        if let Ok(drive) = read_copies(glimpse, &header, coding, place)? {
            return Ok(Look::Found(Box::new(drive)));
        }
    }
    Ok(usual)
}

/// Where an anchor can be: the last block; 256 blocks before (Adaptec); the last 4096 bytes, where an image of a drive
/// with such blocks is read with others.
fn usual_places(size: ByteCount) -> Vec<ByteRange> {
    let from_end = [(512, 512), (512 * 257, 512), (4096, 4096)];
    let place = |(back, len)| {
        let start = size.0.checked_sub(back)?;
        (start % len == 0).then_some(ByteRange::new(ByteOffset(start), ByteCount(len)))
    };
    from_end.into_iter().filter_map(place).collect()
}

/// Where it is if there is none there: in front, where an import found the end taken.
fn places_in_front(size: ByteCount) -> Vec<ByteRange> {
    let places = [512, 4096].map(|len| ByteRange::new(FRONT_ANCHOR, ByteCount(len)));
    places.into_iter().filter(|range| range.end().0 <= size.0).collect()
}

/// Whether an anchor can be where it was found: in front only one that says of its copies that they are there too. What a
/// host has written there is none.
fn may_be_at(at: ByteOffset, header: &Header, coding: Coding) -> bool {
    at != FRONT_ANCHOR || header.tail_place(coding) == TailPlace::FrontWithAnchor
}

type Anchored = (Header, Coding, Place);

fn usual_anchor(glimpse: &Glimpse) -> std::result::Result<Result<Anchored>, Wanted> {
    let size = glimpse.size();
    match anchor_at(glimpse, usual_places(size))? {
        Ok(anchored) => Ok(Ok(anchored)),
        Err(error) => Ok(anchor_at(glimpse, places_in_front(size))?.map_err(|_| error)),
    }
}

fn anchor_at(glimpse: &Glimpse, places: Vec<ByteRange>) -> std::result::Result<Result<Anchored>, Wanted> {
    want(glimpse, &places)?;
    let mut first = None;
    for range in places {
        let Got::Here(block) = glimpse.get(range) else { continue };
        match Header::decode(block, HeaderKind::Anchor) {
            Ok((header, coding)) if !may_be_at(range.start, &header, coding) => {}
            Ok((header, coding)) => {
                return Ok(Ok((header, coding, Place { at: range.start, kind: HeaderKind::Anchor })));
            }
            Err(error) if error.kind != ErrorKind::Blank && range.start != FRONT_ANCHOR => {
                first = first.or(Some(error))
            }
            Err(_) => {}
        }
    }
    let blank = || Error::new(ErrorKind::Blank, "there is no DDF anchor at the end of the drive");
    Ok(Err(first.unwrap_or_else(blank)))
}

/// Asks for what nobody has tried to read: for all of it at once.
fn want(glimpse: &Glimpse, ranges: &[ByteRange]) -> std::result::Result<(), Wanted> {
    let unread = |range: &&ByteRange| glimpse.get(**range) == Got::NotYet;
    if ranges.iter().filter(unread).count() == 0 { Ok(()) } else { Err(Wanted) }
}

/// The range of so many blocks from a block on; `None` where it is not on the drive.
fn blocks(glimpse: &Glimpse, coding: Coding, lba: u64, count: u64) -> Option<ByteRange> {
    let block = coding.block.bytes().0;
    let start = lba.checked_mul(block)?;
    let len = count.checked_mul(block)?;
    let end = start.checked_add(len)?;
    (end <= glimpse.size().0).then_some(ByteRange::new(ByteOffset(start), ByteCount(len)))
}

fn read_copies(
    glimpse: &Glimpse,
    anchor: &Header,
    coding: Coding,
    place: Place,
) -> std::result::Result<Result<Drive>, Wanted> {
    let mut lbas = vec![(HeaderKind::Primary, anchor.primary_lba)];
    if anchor.has_secondary() {
        lbas.push((HeaderKind::Secondary, anchor.secondary_lba));
    }
    let ranges: Vec<ByteRange> =
        lbas.iter().filter_map(|(_, lba)| blocks(glimpse, coding, *lba, 1)).collect();
    want(glimpse, &ranges)?;
    let mut copies: Vec<RawCopy> = Vec::new();
    for (kind, lba) in lbas {
        let header = copy_header(glimpse, anchor, coding, kind, lba);
        let at = ByteOffset(lba.saturating_mul(coding.block.bytes().0));
        copies.push(RawCopy { kind, at, header, sections: std::array::from_fn(|_| Raw::Absent) });
    }
    let wanted: Vec<ByteRange> = copies.iter().flat_map(|copy| section_ranges(glimpse, copy)).collect();
    want(glimpse, &wanted)?;
    for copy in &mut copies {
        let Ok((header, coding)) = copy.header.clone() else { continue };
        let lba = lba_of(copy, coding);
        copy.sections = Section::ALL.map(|section| raw(glimpse, &header, coding, lba, section));
    }
    Ok(choose(&copies, &place).map(|(structure, mut reports)| {
        if !anchor.has_secondary() {
            reports.push(CopyReport {
                kind: HeaderKind::Secondary,
                at: ByteOffset::ZERO,
                state: CopyState::Absent,
                sequence: None,
                flaws: Vec::new(),
                has_odd_checksums: false,
            });
        }
        Drive { size: glimpse.size(), anchor: place, structure, copies: reports }
    }))
}

fn lba_of(copy: &RawCopy, coding: Coding) -> u64 {
    copy.at.0 / coding.block.bytes().0
}

/// The sequences of the headers of an anchor's copies, where they can be read.
fn header_sequences(glimpse: &Glimpse, anchor: &Header, coding: Coding) -> Vec<u32> {
    let copies = [(HeaderKind::Primary, anchor.primary_lba), (HeaderKind::Secondary, anchor.secondary_lba)];
    let header = |(kind, lba)| copy_header(glimpse, anchor, coding, kind, lba).ok();
    copies.into_iter().filter_map(header).map(|(header, _)| header.sequence).collect()
}

/// The header of a copy, if it is one of the anchor's.
fn copy_header(
    glimpse: &Glimpse,
    anchor: &Header,
    coding: Coding,
    kind: HeaderKind,
    lba: u64,
) -> Result<(Header, Coding)> {
    let name = kind.name();
    let damaged = |what: String| Error::new(ErrorKind::Damaged, format!("the DDF {name} header {what}"));
    let Some(range) = blocks(glimpse, coding, lba, 1) else {
        return Err(damaged(format!("is said to be at block {lba}, which the drive does not have")));
    };
    let Got::Here(block) = glimpse.get(range) else {
        return Err(damaged(format!("at block {lba} cannot be read")));
    };
    let (header, found) = Header::decode(block, kind)?;
    if header.group != anchor.group {
        return Err(damaged(format!("is of group {}, the anchor of {}", header.group, anchor.group)));
    }
    if (header.primary_lba, header.secondary_lba) != (anchor.primary_lba, anchor.secondary_lba)
        || found.order != coding.order
    {
        return Err(damaged("has other places for the copies than the anchor".into()));
    }
    Ok((header, found))
}

/// Where a section is, if it is one that is held in memory; else why not.
fn section_range(
    glimpse: &Glimpse,
    header: &Header,
    coding: Coding,
    lba: u64,
    section: Section,
) -> std::result::Result<Option<ByteRange>, String> {
    let place = header.place(section);
    if !place.is_there() || section == Section::Diagnostics {
        return Ok(None);
    }
    if coding.bytes(u64::from(place.blocks)) > section.most_bytes() {
        return Err(format!("the {} are said to have {} blocks", section.name(), place.blocks));
    }
    let start = lba.checked_add(u64::from(place.offset_blocks));
    match start.and_then(|start| blocks(glimpse, coding, start, u64::from(place.blocks))) {
        Some(range) => Ok(Some(range)),
        None => Err(format!("the {} are said to be past the end of the drive", section.name())),
    }
}

fn section_ranges(glimpse: &Glimpse, copy: &RawCopy) -> Vec<ByteRange> {
    let Ok((header, coding)) = &copy.header else { return Vec::new() };
    let lba = lba_of(copy, *coding);
    let range = |section| section_range(glimpse, header, *coding, lba, section).ok().flatten();
    Section::ALL.into_iter().filter_map(range).collect()
}

fn raw<'a>(glimpse: &'a Glimpse, header: &Header, coding: Coding, lba: u64, section: Section) -> Raw<'a> {
    match section_range(glimpse, header, coding, lba, section) {
        Ok(None) => Raw::Absent,
        Err(why) => Raw::Lost(why),
        Ok(Some(range)) => match glimpse.get(range) {
            Got::Here(bytes) => Raw::Bytes(bytes),
            _ => Raw::Lost(format!("the {} cannot be read", section.name())),
        },
    }
}

/// Headers at SoftROC's places that can stand in for an anchor that is damaged.
fn own_copies(glimpse: &Glimpse) -> std::result::Result<Vec<Anchored>, Wanted> {
    let size = glimpse.size();
    let mut found: Vec<Anchored> = Vec::new();
    for place in TailPlace::ALL {
        let Some(site) = Site::at(size, SectorSize::B512, place) else { continue };
        // The block may be one of 4096 bytes.
        let large = Site::at(size, SectorSize::B4096, place);
        let large = large.map(|site| ByteRange::new(site.anchor(), ByteCount(4096)));
        let anchors = [Some(ByteRange::new(site.anchor(), ByteCount(512))), large];
        let anchors: Vec<ByteRange> = anchors.into_iter().flatten().collect();
        want(glimpse, &anchors)?;
        let begins = [HEADER_SIGNATURE.to_be_bytes(), HEADER_SIGNATURE.to_le_bytes()];
        let is_damaged = |range: &ByteRange| match glimpse.get(*range) {
            Got::Here(block) => begins.iter().any(|begin| block.starts_with(begin)),
            _ => true,
        };
        if !anchors.iter().any(is_damaged) {
            continue;
        }
        let places = [site.primary(), site.secondary()].map(|at| ByteRange::new(at, ByteCount(4096)));
        want(glimpse, &places)?;
        let header = |range: &ByteRange| match glimpse.get(*range) {
            Got::Here(bytes) => header_in(bytes, 0, range.start),
            _ => None,
        };
        // A host may have written what looks like one where other drives have their tail.
        let is_there = |(header, coding, _): &Anchored| header.tail_place(*coding) == place;
        found.extend(places.iter().filter_map(header).filter(is_there));
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by_key(|(header, ..)| std::cmp::Reverse(header.sequence));
    Ok(found)
}

/// Headers in the last 32 MiB that can stand in for the anchor: other anchors first, then headers that lie where they
/// say that they lie, the newest first.
fn searched(glimpse: &Glimpse) -> std::result::Result<Vec<Anchored>, Wanted> {
    let steps = search_steps(glimpse.size());
    want(glimpse, &steps)?;
    let mut found: Vec<Anchored> = Vec::new();
    for step in steps {
        let Got::Here(bytes) = glimpse.get(step) else { continue };
        for (index, head) in bytes.chunks_exact(512).enumerate() {
            let begins = [HEADER_SIGNATURE.to_be_bytes(), HEADER_SIGNATURE.to_le_bytes()];
            if begins.iter().any(|begin| head.starts_with(begin)) {
                found.extend(header_in(bytes, index * 512, step.start));
            }
        }
    }
    found.sort_by_key(|(header, _, place)| (place.kind, std::cmp::Reverse(header.sequence)));
    Ok(found)
}

/// A header at a place of bytes that were read from `start` on.
fn header_in(bytes: &[u8], index: usize, start: ByteOffset) -> Option<Anchored> {
    let at = start + ByteCount(index as u64);
    let kinds = [HeaderKind::Anchor, HeaderKind::Primary, HeaderKind::Secondary];
    for block in [SectorSize::B512, SectorSize::B4096] {
        let Some(bytes) = bytes.get(index..index + block.bytes().as_usize()) else { continue };
        let decoded = kinds.into_iter().find_map(|kind| Some((Header::decode(bytes, kind).ok()?, kind)));
        let Some(((header, coding), kind)) = decoded else { continue };
        let says = match kind {
            HeaderKind::Anchor => Some(at.0),
            HeaderKind::Primary => header.primary_lba.checked_mul(block.bytes().0),
            HeaderKind::Secondary => header.secondary_lba.checked_mul(block.bytes().0),
        };
        if says == Some(at.0) {
            return Some((header, coding, Place { at, kind }));
        }
    }
    None
}
