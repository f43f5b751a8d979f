//! The server side: a thread that receives commands and passes them to the controller.

use crate::desk::AppState;
use crate::files::{self, Files};
use crate::gate::{Peer, Users};
use crate::keeper::{AccountStore, FirstAccount};
use crate::manage::ManagePort;
use crate::metrics::MetricsOptions;
use crate::network::{self, ConnectionLimits, Deadlines, Port};
use crate::notify::{self, Notifier};
use crate::port::MetricsPort;
use crate::redfish_routes::Machine;
use crate::subscriptions::Subscriptions;
use crate::workbench::Workbench;
use crate::{console_live, events, history, routes, traffic};
use access::{Cost, Role};
use controller::{ControllerHandle, EventCode, Occurrence};
use platform::{Error as EnvError, ErrorKind as EnvErrorKind};
use platform_linux::{SocketFile, SocketPermissions};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, oneshot};

/// A served control socket and its ports. Dropping it stops the server and removes the socket.
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: SocketFile,
    first: Option<FirstAccount>,
}

/// The configuration of a server.
pub struct Setup {
    /// The control socket.
    pub socket: PathBuf,
    /// Who may use the socket.
    pub access: SocketAccess,
    /// The folder of accounts and certificates.
    pub state: PathBuf,
    /// Options and ports of the metrics.
    pub metrics: Metrics,
    /// The network port for management.
    pub manage: Option<ManagePort>,
}

impl Server {
    /// Serves `controller` on a Unix socket, its metrics at their ports, and everything at the
    /// management port. `workbench` runs benchmarks and predictions. The server's thread calls
    /// `stopped_controller` after a shutdown by a request.
    ///
    /// # Errors
    /// When a running server uses the socket, or it cannot be created. (Unreadable files prevent
    /// nothing.)
    pub fn start(
        setup: Setup,
        controller: ControllerHandle,
        workbench: Arc<dyn Workbench>,
        stopped_controller: impl Fn() + Send + Sync + 'static,
    ) -> platform::Result<Server> {
        let Setup { socket, access, state, metrics, manage } = setup;
        let files = Files::new(&state);
        let keeper = AccountStore::open(&files, Cost::default(), controller.clone())?;
        let first = if manage.is_some() { keeper.make_first()? } else { keeper.first() };
        if let Some(port) = manage.as_ref().filter(|port| port.is_new()) {
            note_certificate(port, &controller);
        }
        let (listener, socket) = bind(&socket, access)?;
        let Metrics { options, ports } = metrics;
        let users = Users {
            own: rustix::process::geteuid().as_raw(),
            group: access.group,
            role: access.role,
            open_to_all: access.mode & 0o002 != 0,
        };
        let keeper = Arc::new(keeper);
        let machine = machine(&files, manage.as_ref(), &controller)?;
        let subscriptions = Arc::new(Subscriptions::open(&files, &controller));
        let office = Arc::new(Notifier::open(&files, &machine.host, &controller));
        let kept = history::open(&state, &controller).map_err(|error| {
            EnvError::new(EnvErrorKind::System, "cannot start the history thread").caused_by(error)
        })?;
        let desk = AppState {
            controller,
            options,
            keeper,
            users,
            machine,
            subscriptions,
            office,
            traffic: Arc::default(),
            holdings: Arc::default(),
            told_once: Arc::default(),
            workbench,
            history: Arc::new(kept),
            asking: Arc::new(Semaphore::new(history::MOST_READERS)),
            restoring: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(console_live::MOST)),
            stopped_controller: Arc::new(stopped_controller),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("http".into());
        let thread = thread.spawn(move || run(listener, ports, manage, desk, stopped));
        let thread = thread.map_err(|error| {
            EnvError::new(EnvErrorKind::System, "cannot start the control socket thread")
                .caused_by(error)
        })?;
        Ok(Server { stop: Some(stop), thread: Some(thread), socket, first })
    }

    /// The first account, if its password is unchanged.
    pub fn first_account(&self) -> Option<&FirstAccount> {
        self.first.as_ref()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control socket thread panicked");
        }
        if let Err(error) = self.socket.remove() {
            tracing::warn!("the control socket cannot be removed: {error}");
        }
    }
}

/// Reports a generated certificate to the controller.
fn note_certificate(port: &ManagePort, controller: &ControllerHandle) {
    if let Some(damage) = port.damage() {
        let effect =
            "management has a new certificate: clients with a stored fingerprint need the new one";
        files::tell_unreadable(controller, damage.file, &damage.why, effect, &damage.sentence);
    }
    controller.note(Occurrence {
        code: EventCode::AccessCertificate,
        subject: "controller".to_owned(),
        cause: "start".to_owned(),
        effect: format!("SHA-256 {}", port.fingerprint()),
        text: format!(
            "a certificate for management was generated; its SHA-256 is {}",
            port.fingerprint()
        ),
        by: None,
    });
}

/// The file of the machine's UUID.
const UUID_FILE: &str = "manage-uuid";

/// The identity of this machine. Its UUID is generated once and stored; an unreadable file is
/// renamed.
fn machine(
    files: &Files,
    manage: Option<&ManagePort>,
    controller: &ControllerHandle,
) -> platform::Result<Machine> {
    let read = match files.load(UUID_FILE) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => {
            let text = String::from_utf8(text).map(|text| text.trim().to_owned()).ok();
            text.filter(|text| text.len() == 36).map(Some).ok_or_else(|| "not a UUID".to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    let kept = read.unwrap_or_else(|why| {
        let sentence = files.set_aside(UUID_FILE, &why);
        let effect = "Redfish reports a new UUID for this controller";
        files::tell_unreadable(controller, UUID_FILE, &why, effect, &sentence);
        None
    });
    let uuid = match kept {
        Some(uuid) => uuid,
        None => {
            let uuid = uuid(crate::keeper::random()?);
            if let Err(error) = files.store(UUID_FILE, uuid.as_bytes()) {
                tracing::warn!("{error}: the UUID of this controller changes at the next start");
            }
            uuid
        }
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (port, certificate) =
        manage.map(|port| (port.address().port(), port.fingerprint().to_owned())).unzip();
    Ok(Machine { host, uuid, port, certificate })
}

/// Random bytes as a version 4 UUID.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let digits = access::hex(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Options and ports of the metrics.
#[derive(Default)]
pub struct Metrics {
    /// The options.
    pub options: MetricsOptions,
    /// Ports besides the control socket.
    pub ports: Vec<MetricsPort>,
}

/// Permissions of a control socket: all users with write permission may use it. Root and the user
/// of the controller are administrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// The mode of the socket, as for `chmod`.
    pub mode: u32,
    /// The group of the socket; by default that of the process.
    pub group: Option<u32>,
    /// The role of the group's members. All others are read-only.
    pub role: Role,
}

/// Listens at the socket; the file of a dead server is removed first.
fn bind(
    socket: &FilePath,
    access: SocketAccess,
) -> platform::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    let shown = socket.display();
    let text = socket.to_str().ok_or_else(|| {
        let sentence = format!(
            "the path of the control socket {shown} is not valid UTF-8; give another --socket"
        );
        EnvError::new(EnvErrorKind::BadName, sentence)
    })?;
    let permissions = SocketPermissions { mode: access.mode, group: access.group };
    let listening = platform_linux::listen_unix(text, permissions);
    let listening = listening.map_err(|error| match error.kind {
        EnvErrorKind::InUse => {
            let sentence = format!(
                "the control socket {shown} is in use by a running controller; stop it, or give \
                    another --socket"
            );
            EnvError::new(EnvErrorKind::InUse, sentence)
        }
        kind => {
            let sentence = format!("cannot make the control socket {shown}");
            EnvError::new(kind, sentence).caused_by(error)
        }
    })?;
    let listener = std::os::unix::net::UnixListener::from(listening.socket);
    listener.set_nonblocking(true).map_err(|error| {
        let sentence = format!("cannot make the control socket {shown}");
        EnvError::new(EnvErrorKind::System, sentence).caused_by(error)
    })?;
    Ok((listener, listening.file))
}

/// The server thread.
fn run(
    listener: std::os::unix::net::UnixListener,
    ports: Vec<MetricsPort>,
    manage: Option<ManagePort>,
    desk: AppState,
    stopped: oneshot::Receiver<()>,
) {
    let history = desk.history.clone();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            runtime.block_on(serve(listener, ports, manage, desk, stopped));
            // A history query may wait for a hanging file.
            runtime.shutdown_timeout(LAST_ANSWERS);
        }
        Err(error) => tracing::error!("the control socket is not served: {error}"),
    }
    // Stores the last samples; the file is closed with its last user.
    history.store(crate::keeper::unix_time());
}

async fn serve(
    listener: std::os::unix::net::UnixListener,
    ports: Vec<MetricsPort>,
    manage: Option<ManagePort>,
    desk: AppState,
    stopped: oneshot::Receiver<()>,
) {
    for port in ports {
        // Ends with the runtime; clients retry.
        tokio::spawn(serve_metrics(port, desk.clone()));
    }
    for subscription in desk.subscriptions.list() {
        events::push(&desk, &subscription);
    }
    notify::run(&desk);
    tokio::spawn(history::watch(desk.clone()));
    if let Some(port) = manage {
        tokio::spawn(serve_management(port, desk.clone()));
        tokio::spawn(traffic::watch(desk.clone()));
    }
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the control socket is not served: {error}"),
    };
    let (ending, ends) = oneshot::channel::<()>();
    let until = async move {
        // Stop and drop of the owner mean the same.
        let _ = stopped.await;
        drop(ending);
    };
    let service = routes::router(desk).into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(listener, service).with_graceful_shutdown(until);
    let server = tokio::spawn(async move { server.await });
    // Ends only when the sender is dropped.
    let _ = ends.await;
    // Open pages have endless streams, and some replies cannot come: the controller does not
    // respond while its thread waits for this one.
    match tokio::time::timeout(LAST_ANSWERS, server).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::error!("the control socket ended: {error}"),
        Ok(Err(error)) => tracing::error!("the control socket ended: {error}"),
        Err(_) => tracing::debug!("open connections of the control socket are closed"),
    }
}

/// Time limit for outstanding requests at a stop.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves only the metrics, at a network port.
async fn serve_metrics(port: MetricsPort, desk: AppState) {
    let address = port.address();
    let served = Port {
        router: routes::metrics_alone(desk),
        tls: None,
        deadlines: Deadlines::METRICS,
        most: ConnectionLimits::METRICS,
    };
    let Err(error) = network::serve(port.listener(), served).await;
    tracing::error!("metrics are not served at {address}: {error}; give another --metrics");
}

/// Serves everything at a network port, to accounts.
async fn serve_management(port: ManagePort, desk: AppState) {
    let address = port.address();
    let (listener, tls) = port.listener();
    let served = Port {
        router: routes::router(desk),
        tls: Some(tls),
        deadlines: Deadlines::MANAGEMENT,
        most: ConnectionLimits::MANAGEMENT,
    };
    let Err(error) = network::serve(listener, served).await;
    tracing::error!("management is not served at {address}: {error}; give another --manage");
}
