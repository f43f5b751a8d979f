//! Subscriptions: who gets events sent.

use super::accounts::check;
use super::body::Sent;
use super::{Asked, Change, Read, Then, change, told};
use crate::answer::{Answer, Request, Response};
use crate::event::subscription_uri;
use crate::message::Message;
use access::{Action, Caller};
use serde_json::{Value, json};

/// What is told of subscriptions, and not changed that way.
const READABLE: &[&str] =
    &["Id", "Name", "Destination", "Protocol", "SubscriptionType", "EventFormatType", "Status", "Actions"];

/// A property that can only be what all subscriptions have.
fn always(sent: &mut Sent, name: &str, is: impl Fn(&Value) -> bool) {
    if let Some(given) = sent.take(name)
        && !is(&given)
    {
        sent.refuse(name, Message::base("PropertyValueNotInList", &[&told(&given), name]));
    }
}

/// Whether events can be sent there.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next());
    let is_plain = text.len() <= 1000 && text.chars().all(|c| c.is_ascii_graphic());
    // A name and a password would be told to whoever looks.
    is_plain && host.is_some_and(|host| !host.is_empty() && !host.contains(['@', '?', '#']))
}

/// Events are to be sent.
pub(super) fn add(caller: &Caller, request: &Request<'_>) -> Read {
    check(caller, Action::Subscriptions, request.path)?;
    let mut sent = Sent::read(request)?;
    let destination = sent.text("Destination");
    if destination.as_ref().is_some_and(|text| !is_address(text)) {
        let text = destination.clone().unwrap_or_default();
        sent.refuse("Destination", Message::base("PropertyValueFormatError", &[&text, "Destination"]));
    }
    let context = sent.text("Context").unwrap_or_default();
    let has_protocol = sent.word("Protocol", |text| (text == "Redfish").then_some(())).is_some();
    always(&mut sent, "SubscriptionType", |value| value == "RedfishEvent");
    always(&mut sent, "EventFormatType", |value| value == "Event");
    let verify_certificate = sent.flag("VerifyCertificate").unwrap_or(false);
    // All events are of that type, and of that registry.
    let all = |value: &Value, word: &str| {
        value.as_array().is_some_and(|all| all.is_empty() || all.iter().any(|one| one == word))
    };
    always(&mut sent, "EventTypes", |value| all(value, "Alert"));
    always(&mut sent, "RegistryPrefixes", |value| all(value, "SoftROC"));
    always(&mut sent, "ResourceTypes", |value| *value == json!([]));
    sent.rest(READABLE);
    if destination.is_none() {
        sent.missing("Destination");
    }
    if !has_protocol {
        sent.missing("Protocol");
    }
    sent.all_good()?;
    match destination {
        Some(destination) => {
            change(Asked::Subscribe { destination, context, verify_certificate }, Then::Made(None))
        }
        None => Err(Box::new(Response::error(400, &[Message::base("UnrecognizedRequestBody", &[])]))),
    }
}

/// A subscription is changed.
pub(super) fn set(caller: &Caller, id: &str, request: &Request<'_>) -> Read {
    check(caller, Action::Subscriptions, request.path)?;
    let mut sent = Sent::read(request)?;
    let context = sent.text("Context");
    let verify_certificate = sent.flag("VerifyCertificate");
    sent.rest(READABLE);
    sent.some_good()?;
    let asked = match (&context, verify_certificate) {
        (None, None) => Asked::Commands(Vec::new()),
        _ => Asked::SetSubscription { id: id.to_owned(), context, verify_certificate },
    };
    let then = Then::Show(subscription_uri(id));
    Ok(Answer::Change(Box::new(Change { asked, then, left_out: sent.wrong })))
}
