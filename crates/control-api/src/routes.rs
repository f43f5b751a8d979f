//! The addresses below `/v1`, and `/metrics`.

use crate::desk::{Desk, refuse, refused};
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

/// The most bytes of a request.
pub(crate) const LONGEST_BODY: usize = 256 << 10;

/// The most bytes of a request that signs in: that takes an account to be larger.
pub(crate) const LONGEST_OF_A_STRANGER: usize = 4 << 10;

/// Who asks, as the gate found out.
pub(crate) type Who = Extension<Caller>;

/// Everything of this room: all of it behind the gate, but that one may sign in.
pub(crate) fn router(desk: Desk) -> Router {
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
                "there is nothing at this address; docs/formats/http-api.md lists what there is",
            )
        })
        .method_not_allowed_fallback(|| async {
            refuse(
                ErrorKind::Invalid,
                "this address does not take that method; docs/formats/http-api.md lists what there is",
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

/// What browsers may make of an answer: nothing but to show it, in no frame, and without keeping it. Pages have their own policies.
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

/// Serves the metrics, and nothing else, to everybody.
pub(crate) fn metrics_alone(desk: Desk) -> Router {
    let nothing = || async {
        (axum::http::StatusCode::NOT_FOUND, "there is nothing at this address; ask for /metrics\n")
    };
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

async fn tell_metrics(State(desk): State<Desk>, who: Who) -> Response {
    let since = Instant::now();
    match desk.ask(&who, Command::Metrics {}).await {
        Ok(Reply::Metrics { metrics }) => {
            let page = metrics::page(&metrics, desk.options, since);
            ([(TYPE, CONTENT_TYPE)], page).into_response()
        }
        Ok(_) => refuse(ErrorKind::Failed, "the controller's answer is none; look at its log"),
        Err(error) => refused(error),
    }
}

async fn command(state: State<Desk>, who: Who, command: Result<Json<Command>, JsonRejection>) -> Response {
    match command {
        Ok(Json(command)) => ask(state, who, command).await,
        Err(rejection) => {
            refuse(ErrorKind::Invalid, &format!("that is not a command: {}", rejection.body_text()))
        }
    }
}

async fn volume(state: State<Desk>, who: Who, Path(volume): Path<String>) -> Response {
    ask(state, who, Command::VolumeShow { volume }).await
}

async fn task(state: State<Desk>, who: Who, task: Result<Path<u64>, PathRejection>) -> Response {
    match task {
        Ok(Path(task)) => ask(state, who, Command::TaskShow { task }).await,
        Err(_) => refuse(ErrorKind::Invalid, "a task has a number; see GET /v1/tasks"),
    }
}

/// What may be asked of the events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    last: Option<usize>,
    about: Option<String>,
    /// Those after the event of that number, as soon as there are any.
    after: Option<u64>,
    /// How long to wait for them, in seconds.
    wait_s: Option<u64>,
}

/// The longest time for which a request waits for events, in seconds.
const LONGEST_WAIT_S: u64 = 30;

async fn events(state: State<Desk>, who: Who, query: Result<Query<EventsQuery>, QueryRejection>) -> Response {
    match query {
        Ok(Query(EventsQuery { after: Some(seen), wait_s, last: None, about: None })) => {
            events_after(&state, &who, seen, wait_s.unwrap_or(0)).await
        }
        Ok(Query(EventsQuery { last, about, after: None, wait_s: None })) => {
            ask(state, who, Command::EventsList { last, about }).await
        }
        _ => refuse(
            ErrorKind::Invalid,
            "events are asked for by ?last=20, ?last=20&about=NAME, or ?after=NUMBER&wait_s=10",
        ),
    }
}

/// Events after the one of that number. The controller is not asked: they are there when it is busy, too.
async fn events_after(desk: &Desk, caller: &Caller, seen: u64, wait_s: u64) -> Response {
    if let Err(error) = caller.may(Action::EventsList) {
        return refused(error);
    }
    let mut events = desk.controller.events().subscribe(seen);
    let wait = Duration::from_secs(wait_s.min(LONGEST_WAIT_S));
    match tokio::time::timeout(wait, events.next()).await {
        Ok(None) => refuse(ErrorKind::Stopping, "the controller is gone; start it again"),
        Ok(Some(events)) => Json(Reply::Events { events }).into_response(),
        Err(_) => Json(Reply::Events { events: Vec::new() }).into_response(),
    }
}

/// Hands a command to the controller and waits for its reply.
async fn ask(State(desk): State<Desk>, Extension(caller): Who, command: Command) -> Response {
    match desk.ask(&caller, command).await {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}
