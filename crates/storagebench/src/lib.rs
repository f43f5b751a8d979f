//! StorageBench.
mod bench;
mod error;
mod generator;
pub mod guard;
mod ladder;
mod meter;
mod observe;
mod pattern;
mod payload;
mod profile;
mod random;
mod report;
mod results;
mod row;
#[cfg(test)]
mod sample;
mod settings;
mod stats;
mod table;
mod target;

pub use bench::{Bench, Ending, Measured};
pub use error::{Error, ErrorKind, Result};
pub use ladder::{Ladder, MAX_OUTSTANDING};
pub use observe::{CpuClock, Observer, Phase, Progress};
pub use profile::{Access, Profile, STANDARD_PROFILES, StandardProfile};
pub use report::{ReportOptions, html_report};
pub use results::{Environment, Method, Results};
pub use row::{BlockShare, Interval95, Latency, Row, Split};
pub use settings::Settings;
pub use stats::student_t_95;
pub use table::{Table, summary};
pub use target::{DEFAULT_TIME_LIMIT, Target};
