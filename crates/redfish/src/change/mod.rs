//! What is asked to be changed, as commands; and what is answered when it is done.

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

/// What is to be changed.
#[derive(Debug)]
pub struct Change {
    /// What is asked.
    pub asked: Asked,
    /// How it is answered.
    then: Then,
    /// What was wrong with a part of the request, which is left out.
    left_out: Vec<(String, Message)>,
}

/// What is asked of whoever carries it out.
#[derive(Debug)]
pub enum Asked {
    /// Of the controller: one command after the other, until one is refused.
    Commands(Vec<Command>),
    /// A session is opened.
    OpenSession {
        /// Of that account.
        name: String,
        /// By its password.
        password: Password,
    },
    /// A session ends.
    CloseSession(String),
    /// An account is made.
    AddAccount {
        /// Its name.
        name: String,
        /// What it may.
        role: Role,
        /// Its password.
        password: Password,
        /// Whether that has to be changed.
        must_change: bool,
        /// Whether it can be used.
        enabled: bool,
    },
    /// An account is changed.
    SetAccount {
        /// Which.
        name: String,
        /// What of it.
        change: AccountChange,
        /// Its password.
        password: Option<Password>,
    },
    /// An account is removed.
    RemoveAccount(String),
    /// Events are to be sent.
    Subscribe {
        /// Where.
        destination: String,
        /// What is sent along.
        context: String,
        /// Whether the destination's certificate is looked at.
        verify_certificate: bool,
    },
    /// A subscription is changed.
    SetSubscription {
        /// Which.
        id: String,
        /// What is sent along; `None`: what was.
        context: Option<String>,
        /// Whether the destination's certificate is looked at; `None`: as before.
        verify_certificate: Option<bool>,
    },
    /// Events are to be sent there no more.
    Unsubscribe(String),
}

/// What came of it.
#[derive(Debug)]
pub enum Done {
    /// What the controller answered.
    Replies(Vec<Reply>),
    /// A session is open.
    Session {
        /// It.
        session: SessionInfo,
        /// What proves it.
        token: String,
        /// Whose it is.
        account: AccountInfo,
    },
    /// Events are sent.
    Subscription(Subscription),
    /// It is done.
    Nothing,
}

/// How a change is answered when it is done.
#[derive(Debug)]
enum Then {
    /// With the resource at that address.
    Show(String),
    /// With a new resource: a volume, or what is at that address.
    Made(Option<String>),
    /// With a task.
    Task,
    /// With nothing.
    Nothing,
    /// With a session.
    Session,
}

type Read = Result<Answer, Box<Response>>;

fn change(asked: Asked, then: Then) -> Read {
    Ok(Answer::Change(Box::new(Change { asked, then, left_out: Vec::new() })))
}

/// Whether a session is opened there.
pub(crate) fn is_sessions(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = path.strip_suffix("/Members").unwrap_or(path);
    path == "/redfish/v1/SessionService/Sessions"
}

/// A session is asked for.
pub(crate) fn sign_in(request: &Request<'_>) -> Read {
    accounts::sign_in(request)
}

/// Whether a volume has that action.
pub(crate) fn is_action(name: &str) -> bool {
    ["Volume.Initialize", "Volume.CheckConsistency", "Volume.ForceEnable"].contains(&name)
}

/// What a request asks for.
pub(crate) fn read(world: &World, caller: &Caller, request: &Request<'_>) -> Read {
    if !request.query.is_empty() && request.query.split('&').any(|part| part.starts_with('$')) {
        return Err(Box::new(Response::error(400, &[Message::base("QueryNotSupportedOnOperation", &[])])));
    }
    let segments = tree::segments(request.path).unwrap_or_default();
    match (request.method, segments.as_slice()) {
        ("POST", ["AccountService", "Accounts"] | ["AccountService", "Accounts", "Members"]) => {
            accounts::add(caller, request)
        }
        ("PATCH", ["AccountService", "Accounts", name]) => accounts::set(caller, name, request),
        ("DELETE", ["AccountService", "Accounts", name]) => {
            accounts::check(caller, ::access::Action::Accounts, request.path)?;
            change(Asked::RemoveAccount((*name).to_owned()), Then::Nothing)
        }
        ("DELETE", ["SessionService", "Sessions", id]) => {
            let is_own = world
                .sessions
                .iter()
                .any(|session| session.id == *id && Some(&session.account) == caller.account.as_ref());
            let action = if is_own { ::access::Action::OwnSession } else { ::access::Action::Sessions };
            accounts::check(caller, action, request.path)?;
            change(Asked::CloseSession((*id).to_owned()), Then::Nothing)
        }
        ("POST", ["EventService", "Subscriptions"] | ["EventService", "Subscriptions", "Members"]) => {
            subscriptions::add(caller, request)
        }
        ("PATCH", ["EventService", "Subscriptions", id]) => subscriptions::set(caller, id, request),
        ("DELETE", ["EventService", "Subscriptions", id]) => {
            accounts::check(caller, ::access::Action::Subscriptions, request.path)?;
            change(Asked::Unsubscribe((*id).to_owned()), Then::Nothing)
        }
        ("DELETE", ["TaskService", "Tasks" | "TaskMonitors", number]) => {
            let task = task::by_number(world, number).map_or(0, |task| task.task);
            change(Asked::Commands(vec![Command::TaskStop { task }]), Then::Nothing)
        }
        ("PATCH", ["Chassis", "host", "Drives", id]) => drives::set(world, id, request),
        (method, ["Systems", "host", "Storage", "softroc", rest @ ..]) => match (method, rest) {
            ("POST", ["Volumes"] | ["Volumes", "Members"]) => volumes::create(world, request),
            ("POST", ["Volumes", id, "Actions", action]) => volumes::act(world, id, action, request),
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

/// The answer to a change that was carried out, or refused. `world`: as it is then.
pub fn finished(world: &World, path: &str, change: &Change, done: Result<Done, Error>) -> Response {
    let done = match done {
        Ok(done) => done,
        Err(refusal) => {
            let (status, messages) = message::of_refusal(&refusal, path);
            // Who signs in with a wrong password is not asked to try another way.
            return Response::error(status, &messages);
        }
    };
    match (&change.then, done) {
        (Then::Session, Done::Session { session, token, account }) => {
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
        (Then::Made(uri), done) => made(world, uri.as_deref(), &done),
        (Then::Task, Done::Replies(replies)) => accepted(&replies),
        (Then::Show(uri), _) => shown(world, uri, &change.left_out),
        (Then::Nothing | Then::Task | Then::Session, _) => Response::nothing(204),
    }
}

fn shown(world: &World, uri: &str, left_out: &[(String, Message)]) -> Response {
    let Some(mut body) = tree::resource(world, uri) else { return Response::nothing(204) };
    for (property, message) in left_out {
        body[format!("{property}@Message.ExtendedInfo")] = json!([message.json()]);
    }
    if !left_out.is_empty() {
        body["@Message.ExtendedInfo"] = left_out.iter().map(|(_, message)| message.json()).collect();
    }
    Response::resource(200, body)
}

fn made(world: &World, uri: Option<&str>, done: &Done) -> Response {
    let of_volume = |reply: &Reply| match reply {
        Reply::Volume { volume, .. } => Some(ids::volume_uri(volume)),
        _ => None,
    };
    let new = match done {
        Done::Replies(replies) => replies.iter().find_map(of_volume),
        Done::Subscription(one) => Some(event::subscription_uri(&one.id)),
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

/// A task was begun: its client asks again.
fn accepted(replies: &[Reply]) -> Response {
    let of = |reply: &Reply| match reply {
        Reply::Task { task, .. } => Some((task::task(task), task::monitor_uri(task.task))),
        _ => None,
    };
    match replies.iter().find_map(of) {
        Some((body, monitor)) => Response::json(202, body).with("Location", monitor).with("Retry-After", "1"),
        None => Response::nothing(204),
    }
}

/// A value, as messages repeat it.
fn told(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
