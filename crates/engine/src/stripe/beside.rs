//! Non-owner writes: writes without redundancy by shards that do not own the stripe.
//!
//! The owner of a stripe holds its locks, mark, cache line and read cache entries. Sending a write
//! of whole sectors to the owner costs two shards more than the write. On a level without
//! redundancy another shard performs the write itself; each duty of the owner is covered in another
//! way:
//!
//! - Marks, redundancy, journal records: the level has no redundancy.
//! - Order of writes to the same sectors: all are outstanding, and a drive may reorder them. Owners
//!   share their locks for such writes too.
//! - Exclusive use (partial sectors, repairs, copies, stripes removed from use): the task first
//!   *closes* the volume to non-owner writes, and waits for those in progress.
//! - Writes to a replacement drive: non-owner writes stop before the first shard sees a change of
//!   health ([`Drives::look_at_health`](crate::members::Drives)), and resume after the last shard
//!   knows its end. The copy locks stripes exclusively, and so waits for earlier writes.
//! - Lost blocks: every shard has the list before the owner unlocks the stripe.
//! - Dirty data: every shard knows of write-back before the first write is acknowledged from the
//!   cache ([`Absorb::NoMore`](crate::Absorb)).
//! - Read cache: a shard that caches reads keeps the volume closed, and drops data that was read
//!   during non-owner writes.
//! - Reshape: its windows make hosts wait on every shard. A shard for which some stripes are not in
//!   use sends the write to the owner.
//! - Flushes, errors, drive failures: each shard flushes all drives, and handles errors of its own
//!   operations.
//!
//! # Invariants
//! - A shard keeps the volume closed while the volume is not healthy on it.
//! - While the volume is closed no non-owner write begins.
//! - A task that waits for non-owner writes holds nothing that they need: they wait for their
//!   drives only.

use crate::attachment::{Beside, Closed};
use crate::stripe::Stripes;
use std::time::Duration;

/// The first interval at which the closing task polls for running non-owner writes. It doubles up
/// to [`LONGEST`], because a stalled drive stalls for long.
const LOOK: Duration = Duration::from_micros(50);

/// The longest polling interval; see [`LOOK`].
const LONGEST: Duration = Duration::from_millis(5);

impl Stripes {
    /// Begins a write of whole sectors to stripes of other shards. `None`: the owners must write.
    pub(crate) fn write_beside(&self) -> Option<Beside> {
        let live = self.live();
        let is_all = live.start == 0 && live.end >= self.geometry().stripes().0;
        let may = is_all && !self.is_redundant() && self.all_well.get();
        if may { self.beside.begin() } else { None }
    }

    /// Excludes non-owner writes for a task that is about to lock a stripe exclusively and holds
    /// nothing yet. Returns when none is running.
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
