//! Who is at the other end of a connection to the control socket, as the kernel tells.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use controller::{Caller, Origin};
use tokio::net::UnixListener;
use tokio::net::unix::UCred;

/// The process at the other end of a connection; `None` where the kernel does not tell.
#[derive(Clone, Copy)]
pub(crate) struct Peer(Option<UCred>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        Peer(stream.io().peer_cred().ok())
    }
}

impl Peer {
    /// It, for what it asks.
    pub(crate) fn caller(self) -> Option<Caller> {
        let credentials = self.0?;
        let (uid, pid) = (credentials.uid(), credentials.pid().and_then(|pid| pid.try_into().ok()));
        Some(Caller { user: user_name(uid), origin: Origin::Local { uid, pid } })
    }
}

/// The name of a user of this machine; its number where `/etc/passwd` has none.
fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_in(&users, uid).unwrap_or_else(|| uid.to_string())
}

/// The name of a user in the text of a list of users.
fn name_in(users: &str, uid: u32) -> Option<String> {
    let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<String>>();
    let mut users = users.lines().map(fields);
    let uid = uid.to_string();
    users.find(|user| user.get(2) == Some(&uid)).and_then(|user| user.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::name_in;

    #[test]
    fn a_user_is_named_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_in(users, 0).as_deref(), Some("root"));
        assert_eq!(name_in(users, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(users, 100), None);
    }
}
