//! What a drive carries at its end, or where an import put it: a label of SoftROC's, somebody else's structure, or nothing;
//! and at its beginning, where it is a log device.
//!
//! # Fault model
//! An update that was cut off; a damaged copy, or both; other software that changed the structure; a drive from elsewhere.
//!
//! # Rules
//! - What SoftROC says of an array is in the vendor log. It counts where it was written with the header that counts:
//!   otherwise other software has changed the structure since, and only what DDF says is so. Such a drive is *foreign*.
//! - A drive of SoftROC's whose log, or whose copies, are lost is *headless*. Where other drives of its array are there,
//!   they say what it said ([`restore`]): if its [`Witness`] shows that it took part in the newest change. Otherwise nobody
//!   knows how old it is.

use crate::ddf::{Drive, Effort, Extras, Look, look};
use crate::error::{Error, ErrorKind};
use crate::foreign::{Glimpse, Got};
use crate::label::Label;
use crate::log_device::{LogFound, LogLabel};
use crate::payload::{Content, another_version, check_version, read};
use crate::tail::{BLOCK, EARLIER_MAGIC, Tail, TailPlace};
use crate::told::{VENDOR, sequence};
use crate::uuid::Uuid;
use crate::witness::Witness;
use std::rc::Rc;
use units::ByteRange;

/// A sound label, and the structure that it lies in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// What it says.
    pub content: Content,
    /// Where it lies: what the next change of it follows. `None` where other drives told it.
    pub drive: Option<Rc<Drive>>,
}

impl Headless {
    /// Whether any of these headers is newer than what the witness knows of.
    fn is_older_than(&self, sequences: &[u32]) -> bool {
        let Some(witness) = self.witness else { return false };
        let is_after = |header: &u32| (header.wrapping_sub(sequence(witness.generation)) as i32) > 0;
        sequences.iter().any(is_after)
    }
}

impl Carried {
    /// The label of a member, if it is one.
    pub fn label(&self) -> Option<&Label> {
        self.content.label()
    }
}

/// A drive of one of SoftROC's arrays that lost what it said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headless {
    /// Its array.
    pub array: Uuid,
    /// Where its tail is.
    pub tail: TailPlace,
    /// Which drive of it it is, and which label it was last told, where that is left.
    pub witness: Option<Witness>,
    /// What is wrong: a sentence without a full stop.
    pub why: String,
}

/// What was found at the end of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// More of it must be read: the glimpse says what it [wants](Glimpse::wanted).
    NotYet,
    /// Nothing.
    Blank,
    /// A label that is sound.
    Carried(Carried),
    /// One of SoftROC's drives, without what it says of its array.
    Headless(Headless),
    /// The label of a log device: it is there for journals alone.
    Log(Box<LogLabel>),
    /// A structure in DDF that is not SoftROC's, or that other software has changed since.
    Foreign(Box<Drive>),
    /// Something of ours that cannot be used, or a structure of which nothing can be told.
    Bad(Error),
}

/// Looks at the end of a drive, as far as what has been read of it allows.
pub fn find(glimpse: &Glimpse) -> Found {
    match look(glimpse, Effort::Own) {
        Look::NotYet => Found::NotYet,
        Look::Found(drive) => of_drive(glimpse, drive),
        Look::Lost(lost) => match lost.anchor.group.uuid(VENDOR) {
            Some(array) => match headless(glimpse, lost.place(), Uuid(array), &lost.error.to_string()) {
                // Somebody else's software has written since; what it did nobody can tell.
                Found::Headless(headless) if headless.is_older_than(&lost.sequences) => {
                    Found::Bad(lost.error)
                }
                found => found,
            },
            None => Found::Bad(lost.error),
        },
        // What is in the journals of a log device may look like anything: its label comes first.
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
        Some(Got::NotYet) => return Found::NotYet,
        Some(Got::Here(bytes)) => Witness::decode(bytes),
        Some(Got::Unreadable) | None => None,
    };
    Found::Headless(Headless { array, tail, witness, why: why.to_owned() })
}

fn of_drive(glimpse: &Glimpse, drive: Box<Drive>) -> Found {
    let header = &drive.structure.header;
    let Some(group) = header.group.uuid(VENDOR).map(Uuid) else { return Found::Foreign(drive) };
    let own = drive.structure.own.guid.uuid(VENDOR).map(Uuid);
    // Other software that leaves the log out, or puts its own there, raises the sequence: then it is no loss of ours.
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
        // A copy that is open was being written when the power was cut: its log may be newer than its header.
        let cut_off = header.is_open().then(|| headless("its DDF structure was being written")).flatten();
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
            let context = "the label and the DDF structure of this drive do not belong together".to_owned();
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

/// What a headless drive said of its array, by what other drives of it say.
///
/// # Errors
/// Why nobody can tell: a sentence without a full stop.
pub fn restore(headless: &Headless, others: &[&Label]) -> Result<Label, String> {
    let of_array = others.iter().filter(|label| label.array == headless.array);
    let Some(newest) = of_array.max_by_key(|label| label.generation) else {
        return Err("no other drive of its array is here to identify it".to_owned());
    };
    let Some(witness) = headless.witness else {
        return Err("its slot in the array is lost too".to_owned());
    };
    if !witness.names(newest) {
        return Err(format!(
            "its last recorded change of the array is {}, and the newest is {}: what it missed is not known",
            witness.generation, newest.generation
        ));
    }
    let label = newest.for_drive(witness.drive);
    label.check().map_err(|error| error.to_string())?;
    Ok(label)
}

/// The label of a log device: of a copy that does not begin as one, no more is read.
fn log_device(glimpse: &Glimpse) -> Found {
    let copies = LogLabel::copies().map(|copy| {
        let head = glimpse.get(ByteRange::new(copy.start, BLOCK));
        match head {
            Got::Here(bytes) if LogLabel::is_begun(bytes) => glimpse.get(copy),
            got => got,
        }
    });
    if copies.contains(&Got::NotYet) {
        return Found::NotYet;
    }
    let bytes = copies.map(|copy| match copy {
        Got::Here(bytes) => Some(bytes),
        Got::Unreadable | Got::NotYet => None,
    });
    if bytes == [None, None] {
        return Found::Blank;
    }
    match LogLabel::find(bytes[0], bytes[1]) {
        LogFound::Blank => Found::Blank,
        LogFound::Sound(label) if label.fits(glimpse.size()) => Found::Log(Box::new(label)),
        LogFound::Sound(_) => {
            let context = "its log label is of a larger device".to_owned();
            Found::Bad(Error::new(ErrorKind::Contradiction, context))
        }
        LogFound::Bad(why) => Found::Bad(Error::new(ErrorKind::Damaged, why)),
    }
}

/// A label of version 1 or 2, which lay in the workspace.
fn earlier(glimpse: &Glimpse) -> Found {
    let Some(tail) = Tail::of(glimpse.size()) else { return Found::Blank };
    let heads = tail.earlier_labels().map(|range| glimpse.get(range));
    if heads.contains(&Got::NotYet) {
        return Found::NotYet;
    }
    let version = heads.into_iter().find_map(|head| {
        let Got::Here(head) = head else { return None };
        let version = head.strip_prefix(&EARLIER_MAGIC)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*version))
    });
    version.map_or(Found::Blank, |version| Found::Bad(another_version(version)))
}
