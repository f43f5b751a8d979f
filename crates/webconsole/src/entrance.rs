//! Sign-in, and change of the password.

use crate::words;
use askama::Template;

#[derive(Template)]
#[template(path = "entrance.html")]
struct Entrance<'e> {
    title: &'e str,
    host: &'e str,
    action: &'e str,
    token: &'e str,
    back: &'e str,
    refusal: Option<&'e str>,
    /// Whether the previous session has ended.
    has_ended: bool,
    asks_name: bool,
    hint: String,
    cli: String,
}

/// The sign-in page. `has_ended`: the previous session has ended.
pub fn sign_in(
    host: &str,
    token: &str,
    back: &str,
    refusal: Option<&str>,
    has_ended: bool,
) -> String {
    words::rendered(&Entrance {
        title: "Sign in",
        host,
        action: "/console/sign-in",
        token,
        back,
        refusal,
        has_ended: has_ended && refusal.is_none(),
        asks_name: true,
        hint: "An administrator creates accounts. The password of the first account, admin, is in \
            the file first-password of the state folder until it is changed."
            .to_owned(),
        cli: "softroc account login NAME".to_owned(),
    })
}

/// The page for changing the password of the current account.
pub fn password(host: &str, token: &str, account: &str, refusal: Option<&str>) -> String {
    words::rendered(&Entrance {
        title: "New password",
        host,
        action: "/console/password",
        token,
        back: "/console/",
        refusal,
        has_ended: false,
        asks_name: false,
        hint: format!(
            "Account {account}. 8 to 128 characters, different from the current password."
        ),
        cli: format!("softroc account set {} --password-stdin", words::shell_word(account)),
    })
}
