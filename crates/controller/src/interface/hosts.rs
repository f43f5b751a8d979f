//! What interfaces see of hosts that are connected.

use serde::{Deserialize, Serialize};

/// A host that is connected to a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostInfo {
    /// Who it is, for people: a process of this machine, or an address.
    pub host: String,
    /// Its address; of a Unix socket, that of the socket.
    pub address: String,
    /// The number of its process, if that is one of this machine.
    pub pid: Option<u32>,
    /// The number of the user of that process.
    pub uid: Option<u32>,
    /// What ran in that process when it connected, as the system abbreviates it.
    pub process: Option<String>,
    /// What it speaks, such as `NBD`.
    pub protocol: String,
    /// The name under which it asked for the volume, which may have been renamed since.
    pub asked_for: String,
    /// Since when it is connected, in seconds since 1970.
    pub since_unix_s: u64,
    /// Requests that are outstanding.
    pub outstanding: u32,
    /// Requests for reading since it connected.
    pub reads: u64,
    /// Bytes read since it connected.
    pub read_bytes: u64,
    /// Requests since it connected that change something: writes, zeroes, trims.
    pub writes: u64,
    /// Bytes of data written since it connected; zeroes and trims have none.
    pub written_bytes: u64,
    /// Requests for reading in a second, over the last five seconds.
    pub reads_per_s: u64,
    /// Bytes read in a second, over the last five seconds.
    pub read_bytes_per_s: u64,
    /// Requests in a second that change something, over the last five seconds.
    pub writes_per_s: u64,
    /// Bytes written in a second, over the last five seconds.
    pub written_bytes_per_s: u64,
}
