//! The write mode of volumes by the state of the power supply: before a power cut, dirty data is
//! destaged.
//!
//! | protection | `write-back` | `always-write-back` |
//! | --- | --- | --- |
//! | power not monitored | as configured | as configured |
//! | good | as configured | as configured |
//! | doubtful | destaged, then write-through | destaged, then as configured |
//! | ending | destaged and flushed, then write-through | the same |

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use engine::ShardMessage;
use ondisk::WriteMode;
use std::rc::Rc;

/// Whether power will last until dirty data is destaged.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) enum Protection {
    /// The power is not monitored.
    #[default]
    Unwatched,
    /// Power will last.
    Good,
    /// It may not: the reason.
    Doubtful(String),
    /// Power is about to fail: the reason.
    Ending(String),
}

impl Arrays {
    /// Sets the state of the power. Volumes that are started apply it at once; served volumes, when
    /// [`follow_protection`](Arrays::follow_protection) is called.
    pub(crate) fn set_protection(&self, protection: Protection) {
        *self.protection.borrow_mut() = protection;
    }

    /// Why a volume with this mode does not use the cache: a clause.
    pub(super) fn held_back(&self, mode: WriteMode) -> Option<String> {
        match (&*self.protection.borrow(), mode) {
            (_, WriteMode::WriteThrough) | (Protection::Unwatched | Protection::Good, _) => None,
            // Logged write-back depends on no power: acknowledged writes are in a log.
            (Protection::Doubtful(_), WriteMode::AlwaysWriteBack | WriteMode::LoggedWriteBack) => {
                None
            }
            (Protection::Doubtful(why) | Protection::Ending(why), _) => Some(why.clone()),
        }
    }

    /// Makes a volume write-through for that reason: dirty data is destaged in the background.
    pub(super) fn hold_back(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>, why: String) {
        let was_held =
            volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::WriteThrough);
        self.note_mode(volume, WriteMode::WriteThrough, Some(why));
        if !was_held {
            let end = self.clone().end_later(array.clone(), volume.clone(), Rc::default());
            self.env.spawn("end write-back", end);
        }
    }

    /// Applies the state of the power to every served volume. Returns when dirty data is destaged,
    /// where required.
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
                tracing::warn!(
                    "not all dirty data of '{}' could be written to its drives: {why}",
                    volume.name()
                );
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
