//! Deleted arrays. A drive that was missing or silent at the deletion keeps its label, and so may a
//! drive replaced long before. Such a label would restore the array after a restart. Deleted arrays
//! are therefore remembered, and their remaining drives are not used as members.
//!
//! Such drives are not modified: they may be kept as a copy on purpose. Another host does not know
//! of the deletion.
//!
//! **Invariants.** A deletion is remembered before the first label that records it is erased. A
//! missing drive may return at any time, so only [`MOST`] bounds the list.

use super::{Drive, Inventory};
use crate::interface::{Error, ErrorKind, Result};
use crate::statefile::StateFile;
use ondisk::{Phase, Uuid};
use serde::{Deserialize, Serialize};

/// The file of deleted arrays.
const FILE: StateFile<Remembered> =
    StateFile::toml("deleted-arrays.toml", "the list of deleted arrays").complete();

/// The maximum number of entries; the oldest is dropped first.
const MOST: usize = 1024;

/// An array that was deleted.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletedArray {
    array: Uuid,
    /// The names of its volumes, for sentences.
    names: String,
    deleted_unix_s: u64,
}

/// The file content.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    array: Vec<DeletedArray>,
}

impl Inventory {
    /// Remembers the deletion of an array.
    ///
    /// # Errors
    /// When that cannot be stored: it is then known until the controller ends, and no label that
    /// records the deletion may be erased.
    pub(crate) async fn remember_deleted(&self, array: Uuid, names: String) -> Result<()> {
        let deleted_unix_s = self.env.unix_time();
        {
            let mut deleted = self.deleted.borrow_mut();
            deleted.push(DeletedArray { array, names, deleted_unix_s });
            let surplus = deleted.len().saturating_sub(MOST);
            deleted.drain(..surplus);
        }
        self.store_deleted().await
    }

    /// Stores the deleted arrays; also used to check whether a deletion can be recorded.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_deleted(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let array = self.deleted.borrow().clone();
        self.events.store_state(&FILE, &Remembered { array }).await
    }

    /// Retries a failed store.
    pub(super) async fn store_deleted_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_deleted().await);
        }
    }

    /// Whether an array was deleted.
    pub(crate) fn is_deleted(&self, array: Uuid) -> bool {
        self.deleted.borrow().iter().any(|one| one.array == array)
    }

    /// Why a drive is no member of the array in its label: the array was deleted without it.
    pub(crate) fn deleted_without(&self, drive: &Drive) -> Option<Error> {
        let label = drive.member_label().filter(|label| label.phase != Phase::Deleted)?;
        let deleted = self.deleted.borrow();
        let one = deleted.iter().find(|one| one.array == label.array)?;
        let sentence = format!(
            "drive {0} has the label of {1}, which was deleted while this drive was missing; reuse \
            it with --destroy-data, or read it with 'softroc rescue {0}'",
            drive.name, one.names
        );
        Some(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Loads the stored list.
    pub(super) async fn load_deleted(&self) {
        let lost = "a deleted volume may reappear from a drive that was missing at its deletion";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.deleted.borrow_mut() = remembered.array;
        }
    }
}
