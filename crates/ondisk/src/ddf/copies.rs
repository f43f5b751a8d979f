//! Chooses between a drive's two copies, and completes one from the other.
//!
//! # Fault model
//! A power cut at any point of an update; damaged or unreadable sectors in either copy; a
//! controller that deviates from the standard.
//!
//! # Rules
//! - A copy is *closed* when its header does not carry the open flag. It is *sound* when in
//!   addition the signature and CRC of every required section match.
//! - A closed copy takes precedence over an open one, then the higher sequence, then the primary.
//!   The first copy is used that is sound, or becomes sound with parts of the other copy of the
//!   same sequence. (Linux md takes an open primary of a higher sequence, whose sections may be
//!   half written; SoftROC's updates never leave one.)
//! - Copies of one sequence have the same content; so a section, or a slot of the configuration
//!   records, that is damaged in one is taken from the other. Where the CRC is wrong in both and
//!   their bytes agree, the controller computes the CRC in another way: they are accepted, with a
//!   note.

use super::find::AnchorPlace;
use super::header::{Coding, Header, HeaderKind, Section};
use super::records::Slot;
use super::structure::{self, Structure};
use crate::{Error, ErrorKind, Result};
use units::ByteOffset;

/// The condition of a copy of the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyState {
    /// Has the content that is used.
    Sound,
    /// Sound, and older: an update was interrupted before it reached this copy.
    Behind,
    /// Was being updated when power was lost.
    Open,
    /// Parts are damaged or unreadable.
    Damaged,
    /// Does not exist, according to the anchor.
    Absent,
}

/// The state of a copy, as found on the drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// Primary or secondary.
    pub kind: HeaderKind,
    /// Offset of its header.
    pub at: ByteOffset,
    /// Its condition.
    pub state: CopyState,
    /// Its header's sequence, where it has one.
    pub sequence: Option<u32>,
    /// Its defects: sentences without a full stop.
    pub flaws: Vec<String>,
    /// Whether some CRCs are wrong and accepted because all copies have the same bytes. This ends
    /// when one copy is rewritten.
    pub has_odd_checksums: bool,
}

impl CopyReport {
    /// Whether the copy should be rewritten from the one that is used.
    pub fn needs_repair(&self) -> bool {
        !matches!(self.state, CopyState::Sound | CopyState::Absent)
    }
}

/// A copy as it was read: its header, and the bytes of its sections.
pub(super) struct RawCopy<'a> {
    pub(super) kind: HeaderKind,
    pub(super) at: ByteOffset,
    pub(super) header: Result<(Header, Coding)>,
    /// In the order of [`Section::ALL`].
    pub(super) sections: [RawSection<'a>; 8],
}

/// The bytes of a section.
#[derive(Clone)]
pub(super) enum RawSection<'a> {
    Absent,
    Bytes(&'a [u8]),
    /// Unavailable, with the reason.
    Lost(String),
}

impl<'a> RawCopy<'a> {
    fn bytes(&self, section: Section) -> Option<&'a [u8]> {
        match self.sections[section.index()] {
            RawSection::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn check(&self, section: Section) -> std::result::Result<(), String> {
        let Ok((header, coding)) = &self.header else { return Err("there is no header".into()) };
        match &self.sections[section.index()] {
            RawSection::Absent if Section::NEEDED.contains(&section) => {
                Err(format!("there are no {}", section.name()))
            }
            RawSection::Absent => Ok(()),
            RawSection::Lost(why) => Err(why.clone()),
            RawSection::Bytes(bytes) => structure::check(section, bytes, header, *coding),
        }
    }

    fn flaws(&self) -> Vec<String> {
        match &self.header {
            Err(error) => vec![error.context.clone()],
            Ok(_) => Section::ALL.iter().filter_map(|section| self.check(*section).err()).collect(),
        }
    }

    fn report(&self, used: &Header, mut flaws: Vec<String>, has_odd_checksums: bool) -> CopyReport {
        let header = self.header.as_ref().ok().map(|(header, _)| header);
        // A sound copy whose sections lie elsewhere must not pass for the one that is used.
        if header
            .is_some_and(|header| header.sequence == used.sequence && !header.agrees_with(used))
        {
            flaws.push("its header differs from that of the copy in use".into());
        }
        let state = match header {
            None => CopyState::Damaged,
            Some(header) if header.is_open() => CopyState::Open,
            Some(_) if !flaws.is_empty() => CopyState::Damaged,
            Some(header) if header.sequence != used.sequence => CopyState::Behind,
            Some(_) => CopyState::Sound,
        };
        let sequence = header.map(|header| header.sequence);
        CopyReport { kind: self.kind, at: self.at, state, sequence, flaws, has_odd_checksums }
    }
}

/// Whether sequence `a` came after `b`: they wrap around.
pub(super) fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Combines the copies into one structure, and reports the state of each.
///
/// # Errors
/// [`ErrorKind::Damaged`] where no copy is sound, alone or with parts of the other.
pub(super) fn choose(
    copies: &[RawCopy],
    anchor: &AnchorPlace,
) -> Result<(Structure, Vec<CopyReport>)> {
    let mut order: Vec<&RawCopy> = copies.iter().filter(|copy| copy.header.is_ok()).collect();
    order.sort_by(|a, b| match (&a.header, &b.header) {
        (Ok((a, _)), Ok((b, _))) => (a.is_open().cmp(&b.is_open())).then(
            match (a.sequence == b.sequence, is_after(a.sequence, b.sequence)) {
                (true, _) => std::cmp::Ordering::Equal,
                (_, true) => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            },
        ),
        _ => std::cmp::Ordering::Equal,
    });
    let mut flaws: Vec<(HeaderKind, Vec<String>)> =
        copies.iter().map(|copy| (copy.kind, copy.flaws())).collect();
    // Parts that are damaged in both copies are left out only where no undamaged copy exists.
    for lenient in [false, true] {
        for copy in &order {
            let Some((structure, odd)) = build(copy, copies, lenient) else { continue };
            // Where all CRCs are computed in another way, the copies are not damaged.
            for (_, flaws) in &mut flaws {
                flaws.retain(|flaw| !odd.contains(flaw));
            }
            let report = |copy: &RawCopy| {
                let of = flaws.iter().find(|(kind, _)| *kind == copy.kind);
                let flaws = of.map(|(_, flaws)| flaws.clone()).unwrap_or_default();
                copy.report(&structure.header, flaws, !odd.is_empty())
            };
            let reports = copies.iter().map(report).collect();
            return Ok((structure, reports));
        }
    }
    let said: Vec<String> = flaws
        .iter()
        .filter_map(|(kind, flaws)| Some(format!("{} copy: {}", kind.name(), flaws.first()?)))
        .collect();
    let context = format!(
        "the DDF anchor at byte {} is valid, but both copies of the DDF structure are damaged: {}",
        anchor.at.0,
        said.join("; ")
    );
    Err(Error::new(ErrorKind::Damaged, context))
}

/// The structure of a copy, completed from the others of its sequence, and the flaws that all
/// copies share (these do not count). `lenient`: leave out the optional sections and the slots that
/// are damaged in all copies.
fn build(copy: &RawCopy, copies: &[RawCopy], lenient: bool) -> Option<(Structure, Vec<String>)> {
    let (header, coding) = copy.header.as_ref().ok()?;
    let (header, coding) = (header.clone(), *coding);
    let is_peer = |other: &&RawCopy| {
        // A header with other section offsets describes another structure, whatever its sequence.
        let same = |other: &Header| {
            other.sequence == header.sequence
                && !other.is_open()
                && !header.is_open()
                && other.agrees_with(&header)
        };
        other.kind != copy.kind && other.header.as_ref().is_ok_and(|(other, _)| same(other))
    };
    let peer = copies.iter().find(is_peer);
    let mut odd = Vec::new();
    let mut sections: [Option<&[u8]>; 8] = [None; 8];
    for section in Section::ALL {
        let Err(flaw) = copy.check(section) else {
            sections[section.index()] = copy.bytes(section);
            continue;
        };
        let theirs =
            peer.filter(|peer| peer.check(section).is_ok()).and_then(|peer| peer.bytes(section));
        let alike = || {
            let (ours, theirs) = (copy.bytes(section)?, peer?.bytes(section)?);
            let begins = structure::has_signature(section, ours, coding).is_ok();
            (ours == theirs && begins && section != Section::Records).then_some(ours)
        };
        if let Some(bytes) = theirs {
            sections[section.index()] = Some(bytes);
        } else if let Some(bytes) = alike() {
            sections[section.index()] = Some(bytes);
            odd.push(flaw);
        } else if section == Section::Records {
            sections[section.index()] = copy.bytes(section);
        } else if Section::NEEDED.contains(&section) || !lenient {
            return None;
        }
    }
    let records = sections[Section::Records.index()]?;
    let mut slots = structure::slots(records, &header, coding);
    if let Some(theirs) = peer.and_then(|peer| peer.bytes(Section::Records)) {
        for (slot, theirs) in slots.iter_mut().zip(structure::slots(theirs, &header, coding)) {
            if matches!(slot, Slot::Damaged(..)) {
                *slot = theirs;
            }
        }
    }
    if !lenient && slots.iter().any(|slot| matches!(slot, Slot::Damaged(..))) {
        return None;
    }
    let section = |section: Section| sections[section.index()].map(<[u8]>::to_vec);
    let structure = Structure::decode(header, coding, slots, section).ok()?;
    Some((structure, odd))
}
