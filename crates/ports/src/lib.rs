//! How hosts reach what a shard serves: ports, which speak a host's protocol on one side and call
//! [`BlockTarget`](platform::BlockTarget)s on the other.
//!
//! ```text
//!  shard 0:  Server ── accepts, counts, deals ──┐ PortMessage
//!  a shard:  serve_shard ── starts a session for each connection, watches over them, stops them all
//!            session:  inlet ─▶ reader ─▶ worker (one per request under way) ─▶ replies ─▶ writer
//!                        one receive,         calls the target                  one send for
//!                        many requests                                          many replies
//! ```
//!
//! Batching happens by itself: while one send is under way, replies queue up, and the next send takes them all.
//! At one outstanding request nothing waits for anything.
//!
//! All of this is the same for every protocol: `server`, `shard`, `session`. What a protocol adds is a folder with one
//! implementation of [`Protocol`]: its greeting, its codec, and which of the session's calls a request stands for ([`nbd`]; the
//! smallest one possible is in `tests/null_port`). Ports know neither engine nor controller: they serve the
//! [`Targets`](platform::Targets) that a shard has at the time, whatever these are.
//!
//! A connection that this machine makes to itself, for a disk of its own, has no greeting ([`Known`]): both ends are told what
//! they would say. Everything else is as with any other client.
//!
//! A protocol whose client asks for TLS has it put below the session ([`Wire::encrypt`]): the session's stream is another one
//! from then on, and a session without TLS never notices. Who a client is, by its address, user or certificate, decides what it
//! is offered ([`Access`]).
//!
//! # Fault model and bounds
//! A client may be hostile, slow, or vanish at any byte.
//! - Memory for payloads is reserved from the shard before it is taken, whole or not at all; while there is
//!   none, the connection is not read. A connection has at most a share of it, and a bounded number of
//!   requests under way, counted until their replies are sent.
//! - A greeting has a time limit, TLS included, and only so many clients may be at it: the one that has been longest is cut
//!   off for the next. So nobody keeps others out by connecting and saying nothing. So has a client that stops in the middle of a payload, or takes no replies,
//!   if others wait for the memory that this holds.
//! - Whatever ends a connection, its requests under way run to their end, and then everything it held is
//!   given back.

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
pub use protocol::{Arrival, Arrived, Greeted, Offer, Protocol, Reply, Step, Wire};
pub use server::{Place, Server, ServerOptions};
pub use session::{Refused, Session, SessionOptions};
pub use shard::{Known, MOST_CONNECTIONS, PortMessage, port_mailbox, serve_shard};
