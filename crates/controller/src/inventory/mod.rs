//! The room of drives: opened, looked at, remembered, asked for their health.
//!
//! **Owns** the drives that the controller knows ([`Drive`]), the list of their names over restarts (`drives.toml`,
//! a list of hints where to look, and how large they were: the truth is in the drives' labels), which of them failed (`failed-drives.toml`),
//! which arrays they made (`arrays.toml`) or made once (`deleted-arrays.toml`), by what numbers they are known (`numbers.toml`), and what
//! they said of their health.
//!
//! **Invariants.** A drive is known by one name. One that still has operations under way which nobody waits for is
//! not read or written on behalf of somebody else (rule (d): [`Drive::holds_writes_back`]). What is written to a
//! drive's structure goes through [`structures`], one step durable before the next. A drive that hangs holds up nothing but what is about it
//! ([`probe`], [`opening`]).
//!
//! **Who may call it**: every room above; it knows of arrays only what a label says.

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

/// Where the names of drives are remembered.
const FILE: StateFile<Hints> = StateFile::toml("drives.toml", "the list of drives").complete();

#[derive(Serialize, Deserialize, Default)]
struct Hints {
    drives: Vec<String>,
    /// How large they are used: what is SoftROC's lies at the end of each.
    #[serde(default)]
    sizes: BTreeMap<String, u64>,
    /// Those that are to have all of their room from the next start on, where they became larger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    want_room: Vec<String>,
    /// The serial number of the controller, for where `numbers.toml` is lost.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    serial: String,
}

/// The drives that the controller knows.
pub(crate) struct Inventory {
    env: Env,
    events: Rc<Events>,
    attention: Rc<Attention>,
    drives: Rc<RefCell<Vec<Rc<Drive>>>>,
    /// Drives whose first look after the start is not over.
    opening: opening::Opening,
    /// Drives that a command names, and that are not registered.
    newcomers: RefCell<Vec<opening::Newcomer>>,
    /// What drives said of their health, by name.
    health: RefCell<BTreeMap<String, HealthInfo>>,
    /// Drives that failed by their own fault.
    failed: RefCell<Vec<FailedDrive>>,
    /// Arrays of which drives were there.
    seen: RefCell<Vec<SeenArray>>,
    /// Arrays that were deleted.
    deleted: RefCell<Vec<DeletedArray>>,
    /// The turn to store these.
    storing: Credits,
    /// The numbers by which drives, arrays and volumes are known.
    numbers: RefCell<numbers::Given>,
    /// The turn to give some.
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

    /// All of them.
    pub(crate) fn drives(&self) -> Vec<Rc<Drive>> {
        self.drives.borrow().clone()
    }

    /// Takes in drives that are new to it, and remembers them.
    ///
    /// # Errors
    /// When that cannot be stored: then they are not taken in.
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

    /// Closes drives and forgets them.
    ///
    /// # Errors
    /// When that cannot be stored: then they are remembered, and not closed.
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

    /// Lets go of all of them.
    pub(crate) fn close(&self) {
        for drive in self.drives.borrow().iter() {
            drive.close();
        }
    }

    /// Takes away what a drive says it is, so that nothing from before is found when a label of ours is torn.
    pub(crate) async fn make_blank(&self, drive: &Drive) -> std::result::Result<(), platform::IoError> {
        let access: Access = drive.access().ok_or(platform::IoError::new(platform::IoErrorKind::Gone))?;
        drive.structure.replace(Written::Nothing);
        access.erase().await?;
        access.erase_log().await?;
        drive.set_label(LabelSeen::Blank);
        Ok(())
    }

    /// The names of drives. Where no version of the list can be read, those of the members of arrays that were seen.
    async fn load_hints(&self) -> Hints {
        let lost = "drives of arrays are looked for by the list of arrays; register the others again with 'softroc drive add'";
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

    /// Remembers the names of all drives that outlive this process, and how large they are.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_drives(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let lasting = |drive: &&Rc<Drive>| !drive.is_volatile();
        let drives = self.drives.borrow().iter().filter(lasting).map(|drive| drive.spec.clone()).collect();
        let (sizes, want_room) = self.sizes();
        let hints = Hints { drives, sizes, want_room, serial: self.serial() };
        self.events.store_state(&FILE, &hints).await
    }

    /// Stores what could not be stored before.
    pub(crate) async fn store_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_drives().await);
        }
        self.store_deleted_again().await;
        self.store_failed_again().await;
        self.store_seen_again().await;
        self.store_numbers_again().await;
    }

    /// A drive that is not in the inventory yet, with a name of its own.
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

    /// Another drive of the inventory that is the same drive under another name.
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
            let sentence =
                format!("only a new file drive has a size, and '{spec}' is none; leave the size out");
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let size = units::ByteCount(size);
        if ondisk::Tail::of(size).is_none() || !size.is_aligned(ondisk::BLOCK) {
            let sentence = format!(
                "a drive cannot have {size} ({} bytes); choose a multiple of 4K above 32M, which the label takes",
                size.0
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let created = self.env.world().create_drive(spec, size).await;
        created.map_err(|error| unavailable(spec, &error))
    }

    /// Takes a label off a drive; whether it is off. Failing that, an event says so.
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
                    "the label of {whose} could not be taken off drive {}: {error}; write zeroes over its last 32 MiB",
                    drive.name
                );
                let effect = "it has an obsolete label";
                let code = EventCode::DriveLabelNotErased;
                self.events.report(code, &drive.name, &error.to_string(), effect, text);
                false
            }
        }
    }

    /// Drives here that one array's label calls replaced, and whose own label is still on: a crash came before it was off.
    pub(crate) fn leaving(&self, label: &Label) -> Vec<(Uuid, Rc<Drive>)> {
        let is_leaving = |own: &Label| {
            // One that was used alone since says more than was known here.
            let is_older = own.generation < label.generation;
            own.array == label.array && label.leaving.contains(&own.drive) && is_older
        };
        let drives = self.drives.borrow();
        let with_label = drives.iter().filter_map(|drive| Some((drive.member_label()?, drive)));
        with_label.filter(|(own, _)| is_leaving(own)).map(|(own, drive)| (own.drive, drive.clone())).collect()
    }

    /// Makes a drive carry the label of a spare.
    ///
    /// # Errors
    /// When it has not returned what it was asked before, or cannot be written.
    pub(crate) async fn write_spare_label(&self, drive: &Rc<Drive>, label: SpareLabel) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!("drive {} could not be made a spare: {why}", drive.name);
            Error::new(ErrorKind::Failed, sentence)
        };
        let gone = || failed("it is not there, or too small for a label".to_owned());
        let access = drive.access().ok_or_else(gone)?;
        let site = access.site().ok_or_else(gone)?;
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        // What it said before must not be found beside it.
        access.erase().await.map_err(|error| failed(error.to_string()))?;
        access.erase_log().await.map_err(|error| failed(error.to_string()))?;
        drive.structure.replace(Written::Nothing);
        let told = Telling::of_spare(&label, &site)
            .and_then(|telling| telling.told(&site, label.drive))
            .map_err(|error| failed(error.to_string()))?;
        if let Some(error) = write_structures(vec![(0, drive.clone(), told)]).await.into_values().next() {
            return Err(failed(error.to_string()));
        }
        drive.look(&self.env).await;
        drive.set_zeroed(false);
        Ok(())
    }

    /// The drives that a patrol reads: those that are open and have a medium.
    pub(crate) fn patrolled(&self) -> Vec<Rc<Drive>> {
        self.drives.borrow().iter().filter(|drive| drive.has_medium()).cloned().collect()
    }
}
