//! Signing in, and another password.

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
    /// Whether whoever comes was signed in before.
    has_ended: bool,
    asks_name: bool,
    hint: String,
    cli: String,
}

/// The page on which one signs in. `has_ended`: whoever comes was signed in, and is not any more.
pub fn sign_in(host: &str, token: &str, back: &str, refusal: Option<&str>, has_ended: bool) -> String {
    words::rendered(&Entrance {
        title: "Sign in",
        host,
        action: "/console/sign-in",
        token,
        back,
        refusal,
        has_ended: has_ended && refusal.is_none(),
        asks_name: true,
        hint: "Accounts are made by an administrator. The first one, admin, has a password that 'softroc serve' printed at its first start."
            .to_owned(),
        cli: "softroc account login NAME".to_owned(),
    })
}

/// The page on which somebody gives themselves another password.
pub fn password(host: &str, token: &str, account: &str, refusal: Option<&str>) -> String {
    words::rendered(&Entrance {
        title: "Another password",
        host,
        action: "/console/password",
        token,
        back: "/console/",
        refusal,
        has_ended: false,
        asks_name: false,
        hint: format!("Of the account {account}: 8 to 128 characters, and another one than it is."),
        cli: format!("softroc account set {} --password-stdin", words::shell_word(account)),
    })
}
