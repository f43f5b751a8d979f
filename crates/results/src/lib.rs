//! The results database: StorageBench measurements with rows, histograms and environment, in one
//! SQLite file.
//!
//! SQLite blocks, and a measurement must not. The connection has its own thread, and receives rows
//! during the measurement. Each row is durable soon after it was measured: a killed run keeps its
//! rows.
//!
//! ```
//! use results::{NewRun, RunState, Store};
//! # let folder = std::env::temp_dir().join(format!("softroc-results-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let measured = storagebench::Results::new(
//! #     storagebench::Method::of(&storagebench::Settings::default()),
//! #     storagebench::Environment::default());
//! let store = Store::open(&folder.join("results.db"))?;
//! let new = NewRun { name: "before".into(), host: "db1".into(), started_unix_s: 1_700_000_000 };
//! let run = store.begin(&new, &measured.method, &measured.environment)?;
//! for row in &measured.rows {
//!     store.add_row(run, row); // does not wait
//! }
//! store.finish(run, RunState::Complete, &measured.notes, 1_700_000_060)?;
//!
//! let (kept, results) = store.load(store.find("before")?)?;
//! assert_eq!((kept.id, results), (run, measured));
//! # drop(store);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The file
//! ```text
//! runs   id, name, host, started_unix_s, ended_unix_s (null while it runs), state, method,
//!        environment, notes
//! rows   run, place (0, 1, ... in the order of measuring), target, profile, outstanding, iops,
//!        row, detail
//! ```
//! `method`, `environment`, `notes`, `row` and `detail` are JSON as in the results file; the other
//! columns are for manual queries (`sqlite3 results.db`). `detail` contains the histograms. `PRAGMA
//! user_version` is the version of this schema; later versions are refused.

mod schema;
mod store;

pub use store::{Error, NewRun, Result, Run, RunId, RunState, Store};
