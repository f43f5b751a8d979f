//! Sessions, accounts, roles.

use crate::World;
use crate::ids::ROOT;
use crate::json::{collection, link, resource};
use ::access::{AccountInfo, Role, SessionInfo};
use serde_json::{Value, json};
use units::utc;

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const ACCOUNTS: &str = "/redfish/v1/AccountService/Accounts";
const ROLES: &str = "/redfish/v1/AccountService/Roles";

/// The address of an account.
pub(crate) fn account_uri(name: &str) -> String {
    format!("{ACCOUNTS}/{name}")
}

/// The address of a session.
pub(crate) fn session_uri(id: &str) -> String {
    format!("{SESSIONS}/{id}")
}

/// Addresses below `SessionService`.
pub(crate) fn sessions(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => {
            let uri = format!("{ROOT}/SessionService");
            Some(resource(
                "SessionService",
                &uri,
                "SessionService",
                "Sessions",
                json!({
                    "ServiceEnabled": true,
                    "SessionTimeout": world.session_idle_s,
                    "Status": { "State": "Enabled", "Health": "OK" },
                    "Sessions": link(SESSIONS),
                }),
            ))
        }
        ["Sessions"] | ["Sessions", "Members"] => {
            let all = world.sessions.iter().map(|session| session_uri(&session.id));
            Some(collection("SessionCollection", SESSIONS, "Sessions", all))
        }
        ["Sessions", id] => world.sessions.iter().find(|session| session.id == *id).map(session),
        _ => None,
    }
}

pub(crate) fn session(session: &SessionInfo) -> Value {
    let from = session.from.rsplit_once(':').map_or(session.from.as_str(), |(address, _)| address);
    let address = from.trim_start_matches('[').trim_end_matches(']');
    resource(
        "Session",
        &session_uri(&session.id),
        &session.id,
        &format!("Session {}", session.id),
        json!({
            "UserName": session.account,
            "CreatedTime": utc(session.opened_unix_s),
            "ClientOriginIPAddress": address,
        }),
    )
}

/// Addresses below `AccountService`.
pub(crate) fn accounts(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(service(world)),
        ["Accounts"] | ["Accounts", "Members"] => {
            let all = world.accounts.iter().map(|account| account_uri(&account.name));
            Some(collection("ManagerAccountCollection", ACCOUNTS, "Accounts", all))
        }
        ["Accounts", name] => {
            world.accounts.iter().find(|account| account.name == *name).map(account)
        }
        ["Roles"] => {
            let all = Role::ALL.map(|role| format!("{ROLES}/{}", role.in_redfish()));
            Some(collection("RoleCollection", ROLES, "Roles", all))
        }
        ["Roles", name] => Role::ALL.into_iter().find(|role| role.in_redfish() == *name).map(role),
        _ => None,
    }
}

fn service(world: &World) -> Value {
    let (shortest, longest) = ::access::Password::LENGTHS;
    let uri = format!("{ROOT}/AccountService");
    resource(
        "AccountService",
        &uri,
        "AccountService",
        "Accounts",
        json!({
            "ServiceEnabled": true,
            "Status": { "State": "Enabled", "Health": "OK" },
            "LocalAccountAuth": "Enabled",
            "SupportedAccountTypes": ["Redfish"],
            "MinPasswordLength": shortest,
            "MaxPasswordLength": longest,
            "AccountLockoutThreshold": world.limits.failures,
            "AccountLockoutDuration": world.limits.lock_s,
            "AccountLockoutCounterResetEnabled": false,
            "HTTPBasicAuth": "Enabled",
            "Accounts": link(ACCOUNTS),
            "Roles": link(ROLES),
        }),
    )
}

pub(crate) fn account(account: &AccountInfo) -> Value {
    let mut body = resource(
        "ManagerAccount",
        &account_uri(&account.name),
        &account.name,
        &format!("Account {}", account.name),
        json!({
            "UserName": account.name,
            "RoleId": account.role.in_redfish(),
            "Enabled": account.enabled,
            "Locked": account.locked_s.is_some(),
            "PasswordChangeRequired": account.must_change,
            "AccountTypes": ["Redfish"],
            "Links": { "Role": link(format!("{ROLES}/{}", account.role.in_redfish())) },
        }),
    );
    body["Password"] = Value::Null;
    body
}

fn role(role: Role) -> Value {
    let privileges: &[&str] = match role {
        Role::Administrator => {
            &["Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"]
        }
        Role::Operator => &["Login", "ConfigureSelf", "ConfigureComponents"],
        Role::ReadOnly => &["Login", "ConfigureSelf"],
    };
    let name = role.in_redfish();
    resource(
        "Role",
        &format!("{ROLES}/{name}"),
        name,
        name,
        json!({
            "RoleId": name,
            "IsPredefined": true,
            "AssignedPrivileges": privileges,
            "OemPrivileges": [],
        }),
    )
}
