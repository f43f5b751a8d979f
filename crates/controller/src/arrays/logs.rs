//! The log in use: the drives that hold journals instead of the members.
//!
//! The state folder stores it (`log.toml`); the devices are found by their labels.

use super::Arrays;
use super::array::Array;
use super::volume::Volume;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::{Drive, is_volatile};
use crate::statefile::StateFile;
use ondisk::{LogLabel, Uuid};
use platform::Env;
use platform::sync::{Credits, Taken};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The file that stores it.
const FILE: StateFile<Remembered> =
    StateFile::toml("log.toml", "the choice of the log that is in use").complete();

/// The stored description of the log in use.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
struct Remembered {
    /// Its UUID; none where journals are on members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Uuid>,
    /// The names of its devices, so that a log without a present device is still listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<String>,
}

/// The log in use.
pub(super) struct Logs {
    in_use: RefCell<Remembered>,
    /// Devices that failed since the start of the controller, by the UUID in their label, with the
    /// reason.
    failed: RefCell<BTreeMap<Uuid, String>>,
    /// The lock for changes of device labels. Its holder takes no other lock.
    pub(super) turn: Credits,
}

impl Logs {
    pub(super) fn new(env: &Env) -> Logs {
        Logs { in_use: RefCell::default(), failed: RefCell::default(), turn: Credits::new(env, 1) }
    }

    /// Records that a device failed. Returns whether that is new.
    pub(super) fn note_failed(&self, device: Uuid, why: &str) -> bool {
        self.failed.borrow_mut().insert(device, why.to_owned()).is_none()
    }

    /// Whether a device failed.
    pub(super) fn has_failed(&self, device: Uuid) -> bool {
        self.failed.borrow().contains_key(&device)
    }
}

impl Arrays {
    /// The log in use.
    pub(crate) fn log_in_use(&self) -> Option<Uuid> {
        self.logs.in_use.borrow().log
    }

    /// The names of its devices when it was set up.
    pub(crate) fn log_device_names(&self) -> Vec<String> {
        self.logs.in_use.borrow().devices.clone()
    }

    /// The lock of the labels of log devices. A change of a volume's place reads and rewrites a
    /// label under it.
    pub(crate) async fn log_labels_turn(&self) -> Taken {
        self.logs.turn.take(1).await
    }

    /// Whether a drive is a device of the log in use.
    pub(crate) fn is_log_device(&self, drive: &Drive) -> bool {
        let log = self.log_in_use();
        log.is_some() && drive.log_label().map(|label| label.log) == log
    }

    /// The devices of a log that can be used: registered, open, with its label, and trusted.
    pub(crate) fn log_devices(&self, log: Uuid) -> Vec<Rc<Drive>> {
        let can_be_used = |drive: &Rc<Drive>| {
            drive.log_label().is_some_and(|label| label.log == log)
                && drive.access().is_some()
                && drive.problem().is_none()
                && self.log_device_failure(drive).is_none()
                && self.inventory.failure_of(drive).is_none()
        };
        self.inventory.drives().into_iter().filter(can_be_used).collect()
    }

    /// The reason why a log device failed, if it did.
    pub(crate) fn log_device_failure(&self, drive: &Drive) -> Option<String> {
        self.logs.failed.borrow().get(&drive.log_label()?.device).cloned()
    }

    /// All open drives that carry the label of a log device.
    pub(super) fn all_log_devices(&self) -> Vec<Rc<Drive>> {
        let is_one = |drive: &Rc<Drive>| drive.log_label().is_some() && drive.access().is_some();
        self.inventory.drives().into_iter().filter(is_one).collect()
    }

    /// The name of a log device in messages.
    pub(super) fn log_device_name(&self, device: Uuid) -> String {
        let is_it =
            |drive: &Rc<Drive>| drive.log_label().is_some_and(|label| label.device == device);
        let drive = self.inventory.drives().into_iter().find(is_it);
        drive.map_or_else(|| device.to_string(), |drive| drive.name.clone())
    }

    fn served_volumes(&self) -> Vec<(Rc<Array>, Rc<Volume>)> {
        let served = |array: Rc<Array>| {
            let volumes = array.served().into_iter();
            volumes.map(move |volume| (array.clone(), volume))
        };
        self.all().into_iter().flat_map(served).collect()
    }

    /// Moves journals to that log. Returns notes, a sentence each.
    ///
    /// # Errors
    /// When the log in use cannot be stored: then none is in use.
    pub(crate) async fn use_log(self: &Rc<Self>, log: Uuid) -> Result<Vec<String>> {
        let named = |drive: &Rc<Drive>| drive.name.clone();
        let devices = self.log_devices(log).iter().map(named).collect();
        self.remember_log(Remembered { log: Some(log), devices }).await?;
        let mut notes: Vec<String> = Vec::new();
        for (array, volume) in self.served_volumes() {
            if let Err(error) = self.move_journal(&array, &volume).await {
                notes.push(format!(
                    "the journal of '{}' is not on the log: {}",
                    volume.name(),
                    error.message
                ));
            }
        }
        Ok(notes)
    }

    /// Moves journals off that log. Returns notes, a sentence each.
    ///
    /// # Errors
    /// When a volume needs data on it, or cannot have its journal elsewhere.
    pub(crate) async fn leave_log(self: &Rc<Self>, log: Uuid) -> Result<Vec<String>> {
        let drives = self.all_log_devices().into_iter();
        let labels = drives.filter_map(|drive| drive.log_label().filter(|label| label.log == log));
        let devices: Vec<Uuid> = labels.map(|label| label.device).collect();
        self.check_not_needed(&devices)?;
        let before = self.logs.in_use.borrow().clone();
        if before.log == Some(log) {
            self.remember_log(Remembered::default()).await?;
        }
        for (array, volume) in self.served_volumes() {
            if !volume.is_on_log(&devices) {
                continue;
            }
            if let Err(error) = self.move_journal(&array, &volume).await {
                self.remember_log(before).await?;
                return Err(error);
            }
        }
        Ok(Vec::new())
    }

    /// Whether a log holds the journal of a volume that may need it: the volume names its devices,
    /// or is not known here.
    pub(crate) fn may_be_needed(&self, label: &LogLabel) -> bool {
        let devices: Vec<Uuid> = label.devices.iter().map(|device| device.uuid).collect();
        let volumes: Vec<Rc<Volume>> =
            self.all().iter().flat_map(|array| array.volumes()).collect();
        label.place.iter().any(|place| {
            let volume = volumes.iter().find(|volume| volume.uuid() == place.volume);
            volume.is_none_or(|volume| volume.is_on_log(&devices))
        })
    }

    /// Checks that no volume that is not served needs data on these devices.
    fn check_not_needed(&self, devices: &[Uuid]) -> Result<()> {
        for array in self.all().iter().filter(|array| !array.label().was_shut_down()) {
            let mut waiting = array.volumes().into_iter().filter(|volume| !volume.is_served());
            if let Some(volume) = waiting.find(|volume| volume.is_on_log(devices)) {
                let name = volume.name();
                let sentence = format!(
                    "the records of interrupted writes of '{name}' are on that log; first run \
                    'softroc volume start {name}', or 'softroc volume delete {name}'"
                );
                return Err(Error::new(ErrorKind::WrongState, sentence));
            }
        }
        Ok(())
    }

    /// Stores the log in use in the state folder; one in memory ends with the process.
    ///
    /// # Errors
    /// When that cannot be stored: then nothing changes.
    async fn remember_log(&self, remembered: Remembered) -> Result<()> {
        let lasts = remembered.devices.iter().any(|name| !is_volatile(name));
        let stored = if lasts { remembered.clone() } else { Remembered::default() };
        self.events.store_state(&FILE, &stored).await?;
        self.logs.in_use.replace(remembered);
        Ok(())
    }

    /// Retries to store the log in use and the lengths of memories, where that failed before.
    pub(crate) async fn store_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let remembered = self.logs.in_use.borrow().clone();
            self.events.leave_to_health(self.remember_log(remembered).await);
        }
        self.store_memories_again().await;
    }

    /// Loads the log in use. Where no version of the file is readable: the only log with a present
    /// device.
    pub(crate) async fn load_log(&self) {
        let lost = "the log whose devices are here is used";
        let loaded = self.events.load_state(&FILE, lost).await;
        let remembered = match (loaded.value, loaded.trouble) {
            (Some(remembered), _) => remembered,
            (None, None) => return,
            (None, Some(_)) => self.log_that_is_here(),
        };
        self.logs.in_use.replace(remembered);
    }

    fn log_that_is_here(&self) -> Remembered {
        let devices = self.all_log_devices();
        let mut logs: Vec<Uuid> =
            devices.iter().filter_map(|drive| Some(drive.log_label()?.log)).collect();
        logs.sort_unstable();
        logs.dedup();
        let [log] = logs[..] else { return Remembered::default() };
        let devices = devices.iter().map(|drive| drive.name.clone()).collect();
        Remembered { log: Some(log), devices }
    }
}
