//! Workers: their specifications, targets, areas and outstanding I/Os.
//!
//! Iometer counts outstanding requests per worker and target. Here the number is per target, over
//! all its workers.

use super::super::{Import, Place, Taken, refused};
use super::Config;
use crate::load::area::{Area, Edge};
use crate::load::ladder::Ladder;
use std::collections::BTreeMap;

/// Specifications with more parts of a disk than this are refused.
const MOST_PARTS: usize = 64;

/// A partially read worker.
pub(super) struct Worker {
    name: String,
    /// Network workers have no disk.
    is_disk: bool,
    depth: Option<u32>,
    /// The first sector and the number of sectors; 0: to the end.
    part: (u64, u64),
    specs: Vec<String>,
    targets: Vec<String>,
}

/// The conditions under which a specification runs.
#[derive(Default)]
pub(super) struct Run {
    pub(super) outstanding: Option<Ladder>,
    /// The parts of the target with the number of requests for each; none: the whole target.
    pub(super) parts: Vec<(Area, f64)>,
}

/// Reads a line of the manager list after the comment `key`.
pub(super) fn line(
    workers: &mut Vec<Worker>,
    import: &mut Import,
    place: &Place,
    key: &str,
    line: &str,
) {
    if key == "worker" {
        let name = line.to_owned();
        let (specs, targets) = (Vec::new(), Vec::new());
        workers.push(Worker { name, is_disk: true, depth: None, part: (0, 0), specs, targets });
        return;
    }
    let first = || line.split(',').next().unwrap_or(line).trim();
    let Some(worker) = workers.last_mut() else {
        // Old files have the settings of all workers before the first worker.
        if key.starts_with("number of outstanding ios") {
            let hint = format!("use --outstanding {} when measuring", first());
            import
                .note(place, format_args!("'{line}' belongs to no worker and is left out; {hint}"));
        }
        return;
    };
    if key.starts_with("worker type") {
        worker.is_disk = first().to_ascii_uppercase().starts_with("DISK");
        if !worker.is_disk {
            import.note(
                place,
                format_args!("the worker '{}' is for networks and is left out", worker.name),
            );
        }
    } else if key.starts_with("number of outstanding ios") {
        worker.depth = first().parse().ok().filter(|depth| *depth > 0);
        if worker.depth.is_none() {
            import.note(
                place,
                format_args!(
                    "'{line}' begins with no number of outstanding I/Os; 1 \
                is taken, as Iometer does without one; use --outstanding when measuring"
                ),
            );
        }
    } else if key.starts_with("disk maximum size") {
        let mut numbers = line.split(',').map(|number| number.trim().parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(len), Some(start)) => worker.part = (start, len),
            _ => import.note(
                place,
                format_args!(
                    "'{line}' is no part of a disk and is left out; \
                expected its sectors and the first of them; use --area when measuring"
                ),
            ),
        }
    } else if key.starts_with("assigned access specs") {
        worker.specs.push(line.to_owned());
    } else if key == "target" {
        worker.targets.push(line.to_owned());
    }
}

/// The conditions under which the specification with that name runs.
pub(super) fn run_of(
    name: &str,
    place: &Place,
    import: &mut Import,
    config: &Config,
) -> Taken<Run> {
    let disks: Vec<&Worker> = config.workers.iter().filter(|worker| worker.is_disk).collect();
    let assigned = |worker: &&Worker| worker.specs.iter().any(|spec| spec == name);
    let own: Vec<&Worker> = disks.iter().copied().filter(assigned).collect();
    let is_assigned = !own.is_empty();
    let workers = if is_assigned { own } else { disks };
    if workers.is_empty() {
        let ladder =
            config.setup.depths().map(|(place, depths)| ladder(place, depths)).transpose()?;
        return Ok(Run { outstanding: ladder, parts: Vec::new() });
    }
    if !is_assigned {
        import.note(
            place,
            format_args!("no worker runs '{name}'; it is imported as if all of them did"),
        );
    }
    let (mut depths, mut counts) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    let nameless = [String::new()];
    for worker in &workers {
        let targets = if worker.targets.is_empty() { &nameless[..] } else { &worker.targets };
        for target in targets {
            *depths.entry(target).or_default() += u64::from(worker.depth.unwrap_or(1));
            *counts.entry(target).or_default() += 1;
        }
    }
    let most = |of: &BTreeMap<&str, u64>| of.values().copied().max().unwrap_or(1);
    let (depth, count) = (most(&depths), most(&counts));
    if depths.values().any(|other| *other != depth) && config.setup.depths().is_none() {
        import.note(
            place,
            format_args!(
                "the targets of '{name}' have different numbers of \
            outstanding I/Os; the largest, {depth}, is taken"
            ),
        );
    }
    if count > 1 {
        import.note(
            place,
            format_args!(
                "{count} workers run '{name}' on one target; use \
                                         --workers {count} when measuring for separate sequential \
                                         streams"
            ),
        );
    }
    let outstanding = match config.setup.depths() {
        Some((place, depths)) => {
            let times =
                |depth: &u32| depth.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            ladder(place, &depths.iter().map(times).collect::<Vec<_>>())?
        }
        None => ladder(place, &[u32::try_from(depth).unwrap_or(u32::MAX)])?,
    };
    Ok(Run { outstanding: Some(outstanding), parts: parts(place, &workers)? })
}

fn ladder(place: &Place, depths: &[u32]) -> Taken<Ladder> {
    Ladder::new(depths.to_vec()).or_else(|error| refused(place, error))
}

/// The parts of the target that workers use, weighted by their outstanding I/Os.
fn parts(place: &Place, workers: &[&Worker]) -> Taken<Vec<(Area, f64)>> {
    let mut parts = BTreeMap::<(u64, u64), f64>::new();
    for worker in workers {
        *parts.entry(worker.part).or_default() += f64::from(worker.depth.unwrap_or(1));
    }
    if parts.len() > MOST_PARTS {
        return refused(
            place,
            format_args!(
                "its workers use {} parts of the disk; give them at most {MOST_PARTS}",
                parts.len()
            ),
        );
    }
    let area = |((start, len), share): ((u64, u64), f64)| {
        let bytes = |sectors: u64| sectors.checked_mul(512);
        let end = start.checked_add(len).and_then(bytes);
        match (bytes(start), end, len) {
            (Some(start), _, 0) => {
                Ok((Area::Range { from: Edge::Bytes(start), to: Edge::End }, share))
            }
            (Some(start), Some(end), _) => {
                Ok((Area::Range { from: Edge::Bytes(start), to: Edge::Bytes(end) }, share))
            }
            _ => refused(
                place,
                format_args!(
                    "a worker uses {len} sectors from sector {start} on, which no disk has; give \
                        fewer"
                ),
            ),
        }
    };
    parts.into_iter().map(area).collect()
}
