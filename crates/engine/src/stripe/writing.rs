//! Writes in progress in dirty regions: each begins when its region's mark is durable. See
//! [`dirty`](crate::stripe::dirty).

use crate::messages::ShardIndex;
use crate::stripe::Stripes;
use platform::IoError;
use std::rc::Rc;
use volume_state::{Change, RegionIndex, RegionSet};

impl Stripes {
    /// Notes regions that the controller marked without a request from a write here.
    pub(crate) fn note_marked(&self, regions: &RegionSet) {
        let owns = |region| ShardIndex::owning(region, self.shard.count()) == self.shard.index();
        self.dirty.note_marked(regions, self.shard.env().now(), owns);
    }
}

/// A write in progress in a dirty region; dropping it ends the count.
pub(crate) struct Writing {
    volume: Rc<Stripes>,
    region: RegionIndex,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.volume.dirty.end(self.region, self.volume.shard.env().executor().tick());
    }
}

/// Counts a write if its region is marked; otherwise `None`.
pub(crate) fn begin_marked_write(volume: &Rc<Stripes>, region: RegionIndex) -> Option<Writing> {
    volume.dirty.try_begin_marked(region).then(|| Writing { volume: volume.clone(), region })
}

/// Makes the region's mark durable, and counts a write.
///
/// # Errors
/// When the region cannot be marked: then nothing may be written to it.
pub(crate) async fn begin_write(
    volume: &Rc<Stripes>,
    region: RegionIndex,
) -> Result<Writing, IoError> {
    let regions = &volume.dirty;
    loop {
        match regions.try_begin(region) {
            Ok(()) => return Ok(Writing { volume: volume.clone(), region }),
            Err(true) => {
                Box::pin(volume.blank_before_first_write(region)).await;
                let result = Box::pin(volume.shard.mark_dirty(volume.spec.id, region)).await;
                regions.marked(volume.shard.env(), region, result);
                result?;
                volume.apply(&Change::Marked(region.into()));
            }
            Err(false) => {
                regions
                    .changed
                    .wait_until(volume.shard.env(), || !regions.is_marking(region))
                    .await;
                if let Some(error) = regions.refusal(region) {
                    return Err(error);
                }
            }
        }
    }
}
