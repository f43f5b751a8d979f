//! Drives that failed by their own fault: they are not used until an operator clears the failure.
//!
//! A drive that cannot write, or does not respond, may work again after a power cycle and then fail
//! again under load. Its failure is therefore stored twice: in the label of its array
//! ([`ondisk::Label::failed`]), which moves with the array to another host, and here, by the
//! drive's identity, for drives without an array. A drive that an operator failed is recorded as
//! well. Until the failure is cleared, the drive is no spare and does not count as unused. A drive
//! that only vanished (a cable, a path) is not recorded: it may return.

use super::{Drive, Inventory};
use crate::interface::Result;
use crate::statefile::StateFile;
use ondisk::{FailedDrive, Uuid};
use serde::{Deserialize, Serialize};

/// The file of failed drives.
const FILE: StateFile<Remembered> =
    StateFile::toml("failed-drives.toml", "the list of failed drives").complete();

/// The file content.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    drive: Vec<FailedDrive>,
}

impl Inventory {
    /// The recorded failure of a drive.
    pub(crate) fn failure_of(&self, drive: &Drive) -> Option<FailedDrive> {
        let failed = self.failed.borrow();
        if failed.is_empty() {
            return None;
        }
        let identity = drive.access().is_some().then(|| drive.identity_here());
        let own = drive
            .member_label()
            .map(|label| label.drive)
            .or(drive.spare().map(|spare| spare.drive));
        let uuid = own.or(drive.log_label().map(|label| label.device));
        let is_it = |one: &&FailedDrive| match &identity {
            Some(_) => identity == one.identity || uuid == Some(one.uuid),
            // The drive does not open, so only its name identifies it.
            None => one.name == drive.name || uuid == Some(one.uuid),
        };
        failed.iter().find(is_it).cloned()
    }

    /// Records failures until the next restart, unless they are [stored](Self::store_failed). Known
    /// failures are unchanged. Returns whether there are new ones.
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

    /// Records the failure of a drive that is not a member yet.
    pub(crate) async fn remember_failure(
        &self,
        drive: &Drive,
        uuid: Uuid,
        why: String,
        at_unix_s: u64,
    ) {
        let identity = drive.access().is_some().then(|| drive.identity_here());
        if self.note_failed(&[FailedDrive {
            uuid,
            identity,
            name: drive.name.clone(),
            why,
            at_unix_s,
        }]) {
            self.events.leave_to_health(self.store_failed().await);
        }
    }

    /// Clears a failure.
    ///
    /// # Errors
    /// When that cannot be stored: the failure then remains.
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

    /// Loads the stored list.
    pub(super) async fn load_failed(&self) {
        let lost = "only labels of arrays record failed drives";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.failed.borrow_mut() = remembered.drive;
        }
    }

    /// Stores the failed drives; also used to check whether a change can be recorded.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_failed(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let drive = self.failed.borrow().clone();
        self.events.store_state(&FILE, &Remembered { drive }).await
    }

    /// Retries a failed store.
    pub(super) async fn store_failed_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_failed().await);
        }
    }
}
