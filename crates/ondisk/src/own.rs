//! The structures of a drive: at its end, or where an import put them, a label of SoftROC, a
//! foreign structure, or none; at its beginning, the label of a log device.
//!
//! # Fault model
//! An interrupted update; one or both copies damaged; other software that changed the structure; a
//! drive from elsewhere.
//!
//! # Rules
//! - SoftROC's label of an array is in the vendor log. It counts only if it was written with the
//!   current header: otherwise other software has changed the structure since, and only the DDF
//!   records count. Such a drive is *foreign*.
//! - A drive of SoftROC without a usable log or copy is *headless*. Where other drives of its array
//!   are present, their labels replace the lost one ([`restore`]), if its [`Witness`] shows that it
//!   had the newest change. Otherwise its age is unknown.

use crate::ddf::{Drive, Effort, Extras, Look, look};
use crate::error::{Error, ErrorKind};
use crate::foreign::{Glimpse, RangeState};
use crate::label::Label;
use crate::log_device::{LogFound, LogLabel};
use crate::payload::{Content, another_version, check_version, read};
use crate::tail::{BLOCK, EARLIER_MAGIC, Tail, TailPlace};
use crate::told::{VENDOR, sequence};
use crate::uuid::Uuid;
use crate::witness::Witness;
use std::rc::Rc;
use units::ByteRange;

/// A valid label, and the structure that contains it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its content.
    pub content: Content,
    /// The structure that the next change follows. `None` where the label came from other drives.
    pub drive: Option<Rc<Drive>>,
}

impl Headless {
    /// Whether any of these headers is newer than the witness.
    fn is_older_than(&self, sequences: &[u32]) -> bool {
        let Some(witness) = self.witness else { return false };
        let is_after =
            |header: &u32| (header.wrapping_sub(sequence(witness.generation)) as i32) > 0;
        sequences.iter().any(is_after)
    }
}

impl Carried {
    /// The label of a member, if it is one.
    pub fn label(&self) -> Option<&Label> {
        self.content.label()
    }
}

/// A drive of one of SoftROC's arrays without a usable label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headless {
    /// Its array.
    pub array: Uuid,
    /// The place of its tail.
    pub tail: TailPlace,
    /// Its UUID and its latest label, where the witness is readable.
    pub witness: Option<Witness>,
    /// The damage: a sentence without a full stop.
    pub why: String,
}

/// The structure at the end of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// More must be read: the probe buffer lists the [wanted](Glimpse::wanted) ranges.
    NotYet,
    /// No structure.
    Blank,
    /// A valid label.
    Carried(Carried),
    /// One of SoftROC's drives, without a usable label.
    Headless(Headless),
    /// The label of a log device.
    Log(Box<LogLabel>),
    /// A DDF structure that is not SoftROC's, or that other software has changed.
    Foreign(Box<Drive>),
    /// An unusable structure.
    Bad(Error),
}

/// Identifies the structure of a drive, from the bytes that were read so far.
pub fn find(glimpse: &Glimpse) -> Found {
    match look(glimpse, Effort::Own) {
        Look::NotYet => Found::NotYet,
        Look::Found(drive) => of_drive(glimpse, drive),
        Look::Lost(lost) => match lost.anchor.group.uuid(VENDOR) {
            Some(array) => {
                match headless(glimpse, lost.place(), Uuid(array), &lost.error.to_string()) {
                    // Other software has written since; its changes are unknown.
                    Found::Headless(headless) if headless.is_older_than(&lost.sequences) => {
                        Found::Bad(lost.error)
                    }
                    found => found,
                }
            }
            None => Found::Bad(lost.error),
        },
        // Journals of a log device may contain any bytes: its label takes precedence.
        Look::Nothing(error) if error.kind == ErrorKind::Blank => match log_device(glimpse) {
            Found::Blank => earlier(glimpse),
            found => found,
        },
        Look::Nothing(error) => Found::Bad(error),
    }
}

fn headless(glimpse: &Glimpse, tail: TailPlace, array: Uuid, why: &str) -> Found {
    let bytes = Tail::at(glimpse.size(), tail).map(|tail| glimpse.get(tail.witness()));
    let witness = match bytes {
        Some(RangeState::NotYet) => return Found::NotYet,
        Some(RangeState::Read(bytes)) => Witness::decode(bytes),
        Some(RangeState::Unreadable) | None => None,
    };
    Found::Headless(Headless { array, tail, witness, why: why.to_owned() })
}

fn of_drive(glimpse: &Glimpse, drive: Box<Drive>) -> Found {
    let header = &drive.structure.header;
    let Some(group) = header.group.uuid(VENDOR).map(Uuid) else { return Found::Foreign(drive) };
    let own = drive.structure.own.guid.uuid(VENDOR).map(Uuid);
    // Other software that drops or replaces the log raises the sequence: then the log is not merely
    // damaged.
    let tail = drive.structure.place_on(glimpse.size());
    let headless = |why: &str| match headless(glimpse, tail, group, why) {
        Found::Headless(headless) if headless.is_older_than(&[header.sequence]) => None,
        found => Some(found),
    };
    let extras = match drive.structure.vendor_log.as_ref().map(Extras::of) {
        Some(Ok(Some(extras))) => extras,
        Some(Ok(None)) | None => {
            let found = headless("SoftROC's log in its DDF structure is lost");
            return found.unwrap_or(Found::Foreign(drive));
        }
        Some(Err(error)) => return headless(&error.to_string()).unwrap_or(Found::Foreign(drive)),
    };
    if let Err(error) = check_version(extras.version) {
        return Found::Bad(error);
    }
    if extras.sequence != header.sequence {
        // An open copy was being written when power was lost: its log may be newer than its header.
        let cut_off =
            header.is_open().then(|| headless("its DDF update was interrupted")).flatten();
        return cut_off.unwrap_or(Found::Foreign(drive));
    }
    let Some(own) = own else {
        let context = "the physical disk data of this drive do not belong to its label".to_owned();
        return Found::Bad(Error::new(ErrorKind::Contradiction, context));
    };
    match read(&extras, own) {
        Ok(content) if belongs(&content, group, header.sequence) && tail == content.tail() => {
            Found::Carried(Carried { content, drive: Some(Rc::from(drive)) })
        }
        Ok(_) => {
            let context =
                "the label and the DDF structure of this drive do not belong together".to_owned();
            Found::Bad(Error::new(ErrorKind::Contradiction, context))
        }
        Err(error) => Found::Bad(error),
    }
}

fn belongs(content: &Content, group: Uuid, header: u32) -> bool {
    match content {
        Content::Member(label) => label.array == group && sequence(label.generation) == header,
        Content::Spare(spare) => spare.drive == group,
    }
}

/// The label of a headless drive, from the labels of other drives of its array.
///
/// # Errors
/// The reason why it is unknown: a sentence without a full stop.
pub fn restore(headless: &Headless, others: &[&Label]) -> Result<Label, String> {
    let of_array = others.iter().filter(|label| label.array == headless.array);
    let Some(newest) = of_array.max_by_key(|label| label.generation) else {
        return Err("no other drive of its array is present to identify it".to_owned());
    };
    let Some(witness) = headless.witness else {
        return Err("its slot in the array is lost too".to_owned());
    };
    if !witness.names(newest) {
        return Err(format!(
            "its last recorded change of the array is {}, and the newest is {}: the changes that \
             it lacks are unknown",
            witness.generation, newest.generation
        ));
    }
    let label = newest.for_drive(witness.drive);
    label.check().map_err(|error| error.to_string())?;
    Ok(label)
}

/// The label of a log device. Of a copy without the magic number, only the head is read.
fn log_device(glimpse: &Glimpse) -> Found {
    let copies = LogLabel::copies().map(|copy| {
        let head = glimpse.get(ByteRange::new(copy.start, BLOCK));
        match head {
            RangeState::Read(bytes) if LogLabel::is_begun(bytes) => glimpse.get(copy),
            got => got,
        }
    });
    if copies.contains(&RangeState::NotYet) {
        return Found::NotYet;
    }
    let bytes = copies.map(|copy| match copy {
        RangeState::Read(bytes) => Some(bytes),
        RangeState::Unreadable | RangeState::NotYet => None,
    });
    if bytes == [None, None] {
        return Found::Blank;
    }
    match LogLabel::find(bytes[0], bytes[1]) {
        LogFound::Blank => Found::Blank,
        LogFound::Sound(label) if label.fits(glimpse.size()) => Found::Log(Box::new(label)),
        LogFound::Sound(_) => {
            let context = "its log label belongs to a larger device".to_owned();
            Found::Bad(Error::new(ErrorKind::Contradiction, context))
        }
        LogFound::Bad(why) => Found::Bad(Error::new(ErrorKind::Damaged, why)),
    }
}

/// A label of version 1 or 2, which was in the workspace.
fn earlier(glimpse: &Glimpse) -> Found {
    let Some(tail) = Tail::of(glimpse.size()) else { return Found::Blank };
    let heads = tail.earlier_labels().map(|range| glimpse.get(range));
    if heads.contains(&RangeState::NotYet) {
        return Found::NotYet;
    }
    let version = heads.into_iter().find_map(|head| {
        let RangeState::Read(head) = head else { return None };
        let version = head.strip_prefix(&EARLIER_MAGIC)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*version))
    });
    version.map_or(Found::Blank, |version| Found::Bad(another_version(version)))
}
