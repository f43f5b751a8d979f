//! `/v1/accounts` and `/v1/sessions`.

use crate::desk::{AppState, refuse, refused};
use crate::gate::Peer;
use crate::keeper;
use crate::routes::{CallerExtension, LONGEST_OF_A_STRANGER};
use access::{AccountChange, AccountInfo, Action, Caller, Password, Role};
use axum::extract::connect_info::ConnectInfo;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Extension, Json, Router};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Replies about accounts. In JSON, an object with its kind under `reply`, like those of the
/// controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AccessReply {
    /// Accounts, by name.
    Accounts {
        /// The accounts.
        accounts: Vec<AccountInfo>,
    },
    /// An account.
    Account {
        /// The account.
        account: AccountInfo,
        /// The generated password, if any: it is returned once and must be changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
    },
    /// A session.
    Session {
        /// The account.
        account: AccountInfo,
        /// The session token.
        token: String,
    },
    /// The operation is complete.
    Done {
        /// Notes, one sentence each.
        notes: Vec<String>,
    },
}

/// A new account.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    name: String,
    role: Role,
    /// Without a password, one is generated, returned once, and must be changed.
    password: Option<Password>,
    #[serde(default)]
    must_change: bool,
}

/// A change of an account.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Set {
    name: Option<String>,
    role: Option<Role>,
    enabled: Option<bool>,
    password: Option<Password>,
    /// Generate a password, return it once, and require a change.
    #[serde(default)]
    new_password: bool,
    must_change: Option<bool>,
    #[serde(default)]
    unlock: bool,
}

/// How unreadable accounts are repaired.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repair {
    /// With one new administrator instead of the previous version.
    #[serde(default)]
    anew: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    account: String,
    password: Password,
}

type Body<T> = std::result::Result<Json<T>, JsonRejection>;

/// Routes that need authentication.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/accounts", get(list).post(add))
        .route("/v1/accounts/{name}", patch(set).delete(remove))
        .route("/v1/accounts-repair", post(repair))
        .route("/v1/session", axum::routing::delete(sign_out))
}

/// Routes before authentication: sign-in.
pub(crate) fn sign_in() -> Router<AppState> {
    Router::new()
        .route("/v1/session", post(open).layer(DefaultBodyLimit::max(LONGEST_OF_A_STRANGER)))
}

fn answered(answer: Result<AccessReply>) -> Response {
    match answer {
        Ok(reply) => Json(reply).into_response(),
        Err(error) => refused(error),
    }
}

fn read<T>(body: Body<T>) -> Result<T> {
    body.map(|Json(body)| body).map_err(|rejection| {
        // The message must not contain the body, which may have a password.
        let what = rejection.body_text();
        let what = what.split(": ").nth(1).unwrap_or("invalid JSON");
        let what = if what.contains("password") { "a field has the wrong type" } else { what };
        Error::new(
            ErrorKind::Invalid,
            format!("invalid request: {what}; docs/formats/http-api.md lists the fields"),
        )
    })
}

async fn list(State(desk): State<AppState>, Extension(caller): CallerExtension) -> Response {
    let known = caller.may(Action::Accounts).and_then(|()| desk.keeper.check());
    answered(known.map(|()| AccessReply::Accounts { accounts: desk.keeper.list() }))
}

async fn add(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    body: Body<Add>,
) -> Response {
    answered(added(&desk, &caller, body).await)
}

async fn added(desk: &AppState, caller: &Caller, body: Body<Add>) -> Result<AccessReply> {
    desk.may(caller, Action::Accounts, "accounts")?;
    let Add { name, role, password, must_change } = read(body)?;
    let made = password.is_none();
    let password = password.map_or_else(made_password, Ok)?;
    let account =
        desk.keeper.add(&caller.named(), &name, role, &password, must_change || made).await?;
    Ok(AccessReply::Account { account, password: made.then(|| password.reveal().to_owned()) })
}

/// A random password.
pub(crate) fn made_password() -> Result<Password> {
    let bytes =
        keeper::random::<20>().map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?;
    Ok(Password::from_random(&bytes))
}

async fn set(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    Path(name): Path<String>,
    body: Body<Set>,
) -> Response {
    answered(changed(&desk, &caller, &name, body).await)
}

async fn changed(
    desk: &AppState,
    caller: &Caller,
    name: &str,
    body: Body<Set>,
) -> Result<AccessReply> {
    let Set { name: new_name, role, enabled, password, new_password, must_change, unlock } =
        read(body)?;
    let is_own = caller.account.as_deref() == Some(name);
    let is_more =
        new_name.is_some() || role.is_some() || enabled.is_some() || must_change.is_some();
    let of_own = is_own && password.is_some() && !is_more && !new_password && !unlock;
    desk.may(caller, if of_own { Action::OwnPassword } else { Action::Accounts }, name)?;
    if password.is_some() && new_password {
        return Err(Error::new(
            ErrorKind::Invalid,
            "give either a password or 'new_password', not both",
        ));
    }
    let password = if new_password { Some(made_password()?) } else { password };
    let must_change = if new_password { Some(true) } else { must_change };
    let change =
        AccountChange { name: new_name, role, enabled, password: None, must_change, unlock };
    let account = desk.keeper.set(caller, name, change, password.as_ref()).await?;
    let told = password.filter(|_| new_password).map(|password| password.reveal().to_owned());
    Ok(AccessReply::Account { account, password: told })
}

async fn repair(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    body: Body<Repair>,
) -> Response {
    answered(repaired(&desk, &caller, body).await)
}

async fn repaired(desk: &AppState, caller: &Caller, body: Body<Repair>) -> Result<AccessReply> {
    let Repair { anew } = read(body)?;
    let keeper = &desk.keeper;
    let repair = async { keeper.repair(&caller.named(), anew) };
    Ok(
        match desk.order((caller, Action::Accounts), ("account-repair", "accounts"), repair).await?
        {
            Some((name, password)) => {
                let password = Some(password.reveal().to_owned());
                AccessReply::Account { account: keeper.show(name)?, password }
            }
            None => AccessReply::Accounts { accounts: keeper.list() },
        },
    )
}

async fn remove(
    State(desk): State<AppState>,
    Extension(caller): CallerExtension,
    Path(name): Path<String>,
) -> Response {
    let removed = match desk.may(&caller, Action::Accounts, &name) {
        Ok(()) => desk.keeper.remove(&caller.named(), &name).await,
        Err(denied) => Err(denied),
    };
    answered(
        removed.map(|()| AccessReply::Done {
            notes: vec![format!("the account '{name}' is removed")],
        }),
    )
}

async fn open(
    State(desk): State<AppState>,
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<Peer>>,
    body: Body<SignIn>,
) -> Response {
    let SignIn { account, password } = match read(body) {
        Ok(body) => body,
        Err(error) => return refused(error),
    };
    let opened = desk.keeper.open_session(&account, &password, &peer.origin()).await;
    answered(opened.map(|(_, token, account)| AccessReply::Session { account, token }))
}

async fn sign_out(State(desk): State<AppState>, Extension(caller): CallerExtension) -> Response {
    if let Err(error) = caller.may(Action::OwnSession) {
        return refused(error);
    }
    match &caller.session {
        Some(session) if desk.keeper.close(session) => {
            answered(Ok(AccessReply::Done { notes: vec!["the session has ended".to_owned()] }))
        }
        _ => refuse(ErrorKind::WrongState, "there is no session to end; give its token"),
    }
}
