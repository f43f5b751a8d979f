//! The addresses below `/v1`, and `/metrics`.

use crate::desk::{AppState, refuse, refused};
use crate::metrics::{self, text::CONTENT_TYPE};
use crate::{account_routes, console_routes, gate, redfish_routes};
use access::{Action, Caller};
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::header::{self, CONTENT_TYPE as TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use controller::{Command, ErrorKind, Reply};
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Maximum length of a request.
pub(crate) const LONGEST_BODY: usize = 256 << 10;

/// Maximum length of a request before authentication.
pub(crate) const LONGEST_OF_A_STRANGER: usize = 4 << 10;

/// The authenticated caller.
pub(crate) type CallerExtension = Extension<Caller>;

/// All routes. Only sign-in works without authentication.
pub(crate) fn router(desk: AppState) -> Router {
    let behind = Router::new()
        .route("/v1/command", post(command))
        .route("/v1/info", get(|state, who| ask(state, who, Command::Info {})))
        .route("/v1/drives", get(|state, who| ask(state, who, Command::DriveList {})))
        .route("/v1/volumes", get(|state, who| ask(state, who, Command::VolumeList {})))
        .route("/v1/volumes/{volume}", get(volume))
        .route("/v1/spares", get(|state, who| ask(state, who, Command::SpareList {})))
        .route("/v1/foreign", get(|state, who| ask(state, who, Command::ForeignList {})))
        .route("/v1/tasks", get(|state, who| ask(state, who, Command::TaskList {})))
        .route("/v1/tasks/{task}", get(task))
        .route("/v1/schedules", get(|state, who| ask(state, who, Command::ScheduleList {})))
        .route("/v1/events", get(events))
        .route("/metrics", get(tell_metrics))
        .merge(account_routes::router())
        .merge(crate::notify::router())
        .merge(crate::configuration::router())
        .merge(crate::history::router())
        .fallback(|| async {
            refuse(
                ErrorKind::NotFound,
                "no such address; docs/formats/http-api.md lists the addresses",
            )
        })
        .method_not_allowed_fallback(|| async {
            refuse(
                ErrorKind::Invalid,
                "this address does not support that method; docs/formats/http-api.md lists the \
                    methods",
            )
        })
        .layer(middleware::from_fn_with_state(desk.clone(), gate::gate));
    Router::new()
        .merge(account_routes::sign_in())
        .merge(redfish_routes::router())
        .merge(console_routes::router())
        .merge(behind)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::map_response(with_security_headers))
        .with_state(desk)
}

/// Restricts what browsers may do with a response: display it, without frames and caching. Pages
/// have their own policies.
async fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Serves only the metrics, without authentication.
pub(crate) fn metrics_alone(desk: AppState) -> Router {
    let nothing =
        || async { (axum::http::StatusCode::NOT_FOUND, "no such address; request /metrics\n") };
    let collector = Caller {
        user: "a collector".to_owned(),
        origin: controller::Origin::Network { address: "the port of the metrics".to_owned() },
        role: access::Role::ReadOnly,
        account: None,
        session: None,
        must_change: false,
    };
    Router::new()
        .route("/metrics", get(tell_metrics))
        .fallback(nothing)
        .layer(Extension(collector))
        .with_state(desk)
}

async fn tell_metrics(State(desk): State<AppState>, who: CallerExtension) -> Response {
    let since = Instant::now();
    match desk.ask(&who, Command::Metrics {}).await {
        Ok(Reply::Metrics { metrics }) => {
            let page = metrics::page(&metrics, desk.options, since);
            ([(TYPE, CONTENT_TYPE)], page).into_response()
        }
        Ok(_) => refuse(ErrorKind::Failed, "the controller sent an unexpected reply; see its log"),
        Err(error) => refused(error),
    }
}

async fn command(
    state: State<AppState>,
    who: CallerExtension,
    command: Result<Json<Command>, JsonRejection>,
) -> Response {
    match command {
        Ok(Json(command)) => ask(state, who, command).await,
        Err(rejection) => {
            refuse(ErrorKind::Invalid, &format!("invalid command: {}", rejection.body_text()))
        }
    }
}

async fn volume(
    state: State<AppState>,
    who: CallerExtension,
    Path(volume): Path<String>,
) -> Response {
    ask(state, who, Command::VolumeShow { volume }).await
}

async fn task(
    state: State<AppState>,
    who: CallerExtension,
    task: Result<Path<u64>, PathRejection>,
) -> Response {
    match task {
        Ok(Path(task)) => ask(state, who, Command::TaskShow { task }).await,
        Err(_) => {
            refuse(ErrorKind::Invalid, "a task is identified by its number; see GET /v1/tasks")
        }
    }
}

/// The query parameters for events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    last: Option<usize>,
    about: Option<String>,
    /// Events after this number, as soon as there are any.
    after: Option<u64>,
    /// Maximum waiting time, in seconds.
    wait_s: Option<u64>,
}

/// Longest waiting time of a request for events, in seconds.
const LONGEST_WAIT_S: u64 = 30;

async fn events(
    state: State<AppState>,
    who: CallerExtension,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(EventsQuery { after: Some(seen), wait_s, last: None, about: None })) => {
            events_after(&state, &who, seen, wait_s.unwrap_or(0)).await
        }
        Ok(Query(EventsQuery { last, about, after: None, wait_s: None })) => {
            ask(state, who, Command::EventsList { last, about }).await
        }
        _ => refuse(
            ErrorKind::Invalid,
            "invalid query; expected ?last=20, ?last=20&about=NAME, or ?after=NUMBER&wait_s=10",
        ),
    }
}

/// Events after `seen`, from the feed: also while the controller is busy.
async fn events_after(desk: &AppState, caller: &Caller, seen: u64, wait_s: u64) -> Response {
    if let Err(error) = caller.may(Action::EventsList) {
        return refused(error);
    }
    let mut events = desk.controller.events().subscribe(seen);
    let wait = Duration::from_secs(wait_s.min(LONGEST_WAIT_S));
    match tokio::time::timeout(wait, events.next()).await {
        Ok(None) => refuse(ErrorKind::Stopping, "the controller has stopped; start it again"),
        Ok(Some(events)) => Json(Reply::Events { events }).into_response(),
        Err(_) => Json(Reply::Events { events: Vec::new() }).into_response(),
    }
}

/// Sends a command to the controller and waits for its reply.
async fn ask(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    command: Command,
) -> Response {
    match desk.ask(&caller, command).await {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}
