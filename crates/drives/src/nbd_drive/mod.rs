//! A remote NBD export as a drive.
//!
//! Opening connects once, to read the export's properties. Each attachment then connects in the
//! background, and reconnects after a lost connection if no acknowledged write is unflushed.
//! Requests wait for the connection, and fail as *gone* after a time limit (see `life`).
//!
//! Limits of NBD: an export has no serial number, so its address is its identity. Two addresses of
//! one export are not recognised as one drive, and a replaced export of the same size and flags is
//! not detected. NBD has no locks, so other clients are not excluded
//! ([`platform::DriveInfo::exclusive`]).

mod connection;
mod handshake;
mod job;
mod life;
mod standing;

use connection::Connection;
use nbd::{Connected, NbdUri, Transport};
use platform::{
    Address, Completion, Drive, DriveIdentity, DriveInfo, DriveKind, DriveSource, Env, Error,
    ErrorKind, Hardware, IoRequest, Result,
};
use standing::FlushTracker;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use units::{ByteCount, SectorSize};

/// The time limit of the first handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The state that all attachments of an export share.
pub(crate) struct Export {
    pub(crate) info: DriveInfo,
    pub(crate) uri: NbdUri,
    pub(crate) connected: Connected,
    pub(crate) standing: FlushTracker,
    attachments: AtomicU32,
}

impl Export {
    /// The server's address.
    pub(crate) fn address(&self) -> Address {
        address_of(&self.uri)
    }
}

/// An NBD export as a drive.
pub struct NbdDrive {
    export: Arc<Export>,
}

fn address_of(uri: &NbdUri) -> Address {
    match &uri.transport {
        Transport::Tcp { host, port } => Address::Tcp { host: host.clone(), port: *port },
        Transport::Unix { path } => Address::Unix(path.clone()),
    }
}

impl NbdDrive {
    /// Connects to the server to read the export's properties.
    ///
    /// # Errors
    /// When the address is invalid, no NBD server responds there, the server has no such export, or
    /// the export is unsuitable as a drive.
    pub async fn open(env: &Env, text: &str) -> Result<NbdDrive> {
        let uri: NbdUri = text
            .parse()
            .map_err(|error: nbd::Error| Error::new(ErrorKind::BadName, error.to_string()))?;
        let stream = env.world().connect(&address_of(&uri)).await?.attach(env)?;
        let (connected, _) = handshake::shake_hands(env, &stream, &uri, HANDSHAKE_LIMIT).await?;
        handshake::leave(&stream, &connected).await;
        let info = describe(text, &uri, &connected)?;
        let (standing, attachments) = (FlushTracker::default(), AtomicU32::new(0));
        Ok(NbdDrive { export: Arc::new(Export { info, uri, connected, standing, attachments }) })
    }
}

fn describe(text: &str, uri: &NbdUri, connected: &Connected) -> Result<DriveInfo> {
    let sizes = connected.block_sizes;
    let logical_sector = SectorSize::from_bytes(u64::from(sizes.minimum_bytes.max(512)))
        .ok_or_else(|| {
            let minimum = sizes.minimum_bytes;
            let why = format!("{text} has blocks of {minimum} bytes; 512 and 4096 are supported");
            Error::new(ErrorKind::WrongKind, why)
        })?;
    let size = ByteCount(connected.size_bytes).align_down(logical_sector.bytes());
    if size.is_zero() {
        return Err(Error::new(
            ErrorKind::WrongKind,
            format!("{text} is empty; a drive needs a size"),
        ));
    }
    let physical_sector =
        if sizes.preferred_bytes >= 4096 { SectorSize::B4096 } else { logical_sector };
    Ok(DriveInfo {
        name: text.to_owned(),
        identity: DriveIdentity(uri.to_string()),
        kind: DriveKind::Remote,
        size,
        logical_sector,
        physical_sector,
        rotational: connected.flags.rotational,
        read_only: connected.flags.read_only,
        exclusive: false,
        hardware: Hardware::default(),
    })
}

impl DriveSource for NbdDrive {
    fn info(&self) -> &DriveInfo {
        &self.export.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let others = self.export.attachments.fetch_add(1, Ordering::AcqRel);
        let attached = Attached { connection: Connection::new(env, self.export.clone()) };
        if others > 0 && !self.export.connected.flags.multi_conn {
            // A flush on one connection would not cover writes of another.
            let name = &self.export.info.name;
            let why =
                format!("{name} does not allow several connections (multi-conn); use one shard");
            return Err(Error::new(ErrorKind::WrongKind, why));
        }
        attached.connection.open();
        Ok(Rc::new(attached))
    }
}

struct Attached {
    connection: Rc<Connection>,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.connection.export().info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.connection.start(request, completion);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.connection.export().attachments.fetch_sub(1, Ordering::AcqRel);
        self.connection.close_when_idle();
    }
}
