//! Predicts the performance of a server. The engine that serves real drives runs on models of
//! drives and of a controller, in virtual time, under a StorageBench load. No formula replaces a
//! run.
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
//! # API
//! | question | call | result |
//! | --- | --- | --- |
//! | how fast is this server under these loads? | [`Request`] to [`predict()`] | [`storagebench::Results`]: the rows of a measurement, with the utilisation of each resource and intervals from several seeds |
//! | what limits it? | a row to [`bottleneck`] | the busiest resource |
//! | do the models agree with published figures? | [`published::Figure`]s to [`published::compare`] | [`published::Report`]: published, predicted, error; or the reason why not |
//! | which parameters reproduce a drive's published figures? | [`fit::FitRequest`] to [`fit::fit`] | [`fit::Fit`]: figures, parameters, the drive's file |
//!
//! The library reads and writes no files and prints nothing: the caller reads its own drives and
//! controllers into a [`models::Catalog`]. Long operations report [`Progress`]. Simulations run in
//! parallel, one thread each.
//!
//! The crate `array` makes the simulated array. `softroc bench array:` uses it too, so that
//! predictions and measurements use the same array.
//!
//! # Modules
//! | module | contents |
//! | --- | --- |
//! | `configuration` | [`Configuration`]: a controller, its drives, the volume on them, checked |
//! | `policies` | [`Policies`] and [`Modes`]: a controller's settings |
//! | `method` | [`MeasuringMethod`]: how a load is run |
//! | `request` | [`Request`], [`predict()`], [`bottleneck`] |
//! | `filling` | the content of a cache before a measurement |
//! | `simulate` | one load on one seed, and the mean of several |
//! | `parallel` | concurrent simulations |
//! | `progress` | [`Progress`] |
//! | `error` | [`Error`] |
//! | [`published`] | comparison with published figures |
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
