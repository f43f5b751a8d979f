//! The resync: makes redundancy agree with data in regions with writes interrupted by a crash, and
//! in regions that never agreed.
//!
//! A stripe is locked whole, planned, executed like any request, and released. A region is synced
//! when all its stripes are. Until then its parity is not used, and one designated mirror is read.
//! A stripe that cannot be resynced (a needed drive is missing) leaves its region unsynced. Reads
//! that need its redundancy fail, unless an operator accepts stale parity
//! ([`forced`](crate::recovery::forced)).
//!
//! It starts automatically for unsynced regions: after a crash, and on a new volume whose drives
//! were not blank.

use crate::background::Running;
use crate::background::walk::{self, Step, Walked};
use crate::recovery::Recovery;
use crate::task::{TaskId, TaskOutcome, TaskPace};
use platform::IoError;
use platform::locks::Mode;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use units::{DriveSet, StripeIndex};
use volume_state::{RegionIndex, RegionSet};

/// How long to wait before unsuccessful regions are retried.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The pace of a resync, which has no order from the controller.
pub(super) const OWN_PACE: TaskPace =
    TaskPace { share_percent: 30, paused: false, max_bytes_per_s: None };

/// The task number of a resync, which the controller never assigns.
pub(super) const OWN_TASK: TaskId = TaskId(u64::MAX);

/// Resyncs every unsynced region of this shard, until none is left or the volume is detached.
/// One task of a volume does it; a second one ends at once.
pub(crate) async fn resync(volume: Rc<Recovery>) {
    if volume.resyncing.replace(true) {
        return;
    }
    let task = Running::new(&volume, OWN_TASK, None, OWN_PACE);
    let _watcher = volume.shard.watch_hosts();
    loop {
        let regions = task.take_on(volume.state().unsynced().clone());
        let outcome = resync_regions(&task, &regions).await;
        if regions.is_empty() || volume.closing.get() || outcome == TaskOutcome::Stopped {
            break;
        }
        if outcome != TaskOutcome::Done {
            volume.shard.env().sleep(RETRY_AFTER).await;
        }
    }
    volume.resyncing.set(false);
}

async fn resync_regions(task: &Rc<Running>, regions: &RegionSet) -> TaskOutcome {
    let volume = &task.volume;
    let mut outcome = TaskOutcome::Done;
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        if volume.state().is_synced(region) {
            task.finished(region); // Another task has synced it.
            continue;
        }
        let gaps = volume.gaps();
        match walk::walk_together(task, region, resync_stripes).await {
            // A concurrent write without parity update: the region may not agree despite the
            // resync.
            Walked::Whole if volume.gaps() != gaps => {
                outcome = TaskOutcome::Failed(IoError::new(platform::IoErrorKind::Gone));
            }
            Walked::Whole => synced(task, region),
            Walked::Stopped => return TaskOutcome::Stopped,
            Walked::Failed(error) => outcome = TaskOutcome::Failed(error),
        }
    }
    outcome
}

fn synced(task: &Rc<Running>, region: RegionIndex) {
    task.volume.apply(&volume_state::Change::Synced(region.into()));
    task.volume.report_synced(region);
    task.finished(region);
}

async fn resync_stripes(task: Rc<Running>, stripes: Range<u64>) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let count = stripes.end - stripes.start;
    let mut left = stripes;
    while !left.is_empty() {
        let held = walk::hold_next(volume, &mut left, Mode::Exclusive).await;
        let stripes: Vec<StripeIndex> = held.each().collect();
        let restored = volume.restore_stripes(&stripes, &DriveSet::EMPTY).await;
        let skipped = restored.inspect_err(|error| {
            let first = held.stripes.start;
            tracing::warn!(
                volume = %volume.name(),
                first,
                count = stripes.len(),
                "resync stopped: {error}"
            );
        })?;
        volume.recorded(&skipped).await?;
        volume.count(|counters| counters.resynced_stripes += stripes.len() as u64);
    }
    Ok(Step::Done { drive_bytes: count * walk::stripe_bytes(volume) })
}
