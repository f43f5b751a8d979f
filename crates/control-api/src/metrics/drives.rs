//! One series per drive.

use super::text::{Kind, Page};
use super::work::{self, Names};
use super::{Named, column};
use controller::{DriveMetrics, DriveState, HealthInfo, MetricsInfo};

const NAMES: Names = Names {
    reads: "softroc_drive_reads_completed_total",
    read_bytes: "softroc_drive_read_bytes_total",
    read_time: "softroc_drive_read_duration_seconds",
    writes: "softroc_drive_writes_completed_total",
    written_bytes: "softroc_drive_written_bytes_total",
    write_time: "softroc_drive_write_duration_seconds",
    trims: "softroc_drive_trims_completed_total",
    trimmed_bytes: "softroc_drive_trimmed_bytes_total",
    flushes: "softroc_drive_flushes_completed_total",
    flush_time: "softroc_drive_flush_duration_seconds",
    trim_time: "softroc_drive_trim_duration_seconds",
    errors: "softroc_drive_errors_total",
    inflight: "softroc_drive_io_inflight",
};

type Rows<'r, 'm> = &'r [Named<'m, DriveMetrics>];

pub(super) fn write(page: &mut Page, metrics: &MetricsInfo, drives: Rows<'_, '_>) {
    states(page, drives);
    health(page, drives);
    let whose = "of the drive since the controller was started";
    work::write(page, &NAMES, whose, &metrics.bucket_bounds_ns, drives, |drive| &drive.work);
    slow(page, drives);
    limits(page, drives);
}

fn limits(page: &mut Page, drives: Rows<'_, '_>) {
    let help = "Time limits of the drive; short-read is for reads that redundancy can serve.";
    let mut family = page.family("softroc_drive_time_limit_seconds", Kind::Gauge, help);
    for Named { labels, what } in drives {
        for limit in &what.limits {
            family.series(
                &labels.clone().with("operation", &limit.operation),
                limit.limit_ms as f64 / 1e3,
            );
        }
    }
}

fn slow(page: &mut Page, drives: Rows<'_, '_>) {
    let help = "Operations that took longer than the limit for reads that redundancy can serve, \
        since the controller was started.";
    let mut family = page.family("softroc_drive_slow_operations_total", Kind::Counter, help);
    for Named { labels, what } in drives {
        for work in &what.work {
            family.known(&labels.clone().with("operation", &work.operation), work.slow);
        }
    }
}

fn states(page: &mut Page, drives: Rows<'_, '_>) {
    let mut family =
        page.family("softroc_drive_info", Kind::Gauge, "Properties of the drive; always 1.");
    for Named { labels, what } in drives {
        let drive = &what.drive;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let labels = labels
            .clone()
            .with("uuid", &text(&drive.uuid))
            .with("volume", drive.volumes.first().map_or("", String::as_str))
            .with("slot", &drive.slot.map(|slot| slot.to_string()).unwrap_or_default())
            .with("kind", &text(&drive.kind))
            .with("media", if drive.rotational { "rotational" } else { "solid-state" })
            .with("model", &text(&drive.model))
            .with("serial", &text(&drive.serial))
            .with("firmware", &text(&drive.firmware))
            .with("enclosure", &text(&drive.enclosure))
            .with("bay", &text(&drive.bay));
        family.series(&labels, 1);
    }
    let help = "Whether the drive is in that state.";
    let mut family = page.family("softroc_drive_state", Kind::Gauge, help);
    let all = DriveState::ALL.map(|state| state.to_string());
    for Named { labels, what } in drives {
        family.states(
            labels,
            "state",
            all.iter().map(String::as_str),
            &what.drive.state.to_string(),
        );
    }
    column(
        page,
        "softroc_drive_size_bytes",
        Kind::Gauge,
        "The capacity of the drive.",
        drives,
        |drive| drive.drive.size_bytes,
    );
    let help = "Stale regions of the drive.";
    column(page, "softroc_drive_stale_regions", Kind::Gauge, help, drives, |drive| {
        Some(drive.drive.stale_regions)
    });
    let help = "Medium errors of the drive since the controller was started.";
    column(page, "softroc_drive_medium_errors_total", Kind::Counter, help, drives, |drive| {
        Some(drive.drive.medium_errors)
    });
    let help = "Suspensions of the drive after response timeouts, since the controller \
        was started.";
    column(page, "softroc_drive_suspensions_total", Kind::Counter, help, drives, |drive| {
        Some(drive.drive.suspensions)
    });
}

fn told(drive: &DriveMetrics) -> Option<&HealthInfo> {
    drive.drive.health.as_deref()
}

/// Health as the drive last reported it; unknown values are left out.
fn health(page: &mut Page, drives: Rows<'_, '_>) {
    let mut gauge = |name, help: &str, value: fn(&HealthInfo) -> Option<f64>| {
        column(page, name, Kind::Gauge, help, drives, |drive| told(drive).and_then(value));
    };
    let help = "Time of the last health query of the drive.";
    gauge("softroc_drive_health_asked_timestamp_seconds", help, |health| {
        Some(health.asked_unix_s as f64)
    });
    let help = "Whether the drive predicts its failure.";
    gauge("softroc_drive_predicted_failure", help, |health| {
        health.predicted_failure.map(|predicted| f64::from(u8::from(predicted)))
    });
    let help = "Whether the drive should be replaced: it predicts its failure, is worn out or runs \
        out of spare blocks.";
    gauge("softroc_drive_warning", help, |health| {
        Some(f64::from(u8::from(health.warning.is_some())))
    });
    let help = "The temperature of the drive.";
    gauge("softroc_drive_temperature_celsius", help, |health| health.temperature_c.map(f64::from));
    let help = "The share of its rated endurance that the drive has used; may exceed 1.";
    gauge("softroc_drive_wear_ratio", help, |health| {
        health.wear_percent.map(|percent| f64::from(percent) / 100.0)
    });
    let help = "Remaining share of the drive's spare blocks.";
    gauge("softroc_drive_spare_ratio", help, |health| {
        health.spare_percent.map(|percent| f64::from(percent) / 100.0)
    });
    let help = "Reallocated sectors over the drive's life.";
    gauge("softroc_drive_reallocated_sectors", help, |health| {
        health.reallocated_sectors.map(|n| n as f64)
    });
    let mut counter = |name, help: &str, value: fn(&HealthInfo) -> Option<u64>| {
        column(page, name, Kind::Counter, help, drives, |drive| told(drive).and_then(value));
    };
    let help = "Uncorrected medium errors over the drive's life, as reported by the drive.";
    counter("softroc_drive_lifetime_media_errors_total", help, |health| health.media_errors);
    let help = "Bytes written over the drive's life, as reported by the drive.";
    counter("softroc_drive_lifetime_written_bytes_total", help, |health| health.written_bytes);
    let help = "Power-on time over the drive's life, as reported by the drive.";
    counter("softroc_drive_lifetime_power_on_seconds_total", help, |health| {
        health.power_on_hours.map(|hours| hours.saturating_mul(3600))
    });
}
