//! The control socket and the network ports: the controller's [`Command`](controller::Command)s as
//! JSON over HTTP.
//!
//! `POST /v1/command` takes any command and returns its reply, or an error with a kind and a
//! sentence (`docs/formats/http-api.md`):
//!
//! ```text
//! $ curl --unix-socket softroc-data/control.sock http://localhost/v1/command \
//!        -H 'content-type: application/json' -d '{"command": "volume-show", "volume": "data"}'
//! ```
//!
//! Queries also have addresses of their own, such as `GET /v1/volumes/NAME`. `GET /metrics` returns
//! metrics for Prometheus ([`metrics`]); [`MetricsPort`] serves only these.
//!
//! Every caller is authenticated: a local user on the control socket, an account at the network
//! port ([`ManagePort`]). The crate `access` has the table of permissions.
//!
//! | module | content |
//! | --- | --- |
//! | `server`, `port`, `manage`, `network` | the thread; ports; connections and deadlines |
//! | `tls`, `files` | certificates and trust; private files |
//! | `gate`, `keeper` | authentication; the account store |
//! | `desk`, `routes`, `account_routes`, `orders` | application state; routes; audited orders |
//! | `redfish_routes`, `subscriptions` | Redfish and its event subscriptions |
//! | `events`, `deliver`, `supervise` | event streams and their delivery |
//! | `console_routes`, `console_live`, `console_orders` | the web console |
//! | `told_once`, `workbench` | notes for its next page; benchmarks and predictions |
//! | `configuration`, `history` | the configuration and its restore; statistics history |
//! | `traffic`, `holdings` | recent I/O samples; cached content of unused drives |
//! | `notify` | notification channels, queues and delivery (crate `notify`) |
//! | `client` | the client side |
//!
//! HTTP has its own thread, on tokio, and is not on the I/O path.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "HTTP runs on a thread of its own, outside the engine's executor"
)]

mod account_routes;
pub mod client;
mod configuration;
mod console_live;
mod console_orders;
mod console_routes;
mod deliver;
mod desk;
mod events;
mod files;
mod gate;
mod history;
mod holdings;
mod keeper;
mod manage;
mod metrics;
mod network;
mod notify;
mod orders;
mod port;
mod redfish_routes;
mod routes;
mod server;
mod subscriptions;
mod supervise;
mod tls;
mod told_once;
mod traffic;
mod workbench;

pub use account_routes::AccessReply;
pub use configuration::ConfigReply;
pub use history::HistoryReply;
pub use keeper::FirstAccount;
pub use manage::ManagePort;
pub use notify::{ChannelInfo, NotifyReply};

pub use metrics::MetricsOptions;
pub use port::MetricsPort;
pub use server::{Metrics, Server, Setup, SocketAccess};
pub use tls::{CertificateFiles, Trust};
pub use workbench::Workbench;

use serde::{Deserialize, Serialize};

/// The response to a refused or failed command.
#[derive(Serialize, Deserialize)]
struct Refusal {
    error: controller::Error,
}
