//! The control socket: the controller's [`Command`](controller::Command)s as JSON over HTTP.
//!
//! `POST /v1/command` takes any command and answers its reply, or an error with a kind and a sentence
//! (`docs/api.md` lists all of them, with examples):
//!
//! ```text
//! $ curl --unix-socket softroc-data/control.sock http://localhost/v1/command \
//!        -H 'content-type: application/json' -d '{"command": "volume-show", "volume": "data"}'
//! ```
//!
//! What only looks has addresses of its own: `GET /v1/info`, `/v1/volumes`, `/v1/volumes/NAME`, `/v1/drives`,
//! `/v1/spares`, `/v1/foreign`, `/v1/tasks`, `/v1/tasks/NUMBER`, `/v1/schedules`, `/v1/events?last=20`.
//!
//! `GET /metrics` answers what is counted and measured as text for Prometheus ([`metrics`]). The same address alone is served at
//! network ports ([`MetricsPort`]).
//!
//! HTTP has its own thread, on tokio: nothing here is on the path of an I/O.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "HTTP has its own thread, outside the engine's world"
)]

mod caller;
pub mod client;
mod metrics;
mod port;
mod server;

pub use metrics::MetricsOptions;
pub use port::MetricsPort;
pub use server::{Metrics, Server, SocketAccess};

use serde::{Deserialize, Serialize};

/// The answer to a command that was refused or failed.
#[derive(Serialize, Deserialize)]
struct Refusal {
    error: controller::Error,
}
