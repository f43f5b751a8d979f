//! Hosts that are connected to volumes: their listing, and the protection of volumes in use.
//!
//! Ports count them ([`platform::Hosts`]); only a host that is just disconnecting is waited for.

use super::Arrays;
use super::array::Array;
use super::volume::Volume;
use crate::interface::{Error, ErrorKind, HostInfo, Result};
use platform::Host;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a host may take to disconnect: its connection ends when its requests are done, shortly
/// after its program has ended.
const LEAVING: Duration = Duration::from_secs(1);

/// How often that is polled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Arrays {
    /// The hosts that use a volume, in the order of connection.
    fn using(&self, volume: &Volume) -> Vec<Arc<Host>> {
        let all = volume.former().into_iter().chain(volume.id());
        all.flat_map(|id| self.hosts.of(id.0.into())).collect()
    }

    /// How many hosts are connected.
    pub(crate) fn host_count(&self) -> usize {
        self.hosts.count()
    }

    /// The hosts that use a volume.
    pub(crate) fn host_infos(&self, volume: &Volume) -> Vec<HostInfo> {
        self.using(volume).iter().map(|host| self.host_info(host)).collect()
    }

    fn host_info(&self, host: &Host) -> HostInfo {
        let (connection, work, lately) =
            (host.connection(), host.work(), host.lately(self.env.now()));
        let process = connection.peer.process.as_ref();
        HostInfo {
            host: connection.peer.to_string(),
            address: connection.peer.address.clone(),
            pid: process.map(|process| process.pid),
            uid: process.map(|process| process.uid),
            process: process.and_then(|process| process.command.clone()),
            protocol: connection.protocol.to_owned(),
            asked_for: connection.asked_for.clone(),
            since_unix_s: connection.since_unix_s,
            outstanding: host.outstanding(),
            reads: work.reads,
            read_bytes: work.read_bytes,
            writes: work.writes,
            written_bytes: work.written_bytes,
            reads_per_s: lately.reads,
            read_bytes_per_s: lately.read_bytes,
            writes_per_s: lately.writes,
            written_bytes_per_s: lately.written_bytes,
        }
    }

    /// The hosts that use a volume, as part of a sentence; `None` if there are none.
    pub(crate) fn users(&self, volume: &Volume) -> Option<String> {
        let names: Vec<String> =
            self.using(volume).iter().map(|host| host.connection().peer.to_string()).collect();
        match &names[..] {
            [] => None,
            [one] => Some(one.clone()),
            [one, other] => Some(format!("{one} and {other}")),
            [one, others @ ..] => Some(format!("{one} and {} other hosts", others.len())),
        }
    }

    /// Checks that no host uses a volume. A host that is just disconnecting is waited for.
    ///
    /// # Errors
    /// Which hosts use it, and the command that overrides this.
    pub(crate) async fn check_unused(&self, volume: &Volume, insisting: &str) -> Result<()> {
        let until = self.env.now() + LEAVING;
        while self.users(volume).is_some() && self.env.now() < until {
            self.env.sleep(LOOK_EVERY).await;
        }
        let Some(users) = self.users(volume) else { return Ok(()) };
        let sentence = format!(
            "'{}' is used by {users}; disconnect it first, or, to disconnect all hosts, run \
            '{insisting}'",
            volume.name()
        );
        Err(Error::new(ErrorKind::InUse, sentence))
    }

    /// Disconnects every host from a volume: it is attached anew.
    ///
    /// # Errors
    /// When a shard cannot serve it; then none does.
    pub(crate) async fn disconnect(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let _turn = array.starting_turn().await;
        if self.users(volume).is_none() {
            return Ok(());
        }
        self.withdraw(array, volume).await;
        self.attach(array, volume).await
    }
}
