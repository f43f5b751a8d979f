//! One series per volume.

use super::text::{Kind, Page};
use super::work::{self, Names};
use super::{Named, column};
use controller::{
    DriveState, MetricsInfo, Policy, TaskInfo, TaskKind, TaskState, VolumeMetrics, VolumeState,
};
use std::collections::BTreeMap;

const NAMES: Names = Names {
    reads: "softroc_volume_reads_completed_total",
    read_bytes: "softroc_volume_read_bytes_total",
    read_time: "softroc_volume_read_duration_seconds",
    writes: "softroc_volume_writes_completed_total",
    written_bytes: "softroc_volume_written_bytes_total",
    write_time: "softroc_volume_write_duration_seconds",
    trims: "softroc_volume_trims_completed_total",
    trimmed_bytes: "softroc_volume_trimmed_bytes_total",
    flushes: "softroc_volume_flushes_completed_total",
    flush_time: "softroc_volume_flush_duration_seconds",
    trim_time: "softroc_volume_trim_duration_seconds",
    errors: "softroc_volume_errors_total",
    inflight: "softroc_volume_io_inflight",
};

/// The values of the policy write-mode.
const WRITE_MODES: [&str; 4] =
    ["write-through", "logged-write-back", "write-back", "always-write-back"];

type Rows<'r, 'm> = &'r [Named<'m, VolumeMetrics>];

pub(super) fn write(page: &mut Page, metrics: &MetricsInfo, volumes: Rows<'_, '_>) {
    states(page, volumes);
    redundancy(page, volumes);
    cache(page, volumes);
    let whose = "of hosts on the volume since the controller was started";
    work::write(page, &NAMES, whose, &metrics.bucket_bounds_ns, volumes, |volume| &volume.work);
    engine(page, volumes);
    checks(page, metrics, volumes);
}

fn policy<'v>(volume: &'v VolumeMetrics, name: &str) -> Option<&'v Policy> {
    volume.volume.policies.iter().find(|policy| policy.name == name)
}

fn states(page: &mut Page, volumes: Rows<'_, '_>) {
    let mut family =
        page.family("softroc_volume_info", Kind::Gauge, "Properties of the volume; always 1.");
    for Named { labels, what } in volumes {
        let volume = &what.volume;
        let in_force = |name| policy(what, name).map_or("", |policy| policy.current.as_str());
        let labels = labels
            .clone()
            .with("uuid", &volume.uuid)
            .with("array", &volume.array)
            .with("level", &volume.level)
            .with("layout", volume.arrangement.as_deref().unwrap_or_default())
            .with("write_mode", in_force("write-mode"))
            .with("write_hole", in_force("write-hole"));
        family.series(&labels, 1);
    }
    let help = "Whether the volume is in that state.";
    let mut family = page.family("softroc_volume_state", Kind::Gauge, help);
    let all = VolumeState::ALL.map(|state| state.to_string());
    for Named { labels, what } in volumes {
        family.states(
            labels,
            "state",
            all.iter().map(String::as_str),
            &what.volume.state.to_string(),
        );
    }
    let help = "Time of the last change of the volume's state.";
    column(
        page,
        "softroc_volume_state_since_timestamp_seconds",
        Kind::Gauge,
        help,
        volumes,
        |volume| Some(volume.volume.since_unix_s),
    );
    column(
        page,
        "softroc_volume_capacity_bytes",
        Kind::Gauge,
        "Usable capacity.",
        volumes,
        |volume| Some(volume.volume.capacity_bytes),
    );
    let help = "Connections of hosts to the volume.";
    column(page, "softroc_volume_hosts", Kind::Gauge, help, volumes, |volume| {
        Some(volume.volume.hosts.len())
    });
}

fn redundancy(page: &mut Page, volumes: Rows<'_, '_>) {
    let mut gauge = |name, help: &str, value: fn(&VolumeMetrics) -> u64| {
        column(page, name, Kind::Gauge, help, volumes, |volume| Some(value(volume)));
    };
    let help = "Current fault tolerance: drives that may fail without data loss; 0 also while \
        the volume is offline.";
    gauge("softroc_volume_failures_survivable", help, |volume| volume.volume.may_lose.into());
    let help = "Fault tolerance with all drives present.";
    gauge("softroc_volume_failures_survivable_optimal", help, |volume| {
        volume.may_lose_when_optimal.into()
    });
    let help = "Punctured bytes: unreadable on drives and not recoverable from redundancy.";
    gauge("softroc_volume_lost_bytes", help, |volume| volume.volume.lost_bytes);
    let help = "Unsynced regions.";
    gauge("softroc_volume_unsynced_regions", help, |volume| {
        volume.volume.resync.map_or(0, |resync| resync.regions_left.into())
    });
    let help = "Regions that are not completely initialised; unwritten data reads as zeros.";
    gauge("softroc_volume_uninitialised_regions", help, |volume| {
        volume.volume.initialisation.map_or(0, |initialised| initialised.regions_left.into())
    });
    let help = "Marked regions of the write-intent map.";
    gauge("softroc_volume_marked_regions", help, |volume| volume.volume.dirty_regions.into());
    let help = "Slots of the volume by the state of their drive.";
    let mut family = page.family("softroc_volume_drives", Kind::Gauge, help);
    for Named { labels, what } in volumes {
        let mut counts: BTreeMap<DriveState, u32> = BTreeMap::new();
        for drive in &what.volume.drives {
            *counts.entry(drive.state).or_default() += 1;
        }
        for state in DriveState::ALL {
            let count = counts.get(&state).copied().unwrap_or_default();
            family.series(&labels.clone().with("state", &state.to_string()), count);
        }
    }
}

fn cache(page: &mut Page, volumes: Rows<'_, '_>) {
    type Wanted = fn(&Policy) -> &str;
    let modes: [(&'static str, &str, Wanted); 2] = [
        ("softroc_volume_write_mode", "Write mode in effect.", |mode| &mode.current),
        ("softroc_volume_write_mode_configured", "Configured write mode.", |mode| &mode.configured),
    ];
    for (name, help, wanted) in modes {
        let mut family = page.family(name, Kind::Gauge, help);
        for Named { labels, what } in volumes {
            let mode = policy(what, "write-mode").map_or("", wanted);
            family.states(labels, "mode", WRITE_MODES, mode);
        }
    }
    let mut of_cache = |name, kind, help: &str, value: fn(&controller::CacheInfo) -> u64| {
        column(page, name, kind, help, volumes, |volume| Some(value(&volume.volume.cache)));
    };
    let (gauge, counter) = (Kind::Gauge, Kind::Counter);
    let help = "Acknowledged data that is not on the drives yet.";
    of_cache("softroc_volume_cache_dirty_bytes", gauge, help, |cache| cache.dirty_bytes);
    let help = "Dirty data that is preserved after a failed destage.";
    of_cache("softroc_volume_cache_pinned_bytes", gauge, help, |cache| cache.pinned_bytes);
    let help = "Stripe writes that were acknowledged from the cache since the volume was started.";
    of_cache("softroc_volume_cache_absorbed_writes_total", counter, help, |cache| cache.absorbed);
    let help = "Stripe reads with cache hits, partial or complete, since the volume was started.";
    of_cache("softroc_volume_cache_hits_total", counter, help, |cache| cache.hits);
    let help = "Destages of dirty data since the volume was started.";
    of_cache("softroc_volume_cache_destages_total", counter, help, |cache| cache.destages);
    let help = "Clean data in the cache.";
    of_cache("softroc_volume_cache_clean_bytes", gauge, help, |cache| cache.clean_bytes);
    let help = "Read-ahead data that hosts read, since the volume was started.";
    of_cache("softroc_volume_read_ahead_used_bytes_total", counter, help, |cache| {
        cache.ahead_used_bytes
    });
    let help = "Read-ahead data that was evicted unread, since the volume was started.";
    of_cache("softroc_volume_read_ahead_wasted_bytes_total", counter, help, |cache| {
        cache.ahead_wasted_bytes
    });
}

fn engine(page: &mut Page, volumes: Rows<'_, '_>) {
    let mut counter = |name, help: &str, value: fn(&VolumeMetrics) -> u64| {
        column(page, name, Kind::Counter, help, volumes, |volume| Some(value(volume)));
    };
    let help = "Requests that used FastPath.";
    counter("softroc_volume_fast_path_requests_total", help, |volume| volume.fast_path);
    let help = "Stripe writes that were merged with others.";
    counter("softroc_volume_joined_writes_total", help, |volume| volume.joined_writes);
    let help = "Host writes that were not aligned to 4 KiB.";
    counter("softroc_volume_unaligned_writes_total", help, |volume| volume.unaligned_writes);
    let help = "Stripe requests that were planned again after a fault.";
    counter("softroc_volume_replans_total", help, |volume| volume.replans);
    let help = "Repaired unreadable block ranges.";
    counter("softroc_volume_repairs_total", help, |volume| volume.repaired);
    let help = "Punctured block ranges.";
    counter("softroc_volume_losses_total", help, |volume| volume.lost);
}

/// The newest completed check of a volume, with or without repair.
fn last_check<'t>(tasks: &'t [TaskInfo], volume: &VolumeMetrics) -> Option<&'t TaskInfo> {
    let is_check = |task: &&TaskInfo| {
        matches!(task.kind, TaskKind::Check | TaskKind::Repair)
            && task.state == TaskState::Done
            && task.volume.as_ref() == Some(&volume.volume.name)
    };
    tasks.iter().filter(is_check).max_by_key(|task| task.ended_unix_s)
}

fn checks(page: &mut Page, metrics: &MetricsInfo, volumes: Rows<'_, '_>) {
    let help = "End of the latest known check; the newest 100 tasks of the last 30 days are known.";
    column(page, "softroc_last_check_timestamp_seconds", Kind::Gauge, help, volumes, |volume| {
        last_check(&metrics.tasks, volume)?.ended_unix_s
    });
    let help = "Inconsistent stripes in that check.";
    column(page, "softroc_last_check_inconsistencies", Kind::Gauge, help, volumes, |volume| {
        Some(last_check(&metrics.tasks, volume)?.found.mismatches)
    });
    let help = "Repaired stripes in that check.";
    column(page, "softroc_last_check_repaired", Kind::Gauge, help, volumes, |volume| {
        Some(last_check(&metrics.tasks, volume)?.found.repaired)
    });
    let help = "Whether a hot spare covers the volume; only for volumes that can use one.";
    column(page, "softroc_volume_spare_covered", Kind::Gauge, help, volumes, |volume| {
        let could = |volumes: &[String]| volumes.contains(&volume.volume.name);
        let coverage = metrics.coverage.iter().find(|coverage| could(&coverage.volumes))?;
        Some(u8::from(!coverage.covered_by.is_empty()))
    });
}
