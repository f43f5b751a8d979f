//! Writes without redundancy by shards that do not own the stripe: *beside* its owner.
//!
//! Whatever changes a stripe goes by its owner, who alone has its locks, its mark, its line, and what is kept of its reads. A write of whole
//! sectors on a level without redundancy hardly needs him, and sending it to him costs two shards more than writing it. So another shard does it
//! itself, where nothing is missing of what the owner is there for:
//!
//! | what the owner sees to | why he is not missed |
//! | --- | --- |
//! | marks, redundancy, records of a journal | there is no redundancy that would have to agree with anything |
//! | two writes of the same sectors | both are outstanding, and a drive carries them out in any order; so it is with two that the owner has, whose locks are shared |
//! | bytes that are read, changed and written again: parts of sectors that are completed, repairs, copies, stripes that go out of use | whoever holds such bytes alone has *closed* the volume before: nobody begins beside him until he is done, and he has waited for those who were writing |
//! | a drive that is being filled gets what the slot's drive gets | from the first shard on that knows of it, or of anything else that is not well, to the last one that knows how it ended, nobody writes beside anybody ([`Drives::look_at_health`](crate::members::Drives)): shards hear of changes one after the other; those who began before that are waited for by the copy, which holds stripes alone |
//! | blocks that are lost | that they are is known to every shard before whoever holds the stripe lets go of it |
//! | what is dirty | every shard knows that writes are answered by the cache before the first of them is ([`Absorb::NoMore`](crate::Absorb)) |
//! | what is kept of reads | a shard that keeps anything of the volume has it closed as long, and keeps nothing that was read while others were still writing |
//! | going to another layout | by the windows that hosts wait for, on every shard; a shard for which not all stripes are in use sends the write to the owner |
//! | flushes, errors, drives that fail | each shard flushes the drives, whoever wrote to them; and deals with errors of its own operations |
//!
//! # Invariants
//! - A shard on which anything of the volume is not well has it closed.
//! - While somebody has the volume closed nobody begins to write beside the owner.
//! - Whoever waits for those that are writing holds nothing that they need: they wait for their drive alone.

use crate::attachment::{Beside, Closed};
use crate::stripe::Stripes;
use std::time::Duration;

/// After what time whoever has closed a volume looks whether somebody is still writing. Each further look is after twice the time, up to
/// [`LONGEST`]: a drive that stalls does so for long.
const LOOK: Duration = Duration::from_micros(50);

/// See [`LOOK`].
const LONGEST: Duration = Duration::from_millis(5);

impl Stripes {
    /// Begins a write of whole sectors to stripes of other shards. `None`: their owners have to do it.
    pub(crate) fn write_beside(&self) -> Option<Beside> {
        let live = self.live();
        let is_all = live.start == 0 && live.end >= self.geometry().stripes().0;
        let may = is_all && !self.is_redundant() && self.all_well.get();
        if may { self.beside.begin() } else { None }
    }

    /// Keeps those away who write beside the owners of stripes, for somebody who is about to hold a stripe alone, and holds nothing yet. Done
    /// when none of them is writing.
    pub(crate) async fn close_beside(&self) -> Option<Closed> {
        if self.is_redundant() || self.shard.count() == 1 {
            return None;
        }
        let closed = self.beside.close();
        let mut pause = LOOK;
        while self.beside.is_written() {
            self.shard.env().sleep(pause).await;
            pause = LONGEST.min(2 * pause);
        }
        Some(closed)
    }
}
