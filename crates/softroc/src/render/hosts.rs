//! Hosts that are connected to a volume.

use super::date;
use crate::output;
use controller::{HostInfo, VolumeInfo};
use units::ByteCount;

/// A row for each host: name, connection time, load. Rates are averages of the last five seconds.
pub fn table(volume: &VolumeInfo) -> String {
    let row = |host: &HostInfo| {
        let renamed = host.asked_for != volume.name;
        let name = match renamed {
            true => format!("{} as '{}'", host.host, host.asked_for),
            false => host.host.clone(),
        };
        let rate = |bytes| format!("{}/s", ByteCount(bytes));
        vec![
            name,
            date(host.since_unix_s),
            host.outstanding.to_string(),
            (host.reads_per_s + host.writes_per_s).to_string(),
            rate(host.read_bytes_per_s),
            rate(host.written_bytes_per_s),
            ByteCount(host.read_bytes).to_string(),
            ByteCount(host.written_bytes).to_string(),
        ]
    };
    let headers =
        ["host", "connected since", "outstanding", "I/Os/s", "reads", "writes", "read", "written"];
    let rows: Vec<Vec<String>> = volume.hosts.iter().map(row).collect();
    output::table(&headers, &rows, &[false, false, true, true, true, true, true, true])
}
