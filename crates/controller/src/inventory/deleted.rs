//! Arrays that were deleted. A drive of theirs that was not here then, or did not answer, keeps its label, and so may one that was
//! replaced long before: it would bring the array back after a restart. So deleted arrays are remembered, and no drive is taken for
//! a part of one again.
//!
//! Nothing on such a drive is touched: somebody may have put it away before the array was deleted. Another machine does not know
//! of the deletion.
//!
//! **Invariants.** An array is remembered before the first of its labels that say so is erased. Nobody can know that a drive which
//! is away never returns: only [`MOST`] bounds the list.

use super::{Drive, Inventory};
use crate::interface::{Error, ErrorKind, Result};
use crate::statefile::StateFile;
use ondisk::{Phase, Uuid};
use serde::{Deserialize, Serialize};

/// Where they are remembered.
const FILE: StateFile<Remembered> =
    StateFile::toml("deleted-arrays.toml", "the list of deleted arrays").complete();

/// So many are remembered; the oldest goes first.
const MOST: usize = 1024;

/// An array that was deleted.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletedArray {
    array: Uuid,
    /// Of its volumes, as a sentence has them.
    names: String,
    deleted_unix_s: u64,
}

/// What the file holds.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    array: Vec<DeletedArray>,
}

impl Inventory {
    /// Remembers that an array was deleted.
    ///
    /// # Errors
    /// When that cannot be stored: then it is known until the controller ends, and no label that says so may be erased.
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

    /// Stores which arrays were deleted: also to find out whether a deletion can be recorded.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_deleted(&self) -> Result<()> {
        let _turn = self.storing.take(1).await;
        let array = self.deleted.borrow().clone();
        self.events.store_state(&FILE, &Remembered { array }).await
    }

    /// The same where it could not be stored before.
    pub(super) async fn store_deleted_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_deleted().await);
        }
    }

    /// Whether an array was deleted.
    pub(crate) fn is_deleted(&self, array: Uuid) -> bool {
        self.deleted.borrow().iter().any(|one| one.array == array)
    }

    /// Why a drive is no part of the array that its label names: that was deleted without it.
    pub(crate) fn deleted_without(&self, drive: &Drive) -> Option<Error> {
        let label = drive.member_label().filter(|label| label.phase != Phase::Deleted)?;
        let deleted = self.deleted.borrow();
        let one = deleted.iter().find(|one| one.array == label.array)?;
        let sentence = format!(
            "drive {0} has the label of {1}, deleted here when it was away or did not answer; give it a new use with --destroy-data, or read it with 'softroc rescue {0}'",
            drive.name, one.names
        );
        Some(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Takes in what was remembered before.
    pub(super) async fn load_deleted(&self) {
        let lost = "a volume that was deleted may be there again, from a drive that was not here then";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.deleted.borrow_mut() = remembered.array;
        }
    }
}
