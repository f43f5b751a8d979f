//! The current load of volumes and drives: `volume stats`, `drive stats`, `top`.
//!
//! Rates are differences of two samples of the controller's counters. So they work over the
//! network, and cost no drive operations.

mod past;
mod rates;
mod screen;
mod view;

use crate::cli::{Sampling, StatsSpan, Top};
use crate::control::{Control, named};
use crate::failure::{Failure, Outcome};
use crate::{output, signals};
use controller::{Command, HealthReport, MetricsInfo, Reply};
use rates::{DriveRates, Rates, VolumeRates};
use screen::Screen;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The default sampling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// The interval of the check for Ctrl-C.
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
                "there is no volume '{name}'; see 'softroc volume list'"
            ))),
            None => Ok(()),
        }
    };
    sample(control, sampling, check, |rates, json| {
        let mut rates = rates;
        rates.volumes.retain(|one| {
            names.is_empty() || [&one.volume, &one.uuid].iter().any(|is| names.contains(is))
        });
        rates.drives.clear();
        match json {
            true => told(
                sampling,
                &RatesJson {
                    stats: "volumes",
                    seconds: rates.seconds,
                    volumes: Some(&rates.volumes),
                    drives: None,
                },
            ),
            false => {
                let volumes: Vec<&VolumeRates> = rates.volumes.iter().collect();
                output::print(&view::volumes(&volumes, output::width()))
            }
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
                "there is no drive {name}; see 'softroc drive list'"
            ))),
            None => Ok(()),
        }
    };
    sample(control, sampling, check, |rates, json| {
        let is_asked = |one: &&DriveRates| {
            names.is_empty()
                || names.iter().any(|name| is_it(name, &one.drive, &one.volumes, one.slot))
        };
        let drives: Vec<&DriveRates> = rates.drives.iter().filter(is_asked).collect();
        match json {
            true => told(
                sampling,
                &RatesJson {
                    stats: "drives",
                    seconds: rates.seconds,
                    volumes: None,
                    drives: Some(&drives),
                },
            ),
            false => output::print(&view::drives(&drives, output::width())),
        }
    })
}

/// Rates as JSON.
#[derive(Serialize)]
struct RatesJson<'r> {
    stats: &'static str,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    volumes: Option<&'r [VolumeRates]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drives: Option<&'r [&'r DriveRates]>,
}

/// Prints one object, or one of several.
fn told(sampling: &Sampling, told: &RatesJson<'_>) -> Outcome {
    match times(sampling) {
        Some(1) => output::json(told),
        _ => output::json_line(told),
    }
}

/// The number of samples; `None`: unlimited.
fn times(sampling: &Sampling) -> Option<u64> {
    sampling.count.or(sampling.interval.is_none().then_some(1))
}

fn metrics(control: &Control) -> Outcome<MetricsInfo> {
    match control.ask(&Command::Metrics {})? {
        Reply::Metrics { metrics } if metrics.taken_ns > 0 => Ok(*metrics),
        Reply::Metrics { .. } => Err(Failure::failed(
            "the controller is of an earlier version; restart it with this one",
        )),
        _ => Err(Failure::failed("the controller's answer is not a metrics report; see its log")),
    }
}

/// Waits; returns whether Ctrl-C was not pressed meanwhile.
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

/// Shows the requested number of samples.
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
    // Before the screen changes, so that an error stays visible.
    let first = metrics(control)?;
    if sampling.output.json {
        return sample(
            control,
            sampling,
            |_| Ok(()),
            |rates, _| {
                let drives: Vec<&DriveRates> = rates.drives.iter().collect();
                let all = RatesJson {
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
            |rates, _| {
                output::print(&view::top(
                    health(control).ok().as_ref(),
                    &metrics(control)?,
                    &rates,
                    None,
                ))
            },
        ),
    }
}

fn health(control: &Control) -> Outcome<HealthReport> {
    match control.ask(&Command::Health {})? {
        Reply::Health { health } => Ok(health),
        _ => Err(Failure::failed("the controller's answer is not a health report; see its log")),
    }
}

/// Runs until a key or a signal; waits while the controller does not respond.
fn on_screen(
    control: &Control,
    sampling: &Sampling,
    screen: &Screen,
    first: MetricsInfo,
) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&interrupted)?;
    let mut before = first;
    let mut left = sampling.count;
    screen.show("softroc top: waiting for the first rates. Press 'q' to quit.")?;
    while left != Some(0) && !interrupted.load(Ordering::Relaxed) {
        let is_over = || interrupted.load(Ordering::Relaxed);
        if screen.wait_for_end(sampling.interval.unwrap_or(INTERVAL), is_over)? {
            break;
        }
        match metrics(control) {
            Ok(after) => {
                if let Ok(rates) = Rates::between(&before, &after) {
                    let health = health(control).ok();
                    screen.show(&view::top(
                        health.as_ref(),
                        &after,
                        &rates,
                        Some(screen::page()),
                    ))?;
                    left = left.map(|left| left - 1);
                }
                before = after;
            }
            Err(failure) => {
                screen.show(&format!("{failure}\nWaiting for it. Press 'q' to quit."))?
            }
        }
    }
    Ok(())
}
