//! What has no number yet gets one: after each change, and when something turned up by itself.

use super::Commands;
use crate::interface::{Result, SetNumbers};
use crate::signals::wait_or;
use ondisk::Uuid;
use std::rc::Rc;
use std::time::Duration;

/// Nothing tells that something turned up: look all the same, so often.
const IDLE: Duration = Duration::from_secs(3600);

/// How long until what could not be stored is stored again.
const STORE_AGAIN: Duration = Duration::from_secs(20);

impl Commands {
    /// Gives numbers to what has none, the oldest first, and takes note of what changed.
    pub(super) async fn number(&self) {
        let mut arrays: Vec<(u64, Uuid, Vec<Uuid>)> = Vec::new();
        for array in self.arrays.all() {
            let mut volumes: Vec<(u64, Uuid)> = array
                .known_volumes()
                .iter()
                .map(|volume| (volume.label().created_unix_s, volume.uuid()))
                .collect();
            volumes.sort_unstable();
            let created = volumes.first().map_or(u64::MAX, |(created, _)| *created);
            arrays.push((created, array.uuid, volumes.into_iter().map(|(_, uuid)| uuid).collect()));
        }
        arrays.sort_unstable();
        let arrays: Vec<(Uuid, Vec<Uuid>)> =
            arrays.into_iter().map(|(_, array, volumes)| (array, volumes)).collect();
        self.inventory.give_numbers(&arrays).await;
        self.note_revisions();
    }

    /// Gives back numbers from before the state folder was lost. Notes, a sentence each.
    pub(super) async fn set_numbers(&self, set: &SetNumbers) -> Result<Vec<String>> {
        let drives: Vec<_> = set
            .drives
            .iter()
            .map(|numbers| Ok((self.arrays.find_drive(&numbers.drive)?, numbers)))
            .collect::<Result<_>>()?;
        // What came a moment ago has a number before others are given back.
        self.number().await;
        let changed = self.inventory.set_numbers(set, &drives).await?;
        self.note_revisions();
        Ok(vec![match changed {
            true => "drives, arrays and volumes have the numbers that were given back".to_owned(),
            false => "all of them had these numbers already".to_owned(),
        }])
    }

    /// Stores again what could not be stored, until the controller stops.
    pub(super) async fn keep_storing(self: Rc<Self>) {
        while self.events.wait_for_unstored().await {
            let later = self.env.now() + STORE_AGAIN;
            let closing = || self.attention.is_closing();
            if wait_or(&self.env, self.attention.changed(), closing, later).await {
                return;
            }
            self.events.store_alarm_again().await;
            self.inventory.store_again().await;
            self.arrays.store_again().await;
            self.policies.store_again().await;
        }
    }

    /// Does so whenever something changed by itself, until the controller stops.
    pub(super) async fn keep_numbering(self: Rc<Self>) {
        while !self.attention.is_closing() {
            let seen = self.attention.seen();
            self.number().await;
            let news = || self.attention.seen() != seen || self.attention.is_closing();
            wait_or(&self.env, self.attention.changed(), news, self.env.now() + IDLE).await;
        }
    }
}
