//! Drives: opens, probes and registers them, and queries their health.
//!
//! **Owns** the known drives ([`Drive`]); the stored list of their names and sizes (`drives.toml`:
//! only hints where to look, since the labels are authoritative); failed drives
//! (`failed-drives.toml`); known and deleted arrays (`arrays.toml`, `deleted-arrays.toml`); numbers
//! (`numbers.toml`); the drives' health.
//!
//! **Invariants.** A drive has one name. A drive with timed-out, outstanding operations is not read
//! or written for another purpose (rule (d): [`Drive::holds_writes_back`]). Writes to a drive's
//! structure use [`structures`], one durable step after the other. A drive that hangs delays only
//! its own operations ([`probe`], [`opening`]).
//!
//! **Callers**: every module above; of arrays it knows only the labels.

pub(crate) mod access;
mod apart;
mod deleted;
mod drive;
mod failed;
mod grown;
pub(crate) mod health;
mod log_labels;
mod made_for;
mod numbers;
mod opening;
mod probe;
mod seen;
pub(crate) mod structures;
mod undo_log;

pub(crate) use crate::interface::is_volatile;
pub(crate) use drive::{Drive, IsQuiesced, settles};

use crate::events::EventCode;
use crate::events::Events;
use crate::interface::{Error, ErrorKind, HealthInfo, Result};
use crate::signals::Attention;
use crate::statefile::StateFile;
use access::{Access, LabelSeen};
use deleted::DeletedArray;
use drive::unavailable;
use ondisk::{FailedDrive, Label, SpareLabel, Telling, Uuid};
use platform::Env;
use platform::sync::Credits;
use seen::SeenArray;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use structures::{Written, write_structures};

/// The file of drive names.
const FILE: StateFile<Hints> = StateFile::toml("drives.toml", "the list of drives").complete();

#[derive(Serialize, Deserialize, Default)]
struct Hints {
    drives: Vec<String>,
    /// The sizes in use: SoftROC's metadata is at the end of each drive.
    #[serde(default)]
    sizes: BTreeMap<String, u64>,
    /// Drives that became larger and whose full size is used from the next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    want_room: Vec<String>,
    /// The serial number of the controller, in case `numbers.toml` is lost.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    serial: String,
}

/// The drives known to the controller.
pub(crate) struct Inventory {
    env: Env,
    events: Rc<Events>,
    attention: Rc<Attention>,
    drives: Rc<RefCell<Vec<Rc<Drive>>>>,
    /// Drives whose first probe after the start is running.
    opening: opening::Opening,
    /// Drives that a command names and that are not registered.
    newcomers: RefCell<Vec<opening::Newcomer>>,
    /// The last reported health of drives, by name.
    health: RefCell<BTreeMap<String, HealthInfo>>,
    /// Drives that failed by their own fault.
    failed: RefCell<Vec<FailedDrive>>,
    /// Arrays with a drive seen before.
    seen: RefCell<Vec<SeenArray>>,
    /// Arrays that were deleted.
    deleted: RefCell<Vec<DeletedArray>>,
    /// The lock for storing these.
    storing: Credits,
    /// The numbers of drives, arrays and volumes.
    numbers: RefCell<numbers::Given>,
    /// The lock for giving numbers.
    numbering: Credits,
}

impl Inventory {
    pub(crate) fn new(env: &Env, events: &Rc<Events>, attention: &Rc<Attention>) -> Rc<Inventory> {
        Rc::new(Inventory {
            env: env.clone(),
            events: events.clone(),
            attention: attention.clone(),
            drives: Rc::default(),
            opening: opening::Opening::default(),
            newcomers: RefCell::default(),
            health: RefCell::default(),
            failed: RefCell::default(),
            seen: RefCell::default(),
            deleted: RefCell::default(),
            storing: Credits::new(env, 1),
            numbers: RefCell::default(),
            numbering: Credits::new(env, 1),
        })
    }

    /// All registered drives.
    pub(crate) fn drives(&self) -> Vec<Rc<Drive>> {
        self.drives.borrow().clone()
    }

    /// Registers new drives, and stores their names.
    ///
    /// # Errors
    /// When that cannot be stored: they are not registered then.
    pub(crate) async fn add(&self, new: Vec<Rc<Drive>>) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        self.newcomers.borrow_mut().retain(|newcomer| !newcomer.is_one_of(&new));
        self.drives.borrow_mut().extend(new.iter().cloned());
        let stored = self.store_drives().await;
        if stored.is_err() {
            self.drives.borrow_mut().retain(|drive| !new.iter().any(|one| Rc::ptr_eq(one, drive)));
        }
        stored
    }

    /// Closes and forgets drives.
    ///
    /// # Errors
    /// When that cannot be stored: they stay registered and open then.
    pub(crate) async fn remove(&self, gone: &[&Rc<Drive>]) -> Result<()> {
        let before = self.drives.borrow().clone();
        let is_gone = |drive: &Rc<Drive>| gone.iter().any(|one| Rc::ptr_eq(one, drive));
        self.drives.borrow_mut().retain(|drive| !is_gone(drive));
        if self.drives.borrow().len() != before.len()
            && let Err(error) = self.store_drives().await
        {
            self.drives.borrow_mut().extend(before.into_iter().filter(is_gone));
            return Err(error);
        }
        gone.iter().for_each(|drive| self.let_newcomer_go(drive));
        Ok(())
    }

    /// Closes all drives.
    pub(crate) fn close(&self) {
        for drive in self.drives.borrow().iter() {
            drive.close();
        }
    }

    /// Erases a drive's metadata, so that no earlier metadata is found when writing a label is
    /// interrupted.
    pub(crate) async fn make_blank(
        &self,
        drive: &Drive,
    ) -> std::result::Result<(), platform::IoError> {
        let access: Access =
            drive.access().ok_or(platform::IoError::new(platform::IoErrorKind::Gone))?;
        drive.structure.replace(Written::Nothing);
        access.erase().await?;
        access.erase_log().await?;
        drive.set_label(LabelSeen::Blank);
        Ok(())
    }

    /// The stored names of drives. If no version of the list is readable: the names of members of
    /// known arrays.
    async fn load_hints(&self) -> Hints {
        let lost = "drives of known arrays are still found; register the others again with \
            'softroc drive add'";
        let loaded = self.events.load_state(&FILE, lost).await;
        match (loaded.value, loaded.trouble) {
            (Some(hints), _) => hints,
            (None, None) => Hints::default(),
            (None, Some(_)) => self.hints_of_arrays(),
        }
    }

    fn hints_of_arrays(&self) -> Hints {
        let mut hints = Hints::default();
        for seen in self.seen.borrow().iter() {
            for member in seen.label.member.iter().filter(|member| !is_volatile(&member.name)) {
                if !hints.drives.contains(&member.name) {
                    hints.drives.push(member.name.clone());
                    hints.sizes.insert(member.name.clone(), member.size_bytes);
                }
            }
        }
        hints
    }

    /// Stores the names and sizes of all drives that outlive this process.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_drives(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let lasting = |drive: &&Rc<Drive>| !drive.is_volatile();
        let drives =
            self.drives.borrow().iter().filter(lasting).map(|drive| drive.spec.clone()).collect();
        let (sizes, want_room) = self.sizes();
        let hints = Hints { drives, sizes, want_room, serial: self.serial() };
        self.events.store_state(&FILE, &hints).await
    }

    /// Retries failed stores.
    pub(crate) async fn store_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_drives().await);
        }
        self.store_deleted_again().await;
        self.store_failed_again().await;
        self.store_seen_again().await;
        self.store_numbers_again().await;
    }

    /// A new, unregistered drive with a unique name.
    pub(crate) fn new_drive(&self, spec: &str) -> Rc<Drive> {
        let mut name = spec.to_owned();
        let mut number = 1;
        while self.drive_called(&name).is_some() {
            number += 1;
            name = format!("{spec}#{number}");
        }
        self.unregistered(name, spec)
    }

    pub(crate) fn drive_called(&self, name: &str) -> Option<Rc<Drive>> {
        self.drives.borrow().iter().find(|drive| drive.name == name).cloned()
    }

    /// Another registered drive that is the same storage under another name.
    pub(crate) fn same_drive(&self, drive: &Drive) -> Option<Rc<Drive>> {
        let info = drive.access()?.info().clone();
        let drives = self.drives.borrow();
        let same = |other: &&Rc<Drive>| {
            other.name != drive.name
                && other.access().is_some_and(|access| access.info().is_same_storage(&info))
        };
        drives.iter().find(same).cloned()
    }

    pub(crate) async fn create_file(&self, spec: &str, size: u64) -> Result<()> {
        if is_volatile(spec) || spec.contains("://") {
            let sentence = format!(
                "only a new file drive has a size, and '{spec}' is not one; leave the size out"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let size = units::ByteCount(size);
        if ondisk::Tail::of(size).is_none() || !size.is_aligned(ondisk::BLOCK) {
            let sentence = format!(
                "a drive cannot have {size} ({} bytes); choose a multiple of 4K above 32M, which \
                    the label takes",
                size.0
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let created = self.env.world().create_drive(spec, size).await;
        created.map_err(|error| unavailable(spec, &error))
    }

    /// Removes a label from a drive; returns whether that succeeded. A failure is reported as an
    /// event.
    pub(crate) async fn take_label_off(&self, drive: &Drive, whose: &str) -> bool {
        let Some(access) = drive.access() else { return false };
        match access.erase().await {
            Ok(()) => {
                drive.set_label(LabelSeen::Blank);
                drive.set_problem(None);
                true
            }
            Err(error) => {
                let text = format!(
                    "the label of {whose} on drive {} could not be erased: {error}; write zeroes \
                    over its last 32 MiB",
                    drive.name
                );
                let effect = "it has an obsolete label";
                let code = EventCode::DriveLabelNotErased;
                self.events.report(code, &drive.name, &error.to_string(), effect, text);
                false
            }
        }
    }

    /// Present drives that the array's label records as replaced, but that still carry their own
    /// label after a crash.
    pub(crate) fn leaving(&self, label: &Label) -> Vec<(Uuid, Rc<Drive>)> {
        let is_leaving = |own: &Label| {
            // A drive that was used alone since has a newer generation than this label.
            let is_older = own.generation < label.generation;
            own.array == label.array && label.leaving.contains(&own.drive) && is_older
        };
        let drives = self.drives.borrow();
        let with_label = drives.iter().filter_map(|drive| Some((drive.member_label()?, drive)));
        with_label
            .filter(|(own, _)| is_leaving(own))
            .map(|(own, drive)| (own.drive, drive.clone()))
            .collect()
    }

    /// Writes the label of a spare.
    ///
    /// # Errors
    /// When earlier I/O is outstanding, or the write fails.
    pub(crate) async fn write_spare_label(
        &self,
        drive: &Rc<Drive>,
        label: SpareLabel,
    ) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!("drive {} could not become a spare: {why}", drive.name);
            Error::new(ErrorKind::Failed, sentence)
        };
        let gone = || failed("it is missing, or too small for a label".to_owned());
        let access = drive.access().ok_or_else(gone)?;
        let site = access.site().ok_or_else(gone)?;
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        // Its previous metadata must not be found as well.
        access.erase().await.map_err(|error| failed(error.to_string()))?;
        access.erase_log().await.map_err(|error| failed(error.to_string()))?;
        drive.structure.replace(Written::Nothing);
        let told = Telling::of_spare(&label, &site)
            .and_then(|telling| telling.told(&site, label.drive))
            .map_err(|error| failed(error.to_string()))?;
        if let Some(error) =
            write_structures(vec![(0, drive.clone(), told)]).await.into_values().next()
        {
            return Err(failed(error.to_string()));
        }
        drive.look(&self.env).await;
        drive.set_zeroed(false);
        Ok(())
    }

    /// The drives for a patrol read: those that are open and have a medium.
    pub(crate) fn patrolled(&self) -> Vec<Rc<Drive>> {
        self.drives.borrow().iter().filter(|drive| drive.has_medium()).cloned().collect()
    }
}
