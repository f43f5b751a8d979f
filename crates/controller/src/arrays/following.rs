//! Volumes that come to as many drives as another one of their array does, which an operator named: one after the other.
//!
//! # The order of things
//! 1. The label that names the new drives and the parts of the first volume says of each other one that it follows, and on how many drives it
//!    lies until then. What is taken back of the first volume's beginning is that as well (`reshape`). Killed from there on: the next start goes on.
//! 2. A volume that follows is served by the layout that it has, as if nothing were ahead of it, until the one before it has come to its own.
//! 3. Then it begins as any other does, but without new drives: the next label names its parts. Killed before that label says that it has
//!    begun: the next start takes the parts back, and it still follows.
//! 4. When it has come to its layout it follows no more (`arriving`). Members that are removed go when none does (`leaving`).
//!
//! Drives that are lost meanwhile are done without, also where a volume begins after that, and spares take their places when all have come: until then the
//! volumes of the array lie on different drives. A volume that could not do without them by its new layout does not begin, and those behind it that can go
//! first. When none can, drives are exchanged though volumes follow still. What such a drive has to be given is of the volumes that lie on its slot; of one that
//! begins afterwards all that is there is new.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::arrays::way::Way;
use crate::interface::{Error, ErrorKind, Result};
use engine::RegionSet;
use layout::Geometry;
use ondisk::{FollowsLabel, Label, VolumeLabel};
use std::rc::Rc;
use units::{DriveCount, DriveIndex, DriveSet};

/// The volume of a label that is next to begin of those that follow.
pub(crate) fn next_follower(label: &Label) -> Option<(VolumeLabel, FollowsLabel)> {
    let following = label.volume.iter().filter(|of| of.reshape.is_none());
    following.filter_map(|of| Some((of.clone(), of.follows.clone()?))).next()
}

impl Array {
    /// Volumes of it that come to other drives after another one, and have not begun.
    pub(crate) fn followers(&self) -> Vec<Rc<Volume>> {
        self.volumes().into_iter().filter(|volume| volume.follows()).collect()
    }

    /// The volume of it that moves now, or is to begin: of those that follow the first one that can. Nothing begins beside a beginning that was cut off.
    pub(crate) fn moves_now(&self) -> Option<Rc<Volume>> {
        let on_its_way = self.volumes().into_iter().find(|volume| volume.label().reshape.is_some());
        let can = |volume: &Rc<Volume>| volume.is_served() && self.held_up(volume).is_none();
        on_its_way.or_else(|| self.followers().into_iter().find(can))
    }

    /// The volume of it that is on its way to another layout, or is to be next.
    pub(crate) fn on_its_way(&self) -> Option<Rc<Volume>> {
        self.moves_now().or_else(|| self.followers().into_iter().next())
    }

    /// Why a volume that follows others cannot begin now: a sentence. By its new layout it could not do without drives that are out, so nothing of it could be
    /// made durable, and the next start would refuse it, though the drives that it lies on have all of it.
    pub(crate) fn held_up(&self, volume: &Volume) -> Option<String> {
        let (label, of) = (self.label(), volume.label());
        let follows = of.follows.as_ref().filter(|_| of.reshape.is_none())?;
        // One that has no way is told so when it is its turn.
        let way = Way::along(&label, &of, DriveCount(follows.members)).ok()?;
        let own = DriveSet::first(way.geometry.drives());
        let (out, behind) = (self.out().intersection(&own), self.behind(volume).intersection(&own));
        let without = out.union(&behind);
        if way.geometry.survives_set(&without) && way.save.survives_set(&without) {
            return None;
        }
        let name = |slot: DriveIndex| label.member.get(slot.as_usize()).map(|member| member.name.clone());
        let names = |slots: &DriveSet| slots.iter().filter_map(name).collect::<Vec<_>>().join(", ");
        let Some(first) = out.iter().next() else {
            return Some(format!("what drive {} missed is rebuilt first", names(&behind)));
        };
        Some(format!(
            "'{}' is to lie on drives that are out ({}), and cannot do without them; run 'softroc drive online {}', or 'softroc drive replace {}:{} --with DRIVE'",
            of.name,
            names(&out),
            name(first).unwrap_or_default(),
            self.name(),
            first.0
        ))
    }

    /// The layout that a volume which is on its way, or follows others, is to have in the end; none where there is no way.
    pub(crate) fn aim_of(&self, volume: &Rc<Volume>) -> Option<Geometry> {
        if let Some((to, _)) = self.parts_of(volume) {
            return Some(to.geometry);
        }
        let (label, of) = (self.label(), volume.label());
        let drives = DriveCount(of.follows.as_ref()?.members);
        Way::along(&label, &of, drives).ok().map(|way| way.geometry)
    }

    /// Its label, in which volumes that follow others take as much of each drive as they will: a drive that takes a slot before is to have room for that.
    pub(crate) fn label_to_come(&self) -> Label {
        let mut label = self.label();
        for of in self.followers().iter().map(|volume| volume.label()) {
            let way = of.follows.as_ref().map(|follows| Way::along(&label, &of, DriveCount(follows.members)));
            // One that has no way stays as it is.
            if let Some(Ok(way)) = way
                && let Some(next) = label.volume_mut(of.uuid)
            {
                next.member_bytes = next.member_bytes.max(way.geometry.member_size().0);
            }
        }
        label
    }

    /// Whether nothing of it moves, and nothing will before a drive takes a slot that is out: then drives are exchanged though volumes follow still.
    pub(crate) fn waits_for_drives(&self) -> bool {
        let is_held_up = |volume: &Rc<Volume>| volume.is_served() && self.held_up(volume).is_some();
        self.moves_now().is_none() && self.followers().iter().any(is_held_up)
    }

    /// Whether the drive of a slot that is out may come back though volumes follow still: one waits for it, and none moves, nor has begun, but for one that
    /// cannot go on without it.
    pub(crate) fn may_come_back(&self, slot: usize) -> bool {
        let lacks_it =
            |volume: &Rc<Volume>| !volume.is_served() && volume.lost().contains(DriveIndex(slot as u16));
        let (begun, others): (Vec<_>, Vec<_>) =
            self.volumes().into_iter().partition(|volume| volume.label().reshape.is_some());
        let follows = |volume: &Rc<Volume>| volume.follows() && lacks_it(volume);
        let is_waited_for = || !begun.is_empty() || self.waits_for_drives() || others.iter().any(follows);
        begun.iter().all(lacks_it) && !self.in_use().contains(&slot) && is_waited_for()
    }

    /// Whether a new drive may take a slot that is out though a volume has begun, which cannot go on as it lost what is out: all that has begun, and all that
    /// lies on that slot, can do without what is out and without what is to be rebuilt. What the drive before holds is not wanted then.
    pub(crate) fn may_be_replaced(&self, slot: usize) -> bool {
        let has_begun = |volume: &Rc<Volume>| volume.label().reshape.is_some();
        let volumes = self.volumes();
        let concerned = volumes.iter().filter(|volume| has_begun(volume) || volume.is_on(slot));
        let is_spared = |part: &Rc<Volume>| part.survives(&self.out_of(part).union(&self.behind(part)));
        let mut all = concerned.flat_map(|volume| self.with_parts(volume));
        self.may_come_back(slot) && volumes.iter().any(has_begun) && all.all(|part| is_spared(&part))
    }

    /// Of a volume: slots that are out, of those that it lies on or is on its way to. Of others it misses nothing.
    pub(crate) fn out_of(&self, volume: &Volume) -> DriveSet {
        match volume.is_on_its_way() {
            true => self.out(),
            false => volume.own_drives(&self.out()),
        }
    }

    /// Those of regions of the array that are of volumes which lie on a slot: of others its drive has nothing.
    pub(crate) fn of_slot(&self, slot: usize, mut regions: RegionSet) -> RegionSet {
        let volumes = self.volumes();
        let elsewhere = volumes.iter().filter(|volume| !volume.is_on(slot));
        elsewhere.for_each(|volume| regions.remove_all(&volume.all_regions()));
        regions
    }

    /// Looks that no volume of it is on its way to another layout.
    ///
    /// # Errors
    /// Which one is.
    pub(crate) fn check_stands(&self) -> Result<()> {
        let Some(volume) = self.on_its_way() else { return Ok(()) };
        let sentence = format!(
            "'{}' is on its way to another layout: this can be done when it is there; run 'softroc task list' for its progress",
            volume.name()
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Whether a volume is on its way, a part of one that is, or to be on one: its writes are not answered from the cache.
    pub(super) fn is_to_move(&self, volume: &Volume) -> bool {
        let label = volume.label();
        label.follows.is_some() || label.reshape.is_some() || !self.together_with(volume).is_empty()
    }

    /// The volume that an operator named whose other volumes move along, if it is on its way still: all of an order is taken back with it.
    pub(crate) fn leads(&self) -> Option<Rc<Volume>> {
        let leads = |of: VolumeLabel| of.reshape.is_some() && of.follows.is_none();
        self.volumes().into_iter().find(|volume| leads(volume.label()))
    }
}

impl Arrays {
    /// A volume that follows others begins.
    ///
    /// # Errors
    /// Why it has not begun: then all is as it was.
    pub(crate) async fn begin_following(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let next = || {
            let (label, of) = (array.label(), volume.label());
            if let Some(why) = array.held_up(volume) {
                return Err(Error::new(ErrorKind::WrongState, why));
            }
            let is_next = array.moves_now().is_some_and(|now| Rc::ptr_eq(&now, volume));
            let follows = of.follows.clone().filter(|_| is_next && of.reshape.is_none());
            let follows = follows.ok_or_else(|| {
                let sentence = format!("it is not the turn of '{}'; run 'softroc task list'", of.name);
                Error::new(ErrorKind::WrongState, sentence)
            })?;
            let way = Way::along(&label, &of, DriveCount(follows.members)).map_err(|why| {
                let sentence =
                    format!("'{0}' cannot be moved: {why}; run 'softroc volume show {0}'", of.name);
                Error::new(why.kind, sentence)
            })?;
            self.label_on_its_way(label, &of, (&way, follows.to))
        };
        self.begin_reshape(array, volume, next, &[]).await
    }
}
