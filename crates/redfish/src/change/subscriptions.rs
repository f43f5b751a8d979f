//! Event subscriptions.

use super::accounts::check;
use super::body::Properties;
use super::{Change, Operation, Read, ResponseKind, change, told};
use crate::answer::{Answer, Request, Response};
use crate::event::subscription_uri;
use crate::message::Message;
use access::{Action, Caller};
use serde_json::{Value, json};

/// Read-only properties of subscriptions.
const READABLE: &[&str] = &[
    "Id",
    "Name",
    "Destination",
    "Protocol",
    "SubscriptionType",
    "EventFormatType",
    "Status",
    "Actions",
];

/// A property with the same value for all subscriptions.
fn always(sent: &mut Properties, name: &str, is: impl Fn(&Value) -> bool) {
    if let Some(given) = sent.take(name)
        && !is(&given)
    {
        sent.refuse(name, Message::base("PropertyValueNotInList", &[&told(&given), name]));
    }
}

/// Whether an address is a valid destination.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next());
    let is_plain = text.len() <= 1000 && text.chars().all(|c| c.is_ascii_graphic());
    // Credentials in an address would be visible to all viewers.
    is_plain && host.is_some_and(|host| !host.is_empty() && !host.contains(['@', '?', '#']))
}

/// Adds a subscription.
pub(super) fn add(caller: &Caller, request: &Request<'_>) -> Read {
    check(caller, Action::Subscriptions, request.path)?;
    let mut sent = Properties::read(request)?;
    let destination = sent.text("Destination");
    if destination.as_ref().is_some_and(|text| !is_address(text)) {
        let text = destination.clone().unwrap_or_default();
        sent.refuse(
            "Destination",
            Message::base("PropertyValueFormatError", &[&text, "Destination"]),
        );
    }
    let context = sent.text("Context").unwrap_or_default();
    let has_protocol = sent.word("Protocol", |text| (text == "Redfish").then_some(())).is_some();
    always(&mut sent, "SubscriptionType", |value| value == "RedfishEvent");
    always(&mut sent, "EventFormatType", |value| value == "Event");
    let verify_certificate = sent.flag("VerifyCertificate").unwrap_or(false);
    // All events have this type and this registry.
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
        Some(destination) => change(
            Operation::Subscribe { destination, context, verify_certificate },
            ResponseKind::Made(None),
        ),
        None => {
            Err(Box::new(Response::error(400, &[Message::base("UnrecognizedRequestBody", &[])])))
        }
    }
}

/// Changes a subscription.
pub(super) fn set(caller: &Caller, id: &str, request: &Request<'_>) -> Read {
    check(caller, Action::Subscriptions, request.path)?;
    let mut sent = Properties::read(request)?;
    let context = sent.text("Context");
    let verify_certificate = sent.flag("VerifyCertificate");
    sent.rest(READABLE);
    sent.some_good()?;
    let asked = match (&context, verify_certificate) {
        (None, None) => Operation::Commands(Vec::new()),
        _ => Operation::SetSubscription { id: id.to_owned(), context, verify_certificate },
    };
    let then = ResponseKind::Show(subscription_uri(id));
    Ok(Answer::Change(Box::new(Change { asked, then, left_out: sent.wrong })))
}
