//! The drives that the controller knows: opened, looked at, remembered.
//!
//! What the state store remembers of drives (`drives.toml`) is a list of hints where to look; the truth is in
//! the drives' labels.

pub(crate) mod access;
pub(crate) mod health;
pub(crate) mod structures;

use crate::arrays::draining::IsQuiet;
use crate::commands::core::Core;
use crate::inventory::access::{Access, LabelSeen};
use crate::inventory::structures::Written;
use crate::{Error, ErrorKind, Result};
use env::DriveKind;
use ondisk::{Undo, Uuid};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, SectorSize};

/// How long a drive may take to give back what was asked of it before, when it is to be used again.
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// How often it is looked at meanwhile.
const QUIET_POLL: Duration = Duration::from_millis(10);

/// Waits until it is so, for so long as one waits for a command.
pub(crate) async fn settles(env: &env::Env, is_so: impl Fn() -> bool) {
    let limit = env.now() + QUIET_LIMIT;
    while !is_so() && env.now() < limit {
        env.sleep(QUIET_POLL).await;
    }
}

/// Where the names of drives are remembered.
const FILE: &str = "drives.toml";

#[derive(Serialize, Deserialize, Default)]
struct Hints {
    drives: Vec<String>,
}

/// A drive that the controller knows.
pub(crate) struct Drive {
    /// How it is called here: how it was named, with a number behind it where that name is not its own.
    pub(crate) name: String,
    /// How it is opened.
    spec: String,
    access: RefCell<Option<Access>>,
    /// Ways to it that were closed while writes were under way.
    left: RefCell<Vec<Access>>,
    /// Of the shards of volumes that it was taken from: whether they have back all that they asked of it.
    leaving: RefCell<Vec<IsQuiet>>,
    /// Why it cannot be used: a kind and a sentence.
    problem: RefCell<Option<Error>>,
    label: RefCell<LabelSeen>,
    /// The structure that it has, as it was last read or written.
    pub(crate) structure: RefCell<Written>,
    /// Whether it is known to hold nothing but zeroes where data goes.
    pub(crate) zeroed: Cell<bool>,
    pub(crate) medium_errors: Cell<u64>,
    /// What it held before an import that was not finished.
    pub(crate) undo: RefCell<Option<Rc<Undo>>>,
}

impl Drive {
    pub(crate) fn new(name: String, spec: &str) -> Drive {
        Drive {
            name,
            spec: spec.to_owned(),
            access: RefCell::default(),
            left: RefCell::default(),
            leaving: RefCell::default(),
            problem: RefCell::default(),
            label: RefCell::new(LabelSeen::Blank),
            structure: RefCell::new(Written::Nothing),
            zeroed: Cell::new(false),
            medium_errors: Cell::new(0),
            undo: RefCell::default(),
        }
    }

    /// The way to it, if it is open.
    pub(crate) fn access(&self) -> Option<Access> {
        self.access.borrow().clone()
    }

    /// Why it cannot be used.
    pub(crate) fn problem(&self) -> Option<Error> {
        match self.is_leaving() {
            true => Some(self.not_quiet()),
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
    }

    /// Its label, if it is that of a member of an array, or of a replacement.
    pub(crate) fn member_label(&self) -> Option<ondisk::Label> {
        match &*self.label.borrow() {
            LabelSeen::Sound(carried) => carried.label().cloned(),
            _ => None,
        }
    }

    /// Its size and its blocks, as a label records them; of a drive that is not open, nothing.
    pub(crate) fn extent(&self) -> (ByteCount, SectorSize) {
        let info = self.access().map(|access| (access.info().size, access.info().logical_sector));
        info.unwrap_or((ByteCount::ZERO, SectorSize::B512))
    }

    /// The array that its label names.
    pub(crate) fn array(&self) -> Option<Uuid> {
        self.member_label().map(|label| label.array)
    }

    /// Lets go of it, and of the lock against another controller; of that only when no write to it is under way any more.
    pub(crate) fn close(&self) {
        let left = self.access.borrow_mut().take();
        self.left.borrow_mut().extend(left.filter(|access| access.writes_under_way() > 0));
    }

    /// It is taken from a volume's shards: `is_quiet` will be set when they have back all that they asked of it.
    pub(crate) fn leaves(&self, is_quiet: &IsQuiet) {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|other| !other.get());
        if leaving.iter().all(|other| !Rc::ptr_eq(other, is_quiet)) {
            leaving.push(is_quiet.clone());
        }
    }

    /// Whether shards that it was taken from have not back all that they asked of it.
    pub(crate) fn is_leaving(&self) -> bool {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|is_quiet| !is_quiet.get());
        !leaving.is_empty()
    }

    /// Whether a write to it from before is under way: it must not land on what is read or written from now on (rule (d)).
    pub(crate) fn holds_writes_back(&self) -> bool {
        let mut left = self.left.borrow_mut();
        left.retain(|access| access.writes_under_way() > 0);
        let writes = self.access().map_or(0, |access| access.writes_under_way());
        writes > 0 || !left.is_empty() || self.is_leaving()
    }

    /// Waits until it has returned what was written to it before, for so long as one waits for a command. Whether it has.
    pub(crate) async fn is_quiet(&self, env: &env::Env) -> bool {
        settles(env, || !self.holds_writes_back()).await;
        !self.holds_writes_back()
    }

    /// Why it cannot be taken while it is not quiet.
    pub(crate) fn not_quiet(&self) -> Error {
        let sentence = format!(
            "drive {} has not returned all that was written to it; try again when it has, or replace it or its cable",
            self.name
        );
        Error::new(ErrorKind::Unavailable, sentence)
    }

    /// Whether it lives no longer than this process.
    pub(crate) fn is_volatile(&self) -> bool {
        is_volatile(&self.spec)
    }

    /// Opens it, unless it is open, and looks at its label; not while that may still change by itself.
    pub(crate) async fn look(&self, env: &env::Env) {
        if !self.is_quiet(env).await {
            // One that is leaving says so by itself, as long as it is.
            if !self.is_leaving() {
                self.set_problem(Some(self.not_quiet()));
            }
            return;
        }
        let access = match self.access() {
            Some(access) => access,
            None => match Access::open(env, &self.spec).await {
                Ok(access) => {
                    *self.access.borrow_mut() = Some(access.clone());
                    let kind = access.info().kind;
                    self.zeroed.set(matches!(kind, DriveKind::Memory | DriveKind::Null));
                    access
                }
                Err(error) => return self.set_problem(Some(unavailable(&self.name, &error))),
            },
        };
        match access.read_label().await {
            Ok(label) => {
                self.set_problem(match &label {
                    LabelSeen::Bad(why) => {
                        Some(Error::new(ErrorKind::WrongState, format!("drive {}: {why}", self.name)))
                    }
                    LabelSeen::Foreign(drive) => Some(Error::new(
                        ErrorKind::WrongState,
                        format!("drive {} {}", self.name, told_foreign(drive)),
                    )),
                    LabelSeen::Headless(headless) => Some(Error::new(
                        ErrorKind::WrongState,
                        format!(
                            "drive {} belongs to the array {}, and what it said of it is lost ({}); add the other drives of that array",
                            self.name, headless.array, headless.why
                        ),
                    )),
                    LabelSeen::Blank | LabelSeen::Sound(_) => None,
                });
                self.structure.replace(Written::of(&label));
                self.set_label(label);
                self.undo.replace(access.read_undo().await.map(Rc::new));
            }
            Err(error) => {
                self.close();
                let sentence = format!(
                    "drive {} cannot be flushed, or read where its label would be ({error}); replace it or its cable",
                    self.name
                );
                self.set_problem(Some(Error::new(ErrorKind::Unavailable, sentence)));
            }
        }
    }
}

/// That a drive's structure is somebody else's, to be read behind its name.
fn told_foreign(drive: &ondisk::ddf::Drive) -> String {
    let header = &drive.structure.header;
    match header.group.vendor() {
        Some("SoftROC") => {
            "belongs to an array that other software has changed since SoftROC used it: see foreign list"
                .to_owned()
        }
        Some(vendor) => format!("belongs to an array that {vendor} made (DDF): see foreign list"),
        None => "belongs to an array of another controller (DDF): see foreign list".to_owned(),
    }
}

/// Whether a drive of that name lives no longer than this process.
pub(crate) fn is_volatile(spec: &str) -> bool {
    spec.starts_with("mem:") || spec.starts_with("null:")
}

/// Why a drive cannot be opened, for whoever named it.
fn unavailable(name: &str, error: &env::Error) -> Error {
    let kind = match error.kind {
        env::ErrorKind::InUse => ErrorKind::InUse,
        env::ErrorKind::BadName | env::ErrorKind::WrongKind => ErrorKind::Invalid,
        env::ErrorKind::OutOfSpace => ErrorKind::OutOfSpace,
        _ => ErrorKind::Unavailable,
    };
    let said = error.to_string();
    let said = if said.contains(name) { said } else { format!("drive {name}: {said}") };
    let said = match kind {
        ErrorKind::InUse => format!("{said}; or it is a drive of this controller under another name"),
        _ => said,
    };
    Error::new(kind, said)
}

impl Core {
    /// The drives that were remembered and those given, opened and looked at.
    pub(crate) async fn open_known_drives(&self, given: &[String]) {
        let hints = self.load_hints().await;
        for spec in hints.iter().chain(given) {
            if self.drive_called(spec).is_some() && !is_volatile(spec) {
                continue;
            }
            let drive = self.new_drive(spec);
            drive.look(&self.env).await;
            self.drives.borrow_mut().push(drive);
        }
        self.remember_drives().await;
    }

    async fn load_hints(&self) -> Vec<String> {
        let loaded = self.env.world().state().load(FILE).await;
        let read = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
            toml::from_str::<Hints>(&text).map_err(|error| error.message().to_owned())
        };
        match loaded
            .map_err(|error| error.to_string())
            .and_then(|bytes| bytes.map_or(Ok(Hints::default()), read))
        {
            Ok(hints) => hints.drives,
            Err(why) => {
                self.events.warn(
                    "controller",
                    &why,
                    "drives that were added before are not looked at",
                    format!("the list of drives, {FILE}, cannot be read: {why}; add the drives again"),
                );
                Vec::new()
            }
        }
    }

    /// Remembers the names of all drives that outlive this process.
    pub(crate) async fn remember_drives(&self) {
        let lasting = |drive: &&Rc<Drive>| !drive.is_volatile();
        let drives = self.drives.borrow().iter().filter(lasting).map(|drive| drive.spec.clone()).collect();
        let stored = match toml::to_string(&Hints { drives }) {
            Ok(text) => {
                let store = self.env.world().state().store(FILE, text.into_bytes());
                store.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = stored {
            self.events.warn(
                "controller",
                &why,
                "after a restart its drives have to be named again",
                format!("the list of drives cannot be stored: {why}"),
            );
        }
    }

    /// A drive that is not in the inventory yet, with a name of its own.
    pub(crate) fn new_drive(&self, spec: &str) -> Rc<Drive> {
        let mut name = spec.to_owned();
        let mut number = 1;
        while self.drive_called(&name).is_some() {
            number += 1;
            name = format!("{spec}#{number}");
        }
        Rc::new(Drive::new(name, spec))
    }

    pub(crate) fn drive_called(&self, name: &str) -> Option<Rc<Drive>> {
        self.drives.borrow().iter().find(|drive| drive.name == name).cloned()
    }

    /// Another drive of the inventory that is the same drive under another name.
    pub(crate) fn same_drive(&self, drive: &Drive) -> Option<Rc<Drive>> {
        let identity = drive.access()?.info().identity.clone();
        let drives = self.drives.borrow();
        let same = |other: &&Rc<Drive>| {
            other.name != drive.name
                && other.access().is_some_and(|access| access.info().identity == identity)
        };
        drives.iter().find(same).cloned()
    }

    /// `drive add`: tells the controller of a drive; with a size, makes a file for it first. Notes, a sentence each.
    pub(crate) async fn add_drive(
        self: &Rc<Self>,
        spec: &str,
        size: Option<u64>,
    ) -> Result<(Rc<Drive>, Vec<String>)> {
        if let Some(size) = size {
            self.create_file(spec, size).await?;
        }
        let known = self.drive_called(spec).filter(|drive| !drive.is_volatile());
        let drive = known.clone().unwrap_or_else(|| self.new_drive(spec));
        if let Some((array, _)) = self.place_of(&drive)
            && array.is_running()
        {
            return Ok((
                drive.clone(),
                vec![format!("drive {} is in use already, by {}", drive.name, array.names())],
            ));
        }
        drive.look(&self.env).await;
        if drive.access().is_none() {
            let gone = || Error::new(ErrorKind::Unavailable, format!("drive {spec} cannot be opened"));
            return Err(drive.problem().unwrap_or_else(gone));
        }
        if let Some(other) = self.same_drive(&drive) {
            drive.close();
            let sentence = format!("drive {spec} is known already, as {}; use that name", other.name);
            return Err(Error::new(ErrorKind::InUse, sentence));
        }
        drive.zeroed.set(drive.zeroed.get() || size.is_some());
        if known.is_none() {
            self.drives.borrow_mut().push(drive.clone());
            self.remember_drives().await;
        }
        let notes = self.assemble_with(&drive).await;
        Ok((drive, notes))
    }

    async fn create_file(&self, spec: &str, size: u64) -> Result<()> {
        if is_volatile(spec) || spec.contains("://") {
            let sentence = format!("a size goes with a new file, and '{spec}' is none; leave the size out");
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let size = units::ByteCount(size);
        if ondisk::Tail::of(size).is_none() || !size.is_aligned(ondisk::BLOCK) {
            let sentence = format!(
                "a drive of {size} ({} bytes) cannot be; choose a multiple of 4K above 32M, which the label takes",
                size.0
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let created = self.env.world().create_drive(spec, size).await;
        created.map_err(|error| unavailable(spec, &error))
    }
}
