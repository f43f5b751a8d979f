//! Which log is in use: the drives that journals lie on instead of the members.
//!
//! The state folder remembers it (`log.toml`); the devices are found by their labels.

use super::Arrays;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::{Drive, is_volatile};
use ondisk::Uuid;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// Where it is remembered.
const FILE: &str = "log.toml";

/// What is remembered of the log that is in use.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
struct Remembered {
    /// It; none where journals lie on members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Uuid>,
    /// How its devices were named, for people: one of which nothing is there is listed all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<String>,
}

/// The log that is in use.
#[derive(Default)]
pub(super) struct Logs {
    in_use: RefCell<Remembered>,
}

impl Arrays {
    /// The log that is in use.
    pub(crate) fn log_in_use(&self) -> Option<Uuid> {
        self.logs.in_use.borrow().log
    }

    /// How its devices were named when it was taken.
    pub(crate) fn log_device_names(&self) -> Vec<String> {
        self.logs.in_use.borrow().devices.clone()
    }

    /// Whether a drive is a device of the log that is in use.
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
                && self.inventory.failure_of(drive).is_none()
        };
        self.inventory.drives().into_iter().filter(can_be_used).collect()
    }

    /// Journals lie on that log from now on. Notes, a sentence each.
    pub(crate) async fn use_log(self: &Rc<Self>, log: Uuid) -> Vec<String> {
        let named = |drive: &Rc<Drive>| drive.name.clone();
        let devices = self.log_devices(log).iter().map(named).collect();
        let remembered = Remembered { log: Some(log), devices };
        match self.remember_log(remembered).await {
            Ok(()) => Vec::new(),
            Err(error) => vec![error.message],
        }
    }

    /// No journal lies on that log any more. Notes, a sentence each.
    ///
    /// # Errors
    /// When it is still in use.
    pub(crate) async fn leave_log(self: &Rc<Self>, log: Uuid) -> Result<Vec<String>> {
        if self.log_in_use() != Some(log) {
            return Ok(Vec::new());
        }
        let before = self.logs.in_use.borrow().clone();
        let left = self.remember_log(Remembered::default()).await;
        if left.is_err() {
            self.logs.in_use.replace(before);
        }
        left.map(|()| Vec::new())
    }

    /// Has the state folder say which log is in use; one in memory ends with the process. Where it cannot, an event says so, and it is so until a restart.
    async fn remember_log(&self, remembered: Remembered) -> Result<()> {
        self.logs.in_use.replace(remembered.clone());
        let lasts = remembered.devices.iter().any(|name| !is_volatile(name));
        let stored = if lasts { remembered } else { Remembered::default() };
        let Err(why) = self.inventory.store(FILE, &stored).await else { return Ok(()) };
        let text =
            format!("which log is in use cannot be stored: {why}; after a restart run 'softroc log list'");
        let effect = "after a restart another log may be in use";
        self.events.report(EventCode::LogNotRemembered, "controller", &why, effect, text.clone());
        Err(Error::new(ErrorKind::Failed, text))
    }

    /// Takes in which log was in use.
    pub(crate) async fn load_log(&self) {
        match self.inventory.load::<Remembered>(FILE).await {
            Ok(remembered) => {
                self.logs.in_use.replace(remembered);
            }
            Err(why) => self.events.report(
                EventCode::LogNotRemembered,
                "controller",
                &why,
                "no log is in use",
                format!("{FILE} cannot be read: {why}; add the log again with 'softroc log add DRIVE'"),
            ),
        }
    }
}
