//! The background initialisation: what no host has written yet is filled with zeros, so that a first write to it costs what any other
//! does. Nothing depends on it: whatever it has passed or not, a volume reads the same, and is as redundant.

use crate::background::Running;
use crate::background::resync::{OWN_PACE, OWN_TASK, RETRY_AFTER};
use crate::background::walk::{self, Step, Walked};
use crate::recovery::Recovery;
use crate::task::TaskOutcome;
use platform::IoError;
use platform::locks::Mode;
use std::ops::Range;
use std::rc::Rc;
use units::StripeIndex;
use volume_state::{RegionIndex, RegionSet};

/// Initialises every region of this shard that is not, until none is left or the volume is detached. One task of a volume does it; a
/// second one ends at once.
pub(crate) async fn initialise_rest(volume: Rc<Recovery>) {
    if volume.initialising_rest.replace(true) {
        return;
    }
    let task = Running::new(&volume, OWN_TASK, None, OWN_PACE);
    let _watcher = volume.shard.watch_hosts();
    loop {
        let regions = task.take_on(uninitialised(&volume));
        let outcome = initialise_regions(&task, &regions).await;
        if regions.is_empty() || volume.closing.get() || outcome == TaskOutcome::Stopped {
            break;
        }
        if outcome != TaskOutcome::Done {
            volume.shard.env().sleep(RETRY_AFTER).await;
        }
    }
    volume.initialising_rest.set(false);
}

/// Regions in which a stripe that is in use is not initialised. What a reshape has moved from this layout is not in use any more.
fn uninitialised(volume: &Recovery) -> RegionSet {
    let state = volume.state();
    let Some(partly) = state.initialisation() else { return RegionSet::EMPTY };
    let partial: RegionSet = partly.partial().map(|(region, _)| region).collect();
    let is_left = |region: &RegionIndex| {
        volume.stripes_of(*region).any(|stripe| !volume.is_initialised(StripeIndex(stripe)))
    };
    partial.union(state.unwritten()).iter().filter(is_left).collect()
}

async fn initialise_regions(task: &Rc<Running>, regions: &RegionSet) -> TaskOutcome {
    let mut outcome = TaskOutcome::Done;
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        match walk::walk_together(task, region, initialise_stripes).await {
            Walked::Whole => task.finished(region),
            Walked::Stopped => return TaskOutcome::Stopped,
            Walked::Failed(error) => outcome = TaskOutcome::Failed(error),
        }
    }
    outcome
}

async fn initialise_stripes(task: Rc<Running>, stripes: Range<u64>) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let (mut left, mut initialised) = (stripes, 0);
    while !left.is_empty() {
        let first = StripeIndex(left.start);
        // A region that changes sides is waited for: zeros that were written by the old side would not be on the new one.
        volume.sides_are_changed(first).await;
        let mut after = left.clone();
        let held = walk::hold_next(volume, &mut after, Mode::Exclusive).await;
        if volume.is_changing_sides(first) {
            continue;
        }
        left = after;
        let stripes: Vec<StripeIndex> =
            held.each().filter(|stripe| !volume.is_initialised(*stripe)).collect();
        volume.initialise_with_zeros(&stripes).await?;
        initialised += stripes.len() as u64;
    }
    Ok(match initialised {
        0 => Step::Skipped,
        stripes => Step::Done { drive_bytes: stripes * walk::stripe_bytes(volume) },
    })
}
