//! Authentication: identifies the caller of each request.
//!
//! On the control socket, the kernel reports the user. At the network port, a token or a name and
//! password does.

use crate::desk::{AppState, refused};
use crate::network::Link;
use access::{Caller, Password, Role, Source};
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::IncomingStream;
use base64::Engine;
use controller::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::net::unix::UCred;

/// The header with the session token.
pub(crate) const TOKEN: &str = "x-auth-token";

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A process of this machine; `None` if the kernel does not report its user.
    User(Option<UCred>),
    /// A client on the network.
    Network(Client),
}

/// A client on the network.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) link: Arc<Link>,
}

/// The source of a password.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The source for rate limits.
    pub(crate) source: Source,
    /// The source in events.
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn origin(&self) -> Origin {
        Origin { source: Source::of(self.address.ip()), text: self.address.to_string() }
    }
}

impl Peer {
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Peer::Network(client) => client.origin(),
            Peer::User(_) => Origin { source: Source::Local, text: Source::Local.to_string() },
        }
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        Peer::User(stream.io().peer_cred().ok())
    }
}

/// The roles of local users, given by the control socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Users {
    /// The user of the controller.
    pub(crate) own: u32,
    /// The socket's group, if it was set.
    pub(crate) group: Option<u32>,
    /// The role of its members.
    pub(crate) role: Role,
    /// Whether all users may open the socket, not only its group.
    pub(crate) open_to_all: bool,
}

impl Users {
    fn role(&self, user: u32, group: u32) -> Role {
        match user {
            _ if user == 0 || user == self.own => Role::Administrator,
            // The kernel admits only members of the group: the socket's permissions require it.
            _ if !self.open_to_all || Some(group) == self.group => self.role,
            _ => Role::ReadOnly,
        }
    }
}

/// Admits authenticated requests, and attaches the caller.
pub(crate) async fn gate(
    State(desk): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = peer(&request);
    match identify(&desk, peer.as_ref(), request.headers()).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => {
            let sentence = "an account is required; send a token (X-Auth-Token), or a name and a \
                password (Basic)";
            unauthenticated(Error::new(ErrorKind::Unauthenticated, sentence))
        }
        Err(error) => unauthenticated(error),
    }
}

fn unauthenticated(error: Error) -> Response {
    let asks = error.kind == ErrorKind::Unauthenticated;
    let mut response = refused(error);
    if asks {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge());
    }
    response
}

/// The supported authentication.
pub(crate) fn challenge() -> HeaderValue {
    HeaderValue::from_static("Basic realm=\"SoftROC\", charset=\"UTF-8\"")
}

/// The caller; `None` without credentials.
///
/// # Errors
/// `Unauthenticated` for invalid credentials.
pub(crate) async fn identify(
    desk: &AppState,
    peer: Option<&Peer>,
    headers: &HeaderMap,
) -> Result<Option<Caller>> {
    match peer {
        Some(Peer::User(Some(peer))) => Ok(Some(user(desk, peer))),
        Some(Peer::User(None)) => {
            let sentence = "the kernel does not report the user of this connection";
            Err(Error::new(ErrorKind::Unauthenticated, sentence))
        }
        Some(Peer::Network(client)) => {
            let caller = of_headers(desk, headers, &client.origin()).await?;
            if caller.is_some() {
                client.link.sign_in();
            }
            Ok(caller)
        }
        None => Ok(None),
    }
}

/// The other end of a request's connection.
pub(crate) fn peer(request: &Request) -> Option<Peer> {
    request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.clone())
}

fn user(desk: &AppState, peer: &UCred) -> Caller {
    let (uid, pid) = (peer.uid(), peer.pid().and_then(|pid| pid.try_into().ok()));
    Caller {
        user: user_name(uid),
        origin: controller::Origin::Local { uid, pid },
        role: desk.users.role(uid, peer.gid()),
        account: None,
        session: None,
        must_change: false,
    }
}

/// The name of a local user, or its number if `/etc/passwd` has none.
pub(crate) fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_in(&users, uid).unwrap_or_else(|| uid.to_string())
}

/// The name of a user in the text of a user list.
fn name_in(users: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1) == Some(&uid)).then(|| name.to_owned())
    })
}

async fn of_headers(desk: &AppState, headers: &HeaderMap, from: &Origin) -> Result<Option<Caller>> {
    check_site(headers)?;
    if let Some(token) = headers.get(TOKEN) {
        let token = token.to_str().unwrap_or_default();
        return desk.keeper.of_token(token, &from.text).map(Some);
    }
    let Some(credentials) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let unreadable = || {
        let sentence = "invalid Authorization header; expected 'Basic' and BASE64(NAME:PASSWORD)";
        Error::new(ErrorKind::Unauthenticated, sentence)
    };
    let (name, password) = basic(credentials).ok_or_else(unreadable)?;
    desk.keeper.of_password(&name, &password, from).await.map(Some)
}

/// Checks that the request does not come from a page of another site.
///
/// # Errors
/// `Unauthenticated` if it does.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<()> {
    if is_of_another_site(headers) {
        let sentence =
            "request from a page of another site; only pages of this server are accepted";
        return Err(Error::new(ErrorKind::Unauthenticated, sentence));
    }
    Ok(())
}

/// Whether a browser reports another site as origin: it may have stored a password for this server.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text =
        |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else { return false };
    origin.strip_prefix("https://") != text(header::HOST)
}

/// The name and password of an `Authorization: Basic` header.
fn basic(credentials: &HeaderValue) -> Option<(String, Password)> {
    let (scheme, rest) = credentials.to_str().ok()?.split_once(' ')?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let text = String::from_utf8(bytes).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    text.split_once(':').map(|(name, password)| (name.to_owned(), Password::new(password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_in(users, 0).as_deref(), Some("root"));
        assert_eq!(name_in(users, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(users, 100), None);
    }

    #[test]
    fn users_of_this_machine_are_what_the_socket_says() {
        let users = |open_to_all, group| Users { own: 7, group, role: Role::Operator, open_to_all };
        for all in [true, false] {
            assert_eq!(users(all, None).role(0, 5), Role::Administrator);
            assert_eq!(users(all, None).role(7, 5), Role::Administrator);
        }
        assert_eq!(
            users(false, None).role(8, 5),
            Role::Operator,
            "the kernel let them in by the group"
        );
        assert_eq!(users(true, Some(5)).role(8, 5), Role::Operator);
        assert_eq!(users(true, Some(6)).role(8, 5), Role::ReadOnly);
        assert_eq!(users(true, None).role(8, 5), Role::ReadOnly);
    }

    #[test]
    fn a_page_of_another_site_is_known_by_its_origin() {
        let of = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("host:8443"));
            headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
            is_of_another_site(&headers)
        };
        assert!(!of(None) && !of(Some("https://host:8443")));
        assert!(of(Some("https://host")) && of(Some("null")) && of(Some("http://host:8443")));
    }

    #[test]
    fn a_name_and_a_password_are_read_as_browsers_send_them() {
        let read = |text: &str| {
            basic(&HeaderValue::from_str(text).unwrap())
                .map(|(name, password)| (name, password.reveal().to_owned()))
        };
        let expected = Some(("ada".to_owned(), "a:b".to_owned()));
        assert_eq!(read("Basic YWRhOmE6Yg=="), expected);
        assert_eq!(read("basic  YWRhOmE6Yg=="), expected);
        for wrong in ["Basic", "Basic YWRh", "Bearer YWRhOmE6Yg==", "Basic ????", "Basic /w==", ""]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
