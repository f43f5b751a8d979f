//! Ports: how hosts reach the targets of a shard. A port speaks a host's protocol and calls
//! [`BlockTarget`](platform::BlockTarget)s.
//!
//! ```text
//! shard 0:  Server ── accepts, counts, assigns ──┐ PortMessage
//! a shard:  serve_shard ── starts one session per connection, monitors and stops them
//! session:  inlet ─▶ reader ─▶ worker (one per request) ─▶ replies ─▶ writer
//! ```
//!
//! Replies that queue up during a send leave together with the next send. `server`, `shard` and
//! `session` serve every protocol; a protocol is one implementation of [`Protocol`] ([`nbd`]; the
//! smallest is `tests/null_port`). TLS is a stream below the session ([`Wire::encrypt`]). A kernel
//! disk of this machine connects without a greeting ([`Known`]). [`Access`] decides which targets a
//! client sees.
//!
//! # Fault model and bounds
//! A client may be hostile, slow, or vanish at any byte.
//! - Payload memory is reserved from the shard first, all or nothing. Without memory, the port does
//!   not read the connection. Each connection has a limited share of memory and a limited number of
//!   requests.
//! - A greeting, TLS included, has a deadline. The number of unfinished greetings is limited; the
//!   oldest is closed for the next client.
//! - A client that stalls on memory which others need (in a payload, or with unread replies) is
//!   disconnected.
//! - When a connection ends, its requests complete first; then all its resources are released.

mod access;
mod encryption;
mod error;
pub mod nbd;
mod protocol;
mod server;
mod session;
mod shard;
mod tls;

pub use access::Access;
pub use encryption::{Certificates, Encryption, Unfit};
pub use error::{Error, ErrorKind, Result};
pub use protocol::{Arrival, Arrived, Data, Greeted, Offer, Protocol, Reply, Step, Transfer, Wire};
pub use server::{ConnectionSlot, Server, ServerOptions};
pub use session::{Refused, Session, SessionOptions};
pub use shard::{Known, MOST_CONNECTIONS, PortMessage, port_mailbox, serve_shard};
