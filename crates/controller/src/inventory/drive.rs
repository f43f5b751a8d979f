//! A drive that the controller knows.

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

/// Set when all shards have everything back that they asked of a drive.
pub(crate) type IsQuiesced = Rc<Cell<bool>>;

/// How long a drive may take to give back what was asked of it before, when it is to be used again.
const QUIESCE_LIMIT: Duration = Duration::from_secs(2);

/// How often it is looked at meanwhile.
const QUIESCE_POLL: Duration = Duration::from_millis(10);

/// Waits until it is so, for so long as one waits for a command.
pub(crate) async fn settles(env: &platform::Env, is_so: impl Fn() -> bool) {
    let limit = env.now() + QUIESCE_LIMIT;
    while !is_so() && env.now() < limit {
        env.sleep(QUIESCE_POLL).await;
    }
}

/// A drive that the controller knows.
pub(crate) struct Drive {
    /// How it is called here: how it was named, with a number behind it where that name is not its own.
    pub(crate) name: String,
    /// How it is opened.
    pub(super) spec: String,
    access: RefCell<Option<Access>>,
    /// All of it, while it is used as large as it was before it became larger.
    pub(super) whole: RefCell<Option<Access>>,
    /// How large it was when it was used last.
    pub(super) was: Cell<Option<ByteCount>>,
    /// Whether an operator has said so.
    pub(super) is_told: Cell<bool>,
    /// Whether it could not be read where it ended then: that it did is not forgotten.
    pub(super) is_unread: Cell<bool>,
    /// Whether it is to have all of its room from the next start on.
    pub(super) wants_room: Cell<bool>,
    /// It was given at the start, and nobody has looked yet whether it was made for a drive.
    pub(super) is_unchecked: Cell<bool>,
    /// Ways to it that were closed while writes were under way.
    left: RefCell<Vec<Access>>,
    /// Of the shards of volumes that it was taken from: whether they have back all that they asked of it.
    draining: RefCell<Vec<IsQuiesced>>,
    /// Why it cannot be used: a kind and a sentence.
    problem: RefCell<Option<Error>>,
    label: RefCell<LabelSeen>,
    /// The array of another system that it is a member of, when it was last looked at.
    foreign: RefCell<Option<ForeignArray>>,
    /// The structure that it has, as it was last read or written.
    pub(super) structure: RefCell<Written>,
    /// Whether it is known to hold nothing but zeroes where data goes.
    zeroed: Cell<bool>,
    medium_errors: Cell<u64>,
    suspensions: Cell<u64>,
    /// What was asked of it, for as long as it is known.
    traffic: Traffic,
    /// What it held before an import that was not finished.
    undo: RefCell<Option<Rc<Undo>>>,
    /// How often SoftROC wrote to it, closed it or took it into use: what was read of it before counts no more.
    pub(super) epoch: Rc<Cell<u64>>,
    /// The probe of it that is under way.
    pub(super) probe: RefCell<Option<Rc<Probe>>>,
    /// Whether a probe has ended that nobody waited for any more.
    pub(super) is_late: Cell<bool>,
    /// Whether it was asked for its health and has not answered.
    pub(super) is_asked: Cell<bool>,
    pub(super) attention: Rc<Attention>,
    /// All drives that are registered.
    registered: Weak<RefCell<Vec<Rc<Drive>>>>,
    /// The drive that it is another path to, when it was looked at last.
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

    /// The drive that it is another path to, when it was looked at last: then it is not used.
    pub(crate) fn first_path(&self) -> Option<String> {
        self.first_path.borrow().clone()
    }

    /// It is open, or is no path to a drive that is.
    pub(super) fn set_first_path(&self, first: Option<String>) {
        self.first_path.replace(first);
    }

    /// A registered drive that is open and is the same storage as this one, which was opened so just now.
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

    /// The way to it, if it is open.
    pub(crate) fn access(&self) -> Option<Access> {
        self.access.borrow().clone()
    }

    /// Whether it is known to hold nothing but zeroes where data goes.
    pub(crate) fn is_zeroed(&self) -> bool {
        self.zeroed.get()
    }

    pub(crate) fn set_zeroed(&self, zeroed: bool) {
        self.zeroed.set(zeroed);
    }

    /// How often blocks of it could not be read since the controller was started.
    pub(crate) fn medium_errors(&self) -> u64 {
        self.medium_errors.get()
    }

    /// Blocks of it could not be read: how often that was so by now.
    pub(crate) fn count_medium_error(&self) -> u64 {
        self.medium_errors.set(self.medium_errors.get() + 1);
        self.medium_errors.get()
    }

    /// How often it was suspended since the controller was started.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions.get()
    }

    pub(crate) fn count_suspension(&self) {
        self.suspensions.set(self.suspensions.get() + 1);
    }

    /// What was asked of it, by whoever it was.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What it held before an import that was not finished.
    pub(crate) fn undo(&self) -> Option<Rc<Undo>> {
        self.undo.borrow().clone()
    }

    pub(super) fn set_undo(&self, undo: Option<Rc<Undo>>) {
        self.undo.replace(undo);
    }

    /// An array takes it into use: what is being read of it for other purposes counts no more.
    pub(crate) fn note_use(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// How often SoftROC wrote to it, closed it or took it into use.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// What is known of the structure on it, from now on.
    pub(crate) fn set_structure(&self, written: Written) {
        self.structure.replace(written);
    }

    /// Why it cannot be used.
    pub(crate) fn problem(&self) -> Option<Error> {
        match self.is_draining() {
            true => Some(self.not_quiesced()),
            false => self.problem.borrow().clone(),
        }
    }

    pub(crate) fn set_problem(&self, problem: Option<Error>) {
        *self.problem.borrow_mut() = problem;
    }

    /// What was found where labels lie, when it was last looked at.
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

    /// Its label, if it is that of a member of an array, or of a replacement.
    pub(crate) fn member_label(&self) -> Option<ondisk::Label> {
        match &*self.label.borrow() {
            LabelSeen::Sound(carried) => carried.label().cloned(),
            _ => None,
        }
    }

    /// What its label calls the drive itself; `None` where it has none.
    pub(super) fn own_label(&self) -> Option<Uuid> {
        match &*self.label.borrow() {
            LabelSeen::Sound(carried) => Some(carried.content.drive()),
            LabelSeen::Log(label) => Some(label.device),
            LabelSeen::Headless(_) | LabelSeen::Foreign(_) | LabelSeen::Bad(_) | LabelSeen::Blank => None,
        }
    }

    /// What tells it from others for as long as it lives, whatever it holds: of a device its serial number, as device
    /// numbers are given anew at each start. `None` where nothing does, or while it is not open.
    pub(crate) fn lasting_identity(&self) -> Option<String> {
        let access = self.access()?;
        let info = access.info();
        let hardware = &info.hardware;
        match (info.kind, &hardware.serial) {
            (DriveKind::BlockDevice, Some(serial)) => {
                // All partitions of a disk say its serial number.
                let part = hardware.partition.as_ref().map(|part| format!(" partition {}", part.number));
                let (model, part) = (hardware.model.as_deref().unwrap_or_default(), part.unwrap_or_default());
                Some(format!("serial:{model} {serial}{part}"))
            }
            (DriveKind::BlockDevice, None) => None,
            _ => Some(info.identity.0.clone()),
        }
    }

    /// The same, and of a device that has no serial number how it is opened: another one that is opened so counts as
    /// this one, which an operator can correct. Known on this machine alone.
    pub(crate) fn identity_here(&self) -> String {
        self.lasting_identity().unwrap_or_else(|| format!("opened as:{}", self.spec))
    }

    /// Its size and its blocks, as a label records them; of a drive that is not open, nothing.
    pub(crate) fn extent(&self) -> (ByteCount, SectorSize) {
        let info = self.access().map(|access| (access.info().size, access.info().logical_sector));
        info.unwrap_or((ByteCount::ZERO, SectorSize::B512))
    }

    /// Has the label of a member say how it is called, and how large it is: it may have become larger while it was out.
    pub(crate) fn describe(&self, member: &mut ondisk::Member) {
        let (size, block) = self.extent();
        member.name.clone_from(&self.name);
        (member.size_bytes, member.block_bytes) = (size.0, block.bytes().0);
    }

    /// The array that its label names.
    pub(crate) fn array(&self) -> Option<Uuid> {
        self.member_label().map(|label| label.array)
    }

    /// Lets go of it, and of the lock against another controller; of that only when no write to it is under way any more.
    pub(crate) fn close(&self) {
        self.use_by(None, None);
    }

    /// It is used in that way from now on; `whole`: all of it, where that is more. What was written in other ways, and is under way, is remembered.
    pub(super) fn use_by(&self, access: Option<&Access>, whole: Option<&Access>) {
        self.note_use();
        self.switch_to(access, whole);
    }

    /// The same as a probe found it.
    pub(super) fn switch_to(&self, access: Option<&Access>, whole: Option<&Access>) {
        let before = [self.access.replace(access.cloned()), self.whole.replace(whole.cloned())];
        let is_writing = |access: &Access| access.writes_under_way() > 0;
        self.left.borrow_mut().extend(before.into_iter().flatten().filter(is_writing));
    }

    /// A way to it that is used no more, and in which something may be under way.
    pub(super) fn note_left(&self, access: &Access) {
        self.left.borrow_mut().extend((access.writes_under_way() > 0).then(|| access.clone()));
    }

    /// It is taken from a volume's shards: `is_quiesced` will be set when they have back all that they asked of it.
    pub(crate) fn note_draining(&self, is_quiesced: &IsQuiesced) {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|other| !other.get());
        if draining.iter().all(|other| !Rc::ptr_eq(other, is_quiesced)) {
            draining.push(is_quiesced.clone());
        }
    }

    /// Whether shards that it was taken from have not back all that they asked of it.
    pub(crate) fn is_draining(&self) -> bool {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|is_quiesced| !is_quiesced.get());
        !draining.is_empty()
    }

    /// Whether a write to it from before is under way: it must not land on what is read or written from now on (rule (d)).
    pub(crate) fn holds_writes_back(&self) -> bool {
        let mut left = self.left.borrow_mut();
        left.retain(|access| access.writes_under_way() > 0);
        let ways = [self.access(), self.whole.borrow().clone()];
        let writes: u32 = ways.iter().flatten().map(|access| access.writes_under_way()).sum();
        writes > 0 || !left.is_empty() || self.is_draining()
    }

    /// Waits until it has returned what was written to it before, for so long as one waits for a command. Whether it has.
    pub(crate) async fn is_quiesced(&self, env: &platform::Env) -> bool {
        settles(env, || !self.holds_writes_back()).await;
        !self.holds_writes_back()
    }

    /// Why it cannot be taken while it is not quiet.
    pub(crate) fn not_quiesced(&self) -> Error {
        let sentence = format!(
            "drive {} has outstanding writes; try again when they have returned, or replace the drive or its cable",
            self.name
        );
        Error::new(ErrorKind::Unavailable, sentence)
    }

    /// Whether it lives no longer than this process.
    pub(crate) fn is_volatile(&self) -> bool {
        is_volatile(&self.spec)
    }

    /// Why a drive cannot be used that has that where labels lie.
    pub(super) fn problem_with(&self, label: &LabelSeen, foreign: Option<&ForeignArray>) -> Option<Error> {
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
                    "drive {} belongs to the array {}, and its metadata are lost ({}); register the other drives of that array",
                    self.name, headless.array, headless.why
                ),
            )),
            LabelSeen::Blank | LabelSeen::Sound(_) | LabelSeen::Log(_) => None,
        }
    }
}

/// That a drive's structure is somebody else's, to be read behind its name.
fn describe_foreign(drive: &ondisk::ddf::Drive, array: Option<&ForeignArray>) -> String {
    let name = array.map_or_else(String::new, |array| format!(" '{}'", array.name));
    let whose = match drive.structure.header.group.vendor() {
        Some("SoftROC") => ", which other software has changed since SoftROC used it".to_owned(),
        Some(vendor) => format!(" that {vendor} made (DDF)"),
        None => " of another controller (DDF)".to_owned(),
    };
    format!("belongs to the array{name}{whose}; run 'softroc foreign list'")
}

/// Why a drive cannot be opened, for whoever named it.
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
    /// What its label says, if it is that of a spare.
    pub(crate) fn spare(&self) -> Option<SpareLabel> {
        match self.label() {
            LabelSeen::Sound(carried) => match &carried.content {
                Content::Spare(spare) => Some(spare.clone()),
                Content::Member(_) => None,
            },
            _ => None,
        }
    }

    /// The enclosure it sits in, as the machine tells.
    pub(crate) fn enclosure(&self) -> Option<String> {
        self.access()?.info().hardware.enclosure.clone()
    }

    /// Whether it rotates; `None` while it is not open.
    pub(crate) fn rotates(&self) -> Option<bool> {
        Some(self.access()?.info().rotational)
    }
}

impl Drive {
    /// Whether it has a medium that can go bad.
    pub(crate) fn has_medium(&self) -> bool {
        let kind = self.access().map(|access| access.info().kind);
        !matches!(kind, None | Some(DriveKind::Null | DriveKind::Memory | DriveKind::Volume))
    }
}
