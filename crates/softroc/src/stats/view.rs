//! Rates as text.

use super::rates::{DriveRates, Latency, OperationRates, Rates, VolumeRates};
use crate::output::table;
use crate::render;
use controller::{HealthReport, MetricsInfo, TaskState};
use storagebench::duration_text;
use units::{ByteCount, counted};

/// A row for each volume.
pub fn volumes(volumes: &[VolumeRates]) -> String {
    let row = |of: &VolumeRates| {
        let cache = &of.cache;
        let mut row = vec![of.volume.clone(), of.state.to_string()];
        row.extend(asked(&of.work.read, &of.work.write));
        row.extend([
            count(of.work.flush.per_s),
            queue(of.work.queue),
            ByteCount(cache.dirty_bytes).to_string(),
            count(cache.hits_per_s),
            rate(cache.ahead_used_bytes_per_s),
        ]);
        row
    };
    let headers = ["volume", "state"].into_iter().chain(ASKED);
    let headers: Vec<&str> = headers.chain(["flushes/s", "queue", "dirty", "hits/s", "ahead/s"]).collect();
    let rows: Vec<Vec<String>> = volumes.iter().map(row).collect();
    table(&headers, &rows, &numeric(headers.len()))
}

/// A row for each drive.
pub fn drives(drives: &[&DriveRates]) -> String {
    let row = |of: &&DriveRates| {
        let place = of.volumes.first().zip(of.slot).map(|(volume, slot)| format!("{volume}:{slot}"));
        let mut row = vec![of.drive.clone(), of.state.to_string()];
        row.extend(asked(&of.work.read, &of.work.write));
        row.extend([
            count(of.work.flush.per_s),
            queue(of.work.queue),
            of.temperature_c.map_or_else(String::new, |celsius| format!("{celsius} °C")),
            place.unwrap_or_default(),
        ]);
        row
    };
    let headers = ["drive", "state"].into_iter().chain(ASKED);
    let headers: Vec<&str> = headers.chain(["flushes/s", "queue", "warm", "slot"]).collect();
    let rows: Vec<Vec<String>> = drives.iter().map(row).collect();
    table(&headers, &rows, &numeric(headers.len()))
}

/// The view of `top`: health, volumes, tasks, and drives ordered by load.
pub fn top(health: Option<&HealthReport>, metrics: &MetricsInfo, rates: &Rates) -> String {
    let now = crate::machine::unix_time();
    let of = &metrics.controller;
    let mut text = format!(
        "softroc {} · {} · {} · {} of hosts\n",
        of.version,
        render::date(now),
        counted(of.shards, "shard"),
        counted(of.hosts, "connection"),
    );
    if let Some(health) = health {
        text.push_str(&format!("{}: {}\n", health.status, health.sentence));
    }
    text.push_str(&format!("\n{}\n", volumes(&rates.volumes)));
    let running: Vec<String> = metrics
        .tasks
        .iter()
        .filter(|task| task.state == TaskState::Running)
        .map(render::tasks::line)
        .collect();
    if !running.is_empty() {
        text.push_str(&format!("\n{}\n", running.join("\n")));
    }
    let mut busiest: Vec<&DriveRates> = rates.drives.iter().collect();
    busiest.sort_by(|a, b| b.work.queue.total_cmp(&a.work.queue));
    text.push_str(&format!("\n{}\n", drives(&busiest)));
    text
}

const ASKED: [&str; 8] = ["reads/s", "read", "r mean", "r p99", "writes/s", "written", "w mean", "w p99"];

fn asked(read: &OperationRates, write: &OperationRates) -> impl Iterator<Item = String> {
    [operation(read), operation(write)].into_iter().flatten()
}

fn operation(of: &OperationRates) -> [String; 4] {
    let time = |which: fn(&Latency) -> f64| {
        of.latency.as_ref().map_or_else(|| "-".to_owned(), |latency| duration_text(which(latency)))
    };
    [count(of.per_s), rate(of.bytes_per_s), time(|latency| latency.mean_us), time(|latency| latency.p99_us)]
}

/// Columns with names first, then numeric ones.
fn numeric(columns: usize) -> Vec<bool> {
    (0..columns).map(|column| column >= 2).collect()
}

fn count(per_s: f64) -> String {
    if per_s > 0.0 && per_s < 9.95 { format!("{per_s:.1}") } else { format!("{per_s:.0}") }
}

fn queue(average: f64) -> String {
    format!("{average:.1}")
}

fn rate(bytes_per_s: f64) -> String {
    // Whole units: further digits are noise.
    let mib = bytes_per_s / f64::from(1 << 20);
    match mib {
        0.0 => "0".to_owned(),
        mib if mib < 0.1 => format!("{:.1} KiB/s", bytes_per_s / 1024.0),
        mib if mib < 100.0 => format!("{mib:.1} MiB/s"),
        mib => format!("{mib:.0} MiB/s"),
    }
}
