//! Drives that failed by their own fault, and are not trusted until an operator says so.
//!
//! A drive that cannot write, or does not answer, may do so again after the next power cycle, and fail again when it is
//! needed. So it is remembered twice: in the label of the array that it failed in ([`ondisk::Label::failed`]), which
//! comes along to another machine, and here, by the drive's identity, for drives whose array is gone. A drive that an
//! operator declared failed is remembered likewise. It is no spare and
//! counts as unused for nobody until an operator clears it. A drive that merely vanished (a cable, a path) is not
//! remembered: it may come back.

use super::{Drive, Inventory};
use crate::events::EventCode;
use ondisk::{FailedDrive, Uuid};
use serde::{Deserialize, Serialize};

/// Where failed drives are remembered.
const FILE: &str = "failed-drives.toml";

/// What the file holds.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    drive: Vec<FailedDrive>,
}

impl Inventory {
    /// Why a drive is not trusted: what is remembered of its failure.
    pub(crate) fn failure_of(&self, drive: &Drive) -> Option<FailedDrive> {
        let failed = self.failed.borrow();
        if failed.is_empty() {
            return None;
        }
        let identity = drive.access().is_some().then(|| drive.identity_here());
        let own = drive.member_label().map(|label| label.drive).or(drive.spare().map(|spare| spare.drive));
        let uuid = own.or(drive.log_label().map(|label| label.device));
        let is_it = |one: &&FailedDrive| match &identity {
            Some(_) => identity == one.identity || uuid == Some(one.uuid),
            // It does not open, so that nothing but its name is left to know it by.
            None => one.name == drive.name || uuid == Some(one.uuid),
        };
        failed.iter().find(is_it).cloned()
    }

    /// Remembers what failed, until the next restart unless it is [stored](Self::store_failed). What is known already stays
    /// as it is. Whether there is news.
    pub(crate) fn note_failed(&self, news: &[FailedDrive]) -> bool {
        let mut failed = self.failed.borrow_mut();
        let before = failed.len();
        for one in news {
            if failed.iter().all(|other| other.uuid != one.uuid) {
                failed.push(one.clone());
            }
        }
        failed.len() > before
    }

    /// Remembers the failure of a drive that is no member of anything yet.
    pub(crate) async fn remember_failure(&self, drive: &Drive, uuid: Uuid, why: String, at_unix_s: u64) {
        let identity = drive.access().is_some().then(|| drive.identity_here());
        if self.note_failed(&[FailedDrive { uuid, identity, name: drive.name.clone(), why, at_unix_s }]) {
            self.store_failed().await;
        }
    }

    /// Forgets that a drive failed.
    pub(crate) async fn clear_failed(&self, failure: &FailedDrive) {
        let before = self.failed.borrow().len();
        self.failed.borrow_mut().retain(|one| !one.is_of_the_same(failure));
        if self.failed.borrow().len() < before {
            self.store_failed().await;
        }
    }

    /// Takes in what was remembered before.
    pub(super) async fn load_failed(&self) {
        match self.load::<Remembered>(FILE).await {
            Ok(remembered) => *self.failed.borrow_mut() = remembered.drive,
            Err(why) => self.events.report(
                EventCode::ControllerDrivesUnreadable,
                "controller",
                &why,
                "drives that failed before may be taken for sound ones",
                format!("the list of failed drives, {FILE}, cannot be read: {why}"),
            ),
        }
    }

    /// Stores what is remembered of failed drives.
    pub(crate) async fn store_failed(&self) {
        let drive = self.failed.borrow().clone();
        if let Err(why) = self.store(FILE, &Remembered { drive }).await {
            self.events.report(
                EventCode::ControllerDrivesNotStored,
                "controller",
                &why,
                "after a restart drives that failed are known by the labels of their arrays alone",
                format!("the list of failed drives cannot be stored: {why}"),
            );
        }
    }
}
