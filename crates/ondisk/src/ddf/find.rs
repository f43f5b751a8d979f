//! Finding the structure on a drive: the anchor, the copies that it names, their sections.
//!
//! # Hostile input
//! The search ends, and holds little memory, for any bytes: a fixed list of places for the anchor;
//! two copies; eight sections each, of which at most [`Section::most_bytes`] are read; the search
//! reads the last 32 MiB once.

use super::copies::{CopyReport, CopyState, RawCopy, RawSection, choose};
use super::header::{Coding, HEADER_SIGNATURE, Header, HeaderKind, Section};
use super::site::{self, Site};
use super::structure::Structure;
use crate::foreign::{Glimpse, RangeState, search_steps};
use crate::tail::{FRONT_ANCHOR, TailPlace};
use crate::{Error, ErrorKind, Result};
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// The extent of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// The places of the standard, and Adaptec's.
    Usual,
    /// Where the anchor is damaged or unreadable, also the places of SoftROC's copies: a drive
    /// without an anchor belongs to no array, but a drive with a bad block there does.
    Own,
    /// In addition, the last 32 MiB: PERC controllers have the anchor elsewhere, and where it was
    /// overwritten, a header may remain. The result may be the remains of a structure that was
    /// removed on purpose, so only a rescue uses it.
    Search,
}

/// The header from which the structure was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnchorPlace {
    /// Offset of the header.
    pub at: ByteOffset,
    /// The anchor, or a header used in its place.
    pub kind: HeaderKind,
}

/// A drive with a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its size.
    pub size: ByteCount,
    /// The header that led to the copies.
    pub anchor: AnchorPlace,
    /// The structure that is used.
    pub structure: Structure,
    /// The state of its copies: the primary, then the secondary.
    pub copies: Vec<CopyReport>,
}

impl Drive {
    /// A drive of that size on which `structure` was just written, with both copies and the anchor.
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
        let anchor = AnchorPlace { at, kind: HeaderKind::Anchor };
        Drive { size, anchor, structure, copies }
    }

    /// The distance of its anchor before the last regular place; `None` where it lies at a regular
    /// place.
    pub(super) fn displaced_by(&self) -> Option<ByteCount> {
        let belongs =
            |places: Vec<ByteRange>| places.iter().any(|place| place.start == self.anchor.at);
        let is_odd = self.anchor.kind == HeaderKind::Anchor
            && !belongs(usual_places(self.size))
            && !belongs(places_in_front(self.size));
        is_odd.then(|| ByteCount(self.size.0.saturating_sub(self.anchor.at.0)))
    }

    /// The ranges of its copies, each from its header to the end of its last section.
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

    /// Whether one copy is sound and complete without the other.
    pub fn has_sound_copy(&self) -> bool {
        self.copies.iter().any(|copy| copy.state == CopyState::Sound)
    }

    /// Whether a header or a copy should be rewritten.
    pub fn needs_repair(&self) -> bool {
        self.anchor.kind != HeaderKind::Anchor || self.copies.iter().any(CopyReport::needs_repair)
    }
}

/// The result of a search on one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// More must be read: the probe buffer lists the [wanted](Glimpse::wanted) ranges.
    NotYet,
    /// The drive has a structure.
    Found(Box<Drive>),
    /// The anchor is present, and neither copy is usable. The labels of other drives replace the
    /// lost one ([`restore`](crate::restore)).
    Lost(Box<Lost>),
    /// The drive has no structure ([`ErrorKind::Blank`]), or an unreadable one.
    Nothing(Error),
}

/// A drive with an intact anchor and no usable copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its size.
    pub size: ByteCount,
    /// The content of the anchor.
    pub anchor: Header,
    /// The byte order, CRC variant and block size of the anchor.
    pub coding: Coding,
    /// The sequences of those headers of copies that are readable.
    pub sequences: Vec<u32>,
    /// The defects of the copies.
    pub error: Error,
}

impl Lost {
    /// The place of the copies, according to the anchor.
    pub fn place(&self) -> TailPlace {
        self.anchor.tail_place(self.coding)
    }
}

/// More must be read before the search can continue.
struct Wanted;

/// Searches the bytes that were read so far for the structure of a drive.
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
                Look::Lost(Box::new(Lost {
                    size: glimpse.size(),
                    anchor,
                    coding,
                    sequences,
                    error,
                }))
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

/// Regular places of an anchor: the last block; 256 blocks before it (Adaptec); the last 4096
/// bytes, for an image of a drive with 4096-byte blocks that is read with smaller ones.
fn usual_places(size: ByteCount) -> Vec<ByteRange> {
    let from_end = [(512, 512), (512 * 257, 512), (4096, 4096)];
    let place = |(back, len)| {
        let start = size.0.checked_sub(back)?;
        (start % len == 0).then_some(ByteRange::new(ByteOffset(start), ByteCount(len)))
    };
    from_end.into_iter().filter_map(place).collect()
}

/// The next place to search: in front, for an import that found the end of the drive in use.
fn places_in_front(size: ByteCount) -> Vec<ByteRange> {
    let places = [512, 4096].map(|len| ByteRange::new(FRONT_ANCHOR, ByteCount(len)));
    places.into_iter().filter(|range| range.end().0 <= size.0).collect()
}

/// Whether an anchor is valid where it was found. In front it is valid only if its copies lie there
/// as well; otherwise it is data of a host.
fn may_be_at(at: ByteOffset, header: &Header, coding: Coding) -> bool {
    at != FRONT_ANCHOR || header.tail_place(coding) == TailPlace::FrontWithAnchor
}

type Anchored = (Header, Coding, AnchorPlace);

fn usual_anchor(glimpse: &Glimpse) -> std::result::Result<Result<Anchored>, Wanted> {
    let size = glimpse.size();
    match anchor_at(glimpse, usual_places(size))? {
        Ok(anchored) => Ok(Ok(anchored)),
        Err(error) => Ok(anchor_at(glimpse, places_in_front(size))?.map_err(|_| error)),
    }
}

fn anchor_at(
    glimpse: &Glimpse,
    places: Vec<ByteRange>,
) -> std::result::Result<Result<Anchored>, Wanted> {
    want(glimpse, &places)?;
    let mut first = None;
    for range in places {
        let RangeState::Read(block) = glimpse.get(range) else { continue };
        match Header::decode(block, HeaderKind::Anchor) {
            Ok((header, coding)) if !may_be_at(range.start, &header, coding) => {}
            Ok((header, coding)) => {
                return Ok(Ok((
                    header,
                    coding,
                    AnchorPlace { at: range.start, kind: HeaderKind::Anchor },
                )));
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

/// Requests all unread ranges at once.
fn want(glimpse: &Glimpse, ranges: &[ByteRange]) -> std::result::Result<(), Wanted> {
    let unread = |range: &&ByteRange| glimpse.get(**range) == RangeState::NotYet;
    if ranges.iter().filter(unread).count() == 0 { Ok(()) } else { Err(Wanted) }
}

/// The range of `count` blocks from block `lba`; `None` where it is not on the drive.
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
    place: AnchorPlace,
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
        copies.push(RawCopy {
            kind,
            at,
            header,
            sections: std::array::from_fn(|_| RawSection::Absent),
        });
    }
    let wanted: Vec<ByteRange> =
        copies.iter().flat_map(|copy| section_ranges(glimpse, copy)).collect();
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
    let copies =
        [(HeaderKind::Primary, anchor.primary_lba), (HeaderKind::Secondary, anchor.secondary_lba)];
    let header = |(kind, lba)| copy_header(glimpse, anchor, coding, kind, lba).ok();
    copies.into_iter().filter_map(header).map(|(header, _)| header.sequence).collect()
}

/// The header of a copy, if it belongs to the anchor.
fn copy_header(
    glimpse: &Glimpse,
    anchor: &Header,
    coding: Coding,
    kind: HeaderKind,
    lba: u64,
) -> Result<(Header, Coding)> {
    let name = kind.name();
    let damaged =
        |what: String| Error::new(ErrorKind::Damaged, format!("the DDF {name} header {what}"));
    let Some(range) = blocks(glimpse, coding, lba, 1) else {
        return Err(damaged(format!("is at block {lba}, past the end of the drive")));
    };
    let RangeState::Read(block) = glimpse.get(range) else {
        return Err(damaged(format!("at block {lba} cannot be read")));
    };
    let (header, found) = Header::decode(block, kind)?;
    if header.group != anchor.group {
        return Err(damaged(format!(
            "is of group {}, the anchor of {}",
            header.group, anchor.group
        )));
    }
    if (header.primary_lba, header.secondary_lba) != (anchor.primary_lba, anchor.secondary_lba)
        || found.order != coding.order
    {
        return Err(damaged("places the copies elsewhere than the anchor".into()));
    }
    Ok((header, found))
}

/// The range of a section, if it is of a kind that is held in memory; otherwise the reason.
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
        return Err(format!(
            "the {} have an invalid length of {} blocks",
            section.name(),
            place.blocks
        ));
    }
    let start = lba.checked_add(u64::from(place.offset_blocks));
    match start.and_then(|start| blocks(glimpse, coding, start, u64::from(place.blocks))) {
        Some(range) => Ok(Some(range)),
        None => Err(format!("the {} are past the end of the drive", section.name())),
    }
}

fn section_ranges(glimpse: &Glimpse, copy: &RawCopy) -> Vec<ByteRange> {
    let Ok((header, coding)) = &copy.header else { return Vec::new() };
    let lba = lba_of(copy, *coding);
    let range = |section| section_range(glimpse, header, *coding, lba, section).ok().flatten();
    Section::ALL.into_iter().filter_map(range).collect()
}

fn raw<'a>(
    glimpse: &'a Glimpse,
    header: &Header,
    coding: Coding,
    lba: u64,
    section: Section,
) -> RawSection<'a> {
    match section_range(glimpse, header, coding, lba, section) {
        Ok(None) => RawSection::Absent,
        Err(why) => RawSection::Lost(why),
        Ok(Some(range)) => match glimpse.get(range) {
            RangeState::Read(bytes) => RawSection::Bytes(bytes),
            _ => RawSection::Lost(format!("the {} cannot be read", section.name())),
        },
    }
}

/// Headers at SoftROC's places that can replace a damaged anchor.
fn own_copies(glimpse: &Glimpse) -> std::result::Result<Vec<Anchored>, Wanted> {
    let size = glimpse.size();
    let mut found: Vec<Anchored> = Vec::new();
    for place in TailPlace::ALL {
        let Some(site) = Site::at(size, SectorSize::B512, place) else { continue };
        // The block may have 4096 bytes.
        let large = Site::at(size, SectorSize::B4096, place);
        let large = large.map(|site| ByteRange::new(site.anchor(), ByteCount(4096)));
        let anchors = [Some(ByteRange::new(site.anchor(), ByteCount(512))), large];
        let anchors: Vec<ByteRange> = anchors.into_iter().flatten().collect();
        want(glimpse, &anchors)?;
        let begins = [HEADER_SIGNATURE.to_be_bytes(), HEADER_SIGNATURE.to_le_bytes()];
        let is_damaged = |range: &ByteRange| match glimpse.get(*range) {
            RangeState::Read(block) => begins.iter().any(|begin| block.starts_with(begin)),
            _ => true,
        };
        if !anchors.iter().any(is_damaged) {
            continue;
        }
        let places =
            [site.primary(), site.secondary()].map(|at| ByteRange::new(at, ByteCount(4096)));
        want(glimpse, &places)?;
        let header = |range: &ByteRange| match glimpse.get(*range) {
            RangeState::Read(bytes) => header_in(bytes, 0, range.start),
            _ => None,
        };
        // A host may have written a similar block where other drives have their tail.
        let is_there = |(header, coding, _): &Anchored| header.tail_place(*coding) == place;
        found.extend(places.iter().filter_map(header).filter(is_there));
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by_key(|(header, ..)| std::cmp::Reverse(header.sequence));
    Ok(found)
}

/// Headers in the last 32 MiB that can replace the anchor: other anchors first, then headers that
/// lie at their own address, the newest first.
fn searched(glimpse: &Glimpse) -> std::result::Result<Vec<Anchored>, Wanted> {
    let steps = search_steps(glimpse.size());
    want(glimpse, &steps)?;
    let mut found: Vec<Anchored> = Vec::new();
    for step in steps {
        let RangeState::Read(bytes) = glimpse.get(step) else { continue };
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

/// A header at an index of bytes that were read from `start` on.
fn header_in(bytes: &[u8], index: usize, start: ByteOffset) -> Option<Anchored> {
    let at = start + ByteCount(index as u64);
    let kinds = [HeaderKind::Anchor, HeaderKind::Primary, HeaderKind::Secondary];
    for block in [SectorSize::B512, SectorSize::B4096] {
        let Some(bytes) = bytes.get(index..index + block.bytes().as_usize()) else { continue };
        let decoded =
            kinds.into_iter().find_map(|kind| Some((Header::decode(bytes, kind).ok()?, kind)));
        let Some(((header, coding), kind)) = decoded else { continue };
        let says = match kind {
            HeaderKind::Anchor => Some(at.0),
            HeaderKind::Primary => header.primary_lba.checked_mul(block.bytes().0),
            HeaderKind::Secondary => header.secondary_lba.checked_mul(block.bytes().0),
        };
        if says == Some(at.0) {
            return Some((header, coding, AnchorPlace { at, kind }));
        }
    }
    None
}
