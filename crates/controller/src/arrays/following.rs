//! Queued volumes: they reshape to the same number of drives as the volume that an operator named,
//! one after the other.
//!
//! # Order of steps
//! 1. The label that names the new drives and the parts of the first volume marks each other volume
//!    as queued, with its current number of drives. A rollback of the first volume's start removes
//!    that too (`reshape`). After a later crash, the next start continues.
//! 2. A queued volume is served by its current layout until the volume before it has finished.
//! 3. Then its reshape starts like any other, but without new drives: the next label names its
//!    parts. After a crash before that label records the start, the next start removes the parts,
//!    and the volume is queued again.
//! 4. When it has its new layout it is not queued any more (`arriving`). Members are removed when
//!    no volume is queued (`leaving`).
//!
//! Drives that fail meanwhile are left out, and spares take their slots when all volumes are done:
//! until then the volumes use different drives. A volume that could not lose them by its new layout
//! does not start; volumes behind it that can start go first. When none can, drives are replaced
//! although volumes are queued. Such a drive is rebuilt for the volumes on its slot; a volume that
//! starts later writes it completely.

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

/// The next queued volume of a label.
pub(crate) fn next_follower(label: &Label) -> Option<(VolumeLabel, FollowsLabel)> {
    let following = label.volume.iter().filter(|of| of.reshape.is_none());
    following.filter_map(|of| Some((of.clone(), of.follows.clone()?))).next()
}

impl Array {
    /// Its queued volumes, whose reshape has not started.
    pub(crate) fn followers(&self) -> Vec<Rc<Volume>> {
        self.volumes().into_iter().filter(|volume| volume.follows()).collect()
    }

    /// The volume that is reshaping, or starts next: the first queued one that can. No reshape
    /// starts during an interrupted start of another one.
    pub(crate) fn moves_now(&self) -> Option<Rc<Volume>> {
        let on_its_way = self.volumes().into_iter().find(|volume| volume.label().reshape.is_some());
        let can = |volume: &Rc<Volume>| volume.is_served() && self.held_up(volume).is_none();
        on_its_way.or_else(|| self.followers().into_iter().find(can))
    }

    /// The volume that is reshaping, or is next.
    pub(crate) fn on_its_way(&self) -> Option<Rc<Volume>> {
        self.moves_now().or_else(|| self.followers().into_iter().next())
    }

    /// Why a queued volume cannot start now: a sentence. Its new layout would not tolerate the
    /// drives that are out: none of its data could be made durable, and the next start would refuse
    /// it, although its current drives have all its data.
    pub(crate) fn held_up(&self, volume: &Volume) -> Option<String> {
        let (label, of) = (self.label(), volume.label());
        let follows = of.follows.as_ref().filter(|_| of.reshape.is_none())?;
        // A volume without a possible reshape gets that error when its turn comes.
        let way = Way::along(&label, &of, DriveCount(follows.members)).ok()?;
        let own = DriveSet::first(way.geometry.drives());
        let (out, behind) = (self.out().intersection(&own), self.behind(volume).intersection(&own));
        let without = out.union(&behind);
        if way.geometry.survives_set(&without) && way.save.survives_set(&without) {
            return None;
        }
        let name =
            |slot: DriveIndex| label.member.get(slot.as_usize()).map(|member| member.name.clone());
        let names = |slots: &DriveSet| slots.iter().filter_map(name).collect::<Vec<_>>().join(", ");
        let Some(first) = out.iter().next() else {
            return Some(format!("drive {} is rebuilt first", names(&behind)));
        };
        Some(format!(
            "'{}' needs drives that are out of service ({}); run 'softroc drive online {}', or \
            'softroc drive replace {}:{} --with DRIVE'",
            of.name,
            names(&out),
            name(first).unwrap_or_default(),
            self.name(),
            first.0
        ))
    }

    /// The target layout of a reshaping or queued volume; none where no reshape is possible.
    pub(crate) fn aim_of(&self, volume: &Rc<Volume>) -> Option<Geometry> {
        if let Some((to, _)) = self.parts_of(volume) {
            return Some(to.geometry);
        }
        let (label, of) = (self.label(), volume.label());
        let drives = DriveCount(of.follows.as_ref()?.members);
        Way::along(&label, &of, drives).ok().map(|way| way.geometry)
    }

    /// Its label, in which queued volumes have their future size on each drive: a drive that takes
    /// a slot before needs space for that.
    pub(crate) fn label_to_come(&self) -> Label {
        let mut label = self.label();
        for of in self.followers().iter().map(|volume| volume.label()) {
            let way = of
                .follows
                .as_ref()
                .map(|follows| Way::along(&label, &of, DriveCount(follows.members)));
            // A volume without a possible reshape stays as it is.
            if let Some(Ok(way)) = way
                && let Some(next) = label.volume_mut(of.uuid)
            {
                next.member_bytes = next.member_bytes.max(way.geometry.member_size().0);
            }
        }
        label
    }

    /// Whether no volume moves, and none will before a drive takes a slot that is out: then drives
    /// are replaced although volumes are queued.
    pub(crate) fn waits_for_drives(&self) -> bool {
        let is_held_up = |volume: &Rc<Volume>| volume.is_served() && self.held_up(volume).is_some();
        self.moves_now().is_none() && self.followers().iter().any(is_held_up)
    }

    /// Whether the drive of a slot that is out may come back although volumes are queued: one waits
    /// for it, and none is reshaping except volumes that cannot continue without it.
    pub(crate) fn may_come_back(&self, slot: usize) -> bool {
        let lacks_it = |volume: &Rc<Volume>| {
            !volume.is_served() && volume.lost().contains(DriveIndex(slot as u16))
        };
        let (begun, others): (Vec<_>, Vec<_>) =
            self.volumes().into_iter().partition(|volume| volume.label().reshape.is_some());
        let follows = |volume: &Rc<Volume>| volume.follows() && lacks_it(volume);
        let is_waited_for =
            || !begun.is_empty() || self.waits_for_drives() || others.iter().any(follows);
        begun.iter().all(lacks_it) && !self.in_use().contains(&slot) && is_waited_for()
    }

    /// Whether a new drive may take a slot that is out although a reshaping volume lost drives and
    /// cannot continue. All reshaping volumes and all on that slot must survive without the drives
    /// that are out or to rebuild. The old drive's data is not needed then.
    pub(crate) fn may_be_replaced(&self, slot: usize) -> bool {
        let has_begun = |volume: &Rc<Volume>| volume.label().reshape.is_some();
        let volumes = self.volumes();
        let concerned = volumes.iter().filter(|volume| has_begun(volume) || volume.is_on(slot));
        let is_spared =
            |part: &Rc<Volume>| part.survives(&self.out_of(part).union(&self.behind(part)));
        let mut all = concerned.flat_map(|volume| self.with_parts(volume));
        self.may_come_back(slot)
            && volumes.iter().any(has_begun)
            && all.all(|part| is_spared(&part))
    }

    /// The slots that are out and that a volume uses, by its current or target layout. In other
    /// slots it has no data.
    pub(crate) fn out_of(&self, volume: &Volume) -> DriveSet {
        match volume.is_on_its_way() {
            true => self.out(),
            false => volume.own_drives(&self.out()),
        }
    }

    /// Those of the regions whose volumes use a slot: its drive has no data of others.
    pub(crate) fn of_slot(&self, slot: usize, mut regions: RegionSet) -> RegionSet {
        let volumes = self.volumes();
        let elsewhere = volumes.iter().filter(|volume| !volume.is_on(slot));
        elsewhere.for_each(|volume| regions.remove_all(&volume.all_regions()));
        regions
    }

    /// Checks that no volume of it is reshaping.
    ///
    /// # Errors
    /// Which one is.
    pub(crate) fn check_stands(&self) -> Result<()> {
        let Some(volume) = self.on_its_way() else { return Ok(()) };
        let sentence = format!(
            "'{}' is being reshaped: this can be done when the reshape is complete; run 'softroc \
            task list' for its progress",
            volume.name()
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Whether a volume is reshaping, part of a reshape, or queued: its writes are not acknowledged
    /// from the cache.
    pub(super) fn is_to_move(&self, volume: &Volume) -> bool {
        let label = volume.label();
        label.follows.is_some() || label.reshape.is_some() || !self.together_with(volume).is_empty()
    }

    /// The volume that an operator named and that others are queued behind, if it is still
    /// reshaping: its rollback rolls back the whole command.
    pub(crate) fn leads(&self) -> Option<Rc<Volume>> {
        let leads = |of: VolumeLabel| of.reshape.is_some() && of.follows.is_none();
        self.volumes().into_iter().find(|volume| leads(volume.label()))
    }
}

impl Arrays {
    /// Starts the reshape of a queued volume.
    ///
    /// # Errors
    /// Why it has not started: then all is unchanged.
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
                let sentence = format!(
                    "'{}' is queued behind another reshape; run 'softroc task list'",
                    of.name
                );
                Error::new(ErrorKind::WrongState, sentence)
            })?;
            let way = Way::along(&label, &of, DriveCount(follows.members)).map_err(|why| {
                let sentence = format!(
                    "'{0}' cannot be reshaped: {why}; run 'softroc volume show {0}'",
                    of.name
                );
                Error::new(why.kind, sentence)
            })?;
            self.label_on_its_way(label, &of, (&way, follows.to))
        };
        self.begin_reshape(array, volume, next, &[]).await
    }
}
