//! The performance history of volumes and drives.
//!
//! ```text
//! counters, every 10 s ──► Recorder: 10 s for two hours, in memory
//!                              └──► Store (its own thread, SQLite): 1 min for a day
//!                                       └──► 15 min for 30 days
//! ```
//!
//! Invariants:
//! - Intervals are merged by adding counts and histograms, never by averaging percentiles.
//! - Memory and file size are bounded (`MOST_SUBJECTS`, `Limits`).
//! - An unreadable file is moved aside, never overwritten.
//! - A failing store stops nothing: its rows wait, within a bound, and a [`Notice`] reports it
//!   once.
//!
//! | file | what |
//! | --- | --- |
//! | `interval` | the operations in an interval, and merging |
//! | `encoding` | binary encoding of an interval |
//! | `figures` | IOPS, MiB/s and percentiles of an interval |
//! | `recorder` | counters in, intervals of ten seconds out, in memory |
//! | `series` | intervals of several resolutions as points of one length |
//! | `history` | recorder and store together |
//! | `store` | the file: `schema` opens it, `tables` accesses rows, `thread` is the only writer |

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file is used by a thread of its own, outside the engine's executor"
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
