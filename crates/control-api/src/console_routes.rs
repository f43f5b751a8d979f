//! The console over HTTP: serves the pages of the crate `webconsole` and executes their forms.
//!
//! The session token is in a cookie for `/console` only, so other addresses do not accept it. A
//! form needs the token of its page, which is bound to the session.

use crate::console_orders::{self, OnceMessage};
use crate::desk::{AppState, refused, status};
use crate::gate::{self, Peer};
use crate::keeper;
use crate::routes::{LONGEST_BODY, LONGEST_OF_A_STRANGER};
use access::{AccountChange, Action, Caller, Password};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Form, FromRequest, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use controller::{Command, Error, ErrorKind, Reply, Result};
use webconsole::{ConsoleAction, Export, Viewer, World};

/// The cookie with the session token.
const SESSION: &str = "__Secure-softroc-session";

/// The cookie of the sign-in form, used before there is a session.
const ENTRANCE: &str = "__Secure-softroc-entrance";

/// Attributes of the cookies.
const COOKIE: &str = "Path=/console; Secure; HttpOnly; SameSite=Strict";

/// Only content and scripts of this server, and no frames.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors \
    'none'; object-src 'none'";

/// For the benchmark report: a page with inline style and without scripts, sandboxed so that it
/// cannot use the session.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// Routes below `/console`. The root redirects to it.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/", get(async || see("/console/")))
        .route("/console", get(async || see("/console/")))
        .route("/console/", get(show))
        .route("/console/{page}", get(show))
        .route("/console/live/", get(crate::console_live::live))
        .route("/console/live/{page}", get(crate::console_live::live))
        .route("/console/assets/{name}", get(asset))
        .route(
            "/console/sign-in",
            get(entrance).post(sign_in).layer(DefaultBodyLimit::max(LONGEST_OF_A_STRANGER)),
        )
        .route("/console/sign-out", post(sign_out))
        .route("/console/password", get(password).post(set_password))
        .route("/console/do", post(act))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::map_response(with_usual_headers))
}

async fn with_usual_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    // The report sets its own policy.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Redirects a browser.
fn see(address: &str) -> Response {
    match HeaderValue::try_from(address) {
        Ok(to) => (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response(),
        Err(_) => (StatusCode::SEE_OTHER, [(header::LOCATION, "/console/")]).into_response(),
    }
}

fn html(code: u16, text: String) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = webconsole::asset(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, asset.text.as_bytes());
    let tag = format!("\"{}\"", access::hex(&digest.as_ref()[..8]));
    let usual = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, usual).into_response();
    }
    (usual, [(header::CONTENT_TYPE, asset.kind)], asset.text).into_response()
}

/// The value of a cookie.
fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

/// The caller; `None` without sign-in.
///
/// # Errors
/// `Unauthenticated` for requests of another site or with invalid credentials.
pub(crate) async fn caller(
    desk: &AppState,
    peer: Option<Peer>,
    headers: &HeaderMap,
) -> Result<Option<Caller>> {
    if let Some(Peer::Network(client)) = &peer
        && let Some(token) = cookie(headers, SESSION)
    {
        gate::check_site(headers)?;
        if let Ok(caller) = desk.keeper.of_token(token, &client.address.to_string()) {
            client.link.sign_in();
            return Ok(Some(caller));
        }
        // The session has ended.
    }
    gate::identify(desk, peer.as_ref(), headers).await
}

/// The identity that forms are bound to.
fn owner(caller: &Caller) -> String {
    match (&caller.session, &caller.account) {
        (Some(session), _) => format!("session {session}"),
        (None, Some(account)) => format!("account {account}"),
        (None, None) => format!("user {}", caller.user),
    }
}

pub(crate) fn viewer(desk: &AppState, caller: Caller) -> Viewer {
    let token = desk.keeper.form_token(&owner(&caller));
    Viewer { caller, token }
}

/// A value for an admitted caller, or the response for others.
type Entered<T> = std::result::Result<T, Box<Response>>;

fn boxed(error: Error) -> Box<Response> {
    Box::new(refused(error))
}

/// The viewer of pages, or a redirection to sign-in.
async fn enter(
    desk: &AppState,
    peer: Option<Peer>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Entered<Viewer> {
    match caller(desk, peer, headers).await {
        Ok(Some(caller)) if caller.must_change => Err(Box::new(see("/console/password"))),
        Ok(Some(caller)) => Ok(viewer(desk, caller)),
        Ok(None) => {
            let back = uri.path_and_query().map_or("/console/", |address| address.as_str());
            let ended = if cookie(headers, SESSION).is_some() { "ended=yes&" } else { "" };
            Err(Box::new(see(&format!(
                "/console/sign-in?{ended}back={}",
                webconsole::encoded(back)
            ))))
        }
        Err(error) => Err(boxed(error)),
    }
}

/// The input of pages for a caller with permission to see it.
pub(crate) async fn world(desk: &AppState, caller: &Caller, events: usize) -> Result<World> {
    let unexpected = || {
        let sentence = "the controller sent an unexpected reply; see its log";
        Error::new(ErrorKind::Failed, sentence)
    };
    let Reply::Info { info } = desk.ask(caller, Command::Info {}).await? else {
        return Err(unexpected());
    };
    let Reply::Health { health } = desk.ask(caller, Command::Health {}).await? else {
        return Err(unexpected());
    };
    let Reply::Volumes { volumes } = desk.ask(caller, Command::VolumeList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Drives { drives } = desk.ask(caller, Command::DriveList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Spares { spares, coverage } = desk.ask(caller, Command::SpareList {}).await? else {
        return Err(unexpected());
    };
    let Reply::Tasks { tasks } = desk.ask(caller, Command::TaskList {}).await? else {
        return Err(unexpected());
    };
    let last = Some(events);
    let Reply::Events { events } =
        desk.ask(caller, Command::EventsList { last, about: None }).await?
    else {
        return Err(unexpected());
    };
    let (now_unix_s, host) = (keeper::unix_time(), desk.machine.host.clone());
    Ok(World {
        now_unix_s,
        host,
        info: *info,
        health,
        volumes,
        drives,
        spares,
        coverage,
        tasks,
        events,
        answers: Vec::new(),
        upkeep: None,
        traffic: Vec::new(),
        workbench: webconsole::Workbench::default(),
        foreseen: Vec::new(),
        notes: Vec::new(),
    })
}

/// The input of the page at an address.
pub(crate) async fn world_of(
    desk: &AppState,
    caller: &Caller,
    page: &str,
    query: &webconsole::Query,
) -> Result<World> {
    let needs = webconsole::needs(page, query);
    let mut world = world(desk, caller, needs.events).await?;
    world.upkeep = needs.upkeep.then(|| console_orders::upkeep(desk, caller));
    if needs.workbench {
        world.workbench = desk.workbench.told();
    }
    world.traffic = needs.traffic.map(|volume| desk.traffic.of(&volume)).unwrap_or_default();
    for question in webconsole::questions(&world, page, query) {
        let answer = match question {
            Command::ForeignList {} => foreign(desk, caller, &world).await,
            _ => desk.ask(caller, question.clone()).await,
        };
        let kept = webconsole::kept(&question, answer);
        world.answers.push((question, kept));
    }
    // Predictions use CPU time: viewers without the permission start none. Which predictions a page
    // needs depends on the replies.
    if caller.may(Action::Benchmark).is_ok() {
        let orders = webconsole::predictions(&world, page, query);
        if !orders.is_empty() {
            world.foreseen = desk.workbench.foreseen(&orders);
        }
    }
    Ok(world)
}

/// The content of unused drives, cached, for a caller with the permission.
async fn foreign(desk: &AppState, caller: &Caller, world: &World) -> Result<Reply> {
    let question = Command::ForeignList {};
    caller.may(Action::of(&question))?;
    let event = desk.controller.events().newest();
    let drives =
        world.drives.iter().map(|drive| format!("{} {}", drive.name, drive.state)).collect();
    desk.holdings.of(std::time::Instant::now(), event, drives, desk.ask(caller, question)).await
}

/// The fields of an address; invalid ones are dropped.
pub(crate) fn query(uri: &Uri) -> webconsole::Query {
    Query::try_from_uri(uri)
        .map_or_else(|_| webconsole::Query::default(), |Query(fields)| webconsole::Query(fields))
}

async fn show(State(desk): State<AppState>, request: Request) -> Response {
    let uri = request.uri().clone();
    let viewer = match enter(&desk, gate::peer(&request), request.headers(), &uri).await {
        Ok(viewer) => viewer,
        Err(response) => return *response,
    };
    let name = uri.path().strip_prefix("/console/").unwrap_or_default();
    let query = query(&uri);
    let mut world = match world_of(&desk, &viewer.caller, name, &query).await {
        Ok(world) => world,
        Err(error) => return refused(error),
    };
    if query.get("asked").is_some() {
        world.notes = desk.told_once.take(&owner(&viewer.caller));
    }
    if let Some(address) = webconsole::leads(&world, name, &query) {
        return see(&address);
    }
    match name {
        "events.csv" => file(&world, &query, Export::Csv, "text/csv; charset=utf-8"),
        "bench-report" => report(&desk, &query),
        "events.json" => file(&world, &query, Export::Json, "application/json"),
        _ => {
            let page = webconsole::page(&world, &viewer, name, &query);
            html(page.status, page.html(&world, &viewer, &query))
        }
    }
}

/// The report of the last benchmark, to display or to download.
fn report(desk: &AppState, query: &webconsole::Query) -> Response {
    let Some(report) = desk.workbench.report(query.get("beside").is_some()) else {
        let sentence = "there is no report; run a benchmark first, at /console/bench";
        return refused(Error::new(ErrorKind::NotFound, sentence));
    };
    let mut response = html(200, report);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    if query.get("save").is_some() {
        let how = HeaderValue::from_static("attachment; filename=\"storagebench.html\"");
        headers.insert(header::CONTENT_DISPOSITION, how);
    }
    response
}

fn file(world: &World, query: &webconsole::Query, export: Export, kind: &'static str) -> Response {
    match webconsole::export(world, query, export) {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => refused(error),
    }
}

/// The fields of a form.
async fn fields(request: Request) -> Result<webconsole::Query> {
    let read = Form::<Vec<(String, String)>>::from_request(request, &()).await;
    let unreadable = |_| Error::new(ErrorKind::Invalid, "the form is invalid; open its page again");
    read.map(|Form(fields)| webconsole::Query(fields)).map_err(unreadable)
}

/// Checks that the form was made for its sender.
fn check(desk: &AppState, owner: &str, fields: &webconsole::Query) -> Result<()> {
    if desk.keeper.is_form_token(owner, fields.get("token").unwrap_or_default()) {
        return Ok(());
    }
    let sentence = "the form does not belong to this session; open the page again";
    Err(Error::new(ErrorKind::Denied, sentence))
}

/// Executes a submitted form.
async fn act(State(desk): State<AppState>, request: Request) -> Response {
    let uri = Uri::from_static("/console/");
    let viewer = match enter(&desk, gate::peer(&request), request.headers(), &uri).await {
        Ok(viewer) => viewer,
        Err(response) => return *response,
    };
    let fields = match fields(request).await {
        Ok(fields) => fields,
        Err(error) => return refused(error),
    };
    let back = webconsole::back(fields.get("back"));
    let why = match done(&desk, &viewer.caller, &fields).await {
        Ok((deed, None)) => return see(&deed.then(back)),
        Ok((_, Some(once))) => return told(&desk, &viewer, &once, back).await,
        Err(why) => why,
    };
    match world(&desk, &viewer.caller, 0).await {
        Ok(world) => {
            let code = status(why.kind).as_u16();
            let page = webconsole::failed(&world, &viewer, code, &why.message, back);
            html(page.status, page.html(&world, &viewer, &webconsole::Query::default()))
        }
        Err(_) => refused(why),
    }
}

/// A page with a result that is shown once.
async fn told(
    desk: &AppState,
    viewer: &Viewer,
    (what, once): &(String, String),
    back: &str,
) -> Response {
    match world(desk, &viewer.caller, 0).await {
        Ok(world) => {
            let page = webconsole::told(&world, viewer, what, once, back);
            html(page.status, page.html(&world, viewer, &webconsole::Query::default()))
        }
        Err(error) => refused(error),
    }
}

async fn done(
    desk: &AppState,
    caller: &Caller,
    fields: &webconsole::Query,
) -> Result<(ConsoleAction, OnceMessage)> {
    check(desk, &owner(caller), fields)?;
    let mut world = world(desk, caller, 0).await?;
    world.workbench = desk.workbench.told();
    let deed = ConsoleAction::read(fields, &world)?;
    let told = console_orders::carry_out(desk, caller, &owner(caller), &deed.order).await?;
    Ok((deed, told))
}

fn with_cookie(mut response: Response, name: &str, value: &str, more: &str) -> Response {
    if let Ok(cookie) = HeaderValue::try_from(format!("{name}={value}; {COOKIE}{more}")) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The sign-in page. Its form is bound to a cookie, so that another site cannot sign a user in.
fn entrance_page(
    desk: &AppState,
    code: u16,
    back: &str,
    refusal: Option<&str>,
    has_ended: bool,
) -> Response {
    let bound = match keeper::random::<16>() {
        Ok(bytes) => access::hex(&bytes),
        Err(error) => return refused(Error::new(ErrorKind::Failed, error.to_string())),
    };
    let token = desk.keeper.form_token(&format!("entrance {bound}"));
    let page = webconsole::sign_in(&desk.machine.host, &token, back, refusal, has_ended);
    with_cookie(html(code, page), ENTRANCE, &bound, "")
}

async fn entrance(State(desk): State<AppState>, uri: Uri) -> Response {
    let query = query(&uri);
    entrance_page(
        &desk,
        200,
        webconsole::back(query.get("back")),
        None,
        query.get("ended").is_some(),
    )
}

async fn sign_in(State(desk): State<AppState>, request: Request) -> Response {
    let from = match gate::peer(&request) {
        Some(Peer::Network(client)) => client.origin(),
        // Users of the control socket are already authenticated.
        _ => return see("/console/"),
    };
    let bound = cookie(request.headers(), ENTRANCE).unwrap_or_default().to_owned();
    let site = gate::check_site(request.headers());
    let fields = match fields(request).await {
        Ok(fields) => fields,
        Err(error) => return refused(error),
    };
    let back = webconsole::back(fields.get("back"));
    if let Err(error) = site.and_then(|()| check(&desk, &format!("entrance {bound}"), &fields)) {
        return entrance_page(&desk, 403, back, Some(&error.message), false);
    }
    let name = fields.get("account").unwrap_or_default();
    let secret = Password::new(fields.get("password").unwrap_or_default());
    match desk.keeper.open_session(name, &secret, &from).await {
        Ok((_, token, account)) => {
            let to = if account.must_change { "/console/password" } else { back };
            let response = with_cookie(see(to), SESSION, &token, "");
            with_cookie(response, ENTRANCE, "", "; Max-Age=0")
        }
        Err(error) => {
            entrance_page(&desk, status(error.kind).as_u16(), back, Some(&error.message), false)
        }
    }
}

/// A signed-in caller, even if the password must be changed, and the submitted form.
async fn own(desk: &AppState, request: Request) -> Entered<(Caller, webconsole::Query)> {
    let known = caller(desk, gate::peer(&request), request.headers()).await.map_err(boxed)?;
    let Some(caller) = known else { return Err(Box::new(see("/console/sign-in"))) };
    let fields = fields(request).await.map_err(boxed)?;
    check(desk, &owner(&caller), &fields).map_err(boxed)?;
    Ok((caller, fields))
}

async fn sign_out(State(desk): State<AppState>, request: Request) -> Response {
    match own(&desk, request).await {
        Ok((caller, _)) => {
            if let Some(session) = &caller.session {
                desk.keeper.close(session);
            }
            with_cookie(see("/console/sign-in"), SESSION, "", "; Max-Age=0")
        }
        Err(response) => *response,
    }
}

fn password_page(desk: &AppState, code: u16, caller: &Caller, refusal: Option<&str>) -> Response {
    let token = desk.keeper.form_token(&owner(caller));
    html(code, webconsole::password(&desk.machine.host, &token, &caller.user, refusal))
}

async fn password(State(desk): State<AppState>, request: Request) -> Response {
    match caller(&desk, gate::peer(&request), request.headers()).await {
        Ok(Some(caller)) if caller.account.is_some() => password_page(&desk, 200, &caller, None),
        Ok(Some(_)) => see("/console/"),
        Ok(None) => see("/console/sign-in"),
        Err(error) => refused(error),
    }
}

async fn set_password(State(desk): State<AppState>, request: Request) -> Response {
    let (caller, fields) = match own(&desk, request).await {
        Ok(own) => own,
        Err(response) => return *response,
    };
    match changed(&desk, &caller, &fields).await {
        Ok(()) => see("/console/"),
        Err(error) => {
            password_page(&desk, status(error.kind).as_u16(), &caller, Some(&error.message))
        }
    }
}

async fn changed(desk: &AppState, caller: &Caller, fields: &webconsole::Query) -> Result<()> {
    caller.may(Action::OwnPassword)?;
    let invalid = |sentence: &str| Error::new(ErrorKind::Invalid, sentence);
    let name =
        caller.account.as_deref().ok_or_else(|| invalid("only an account has a password"))?;
    let (new, again) =
        (fields.get("password").unwrap_or_default(), fields.get("again").unwrap_or_default());
    if new != again {
        return Err(invalid("the two passwords differ; type both again"));
    }
    desk.keeper.set(caller, name, AccountChange::default(), Some(&Password::new(new))).await?;
    Ok(())
}

/// An event stream for a page.
pub(crate) fn stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
