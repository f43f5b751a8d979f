//! What a beginning that was cut off, or an order that is stopped, leaves in a label: taken back by a start, by whoever stops it, or by the reconciler.
//!
//! A drive may go out by the very change that says that a volume has begun, or before anything of it has moved. Where the volume's parts cannot do without it, a start
//! counts that as a beginning that was cut off: all of the volume is where it was.
//!
//! # Invariants
//! - Nothing begins while a label has a beginning that was cut off (`following`).
//! - No member goes on which another volume lies, or to which one is on its way.

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

/// How many members a label has without those that were to come by a beginning that was cut off. A volume that follows others begins on members that
/// are there.
pub(crate) fn own_members(label: &Label) -> usize {
    let is_cut_off = |of: &VolumeLabel| of.reshape.as_ref().is_some_and(|at| !at.begun);
    let begins = |of: &&VolumeLabel| is_cut_off(of) && of.follows.is_none();
    let members = label.volume.iter().find(begins).and_then(|of| of.members);
    members.map_or(label.member.len(), usize::from)
}

/// What drives tell, as a start understands it: a beginning of which nothing has moved counts as cut off where it cannot go on without what is out, and the volume
/// can be served by the layout that it has. Then the volumes of which all of the way is taken back by that, and what they were to come to.
pub(super) fn as_understood(found: &FoundArray) -> (Label, Vec<(Uuid, Uuid)>) {
    let (told, out) = (&found.label, found.out().union(&found.label.out()));
    let is_stuck = |of: &&VolumeLabel| {
        let has_moved = |at: &ReshapeLabel| (at.moved_bytes, at.saved_bytes) != (0, 0);
        let Some(reshape) = of.reshape.as_ref().filter(|at| at.begun && !has_moved(at)) else { return false };
        let is_ready = |of: &VolumeLabel| readiness(told, of, &out) != Readiness::Offline;
        let mut parts = told.volume.iter().filter(|part| [reshape.to, reshape.save].contains(&part.uuid));
        is_ready(&alone(told, of, &out)) && !parts.all(is_ready)
    };
    let mut label = told.clone();
    let Some(stuck) = told.volume.iter().find(is_stuck) else { return (label, Vec::new()) };
    if let Some(of) = label.volume_mut(stuck.uuid) {
        *of = alone(told, stuck, &out);
        of.reshape.iter_mut().for_each(|at| at.begun = false);
    }
    missed_by_the_lost(&mut label, stuck);
    // One that follows others begins again; with any other all of the order is taken back.
    let ends = |of: &VolumeLabel| {
        let to = of.reshape.as_ref().map(|at| at.to).or(of.follows.as_ref().map(|follows| follows.to));
        to.filter(|_| stuck.follows.is_none()).map(|to| (of.uuid, to))
    };
    let ended = told.volume.iter().filter_map(ends).collect();
    (label, ended)
}

/// A volume on its way of which nothing has moved, by the layout that it has. What it has lost, its parts may have lost alone: where it can do without all of
/// that, and without what is out, it has lost nothing.
fn alone(label: &Label, of: &VolumeLabel, out: &DriveSet) -> VolumeLabel {
    let alone = VolumeLabel { lost: Vec::new(), ..of.clone() };
    let lost = slots(of.lost.iter().map(|slot| usize::from(*slot)));
    match readiness(label, &alone, &out.union(&lost)) {
        Readiness::Offline => of.clone(),
        _ => alone,
    }
}

/// A volume goes on without drives that it was said to have lost, and nothing was noted of what those missed of it: all of it.
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
    let parts = label.volume.iter().filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume));
    parts.map(|of| of.first_region..of.end_region()).collect()
}

/// A label without a volume's parts. Of one that follows others that is all; with any other all of the order is taken back: the drives that it was to
/// get, and what its array's other volumes were to do.
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
        return; // Another one has begun: all members stay, and the rest goes on.
    }
    let kept = others.map(|of| lies_on(of.members)).fold(lies_on(own), usize::max);
    next.volume.iter_mut().for_each(|of| {
        (of.members, of.follows) = (of.members.filter(|members| usize::from(*members) < kept), None);
    });
    next.member.truncate(kept);
    // It may have come from one of the drives that are members no more.
    if next.slot().is_none() {
        next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
    }
}

impl Array {
    /// Notes which ways of its volumes the next start takes back though they had begun ([`as_understood`]).
    pub(super) fn note_taken_back(&self, taken_back: &[(Uuid, Uuid)]) {
        for volume in self.volumes() {
            let of = taken_back.iter().find(|(uuid, _)| *uuid == volume.uuid());
            volume.set_taken_back(of.map(|(_, to)| *to));
        }
    }

    /// The volume of it whose beginning was cut off, if there is one; or that begins now. It may be recorded, and no shard have its parts: hosts use it as
    /// before then, and nobody can move it.
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
    /// Takes back a beginning that was cut off, and could not be taken back then: everything else of the array waits for it.
    ///
    /// # Errors
    /// Why it cannot be taken back: then it is to be tried again.
    pub(crate) async fn leave_cut_off(self: &Rc<Self>, array: &Rc<Array>) -> Result<()> {
        if array.cut_off().is_none() {
            return Ok(());
        }
        let _starting = array.starting.take(1).await;
        // One that begins has begun by now.
        match array.cut_off() {
            Some(volume) => self.leave_reshape_now(array, &volume).await,
            None => Ok(()),
        }
    }

    /// A start: what was not begun is taken back, in the label that is about to be recorded. The drives that are free then, and the regions
    /// that have no meaning.
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
