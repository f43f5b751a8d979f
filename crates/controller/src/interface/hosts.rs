//! Connected hosts.

use serde::{Deserialize, Serialize};

/// A host that is connected to a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostInfo {
    /// A description for operators: a process of this host, or an address.
    pub host: String,
    /// Its address; for a Unix socket, the path of the socket.
    pub address: String,
    /// Its process ID, for a process of this host.
    pub pid: Option<u32>,
    /// The user ID of that process.
    pub uid: Option<u32>,
    /// The process name at the time of the connection, as abbreviated by the kernel.
    pub process: Option<String>,
    /// The protocol, such as `NBD`.
    pub protocol: String,
    /// The volume name that it requested; the volume may have been renamed since.
    pub asked_for: String,
    /// The time of the connection, in seconds since 1970.
    pub since_unix_s: u64,
    /// Outstanding requests.
    pub outstanding: u32,
    /// Read requests since it connected.
    pub reads: u64,
    /// Bytes read since it connected.
    pub read_bytes: u64,
    /// Write requests since it connected, including zeroes and trims.
    pub writes: u64,
    /// Bytes of data written since it connected; zeroes and trims have none.
    pub written_bytes: u64,
    /// Read requests per second, over the last five seconds.
    pub reads_per_s: u64,
    /// Bytes read per second, over the last five seconds.
    pub read_bytes_per_s: u64,
    /// Write requests per second, over the last five seconds.
    pub writes_per_s: u64,
    /// Bytes written per second, over the last five seconds.
    pub written_bytes_per_s: u64,
}
