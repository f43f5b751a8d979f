//! Background initialisation: fills stripes that no host has written with zeros, so that first
//! writes are as fast as others. It is optional: a volume reads the same, and is as redundant,
//! without it.

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

/// Initialises every uninitialised region of this shard, until none is left or the volume is
/// detached. Only one such task runs per volume; a second one ends at once.
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

/// Regions with an uninitialised stripe in use. Stripes that a reshape has moved are no longer in
/// use.
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
        // Wait for a region that changes sides: zeros written on the old side would be missing on
        // the new one.
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
