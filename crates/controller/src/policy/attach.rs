//! The volumes that are attached to this host whenever they are served: `attach.toml` in the state
//! folder. The setting belongs to this host, so it does not move with the drives.

use super::Policies;
use crate::events::EventCode;
use crate::interface::{AttachPolicy, Policy, Result};
use crate::statefile::StateFile;
use ondisk::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file of the settings.
const FILE: StateFile<Kept> = StateFile::toml("attach.toml", "the list of attached volumes");

/// The file content: one line per volume that is not `off`, by UUID.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    #[serde(default)]
    volumes: BTreeMap<Uuid, AttachPolicy>,
}

impl Policies {
    /// Loads the settings.
    pub(crate) async fn load_attach(&self) {
        let lost = "no volume is attached automatically";
        if let Some(kept) = self.events.load_state(&FILE, lost).await.value {
            self.attach.replace(kept);
        }
    }

    /// Retries a failed store.
    pub(crate) async fn store_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let kept = self.attach.borrow().clone();
            self.events.leave_to_health(self.events.store_state(&FILE, &kept).await);
        }
    }

    /// The attach policy of a volume.
    pub(crate) fn attach_of(&self, volume: Uuid) -> AttachPolicy {
        self.attach.borrow().volumes.get(&volume).copied().unwrap_or(AttachPolicy::Off)
    }

    /// Sets the attach policy of a volume.
    pub(super) async fn set_attach(
        &self,
        volume: Uuid,
        name: &str,
        wished: AttachPolicy,
    ) -> Result<()> {
        if self.attach_of(volume) == wished {
            return Ok(());
        }
        let mut next = self.attach.borrow().clone();
        match wished {
            AttachPolicy::Off => next.volumes.remove(&volume),
            wished => next.volumes.insert(volume, wished),
        };
        self.events.store_state(&FILE, &next).await?;
        self.attach.replace(next);
        self.events.report(
            EventCode::ArrayPolicyChanged,
            name,
            "an operator changed it",
            "it is in force",
            format!("the policy attach of '{name}' is {} now", wished.name()),
        );
        Ok(())
    }

    /// The attach policy of a volume, for display.
    pub(crate) fn attach_policy(&self, volume: Uuid, since_unix_s: u64) -> Policy {
        let wished = self.attach_of(volume);
        let reason = match wished {
            AttachPolicy::On => "the volume is attached whenever it is served",
            AttachPolicy::ReadOnly => "the volume is attached read-only whenever it is served",
            AttachPolicy::Off => "the volume is attached only by 'softroc attach'",
        };
        Policy {
            name: "attach".to_owned(),
            configured: wished.name().to_owned(),
            current: wished.name().to_owned(),
            reason: reason.to_owned(),
            since_unix_s,
        }
    }
}
