//! Rates as text.

use super::rates::{DriveRates, Latency, OperationRates, Rates, VolumeRates};
use crate::output::{self, table_of_lines};
use crate::render;
use controller::{HealthReport, MetricsInfo, TaskState};
use storagebench::duration_text;
use units::{ByteCount, counted};

/// The columns of volumes that a narrow terminal omits, the least important first.
const VOLUMES_OMIT: &[&str] =
    &["ahead/s", "hits/s", "flushes/s", "r mean", "w mean", "dirty", "queue", "r p99", "w p99"];

/// The columns of drives that a narrow terminal omits, the least important first.
const DRIVES_OMIT: &[&str] =
    &["flushes/s", "warm", "r mean", "w mean", "slot", "queue", "r p99", "w p99"];

/// The most tasks of a page.
const MOST_TASKS: usize = 3;

/// The size of a terminal.
#[derive(Clone, Copy)]
pub struct Page {
    /// Its lines.
    pub rows: usize,
    /// Its columns.
    pub columns: u16,
}

/// A row for each volume. Without a width, all columns.
pub fn volumes(volumes: &[&VolumeRates], width: Option<u16>) -> String {
    let row = |of: &&VolumeRates| {
        let cache = &of.cache;
        let mut row = vec![of.volume.clone(), of.state.to_string()];
        row.extend(asked(&of.work.read, &of.work.write));
        row.extend([
            count(of.work.flush.per_s),
            queue(of.work.queue),
            ByteCount(cache.dirty_bytes).to_string(),
            count(cache.hits_per_s),
            format!("{} MiB/s", mib(cache.ahead_used_bytes_per_s)),
        ]);
        row
    };
    let headers = ["volume", "state"].into_iter().chain(ASKED);
    let headers: Vec<&str> =
        headers.chain(["flushes/s", "queue", "dirty", "hits/s", "ahead/s"]).collect();
    let rows: Vec<Vec<String>> = volumes.iter().map(row).collect();
    table_of_lines(&headers, &rows, &numeric(headers.len()), (VOLUMES_OMIT, width))
}

/// A row for each drive. Without a width, all columns.
pub fn drives(drives: &[&DriveRates], width: Option<u16>) -> String {
    let row = |of: &&DriveRates| {
        let place =
            of.volumes.first().zip(of.slot).map(|(volume, slot)| format!("{volume}:{slot}"));
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
    table_of_lines(&headers, &rows, &numeric(headers.len()), (DRIVES_OMIT, width))
}

/// The view of `top`: health, volumes, tasks, and drives ordered by load.
pub fn top(
    health: Option<&HealthReport>,
    metrics: &MetricsInfo,
    rates: &Rates,
    page: Option<Page>,
) -> String {
    let wrapped = |text: &str| match page {
        Some(page) => output::wrapped(text, page.columns.into()),
        None => vec![text.to_owned()],
    };
    let mut head = vec![heading(metrics)];
    let health = health.map(|health| format!("{}: {}", health.status, health.sentence));
    head.extend(health.into_iter().flat_map(|health| wrapped(&health)));
    let running = metrics.tasks.iter().filter(|task| task.state == TaskState::Running);
    let most = if page.is_some() { MOST_TASKS } else { usize::MAX };
    let tasks = running.take(most).flat_map(|task| wrapped(&render::tasks::line(task))).collect();
    with_tables(&head, tasks, rates, page)
}

/// The view below its first lines. A page has the busiest volumes and drives that fit.
fn with_tables(head: &[String], tasks: Vec<String>, rates: &Rates, page: Option<Page>) -> String {
    let width = page.map(|page| page.columns);
    let mut of_volumes: Vec<&VolumeRates> = rates.volumes.iter().collect();
    let mut of_drives: Vec<&DriveRates> = rates.drives.iter().collect();
    of_drives.sort_by(|a, b| b.work.queue.total_cmp(&a.work.queue));
    let (mut most_volumes, mut most_drives) = (usize::MAX, usize::MAX);
    if let Some(page) = page {
        // A table has a header and an empty line before it.
        let others = head.len() + 4 + if tasks.is_empty() { 0 } else { tasks.len() + 1 };
        let left = page.rows.saturating_sub(others);
        most_volumes = (left / 2).max(left.saturating_sub(of_drives.len())).max(1);
        most_drives = left.saturating_sub(most_volumes.min(of_volumes.len())).max(1);
    }
    if of_volumes.len() > most_volumes {
        of_volumes.sort_by(|a, b| b.work.queue.total_cmp(&a.work.queue));
    }
    let mut parts =
        vec![head.join("\n"), cut(&of_volumes, most_volumes, |some| volumes(some, width))];
    parts.extend((!tasks.is_empty()).then(|| tasks.join("\n")));
    parts.push(cut(&of_drives, most_drives, |some| drives(some, width)));
    parts.join("\n\n")
}

fn heading(metrics: &MetricsInfo) -> String {
    let of = &metrics.controller;
    format!(
        "softroc {} · {} · {} · {}",
        of.version,
        render::date(crate::machine::unix_time()),
        counted(of.shards, "shard"),
        counted(of.hosts, "host connection"),
    )
}

/// A table of at most `most` rows; the last row may be the number of the others.
fn cut<T>(all: &[&T], most: usize, table: impl Fn(&[&T]) -> String) -> String {
    if all.len() <= most {
        return table(all);
    }
    let shown = most.saturating_sub(1);
    format!("{}\n … {} more", table(&all[..shown]), all.len() - shown)
}

const ASKED: [&str; 8] =
    ["reads/s", "r MiB/s", "r mean", "r p99", "writes/s", "w MiB/s", "w mean", "w p99"];

fn asked(read: &OperationRates, write: &OperationRates) -> impl Iterator<Item = String> {
    [operation(read), operation(write)].into_iter().flatten()
}

fn operation(of: &OperationRates) -> [String; 4] {
    let time = |which: fn(&Latency) -> f64| {
        of.latency.as_ref().map_or_else(|| "-".to_owned(), |latency| duration_text(which(latency)))
    };
    [
        count(of.per_s),
        mib(of.bytes_per_s),
        time(|latency| latency.mean_us),
        time(|latency| latency.p99_us),
    ]
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

/// In MiB, with at most three digits that matter.
fn mib(bytes: f64) -> String {
    match bytes / f64::from(1 << 20) {
        0.0 => "0".to_owned(),
        mib if mib < 1.0 => format!("{mib:.3}"),
        mib if mib < 100.0 => format!("{mib:.1}"),
        mib => format!("{mib:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::rates::{CacheRates, WorkRates};
    use controller::{DriveState, VolumeState};

    fn work(queue: f64) -> WorkRates {
        let latency = Latency {
            mean_us: 1234.0,
            p50_us: 1000.0,
            p95_us: 2000.0,
            p99_us: 9876.0,
            p999_us: 9999.0,
        };
        let of = OperationRates { per_s: 123_456.0, bytes_per_s: 4e9, latency: Some(latency) };
        WorkRates { queue, read: of.clone(), write: of, ..WorkRates::default() }
    }

    fn volume(number: usize) -> VolumeRates {
        VolumeRates {
            volume: format!("a-volume-with-a-long-name-{number}"),
            uuid: String::new(),
            state: VolumeState::Degraded,
            hosts: 1,
            work: work(number as f64),
            cache: CacheRates::default(),
        }
    }

    fn drive(number: usize) -> DriveRates {
        DriveRates {
            drive: format!("/dev/disk/by-id/nvme-a-model-with-its-serial-number-{number}"),
            state: DriveState::Online,
            volumes: vec!["data".to_owned()],
            slot: Some(1),
            temperature_c: Some(40),
            work: work(number as f64),
        }
    }

    #[test]
    fn a_page_of_80_columns_and_24_lines_has_what_is_important() {
        for many in [1, 40] {
            let volumes = (0..many).map(volume).collect();
            let rates = Rates { seconds: 1.0, volumes, drives: (0..many).map(drive).collect() };
            let page = Page { rows: 24, columns: 80 };
            let head = ["softroc".to_owned(), "ok".to_owned()];
            let text = with_tables(&head, vec!["task 1".to_owned()], &rates, Some(page));
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.lines().count() <= 24, "{text}");
            let busiest = format!("number-{}  online", many - 1);
            for part in [
                "reads/s", "r MiB/s", "r p99", "writes/s", "w MiB/s", "w p99", "degraded", &busiest,
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(text.contains(" more"), many == 40, "{text}");
            let wide = with_tables(&head, Vec::new(), &rates, None);
            assert!(wide.contains("ahead/s") && wide.contains("a-model-with"), "{wide}");
        }
    }
}
