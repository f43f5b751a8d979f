//! Interface for benchmarks and predictions. They need crates that this one must not import, so the
//! program passes an implementation.

use controller::{Caller, Result};
use webconsole::{Measure, Predict, Prediction};

/// Runs one benchmark and one prediction at a time, at low priority. The HTTP thread calls all
/// methods; none of them blocks.
pub trait Workbench: Send + Sync {
    /// The catalog, and the state of the benchmark and the prediction.
    fn told(&self) -> webconsole::Workbench;

    /// Starts a benchmark.
    ///
    /// # Errors
    /// `Invalid` for an invalid request, `HoldsData` if it writes without permission to destroy
    /// data, `Busy` if another one runs. Later errors are reported with the benchmark.
    fn measure(&self, order: &Measure, by: Caller) -> Result<()>;

    /// Stops the benchmark and keeps its results.
    ///
    /// # Errors
    /// `WrongState` if none runs.
    fn stop_measuring(&self) -> Result<()>;

    /// Starts a prediction.
    ///
    /// # Errors
    /// `Invalid` for an invalid or impossible request; `Busy` if another one runs.
    fn predict(&self, order: &Predict) -> Result<()>;

    /// Stops the prediction.
    ///
    /// # Errors
    /// `WrongState` if none runs.
    fn stop_predicting(&self) -> Result<()>;

    /// The HTML report of the last benchmark, optionally with the prediction; `None`: no report.
    fn report(&self, beside: bool) -> Option<String>;

    /// The state of the predictions of a page: unknown ones are queued.
    fn foreseen(&self, orders: &[Predict]) -> Vec<Prediction>;
}
