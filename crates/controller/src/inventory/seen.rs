//! Arrays that were seen: remembered beside the drives, so that one of which no drive is there any more is listed as missing and
//! never silently gone.
//!
//! What is kept is what an array is, not how it stands: its volumes and its drives by name and identity. The truth is on the
//! drives: as soon as one of them is there, its label is all that counts.
//!
//! **Invariants.** An array that was deleted is forgotten before the last label that says so is erased.

use super::{Inventory, is_volatile};
use crate::interface::Result;
use crate::statefile::StateFile;
use ondisk::{Label, MemberState, Runs, Uuid};
use serde::{Deserialize, Serialize};

/// Where arrays are remembered.
const FILE: StateFile<Remembered> = StateFile::toml("arrays.toml", "the list of arrays");

/// An array that is there is noted to be so at least so often.
const NOTED_EVERY_S: u64 = 3600;

/// An array as it is remembered.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeenArray {
    /// When one of its drives was there, as far as was noted.
    pub(crate) last_seen_unix_s: u64,
    /// What it was, without what changes as it is used.
    pub(crate) label: Label,
}

/// What the file holds.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    array: Vec<SeenArray>,
}

/// What an array is, without how it stands.
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
    /// The arrays that are remembered.
    pub(crate) fn arrays_seen(&self) -> Vec<SeenArray> {
        self.seen.borrow().clone()
    }

    /// When some drive of an array was there, as far as was noted.
    pub(crate) fn last_seen(&self, array: Uuid) -> Option<u64> {
        self.seen.borrow().iter().find(|seen| seen.label.array == array).map(|seen| seen.last_seen_unix_s)
    }

    /// Remembers arrays of which drives are there now. Those in memory alone end with the process.
    pub(crate) async fn remember_arrays(&self, labels: Vec<Label>) {
        let now = self.env.unix_time();
        let mut is_news = false;
        for label in labels.into_iter().map(what_it_is) {
            // One that is being deleted is still among the arrays.
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
            // Their labels know them.
            self.events.leave_to_health(self.store_seen().await);
        }
    }

    /// Forgets an array: it was deleted, or an operator knows that it is gone.
    ///
    /// # Errors
    /// When that cannot be stored: then it is as before.
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

    /// Writes down when arrays were seen, which is known better than it was noted.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn store_seen(&self) -> Result<()> {
        // One after the other: an older list must not be stored over a newer one.
        let _turn = self.storing.take(1).await;
        let array = self.seen.borrow().clone();
        self.events.store_state(&FILE, &Remembered { array }).await
    }

    /// The same where it could not be stored before.
    pub(super) async fn store_seen_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            self.events.leave_to_health(self.store_seen().await);
        }
    }

    /// Takes in what was remembered before.
    pub(super) async fn load_seen(&self) {
        let lost = "arrays of which no drive is there are not listed";
        if let Some(remembered) = self.events.load_state(&FILE, lost).await.value {
            *self.seen.borrow_mut() = remembered.array;
        }
    }
}
