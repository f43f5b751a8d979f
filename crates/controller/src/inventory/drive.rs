//! A drive known to the controller.

use super::access::{Access, LabelSeen};
use super::probe::Probe;
use super::structures::Written;
use crate::interface::{Error, ErrorKind, ForeignArray, is_volatile};
use crate::signals::Attention;
use ondisk::{Content, SpareLabel, Undo, Uuid};
use platform::{DriveKind, Traffic};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use units::{ByteCount, SectorSize};

/// Set when all I/O of the shards on a drive has returned.
pub(crate) type IsQuiesced = Rc<Cell<bool>>;

/// How long a drive may take to return outstanding I/O before it is used again.
const QUIESCE_LIMIT: Duration = Duration::from_secs(2);

/// The polling interval meanwhile.
const QUIESCE_POLL: Duration = Duration::from_millis(10);

/// Waits for a condition, at most as long as a command may wait.
pub(crate) async fn settles(env: &platform::Env, is_so: impl Fn() -> bool) {
    let limit = env.now() + QUIESCE_LIMIT;
    while !is_so() && env.now() < limit {
        env.sleep(QUIESCE_POLL).await;
    }
}

/// A drive known to the controller.
pub(crate) struct Drive {
    /// Its name: as given, with a number if that name is taken.
    pub(crate) name: String,
    /// The specification to open it by.
    pub(super) spec: String,
    access: RefCell<Option<Access>>,
    /// The whole drive, while it is used with its earlier, smaller size.
    pub(super) whole: RefCell<Option<Access>>,
    /// Its size at the last use.
    pub(super) was: Cell<Option<ByteCount>>,
    /// Whether an operator gave that size.
    pub(super) is_told: Cell<bool>,
    /// Whether its earlier end could not be read; the earlier size is then kept.
    pub(super) is_unread: Cell<bool>,
    /// Whether its full size is used from the next start on.
    pub(super) wants_room: Cell<bool>,
    /// It was given at the start, and its file type has not been checked yet.
    pub(super) is_unchecked: Cell<bool>,
    /// Closed handles with outstanding writes.
    left: RefCell<Vec<Access>>,
    /// For the shards that released it: whether their I/O has returned.
    draining: RefCell<Vec<IsQuiesced>>,
    /// Why it is unusable: a kind and a sentence.
    problem: RefCell<Option<Error>>,
    label: RefCell<LabelSeen>,
    /// The array of another system that it belongs to, as of the last probe.
    foreign: RefCell<Option<ForeignArray>>,
    /// Its structure, as last read or written.
    pub(super) structure: RefCell<Written>,
    /// Whether its data area is known to contain only zeros.
    zeroed: Cell<bool>,
    medium_errors: Cell<u64>,
    suspensions: Cell<u64>,
    /// Its I/O counters.
    traffic: Traffic,
    /// Its content before an unfinished import.
    undo: RefCell<Option<Rc<Undo>>>,
    /// The number of metadata writes, closes and uses: it invalidates earlier reads.
    pub(super) epoch: Rc<Cell<u64>>,
    /// Its running probe.
    pub(super) probe: RefCell<Option<Rc<Probe>>>,
    /// Whether a probe has ended after its deadline.
    pub(super) is_late: Cell<bool>,
    /// Whether a health query is outstanding.
    pub(super) is_asked: Cell<bool>,
    pub(super) attention: Rc<Attention>,
    /// All registered drives.
    registered: Weak<RefCell<Vec<Rc<Drive>>>>,
    /// The drive that it is a second path to, as of the last probe.
    first_path: RefCell<Option<String>>,
}

impl Drive {
    pub(crate) fn new(
        name: String,
        spec: &str,
        attention: &Rc<Attention>,
        registered: &Rc<RefCell<Vec<Rc<Drive>>>>,
    ) -> Drive {
        Drive {
            name,
            spec: spec.to_owned(),
            access: RefCell::default(),
            whole: RefCell::default(),
            was: Cell::new(None),
            is_told: Cell::new(false),
            is_unread: Cell::new(false),
            wants_room: Cell::new(false),
            is_unchecked: Cell::new(false),
            left: RefCell::default(),
            draining: RefCell::default(),
            problem: RefCell::default(),
            label: RefCell::new(LabelSeen::Blank),
            foreign: RefCell::default(),
            structure: RefCell::new(Written::Nothing),
            zeroed: Cell::new(false),
            medium_errors: Cell::new(0),
            suspensions: Cell::new(0),
            traffic: Traffic::default(),
            undo: RefCell::default(),
            epoch: Rc::default(),
            probe: RefCell::default(),
            is_late: Cell::new(false),
            is_asked: Cell::new(false),
            attention: attention.clone(),
            registered: Rc::downgrade(registered),
            first_path: RefCell::default(),
        }
    }

    /// The drive that it is a second path to, as of the last probe: then it is not used.
    pub(crate) fn first_path(&self) -> Option<String> {
        self.first_path.borrow().clone()
    }

    /// Sets or clears the drive that it is a second path to.
    pub(super) fn set_first_path(&self, first: Option<String>) {
        self.first_path.replace(first);
    }

    /// A registered, open drive that is the same storage as this one, which was just opened.
    pub(super) fn find_first_path(&self, access: &Access) -> Option<String> {
        let registered = self.registered.upgrade()?;
        let (registered, info) = (registered.borrow(), access.info());
        let is_first = |other: &&Rc<Drive>| {
            !std::ptr::eq(&raw const ***other, &raw const *self)
                && other.access().is_some_and(|access| {
                    // One device under two names is refused under one of them.
                    access.info().identity != info.identity && access.info().is_same_storage(info)
                })
        };
        registered.iter().find(is_first).map(|first| first.name.clone())
    }

    /// Its handle, if it is open.
    pub(crate) fn access(&self) -> Option<Access> {
        self.access.borrow().clone()
    }

    /// Whether its data area is known to contain only zeros.
    pub(crate) fn is_zeroed(&self) -> bool {
        self.zeroed.get()
    }

    pub(crate) fn set_zeroed(&self, zeroed: bool) {
        self.zeroed.set(zeroed);
    }

    /// The number of medium errors since the controller was started.
    pub(crate) fn medium_errors(&self) -> u64 {
        self.medium_errors.get()
    }

    /// Counts a medium error; returns the new number.
    pub(crate) fn count_medium_error(&self) -> u64 {
        self.medium_errors.set(self.medium_errors.get() + 1);
        self.medium_errors.get()
    }

    /// The number of suspensions since the controller was started.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions.get()
    }

    pub(crate) fn count_suspension(&self) {
        self.suspensions.set(self.suspensions.get() + 1);
    }

    /// The I/O counters of all users.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Its content before an unfinished import.
    pub(crate) fn undo(&self) -> Option<Rc<Undo>> {
        self.undo.borrow().clone()
    }

    pub(super) fn set_undo(&self, undo: Option<Rc<Undo>>) {
        self.undo.replace(undo);
    }

    /// An array takes the drive into use: results of running probes are invalid.
    pub(crate) fn note_use(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// The number of metadata writes, closes and uses.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Sets the known state of its structure.
    pub(crate) fn set_structure(&self, written: Written) {
        self.structure.replace(written);
    }

    /// Why it is unusable.
    pub(crate) fn problem(&self) -> Option<Error> {
        match self.is_draining() {
            true => Some(self.not_quiesced()),
            false => self.problem.borrow().clone(),
        }
    }

    pub(crate) fn set_problem(&self, problem: Option<Error>) {
        *self.problem.borrow_mut() = problem;
    }

    /// The content of its label area, as of the last probe.
    pub(crate) fn label(&self) -> LabelSeen {
        self.label.borrow().clone()
    }

    pub(crate) fn set_label(&self, label: LabelSeen) {
        *self.label.borrow_mut() = label;
        *self.foreign.borrow_mut() = None;
    }

    pub(super) fn set_foreign(&self, foreign: Option<ForeignArray>) {
        self.foreign.replace(foreign);
    }

    /// The array of another system that it is a member of.
    pub(crate) fn foreign(&self) -> Option<ForeignArray> {
        self.foreign.borrow().clone()
    }

    /// Its label, if it belongs to a member of an array, or to a replacement.
    pub(crate) fn member_label(&self) -> Option<ondisk::Label> {
        match &*self.label.borrow() {
            LabelSeen::Sound(carried) => carried.label().cloned(),
            _ => None,
        }
    }

    /// The drive's UUID in its label; `None` without one.
    pub(super) fn own_label(&self) -> Option<Uuid> {
        match &*self.label.borrow() {
            LabelSeen::Sound(carried) => Some(carried.content.drive()),
            LabelSeen::Log(label) => Some(label.device),
            LabelSeen::Headless(_)
            | LabelSeen::Foreign(_)
            | LabelSeen::Bad(_)
            | LabelSeen::Blank => None,
        }
    }

    /// The permanent identity of the drive, independent of its content: for a device its serial
    /// number, as device numbers change at each start. `None` without one, or while it is closed.
    pub(crate) fn lasting_identity(&self) -> Option<String> {
        let access = self.access()?;
        let info = access.info();
        let hardware = &info.hardware;
        match (info.kind, &hardware.serial) {
            (DriveKind::BlockDevice, Some(serial)) => {
                // All partitions of a disk report its serial number.
                let part =
                    hardware.partition.as_ref().map(|part| format!(" partition {}", part.number));
                let (model, part) =
                    (hardware.model.as_deref().unwrap_or_default(), part.unwrap_or_default());
                Some(format!("serial:{model} {serial}{part}"))
            }
            (DriveKind::BlockDevice, None) => None,
            _ => Some(info.identity.0.clone()),
        }
    }

    /// The same; for a device without a serial number, the name to open it by. Another device of
    /// that name counts as this one, which an operator can correct. Valid on this host only.
    pub(crate) fn identity_here(&self) -> String {
        self.lasting_identity().unwrap_or_else(|| format!("opened as:{}", self.spec))
    }

    /// Its size and sector size, for the label; zero while it is closed.
    pub(crate) fn extent(&self) -> (ByteCount, SectorSize) {
        let info = self.access().map(|access| (access.info().size, access.info().logical_sector));
        info.unwrap_or((ByteCount::ZERO, SectorSize::B512))
    }

    /// Updates a member's name and size in a label: the drive may have become larger while it was
    /// missing.
    pub(crate) fn describe(&self, member: &mut ondisk::Member) {
        let (size, block) = self.extent();
        member.name.clone_from(&self.name);
        (member.size_bytes, member.block_bytes) = (size.0, block.bytes().0);
    }

    /// The array in its label.
    pub(crate) fn array(&self) -> Option<Uuid> {
        self.member_label().map(|label| label.array)
    }

    /// Closes it. The lock against another controller is kept until outstanding writes have
    /// returned.
    pub(crate) fn close(&self) {
        self.use_by(None, None);
    }

    /// Uses this handle from now on; `whole`: the whole drive, if that is larger. Other handles
    /// with outstanding writes are remembered.
    pub(super) fn use_by(&self, access: Option<&Access>, whole: Option<&Access>) {
        self.note_use();
        self.switch_to(access, whole);
    }

    /// The same with the result of a probe.
    pub(super) fn switch_to(&self, access: Option<&Access>, whole: Option<&Access>) {
        let before = [self.access.replace(access.cloned()), self.whole.replace(whole.cloned())];
        let is_writing = |access: &Access| access.writes_under_way() > 0;
        self.left.borrow_mut().extend(before.into_iter().flatten().filter(is_writing));
    }

    /// Remembers a handle that is no longer used but may have outstanding I/O.
    pub(super) fn note_left(&self, access: &Access) {
        self.left.borrow_mut().extend((access.writes_under_way() > 0).then(|| access.clone()));
    }

    /// It is taken from a volume's shards: `is_quiesced` is set when all their I/O has returned.
    pub(crate) fn note_draining(&self, is_quiesced: &IsQuiesced) {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|other| !other.get());
        if draining.iter().all(|other| !Rc::ptr_eq(other, is_quiesced)) {
            draining.push(is_quiesced.clone());
        }
    }

    /// Whether shards that released it have outstanding I/O.
    pub(crate) fn is_draining(&self) -> bool {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|is_quiesced| !is_quiesced.get());
        !draining.is_empty()
    }

    /// Whether an earlier write is outstanding: it must not land on newer data (rule (d)).
    pub(crate) fn holds_writes_back(&self) -> bool {
        let mut left = self.left.borrow_mut();
        left.retain(|access| access.writes_under_way() > 0);
        let ways = [self.access(), self.whole.borrow().clone()];
        let writes: u32 = ways.iter().flatten().map(|access| access.writes_under_way()).sum();
        writes > 0 || !left.is_empty() || self.is_draining()
    }

    /// Waits until its outstanding writes have returned, at most as long as a command may wait.
    /// Returns whether they have.
    pub(crate) async fn is_quiesced(&self, env: &platform::Env) -> bool {
        settles(env, || !self.holds_writes_back()).await;
        !self.holds_writes_back()
    }

    /// Why it cannot be used while I/O is outstanding.
    pub(crate) fn not_quiesced(&self) -> Error {
        let sentence = format!(
            "drive {} has outstanding writes; try again when they have returned, or replace the \
                drive or its cable",
            self.name
        );
        Error::new(ErrorKind::Unavailable, sentence)
    }

    /// Whether its content is lost with this process.
    pub(crate) fn is_volatile(&self) -> bool {
        is_volatile(&self.spec)
    }

    /// Why a drive with this content of its label area is unusable.
    pub(super) fn problem_with(
        &self,
        label: &LabelSeen,
        foreign: Option<&ForeignArray>,
    ) -> Option<Error> {
        match label {
            LabelSeen::Bad(why) => {
                Some(Error::new(ErrorKind::WrongState, format!("drive {}: {why}", self.name)))
            }
            LabelSeen::Foreign(drive) => Some(Error::new(
                ErrorKind::WrongState,
                format!("drive {} {}", self.name, describe_foreign(drive, foreign)),
            )),
            LabelSeen::Headless(headless) => Some(Error::new(
                ErrorKind::WrongState,
                format!(
                    "drive {} belongs to the array {}, and its metadata is lost ({}); register the \
                    other drives of that array",
                    self.name, headless.array, headless.why
                ),
            )),
            LabelSeen::Blank | LabelSeen::Sound(_) | LabelSeen::Log(_) => None,
        }
    }
}

/// The note that a drive's structure belongs to another system, as text after its name.
fn describe_foreign(drive: &ondisk::ddf::Drive, array: Option<&ForeignArray>) -> String {
    let name = array.map_or_else(String::new, |array| format!(" '{}'", array.name));
    let whose = match drive.structure.header.group.vendor() {
        Some("SoftROC") => ", which other software has changed since SoftROC used it".to_owned(),
        Some(vendor) => format!(" that {vendor} made (DDF)"),
        None => " of another controller (DDF)".to_owned(),
    };
    format!("belongs to the array{name}{whose}; run 'softroc foreign list'")
}

/// Why a drive cannot be opened.
pub(super) fn unavailable(name: &str, error: &platform::Error) -> Error {
    let kind = match error.kind {
        platform::ErrorKind::InUse => ErrorKind::InUse,
        platform::ErrorKind::BadName | platform::ErrorKind::WrongKind => ErrorKind::Invalid,
        platform::ErrorKind::OutOfSpace => ErrorKind::OutOfSpace,
        _ => ErrorKind::Unavailable,
    };
    let said = error.to_string();
    let said = if said.contains(name) { said } else { format!("drive {name}: {said}") };
    Error::new(kind, said)
}

impl Drive {
    /// Its label, if it is a spare.
    pub(crate) fn spare(&self) -> Option<SpareLabel> {
        match self.label() {
            LabelSeen::Sound(carried) => match &carried.content {
                Content::Spare(spare) => Some(spare.clone()),
                Content::Member(_) => None,
            },
            _ => None,
        }
    }

    /// Its enclosure, as the system reports it.
    pub(crate) fn enclosure(&self) -> Option<String> {
        self.access()?.info().hardware.enclosure.clone()
    }

    /// Whether it rotates; `None` while it is closed.
    pub(crate) fn rotates(&self) -> Option<bool> {
        Some(self.access()?.info().rotational)
    }
}

impl Drive {
    /// Whether it has a medium that can develop errors.
    pub(crate) fn has_medium(&self) -> bool {
        let kind = self.access().map(|access| access.info().kind);
        !matches!(kind, None | Some(DriveKind::Null | DriveKind::Memory | DriveKind::Volume))
    }
}
