//! Which of a drive's two copies counts, and what one lends the other.
//!
//! # Fault model
//! A power cut anywhere in an update; sectors of either copy that rot or cannot be read; a controller that writes
//! differently from the standard.
//!
//! # Rules
//! - A copy is *closed* when its header does not say that it is being changed, and *sound* when in addition every
//!   section that is needed is what its signature and CRC say.
//! - A closed copy comes before an open one, then the one of the higher sequence, then the primary. The first that is
//!   sound, or that the other copy of the same sequence makes sound, is used. (Linux md takes an open primary of a
//!   higher sequence, whose sections may be half written; SoftROC's updates never leave one.)
//! - Copies of one sequence say the same; so a section, or a slot of the configuration records, that is damaged in one
//!   is taken from the other. Where the CRC is wrong in both and their bytes agree, the controller computes it in
//!   another way: they are taken, and it is told.

use super::find::Place;
use super::header::{Coding, Header, HeaderKind, Section};
use super::records::Slot;
use super::structure::{self, Structure};
use crate::{Error, ErrorKind, Result};
use units::ByteOffset;

/// How a copy of the structure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyState {
    /// It agrees with what was used, or is what was used.
    Sound,
    /// It is sound, and older: an update was cut off before it reached this copy.
    Behind,
    /// It was being changed when the power was cut.
    Open,
    /// Parts of it are damaged or cannot be read.
    Damaged,
    /// The anchor says that there is none.
    Absent,
}

/// What was found of a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// Which.
    pub kind: HeaderKind,
    /// Where it is.
    pub at: ByteOffset,
    /// How it is.
    pub state: CopyState,
    /// Its header's sequence, where it has one.
    pub sequence: Option<u32>,
    /// What is wrong with it: sentences without a full stop.
    pub flaws: Vec<String>,
    /// Whether it has CRCs that are wrong, and count as right because all copies have them alike: once one copy is
    /// written anew, they are not alike any more.
    pub has_odd_checksums: bool,
}

impl CopyReport {
    /// Whether it should be written anew from what was used.
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
    pub(super) sections: [Raw<'a>; 8],
}

/// The bytes of a section.
#[derive(Clone)]
pub(super) enum Raw<'a> {
    Absent,
    Bytes(&'a [u8]),
    /// Why there are none.
    Lost(String),
}

impl<'a> RawCopy<'a> {
    fn bytes(&self, section: Section) -> Option<&'a [u8]> {
        match self.sections[section.index()] {
            Raw::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn check(&self, section: Section) -> std::result::Result<(), String> {
        let Ok((header, coding)) = &self.header else { return Err("there is no header".into()) };
        match &self.sections[section.index()] {
            Raw::Absent if Section::NEEDED.contains(&section) => {
                Err(format!("there are no {}", section.name()))
            }
            Raw::Absent => Ok(()),
            Raw::Lost(why) => Err(why.clone()),
            Raw::Bytes(bytes) => structure::check(section, bytes, header, *coding),
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
        // It may be sound in itself, and have its sections elsewhere: nobody may take it for what was used.
        if header.is_some_and(|header| header.sequence == used.sequence && !header.agrees_with(used)) {
            flaws.push("its header says otherwise than that of the copy that was used".into());
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

/// The structure that copies make together, and what was found of each.
///
/// # Errors
/// [`ErrorKind::Damaged`] where none is sound, alone or with the other's help.
pub(super) fn choose(copies: &[RawCopy], anchor: &Place) -> Result<(Structure, Vec<CopyReport>)> {
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
    // What is damaged in both may be left out, but only where no copy is without a damage.
    for lenient in [false, true] {
        for copy in &order {
            let Some((structure, odd)) = build(copy, copies, lenient) else { continue };
            // A controller whose CRCs are all computed in another way has no damaged copies.
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
        "the anchor at {} is sound, and neither copy of the DDF structure is: {}",
        anchor.at.0,
        said.join("; ")
    );
    Err(Error::new(ErrorKind::Damaged, context))
}

/// The structure of a copy, with what the others of its sequence lend it, and the flaws that are none because all
/// copies have them alike. Leniently, without the optional sections and the slots that are damaged in all.
fn build(copy: &RawCopy, copies: &[RawCopy], lenient: bool) -> Option<(Structure, Vec<String>)> {
    let (header, coding) = copy.header.as_ref().ok()?;
    let (header, coding) = (header.clone(), *coding);
    let is_peer = |other: &&RawCopy| {
        // A header that has its sections elsewhere describes another structure, whatever its sequence.
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
        let theirs = peer.filter(|peer| peer.check(section).is_ok()).and_then(|peer| peer.bytes(section));
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
