//! Sessions and accounts.

use super::body::Properties;
use super::{Change, Operation, Read, ResponseKind, change};
use crate::access::account_uri;
use crate::answer::{Answer, Request, Response};
use crate::message::{self, Message};
use access::{AccountChange, Action, Caller, Password, Role};

/// Read-only properties of accounts.
const READABLE: &[&str] =
    &["Id", "Name", "Locked", "AccountTypes", "Links", "Description", "Actions", "Certificates"];

/// Whether the caller has the permission.
pub(super) fn check(caller: &Caller, action: Action, path: &str) -> Result<(), Box<Response>> {
    caller.may(action).map_err(|refusal| {
        let (status, messages) = message::of_refusal(&refusal, path);
        Box::new(Response::error(status, &messages))
    })
}

fn role(text: &str) -> Option<Role> {
    Role::ALL.into_iter().find(|role| role.in_redfish() == text)
}

/// Opens a session.
pub(super) fn sign_in(request: &Request<'_>) -> Read {
    let mut sent = Properties::read(request)?;
    let (name, password) = (sent.text("UserName"), sent.text("Password"));
    sent.rest(&[]);
    let (Some(name), Some(password)) = (name.clone(), password.clone()) else {
        for (name, value) in [("UserName", name), ("Password", password)] {
            if value.is_none() {
                sent.missing(name);
            }
        }
        sent.all_good()?;
        return Err(Box::new(Response::error(
            400,
            &[Message::base("UnrecognizedRequestBody", &[])],
        )));
    };
    sent.all_good()?;
    change(
        Operation::OpenSession { name, password: Password::new(password) },
        ResponseKind::Session,
    )
}

/// Adds an account.
pub(super) fn add(caller: &Caller, request: &Request<'_>) -> Read {
    check(caller, Action::Accounts, request.path)?;
    let mut sent = Properties::read(request)?;
    let (name, password) = (sent.text("UserName"), sent.text("Password").map(Password::new));
    let role = sent.word("RoleId", role);
    let enabled = sent.flag("Enabled").unwrap_or(true);
    let must_change = sent.flag("PasswordChangeRequired").unwrap_or(false);
    if sent.flag("Locked") == Some(true) {
        sent.refuse("Locked", Message::base("PropertyValueError", &["Locked"]));
    }
    // Only one account type is supported.
    if let Some(types) = sent.take("AccountTypes")
        && types != serde_json::json!(["Redfish"])
    {
        sent.refuse("AccountTypes", Message::base("PropertyValueError", &["AccountTypes"]));
    }
    sent.rest(READABLE);
    for (property, is_missing) in
        [("UserName", name.is_none()), ("Password", password.is_none()), ("RoleId", role.is_none())]
    {
        if is_missing {
            sent.missing(property);
        }
    }
    sent.all_good()?;
    let (Some(name), Some(password), Some(role)) = (name, password, role) else {
        return Err(Box::new(Response::error(
            400,
            &[Message::base("UnrecognizedRequestBody", &[])],
        )));
    };
    let uri = account_uri(&name);
    change(
        Operation::AddAccount { name, role, password, must_change, enabled },
        ResponseKind::Made(Some(uri)),
    )
}

/// Changes an account.
pub(super) fn set(caller: &Caller, name: &str, request: &Request<'_>) -> Read {
    let is_own = caller.account.as_deref() == Some(name);
    // The permission is checked first, so that callers without it learn nothing about other
    // accounts.
    check(caller, if is_own { Action::OwnPassword } else { Action::Accounts }, request.path)?;
    let mut sent = Properties::read(request)?;
    let password = sent.text("Password").map(Password::new);
    let mut change = AccountChange {
        name: sent.text("UserName"),
        role: sent.word("RoleId", role),
        enabled: sent.flag("Enabled"),
        must_change: sent.flag("PasswordChangeRequired"),
        ..AccountChange::default()
    };
    match sent.flag("Locked") {
        Some(false) => change.unlock = true,
        Some(true) => sent.refuse("Locked", Message::base("PropertyValueError", &["Locked"])),
        None => {}
    }
    sent.rest(READABLE);
    sent.some_good()?;
    let is_more = change.name.is_some()
        || change.role.is_some()
        || change.enabled.is_some()
        || change.must_change.is_some()
        || change.unlock;
    if is_more {
        check(caller, Action::Accounts, request.path)?;
    }
    let uri = account_uri(change.name.as_deref().unwrap_or(name));
    let asked = Operation::SetAccount { name: name.to_owned(), change, password };
    Ok(Answer::Change(Box::new(Change {
        asked,
        then: ResponseKind::Show(uri),
        left_out: sent.wrong,
    })))
}
