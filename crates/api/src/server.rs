//! The server's side: a thread that takes commands in and hands them to the controller.

use crate::caller::Peer;
use crate::metrics::{self, MetricsOptions};
use crate::port::MetricsPort;
use crate::{Refusal, metrics::text::CONTENT_TYPE};
use axum::Json;
use axum::Router;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::{StatusCode, header::CONTENT_TYPE as TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use controller::{Caller, Command, ControllerHandle, Error, ErrorKind, Reply};
use env::{Error as EnvError, ErrorKind as EnvErrorKind};
use serde::Deserialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::net::UnixListener;
use tokio::sync::oneshot;

/// A control socket that is being served. Dropping it stops the server and removes the socket.
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl Server {
    /// Serves `controller` on a Unix socket that those may use whom `access` lets in, and its metrics at `metrics`' ports, too.
    /// `stopped_controller` is called, on the server's thread, when somebody has shut the controller down through it.
    ///
    /// # Errors
    /// When the socket is in use by a running server, or cannot be made.
    pub fn start(
        socket: &FilePath,
        access: SocketAccess,
        controller: ControllerHandle,
        metrics: Metrics,
        stopped_controller: impl Fn() + Send + Sync + 'static,
    ) -> env::Result<Server> {
        let listener = bind(socket, access)?;
        let Metrics { options, ports } = metrics;
        let desk = Desk { controller, options, stopped_controller: Arc::new(stopped_controller) };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("http".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(serve(listener, ports, desk, stopped)),
                Err(error) => tracing::error!("the control socket is not served: {error}"),
            }
        });
        let thread = thread.map_err(|error| {
            EnvError::new(EnvErrorKind::System, "cannot start the thread of the control socket")
                .caused_by(error)
        })?;
        Ok(Server { stop: Some(stop), thread: Some(thread), socket: socket.to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the control socket panicked");
        }
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::warn!("cannot remove {}: {error}", self.socket.display());
        }
    }
}

/// How metrics are served.
#[derive(Default)]
pub struct Metrics {
    /// What is told.
    pub options: MetricsOptions,
    /// Where they are served besides the control socket.
    pub ports: Vec<MetricsPort>,
}

/// Who may use a control socket: whoever may write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// The permissions of the socket, as `chmod` takes them.
    pub mode: u32,
    /// The number of the group that it is given to; otherwise it has that of the process.
    pub group: Option<u32>,
}

/// Binds the socket; a file that a dead server left behind is removed first.
fn bind(socket: &FilePath, access: SocketAccess) -> env::Result<std::os::unix::net::UnixListener> {
    let failed = |error: std::io::Error| {
        let sentence = format!("cannot make the control socket {}", socket.display());
        EnvError::new(EnvErrorKind::System, sentence).caused_by(error)
    };
    if std::os::unix::net::UnixStream::connect(socket).is_ok() {
        let sentence = format!(
            "the control socket {} is in use by a running controller; stop it, or give another --socket",
            socket.display()
        );
        return Err(EnvError::new(EnvErrorKind::InUse, sentence));
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(socket).map_err(failed)?;
    // Nobody else until it has its group.
    let permit = |mode| std::fs::set_permissions(socket, std::fs::Permissions::from_mode(mode));
    permit(0o600).map_err(failed)?;
    if let Some(group) = access.group {
        std::os::unix::fs::chown(socket, None, Some(group)).map_err(|error| {
            let sentence = format!(
                "cannot give the control socket {} to group {group}; run as root, or as a member of the group",
                socket.display()
            );
            EnvError::new(EnvErrorKind::Denied, sentence).caused_by(error)
        })?;
    }
    permit(access.mode).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// What every request is answered with.
#[derive(Clone)]
struct Desk {
    controller: ControllerHandle,
    options: MetricsOptions,
    stopped_controller: Arc<dyn Fn() + Send + Sync>,
}

async fn serve(
    listener: std::os::unix::net::UnixListener,
    ports: Vec<MetricsPort>,
    desk: Desk,
    stopped: oneshot::Receiver<()>,
) {
    for port in ports {
        // It ends with the runtime: a client that is being answered then asks again.
        tokio::spawn(serve_metrics(port, desk.clone()));
    }
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the control socket is not served: {error}"),
    };
    let router = Router::new()
        .route("/v1/command", post(command))
        .route("/v1/info", get(|state| ask(state, Command::Info {})))
        .route("/v1/drives", get(|state| ask(state, Command::DriveList {})))
        .route("/v1/volumes", get(|state| ask(state, Command::VolumeList {})))
        .route("/v1/volumes/{volume}", get(volume))
        .route("/v1/spares", get(|state| ask(state, Command::SpareList {})))
        .route("/v1/foreign", get(|state| ask(state, Command::ForeignList {})))
        .route("/v1/tasks", get(|state| ask(state, Command::TaskList {})))
        .route("/v1/tasks/{task}", get(task))
        .route("/v1/schedules", get(|state| ask(state, Command::ScheduleList {})))
        .route("/v1/events", get(events))
        .route("/metrics", get(tell_metrics))
        .fallback(|| async {
            refuse(ErrorKind::NotFound, "there is nothing at this address; docs/api.md lists what there is")
        })
        .method_not_allowed_fallback(|| async {
            refuse(ErrorKind::Invalid, "commands are sent with POST /v1/command, all else is asked with GET")
        })
        .with_state(desk);
    let until = async move {
        // Either the server is stopped, or its owner is gone: both mean the same.
        let _ = stopped.await;
    };
    let service = router.into_make_service_with_connect_info::<Peer>();
    if let Err(error) = axum::serve(listener, service).with_graceful_shutdown(until).await {
        tracing::error!("the control socket ended: {error}");
    }
}

/// Serves the metrics, and nothing else, at a network port.
async fn serve_metrics(port: MetricsPort, desk: Desk) {
    let address = port.address();
    let listener = match port.listen() {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("metrics are not served at {address}: {error}"),
    };
    let nothing =
        || async { (StatusCode::NOT_FOUND, "there is nothing at this address; ask for /metrics\n") };
    let router = Router::new().route("/metrics", get(tell_metrics)).fallback(nothing).with_state(desk);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!("metrics are served at {address} no longer: {error}");
    }
}

async fn tell_metrics(State(desk): State<Desk>) -> Response {
    let since = Instant::now();
    match answer(&desk.controller, None, Command::Metrics {}).await {
        Some(Ok(Reply::Metrics { metrics })) => {
            let page = metrics::page(&metrics, desk.options, since);
            ([(TYPE, CONTENT_TYPE)], page).into_response()
        }
        Some(Err(error)) => refused(error),
        _ => refuse(ErrorKind::Stopping, GONE),
    }
}

async fn command(
    state: State<Desk>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    command: Result<Json<Command>, JsonRejection>,
) -> Response {
    match command {
        Ok(Json(command)) if command.only_looks() => ask(state, command).await,
        Ok(Json(command)) => ask_as(state, peer.caller(), command).await,
        Err(rejection) => {
            refuse(ErrorKind::Invalid, &format!("that is not a command: {}", rejection.body_text()))
        }
    }
}

async fn volume(state: State<Desk>, Path(volume): Path<String>) -> Response {
    ask(state, Command::VolumeShow { volume }).await
}

async fn task(state: State<Desk>, task: Result<Path<u64>, PathRejection>) -> Response {
    match task {
        Ok(Path(task)) => ask(state, Command::TaskShow { task }).await,
        Err(_) => refuse(ErrorKind::Invalid, "a task has a number; see GET /v1/tasks"),
    }
}

/// What may be asked of the events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    last: Option<usize>,
}

async fn events(state: State<Desk>, query: Result<Query<EventsQuery>, QueryRejection>) -> Response {
    match query {
        Ok(Query(query)) => ask(state, Command::EventsList { last: query.last }).await,
        Err(_) => refuse(ErrorKind::Invalid, "'last' is the number of events, such as ?last=20"),
    }
}

/// Asks the controller what changes nothing.
async fn ask(state: State<Desk>, command: Command) -> Response {
    ask_as(state, None, command).await
}

/// Hands a command of somebody to the controller and waits for its reply.
async fn ask_as(State(desk): State<Desk>, caller: Option<Caller>, command: Command) -> Response {
    let stops = command == Command::Shutdown {};
    match answer(&desk.controller, caller, command).await {
        Some(Ok(reply)) => {
            if stops {
                (desk.stopped_controller)();
            }
            Json(reply).into_response()
        }
        Some(Err(error)) => refused(error),
        None => refuse(ErrorKind::Stopping, GONE),
    }
}

const GONE: &str = "the controller is gone; start it again";

/// What the controller answers; `None` if it is gone.
async fn answer(
    controller: &ControllerHandle,
    caller: Option<Caller>,
    command: Command,
) -> Option<controller::Result<Reply>> {
    let (sender, receiver) = oneshot::channel();
    controller.ask_as(caller, command, move |result| {
        if sender.send(result).is_err() {
            tracing::debug!("the client went away before its answer");
        }
    });
    receiver.await.ok()
}

fn refuse(kind: ErrorKind, sentence: &str) -> Response {
    refused(Error::new(kind, sentence))
}

fn refused(error: Error) -> Response {
    (status(error.kind), Json(Refusal { error })).into_response()
}

fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NameTaken | ErrorKind::InUse | ErrorKind::HoldsData | ErrorKind::WrongState => {
            StatusCode::CONFLICT
        }
        ErrorKind::Unavailable => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::OutOfSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Busy | ErrorKind::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    }
}
