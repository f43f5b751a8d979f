//! What volumes make of the power: while it may go, nothing is dirty that need not be.
//!
//! | protection | `write-back` | `always-write-back` |
//! | --- | --- | --- |
//! | nobody watches the power | as configured | as configured |
//! | good | as configured | as configured |
//! | doubtful | written to the drives, then write-through | written to the drives, then as configured |
//! | ending | written to the drives and flushed, then write-through | the same |

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use engine::ShardMessage;
use ondisk::WriteMode;
use std::rc::Rc;

/// Whether power will be there to write what is dirty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) enum Protection {
    /// Nobody says.
    #[default]
    Unwatched,
    /// It will.
    Good,
    /// It may not: why.
    Doubtful(String),
    /// It is about to go: why.
    Ending(String),
}

impl Arrays {
    /// What is known of the power from now on. Volumes that are started go by it; those that are served, when
    /// [`follow_protection`](Arrays::follow_protection) is called.
    pub(crate) fn set_protection(&self, protection: Protection) {
        *self.protection.borrow_mut() = protection;
    }

    /// Why a volume is not answered from the cache that is to be: a clause.
    pub(super) fn held_back(&self, mode: WriteMode) -> Option<String> {
        match (&*self.protection.borrow(), mode) {
            (_, WriteMode::WriteThrough) | (Protection::Unwatched | Protection::Good, _) => None,
            // The second depends on no power: what was answered is in a log.
            (Protection::Doubtful(_), WriteMode::AlwaysWriteBack | WriteMode::LoggedWriteBack) => None,
            (Protection::Doubtful(why) | Protection::Ending(why), _) => Some(why.clone()),
        }
    }

    /// Has a volume be write-through for that reason: what is dirty is destaged in the background.
    pub(super) fn hold_back(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>, why: String) {
        let was_held = volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::WriteThrough);
        self.note_mode(volume, WriteMode::WriteThrough, Some(why));
        if !was_held {
            let end = self.clone().end_later(array.clone(), volume.clone(), Rc::default());
            self.env.spawn("end write-back", end);
        }
    }

    /// Has every volume that is served go by what is known of the power. Done when what is dirty is on the drives, where it is to be.
    pub(crate) async fn follow_protection(self: &Rc<Self>) {
        for array in self.all() {
            for volume in array.served() {
                self.follow_power(&array, &volume).await;
            }
        }
        let is_doubtful =
            matches!(*self.protection.borrow(), Protection::Doubtful(_) | Protection::Ending(_));
        if !is_doubtful {
            return;
        }
        for volume in self.all().iter().flat_map(|array| array.served()) {
            let Some(id) = volume.id() else { continue };
            if let Err(why) = self.tell_shards(|done| ShardMessage::Drain(id, done)).await {
                tracing::warn!("not all of '{}' could be written to its drives: {why}", volume.name());
            }
        }
    }

    async fn follow_power(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        let _starting = array.starting_turn().await;
        let mode = volume.label().write_mode;
        let has_none = mode == WriteMode::WriteThrough || array.is_to_move(volume);
        if has_none || !volume.is_served() || volume.restores.get() {
            return;
        }
        let now = volume.mode_in_effect();
        match self.held_back(mode) {
            Some(why) => self.hold_back(array, volume, why),
            None if now.is_some_and(|now| now.mode != mode) => {
                if let Err(error) = self.begin_write_back(array, volume, mode).await {
                    tracing::warn!("'{}' stays write-through: {}", volume.name(), error.message);
                }
            }
            None => {}
        }
    }
}
