//! Who measures and predicts for the console. That takes rooms which this one must not import, so that whoever joins the worlds hands it in.

use controller::{Caller, Result};
use webconsole::{Measure, Predict, Prediction};

/// Measures volumes and predicts servers, one of each at a time, beside everything else. All of it is called on the thread of HTTP: none of it
/// waits, for the controller least of all.
pub trait Workbench: Send + Sync {
    /// What can be chosen, and where the measurement and the prediction stand.
    fn told(&self) -> webconsole::Workbench;

    /// Begins a measurement for somebody.
    ///
    /// # Errors
    /// `Invalid` if the order cannot be understood, `HoldsData` if it writes and says not that data may be lost, `Busy` if another one runs. What is found out
    /// later is told with the measurement.
    fn measure(&self, order: &Measure, by: Caller) -> Result<()>;

    /// Stops the measurement: what was measured until then stays.
    ///
    /// # Errors
    /// `WrongState` if none runs.
    fn stop_measuring(&self) -> Result<()>;

    /// Begins a prediction.
    ///
    /// # Errors
    /// `Invalid` if the order cannot be understood, or asks for what the controller cannot do; `Busy` if another one runs.
    fn predict(&self, order: &Predict) -> Result<()>;

    /// Stops the prediction.
    ///
    /// # Errors
    /// `WrongState` if none runs.
    fn stop_predicting(&self) -> Result<()>;

    /// The report of the last measurement as a page, with the prediction beside it if that is asked; `None`: there is none.
    fn report(&self, beside: bool) -> Option<String>;

    /// Where predictions stand that a page shows: they are begun, one after the other, unless they are known already.
    fn foreseen(&self, orders: &[Predict]) -> Vec<Prediction>;
}
