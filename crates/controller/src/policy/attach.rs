//! Which volumes are disks of this machine whenever they are served: `attach.toml` in the state folder. It is a wish for this
//! machine, so that it does not go with the drives to another one.

use super::Policies;
use crate::events::EventCode;
use crate::interface::{AttachPolicy, Policy, Result};
use crate::statefile::StateFile;
use ondisk::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where it is kept.
const FILE: StateFile<Kept> =
    StateFile::toml("attach.toml", "the list of volumes that are disks of this machine");

/// The file: a line for each volume that is not `off`, by UUID.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    #[serde(default)]
    volumes: BTreeMap<Uuid, AttachPolicy>,
}

impl Policies {
    /// Takes in what was kept.
    pub(crate) async fn load_attach(&self) {
        let lost = "no volume becomes a disk of this machine by itself";
        if let Some(kept) = self.events.load_state(&FILE, lost).await.value {
            self.attach.replace(kept);
        }
    }

    /// Stores it where it could not be stored before.
    pub(crate) async fn store_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let kept = self.attach.borrow().clone();
            self.events.leave_to_health(self.events.store_state(&FILE, &kept).await);
        }
    }

    /// What is wished for a volume.
    pub(crate) fn attach_of(&self, volume: Uuid) -> AttachPolicy {
        self.attach.borrow().volumes.get(&volume).copied().unwrap_or(AttachPolicy::Off)
    }

    /// Wishes for it from now on.
    pub(super) async fn set_attach(&self, volume: Uuid, name: &str, wished: AttachPolicy) -> Result<()> {
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

    /// What is wished for a volume, for people.
    pub(crate) fn attach_policy(&self, volume: Uuid, since_unix_s: u64) -> Policy {
        let wished = self.attach_of(volume);
        let reason = match wished {
            AttachPolicy::On => "whenever the volume is served, it is a disk of this machine",
            AttachPolicy::ReadOnly => {
                "whenever the volume is served, it is a disk of this machine that nothing can be written to"
            }
            AttachPolicy::Off => "it is a disk of this machine only after 'softroc attach'",
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
