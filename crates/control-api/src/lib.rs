//! The control socket: the controller's [`Command`](controller::Command)s as JSON over HTTP.
//!
//! `POST /v1/command` takes any command and answers its reply, or an error with a kind and a sentence
//! (`docs/formats/http-api.md` lists all of them, with examples):
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
//! Whoever asks is somebody: a user of this machine on the control socket, an account at the network port ([`ManagePort`]). What
//! they may is in the one table of the crate `access`.
//!
//! | file | what |
//! | --- | --- |
//! | `server`, `port`, `manage` | the thread; the ports for metrics and for management |
//! | `network` | connections at these ports: deadlines, and who makes room for whom |
//! | `tls`, `files` | the certificate, and how clients know it; files that nobody else may read |
//! | `gate` | who asks |
//! | `keeper` | accounts and sessions as they are kept |
//! | `desk`, `routes`, `account_routes` | what is answered, and at which address |
//! | `redfish_routes`, `events`, `subscriptions`, `deliver` | Redfish (crate `redfish`); events as they come, and those who get them sent |
//! | `console_routes`, `console_live` | the console (crate `webconsole`), and what its open pages are told |
//! | `console_orders` | what its forms ask for, carried out |
//! | `supervise` | consumers of events that must not end |
//! | `orders` | what is carried out here, recorded in the audit trail |
//! | `configuration` | the configuration saved and restored (crate `config`) |
//! | `history` | what volumes and drives did, looked at every ten seconds and asked for (crate `history`) |
//! | `holdings`, `told_once` | what unused drives hold, asked once for each change; what somebody is told on the page that follows |
//! | `workbench` | who measures and predicts for the console |
//! | `traffic` | what hosts asked of volumes in the last quarter of an hour |
//! | `notify` | notifications: channels as they are kept, their queues, and how messages are sent (crate `notify`) |
//! | `client` | the other side |
//!
//! HTTP has its own thread, on tokio: nothing here is on the path of an I/O.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "HTTP has its own thread, outside the engine's world"
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

/// The answer to a command that was refused or failed.
#[derive(Serialize, Deserialize)]
struct Refusal {
    error: controller::Error,
}
