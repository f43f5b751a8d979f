//! What volumes and drives did, and how long it took: the history of a controller.
//!
//! ```text
//! counters, every 10 s ──► Recorder: 10 s for two hours, in memory
//!                              └──► Store (its own thread, SQLite): 1 min for a day ──► 15 min for 30 days
//! ```
//!
//! Invariants: intervals are merged by adding up counts and histograms, never by averaging percentiles, so that the figures of
//! an hour are those of everything that was done in it. Memory and file are bounded (`MOST_SUBJECTS`, `Limits`). A file that
//! cannot be read is moved aside and never overwritten. A store that does not work stops nothing: what it could not take waits,
//! within a bound, and a [`Notice`] says so once.
//!
//! | file | what |
//! | --- | --- |
//! | `interval` | what was done in an interval: merging |
//! | `encoding` | an interval as bytes |
//! | `figures` | IOPS, MiB/s and percentiles of an interval |
//! | `recorder` | counters in, intervals out; ten seconds each, in memory |
//! | `series` | intervals of several resolutions as points of one length |
//! | `history` | both together |
//! | `store` | the file: `schema` and how it is opened, `tables` its rows, `thread` the one writer |

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file has a thread of its own, outside the engine's world"
)]

mod encoding;
mod figures;
mod history;
mod interval;
mod recorder;
mod series;
mod store;

pub use figures::{Figures, OperationFigures};
pub use history::{History, Question};
pub use interval::{BUCKETS, Done, Interval, OPERATIONS, Temperatures};
pub use recorder::{Counters, MOST_SUBJECTS, Reading, Recorder};
pub use series::{Point, Series};
pub use store::{Kind, Limits, Notice, Row, Store, Subject};
