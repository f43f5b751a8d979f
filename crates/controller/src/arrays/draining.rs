//! Drives that leave the shards, until they have completed all outstanding operations.
//!
//! # Fault model
//! A drive may carry out an operation at any time, long after the requester received an error; or
//! never, without a response.
//!
//! # Invariants
//! - A drive *leaves* a volume's shards when it loses its slot, when another drive takes the slot,
//!   and when the volume is not served any more: deleted, stopped, or attached anew. It is draining
//!   from before the shards are notified until each has all its operations back
//!   ([`Drive::is_draining`]).
//! - A draining drive has no other use: it is no spare and no member of a new array, it is not
//!   forgotten, and its label is not trusted. An old write could overwrite its new content (rule
//!   (d) of durability). The same volume, its journal included, does not use it again either: an
//!   old write could overwrite a newer one.
//! - The wait for a draining drive is limited to that of a command. A command that removes a drive
//!   completes; a command that needs it is refused, with the drive's name.
//! - When the process ends, the system keeps the drive locked while it has outstanding operations.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::shards::{Answers, answers};
use crate::arrays::volume::Volume;
use crate::interface::Result;
use crate::inventory::IsQuiesced;
use crate::inventory::{Drive, settles};
use engine::{Done, Seat};
use platform::mailbox;
use std::rc::Rc;

/// The positions of a volume that the shards release, and whether their drives have completed all
/// operations.
pub(crate) struct Draining(Vec<(Seat, IsQuiesced)>);

impl Draining {
    /// Records the draining at the drives that have these positions now.
    pub(crate) fn note(&self, array: &Array, volume: &Volume) {
        for (seat, is_quiesced) in &self.0 {
            if let Some(drive) = array.drive_at(*seat) {
                drive.note_draining(is_quiesced);
                volume.note_draining(&drive, is_quiesced);
            }
        }
    }
}

impl Arrays {
    /// Begins to release all positions of an array. Returns the draining state, and for each
    /// position the completion handle for the shards.
    pub(super) fn drain_seats(self: &Rc<Self>, array: &Array) -> (Draining, Vec<(Seat, Done)>) {
        let (mut draining, mut asked) = (Vec::new(), Vec::new());
        for seat in array.seats() {
            let (done, told) = mailbox::mailbox(&self.env, self.shards.len());
            draining.push((seat, self.when_drained(told)));
            asked.push((seat, done));
        }
        (Draining(draining), asked)
    }

    /// A drive leaves the shards, which report when they have all operations back.
    pub(crate) fn drain(self: &Rc<Self>, drive: &Drive, told: Answers) {
        drive.note_draining(&self.when_drained(told));
    }

    fn when_drained(self: &Rc<Self>, told: Answers) -> IsQuiesced {
        let is_quiesced = IsQuiesced::default();
        let (this, set) = (self.clone(), is_quiesced.clone());
        self.env.spawn("drive drains", async move {
            if let Err(why) = answers(told).await {
                tracing::warn!("a shard did not release a drive: {why}");
            }
            set.set(true);
            // The reconciler may wait for it.
            this.attention.look_after();
        });
        is_quiesced
    }

    /// Waits, at most as long as a command waits, until the drives that a volume would use have
    /// completed all operations of its previous attachment.
    ///
    /// # Errors
    /// Which drive has not.
    pub(super) async fn check_returned(&self, array: &Array, volume: &Volume) -> Result<()> {
        let late = || array.to_serve().into_iter().find(|drive| volume.is_draining(drive));
        settles(&self.env, || late().is_none()).await;
        late().map_or(Ok(()), |drive| Err(drive.not_quiesced()))
    }

    /// The same for the space of all current and former volumes of an array.
    ///
    /// # Errors
    /// Which drive has not.
    pub(crate) async fn check_all_returned(&self, array: &Array) -> Result<()> {
        let late = || array.to_serve().into_iter().find(|drive| drive.is_draining());
        settles(&self.env, || late().is_none()).await;
        late().map_or(Ok(()), |drive| Err(drive.not_quiesced()))
    }
}

/// Notes about drives that are free except for outstanding operations: a sentence each.
pub(crate) fn notes<'a>(drives: impl IntoIterator<Item = &'a Rc<Drive>>) -> Vec<String> {
    let late = drives.into_iter().filter(|drive| drive.is_draining());
    let told = |drive: &Rc<Drive>| -> String {
        format!(
            "drive {} can be used again when all of its outstanding writes have returned",
            drive.name
        )
    };
    late.map(told).collect()
}
