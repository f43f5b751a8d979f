//! Changes as commands, and the responses to them.

mod accounts;
mod body;
mod drives;
mod subscriptions;
mod volumes;

use crate::answer::{Answer, Request, Response};
use crate::message::{self, Message};
use crate::{Subscription, World, access, event, ids, task, tree};
use ::access::{AccountChange, AccountInfo, Caller, Password, Role, SessionInfo};
use controller::{Command, Error, Reply};
use serde_json::{Value, json};

/// A requested change.
#[derive(Debug)]
pub struct Change {
    /// The operation.
    pub asked: Operation,
    /// The kind of response.
    then: ResponseKind,
    /// Errors of ignored parts of the request.
    left_out: Vec<(String, Message)>,
}

/// The operation to execute.
#[derive(Debug)]
pub enum Operation {
    /// Commands for the controller, in order, until the first error.
    Commands(Vec<Command>),
    /// Open a session.
    OpenSession {
        /// The account.
        name: String,
        /// Its password.
        password: Password,
    },
    /// End a session.
    CloseSession(String),
    /// Add an account.
    AddAccount {
        /// Its name.
        name: String,
        /// Its role.
        role: Role,
        /// Its password.
        password: Password,
        /// Whether the password must be changed.
        must_change: bool,
        /// Whether the account is enabled.
        enabled: bool,
    },
    /// Change an account.
    SetAccount {
        /// Its name.
        name: String,
        /// The changes.
        change: AccountChange,
        /// A new password.
        password: Option<Password>,
    },
    /// Remove an account.
    RemoveAccount(String),
    /// Add an event subscription.
    Subscribe {
        /// The destination.
        destination: String,
        /// The context.
        context: String,
        /// Whether to verify the destination's certificate.
        verify_certificate: bool,
    },
    /// Change a subscription.
    SetSubscription {
        /// Its number.
        id: String,
        /// The context; `None`: unchanged.
        context: Option<String>,
        /// Whether to verify the destination's certificate; `None`: unchanged.
        verify_certificate: Option<bool>,
    },
    /// Remove a subscription.
    Unsubscribe(String),
}

/// The result of a change.
#[derive(Debug)]
pub enum ChangeResult {
    /// The replies of the controller.
    Replies(Vec<Reply>),
    /// A session was opened.
    Session {
        /// The session.
        session: SessionInfo,
        /// Its token.
        token: String,
        /// Its account.
        account: AccountInfo,
    },
    /// A subscription was added.
    Subscription(Subscription),
    /// Done, without a result.
    Nothing,
}

/// The kind of response to a completed change.
#[derive(Debug)]
enum ResponseKind {
    /// The resource at this address.
    Show(String),
    /// A new resource: a volume, or the one at this address.
    Made(Option<String>),
    /// A task.
    Task,
    /// No content.
    Nothing,
    /// A session.
    Session,
}

type Read = Result<Answer, Box<Response>>;

fn change(asked: Operation, then: ResponseKind) -> Read {
    Ok(Answer::Change(Box::new(Change { asked, then, left_out: Vec::new() })))
}

/// Whether a session is opened at this address.
pub(crate) fn is_sessions(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = path.strip_suffix("/Members").unwrap_or(path);
    path == "/redfish/v1/SessionService/Sessions"
}

/// A request to open a session.
pub(crate) fn sign_in(request: &Request<'_>) -> Read {
    accounts::sign_in(request)
}

/// Whether a volume has this action.
pub(crate) fn is_action(name: &str) -> bool {
    ["Volume.Initialize", "Volume.CheckConsistency", "Volume.ForceEnable"].contains(&name)
}

/// Parses the change that a request asks for.
pub(crate) fn read(world: &World, caller: &Caller, request: &Request<'_>) -> Read {
    if !request.query.is_empty() && request.query.split('&').any(|part| part.starts_with('$')) {
        return Err(Box::new(Response::error(
            400,
            &[Message::base("QueryNotSupportedOnOperation", &[])],
        )));
    }
    let segments = tree::segments(request.path).unwrap_or_default();
    match (request.method, segments.as_slice()) {
        ("POST", ["AccountService", "Accounts"] | ["AccountService", "Accounts", "Members"]) => {
            accounts::add(caller, request)
        }
        ("PATCH", ["AccountService", "Accounts", name]) => accounts::set(caller, name, request),
        ("DELETE", ["AccountService", "Accounts", name]) => {
            accounts::check(caller, ::access::Action::Accounts, request.path)?;
            change(Operation::RemoveAccount((*name).to_owned()), ResponseKind::Nothing)
        }
        ("DELETE", ["SessionService", "Sessions", id]) => {
            let is_own = world.sessions.iter().any(|session| {
                session.id == *id && Some(&session.account) == caller.account.as_ref()
            });
            let action =
                if is_own { ::access::Action::OwnSession } else { ::access::Action::Sessions };
            accounts::check(caller, action, request.path)?;
            change(Operation::CloseSession((*id).to_owned()), ResponseKind::Nothing)
        }
        (
            "POST",
            ["EventService", "Subscriptions"] | ["EventService", "Subscriptions", "Members"],
        ) => subscriptions::add(caller, request),
        ("PATCH", ["EventService", "Subscriptions", id]) => subscriptions::set(caller, id, request),
        ("DELETE", ["EventService", "Subscriptions", id]) => {
            accounts::check(caller, ::access::Action::Subscriptions, request.path)?;
            change(Operation::Unsubscribe((*id).to_owned()), ResponseKind::Nothing)
        }
        ("DELETE", ["TaskService", "Tasks" | "TaskMonitors", number]) => {
            let task = task::by_number(world, number).map_or(0, |task| task.task);
            change(Operation::Commands(vec![Command::TaskStop { task }]), ResponseKind::Nothing)
        }
        ("PATCH", ["Chassis", "host", "Drives", id]) => drives::set(world, id, request),
        (method, ["Systems", "host", "Storage", "softroc", rest @ ..]) => match (method, rest) {
            ("POST", ["Volumes"] | ["Volumes", "Members"]) => volumes::create(world, request),
            ("POST", ["Volumes", id, "Actions", action]) => {
                volumes::act(world, id, action, request)
            }
            ("PATCH", ["Volumes", id]) => volumes::set(world, id, request),
            ("DELETE", ["Volumes", id]) => volumes::delete(world, id),
            _ => Err(missing(request.path)),
        },
        _ => Err(missing(request.path)),
    }
}

fn missing(path: &str) -> Box<Response> {
    Box::new(Response::error(404, &[Message::base("ResourceMissingAtURI", &[path])]))
}

/// The response to a completed or failed change. `world`: the state after it.
pub fn finished(
    world: &World,
    path: &str,
    change: &Change,
    done: Result<ChangeResult, Error>,
) -> Response {
    let done = match done {
        Ok(done) => done,
        Err(refusal) => {
            let (status, messages) = message::of_refusal(&refusal, path);
            // A wrong password at sign-in gets no authentication challenge.
            return Response::error(status, &messages);
        }
    };
    match (&change.then, done) {
        (ResponseKind::Session, ChangeResult::Session { session, token, account }) => {
            let mut body = access::session(&session);
            if account.must_change {
                let required =
                    Message::base("PasswordChangeRequired", &[&access::account_uri(&account.name)]);
                body["@Message.ExtendedInfo"] = json!([required.json()]);
            }
            Response::resource(201, body)
                .with("Location", access::session_uri(&session.id))
                .with("X-Auth-Token", token)
        }
        (ResponseKind::Made(uri), done) => made(world, uri.as_deref(), &done),
        (ResponseKind::Task, ChangeResult::Replies(replies)) => accepted(&replies),
        (ResponseKind::Show(uri), _) => shown(world, uri, &change.left_out),
        (ResponseKind::Nothing | ResponseKind::Task | ResponseKind::Session, _) => {
            Response::nothing(204)
        }
    }
}

fn shown(world: &World, uri: &str, left_out: &[(String, Message)]) -> Response {
    let Some(mut body) = tree::resource(world, uri) else { return Response::nothing(204) };
    for (property, message) in left_out {
        body[format!("{property}@Message.ExtendedInfo")] = json!([message.json()]);
    }
    if !left_out.is_empty() {
        body["@Message.ExtendedInfo"] =
            left_out.iter().map(|(_, message)| message.json()).collect();
    }
    Response::resource(200, body)
}

fn made(world: &World, uri: Option<&str>, done: &ChangeResult) -> Response {
    let of_volume = |reply: &Reply| match reply {
        Reply::Volume { volume, .. } => Some(ids::volume_uri(volume)),
        _ => None,
    };
    let new = match done {
        ChangeResult::Replies(replies) => replies.iter().find_map(of_volume),
        ChangeResult::Subscription(one) => Some(event::subscription_uri(&one.id)),
        _ => None,
    };
    match uri.map(str::to_owned).or(new) {
        Some(uri) => {
            let body = tree::resource(world, &uri).unwrap_or_else(|| json!({ "@odata.id": uri }));
            Response::resource(201, body).with("Location", uri)
        }
        None => Response::nothing(204),
    }
}

/// A started task: the client polls its monitor.
fn accepted(replies: &[Reply]) -> Response {
    let of = |reply: &Reply| match reply {
        Reply::Task { task, .. } => Some((task::task(task), task::monitor_uri(task.task))),
        _ => None,
    };
    match replies.iter().find_map(of) {
        Some((body, monitor)) => {
            Response::json(202, body).with("Location", monitor).with("Retry-After", "1")
        }
        None => Response::nothing(204),
    }
}

/// A value for messages.
fn told(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
