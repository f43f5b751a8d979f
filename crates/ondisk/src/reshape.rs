//! Reshaping volumes in labels.
//!
//! Such a volume has three entries: the volume that hosts see, with the old layout and the progress
//! ([`ReshapeLabel`]), and two parts ([`PartLabel`]): one with the new layout, on the same bytes of
//! each drive, and one where windows are saved, in the space of the journals. Each has its own
//! regions, stale drives and journal, like any volume.
//!
//! Volumes of one array are reshaped one after the other. The queued volumes, which will use the
//! same number of drives, are served with their present layout until their reshape begins
//! ([`FollowsLabel`]).

use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::tail::Tail;
use crate::uuid::Uuid;
use crate::volume::VolumeLabel;
use serde::{Deserialize, Serialize};

/// The progress of a volume's reshape. Software that does not support it refuses the label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReshapeLabel {
    /// The part with the new layout.
    pub to: Uuid,
    /// The part where windows are saved.
    pub save: Uuid,
    /// Whether every member carries a label with the reshape. Before that no data move, and a start
    /// rolls it back.
    pub begun: bool,
    /// The bytes of the volume that have the new layout: the first ones, or the last ones of a
    /// downward reshape.
    pub moved_bytes: u64,
    /// The saved bytes next to those.
    pub saved_bytes: u64,
    /// Whether the reshape goes from the last byte to the first. Software that does not support
    /// this refuses the label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub down: bool,
}

/// The queued reshape of a volume to other drives. Software that does not support it refuses the
/// label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowsLabel {
    /// The UUID of the part with the new layout, once it is reshaping.
    pub to: Uuid,
    /// The number of members after the reshape, from the first one on.
    pub members: u16,
}

/// The relation of a part, invisible to hosts, to its volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartLabel {
    /// The reshaping volume.
    pub of: Uuid,
    /// Whether windows are saved there: then it lies in the space of the journals, and its offset
    /// counts from there.
    pub saves: bool,
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl VolumeLabel {
    /// Whether it is a part of a reshaping volume, and invisible to hosts.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Whether it lies in the space of the journals instead of the data area.
    pub fn saves(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.saves)
    }
}

impl VolumeLabel {
    /// Its ranges in the space of the journals, relative to the start of that space.
    pub fn in_journals(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let journal =
            self.journal.as_ref().map(|journal| (journal.start_bytes, journal.end_bytes()));
        journal
            .into_iter()
            .chain(self.saves().then(|| (self.data_start_bytes, self.data_end_bytes())))
    }
}

impl Label {
    /// Each part must belong to a reshaping volume, and each reshaping volume must have both parts.
    pub(crate) fn check_reshapes(&self) -> Result<()> {
        for volume in &self.volume {
            let wrong = |what: &str| {
                Err(contradiction(format!("the label is invalid: '{}' {what}", volume.name)))
            };
            if volume.saves() && volume.data_end_bytes() > Tail::JOURNALS.0 {
                return wrong("lies beyond the space of the journals");
            }
            if let Some(part) = &volume.part {
                let owner = self.volume_of(part.of).and_then(|owner| owner.reshape.as_ref());
                let named = owner.map(|reshape| if part.saves { reshape.save } else { reshape.to });
                if named != Some(volume.uuid) || volume.reshape.is_some() {
                    return wrong("is a part of a volume without parts");
                }
            }
            if volume.follows.is_some() && !self.can_follow(volume) {
                return wrong("is queued for drives that it cannot use");
            }
            let Some(reshape) = &volume.reshape else { continue };
            let part = |uuid: Uuid, saves: bool| {
                let part = self
                    .volume_of(uuid)
                    .filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume.uuid));
                part.filter(|of| of.saves() == saves)
            };
            let (Some(to), Some(_)) = (part(reshape.to, false), part(reshape.save, true)) else {
                return wrong("is reshaping to a layout that is missing");
            };
            let end = reshape.moved_bytes.checked_add(reshape.saved_bytes);
            // Data beyond the capacity of the new layout are discarded.
            let is_inside =
                end.is_some_and(|end| end <= volume.capacity_bytes.min(to.capacity_bytes));
            if !is_inside || to.data_start_bytes != volume.data_start_bytes {
                return wrong("has moved more data than it has");
            }
        }
        Ok(())
    }

    /// Whether the reshape for which a volume is queued is valid.
    fn can_follow(&self, volume: &VolumeLabel) -> bool {
        let Some(follows) = &volume.follows else { return false };
        let is_named = match &volume.reshape {
            Some(reshape) => reshape.to == follows.to,
            None => self.volume_of(follows.to).is_none(),
        };
        let are_there = (1..=self.member.len()).contains(&usize::from(follows.members));
        is_named && are_there && !volume.is_part()
    }
}

/// The number of members of a volume, where it is not on all of the array's.
pub(crate) fn members_of(label: &VolumeLabel, members: usize) -> Result<usize> {
    match label.members {
        None => Ok(members),
        Some(own) if usize::from(own) <= members && own > 0 => Ok(usize::from(own)),
        Some(own) => Err(contradiction(format!("a volume is on {own} of {members} members"))),
    }
}
