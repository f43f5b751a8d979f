//! StorageBench: measures a disk subsystem the way storage white papers do.
//!
//! A *load profile* says what requests look like (random or sequential, the share of reads, the block size); a
//! *ladder* says how many of them are outstanding at once. For every profile and every rung, StorageBench keeps
//! exactly that many requests in flight, waits for a ramp, counts for a run, and gives a [`Row`]: rate,
//! throughput, latency percentiles, the processor's share, and how sure the figures are.
//!
//! It runs on an [`platform::Env`] and sees a target through [`platform::Drive`], so the same code measures a file, a
//! block device, an NBD export, an array in this process, and a model of a server in virtual time.
//!
//! # A measurement from end to end
//! ```
//! # #[allow(dead_code)] mod world { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/world/mod.rs")); }
//! # use world::{Service, TestDrive, TestWorld};
//! use std::time::Duration;
//! use storagebench::{
//!     Bench, Environment, Ending, Method, ReportOptions, Results, Settings, Target, html_report, summary,
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
//! # let drive = std::rc::Rc::new(TestDrive::new(&world.env, 1 << 30, 4, Service::Fixed(1_000_000)));
//! // A drive that serves four requests at a time, each in 1 ms; here it stands in for `/dev/nvme0n1`.
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
//! # What the figures mean
//! - **Outstanding I/Os** are the total over all workers, as the target sees them: 8 outstanding by 3 workers
//!   are 3 + 3 + 2. Of several targets that are measured together, each has as many; the row shows the sum.
//! - **Offsets** are multiples of the block size from the start of the measured area, so that a 64 KiB block is
//!   never torn over two 64 KiB strips of an array that starts there; a profile may say otherwise
//!   ([`Align`]). Random ones are uniform over the area, or spread as its [`Skew`] says.
//!   Each worker reads or writes a sequential stream of its own; all its outstanding I/Os share the place in
//!   it, it wraps around at the area's end, and goes on from one rung to the next. The streams of several
//!   workers start evenly spaced. A profile may ask for more streams ([`Streams`]).
//! - **A closed loop** starts a request when another returns: while its target stalls it asks for nothing, and its
//!   percentiles are those of a few patient users. **An open loop** ([`Pace::Open`]) starts requests when they are
//!   due, and latencies count from then: what users who come when they like would see. `open_loop` in the row says
//!   whether the target kept up.
//! - **Counted** is every I/O that completes within the run, with its latency from its start to its
//!   completion, also when it was started during the ramp. What completes later is not counted.
//! - **Latencies** are kept in histograms to a thousandth; mean and maximum are exact.
//! - **`ci95`** comes from the spread between at least 30 equal parts of the run, and is wider where neighbouring
//!   parts resemble one another: repeat the measurement and 95 of 100 such intervals hold the true value, if the
//!   target is in a steady state. A point is measured on until they are narrow enough
//!   ([`Settings::confidence_percent`]).
//! - **`steady_state`** judges the run's fifths, or the rounds that were asked for ([`SteadyRule`]).
//! - **`notes`** say what makes a row doubtful ([`NoteKind`]), from what was seen around it ([`Surroundings`]).
//! - **`detail`** holds the histograms whole and the course over time: rows that have it merge exactly ([`merge`()]).
//! - **Errors** are requests that failed or moved fewer bytes than asked. They have no latency. A medium error
//!   is counted and the run goes on; a target that is gone, does not answer within its time limit, cannot do
//!   what is asked, or returns nothing but errors ends it: [`Measured::ending`] says what happened and when,
//!   and what was counted until then is kept.
//! - **Writes** carry bytes that compress as the profile says (not at all, unless it says so), and no two are alike.
//! - **Verifying** ([`Settings::verify`]): every block carries its address, its generation and a checksum; reads are
//!   checked, and at the end all that was written is read once more. A wrong block ends the run.
//!
//! # What it does not overwrite
//! A profile that writes is refused on a target that holds a file system, a partition table, an array's label
//! or a file of somebody's data, unless [`Settings::destroy_data`] is set: see [`guard`].
//!
//! # Where to look
//! Each folder imports only folders above it, besides `error.rs` and `text.rs`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `error` | what can be wrong before a measurement starts |
//! | `text` | figures and times as people read them |
//! | **`load`** | **what is asked of a target** |
//! | `load::profile` | load profiles and their inline form |
//! | `load::catalog` | the catalog and its files; the profiles: `catalog/workloads/` at the project's root |
//! | `load::ladder` | how many requests are outstanding |
//! | `load::area` | which part of a target is measured |
//! | **`import`** | **workloads of other tools** |
//! | `import::decode` | the encodings of files |
//! | `import::fio` | fio job files |
//! | `import::icf` | configurations of Iometer |
//! | **`statistics`** | **what is counted, and how sure it is** |
//! | `statistics::meter` | what completes inside the window, how long it took |
//! | `statistics::estimate` | estimates with their errors |
//! | `statistics::intervals` | the intervals of a row |
//! | `statistics::steady` | steady state |
//! | `statistics::surroundings` | what is seen of the machine around a measurement |
//! | **`generator`** | **the load** |
//! | `generator::loops` | the loops, their cost and their rules |
//! | `generator::pattern` | where requests go |
//! | `generator::skew` | popular places |
//! | `generator::schedule` | when the requests of an open loop are due |
//! | `generator::payload` | what writes carry |
//! | `generator::verify` | blocks that say what they are |
//! | `generator::random` | random numbers |
//! | **`row`** | **what one point came to: the field names of rows** |
//! | `row::detail` | histograms whole, the course over time |
//! | `row::notes` | doubts, and what they are judged by |
//! | **`measurement`** | **from settings to rows** |
//! | `measurement::bench` | profile by profile, rung by rung |
//! | `measurement::settings` | what to measure and how long, checked |
//! | `measurement::target` | what is measured |
//! | [`guard`] | what is not written over |
//! | `measurement::precondition` | what a target is written full of before |
//! | `measurement::supervise` | ramp, run, extra time, rounds, cancelling |
//! | `measurement::observe` | progress, and rows as they come |
//! | `measurement::read_back` | the end of a verified run |
//! | **`results`** | **all rows with what they were measured under: JSON, CSV** |
//! | `results::compare` | whether one side is faster |
//! | `results::merge` | measurements at the same time, joined |
//! | `results::sides` | measurements side by side in one |
//! | **`report`** | **the HTML page and its figures** |
//! | `report::table` | what the terminal shows |
//! | `report::iometer` | results laid out like a results file of Iometer |
//! | `report::sections` | the page's tables: doubts, rows, settings |
//! | `report::plot` | a figure by itself, as SVG |
//! | `report::lines`, `bars`, `distribution` | curves over the ladder, bars of the best, latencies by percentile and over time |
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
    Access, Align, Arrivals, BlockShare, Component, Extent, Load, Pace, Profile, RequestKind, Skew, Streams,
    Zone,
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
pub use results::compare::{Change, Comparison, Comparisons, PointChange, ProfileChange, Verdict, compare};
pub use results::merge::{CannotMerge, merge};
pub use results::sides::side_by_side;
pub use results::{Definition, Environment, Method, Results};
pub use row::detail::{Detail, LatencyHistogram, NotAHistogram, Trace};
pub use row::notes::{Note, NoteKind};
pub use row::{Latency, OpenLoop, Row, Split};
pub use statistics::estimate::student_t_95;
pub use statistics::intervals::Interval95;
pub use statistics::meter::LatencyShape;
pub use statistics::steady::{SteadyRule, SteadyState};
pub use statistics::surroundings::{DeviceCounters, MachineTime, Snapshot, Surrounded, Surroundings};
pub use text::{duration as duration_text, number as number_text};
