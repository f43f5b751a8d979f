//! Processing of a request.

use crate::change::{self, Change};
use crate::message::{self, Message};
use crate::query::{Query, QueryError};
use crate::{World, access, event, root, schema, task, tree};
use ::access::Caller;
use controller::Error;
use serde_json::Value;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// `GET`, `PATCH`, ...
    pub method: &'r str,
    /// The path of its address.
    pub path: &'r str,
    /// The query.
    pub query: &'r str,
    /// The request body.
    pub body: &'r [u8],
    /// The header `If-Match`.
    pub if_match: Option<&'r str>,
    /// The header `If-None-Match`.
    pub if_none_match: Option<&'r str>,
    /// The header `OData-Version`.
    pub odata_version: Option<&'r str>,
}

/// The next step for a request.
#[derive(Debug)]
pub enum Answer {
    /// A response.
    Response(Response),
    /// A change to execute first; then [`finished`](crate::finished) builds the response.
    Change(Box<Change>),
    /// A stream of events.
    Stream,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Specific headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

/// The body of a response.
#[derive(Clone, Debug)]
pub enum Body {
    /// Nothing.
    None,
    /// JSON.
    Json(Value),
    /// XML.
    Xml(String),
}

impl Response {
    pub(crate) fn json(status: u16, body: Value) -> Response {
        Response { status, headers: Vec::new(), body: Body::Json(body) }
    }

    pub(crate) fn error(status: u16, messages: &[Message]) -> Response {
        Response::json(status, message::error(messages))
    }

    pub(crate) fn nothing(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Body::None }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// A resource with its headers.
    pub(crate) fn resource(status: u16, body: Value) -> Response {
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let (tag, kind) = (text("@odata.etag"), text("@odata.type"));
        let mut response = Response::json(status, body);
        if !tag.is_empty() {
            response = response.with("ETag", tag);
        }
        match schema::of_type(&kind) {
            Some(file) => response
                .with("Link", format!("<{}/{file}.json>; rel=describedby", schema::PUBLISHED)),
            None => response,
        }
    }
}

impl From<QueryError> for Response {
    fn from((status, message): QueryError) -> Response {
        Response::error(status, &[message])
    }
}

/// Whether an address belongs to Redfish.
pub fn is_ours(path: &str) -> bool {
    path == "/redfish" || path.starts_with("/redfish/")
}

/// Resources that need no authentication.
fn public(world: &World, path: &str) -> Option<Response> {
    match path {
        "/redfish" | "/redfish/" => Some(Response::json(200, root::versions())),
        "/redfish/v1" | "/redfish/v1/" => {
            tree::resource(world, "/redfish/v1/").map(|body| Response::resource(200, body))
        }
        "/redfish/v1/odata" | "/redfish/v1/odata/" => {
            Some(Response::json(200, root::service_document()))
        }
        "/redfish/v1/$metadata" => {
            let body = Body::Xml(schema::metadata());
            Some(Response { status: 200, headers: Vec::new(), body })
        }
        _ => None,
    }
}

/// The response to missing or invalid credentials.
pub fn unauthenticated(why: &Error) -> Response {
    let (status, messages) = message::of_refusal(why, "");
    let response = Response::error(status, &messages);
    if status == 401 {
        response.with("WWW-Authenticate", "Basic realm=\"SoftROC\", charset=\"UTF-8\"")
    } else {
        response
    }
}

/// Processes a request. `caller`: the account; `None`: without credentials.
pub fn answer(world: &World, caller: Option<&Caller>, request: &Request<'_>) -> Answer {
    match answered(world, caller, request) {
        Ok(answer) => answer,
        Err(response) => Answer::Response(*response),
    }
}

type Refused = Box<Response>;

fn refused(status: u16, message: Message) -> Refused {
    Box::new(Response::error(status, &[message]))
}

fn answered(
    world: &World,
    caller: Option<&Caller>,
    request: &Request<'_>,
) -> Result<Answer, Refused> {
    let Request { method, path, .. } = *request;
    if request.odata_version.is_some_and(|version| version.trim() != "4.0") {
        return Err(refused(412, Message::base("HeaderInvalid", &["OData-Version"])));
    }
    let is_look = method == "GET" || method == "HEAD";
    if let Some(response) = public(world, path) {
        let response = response.with("Allow", "GET, HEAD");
        if !is_look {
            return Err(not_allowed("GET, HEAD"));
        }
        return looked(world, request, response).map(Answer::Response);
    }
    let signs_in = method == "POST" && change::is_sessions(path);
    let caller = match caller {
        Some(caller) => caller,
        None if signs_in => return change::sign_in(request),
        None => {
            let sentence =
                "an account is required; open a session, or send a name and a password (Basic)";
            let why = Error::new(controller::ErrorKind::Unauthenticated, sentence);
            return Err(Box::new(unauthenticated(&why)));
        }
    };
    if signs_in {
        return change::sign_in(request);
    }
    let methods = tree::methods(world, path)
        .ok_or_else(|| refused(404, Message::base("ResourceMissingAtURI", &[path])))?;
    let allowed = methods.split(", ").any(|known| known == method);
    check_password(caller, request)?;
    match allowed {
        true if path.trim_end_matches('/') == event::STREAM => Ok(Answer::Stream),
        true if is_look => look(world, request, methods).map(Answer::Response),
        true => {
            check_revision(world, request)?;
            change::read(world, caller, request)
        }
        false => Err(not_allowed(methods)),
    }
}

fn not_allowed(methods: &str) -> Refused {
    let message = Message::base("OperationNotAllowed", &[]);
    Box::new(Response::error(405, &[message]).with("Allow", methods))
}

/// Until a required password change, the caller may only read and change its own account, and end
/// its session.
fn check_password(caller: &Caller, request: &Request<'_>) -> Result<(), Refused> {
    let Some(name) = caller.account.as_deref().filter(|_| caller.must_change) else {
        return Ok(());
    };
    let (own, path) = (access::account_uri(name), request.path.trim_end_matches('/'));
    let session = caller.session.as_deref().map(access::session_uri);
    let is_own = path == own && request.method != "DELETE";
    if is_own || session.as_deref() == Some(path) {
        return Ok(());
    }
    Err(refused(403, Message::base("PasswordChangeRequired", &[&own])))
}

fn look(world: &World, request: &Request<'_>, methods: &str) -> Result<Response, Refused> {
    let segments = tree::segments(request.path).unwrap_or_default();
    if let ["TaskService", "TaskMonitors", number] = segments.as_slice() {
        return Ok(monitored(world, number).with("Allow", methods));
    }
    let missing = || refused(404, Message::base("ResourceMissingAtURI", &[request.path]));
    let body = tree::resource(world, request.path).ok_or_else(missing)?;
    looked(world, request, Response::resource(200, body).with("Allow", methods))
}

/// The response to a read, with its query.
fn looked(
    world: &World,
    request: &Request<'_>,
    mut response: Response,
) -> Result<Response, Refused> {
    let query = Query::read(request.query).map_err(|wrong| Box::new(wrong.into()))?;
    if let (Body::Json(body), false) = (&mut response.body, query.is_empty()) {
        *body = query.apply(world, body.take()).map_err(|wrong| Box::new(wrong.into()))?;
    }
    let tag = response.headers.iter().find(|(name, _)| *name == "ETag").map(|(_, tag)| tag.clone());
    if let (Some(tag), Some(known)) = (tag, request.if_none_match)
        && fits(known, &tag)
    {
        response.status = 304;
        response.body = Body::None;
    }
    Ok(response)
}

/// A running task returns 202; an ended one its resource.
fn monitored(world: &World, number: &str) -> Response {
    match task::by_number(world, number) {
        Some(found) => {
            let status = if found.state.is_over() { 200 } else { 202 };
            let response = Response::json(status, task::task(found));
            match status {
                202 => response
                    .with("Location", task::monitor_uri(found.task))
                    .with("Retry-After", "1"),
                _ => response,
            }
        }
        None => Response::error(404, &[Message::base("ResourceMissingAtURI", &[number])]),
    }
}

fn check_revision(world: &World, request: &Request<'_>) -> Result<(), Refused> {
    let Some(known) = request.if_match else { return Ok(()) };
    let tag = tree::resource(world, request.path)
        .and_then(|body| Some(body.get("@odata.etag")?.as_str()?.to_owned()));
    match tag {
        Some(tag) if !fits(known, &tag) => {
            Err(refused(412, Message::base("PreconditionFailed", &[])))
        }
        _ => Ok(()),
    }
}

/// Whether a header contains this ETag. Weak and strong tags are equal here.
fn fits(header: &str, tag: &str) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    header.split(',').any(|one| one.trim() == "*" || strong(one) == strong(tag))
}
