//! Redfish over HTTP: serves the crate `redfish` and executes its changes.

use crate::desk::AppState;
use crate::gate::{self, Peer};
use crate::keeper;
use crate::routes::{LONGEST_BODY, LONGEST_OF_A_STRANGER};
use access::{AccountChange, Action, Caller};
use axum::Router;
use axum::body::{self, Body};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use controller::{Command, ControllerInfo, Error, ErrorKind, Reply, Result};
use redfish::{Answer, Change, ChangeResult, Operation, World};

/// The identity of this machine for Redfish.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) uuid: String,
    pub(crate) port: Option<u16>,
    /// The SHA-256 of the certificate.
    pub(crate) certificate: Option<String>,
}

/// Routes below `/redfish`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/redfish", any(answer))
        .route("/redfish/", any(answer))
        .route("/redfish/{*rest}", any(answer))
}

async fn answer(State(desk): State<AppState>, request: Request) -> Response {
    let response = match answered(&desk, request).await {
        Ok(response) => response,
        Err(error) => sent(redfish::unauthenticated(&error)),
    };
    with_usual_headers(response)
}

fn with_usual_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("odata-version", HeaderValue::from_static("4.0"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn answered(desk: &AppState, request: Request) -> Result<Response> {
    let peer = gate::peer(&request);
    let (parts, sent_body) = request.into_parts();
    let caller = gate::identify(desk, peer.as_ref(), &parts.headers).await?;
    let longest = if caller.is_some() { LONGEST_BODY } else { LONGEST_OF_A_STRANGER };
    let sent_body = body::to_bytes(sent_body, longest).await.map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("the request body cannot be read: {error}"))
    })?;
    let path = parts.uri.path().replace("%24", "$");
    let query = parts.uri.query().unwrap_or_default();
    let world = world(desk, caller.as_ref(), &path, query).await?;
    let asked = redfish::Request {
        method: parts.method.as_str(),
        path: &path,
        query,
        body: &sent_body,
        if_match: text(&parts.headers, header::IF_MATCH),
        if_none_match: text(&parts.headers, header::IF_NONE_MATCH),
        odata_version: text(&parts.headers, HeaderName::from_static("odata-version")),
    };
    match redfish::answer(&world, caller.as_ref(), &asked) {
        Answer::Response(response) => Ok(sent(response)),
        Answer::Stream => Ok(match caller {
            Some(caller) => crate::events::stream(desk, caller, &parts.headers),
            None => sent(redfish::unauthenticated(&Error::new(
                ErrorKind::Unauthenticated,
                "sign in first",
            ))),
        }),
        Answer::Change(change) => {
            let done = carried_out(desk, caller.as_ref(), peer.as_ref(), &change).await;
            let after = self::world(desk, caller.as_ref(), &path, query).await?;
            Ok(sent(redfish::finished(&after, &path, &change, done)))
        }
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    // A value that is not text matches nothing.
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn sent(response: redfish::Response) -> Response {
    let (kind, body) = match response.body {
        redfish::Body::None => (None, Body::empty()),
        redfish::Body::Json(body) => (Some("application/json"), Body::from(body.to_string())),
        redfish::Body::Xml(body) => (Some("application/xml"), Body::from(body)),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() =
        StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(kind) = kind {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    for (name, value) in response.headers {
        // Values that a header cannot contain are not ours.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// The input of resources, restricted to the caller's permissions.
pub(crate) async fn world(
    desk: &AppState,
    caller: Option<&Caller>,
    path: &str,
    query: &str,
) -> Result<World> {
    let Some(caller) = caller else { return Ok(unknown(desk)) };
    let of_events = path.contains("/Managers") || !query.is_empty();
    let last = Some(if of_events { 1000 } else { 0 });
    let Reply::Info { info } = desk.look(Command::Info {}).await? else { return Err(unexpected()) };
    let Reply::Volumes { volumes } = desk.look(Command::VolumeList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Drives { drives } = desk.look(Command::DriveList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Spares { spares, .. } = desk.look(Command::SpareList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Logs { logs, .. } = desk.look(Command::LogList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Tasks { tasks } = desk.look(Command::TaskList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Events { events } = desk.look(Command::EventsList { last, about: None }).await?
    else {
        return Err(unexpected());
    };
    let (mut accounts, mut sessions) = (desk.keeper.list(), desk.keeper.sessions());
    let own = caller.account.as_deref();
    if !Action::Accounts.is_for(caller.role) {
        accounts.retain(|account| Some(account.name.as_str()) == own);
        sessions.retain(|session| Some(session.account.as_str()) == own);
    }
    let may = Action::Subscriptions.is_for(caller.role);
    let subscriptions = if may { desk.subscriptions.list() } else { Vec::new() };
    let known = World {
        info: *info,
        volumes,
        drives,
        spares,
        logs,
        tasks,
        events,
        accounts,
        sessions,
        subscriptions,
        ..unknown(desk)
    };
    Ok(known)
}

/// The input for an unauthenticated caller: without queries, so that it causes no load.
fn unknown(desk: &AppState) -> World {
    let Machine { host, uuid, port, .. } = desk.machine.clone();
    World {
        now_unix_s: keeper::unix_time(),
        host,
        uuid,
        port,
        info: ControllerInfo {
            serial: String::new(),
            provisional_numbers: None,
            version: String::new(),
            started_unix_s: 0,
            shards: 0,
            levels: Vec::new(),
            volumes_optimal: 0,
            volumes_degraded: 0,
            volumes_offline: 0,
            volumes_missing: 0,
            drives: 0,
            hosts: 0,
            ups: None,
            alarm: controller::AlarmInfo::default(),
            cache_bytes: 0,
            cache_reserved_bytes: 0,
            awaited: Vec::new(),
            nbd: Vec::new(),
        },
        volumes: Vec::new(),
        drives: Vec::new(),
        spares: Vec::new(),
        logs: Vec::new(),
        tasks: Vec::new(),
        events: Vec::new(),
        accounts: Vec::new(),
        sessions: Vec::new(),
        subscriptions: Vec::new(),
        limits: desk.keeper.limits(),
        session_idle_s: keeper::IDLE_S,
    }
}

/// The input of resources for event subscribers; empty if the controller is busy.
pub(crate) async fn world_of_events(desk: &AppState) -> World {
    let volumes = match desk.look(Command::VolumeList {}).await {
        Ok(Reply::Volumes { volumes }) => volumes,
        _ => Vec::new(),
    };
    let drives = match desk.look(Command::DriveList {}).await {
        Ok(Reply::Drives { drives }) => drives,
        _ => Vec::new(),
    };
    World { volumes, drives, ..unknown(desk) }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Failed, "the controller sent an unexpected reply; see its log")
}

/// Executes a change.
async fn carried_out(
    desk: &AppState,
    caller: Option<&Caller>,
    peer: Option<&Peer>,
    change: &Change,
) -> Result<ChangeResult> {
    if let Operation::OpenSession { name, password } = &change.asked {
        let from = peer.unwrap_or(&Peer::User(None)).origin();
        let (session, token, account) = desk.keeper.open_session(name, password, &from).await?;
        return Ok(ChangeResult::Session { session, token, account });
    }
    let nobody = || Error::new(ErrorKind::Unauthenticated, "an account is required");
    let caller = caller.ok_or_else(nobody)?;
    match &change.asked {
        Operation::Commands(commands) => {
            let mut replies = Vec::new();
            for command in commands {
                replies.push(desk.ask(caller, command.clone()).await?);
            }
            return Ok(ChangeResult::Replies(replies));
        }
        Operation::CloseSession(id) if caller.session.as_deref() == Some(id.as_str()) => {
            desk.keeper.close(id);
        }
        Operation::CloseSession(id) => {
            let close = async {
                desk.keeper.close(id);
                Ok(())
            };
            desk.order((caller, Action::OwnSession), ("session-close", id), close).await?;
        }
        Operation::AddAccount { name, role, password, must_change, enabled } => {
            desk.may(caller, Action::Accounts, name)?;
            desk.keeper.add(&caller.named(), name, *role, password, *must_change).await?;
            if !enabled {
                let disable = AccountChange { enabled: Some(false), ..AccountChange::default() };
                desk.keeper.set(caller, name, disable, None).await?;
            }
        }
        Operation::SetAccount { name, change, password } => {
            desk.keeper.set(caller, name, change.clone(), password.as_ref()).await?;
        }
        Operation::RemoveAccount(name) => {
            desk.may(caller, Action::Accounts, name)?;
            desk.keeper.remove(&caller.named(), name).await?;
        }
        subscription => return of_subscription(desk, caller, subscription).await,
    }
    Ok(ChangeResult::Nothing)
}

/// Changes event subscriptions.
async fn of_subscription(
    desk: &AppState,
    caller: &Caller,
    asked: &Operation,
) -> Result<ChangeResult> {
    let who = (caller, Action::Subscriptions);
    match asked {
        Operation::Subscribe { destination, context, verify_certificate } => {
            let add = async { desk.subscriptions.add(destination, context, *verify_certificate) };
            let made = desk.order(who, ("subscription-add", "events"), add).await?;
            crate::events::push(desk, &made);
            return Ok(ChangeResult::Subscription(made));
        }
        Operation::SetSubscription { id, context, verify_certificate } => {
            let set = async { desk.subscriptions.set(id, context.as_deref(), *verify_certificate) };
            desk.order(who, ("subscription-set", id), set).await?;
        }
        Operation::Unsubscribe(id) => {
            let remove = async { desk.subscriptions.remove(id) };
            desk.order(who, ("subscription-remove", id), remove).await?;
        }
        _ => {}
    }
    Ok(ChangeResult::Nothing)
}
