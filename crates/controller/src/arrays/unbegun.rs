//! The rollback of an interrupted or stopped reshape start in a label, by a start, by the stopping
//! command, or by the reconciler.
//!
//! A drive may go out by the very change that records the start of a reshape, or before any data
//! has moved. Where the volume's parts need it, the next start treats that as an interrupted
//! reshape start: all data of the volume is in its old place.
//!
//! # Invariants
//! - No reshape starts while a label has an interrupted one (`following`).
//! - No member is removed that another volume uses, by its current or its target layout.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, runs, set_of};
use crate::arrays::reshape::forget_regions;
use crate::arrays::volume::Volume;
use crate::interface::Result;
use crate::inventory::Drive;
use engine::RegionSet;
use ondisk::{FoundArray, Label, Readiness, ReshapeLabel, Uuid, VolumeLabel, readiness, slots};
use std::rc::Rc;
use units::DriveSet;

/// The number of members of a label without those that an interrupted reshape start was to add. A
/// queued volume starts on existing members.
pub(crate) fn own_members(label: &Label) -> usize {
    let is_cut_off = |of: &VolumeLabel| of.reshape.as_ref().is_some_and(|at| !at.begun);
    let begins = |of: &&VolumeLabel| is_cut_off(of) && of.follows.is_none();
    let members = label.volume.iter().find(begins).and_then(|of| of.members);
    members.map_or(label.member.len(), usize::from)
}

/// The drives' label, as a start interprets it: a reshape without moved data counts as interrupted
/// where it cannot continue without the drives that are out, and the volume can be served by its
/// old layout. The second value lists the fully rolled back volumes and their targets.
pub(super) fn as_understood(found: &FoundArray) -> (Label, Vec<(Uuid, Uuid)>) {
    let (told, out) = (&found.label, found.out().union(&found.label.out()));
    let is_stuck = |of: &&VolumeLabel| {
        let has_moved = |at: &ReshapeLabel| (at.moved_bytes, at.saved_bytes) != (0, 0);
        let Some(reshape) = of.reshape.as_ref().filter(|at| at.begun && !has_moved(at)) else {
            return false;
        };
        let is_ready = |of: &VolumeLabel| readiness(told, of, &out) != Readiness::Offline;
        let mut parts =
            told.volume.iter().filter(|part| [reshape.to, reshape.save].contains(&part.uuid));
        is_ready(&alone(told, of, &out)) && !parts.all(is_ready)
    };
    let mut label = told.clone();
    let Some(stuck) = told.volume.iter().find(is_stuck) else { return (label, Vec::new()) };
    if let Some(of) = label.volume_mut(stuck.uuid) {
        *of = alone(told, stuck, &out);
        of.reshape.iter_mut().for_each(|at| at.begun = false);
    }
    missed_by_the_lost(&mut label, stuck);
    // A queued volume starts again; for any other the whole command is rolled back.
    let ends = |of: &VolumeLabel| {
        let to =
            of.reshape.as_ref().map(|at| at.to).or(of.follows.as_ref().map(|follows| follows.to));
        to.filter(|_| stuck.follows.is_none()).map(|to| (of.uuid, to))
    };
    let ended = told.volume.iter().filter_map(ends).collect();
    (label, ended)
}

/// A reshaping volume without moved data, by its old layout. Recorded losses may be those of its
/// parts: where it survives without all these drives and those that are out, it has lost nothing.
fn alone(label: &Label, of: &VolumeLabel, out: &DriveSet) -> VolumeLabel {
    let alone = VolumeLabel { lost: Vec::new(), ..of.clone() };
    let lost = slots(of.lost.iter().map(|slot| usize::from(*slot)));
    match readiness(label, &alone, &out.union(&lost)) {
        Readiness::Offline => of.clone(),
        _ => alone,
    }
}

/// A volume continues without drives that were recorded as lost. Their missed writes were not
/// recorded: they are stale in all regions of the volume.
fn missed_by_the_lost(label: &mut Label, volume: &VolumeLabel) {
    let all = RegionSet::from_runs([[volume.first_region, volume.end_region()]]);
    let members = volume.members.map_or(label.member.len(), usize::from);
    for slot in volume.lost.iter().map(|slot| usize::from(*slot)).filter(|slot| *slot < members) {
        let member = &mut label.member[slot];
        member.stale = runs(&set_of(&member.stale).union(&all));
    }
}

/// The regions of a volume's parts.
pub(super) fn regions_of_parts(label: &Label, volume: Uuid) -> Vec<std::ops::Range<u32>> {
    let parts =
        label.volume.iter().filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume));
    parts.map(|of| of.first_region..of.end_region()).collect()
}

/// Removes a volume's parts from a label. For a queued volume that is all; for any other the whole
/// command is rolled back: the new drives, and the queue of the array's other volumes.
pub(super) fn taken_back(next: &mut Label, volume: Uuid) {
    let mut gone = RegionSet::EMPTY;
    next.volume.retain(|of| {
        let is_part = of.part.as_ref().is_some_and(|part| part.of == volume);
        if is_part {
            gone.insert_all(&RegionSet::from_runs([[of.first_region, of.end_region()]]));
        }
        !is_part
    });
    forget_regions(next, &gone);
    let Some(label) = next.volume_mut(volume) else { return };
    label.reshape = None;
    if label.follows.is_some() {
        return;
    }
    let own = label.members;
    let all = next.member.len();
    let lies_on = |members: Option<u16>| members.map_or(all, usize::from);
    let others = next.volume.iter().filter(|of| of.uuid != volume);
    if others.clone().any(|of| of.part.is_some() || of.reshape.is_some()) {
        return; // Another one has begun: all members stay, and its reshape continues.
    }
    let kept = others.map(|of| lies_on(of.members)).fold(lies_on(own), usize::max);
    next.volume.iter_mut().for_each(|of| {
        (of.members, of.follows) =
            (of.members.filter(|members| usize::from(*members) < kept), None);
    });
    next.member.truncate(kept);
    // The label may have been read from a drive that is not a member any more.
    if next.slot().is_none() {
        next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
    }
}

impl Array {
    /// Records which reshapes the next start rolls back although they had begun
    /// ([`as_understood`]).
    pub(super) fn note_taken_back(&self, taken_back: &[(Uuid, Uuid)]) {
        for volume in self.volumes() {
            let of = taken_back.iter().find(|(uuid, _)| *uuid == volume.uuid());
            volume.set_taken_back(of.map(|(_, to)| *to));
        }
    }

    /// The volume whose reshape start was interrupted or is in progress, if any. The start may be
    /// recorded while no shard has the parts: hosts use the old layout until then, and no data can
    /// be moved.
    pub(crate) fn cut_off(&self) -> Option<Rc<Volume>> {
        let is_cut_off = |volume: &Rc<Volume>| match volume.label().reshape {
            None => false,
            Some(at) if !at.begun => true,
            Some(at) => {
                let parts = self.together_with(volume);
                let has_none = parts.iter().skip(1).any(|part| !part.is_served());
                (at.moved_bytes, at.saved_bytes) == (0, 0) && volume.is_served() && has_none
            }
        };
        self.volumes().into_iter().find(is_cut_off)
    }
}

impl Arrays {
    /// Rolls back an interrupted reshape start that could not be rolled back before: all other work
    /// on the array waits for it.
    ///
    /// # Errors
    /// Why it cannot be rolled back: then it is to be retried.
    pub(crate) async fn leave_cut_off(self: &Rc<Self>, array: &Rc<Array>) -> Result<()> {
        if array.cut_off().is_none() {
            return Ok(());
        }
        let _starting = array.starting.take(1).await;
        // A start in progress has finished by now.
        match array.cut_off() {
            Some(volume) => self.leave_reshape_now(array, &volume).await,
            None => Ok(()),
        }
    }

    /// At a start: rolls back interrupted reshape starts in the label that is about to be recorded.
    /// Returns the drives that are free then, and the regions that are not in use any more.
    pub(crate) fn take_back_unbegun(
        &self,
        array: &Array,
        next: &mut Label,
    ) -> (Vec<Rc<Drive>>, Vec<std::ops::Range<u32>>) {
        let unbegun = next.volume.iter().find(|of| of.reshape.as_ref().is_some_and(|at| !at.begun));
        let Some(uuid) = unbegun.map(|of| of.uuid) else { return Default::default() };
        let regions = regions_of_parts(next, uuid);
        taken_back(next, uuid);
        let mut places = array.places();
        let left = places.split_off(next.member.len().min(places.len()));
        array.set_places(places);
        (left.into_iter().filter_map(|place| place.drive).collect(), regions)
    }
}
