//! Known arrays, stored in the state folder: an array without any drive is listed as missing
//! instead of vanishing silently.
//!
//! The list stores the identity of an array, not its state: the names and identities of its volumes
//! and drives. The drives are authoritative: as soon as one of them is present, only its label
//! counts.
//!
//! **Invariants.** A deleted array is removed from the list before the last label that records the
//! deletion is erased.

use super::{Inventory, is_volatile};
use crate::interface::Result;
use crate::statefile::StateFile;
use ondisk::{Label, MemberState, Runs, Uuid};
use serde::{Deserialize, Serialize};

/// The file of known arrays.
const FILE: StateFile<Remembered> = StateFile::toml("arrays.toml", "the list of arrays");

/// How often the presence of an array is noted.
const NOTED_EVERY_S: u64 = 3600;

/// A known array.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeenArray {
    /// When one of its drives was last present, as far as noted.
    pub(crate) last_seen_unix_s: u64,
    /// Its label, without parts that change during use.
    pub(crate) label: Label,
}

/// The file content.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    array: Vec<SeenArray>,
}

/// The identity of an array, without its state.
fn what_it_is(mut label: Label) -> Label {
    (label.generation, label.confirmed, label.clean, label.shut_down) = (0, 0, false, false);
    label.drive = Uuid::default();
    label.failed.clear();
    label.leaving.clear();
    for member in &mut label.member {
        (member.state, member.since, member.knew, member.cause) = (MemberState::Online, 0, 0, None);
        (member.stale, member.replacement, member.stands_in) = (Runs::default(), None, None);
    }
    for volume in &mut label.volume {
        (volume.unwritten, volume.relocated, volume.journal) = (Runs::default(), None, None);
        volume.lost.clear();
        volume.punctured.clear();
        volume.excluded.clear();
    }
    label
}

impl Inventory {
    /// The known arrays.
    pub(crate) fn arrays_seen(&self) -> Vec<SeenArray> {
        self.seen.borrow().clone()
    }

    /// When a drive of an array was last present, as far as noted.
    pub(crate) fn last_seen(&self, array: Uuid) -> Option<u64> {
        self.seen
            .borrow()
            .iter()
            .find(|seen| seen.label.array == array)
            .map(|seen| seen.last_seen_unix_s)
    }

    /// Remembers arrays with a drive present. Memory-only arrays end with the process.
    pub(crate) async fn remember_arrays(&self, labels: Vec<Label>) {
        let now = self.env.unix_time();
        let mut is_news = false;
        for label in labels.into_iter().map(what_it_is) {
            // An array that is being deleted is still in the list of arrays.
            let is_deleted = self.is_deleted(label.array);
            if is_deleted || label.member.iter().all(|member| is_volatile(&member.name)) {
                continue;
            }
            let mut seen = self.seen.borrow_mut();
            match seen.iter_mut().find(|seen| seen.label.array == label.array) {
                Some(one) => {
                    let is_old = now.saturating_sub(one.last_seen_unix_s) >= NOTED_EVERY_S;
                    is_news |= is_old || one.label != label;
                    *one = SeenArray { last_seen_unix_s: now, label };
                }
                None => {
                    seen.push(SeenArray { last_seen_unix_s: now, label });
                    is_news = true;
                }
            }
        }
        if is_news {
            // Their labels are authoritative.
            self.events.leave_to_health(self.store_seen().await);
        }
    }

    /// Forgets an array: it was deleted, or an operator forgot it.
    ///
    /// # Errors
    /// When that cannot be stored: nothing has changed then.
    pub(crate) async fn forget_array(&self, array: Uuid) -> Result<()> {
        let Some(at) = self.seen.borrow().iter().position(|seen| seen.label.array == array) else {
            return Ok(());
        };
        let gone = self.seen.borrow_mut().remove(at);
        let stored = self.store_seen().await;
        if stored.is_err() {
            self.seen.borrow_mut().push(gone);
        }
        stored
    }

    /// Stores when arrays were last present, with the newest times.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_seen(&self) -> Result<()> {
        // Under a lock: an older list must not be stored over a newer one.
        let _turn = self.storing.take(1).await;
        let array = self.seen.borrow().clone();
        self.events.store_state(&FILE, &Remembered { array }).await
    }

    /// Retries a failed store.
    pub(super) async fn store_seen_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_seen().await);
        }
    }

    /// Loads the stored list.
    pub(super) async fn load_seen(&self) {
        let lost = "arrays without a present drive are not listed";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.seen.borrow_mut() = remembered.array;
        }
    }
}
