//! Metrics for monitoring. No I/O is needed: shards publish their counters, and the descriptions of
//! drives are those of the last probe.

use super::Commands;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::interface::{
    CountersInfo, DriveCounters, DriveInfo, DriveMetrics, DriveWork, MetricsInfo, VolumeCounters,
    VolumeMetrics, WorkInfo,
};
use crate::inventory::Drive;
use platform::{BUCKET_BOUNDS_NS, Operation, Traffic, counted_from};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

impl Commands {
    pub(super) fn metrics(&self) -> MetricsInfo {
        MetricsInfo {
            taken_ns: self.env.now().ns,
            controller: self.info(),
            bucket_bounds_ns: BUCKET_BOUNDS_NS.to_vec(),
            volumes: self.volume_metrics(),
            drives: self.drive_metrics(),
            tasks: self.tasks.infos(),
            schedules: self.tasks.schedules(),
            spares: self.reconciler.spare_infos(),
            coverage: self.reconciler.coverage(),
            events: self.events.counts(),
        }
    }

    /// Counters alone: descriptions of volumes and drives take longer than adding up.
    pub(super) fn counters(&self) -> CountersInfo {
        let arrays = self.arrays.all();
        let volumes = arrays.iter().flat_map(|array| array.known_volumes());
        let volume = |volume: Rc<Volume>| {
            let cache = volume.cache_info();
            VolumeCounters {
                name: volume.name(),
                uuid: volume.uuid().to_string(),
                work: work_of(&volume.meter().traffic, None),
                cache_hits: cache.hits,
                cache_writes: cache.absorbed,
            }
        };
        let drive = |drive: &Rc<Drive>| DriveCounters {
            name: drive.name.clone(),
            identity: drive.identity_here(),
            work: work_of(drive.traffic(), None),
            temperature_c: self.inventory.health_of(drive).and_then(|health| health.temperature_c),
        };
        CountersInfo {
            taken_ns: self.env.now().ns,
            volumes: volumes.map(volume).collect(),
            drives: self.inventory.drives().iter().map(drive).collect(),
        }
    }

    /// Every volume, by name.
    fn volume_metrics(&self) -> Vec<VolumeMetrics> {
        let arrays = self.arrays.all();
        let of_array = |array: &Rc<Array>| {
            let array = array.clone();
            array.known_volumes().into_iter().map(move |volume| self.metrics_of(&array, &volume))
        };
        let mut volumes: Vec<VolumeMetrics> = arrays.iter().flat_map(of_array).collect();
        volumes.sort_by(|a, b| {
            (&a.volume.name, &a.volume.uuid).cmp(&(&b.volume.name, &b.volume.uuid))
        });
        volumes
    }

    fn metrics_of(&self, array: &Array, volume: &Volume) -> VolumeMetrics {
        let (meter, counters) = (volume.meter(), volume.meter().counters());
        VolumeMetrics {
            volume: self.volume_info(array, volume),
            work: work_of(&meter.traffic, None),
            fast_path: counters.fast_path,
            joined_writes: counters.joined_writes,
            unaligned_writes: counters.unaligned_writes,
            replans: counters.replans,
            repaired: counters.repaired,
            lost: counters.lost_blocks,
            may_lose_when_optimal: volume.geometry.survives().at_least.0,
        }
    }

    fn drive_metrics(&self) -> Vec<DriveMetrics> {
        let drives = self.inventory.drives();
        let mut by_name: BTreeMap<&str, DriveWork> =
            drives.iter().map(|drive| (drive.name.as_str(), self.work_of_drive(drive))).collect();
        let metrics = |drive: DriveInfo| {
            // A missing drive has no traffic.
            let told =
                by_name.remove(drive.name.as_str()).map(|told| (told.operations, told.limits));
            let (work, limits) = told.unwrap_or_default();
            DriveMetrics { drive, work, limits }
        };
        self.drive_infos().into_iter().map(metrics).collect()
    }

    /// The I/O of a drive. An operation is slow if a read of that duration would have been served
    /// from redundancy.
    pub(super) fn work_of_drive(&self, drive: &Drive) -> DriveWork {
        let limits = self.arrays.limits_of(drive);
        DriveWork {
            slow_ns: counted_from(limits.short_read).as_nanos() as u64,
            bucket_bounds_ns: BUCKET_BOUNDS_NS.to_vec(),
            operations: work_of(drive.traffic(), Some(limits.short_read)),
            limits: self.arrays.limit_infos(drive),
        }
    }
}

/// The count of each kind of operation, and how many exceeded `slow`.
fn work_of(traffic: &Traffic, slow: Option<Duration>) -> Vec<WorkInfo> {
    let done = Operation::ALL.into_iter().zip(traffic.done());
    let work = |(operation, done): (Operation, platform::Performed)| WorkInfo {
        operation: operation.name().to_owned(),
        outstanding: done.outstanding,
        completed: done.completed,
        failed: done.failed,
        bytes: done.bytes,
        time_ns: done.time_ns,
        buckets: done.buckets.to_vec(),
        slow: slow.map(|limit| done.slower_than(limit)),
    };
    done.map(work).collect()
}
