//! StorageBench: measures a disk subsystem by the method of storage white papers.
//!
//! A *load profile* describes requests (random or sequential, the share of reads, the block size).
//! A *ladder* is a list of queue depths. For every profile and every depth, StorageBench keeps
//! exactly that many requests outstanding, waits for a ramp, measures a run, and returns a [`Row`]:
//! rate, throughput, latency percentiles, CPU share and confidence intervals.
//!
//! It runs on a [`platform::Env`] and uses a target through [`platform::Drive`]. The same code
//! therefore measures a file, a block device, an NBD export, an array in this process, and a model
//! of a server in virtual time.
//!
//! # A measurement from end to end
//! ```
//! # #[allow(dead_code)] mod world {
//! #     include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/world/mod.rs"));
//! # }
//! # use world::{Service, TestDrive, TestWorld};
//! use std::time::Duration;
//! use storagebench::{
//!     Bench, Environment, Ending, Method, ReportOptions, Results, Settings, Target, html_report,
//!     summary,
//! };
//!
//! let settings = Settings {
//!     profiles: vec!["database".parse()?, "sequential,read,1M".parse()?],
//!     outstanding: "1..16".parse()?,
//!     runtime: Duration::from_secs(2),
//!     ramp: Duration::from_secs(1),
//!     ..Settings::default()
//! };
//! let mut results = Results::new(Method::of(&settings), Environment::default());
//!
//! # let world = TestWorld::new(1);
//! # let drive = TestDrive::new(&world.env, 1 << 30, 4, Service::Fixed(1_000_000));
//! # let drive = std::rc::Rc::new(drive);
//! // A drive that serves four requests at a time, each in 1 ms; here it replaces `/dev/nvme0n1`.
//! let target = Target::attached("/dev/nvme0n1", drive);
//! let bench = Bench::new(settings);
//! # let env = world.env.clone();
//! # let measured = world.run(async move {
//! let measured = bench.run(&env, &target).await?;
//! # storagebench::Result::Ok(measured) })?;
//! assert_eq!(measured.ending, Ending::Complete);
//! results.add(measured);
//!
//! let best = &results.best["database"];
//! assert_eq!((best.iops.round(), best.latency_us.unwrap().mean.round()), (4000.0, 1000.0));
//! for sentence in summary(&results) {
//!     println!("{sentence}"); // database: up to 4000 IO/s (31.2 MiB/s) with 4 outstanding, at …
//! }
//! let (json, csv) = (results.to_json(), results.to_csv());
//! let page = html_report(&results, &ReportOptions { indicative: true, ..Default::default() });
//! # assert!(json.len() > 1000 && csv.lines().count() == 11 && page.contains("Indicative"));
//! # storagebench::Result::Ok(())
//! ```
//!
//! # Definitions
//! - **Outstanding I/Os** are the total over all workers, as seen by the target: 8 outstanding by 3
//!   workers are 3 + 3 + 2. In a joint measurement each target has this many; the row has the sum.
//! - **Offsets** are multiples of the block size from the start of the measured area, so that a 64
//!   KiB block never spans two 64 KiB strips of an array that starts there; a profile may change
//!   that ([`Align`]). Random offsets are uniform over the area, or follow its [`Skew`]. Each
//!   worker has its own sequential stream, which all its outstanding I/Os share. It wraps around at
//!   the area's end, and continues from one queue depth to the next. The streams of several workers
//!   start evenly spaced. A profile may have more streams ([`Streams`]).
//! - **A closed loop** starts a request when another completes: it sends nothing while its target
//!   stalls, and its percentiles are those of a few patient users. **An open loop**
//!   ([`Pace::Open`]) starts requests at their due times, from which latencies count: the view of
//!   users who arrive independently. `open_loop` in the row shows whether the target kept up.
//! - **Counted** is every I/O that completes within the run, with its full latency, even if it
//!   started during the ramp. Later completions do not count.
//! - **Latencies** are stored in histograms with a resolution of a thousandth; mean and maximum are
//!   exact.
//! - **`ci95`** is the 95 % confidence interval for a target in a steady state. It follows from the
//!   spread between at least 30 equal parts of the run, and is wider if neighbouring parts are
//!   correlated. A point is measured until the intervals are narrow enough
//!   ([`Settings::confidence_percent`]).
//! - **`steady_state`** compares the run's fifths, or the requested rounds ([`SteadyRule`]).
//! - **`notes`** are reasons to doubt a row ([`NoteKind`]), from observations of the machine
//!   ([`Surroundings`]).
//! - **`detail`** has the full histograms and the time series: rows with it merge exactly
//!   ([`merge`()]).
//! - **Errors** are requests that failed or transferred fewer bytes. They have no latency. A run
//!   continues after a medium error. It ends when the target is gone, exceeds its time limit,
//!   rejects such requests, or returns only errors. [`Measured::ending`] has the reason and the
//!   time, and the results so far are kept.
//! - **Writes** carry bytes with the profile's compressibility (default: incompressible), all
//!   different.
//! - **Verification** ([`Settings::verify`]): every block contains its address, its generation and
//!   a checksum. Reads are checked, and at the end all written data are read again. A wrong block
//!   ends the run.
//!
//! # Protection of data
//! A writing profile is refused on a target with a file system, a partition table, an array's
//! label, or a file with other data, unless [`Settings::destroy_data`] is set: see [`guard`].
//!
//! # Modules
//! Each folder imports only folders above it, except for `error.rs` and `text.rs`.
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | errors before a measurement starts |
//! | `text` | figures and times in readable form |
//! | **`load`** | **the load on a target** |
//! | `load::profile` | load profiles and their inline form |
//! | `load::catalog` | the catalog and its files; the profiles: `catalog/workloads/` at the project's root |
//! | `load::ladder` | the numbers of outstanding I/Os |
//! | `load::area` | the measured part of a target |
//! | **`import`** | **workloads of other tools** |
//! | `import::decode` | the encodings of files |
//! | `import::fio` | fio job files |
//! | `import::icf` | configurations of Iometer |
//! | **`statistics`** | **counters, and their confidence** |
//! | `statistics::meter` | completions inside the window, and their latencies |
//! | `statistics::estimate` | estimates with their errors |
//! | `statistics::intervals` | the intervals of a row |
//! | `statistics::steady` | steady state |
//! | `statistics::surroundings` | observations of the machine during a measurement |
//! | **`generator`** | **the load** |
//! | `generator::loops` | the loops, their cost and their invariants |
//! | `generator::pattern` | offsets of requests |
//! | `generator::skew` | popular offsets |
//! | `generator::schedule` | due times of an open loop |
//! | `generator::payload` | the bytes of writes |
//! | `generator::verify` | self-describing blocks |
//! | `generator::random` | random numbers |
//! | **`row`** | **the results of one point: the field names of rows** |
//! | `row::detail` | full histograms, time series |
//! | `row::notes` | doubts, and their criteria |
//! | **`measurement`** | **from settings to rows** |
//! | `measurement::bench` | the sequence of profiles and queue depths |
//! | `measurement::settings` | the settings, checked |
//! | `measurement::target` | the measured target |
//! | [`guard`] | protection of existing data |
//! | `measurement::precondition` | writes before the measurement |
//! | `measurement::supervise` | ramp, run, extra time, rounds, cancellation |
//! | `measurement::observe` | progress and new rows |
//! | `measurement::read_back` | the final check of a verified run |
//! | **`results`** | **all rows with their conditions: JSON, CSV** |
//! | `results::compare` | whether one side is faster |
//! | `results::merge` | sums of simultaneous measurements |
//! | `results::sides` | measurements next to each other |
//! | **`report`** | **the HTML page and its figures** |
//! | `report::table` | output for a terminal |
//! | `report::iometer` | results in the layout of an Iometer results file |
//! | `report::sections` | the page's tables: doubts, rows, settings |
//! | `report::plot` | a single figure, as SVG |
//! | `report::lines`, `bars`, `distribution` | curves over queue depths, bars of the best, latencies by percentile and over time |
//! | `report::frame`, `scale`, `svg` | axes, scales, elements |

mod error;
mod generator;
mod import;
mod load;
mod measurement;
mod report;
mod results;
mod row;
#[cfg(test)]
mod sample;
mod statistics;
mod text;

pub use error::{Error, ErrorKind, Result};
pub use import::{JobHost, import_fio, import_icf};
pub use load::area::{Area, Edge};
pub use load::catalog::{Catalog, Entry, Group, profile_options};
pub use load::ladder::{Ladder, MAX_OUTSTANDING};
pub use load::profile::{
    Access, Align, Arrivals, BlockShare, Component, Extent, Load, Pace, Profile, RequestKind, Skew,
    Streams, Zone,
};
pub use measurement::bench::{Bench, Ending, Measured};
pub use measurement::guard;
pub use measurement::observe::{Observer, Phase, Progress};
pub use measurement::precondition::Precondition;
pub use measurement::read_back::Verified;
pub use measurement::remaining::Remaining;
pub use measurement::settings::Settings;
pub use measurement::target::{DEFAULT_TIME_LIMIT, Target};
pub use report::iometer::iometer_csv;
pub use report::table::{Table, doubts, row_text, summary};
pub use report::{Plot, ReportOptions, html_report, svg_plot};
pub use results::compare::{
    Change, Comparison, Comparisons, PointChange, ProfileChange, Verdict, compare,
};
pub use results::merge::{CannotMerge, merge};
pub use results::sides::side_by_side;
pub use results::{Definition, Environment, Method, Results};
pub use row::detail::{Detail, LatencyHistogram, NotAHistogram, Trace};
pub use row::notes::{Grade, Note, NoteKind};
pub use row::{Latency, OpenLoop, Row, Split};
pub use statistics::estimate::student_t_95;
pub use statistics::intervals::Interval95;
pub use statistics::meter::LatencyShape;
pub use statistics::steady::{SteadyRule, SteadyState};
pub use statistics::surroundings::{
    DeviceCounters, MachineTime, Snapshot, Surrounded, Surroundings,
};
pub use text::{duration as duration_text, number as number_text};
