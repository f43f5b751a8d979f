//! What labels say of a volume on its way to another layout.
//!
//! Such a volume is three of the array's: the one that hosts see, by the old layout, which says how far it is ([`ReshapeLabel`]), and
//! two that are parts of it ([`PartLabel`]): by the new layout, on the same bytes of each drive, and where windows are saved, in
//! the room of the journals. Each has regions, stale drives and a journal of its own, as any volume has.
//!
//! Of several volumes on one array one is on its way at a time. The others, which come to as many drives after it, are
//! served by the layout that they have until it is their turn ([`FollowsLabel`]).

use crate::error::{Error, ErrorKind, Result};
use crate::label::Label;
use crate::tail::Tail;
use crate::uuid::Uuid;
use crate::volume::VolumeLabel;
use serde::{Deserialize, Serialize};

/// How far a volume is on its way to another layout. Programs that know nothing of it refuse the label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReshapeLabel {
    /// The volume by the new layout.
    pub to: Uuid,
    /// Where windows are saved.
    pub save: Uuid,
    /// Whether every member carries a label that tells of it. Before that nothing is moved, and a start takes it back.
    pub begun: bool,
    /// So many bytes of the volume lie by the new layout: its first ones, or its last ones where it goes down.
    pub moved_bytes: u64,
    /// So many bytes next to those are saved.
    pub saved_bytes: u64,
    /// Whether the volume's last byte goes first. Programs that know nothing of that refuse the label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub down: bool,
}

/// What is ahead of a volume that comes to other drives when others of its array have. Programs that know nothing of it refuse the label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowsLabel {
    /// The volume by the new layout, when it is on its way.
    pub to: Uuid,
    /// On how many of the array's members it is to lie, the first ones.
    pub members: u16,
}

/// What a volume is a part of that hosts do not see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartLabel {
    /// The volume on its way that it belongs to.
    pub of: Uuid,
    /// Whether windows are saved there: then it lies in the room of the journals, and its first byte is counted from there.
    pub saves: bool,
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl VolumeLabel {
    /// Whether hosts never see it: it is a part of a volume on its way.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Whether it lies in the room of the journals, and not where data lies.
    pub fn saves(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.saves)
    }
}

impl VolumeLabel {
    /// What it has of the room of the journals: runs of bytes from its beginning on.
    pub fn in_journals(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let journal = self.journal.as_ref().map(|journal| (journal.start_bytes, journal.end_bytes()));
        journal.into_iter().chain(self.saves().then(|| (self.data_start_bytes, self.data_end_bytes())))
    }
}

impl Label {
    /// Each part belongs to a volume on its way, and each volume on its way has both parts.
    pub(crate) fn check_reshapes(&self) -> Result<()> {
        for volume in &self.volume {
            let wrong = |what: &str| {
                Err(contradiction(format!("the label says that '{}' {what}, which cannot be", volume.name)))
            };
            if volume.saves() && volume.data_end_bytes() > Tail::JOURNALS.0 {
                return wrong("lies beyond the room of the journals");
            }
            if let Some(part) = &volume.part {
                let owner = self.volume_of(part.of).and_then(|owner| owner.reshape.as_ref());
                let named = owner.map(|reshape| if part.saves { reshape.save } else { reshape.to });
                if named != Some(volume.uuid) || volume.reshape.is_some() {
                    return wrong("is a part of a volume that has none");
                }
            }
            if volume.follows.is_some() && !self.can_follow(volume) {
                return wrong("is to come to drives that it cannot lie on");
            }
            let Some(reshape) = &volume.reshape else { continue };
            let part = |uuid: Uuid, saves: bool| {
                let part = self
                    .volume_of(uuid)
                    .filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume.uuid));
                part.filter(|of| of.saves() == saves)
            };
            let (Some(to), Some(_)) = (part(reshape.to, false), part(reshape.save, true)) else {
                return wrong("is on its way to a layout that it does not name");
            };
            let end = reshape.moved_bytes.checked_add(reshape.saved_bytes);
            // What the new layout has no room for is given up.
            let is_inside = end.is_some_and(|end| end <= volume.capacity_bytes.min(to.capacity_bytes));
            if !is_inside || to.data_start_bytes != volume.data_start_bytes {
                return wrong("has moved what it has not");
            }
        }
        Ok(())
    }

    /// Whether a volume can come to what it follows others to.
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

/// The geometry of a volume on the first so many of its array's members, where it is not on all.
pub(crate) fn members_of(label: &VolumeLabel, members: usize) -> Result<usize> {
    match label.members {
        None => Ok(members),
        Some(own) if usize::from(own) <= members && own > 0 => Ok(usize::from(own)),
        Some(own) => Err(contradiction(format!("the label lays a volume over {own} of {members} members"))),
    }
}
