//! Numbers for new objects, given after each change and when a drive or array appears.

use super::Commands;
use crate::interface::{Result, SetNumbers};
use crate::signals::wait_or;
use ondisk::Uuid;
use std::rc::Rc;
use std::time::Duration;

/// The interval of checks without a notification.
const IDLE: Duration = Duration::from_secs(3600);

/// The delay before failed state files are stored again.
const STORE_AGAIN: Duration = Duration::from_secs(20);

impl Commands {
    /// Numbers all objects without a number, oldest first, and records changed revisions.
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

    /// Restores numbers from before the state folder was lost. Returns notes, a sentence each.
    pub(super) async fn set_numbers(&self, set: &SetNumbers) -> Result<Vec<String>> {
        let drives: Vec<_> = set
            .drives
            .iter()
            .map(|numbers| Ok((self.arrays.find_drive(&numbers.drive)?, numbers)))
            .collect::<Result<_>>()?;
        // New objects get their numbers before others are restored.
        self.number().await;
        let changed = self.inventory.set_numbers(set, &drives).await?;
        self.note_revisions();
        Ok(vec![match changed {
            true => "the numbers of drives, arrays and volumes were restored".to_owned(),
            false => "they had these numbers already".to_owned(),
        }])
    }

    /// Retries state files that could not be stored, until the controller stops.
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

    /// Numbers new objects after each change, until the controller stops.
    pub(super) async fn keep_numbering(self: Rc<Self>) {
        while !self.attention.is_closing() {
            let seen = self.attention.seen();
            self.number().await;
            let news = || self.attention.seen() != seen || self.attention.is_closing();
            wait_or(&self.env, self.attention.changed(), news, self.env.now() + IDLE).await;
        }
    }
}
