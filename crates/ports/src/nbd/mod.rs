//! The NBD port: volumes as network block devices.
//!
//! ```text
//!  shard 0:  server ── accepts, counts, deals ──┐ PortMessage
//!  a shard:  serve_shard ── starts a session for each connection, stops them all
//!            session:  inlet ─▶ reader ─▶ worker (one per request under way) ─▶ replies ─▶ writer
//!                        one receive,         calls the volume                  one send for
//!                        many requests                                          many replies
//! ```
//!
//! Batching happens by itself: while one send is under way, replies queue up, and the next send takes them all.
//! At one outstanding request nothing waits for anything.
//!
//! # What is served
//! Every volume under its name, with any byte range; the empty name means the only volume, where there is exactly
//! one. Flush, FUA, trim, zeroes, `base:allocation` and several connections to one volume hold what the engine
//! promises. *Cache* reads the range and drops it, so that what caches there are below hold it (at most
//! the longest read's length: the protocol calls it advice). *Fast zero* is always answered with "not supported":
//! zeroes are written like data here, they only need not travel.
//!
//! # Fault model and bounds
//! A client may be hostile, slow, or vanish at any byte.
//! - Memory for payloads is reserved from the shard before it is taken, whole or not at all; while there is
//!   none, the connection is not read. A connection has at most a share of it, and a bounded number of
//!   requests under way, counted until their replies are sent.
//! - A handshake has a time limit. So has a client that stops in the middle of a payload, or takes no replies,
//!   if others wait for the memory that this holds.
//! - Whatever ends a connection, its requests under way run to their end, and then everything it held is
//!   given back.

mod connection;
mod exports;
mod inlet;
mod requests;
mod server;
mod session;
mod shard;
mod writer;

pub use server::{NbdServer, NbdServerOptions};
pub use shard::{PortMessage, port_mailbox, serve_shard};

use std::time::Duration;

/// What sessions may do and how long they may take; the same on every shard.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Exports refuse writes.
    pub read_only: bool,
    /// How long a handshake may take altogether.
    pub handshake_limit: Duration,
    /// How long a client may stand still while it holds memory that others wait for.
    pub stall_limit: Duration,
    /// How many requests of one connection may be under way, at least one.
    pub requests_under_way: u32,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            read_only: false,
            handshake_limit: Duration::from_secs(30),
            stall_limit: Duration::from_secs(30),
            requests_under_way: 256,
        }
    }
}
