//! How hosts reach a volume: the servers that speak a host's protocol on one side and to the engine on the
//! other.
//!
//! Every port has the same rooms: a *server* that listens, on shard 0, and deals connections to the shards;
//! and a *session* for each connection, on its shard, which turns the protocol's requests into calls of
//! [`engine::Volume`] and their outcomes into replies. Ports know no controller: what they export are the
//! volumes that their shard serves at the time.

mod error;
pub mod nbd;

pub use error::{Error, ErrorKind, Result};
