//! Drives that failed by their own fault, and are not trusted until an operator says so.
//!
//! A drive that cannot write, or does not answer, may do so again after the next power cycle, and fail again when it is
//! needed. So it is remembered twice: in the label of the array that it failed in ([`ondisk::Label::failed`]), which
//! comes along to another machine, and here, by the drive's identity, for drives whose array is gone. A drive that an
//! operator declared failed is remembered likewise. It is no spare and
//! counts as unused for nobody until an operator clears it. A drive that merely vanished (a cable, a path) is not
//! remembered: it may come back.

use super::{Drive, Inventory};
use crate::interface::Result;
use crate::statefile::StateFile;
use ondisk::{FailedDrive, Uuid};
use serde::{Deserialize, Serialize};

/// Where failed drives are remembered.
const FILE: StateFile<Remembered> =
    StateFile::toml("failed-drives.toml", "the list of failed drives").complete();

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
            self.events.leave_to_health(self.store_failed().await);
        }
    }

    /// Forgets that a drive failed.
    ///
    /// # Errors
    /// When that cannot be stored: then it is as before.
    pub(crate) async fn clear_failed(&self, failure: &FailedDrive) -> Result<()> {
        let before = self.failed.borrow().clone();
        self.failed.borrow_mut().retain(|one| !one.is_of_the_same(failure));
        if self.failed.borrow().len() == before.len() {
            return Ok(());
        }
        let stored = self.store_failed().await;
        if stored.is_err() {
            let gone: Vec<FailedDrive> =
                before.into_iter().filter(|one| one.is_of_the_same(failure)).collect();
            self.failed.borrow_mut().extend(gone);
        }
        stored
    }

    /// Takes in what was remembered before.
    pub(super) async fn load_failed(&self) {
        let lost = "drives that failed are known by the labels of their arrays alone";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.failed.borrow_mut() = remembered.drive;
        }
    }

    /// Stores which drives failed: also to find out whether a change can be recorded.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_failed(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let drive = self.failed.borrow().clone();
        self.events.store_state(&FILE, &Remembered { drive }).await
    }

    /// The same where it could not be stored before.
    pub(super) async fn store_failed_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_failed().await);
        }
    }
}
