//! What a server would do: the engine that serves real drives, on models of drives behind a model of a controller, in
//! virtual time, under the load of StorageBench. No formula stands in for a run.
//!
//! ```
//! use layout::Level;
//! use predict::{Configuration, MeasuringMethod, MethodName, Policies, Request, Runs, bottleneck};
//! use std::time::Duration;
//!
//! let catalog = models::Catalog::builtin();
//! let drives = predict::parse_drives(catalog, "4xSAS-12G-SSD")?;
//! let shape = Configuration::shape(Level::Raid5, drives.len(), None)?;
//! let controller = catalog.controller("CP400i").expect("the catalog has it");
//! let configuration = Configuration::new(controller, drives, shape, None, &Policies::default())?;
//! let mut method = MeasuringMethod::of(MethodName::Fujitsu2016, 4)?;
//! method.ladder = "16".parse()?;
//! let request = Request {
//!     configuration,
//!     method,
//!     profiles: vec!["database".parse()?],
//!     runs: Runs {
//!         runtime: Duration::from_millis(40),
//!         confidence_percent: None,
//!         ramp: Duration::from_millis(10),
//!         workers: 1,
//!         seed: 1,
//!         seeds: 2,
//!         cancel: std::sync::Arc::default(),
//!     },
//! };
//! let results = predict::predict(&request, &|_progress| {})?;
//! let row = &results.rows[0];
//! let (resource, busy_percent) = bottleneck(row).expect("a prediction says what is busy");
//! println!("{} IO/s at 16 outstanding; {resource} is busy {busy_percent} %", row.iops);
//! # assert!(row.iops > 1000.0 && row.ci95.is_some());
//! # predict::Result::Ok(())
//! ```
//!
//! # What may be asked
//! | question | asked with | answered with |
//! | --- | --- | --- |
//! | what would this server do under these loads? | [`Request`] to [`predict()`] | [`storagebench::Results`]: the rows of a measurement, each with how busy each resource was and with intervals from several seeds |
//! | what limits it? | a row to [`bottleneck`] | the busiest resource |
//! | do the models agree with what is published? | [`published::Figure`]s to [`published::compare`] | [`published::Report`]: published, predicted, error; or what is missing |
//! | which parameters make a drive do what is published of it? | [`fit::FitRequest`] to [`fit::fit`] | [`fit::Fit`]: figures, parameters, the drive's file |
//!
//! The library reads and writes no files and prints nothing: drives and controllers of one's own are read into a
//! [`models::Catalog`] by the caller. What runs long reports [`Progress`]. Simulations run beside each other, each on one
//! thread, on as many as the machine has.
//!
//! The array that is simulated is made by the crate `array`, which `softroc bench array:` uses as well: the array of a
//! prediction is the one that real drives are measured with.
//!
//! # Where to look
//! | module | what it holds |
//! | --- | --- |
//! | `configuration` | [`Configuration`]: a controller, its drives, the volume on them, checked |
//! | `policies` | [`Policies`] and [`Modes`]: what a controller is set to |
//! | `method` | [`MeasuringMethod`]: how a load is put on |
//! | `request` | [`Request`], [`predict()`], [`bottleneck`] |
//! | `filling` | what a cache holds before it is measured |
//! | `simulate` | one load on one seed, and the mean of several |
//! | `parallel` | simulations beside each other |
//! | `progress` | [`Progress`] |
//! | `error` | [`Error`] |
//! | [`published`] | published figures beside predictions |
//! | [`fit`](mod@fit) | fits of drives to published figures |

mod configuration;
mod error;
mod filling;
pub mod fit;
mod method;
mod parallel;
mod policies;
mod progress;
pub mod published;
mod request;
mod simulate;

pub use configuration::{Configuration, WriteHole, parse_drives};
pub use error::{Error, ErrorKind, Result};
pub use method::{MeasuringMethod, MethodName};
pub use policies::{Modes, Policies};
pub use progress::{OnProgress, Progress};
pub use request::{Request, Runs, bottleneck, predict};
