//! What the console measures and predicts, within the process that serves: a measurement of a volume and a prediction, one of each at a time.
//!
//! ```text
//!  a form ── control_api::Workbench ──▶ words of a command line ──▶ the flags of `softroc bench` or `softroc predict`
//!                                                              │
//!                 the thread "bench":       bench::served, through NBD like any host
//!                 the thread "predictions": predict::predict, behind everything else
//!                                                              │
//!  a page ◀── webconsole::Workbench ◀── what they have come to ◀┘
//! ```
//!
//! It is here, and not in the controller, since it joins rooms that the controller must not import, and since nothing of it belongs to volumes: what
//! runs ends with the process. A measurement is kept where `softroc bench` keeps its own.
//!
//! | module | what it holds |
//! | --- | --- |
//! | here | orders and answers |
//! | `offer` | what can be chosen |
//! | `measuring` | the measurement that runs |
//! | `predicting` | predictions: those that wait, the one that runs, those that are known |

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

/// How long a measurement may take to stop when the controller is asked to end, and how often it is looked.
const LOOKS_AT_THE_END: u32 = 100;
const LOOK: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone)]
pub struct Workbench {
    shared: Arc<Shared>,
}

/// What threads share.
struct Shared {
    /// Where the controller is, for a client of it.
    folder: PathBuf,
    socket: PathBuf,
    controller: ControllerHandle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    measuring: Option<Measuring>,
    predictions: Predictions,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // What is in it is whole after each statement.
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

    /// Stops what runs, and waits until nobody asks the volumes for anything any more.
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
        tracing::warn!("the measurement does not stop: what it did last is not kept");
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
        let Some(measuring) = state.measuring.as_ref().filter(|measuring| !measuring.is_over()) else {
            return Err(Error::new(ErrorKind::WrongState, "no measurement runs; nothing was stopped"));
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

/// The command that words say, as a shell would have handed it over.
fn parsed(words: &[String]) -> Outcome<Command> {
    let all = std::iter::once("softroc").chain(words.iter().map(String::as_str));
    let cli = Cli::try_parse_from(all).map_err(|error| {
        let text = error.render().to_string();
        Failure::usage(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    Ok(cli.command)
}

/// What was asked cannot be.
fn invalid(failure: &Failure) -> Error {
    Error::new(ErrorKind::Invalid, failure.to_string())
}

/// A row as pages show it.
fn point(row: &Row) -> Point {
    let sure =
        row.ci95.map(|ci95| (ci95.iops[1] - ci95.iops[0]) / 2.0 / row.iops.max(f64::MIN_POSITIVE) * 100.0);
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
