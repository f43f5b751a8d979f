//! What volumes and drives do now: `volume stats`, `drive stats`, `top`.
//!
//! The controller tells what it counted and measured; two such answers with some time between them are rates. So all of it works over the
//! network, too, and costs no drive an operation.

mod past;
mod rates;
mod screen;
mod view;

use crate::cli::{Sampling, StatsSpan, Top};
use crate::control::{Control, named};
use crate::failure::{Failure, Outcome};
use crate::{output, signals};
use controller::{Command, HealthReport, MetricsInfo, Reply};
use rates::{DriveRates, Rates};
use screen::Screen;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time over which rates are taken, if nobody says another.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often a wait looks whether somebody has pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// `softroc volume stats`.
pub fn volumes(control: &Control, names: &[String], stats: &StatsSpan) -> Outcome {
    if let Some(since) = stats.since {
        return past::volumes(control, names, since, stats);
    }
    let sampling = &stats.sampling;
    let check = |metrics: &MetricsInfo| {
        let is_there = |name: &&String| {
            metrics.volumes.iter().any(|one| one.volume.name == **name || one.volume.uuid == **name)
        };
        match names.iter().find(|name| !is_there(name)) {
            Some(name) => Err(Failure::not_found(format!(
                "there is no volume '{name}'; 'softroc volume list' lists those there are"
            ))),
            None => Ok(()),
        }
    };
    sample(control, sampling, check, |rates, json| {
        let mut rates = rates;
        rates
            .volumes
            .retain(|one| names.is_empty() || [&one.volume, &one.uuid].iter().any(|is| names.contains(is)));
        rates.drives.clear();
        match json {
            true => told(
                sampling,
                &Told {
                    stats: "volumes",
                    seconds: rates.seconds,
                    volumes: Some(&rates.volumes),
                    drives: None,
                },
            ),
            false => output::print(&view::volumes(&rates.volumes)),
        }
    })
}

/// `softroc drive stats`.
pub fn drives(control: &Control, names: &[String], stats: &StatsSpan) -> Outcome {
    let names = names.iter().map(|name| named(name)).collect::<Outcome<Vec<String>>>()?;
    if let Some(since) = stats.since {
        return past::drives(control, &names, since, stats);
    }
    let sampling = &stats.sampling;
    let is_it = |name: &str, drive: &str, volumes: &[String], slot: Option<u16>| {
        let is_slot = |volume: &String| slot.is_some_and(|slot| name == format!("{volume}:{slot}"));
        name == drive || volumes.iter().any(is_slot)
    };
    let check = |metrics: &MetricsInfo| {
        let is_there = |name: &&String| {
            let mut drives = metrics.drives.iter().map(|one| &one.drive);
            drives.any(|drive| is_it(name, &drive.name, &drive.volumes, drive.slot))
        };
        match names.iter().find(|name| !is_there(name)) {
            Some(name) => Err(Failure::not_found(format!(
                "there is no drive {name}; 'softroc drive list' lists those there are"
            ))),
            None => Ok(()),
        }
    };
    sample(control, sampling, check, |rates, json| {
        let is_asked = |one: &&DriveRates| {
            names.is_empty() || names.iter().any(|name| is_it(name, &one.drive, &one.volumes, one.slot))
        };
        let drives: Vec<&DriveRates> = rates.drives.iter().filter(is_asked).collect();
        match json {
            true => told(
                sampling,
                &Told { stats: "drives", seconds: rates.seconds, volumes: None, drives: Some(&drives) },
            ),
            false => output::print(&view::drives(&drives)),
        }
    })
}

/// Rates as JSON.
#[derive(Serialize)]
struct Told<'r> {
    stats: &'static str,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    volumes: Option<&'r [rates::VolumeRates]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drives: Option<&'r [&'r DriveRates]>,
}

/// One object, or one of several.
fn told(sampling: &Sampling, told: &Told<'_>) -> Outcome {
    match times(sampling) {
        Some(1) => output::json(told),
        _ => output::json_line(told),
    }
}

/// How many times rates are shown; `None`: until somebody ends it.
fn times(sampling: &Sampling) -> Option<u64> {
    sampling.count.or(sampling.interval.is_none().then_some(1))
}

fn metrics(control: &Control) -> Outcome<MetricsInfo> {
    match control.ask(&Command::Metrics {})? {
        Reply::Metrics { metrics } if metrics.taken_ns > 0 => Ok(*metrics),
        Reply::Metrics { .. } => {
            Err(Failure::failed("the controller is of an earlier version; restart it with this one"))
        }
        _ => Err(Failure::failed("the controller's answer is no metrics; look at its log")),
    }
}

/// Waits; whether nobody pressed Ctrl-C meanwhile.
fn wait(time: Duration, interrupted: &AtomicBool) -> bool {
    let deadline = Instant::now() + time;
    while !interrupted.load(Ordering::Relaxed) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

/// Shows rates as often as is asked.
fn sample(
    control: &Control,
    sampling: &Sampling,
    check: impl Fn(&MetricsInfo) -> Outcome,
    mut show: impl FnMut(Rates, bool) -> Outcome,
) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&interrupted)?;
    let mut before = metrics(control)?;
    check(&before)?;
    let mut left = times(sampling);
    while left != Some(0) && wait(sampling.interval.unwrap_or(INTERVAL), &interrupted) {
        let after = metrics(control)?;
        if let Ok(rates) = Rates::between(&before, &after) {
            show(rates, sampling.output.json)?;
            left = left.map(|left| left - 1);
        }
        before = after;
    }
    Ok(())
}

/// `softroc top`.
pub fn top(control: &Control, top: &Top) -> Outcome {
    let sampling = &top.sampling;
    // Before the terminal is another page: what is refused is said on this one.
    let first = metrics(control)?;
    if sampling.output.json {
        return sample(
            control,
            sampling,
            |_| Ok(()),
            |rates, _| {
                let drives: Vec<&DriveRates> = rates.drives.iter().collect();
                let all = Told {
                    stats: "top",
                    seconds: rates.seconds,
                    volumes: Some(&rates.volumes),
                    drives: Some(&drives),
                };
                told(sampling, &all)
            },
        );
    }
    match Screen::take()? {
        Some(screen) => on_screen(control, sampling, &screen, first),
        None => sample(
            control,
            sampling,
            |_| Ok(()),
            |rates, _| output::print(&view::top(health(control).ok().as_ref(), &metrics(control)?, &rates)),
        ),
    }
}

fn health(control: &Control) -> Outcome<HealthReport> {
    match control.ask(&Command::Health {})? {
        Reply::Health { health } => Ok(health),
        _ => Err(Failure::failed("the controller's answer is no report of its health; look at its log")),
    }
}

/// Until a key or a signal ends it; a controller that is gone for a while is waited for.
fn on_screen(control: &Control, sampling: &Sampling, screen: &Screen, first: MetricsInfo) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&interrupted)?;
    let mut before = first;
    let mut left = sampling.count;
    screen.show("softroc top: rates follow in a moment. 'q' ends it.")?;
    while left != Some(0) && !interrupted.load(Ordering::Relaxed) {
        let is_over = || interrupted.load(Ordering::Relaxed);
        if screen.wait_for_end(sampling.interval.unwrap_or(INTERVAL), is_over)? {
            break;
        }
        match metrics(control) {
            Ok(after) => {
                if let Ok(rates) = Rates::between(&before, &after) {
                    let health = health(control).ok();
                    screen.show(&view::top(health.as_ref(), &after, &rates))?;
                    left = left.map(|left| left - 1);
                }
                before = after;
            }
            Err(failure) => screen.show(&format!("{failure}\nIt is waited for. 'q' ends it."))?,
        }
    }
    Ok(())
}
