//! Drives that are taken from shards, until they have returned everything.
//!
//! # Fault model
//! A drive may carry out what it was asked at any time, long after whoever asked was told that it failed; or never, and
//! never say so.
//!
//! # Invariants
//! - A drive *leaves* a volume's shards when it goes out of its slot, when another one takes that, and when the volume
//!   is not served any more: deleted, stopped, or served anew. From before the shards are told until each of them has
//!   everything back that it asked of the drive, it is draining ([`Drive::is_draining`]).
//! - What is draining is used for nothing else: it is no spare, no member of anything new, and not forgotten; its label
//!   is not believed. It would get a write from before on top of what it is given (rule (d) of the promises). Nor does
//!   the same volume use it again, its journal among that: a write from before may go where a new one has been.
//! - Nobody waits for that longer than one waits for a command. What takes a drive away is done with it; what would use
//!   it is refused, with its name.
//! - When the process ends, the system keeps the drive locked for as long as it has something under way.

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

/// The seats of a volume that shards are told to let go of, and whether they have everything back from who had them.
pub(crate) struct Draining(Vec<(Seat, IsQuiesced)>);

impl Draining {
    /// Notes it of the drives that have the seats now.
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
    /// Begins to let go of all seats of an array. Whom each shard is to tell of which.
    pub(super) fn drain_seats(self: &Rc<Self>, array: &Array) -> (Draining, Vec<(Seat, Done)>) {
        let (mut draining, mut asked) = (Vec::new(), Vec::new());
        for seat in array.seats() {
            let (done, told) = mailbox::mailbox(&self.env, self.shards.len());
            draining.push((seat, self.when_drained(told)));
            asked.push((seat, done));
        }
        (Draining(draining), asked)
    }

    /// A drive is taken from shards, which say so when they have everything back.
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
            // It may be what somebody waits for.
            this.attention.look_after();
        });
        is_quiesced
    }

    /// Waits, for so long as one waits for a command, until the drives that a volume would use have returned everything
    /// that they were asked when it was served before.
    ///
    /// # Errors
    /// Which drive has not.
    pub(super) async fn check_returned(&self, array: &Array, volume: &Volume) -> Result<()> {
        let late = || array.to_serve().into_iter().find(|drive| volume.is_draining(drive));
        settles(&self.env, || late().is_none()).await;
        late().map_or(Ok(()), |drive| Err(drive.not_quiesced()))
    }

    /// The same for the space of all volumes that there are, and were, on an array.
    ///
    /// # Errors
    /// Which drive has not.
    pub(crate) async fn check_all_returned(&self, array: &Array) -> Result<()> {
        let late = || array.to_serve().into_iter().find(|drive| drive.is_draining());
        settles(&self.env, || late().is_none()).await;
        late().map_or(Ok(()), |drive| Err(drive.not_quiesced()))
    }
}

/// What is to be known of drives that are free, but for what they have not returned: a sentence each.
pub(crate) fn notes<'a>(drives: impl IntoIterator<Item = &'a Rc<Drive>>) -> Vec<String> {
    let late = drives.into_iter().filter(|drive| drive.is_draining());
    let told = |drive: &Rc<Drive>| -> String {
        format!("drive {} can be used again when all of its outstanding writes have returned", drive.name)
    };
    late.map(told).collect()
}
