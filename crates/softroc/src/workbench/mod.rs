//! Measurements and predictions for the console, within the serving process: at most one of each
//! runs at a time.
//!
//! ```text
//!  a form ── control_api::Workbench ──▶ words of a command line ──▶ the flags of
//!                                                              │    `softroc bench` or `predict`
//!                                                              │
//!                 the thread "bench":       bench::served, through NBD like any host
//!                 the thread "predictions": predict::predict, at low priority
//!                                                              │
//!  a page ◀── webconsole::Workbench ◀── progress and results ◀──┘
//! ```
//!
//! This is not part of the controller, because it joins crates that the controller must not import,
//! and does not concern volumes: running work ends with the process. Measurements are stored with
//! those of `softroc bench`.

mod measuring;
mod offer;
mod predicting;

use crate::cli::{Cli, Command};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use clap::Parser;
use controller::{Caller, ControllerHandle, Error, ErrorKind};
use measuring::Measuring;
use platform::Env;
use predicting::Predictions;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storagebench::Row;
use webconsole::{Measure, Point, Predict, Prediction};

/// How long a measurement may take to stop at the end of the controller, in polls, and their
/// interval.
const LOOKS_AT_THE_END: u32 = 100;
const LOOK: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone)]
pub struct Workbench {
    shared: Arc<Shared>,
}

/// State shared between threads.
struct Shared {
    /// The state folder of the controller, for a client.
    folder: PathBuf,
    socket: PathBuf,
    controller: ControllerHandle,
    state: Mutex<WorkbenchState>,
}

#[derive(Default)]
struct WorkbenchState {
    measuring: Option<Measuring>,
    predictions: Predictions,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, WorkbenchState> {
        // The state is consistent after each statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workbench {
    /// For the controller behind `control`.
    pub fn new(control: &Control, controller: ControllerHandle) -> Workbench {
        let (folder, socket) = (control.state().to_owned(), control.socket().to_owned());
        let shared = Shared { folder, socket, controller, state: Mutex::default() };
        Workbench { shared: Arc::new(shared) }
    }

    /// Stops running work, and waits until it sends no more requests to volumes.
    pub async fn close(&self, env: &Env) {
        {
            let mut state = self.shared.state();
            state.predictions.close();
            if let Some(measuring) = &state.measuring {
                measuring.cancel.store(true, Ordering::Relaxed);
            }
        }
        for _ in 0..LOOKS_AT_THE_END {
            if self.shared.state().measuring.as_ref().is_none_or(Measuring::is_over) {
                return;
            }
            env.sleep(LOOK).await;
        }
        tracing::warn!("the measurement does not stop: its latest rows are not stored");
    }
}

impl control_api::Workbench for Workbench {
    fn told(&self) -> webconsole::Workbench {
        let state = self.shared.state();
        webconsole::Workbench {
            offer: offer::all().clone(),
            run: state.measuring.as_ref().map(|measuring| measuring.shown.clone()),
            prediction: state.predictions.shown(),
        }
    }

    fn measure(&self, order: &Measure, by: Caller) -> controller::Result<()> {
        measuring::begin(&self.shared, order, by)
    }

    fn stop_measuring(&self) -> controller::Result<()> {
        let state = self.shared.state();
        let Some(measuring) = state.measuring.as_ref().filter(|measuring| !measuring.is_over())
        else {
            return Err(Error::new(ErrorKind::WrongState, "no measurement is running"));
        };
        measuring.cancel.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn predict(&self, order: &Predict) -> controller::Result<()> {
        predicting::show(&self.shared, order)
    }

    fn stop_predicting(&self) -> controller::Result<()> {
        self.shared.state().predictions.stop()
    }

    fn report(&self, beside: bool) -> Option<String> {
        let (mut runs, when) = {
            let state = self.shared.state();
            let measuring = state.measuring.as_ref().filter(|measuring| measuring.is_over())?;
            let results = measuring.results.clone()?;
            let mut runs = vec![(format!("volume:{}", measuring.shown.order.volume), results)];
            if beside {
                runs.extend(state.predictions.results());
            }
            (runs, measuring.shown.begun_unix_s)
        };
        if beside && runs.len() == 1 {
            return None;
        }
        runs.retain(|(_, results)| !results.rows.is_empty());
        crate::bench::beside(&runs, when)
    }

    fn foreseen(&self, orders: &[Predict]) -> Vec<Prediction> {
        predicting::foreseen(&self.shared, orders)
    }
}

/// Parses a command from its words, as given by a shell.
fn parsed(words: &[String]) -> Outcome<Command> {
    let all = std::iter::once("softroc").chain(words.iter().map(String::as_str));
    let cli = Cli::try_parse_from(all).map_err(|error| {
        let text = error.render().to_string();
        Failure::usage(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    Ok(cli.command)
}

/// A failure as an error `Invalid`.
fn invalid(failure: &Failure) -> Error {
    Error::new(ErrorKind::Invalid, failure.to_string())
}

/// A row in the form for pages.
fn point(row: &Row) -> Point {
    let sure = row
        .ci95
        .map(|ci95| (ci95.iops[1] - ci95.iops[0]) / 2.0 / row.iops.max(f64::MIN_POSITIVE) * 100.0);
    Point {
        profile: row.profile.clone(),
        outstanding: row.outstanding,
        per_s: row.iops,
        mib_per_s: row.throughput_mib_s,
        mean_us: row.latency_us.map(|latency| latency.mean),
        p99_us: row.latency_us.and_then(|latency| latency.p99),
        sure_percent: sure,
    }
}
