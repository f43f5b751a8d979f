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
//! volumes of the array lie on different drives.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::arrays::way::Way;
use crate::interface::{Error, ErrorKind, Result};
use ondisk::{FollowsLabel, Label, VolumeLabel};
use std::rc::Rc;
use units::DriveCount;

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

    /// The volume of it that moves now, or is to begin: of those that follow the first one that can.
    pub(crate) fn moves_now(&self) -> Option<Rc<Volume>> {
        let begun = self.volumes().into_iter().find(|volume| volume.is_on_its_way());
        let next = || self.followers().into_iter().find(|volume| volume.is_served());
        begun.or_else(next)
    }

    /// The volume of it that is on its way to another layout, or is to be next.
    pub(crate) fn on_its_way(&self) -> Option<Rc<Volume>> {
        self.moves_now().or_else(|| self.followers().into_iter().next())
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
        volume.follows() || !self.together_with(volume).is_empty()
    }

    /// The volume that an operator named whose other volumes move along, if it is on its way still: all of an order is taken back with it.
    pub(crate) fn leads(&self) -> Option<Rc<Volume>> {
        self.volumes().into_iter().find(|volume| volume.is_on_its_way() && volume.label().follows.is_none())
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
